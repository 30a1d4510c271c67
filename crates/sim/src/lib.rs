//! Simulated storage: devices and caches as state machines in virtual time.
//!
//! No clock, no threads, no I/O; equal input gives equal output. [`device`] is the interface of all devices, [`ssd`] a flash
//! drive, and [`cache`] has the replacement policies.

pub mod cache;
pub mod device;
pub mod ssd;

pub use device::{Completion, Device, Id, Nanos, Op, Request};
