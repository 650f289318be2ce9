"""Words of a job that follow the end of a rank, which says no reason itself."""

from __future__ import annotations

import signal

import pytest

from pgdb.frontend.report.model import Cause
from pgdb.frontend.run.causes import RankEnd, cause_of, words_before_abort, words_before_signal
from pgdb.frontend.run.run_report import with_last_words

LOST = "[a:7] [[2,0],0] ORTE_ERROR_LOG: Data unpack had inadequate space in file show_help.c\n"


@pytest.mark.parametrize(
    "launcher",
    [
        "Primary job  terminated normally, but 1 process returned\na non-zero exit code.",
        "mpirun noticed that process rank 2 with PID 0 on node a exited on signal 6 (Aborted).",
        "prterun noticed that process rank 2 with PID 7 on node a exited on signal 6 (Aborted).",
        "mpirun has exited due to process rank 2 with PID 0 on\nnode a exiting improperly.",
        "prterun detected that one or more processes exited with non-zero status, thus causing",
        "srun: error: a: task 2: Aborted (core dumped)",
        "srun: error: a: tasks 1-2: Exited with exit code 1",
    ],
)
def test_the_words_of_a_launcher_are_not_those_of_the_job(launcher: str) -> None:
    ruler = "-" * 74
    backtrace = "\nProgram aborted. Backtrace:\n#0  0x7f9 in ???\n"
    both = f"step 3\n{backtrace}{ruler}\n{launcher}\n{ruler}\n"
    assert words_before_signal(both, "step 9\n") == "the last line of the job: step 3"
    assert words_before_signal(both[6:], "step 9\n") == "the last line of the job: step 9"
    stopped = f"STOP no convergence\n{ruler}\n{launcher}\n{ruler}\n"
    assert words_before_abort(stopped) == "the last line of the job: STOP no convergence"


@pytest.mark.parametrize(
    ("cause", "more"),
    [
        (Cause(kind="abort", what="rank 2: ended without MPI_Finalize"), "STOP no convergence"),
        (Cause(kind="abort", what="rank 2: MPI_Abort", where="MPI_Abort"), "STOP no convergence"),
        (Cause(kind="signal", what="rank 2 died of SIGABRT, Aborted"), "STOP no convergence"),
        (Cause(kind="exit-code", what="rank 2 ended with status 4"), "step 8"),
        (Cause(kind="exit-code", what="rank 2 ended with status 4; the job said: step 8"), ""),
        (Cause(kind="signal", what="rank 2 died of SIGTERM, Terminated"), ""),
    ],
)
def test_words_of_the_job_follow_an_end_without_a_reason(cause: Cause, more: str) -> None:
    found = with_last_words(cause, "the last line of the job: step 8", ["STOP no convergence\n"])
    assert found.what == cause.what + (f"; the last line of the job: {more}" if more else "")


def test_a_lost_message_can_be_that_of_mpi_abort() -> None:
    killed = [RankEnd(rank, 100 + rank, signal.SIGTERM, 9.1) for rank in (2, 0)]
    ends = [RankEnd(1, 101, 0, 9.0), *killed]
    found = cause_of(ends, LOST)
    assert found is not None and "most likely without MPI_Finalize, or by MPI_Abort:" in found.what
    found = cause_of(ends, "")
    assert found is not None and "MPI_Abort" not in found.what


def test_a_process_can_have_sent_sigkill_to_itself() -> None:
    found = cause_of([RankEnd(2, 102, signal.SIGKILL, 1.0)], "")
    assert found is not None and "another" not in found.what and "which a process" in found.what
