! The ground of the language test for Fortran: types, arrays, strings, a common block, recursion.
module bodies
    implicit none
    integer, parameter :: wide = selected_real_kind(15)
    type :: point
        real(wide) :: x, y
    end type point
    type, extends(point) :: body
        character(len=6) :: name
        integer :: hits(3)
        logical :: fixed
    end type body
    type(body) :: star
    integer :: visits = 0
    real(wide), allocatable :: field(:, :)
    integer, pointer :: chosen => null()
    integer, target :: spare = 9

    interface norm
        module procedure norm_of_numbers, norm_of_point
    end interface norm

contains

    function norm_of_numbers(numbers) result(length)
        real(wide), intent(in) :: numbers(:)
        real(wide) :: length
        length = sqrt(sum(numbers * numbers)) ! @numbers
    end function norm_of_numbers

    function norm_of_point(where) result(length)
        type(point), intent(in) :: where
        real(wide) :: length
        length = sqrt(where%x**2 + where%y**2) ! @point
    end function norm_of_point

    recursive function factorial(n) result(product)
        integer, intent(in) :: n
        integer :: product
        if (n <= 1) then
            product = 1 ! @bottom
        else
            product = n * factorial(n - 1)
        end if
    end function factorial

    subroutine visit(round, label)
        integer, intent(in) :: round
        character(len=*), intent(in) :: label
        integer :: shifted(-1:3)
        complex :: wave
        logical :: is_odd
        character(len=4) :: tag
        integer(kind=8) :: large
        shifted = [round, 1, 2, 3, 4]
        wave = cmplx(round, -1)
        is_odd = mod(round, 2) == 1
        tag = label
        large = 2_8**40
        visits = visits + 1 ! @visit
        star%hits(1 + mod(round, 3)) = round
        if (is_odd) call mark(tag, large)
    end subroutine visit ! @visited

    subroutine mark(tag, large)
        character(len=4), intent(inout) :: tag
        integer(kind=8), intent(in) :: large
        tag = 'odd '
        if (large < 0) tag = 'none' ! @mark
    end subroutine mark
end module bodies

program language
    use mpi
    use bodies
    implicit none
    integer :: ierror, round, total, offset
    real :: scale
    common /shared/ offset, scale
    real(wide) :: lengths(2)

    call MPI_Init(ierror)
    offset = 3
    scale = 0.5; total = 0
    star = body(3.0_wide, 4.0_wide, 'sun', [0, 0, 0], .true.)
    allocate (field(2, 3))
    field = reshape([1.0_wide, 2.0_wide, 3.0_wide, 4.0_wide, 5.0_wide, 6.0_wide], [2, 3])
    chosen => spare
    do round = 0, 3
        call visit(round, 'round') ! @round
    end do
    lengths(1) = norm(field(1, :)) ! @lengths
    lengths(2) = norm(star%point)
    total = factorial(4) ! @factorial
    total = total + int(sum(lengths)) + offset ! @last
    print '(a, i0)', 'total ', total
    call MPI_Finalize(ierror)
end program language
