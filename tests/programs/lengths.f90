! lengths: strings of all kinds; at the entry of 'speak' their lengths are what 'soil' left there.
module words_of_lengths
  implicit none
  integer :: count = 0
contains
  ! Leaves negative numbers on the stack.
  subroutine soil(n, s)
    integer :: n, i
    integer(8) :: junk(400), s
    do i = 1, 400
      junk(i) = -3 - i
    end do
    s = s + junk(n)
  end subroutine

  subroutine speak(n, m)
    integer :: n, m
    character(len=n) :: word
    character(len=n) :: words(m), grid(m, 3)
    word = 'hello' ! @speak
    words = (/word, 'world'/)
    grid = 'a'
    grid(1, 2) = 'b'
    grid(m, 3) = 'c'
    call counted(word) ! @spoken
    call several(words)
  end subroutine

  subroutine several(names)
    character(len=*) :: names(:)
    call listed(size(names), names) ! @several
  end subroutine

  subroutine listed(n, names)
    integer :: n
    character(len=*) :: names(n)
    call counted(names(n)) ! @listed
  end subroutine

  subroutine counted(label)
    character(len=*) :: label
    character(len=:), allocatable :: empty, full
    full = label // '!'
    count = count + len(full)
    call leave(count) ! @counted
    if (allocated(empty)) print *, empty
  end subroutine

  ! With optimization, nothing says the length of 'label' after its last use.
  subroutine quiet(label)
    character(len=*) :: label
    count = count + len(label)
    call leave(count) ! @quiet
    call leave(count)
  end subroutine

  subroutine leave(k)
    integer :: k
    k = k + 1 ! @leave
  end subroutine
end module

program lengths
  use mpi
  use words_of_lengths
  implicit none
  integer(8) :: s
  integer :: ierror, n
  integer, volatile :: some = 3
  character(len=5) :: text = 'hello'
  call MPI_Init(ierror)
  s = 0
  n = 5
  call soil(17, s) ! @soil
  call speak(n, 2)
  call quiet(text(1:some)) ! @called
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call MPI_Finalize(ierror)
end program
