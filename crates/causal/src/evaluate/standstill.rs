//! Threads that can't go on.

use std::fmt;

use crate::order::OpRef;

/// Threads named in a message; the others are counted.
const NAMED: usize = 8;

/// What a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// Signals of an edge.
    Edge {
        /// Number of the edge.
        edge: u32,
        /// How many of its signals haven't been given.
        missing: u32,
    },
    /// A lock.
    Lock {
        /// Number of the lock.
        lock: u32,
        /// The thread that has it.
        holder: u32,
    },
    /// An operation that its own comes after.
    Op {
        /// Its own.
        op: OpRef,
        /// The first that hasn't ended.
        before: OpRef,
    },
    /// The storage, which has its operation and doesn't complete it.
    Storage {
        /// Its operation.
        op: OpRef,
    },
}

/// A thread that can't go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// Its number.
    pub thread: u32,
    /// The step that doesn't end, as an index.
    pub step: u32,
    /// What that waits for.
    pub on: On,
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { thread, step, on } = self;
        write!(f, "thread {thread} waits in step {step} for ")?;
        match on {
            On::Edge { edge, missing: 1 } => write!(f, "1 signal of edge {edge}"),
            On::Edge { edge, missing } => write!(f, "{missing} signals of edge {edge}"),
            On::Lock { lock, holder } => write!(f, "lock {lock}, which thread {holder} has"),
            On::Op { op, before } => {
                write!(
                    f,
                    "operation {} of thread {}, before its operation {}",
                    before.index, before.thread, op.index
                )
            }
            On::Storage { op } => write!(f, "the storage to do operation {}", op.index),
        }
    }
}

/// Why threads don't end: each of these waits for what never comes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("standstill at {at} ns: {}", join(blocked))]
pub struct Standstill {
    /// When the last thing happened, ns from the start.
    pub at: i64,
    /// All threads that can't go on, by number.
    pub blocked: Vec<Blocked>,
}

/// The first of them, in words.
pub(crate) fn join(blocked: &[Blocked]) -> String {
    let mut named: Vec<String> = blocked.iter().take(NAMED).map(Blocked::to_string).collect();
    if let Some(more) = blocked.len().checked_sub(NAMED).filter(|more| *more > 0) {
        named.push(format!("and {more} more"));
    }
    named.join("; ")
}
