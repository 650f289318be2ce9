! why: missing-from-collective ranks=3 victims=0-2
program missing
  use mpi
  implicit none
  include 'why.inc'
  real(8) :: total = 0
  call begin()
  do while (rank == 3 .and. total < huge(total))
    total = total + sin(total)
  end do
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Finalize(ierror)
contains
  include 'why_begin.inc'
end program
