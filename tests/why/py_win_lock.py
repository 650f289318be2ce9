# why: cycle|unmatched-rma|unmatched-receive ranks=0-1 victims=2-3
import numpy
from mpi4py import MPI
from why import rank, world

window = MPI.Win.Allocate(64, 8, comm=world)
data = numpy.ones(1, "i8")
if rank == 0:
    window.Lock(3)
    window.Put(data, 3)
    window.Flush(3)
    world.send(None, 1)
    world.recv(source=1, tag=2)
    window.Unlock(3)
if rank == 1:
    world.recv(source=0)
    window.Lock(3)
    window.Put(data, 3)
    window.Unlock(3)
    world.send(None, 0, tag=2)
world.Barrier()
