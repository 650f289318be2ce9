"""The Python API on a real job of four ranks, launched and attached to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
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
from tests.conftest import Build, StartJob, our_processes
from tests.support.processes import (
    is_alive,
    is_traced,
    kill_all,
    programs_with,
    status,
    wait_progress,
    wait_until,
)
from tests.support.programs import ROOT, Mpi, Program

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

RANKS = 4
RUN_TIMEOUT_S = 120.0


@pytest.fixture
def ring(build: Build) -> Program:
    return build("ring.c")


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


def pids_of(program: Program) -> list[int]:
    """Return the processes of this run of the tests that are the program."""
    return list(programs_with(f"PGDB_TEST_RUN={os.environ['PGDB_TEST_RUN']}", program))


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
    assert waited.elapsed_s >= 0.3
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
    told: list[pgdb.Notification] = []
    ended = threading.Event()

    def hear(news: pgdb.Notification) -> None:
        told.append(news)
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
    assert [news.code for news in told if news.kind == "ended"] == [5]
    assert any(isinstance(each.record, Exit) for news in told for each in news.classes)


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


# -- ends --------------------------------------------------------------------------------------


def test_end_of_a_launch_kills_the_job(mpi: Mpi, ring: Program) -> None:
    with pgdb.launch(mpi.line(RANKS, ring)) as session:
        session.continue_(wait=False).check()
        assert len(pids_of(ring)) == RANKS
    wait_until(lambda: not pids_of(ring), "the ranks end")
    assert session.has_ended
    session.close()
    session.close(kill=True)
    with pytest.raises(pgdb.SessionEndedError):
        session.evaluate("1")
    with pytest.raises(pgdb.SessionEndedError):
        session.ranks("0")


def test_a_body_that_raises_ends_the_session(mpi: Mpi, ring: Program) -> None:
    with pytest.raises(ZeroDivisionError), pgdb.launch(mpi.line(RANKS, ring)):
        raise ZeroDivisionError
    wait_until(lambda: not pids_of(ring), "the ranks end")


def test_kill(launched: pgdb.Session, ring: Program) -> None:
    launched.kill()
    # Known at once, and not only when the launcher has noticed.
    assert launched.named_set("exited") == launched.set and not launched.named_set("stopped")
    wait_until(lambda: not pids_of(ring), "the ranks end")


def test_a_launch_that_fails(mpi: Mpi, tmp_path: Path) -> None:
    with pytest.raises(pgdb.PgdbError, match="no-such-program"):
        pgdb.launch(mpi.line(RANKS, tmp_path / "no-such-program"))
    with pytest.raises(pgdb.DiscoveryError):
        pgdb.attach(os.getpid())


def test_attach_leaves_the_job_running(ring: Program, start_job: StartJob) -> None:
    with start_job(RANKS, ring) as job:
        with pgdb.attach(job.pid, on_step=lambda step: None) as session:
            assert session.mode == "attach"
            assert not session.kills_at_close
            assert all(is_traced(pid) for pid in job.ranks.values())
            assert {each.rank: each.pid for each in session.table.processes} == job.ranks
            stack = session.backtrace().check().for_rank(2)
            assert isinstance(stack, Stack)
            assert stack.frames[-1].function == "main"
            session.break_at(ring.at("recv")).check()
            # The ranks were stopped anywhere: one can be a step ahead and wait for another.
            session.run("continue", timeout_s=RUN_TIMEOUT_S, settle_s=1.0)
            there = session.ranks("@bp1")
            assert there.set
            assert there.evaluate("rank").values == {rank: rank for rank in there.set}
        assert is_alive(job.pid)
        for pid in job.ranks.values():
            assert not is_traced(pid)
            wait_progress(pid)


def test_attach_to_some_ranks_and_a_body_that_raises(ring: Program, start_job: StartJob) -> None:
    with start_job(RANKS, ring) as job:
        with pytest.raises(ZeroDivisionError), pgdb.attach(job.pid, ranks="1-2") as session:
            assert str(session.set) == "1-2"
            assert [is_traced(pid) for pid in job.ranks.values()] == [False, True, True, False]
            raise ZeroDivisionError
        for pid in job.ranks.values():
            assert not is_traced(pid)
            wait_progress(pid)
        with pytest.raises(pgdb.RankSetError, match="no rank 4"):
            pgdb.attach(job.pid, ranks="4")


def test_detach_of_some_ranks(ring: Program, start_job: StartJob) -> None:
    with start_job(RANKS, ring) as job, pgdb.attach(job.pid) as session:
        session[0:2].detach().check()
        assert [is_traced(pid) for pid in job.ranks.values()] == [False, False, True, True]
        assert session.evaluate("1").missing.lost == session.parse_ranks("0-1")
        assert status(job.ranks[2], "State").startswith("t")


def test_a_launched_job_that_was_let_go_runs_on(mpi: Mpi, ring: Program) -> None:
    with pgdb.launch(mpi.line(RANKS, ring), stdin=subprocess.DEVNULL) as session:
        session.detach().check()
        assert not session.kills_at_close
        ranks = pids_of(ring)
    try:
        assert len(ranks) == RANKS
        for pid in ranks:
            assert not is_traced(pid)
            wait_progress(pid)
    finally:
        # The keeper of its output ends with the job, which the check after each test looks at.
        kill_all(lambda: pids_of(ring), "the ranks")


def run_example(name: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / "scripts" / name), *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )


def test_example_where(ring: Program, start_job: StartJob) -> None:
    with start_job(RANKS, ring) as job:
        done = run_example("where.py", str(job.pid), "0-2")
        assert done.returncode == 0, done.stderr
        assert "main (" in done.stdout
        assert " of 3\n" in done.stdout
        wrong = run_example("where.py", str(job.pid), "0-9")
        assert (wrong.returncode, wrong.stderr.count("\n")) == (3, 1), wrong.stderr
        assert "no rank 4-9" in wrong.stderr
        for pid in job.ranks.values():
            wait_progress(pid)


def test_example_outlier(mpi: Mpi, build: Build) -> None:
    program = build("wrong_value.f90")
    done = run_example("outlier.py", program.at("reduce"), "partial", *mpi.line(RANKS, program))
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines() == [
        "usual:    partial = 1 on [0-2]",
        "differs:  partial = 0.875 on [3]",
    ]
    none = run_example("outlier.py", program.at("reduce"), "nosuch", *mpi.line(RANKS, program))
    assert none.returncode == 1
    assert "failed on [0-3]" in none.stderr


def test_example_residuals(
    mpi: Mpi, build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = build("steps.c")
    monkeypatch.chdir(tmp_path)
    done = run_example(
        "residuals.py", program.at("record"), "now.residual", *mpi.line(RANKS, program)
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.splitlines()[:3] == [
        "40 hits on [0-3]",
        f"hit 7: now.residual = {1 / 7} on [0-2]",
        f"hit 7: now.residual = {1 / 7 + 0.25} on [3]",
    ]
    assert len((tmp_path / "residuals.csv").read_text().splitlines()) == 1 + RANKS * 40


LEFT_OPEN = """
import sys
import pgdb
session = pgdb.launch(sys.argv[2:]) if sys.argv[1] == "launch" else pgdb.attach(int(sys.argv[2]))
session.continue_(wait=False)
print(session.set, flush=True)
if sys.argv[1] == "raise":
    raise ZeroDivisionError
"""


def run_script(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LEFT_OPEN, *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )


def test_a_launch_left_open_is_ended_with_python(mpi: Mpi, ring: Program) -> None:
    done = run_script("launch", *mpi.line(RANKS, ring))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "0-3\n"
    assert "Traceback" not in done.stderr
    wait_until(lambda: not pids_of(ring), "the ranks end")


@pytest.mark.parametrize("how", ["attach", "raise"])
def test_an_attach_left_open_is_ended_with_python(
    how: str, ring: Program, start_job: StartJob
) -> None:
    with start_job(RANKS, ring) as job:
        done = run_script(how, str(job.pid))
        assert done.stdout == "0-3\n", done.stderr
        assert done.returncode == (1 if how == "raise" else 0)
        assert "atexit" not in done.stderr
        for pid in job.ranks.values():
            assert not is_traced(pid)
            wait_progress(pid)
