# why: unmatched-receive ranks=3 victims=0-2
from mpi4py import MPI

comm = MPI.COMM_WORLD
buf = bytearray(800)


class Grid:
    def __init__(self, comm):
        self.comm = comm.Create_cart([comm.size], periods=[False])
        self.left, self.right = self.comm.Shift(0, 1)

    def exchange(self):
        reqs = []
        if self.left != MPI.PROC_NULL:
            reqs.append(self.comm.Irecv([buf, MPI.BYTE], source=self.left, tag=1))
        if self.right != MPI.PROC_NULL and self.comm.rank != 2:
            reqs.append(self.comm.Isend([bytes(800), MPI.BYTE], dest=self.right, tag=1))
        MPI.Request.Waitall(reqs)


Grid(comm).exchange()
comm.Barrier()
