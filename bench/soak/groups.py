"""Faults of groups in motion: Ctrl-C, detach, a process that dies, at a barrier or in steps.

Ranks of ``storm`` reach ``hit`` all the time, so that some are there while others are on the way.
"""

from __future__ import annotations

import functools
import os
import random
import signal
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from bench.soak.noting import DEADLINE_S, Impossible, Wrong
from bench.soak.running import End, Fault
from pgdb.errors import PgdbError
from pgdb.frontend.api.breakpoint_numbers import last_made
from pgdb.frontend.api.sync_generated import RankView
from pgdb.frontend.startup.sync import Session
from pgdb.ranks import RankSet
from pgdb.records import Stop, is_error
from tests.support.jobs import Job
from tests.support.terminal import PGDB, PROMPT, Terminal

if TYPE_CHECKING:
    from bench.soak.faults import OneHost

TIMES = 5
"""Number of times that ranks meet."""
STEPS = 50
LOOKS = 10
"""Number of times that PGDB looks where the ranks are that run."""
END_S = 0.5
"""Longest time until a Ctrl-C, a detach or a kill comes, in seconds."""

_ENDS = {
    "interrupt": "interrupt",
    "detach": "detach",
    "kill": "aggregator killed",
    "kill GDB": "GDB killed",
}
_MOTIONS = ("lockstep", "look", "until-differ", "until-diverge", "trace", "hold", "stop mode")
_TOGETHER = ("tbreak hit", "continue")
_WITHOUT_BREAKPOINT = ("look", "hold")
"""Motions in which no rank is at a breakpoint, or in a step, all the time. In the others a rank
does not survive its GDB (see docs/reference/faults.md)."""
_AT_A_TERMINAL = {
    "barrier": (("barrier hit --then release",), ("continue",)),
    "lockstep": ((), (*_TOGETHER, f"next --lockstep {10**6}")),
    "until-differ": ((), (*_TOGETHER, f"until-differ 1 --at hit --hits {10**6}")),
    "until-diverge": ((), (*_TOGETHER, "until-diverge")),
    "trace": (("trace hit hit_count",), ("continue",)),
    "hold": (("hold 0",), ("continue",)),
    "stop mode": (("set stop-mode all", "break hit if hit_count < 0"), ("continue",)),
    "ranks of a set": (("defset none 0", "break hit --ranks @none", "hold 0"), ("continue",)),
    "commands of a set": (
        (
            *("defset one 1", "break hit --ranks @one", "commands"),
            *("silent", "set $hits = hit_count", "continue", "end"),
        ),
        ("continue",),
    ),
}
"""Commands at the start, and commands of which the last one runs, or holds ranks, for ever."""
_ORDERS = {b"s": "rank crashes", b"x": "rank exits"}
"""Orders to a rank of ``storm``, with what it does then."""
TYPED = 10
"""Number of times that Ctrl-C is typed in a session."""


class _Mover(threading.Thread):
    """A thread that has ended only if its function returned, or PGDB refused to go on."""

    def __init__(self, move: Callable[[], None]) -> None:
        super().__init__()
        self._move = move
        self.has_ended = False
        self.refused: PgdbError | None = None

    def run(self) -> None:
        """Call the function."""
        try:
            self._move()
        except PgdbError as error:
            self.refused = error
        self.has_ended = True


class GroupFaults:
    """The faults, for the soak that they are part of."""

    def __init__(self, soak: OneHost, chance: random.Random) -> None:
        self._soak = soak
        self._random = chance

    @property
    def all(self) -> dict[str, Fault]:
        """The faults by name."""
        return {
            "barrier: met and released": self._meet,
            "barrier: interrupt": self._interrupt_at_barrier,
            "barrier: detach": self._detach_at_barrier,
            "barrier: aggregator killed": functools.partial(self._kill_at_barrier, end="kill"),
            "barrier: GDB killed": functools.partial(self._kill_at_barrier, end="kill GDB"),
        } | {
            f"{what}: {_ENDS[end]}": functools.partial(self._in_motion, what=what, end=end)
            for what in _MOTIONS
            for end in _ENDS
            if end != "kill GDB" or what in _WITHOUT_BREAKPOINT
        }

    @property
    def ends(self) -> dict[str, End]:
        """Sessions that end while ranks are in motion, and those that Ctrl-C interrupts."""
        found: dict[str, End] = {}
        for name, (first, repeated) in _AT_A_TERMINAL.items():
            lines = {"first": first, "repeated": repeated}
            found[f"Ctrl-C: {name}"] = functools.partial(self._interrupt_terminal, **lines)
            found[f"{name}: front end killed"] = functools.partial(self._kill_front_end, **lines)
        for what in ("barrier", *_MOTIONS):
            for order, end in _ORDERS.items():
                found[f"{what}: {end}"] = functools.partial(self._end_rank, what=what, order=order)
        return found

    def _gathered(self, session: Session) -> RankSet:
        """Bring all ranks that live to one line; return them."""
        session.interrupt(timeout_s=DEADLINE_S)
        live = self._soak._state(session)["live"]
        if len(live) < 2:
            raise Impossible
        session.ranks(live).break_at("hit").check()
        number = session.last_breakpoint
        session.ranks(live).continue_(timeout_s=DEADLINE_S)
        session.delete(number)
        if missed := live - self._soak._state(session)["stopped"]:
            raise Wrong(f"[{missed}] have not come to the breakpoint")
        return live

    def _meet(self, session: Session, job: Job) -> RankSet:
        live = self._gathered(session)
        number = session.ranks(live).barrier("hit", then="release", times=TIMES).number
        session.ranks(live).continue_(wait=False)
        found = session.wait_barrier(number, met=TIMES, timeout_s=DEADLINE_S)
        if found.met != TIMES:
            raise Wrong(f"[{live}] have met {found.met} times: {found}")
        if session.held_for or session.barriers:
            raise Wrong(f"held after the barrier: {session.held_for}")
        return RankSet()

    def _held(self, session: Session) -> tuple[int, RankSet, RankSet]:
        """Hold some ranks at a barrier that does not fill; return its number, all, the held."""
        live = self._gathered(session)
        number = session.ranks(live).barrier("hit").number
        last = RankSet([live.last])
        session.ranks(live - last).continue_(timeout_s=DEADLINE_S)
        held = session.held_for.get(f"barrier {number}", RankSet())
        if held != live - last:
            raise Wrong(f"[{live - last}] are to be held, and [{held}] are")
        return number, live, held

    def _interrupt_at_barrier(self, session: Session, job: Job) -> RankSet:
        number, live, held = self._held(session)
        session.interrupt(timeout_s=DEADLINE_S)
        if self._random.random() < 0.5:
            session.ranks(held).release()
        session.delete(number)
        if session.held_for:
            raise Wrong(f"held without a barrier: {session.held_for}")
        session.ranks(live).continue_(wait=False)
        return RankSet()

    def _detach_at_barrier(self, session: Session, job: Job) -> RankSet:
        number, live, held = self._held(session)
        some = self._soak._some(held)
        session.ranks(some).detach(timeout_s=DEADLINE_S)
        self._soak._all_free(job, some)
        self._soak._reattach(session, some)
        session.delete(number)
        session.ranks(live).continue_(wait=False)
        return RankSet()

    def _kill_at_barrier(self, session: Session, job: Job, end: str) -> RankSet:
        number, _, _ = self._held(session)
        lost = self._kill(session, job, end)
        session.delete(number)
        return lost

    def _kill(self, session: Session, job: Job, end: str) -> RankSet:
        """Kill an aggregator or a GDB; return the ranks that are lost."""
        if end == "kill":
            which = self._random.choice(["leaf", "middle", "root"])
            return self._soak._kill_aggregator(session, job, which)
        return self._soak._kill_gdb(session, job)

    def _in_motion(self, session: Session, job: Job, what: str, end: str) -> RankSet:
        """End steps or runs from another thread."""
        live = self._gathered(session)
        view, before = session.ranks(live), session.breakpoints_text
        mover = self._start_motion(session, view, what)
        mover.join(self._random.random() * END_S)
        if mover.refused is not None:
            raise Wrong(f"{what} has failed before the fault: {mover.refused}")
        lost = RankSet()
        if end.startswith("kill"):
            lost = self._kill(session, job, end)
        elif end == "detach":
            some = self._soak._some(live)
            session.ranks(some).detach(timeout_s=DEADLINE_S)
            self._soak._all_free(job, some)
            mover.join(DEADLINE_S)
            self._soak._reattach(session, some)
        else:
            view.interrupt(timeout_s=DEADLINE_S)
        mover.join(DEADLINE_S)
        if not mover.has_ended:
            raise Wrong(f"{what} has not ended after {end}, or has failed")
        if what == "trace":
            self._check_traces(session, live - lost)
        if what == "hold" and session.held_for:
            view.release()
        if session.breakpoints_text != before:
            raise Wrong(f"{what} has left breakpoints: {session.breakpoints_text}")
        session.ranks(self._soak._state(session)["stopped"]).continue_(wait=False)
        return lost

    def _start_motion(self, session: Session, view: RankView, what: str) -> _Mover:
        """Start steps or runs in another thread; after a fault PGDB may refuse to go on."""
        mover = _Mover(lambda: self._move(session, view, what))
        mover.start()
        return mover

    def _move(self, session: Session, view: RankView, what: str) -> None:
        if what == "barrier":
            number = view.barrier("hit").number
            view.continue_(wait=False)
            session.wait_barrier(number, timeout_s=DEADLINE_S)
        elif what == "lockstep":
            view.lockstep("next", STEPS, timeout_s=DEADLINE_S)
        elif what == "until-diverge":
            view.until_diverge(STEPS, timeout_s=DEADLINE_S)
        elif what == "until-differ":
            view.until_differ("1", at="hit", limit=STEPS, timeout_s=DEADLINE_S)
        elif what == "look":
            view.continue_(wait=False)
            for _ in range(LOOKS):
                view.still_running()
        elif what == "trace":
            view.trace("hit", "hit_count").check()
            view.continue_(wait=False)
            number = session.traces[-1].number
            for _ in range(LOOKS):
                view.trace_table(number)
        elif what == "hold":
            held = self._soak._some(view.set - RankSet([view.set.last]))
            session.ranks(held).hold()
            view.continue_(wait=False)
            session.ranks(held).release()
        else:
            following = session.last_breakpoint + 1
            answer = view.break_at("hit", stop="all")
            try:
                answer.check()
                for _ in range(LOOKS):
                    view.continue_(timeout_s=DEADLINE_S)
            finally:
                # The fault may have a breakpoint of its own.
                session.delete(last_made(answer.classes) or following)

    @staticmethod
    def _check_traces(session: Session, whole: RankSet) -> None:
        """Check that ranks which have kept their GDB have collected each hit once."""
        for trace in session.traces:
            for rank, rows in session.trace_data(trace.number).by_rank.items():
                counts = [int(count) for (count,) in rows]
                begin = counts[0] if counts else 0
                if rank in whole and counts != list(range(begin, begin + len(counts))):
                    raise Wrong(f"[{rank}] has collected hits twice or not at all: {counts}")
        if session.traces:
            session.untrace()

    def _end_rank(self, job: Job, what: str, order: bytes) -> None:
        """Let a rank crash or exit while all are in motion, and end the session."""
        session = self._soak._attach(job)
        try:
            live = self._gathered(session)
            view, rank = session.ranks(live), live.last
            self._soak._orders.give(rank, order)
            mover = self._start_motion(session, view, what)
            mover.join(DEADLINE_S)
            if not mover.has_ended:
                raise Wrong(f"{what} has not ended with the end of [{rank}], or has failed")
            # The motion may end before the rank does: its way parts from that of the others.
            left = self._soak._state(session)["stopped"] - self._dead(session)
            if left and rank not in self._dead(session):
                session.ranks(left).continue_(wait=False)
            self._soak._wait(lambda: rank in self._dead(session), f"[{rank}] has ended", DEADLINE_S)
            # The launcher may end other ranks, but no command waits for them in vain.
            if late := session.evaluate("1", timeout_s=DEADLINE_S).missing.late:
                raise Wrong(f"[{late}] do not answer beside [{rank}], which has ended")
        finally:
            session.close()
        self._soak._all_free(job, RankSet(job.ranks))
        self._soak._kill_job(job)

    @staticmethod
    def _dead(session: Session) -> RankSet:
        """Return the ranks that have ended, or have stopped for a crash."""

        def found() -> RankSet:
            state = session._session.state
            crashed = RankSet.union(
                each.ranks
                for each in state.latest(state.stopped)
                if isinstance(each.record, Stop) and is_error(each.record)
            )
            return crashed | state.exited

        return session._loop.do(found)

    def _kill_front_end(self, job: Job, first: Sequence[str], repeated: Sequence[str]) -> None:
        """Kill a front end while the ranks of its session are in motion."""
        options = ("--aggregators", self._soak._arguments.aggregators, "--settle", 600)
        with Terminal(*PGDB, "attach", *options, "--grace", 2, job.pid) as terminal:
            terminal.expect(PROMPT)
            *before, last = repeated
            self._type(terminal, (*first, *before))
            terminal.line(last)
            self._soak._let_pass(END_S)
            os.kill(terminal.pid, signal.SIGKILL)
            self._soak._nothing_left(terminal, job)

    def _interrupt_terminal(self, job: Job, first: Sequence[str], repeated: Sequence[str]) -> None:
        """Let a user type Ctrl-C while the ranks of a session of its own are in motion."""
        options = ("--aggregators", self._soak._arguments.aggregators, "--settle", 600)
        with Terminal(*PGDB, "attach", *options, job.pid) as terminal:
            terminal.expect(PROMPT)
            self._type(terminal, first)
            *before, last = repeated
            for _ in range(TYPED):
                self._type(terminal, before)
                terminal.line(last)
                # The prompt may still be reading the line.
                self._soak._let_pass(END_S)
                terminal.control_c()
                self._type(terminal, ())
            terminal.line(self._random.choice(["detach", "quit"]))
            self._soak._all_free(job, RankSet(job.ranks))

    def _type(self, terminal: Terminal, lines: Sequence[str]) -> None:
        """Type lines, and wait until they are carried out."""
        number = self._random.randrange(10**6)
        for line in (*lines, f"print 1 + {number}"):
            terminal.line(line)
        terminal.expect(rf" = {number + 1}\n")
