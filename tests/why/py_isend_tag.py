# why: unmatched-receive ranks=0-1 victims=2-3
import numpy as np
from mpi4py import MPI
from why import rank, world

data = np.zeros(1 << 20)
if rank == 0:
    world.Isend(data, 1, tag=1).Wait()
elif rank == 1:
    MPI.Request.Waitall([world.Irecv(data, 0, tag=2)])
world.Barrier()
