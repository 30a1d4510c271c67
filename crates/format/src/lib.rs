//! The one interface of iotrail: what a record is.
//!
//! This crate holds the record types ([`schema`]), the calls a recorder knows ([`call`]), the ids
//! ([`ids`]), the byte layout of a segment in shared memory ([`segment`]) and the log-linear
//! histogram ([`hist`]), how records of requests stand in a slot ([`record`]), and what system calls do
//! ([`syscall`]), and the page by which threads are paused ([`throttle`]). It does no I/O, allocates nothing that a recorder inside somebody else's
//! program would need, and depends on no other crate, so that every part may depend on it.
//!
//! Units are the same everywhere: time is integer nanoseconds, size is bytes.

pub mod call;
pub mod context;
pub mod hist;
pub mod ids;
pub mod path;
pub mod record;
pub mod schema;
pub mod seccomp;
pub mod segment;
pub mod syscall;
pub mod throttle;
pub mod wire;

/// Version of the trail on disk (its snapshots and tables). A reader refuses a larger one.
pub const TRAIL_VERSION: u32 = 1;
