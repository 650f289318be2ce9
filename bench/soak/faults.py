"""Faults on one host: processes of PGDB's and of the job are killed, stopped, or end."""

from __future__ import annotations

import argparse
import contextlib
import errno
import os
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from bench.soak.ends import SessionEnds
from bench.soak.groups import GroupFaults
from bench.soak.noting import DEADLINE_S, Impossible, Wrong
from bench.soak.processes import words
from bench.soak.running import GRACE_S, LEAVE_S, NEVER, Soak
from pgdb.errors import PgdbError
from pgdb.frontend.api.breakpoint_numbers import last_made
from pgdb.frontend.startup.sync import Session
from pgdb.ranks import RankSet
from pgdb.records import Stop
from tests.fakes.clock import YEARS_38_S, set_clock
from tests.support.jobs import Job
from tests.support.processes import command_of, is_alive, parent_of, processes_with, status
from tests.support.programs import Builder
from tests.support.terminal import MARK, Terminal

HITS = 5
"""Number of times in a row that all ranks reach a breakpoint."""
CLOCK, DISK = "PGDB_SOAK_CLOCK", "PGDB_SOAK_DISK"
"""Environment variables that name the file for the clock, and the file system of our own."""
PLACES = ("TMPDIR", "HOME", "XDG_RUNTIME_DIR", "XDG_CACHE_HOME", "XDG_STATE_HOME")
"""Environment variables of directories on that file system."""


class OneHost(Soak):
    """The steps, on jobs of this machine."""

    def __init__(self, arguments: argparse.Namespace, builder: Builder) -> None:
        super().__init__(arguments, builder)
        groups = GroupFaults(self, self._random)
        self._faults = {
            "aggregator killed: leaf": lambda s, j: self._kill_aggregator(s, j, "leaf"),
            "aggregator killed: middle": lambda s, j: self._kill_aggregator(s, j, "middle"),
            "aggregator killed: root": lambda s, j: self._kill_aggregator(s, j, "root"),
            "two aggregators killed": self._kill_two,
            "all aggregators killed": self._kill_all,
            "aggregator stands still": self._pause_aggregator,
            "anchor killed": self._kill_anchor,
            "launcher killed": self._kill_launcher,
            "GDB killed": self._kill_gdb,
            "nursery killed": self._kill_nursery,
            "GDB hangs": self._hang_gdb,
            "GDB answers late": self._pause_gdb,
            "GDB does without end": self._never_return,
            "rank executes a program": self._execute,
            "interrupt in a storm, and detach": self._interrupt_storm,
            "all at a breakpoint at once": self._hit_at_once,
            "children forked while commands run": self._fork,
            "clock set": self._set_clock,
            "disk full": self._fill_disk,
            **groups.all,
        }
        self._ends = {
            **SessionEnds(self, self._random).all,
            "disk full from the start": self._run_on_full_disk,
            **groups.ends,
        }

    def _kill_them(self, session: Session, pids: dict[int, RankSet]) -> RankSet:
        ranks = RankSet.union(pids.values())
        # A breakpoint with a condition that all ranks reach all the time is in their code as well.
        made = 0
        is_hot = self._random.random() < 0.25 and bool(self._state(session)["stopped"])
        if is_hot:
            stopped = session.ranks(self._state(session)["stopped"])
            # Ranks in motion run meanwhile and may not get it; they have breakpoints of their own.
            made = last_made(stopped.break_at("hit", condition=NEVER).classes)
            stopped.continue_(wait=False)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self._until_lost(session, ranks)
        if made:
            # A breakpoint is not restored in time where the GDB itself is killed (see
            # docs/reference/faults.md).
            session.delete(made)
        return ranks

    def _kill_aggregator(self, session: Session, job: Job, which: str) -> RankSet:
        # Aggregators are ordered by their ranks, which are shared out in the order of their
        # numbers.
        found = sorted(self._aggregators(session, job).items(), key=lambda each: each[1].first)
        pid, ranks = {"root": found[0], "leaf": found[-1], "middle": found[len(found) // 2]}[which]
        return self._kill_them(session, {pid: ranks})

    def _kill_two(self, session: Session, job: Job) -> RankSet:
        found = list(self._aggregators(session, job).items())
        if len(found) < 2:
            raise Impossible
        return self._kill_them(session, dict(self._random.sample(found, 2)))

    def _kill_all(self, session: Session, job: Job) -> RankSet:
        return self._kill_them(session, self._aggregators(session, job))

    def _pause_aggregator(self, session: Session, job: Job) -> RankSet:
        pid, ranks = self._random.choice(list(self._aggregators(session, job).items()))
        before = self._state(session)["live"]
        os.kill(pid, signal.SIGSTOP)
        try:
            answer = session.evaluate("1", timeout_s=self._random.choice([0.2, 1.0]))
            if not ranks & self._state(session)["stopped"] <= answer.missing.late:
                raise Wrong(f"[{ranks}] cannot answer, and are not reported as late")
        finally:
            os.kill(pid, signal.SIGCONT)
        self._wait(lambda: before <= self._state(session)["live"], "all are there still")
        return RankSet()

    def _kill_anchor(self, session: Session, job: Job) -> RankSet:
        found = self._aggregators(session, job)
        pid, ranks = self._random.choice(list(found.items()))
        launcher = self._launcher_of(pid)
        others = [each for each in found if launcher and self._launcher_of(each) == launcher]
        os.kill(parent_of(pid), signal.SIGKILL)
        self._wait(lambda: ranks <= self._state(session)["lost"], f"[{ranks}] are lost")
        # Most launchers then end all other ranks as well, which takes time.
        if self._mpi.name.startswith("openmpi"):
            self._wait(lambda: not any(map(is_alive, others)), "the launcher ends the others")
        return session.set

    @staticmethod
    def _launcher_of(pid: int) -> int:
        """Return the child of ours that is an ancestor of a process, 0 if it is gone."""
        while parent_of(pid) not in (os.getpid(), 0, 1):
            pid = parent_of(pid)
        return pid if parent_of(pid) == os.getpid() else 0

    def _kill_launcher(self, session: Session, job: Job) -> RankSet:
        launcher = self._launcher_of(self._random.choice(list(self._aggregators(session, job))))
        if not launcher:
            raise Impossible  # it was killed before
        os.kill(launcher, signal.SIGKILL)
        return session.set

    def _gdb_of_some(self, session: Session, job: Job) -> tuple[int, int]:
        state = self._state(session)
        # Without --guard a rank that a step has stopped is lost (see
        # docs/reference/faults.md).
        stepped = RankSet.union(
            each.ranks
            for each in session._session.state.latest(state["stopped"])
            if isinstance(each.record, Stop) and each.record.reason == "end-stepping-range"
        )
        if not (candidates := state["live"] - stepped):
            session.ranks(stepped).continue_(wait=False)
            candidates = stepped
        rank = self._random.choice(list(candidates))
        where = "running" if rank in state["running"] else "stopped"
        self._say(f"  [{rank}] is {where}: {words(job.ranks[rank])}")
        return rank, int(status(job.ranks[rank], "TracerPid"))

    def _kill_gdb(self, session: Session, job: Job) -> RankSet:
        rank, gdb = self._gdb_of_some(session, job)
        os.kill(gdb, signal.SIGKILL)
        self._wait(lambda: rank in self._state(session)["lost"], f"[{rank}] is lost")
        return RankSet([rank])

    def _hang_gdb(self, session: Session, job: Job) -> RankSet:
        rank, gdb = self._gdb_of_some(session, job)
        os.kill(gdb, signal.SIGSTOP)
        answer = session.evaluate("1", timeout_s=0.5)
        if rank not in (answer.missing.late | answer.missing.running).__iter__():
            raise Wrong(f"[{rank}] cannot answer, and is reported as {answer.missing}")
        os.kill(gdb, signal.SIGKILL)
        self._wait(lambda: rank in self._state(session)["lost"], f"[{rank}] is lost")
        return RankSet([rank])

    def _pause_gdb(self, session: Session, job: Job) -> RankSet:
        stopped = self._state(session)["stopped"]
        if not stopped:
            raise Impossible
        rank = self._random.choice(list(stopped))
        gdb = int(status(job.ranks[rank], "TracerPid"))
        os.kill(gdb, signal.SIGSTOP)
        try:
            answer = session.evaluate("1", timeout_s=self._random.choice([0.2, 0.5, 1.0]))
            if not answer.missing.late >= RankSet([rank]):
                raise Wrong(f"[{rank}] cannot answer, and is reported as {answer.missing}")
        finally:
            os.kill(gdb, signal.SIGCONT)
        self._wait(lambda: rank in session.evaluate("1").values, f"[{rank}] answers again")
        return RankSet()

    def _never_return(self, session: Session, job: Job) -> RankSet:
        """Make a GDB call a function that does not return, perhaps for a condition, or compute."""
        stopped = self._state(session)["stopped"]
        if not stopped:
            raise Impossible
        rank = self._random.choice(list(stopped))
        one = session.ranks(RankSet([rank]))
        way = self._random.choice(["call", "condition", "loop"])
        then = self._random.choice(["interrupt", "reattach"])
        self._say(f"  [{rank}] {way}, {then}")
        if way == "call":
            one.evaluate("(int)pause()", timeout_s=0.3)
        elif way == "loop":
            one.script(["python", "while True: pass", "end"], timeout_s=0.3)
        else:
            one.break_at("hit", condition="(int)pause()").check()
            one.continue_(timeout_s=1.0)
        if then == "interrupt":
            one.interrupt(timeout_s=DEADLINE_S)
        else:
            one.reattach(timeout_s=DEADLINE_S)
        if way == "condition":
            session.delete(session.last_breakpoint)
        self._wait(lambda: rank in one.evaluate("6 * 7").values, f"[{rank}] answers again")
        return RankSet()

    def _execute(self, session: Session, job: Job) -> RankSet:
        running = self._running_in_storm(session)
        rank = self._random.choice(list(running))
        self._orders.give(rank, b"e")
        self._wait(lambda: self._orders.is_obeyed(rank), f"[{rank}] has executed the program")
        session.ranks(running).interrupt(timeout_s=DEADLINE_S)
        if missed := running - self._state(session)["stopped"]:
            raise Wrong(f"[{missed}] were interrupted and have not stopped")
        self._go_on(session, running)
        return RankSet()

    def _fork(self, session: Session, job: Job) -> RankSet:
        running = self._running_in_storm(session)
        ranks = self._some(running)
        for rank in ranks:
            self._orders.give(rank, b"f")
        while not all(self._orders.answer(rank) in b"\0F" for rank in ranks):
            self._others_answer(session, RankSet())
        session.ranks(running).interrupt(timeout_s=DEADLINE_S)
        if failed := [rank for rank in ranks if not self._orders.is_obeyed(rank)]:
            raise Wrong(f"children of {failed} have not ended as they should")
        self._go_on(session, running)
        return RankSet()

    def _set_clock(self, session: Session, job: Job) -> RankSet:
        """Set the clock, until it is set again."""
        if CLOCK not in os.environ:
            raise Impossible
        step_s = self._random.choice([0, 1, 60, 3600, YEARS_38_S])
        self._say(f"  by {step_s} s")
        set_clock(Path(os.environ[CLOCK]), step_s)
        for pid, line in self._marked_processes().items():
            # Some processes of the launcher are linked statically, or are ending.
            if "pgdb.backend" in line and "clock.so" not in Path(f"/proc/{pid}/maps").read_text():
                raise Wrong(f"{pid} has a clock of its own: {line}")
        for _ in range(3):
            self._command(session)
        begun = time.monotonic()
        stopped = self._state(session)["stopped"]
        if stopped:
            # Timers expire when they are due, and not earlier.
            rank = self._random.choice(list(stopped))
            gdb = int(status(job.ranks[rank], "TracerPid"))
            os.kill(gdb, signal.SIGSTOP)
            try:
                answer = session.evaluate("1", timeout_s=1.0)
            finally:
                os.kill(gdb, signal.SIGCONT)
            self._in_time(begun, "a late answer is reported as late", DEADLINE_S)
            if rank not in answer.missing.late or time.monotonic() - begun < 1.0:
                raise Wrong(f"[{rank}] cannot answer in 1 s, and is reported as {answer.missing}")
        return RankSet()

    @contextlib.contextmanager
    def _full_disk(self) -> Iterator[Path]:
        disk = self._disk()
        try:
            self._fill(disk)
            self._say("  full")
            yield disk
        finally:
            (disk / "full").unlink(missing_ok=True)

    @staticmethod
    def _fill(disk: Path) -> None:
        with contextlib.suppress(OSError), (disk / "full").open("ab", buffering=0) as file:
            while file.write(bytes(1 << 16)):
                pass

    @staticmethod
    def _disk() -> Path:
        if DISK not in os.environ:
            raise Impossible
        return Path(os.environ[DISK])

    def _tidy(self) -> None:
        if DISK in os.environ:
            kept = Path(os.environ["XDG_CACHE_HOME"])
            for each in Path(os.environ[DISK]).iterdir():
                if each.is_dir() and each != kept:
                    shutil.rmtree(each, ignore_errors=True)
                elif each != kept:
                    each.unlink(missing_ok=True)

    def _fill_disk(self, session: Session, job: Job) -> RankSet:
        with self._full_disk() as disk:
            for _ in range(3):
                self._command(session)
                self._agrees(session, job)
            path = disk / "saved.pgdb"
            # Some processes may be gone meanwhile, such as children of an aggregator that has
            # ended.
            self._fill(disk)
            try:
                session.save(path)
            except (OSError, PgdbError) as error:
                if os.strerror(errno.ENOSPC) not in str(error):
                    raise
            else:
                raise Wrong("a recording was written where there is no room")
            if left := [each.name for each in disk.iterdir() if "saved" in each.name]:
                raise Wrong(f"of a recording there is left: {left}")
            rank, gdb = self._gdb_of_some(session, job)
            os.kill(gdb, signal.SIGKILL)
            self._wait(lambda: rank in self._state(session)["lost"], f"[{rank}] is lost")
            self._agrees(session, job)
            self._reattach(session, RankSet([rank]))
        session.save(path)
        path.unlink()
        return RankSet()

    def _run_on_full_disk(self, job: Job) -> None:
        self._disk()
        if self._random.random() < 0.5:
            # The same as after a start of the system.
            shutil.rmtree(os.environ["XDG_CACHE_HOME"], ignore_errors=True)
        with self._full_disk():
            session = self._attach(job)
            try:
                for _ in range(3):
                    self._command(session)
                    self._agrees(session, job)
            finally:
                session.close()
        self._all_free(job, RankSet(job.ranks))

    def _running_in_storm(self, session: Session) -> RankSet:
        """Let some ranks run that reach a breakpoint all the time; return them."""
        stopped = self._state(session)["stopped"]
        if not stopped:
            raise Impossible
        ranks = self._some(stopped)
        session.ranks(ranks).break_at("hit", condition=NEVER)
        session.ranks(ranks).continue_(wait=False)
        return ranks

    def _interrupt_storm(self, session: Session, job: Job) -> RankSet:
        ranks = self._running_in_storm(session)
        session.ranks(ranks).interrupt(timeout_s=DEADLINE_S)
        session.ranks(ranks).detach()
        self._all_free(job, ranks)
        self._reattach(session, ranks)
        self._go_on(session, ranks)
        return RankSet()

    @staticmethod
    def _go_on(session: Session, ranks: RankSet) -> None:
        """Let ranks run on without their breakpoint.

        GDB may be stepping them over it. Without --guard nothing can save them if their GDB is
        killed then, see docs/reference/faults.md.
        """
        session.delete(session.last_breakpoint)
        session.ranks(ranks).continue_(wait=False)

    def _hit_at_once(self, session: Session, job: Job) -> RankSet:
        session.interrupt(timeout_s=DEADLINE_S)
        session.break_at("hit")
        number, live = session.last_breakpoint, self._state(session)["live"]
        for _ in range(HITS):
            answer = session.ranks(live).continue_(timeout_s=DEADLINE_S)
            there = RankSet.union(
                each.ranks
                for each in answer
                if isinstance(each.record, Stop) and each.record.breakpoint == number
            )
            if there != live:
                raise Wrong(f"[{live - there}] have not come to the breakpoint: {answer.missing}")
        session.delete(number)
        return RankSet()

    def _kill_nursery(self, session: Session, job: Job) -> RankSet:
        _, gdb = self._gdb_of_some(session, job)
        nursery = parent_of(gdb)
        if "-i=mi3" not in command_of(nursery):
            raise Impossible  # it was killed before, or there was none
        os.kill(nursery, signal.SIGKILL)
        return RankSet()

    def _kill_job(self, job: Job) -> None:
        for pid in self._random.sample(
            list(job.ranks.values()), 1 if job.pid % 2 else len(job.ranks)
        ):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._wait(
            lambda: job.process.poll() is not None or not any(map(is_alive, job.ranks.values())),
            "the job has ended",
        )

    def _nothing_left(self, terminal: Terminal, job: Job) -> None:
        """Check that a session in a terminal, which has ended, leaves nothing but the job."""
        mark = f"{MARK}={terminal.mark}"
        self._wait(lambda: not processes_with(mark), "nothing of ours is left", GRACE_S + LEAVE_S)
        self._all_free(job, RankSet(job.ranks))
