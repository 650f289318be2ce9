"""Rank 0 gathers from all; rank 2 waits for a message of another tag, which nobody sends."""

import sys

from mpi4py import MPI

WORLD = MPI.COMM_WORLD


def collect(rank: int) -> None:
    if rank == 2:
        WORLD.recv(source=0, tag=9)
    else:
        WORLD.gather(rank, root=0)


# One write, which no other rank's can part.
sys.stdout.write("ready\n")
sys.stdout.flush()
collect(WORLD.rank)
WORLD.Barrier()
