! naps: every rank sleeps in its main program, a second at a time, for at most ARG seconds.
program naps
  use mpi
  implicit none
  character(8) :: word
  integer :: ierr, i, limit
  call MPI_Init(ierr)
  call get_command_argument(1, word)
  read (word, *) limit
  do i = 1, limit
    call sleep(1)
  end do
  call MPI_Finalize(ierr)
end program
