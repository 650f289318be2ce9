# why: different-collectives|missing-from-collective|collective-order ranks=3 victims=0-2 or collective-order ranks=1,3 victims=0,2
from mpi4py import MPI

comm = MPI.COMM_WORLD
odd = comm.Split(comm.rank % 2, comm.rank)
if comm.rank != 3:
    odd.Barrier()
comm.Barrier()
