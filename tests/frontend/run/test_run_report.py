"""The report of a run, from the ends of ranks."""

from __future__ import annotations

import signal

from pgdb.frontend.report.model import Cause, RankClass, Report, ReportFrame, ReportStop
from pgdb.frontend.run import exit_status
from pgdb.frontend.run.causes import RankEnd
from pgdb.frontend.run.rank_reports import RankStart
from pgdb.frontend.run.run_report import RunRecord, cause_of_event, report_of, stops_of
from pgdb.ranks import RankSet

SEGV = RankEnd(1, 101, signal.SIGSEGV, 0.0)
TERM = RankEnd(0, 100, signal.SIGTERM, 0.0)


def test_a_rank_that_was_ended_with_a_hanging_job_is_no_first_failure() -> None:
    (only,) = stops_of([TERM], has_failed=False)
    assert (only.ranks, only.is_first) == ("0", False)
    (only,) = stops_of([TERM], has_failed=True)
    assert only.is_first


def test_a_hang_is_of_the_ranks_that_have_not_ended() -> None:
    ranks = RankSet([0, 1, 2])
    cause = cause_of_event("hang", "no progress", ranks, RankSet([0, 2]))
    assert (cause.who, cause.what) == ("1", "no progress; [0,2] had ended before")
    for gone in (RankSet(), ranks):
        cause = cause_of_event("hang", "no progress", ranks, gone)
        assert (cause.who, cause.what) == ("0-2", "no progress")


def test_the_place_of_a_hang_is_in_no_source_of_the_interpreter() -> None:
    source = "/tmp/build/Python-3.11.7/Python/thread_pthread.h"
    waits = ReportFrame(function="PyThread_acquire", file="thread.h", fullname=source, line=497)
    leave = ReportFrame(
        function="leave", file="run.py", fullname="/a/run.py", line=6, language="python"
    )
    library = ReportFrame(
        function="call",
        file="x.py",
        fullname="/v/lib/python3.11/site-packages/x.py",
        line=3,
        language="python",
    )
    mpi = ReportFrame(function="PMPI_Finalize", library="libmpi.so")
    record = RunRecord(["mpirun", "app"])
    cause = Cause(kind="hang", what="no progress", severity="warning")
    record.look = Report(
        time=0.0,
        title="",
        cause=cause,
        ranks="0-2",
        classes=(
            RankClass(number=1, ranks="2", count=1, frames=(waits, library, leave)),
            RankClass(number=2, ranks="0-1", count=2, frames=(mpi, waits)),
        ),
    )
    found = report_of(record, cause, starts=(), ends=(), rings=(), status=None, environment={})
    assert found.cause.where == "[2] PyThread_acquire <- leave at run.py:6, [0-1] PMPI_Finalize"
    assert (found.cause.file, found.cause.line) == ("/a/run.py", 6)


def test_a_rank_that_dies_of_its_own_is_the_first_in_a_hanging_job_too() -> None:
    found = stops_of([TERM, SEGV], has_failed=False)
    assert [(each.ranks, each.is_first) for each in found] == [("1", True), ("0", False)]
    # The launcher has ended rank 0: it is no failure of its own.
    assert [each.is_error for each in found] == [True, False]


def test_a_rank_of_the_cause_is_the_first_where_the_launcher_has_ended_the_others() -> None:
    left = RankEnd(1, 101, 0, 0.0)
    found = stops_of([left, TERM], has_failed=True, guilty=RankSet([1]))
    assert [(each.ranks, each.is_first) for each in found] == [("1", True), ("0", False)]
    found = stops_of([left, TERM], has_failed=True, guilty=RankSet([0, 1]))
    assert [(each.ranks, each.is_first) for each in found] == [("0", True), ("1", False)]


def test_none_of_the_ranks_that_a_launcher_has_ended_together_is_the_first() -> None:
    ends = [RankEnd(2, 102, signal.SIGTERM, 0.0), TERM]
    found = stops_of(ends, has_failed=True, guilty=RankSet([0, 2]))
    assert [(each.ranks, each.is_first) for each in found] == [("0,2", False)]


def test_ranks_that_pgdb_has_ended_are_reported_as_such() -> None:
    other = RankEnd(2, 102, signal.SIGTERM, 0.0)
    found = stops_of(
        [TERM, SEGV, other], has_failed=True, killed={2}, ended_by="pgdb run has ended the job"
    )
    assert [each.ranks for each in found] == ["1", "0", "2"]
    assert found[2].text == "died of SIGTERM, Terminated: pgdb run has ended the job"
    assert not found[2].is_error
    # All were ended: none has failed by itself.
    (only,) = stops_of([TERM], has_failed=True, killed={0}, ended_by="pgdb run has ended the job")
    assert (only.is_first, only.is_error) == (False, False)


def test_ranks_whose_end_nobody_has_reported_do_not_run_any_more() -> None:
    start = RankStart(rank=0, size=2, host="a", pid=9, time=0.0, directory="/", program=("app",))

    def states_of(status: int | None) -> tuple[str, str, bool]:
        report = report_of(
            RunRecord(["mpirun", "app"]),
            Cause(kind="signal", what="rank 1 died"),
            starts=[start],
            ends=[SEGV],
            rings=[],
            status=status,
            environment={},
        )
        is_noted = any("the ends of ranks [0]" in each for each in report.notes)
        return report.states.running, report.states.exited, is_noted

    assert states_of(None) == ("0", "1", False)
    assert states_of(1) == ("", "1", True)


def test_the_reason_for_a_death_comes_from_the_core_file() -> None:
    reason = "    cause: an access through a null pointer"
    record = RunRecord(["mpirun", "app"])
    died = Cause(kind="signal", what="rank 1 died", who="1")
    record.cores = Report(
        time=0.0,
        title="cores",
        cause=died,
        ranks="1",
        stops=(ReportStop(ranks="1", text=f"SIGSEGV: f () at f.c:3\n{reason}"),),
    )

    def texts(*ends: RankEnd) -> list[str]:
        report = report_of(record, died, starts=[], ends=ends, rings=[], status=1, environment={})
        return [each.text for each in report.stops]

    whole = report_of(record, died, starts=[], ends=[SEGV], rings=[], status=1, environment={})
    assert whole.cause.what == "rank 1 died; cause: an access through a null pointer"
    first, last = texts(SEGV, TERM)
    assert first == f"died of SIGSEGV, Segmentation fault\n{reason}"
    assert last == "died of SIGTERM, Terminated"
    # The first to fail stands alone; of the two others that died alike, one has left a core file.
    _, others, _ = texts(
        RankEnd(0, 100, signal.SIGSEGV, 0.0), SEGV, RankEnd(3, 103, signal.SIGSEGV, 0.0), TERM
    )
    assert (
        others == "died of SIGSEGV, Segmentation fault\n[1] cause: an access through a null pointer"
    )


def test_the_cause_of_a_job_whose_ranks_began_late_has_its_ranks() -> None:
    record = RunRecord(["mpirun", "app"])
    limit = Cause(kind="time-limit", what="10 s before the time limit")
    record.look = Report(time=0.0, title="app", cause=limit, ranks="0-3")
    report = report_of(record, limit, starts=[], ends=[], rings=[], status=None, environment={})
    assert report.cause.who == "0-3"


def test_a_hang_before_a_job_ends_well_is_no_failure() -> None:
    assert exit_status.of_report("hang", ended_well=True) == exit_status.EXIT_OK
    assert exit_status.of_report("hang", ended_well=False) == exit_status.EXIT_HANG
    assert exit_status.of_report("check", ended_well=True) == exit_status.EXIT_CHECK
