"""Trial whether ranks that yield keep the processes of other sessions from running.

With ``kernel.sched_autogroup_enabled`` at 1 the kernel schedules each session as one group. Beside
a job whose ranks yield (Open MPI with more ranks than cores), whole sessions did not run for
minutes on some kernels (6.18: up to 300 s for ten starts of ``/bin/true``). The version does not
say whether a kernel has the fault, so this module measures it.

Run as ``python -m pgdb.frontend.startup.starvation_trial``, in a process of its own, for it forks.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable

import msgspec

QUIET_S = 0.2
"""Length of the measurement without load."""
LOADED_S = 0.8
"""Length of the measurement beside processes that yield."""
STARVED_S = 0.3
"""Longest start of a program, from here on, that counts as starved."""
STARVED_RATIO = 10.0
"""Least ratio of that time to the longest one without load."""


class Starvation(msgspec.Struct, frozen=True):
    """Longest start of a program in a session, without load and beside yielding processes."""

    quiet_s: float
    loaded_s: float

    @property
    def is_seen(self) -> bool:
        """Whether the load has starved the session, beyond what a busy machine explains."""
        return self.loaded_s >= max(STARVED_S, STARVED_RATIO * self.quiet_s)


def main() -> None:
    """Write what :func:`try_starvation` finds to standard output, as JSON."""
    os.write(1, json.dumps(msgspec.to_builtins(try_starvation())).encode() + b"\n")


def try_starvation() -> Starvation:
    """Measure starts of a program in a new session, alone and beside a session that yields.

    The load ends by itself after LOADED_S: twice as many processes as cores.
    """
    quiet_s = _measure(time.monotonic() + QUIET_S)
    until_s = time.monotonic() + LOADED_S
    count = 2 * len(os.sched_getaffinity(0))
    load = _fork(lambda: _yield_in(count, until_s))
    try:
        loaded_s = _measure(until_s)
    finally:
        os.waitpid(load, 0)
    return Starvation(quiet_s, loaded_s)


def _fork(work: Callable[[], None]) -> int:
    """Return the pid of a process in a new session that does *work* and ends."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.setsid()
            work()
            status = 0
        finally:
            os._exit(status)
    return pid


def _yield_in(count: int, until_s: float) -> None:
    """Yield in *count* processes of this session until a time of the monotonic clock."""
    for _ in range(count - 1):
        if os.fork() == 0:
            break
    while time.monotonic() < until_s:
        for _ in range(100):
            os.sched_yield()


def _measure(until_s: float) -> float:
    """Return the longest start of a program in a new session; a start begins before *until_s*."""
    reading, writing = os.pipe()

    def start_programs() -> None:
        program = shutil.which("true") or "/bin/true"
        longest_s = 0.0
        while (begun_s := time.monotonic()) < until_s:
            os.waitpid(os.posix_spawn(program, ["true"], {}), 0)
            longest_s = max(longest_s, time.monotonic() - begun_s)
        # A session that did not come to its first start was starved until now.
        os.write(writing, repr(longest_s or LOADED_S).encode("ascii"))

    pid = _fork(start_programs)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        found = float(answer.read() or b"nan")
    os.waitpid(pid, 0)
    return found


if __name__ == "__main__":
    main()
