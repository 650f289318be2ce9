"""The watch for hangs: when it looks, and what it reports."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import msgspec
import pytest

from pgdb.errors import StartError
from pgdb.frontend.report.model import Cause, RankClass, Report, ReportFrame, Verdict
from pgdb.frontend.run import inspection
from pgdb.frontend.run.hang_watch import HangWatch, hang_text
from pgdb.frontend.run.inspection import Looker, Running
from pgdb.frontend.run.options import RunOptions
from pgdb.frontend.run.rank_reports import RankStart
from pgdb.frontend.run.run_report import RunRecord
from pgdb.ranks import RankSet
from tests.fakes.virtual_time import run_at_once

LIMIT_S = 60.0
STILL = Report(time=0.0, title="", cause=Cause(kind="none", what=""), ranks="0")
MOVED = RankSet([1])
Result = Report | RankSet | Exception


class FakeLooker:
    """A looker with a result that is known before."""

    def __init__(self, result: Result, held_s: float = 0.0) -> None:
        self.result = result
        self.held_s = held_s
        self.stopped = RankSet()
        self.work = self.loops = ""
        self.looks_s: list[float] = []

    async def look_for_progress(
        self, gap: Running, on_progress: Callable[[RankSet, str], None]
    ) -> Report | None:
        self.looks_s.append(asyncio.get_running_loop().time())
        await asyncio.sleep(self.held_s)
        if isinstance(self.result, Exception):
            raise self.result
        if isinstance(self.result, Report):
            return self.result
        on_progress(self.result, self.work)
        return None


def watch(
    looker: FakeLooker, seconds: float, activity_s: Callable[[], float] = lambda: 0.001
) -> tuple[list[str], RunRecord]:
    """Watch for a time; return the hangs that were reported, and the record."""
    hangs: list[str] = []
    record = RunRecord(["mpirun"])

    async def run() -> None:
        watching = HangWatch(
            LIMIT_S,
            cast(Looker, looker),
            record,
            activity_s,
            lambda text, report: hangs.append(text),
        )
        for _ in range(2):  # A look of another kind ends the task, and another one goes on.
            try:
                async with asyncio.timeout(seconds / 2):
                    await watching.run()
            except TimeoutError:
                pass

    run_at_once(run())
    return hangs, record


def test_a_hang_is_reported_once() -> None:
    looker = FakeLooker(STILL)
    hangs, _ = watch(looker, 10000.0)
    assert len(hangs) == 1 and "no progress for 60 s" in hangs[0]
    assert looker.looks_s == [pytest.approx(LIMIT_S / 2, abs=1.0)]


def test_a_job_that_goes_on_and_hangs_again_is_reported_again() -> None:
    def activity_s() -> float:
        return 0.001 if asyncio.get_running_loop().time() < 500 else 500.0

    hangs, _ = watch(FakeLooker(STILL), 10000.0, activity_s)
    assert len(hangs) == 2


def test_output_that_comes_during_the_samples_is_progress() -> None:
    def activity_s() -> float:
        return asyncio.get_running_loop().time() // 40 * 40 + 0.001

    looker = FakeLooker(STILL, held_s=5.0)
    hangs, _ = watch(looker, 10000.0, activity_s)
    assert looker.looks_s and not hangs


@pytest.mark.parametrize("result", [MOVED, StartError("no rank is running")])
def test_looks_hold_ranks_for_a_small_share_of_the_time(result: Result) -> None:
    looker = FakeLooker(result, held_s=30.0)
    hangs, record = watch(looker, 100000.0)
    assert not hangs
    assert len(looker.looks_s) > 10
    assert len(looker.looks_s) * looker.held_s <= 0.11 * 100000.0
    if isinstance(result, RankSet):
        assert any("[1]" in each.text for each in record.timeline)
    else:
        assert record.notes == ["no look for progress was possible: no rank is running"]


class ClosingSession:
    """A session whose end takes its time."""

    set = RankSet([0])

    def __init__(self) -> None:
        self.closing = asyncio.Event()
        self.go = asyncio.Event()

    async def close(self, *, kill: bool | None) -> None:
        assert kill is False
        self.closing.set()
        await self.go.wait()


def test_cancellation_at_the_end_of_a_look_ends_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        session = ClosingSession()

        async def attach(*_: object, **__: object) -> ClosingSession:
            return session

        async def sample(*_: object) -> inspection.Moved:
            return inspection.Moved(session.set)

        monkeypatch.setattr(inspection, "attach", attach)
        monkeypatch.setattr(inspection, "look_for_progress", sample)
        rank = RankStart(0, 1, "elsewhere", 1, 1, 0.0, "/", ())
        looker = Looker(RunOptions(line=("mpirun",)), 1, lambda: [rank], list)
        watching = HangWatch(
            LIMIT_S, looker, RunRecord(["mpirun"]), lambda: 0.001, lambda text, report: None
        )
        task = asyncio.create_task(watching.run())
        await session.closing.wait()
        task.cancel()
        await asyncio.sleep(0)
        session.go.set()
        async with asyncio.timeout(1000.0):
            await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    run_at_once(run())


@pytest.mark.parametrize(
    ("innermost", "sleeps"),
    [
        ("__GI___clock_nanosleep", True),
        ("clock_nanosleep@@GLIBC_2.17", True),
        ("usleep", True),
        ("pause", True),
        ("PMPI_Recv", False),
        ("sleepy", False),
    ],
)
def test_a_job_of_which_all_ranks_sleep_is_called_so(innermost: str, sleeps: bool) -> None:
    frames = (ReportFrame(function=innermost), ReportFrame(function="main", line=3))
    classes = (
        RankClass(number=1, ranks="0", count=1, frames=frames),
        RankClass(number=2, ranks="1-3", count=3, frames=(ReportFrame(function="__sleep"),)),
    )
    report = Report(
        time=0.0, title="job", cause=Cause(kind="none", what=""), ranks="0-3", classes=classes
    )
    assert hang_text(8.0, "", report).endswith("all ranks sleep") == sleeps


def test_a_hang_names_the_ranks_that_a_signal_has_stopped() -> None:
    text = hang_text(8.0, "", STILL, RankSet([1]))
    assert "rank 1 is stopped by a signal such as SIGSTOP" in text
    assert "stopped by" not in hang_text(8.0, "", STILL)


def test_a_hang_names_the_ranks_in_loops_that_change_nothing() -> None:
    loop = "rank 0 is in a loop that has no way out, in main at a.py:3"
    assert hang_text(8.0, "", STILL, loops=loop).endswith(f"; {loop}")
    reason = Verdict(
        kind="missing-from-collective",
        text="[1] waits for [0] in a loop that has no way out",
        is_error=True,
    )
    report = msgspec.structs.replace(STILL, verdicts=(reason,))
    assert loop not in hang_text(8.0, "", report, loops=loop)


def test_ranks_that_compute_may_progress_or_not() -> None:
    looker = FakeLooker(RankSet([1]))
    looker.work = "[1] main at a.py:3"
    hangs, record = watch(looker, 1000.0)
    assert not hangs
    assert "whether they progress is not known: [1] main at a.py:3" in record.timeline[-1].text


@pytest.mark.parametrize(
    ("ranks", "words"), [("1", "rank 1 is ending with status 4"), ("1-2", "ranks 1-2 are ending")]
)
def test_the_status_of_ranks_that_hang_as_they_end_is_named(ranks: str, words: str) -> None:
    frames = (
        ReportFrame(function="PMPI_Finalize"),
        ReportFrame(function="Py_Exit", dying="status 4"),
    )
    ending = RankClass(number=1, ranks=ranks, count=1, frames=frames)
    verdict = Verdict(kind="missing", text="rank 0 waits", ranks="0", confidence="certain")
    report = msgspec.structs.replace(STILL, classes=(ending,), verdicts=(verdict,))
    assert f"rank 0 waits; {words}" in hang_text(8.0, "", report)
