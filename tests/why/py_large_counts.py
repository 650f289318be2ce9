# why: different-collectives ranks=2 victims=0-1,3
import numpy
from why import rank, world

values = numpy.zeros(4)
if rank == 2:
    world.Bcast(values, 0)
else:
    world.Allreduce(values, numpy.empty(4))
