"""Ranks that end, crash, execute a program or are detached while a session holds them."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import pgdb
from pgdb.frontend.show.text import event_text
from pgdb.jobs import procfs
from pgdb.ranks import RankSet
from pgdb.records import Exit, Gone, Stack, Stop
from tests.conftest import Build, StartJob
from tests.support.jobs import Orders, gdb_of
from tests.support.losses import Heard, attached, count_traced, forked_gdbs, lose_gdb, stopped_at
from tests.support.processes import is_alive, require_calls, status, wait_until
from tests.support.terminal import DEADLINE_S, assert_untouched, ex, run_json, run_pgdb, wait_broken

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]

KEEPS_STATUS = tuple(int(each) for each in os.uname().release.split(".")[:2]) >= (6, 15)
"""Whether the kernel keeps the exit status of a process whose parent has waited for it."""


def test_a_rank_is_killed_while_it_is_stopped(build: Build, start_job: StartJob) -> None:
    heard = Heard()
    with start_job(4, build("storm.c")) as job:
        with attached(job, heard) as session:
            os.kill(job.ranks[1], signal.SIGKILL)
            wait_until(lambda: 1 in heard.of(Exit), "its end is reported", DEADLINE_S)
            # The launcher ends the others, which its GDBs hold; nobody need let them run for that.
            wait_until(lambda: heard.of(Exit) == session.set, "all ends are reported", DEADLINE_S)
            ends = [
                each
                for reported in heard.all
                for each in reported.classes
                if isinstance(each.filled, Exit) and 1 in each.ranks
            ]
            assert [each.filled for each in ends] == [Exit(signal="SIGKILL")]
            assert session.evaluate("1").missing.lost == session.set
            gone = session.reattach()
            assert not gone.missing
            assert [(each.ranks, each.filled.message) for each in gone.errors] == [
                (session.set, "The program has ended on this rank.")
            ]
            # Nobody is left for whom it could be kept.
            session.break_at("hit")
            assert session.last_breakpoint == 0 and session.all_have_ended
        job.process.wait(DEADLINE_S)


def test_a_rank_has_ended_when_it_is_to_be_reattached(build: Build, start_job: StartJob) -> None:
    heard = Heard()
    with start_job(2, build("storm.c")) as job:
        with attached(job, heard) as session:
            os.kill(gdb_of(job, 1), signal.SIGKILL)
            wait_until(lambda: heard.of(Gone) == RankSet([1]), "the loss is reported", DEADLINE_S)
            os.kill(job.ranks[1], signal.SIGKILL)
            wait_until(lambda: not is_alive(job.ranks[1]), "it has ended", DEADLINE_S)
            end = session.ranks("1").reattach().for_rank(1)
            # Its launcher has waited for it, so that nobody else can know but newer kernels.
            assert isinstance(end, Exit) and end.code is None
            assert end.signal == ("SIGKILL" if KEEPS_STATUS else "")
            assert 1 in heard.of(Exit) and 1 in session.parse_ranks("@exited")
            assert not session.parse_ranks("@lost")
        job.process.wait(DEADLINE_S)


def test_a_rank_is_killed_while_a_command_is_under_way(build: Build, start_job: StartJob) -> None:
    heard = Heard()
    with start_job(4, build("storm.c")) as job:
        with attached(job, heard) as session:
            session.break_at("hit", condition="hit_count < 0").check()
            session.continue_(wait=False).check()
            wait_broken(job.ranks)
            os.kill(job.ranks[2], signal.SIGKILL)
            answer = session.wait(timeout_s=DEADLINE_S)
            assert answer.missing.running == RankSet()
            end = answer.for_rank(2)
            assert isinstance(end, Exit) and end.code is None
            # GDB can take its status and hang; then newer kernels alone know.
            assert end.signal == "SIGKILL" or not KEEPS_STATUS
        job.process.wait(DEADLINE_S)


def test_a_rank_that_a_command_has_detached_is_reported_and_reattached(
    build: Build, start_job: StartJob
) -> None:
    with start_job(3, build("storm.c")) as job:
        # PGDB refuses the words where it can read them, and GDB's hooks do not see those of MI.
        detach = """proc 1 python gdb.execute('interpreter-exec mi "-target-de' + 'tach"')"""
        commands = (detach, "p 6 * 7", "reattach 1", "p 6 * 8")
        finished = run_pgdb("attach", "--batch", *ex(*commands), job.pid)
        lost = "[1] lost: a command has made GDB detach from it; the rank runs without a debugger"
        assert lost in finished.out, finished.out
        assert "[0,2] 6 * 7 = 42" in finished.out, finished.out
        assert "[0-2] 6 * 8 = 48" in finished.out, finished.out
        assert_untouched(job.ranks)


@pytest.mark.parametrize("order", [b"s", b"x"])
def test_a_rank_crashes_or_exits_while_a_command_is_under_way(
    build: Build, start_job: StartJob, tmp_path: Path, order: bytes
) -> None:
    orders, heard = Orders(tmp_path), Heard()
    program = build("storm.c")
    with start_job(4, program, *orders.arguments) as job:
        with attached(job, heard) as session:
            session.break_at("hit", condition="hit_count < 0").check()
            session.continue_(wait=False).check()
            wait_broken(job.ranks)
            orders.give(2, order)
            others = session.set - RankSet([2])
            if order == b"s":
                # The others are stopped, too, so that they can be looked at beside it.
                wait_until(lambda: session.ranks("@stopped").set == session.set, "all stop")
                assert heard.signals(2) == ["SIGSEGV"]
                stack = session.ranks("2").backtrace().for_rank(2)
                assert isinstance(stack, Stack)
                assert stack.frames[0].line == program.line("crash")
            else:
                wait_until(lambda: heard.of(Exit) >= RankSet([2]), "its end is reported")
                # Until the launcher ends the others, they answer that they run.
                answer = session.evaluate("1")
                assert answer.missing.late == RankSet()
                assert others <= answer.missing.running | heard.of(Exit) | answer.missing.lost
        if order == b"x":
            job.process.wait(DEADLINE_S)


@pytest.mark.parametrize("nursery", [True, False])
@pytest.mark.parametrize("guard", [False, True])
def test_a_rank_executes_a_program_while_a_command_is_under_way(
    build: Build, start_job: StartJob, tmp_path: Path, nursery: bool, guard: bool
) -> None:
    orders, heard = Orders(tmp_path), Heard()
    program = build("storm.c")
    with start_job(4, program, *orders.arguments) as job:
        with pgdb.attach(job.pid, nursery=nursery, guard=guard, on_event=heard) as session:
            session.break_at("hit", condition="hit_count < 0").check()
            session.continue_(wait=False).check()
            wait_broken(job.ranks)
            for rank in (1, 2):
                orders.give(rank, b"e")
            wait_until(lambda: all(map(orders.is_obeyed, (1, 2))), "they have done so")
            # Settings and breakpoints hold in the new program as in the old one.
            wait_broken(job.ranks)
            assert session.interrupt(timeout_s=DEADLINE_S).check().ranks == session.set
            session.execute("frame function main").check()
            assert session.evaluate("argc").check().values == {0: 3, 1: 4, 2: 4, 3: 3}
            session.delete().check()
            session.break_at("hit").check()
            number = session.last_breakpoint
            assert (
                stopped_at(session.continue_(timeout_s=DEADLINE_S).check(), number) == session.set
            )
            # It does so in the moment of an interrupt, of a step, of the end of the session.
            session.delete().check()
            orders.give(3, b"e")
            session.continue_(wait=False).check()
            assert session.interrupt(timeout_s=DEADLINE_S).check().ranks == session.set
            session.break_at(program.at("loop")).check()
            session.continue_(timeout_s=DEADLINE_S).check()
            session.delete().check()
            orders.give(3, b"e")
            while not orders.is_obeyed(3) or session.ranks("@running").set:
                # GDB may take a step that became another program for a "continue".
                session.ranks("3").run("next", timeout_s=1)
                session.interrupt(timeout_s=DEADLINE_S)
            session.break_at("hit", condition="hit_count < 0").check()
            session.continue_(wait=False).check()
            wait_broken(job.ranks)
            orders.give(1, b"e")
        wait_until(lambda: orders.is_obeyed(1), "it has done so")
        assert_untouched(job.ranks)


def test_a_thousand_children_come_and_go(build: Build, start_job: StartJob) -> None:
    """A child that GDB does not follow has no breakpoint left in it."""
    with start_job(4, build("forks.c")) as job:
        with attached(job) as session:
            session.execute("set var cycles = 0").check()
            session.execute("set var failures = 0").check()
            session.break_at("visit", condition="n < 0").check()
            session.break_at("finished").check()
            answer = session.continue_(timeout_s=DEADLINE_S).check()
            assert stopped_at(answer, 2) == session.set
            assert session.evaluate("cycles").values == dict.fromkeys(range(4), 250)
            assert session.evaluate("failures").values == dict.fromkeys(range(4), 0)
        assert_untouched(job.ranks)


@pytest.mark.parametrize(("traced", "hangs"), [(1, False), (4, False), (1, True)])
def test_a_job_ends_while_it_is_attached_to(
    build: Build, start_job: StartJob, traced: int, hangs: bool
) -> None:
    with start_job(4, build("storm.c")) as job:
        ended = threading.Event()

        def end_it() -> None:
            wait_until(lambda: count_traced(job) >= traced, "ranks are traced", DEADLINE_S)
            if hangs:
                wait_until(lambda: forked_gdbs(job), "a rank has a GDB of its own", DEADLINE_S)
                for gdb in forked_gdbs(job):
                    os.kill(gdb, signal.SIGSTOP)
            for pid in job.ranks.values():
                os.kill(pid, signal.SIGKILL)
            ended.set()

        ender = threading.Thread(target=end_it)
        ender.start()
        finished = run_json("attach", *ex("p 1", "bt"), job.pid)
        ender.join()
        assert ended.is_set()
        said = finished.out + finished.err
        assert "ended" in said or '"signal":"SIGKILL"' in said.replace(" ", ""), said
        assert finished.status != 0 or finished.answer("print 1"), said


def test_ranks_that_were_detached_are_reattached(build: Build, start_job: StartJob) -> None:
    require_calls()
    with start_job(3, build("storm.c")) as job:
        finished = run_json(
            "attach",
            *ex("break hit", "proc 1 detach", "reattach", "timeout 100 continue", "p hit_count > 0",
                "timeout 3 proc 2 call (int)sleep(9)"),
            job.pid,
        )  # fmt: skip
        again = finished.answer("reattach")
        assert [each["ranks"] for each in again["classes"]] == ["0,2", "1"]
        assert "answers" in again["classes"][0]["text"]
        assert "runs on free" not in finished.out + finished.err
        (stopped,) = finished.answer("continue")["classes"]
        assert (stopped["ranks"], stopped["record"]["breakpoint"]) == ("0-2", 1)
        (value,) = finished.answer("print hit_count > 0")["classes"]
        assert (value["ranks"], value["value"]) == ("0-2", 1)
        # Half of that time is enough for GDB to begin the call on a busy machine, too.
        late = finished.answer("call (int)sleep(9)")
        assert late["missing"]["late"] == "2"
        assert_untouched(job.ranks)


def test_a_rank_whose_program_is_rebuilt_survives_its_gdb(
    build: Build, tmp_path: Path, start_job: StartJob
) -> None:
    """An ordinary user cannot open the file that the rank has mapped."""
    heard = Heard()
    source = build("storm.c")
    program = replace(source, path=Path(shutil.copy(source.path, tmp_path / "storm")))
    with start_job(2, program, in_mpi=False) as job:
        with pgdb.attach(job.pid, on_event=heard) as session:
            session.break_at("fork_children").check()
            session.continue_(wait=False).check()
            wait_broken(job.ranks)
            rebuilt = tmp_path / "rebuilt"
            shutil.copy("/bin/true", rebuilt)
            rebuilt.rename(program.path)
            os.kill(gdb_of(job, 1), signal.SIGKILL)
            wait_until(lambda: heard.of(Gone) == RankSet([1]), "the loss is reported", DEADLINE_S)
            (loss,) = [
                each.record.why
                for notification in heard.all
                for each in notification.classes
                if isinstance(each.record, Gone)
            ]
            assert "SIGTRAP" not in loss
            assert_untouched({1: job.ranks[1]})
        assert_untouched(job.ranks)


def _byte_at(pid: int, address: object) -> bytes:
    assert isinstance(address, int)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        return memory.read(1)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="own_code.c is for x86-64")
def test_a_rank_with_breakpoints_in_code_of_no_file_survives_its_gdb(
    build: Build, start_job: StartJob, capfd: pytest.CaptureFixture[str]
) -> None:
    """Code that the program has made, and the vDSO of the kernel."""
    heard = Heard()
    with start_job(2, build("own_code.c")) as job:
        with pgdb.attach(job.pid, on_event=heard) as session:
            for place in ("*in_memory", "*in_memfd", "time"):
                session.break_at(place).check()
            named = ("(long)in_memory", "(long)in_memfd")
            places = [session.ranks("1").evaluate(each).values[1] for each in named]
            session.continue_(wait=False).check()
            wait_until(
                lambda: [_byte_at(job.ranks[1], each) for each in places] == [b"\xcc"] * 2,
                "breakpoints are in the code of rank 1",
                DEADLINE_S,
            )
            lose_gdb(job, 1, heard)
        for pid in job.ranks.values():
            os.kill(pid, signal.SIGUSR1)
        assert job.process.wait(DEADLINE_S) == 0
    reported = capfd.readouterr().out
    assert "rank 0 through 3" in reported and "rank 1 through 5" in reported


@pytest.mark.skipif(platform.machine() != "x86_64", reason="own_code.c is for x86-64")
def test_a_rank_with_a_watchpoint_survives_its_gdb(
    build: Build, start_job: StartJob, capfd: pytest.CaptureFixture[str]
) -> None:
    """The kernel keeps the debug registers of a thread whose tracer dies."""
    heard = Heard()
    with start_job(2, build("own_code.c")) as job:
        with pgdb.attach(job.pid, on_event=heard) as session:
            session.watch("touched").check()
            session.continue_(wait=False).check()
            wait_until(lambda: status(job.ranks[1], "State")[:1] in "RS", "rank 1 runs")
            lose_gdb(job, 1, heard)
        for pid in job.ranks.values():
            os.kill(pid, signal.SIGUSR1)
        assert job.process.wait(DEADLINE_S) == 0
    reported = capfd.readouterr().out
    assert "rank 0 through 3" in reported and "rank 1 through 5" in reported


def _loss_of(heard: Heard, rank: int) -> Gone:
    (loss,) = [
        each.filled
        for notification in list(heard.all)
        for each in notification.classes
        if rank in each.ranks and isinstance(each.filled, Gone)
    ]
    return loss


@pytest.mark.skipif(platform.machine() != "x86_64", reason="PGDB clears debug registers of x86-64")
def test_a_rank_that_its_watchpoint_ends_after_its_gdb_is_not_said_to_run(
    build: Build, start_job: StartJob
) -> None:
    """The rank writes the variable every 0.3 ms, and the kernel takes longer to end its GDB."""
    heard = Heard()
    with start_job(2, build("storm.c")) as job:
        with attached(job, heard) as session:
            session.watch("hit_count").check()
            session.change_breakpoints("condition", ["1"], "hit_count < 0").check()
            session.continue_(wait=False).check()
            wait_until(lambda: status(job.ranks[1], "State")[:1] in "RS", "rank 1 runs")
            os.kill(gdb_of(job, 1), signal.SIGKILL)
            wait_until(lambda: 1 in heard.of(Gone), "the loss is reported", DEADLINE_S)
            loss = _loss_of(heard, 1)
            if not loss.has_ended:  # it has had luck
                assert_untouched({1: job.ranks[1]})
                return
            assert ("watchpoint" in loss.why and "--guard" in loss.why) or not KEEPS_STATUS
            assert event_text.event(loss).endswith("; the rank has ended")
            wait_until(lambda: 1 in heard.of(Exit), "its end is reported", DEADLINE_S)
            assert 1 in session.parse_ranks("@exited") and not session.parse_ranks("@lost")
        job.process.wait(DEADLINE_S)


def test_a_rank_that_has_ended_before_its_gdb_is_not_said_to_run(
    build: Build, start_job: StartJob
) -> None:
    heard = Heard()
    with start_job(2, build("storm.c")) as job:
        with attached(job, heard) as session:
            gdb = gdb_of(job, 1)
            os.kill(gdb, signal.SIGSTOP)
            os.kill(job.ranks[1], signal.SIGKILL)
            wait_until(lambda: not is_alive(job.ranks[1]), "it has ended", DEADLINE_S)
            os.kill(gdb, signal.SIGKILL)
            wait_until(lambda: 1 in heard.of(Exit), "its end is reported", DEADLINE_S)
            loss = _loss_of(heard, 1)
            assert loss.has_ended and "SIGTRAP" not in loss.why
            assert 1 in session.parse_ranks("@exited")
        job.process.wait(DEADLINE_S)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the guard is for x86-64")
def test_guarded_ranks_survive_their_gdbs_at_a_breakpoint_that_is_hit_all_the_time(
    build: Build, start_job: StartJob
) -> None:
    require_calls()
    heard = Heard()
    with start_job(4, build("storm.c")) as job:
        with pgdb.attach(job.pid, guard=True, on_event=heard) as session:
            assert "guarded" not in str(session.start_answer)
            # The kernel goes on with a step that nobody waits for.
            session.ranks("1").run("stepi", timeout_s=DEADLINE_S).check()
            os.kill(gdb_of(job, 1), signal.SIGKILL)
            wait_until(lambda: heard.of(Gone) == RankSet([1]), "the loss is reported", DEADLINE_S)
            assert_untouched({1: job.ranks[1]})
            session.ranks("1").reattach().check()
            for round_ in range(2):
                session.break_at("hit", condition="hit_count < 0").check()
                session.continue_(wait=False).check()
                wait_broken(job.ranks)
                lost = RankSet.parse("1-3")
                for rank in lost:
                    os.kill(gdb_of(job, rank), signal.SIGKILL)
                wait_until(
                    lambda: session.ranks("@lost").set == lost,  # noqa: B023
                    "the losses are reported",
                    DEADLINE_S,
                )
                assert_untouched({rank: job.ranks[rank] for rank in lost})
                session.interrupt().check()
                back = session.ranks(lost).reattach().check()
                assert "guarded" not in str(back), round_
                session.delete().check()
        assert_untouched(job.ranks)
        for pid in job.ranks.values():
            assert signal.SIGTRAP not in (procfs.caught_signals(pid) or ())


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the guard is for x86-64")
@pytest.mark.parametrize("library", ["shared", "static"])
def test_guarded_ranks_of_fortran_get_their_handler_back(
    build: Build, start_job: StartJob, library: str
) -> None:
    """The library of gfortran has a handler for SIGTRAP."""
    heard = Heard()
    program = build("storm.f90", *(("-static-libgfortran",) if library == "static" else ()))
    with start_job(2, program, in_mpi=False) as job:
        wait_until(
            lambda: all(_sigtrap_is_caught(pid) for pid in job.ranks.values()),
            "the library has set its handler",
            DEADLINE_S,
        )
        with pgdb.attach(job.pid, guard=True, on_event=heard) as session:
            assert "guarded" not in str(session.start_answer)
            session.break_at("hit", condition="number < 0").check()
            session.continue_(wait=False).check()
            wait_broken(job.ranks)
            os.kill(gdb_of(job, 1), signal.SIGKILL)
            wait_until(
                lambda: session.ranks("@lost").set == RankSet([1]),
                "the loss is reported",
                DEADLINE_S,
            )
            assert_untouched({1: job.ranks[1]})
            session.interrupt().check()
            back = session.ranks("1").reattach().check()
            assert "guarded" not in str(back)
        assert_untouched(job.ranks)
        assert all(_sigtrap_is_caught(pid) for pid in job.ranks.values())
        # The handler of the library prints a backtrace, and ends the rank.
        os.kill(job.ranks[0], signal.SIGTRAP)
        assert job.process.wait(DEADLINE_S) != 0


def _sigtrap_is_caught(pid: int) -> bool:
    return signal.SIGTRAP in (procfs.caught_signals(pid) or ())


def test_a_program_with_a_handler_of_its_own_is_not_guarded(
    build: Build, start_job: StartJob
) -> None:
    require_calls()
    with start_job(2, build("storm.c")) as job:
        with pgdb.attach(job.pid) as session:
            session.ranks("1").execute("call (long)signal(5, (long)raise)").check()
        with pgdb.attach(job.pid, guard=True) as session:
            stops = {rank: session.start_answer.for_rank(rank) for rank in (0, 1)}
            assert isinstance(stops[0], Stop) and isinstance(stops[1], Stop)
            assert "guarded" not in stops[0].detail
            assert "handler for SIGTRAP of its own" in stops[1].detail
        assert_untouched(job.ranks)
        assert signal.SIGTRAP in (procfs.caught_signals(job.ranks[1]) or ())
