//! MPI: the calls a rank waits in, in C and Fortran.
//!
//! A waiting rank of Open MPI spins in sched_yield and never sleeps, so that only these calls tell waiting from computing.
//! All arguments are integers or pointers, so that one shape serves every implementation's handles (int in MPICH, pointer
//! in Open MPI). Large counts (MPI 4.0, section 2.5.8) fill the register of an int.
//!
//! `record --causal` asks for more: which communicator, ranks of MPI_COMM_WORLD, tags, bytes, requests, the numbers of
//! collective calls. Each function is then ours under both its names (MPI 4.0, section 15.2): the bindings of Fortran
//! (mpif.h, mpi, mpi_f08) convert their arguments and call `PMPI_…` in Open MPI's library, `MPI_…` or `PMPI_…` in MPICH's,
//! through its symbol table. [`calls`] has the shapes of calls, [`functions`] says which function has which; [`implementation`] reads
//! handles and statuses, [`handles`] keeps what is known of them, [`communicators`] and [`requests`] what that is.
//!
//! Not seen: MPI inside an executable (static libraries), partitioned communication (MPI 4.0, chapter 4), and what
//! one-sided calls move.

mod calls;
mod communicators;
mod fortran;
mod functions;
mod handles;
mod implementation;
mod requests;

use core::ffi::c_int;

use iotrail_format::call::{Call, WaitKind};
use iotrail_sdk::attach;

use crate::record::wait_errno;
use implementation::{Implementation, implementation};

/// The process's implementation of MPI, if causality is recorded and it is one that can be.
#[inline(always)]
fn causal() -> Option<&'static Implementation> {
    if attach::off() || !attach::is_causal() { None } else { implementation() }
}

/// A call where causality is not recorded: that it waited, and for which rank of its communicator.
#[inline(always)]
fn wait(kind: Call, peer: i64, run: impl FnOnce() -> c_int) -> c_int {
    wait_errno(kind, WaitKind::Mpi, 0, peer, run)
}

/// An argument that C passes as an int.
#[inline(always)]
fn int(argument: usize) -> c_int {
    argument as c_int
}
