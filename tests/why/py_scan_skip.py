# why: missing-from-collective ranks=1 victims=0,2-3
from mpi4py import MPI

comm = MPI.COMM_WORLD
for i in range(5):
    if not (comm.rank == 1 and i == 3):
        s = comm.scan(i)
    comm.Barrier()
