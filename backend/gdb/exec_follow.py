"""From the held process to the rank's program: through wrappers that execute or fork the program.

A wrapper that executes the program in its place (env, numactl, a shell script with exec) stays
one process, and GDB follows it. GDB follows a wrapper that forks the program (a shell script, a
Python script, bwrap) into its children: every child is kept until it executes the program and
becomes the rank. The wrapper then runs on free, and waits for the rank as it does without a
debugger. :mod:`pgdb.jobs.wrapped_program` has the signs by which the program is found.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Awaitable, Callable
from typing import Any, Literal

import msgspec

from pgdb.backend.gdb.mi import console
from pgdb.backend.gdb.own_breakpoints import OwnBreakpoints
from pgdb.backend.gdb.process import ALLOW
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.gdb.settings import INTERRUPT
from pgdb.backend.sbd.mapped_objects import entry_point
from pgdb.errors import GdbError
from pgdb.jobs import procfs
from pgdb.jobs.rank_program import program_of_rank
from pgdb.jobs.tracing_rights import why_not_traceable
from pgdb.jobs.wrapped_program import Image
from pgdb.patterns import pattern

POLL_S = 0.5
"""Time between two looks at processes from which GDB reports nothing, in seconds."""
QUIET_S = 15.0
"""Time without a report after which the search for the program ends, in seconds."""
_INTERRUPT_S = 10.0
_VALGRIND = (
    "starts valgrind, which executes the program itself: GDB sees valgrind here. Start the job "
    "without PGDB and use 'pgdb attach', which debugs the program through vgdb"
)
_LIVE = pattern(r"^(\*?)\s+(\d+)\s+process (\d+)", re.M)
_ENDED = pattern(r"^\s+(\d+)\s+<null>", re.M)

_TRACER = (
    "starts {0}, which traces the program itself: GDB sees {0} here, and a process has one tracer. "
    "Start the job without {0}"
)


class Followed(msgspec.Struct, frozen=True):
    """The result of following the held process to the program."""

    end: Literal["exec", "entry", "running", "ended", "untraceable"]
    """``exec``, ``entry``: the program has not begun, and was just executed or has its libraries.
    ``running``: nothing was found, or only late, and the process was interrupted. ``ended``: all
    processes have. ``untraceable``: GDB has lost the process."""
    pid: int
    payload: dict[str, Any] = {}
    """GDB's payload of the stop, or of the end."""
    note: str = ""
    """A fact for the user; the reason of ``untraceable``."""


class Following:
    """Driver that follows one rank until it executes its program."""

    def __init__(
        self,
        gdb: GdbSession,
        own: OwnBreakpoints,
        run: Callable[[str], Awaitable[dict[str, Any]]],
        program: str,
    ) -> None:
        self._gdb = gdb
        self._own = own
        self._run = run
        self._program = program
        self._forks = False
        self._held = 0
        self._current = 0
        self._names_mpi = False
        self._first: Image | None = None

    async def to_program(self, pid: int) -> Followed:
        """Let the process *pid* run until it, or a child, has executed the program.

        :raises GdbError: if GDB refuses to go on.
        """
        self._held = self._current = pid
        command = "-exec-continue"
        while True:
            payload = await self._next_stop(command)
            if isinstance(payload, Followed):
                return payload
            live = await self._live() if self._forks else {}
            current = next((each for star, each in live.values() if star), pid)
            reason = str(payload.get("reason", ""))
            if reason == "exec":
                self._current = current
                image = Image(current)
                # In a thread: a program can be large, and on a slow file system.
                note = await asyncio.to_thread(self._is_program, image)
                if note is not None:
                    await self._drop_others(live, current)
                    return Followed("exec", current, payload, note)
                if not self._forks:
                    await self._follow_forks()
                await self._own.stop_at_exec()
                if not self._program and await asyncio.to_thread(_may_link_mpi, image):
                    await self._break_at_entry(current)
            elif reason == "breakpoint-hit":
                if Image(current).has_mapped_mpi:
                    await self._drop_others(live, current)
                    return Followed("entry", current, payload)
            elif reason.startswith("exited"):
                if not live:
                    return Followed("ended", pid, payload)
                await self._gdb.send(console(f"inferior {next(iter(live))}"))
            elif not self._forks:
                return Followed("running", pid, payload)
            command = "-exec-continue --all" if self._forks else "-exec-continue"

    # -- judgement -----------------------------------------------------------------------------

    def _is_program(self, image: Image) -> str | None:
        """Return None if the image is not the rank's program, else a note, mostly an empty one."""
        if self._first is None:
            self._first = image
            self._names_mpi = image.names_mpi_program
        if self._program:
            if image.is_named(self._program):
                return ""
            if image.mentions_mpi and not image.names(self._program):
                return f"does not execute {self._program}; {image.title} is debugged"
            return None
        if image.is_wrapper:
            return None
        if image.mentions_mpi:
            return ""
        if image.pid == self._held:
            if image.is_valgrind_starter:
                return _VALGRIND
            if image.is_tracer:
                return _TRACER.format(image.name)
            return None if image.may_start_programs else ""
        # A script runs many programs before the rank's.
        is_meant = self._first.names(image.script or image.path) and not image.is_of_system
        return "" if is_meant and not self._names_mpi else None

    # -- GDB -----------------------------------------------------------------------------------

    async def _next_stop(self, command: str) -> dict[str, Any] | Followed:
        """Run to the next stop; give up where GDB cannot report one, or nothing is to be expected.

        :raises GdbError: if GDB refuses to go on.
        """
        task = asyncio.ensure_future(self._run(command))
        loop = asyncio.get_running_loop()
        end_s = loop.time() + QUIET_S
        try:
            while True:
                await asyncio.wait({task}, timeout=POLL_S)
                if task.done():
                    return self._own.as_exec(task.result())
                if why := self._why_untraceable():
                    return Followed("untraceable", self._current, note=why)
                found = self._late_program() if self._forks else 0
                if found or loop.time() > end_s:
                    return await self._interrupt(found, task)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _why_untraceable(self) -> str:
        """Return the reason why GDB has lost a process that has executed something; empty if not.

        GDB 13.1 complains that it may not read the process, and reports no stop.
        """
        for pid in (self._current, *self._children()):
            if procfs.is_closed(pid):
                why = why_not_traceable(pid, tracer=self._gdb.pid)
                return why or "the kernel refuses access to it"
        return ""

    def _children(self) -> list[int]:
        return procfs.children_of_main_thread(self._current) if self._forks else []

    def _late_program(self) -> int:
        """Return the process of a program that has loaded MPI by now, 0 if there is none."""
        for pid in (self._held, *self._children()):
            image = Image(pid)
            if not image.is_wrapper and image.has_mapped_mpi:
                return pid
        return 0

    async def _interrupt(
        self, found: int, task: asyncio.Future[dict[str, Any]]
    ) -> dict[str, Any] | Followed:
        """Stop the processes where they are; return that, or the stop that came before.

        :raises GdbError: if they do not stop.
        """
        live = [pid for _, pid in (await self._live()).values()]
        meant = found or await asyncio.to_thread(program_of_rank, self._held, self._program)
        if meant not in live:
            meant = max(live, default=self._held)
        await self._gdb.send(console(f"handle {INTERRUPT.name} stop print nopass"))
        with contextlib.suppress(OSError):
            os.kill(meant, INTERRUPT)
        await asyncio.wait({task}, timeout=_INTERRUPT_S)
        await self._own.still_stop_at_exec()
        if not task.done():
            raise GdbError(
                f"process {meant} could not be interrupted in the search for its program"
            )
        payload = task.result()
        if payload.get("signal-name") != INTERRUPT.name:
            return payload
        image = Image(meant)
        if found:
            note = f"{image.title} loaded MPI after its main; it is stopped where it was"
        else:
            wanted = self._program or "a program of MPI"
            note = (
                f"no process of this rank has executed {wanted}; {image.title} is debugged, "
                "where it was" + ("" if self._program else " (--program NAME names the program)")
            )
        inferiors = await self._live()
        number = next((each for each, (_, pid) in inferiors.items() if pid == meant), None)
        if number is not None:
            await self._gdb.send(console(f"inferior {number}"))
            inferiors = await self._live()
        await self._drop_others(inferiors, meant)
        # It is stopped as by an attach, and no signal of its own has stopped it.
        own = ("reason", "signal-name", "signal-meaning")
        where = {name: value for name, value in payload.items() if name not in own}
        return Followed("running", meant, where, note)

    async def _follow_forks(self) -> None:
        self._forks = True
        for setting in ("detach-on-fork off", "schedule-multiple on"):
            result = await self._gdb.send(f"-gdb-set {setting}")
            if result.kind == "error":
                raise GdbError(result.message)

    async def _break_at_entry(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            await self._own.stop_once(f"*{entry_point(pid):#x}")

    async def _live(self) -> dict[int, tuple[bool, int]]:
        """Return the live inferiors: number -> (whether it is the current one, process id)."""
        listed = await self._gdb.send(console("info inferiors"))
        return {
            int(number): (bool(star), int(pid)) for star, number, pid in _LIVE.findall(listed.text)
        }

    async def _drop_others(self, live: dict[int, tuple[bool, int]], pid: int) -> None:
        if not self._forks:
            return
        for number, (is_current, _) in live.items():
            if not is_current:
                allowed = console(ALLOW.format("detach inferiors"))
                detach = console(f"detach inferiors {number}")
                await self._gdb.send_together(allowed, detach)[1]
        # GDB looks up a function of the rank in all its inferiors, and a shell has a main, too.
        listed = await self._gdb.send(console("info inferiors"))
        for number in _ENDED.findall(listed.text):
            await self._gdb.send(console(f"remove-inferiors {number}"))
        await self._gdb.send("-gdb-set schedule-multiple off")
        await self._gdb.send("-gdb-set detach-on-fork on")
        listed = await self._gdb.send("-thread-info")
        for thread in listed.payload.get("threads", ()):
            # Thread 0x7f1e2c000740 (LWP 4711), process 4711
            if re.search(rf"\b(?:LWP|process) {pid}\b", str(thread.get("target-id", ""))):
                self._gdb.first_thread = str(thread["id"])


def _may_link_mpi(image: Image) -> bool:
    return image.may_link_mpi
