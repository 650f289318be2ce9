# why: different-roots|different-collectives ranks=2 victims=0-1,3
import numpy
from why import rank, world

data = numpy.zeros(2_000_000)


def publish(owner):
    world.Bcast(data, root=owner)


publish(2 if rank == 2 else 0)
world.Barrier()
