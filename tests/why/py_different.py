# why: different-collectives ranks=2 victims=0-1,3
from why import rank, world

if rank == 2:
    world.alltoall([1] * world.size)
else:
    world.allreduce(rank)
world.Barrier()
