# why: different-collectives ranks=0 victims=1-3
from why import rank, world

chunks = [{"n": i} for i in range(world.size - 1)] if rank == 0 else None
try:
    mine = world.scatter(chunks, root=0)
except ValueError:
    mine = None
world.Barrier()
