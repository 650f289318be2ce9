# why: different-collectives ranks=2 victims=0-1,3
from mpi4py import MPI

comm = MPI.COMM_WORLD
conf = {"n": 4}
for i in range(5):
    if comm.rank == 2 and i == 2:
        comm.Barrier()
    conf = comm.bcast(conf, root=0)
