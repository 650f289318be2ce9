# why: collective-order ranks=2 victims=0-1,3
from mpi4py import MPI

comm = MPI.COMM_WORLD
for i in range(5):
    if not (comm.rank == 2 and i == 3):
        s = comm.allreduce(i)
    comm.Barrier()
