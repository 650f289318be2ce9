"""The rank in GDB's own words: convenience variables, and names of files that ranks write."""

from __future__ import annotations

import os
import re
import socket

from pgdb.backend.gdb.mi import console, quote
from pgdb.jobs import procfs
from pgdb.jobs.rank_environment import rank_environment
from pgdb.patterns import pattern

# The command before the name of its file. "%" behind the name belongs to an expression.
_BEFORE_NAME = pattern(
    r"(?:generate-core-file|(?:dump|append)\s+(?:\w+\s+)?(?:memory|value))\s+(?=\S)"
)
_WHOLE_NAME = pattern(r"(?:rec(?:o(?:rd?)?)?\s+sa(?:ve?)?|tsave(?:\s+-\w+)*)\s+(?=\S)")
_PLACEHOLDER = pattern(r"%([rhp%])")
_CORE = "generate-core-file "


def definitions(rank: int, pid: int) -> list[str]:
    """Return the commands that define ``$_rank``, ``$_size`` and ``$_host``.

    A variable that the user has defined stays.
    """
    values = {"_rank": str(rank), "_host": quote(socket.gethostname())}
    identity = rank_environment(procfs.environment(pid) or {})
    if identity is not None and identity.size is not None:
        values["_size"] = str(identity.size)
    return [console(f"init-if-undefined ${name} = {value}") for name, value in values.items()]


def with_own_file(command: str, rank: int, pid: int) -> str:
    """Return a command that writes a file, with this rank's name of it.

    ``%r`` is the rank, ``%h`` the host, ``%p`` the process id. The name of a core file becomes a
    whole path, which GDB's answer then shows.
    """
    before = _BEFORE_NAME.match(command) or _WHOLE_NAME.match(command)
    if before is None:
        return command
    values = {"r": str(rank), "h": socket.gethostname(), "p": str(pid), "%": "%"}

    def value(match: re.Match[str]) -> str:
        return values[match[1]]

    rest = command[before.end() :]
    if command.startswith(_CORE):
        return (
            f"{_CORE}{os.path.abspath(os.path.expanduser(_PLACEHOLDER.sub(value, rest.strip())))}"
        )
    if _WHOLE_NAME.match(command):
        return f"{before[0]}{_PLACEHOLDER.sub(value, rest)}"
    name, blank, operands = rest.partition(" ")
    return f"{before[0]}{_PLACEHOLDER.sub(value, name)}{blank}{operands}"
