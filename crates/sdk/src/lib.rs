//! Posts records from inside a running program into a segment (see [`iotrail_format::segment`]).
//!
//! Constraints, because this runs inside somebody else's program: it never panics, never allocates
//! from the host's heap, never blocks, keeps no file descriptor, leaves `errno` alone (it makes its
//! own system calls), and touches no page that could be missing (SIGBUS). Memory is bounded by the
//! recording's budget; a call that finds no room is dropped and counted.
//!
//! The states of a program image are those of [`attach`]; of a thread, those of [`thread`].
//!
//! ```text
//! thread's first call ── attach() ── claims a ring ── begin()/end() per call ── thread ends: ring closed
//!                          │
//! fork: the child's [`attach::Image`] page is wiped by the kernel (MADV_WIPEONFORK), so it attaches anew
//! ```

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("iotrail's recorder supports x86-64 Linux");

pub mod api;
pub mod attach;
pub mod clock;
pub mod context;
pub mod cpu;
pub mod declared;
pub mod names;
pub mod post;
pub mod record;
pub mod request;
pub mod seccomp;
mod session;
pub mod sys;
pub mod thread;
pub mod throttle;
