"""Numbers of breakpoints: those of the table, of each GDB, and of the stops are the same.

A session has three ranks, two of one program and one of another. Each is a process under a real
GDB; no aggregator and no MPI is between.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pgdb.backend.gdb.debugger import GdbDebugger
from pgdb.backend.zygote.gdb_factory import GdbFactory
from pgdb.backend.zygote.index_cache import IndexCache
from pgdb.frontend.analysis.answers import Answer
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.api.session import Session
from pgdb.frontend.startup.session_directory import SessionDirectory
from pgdb.frontend.startup.session_start import new_session
from pgdb.merge.classes import EquivalenceClass, Missing
from pgdb.overlay.messages import Console, Request
from pgdb.overlay.router import Gathered
from pgdb.ranks import RankSet
from pgdb.records import BreakpointList, Event, Failure, Record, Stop, Text

pytestmark = [pytest.mark.gdb]

SOURCES = Path(__file__).parents[1] / "programs"
PROGRAMS = ("numbers_a.cpp", "numbers_a.cpp", "numbers_b.cpp")
ALL = RankSet(range(len(PROGRAMS)))
DEADLINE_S = 60.0
EXAMPLES = 12


class Job:
    """A session whose ranks are processes of this host, each with its leaf's debugger."""

    def __init__(self, gdb: str) -> None:
        self.session: Session = new_session("attach", SessionOptions(), SessionDirectory())[0]
        self.root = self.session.transport.overlay.root  # type: ignore[attr-defined]
        self.root.start_request = self._start
        factory = GdbFactory(gdb, dict(os.environ), (), IndexCache(os.environ, print))
        self.ranks = [
            GdbDebugger(rank, gdb_factory=factory, program="", notify=self._notify)
            for rank in range(len(PROGRAMS))
        ]
        self._is_open = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._orders = [asyncio.Lock() for _ in PROGRAMS]

    async def begin(self, pids: list[int]) -> None:
        """Attach to the processes."""
        self.session.opening.begin(ALL)
        stops = [await rank.attach(pid, 0) for rank, pid in zip(self.ranks, pids, strict=True)]
        self.session.opening.complete(Answer("attach", ALL, classes_of(dict(enumerate(stops)))))
        self._is_open = True

    async def attach_anew(self, number: int, pid: int) -> None:
        """Replace the GDB of a rank, as reattach does."""
        old = self.ranks[number]
        await old.detach(DEADLINE_S)
        self.ranks[number] = GdbDebugger(
            number,
            gdb_factory=GdbFactory("gdb", dict(os.environ), (), IndexCache(os.environ, print)),
            program="",
            notify=self._notify,
        )
        await self.ranks[number].attach(pid, 0)
        await self.session.recovery._set_breakpoints(RankSet([number]))

    def _notify(self, rank: int, event: Event) -> None:
        if self._is_open:
            self.session.traffic.on_events((EquivalenceClass(RankSet([rank]), event),))

    def _start(self, request: Request) -> None:
        # Each rank carries its requests out in their order.
        tickets = {
            rank: asyncio.ensure_future(self._orders[rank].acquire()) for rank in request.ranks
        }
        task = asyncio.ensure_future(self._answer(request, tickets))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Request, tickets: dict[int, asyncio.Future[bool]]) -> None:
        async def ask(rank: int) -> Record:
            await tickets[rank]
            try:
                return await self.ranks[rank].perform(request.operation, request.request_id)
            finally:
                self._orders[rank].release()

        records = await asyncio.gather(*(ask(rank) for rank in tickets))
        said = dict(zip(tickets, records, strict=True))
        self.root.answered(Gathered(request.request_id, classes_of(said), Missing()))

    async def listed(self) -> dict[int, dict[int, tuple[str, ...]]]:
        """Return the table of each rank: number -> functions of its places."""
        answer = await self.session.breakpoints()
        found: dict[int, dict[int, tuple[str, ...]]] = {}
        for each in answer.classes:
            assert isinstance(each.record, BreakpointList), each.record
            for rank in each.ranks:
                found[rank] = {
                    made.number: tuple(place.function for place in made.locations)
                    or (made.function,)
                    for made in each.record.breakpoints
                }
        return found

    async def said(self, command: str) -> dict[int, str]:
        """Return the text that the GDB of each rank prints."""
        answer = await self.session.ask(command, Console(command=command), ALL)
        return {
            rank: each.record.text if isinstance(each.record, Text) else ""
            for each in answer.classes
            for rank in each.ranks
        }

    async def check(self) -> dict[int, dict[int, tuple[str, ...]]]:
        """Check that table, GDBs and $bpnum agree; return the table."""
        tables = await self.listed()
        for rank, text in (await self.said("info breakpoints")).items():
            own = {int(number) for number in re.findall(r"^(\d+) ", text, re.M)}
            assert own == set(tables[rank]), f"rank {rank}: {text}"
        last = self.session.last_breakpoint
        for rank, text in (await self.said("output $bpnum")).items():
            assert text in (str(last), "void" if not last else str(last)), f"rank {rank}"
        return tables

    async def end(self) -> None:
        """Detach from all ranks."""
        self._is_open = False
        for rank in self.ranks:
            await rank.detach(DEADLINE_S)


def classes_of(records: dict[int, Record]) -> tuple[EquivalenceClass[Record], ...]:
    return tuple(EquivalenceClass(RankSet([rank]), each) for rank, each in records.items())


class Running:
    """The loop, the processes and the job of this module's tests."""

    def __init__(self, programs: list[Path], gdb: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.processes = [subprocess.Popen([str(each)]) for each in programs]
        self.job = self.do(self._begin(gdb))

    async def _begin(self, gdb: str) -> Job:
        job = Job(gdb)
        await job.begin([each.pid for each in self.processes])
        return job

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        async def bounded() -> Any:
            async with asyncio.timeout(DEADLINE_S):
                return await work

        return self.loop.run_until_complete(bounded())

    def end(self) -> None:
        try:
            self.do(self.job.end())
        finally:
            for each in self.processes:
                each.kill()
                each.wait()
            self.loop.close()


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directory = tmp_path_factory.mktemp("numbers")
    for name in set(PROGRAMS):
        command = ["g++", "-g", "-O0", "-o", directory / Path(name).stem, SOURCES / name]
        subprocess.run(command, check=True)
    return [directory / Path(name).stem for name in PROGRAMS]


@pytest.fixture
def running(programs: list[Path]) -> Iterator[Running]:
    gdb = shutil.which("gdb") or pytest.skip("this machine has no GDB")
    running = Running(programs, gdb)
    yield running
    running.end()


SUBSETS = ("0-2", "0", "1-2", "2")


@dataclass(frozen=True)
class Step:
    """A way to make or delete breakpoints, on some ranks."""

    how: Literal["insert", "console", "source", "script", "delete"]
    what: str
    which: str

    async def carry_out(self, session: Session, directory: Path) -> None:
        """Carry the step out."""
        ranks = session.ranks(self.which)
        match self.how:
            case "insert":
                await session.insert_breakpoint(self.what, ranks.set)
            case "console":
                await session.ask(self.what, Console(command=self.what), ranks.set)
            case "source":
                file = directory / "script.gdb"
                file.write_text(self.what)
                await session.ask("source", Console(command=f"source {file}"), ranks.set)
            case "script":
                await ranks.script(self.what.split("\n"))
            case "delete":
                number = max(1, session.last_breakpoint - int(self.what))
                await ranks.change_breakpoints("delete", [str(number)])


FUNCTIONS = st.sampled_from(["both", "over", "group_one", "only_a", "only_b", "nosuch"])
RANKS = st.sampled_from(SUBSETS)
INSERTED = st.one_of(
    FUNCTIONS.map("break {}".format),
    FUNCTIONS.map("tbreak {}".format),
    st.sampled_from(["rbreak ^group_", "rbreak ^over", "rbreak ^nosuch", "catch death"]),
    st.sampled_from(["watch counter", "catch fork", "trace both", 'dprintf both,"%d",x']),
)
STEPS = st.one_of(
    st.builds(Step, st.just("insert"), INSERTED, RANKS),
    st.builds(Step, st.just("console"), FUNCTIONS.map("python gdb.Breakpoint('{}')".format), RANKS),
    st.builds(
        Step, st.just("source"), FUNCTIONS.map("tbreak both\nbreak {}\nbreak both\n".format), RANKS
    ),
    st.builds(
        Step, st.just("script"), st.just("if 1\nbreak both\ndelete $bpnum\ntbreak both\nend"), RANKS
    ),
    st.builds(Step, st.just("delete"), st.integers(0, 6).map(str), RANKS),
)


@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(STEPS, min_size=1, max_size=8))
def test_table_gdbs_and_stops_agree_whatever_makes_breakpoints(
    steps: list[Step], shared: Running, tmp_path: Path
) -> None:
    async def test(job: Job) -> None:
        session = job.session
        await session.ranks("all").change_breakpoints("delete")
        before = await job.check()
        used = {session.last_breakpoint}
        for step in steps:
            await step.carry_out(session, tmp_path)
            tables = await job.check()
            # No rank gives a number that the job has used before.
            for rank, table in tables.items():
                new = set(table) - set(before[rank])
                assert all(number > max(used) for number in new), f"rank {rank}: {new}"
            before = tables
            used.add(session.last_breakpoint)
        # At least one that all ranks hit.
        await session.insert_breakpoint("break both", ALL)
        tables = await job.check()
        answer = await session.run("continue")
        for each in answer.classes:
            assert isinstance(each.record, Stop) and each.record.frame is not None, each.record
            stop = each.record
            for rank in each.ranks:
                function = stop.frame.function
                places = [name.partition("(")[0] for name in tables[rank][stop.breakpoint]]
                assert stop.reason != "breakpoint-hit" or function in places, f"{rank}: {stop}"

    shared.do(test(shared.job))


@pytest.fixture(scope="module")
def shared(programs: list[Path]) -> Iterator[Running]:
    gdb = shutil.which("gdb") or pytest.skip("this machine has no GDB")
    running = Running(programs, gdb)
    yield running
    running.end()


def test_the_number_in_a_body_is_that_of_the_prompt(running: Running) -> None:
    async def test(job: Job) -> None:
        session = job.session
        await session.ranks("1-2").break_at("group_one")
        await session.break_at("both")
        await session.insert_breakpoint("tbreak main", ALL)
        await session.ranks("all").breakpoint_commands(["2"], ["silent", "delete 3", "tbreak main"])
        await session.run("continue")
        await job.check()
        await session.run("continue")
        tables = await job.check()
        # The body has deleted 3 and made another one, with the number behind it.
        assert [sorted(each) for each in tables.values()] == [[2, 4], [1, 2, 4], [1, 2, 4]]

    running.do(test(running.job))


def test_a_gdb_that_replaces_another_one_gives_the_same_numbers(running: Running) -> None:
    async def test(job: Job) -> None:
        session = job.session
        await session.ranks("0").break_at("only_a")
        await session.insert_breakpoint("rbreak ^group_", ALL)
        await session.ask("py", Console(command="python gdb.Breakpoint('over')"), ALL)
        last = str(session.last_breakpoint)
        await session.ranks("0-1").change_breakpoints("disable", [f"{last}.2"])
        await session.ranks("all").break_at("both")
        await session.ranks("all").change_breakpoints("delete", ["2", str(session.last_breakpoint)])
        before = await job.check()
        assert 2 not in before[0] and int(last) in before[0]
        for rank in (0, 2):
            await job.attach_anew(rank, running.processes[rank].pid)
        assert await job.check() == before
        places = await job.said(f"info breakpoints {last}")
        assert re.search(rf"^{last}\.2 +n ", places[0], re.M), places[0]
        await session.break_at("both")
        assert {max(each) for each in (await job.check()).values()} == {int(last) + 2}

    running.do(test(running.job))


def test_a_gap_in_a_list_of_numbers_leaves_the_others(running: Running) -> None:
    async def test(job: Job) -> None:
        session = job.session
        for function in ("both", "both", "group_one"):
            await session.break_at(function)
        await session.ranks("all").change_breakpoints("delete", ["2"])
        answer = await session.ranks("all").change_breakpoints("delete", ["1", "2", "3"])
        for each in answer.classes:
            assert each.record == Text(text="No breakpoint number 2.")
        assert all(not each for each in (await job.check()).values())

    running.do(test(running.job))


def test_changes_by_bodies_and_python_are_made_again(running: Running) -> None:
    async def test(job: Job) -> None:
        session = job.session
        await session.break_at("both", condition="x == 1")
        await session.break_at("over")
        await session.insert_breakpoint('dprintf group_one,"%d\\n",x', ALL)
        await session.ranks("all").script(["if 1", "disable 1", "condition 1 x > 0", "end"])
        await session.ask("py", Console(command="python gdb.breakpoints()[0].silent = True"), ALL)
        await session.ranks("0-1").breakpoint_commands(["2"], ["disable 2.1", "enable once 3"])
        await session.ranks("0-1").run("continue")
        before = await job.said("info breakpoints")
        assert re.search(r"^1 .* n .*\n\tstop only if x > 0", before[0], re.M), before[0]
        assert re.search(r"^2\.1 +n .*(?:.*\n)+3 +dprintf +dis", before[0], re.M), before[0]
        await job.attach_anew(0, running.processes[0].pid)
        after = await job.said("info breakpoints")
        hits = re.compile(r"\tbreakpoint already hit .*\n")
        assert hits.sub("", after[0]) == hits.sub("", before[0])

    running.do(test(running.job))


def test_passcount_is_for_tracepoints_only(running: Running) -> None:
    async def test(job: Job) -> None:
        session, everyone = job.session, job.session.ranks("all")
        await session.break_at("both")
        await session.insert_breakpoint("trace both", ALL)
        await session.break_at("both")
        for number in ("1", "3", "99"):
            answer = await everyone.change_breakpoints("passcount 4", [number])
            refused = Failure(message=f"No tracepoint number {number}.")
            assert [each.record for each in answer.classes if each.record != refused] == []
        answer = await everyone.change_breakpoints("passcount 4", ["1", "2"])
        says = Text(text="No tracepoint number 1.\nSetting tracepoint 2's passcount to 4")
        assert [each.record for each in answer.classes if each.record != says] == []
        assert session.breakpoint_numbers.last_traced == 2
        for each in (await session.breakpoints(kind="tracepoint")).classes:
            assert isinstance(each.record, BreakpointList)
            (traced,) = each.record.breakpoints
            assert traced.passes == 4
            # GDB cannot install a tracepoint in a process of this host.
            assert {place.installed for place in traced.locations or (traced,)} == {False}

    running.do(test(running.job))


def test_other_breakpoints_at_the_same_address_are_named(running: Running) -> None:
    async def test(job: Job) -> None:
        session = job.session

        async def notes(line: str) -> set[str]:
            answer = await session.insert_breakpoint(line, ALL)
            return {getattr(each.record, "notes", "") for each in answer.classes}

        assert await notes("break both") == {""}
        assert await notes("tbreak both") == {"Note: breakpoint 1 also set at pc."}
        await session.ranks("all").change_breakpoints("disable", ["1"])
        says = "Note: breakpoints 1 (disabled) and 2 also set at pc."
        assert await notes("trace both") == {says}
        assert await notes("watch counter") == {""}
        await session.break_at("both")
        await session.ranks("all").change_breakpoints("delete", ["1", "2", "3"])
        assert await notes('dprintf both,"x"') == {"Note: breakpoint 5 also set at pc."}
        # A rank that has no other breakpoint there has no note.
        await session.ranks("1-2").change_breakpoints("delete", ["5", "6"])
        assert await notes("break both") == {"", "Note: breakpoints 5 and 6 also set at pc."}

    running.do(test(running.job))
