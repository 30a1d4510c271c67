//! The byte layout of the page by which the recorder pauses threads of a program (`record --throttle`), or makes their operations longer
//! (`record --check`), and follows how far they come.
//!
//! It is a file in the session's directory beside the control file, mapped by the recorder and by each recorded process of its user:
//!
//! ```text
//! 0            ThrottlePage: magic, heartbeat, off, counters, lineages of the nodes that are held
//! NODES_START  NodeSlot[MAX_NODES], 128 bytes each
//! ```
//!
//! A *node* is a thread. Its lineage is a hash of how it came to be (the n-th thread that its creator made, the n-th fork, an exec), so that
//! it is the same in each run of a program whose threads create others in an order of their own.

use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

/// First eight bytes.
pub const THROTTLE_MAGIC: u64 = u64::from_le_bytes(*b"IOTRTHR2");
/// Name of the file in a session's directory.
pub const THROTTLE_NAME: &str = "throttle";
/// Threads in one run; more are neither followed nor paused, but counted.
pub const MAX_NODES: usize = 1000;
/// Where the first slot is.
pub const NODES_START: usize = size_of::<ThrottlePage>().next_multiple_of(128);
/// Bytes of the file.
pub const THROTTLE_BYTES: usize = (NODES_START + MAX_NODES * size_of::<NodeSlot>()).next_multiple_of(4096);
/// [`NodeSlot::allowed`] of a node that never pauses.
pub const FREE: u32 = u32::MAX;

/// Bit of `Control::causal`: the session has this page.
pub const FOLLOWED: u32 = 2;
/// Bit of `Control::causal`: nothing is recorded, only followed; records are dropped.
pub const UNRECORDED: u32 = 4;

/// The beginning of the file.
#[repr(C)]
pub struct ThrottlePage {
    /// [`THROTTLE_MAGIC`].
    pub magic: u64,
    /// The recorder adds to it while it lives. Paused threads go on where it doesn't change any more.
    pub heartbeat: AtomicU64,
    /// 1: nobody pauses any more.
    pub off: AtomicU32,
    /// Slots handed out.
    pub nodes: AtomicU32,
    /// Threads that got none.
    pub refused: AtomicU32,
    /// Program images that nobody followed forked or spawned.
    pub roots: AtomicU32,
    /// Valid entries of `held`.
    pub held_count: u32,
    /// Held nodes pause before each operation whose index is a multiple of it.
    pub period: u32,
    /// How long each thread sleeps after each operation whose number, from 1, is a multiple of `period`, ns; 0 not at all.
    pub longer: u64,
    /// Lineages of the nodes that are held.
    pub held: [u64; MAX_NODES],
}

/// What a node does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum NodeState {
    /// Outside calls.
    Outside = 0,
    /// In a call on a file.
    InCall = 1,
    /// In a call that waits.
    Waiting = 2,
    /// Paused.
    Paused = 3,
    /// Ended.
    Ended = 4,
}

impl NodeState {
    /// The state of a number; outside calls if there is none.
    #[must_use]
    pub const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::InCall,
            2 => Self::Waiting,
            3 => Self::Paused,
            4 => Self::Ended,
            _ => Self::Outside,
        }
    }
}

/// How far one thread has come. Its process writes all but `allowed`.
#[repr(C, align(128))]
pub struct NodeSlot {
    /// Its lineage, stored last (release); 0 not yet there.
    pub lineage: AtomicU64,
    /// Its id in the trail.
    pub thread: AtomicI64,
    /// Hash of the operations it has done.
    pub signature: AtomicU64,
    /// How long it slept after operations, ns ([`ThrottlePage::longer`]).
    pub slept: AtomicU64,
    /// Its process.
    pub pid: AtomicU32,
    /// Its id of the system.
    pub tid: AtomicU32,
    /// Operations that it has done (see [`crate::call::Call::is_operation`]).
    pub done: AtomicU32,
    /// It pauses before a call that may be an operation once `done` is this. A futex.
    pub allowed: AtomicU32,
    /// [`NodeState`].
    pub state: AtomicU32,
    /// What a call waits for: a [`crate::call::WaitKind`] number.
    pub waits_for: AtomicU32,
    /// Images that its process spawned without a fork of its own that could be followed.
    pub spawned: AtomicU32,
}

/// Adds a word to a hash (FNV-1a with a final mix of 64 bits).
#[must_use]
pub const fn mix(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3);
    let mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ mixed >> 32
}

/// The hash of an operation added to those before it: which call, and how many bytes it moved.
#[must_use]
pub fn sign(signature: u64, call: crate::call::Call, result: i64) -> u64 {
    use crate::call::CallKind;
    let moved = if matches!(call.kind(), CallKind::Read | CallKind::Write) { result } else { 0 };
    mix(mix(signature, call as u64), moved as u64)
}
