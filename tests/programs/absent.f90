! absent: a procedure with optional arguments, which rank 0 does not give.
module steps
  implicit none
contains
  subroutine advance(state, given, weights)
    real(8), intent(inout) :: state(:)
    integer, intent(in), optional :: given
    real(8), intent(in), optional :: weights(:)

    if (present(given)) state = state + given
    if (present(weights)) state = state*weights
    state = state + 1 ! @look
  end subroutine advance
end module steps

program absent
  use mpi
  use steps
  implicit none
  integer :: failed, rank
  real(8) :: state(4), weights(4)

  call mpi_init(failed)
  call mpi_comm_rank(mpi_comm_world, rank, failed)
  state = rank
  weights = 2
  if (rank == 0) then
    call advance(state)
  else
    call advance(state, rank, weights)
  end if
  call mpi_finalize(failed)
end program absent
