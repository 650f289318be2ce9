"""Hardware breakpoints and watchpoints that a dead debugger left in a process.

The kernel keeps the debug registers of a thread when its tracer dies: the next access to the
watched memory ends the process by SIGTRAP. PGDB takes the place of the tracer for a moment, and
clears the register that arms them.
"""

from __future__ import annotations

import platform
import signal

from pgdb.backend.care.pausing import Pauser
from pgdb.jobs import procfs

_PTRACE_POKEUSER = 6
# struct user of sys/user.h: u_debugreg[7], which enables the others.
_CONTROL = {"x86_64": 848 + 7 * 8}


class _Disarmer(Pauser):
    """Stops threads only to clear their debug registers."""

    def __init__(self, control: int) -> None:
        super().__init__()
        self._control = control
        self.refused = False

    def _before_release(self, thread: int, number: int) -> int:
        if self._call(_PTRACE_POKEUSER, thread, 0, self._control) != 0:
            self.refused = True
        # A hit meanwhile is none of the program's own.
        return 0 if number == signal.SIGTRAP else number


async def disarm(pid: int) -> bool:
    """Clear the debug registers of all threads of *pid*, which has no tracer.

    Return whether that is done. A process that has ended has nothing to clear.
    """
    control = _CONTROL.get(platform.machine())
    if control is None:
        return False
    disarmer = _Disarmer(control)
    is_whole = pid in disarmer.pause([pid])
    await disarmer.release(pid)
    return (is_whole and not disarmer.refused) or not procfs.is_alive(pid)
