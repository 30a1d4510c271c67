! What programs in Fortran 2008 call.
program causal
  use mpi_f08
  implicit none
  integer, parameter :: none = -huge(1), any = 1 - huge(1)
  integer :: me, ranks, next, last, there, book, i, index, failed, indices(2), given(100) = 7, taken(200)
  integer(MPI_OFFSET_KIND) :: offset
  logical :: done
  character(1024) :: path, name
  character(4) :: parity
  type(MPI_Comm) :: half, all
  type(MPI_Request) :: pair(2)
  type(MPI_Status) :: status, statuses(2)
  type(MPI_File) :: file
  type(MPI_Win) :: window
  type(MPI_Group) :: members, before, after
  include 'causal_body.inc'
end program causal
