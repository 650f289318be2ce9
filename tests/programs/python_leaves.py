"""Rank 1 ends, and the others wait for it in a barrier."""

import sys

from mpi4py import MPI

# One write, which no other rank's can part.
sys.stdout.write("ready\n")
sys.stdout.flush()
if MPI.COMM_WORLD.rank != 1:
    MPI.COMM_WORLD.Barrier()
