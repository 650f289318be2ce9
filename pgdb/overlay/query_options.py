"""The options of the commands that only GDB's machine interface has."""

from __future__ import annotations

from typing import Literal

from pgdb.record_base import Struct

PrintValues = Literal["", "names", "all", "simple"]
"""The values in a list of variables: none, all, those of simple types; empty for GDB's default."""


class QueryOptions(Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The options of a query; a command ignores none, and GDB refuses those that it lacks."""

    values: PrintValues = ""
    """The values that ``var list children``, ``var update``, ``list locals`` and ``list stack
    arguments`` show."""
    format: str = ""
    """The format in which ``var evaluate expression`` shows the value."""
    children_only: bool = False
    """Whether ``var delete`` keeps the variable object itself."""
    resets: bool = False
    """Whether ``path`` begins with the directories that GDB started with."""
    start: str = ""
    """The address where ``disassemble`` begins."""
    end: str = ""
    """The address where ``disassemble`` ends."""
    file: str = ""
    """The source file whose instructions ``disassemble`` shows."""
    line: int | None = None
    """The line number in the file, from 1 on."""
    lines: int | None = None
    """The number of lines of output; -1 for the whole function."""
    mode: int | None = None
    """The mode of ``disassemble``: 0 for instructions alone; GDB's manual has the others."""

    @property
    def words(self) -> tuple[str, ...]:
        """The options as the commands of PGDB take them."""
        flags = (
            (str(("names", "all", "simple").index(self.values)) if self.values else ""),
            "-c" if self.children_only else "",
            "-r" if self.resets else "",
        )
        valued = (
            ("-f", self.format or self.file),
            ("-s", self.start),
            ("-e", self.end),
            ("-l", self.line),
            ("-n", self.lines),
            ("--", self.mode),
        )
        given = [(name, str(value)) for name, value in valued if value not in ("", None)]
        return (*filter(None, flags), *(word for pair in given for word in pair))
