# why: missing-from-collective ranks=1 victims=0,2-3
from why import rank, world

while rank == 1:
    sum(number * number for number in range(1000))
world.Barrier()
