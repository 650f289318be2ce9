! recorded_old: as recorded.c, in Fortran, by the module mpi.
program recorded
  use mpi
  implicit none
  integer :: half
  integer :: requests(2)
  real(8) :: x, y(3)
  integer :: rank, ierror
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), -rank, half, ierror)
  x = 1
  if (rank == 0) then
    call MPI_Irecv(y, 1, MPI_DOUBLE_PRECISION, 0, 7, half, requests(1), ierror)
    call MPI_Irecv(y(2), 1, MPI_DOUBLE_PRECISION, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &
         requests(2), ierror)
    call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, ierror)
  else if (rank == 1) then
    call MPI_Recv(y, 3, MPI_REAL, 0, 5, half, MPI_STATUS_IGNORE, ierror)
  else if (rank == 2) then
    call MPI_Bcast(x, 1, MPI_INTEGER, 1, half, ierror)
  else
    call MPI_Barrier(MPI_COMM_WORLD, ierror)
  end if
  call MPI_Finalize(ierror)
end program
