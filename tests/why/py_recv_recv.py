# why: cycle ranks=0-1 victims=2-3
from why import rank, world

if rank < 2:
    world.recv(source=1 - rank, tag=3)
world.Barrier()
