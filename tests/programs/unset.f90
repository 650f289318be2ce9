! unset: dummy arrays of all kinds; at the entry of 'sweep' their bounds are what 'soil' left there.
module fields_of_unset
  implicit none
  real(8) :: table(4) = (/1d0, 2d0, 3d0, 4d0/)
  type :: cell
    integer :: id
    real(8), allocatable :: heat(:, :)
  end type
contains
  ! Leaves numbers on the stack that make the bounds of 'sweep' huge in some dimensions.
  subroutine soil(n, s)
    integer :: n, i
    integer(8) :: junk(400)
    real(8) :: s
    do i = 1, 400
      junk(i) = 3 + mod(i, 7) * 409600000_8 * int(i, 8)
    end do
    s = s + junk(n)
  end subroutine

  subroutine sweep(x_min, x_max, y_min, y_max, density, pressure, label, c, maybe)
    integer :: x_min, x_max, y_min, y_max
    real(8), dimension(x_min-2:x_max+2, y_min-2:y_max+2) :: density
    real(8), dimension(x_min-2:x_max+2, y_min-2:y_max+2, 3) :: pressure
    character(len=*) :: label
    type(cell) :: c
    integer, optional :: maybe
    integer :: j
    real(8) :: work(x_max * y_max)
    do j = y_min, y_max ! @sweep
      density(x_min, j) = density(x_min, j) + c%heat(1, 1)
      pressure(x_min, j, 1) = table(1)
    end do
    work = 1
    if (label == 'none') print *, density(x_min, y_min), work(1), present(maybe)
    call shaped(density, label)
  end subroutine

  subroutine shaped(a, label)
    real(8), intent(inout) :: a(:, :)
    character(len=*), intent(in) :: label
    a(1, 1) = a(1, 1) + len(label)
    call once(size(a, 1), a) ! @shaped
  end subroutine

  subroutine once(n, a)
    integer, intent(in) :: n
    real(8), intent(inout) :: a(n, *)
    a(1, 1) = sum(doubled(n, a(:, 1)))
    call inner
  contains
    subroutine inner
      a(n, 1) = 0 ! @inner
    end subroutine
  end subroutine

  function doubled(n, a) result(b)
    integer, intent(in) :: n
    real(8), intent(in) :: a(n)
    real(8) :: b(n)
    b = 2 * a ! @doubled
  end function
end module

program unset
  use mpi
  use fields_of_unset
  implicit none
  real(8) :: d(-1:12, -1:12), q(-1:12, -1:12, 3), s
  type(cell) :: c
  integer :: rank, ierror
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  d = 0
  q = 0
  s = 0
  allocate (c%heat(2, 3))
  c%heat = rank
  c%id = rank
  call soil(17, s) ! @soil
  call sweep(1, 10, 1, 10, d, q, 'hello', c)
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Finalize(ierror)
end program
