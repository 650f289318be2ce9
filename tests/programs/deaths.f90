! Every rank ends by an index out of bounds; with the argument "stop" by ERROR STOP, with "words" by
! an ERROR STOP with a text, with "open" by a file that is not there, with "read" by a word that is
! no number, with "free" by a variable that is not allocated, with "abort" by MPI_Abort, with
! "record" by a record number that the file cannot have.
program deaths
    use mpi
    implicit none
    integer :: rank, at, error
    integer :: values(4)
    integer, allocatable :: none(:)
    character(len=16) :: word

    call MPI_Init(error)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
    call get_command_argument(1, word)
    if (word == "stop") error stop 3
    if (word == "words") error stop "no grid left"
    if (word == "read") read (word, *) at
    if (word == "free") deallocate (none)
    if (word == "record") then
        open (unit=97, status="scratch")
        write (97, rec=3) rank
    end if
    if (word == "abort") call MPI_Abort(MPI_COMM_WORLD, 17, error) ! @abort
    if (word == "open") open (unit=10, file="/nonexistent/file", status="old") ! @open
    at = 5 + rank
    values(at) = 1 ! @bounds
    print *, values
    call MPI_Finalize(error)
end program deaths
