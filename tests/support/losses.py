"""Sessions whose ranks lose their GDBs, and their notifications."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pgdb
from pgdb.frontend.api.notifications import Notification
from pgdb.ranks import RankSet
from pgdb.records import Gone, Stop
from tests.support.jobs import Job, gdb_of
from tests.support.processes import command_of, is_traced, parent_of, status, wait_until
from tests.support.terminal import DEADLINE_S


class Heard:
    """Notifications of a session."""

    def __init__(self) -> None:
        self.all: list[Notification] = []

    def __call__(self, reported: Notification) -> None:
        self.all.append(reported)

    def of(self, kind: type[object]) -> RankSet:
        """Return the ranks with an event of a kind."""
        return RankSet.union(
            each.ranks
            for reported in list(self.all)
            for each in reported.classes
            if isinstance(each.record, kind)
        )

    def signals(self, rank: int) -> list[str]:
        """Return the signals that have stopped a rank."""
        return [
            each.filled.signal
            for reported in list(self.all)
            for each in reported.classes
            if rank in each.ranks and isinstance(each.filled, Stop)
        ]

    def why_gone(self, rank: int) -> list[str]:
        """Return what was said of the end of a rank's debugger."""
        return [
            each.filled.why
            for reported in list(self.all)
            for each in reported.classes
            if rank in each.ranks and isinstance(each.filled, Gone)
        ]


def lose_gdb(job: Job, rank: int, heard: Heard) -> None:
    """Kill the GDB of a rank, and wait until the session has reported the loss of this rank alone.

    The loss must not say that a breakpoint may be left in the rank.
    """
    os.kill(gdb_of(job, rank), signal.SIGKILL)
    wait_until(lambda: heard.of(Gone) == RankSet([rank]), "the loss is reported", DEADLINE_S)
    assert "SIGTRAP" not in "".join(heard.why_gone(rank))


@contextmanager
def attached(
    job: Job, heard: Callable[[Notification], None] | None = None
) -> Iterator[pgdb.Session]:
    """Attach to a job; after it all ranks that live run free."""
    with pgdb.attach(job.pid, timeout_s=DEADLINE_S, on_event=heard) as session:
        yield session
        session.close()


def stopped_at(answer: pgdb.Answer, number: int) -> RankSet:
    """Return the ranks that have stopped at a breakpoint."""
    return RankSet.union(
        each.ranks
        for each in answer.classes
        if isinstance(each.record, Stop) and each.record.breakpoint == number
    )


def hang(time_s: int) -> list[str]:
    """Return a script at which a GDB neither answers nor computes, nor heeds SIGINT."""
    masked = "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})"
    return ["python", "import signal, time", masked, f"time.sleep({time_s})", "end"]


def forked_gdbs(job: Job) -> set[int]:
    """Return those tracers of ranks that were forked from another GDB."""
    found = set()
    for pid in job.ranks.values():
        with suppress(OSError):
            tracer = int(status(pid, "TracerPid"))
            if tracer and "-i=mi3" in command_of(parent_of(tracer)):
                found.add(tracer)
    return found


def count_traced(job: Job) -> int:
    """Return how many ranks have a debugger, of those that have not ended."""
    count = 0
    for pid in job.ranks.values():
        with suppress(OSError):
            count += is_traced(pid)
    return count
