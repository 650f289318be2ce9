! Functions whose results are numbers of 128 bits, different on each rank.
module wide_results
  use iso_fortran_env, only: real128
  implicit none
  integer, parameter :: wide_kind = selected_int_kind(38)
contains
  function wide(rank)
    integer, intent(in) :: rank
    integer(wide_kind) :: wide
    wide = 2_wide_kind**70 + rank
  end function

  function quad(rank)
    integer, intent(in) :: rank
    real(real128) :: quad
    quad = rank + 0.25_real128
  end function

  function two(rank)
    integer, intent(in) :: rank
    complex(real128) :: two
    two = cmplx(rank, 0.5_real128, real128)
  end function
end module

program returned
  use mpi
  use wide_results
  implicit none
  integer :: rank, error
  complex(real128) :: sum
  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  sum = wide(rank)
  sum = sum + quad(rank)
  sum = sum + two(rank)
  if (sum == 0) print *, sum
  call MPI_Finalize(error)
end program
