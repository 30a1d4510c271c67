//! Fortran's names, where causality is not recorded: all arguments by address, the error code in the last one. They call
//! the C library inside MPI, by names that are not ours then.

use core::ffi::c_int;

use iotrail_format::call::Call;
use iotrail_format::segment::NONE;

use super::{causal, wait};
use crate::real::interpose;

macro_rules! mpi_fortran {
    ($($name:ident ($($arg:ident),*) => $kind:ident, $peer:expr;)*) => {
        interpose! { $($name => fn($($arg: *mut c_int),*), |real| {
            if causal().is_some() {
                return real($($arg),*);
            }
            wait(Call::$kind, $peer, || { real($($arg),*); 0 });
        })* }
    };
}

/// The integer at a Fortran argument's address.
fn at(argument: *const c_int) -> i64 {
    // SAFETY: Fortran passes the address of an integer.
    if argument.is_null() { NONE } else { i64::from(unsafe { *argument }) }
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
