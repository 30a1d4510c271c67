//! Models of block workloads: what a storage designer can have of an application instead of its trace.
//!
//! A [`Model`] is counts: how often requests went from one range of addresses to another, what they were like, how
//! far back the data lie that they came back to, and how arrivals are spread over time. [`fit`](fit::fit) makes one of
//! requests, [`Draw`](draw::Draw) makes requests of one. No clock, no threads, no I/O.
//!
//! States are ranges of addresses, each divided in four, and transitions between fine states exist inside a coarse one only
//! (Delimitrou et al., "Accurate Modeling and Generation of Storage I/O for Datacenter Workloads", sections 3.1 and 3.2).

pub mod chain;
mod counts;
pub mod describe;
pub mod draw;
pub mod fit;
pub mod history;
pub mod model;
mod parts;
mod places;
mod quotas;
pub mod rate;
mod recency;
pub mod runs;
pub mod states;

pub use model::Model;

use iotrail_sim::{Nanos, Request};

/// A request of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it arrives, from any origin.
    pub at: Nanos,
    /// Number of its device.
    pub device: u32,
    /// What it asks for.
    pub request: Request,
}

/// Bytes of a page, the unit in which data are used again.
pub const PAGE: u64 = 4096;
