"""Shared by the Python programs of this folder: each rank makes a file before it goes on."""

import os
from pathlib import Path

from mpi4py import MPI

world = MPI.COMM_WORLD
rank = world.rank
world.Barrier()
if folder := os.environ.get("WHY_READY"):
    (Path(folder) / str(rank)).touch()
