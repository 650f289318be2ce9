"""Jobs that are attached to by GDBs which were forked from one with the symbols, or were not."""

from __future__ import annotations

from pathlib import Path

import pytest

import pgdb
from pgdb.ranks import RankSet
from pgdb.records import BreakpointList, BreakpointsMade, Exit, Failure, Frame, Stack, Stop, Text
from tests.conftest import Build, StartJob, our_processes
from tests.support.jobs import Job, gdb_of, run_job
from tests.support.processes import (
    aggregator_of,
    command_of,
    has_opened,
    parent_of,
    wait_opened,
    write_gdb,
)
from tests.support.programs import ROOT, Builder, Mpi, Program, find_mpi
from tests.support.terminal import DEADLINE_S, assert_untouched, ex, run_json

pytestmark = pytest.mark.mpi

RANKS = 3
FORKING = "forking_in_gdb"
"""Part of the command line of a nursery, and so of the GDBs that are forked from it."""


@pytest.fixture
def opener(build: Build) -> Program:
    """The program that opens the library."""
    return build("opener.c", "-DIN_MPI")


@pytest.fixture(scope="module")
def visit(builder: Builder) -> Program:
    """The library, in which ranks stay."""
    library = builder.build_library("visit.c", "-g", "-O0")
    return Program(path=library, source=ROOT / "tests" / "programs" / "visit.c")


def nursery_of(job: Job, rank: int) -> int:
    """Return the GDB from which that of a rank was forked."""
    gdb = gdb_of(job, rank)
    nursery = parent_of(gdb)
    assert FORKING in command_of(gdb), f"the GDB of rank {rank} is not forked"
    assert FORKING in command_of(nursery), f"the GDB of rank {rank} has no nursery"
    assert parent_of(nursery) == aggregator_of(job.ranks[rank])
    return nursery


def frames_of(answer: pgdb.Answer, rank: int) -> list[Frame]:
    stack = answer.for_rank(rank)
    assert isinstance(stack, Stack), stack
    return list(stack.frames)


def places(answer: pgdb.Answer, rank: int, *programs: Program) -> list[tuple[str, str, int]]:
    """Return function, file and line of the frames of a rank that are of some programs."""
    return [
        (each.function, each.file, each.line)
        for each in frames_of(answer, rank)
        if each.file in [str(program.source) for program in programs]
    ]


def text_of(answer: pgdb.Answer, rank: int) -> str:
    """Return what a rank's GDB has printed, or has said of its failure."""
    record = answer.for_rank(rank)
    assert isinstance(record, Text | Failure), record
    return record.text if isinstance(record, Text) else record.message


def location_counts(answer: pgdb.Answer) -> dict[int, int]:
    """Return in how many places the only breakpoint is on each rank, 0 where it is pending."""
    counts = {}
    for each in answer.check():
        assert isinstance(each.record, BreakpointsMade | BreakpointList), each
        (made,) = each.record.breakpoints
        counts |= dict.fromkeys(each.ranks, made.location_count)
    return counts


def assert_stop_in_visit(session: pgdb.Session, opener: Program, visit: Program) -> None:
    """Let all go on, and check that all stop at the breakpoint in the library, which is known."""
    answer = session.continue_(timeout_s=DEADLINE_S).check()
    stops = {rank: answer.for_rank(rank) for rank in session.set}
    for rank, stop in stops.items():
        assert isinstance(stop, Stop) and stop.breakpoint == 1, (rank, stop)
    assert location_counts(session.breakpoints()) == dict.fromkeys(session.set, 1)
    stacks = session.backtrace().check()
    for rank in session.set:
        assert places(stacks, rank, opener, visit) == [
            ("visit", str(visit.source), visit.line("visit")),
            ("main", str(opener.source), opener.line("call")),
        ]


@pytest.mark.parametrize("name", ["openmpi", "openmpi5", "mpich", "intel"])
def test_two_programs_in_one_job(builder: Builder, name: str) -> None:
    mpi = find_mpi(name)
    one, other = (builder.build(mpi, source) for source in ("mpmd_a.c", "mpmd_b.c"))
    line = [*mpi.line(2, one, "wait"), ":", "-n", "2", str(other.path), "wait"]
    programs = {0: one, 1: one, 2: other, 3: other}
    with run_job(builder, line, one, 4, also=[other]) as job:
        with pgdb.attach(job.pid, timeout_s=DEADLINE_S) as session:
            nurseries = [nursery_of(job, rank) for rank in range(4)]
            assert nurseries[0] == nurseries[1] != nurseries[2] == nurseries[3]
            for program, ranks in ((one, "0-1"), (other, "2-3")):
                session.ranks(ranks).break_at(program.at("wait")).check()
            session.continue_(timeout_s=DEADLINE_S).check()
            session.delete().check()
            stacks = session.backtrace().check()
            executables = session.execute("info inferiors").check()
            mains = session.execute("info line main").check()
            asking, answering = map(session.execute, ("info line ask", "info line answer_one"))
            for rank, program in programs.items():
                held, main = places(stacks, rank, one, other)
                assert held == ("wait_to_go_on", str(program.source), program.line("wait"))
                assert main == ("main", str(program.source), program.line("go"))
                assert str(program.path) in text_of(executables, rank)
                assert f'"{program.source}"' in text_of(mains, rank)
                # A function that one of them has only.
                for function, owner, said in (
                    ("ask", one, asking),
                    ("answer_one", other, answering),
                ):
                    reported = f'"{owner.source}"' if program is owner else "not defined"
                    assert reported in text_of(said, rank), function
            session.execute("frame function main").check()
            letters = {rank: ord(program.path.name[-1]) for rank, program in programs.items()}
            assert session.evaluate("PROGRAM + 0").check().values == letters
            assert session.evaluate("(int)program").check().values == letters
            assert session.evaluate("programs[rank] == program").values == dict.fromkeys(
                range(4), 1
            )
            # It goes on to its end.
            session.execute("set variable waits = 0").check()
            ends = session.continue_(timeout_s=DEADLINE_S).check()
            for rank in programs:
                end = ends.for_rank(rank)
                assert isinstance(end, Exit) and end.code == 0, (rank, end)
        assert job.process.wait(DEADLINE_S) == 0


@pytest.mark.any_mpi
def test_a_library_that_is_opened_later(
    start_job: StartJob, opener: Program, visit: Program, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    with start_job(RANKS, opener, str(go), str(visit.path)) as job:
        with pgdb.attach(job.pid, timeout_s=DEADLINE_S) as session:
            assert len({nursery_of(job, rank) for rank in job.ranks}) == 1
            session.execute("set breakpoint pending on").check()
            assert location_counts(session.break_at("visit")) == dict.fromkeys(job.ranks, 0)
            go.touch()
            assert_stop_in_visit(session, opener, visit)
            session.delete().check()
        assert_untouched(job.ranks)


@pytest.mark.any_mpi
@pytest.mark.parametrize("early", [0, RANKS - 1])
def test_a_library_that_one_rank_has_opened(
    builder: Builder, mpi: Mpi, opener: Program, visit: Program, tmp_path: Path, early: int
) -> None:
    """The nursery has the libraries of the first rank: with this one, or without it."""
    files = [tmp_path / f"go{rank}" for rank in range(RANKS)]
    files[early].touch()
    line = mpi.line(1, opener, str(files[0]), str(visit.path))
    for file in files[1:]:
        line += [":", "-n", "1", str(opener.path), str(file), str(visit.path)]
    with run_job(builder, line, opener, RANKS) as job:
        wait_opened([job.ranks[early]], visit.path)
        others = [pid for rank, pid in job.ranks.items() if rank != early]
        assert not any(has_opened(pid, visit.path) for pid in others)
        with pgdb.attach(job.pid, timeout_s=DEADLINE_S) as session:
            assert len({nursery_of(job, rank) for rank in job.ranks}) == 1
            stacks = session.backtrace().check()
            lines = session.execute("info line visit")
            for rank in job.ranks:
                here = places(stacks, rank, opener, visit)
                if rank == early:
                    assert here == [
                        ("stay", str(visit.source), visit.line("stay")),
                        ("visit", str(visit.source), visit.line("visit")),
                        ("main", str(opener.source), opener.line("call")),
                    ]
                    assert f'"{visit.source}"' in text_of(lines, rank)
                else:
                    assert here[-1][:2] == ("main", str(opener.source))
                    assert not places(stacks, rank, visit)
                    assert "not defined" in text_of(lines, rank)
            visited = session.evaluate("visited > 0")
            assert visited.values == {early: 1}
            assert [each.ranks for each in visited.errors] == [session.set - RankSet([early])]
            # The others open it later.
            session.execute("set breakpoint pending on").check()
            counts = location_counts(session.break_at("visit"))
            assert counts == {rank: int(rank == early) for rank in job.ranks}
            session[early].execute("set variable is_free = 1").check()
            for file in files:
                file.touch()
            assert_stop_in_visit(session, opener, visit)
            session.delete().check()
        assert_untouched(job.ranks)


@pytest.mark.any_mpi
@pytest.mark.parametrize("nursery", [True, False])
def test_gdbs_are_forked_unless_they_are_not_to_be(
    build: Build, start_job: StartJob, nursery: bool
) -> None:
    with start_job(RANKS, build("storm.c")) as job:
        with pgdb.attach(job.pid, timeout_s=DEADLINE_S, nursery=nursery) as session:
            gdbs = [gdb_of(job, rank) for rank in job.ranks]
            assert len(set(gdbs)) == RANKS
            forking = {pid for pid, line in our_processes().items() if FORKING in line}
            if nursery:
                assert forking == {*gdbs, *(nursery_of(job, rank) for rank in job.ranks)}
            else:
                assert forking == set()
                assert {parent_of(gdb) for gdb in gdbs} == {aggregator_of(job.ranks[0])}
            assert session.evaluate("hit_count > 0").check().values == dict.fromkeys(job.ranks, 1)
        assert_untouched(job.ranks)


@pytest.mark.any_mpi
def test_without_a_nursery_all_is_answered_as_with_one(
    start_job: StartJob, opener: Program, visit: Program, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    gdb = write_gdb(tmp_path, f"""printf '%s\\n' "$*" >>{started}""")
    questions = (
        "bt", "p visited > 0", "p visit", "info args", "info line visit", "info symbol visit",
        "info sharedlibrary visit", "up 2", "info locals", "p steps", "info functions ^visit$",
    )  # fmt: skip
    commands = ex(f"break {visit.at('stay')}", "c", *questions)

    def gdbs_and_answers(*options: str) -> tuple[list[str], list[object]]:
        started.unlink(missing_ok=True)
        finished = run_json("attach", *options, "--gdb", gdb, *commands, job.pid)
        assert finished.status == 0, finished.out
        answers = [(each["command"], each["classes"]) for each in finished.of_type("answer")]
        return [line for line in started.read_text().splitlines() if "-i=mi3" in line], answers

    go = tmp_path / "go"
    go.touch()
    with start_job(RANKS, opener, str(go), str(visit.path)) as job:
        wait_opened(job.ranks.values(), visit.path)
        forked, with_one = gdbs_and_answers()
        own, without = gdbs_and_answers("--no-nursery")
        assert_untouched(job.ranks)
    assert [FORKING in line for line in forked] == [True]
    assert [FORKING in line for line in own] == [False] * RANKS
    assert len(with_one) == 2 + len(questions)
    assert with_one == without
