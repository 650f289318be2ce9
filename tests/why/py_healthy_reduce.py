# why: healthy
from mpi4py import MPI

comm = MPI.COMM_WORLD
i = 0
while True:
    i += 1
    s = comm.allreduce(sum(range(1000 * comm.rank)))
    comm.reduce([s], root=i % comm.size)
    comm.scan(i)
