! bounds: arrays of Fortran with lower bounds of all kinds; rank 1 differs in one element of each.
module kinds
  implicit none
  type :: point
    integer :: cell(0:1)
    real(8), allocatable :: w(:)
    character(len=4) :: names(-1:1)
  end type
end module
program bounds
  use mpi
  use kinds
  implicit none
  integer :: a(-1:12), g(0:2, -1:1), z(3), big(-5:500), rank, ierror, i
  type(point) :: p(2:3), q
  integer, pointer :: s(:), s2(:, :)
  integer, target :: t(10)
  real(8), allocatable :: own(:)
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  a = 1
  g = 2
  z = 0
  big = 0
  t = (/(i, i=1, 10)/)
  s => t(1:10:3)
  s2(0:2, 5:6) => t(1:6)
  do i = 2, 3
    p(i)%cell = (/1, 2/)
    p(i)%names = (/"ab  ", "cd  ", "ef  "/)
    allocate (p(i)%w(-2:2))
    p(i)%w = 1
  end do
  q = p(2)
  allocate (own(10 * rank:10 * rank + 4))
  own = 5
  if (rank == 1) then
    a(5) = 50
    g(1, -1) = 99
    z(2) = 98
    p(3)%cell(1) = 77
    q%w(-1) = 8
    q%names(0) = "ZZ"
    big(7) = 9
    t(4) = 44
    own(12) = 6
  end if
  call look(a, 3)
  print *, g(1, 1), z(1), big(1), s(1), s2(0, 5), own(10 * rank), q%cell(0), p(2)%cell(0) ! @main
  call MPI_Finalize(ierror)
contains
  subroutine look(x, n)
    integer, intent(inout) :: x(5:)
    integer, intent(in) :: n
    x(5) = n ! @look
  end subroutine
end program
