# why: unmatched-receive ranks=0-1 victims=2-3
from why import rank, world

if rank == 0:
    world.ssend("value", dest=1, tag=7)
if rank == 1:
    world.recv(source=0, tag=8)
world.Barrier()
