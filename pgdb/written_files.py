"""GDB commands that write files, and names of files that are different on every rank. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import msgspec

from pgdb.gdb_carriers import abbreviations, innermost_at
from pgdb.patterns import pattern

RANK, HOST, PROCESS = "{rank}", "{host}", "{pid}"
"""Placeholders in the name of a file."""
_ALIASES = {"%r": RANK, "%h": HOST, "%p": PROCESS, "%%": "%"}
_PLACEHOLDER = pattern(r"\{rank\}|\{host\}|\{pid\}|%[rhp%]")
_OF_ONE_RANK = pattern(r"\{rank\}|\{pid\}|%[rp]")

Kind = Literal["file", "directory", "append"]


class WrittenFile(msgspec.Struct, frozen=True):
    """The place in a command of the file that it writes."""

    begin: int
    end: int
    """The name is ``command[begin:end]``; it is empty where GDB chooses the name."""
    kind: Kind = "file"
    default: str = ""
    """The name without its suffix that GDB chooses, such as ``core``."""


_START = r"\s*"
_MAINTENANCE = rf"(?:mt|{abbreviations('maintenance', 2)})\s+{abbreviations('print', 1)}\s+"
# These take a file alone.
_TABLES = "|".join(
    abbreviations(word, least)
    for word, least in (
        ("registers", 9),
        ("register-groups", 9),
        ("reggroups", 4),
        ("raw-registers", 2),
        ("cooked-registers", 3),
        ("remote-registers", 3),
        ("architecture", 1),
        ("dummy-frames", 1),
    )
)
_SYMBOLS = r"(?:symbols|msymbols|psymbols)(?:\s+-(?:pc|source|objfile)\s+\S+)*(?:\s+--)?"
_FORMATS = "binary ihex srec tekhex verilog".split()
_FORMAT = "|".join(abbreviations(each, 1) for each in _FORMATS)
_PART = rf"(?:{abbreviations('memory', 1)}|{abbreviations('value', 1)})"
_MEMORY = rf"\s+(?:(?:{_FORMAT})\s+)?{_PART}\s+(?P<name>\S+)(?=\s+\S)"


class _Form(msgspec.Struct, frozen=True):
    """The commands of one form."""

    command: re.Pattern[str]
    kind: Kind = "file"
    default: str = ""


_FORMS = (
    _Form(
        pattern(
            rf"{_START}(?:gcore|{abbreviations('generate-core-file', 2)})"
            r"(?:\s+(?P<name>\S.*?))?\s*\Z"
        ),
        default="core",
    ),
    _Form(pattern(rf"{_START}{abbreviations('dump', 2)}{_MEMORY}")),
    _Form(pattern(rf"{_START}{abbreviations('append', 3)}{_MEMORY}"), "append"),
    _Form(
        pattern(
            rf"{_START}{abbreviations('record', 3)}\s+{abbreviations('save', 2)}"
            r"(?:\s+(?P<name>\S.*?))?\s*\Z"
        ),
        default="gdb_record",
    ),
    _Form(pattern(rf"{_START}{abbreviations('tsave', 3)}(?:\s+-r)?\s+(?P<name>[^-\s].*?)\s*\Z")),
    _Form(
        pattern(rf"{_START}{abbreviations('tsave', 3)}(?:\s+-r)?\s+-ctf\s+(?P<name>\S.*?)\s*\Z"),
        "directory",
    ),
    _Form(
        pattern(
            rf"{_START}(?:{abbreviations('save', 2)}\s+{abbreviations('tracepoints', 1)}"
            r"|save-t\w*)\s+(?P<name>\S.*?)\s*\Z"
        )
    ),
    _Form(
        pattern(
            rf"{_START}{abbreviations('save', 2)}\s+{abbreviations('gdb-index', 1)}(?:\s+-dwarf-5)?"
            r"\s+(?P<name>[^-\s].*?)\s*\Z"
        ),
        "directory",
    ),
    _Form(pattern(rf"{_START}{_MAINTENANCE}(?:{_TABLES})\s+(?P<name>\S.*?)\s*\Z")),
    _Form(pattern(rf"{_START}{_MAINTENANCE}{_SYMBOLS}\s+(?P<name>[^-\s].*?)\s*\Z")),
)


_RESTORE = pattern(rf"{_START}{abbreviations('restore', 4)}\s+(?P<name>\S+)")
"""The command that reads what ``dump`` has written."""


def read_by(command: str) -> tuple[int, int] | None:
    """Return the place of the file that ``restore`` reads, None for any other command.

    >>> read_by("restore u.bin.{rank} binary &u"), read_by("print u")
    ((8, 20), None)
    """
    match = _RESTORE.match(command, innermost_at(command))
    return None if match is None else match.span("name")


@lru_cache(maxsize=64)  # each rank of a host is asked for the same
def file_of(command: str) -> WrittenFile | None:
    """Return the place of the file that a GDB command writes, None for any other command.

    >>> found = file_of("dump binary value u.bin u")
    >>> found.begin, found.end
    (18, 23)
    """
    start = innermost_at(command)
    for form in _FORMS:
        if (match := form.command.match(command, start)) is not None:
            begin, end = match.span("name")
            if begin < 0:
                begin = end = len(command.rstrip())
            return WrittenFile(begin, end, form.kind, form.default)
    return None


def for_ranks(command: str, count: int) -> str:
    """Return a command with a name of its own for each of *count* ranks that write a file.

    >>> for_ranks("gcore app.core", 2), for_ranks("gcore app.core", 1)
    ('gcore app.core.{rank}', 'gcore app.core')
    """
    found = file_of(command)
    if found is None:
        return command
    name = command[found.begin : found.end]
    if not name:
        own = f"{RANK}.{HOST}.{PROCESS}" if count > 1 else PROCESS
        return f"{command[: found.begin]} {found.default}.{own}"
    if count < 2 or _OF_ONE_RANK.search(name):
        return command
    quote = name[-1] if name[0] in "\"'" and name[-1] == name[0] and len(name) > 1 else ""
    name = f"{name.removesuffix(quote)}.{RANK}{quote}" if quote else f"{name}.{RANK}"
    return f"{command[: found.begin]}{name}{command[found.end :]}"


def filled(name: str, values: Mapping[str, str]) -> str:
    """Return a name with the placeholders that *values* has replaced, and the others spelled out.

    >>> filled("%h/core.%r.{pid}", {HOST: "n1"})
    'n1/core.{rank}.{pid}'
    """

    def value(match: re.Match[str]) -> str:
        placeholder = _ALIASES.get(match[0], match[0])
        return values.get(placeholder, placeholder)

    return _PLACEHOLDER.sub(value, name)
