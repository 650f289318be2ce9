! why: different-roots|different-collectives ranks=3 victims=0-2
program roots
  use mpi
  implicit none
  include 'why.inc'
  integer, allocatable :: values(:)
  call begin()
  allocate (values(1048576))
  values = rank
  call MPI_Bcast(values, size(values), MPI_INTEGER, merge(1, 0, rank == 3), MPI_COMM_WORLD, ierror)
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Finalize(ierror)
contains
  include 'why_begin.inc'
end program
