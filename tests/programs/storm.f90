! storm: every rank calls a subroutine about every 0.3 ms, for ever.
program storm
  use mpi
  use, intrinsic :: iso_c_binding
  implicit none
  interface
    integer(c_int) function usleep(microseconds) bind(c)
      import :: c_int
      integer(c_int), value :: microseconds
    end function
  end interface
  integer :: ierr, calls
  integer(c_int) :: slept
  call MPI_Init(ierr)
  calls = 0
  do
    call hit(calls)
    slept = usleep(300)
  end do
contains
  subroutine hit(number)
    integer, intent(inout) :: number
    number = mod(number + 1, 1000000)
  end subroutine
end program
