"""Exchange of the aggregators' addresses: by MPI, or without MPI through the front end.

With MPI, rank 0 reads the session's credentials from its standard input and broadcasts them; all
gather the addresses; then MPI is finalized for good, since a blocked MPI receive would spin a core
of the user's node. Without MPI, the rank comes from the launcher's environment, the credentials
from a file that only the user can read, from standard input (srun gives it to all, ssh to its
one), or last from the environment, and the addresses through the front end.

Anchor and daemon exchange lines through a pair of pipes. The daemon sends rank and size from the
launcher's environment; the anchor sends the rendezvous; the daemon sends its listening address;
the anchor sends the daemon's place and, after MPI is finalized, "join". From then on the daemon
sends only heartbeats.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from pgdb.bootstrap_env import (
    FIRST_NODE_VARIABLE,
    RENDEZVOUS_TEXT_VARIABLE,
    RENDEZVOUS_VARIABLE,
    WIRE_UP_VARIABLE,
)

# Open MPI asks libfabric for fast networks for as long as all the rest of MPI_Init takes, or for
# much longer (5.0 sleeps a second over it); the few short messages here do not need them. A user
# who has chosen networks keeps that choice.
_WITHOUT_FABRICS = {"OMPI_MCA_pml": "^cm", "OMPI_MCA_btl": "^ofi"}


class Wiring(NamedTuple):
    """One aggregator's number, and the addresses of all if MPI has gathered them."""

    node: int
    own_address: str
    is_called: bool
    """Whether the front end connects to the aggregators, not the aggregators to the front end."""
    addresses: tuple[str, ...] = ()


class Daemon:
    """The anchor's end of the pipes to its daemon."""

    def __init__(self, pid: int, to_daemon: int, from_daemon: int) -> None:
        self._pid = pid
        self._to, self._from = os.fdopen(to_daemon, "wb"), os.fdopen(from_daemon, "rb")
        self._identity: tuple[int, int] | None = None

    def environment_rank(self) -> tuple[int, int]:
        """Return rank and size from the launcher's environment; (0, 1) without them."""
        if self._identity is None:
            rank, size = self._receive()
            self._identity = int(rank), int(size)
        return self._identity

    def listen(self, rendezvous: str) -> tuple[str, bool]:
        """Send the rendezvous; return the daemon's address, and whether the front end connects to
        it."""
        self._send(rendezvous.strip())
        address, calls = self._receive()
        return address, calls == "called"

    def send_place(self, node: int, addresses: Sequence[str]) -> None:
        """Send the daemon its number, and all addresses if they are known; it prepares to join."""
        self._send(" ".join((str(node), *addresses)))

    def let_join(self) -> None:
        """Let the daemon join the tree."""
        self._send("join")

    def make_leave(self) -> None:
        """Make the daemon leave."""
        self._to.close()

    def close(self) -> None:
        """Make the daemon leave, and stop reading from it."""
        self._from.close()
        self._to.close()

    @property
    def beats(self) -> int:
        """Descriptor of the daemon's heartbeats, once it has joined."""
        return self._from.fileno()

    def _send(self, line: str) -> None:
        try:
            self._to.write(line.encode("ascii") + b"\n")
            self._to.flush()
        except BrokenPipeError:
            raise self._not_started() from None

    def _receive(self) -> list[str]:
        words = self._from.readline().decode("ascii").split()
        if not words:
            raise self._not_started()
        return words

    def _not_started(self) -> SystemExit:
        """Wait for the daemon's end; return the exit of this process."""
        _, status = os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code > 0:
            # The daemon has printed the reason, and users see a launcher's last lines.
            return SystemExit(1)
        how = f"signal {-code} ended it" if code else "it has left"
        return SystemExit(f"pgdb: the aggregator's daemon did not start: {how}")


def wire_up(daemon: Daemon) -> Wiring:
    """Make the daemon listen where the session's other processes reach it; send it its place."""
    if os.environ.get(WIRE_UP_VARIABLE, "mpi") == "mpi":
        wiring = _by_mpi(daemon)
        if wiring is not None:
            return wiring
    rank, _ = daemon.environment_rank()
    own_address, is_called = daemon.listen(_rendezvous_text())
    node = int(os.environ.get(FIRST_NODE_VARIABLE, "0")) + rank
    daemon.send_place(node, ())
    return Wiring(node, own_address, is_called)


def _rendezvous_text() -> str:
    if text := os.environ.pop(RENDEZVOUS_TEXT_VARIABLE, ""):
        return text
    try:
        with open(os.environ.get(RENDEZVOUS_VARIABLE, ""), encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        # On another host, the process that started us sends it.
        return sys.stdin.readline()


def _by_mpi(daemon: Daemon) -> Wiring | None:
    for name, value in _WITHOUT_FABRICS.items():
        os.environ.setdefault(name, value)
    try:
        import mpi4py

        # We initialise MPI ourselves, for one thread: with a higher thread level some libraries
        # start threads of their own.
        mpi4py.rc.initialize = False
        mpi4py.rc.finalize = False
        from mpi4py import MPI

        MPI.Init()
    except (ImportError, RuntimeError, OSError) as error:
        _warn("no MPI for the aggregators (%s); going without", error)
        return None
    world = MPI.COMM_WORLD
    _, size = daemon.environment_rank()
    if world.Get_size() != size:
        # An MPI other than the launcher's: every process is a job of its own.
        _warn("MPI came up with size %d of %d; going without", world.Get_size(), size)
        MPI.Finalize()
        return None
    node = world.Get_rank()
    rendezvous = world.bcast(sys.stdin.readline() if node == 0 else None, root=0)
    own_address, is_called = daemon.listen(rendezvous)
    addresses = tuple(world.allgather(own_address))
    daemon.send_place(node, addresses)
    MPI.Finalize()
    return Wiring(node, own_address, is_called, addresses)


def _warn(text: str, *arguments: Any) -> None:
    # Imported only here: it takes as long as mpi4py.
    import logging

    host = os.uname().nodename
    logging.basicConfig(format=f"%(asctime)s {host} anchor[%(process)d] %(message)s")
    logging.getLogger(__name__).warning(text, *arguments)
