"""The states of a rank for which the others wait in a barrier."""

from __future__ import annotations

from pgdb.mpi_calls import MpiCallStatus
from tests.support.why_calls import outside, passing

LATE: dict[str, tuple[MpiCallStatus, str, str]] = {
    "computes": (outside(), "cannot tell", "it is slow, or in a loop that does not end"),
    "Python": (outside("python"), "cannot tell", "it is slow, or in a loop that does not end"),
    "no way out": (outside(loop="no way out"), "certain", ""),
    "spins": (outside(loop="spins"), "likely", "another thread may end the loop"),
    "looks at its window": (passing("MPI_Win_sync", "rma"), "likely", "another thread"),
    "lock": (outside("lock"), "likely", "used no processor"),
    "lock, threads work": (outside("lock", worked=True), "cannot tell", "other threads"),
    "lock, not looked at twice": (outside("lock", worked=None), "cannot tell", "other threads"),
    "another thread": (outside("thread"), "likely", "used no processor"),
    "a lock of its own": (outside("deadlock", worked=True), "certain", ""),
    "reads": (outside("io"), "likely", "used no processor"),
    "its child works": (outside("io", worked=True), "cannot tell", "child processes"),
    "short sleep": (outside("sleeping", sleeps_s=1), "cannot tell", "1 s or longer, and wakes up"),
    "long sleep": (outside("sleeping", sleeps_s=86400), "likely", "it may wake up"),
    "sleep without end": (outside("sleeping"), "likely", "it may wake up"),
    "sleeps again and again": (
        outside("sleeping", sleeps_s=0, loop="no way out"),
        "certain",
        "",
    ),
}
