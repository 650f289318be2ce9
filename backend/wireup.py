"""How the aggregators learn of each other: by MPI, or without it through the front end.

With MPI, rank 0 reads the session's credentials from its standard input and broadcasts them;
addresses are gathered by all; then MPI is left for good, since a blocked MPI receive would spin
a core of the user's node. Without MPI, the rank comes from the launcher's environment, the
credentials from a file that only the user can read, from standard input (srun gives it to all,
ssh to its one), or last from the environment, and the addresses through the front end.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from pgdb.jobs import procfs
from pgdb.overlay.rendezvous import (
    FIRST_NODE_VARIABLE,
    RENDEZVOUS_TEXT_VARIABLE,
    RENDEZVOUS_VARIABLE,
    WIRE_UP_VARIABLE,
    Rendezvous,
)

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Wiring:
    """One aggregator's place: its number, and where the others are if MPI could tell."""

    node: int
    rendezvous: Rendezvous
    own_address: str
    addresses: tuple[str, ...] = ()


def environment_rank() -> tuple[int, int]:
    """Return rank and size as the launcher's environment gives them; (0, 1) if it does not."""
    identity = procfs.rank_environment(os.environ)
    return (identity.rank, identity.size or 1) if identity is not None else (0, 1)


def wire_up(own_address: Callable[[Rendezvous], str]) -> Wiring:
    """Learn this aggregator's place.

    *own_address* starts to listen where the session's other processes can reach this one, and
    returns the ``host:port`` at which it does.
    """
    if os.environ.get(WIRE_UP_VARIABLE, "mpi") == "mpi":
        wiring = _by_mpi(own_address)
        if wiring is not None:
            return wiring
    rendezvous = Rendezvous.parse(_rendezvous_text())
    rank, _ = environment_rank()
    first = int(os.environ.get(FIRST_NODE_VARIABLE, "0"))
    return Wiring(node=first + rank, rendezvous=rendezvous, own_address=own_address(rendezvous))


def _rendezvous_text() -> str:
    if text := os.environ.pop(RENDEZVOUS_TEXT_VARIABLE, ""):
        return text
    try:
        with open(os.environ.get(RENDEZVOUS_VARIABLE, ""), encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        # Another host: what started us there hands it on.
        return sys.stdin.readline()


def _by_mpi(own_address: Callable[[Rendezvous], str]) -> Wiring | None:
    rank, size = environment_rank()
    try:
        import mpi4py

        # We initialise it ourselves, and use one thread: a thread level above that makes some
        # libraries start threads of their own.
        mpi4py.rc.initialize = False
        mpi4py.rc.finalize = False
        from mpi4py import MPI

        MPI.Init()
    except (ImportError, RuntimeError, OSError) as error:
        LOG.warning("no MPI for the aggregators (%s); going without", error)
        return None
    world = MPI.COMM_WORLD
    if world.Get_size() != size:
        # Another MPI than the launcher's: every process is a job of its own.
        LOG.warning("MPI came up with size %d of %d; going without", world.Get_size(), size)
        MPI.Finalize()
        return None
    rank = world.Get_rank()
    told = world.bcast(sys.stdin.readline() if rank == 0 else None, root=0)
    rendezvous = Rendezvous.parse(told)
    address = own_address(rendezvous)
    addresses = world.allgather(address)
    MPI.Finalize()
    return replace(
        Wiring(node=rank, rendezvous=rendezvous, own_address=address), addresses=tuple(addresses)
    )
