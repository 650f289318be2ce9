! why: unmatched-rma|missing-from-collective|waits-for-busy-rank ranks=2 victims=0-1,3
program f_rma_flag
  use mpi
  implicit none
  include 'why.inc'
  integer :: win, mine(8), flag
  integer(kind=MPI_ADDRESS_KIND) :: bytes, at
  call begin()
  bytes = 32
  mine = 0
  call MPI_Win_create(mine, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, win, ierror)
  if (rank == 2) then
    flag = 0
    at = 3
    do while (flag == 0)
      call MPI_Win_lock(MPI_LOCK_SHARED, 1, 0, win, ierror)
      call MPI_Get(flag, 1, MPI_INTEGER, 1, at, 1, MPI_INTEGER, win, ierror)
      call MPI_Win_unlock(1, win, ierror)
    end do
  end if
  call MPI_Win_free(win, ierror)
  call MPI_Finalize(ierror)
contains
  include 'why_begin.inc'
end program
