//! Caches of blocks: which uses of blocks they serve, by policy and size.
//!
//! Blocks are numbered from 0 without gaps ([`Numbers`] does that), so that a policy needs no hash table: what it knows
//! of a block stands at the block's number. Each policy has as many blocks as it can hold, brings in each block that it
//! doesn't hold, read or written, and takes no other room than its lists of blocks.
//!
//! Miss counts of all policies are those of libCacheSim (1a1a11a/libCacheSim at aa0fc40) with its default parameters and
//! objects of one byte, on all traces that were compared; `make bench NAME=device` compares them again.

mod arc;
mod clock;
mod lfu;
mod list;
mod lru;
mod numbers;
mod reuse;
mod s3_fifo;
mod sieve;
mod two_q;

pub use self::numbers::Numbers;
pub use self::reuse::Reuse;

use self::arc::Arc;
use self::clock::Clock;
use self::lfu::Lfu;
use self::lru::Lru;
use self::s3_fifo::S3Fifo;
use self::sieve::Sieve;
use self::two_q::TwoQ;

/// Number of a block. The highest is [`NONE`].
pub type Block = u32;
/// No block.
const NONE: Block = Block::MAX;

/// A replacement policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The block used longest ago goes.
    Lru,
    /// The block brought in longest ago goes.
    Fifo,
    /// As FIFO, but a block that was used since gets another turn (second chance; Corbató 1968).
    Clock,
    /// The block used least often goes, of several the one that has had this number of uses for longest.
    Lfu,
    /// 2Q, full version: a FIFO of a quarter of the cache for new blocks, a memory of half as many blocks as the cache
    /// holds, and LRU for those that come back (Johnson and Shasha, VLDB 1994).
    TwoQ,
    /// ARC: LRU lists of blocks used once and oftener, whose shares adapt (Megiddo and Modha, FAST 2003, Figure 4).
    Arc,
    /// S3-FIFO: a FIFO of a tenth for new blocks, a memory of 0.9 and a FIFO with three extra turns (Yang et al., SOSP 2023).
    S3Fifo,
    /// SIEVE: a FIFO whose hand removes what was not used since it passed, without moving blocks (Zhang et al., NSDI 2024).
    Sieve,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 8] =
        [Self::Lru, Self::Fifo, Self::Clock, Self::Lfu, Self::TwoQ, Self::Arc, Self::S3Fifo, Self::Sieve];

    /// Its name in options and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Fifo => "fifo",
            Self::Clock => "clock",
            Self::Lfu => "lfu",
            Self::TwoQ => "2q",
            Self::Arc => "arc",
            Self::S3Fifo => "s3-fifo",
            Self::Sieve => "sieve",
        }
    }

    /// The policy of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Uses blocks in turn with a cache of `capacity` blocks, where there are `blocks` different ones. `missed` is told
    /// the index of each use that the cache doesn't serve.
    ///
    /// # Panics
    /// If a block's number is `blocks` or more.
    pub fn run(
        self,
        capacity: u32,
        blocks: u32,
        uses: impl Iterator<Item = Block>,
        missed: impl FnMut(usize),
    ) {
        match self {
            Self::Lru => drive(&mut Lru::new(capacity, blocks, true), uses, missed),
            Self::Fifo => drive(&mut Lru::new(capacity, blocks, false), uses, missed),
            Self::Clock => drive(&mut Clock::new(capacity, blocks), uses, missed),
            Self::Lfu => drive(&mut Lfu::new(capacity, blocks), uses, missed),
            Self::TwoQ => drive(&mut TwoQ::new(capacity, blocks), uses, missed),
            Self::Arc => drive(&mut Arc::new(capacity, blocks), uses, missed),
            Self::S3Fifo => drive(&mut S3Fifo::new(capacity, blocks), uses, missed),
            Self::Sieve => drive(&mut Sieve::new(capacity, blocks), uses, missed),
        }
    }
}

/// A cache.
trait Cache {
    /// Uses a block, and brings it in. Whether it was there.
    fn touch(&mut self, block: Block) -> bool;
}

fn drive(cache: &mut impl Cache, uses: impl Iterator<Item = Block>, mut missed: impl FnMut(usize)) {
    for (at, block) in uses.enumerate() {
        if !cache.touch(block) {
            missed(at);
        }
    }
}

#[cfg(test)]
mod tests;
