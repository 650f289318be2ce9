! why: unmatched-receive ranks=1-2 victims=0,3
program tag
  use mpi
  implicit none
  include 'why.inc'
  integer :: value = 0
  call begin()
  if (rank == 1) call MPI_Ssend(value, 1, MPI_INTEGER, 2, 40, MPI_COMM_WORLD, ierror)
  if (rank == 2) call MPI_Recv(value, 1, MPI_INTEGER, 1, 41, MPI_COMM_WORLD, &
                               MPI_STATUS_IGNORE, ierror)
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Finalize(ierror)
contains
  include 'why_begin.inc'
end program
