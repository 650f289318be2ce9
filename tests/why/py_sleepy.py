# why: missing-from-collective ranks=1 victims=0,2-3
import time

from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 1:
    time.sleep(100000)
total = comm.allreduce(comm.rank, op=MPI.SUM)
