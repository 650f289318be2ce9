# why: rank-left ranks=0 victims=1-3
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank:
    for k in range(3):
        comm.allgather(k)
