! why: unmatched-receive ranks=2 victims=0-1,3-4 n=5
module halo
  use mpi_f08
  implicit none
  type :: field
    real(8), allocatable :: u(:)
    type(MPI_Comm) :: comm
    integer :: left, right
  end type
contains
  subroutine swap(f, it)
    type(field), intent(inout) :: f
    integer, intent(in) :: it
    type(MPI_Request) :: r(4)
    integer :: me
    call MPI_Comm_rank(f%comm, me)
    call MPI_Irecv(f%u(0:0), 1, MPI_REAL8, f%left, 1, f%comm, r(1))
    call MPI_Irecv(f%u(11:11), 1, MPI_REAL8, f%right, 2, f%comm, r(2))
    if (it == 4 .and. me == 1) then
      r(3) = MPI_REQUEST_NULL
    else
      call MPI_Isend(f%u(10:10), 1, MPI_REAL8, f%right, 1, f%comm, r(3))
    end if
    call MPI_Isend(f%u(1:1), 1, MPI_REAL8, f%left, 2, f%comm, r(4))
    call MPI_Waitall(4, r, MPI_STATUSES_IGNORE)
  end subroutine
end module
program heat
  use halo
  type(field) :: f
  integer :: it, n, dims(1)
  logical :: per(1)
  call MPI_Init()
  call MPI_Comm_size(MPI_COMM_WORLD, n)
  dims = n; per = .false.
  call MPI_Cart_create(MPI_COMM_WORLD, 1, dims, per, .false., f%comm)
  call MPI_Cart_shift(f%comm, 0, 1, f%left, f%right)
  allocate(f%u(0:11)); f%u = 0
  do it = 1, 10
    call swap(f, it)
    call MPI_Barrier(f%comm)
  end do
  call MPI_Finalize()
end program
