"""Refusal of commands that take the rank away from PGDB; runs inside GDB, in its Python (3.7 or
later).

The front end checks the lines that it reads, and the literal texts in bodies and in Python. Only
GDB sees a line that ``eval`` or code makes at run time.
"""

from __future__ import annotations

import sys

import gdb

_ALONE = "give it alone, as a line of its own"
_AGAIN = "'restart' launches the job again"
_ITS_RANKS = "the session has its ranks; leave and use 'pgdb attach' or 'pgdb launch'"
_WHY = {
    **dict.fromkeys(("detach", "detach inferiors", "kill", "kill inferiors", "quit"), _ALONE),
    **dict.fromkeys(("run", "start", "starti"), _AGAIN),
    **dict.fromkeys(("attach", "core-file", "disconnect"), _ITS_RANKS),
    **dict.fromkeys(("target core", "target exec", "target extended-remote"), _ITS_RANKS),
    **dict.fromkeys(("target native", "target remote"), _ITS_RANKS),
}

_allowed = ""


class Refuse(gdb.Function):  # type: ignore[misc]
    """Command that is refused, unless it is PGDB's or the rank is already away."""

    def __init__(self) -> None:
        """Register the function as ``$_pgdb_refuse``."""
        super().__init__("_pgdb_refuse")

    def invoke(self, word: gdb.Value) -> int:
        """Raise the error, which ends the command.

        :raises gdb.GdbError: with the way out.
        """
        global _allowed  # see allow
        text = word.string()
        is_ours, _allowed = _allowed == text, ""
        if is_ours or not gdb.selected_inferior().pid:
            return 0
        raise gdb.GdbError(f"'{text}' is refused inside another command: {_WHY[text]}")


def watch() -> None:
    """Refuse the commands from now on, by hooks: GDB resolves aliases and abbreviations first.

    MI's own commands have no hooks (GDB 13.1 and 18.1).
    """
    try:
        Refuse()
        for word in _WHY:
            # "define target hook-remote" is the hook of "target remote".
            *prefix, last = word.split()
            name = " ".join([*prefix, f"hook-{last}"])
            body = f'if $_pgdb_refuse("{word}")\nend'
            gdb.execute(f"define {name}\n{body}\nend", False, True)
            gdb.execute(f"document {name}\n_pgdb_guard\nend", False, True)
    except Exception as error:  # noqa: BLE001  # without hooks all else works
        sys.stderr.write(f"pgdb: commands made at run time are not checked: {error}\n")


def allow(word: str) -> None:
    """Let a command of PGDB's pass once."""
    global _allowed  # GDB's hooks share nothing else
    _allowed = word
