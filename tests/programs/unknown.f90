! unknown: an array without an upper bound.
module parts
  implicit none
contains
  subroutine work(part)
    real(8), intent(inout) :: part(*)
    part(2) = part(2) + 1 ! @look
  end subroutine
end module

program unknown
  use mpi
  use parts
  implicit none
  integer :: ierror
  real(8) :: whole(5) = 7
  call MPI_Init(ierror)
  call work(whole)
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Finalize(ierror)
end program
