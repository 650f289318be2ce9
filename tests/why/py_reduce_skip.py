# why: missing-from-collective ranks=3 victims=0-2
from mpi4py import MPI

comm = MPI.COMM_WORLD
for i in range(5):
    if not (comm.rank == 3 and i == 3):
        s = comm.reduce({"n": i}, op=lambda a, b: a, root=0)
    comm.Barrier()
