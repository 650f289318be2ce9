# why: healthy
from mpi4py import MPI

comm = MPI.COMM_WORLD
comm.Barrier()
print("ready", flush=True)
if comm.rank == 0:
    status = MPI.Status()
    for i in range(1, comm.size):
        comm.send(i, dest=i)
    while True:
        got = comm.recv(source=MPI.ANY_SOURCE, tag=MPI.ANY_TAG, status=status)
        comm.send(got + 1, dest=status.source, tag=status.tag)
else:
    while True:
        x = comm.recv(source=0)
        sum(range(x % 10000))
        comm.send(x, dest=0, tag=x % 100)
