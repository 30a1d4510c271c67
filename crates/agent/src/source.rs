//! The seam between the agent and what it samples: one file (or folder) in `sources/` a storage system.
//!
//! A source is asked once a tick, on a thread of its own, so that one that hangs holds up no other. It puts rows into
//! its [`Outbox`] and never waits for the network. What it changed at the system it observes, it puts back when it
//! leaves.

use std::time::Duration;

use crate::outbox::Outbox;

/// When a source is asked.
#[derive(Clone, Copy, Debug)]
pub struct Tick {
    /// Now, ns since the epoch, on the trail's clock.
    pub now: i64,
    /// The tick before, likewise; none the first time.
    pub before: Option<i64>,
    /// What is added to a time of the wall clock to have it on the trail's clock, which never steps.
    pub from_wall: i64,
    /// Rows of this source that needn't be remembered any more: the collector has them for good, or the agent's file
    /// until then, or they were dropped.
    pub settled: u64,
}

/// Something that tells about a machine or a storage system.
pub trait Source: Send {
    /// Its name for messages: `machine`, `ceph`, `nfs`.
    fn name(&self) -> &'static str;

    /// What happened since the last tick, as rows. What can't be read is said by [`Outbox::warn`] and tried
    /// again at the next tick: an error of one source never ends the agent.
    fn poll(&mut self, tick: Tick, out: &mut Outbox);

    /// Time between two ticks, where so much is wished for.
    fn every(&self, wished: Duration) -> Duration {
        wished
    }

    /// Whether rows may be said again by an agent that was ended and started again.
    fn repeats(&self) -> bool {
        false
    }

    /// Says what happened since the last tick and puts back what was changed. Called once, when the agent ends of its
    /// own accord.
    fn leave(&mut self, tick: Tick, out: &mut Outbox) {
        self.poll(tick, out);
    }
}
