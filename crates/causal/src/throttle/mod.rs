//! Dependencies that no call shows, found by pausing threads in further runs of the program (//TRACE, FAST 2007, sections 3.1 and 4.1,
//! Algorithm 1). Pure: no clock, no I/O; whoever runs the program says what it saw.
//!
//! A *node* is a thread that does operations on files. In a run some nodes are *held*: each pauses before its operations, or before every
//! P-th at a sampling period P. When nothing moves any more, because all others wait, have ended or are paused too, a [`Snapshot`] says how far
//! each node has come, and one of the paused ones is released. What moves then, up to the next snapshot, is its doing.
//!
//! | what was seen | what it says |
//! |---|---|
//! | j was stuck before its operation l, i was released before its operation k, then j moved | l comes after k: directly, or by others that moved meanwhile |
//! | j had done l while i had not done k | it doesn't, whatever other runs say |
//! | the same, and another one moved that waited for a lock, or began | nothing: i was paused with the lock, and it is chance who has it first |
//! | j was stuck before l, i was paused before k, another one was released last | nothing yet: see [`analyze`] |
//!
//! //TRACE holds one node a run, which takes as many runs as nodes. [`groups`] holds halves: of any two nodes there is a run that holds
//! the one and not the other, in 2·⌈log₂ n⌉ runs.

mod analyze;
mod place;
mod plan;
#[cfg(test)]
mod simulator;
#[cfg(test)]
mod tests;

pub use analyze::{Analysis, CHANCE, analyze};
pub use place::{OpTimes, gather, place};
pub use plan::{Releases, groups, one_each};

use crate::script::Style;

/// What a node does at the time of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// It hasn't begun.
    Absent,
    /// It has not moved for longer than it ever took in a run without pauses; what it does meanwhile.
    Stuck(Style),
    /// It is stuck, and waits for a lock: who has it first is chance.
    Contending,
    /// It is paused before its next operation.
    Paused,
    /// It has ended.
    Ended,
    /// It moves, or may move: the snapshot is not settled.
    Busy,
}

/// How far a node has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Operations that it has done.
    pub done: u32,
    /// What it does now.
    pub doing: Doing,
}

/// How far all nodes have come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// By number of the node.
    pub nodes: Vec<State>,
    /// Whether nothing moved. Otherwise a limit of time was over, and nobody knows whose doing is what moves next.
    pub is_settled: bool,
    /// The paused node that was released then; none at the end of the run.
    pub released: Option<u32>,
}

/// What was seen in one run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// Held nodes paused before each operation whose index is a multiple of it.
    pub period: u32,
    /// In the order of time.
    pub snapshots: Vec<Snapshot>,
    /// How often a node that seemed stuck moved before the snapshot, though nobody was released: it was slow.
    pub late: u64,
    /// By number of the node, whether it did other operations than in the run without pauses. Nothing is concluded about those.
    pub strayed: Vec<bool>,
}

/// A dependency: the taker's operation `before` begins after the giver has done its operation `op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dependency {
    /// Number of the node that is waited for.
    pub giver: u32,
    /// Index of its operation that has to be done.
    pub op: u32,
    /// Number of the node that waits.
    pub taker: u32,
    /// Index of its operation that waits; as many as it has operations: its end.
    pub before: u32,
}

/// A dependency that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Between which operations.
    pub dependency: Dependency,
    /// Operations of the giver by which it may be later than `op`.
    pub within: u32,
    /// What the taker does while it waits.
    pub style: Style,
}
