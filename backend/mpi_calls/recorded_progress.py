"""Looks at the recorder of a rank that runs: the call it is in, and whether it progresses."""

from __future__ import annotations

from pathlib import Path

from pgdb.backend.mpi_calls.memory import Source
from pgdb.backend.mpi_calls.recorder import Recorded, decode, find_recorder, read_recorded
from pgdb.jobs import procfs
from pgdb.mpi_calls import Activity, MpiCall, MpiCallStatus
from pgdb.records import Failure, Record

NO_RECORDER = "the rank has no recorder of MPI calls that can be read"
_ACTIVITIES: tuple[tuple[str, Activity], ...] = (
    ("nanosleep", "sleeping"),
    ("futex", "lock"),
    ("pipe_", "io"),
    ("poll", "io"),
    ("select", "io"),
    ("epoll", "io"),
    ("wait_woken", "io"),
    ("skb", "io"),
    ("read", "io"),
    ("write", "io"),
    ("folio", "io"),
)
"""Parts of names of functions in which the kernel waits, with the activities that they show."""


def recent_calls(source: Source, last: int) -> Record:
    """Return the *last* calls of each thread of a rank, which may run."""
    recorded = read_recorded(source, last)
    if recorded is None:
        return Failure(message=NO_RECORDER)
    state = "in_call" if recorded.calls else recorded.state
    return MpiCallStatus(state=state, recent=recorded.recent)


class RecordedCalls:
    """The calls of one rank at one look after the other; nothing is stopped for a look."""

    def __init__(self, proc: Path = procfs.PROC) -> None:
        self._proc = proc
        self._begin: tuple[int, int] | None = None
        """Process and address of the recorder's memory."""
        self._counts: tuple[int, dict[int, int]] | None = None
        """Process and numbers of calls at the last look."""

    def look(self, source: Source, pid: int) -> Record:
        """Return the call that a rank is in, and whether it has begun one since the last look."""
        recorded = self._read(source, pid)
        if recorded is None:
            return Failure(message=NO_RECORDER)
        known = self._counts
        moved = None
        if known is not None and known[0] == pid:
            moved = known[1] != recorded.counts
        self._counts = (pid, recorded.counts)
        # A child that has not executed a program has its parent's memory.
        tasks = self._proc / str(pid) / "task"
        calls = {tid: each for tid, each in recorded.calls.items() if (tasks / str(tid)).exists()}
        first = calls.get(pid) or next(iter(calls.values()), None)
        if first is not None:
            # Counts and members would make a class of each rank.
            call = MpiCall(function=first.function, kind=first.kind, blocking=first.blocking)
            return MpiCallStatus(state="in_call", calls=(call,), moved=moved)
        return MpiCallStatus(state=recorded.state, activity=self._activity(pid), moved=moved)

    def _read(self, source: Source, pid: int) -> Recorded | None:
        try:
            if self._begin is None or self._begin[0] != pid:
                found = find_recorder(source)
                if found is None:
                    return None
                self._begin = (pid, found)
            with source.opened() as read:
                recorded = decode(self._begin[1], read)
        except OSError:
            return None
        if recorded is None:
            self._begin = None  # as after exec
        return recorded

    def _activity(self, pid: int) -> Activity:
        """Return the activity of a rank outside MPI, as far as the kernel says it."""
        stat = procfs.read_stat(pid, self._proc)
        if stat is None:
            return ""
        if stat.state == "R":
            return "computing"
        if stat.state == "D":
            return "io"
        try:
            name = (self._proc / str(pid) / "wchan").read_text("utf-8", "replace")
        except OSError:
            return ""
        return next((activity for part, activity in _ACTIVITIES if part in name), "")
