"""Ranks of real jobs that step in lockstep, meet at barriers, and run until values differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import pgdb
from pgdb.frontend.api.notifications import BarrierNews, JobEnded
from pgdb.records import BreakpointList, Exit, Stack, Stop
from tests.conftest import Build
from tests.support.example_scripts import run_example
from tests.support.processes import wait_until
from tests.support.programs import Mpi, Program
from tests.support.terminal import PGDB, PROMPT, Terminal, ex, run_pgdb

pytestmark = [pytest.mark.mpi]

RANKS = 4
ODD = 3
RUN_TIMEOUT_S = 120.0
RUNS_FOR_EVER_S = 0.5


@pytest.fixture
def meet(build: Build) -> Program:
    return build("meet.c")


def launched(mpi: Mpi, program: Program, *words: str) -> pgdb.Session:
    """Launch ranks that stand before their steps; in step 2 the last one does something else."""
    session = pgdb.launch(mpi.line(RANKS, program, str(ODD), "2", *words))
    session.break_at(program.at("step"), temporary=True).check()
    session.continue_(timeout_s=RUN_TIMEOUT_S).check()
    return session


@pytest.fixture
def parting(mpi: Mpi, meet: Program) -> Iterator[pgdb.Session]:
    with launched(mpi, meet) as session:
        yield session


def test_lockstep_ends_where_the_ways_part(parting: pgdb.Session, meet: Program) -> None:
    found = parting.until_diverge(timeout_s=RUN_TIMEOUT_S)
    assert (found.end, found.start.line) == ("parted", meet.line("test"))
    assert [(str(way.ranks), way.line) for way in found.ways] == [
        ("0-2", meet.line("even")),
        ("3", meet.line("odd")),
    ]
    with pytest.raises(pgdb.UsageError, match="several lines"):
        parting.lockstep("next")
    # A function brings them together again.
    assert parting.lockstep("finish", timeout_s=RUN_TIMEOUT_S).are_together


def test_lockstep_counts_steps_and_instructions(parting: pgdb.Session, meet: Program) -> None:
    found = parting.lockstep("next", 3, timeout_s=RUN_TIMEOUT_S)
    assert (found.end, found.steps) == ("complete", 3)
    assert found.ways[0].line > meet.line("main")
    found = parting.lockstep("stepi", 2, timeout_s=RUN_TIMEOUT_S)
    assert (found.end, found.steps) == ("complete", 2)
    found = parting.lockstep("until", argument=meet.at("solve"), timeout_s=RUN_TIMEOUT_S)
    assert found.ways[0].line == meet.line("solve")


def test_a_rank_that_waits_for_one_that_has_stepped_is_named(mpi: Mpi, meet: Program) -> None:
    with launched(mpi, meet, "recv") as session:
        session.break_at("act").check()
        session.ranks("3").continue_(timeout_s=RUN_TIMEOUT_S).check()
        session.ranks("3").lockstep("next", 1, timeout_s=RUN_TIMEOUT_S)
        while (way := session.ranks("3").lockstep("next", timeout_s=RUN_TIMEOUT_S).ways[0]).line:
            if way.line == meet.line("recv"):
                break
        found = session.ranks("3").lockstep("next", timeout_s=RUNS_FOR_EVER_S)
        assert (found.end, str(found.answer.missing.running)) == ("waiting", "3")
        assert found.start.line == meet.line("recv")
        session.delete()
        session.ranks("0-2").continue_(wait=False)
        assert session.ranks("3").wait(timeout_s=RUN_TIMEOUT_S).ok


def test_a_barrier_holds_all_until_the_last_has_come(parting: pgdb.Session) -> None:
    barrier = parting.barrier("meet")
    parting.ranks("0-2").continue_(timeout_s=RUN_TIMEOUT_S).check()
    assert dict(parting.held_for) == {f"barrier {barrier.number}": pgdb.RankSet.parse("0-2")}
    with pytest.raises(pgdb.CommandError, match="held"):
        parting.ranks("0-2").continue_()
    parting.continue_(timeout_s=RUN_TIMEOUT_S)
    assert parting.wait_barrier(barrier.number, timeout_s=RUN_TIMEOUT_S).met == 1
    assert not parting.held_for
    assert parting.evaluate("step").check().values == dict.fromkeys(range(RANKS), 0)


def test_ranks_that_a_met_barrier_has_released_are_not_shown_as_held(
    mpi: Mpi, meet: Program
) -> None:
    commands = ex(
        f"tbreak {meet.at('step')}",
        "continue",
        "hold 0",
        "barrier meet 1-3",
        "proc 1-2 continue",
        "continue",
        "print 1",
    )
    out = run_pgdb("launch", "--batch", *commands, *mpi.line(RANKS, meet)).out
    assert re.search(r"^barrier \d+: \[1-3\] are there; they stay stopped$", out, re.M), out
    ran = out.partition(") continue\n")[2].partition(") continue\n")[2].partition(") print")[0]
    assert re.findall(r"^\[[-,\d]+\] +held$", ran, re.M) == ["[0] held"], out


def test_ranks_run_on_from_a_barrier_until_its_times_are_over(
    parting: pgdb.Session, meet: Program
) -> None:
    barrier = parting.barrier("meet", then="release", times=5)
    parting.break_at(meet.at("barrier")).check()
    answer = parting.continue_(timeout_s=RUN_TIMEOUT_S).check()
    assert {each.record.frame.line for each in answer if isinstance(each.record, Stop)} == {
        meet.line("barrier")
    }
    assert parting.barriers == ()
    assert parting.wait_barrier(barrier.number).met == 5


def test_a_step_ends_at_a_barrier_that_releases_its_ranks(
    parting: pgdb.Session, meet: Program
) -> None:
    parting.execute(f"tbreak {meet.at('call')}").check()
    parting.continue_(timeout_s=RUN_TIMEOUT_S).check()
    barrier = parting.barrier("meet", then="release", times=1)
    answer = parting.run("next", "2", timeout_s=RUN_TIMEOUT_S).check()
    assert {each.record.frame.line for each in answer if isinstance(each.record, Stop)} == {
        meet.line("meet")
    }
    assert parting.wait_barrier(barrier.number).met == 1
    assert len(parting.ranks("@stopped").set) == RANKS


def test_a_rank_in_mpi_is_found_that_waits_for_a_held_one(mpi: Mpi, meet: Program) -> None:
    with launched(mpi, meet, "recv") as session:
        number = session.barrier("meet").number
        for met in (1, 2):
            session.continue_(timeout_s=RUN_TIMEOUT_S)
            assert session.wait_barrier(number, met=met, timeout_s=RUN_TIMEOUT_S).met == met
        session.continue_(wait=False)
        found = session.wait_barrier(number, met=3, timeout_s=RUN_TIMEOUT_S)
        assert (found.met, str(found.arrived)) == (2, "0-2")
        assert [(each.kind, str(each.ranks)) for each in found.absent] == [("in MPI", "3")]
        text = found.absent[0].text
        assert text.startswith("is in MPI_Recv from 0 with tag 1 in MPI_COMM_WORLD [0-3], in act")
        assert text.endswith(", and may wait for [0], which is held")
        # It still runs, and comes when the rank it waits for may go on.
        session.ranks("0").release()
        session.ranks("0").continue_(wait=False)
        assert session.wait_barrier(number, met=3, timeout_s=RUN_TIMEOUT_S).met == 3


@pytest.mark.parametrize(
    ("mode", "kind", "reason"),
    [
        ("crash", "error", "stopped by SIGSEGV"),
        ("exit", "ended", "has ended with status 3"),
    ],
)
def test_a_rank_that_dies_is_not_waited_for(
    mpi: Mpi, meet: Program, mode: str, kind: str, reason: str
) -> None:
    with launched(mpi, meet, mode) as session:
        news: list[BarrierNews] = []
        session.subscribe(lambda each: news.append(each) if isinstance(each, BarrierNews) else None)
        number = session.barrier("meet").number
        for _ in range(2):
            session.continue_(timeout_s=RUN_TIMEOUT_S)
        answer = session.continue_(timeout_s=RUN_TIMEOUT_S)
        end = answer.for_rank(ODD)
        assert isinstance(end, Stop if mode == "crash" else Exit)
        found = session.wait_barrier(number, met=3, timeout_s=RUN_TIMEOUT_S)
        # The launcher may have ended the others before they came.
        assert found.met == 3 or not session.held_for
        absent = [each for one in news for each in one.barrier.absent if ODD in each.ranks]
        assert found.met < 3 or absent, news
        assert {(each.kind, each.text) for each in absent} <= {(kind, reason)}


def test_a_rank_at_another_barrier_is_named(mpi: Mpi, meet: Program) -> None:
    with launched(mpi, meet, "again") as session:
        number = session.barrier("meet").number
        other = session.ranks(f"0,{ODD}").barrier("act").number
        for met in (1, 2):
            session.continue_(timeout_s=RUN_TIMEOUT_S)
            assert session.wait_barrier(number, met=met, timeout_s=RUN_TIMEOUT_S).met == met
        session.continue_(timeout_s=RUN_TIMEOUT_S)
        found = session.wait_barrier(number, met=3, timeout_s=RUN_TIMEOUT_S)
        assert [(each.kind, str(each.ranks), each.text) for each in found.absent] == [
            ("held", "3", f"is held at barrier {other}")
        ]
        # The other one waits for a rank that is held here.
        found = session.wait_barrier(other, timeout_s=RUN_TIMEOUT_S)
        assert [(each.kind, str(each.ranks)) for each in found.absent] == [("held", "0")]
        session.delete(other)
        session.ranks(str(ODD)).continue_(wait=False)
        assert session.wait_barrier(number, met=3, timeout_s=RUN_TIMEOUT_S).met == 3


def test_values_that_differ_are_found_with_their_hit(parting: pgdb.Session, meet: Program) -> None:
    found = parting.until_differ("value", at=meet.at("call"), timeout_s=RUN_TIMEOUT_S)
    assert (found.end, found.hit) == ("differ", 3)
    assert found.check is not None
    assert [(str(each.ranks), each.value) for each in found.check.failing] == [("3", "4.5")]
    (listed,) = parting.breakpoints().classes
    assert listed.record == BreakpointList(breakpoints=())
    assert parting.breakpoints_text == ""


def test_an_expression_is_checked_at_its_place_before_any_rank_runs(
    parting: pgdb.Session, meet: Program
) -> None:
    place = meet.at("unusual")
    for wrong, why in (
        ("value +", "A syntax error"),
        ("nosuch", "No symbol .nosuch."),
        # main has it, and the function of the place has not.
        ("argc", "No symbol .argc."),
        ("value.part", "Attempt to extract a component"),
    ):
        with pytest.raises(pgdb.CommandError, match=why):
            parting.until_differ(wrong, at=place, timeout_s=RUN_TIMEOUT_S)
    (stood,) = parting.backtrace().classes
    assert isinstance(stood.record, Stack) and stood.record.frames[0].line == meet.line("step")
    # main does not have it.
    odd = parting.ranks(str(ODD))
    found = odd.until_differ("token", at="act", limit=1, timeout_s=RUN_TIMEOUT_S)
    assert (found.end, found.same_hits) == ("complete", 1)


def test_another_run_is_compared_with_a_recording(mpi: Mpi, meet: Program, tmp_path: Path) -> None:
    path = f"{tmp_path}/before.pgdb"
    with pgdb.launch(mpi.line(RANKS, meet, "9")) as session:
        assert session.until_differ("value", at=meet.at("call"), limit=4).end == "complete"
        session.save(path)
    with launched(mpi, meet) as session:
        found = session.until_differ("value", at=meet.at("call"), recording=path)
        assert (found.end, found.hit) == ("differ", 3)
        assert found.comparison is not None
        assert [str(each.ranks) for each in found.comparison.differences] == ["3"]


def test_ranks_that_are_detached_in_the_wait_run_free(mpi: Mpi, meet: Program) -> None:
    with launched(mpi, meet, "spin") as session:
        session.barrier("meet", then="release")
        session.continue_(timeout_s=RUNS_FOR_EVER_S)
        session.ranks("3").interrupt(timeout_s=RUN_TIMEOUT_S)
        session.ranks("3").evaluate("spins = 0").check()
        ends: list[int] = []
        session.subscribe(
            lambda news: ends.append(news.code) if isinstance(news, JobEnded) else None
        )
        session.detach(timeout_s=RUN_TIMEOUT_S).check()
        assert not session.held_for
        # The program ends if all ranks run on through the barrier.
        wait_until(lambda: ends == [0], "the job has ended", RUN_TIMEOUT_S)


def test_ctrl_c_ends_each_wait(mpi: Mpi, meet: Program) -> None:
    line = mpi.line(RANKS, meet, str(ODD), "2", "spin")
    with Terminal(*PGDB, "launch", "--settle", "600", "--", *line) as terminal:
        terminal.expect(PROMPT)
        terminal.line("barrier meet")
        terminal.expect(r"barrier 1: .0-3. are held")
        for came in (r"they stay", r"for the 2nd time"):
            terminal.line("continue")
            terminal.expect(came)
        terminal.line("continue")
        terminal.expect(r"barrier 1: .0-2. wait; .3. (sleeps|computes)\b.* in act at meet.c:\d+;")
        terminal.control_c()
        terminal.expect(r"\[3\] interrupted")
        terminal.line("info barriers")
        terminal.expect(r"there: .0-2.")
        terminal.line("delete 1")
        terminal.line("proc 3 print spins = 0")
        terminal.expect(r"= 0")
        terminal.line("proc 0-2 until-differ step --at meet --hits 3")
        terminal.expect(r"step is the same on .0-2. at all 3 hits of meet")
        terminal.line("proc 0-2 next --lockstep 2")
        terminal.expect(r"2 steps, all together")
        terminal.line("detach")
        terminal.expect(r"detached; they run on")


def lines_of_example(name: str, *args: str) -> list[str]:
    """Run an example; return its output by lines."""
    done = run_example(name, *args)
    assert not done.stderr, done.stderr
    return done.stdout.splitlines()


@pytest.mark.any_mpi
def test_example_parting(mpi: Mpi, meet: Program) -> None:
    job = mpi.line(RANKS, meet, str(ODD), "2")
    lines = lines_of_example("parting.py", meet.at("call"), "value", *job)
    assert lines[:3] == [f"hit 3 of {meet.at('call')}: most ranks have 4", "  [3] 4.5", lines[2]]
    assert lines[2].startswith("after hit 2: ")
    assert lines[2].endswith("then parted")
    # The function that main calls is where the ways part first.
    assert lines[3:] == [
        f"  from solve at meet.c:{meet.line('test')}",
        f"  [0-2] solve at meet.c:{meet.line('even')}",
        f"  [{ODD}] solve at meet.c:{meet.line('odd')}",
    ]


@pytest.mark.any_mpi
def test_example_parting_where_data_differ_on_one_way(mpi: Mpi, meet: Program) -> None:
    job = mpi.line(RANKS, meet, "9")
    place = meet.at("call")
    lines = lines_of_example("parting.py", place, f"step / 2 * (rank == {ODD})", *job)
    assert lines[0] == f"hit 3 of {place}: most ranks have 0", lines
    way = "all ranks take the same way from hit 2 to the next: data differ"
    assert lines[1:] == [f"  [{ODD}] 1", way]


@pytest.mark.any_mpi
def test_example_two_ranks(mpi: Mpi, meet: Program) -> None:
    job = mpi.line(RANKS, meet, str(ODD), "2", "recv")
    lines = lines_of_example("two_ranks.py", meet.at("call"), "1", str(ODD), *job)
    assert lines[0] == "held: [0,2]"
    assert lines[-3:] == [
        f"[1] main at meet.c:{meet.line('call')}",
        f"[{ODD}] main at meet.c:{meet.line('act')}",
        "parted; held: [0,2]",
    ]
