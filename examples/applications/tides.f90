! tides: shallow water in a long basin, which is cut into tiles along x, one for each rank.
!
! Each tile has two layers of halo cells at every side. In every step the ranks exchange the halo
! columns, compute the flow at the faces of the cells, and move the water. Water is conserved.
!
! Usage: tides [STEPS]
!   TIDES_FAULT       plants one fault: nan, neighbour, or halo
!   TIDES_FAULT_RANK  the rank that gets it, 1 if not given
!   TIDES_HOLD        holds every rank in the middle of the run: set var hold = 0
module types
  implicit none
  integer, parameter :: depth = 2
  type :: field_type
    real(8), allocatable :: height(:, :)
    real(8), allocatable :: flow(:, :)
  end type
  type :: tile_type
    integer :: x_min, x_max, y_min, y_max
    integer :: left, right
    character(len=12) :: name
    real(8), allocatable :: cell_x(:)
    type(field_type) :: field
  end type
  type :: probe_type
    integer :: cell(2)
    real(8) :: level
  end type
  type(tile_type), target, save :: tile
  type(probe_type), save :: probes(0:3)
  real(8) :: volume
  integer, volatile :: hold = 0
end module

module kernels
  implicit none
contains
  subroutine fill_kernel(x_min, x_max, y_min, y_max, first, height, flow)
    integer, intent(in) :: x_min, x_max, y_min, y_max, first
    real(8), dimension(x_min-2:x_max+2, y_min-2:y_max+2), intent(out) :: height
    real(8), dimension(x_min-2:x_max+3, y_min-2:y_max+2), intent(out) :: flow
    integer :: i, k
    flow = 0
    do k = y_min - 2, y_max + 2 ! @fill
      do i = x_min - 2, x_max + 2
        height(i, k) = 1.0d0 + 0.02d0 * (first + i) + 0.5d0 * exp(-0.1d0 * (first + i - 6)**2)
      end do
    end do
  end subroutine

  subroutine edge_kernel(x_min, x_max, y_min, y_max, at_left, at_right, height)
    integer, intent(in) :: x_min, x_max, y_min, y_max
    logical, intent(in) :: at_left, at_right
    real(8), dimension(x_min-2:x_max+2, y_min-2:y_max+2), intent(inout) :: height
    integer :: i
    do i = 1, 2
      if (at_left) height(x_min - i, :) = height(x_min + i - 1, :)
      if (at_right) height(x_max + i, :) = height(x_max - i + 1, :)
    end do
    do i = 1, 2
      height(:, y_min - i) = height(:, y_min + i - 1)
      height(:, y_max + i) = height(:, y_max - i + 1)
    end do
  end subroutine

  subroutine flow_kernel(x_min, x_max, y_min, y_max, dt, height, flow)
    integer, intent(in) :: x_min, x_max, y_min, y_max
    real(8), intent(in) :: dt
    real(8), dimension(x_min-2:x_max+2, y_min-2:y_max+2), intent(in) :: height
    real(8), dimension(x_min-2:x_max+3, y_min-2:y_max+2), intent(inout) :: flow
    integer :: i, k
    do k = y_min, y_max ! @flow
      do i = x_min, x_max + 1
        ! The flow over a face depends on two cells on both sides of it.
        flow(i, k) = dt * (0.75d0 * (height(i - 1, k) - height(i, k)) + &
                           0.25d0 * (height(i - 2, k) - height(i + 1, k)))
      end do
    end do
  end subroutine

  subroutine move_kernel(x_min, x_max, y_min, y_max, height, flow)
    integer, intent(in) :: x_min, x_max, y_min, y_max
    real(8), dimension(x_min-2:x_max+2, y_min-2:y_max+2), intent(inout) :: height
    real(8), dimension(x_min-2:x_max+3, y_min-2:y_max+2), intent(in) :: flow
    integer :: i, k
    do k = y_min, y_max ! @move
      do i = x_min, x_max
        height(i, k) = height(i, k) + flow(i, k) - flow(i + 1, k)
      end do
    end do
  end subroutine
end module

module basin
  use mpi
  use types
  use kernels
  implicit none
contains
  subroutine build_tile(rank, ranks, nx, ny)
    integer, intent(in) :: rank, ranks, nx, ny
    integer :: i
    tile%x_min = 1
    tile%x_max = nx
    tile%y_min = 1
    tile%y_max = ny
    tile%left = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    tile%right = merge(rank + 1, MPI_PROC_NULL, rank < ranks - 1)
    tile%name = "tile"
    allocate (tile%cell_x(-1:nx + 2))
    do i = -1, nx + 2
      tile%cell_x(i) = rank * nx + i - 0.5d0
    end do
    allocate (tile%field%height(-1:nx + 2, -1:ny + 2))
    allocate (tile%field%flow(-1:nx + 3, -1:ny + 2))
    call fill_kernel(1, nx, 1, ny, rank * nx, tile%field%height, tile%field%flow)
    do i = 0, 3
      probes(i)%cell = (/2 * i + 1, i + 1/)
      probes(i)%level = 0
    end do
  end subroutine

  subroutine exchange(height, shift)
    real(8), intent(inout) :: height(tile%x_min - 2:, tile%y_min - 2:)
    integer, intent(in) :: shift ! 0; the fault "halo" sends other columns
    real(8) :: outgoing(0:1, tile%y_min:tile%y_max), incoming(0:1, tile%y_min:tile%y_max)
    integer :: count, ierror, lo, hi
    lo = tile%x_min
    hi = tile%x_max - shift
    count = size(outgoing)
    outgoing = height(hi - 1:hi, tile%y_min:tile%y_max)
    call MPI_Sendrecv(outgoing, count, MPI_REAL8, tile%right, 1, incoming, count, MPI_REAL8, &
                      tile%left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror) ! @to_right
    if (tile%left /= MPI_PROC_NULL) height(lo - 2:lo - 1, tile%y_min:tile%y_max) = incoming
    outgoing = height(lo:lo + 1, tile%y_min:tile%y_max)
    call MPI_Sendrecv(outgoing, count, MPI_REAL8, tile%left, 2, incoming, count, MPI_REAL8, &
                      tile%right, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror) ! @to_left
    if (tile%right /= MPI_PROC_NULL) then
      height(tile%x_max + 1:tile%x_max + 2, tile%y_min:tile%y_max) = incoming
    end if
  end subroutine

  subroutine sum_up(height)
    real(8), intent(in) :: height(tile%x_min - 2:, tile%y_min - 2:)
    real(8) :: mine
    integer :: i, ierror
    do i = 0, 3
      probes(i)%level = height(probes(i)%cell(1), probes(i)%cell(2))
    end do
    mine = sum(height(tile%x_min:tile%x_max, tile%y_min:tile%y_max))
    call MPI_Allreduce(mine, volume, 1, MPI_REAL8, MPI_SUM, MPI_COMM_WORLD, ierror) ! @sum
  end subroutine

  subroutine advance(dt)
    real(8), intent(in) :: dt
    call edge_kernel(tile%x_min, tile%x_max, tile%y_min, tile%y_max, &
                     tile%left == MPI_PROC_NULL, tile%right == MPI_PROC_NULL, tile%field%height)
    call flow_kernel(tile%x_min, tile%x_max, tile%y_min, tile%y_max, dt, &
                     tile%field%height, tile%field%flow)
    call move_kernel(tile%x_min, tile%x_max, tile%y_min, tile%y_max, &
                     tile%field%height, tile%field%flow)
  end subroutine

  subroutine inspect()
    do while (hold /= 0) ! @hold
      call sleep(1)
    end do
    call sum_up(tile%field%height) ! @inspect
  end subroutine
end module

program tides
  use, intrinsic :: ieee_arithmetic
  use types
  use basin
  implicit none
  integer, parameter :: nx = 12, ny = 6
  character(len=16) :: word, fault
  integer :: rank, ranks, ierror, steps, step, faulty, shift, status
  real(8) :: before
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  steps = 10
  call get_command_argument(1, word)
  if (word /= "") read (word, *) steps
  faulty = 1
  call get_environment_variable("TIDES_FAULT_RANK", word)
  if (word /= "") read (word, *) faulty
  call get_environment_variable("TIDES_FAULT", fault)
  if (rank /= faulty) fault = ""
  call get_environment_variable("TIDES_HOLD", word, status=status)
  if (status == 0) hold = 1
  shift = 0
  call build_tile(rank, ranks, nx, ny)
  call sum_up(tile%field%height)
  before = volume
  do step = 1, steps
    if (step == steps / 2) then
      select case (fault)
      case ("nan")
        tile%field%height(5, 3) = ieee_value(before, ieee_quiet_nan)
      case ("neighbour")
        tile%right = rank ! the rank itself in place of the next one
      case ("halo")
        shift = 1
      end select
      call inspect()
    end if
    call exchange(tile%field%height, shift)
    call advance(0.1d0) ! @exchanged
  end do
  call sum_up(tile%field%height)
  if (rank == 0) then ! @result
    if (abs(volume - before) < 1d-9) then
      print "(a, f12.6, a)", "volume ", volume, ": right"
    else
      print "(a, f12.6, a, f12.6, a)", "volume ", volume, ", expected ", before, ": WRONG"
    end if
  end if
  call MPI_Finalize(ierror)
end program
