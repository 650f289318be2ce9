"""Random commands, stops and faults on a real job; after each, what PGDB shows is held against it.

    python bench/soak.py [--seed N] [--minutes M | --steps N] [--ranks N] [--only FAULT ...]

A job of `storm` runs on this machine, under sessions that come and go. Each step is a command, or a
fault: something of ours is killed, stopped for a while, or ended with all it has. After every step
the state that PGDB shows of each rank is compared with /proc: one that is stopped is stopped by its
GDB, one that runs is traced and runs, one that is lost or let go is traced by nobody, and nothing
of ours is in the code of any but the running ones. What a fault does not concern has to answer, and
what was lost comes back by `reattach`. After every session nothing of ours is left, and we have as
many descriptors as before.

Prints a table of the faults with what came of them, also when Ctrl-C ends it; the status is 1 if
anything was not as it is to be. The same seed takes the same steps, though not in the same moments.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

# The tests' jobs are no part of what is installed.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import pgdb
from pgdb.frontend.sync import Session
from pgdb.ranks import RankSet
from pgdb.records import Stop
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
GRACE_S = 5.0
COMMANDS_PER_SESSION = 40
NEVER = "hit_count < 0"
RSS_GROWTH_BYTES = 64 << 20


class Wrong(AssertionError):
    """What was found is not as it is to be."""


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


def wait(holds: Callable[[], object], what: str, deadline_s: float = DEADLINE_S) -> None:
    try:
        wait_until(holds, what, deadline_s)
    except AssertionError as error:
        raise Wrong(str(error)) from None


def descriptors(pid: int | str) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def resident_bytes(pid: int | str) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


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
        self.steps = self.sessions = 0
        self.grown: list[str] = []
        self._end_s = time.monotonic() + 60 * arguments.minutes
        self._mark = ""
        self._baseline: tuple[int, int] | None = None
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
        if arguments.only:
            self._faults = {k: v for k, v in self._faults.items() if k in arguments.only}
            self._ends = {k: v for k, v in self._ends.items() if k in arguments.only}

    # -- what is run ---------------------------------------------------------------------------

    def run(self) -> None:
        while self._goes_on():
            line = self._mpi.line(self._arguments.ranks, self._program)
            with run_job(self._builder, line, self._program, self._arguments.ranks) as job:
                while self._goes_on() and self._is_whole(job):
                    self._one_session(job)

    @staticmethod
    def _is_whole(job: Job) -> bool:
        return job.process.poll() is None and all(map(is_alive, job.ranks.values()))

    def _goes_on(self) -> bool:
        is_time_left = time.monotonic() < self._end_s
        return is_time_left and bool(self.steps < self._arguments.steps)

    def _one_session(self, job: Job) -> None:
        ends = [name for name in self._ends if self._random.random() < 0.5]
        if self._faults:
            with self._marked():
                self._steps_of_session(job)
        for name in ends[:2]:
            if self._goes_on():
                with self._marked(), self._noted(name):
                    self._ends[name](job)
            if not self._is_whole(job):
                return

    def _steps_of_session(self, job: Job) -> None:
        session = self._attach(job)
        done = False
        try:
            aggregators: dict[int, int] = {}
            for _ in range(COMMANDS_PER_SESSION):
                if not self._goes_on():
                    break
                self._step(session, job)
                self._watch_aggregators(session, job, aggregators)
            done = True
        except Exception as error:  # noqa: BLE001
            # The session is of no use any longer; its end is looked at all the same.
            self._say(f"session given up: {error}")
            if not isinstance(error, Wrong):
                self.outcomes["commands"].wrong.append(traceback.format_exc())
        finally:
            before = session.set
            session.close()
        with self._noted("closed" if done else "closed after a failure"):
            self._all_free(job, before)

    def _step(self, session: Session, job: Job) -> None:
        self.steps += 1
        lost = self._state(session)["lost"]
        if lost and self._random.random() < 0.7:
            with self._noted("reattach of lost ranks"):
                self._reattach(session, lost)
                self._agrees(session, job)
            return
        if self._random.random() < 0.5 or not self._state(session)["live"]:
            with self._noted("commands"):
                self._command(session)
                self._agrees(session, job)
            return
        name = self._random.choice(list(self._faults))
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

    @contextlib.contextmanager
    def _noted(self, name: str) -> Iterator[Outcome]:
        outcome = self.outcomes[name]
        outcome.tries += 1
        begun = time.monotonic()
        try:
            yield outcome
        except Exception as error:
            words = str(error) if isinstance(error, Wrong) else traceback.format_exc()
            outcome.wrong.append(f"step {self.steps}: {words}")
            self._say(f"step {self.steps} {name}: WRONG {words}")
            raise
        else:
            outcome.named += 1
            took_s = time.monotonic() - begun
            outcome.worst_s = max(outcome.worst_s, took_s)
            self._say(f"step {self.steps} {name}: {took_s:.1f} s")

    def _say(self, text: str) -> None:
        if self._arguments.verbose:
            sys.stderr.write(text + "\n")
            sys.stderr.flush()

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
            wait(lambda: not self._marked_processes(), "nothing of ours is left", LEAVE_S)
        except Wrong as error:
            left = [line[:100] for line in self._marked_processes().values()]
            self.outcomes["what is left"].wrong.append(f"step {self.steps}: {error}: {left}")
            end_marked(self._mark)
        self._watch_ourselves()

    def _marked_processes(self) -> dict[int, str]:
        return {
            pid: line
            for pid, line in processes_with(f"{MARK}={self._mark}").items()
            if pid != os.getpid()
        }

    def _watch_ourselves(self) -> None:
        now = descriptors("self"), resident_bytes("self")
        if self.sessions == 3:
            self._baseline = now
        if self._baseline is not None:
            if now[0] > self._baseline[0] + 2:
                self.grown.append(f"session {self.sessions}: {now[0]} descriptors")
            if now[1] > self._baseline[1] + RSS_GROWTH_BYTES:
                self.grown.append(f"session {self.sessions}: {now[1] >> 20} MiB")

    def _watch_aggregators(self, session: Session, job: Job, seen: dict[int, int]) -> None:
        """Compare the descriptors of each aggregator when it has all its GDBs."""
        state = self._state(session)
        if state["lost"] or state["free"]:
            return
        for pid in self._aggregators(session, job):
            now = descriptors(pid)
            if now > seen.setdefault(pid, now) + 4:
                raise Wrong(f"aggregator {pid} has {now} descriptors, at first {seen[pid]}")

    # -- what is compared ----------------------------------------------------------------------

    def _attach(self, job: Job) -> Session:
        return pgdb.attach(
            job.pid,
            aggregators=self._arguments.aggregators,
            fan_out=self._random.choice([1, 2, 32]),
            nursery=self._random.random() < 0.7,
            connect=self._random.random() < 0.25,
            grace_s=GRACE_S,
            timeout_s=20,
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

        try:
            wait(lambda: not differing(), "what is shown is so")
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

        wait(lambda: not others - answered(), f"[{others}] answer, who are not concerned")

    def _all_free(self, job: Job, ranks: RankSet) -> None:
        alive = [job.ranks[rank] for rank in ranks if is_alive(job.ranks[rank])]
        wait(lambda: all(map(is_free, alive)), "all ranks run on free", LEAVE_S)

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

        wait(are_back, f"[{ranks}] are back")

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
        is_hot = self._random.random() < 0.5 and bool(self._state(session)["stopped"])
        if is_hot:
            stopped = session.ranks(self._state(session)["stopped"])
            stopped.break_at("hit", condition=NEVER)
            stopped.continue_(wait=False)
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        wait(lambda: ranks <= self._state(session)["lost"], f"[{ranks}] are lost")
        self._say(f"  lost: [{ranks}]")
        # Those below come back by themselves.
        wait(
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
        return self._kill_them(session, dict(self._random.sample(found, min(2, len(found)))))

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
        wait(lambda: before <= self._state(session)["live"], "all are there still")
        return RankSet()

    def _kill_anchor(self, session: Session, job: Job) -> RankSet:
        pid, ranks = self._random.choice(list(self._aggregators(session, job).items()))
        os.kill(parent_of(pid), signal.SIGKILL)
        wait(lambda: ranks <= self._state(session)["lost"], f"[{ranks}] are lost")
        # Most launchers end all others as well then.
        return session.set

    def _kill_launcher(self, session: Session, job: Job) -> RankSet:
        victim = self._random.choice(list(self._aggregators(session, job)))
        while parent_of(victim) not in (os.getpid(), 0, 1):
            victim = parent_of(victim)
        if parent_of(victim) != os.getpid():
            return RankSet()  # it was killed before
        os.kill(victim, signal.SIGKILL)
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
        wait(lambda: rank in self._state(session)["lost"], f"[{rank}] is lost")
        return RankSet([rank])

    def _hang_gdb(self, session: Session, job: Job) -> RankSet:
        rank, gdb = self._gdb_of_some(session, job)
        os.kill(gdb, signal.SIGSTOP)
        answer = session.evaluate("1", timeout_s=0.5)
        if rank not in (answer.missing.late | answer.missing.running).__iter__():
            raise Wrong(f"[{rank}] cannot answer, and is told as {answer.missing}")
        os.kill(gdb, signal.SIGKILL)
        wait(lambda: rank in self._state(session)["lost"], f"[{rank}] is lost")
        return RankSet([rank])

    def _kill_nursery(self, session: Session, job: Job) -> RankSet:
        _, gdb = self._gdb_of_some(session, job)
        nursery = parent_of(gdb)
        if "-i=mi3" in command_of(nursery):
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
            wait(lambda: not processes_with(mark), "nothing of ours is left", GRACE_S + LEAVE_S)
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
            wait(
                lambda: not session.evaluate("1", timeout_s=5).values,
                f"nobody answers any longer: {state}",
            )
        finally:
            begun = time.monotonic()
            session.close()
        if (took_s := time.monotonic() - begun) > 2 * LEAVE_S:
            raise Wrong(f"closing took {took_s:.1f} s")

    def _kill_job(self, job: Job) -> None:
        for pid in self._random.sample(
            list(job.ranks.values()), 1 if job.pid % 2 else len(job.ranks)
        ):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait(
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
        if (took_s := time.monotonic() - begun) > 2 * LEAVE_S:
            raise Wrong(f"closing took {took_s:.1f} s")
        self._all_free(job, RankSet(job.ranks))


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
    parser.add_argument("--verbose", action="store_true", help="tell every step on standard error")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="pgdb-soak-"))
    try:
        soak = Soak(arguments, Builder(folder))
        with contextlib.suppress(KeyboardInterrupt):  # enough of it
            soak.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    wrong = [f"{name}: {text}" for name, each in soak.outcomes.items() for text in each.wrong]
    print(f"seed {arguments.seed}: {soak.steps} steps in {soak.sessions} sessions\n")
    print(_table(soak))
    print(f"\nours: {descriptors('self')} descriptors, {resident_bytes('self') >> 20} MiB")
    for text in (*wrong, *soak.grown):
        print(f"\nWRONG {text}")
    return 1 if wrong or soak.grown else 0


if __name__ == "__main__":
    sys.exit(main())
