# why: different-collectives ranks=0 victims=1-3
from why import rank, world

if rank == 0:
    world.gather([rank], root=0)
world.Barrier()
