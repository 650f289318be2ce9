"""Ranks that block outside MPI: whether they work all the same, on what object of the kernel they
wait, and how long they sleep."""

from __future__ import annotations

import platform
import struct
import time
from pathlib import Path

from msgspec.structs import replace

from pgdb.backend.mpi_calls.awaited_objects import awaited_object
from pgdb.backend.mpi_calls.memory import Source
from pgdb.jobs import procfs
from pgdb.jobs.thread_states import is_confined
from pgdb.mpi_calls import Activity, MpiCallStatus

_BLOCKING = ("sleeping", "lock", "thread", "deadlock", "io", "dying", "exiting")
_LEAST_TICKS = 3
"""Least CPU ticks of work; a stop by a debugger may cost one or two."""
_WAITS_FOR_CHILD = (61, 247)
"""System calls wait4 and waitid."""
_NANOSLEEP = 35
_CLOCK_NANOSLEEP = 230
_RESTART = 219
"""System call that goes on with one that a signal interrupted, with the registers of that one."""
_ABSOLUTE = 1
_CALLS: dict[Activity, tuple[int, ...]] = {
    "sleeping": (_NANOSLEEP, _CLOCK_NANOSLEEP, 34, 128, 130),
    "lock": (202,),
    "io": (0, 1, 7, 17, 18, 19, 20, 23, 42, 43, 45, 47, 61, 73, 232, 247, 270, 271, 281, 288),
}
"""System calls that block, by what they wait for: a futex is a lock; read, write, poll and the like
are input and output. They count where the names of functions say nothing."""
SLEEPS_S = (0, 1, 10, 60, 600, 3600, 86400)
"""Distinct lengths of sleeps, in seconds; few, so that ranks which sleep are one class."""


class Blocking:
    """The work of one rank between two looks at it."""

    def __init__(self, proc: Path = procfs.PROC) -> None:
        self._proc = proc
        self._before: tuple[int, int] | None = None
        """Process and CPU ticks at the last look."""

    def looked(
        self, status: MpiCallStatus, source: Source, pid: int, thread: int = 0
    ) -> MpiCallStatus:
        """Return the status with what the kernel says of a rank that blocks outside MPI.

        :param thread: the kernel's number of the thread that the status is about, if it is not the
            first one.
        """
        ticks, before = self._ticks(pid), self._before
        self._before = (pid, ticks)
        if status.state == "in_call":
            return status
        if status.activity == "computing" and (
            found := activity_in_call(thread or pid, self._proc)
        ):
            status = replace(status, activity=found)
        # A thread can have its own limits.
        if is_confined(thread or pid, self._proc):
            status = replace(status, is_confined=True)
        if status.activity not in _BLOCKING:
            return status
        if status.activity == "io":
            number, arguments = _known_call(thread or pid, self._proc)
            waits_on = awaited_object(number, arguments[0], pid, self._proc) if arguments else ""
            status = replace(status, waits_on=waits_on)
        worked = None
        if before is not None and before[0] == pid:
            worked = ticks - before[1] >= _LEAST_TICKS
        sleeps_s = self._sleeps_s(source, thread or pid) if status.activity == "sleeping" else None
        return replace(status, worked=worked, sleeps_s=sleeps_s)

    def _ticks(self, pid: int) -> int:
        """Return the CPU ticks of a process and of all that it has started."""
        family = [pid]
        for each in family:  # grows while it is walked
            family += procfs.children_of_main_thread(each, self._proc)
        return sum(procfs.work_done(each, self._proc)[0] for each in family)

    def _sleeps_s(self, source: Source, thread: int) -> int | None:
        """Return the least length of the sleep of a stopped thread, None if it is unknown."""
        number, arguments = _known_call(thread, self._proc)
        if len(arguments) < 3:
            return None
        clock = None
        if number == _NANOSLEEP:
            place = arguments[0]
        elif number in (_CLOCK_NANOSLEEP, _RESTART):
            place = arguments[2]
            clock = arguments[0] if arguments[1] & _ABSOLUTE else None
        else:
            return None
        with source.opened() as read:
            data = read(place, 16)
        if len(data) != 16:
            return None
        seconds, nanoseconds = struct.unpack("<qq", data)
        if not 0 <= nanoseconds < 10**9:
            return None
        if clock is not None:
            if clock not in (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC):
                return None
            seconds -= int(time.clock_gettime(clock))
        return max(each for each in SLEEPS_S if each <= max(seconds, 0))


def activity_in_call(thread: int, proc: Path = procfs.PROC) -> Activity:
    """Return the wait of a thread by the system call that it is in, empty if it waits in none."""
    number, _ = _known_call(thread, proc)
    return next((each for each, numbers in _CALLS.items() if number in numbers), "")


def awaits_child(pid: int, proc: Path = procfs.PROC) -> bool:
    """Return whether the first thread of a process is in a system call that waits for a child."""
    return _known_call(pid, proc)[0] in _WAITS_FOR_CHILD


def _known_call(thread: int, proc: Path) -> tuple[int, tuple[int, ...]]:
    if platform.machine() != "x86_64":
        return -1, ()  # the numbers are those of another table
    return system_call(thread, proc)


def system_call(thread: int, proc: Path = procfs.PROC) -> tuple[int, tuple[int, ...]]:
    """Return the number of the system call that a stopped thread is in, and its arguments.

    *thread* is the kernel's number of the thread. The number is -1 outside a system call.
    """
    try:
        text = (proc / str(thread) / "syscall").read_text("ascii", "replace")
        number, *arguments = (int(each, 0) for each in text.split())
    except (OSError, ValueError):
        return -1, ()
    return number, tuple(arguments)
