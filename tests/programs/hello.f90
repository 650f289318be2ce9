! hello (Fortran): every rank prints "hello from rank R of N (Fortran)".
program hello  ! @main
  use mpi
  implicit none
  integer :: rank, ranks, ierr

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call greet(rank, ranks)  ! @greet
  call MPI_Finalize(ierr)  ! @finalize

contains

  subroutine greet(rank, ranks)
    integer, intent(in) :: rank, ranks

    print '(a, i0, a, i0, a)', 'hello from rank ', rank, ' of ', ranks, ' (Fortran)'  ! @print
  end subroutine greet

end program hello
