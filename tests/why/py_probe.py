# why: unmatched-receive ranks=1 victims=0,2-3
from mpi4py import MPI

comm = MPI.COMM_WORLD
status = MPI.Status()
if comm.rank == 1:
    comm.probe(source=MPI.ANY_SOURCE, tag=5, status=status)
    comm.recv(source=status.Get_source(), tag=5)
comm.barrier()
