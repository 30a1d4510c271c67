//! Simulated storage: devices and caches as state machines in virtual time.
//!
//! No clock, no threads, no I/O; equal input gives equal output. [`device`] is the interface of all devices, [`disk`] a hard
//! disk, [`cache`] has the replacement policies.

pub mod cache;
pub mod device;
pub mod disk;
pub mod file;
pub mod fixed;
pub mod requests;

pub use device::{Completion, Device, Id, Nanos, Op, Request};
