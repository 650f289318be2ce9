"""Faults of groups in motion: Ctrl-C, detach, a killed aggregator at a barrier or in steps.

Ranks of ``storm`` reach ``hit`` all the time, so that some are there while others are on the way.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.soak.noting import DEADLINE_S, Impossible, Wrong
from pgdb.errors import PgdbError
from pgdb.frontend.startup.sync import Session
from pgdb.ranks import RankSet
from tests.support.jobs import Job

if TYPE_CHECKING:
    from bench.soak.faults import OneHost

TIMES = 5
"""Number of times that ranks meet."""
STEPS = 50
LOOKS = 10
"""Number of times that PGDB looks where the ranks are that run."""
END_S = 0.5
"""Longest time until a Ctrl-C, a detach or a kill comes, in seconds."""

Fault = Callable[[Session, Job], RankSet]


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
            "barrier: aggregator killed": self._kill_at_barrier,
            "lockstep: interrupt": lambda s, j: self._in_motion(s, j, "lockstep", "interrupt"),
            "lockstep: detach": lambda s, j: self._in_motion(s, j, "lockstep", "detach"),
            "lockstep: aggregator killed": lambda s, j: self._in_motion(s, j, "lockstep", "kill"),
            "look: interrupt": lambda s, j: self._in_motion(s, j, "look", "interrupt"),
            "look: detach": lambda s, j: self._in_motion(s, j, "look", "detach"),
            "look: aggregator killed": lambda s, j: self._in_motion(s, j, "look", "kill"),
            "until-differ: interrupt": lambda s, j: self._in_motion(s, j, "differ", "interrupt"),
            "until-differ: detach": lambda s, j: self._in_motion(s, j, "differ", "detach"),
            "until-differ: aggregator killed": lambda s, j: self._in_motion(s, j, "differ", "kill"),
        }

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

    def _kill_at_barrier(self, session: Session, job: Job) -> RankSet:
        number, _, _ = self._held(session)
        lost = self._kill(session, job)
        session.delete(number)
        return lost

    def _kill(self, session: Session, job: Job) -> RankSet:
        which = self._random.choice(["leaf", "middle", "root"])
        return self._soak._kill_aggregator(session, job, which)

    def _in_motion(self, session: Session, job: Job, what: str, end: str) -> RankSet:
        """End steps or runs from another thread."""
        live = self._gathered(session)
        view, before = session.ranks(live), session.breakpoints_text
        has_ended: list[str] = []

        def move() -> None:
            try:
                if what == "lockstep":
                    view.lockstep("next", STEPS, timeout_s=DEADLINE_S)
                elif what == "look":
                    view.continue_(wait=False)
                    for _ in range(LOOKS):
                        view.still_running()
                else:
                    view.until_differ("1", at="hit", limit=STEPS, timeout_s=DEADLINE_S)
            except PgdbError as error:
                self._soak._say(f"  {what}: {error}")
            has_ended.append(what)

        mover = threading.Thread(target=move)
        mover.start()
        mover.join(self._random.random() * END_S)
        lost = RankSet()
        if end == "kill":
            lost = self._kill(session, job)
        elif end == "detach":
            some = self._soak._some(live)
            session.ranks(some).detach(timeout_s=DEADLINE_S)
            self._soak._all_free(job, some)
            mover.join(DEADLINE_S)
            self._soak._reattach(session, some)
        else:
            view.interrupt(timeout_s=DEADLINE_S)
        mover.join(DEADLINE_S)
        if not has_ended:
            raise Wrong(f"{what} has not ended after {end}, or has failed")
        if session.breakpoints_text != before:
            raise Wrong(f"{what} has left breakpoints: {session.breakpoints_text}")
        session.ranks(self._soak._state(session)["stopped"]).continue_(wait=False)
        return lost
