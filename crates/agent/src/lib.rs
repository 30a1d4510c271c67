//! One per machine: samples it, asks its storage systems, and ships what they say to a collector.
//!
//! The visualization client of Leung et al., UCSC-SSRC-07-05 (2007), section 4.1: node-agnostic metrics from /proc,
//! node-specific ones from a source a storage system ([`source`]). Constraints: at most 30 MiB and half a per cent of
//! a core; no source waits for the network or for another source; the host's own traffic goes first.

pub mod outbox;
pub mod source;
pub mod sources;
