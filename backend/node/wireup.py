"""How the aggregators learn of each other: by MPI, or without it through the front end.

With MPI, rank 0 reads the session's credentials from its standard input and broadcasts them;
addresses are gathered by all; then MPI is left for good, since a blocked MPI receive would spin
a core of the user's node. Without MPI, the rank comes from the launcher's environment, the
credentials from a file that only the user can read, from standard input (srun gives it to all,
ssh to its one), or last from the environment, and the addresses through the front end.

Anchor and daemon speak in lines through a pair of pipes: the daemon says rank and size by the
launcher's environment; the anchor hands it the rendezvous, and it says at which address it
listens; the anchor tells it its place, and, once MPI is left, to join. From then on the daemon says
nothing but that it gets on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from pgdb.overlay.bootstrap_env import (
    FIRST_NODE_VARIABLE,
    RENDEZVOUS_TEXT_VARIABLE,
    RENDEZVOUS_VARIABLE,
    WIRE_UP_VARIABLE,
)

# Open MPI asks libfabric for fast networks for as long as all the rest of MPI_Init takes, or for
# much longer (5.0 sleeps a second over it): for the few short messages that there are, others do.
# Who has chosen them for himself keeps his choice.
_WITHOUT_FABRICS = {"OMPI_MCA_pml": "^cm", "OMPI_MCA_btl": "^ofi"}


class Wiring(NamedTuple):
    """One aggregator's place: its number, and where the others are if MPI could tell."""

    node: int
    own_address: str
    is_called: bool
    """Whether the front end calls the aggregators."""
    addresses: tuple[str, ...] = ()


class Daemon:
    """The daemon, as its anchor speaks to it."""

    def __init__(self, pid: int, to_daemon: int, from_daemon: int) -> None:
        self._pid = pid
        self._to, self._from = os.fdopen(to_daemon, "wb"), os.fdopen(from_daemon, "rb")
        self._identity: tuple[int, int] | None = None

    def environment_rank(self) -> tuple[int, int]:
        """Return rank and size as the launcher's environment gives them; (0, 1) if it does not."""
        if self._identity is None:
            rank, size = self._hear()
            self._identity = int(rank), int(size)
        return self._identity

    def listen(self, rendezvous: str) -> tuple[str, bool]:
        """Hand on what the front end tells; return the daemon's address, and if it is called."""
        self._say(rendezvous.strip())
        address, calls = self._hear()
        return address, calls == "called"

    def tell_place(self, node: int, addresses: Sequence[str]) -> None:
        """Tell its number, and the addresses of all if they are known; it gets ready to join."""
        self._say(" ".join((str(node), *addresses)))

    def let_join(self) -> None:
        """Let it take its place in the tree."""
        self._say("join")

    def tell_to_leave(self) -> None:
        """Have it leave."""
        self._to.close()

    def close(self) -> None:
        """Have it leave, and hear no more of it."""
        self._from.close()
        self._to.close()

    @property
    def beats(self) -> int:
        """The descriptor at which it shows that it gets on, once it has joined."""
        return self._from.fileno()

    def _say(self, line: str) -> None:
        try:
            self._to.write(line.encode("ascii") + b"\n")
            self._to.flush()
        except BrokenPipeError:
            raise self._not_started() from None

    def _hear(self) -> list[str]:
        words = self._from.readline().decode("ascii").split()
        if not words:
            raise self._not_started()
        return words

    def _not_started(self) -> SystemExit:
        """Wait for its end; return ours."""
        _, status = os.waitpid(self._pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code > 0:
            # It has said why, and the last words of a launcher are what the user is shown.
            return SystemExit(1)
        how = f"signal {-code} ended it" if code else "it has left"
        return SystemExit(f"pgdb: the aggregator's daemon did not start: {how}")


def wire_up(daemon: Daemon) -> Wiring:
    """Have the daemon listen where the session's other processes reach it; tell it its place."""
    if os.environ.get(WIRE_UP_VARIABLE, "mpi") == "mpi":
        wiring = _by_mpi(daemon)
        if wiring is not None:
            return wiring
    rank, _ = daemon.environment_rank()
    own_address, is_called = daemon.listen(_rendezvous_text())
    node = int(os.environ.get(FIRST_NODE_VARIABLE, "0")) + rank
    daemon.tell_place(node, ())
    return Wiring(node, own_address, is_called)


def _rendezvous_text() -> str:
    if text := os.environ.pop(RENDEZVOUS_TEXT_VARIABLE, ""):
        return text
    try:
        with open(os.environ.get(RENDEZVOUS_VARIABLE, ""), encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        # Another host: what started us there hands it on.
        return sys.stdin.readline()


def _by_mpi(daemon: Daemon) -> Wiring | None:
    for name, value in _WITHOUT_FABRICS.items():
        os.environ.setdefault(name, value)
    try:
        import mpi4py

        # We initialise it ourselves, and use one thread: a thread level above that makes some
        # libraries start threads of their own.
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
        # Another MPI than the launcher's: every process is a job of its own.
        _warn("MPI came up with size %d of %d; going without", world.Get_size(), size)
        MPI.Finalize()
        return None
    node = world.Get_rank()
    told = world.bcast(sys.stdin.readline() if node == 0 else None, root=0)
    own_address, is_called = daemon.listen(told)
    addresses = tuple(world.allgather(own_address))
    daemon.tell_place(node, addresses)
    MPI.Finalize()
    return Wiring(node, own_address, is_called, addresses)


def _warn(text: str, *arguments: Any) -> None:
    # Imported where it is needed: it takes as long as mpi4py.
    import logging

    host = os.uname().nodename
    logging.basicConfig(format=f"%(asctime)s {host} anchor[%(process)d] %(message)s")
    logging.getLogger(__name__).warning(text, *arguments)
