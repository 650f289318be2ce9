"""The times of reports that no rank causes, in a run with GDBs and in one without."""

from __future__ import annotations

import asyncio

import pytest

from pgdb.frontend.run.occasions import Occasions
from pgdb.frontend.run.options import RunOptions
from pgdb.frontend.run.supervisor import Supervisor
from pgdb.frontend.run.time_limit import TimeLimit
from pgdb.frontend.run.with_gdb import GdbRun
from tests.fakes.virtual_time import run_at_once

STARTS_S = (0.0, 25.0)
"""Times that a job takes to start: without GDBs, and with GDBs that read large symbols."""


class FakeLog:
    """Log that keeps its texts."""

    def __init__(self) -> None:
        self.notices: list[str] = []
        self.notes: list[str] = []
        self.said: list[str] = []

    def add_notice(self, text: str) -> None:
        self.notices.append(text)

    def add_note(self, text: str) -> None:
        self.notes.append(text)

    def say(self, text: str) -> None:
        self.said.append(text)


def run_options(*, before_timeout_s: float = 0.0, wall_time_s: float = 0.0) -> RunOptions:
    return RunOptions(
        line=("mpirun", "./a"), before_timeout_s=before_timeout_s, wall_time_s=wall_time_s
    )


def run(
    options: RunOptions, start_s: float, found: TimeLimit | None = None
) -> tuple[list[tuple[float, str, str]], FakeLog]:
    """Start a job and wait for its time limit; return the events with their times, and the log."""
    events: list[tuple[float, str, str]] = []
    log = FakeLog()

    async def wait() -> None:
        now = asyncio.get_running_loop().time
        occasions = Occasions(
            options,
            log,
            lambda kind, text: events.append((now(), kind, text)),
            find=lambda: found,
            now=now,
        )
        await asyncio.sleep(start_s)
        await occasions.wait_time_limit()

    run_at_once(wait())
    return events, log


@pytest.mark.parametrize("start_s", STARTS_S)
def test_the_wall_time_counts_from_the_begin_of_the_run(start_s: float) -> None:
    events, log = run(run_options(before_timeout_s=20.0, wall_time_s=60.0), start_s)
    assert events == [(40.0, "time-limit", "20 s before the time limit (--wall-time)")]
    assert log.notices == [f"the time limit is in {60 - start_s:.0f} s (--wall-time)"]
    assert not log.notes and not log.said


@pytest.mark.parametrize("start_s", STARTS_S)
def test_the_limit_of_a_batch_system_is_a_time(start_s: float) -> None:
    limit = TimeLimit(60.0, "Slurm (squeue)")
    events, _ = run(run_options(before_timeout_s=20.0), start_s, limit)
    assert events == [(40.0, "time-limit", "20 s before the time limit (Slurm (squeue))")]


def test_a_limit_that_is_near_already_is_announced_at_once() -> None:
    events, _ = run(run_options(before_timeout_s=50.0, wall_time_s=60.0), 25.0)
    assert [time_s for time_s, _, _ in events] == [25.0]


def test_a_missing_limit_is_a_note_of_the_report() -> None:
    events, log = run(run_options(before_timeout_s=20.0), 0.0)
    assert not events and not log.notices
    assert log.notes == [
        "--before-timeout: no batch system here names a time limit; --wall-time gives it"
    ]
    assert log.said == ["--before-timeout: no time limit was found; give it with --wall-time"]


@pytest.mark.parametrize("kind", [Supervisor, GdbRun])
def test_both_runs_count_from_before_the_start_of_the_job(
    kind: type[Supervisor] | type[GdbRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[RunOptions] = []
    monkeypatch.setattr(f"{kind.__module__}.Occasions", lambda options, *_: begun.append(options))
    options = run_options()
    kind(options)
    assert begun == [options]
