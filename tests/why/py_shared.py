# why: missing-from-collective ranks=1 victims=0,2-3
import numpy
from mpi4py import MPI
from why import rank, world

node = world.Split_type(MPI.COMM_TYPE_SHARED)
window = MPI.Win.Allocate_shared(64, 8, comm=node)
window.Fence()
memory, unit = window.Shared_query(0)
values = numpy.frombuffer(memory, "i8")
while rank == 1 and values[0] == 0:
    pass
window.Fence()
