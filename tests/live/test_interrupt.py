"""Interrupts in a storm of breakpoints, then detach: every rank lives, and has missed nothing.

A signal that was sent to stop a rank just when it stopped on a breakpoint stays pending in the
kernel; after detach it would be delivered, and SIGINT, which GDB itself sends, would end the job.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import signal

import pytest

import pgdb
from pgdb.frontend.api.options import SessionOptions
from pgdb.frontend.startup.start import attach
from pgdb.jobs import procfs
from pgdb.ranks import RankSet
from pgdb.records import Exit, Failure, Stop
from tests.conftest import Build, StartJob
from tests.support.jobs import Job
from tests.support.processes import wait_until
from tests.support.programs import Mpi
from tests.support.terminal import assert_untouched, ex, run_json

pytestmark = [pytest.mark.mpi, pytest.mark.any_mpi]
EXTRA = 200
STEPS = 4000


DEADLINE_S = 120.0
OPTIONS = SessionOptions(timeout_s=DEADLINE_S, start_timeout_s=DEADLINE_S)


async def storm(job: Job, rng: random.Random, *, rounds: int) -> None:
    """Attach, interrupt some times while breakpoints are being hit, detach."""
    session = await attach(job.pid, OPTIONS)
    try:
        (await session.break_at("hit")).check()
        for number in range(rounds):
            (await session.continue_(wait=False)).check()
            # Not a wait for anything: the moment is to be any one around the next hits.
            await asyncio.sleep(rng.uniform(0.0, 0.004))
            if number == rounds - 1 and rng.random() < 0.5:
                break
            await session.interrupt()
            stopped = (await session.wait(timeout_s=DEADLINE_S)).check()
            for each in stopped:
                assert isinstance(each.record, Stop), each.record
                assert each.record.reason in ("breakpoint-hit", "interrupted"), each.record
        if rng.random() < 0.5:
            (await session.detach()).check()
    finally:
        await session.close()


def end_job(job: Job) -> None:
    """Let every rank call hit() some more times and end."""
    finished = run_json(
        "attach", *ex(f"set var main::iterations = hit_count + {EXTRA}", "detach"), job.pid
    )
    assert finished.status == 0, finished.out


def run_storm(
    build: Build,
    start_job: StartJob,
    output: pytest.CaptureFixture[str],
    *,
    ranks: int,
    cycles: int,
) -> None:
    rng = random.Random(20)
    with start_job(ranks, build("storm.c")) as job:
        for _ in range(cycles):
            asyncio.run(storm(job, rng, rounds=3))
            assert_untouched(job.ranks, progress=3)
            for rank, pid in job.ranks.items():
                # One that nobody would notice is allowed to be left: it does nothing by default.
                fatal = (procfs.pending_signals(pid) or set()) - {16, 17, 18, 23, 28}
                assert not fatal, f"rank {rank} has the signals {fatal} pending"
        end_job(job)
        assert job.process.wait(DEADLINE_S) == 0
    text = output.readouterr().out
    done = {int(rank): int(count) for rank, count in re.findall(r"rank (\d+) done (\d+)", text)}
    assert set(done) == set(range(ranks)), text
    assert all(count > EXTRA for count in done.values())


def test_interrupts_in_a_storm_of_breakpoints(
    build: Build, start_job: StartJob, capfd: pytest.CaptureFixture[str]
) -> None:
    run_storm(build, start_job, capfd, ranks=8, cycles=6)


@pytest.mark.slow
def test_200_interrupts_in_a_storm_of_breakpoints(
    mpi: Mpi, build: Build, start_job: StartJob, capfd: pytest.CaptureFixture[str]
) -> None:
    if mpi.name != "openmpi":
        pytest.skip("the launcher has no part in it; 48 of them are done under each MPI")
    run_storm(build, start_job, capfd, ranks=8, cycles=25)


def test_no_hit_is_lost_or_counted_twice(
    build: Build, start_job: StartJob, capfd: pytest.CaptureFixture[str]
) -> None:
    """The breakpoint instruction is stepped over exactly, whatever stops the rank meanwhile."""
    wanted: dict[int, int] = {}

    async def session(job: Job) -> None:
        session = await attach(job.pid, OPTIONS)
        try:
            # Counted from here: the job might be over before we have attached.
            (await session.execute(f"set var main::iterations = hit_count + {STEPS}")).check()
            reported = (await session.evaluate("main::iterations")).check().values
            wanted.update({rank: int(str(count)) for rank, count in reported.items()})
            (await session.break_at("hit", condition="hit_count % 7 == 0")).check()
            rng = random.Random(5)
            for _ in range(10):
                answer = await session.continue_(wait=False)
                if any(isinstance(each.record, Exit) for each in answer):
                    break
                await asyncio.sleep(rng.uniform(0.0, 0.01))
                await session.interrupt()
        finally:
            await session.close()

    with start_job(2, build("storm.c")) as job:
        with contextlib.closing(asyncio.new_event_loop()) as loop:
            loop.run_until_complete(session(job))
        assert job.process.wait(DEADLINE_S) == 0
    text = capfd.readouterr().out
    done = {int(rank): int(count) for rank, count in re.findall(r"rank (\d+) done (\d+)", text)}
    assert set(wanted) == {0, 1}
    assert done == wanted, text


def test_a_rank_that_blocks_the_signal_says_so(build: Build, start_job: StartJob) -> None:
    with start_job(2, build("masks.c"), "block") as job:
        with pgdb.attach(job.pid, timeout_s=DEADLINE_S) as session:
            session.continue_(wait=False).check()
            answer = session.interrupt(timeout_s=DEADLINE_S)
            assert isinstance(answer.for_rank(1), Stop)
            assert answer.for_rank(0) == Failure(
                message="all its threads block SIGURG, which is what interrupts a rank; "
                "a breakpoint stops it"
            )
            session.break_at("hit").check()
            stop = session.wait(timeout_s=DEADLINE_S).check().for_rank(0)
            assert isinstance(stop, Stop) and stop.reason == "breakpoint-hit"
        assert_untouched(job.ranks)


def test_a_rank_that_blocks_the_signal_is_detached_while_it_runs(
    build: Build, start_job: StartJob
) -> None:
    with start_job(2, build("masks.c"), "block") as job:
        finished = run_json("attach", *ex("break main", "c &"), job.pid)
        assert finished.status == 0, finished.out
        assert_untouched(job.ranks)


def leave_in_call(session: pgdb.Session, expression: str) -> None:
    """Have all ranks in a call that does not return within its command's time.

    A GDB that has not read the symbols in half of that time is interrupted before the call.
    """
    left = session.set

    def are_in_it() -> bool:
        nonlocal left
        left -= session.ranks(left).evaluate(expression, timeout_s=0.5).missing.late
        return not left

    wait_until(are_in_it, f"all ranks are in {expression}")


def test_a_call_in_a_rank_that_blocks_sigint_is_waited_for(
    build: Build, start_job: StartJob
) -> None:
    """The SIGINT that has GDB give up a call would stay, and end the rank later."""
    with start_job(2, build("masks.c"), "block", f"{signal.SIGINT:d}") as job:
        with pgdb.attach(job.pid, timeout_s=DEADLINE_S) as session:
            leave_in_call(session, "(int)usleep(6000000)")
            (failed,) = session.interrupt().classes
            assert str(failed.ranks) == "0"
            assert failed.record == Failure(
                message="GDB waits for a function that the rank is in, where all threads block "
                "SIGINT; it cannot be interrupted"
            )
            assert signal.SIGINT not in (procfs.pending_signals(job.ranks[0]) or ())
            wait_until(lambda: not session.evaluate("6 * 7").missing, "it returns", DEADLINE_S)
        assert_untouched(job.ranks)


def test_a_sigint_that_is_left_over_is_taken_out_before_a_rank_is_detached(
    build: Build, start_job: StartJob
) -> None:
    """A call can have returned between GDB's SIGINT and the rank's taking it."""
    with start_job(2, build("storm.c")) as job:
        with pgdb.attach(job.pid, timeout_s=DEADLINE_S) as session:
            leave_in_call(session, "(int)pause()")
            session.interrupt().check()
            session.evaluate("6 * 7").check()
            os.kill(job.ranks[1], signal.SIGINT)
            assert signal.SIGINT in (procfs.pending_signals(job.ranks[1]) or ())
            session.detach().check()
        assert_untouched(job.ranks)


def test_a_rank_that_handles_and_blocks_the_signal_is_detached_though_it_pends(
    build: Build, start_job: StartJob
) -> None:
    with start_job(2, build("masks.c"), "both") as job:
        with pgdb.attach(job.pid, timeout_s=DEADLINE_S) as session:
            session.break_at("hit").check()
            session.continue_().check()
            os.kill(job.ranks[0], signal.SIGURG)
            assert signal.SIGURG in (procfs.pending_signals(job.ranks[0]) or ())
            session.detach().check()
            assert_untouched(job.ranks)


def test_a_rank_that_blocks_the_signal_and_runs_says_so_at_detach(
    build: Build, start_job: StartJob
) -> None:
    with start_job(2, build("masks.c"), "block") as job:
        with pgdb.attach(job.pid, timeout_s=DEADLINE_S) as session:
            session.continue_(wait=False).check()
            (failed,) = session.detach().errors
            assert str(failed.ranks) == "0"
            assert isinstance(failed.record, Failure)
            assert failed.record.message.startswith("all its threads block SIGURG")
            assert session.ranks("@running").set == RankSet([0])
        assert_untouched(job.ranks)


def test_a_handler_of_the_program_hears_nothing_of_it(build: Build, start_job: StartJob) -> None:
    with start_job(2, build("masks.c"), "handle") as job:
        commands = ("c &", "interrupt", "p handled", "c &", "interrupt", "p handled")
        finished = run_json("attach", *ex(*commands), job.pid)
        for each in finished.answers("interrupt"):
            assert {each["record"]["reason"] for each in each["classes"]} == {"interrupted"}
        for each in finished.answers("print handled"):
            assert [(c["ranks"], c["value"]) for c in each["classes"]] == [("0-1", 0)]
        assert_untouched(job.ranks)
