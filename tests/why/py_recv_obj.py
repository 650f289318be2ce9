# why: unmatched-receive ranks=2 victims=0-1,3
from mpi4py import MPI


def work(comm):
    if comm.rank == 0:
        for dest in range(1, comm.size):
            comm.send({"job": dest}, dest=dest, tag=dest)
    else:
        comm.recv(source=0, tag=3 if comm.rank == 2 else comm.rank)
    return comm.gather(comm.rank)


work(MPI.COMM_WORLD)
