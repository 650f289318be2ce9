"""Ends of sessions on one host: of the front end, of the job, of a rank, at any moment."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import threading
import time
from typing import TYPE_CHECKING

from bench.soak.noting import DEADLINE_S, Wrong
from bench.soak.running import LEAVE_S, End
from pgdb.bootstrap_env import AGGREGATOR_NAME
from pgdb.errors import StartError
from pgdb.ranks import RankSet
from tests.support.jobs import Job
from tests.support.processes import is_alive, parent_of, status
from tests.support.terminal import PGDB, PROMPT, Terminal

if TYPE_CHECKING:
    from bench.soak.faults import OneHost

START_S = 3.0
"""Longest time from the start of a session to the end of its job, in seconds."""


def _name_of(pid: int) -> str:
    try:
        return status(pid, "Name")
    except OSError:
        return ""


class SessionEnds:
    """The ends, for the soak that they are part of."""

    def __init__(self, soak: OneHost, chance: random.Random) -> None:
        self._soak = soak
        self._random = chance

    @property
    def all(self) -> dict[str, End]:
        """The ends by name."""
        return {
            "front end killed": lambda job: self._end_front_end(job, signal.SIGKILL),
            "terminal gone": lambda job: self._end_front_end(job, None),
            "front end terminated": lambda job: self._end_front_end(job, signal.SIGTERM),
            "job ends during attach": self._end_job_in_attach,
            "job ends": self._end_job,
            "aggregator killed during attach": self._kill_in_attach,
            "rank crashes": lambda job: self._end_rank(job, b"s"),
            "rank exits": lambda job: self._end_rank(job, b"x"),
            "rank killed": lambda job: self._end_rank(job, b""),
            "closed with one that hangs": self._close_with_hung,
        }

    def _end_front_end(self, job: Job, how: signal.Signals | None) -> None:
        """End a separate front end in the middle; None takes its terminal away."""
        options = ("--aggregators", self._soak._arguments.aggregators, "--grace", 2)
        with Terminal(*PGDB, "attach", *options, job.pid) as terminal:
            terminal.expect(PROMPT)
            terminal.ask(f"break {self._soak._place}")
            if self._random.random() < 0.5:
                terminal.ask("continue &")
            if how is None:
                terminal.hang_up()
            else:
                os.kill(terminal.pid, how)
            self._soak._nothing_left(terminal, job)

    def _end_job_in_attach(self, job: Job) -> None:
        process = subprocess.Popen(
            [*PGDB, "attach", "--batch", "--grace", "2", "-ex", "bt", str(job.pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._soak._let_pass(START_S)
        self._soak._kill_job(job)
        try:
            output, _ = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Wrong("pgdb does not end") from None
        if b"Traceback" in output or process.returncode < 0:
            raise Wrong(f"status {process.returncode}: {output.decode()}")

    def _kill_in_attach(self, job: Job) -> None:
        """End an aggregator while ranks are searched or attached."""
        victims: list[int] = []
        is_over = threading.Event()
        have_gdbs = self._random.random() < 0.8
        after_s, which = self._random.random(), self._random.randrange(1000)

        def kill_one() -> None:
            while not is_over.wait(0.01):
                ours = self._soak._marked_processes()
                found = [pid for pid in ours if _name_of(pid) == AGGREGATOR_NAME]
                has_gdb = any(" -i=mi3 " in ours[pid] and parent_of(pid) in found for pid in ours)
                # A GDB that is just starting has its aggregator's name for a moment.
                found = [pid for pid in found if parent_of(pid) not in found]
                if found and (has_gdb or not have_gdbs):
                    break
            if not is_over.wait(after_s):
                victim = sorted(found)[which % len(found)]
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
                    victims.append(victim)

        killer = threading.Thread(target=kill_one)
        killer.start()
        try:
            session = self._soak._attach(job)
        except StartError as error:
            if "session did not start within" in str(error):
                raise Wrong(f"a start hung: {error}") from None
            self._soak._say(f"  no session: {error}")
            self._soak._all_free(job, RankSet(job.ranks))
            return
        finally:
            is_over.set()
            killer.join()
        try:
            if victims:
                root = session._session.transport.overlay.root
                # An aggregator that joined before there was a tree was replaced with all others.
                node = next((n for n, each in root.known.items() if each.pid == victims[0]), None)
                self._soak._say(f"  node {node}")
                # An aggregator that was gone before the ranks were shared out has none.
                share = root.shares.get(node) if node is not None else None
                self._soak._until_lost(session, RankSet() if share is None else share.ranks)
                self._soak._others_answer(session, self._soak._state(session)["lost"])
                self._soak._agrees(session, job)
                self._soak._reattach(session, self._soak._state(session)["lost"])
            self._soak._others_answer(session, RankSet())
            self._soak._agrees(session, job)
        finally:
            session.close()
        self._soak._all_free(job, RankSet(job.ranks))

    def _end_job(self, job: Job) -> None:
        session = self._soak._attach(job)
        try:
            if self._random.random() < 0.5:
                session.continue_(wait=False)
            self._soak._kill_job(job)
            state = self._soak._state(session)
            # PGDB notices the death of a rank that is stopped under GDB only when it is asked.
            self._soak._wait(
                lambda: not session.evaluate("1", timeout_s=5).values,
                f"nobody answers any longer: {state}",
            )
        finally:
            begun = time.monotonic()
            session.close()
        self._soak._in_time(begun, "closed", 2 * LEAVE_S)

    def _end_rank(self, job: Job, order: bytes) -> None:
        """End a rank by itself, or by a signal, during a command."""
        session = self._soak._attach(job)
        try:
            running = self._soak._running_in_storm(session)
            rank = self._random.choice(list(running))
            if order:
                self._soak._orders.give(rank, order)
            else:
                os.kill(job.ranks[rank], signal.SIGKILL)
            crashes = order == b"s"
            state = "stopped" if crashes else "exited"
            self._soak._wait(
                lambda: rank in self._soak._state(session)[state], f"[{rank}] has {state}"
            )
            # The launcher may end other ranks, but no command waits for them in vain.
            answer = session.evaluate("1", timeout_s=DEADLINE_S)
            if late := answer.missing.late:
                raise Wrong(f"[{late}] do not answer beside [{rank}], which has {state}")
            if crashes:
                self._soak._kill_job(job)
        finally:
            begun = time.monotonic()
            session.close()
        self._soak._in_time(begun, "closed", 2 * LEAVE_S)
        self._soak._wait(
            lambda: not all(map(is_alive, job.ranks.values())), f"the process of [{rank}] has gone"
        )

    def _close_with_hung(self, job: Job) -> None:
        session = self._soak._attach(job)
        try:
            if self._random.random() < 0.5:
                session.break_at(self._soak._place)
                session.continue_(wait=False)
            victim = self._random.choice(list(self._soak._aggregators(session, job)))
            os.kill(victim, signal.SIGSTOP)
        finally:
            begun = time.monotonic()
            session.close()
        self._soak._in_time(begun, "closed", 3 * LEAVE_S)
        self._soak._all_free(job, RankSet(job.ranks))
