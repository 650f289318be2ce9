! why: different-collectives ranks=0 victims=1-3
program p
  implicit none
  include 'mpif.h'
  integer :: ierr, me, i
  real :: x, y
  call MPI_INIT(ierr)
  call MPI_COMM_RANK(MPI_COMM_WORLD, me, ierr)
  x = me
  do i = 1, 5
    if (me .eq. 0 .and. i .eq. 4) call MPI_BARRIER(MPI_COMM_WORLD, ierr)
    call MPI_ALLREDUCE(x, y, 1, MPI_REAL, MPI_MIN, MPI_COMM_WORLD, ierr)
  end do
  call MPI_FINALIZE(ierr)
end program
