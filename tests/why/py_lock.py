# why: missing-from-collective ranks=2 victims=0-1,3
import threading

from mpi4py import MPI

comm = MPI.COMM_WORLD
lock = threading.Lock()
if comm.rank == 2:
    lock.acquire()
    lock.acquire()
comm.Barrier()
