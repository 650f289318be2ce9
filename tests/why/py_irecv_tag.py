# why: unmatched-receive ranks=1,3 victims=0,2
from mpi4py import MPI
from why import rank, world

TAGS = (12, 21) if rank == 2 else (21, 12)


class Halo:
    def __init__(self, left, right):
        self.left, self.right = left, right

    def exchange(self, cells):
        sends = [
            world.isend(cells, dest=self.right, tag=TAGS[0]),
            world.isend(cells, dest=self.left, tag=TAGS[1]),
        ]
        receives = [world.irecv(source=self.left, tag=21), world.irecv(source=self.right, tag=12)]
        found = MPI.Request.waitall(receives)
        MPI.Request.waitall(sends)
        return found


halo = Halo((rank - 1) % world.size, (rank + 1) % world.size)
for step in range(5):
    halo.exchange({"step": step})
