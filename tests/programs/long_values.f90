! Arrays of Fortran longer than GDB prints: the last rank differs behind the part that is shown.
program long_values
  use mpi
  implicit none
  real(8) :: field(-1:998), plane(-2:37, 0:29)
  real(8), allocatable :: heap(:)
  type tile
    integer :: number
    real(8), allocatable :: density(:,:)
  end type
  type(tile) :: chunk
  integer :: rank, ranks, error, i
  call mpi_init(error)
  call mpi_comm_rank(mpi_comm_world, rank, error)
  call mpi_comm_size(mpi_comm_world, ranks, error)
  allocate (heap(20000))
  heap = 1
  chunk%number = 4
  allocate (chunk%density(-1:60, -2:60))
  chunk%density = 1
  plane = 2
  do i = -1, 998
    field(i) = i
  end do
  if (rank == ranks - 1) then
    field(700) = -5
    plane(30, 28) = 3
    heap(19999) = 0
    chunk%density(59, 58) = 2
  end if
  call look(field(1:900:2))
  call mpi_finalize(error)
contains
  subroutine look(part)
    real(8), intent(in) :: part(:)
    call mpi_barrier(mpi_comm_world, error) ! @look
    if (sum(part) + sum(plane) + sum(heap) + sum(chunk%density) < 0) print *, 'negative'
  end subroutine
end program
