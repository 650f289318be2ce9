"""Faults between hosts (network namespaces of this machine): they are cut off for a while."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.soak.noting import Impossible, Wrong
from bench.soak.processes import is_free, words
from bench.soak.running import GRACE_S, LEAVE_S, NEVER, Soak
from pgdb.frontend.api.notifications import Notification
from pgdb.frontend.startup.sync import Session
from pgdb.ranks import RankSet
from tests.support.hosts import several_hosts
from tests.support.jobs import Job
from tests.support.programs import Builder

ROOT = Path(__file__).resolve().parent.parent.parent
LONG_GRACE_S = 120.0
SHORT_CUT_S = 6.0
WITHIN_GRACE = "host cut off for less than the grace time"
BEYOND_GRACE = "host cut off for longer than the grace time"


class SeveralHosts(Soak):
    """The steps, on jobs of several hosts that are cut off for a while."""

    def __init__(self, arguments: argparse.Namespace, builder: Builder) -> None:
        super().__init__(arguments, builder)
        self._hosts = [f"h{number}" for number in range(1, arguments.hosts + 1)]
        self._links = socket.socket(fileno=arguments.links).makefile("rw")
        self._lost = RankSet()
        self._faults = {
            "host cut off for less than the loss time": self._cut_shortly,
            WITHIN_GRACE: self._cut_within_grace,
            BEYOND_GRACE: self._cut_beyond_grace,
            "aggregator stands still for longer than the loss time": self._pause_until_lost,
        }
        self._ends = {"closed with a host cut off": self._close_with_cut}

    def _line(self) -> list[str]:
        return self._mpi.line(
            self._arguments.ranks, self._program, *self._orders.arguments, hosts=self._hosts
        )

    def _attach(self, job: Job) -> Session:
        within, beyond = (self.outcomes[name].tries for name in (WITHIN_GRACE, BEYOND_GRACE))
        # A session has one grace time, which allows one of the two.
        self._grace_s = LONG_GRACE_S if within < beyond else GRACE_S
        self._arguments.aggregators = self._random.choice([1, 2])  # of each host
        return super()._attach(job)

    def _notify(self, notification: Notification) -> None:
        super()._notify(notification)
        if notification.kind == "lost":
            self._lost |= notification.ranks

    @contextlib.contextmanager
    def _cut(self, hosts: list[str]) -> Iterator[None]:
        self._say(f"  cut off: {hosts}")
        try:
            for host in hosts:
                self._set_link("cut", host)
            yield
        finally:
            for host in hosts:
                self._set_link("heal", host)
            self._say("  healed")

    def _set_link(self, how: str, host: str) -> None:
        self._links.write(f"{how} {host}\n")
        self._links.flush()
        if self._links.readline() != "done\n":
            raise KeyboardInterrupt  # who can do it has ended

    def _victims(self) -> tuple[list[str], RankSet]:
        """Return hosts to cut off, and the ranks that the front end then cannot reach."""
        hosts = self._random.sample(self._hosts, self._random.choice([1, 1, 2]))
        # A host that is cut off together with the front end is alone with it.
        gone = set(self._hosts[1:] if self._hosts[0] in hosts else hosts)
        each = self._arguments.ranks // len(self._hosts)
        ranks = range(self._arguments.ranks)
        return hosts, RankSet(rank for rank in ranks if self._hosts[rank // each] in gone)

    def _cut_shortly(self, session: Session, job: Job) -> RankSet:
        hosts, ranks = self._victims()
        before = self._state(session)
        ranks &= before["live"]
        self._lost = RankSet()
        with self._cut(hosts):
            answer = session.evaluate("1", timeout_s=1.0)
            if not ranks & before["stopped"] <= answer.missing.late:
                raise Wrong(f"[{ranks}] cannot answer, and are reported as {answer.missing}")
            # The length matters: TCP doubles its wait after each lost packet.
            self._let_pass(SHORT_CUT_S)
        self._others_answer(session, RankSet())
        if self._lost or self._state(session)["live"] != before["live"]:
            raise Wrong(f"[{self._lost}] were lost")
        return RankSet()

    def _cut_within_grace(self, session: Session, job: Job) -> RankSet:
        if self._grace_s != LONG_GRACE_S:
            raise Impossible
        hosts, ranks = self._victims()
        before = self._state(session)
        ranks &= before["live"]
        with self._cut(hosts):
            self._until_lost(session, ranks)
            self._others_answer(session, ranks)
            self._are_as_before(job, before, ranks)
        self._all_come_back(session, before)
        return RankSet()

    def _are_as_before(self, job: Job, before: dict[str, RankSet], ranks: RankSet) -> None:
        for kind in ("stopped", "running"):
            for rank in before[kind] & ranks:
                if not self._is_as(job.ranks[rank], kind):
                    raise Wrong(f"[{rank}] was {kind}, and is {words(job.ranks[rank])}")

    def _all_come_back(self, session: Session, before: dict[str, RankSet]) -> None:
        self._wait(lambda: not self._state(session)["lost"], "all are back by themselves")
        after = self._state(session)
        if after != before:
            raise Wrong(f"{after} after, {before} before")

    def _pause_until_lost(self, session: Session, job: Job) -> RankSet:
        before = self._state(session)
        pid, ranks = self._random.choice(list(self._aggregators(session, job).items()))
        os.kill(pid, signal.SIGSTOP)
        try:
            self._until_lost(session, ranks)
            self._others_answer(session, ranks)
            self._are_as_before(job, before, ranks)
        finally:
            # Its anchor may have ended it, after three times the loss time.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self._all_come_back(session, before)
        return RankSet()

    def _cut_beyond_grace(self, session: Session, job: Job) -> RankSet:
        if self._grace_s != GRACE_S:
            raise Impossible
        hosts, ranks = self._victims()
        ranks &= self._state(session)["live"]
        with self._cut(hosts):
            self._until_lost(session, ranks)
            self._others_answer(session, ranks)
            # The grace time, and a little longer for nodes that the front end has to call.
            self._wait(lambda: all(is_free(job.ranks[rank]) for rank in ranks), "all are free")
        return ranks

    def _close_with_cut(self, job: Job) -> None:
        session = self._attach(job)
        hosts, ranks = self._victims()
        try:
            if self._random.random() < 0.5:
                session.break_at("hit", condition=NEVER)
                session.continue_(wait=False)
        except BaseException:
            session.close()
            raise
        with self._cut(hosts):
            begun = time.monotonic()
            session.close()
            self._in_time(begun, "closed", 3 * LEAVE_S)
            self._all_free(job, RankSet(job.ranks) - ranks)
            if self._random.random() < 0.5 and self._grace_s == GRACE_S:
                self._wait(lambda: all(is_free(job.ranks[rank]) for rank in ranks), "all are free")
        self._all_free(job, RankSet(job.ranks))


def run_on_hosts(arguments: argparse.Namespace) -> int:
    """Run this program again on the first of several hosts, and cut off the hosts that it names."""
    ours, its = socket.socketpair()
    with several_hosts(arguments.hosts) as hosts:
        line = [sys.executable, "-m", "bench.soak", *sys.argv[1:], "--links", its.fileno()]
        process = hosts.popen("h1", line, pass_fds=[its.fileno()], cwd=ROOT)
        its.close()
        try:
            with ours, ours.makefile("rw") as words:
                for asked in words:
                    how, host = asked.split()
                    {"cut": hosts.cut, "heal": hosts.heal}[how](host)
                    words.write("done\n")
                    words.flush()
        except KeyboardInterrupt:
            process.terminate()
        return process.wait()
