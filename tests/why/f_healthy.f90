! why: healthy
program healthy
  use mpi
  implicit none
  include 'why.inc'
  integer :: value = 0, left, right
  call begin()
  left = mod(rank + count - 1, count)
  right = mod(rank + 1, count)
  do
    call MPI_Sendrecv_replace(value, 1, MPI_INTEGER, right, 1, left, 1, MPI_COMM_WORLD, &
                              MPI_STATUS_IGNORE, ierror)
  end do
contains
  include 'why_begin.inc'
end program
