"""Text of commands for Python; runs inside GDB, in its Python (3.7 or later).

``gdb.execute(COMMAND, to_string=True)`` returns the text that COMMAND prints. While GDB 18.1 speaks
MI, a part of it is records of MI (``~"$1 = 3\\n"``, ``=breakpoint-created,…``), which no script can
read. GDB 13.1 is right.
"""

import re
import sys
from re import Match
from typing import Any

import gdb

_RECORD = re.compile(r'~"((?:[^"\\]|\\.)*)"\n')
_NOTICE = re.compile(r"(?m)^\n?(=breakpoint-(?:created|modified|deleted),.+)(?:\n|\Z)")
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)")
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"e": b"\033", b"f": b"\f", b"b": b"\b"}

_RIGHT = 13
"""The last major version of GDB that is known to return text as it is."""

_execute = gdb.execute


def plain(text: str) -> str:
    """Return a text with the contents of its records of MI.

    >>> plain('~"a\\\\tb\\\\n"\\nc\\n')
    'a\\tb\\nc\\n'
    """
    return _RECORD.sub(lambda record: _unquoted(record[1]), text)


def _unquoted(text: str) -> str:
    data = _ESCAPE.sub(_byte, text.encode("utf-8", "surrogateescape"))
    return data.decode("utf-8", "surrogateescape")


def _byte(escape: Match[bytes]) -> bytes:
    what = escape[1]
    return bytes([int(what, 8) & 0xFF]) if len(what) == 3 else _LETTERS.get(what, what)


def execute(*arguments: Any, **named: Any) -> Any:
    """Carry out a command as ``gdb.execute`` does, with text as GDB 13 returns it."""
    said = _execute(*arguments, **named)
    if not isinstance(said, str):
        return said
    if '~"' in said and _execute("echo a", False, True) != "a":
        said = plain(said)
    for notice in _NOTICE.findall(said):
        # PGDB, which reads the output of GDB, keeps the table of breakpoints by them.
        gdb.write(f"\n{notice}\n")
    return _NOTICE.sub("", said)


def main() -> None:
    """Take the place of ``gdb.execute`` in GDBs that may need it: tracebacks of scripts show us."""
    try:
        version = re.search(r"\d+", gdb.VERSION)
        if version is not None and int(version[0]) <= _RIGHT:
            return
        execute.__doc__ = _execute.__doc__
        gdb.execute = execute
    except Exception as error:  # noqa: BLE001  # whatever it is, GDB must start
        sys.stderr.write(f"pgdb: Python gets the text of commands as it is: {error}\n")
