"""From the held process to the rank's program: through wrappers that execute or fork the program.

A wrapper that executes the program in its place (env, numactl, a shell script with exec) stays
one process, and GDB follows it. GDB follows a script that forks the program into its children:
every child is kept until it executes the program and becomes the rank. The script then runs on
free, and waits for the rank as it does without a debugger.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Awaitable, Callable
from typing import Any

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.session import GdbSession
from pgdb.errors import GdbError
from pgdb.jobs import procfs
from pgdb.patterns import pattern
from pgdb.regular_files import open_regular

# Programs that execute another one in their place, which is the rank's program.
_EXECUTING = frozenset(
    "env numactl taskset nice ionice stdbuf setsid nohup chrt prlimit setarch linux64".split()
)
# Programs that may run the rank's program as a child.
_FORKING = frozenset("sh bash dash zsh ksh time timeout perl tclsh".split())
_LIVE = pattern(r"^(\*?)\s+(\d+)\s+process (\d+)", re.M)
_ENDED = pattern(r"^\s+(\d+)\s+<null>", re.M)
_INTERPRETER = pattern(r"(?:python|pypy|perl|ruby|julia|lua|Rscript|R|tclsh|guile|node)[\d.]*\Z")
_WITH_A_VALUE = frozenset({"-W", "-X", "--check-hash-based-pycs"})  # Python's


class Following:
    """Follows one rank until it executes its program."""

    def __init__(
        self,
        gdb: GdbSession,
        run: Callable[[str], Awaitable[dict[str, Any]]],
        program: str,
    ) -> None:
        self._gdb = gdb
        self._run = run
        self._program = program
        self._forks = False

    async def to_program(self, pid: int) -> tuple[dict[str, Any], int]:
        """Let the process *pid* run until it, or a child, has executed the program.

        Return GDB's payload of that stop, or of the end of the last process, and the process id
        of the program.

        :raises GdbError: if GDB refuses to go on.
        """
        command = "-exec-continue"
        while True:
            payload = await self._run(command)
            live = await self._live() if self._forks else {}
            if payload.get("reason") == "exec":
                image = str(payload.get("new-exec", ""))
                current = next((each for star, each in live.values() if star), pid)
                if self._is_program(image, current, is_child=current != pid):
                    await self._drop_others(live)
                    return payload, current
                if os.path.basename(image) in _FORKING and not self._forks:
                    await self._follow_forks()
            elif str(payload.get("reason", "")).startswith("exited"):
                if not live:
                    return payload, pid
                await self._gdb.send(console(f"inferior {next(iter(live))}"))
            elif not self._forks:
                return payload, pid
            command = "-exec-continue --all" if self._forks else "-exec-continue"

    def _is_program(self, image: str, pid: int, *, is_child: bool) -> bool:
        name = os.path.basename(image)
        script = interpreted_script(pid)
        if self._program:
            return self._program in (name, os.path.basename(script))
        if name in _EXECUTING or name in _FORKING:
            return False
        # A script runs many programs before the rank's.
        return (
            not is_child
            or _mentions(f"/proc/{pid}/exe", b"MPI_Init")
            or (script != "" and _mentions(_path_of(pid, script), b"mpi4py"))
        )

    async def _follow_forks(self) -> None:
        self._forks = True
        for setting in ("detach-on-fork off", "schedule-multiple on"):
            result = await self._gdb.send(f"-gdb-set {setting}")
            if result.kind == "error":
                raise GdbError(result.message)

    async def _live(self) -> dict[int, tuple[bool, int]]:
        """Return the live inferiors: number -> (whether it is the current one, process id)."""
        told = await self._gdb.send(console("info inferiors"))
        return {
            int(number): (bool(star), int(pid)) for star, number, pid in _LIVE.findall(told.text)
        }

    async def _drop_others(self, live: dict[int, tuple[bool, int]]) -> None:
        if not self._forks:
            return
        for number, (is_current, _) in live.items():
            if not is_current:
                await self._gdb.send(console(f"detach inferiors {number}"))
        # GDB looks up a function of the rank in all its inferiors, and a shell has a main, too.
        told = await self._gdb.send(console("info inferiors"))
        for number in _ENDED.findall(told.text):
            await self._gdb.send(console(f"remove-inferiors {number}"))
        await self._gdb.send("-gdb-set schedule-multiple off")
        await self._gdb.send("-gdb-set detach-on-fork on")


def interpreted_script(pid: int) -> str:
    """Return the script that an interpreter runs in *pid*, as its command line names it.

    The result is empty if the process runs no interpreter, or an interpreter without a script.
    """
    if not _INTERPRETER.match(os.path.basename(procfs.executable(pid) or "")):
        return ""
    words = iter((procfs.command_line(pid) or ())[1:])
    for word in words:
        if word in _WITH_A_VALUE:
            next(words, None)
        elif re.match(r"-[A-Za-z]*m\Z", word):
            return f"-m {next(words, '')}"
        elif re.match(r"-[A-Za-z]*[ce]\Z", word):
            return ""
        elif not word.startswith("-"):
            return word
    return ""


def _path_of(pid: int, name: str) -> str:
    """Return our path of the file that the process knows by *name*."""
    return f"/proc/{pid}/{'root' if name.startswith('/') else 'cwd/'}{name}"


def _mentions(path: str, mark: bytes) -> bool:
    """Return whether a file contains *mark*."""
    try:
        with (
            open_regular(path) as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return data.find(mark) >= 0
    except (OSError, ValueError):
        return False
