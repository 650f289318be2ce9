! why: cycle ranks=0-1 victims=2-3
program recv_recv
  use mpi
  implicit none
  include 'why.inc'
  call begin()
  if (rank < 2) call exchange(1 - rank)
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Finalize(ierror)
contains
  subroutine exchange(peer)
    integer, intent(in) :: peer
    integer :: value
    call MPI_Recv(value, 1, MPI_INTEGER, peer, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  end subroutine
  include 'why_begin.inc'
end program
