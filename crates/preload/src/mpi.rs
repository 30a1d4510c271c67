//! MPI: the calls a rank waits in, in C and Fortran.
//!
//! A waiting rank of Open MPI spins in sched_yield and never sleeps, so that only these calls tell
//! waiting from computing. All arguments are integers or pointers, so that one shape serves every
//! implementation's handles (int in MPICH, pointer in Open MPI). The Fortran forms end in `_` and
//! call the C library inside MPI, past its symbol table.

use core::ffi::c_int;

use iotrail_format::call::{Call, WaitKind};
use iotrail_format::segment::NONE;

use crate::real::interpose;
use crate::record::wait_errno;

#[inline(always)]
fn mpi(kind: Call, peer: i64, run: impl FnOnce() -> c_int) -> c_int {
    wait_errno(kind, WaitKind::Mpi, 0, peer, run)
}

/// An argument that C passes as an int.
fn int(argument: usize) -> i64 {
    i64::from(argument as c_int)
}

/// `name(arguments) => Call, peer`: C functions.
macro_rules! mpi_c {
    ($($name:ident ($($arg:ident),*) => $kind:ident, $peer:expr;)*) => {
        interpose! { $($name => fn($($arg: usize),*) -> c_int, |real| {
            mpi(Call::$kind, $peer, || real($($arg),*))
        })* }
    };
}

/// Fortran: all arguments by address, the error code in the last one.
macro_rules! mpi_fortran {
    ($($name:ident ($($arg:ident),*) => $kind:ident, $peer:expr;)*) => {
        interpose! { $($name => fn($($arg: *mut c_int),*), |real| {
            mpi(Call::$kind, $peer, || { real($($arg),*); 0 });
        })* }
    };
}

/// The integer at a Fortran argument's address.
fn at(argument: *const c_int) -> i64 {
    // SAFETY: Fortran passes the address of an integer.
    if argument.is_null() { NONE } else { i64::from(unsafe { *argument }) }
}

mpi_c! {
    MPI_Init(a, b) => MpiInit, NONE;
    MPI_Init_thread(a, b, c, d) => MpiInit, NONE;
    MPI_Finalize() => MpiFinalize, NONE;
    MPI_Barrier(a) => MpiBarrier, NONE;
    MPI_Send(a, b, c, peer, e, f) => MpiSend, int(peer);
    MPI_Ssend(a, b, c, peer, e, f) => MpiSend, int(peer);
    MPI_Bsend(a, b, c, peer, e, f) => MpiSend, int(peer);
    MPI_Rsend(a, b, c, peer, e, f) => MpiSend, int(peer);
    MPI_Recv(a, b, c, peer, e, f, g) => MpiRecv, int(peer);
    MPI_Sendrecv(a, b, c, d, e, f, g, h, peer, j, k, l) => MpiSendrecv, int(peer);
    MPI_Sendrecv_replace(a, b, c, d, e, peer, g, h, i) => MpiSendrecv, int(peer);
    MPI_Wait(a, b) => MpiWait, NONE;
    MPI_Waitall(a, b, c) => MpiWait, NONE;
    MPI_Waitany(a, b, c, d) => MpiWait, NONE;
    MPI_Waitsome(a, b, c, d, e) => MpiWait, NONE;
    MPI_Probe(peer, b, c, d) => MpiProbe, int(peer);
    MPI_Bcast(a, b, c, peer, e) => MpiBcast, int(peer);
    MPI_Reduce(a, b, c, d, e, peer, g) => MpiReduce, int(peer);
    MPI_Allreduce(a, b, c, d, e, f) => MpiAllreduce, NONE;
    MPI_Gather(a, b, c, d, e, f, peer, h) => MpiGather, int(peer);
    MPI_Gatherv(a, b, c, d, e, f, g, peer, i) => MpiGather, int(peer);
    MPI_Scatter(a, b, c, d, e, f, peer, h) => MpiScatter, int(peer);
    MPI_Scatterv(a, b, c, d, e, f, g, peer, i) => MpiScatter, int(peer);
    MPI_Allgather(a, b, c, d, e, f, g) => MpiAllgather, NONE;
    MPI_Allgatherv(a, b, c, d, e, f, g, h) => MpiAllgather, NONE;
    MPI_Alltoall(a, b, c, d, e, f, g) => MpiAlltoall, NONE;
    MPI_Alltoallv(a, b, c, d, e, f, g, h, i) => MpiAlltoall, NONE;
    MPI_Scan(a, b, c, d, e, f) => MpiScan, NONE;
    MPI_Exscan(a, b, c, d, e, f) => MpiScan, NONE;
    MPI_Reduce_scatter(a, b, c, d, e, f) => MpiScan, NONE;
    MPI_Reduce_scatter_block(a, b, c, d, e, f) => MpiScan, NONE;
}

mpi_fortran! {
    mpi_init_(a) => MpiInit, NONE;
    mpi_init_thread_(a, b, c) => MpiInit, NONE;
    mpi_finalize_(a) => MpiFinalize, NONE;
    mpi_barrier_(a, b) => MpiBarrier, NONE;
    mpi_send_(a, b, c, peer, e, f, g) => MpiSend, at(peer);
    mpi_ssend_(a, b, c, peer, e, f, g) => MpiSend, at(peer);
    mpi_recv_(a, b, c, peer, e, f, g, h) => MpiRecv, at(peer);
    mpi_sendrecv_(a, b, c, d, e, f, g, h, peer, j, k, l, m) => MpiSendrecv, at(peer);
    mpi_wait_(a, b, c) => MpiWait, NONE;
    mpi_waitall_(a, b, c, d) => MpiWait, NONE;
    mpi_waitany_(a, b, c, d, e) => MpiWait, NONE;
    mpi_waitsome_(a, b, c, d, e, f) => MpiWait, NONE;
    mpi_probe_(peer, b, c, d, e) => MpiProbe, at(peer);
    mpi_bcast_(a, b, c, peer, e, f) => MpiBcast, at(peer);
    mpi_reduce_(a, b, c, d, e, peer, g, h) => MpiReduce, at(peer);
    mpi_allreduce_(a, b, c, d, e, f, g) => MpiAllreduce, NONE;
    mpi_gather_(a, b, c, d, e, f, peer, h, i) => MpiGather, at(peer);
    mpi_scatter_(a, b, c, d, e, f, peer, h, i) => MpiScatter, at(peer);
    mpi_allgather_(a, b, c, d, e, f, g, h) => MpiAllgather, NONE;
    mpi_alltoall_(a, b, c, d, e, f, g, h) => MpiAlltoall, NONE;
}
