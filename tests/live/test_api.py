"""The Python API on a real job of four ranks, launched and attached to."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import ANY

import pytest

import pgdb
from pgdb.records import (
    BreakpointList,
    BreakpointsMade,
    Done,
    Exit,
    Frame,
    Running,
    Stack,
    Stop,
    Text,
    Value,
    Variables,
)
from tests.conftest import Build, our_processes
from tests.support.processes import pids_of_run, wait_until
from tests.support.programs import Mpi, Program

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

RANKS = 4
RUN_TIMEOUT_S = 120.0


@pytest.fixture
def launched(mpi: Mpi, ring: Program) -> Iterator[pgdb.Session]:
    """A session on ranks that stand in main."""
    with pgdb.launch(mpi.line(RANKS, ring)) as session:
        yield session


def records_of(answer: pgdb.Answer) -> set[type]:
    assert not answer.missing, answer
    return {type(each.record) for each in answer}


def stop_of(answer: pgdb.Answer, rank: int) -> Stop:
    record = answer.for_rank(rank)
    assert isinstance(record, Stop), record
    return record


def frame_of(answer: pgdb.Answer, rank: int) -> Frame:
    frame = stop_of(answer, rank).frame
    assert frame is not None
    return frame


# -- looking -----------------------------------------------------------------------------------


def test_start_and_what_a_session_knows(launched: pgdb.Session) -> None:
    assert launched.mode == "launch"
    assert str(launched.set) == "0-3"
    assert {each.record.reason for each in launched.start_answer if isinstance(each.record, Stop)}
    assert frame_of(launched.start_answer, 3).function == "main"
    assert launched.description.endswith("/ring")
    assert "MPI" in launched.mpi_version or launched.mpi_version
    assert launched.gdb_version
    assert [each.rank for each in launched.table.processes] == [0, 1, 2, 3]
    assert list(launched.hosts.values()) == [launched.set]
    assert launched.named_set("stopped") == launched.set
    assert launched.kills_at_close
    assert not launched.has_ended
    assert not launched.job_has_ended
    # The check at the end of every test would be worth nothing if it could not see these.
    assert any("pgdb.backend" in line for line in our_processes().values())
    assert any("-i=mi3" in line for line in our_processes().values())


def test_looking(launched: pgdb.Session, ring: Program) -> None:
    launched.break_at(ring.at("recv")).check()
    launched.continue_(timeout_s=RUN_TIMEOUT_S).check()

    assert launched.evaluate("rank").values == {0: 0, 1: 1, 2: 2, 3: 3}
    assert launched.evaluate("local").check().values == {0: 0, 1: 1.5, 2: 3, 3: 4.5}
    assert launched[2].evaluate("rank", format="x").values == {2: 2}
    assert launched[2].evaluate("rank", format="x").for_rank(2) == Value(text="0x2")

    stack = launched.backtrace().for_rank(1)
    assert isinstance(stack, Stack)
    assert [frame.function for frame in stack.frames] == ["exchange", "advance", "main"]
    short = launched[1].backtrace(1, fold=False).for_rank(1)
    assert isinstance(short, Stack)
    assert [frame.function for frame in short.frames] == ["exchange"]
    assert short.more
    assert len(launched.backtrace().classes) == 1
    assert len(launched.backtrace(split=True).classes) == RANKS

    names = [variable.name for variable in variables(launched.locals(), 0)]
    assert {"left", "right", "received"} <= set(names)
    assert [each.name for each in variables(launched.arguments(), 0)] == ["rank", "size", "local"]

    assert records_of(launched.execute("info line")) == {Text}
    assert records_of(launched[0].execute("set variable received = 7")) <= {Done, Text}
    assert launched[0:2].evaluate("received == 7").values == {0: 1, 1: 0}

    launched.script(["define twice", "print $arg0 * 2", "end"]).check()
    doubled = launched[3].execute("twice rank").for_rank(3)
    assert isinstance(doubled, Text)
    assert "= 6" in doubled.text


def test_a_backtrace_again_shows_what_was_changed(launched: pgdb.Session, ring: Program) -> None:
    launched.break_at(ring.at("recv")).check()
    launched.continue_(timeout_s=RUN_TIMEOUT_S).check()
    changes = ("set variable local = 64.5", "up", "print local = 65.5", "call (void)(size = 7)")
    for changed in changes:
        before, again = launched[1].backtrace(), launched[1].backtrace()
        assert before.classes == again.classes
        launched[1].execute(changed).check()
    stack = launched[1].backtrace().for_rank(1)
    assert isinstance(stack, Stack)
    shown = [{each.name: each.value for each in frame.arguments} for frame in stack.frames[:2]]
    assert shown == [
        {"rank": "1", "size": "4", "local": "64.5"},
        {"rank": "1", "size": "7", "local": "65.5", "data": ANY, "particle": ANY},
    ]


def variables(answer: pgdb.Answer, rank: int) -> tuple[pgdb.records.Variable, ...]:
    record = answer.for_rank(rank)
    assert isinstance(record, Variables)
    return record.items


def test_some_ranks(launched: pgdb.Session) -> None:
    assert str(launched[0:4].set) == "0-3"
    assert str(launched[1:3].backtrace().check().ranks) == "1-2"
    assert str(launched.ranks("0-3!2").backtrace().check().ranks) == "0-1,3"
    assert str(launched.ranks(pgdb.RankSet([3])).backtrace().check().ranks) == "3"
    launched.sets["edge"] = launched.parse_ranks("0,3")
    assert launched.ranks("@edge").evaluate("1 + 1").values == {0: 2, 3: 2}
    with pytest.raises(pgdb.RankSetError, match="no rank 4"):
        launched.ranks("0-4")


def test_an_error_is_an_answer_that_names_its_ranks(launched: pgdb.Session) -> None:
    answer = launched[1:3].evaluate("nosuchvar")
    assert not answer.ok
    assert [str(each.ranks) for each in answer.errors] == ["1-2"]
    with pytest.raises(pgdb.CommandError, match=r"'print nosuchvar' failed on \[1-2\].*nosuchvar"):
        answer.check()
    mixed = launched.evaluate("1 / ($_exitcode == 7)")
    assert [str(each.ranks) for each in mixed.errors] == ["0-3"]
    with pytest.raises(pgdb.NoAnswerError):
        answer.for_rank(0)
    with pytest.raises(pgdb.UsageError):
        launched.execute("quit")
    assert launched.evaluate("1").ok


# -- breakpoints and running -------------------------------------------------------------------


def test_breakpoints(launched: pgdb.Session, ring: Program) -> None:
    made = launched.break_at(ring.at("recv"), condition="rank == 2").for_rank(0)
    assert isinstance(made, BreakpointsMade)
    assert [each.number for each in made.breakpoints] == [1]
    launched[:2].break_at(ring.at("sleep"), temporary=True).check()
    assert launched.last_breakpoint == 2

    # Rank 3 has no breakpoint that it can hit: it waits for the others in MPI_Sendrecv.
    some = launched.run("continue", timeout_s=RUN_TIMEOUT_S, settle_s=1.0)
    assert 3 in some.missing.running
    # Rank 0 or 1 may have stopped long before it.
    assert stop_of(launched[2].wait(timeout_s=RUN_TIMEOUT_S), 2).breakpoint == 1
    assert str(launched.named_set("bp1")) == "2"
    launched.interrupt(timeout_s=RUN_TIMEOUT_S).check()
    launched.change_breakpoints("disable", ["1"]).check()
    listed = launched[0].breakpoints().for_rank(0)
    assert isinstance(listed, BreakpointList)
    assert (1, False) in [(each.number, each.enabled) for each in listed.breakpoints]
    launched.delete(1).check()
    launched.delete().check()
    assert launched[0].breakpoints().for_rank(0) == BreakpointList(breakpoints=())


def test_commands_of_a_breakpoint(launched: pgdb.Session, ring: Program) -> None:
    heard: list[pgdb.Notification] = []
    launched.subscribe(heard.append)
    launched.break_at(ring.at("recv")).check()
    launched.breakpoint_commands(["1"], ["silent", 'printf "here %d\\n", rank']).check()
    launched.continue_(timeout_s=RUN_TIMEOUT_S).check()
    wait_until(
        lambda: all(f"here {rank}" in str(heard) for rank in range(RANKS)), "the commands are run"
    )


def test_running(launched: pgdb.Session, ring: Program) -> None:
    launched.break_at(ring.at("send"), temporary=True).check()
    here = launched.continue_(timeout_s=RUN_TIMEOUT_S).check()
    assert {frame_of(here, rank).line for rank in range(RANKS)} == {ring.line("send")}
    # All at once: each waits for its neighbour.
    after = launched.next(timeout_s=RUN_TIMEOUT_S).check()
    assert {frame_of(after, rank).line for rank in range(RANKS)} == {ring.line("recv")}
    out = launched.finish(timeout_s=RUN_TIMEOUT_S).check()
    assert {frame_of(out, rank).function for rank in range(RANKS)} == {"advance"}
    far = launched.advance(ring.at("sleep"), timeout_s=RUN_TIMEOUT_S).check()
    assert {frame_of(far, rank).line for rank in range(RANKS)} == {ring.line("sleep")}
    into = launched.until("exchange", timeout_s=RUN_TIMEOUT_S)
    assert frame_of(into, 1).function in ("exchange", "main"), into
    launched.break_at(ring.at("advance"), temporary=True).check()
    launched.continue_(timeout_s=RUN_TIMEOUT_S).check()
    inside = launched.step(timeout_s=RUN_TIMEOUT_S).check()
    assert {frame_of(inside, rank).function for rank in range(RANKS)} == {"exchange"}
    two = launched.run("stepi", "2", timeout_s=RUN_TIMEOUT_S).check()
    assert records_of(two) == {Stop}
    by_gdb = launched.execute("finish", timeout_s=RUN_TIMEOUT_S).check()
    assert {frame_of(by_gdb, rank).function for rank in range(RANKS)} == {"advance"}


def test_watchpoint(launched: pgdb.Session, ring: Program) -> None:
    launched.break_at(ring.at("step"), temporary=True).check()
    launched.continue_(timeout_s=RUN_TIMEOUT_S).check()
    launched.watch("particle.x[0]").check()
    seen = launched.continue_(timeout_s=RUN_TIMEOUT_S).check()
    assert {stop_of(seen, rank).reason for rank in range(RANKS)} == {"watchpoint-trigger"}
    assert launched.evaluate("particle->x[0]").values == dict.fromkeys(range(RANKS), 1)


def test_run_without_waiting_then_interrupt(launched: pgdb.Session) -> None:
    started = launched.continue_(wait=False)
    assert records_of(started) == {Running}
    assert launched.named_set("running") == launched.set
    waited = launched.wait(timeout_s=0.3)
    assert waited.missing.running == launched.set
    assert waited.elapsed_s > 0
    refused = launched.evaluate("1")
    assert refused.missing.running == launched.set or refused.errors, refused
    stopped = launched.interrupt(timeout_s=RUN_TIMEOUT_S).check()
    assert {stop_of(stopped, rank).reason for rank in range(RANKS)} == {"interrupted"}
    assert launched.wait().check().ranks == launched.set


def test_keyboard_interrupt_while_waiting_leaves_the_session_usable(
    launched: pgdb.Session,
) -> None:
    def send() -> None:
        wait_until(lambda: launched.named_set("running") == launched.set, "the ranks run")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        launched.continue_()
    sender.join()
    assert launched.named_set("running") == launched.set
    launched.interrupt(timeout_s=RUN_TIMEOUT_S).check()
    assert launched.evaluate("6 * 7").values == dict.fromkeys(range(RANKS), 42)


def test_job_that_ends(mpi: Mpi, ring: Program) -> None:
    reported: list[pgdb.Notification] = []
    ended = threading.Event()

    def hear(news: pgdb.Notification) -> None:
        reported.append(news)
        if news.kind == "ended":
            ended.set()

    # One rank: Open MPI ends the others, by SIGCONT first, when one exits with an error.
    with pgdb.launch(mpi.line(1, ring, "3", "5"), on_event=hear) as session:
        answer = session.continue_(timeout_s=RUN_TIMEOUT_S).check()
        assert records_of(answer) == {Exit}
        assert {each.record.code for each in answer if isinstance(each.record, Exit)} == {5}
        assert session.evaluate("1").missing.lost == session.set
        assert ended.wait(RUN_TIMEOUT_S)
        assert session.job_has_ended
        assert session.named_set("exited") == session.set
    assert [news.code for news in reported if news.kind == "ended"] == [5]
    assert any(isinstance(each.record, Exit) for news in reported for each in news.classes)


def test_all_ranks_end(mpi: Mpi, ring: Program) -> None:
    with pgdb.launch(mpi.line(RANKS, ring, "3")) as session:
        answer = session.continue_(timeout_s=RUN_TIMEOUT_S).check()
        assert [(str(each.ranks), each.record) for each in answer] == [
            ("0-3", Exit(code=0, run=stop_run(answer)))
        ]


def stop_run(answer: pgdb.Answer) -> int:
    record = answer.for_rank(0)
    assert isinstance(record, Exit | Stop)
    return record.run


def test_output_and_input(mpi: Mpi, build: Build, capfd: pytest.CaptureFixture[str]) -> None:
    program = build("echo.c")
    heard: dict[str, bytes] = {"stdout": b"", "stderr": b""}

    def collect(stream: str, data: bytes) -> None:
        heard[stream] += data

    with pgdb.launch(mpi.line(2, program), on_output=collect) as session:
        session.continue_(wait=False).check()
        assert session.write_input(b"a line\n")
        session.close_input()
        wait_until(lambda: b"a line" in heard["stdout"] + heard["stderr"], "the line comes back")
    # The line was heard by us, not printed.
    assert "a line" not in capfd.readouterr().out


def test_input_from_a_file(
    mpi: Mpi, build: Build, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "input").write_text("from a file\n")
    with (tmp_path / "input").open() as stdin:
        with pgdb.launch(mpi.line(2, build("echo.c")), stdin=stdin) as session:
            session.continue_(timeout_s=RUN_TIMEOUT_S).check()
            with pytest.raises(pgdb.UsageError, match="stdin"):
                session.write_input(b"x")
    assert "from a file" in capfd.readouterr().out


def test_kill(launched: pgdb.Session, ring: Program) -> None:
    launched.kill()
    # Known at once, and not only when the launcher has noticed.
    assert launched.named_set("exited") == launched.set and not launched.named_set("stopped")
    wait_until(lambda: not pids_of_run(ring), "the ranks end")
