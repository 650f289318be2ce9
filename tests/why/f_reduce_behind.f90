! why: missing-from-collective|different-collectives ranks=2 victims=0-1,3
program p
  use mpi_f08
  implicit none
  include 'why.inc'
  real(8) :: x(8), y(8)
  integer :: i
  call begin()
  x = rank
  do i = 1, 5
    if (rank /= 2 .or. i /= 3) call MPI_Allreduce(x, y, 8, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD)
    call MPI_Reduce(x, y, 1, MPI_DOUBLE_PRECISION, MPI_MAX, 0, MPI_COMM_WORLD)
  end do
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Finalize(ierror)
contains
  include 'why_begin.inc'
end program
