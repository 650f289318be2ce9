! judged: sections and strings that a condition compares; rank 1 differs in each.
program judged
  use mpi
  implicit none
  type :: cell
    integer :: id
    real(8) :: rho(2)
    character(len=:), allocatable :: title
  end type
  type :: group
    type(cell), allocatable :: cells(:)
  end type
  type(group) :: all
  type(cell) :: cells(2:4), grid(0:1, 3:4)
  real(8) :: base(3, -1:1)
  character(len=8) :: words(0:2)
  character(len=:), allocatable :: names(:)
  logical :: mask(3), odd
  integer :: i, rank, ierror
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  odd = rank == 1
  base = 1
  words = 'word'
  allocate (character(len=4) :: names(0:2))
  names = 'abcd'
  mask = .false.
  do i = 2, 4
    cells(i)%id = i
    cells(i)%rho = 0.5d0
    cells(i)%title = 'cell'
  end do
  grid%id = 3
  if (odd) then
    base(2, 1) = 9
    words(1) = 'nine'
    names(1) = 'nine'
    mask(3) = .true.
    cells(3)%title = 'nine'
    cells(4)%id = 9
    cells(3)%rho(2) = 9
    grid(1, 4)%id = 9
  end if
  allocate (all%cells(2:4), source=cells)
  call MPI_Barrier(MPI_COMM_WORLD, ierror) ! @look
  print *, base(1, 1), words(0), names(0), mask(1), cells(2)%id, grid(0, 3)%id
  call MPI_Finalize(ierror)
end program
