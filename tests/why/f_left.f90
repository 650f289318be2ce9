! why: rank-left ranks=2 victims=0-1,3
program left
  use mpi
  implicit none
  include 'why.inc'
  real(8) :: mine = 1, total
  call begin()
  if (rank /= 2) call MPI_Allreduce(mine, total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, &
                                    MPI_COMM_WORLD, ierror)
  call MPI_Finalize(ierror)
contains
  include 'why_begin.inc'
end program
