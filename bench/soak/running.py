"""Sessions and steps on one job after the other, and the comparison after each."""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import time
import traceback
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pgdb
from bench.measuring import pss_bytes
from bench.soak.noting import DEADLINE_S, Impossible, Notes, Wrong
from bench.soak.processes import descriptors, is_free, measured, objects, resident_bytes, words
from pgdb.frontend.startup.session_directory import runtime_folder, temporary_folder
from pgdb.frontend.startup.sync import Session
from pgdb.ranks import RankSet
from tests.support.jobs import Job, Orders, run_job
from tests.support.processes import is_alive, parent_of, processes_with, status
from tests.support.programs import Builder, Program, find_mpi
from tests.support.terminal import MARK, end_marked, foreign_code

LEAVE_S = 10.0
"""Seconds after a session in which all processes of PGDB's must be gone."""
START_S = 600.0
GRACE_S = 5.0
STEPS = "attached"
"""A session of steps, among the kinds of session."""
COMMANDS = "commands"
NEVER = "hit_count < 0"
RSS_GROWTH_BYTES = 64 << 20
STEPS_BETWEEN_SIZES = 50
SETTLED_STEPS = 100
"""Number of steps after which an aggregator's memory should not grow."""
AGGREGATOR_GROWTH_BYTES = 16 << 20

Fault = Callable[[Session, Job], RankSet]
"""Function that does something to a session and returns the concerned ranks."""
End = Callable[[Job], None]
"""A session that ends in some way."""


class Soak(Notes):
    """The steps, on one job after the other."""

    def __init__(self, arguments: argparse.Namespace, builder: Builder) -> None:
        super().__init__(is_verbose=arguments.verbose)
        self._random = random.Random(arguments.seed)
        self._arguments = arguments
        self._builder = builder
        self._mpi = find_mpi(arguments.mpi)
        self._program: Program = builder.build(self._mpi, "storm.c")
        self._orders = Orders(builder.directory)
        self._place = self._program.at("done")
        self.sessions = self.jobs = 0
        self.grown: list[str] = []
        self.sizes_bytes: list[int] = []
        """Memory of this process, after each session."""
        self.objects: list[int] = []
        self.tool_sizes_bytes: list[int] = []
        """Memory of all processes of the longest session, now and then."""
        self._end_s = time.monotonic() + 60 * arguments.minutes
        self._mark = ""
        self._grace_s = GRACE_S
        self.baseline: tuple[int, int] | None = None
        self._faults: dict[str, Fault] = {}
        self._ends: dict[str, End] = {}

    # -- what is run ---------------------------------------------------------------------------

    def run(self) -> None:
        """Run the steps.

        :raises ValueError: if a given name is not a fault.
        """
        only, without = self._arguments.only, self._arguments.without
        names = [COMMANDS, *self._faults, *self._ends]
        if unknown := {*only, *without} - {*names}:
            raise ValueError(f"no fault {', '.join(sorted(unknown))}; there are {', '.join(names)}")
        for known in (self._faults, self._ends):
            for name in list(known):
                if name in without or (only and name not in only):
                    del known[name]
        sessions = [STEPS] if self._faults or COMMANDS in only else []
        while self._goes_on():
            self.jobs += 1
            with self._run_job() as job:
                while self._goes_on() and self._is_whole(job):
                    # An end needs a session of its own.
                    name = self._draw([*sessions, *self._ends])
                    with self._marked():
                        if name == STEPS:
                            self._steps_of_session(job)
                        else:
                            self.steps += 1
                            with self._noted(name):
                                self._ends[name](job)

    def _run_job(self) -> AbstractContextManager[Job]:
        return run_job(
            self._builder,
            self._line(),
            self._program,
            self._arguments.ranks,
            # Our own files may be on the full file system.
            changes={"TMPDIR": str(self._builder.directory)},
        )

    def _line(self) -> list[str]:
        return self._mpi.line(self._arguments.ranks, self._program, *self._orders.arguments)

    @staticmethod
    def _is_whole(job: Job) -> bool:
        return job.process.poll() is None and all(map(is_alive, job.ranks.values()))

    def _goes_on(self) -> bool:
        is_time_left = time.monotonic() < self._end_s
        return is_time_left and bool(self.steps < self._arguments.steps)

    def _draw(self, names: Iterable[str]) -> str:
        """Return one of the names; the more seldom it was tried, the likelier it is."""
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
            aggregators: dict[int, tuple[int, int]] = {}
            sizes: list[int] = []
            for step in range(self._arguments.session_steps):
                if not self._goes_on():
                    break
                self._step(session, job)
                self._watch_aggregators(session, job, aggregators, step)
                if step % STEPS_BETWEEN_SIZES == STEPS_BETWEEN_SIZES - 1:
                    sizes.append(pss_bytes(self._marked_processes()))
            self.tool_sizes_bytes = max(self.tool_sizes_bytes, sizes, key=len)
            done = True
        except Exception as error:  # noqa: BLE001
            # The session is of no use any longer; its end is checked all the same.
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
        is_quiet = not self._faults or self._random.random() < 0.4
        if is_quiet or not self._state(session)["live"]:
            with self._noted(COMMANDS):
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
                outcome.restores += 1
                self._reattach(session, lost)
                self._agrees(session, job)
                outcome.restored += 1

    def _say_all(self) -> None:
        """Print the session's output, its aggregators' logs, and the processes of PGDB's."""
        super()._say_all()
        for log in self._session_logs():
            self._say(f"    {log}:\n{log.read_text(errors='replace')}")
        for pid, line in self._marked_processes().items():
            self._say(f"    {pid} below {parent_of(pid)}: {line[:150]}")

    @staticmethod
    def _session_logs() -> list[Path]:
        """Return the logs of aggregators of the sessions that are open."""
        folders = {runtime_folder(), temporary_folder()} - {""}
        return sorted(log for folder in folders for log in Path(folder).glob("pgdb-*/*.log"))

    @contextlib.contextmanager
    def _marked(self) -> Iterator[None]:
        """Mark all started processes, and check that none of them is left."""
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
        self._tidy()
        self._watch_ourselves()

    def _tidy(self) -> None:
        """Remove files that killed launchers have left."""

    def _marked_processes(self) -> dict[int, str]:
        return {
            pid: line
            for pid, line in processes_with(f"{MARK}={self._mark}").items()
            if pid != os.getpid()
        }

    def _watch_ourselves(self) -> None:
        now = measured()
        self.sizes_bytes.append(now[1])
        self.objects.append(objects())
        if self.sessions == 3:
            self.baseline = now
        if self.baseline is not None:
            if now[0] > self.baseline[0] + 2:
                self.grown.append(f"session {self.sessions}: {now[0]} descriptors")
            if now[1] > self.baseline[1] + RSS_GROWTH_BYTES:
                self.grown.append(f"session {self.sessions}: {now[1] >> 20} MiB")

    def _watch_aggregators(
        self, session: Session, job: Job, seen: dict[int, tuple[int, int]], step: int
    ) -> None:
        """Compare descriptors and memory of each aggregator that has all its GDBs.

        Any other aggregator may be its child for a while, with a link.
        """
        state = self._state(session)
        if state["lost"] or state["free"]:
            return
        most = 4 + len(session._session.transport.overlay.nodes)
        for pid in self._aggregators(session, job):
            count, size = descriptors(pid), resident_bytes(pid)
            first_count, first_size = seen.setdefault(pid, (count, size))
            if step < SETTLED_STEPS:
                first_size = max(first_size, size)
            if count > first_count + most or size > first_size + AGGREGATOR_GROWTH_BYTES:
                self.grown.append(
                    f"step {self.steps}: aggregator {pid} has {count} descriptors, at first "
                    f"{first_count}, and {size >> 20} MiB, at first {first_size >> 20}"
                )
                first_count, first_size = count, size
            seen[pid] = first_count, first_size

    # -- what is compared ----------------------------------------------------------------------

    def _attach(self, job: Job) -> Session:
        self._heard.clear()
        fan_out = self._random.choice([1, 2, 32])
        nursery = self._random.random() < 0.7
        connect = self._random.random() < 0.25
        self._say(f"  {fan_out=}, {nursery=}, {connect=}, grace {self._grace_s:g} s")
        return pgdb.attach(
            job.pid,
            on_event=self._notify,
            aggregators=self._arguments.aggregators,
            fan_out=fan_out,
            nursery=nursery,
            connect=connect,
            grace_s=self._grace_s,
            timeout_s=20,
            start_timeout_s=START_S,
            verbose=self._arguments.verbose,
        )

    def _state(self, session: Session) -> dict[str, RankSet]:
        names = ("running", "stopped", "exited", "lost")
        # At one moment: ranks in motion are of another set at the next one.
        found = session._loop.do(
            lambda: {name: session._session.named_set(name) or RankSet() for name in names}
        )
        found["live"] = found["running"] | found["stopped"]
        found["free"] = session.set - found["live"] - found["exited"] - found["lost"]
        return found

    def _agrees(self, session: Session, job: Job) -> None:
        """Wait until PGDB's view of every rank agrees with /proc.

        A rank that is shown running need not run at the moment of a check, for example if it
        reaches a breakpoint all the time; but it must be seen running.
        """
        seen: set[int] = set()

        def differing() -> dict[int, str]:
            state = self._state(session)
            found = {}
            for rank in session.set:
                (shown,) = (
                    name for name in ("running", "stopped", "exited", "lost", "free")
                    if rank in state[name]
                )  # fmt: skip
                if shown == "running":
                    if self._is_as(job.ranks[rank], shown):
                        seen.add(rank)
                    if rank not in seen:
                        found[rank] = shown
                elif not self._is_as(job.ranks[rank], shown):
                    found[rank] = shown
            return found

        if dead := [rank for rank, pid in job.ranks.items() if not is_alive(pid)]:
            raise Wrong(f"the job's ranks {dead} have ended")
        try:
            self._wait(lambda: not differing(), "what is shown is so")
        except Wrong:
            found = [
                f"{rank} is shown {shown}: {words(job.ranks[rank])}"
                for rank, shown in differing().items()
            ]
            if found:
                raise Wrong("; ".join(found)) from None

    def _is_as(self, pid: int, shown: str) -> bool:
        try:
            if shown == "running":
                return status(pid, "TracerPid") != "0" and status(pid, "State")[0] in "RSD"
            if shown == "stopped":
                is_held = status(pid, "TracerPid") != "0" and status(pid, "State")[0] == "t"
                return is_held and not foreign_code(pid)
            if shown == "exited":
                return not is_alive(pid)
            return is_free(pid)
        except OSError:
            return shown == "exited"

    def _others_answer(self, session: Session, concerned: RankSet) -> None:
        """Check that all ranks that are not concerned answer, if only that they run."""
        others = session.set - concerned - self._state(session)["free"]

        def answered() -> RankSet:
            answer = session.evaluate("1 + 1")
            return RankSet(answer.values) | answer.missing.running

        self._wait(lambda: not others - answered(), f"[{others}] answer, who are not concerned")

    def _until_lost(self, session: Session, ranks: RankSet) -> None:
        """Wait until *ranks* are lost, and ranks behind them have reconnected by themselves."""
        self._wait(lambda: ranks <= self._state(session)["lost"], f"[{ranks}] are lost")
        self._say(f"  lost: [{ranks}]")
        self._wait(
            lambda: self._state(session)["lost"] == ranks,
            f"all but [{ranks}] are back",
        )
        self._say("  the others are back")

    def _all_free(self, job: Job, ranks: RankSet) -> None:
        alive = [job.ranks[rank] for rank in ranks if is_alive(job.ranks[rank])]
        self._wait(
            lambda: all(self._is_as(pid, "free") or not is_alive(pid) for pid in alive),
            "all ranks run on free",
            LEAVE_S,
        )

    # -- commands ------------------------------------------------------------------------------

    def _let_pass(self, most_s: float) -> None:
        """Let a random time pass until a fault begins or ends.

        No condition can replace it: the experiment is that a fault comes, or goes, at any moment.
        """
        time.sleep(self._random.random() * most_s)

    def _some(self, ranks: RankSet) -> RankSet:
        members = list(ranks)
        return RankSet(self._random.sample(members, self._random.randint(1, len(members))))

    def _command(self, session: Session) -> None:
        state = self._state(session)
        kinds = ["look", "break", "info"]
        if state["stopped"]:
            kinds += ["go", "step", "many steps", "to a breakpoint", "detach and back"]
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
                # Their number must not grow, or sizes would mean nothing.
                if session.last_breakpoint and self._random.random() < 0.5:
                    session.delete()
                else:
                    session.break_at(self._place)
            case "info":
                view.breakpoints()
            case "go":
                view.run("continue", self._random.choice(["", "1000000"]), wait=False)
            case "interrupt":
                view.interrupt(timeout_s=DEADLINE_S)
            case "step":
                self._random.choice([view.step, view.next])(timeout_s=DEADLINE_S)
            case "many steps":
                word = self._random.choice(["step", "next", "stepi", "nexti"])
                view.run(word, "1000000", timeout_s=self._random.random())
                view.interrupt(timeout_s=DEADLINE_S)
                # A rank that a step has stopped must keep its GDB (see
                # docs/reference/faults.md).
                view.continue_(wait=False)
            case "to a breakpoint":
                view.break_at("hit")
                number = session.last_breakpoint
                view.continue_(timeout_s=DEADLINE_S)
                session.delete(number)
            case "detach and back":
                view.detach()
                self._reattach(session, ranks)

    def _reattach(self, session: Session, ranks: RankSet) -> None:
        """Reattach *ranks*; while a launcher ends the rest, not always at once."""

        def are_back() -> bool:
            answer = session.ranks(ranks).reattach(timeout_s=DEADLINE_S)
            if left := self._state(session)["lost"] & ranks:
                self._say(f"  reattach again, [{left}] are not back: {answer.errors}")
            return not left

        self._wait(are_back, f"[{ranks}] are back")

    # -- aggregators ---------------------------------------------------------------------------

    def _aggregators(self, session: Session, job: Job) -> dict[int, RankSet]:
        """Return the ranks of each aggregator that has any, by its process.

        A GDB whose nursery was killed is not below its aggregator any longer.
        """
        overlay, live = session._session.transport.overlay, self._state(session)["live"]
        nodes = {node: hello.pid for node, hello in overlay.nodes.items()}
        shares = overlay.root.shares
        return {pid: part for node, pid in nodes.items() if (part := shares[node].ranks & live)}
