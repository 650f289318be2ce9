! why: unmatched-rma|missing-from-collective ranks=1 victims=0,2-3
program f_rma_wait
  use mpi
  implicit none
  include 'why.inc'
  integer :: window, everybody, partner
  integer(MPI_ADDRESS_KIND) :: bytes
  integer :: values(10), others(1)
  call begin()
  bytes = 40
  call MPI_Win_create(values, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window, ierror)
  call MPI_Comm_group(MPI_COMM_WORLD, everybody, ierror)
  if (rank == 1) then
    others(1) = 0
    call MPI_Group_incl(everybody, 1, others, partner, ierror)
    call MPI_Win_post(partner, 0, window, ierror)
    call MPI_Win_wait(window, ierror)
  end if
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Finalize(ierror)
contains
  include 'why_begin.inc'
end program
