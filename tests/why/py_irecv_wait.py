# why: unmatched-receive ranks=0 victims=1-3
from mpi4py import MPI

comm = MPI.COMM_WORLD
if comm.rank == 0:
    reqs = [comm.irecv(source=i, tag=11) for i in range(1, comm.size)]
    print(MPI.Request.waitall(reqs))
elif comm.rank != 2:
    comm.isend("hello", dest=0, tag=11).wait()
comm.Barrier()
