"""The exit status of ``pgdb run``: what has happened to the job."""

from __future__ import annotations

EXIT_OK = 0
EXIT_CHECK = 1
EXIT_USAGE = 2
EXIT_START = 3
EXIT_UNKNOWN = 4
EXIT_SIGNAL = 5
EXIT_ABORT = 6
EXIT_ERROR = 7
EXIT_CODE = 8
EXIT_SANITIZER = 9
EXIT_HANG = 10
EXIT_TIME = 11
EXIT_ENDED = 12

MEANINGS = {
    EXIT_OK: "the job ended, and every rank with status 0",
    EXIT_CHECK: "a condition of `--check` did not hold, or could not be checked",
    EXIT_USAGE: "usage: the command line is wrong; nothing was started",
    EXIT_START: "the job could not be started",
    EXIT_UNKNOWN: "the launcher failed, and no rank has reported a reason",
    EXIT_SIGNAL: "a rank died of a signal",
    EXIT_ABORT: "a rank called MPI_Abort, or had a fatal MPI error",
    EXIT_ERROR: "a failed assertion, an uncaught exception, or an error of a run-time library",
    EXIT_CODE: "a rank ended with a status other than 0",
    EXIT_SANITIZER: "a sanitizer has reported an error",
    EXIT_HANG: "no progress for the time of `--hang-after`",
    EXIT_TIME: "the job's time limit was near, and the job did not end before it",
    EXIT_ENDED: "a signal ended the job: the batch system's or the user's",
}
"""The meanings, as the man page and the table of docs/guide/run.md have them."""

BEFORE_THE_END = ("hang", "time-limit")
"""Kinds of causes after which a job can end well."""
KINDS = {
    "signal": EXIT_SIGNAL,
    "abort": EXIT_ABORT,
    "assertion": EXIT_ERROR,
    "exception": EXIT_ERROR,
    "runtime-error": EXIT_ERROR,
    "exit-code": EXIT_CODE,
    "sanitizer": EXIT_SANITIZER,
    "hang": EXIT_HANG,
    "time-limit": EXIT_TIME,
    "ended": EXIT_ENDED,
    "check": EXIT_CHECK,
    "lost": EXIT_UNKNOWN,
    "none": EXIT_OK,
    "request": EXIT_OK,
}
"""The statuses of all kinds of causes."""


def of_cause(kind: str) -> int:
    """Return the status for the kind of a cause."""
    return KINDS[kind]


def of_report(kind: str, *, ended_well: bool) -> int:
    """Return the status for the cause of the last report.

    A hang or a time limit that was reported before the job *ended well* is no failure.
    """
    if ended_well and kind in BEFORE_THE_END:
        return EXIT_OK
    return of_cause(kind)


def of_job(status: int) -> int:
    """Return the job's own status as a shell has it: 128 and the number for a signal."""
    return status if status >= 0 else 128 - status
