"""Hardware breakpoints and watchpoints that a dead debugger left in a process.

The kernel keeps the debug registers of a thread when its tracer dies: the next access to the
watched memory ends the process by SIGTRAP. PGDB takes the place of the tracer for a moment, and
clears the register that arms them.
"""

from __future__ import annotations

import asyncio
import platform
import signal

from pgdb.backend.care.pausing import Pauser
from pgdb.jobs import procfs

_PTRACE_POKEUSER = 6
_NO_PAUSE_S, _PAUSE_S, _MOST_S = 0.01, 0.002, 1.0
"""Time without pauses, a pause after it, and the time for a tracer to end, in seconds."""
# struct user of sys/user.h: u_debugreg[7], which enables the others.
_CONTROL = {"x86_64": 848 + 7 * 8}


class _Disarmer(Pauser):
    """Tracer that stops threads only to clear their debug registers."""

    def __init__(self, control: int) -> None:
        super().__init__()
        self._control = control
        self.refused = False

    def _before_release(self, thread: int, number: int) -> int:
        if self._call(_PTRACE_POKEUSER, thread, 0, self._control) != 0:
            self.refused = True
        # A hit meanwhile is none of the program's own.
        return 0 if number == signal.SIGTRAP else number


async def disarm(pid: int, *, waits: bool = False) -> bool:
    """Clear the debug registers of all threads of *pid*, which has no tracer.

    Return whether that is done. A process that has ended has nothing to clear.

    :param waits: the tracer is about to end. The next access to the watched memory ends the process
        once it has no tracer, so this looks for that moment without pauses, for a short time.
    """
    control = _CONTROL.get(platform.machine())
    if control is None:
        return False
    disarmer = _Disarmer(control)
    if waits:
        await _await_free(pid)
    is_whole = pid in disarmer.pause([pid])
    await disarmer.release(pid)
    return (is_whole and not disarmer.refused) or not procfs.is_alive(pid)


async def _await_free(pid: int) -> None:
    loop = asyncio.get_running_loop()
    begin = loop.time()
    while (spent_s := loop.time() - begin) < _MOST_S:
        status = procfs.read_stat(pid)
        if status is None or not status.tracer_pid:
            return
        # A pause of asyncio's takes a millisecond or more.
        await asyncio.sleep(0 if spent_s < _NO_PAUSE_S else _PAUSE_S)
