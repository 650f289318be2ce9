! fields: values of Fortran that are nearly the same on all ranks.
program fields
  use mpi
  implicit none
  type :: particle
    integer :: id
    real(8) :: x(3)
    logical :: is_ghost
    character(len=8) :: name
  end type
  type(particle) :: p
  integer :: rank, ierror, grid(3, 2)
  integer :: many(100)
  complex :: z
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  p = particle(5, (/1.0d0, 2.5d0, 3.0d0/), .false., "even")
  if (rank == 1) p%x(2) = 7.5d0
  grid = 0
  grid(3, 2) = rank
  many = 0
  many(50) = rank
  z = (1.0, 2.0)
  call look(p) ! @call
  print *, grid(1, 1), many(1), z
  call MPI_Finalize(ierror)
contains
  subroutine look(it)
    type(particle), intent(inout) :: it
    it%id = it%id + 1 ! @look
  end subroutine
end program
