//! Simulated storage: devices and caches as state machines in virtual time.
//!
//! No clock, no threads, no I/O; equal input gives equal output. [`device`] is the interface of all devices, [`disk`] a hard
//! disk, [`ssd`] a flash drive, [`fixed`] a device whose requests take a fixed time; [`file`] reads what describes them.
//! [`filesystem`] is calls on files on a device, [`cached`] is a device with a cache before it, [`array`] several devices as one. [`requests`] runs recorded requests
//! through devices, [`stack`] a server's reads through read-ahead, scheduler and disk, [`linux`] the same as today's kernel is designed, [`steps`] those that wait for each other, [`cache`] has the replacement policies, [`layout`] puts the blocks
//! of files one after the other.

pub mod array;
mod bounds;
pub mod cache;
pub mod cached;
pub mod device;
pub mod disk;
pub mod file;
pub mod filesystem;
pub mod fixed;
pub mod layout;
pub mod linux;
mod random;
mod ranges;
pub mod requests;
pub mod ssd;
pub mod stack;
pub mod steps;
mod windows;

pub use bounds::InvalidParameter;
pub use device::{Completion, Device, Id, Nanos, Op, Request};
