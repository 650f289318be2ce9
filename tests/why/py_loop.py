# why: missing-from-collective ranks=3 victims=0-2
from mpi4py import MPI

comm = MPI.COMM_WORLD


def collatz(n):
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        if n == 4:
            n = 3


if comm.rank == 3:
    collatz(27)
print(comm.gather(1, root=0))
comm.Barrier()
