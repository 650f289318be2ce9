"""The agent in one Python rank, as PGDB drives it: its orders, its reports, its stops.

The agent runs Python code of PGDB's in the rank (:mod:`pgdb.backend.python.agent`). It carries
out orders when the interpreter executes bytecode next, so a rank that is in C code has to come back
from there first.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import msgspec

from pgdb.backend.gdb import decode, python_calls
from pgdb.backend.gdb.process_in_gdb import auxiliary_vector
from pgdb.backend.gdb.process_memory import read_some
from pgdb.backend.gdb.session import GdbSession
from pgdb.backend.python import injection
from pgdb.backend.python.agent_points import FIRST, STEP, UNCAUGHT
from pgdb.backend.python.injection import CannotArmError, Interpreter, SharedFolder
from pgdb.jobs import procfs
from pgdb.records import Failure

_ENDS = ("step", "next", "until", "finish")
NEEDS = "breakpoints at Python code need"
NO_INTERPRETER = "it has no Python interpreter that PGDB knows"
_OLD = (
    "GDB must call a function in it, since its Python is older than 3.14, and cannot: {}; a newer "
    "GDB may be able to ('pgdb --gdb'), or Python 3.14 or later for the job"
)


class Hit(msgspec.Struct, frozen=True):
    """A stop at which the agent reports something."""

    kind: str = ""
    """``step``, ``next``, ``until``, ``finish``, ``uncaught`` or ``condition``; empty for a
    breakpoint."""
    text: str = ""
    """Value that a function has returned, or an error."""
    where: str = ""
    """Place of an uncaught exception, such as ``in a thread``; empty for one that ends the
    program."""
    slot: int = -1
    frames: tuple[Mapping[str, Any], ...] = ()
    """Frames of the traceback of an uncaught exception, innermost first."""


class PythonAgent:
    """Access to the agent in one rank, which gets its orders here."""

    def __init__(self, gdb: GdbSession, runtime_of: Callable[[int], int]) -> None:
        self._gdb = gdb
        self._runtime_of = runtime_of
        # Positive for C's int; the number of the page is added to it.
        self.key = 0x40000000 | secrets.randbits(21) << 9
        self._folder: SharedFolder | None = None
        self._pid = 0
        self._vector = b""
        self._generation = 0
        self._step: dict[str, Any] | None = None
        self._steps = 0
        self._next_slot = FIRST
        self._page = 0
        """Address of the text of pending calls in the rank, 0 for none."""
        self._request: Interpreter | None = None
        self.points: dict[int, dict[str, Any]] = {}
        """Places and conditions of the breakpoints, by slot."""
        self.catches = False
        """Whether the agent shall stop at uncaught exceptions."""
        self.hidden: dict[int, int] = {}
        """Slots by the numbers of GDB's hidden breakpoints."""
        self.is_changed = False
        """Whether there are orders that the agent has not been asked to carry out."""
        self.is_at_hit = False
        """Whether the rank stands at a hit, behind which the agent looks for orders."""

    def new_slot(self) -> int:
        """Return a slot that no breakpoint has had: a late hit is nobody else's."""
        slot, self._next_slot = self._next_slot, self._next_slot + 1
        return slot

    async def why_no_hits(self) -> Failure | None:
        """Return why GDB cannot stop at hits of the agent."""
        found = await python_calls.ask(self._gdb, "python_hits_in_gdb.check", needed_for=NEEDS)
        return found if isinstance(found, Failure) else None

    async def settle(self, pid: int) -> None:
        """Let the agent carry out what has changed.

        :raises CannotArmError: if the agent cannot get into the rank.
        :raises GdbError: if GDB ends.
        """
        self._see_exec(pid)
        if self.is_changed and procfs.is_alive(pid):
            await self._carry_out(pid)

    def _see_exec(self, pid: int) -> None:
        """Let the agent be brought anew if the rank executes another program now."""
        if self._folder is None or (self._pid == pid and not self._has_executed):
            return
        self._folder.close(deletes=True)
        self._folder, self._step, self._request, self._page = None, None, None, 0
        self.is_at_hit = False
        self.is_changed = bool(self.points) or self.catches
        self._gdb.send(python_calls.call("python_hits_in_gdb.enable_again"))

    @property
    def _has_executed(self) -> bool:
        """Whether the rank executes another program than the one with the agent."""
        return auxiliary_vector(self._pid) not in (self._vector, b"")

    async def _carry_out(self, pid: int, lwp: int = 0) -> None:
        is_new = self._folder is None
        try:
            self._order(pid)
            if not self.is_at_hit:
                await self._wake(pid, lwp)
        except CannotArmError:
            if is_new and self._folder is not None:
                self._folder.close(deletes=True)
                self._folder = None
            raise
        self.is_changed = False

    def _order(self, pid: int, *, ends: bool = False) -> None:
        if self._folder is None or self._pid != pid:
            self._folder, self._pid = SharedFolder(pid, self.key), pid
            self._vector = auxiliary_vector(pid)
        self._generation += 1
        self._folder.order(
            {
                "generation": self._generation,
                "points": self.points,
                "catch": self.catches,
                "step": self._step,
                "ends": ends,
            }
        )

    async def _wake(self, pid: int, lwp: int = 0) -> None:
        """Ask the interpreter to run the script of the agent."""
        assert self._folder is not None, "ordered before"
        if self._requests(pid, lwp):
            return
        if lwp and lwp != pid:
            raise CannotArmError(
                "before Python 3.14 only the main thread can be asked, and another one is selected"
            )
        called = await python_calls.ask(
            self._gdb,
            "python_hits_in_gdb.call_later",
            injection.pending_text(self._folder.name),
            self._page,
            needed_for=NEEDS,
        )
        if isinstance(called, Failure):
            raise CannotArmError(_OLD.format(called.message.rstrip(".")))
        if not called:
            raise CannotArmError(injection.NOT_INITIALIZED)
        self._page = int(called)

    def _requests(self, pid: int, lwp: int = 0) -> bool:
        """Request the script from Python 3.14 or later; return whether that is possible.

        :raises CannotArmError: if the rank has no interpreter, or its memory cannot be written.
        """
        assert self._folder is not None, "ordered before"
        address = self._runtime_of(pid)
        if not address:
            raise CannotArmError(NO_INTERPRETER)

        try:
            places = injection.interpreter_of(partial(read_some, pid), address, lwp)
        except injection.TakesNoRequestsError:
            return False
        if places is None:
            return False
        injection.request(pid, places, f"{self._folder.name}/script.py")
        self._request = places
        return True

    async def step(
        self,
        pid: int,
        kind: str,
        *,
        count: int,
        depth: int,
        lwp: int,
        place: dict[str, Any] | None = None,
    ) -> None:
        """Let a thread take a step when the rank runs on.

        :param place: a place that ends the step as well.

        :raises CannotArmError: if the agent cannot get into the rank.
        :raises GdbError: if GDB ends.
        """
        self._see_exec(pid)
        await self.stop_at(STEP)
        self._steps += 1
        self._step = {"number": self._steps, "kind": kind, "count": count, "depth": depth}
        self.points.pop(STEP, None)
        if place is not None:
            self.points[STEP] = place
        await self._carry_out(pid, lwp)

    async def stop_at(self, slot: int) -> None:
        """Stop at the hits of a slot without a breakpoint of the user's.

        :raises CannotArmError: if GDB cannot do that.
        """
        made = await python_calls.ask(
            self._gdb, "python_hits_in_gdb.hide", self.key, slot, needed_for=NEEDS
        )
        if isinstance(made, Failure):
            raise CannotArmError(made.message)
        self.hidden[int(made)] = slot

    def no_step(self) -> None:
        """Note that the rank runs on without a step."""
        if self._step is not None:
            self._step = None
            self.points.pop(STEP, None)
            self.is_changed = True
            self._gdb.send(python_calls.call("python_hits_in_gdb.enable", STEP, False))

    def hit(self, payload: Mapping[str, Any], slots: Mapping[int, int]) -> Hit | None:
        """Return what the agent reports at a stop, None for another stop.

        :param slots: the slots of the user's breakpoints by their numbers.
        """
        self.is_at_hit = False
        if self._folder is None:
            return None
        numbers = payload.get("bkptno", ())
        found = numbers if isinstance(numbers, list) else [numbers]
        known = {**self.hidden, **slots}
        hits = [known[each] for each in map(decode.whole_number, found) if each in known]
        if not hits:
            return None
        self.is_at_hit = True
        # A breakpoint at the line where a step ends comes first.
        slot = max(hits)
        event = self.report().get("event")
        event = event if isinstance(event, dict) else {}
        kind, frames = str(event.get("kind", "")), event.get("frames")
        if slot == STEP:
            kind = kind if kind in _ENDS else _ENDS[0]
        elif slot == UNCAUGHT:
            kind = "uncaught"
        elif kind != "condition" or event.get("slot") != slot:
            kind = ""
        return Hit(
            kind=kind,
            text=str(event.get("text", "")) if kind else "",
            where=str(event.get("where", "")) if kind == "uncaught" else "",
            slot=slot,
            frames=tuple(frames) if isinstance(frames, list) and kind == "uncaught" else (),
        )

    @property
    def is_armed(self) -> bool:
        """Whether the agent has carried out the latest orders."""
        return not self.is_changed and self.report().get("generation") == self._generation

    def report(self) -> dict[str, Any]:
        """Return what the agent has reported last."""
        if self._folder is None or self._has_executed:
            return {}
        return self._folder.report()

    async def end(self, pid: int) -> None:
        """Let the agent remove itself when the rank runs on; the rank is stopped.

        :raises GdbError: if GDB ends.
        """
        self._see_exec(pid)
        folder = self._folder
        if folder is None or pid != self._pid:
            return
        self.points, self._step, self.catches = {}, None, False
        is_asked = True
        if self._request is not None:
            injection.withdraw(pid, self._request)
        # Without a report the agent has not begun: it ends where it finds no orders.
        is_asked = bool(self.report())
        if is_asked:
            try:
                self._order(pid, ends=True)
                if not self.is_at_hit:
                    await self._wake(pid)
            except CannotArmError:
                is_asked = False  # the agent goes at its next hit, without a debugger
        self._folder = None
        folder.close(deletes=not is_asked)

    def _asks_free_rank(self) -> bool:
        """Let the agent remove itself from a rank that has lost its GDB; return whether it can.

        Without orders it does so as well, at its next look for its debugger.
        """
        is_there = procfs.is_alive(self._pid) and os.path.exists(f"/proc/{self._pid}")
        if not is_there or self._request is None or not self.report():
            return False
        try:
            self._order(self._pid, ends=True)
            return self._requests(self._pid)
        except CannotArmError:
            return False

    def forget(self) -> None:
        """Forget the rank, which is gone or free."""
        if self._folder is not None:
            self._folder.close(deletes=not self._asks_free_rank())
        self._folder, self._step, self._request, self._page = None, None, None, 0
        self.points, self.hidden, self.catches = {}, {}, False
        self.is_changed = self.is_at_hit = False
