! wrong_value: add up the mass of a rod of uniform density, one piece of unit length per rank.
!
! Each rank lays faces over its piece, takes the widths of the cells between them and adds up the
! masses of its cells; the end cells of the rod are measured from the walls.  Rank 0 prints the
! total mass, which is the number of ranks.  Needs 2 ranks or more.
module rod
  implicit none
  integer, parameter :: cells = 8
  real(8), parameter :: density = 1.0d0

contains

  subroutine measure_cells(rank, ranks, width)
    integer, intent(in) :: rank, ranks
    real(8), intent(out) :: width(cells)
    real(8) :: face(0:cells), left_wall, right_wall
    integer :: i

    left_wall = 0.0d0
    right_wall = real(ranks, 8)
    do i = 0, cells
      face(i) = rank + real(i, 8) / cells
    end do
    do i = 1, cells
      width(i) = face(i) - face(i - 1)
    end do
    if (rank == 0) width(1) = face(1) - left_wall                   ! @first
    if (rank == ranks - 1) width(cells) = right_wall - face(cells)  ! @last
  end subroutine measure_cells

  function mass_of(width) result(mass)
    real(8), intent(in) :: width(cells)
    real(8) :: mass
    integer :: i

    mass = 0.0d0
    do i = 1, cells
      mass = mass + density * width(i)  ! @sum
    end do
  end function mass_of

end module rod

program wrong_value  ! @main
  use mpi
  use rod
  implicit none
  integer :: rank, ranks, ierr
  real(8) :: width(cells), partial, total

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)

  total = 0.0d0
  call measure_cells(rank, ranks, width)  ! @measure
  partial = mass_of(width)  ! @mass
  call MPI_Reduce(partial, total, 1, MPI_REAL8, MPI_SUM, 0, MPI_COMM_WORLD, ierr)  ! @reduce

  if (rank == 0) then
    print '(a, f0.3, a, f0.3)', 'total mass ', total, ', expected ', density * ranks  ! @print
  end if
  call MPI_Finalize(ierr)
end program wrong_value
