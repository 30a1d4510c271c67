! What programs call that include mpif.h.
program causal
  implicit none
  include 'mpif.h'
  integer, parameter :: none = -huge(1), any = 1 - huge(1)
  integer :: me, ranks, next, last, there, book, i, index, failed, indices(2), given(100) = 7, taken(200)
  integer(MPI_OFFSET_KIND) :: offset
  logical :: done
  character(1024) :: path, name
  character(4) :: parity
  integer :: half, all, pair(2), status(MPI_STATUS_SIZE), statuses(MPI_STATUS_SIZE, 2), file
  integer :: window, members, before, after
  include 'causal_body.inc'
end program causal
