"""Ranks under Valgrind, which GDB debugs through Valgrind's own gdbserver.

Valgrind interprets the program: GDB that attaches to the process sees Valgrind's code. Valgrind's
gdbserver shows the program, and the command ``vgdb`` joins GDB to it through named pipes, unless
Valgrind runs with ``--vgdb=no`` (Valgrind's manual, chapter "Using and understanding the Valgrind
core: Advanced Topics").
"""

from __future__ import annotations

import glob
import itertools
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from pgdb.jobs import procfs

_PREFIX = "--vgdb-prefix="
_OTHER_WAY = "GDB sees valgrind's own code, not the program's"


class Guest(msgspec.Struct, frozen=True):
    """A program that Valgrind interprets, and the way to it."""

    program: str
    """Path of the program's file; empty if it is unknown."""
    command: str
    """The command line of vgdb."""


def guest_of(pid: int) -> Guest | str:
    """Return the program that the process *pid* of Valgrind interprets, or why GDB cannot reach it.

    The reason is the end of a sentence about the rank.
    """
    words = procfs.command_line(pid) or ()
    environment = procfs.environment(pid) or {}
    vgdb = _vgdb(pid, environment)
    if not vgdb:
        return f"runs under valgrind, and this host has no vgdb: {_OTHER_WAY}"
    options = list(itertools.takewhile(lambda word: word.startswith("-"), words[1:]))
    own = [word.removeprefix(_PREFIX) for word in options if word.startswith(_PREFIX)]
    prefix = own[-1] if own else f"{environment.get('TMPDIR', '/tmp')}/vgdb-pipe"
    if not glob.glob(f"{glob.escape(prefix)}-from-vgdb-to-{pid}-by-*"):
        return (
            f"runs under valgrind with --vgdb=no or another --vgdb-prefix: {_OTHER_WAY}. Start the "
            "ranks with valgrind --vgdb=yes"
        )
    line = shlex.join([vgdb, f"--pid={pid}", f"{_PREFIX}{prefix}"])
    return Guest(program=_program(pid, words), command=line)


def _vgdb(pid: int, environment: dict[str, str]) -> str:
    """Return the vgdb of the rank's Valgrind, else the one in PATH; empty if there is none."""
    path = environment.get("PATH", "")
    tool = Path(procfs.executable(pid) or "/")
    # .../libexec/valgrind/memcheck-amd64-linux belongs to .../bin/vgdb.
    beside = os.pathsep.join(str(parent / "bin") for parent in tool.parents[1:3])
    return (
        shutil.which("vgdb", path=beside)
        or shutil.which("vgdb", path=path)
        or shutil.which("vgdb")
        or ""
    )


def _program(pid: int, words: Sequence[str]) -> str:
    """Return the file of the program: the first word that is no option, as the rank has mapped it.

    A relative word was relative to a directory that the rank may have left.
    """
    word = next((each for each in words[1:] if not each.startswith("-")), "")
    base = os.path.basename(word)
    return next((each for each in procfs.mapped_files(pid) if os.path.basename(each) == base), "")
