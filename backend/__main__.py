"""``python -m pgdb.backend``: what the MPI launcher starts on the job's hosts.

It starts the aggregator's daemon, wires it up, and stays as its anchor: blocked in wait, so
that the launcher's job lasts as long as the daemon, and exits 0 when that has ended. The daemon
is forked before anything else is done, so that its imports overlap with MPI_Init, and so that
nothing of MPI's threads and descriptors is in it. What can be done there is done there: what is
imported here holds up MPI_Init, and stays in memory for as long as the session lasts.
"""

from __future__ import annotations

import os
import select
import sys

_NAME = b"pgdb-aggregator"


def main() -> int:
    """Start, wire up and wait for one aggregator; return the exit status."""
    from_anchor, to_daemon = os.pipe()
    from_daemon, to_anchor = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become_daemon(from_anchor, to_anchor)
        from pgdb.backend.daemon import main as serve

        serve()
        return 0
    os.close(from_anchor)
    os.close(to_anchor)
    # The daemon imports its part meanwhile.
    from pgdb.backend.wireup import Daemon, wire_up
    from pgdb.overlay.words import CALL_WORD, CANNOT_JOIN, WATCH_INPUT_VARIABLE

    daemon = Daemon(pid, to_daemon, from_daemon)
    wiring = wire_up(daemon)
    if wiring.is_called and (wiring.node == 0 or not wiring.addresses):
        # One write: launchers pass lines on as they come.
        sys.stdout.write(f"{CALL_WORD} {wiring.node} {wiring.own_address}\n")
        sys.stdout.flush()
    daemon.let_join()
    if os.environ.get(WATCH_INPUT_VARIABLE):
        _wait_for(pid)
        daemon.close()
    _, status = os.waitpid(pid, 0)
    return CANNOT_JOIN if os.waitstatus_to_exitcode(status) == CANNOT_JOIN else 0


def _become_daemon(from_anchor: int, to_anchor: int) -> None:
    """Leave all of the launcher's behind: its session, its descriptors, our input and output."""
    os.setsid()
    os.dup2(from_anchor, 0)
    os.dup2(to_anchor, 1)
    for descriptor in [int(name) for name in os.listdir("/proc/self/fd")]:
        if descriptor > 2:
            try:
                os.close(descriptor)
            except OSError:  # the one of the listing itself
                pass
    # Its command line is the anchor's.
    with open("/proc/self/comm", "wb") as file:
        file.write(_NAME)


def _wait_for(daemon: int) -> None:
    """Wait until the daemon has ended, or our input has: ssh tells of its end in no other way."""
    ended = os.pidfd_open(daemon)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(0, select.POLLIN)
    while True:
        for descriptor, _ in poll.poll():
            if descriptor == ended or not os.read(0, 4096):
                os.close(ended)
                return


if __name__ == "__main__":
    sys.exit(main())
