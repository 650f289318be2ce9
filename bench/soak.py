"""Random commands, stops and faults on a real job; after each, what PGDB shows is held against it.

    python bench/soak.py [--seed N] [--minutes M | --steps N] [--ranks N] [--hosts N]
                         [--only FAULT ...] [--without FAULT ...]

A job of `storm` runs on this machine, under sessions that come and go. Each step is a command, or a
fault: something of ours is killed, stopped for a while, or ended with all it has. After every step
the state that PGDB shows of each rank is compared with /proc: one that is stopped is stopped by its
GDB, one that runs is traced and runs, one that is lost or let go is traced by nobody, and nothing
of ours is in the code of any but the running ones. What a fault does not concern has to answer, and
what was lost comes back by `reattach`. No rank ends by any of it. After every session nothing of
ours is left, and we have as many descriptors as before. What has been tried least is tried soonest.

With --hosts the job is on several hosts, network namespaces of this machine (as root), and the
faults are hosts that are cut off, for less or for longer than it takes until they count as lost and
until they let go of their ranks.

Prints a table of the faults with what came of them, also when Ctrl-C or SIGTERM ends it; the status
is 1 if anything was not as it is to be. The same seed takes the same steps, though not in the same
moments.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

# The tests' jobs are no part of what is installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pgdb
from pgdb.frontend.session import Told
from pgdb.frontend.sync import Session
from pgdb.ranks import RankSet
from pgdb.records import Stop
from tests.support.hosts import several_hosts
from tests.support.programs import (
    Builder,
    Job,
    Program,
    command_of,
    find_mpi,
    is_alive,
    parent_of,
    processes_with,
    run_job,
    status,
    wait_until,
)
from tests.support.terminal import MARK, PGDB, PROMPT, Terminal, end_marked, foreign_code

DEADLINE_S = 60.0
LEAVE_S = 10.0
"""Nothing of ours is left so soon after a session."""
LATE = 5
"""What has not come so many times later than it should never comes."""
START_S = 600.0
GRACE_S = 5.0
LONG_GRACE_S = 120.0
WITHIN_GRACE = "host cut off for less than the grace time"
BEYOND_GRACE = "host cut off for longer than the grace time"
SHORT_CUT_S = 6.0
STEPS = "attached"
"""A session of steps, among the kinds of session."""
STEPS_PER_SESSION = 20
HEARD = 300
"""So much of what a session has told is shown with --verbose when something is wrong."""
NEVER = "hit_count < 0"
RSS_GROWTH_BYTES = 64 << 20


class Wrong(AssertionError):
    """What was found is not as it is to be."""


class Impossible(Exception):
    """There is nothing now that this fault could befall."""


@dataclass
class Outcome:
    """What came of one kind of fault."""

    tries: int = 0
    named: int = 0
    """All ranks concerned were named, all others answered, and the states agreed."""
    mended: int = 0
    mends: int = 0
    worst_s: float = 0.0
    """Longest time until all that was to be seen of it was seen."""
    wrong: list[str] = field(default_factory=list)


def descriptors(pid: int | str) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_bytes(pid: int | str) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measured() -> tuple[int, int]:
    """Return how many descriptors and bytes of memory we have."""
    return descriptors("self"), resident_bytes("self")


def is_free(pid: int) -> bool:
    """Return whether a process runs with nobody at it and nothing in its code."""
    if status(pid, "TracerPid") != "0" or status(pid, "State")[0] not in "RSD":
        return False
    return not foreign_code(pid)


class Soak:
    """The steps, on one job after the other."""

    def __init__(self, arguments: argparse.Namespace, builder: Builder) -> None:
        self._random = random.Random(arguments.seed)
        self._arguments = arguments
        self._builder = builder
        self._mpi = find_mpi(arguments.mpi)
        self._program: Program = builder.build(self._mpi, "storm.c")
        self._place = self._program.at("done")
        self.outcomes: dict[str, Outcome] = defaultdict(Outcome)
        self.steps = self.sessions = self.jobs = 0
        self.grown: list[str] = []
        self.sizes_bytes: list[int] = []  # of ourselves, after each session
        self.late: list[str] = []
        self._end_s = time.monotonic() + 60 * arguments.minutes
        self._mark = ""
        self._grace_s = GRACE_S
        self.baseline: tuple[int, int] | None = None
        self._noted_error: Exception | None = None
        self._heard: deque[str] = deque(maxlen=HEARD)
        if arguments.verbose:
            self._listen()
        self._faults: dict[str, Callable[[Session, Job], RankSet]] = {
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
        }
        self._ends: dict[str, Callable[[Job], None]] = {
            "front end killed": lambda job: self._end_front_end(job, signal.SIGKILL),
            "terminal gone": lambda job: self._end_front_end(job, None),
            "front end terminated": lambda job: self._end_front_end(job, signal.SIGTERM),
            "job ends during attach": self._end_job_in_attach,
            "job ends": self._end_job,
            "closed with one that hangs": self._close_with_hung,
        }

    # -- what is run ---------------------------------------------------------------------------

    def run(self) -> None:
        only, without = self._arguments.only, self._arguments.without
        for known in (self._faults, self._ends):
            for name in list(known):
                if name in without or (only and name not in only):
                    del known[name]
        while self._goes_on():
            self.jobs += 1
            with run_job(self._builder, self._line(), self._program, self._arguments.ranks) as job:
                while self._goes_on() and self._is_whole(job):
                    # An end takes a session of its own.
                    name = self._draw([*([STEPS] if self._faults else []), *self._ends])
                    with self._marked():
                        if name == STEPS:
                            self._steps_of_session(job)
                        else:
                            self.steps += 1
                            with self._noted(name):
                                self._ends[name](job)

    def _line(self) -> list[str]:
        return self._mpi.line(self._arguments.ranks, self._program)

    @staticmethod
    def _is_whole(job: Job) -> bool:
        return job.process.poll() is None and all(map(is_alive, job.ranks.values()))

    def _goes_on(self) -> bool:
        is_time_left = time.monotonic() < self._end_s
        return is_time_left and bool(self.steps < self._arguments.steps)

    def _draw(self, names: Iterable[str]) -> str:
        """Return one of the names; the seldomer it was tried so far, the likelier."""
        tries = {name: self.outcomes[name].tries for name in names}
        weights = [max(tries.values()) - each + 1 for each in tries.values()]
        (name,) = self._random.choices(list(tries), weights)
        return name

    def _steps_of_session(self, job: Job) -> None:
        with self._noted(STEPS):
            session = self._attach(job)
            self._agrees(session, job)
        done = False
        try:
            aggregators: dict[int, int] = {}
            for _ in range(STEPS_PER_SESSION):
                if not self._goes_on():
                    break
                self._step(session, job)
                self._watch_aggregators(session, job, aggregators)
            done = True
        except Exception as error:  # noqa: BLE001
            # The session is of no use any longer; its end is looked at all the same.
            self._say(f"session given up: {error}")
            if error is not self._noted_error:
                self.outcomes["in between"].wrong.append(traceback.format_exc())
        finally:
            with self._noted("closed" if done else "closed after a failure"):
                before = session.set
                session.close()
                self._all_free(job, before)

    def _step(self, session: Session, job: Job) -> None:
        self.steps += 1
        lost = self._state(session)["lost"]
        if lost and self._random.random() < 0.7:
            with self._noted("reattach of lost ranks"):
                self._reattach(session, lost)
                self._agrees(session, job)
            return
        if self._random.random() < 0.4 or not self._state(session)["live"]:
            with self._noted("commands"):
                self._command(session)
                self._agrees(session, job)
            return
        left = list(self._faults)
        while left:
            name = self._draw(left)
            left.remove(name)
            with contextlib.suppress(Impossible):
                self._fault(name, session, job)
                break

    def _fault(self, name: str, session: Session, job: Job) -> None:
        with self._noted(name) as outcome:
            concerned = self._faults[name](session, job)
            self._others_answer(session, concerned)
            self._agrees(session, job)
            self._say("  seen")
            if lost := self._state(session)["lost"]:
                outcome.mends += 1
                self._reattach(session, lost)
                self._agrees(session, job)
                outcome.mended += 1

    def _wait(self, holds: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
        """Wait until something holds; if that is too late it is noted, and wrong if it is never.

        The machine may be so busy that whatever is to be done has no turn.
        """
        begun = time.monotonic()
        try:
            wait_until(holds, what, deadline_s)
        except AssertionError:
            self._say(f"  late: {what}")
            try:
                wait_until(holds, what, (LATE - 1) * deadline_s)
            except AssertionError as error:
                raise Wrong(str(error)) from None
            self._in_time(begun, what, deadline_s)

    def _in_time(self, begun: float, what: str, deadline_s: float) -> None:
        """Note it if what has begun at a time has ended late."""
        if (took_s := time.monotonic() - begun) > LATE * deadline_s:
            raise Wrong(f"{what}, after {took_s:.1f} s")
        if took_s > deadline_s:
            self.late.append(
                f"step {self.steps}: {what}, after {took_s:.1f} s, not {deadline_s:g}, "
                f"with {os.getloadavg()[0]:.1f} processes for {os.cpu_count()} CPUs"
            )

    @contextlib.contextmanager
    def _noted(self, name: str) -> Iterator[Outcome]:
        outcome = self.outcomes[name]
        outcome.tries += 1
        begun = time.monotonic()
        try:
            yield outcome
        except (Impossible, KeyboardInterrupt):
            outcome.tries -= 1
            raise
        except Exception as error:
            self._noted_error = error
            words = str(error) if isinstance(error, Wrong) else traceback.format_exc()
            outcome.wrong.append(f"step {self.steps}: {words}")
            self._say(f"step {self.steps} {name}: WRONG {words}")
            self._say_all()
            raise
        else:
            outcome.named += 1
            took_s = time.monotonic() - begun
            outcome.worst_s = max(outcome.worst_s, took_s)
            self._say(f"step {self.steps} {name}: {took_s:.1f} s")

    def _say(self, text: str) -> None:
        if self._arguments.verbose:
            sys.stderr.write(f"{time.monotonic():.3f} {text}\n")
            sys.stderr.flush()

    def _listen(self) -> None:
        """Keep what PGDB logs."""
        handler = logging.Handler()
        handler.emit = lambda record: self._hear(record.getMessage())  # type: ignore[method-assign]
        logger = logging.getLogger("pgdb")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(handler)
        logger.propagate = False

    def _told(self, told: Told) -> None:
        self._hear(told)

    def _hear(self, what: object) -> None:
        self._heard.append(f"{time.monotonic():.3f} {what}"[:1000])

    def _say_all(self) -> None:
        """Say what the session has told, and what there is of ours."""
        for line in list(self._heard):
            self._say(f"    {line}")
        for pid, line in self._marked_processes().items():
            self._say(f"    {pid} below {parent_of(pid)}: {line[:150]}")

    @contextlib.contextmanager
    def _marked(self) -> Iterator[None]:
        """Mark all that is started, and see to it that nothing of that is left."""
        self.sessions += 1
        self._mark = os.environ[MARK] = uuid.uuid4().hex
        try:
            yield
        except Exception as error:  # noqa: BLE001
            self._say(f"given up: {error}")
        finally:
            del os.environ[MARK]
        try:
            self._wait(lambda: not self._marked_processes(), "nothing of ours is left", LEAVE_S)
        except Wrong as error:
            left = [line[:100] for line in self._marked_processes().values()]
            self.outcomes["what is left"].wrong.append(f"step {self.steps}: {error}: {left}")
            self._say(f"step {self.steps} WRONG {error}: {left}")
            self._say_all()
            end_marked(self._mark)
        self._watch_ourselves()

    def _marked_processes(self) -> dict[int, str]:
        return {
            pid: line
            for pid, line in processes_with(f"{MARK}={self._mark}").items()
            if pid != os.getpid()
        }

    def _watch_ourselves(self) -> None:
        now = measured()
        self.sizes_bytes.append(now[1])
        if self.sessions == 3:
            self.baseline = now
        if self.baseline is not None:
            if now[0] > self.baseline[0] + 2:
                self.grown.append(f"session {self.sessions}: {now[0]} descriptors")
            if now[1] > self.baseline[1] + RSS_GROWTH_BYTES:
                self.grown.append(f"session {self.sessions}: {now[1] >> 20} MiB")

    def _watch_aggregators(self, session: Session, job: Job, seen: dict[int, int]) -> None:
        """Compare the descriptors of each aggregator when it has all its GDBs."""
        state = self._state(session)
        if state["lost"] or state["free"]:
            return
        for pid in self._aggregators(session, job):
            now = descriptors(pid)
            if now > seen.setdefault(pid, now) + 4:
                self.grown.append(
                    f"step {self.steps}: aggregator {pid} has {now} descriptors, "
                    f"at first {seen[pid]}"
                )
                seen[pid] = now

    # -- what is compared ----------------------------------------------------------------------

    def _attach(self, job: Job) -> Session:
        self._heard.clear()
        fan_out = self._random.choice([1, 2, 32])
        nursery = self._random.random() < 0.7
        connect = self._random.random() < 0.25
        self._say(f"  {fan_out=}, {nursery=}, {connect=}, grace {self._grace_s:g} s")
        return pgdb.attach(
            job.pid,
            on_event=self._told,
            aggregators=self._arguments.aggregators,
            fan_out=fan_out,
            nursery=nursery,
            connect=connect,
            grace_s=self._grace_s,
            timeout_s=20,
            start_timeout_s=START_S,
        )

    def _state(self, session: Session) -> dict[str, RankSet]:
        found = {
            name: session.named_set(name) or RankSet()
            for name in ("running", "stopped", "exited", "lost")
        }
        found["live"] = found["running"] | found["stopped"]
        found["free"] = session.set - found["live"] - found["exited"] - found["lost"]
        return found

    def _agrees(self, session: Session, job: Job) -> None:
        """Wait until what PGDB shows is what /proc shows, for every rank."""

        def differing() -> dict[int, str]:
            state = self._state(session)
            found = {}
            for rank in session.set:
                (shown,) = (
                    name for name in ("running", "stopped", "exited", "lost", "free")
                    if rank in state[name]
                )  # fmt: skip
                if not self._is_as(job.ranks[rank], shown):
                    found[rank] = shown
            return found

        if dead := [rank for rank, pid in job.ranks.items() if not is_alive(pid)]:
            raise Wrong(f"the job's ranks {dead} have ended")
        try:
            self._wait(lambda: not differing(), "what is shown is so")
        except Wrong:
            found = [
                f"{rank} is shown {shown}: {_proc(job.ranks[rank])}"
                for rank, shown in differing().items()
            ]
            if found:
                raise Wrong("; ".join(found)) from None

    def _is_as(self, pid: int, shown: str) -> bool:
        try:
            if shown == "running":
                return status(pid, "TracerPid") != "0" and status(pid, "State")[0] in "RSDt"
            if shown == "stopped":
                is_held = status(pid, "TracerPid") != "0" and status(pid, "State")[0] == "t"
                return is_held and not foreign_code(pid)
            if shown == "exited":
                return not is_alive(pid)
            return is_free(pid)
        except OSError:
            return shown == "exited"

    def _others_answer(self, session: Session, concerned: RankSet) -> None:
        """See that everyone not concerned answers, if only that it runs."""
        others = session.set - concerned - self._state(session)["free"]

        def answered() -> RankSet:
            answer = session.evaluate("1 + 1")
            return RankSet(answer.values) | answer.missing.running

        self._wait(lambda: not others - answered(), f"[{others}] answer, who are not concerned")

    def _all_free(self, job: Job, ranks: RankSet) -> None:
        alive = [job.ranks[rank] for rank in ranks if is_alive(job.ranks[rank])]
        self._wait(lambda: all(map(is_free, alive)), "all ranks run on free", LEAVE_S)

    # -- commands ------------------------------------------------------------------------------

    def _some(self, ranks: RankSet) -> RankSet:
        members = list(ranks)
        return RankSet(self._random.sample(members, self._random.randint(1, len(members))))

    def _command(self, session: Session) -> None:
        state = self._state(session)
        kinds = ["look", "break", "info"]
        if state["stopped"]:
            kinds += ["go", "step", "to a breakpoint", "detach and back"]
        if state["running"]:
            kinds += ["interrupt"]
        kind = self._random.choice(kinds)
        self._say(f"  {kind}")
        ranks = self._some(state[{"interrupt": "running"}.get(kind, "stopped")] or session.set)
        view = session.ranks(ranks)
        match kind:
            case "look":
                looks: list[Callable[[], object]] = [
                    lambda: view.evaluate("hit_count"), view.backtrace, view.tree, view.locals,
                ]  # fmt: skip
                self._random.choice(looks)()
            case "break":
                session.break_at(self._place)
            case "info":
                view.breakpoints()
            case "go":
                view.continue_(wait=False)
            case "interrupt":
                view.interrupt(timeout_s=DEADLINE_S)
            case "step":
                self._random.choice([view.step, view.next])(timeout_s=DEADLINE_S)
            case "to a breakpoint":
                view.break_at("hit")
                number = session.last_breakpoint
                view.continue_(timeout_s=DEADLINE_S)
                session.delete(number)
            case "detach and back":
                view.detach()
                self._reattach(session, ranks)

    def _reattach(self, session: Session, ranks: RankSet) -> None:
        """Have *ranks* back; not always at once, while a launcher is ending what is left."""

        def are_back() -> bool:
            answer = session.ranks(ranks).reattach(timeout_s=DEADLINE_S)
            if left := self._state(session)["lost"] & ranks:
                self._say(f"  reattach again, [{left}] are not back: {answer.errors}")
            return not left

        self._wait(are_back, f"[{ranks}] are back")

    # -- faults --------------------------------------------------------------------------------

    def _aggregators(self, session: Session, job: Job) -> dict[int, RankSet]:
        """Return the ranks of each aggregator that has any, by its process.

        A GDB whose nursery was killed does not lead to its aggregator any longer.
        """
        overlay, live = session._session.overlay, self._state(session)["live"]
        nodes = {node: hello.pid for node, hello in overlay.nodes.items()}
        shares = overlay.root.shares
        return {pid: part for node, pid in nodes.items() if (part := shares[node].ranks & live)}

    def _kill_them(self, session: Session, pids: dict[int, RankSet]) -> RankSet:
        ranks = RankSet.union(pids.values())
        # One with a condition, that all come to all the time, is in their code as well then.
        is_hot = self._random.random() < 0.25 and bool(self._state(session)["stopped"])
        if is_hot:
            stopped = session.ranks(self._state(session)["stopped"])
            stopped.break_at("hit", condition=NEVER)
            stopped.continue_(wait=False)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self._wait(lambda: ranks <= self._state(session)["lost"], f"[{ranks}] are lost")
        self._say(f"  lost: [{ranks}]")
        # Those below come back by themselves.
        self._wait(
            lambda: self._state(session)["lost"] == ranks,
            f"all but [{ranks}] are back",
        )
        self._say("  the others are back")
        if is_hot:
            # One cannot be mended in time where the GDB itself is killed, see docs/faults.md.
            session.delete(session.last_breakpoint)
        return ranks

    def _kill_aggregator(self, session: Session, job: Job, which: str) -> RankSet:
        # By their ranks, which are shared out in the order of their numbers.
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
                raise Wrong(f"[{ranks}] cannot answer, and are not told to be late")
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
        # Most launchers end all others as well then, and that takes its time.
        if self._mpi.name.startswith("openmpi"):
            self._wait(lambda: not any(map(is_alive, others)), "the launcher ends the others")
        return session.set

    @staticmethod
    def _launcher_of(pid: int) -> int:
        """Return our own child that a process is below, 0 if that has gone."""
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
        # Without --guard nobody can help one that was stopped by a step, see docs/faults.md.
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
        self._say(f"  [{rank}] is {where}: {_proc(job.ranks[rank])}")
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
            raise Wrong(f"[{rank}] cannot answer, and is told as {answer.missing}")
        os.kill(gdb, signal.SIGKILL)
        self._wait(lambda: rank in self._state(session)["lost"], f"[{rank}] is lost")
        return RankSet([rank])

    def _kill_nursery(self, session: Session, job: Job) -> RankSet:
        _, gdb = self._gdb_of_some(session, job)
        nursery = parent_of(gdb)
        if "-i=mi3" not in command_of(nursery):
            raise Impossible  # it was killed before, or there was none
        os.kill(nursery, signal.SIGKILL)
        return RankSet()

    # -- ends ----------------------------------------------------------------------------------

    def _end_front_end(self, job: Job, how: signal.Signals | None) -> None:
        """Have a front end of its own end in the middle; None takes its terminal away."""
        options = ("--aggregators", self._arguments.aggregators, "--grace", 2)
        with Terminal(*PGDB, "attach", *options, job.pid) as terminal:
            terminal.expect(PROMPT)
            terminal.ask(f"break {self._place}")
            if self._random.random() < 0.5:
                terminal.ask("continue &")
            if how is None:
                terminal.hang_up()
            else:
                os.kill(terminal.pid, how)
            mark = f"{MARK}={terminal.mark}"
            self._wait(
                lambda: not processes_with(mark), "nothing of ours is left", GRACE_S + LEAVE_S
            )
            self._all_free(job, RankSet(job.ranks))

    def _end_job_in_attach(self, job: Job) -> None:
        process = subprocess.Popen(
            [*PGDB, "attach", "--batch", "--grace", "2", "-ex", "bt", str(job.pid)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        time.sleep(self._random.random() * 3.0)
        self._kill_job(job)
        try:
            told, _ = process.communicate(timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Wrong("pgdb does not end") from None
        if b"Traceback" in told or process.returncode < 0:
            raise Wrong(f"status {process.returncode}: {told.decode()}")

    def _end_job(self, job: Job) -> None:
        session = self._attach(job)
        try:
            if self._random.random() < 0.5:
                session.continue_(wait=False)
            self._kill_job(job)
            state = self._state(session)
            # What is stopped under GDB and killed is noticed when it is looked at.
            self._wait(
                lambda: not session.evaluate("1", timeout_s=5).values,
                f"nobody answers any longer: {state}",
            )
        finally:
            begun = time.monotonic()
            session.close()
        self._in_time(begun, "closed", 2 * LEAVE_S)

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

    def _close_with_hung(self, job: Job) -> None:
        session = self._attach(job)
        try:
            if self._random.random() < 0.5:
                session.break_at(self._place)
                session.continue_(wait=False)
            victim = self._random.choice(list(self._aggregators(session, job)))
            os.kill(victim, signal.SIGSTOP)
        finally:
            begun = time.monotonic()
            session.close()
        self._in_time(begun, "closed", 2 * LEAVE_S)
        self._all_free(job, RankSet(job.ranks))


class HostSoak(Soak):
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
        return self._mpi.line(self._arguments.ranks, self._program, hosts=self._hosts)

    def _attach(self, job: Job) -> Session:
        within, beyond = (self.outcomes[name].tries for name in (WITHIN_GRACE, BEYOND_GRACE))
        # A session has one grace time, which allows for one of the two.
        self._grace_s = LONG_GRACE_S if within < beyond else GRACE_S
        self._arguments.aggregators = self._random.choice([1, 2])  # of each host
        return super()._attach(job)

    def _told(self, told: Told) -> None:
        super()._told(told)
        if told.kind == "lost":
            self._lost |= told.ranks

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
        """Return hosts to cut off, and the ranks that the front end cannot reach then."""
        hosts = self._random.sample(self._hosts, self._random.choice([1, 1, 2]))
        # Who is cut off with the front end is alone with it.
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
                raise Wrong(f"[{ranks}] cannot answer, and are told as {answer.missing}")
            # TCP waits twice as long after each packet that was lost.
            time.sleep(SHORT_CUT_S * self._random.random())
        self._others_answer(session, RankSet())
        if self._lost or self._state(session)["live"] != before["live"]:
            raise Wrong(f"[{self._lost}] were lost")
        return RankSet()

    def _until_lost(self, session: Session, ranks: RankSet) -> None:
        self._wait(lambda: ranks <= self._state(session)["lost"], f"[{ranks}] are lost")
        self._say(f"  lost: [{ranks}]")
        self._wait(
            lambda: self._state(session)["lost"] == ranks,
            f"all but [{ranks}] are back",
        )
        self._say("  the others are back")
        self._others_answer(session, ranks)

    def _cut_within_grace(self, session: Session, job: Job) -> RankSet:
        if self._grace_s != LONG_GRACE_S:
            raise Impossible
        hosts, ranks = self._victims()
        before = self._state(session)
        ranks &= before["live"]
        with self._cut(hosts):
            self._until_lost(session, ranks)
            self._are_as_before(job, before, ranks)
        self._all_come_back(session, before)
        return RankSet()

    def _are_as_before(self, job: Job, before: dict[str, RankSet], ranks: RankSet) -> None:
        for kind in ("stopped", "running"):
            for rank in before[kind] & ranks:
                if not self._is_as(job.ranks[rank], kind):
                    raise Wrong(f"[{rank}] was {kind}, and is {_proc(job.ranks[rank])}")

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
            self._all_free(job, ranks)
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


def _run_on_hosts(arguments: argparse.Namespace) -> int:
    """Run this program again on the first of several hosts, and cut off those that it says."""
    ours, its = socket.socketpair()
    with several_hosts(arguments.hosts) as hosts:
        line = [sys.executable, __file__, *sys.argv[1:], "--links", its.fileno()]
        process = hosts.popen("h1", line, pass_fds=[its.fileno()])
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


def _proc(pid: int) -> str:
    try:
        return (
            f"{status(pid, 'State')}, TracerPid {status(pid, 'TracerPid')}, "
            f"foreign {foreign_code(pid)}"
        )
    except OSError as error:
        return str(error)


def _table(soak: Soak) -> str:
    lines = [
        "| fault or step | tries | as it is to be | mended by `reattach` | longest, s |",
        "|---|---|---|---|---|",
    ]
    for name, each in sorted(soak.outcomes.items()):
        mended = f"{each.mended} of {each.mends}" if each.mends else ""
        lines.append(f"| {name} | {each.tries} | {each.named} | {mended} | {each.worst_s:.1f} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1_000_000_000)
    parser.add_argument("--minutes", type=float, default=9.0)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--aggregators", type=int, default=4)
    parser.add_argument("--mpi", default="openmpi")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--without", action="append", default=[])
    parser.add_argument("--hosts", type=int, default=0)
    parser.add_argument("--links", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--verbose", action="store_true", help="tell every step on standard error")
    arguments = parser.parse_args()
    # SIGTERM as well, for one that runs in the background, where Ctrl-C is ignored.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if arguments.hosts and arguments.links < 0:
        return _run_on_hosts(arguments)
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="pgdb-soak-"))
    try:
        soak = (HostSoak if arguments.hosts else Soak)(arguments, Builder(folder))
        with contextlib.suppress(KeyboardInterrupt):  # enough of it
            soak.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    wrong = [f"{name}: {text}" for name, each in soak.outcomes.items() for text in each.wrong]
    took_min = (time.monotonic() - begun) / 60
    print(
        f"seed {arguments.seed}: {soak.steps} steps in {soak.sessions} sessions, "
        f"{took_min:.0f} minutes, {soak.jobs} jobs\n"
    )
    print(_table(soak))
    for when, (count, size) in {"first": soak.baseline or (0, 0), "last": measured()}.items():
        print(f"\nours at {when}: {count} descriptors, {size >> 20} MiB")
    if sizes := soak.sizes_bytes:
        ends = [len(sizes) * quarter // 4 - 1 for quarter in range(1, 5)]
        told = ", ".join(f"{sizes[max(0, end)] >> 20}" for end in ends)
        print(f"\nours after each quarter of the sessions: {told} MiB")
    for text in soak.late:
        print(f"\nlate: {text}")
    for text in (*wrong, *soak.grown):
        print(f"\nWRONG {text}")
    return 1 if wrong or soak.grown else 0


if __name__ == "__main__":
    sys.exit(main())
