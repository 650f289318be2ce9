module mesh
  implicit none
  type :: point
    real(8) :: x
    integer :: id
    character(len=5) :: name
  end type point
  real(8) :: field(0:3, 2)
contains
  recursive subroutine relax(p, depth)
    type(point), intent(inout) :: p
    integer, intent(in) :: depth
    if (depth > 0) then
      call relax(p, depth - 1)
    else
      p%x = p%x + 1 ! @deepest
    end if
  end subroutine relax
end module mesh

program app
  use mesh
  implicit none
  type(point) :: p
  complex(8) :: z
  logical :: done
  p = point(0.5d0, 3, 'n"m'' ')
  z = (1.5d0, -2.0d0)
  done = .false.
  field = 1.25d0
  field(2, 1) = -1
  call relax(p, 2)
  done = p%x > 1
  print *, p%x, z, done
end program app
