"""The process that the MPI launcher starts on the job's hosts: ``python -m pgdb.backend``.

It starts the aggregator's daemon, wires it up, and stays as its anchor: the launcher's job lasts as
long as the daemon, and exits 0 after it. The anchor ends a daemon that hangs, so that its GDBs
detach from their ranks: no other process on this host could.

The daemon is forked first, so that its imports overlap with MPI_Init, and so that it has none of
MPI's threads and descriptors. The daemon does as much as possible: an import in the anchor delays
MPI_Init, and stays in memory for the whole session.
"""

from __future__ import annotations

import gc
import os
import select
import sys
import time
from typing import TYPE_CHECKING

from pgdb import core_limit

if TYPE_CHECKING:
    from pgdb.backend.node.wireup import Daemon


def main() -> int:
    """Start, wire up and wait for one aggregator; return the exit status."""
    core_limit.leave_none()
    # Imports leave no garbage, and looking for it is a sixth of their CPU time. The anchor makes
    # none later; the daemon turns the collector on when it has its modules.
    gc.disable()
    from_anchor, to_daemon = os.pipe()
    from_daemon, to_anchor = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become_daemon(from_anchor, to_anchor)
        from pgdb.backend.node.daemon import main as serve

        serve()
        # All that was started has ended, and no output is pending. Finalizing the interpreter would
        # keep the user waiting. The anchor, below, does finalize: an MPI may register work at exit
        # (MPICH 5 reports success to its launcher only then).
        os._exit(0)
    os.close(from_anchor)
    os.close(to_anchor)
    # The daemon imports its modules meanwhile.
    from pgdb.backend.node.wireup import Daemon, wire_up
    from pgdb.bootstrap_env import CALL_WORD, CANNOT_JOIN, WATCH_INPUT_VARIABLE

    daemon = Daemon(pid, to_daemon, from_daemon)
    wiring = wire_up(daemon)
    if wiring.is_called and (wiring.node == 0 or not wiring.addresses):
        # One write: launchers forward lines as they arrive.
        sys.stdout.write(f"{CALL_WORD} {wiring.node} {wiring.own_address}\n")
        sys.stdout.flush()
    daemon.let_join()
    _guard(pid, daemon, watches_input=bool(os.environ.get(WATCH_INPUT_VARIABLE)))
    _, status = os.waitpid(pid, 0)
    daemon.close()
    return CANNOT_JOIN if os.waitstatus_to_exitcode(status) == CANNOT_JOIN else 0


def _become_daemon(from_anchor: int, to_anchor: int) -> None:
    """Leave the launcher's session, and close its descriptors and our input and output."""
    os.setsid()
    os.dup2(from_anchor, 0)
    os.dup2(to_anchor, 1)
    for descriptor in [int(name) for name in os.listdir("/proc/self/fd")]:
        if descriptor > 2:
            try:
                os.close(descriptor)
            except OSError:  # the descriptor of the listing itself
                pass
    from pgdb.bootstrap_env import AGGREGATOR_NAME

    # The daemon's command line is the anchor's.
    with open("/proc/self/comm", "w", encoding="ascii") as file:
        file.write(AGGREGATOR_NAME)


class _TerminatedError(Exception):
    """Arrival of SIGTERM, from the process that started us."""


def _guard(pid: int, daemon: Daemon, *, watches_input: bool) -> None:
    """Wait until the daemon has ended; end it if it hangs.

    With *watches_input* the daemon leaves at the end of our input: ssh reports its end in no other
    way.
    """
    import signal

    from pgdb.bootstrap_env import BEAT_S, HANGS_S, LEAVE_HANGS_S

    def terminate(number: int, frame: object) -> None:
        raise _TerminatedError

    ended = os.pidfd_open(pid)
    beats = daemon.beats
    poll = select.poll()
    for descriptor in (ended, beats, *((0,) if watches_input else ())):
        poll.register(descriptor, select.POLLIN)
    limit_s, silent_s = HANGS_S, 0.0
    try:
        signal.signal(signal.SIGTERM, terminate)
        while silent_s < limit_s:
            begun = time.monotonic()
            ready = [descriptor for descriptor, _ in poll.poll(BEAT_S * 1000)]
            if ended in ready:
                return
            if 0 in ready and not os.read(0, 4096):
                poll.unregister(0)
                daemon.make_leave()
                limit_s = LEAVE_HANGS_S
            if beats not in ready:
                # Only the time spent waiting counts: if we were suspended, the daemon may have been
                # too.
                silent_s += min(BEAT_S, time.monotonic() - begun)
            elif os.read(beats, 4096):
                silent_s = 0.0
            else:
                poll.unregister(beats)
    except _TerminatedError:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if silent_s >= LEAVE_HANGS_S:
            os.kill(pid, signal.SIGKILL)
        os.kill(os.getpid(), signal.SIGTERM)
    os.kill(pid, signal.SIGKILL)
    try:
        sys.stderr.write(f"pgdb: the aggregator on {os.uname().nodename} hung, and was ended\n")
    except OSError:  # the disk of the log is full
        pass


if __name__ == "__main__":
    sys.exit(main())
