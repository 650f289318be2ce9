! objects: class variables, strings of deferred length, sections that run backwards, and names that
! are words of GDB's parser; rank 1 differs in one part of each.
module bodies
  implicit none
  type, abstract :: body
    integer :: id = 0
  end type
  type, extends(body) :: ball
    real(8) :: radius = 1
  end type
  type, extends(body) :: mesh
    real(8), allocatable :: x(:)
    character(len=:), allocatable :: name
  end type
  type :: owner
    class(body), allocatable :: one
    integer :: rank = 3
  end type
  class(body), allocatable :: whole
  class(body), pointer :: other
  class(*), allocatable :: anything
  character(len=:), allocatable :: title
  type(owner) :: owners(2)
end module
program objects
  use mpi
  use bodies
  implicit none
  integer, target :: t(10)
  integer, pointer :: back(:)
  type(mesh) :: meshes(2)
  integer :: rank, size, ierror, i
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  allocate (mesh :: whole)
  select type (whole)
  type is (mesh)
    allocate (whole%x(-1:1))
    whole%x = (/1.0d0, 2.0d0, merge(9.0d0, 3.0d0, rank == 1)/)
    whole%name = 'whole'
  end select
  allocate (ball :: other)
  select type (other)
  type is (ball)
    if (rank == 1) other%radius = 8
  end select
  allocate (anything, source=merge(4.5d0, 3.5d0, rank == 1))
  title = merge('heading', 'heAding', rank /= 1)
  allocate (ball :: owners(2)%one)
  if (rank == 1) owners(2)%one%id = 5
  if (rank == 1) owners(1)%rank = 7
  do i = 1, 2
    meshes(i)%name = 'mesh'
    meshes(i)%x = (/1.0d0, 2.0d0/)
  end do
  if (rank == 1) meshes(2)%name = 'grid'
  if (rank == 1) meshes(1)%x(2) = 5
  t = (/(i, i=1, 10)/)
  back => t(10:1:-3)
  if (rank == 1) back(3) = 44
  call look(whole, meshes, 3)
  print *, t(1), size, back(1), owners(1)%rank
  call MPI_Finalize(ierror)
contains
  subroutine look(single, all, n)
    class(body), intent(in) :: single
    class(body), intent(in) :: all(:)
    integer, intent(in) :: n
    if (n + single%id + all(1)%id > 100) stop 1 ! @look
  end subroutine
end program
