"""Commands from files and from the command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from pgdb.errors import UsageError
from pgdb.frontend.api.breakpoint_file import for_ranks


class Script:
    """Lines from ``-x`` files and ``-ex`` commands, in the order in which they were given."""

    def __init__(self, parts: Sequence[tuple[str, str]]) -> None:
        lines: list[str] = []
        for kind, value in parts:
            if kind == "ex":
                lines += value.split("\n")
                continue
            if value.endswith((".py", ".scm")):
                # As in GDB, the name says what the file has.
                lines.append(f"source {shlex.quote(value)}")
                continue
            try:
                text = Path(value).read_text("utf-8").replace("\r\n", "\n")
                lines += for_ranks(text.removesuffix("\n").split("\n"))
            except (OSError, UnicodeDecodeError) as error:
                reason = getattr(error, "strerror", None) or "it is no text file"
                raise UsageError(f"-x {value}: {reason}") from None
        self.has_commands = bool(parts)
        """Whether the command line has commands."""
        self._lines: Iterator[str] = iter(lines)

    async def read(self, prompt: str) -> str | None:
        """Return the next line, None after the last."""
        del prompt
        return next(self._lines, None)
