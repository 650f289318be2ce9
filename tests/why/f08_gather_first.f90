! why: missing-from-collective ranks=1 victims=0,2-3
program p
  use mpi_f08
  implicit none
  include 'why.inc'
  integer :: s(64)
  call begin()
  if (rank /= 1) call MPI_Gather(rank, 1, MPI_INTEGER, s, 1, MPI_INTEGER, 0, MPI_COMM_WORLD, ierror)
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Finalize(ierror)
contains
  include 'why_begin.inc'
end program
