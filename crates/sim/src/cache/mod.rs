//! Caches of blocks: which uses of blocks they serve, by policy and size.
//!
//! Blocks are numbered from 0 without gaps ([`Numbers`] does that), so that a policy needs no hash table: what it knows
//! of a block stands at the block's number. Each policy has as many blocks as it can hold, brings in each block that it
//! doesn't hold, read or written, and takes no other room than its lists of blocks.
//!
//! Miss counts of all policies are those of libCacheSim (1a1a11a/libCacheSim at aa0fc40) with its default parameters and
//! objects of one byte, on all traces that were compared; `make bench NAME=device` compares them again.

mod arc;
mod lfu;
mod list;
mod lru;
mod numbers;
mod reuse;
mod s3_fifo;
mod second_chance;
pub mod shards;
mod two_q;

pub(crate) use self::list::{Links, List};
pub(crate) use self::numbers::Mixed;
pub use self::numbers::Numbers;
pub use self::reuse::Reuse;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::arc::Arc;
use self::lfu::Lfu;
use self::lru::Lru;
use self::s3_fifo::S3Fifo;
use self::second_chance::SecondChance;
use self::two_q::TwoQ;

/// Number of a block. The highest is [`NONE`].
pub type Block = u32;
/// No block.
const NONE: Block = Block::MAX;

/// A replacement policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
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
    #[serde(rename = "2q")]
    TwoQ,
    /// ARC: LRU lists of blocks used once and oftener, whose shares adapt (Megiddo and Modha, FAST 2003, Figure 4).
    Arc,
    /// S3-FIFO: a FIFO of a tenth for new blocks, a memory of 0.9 and a FIFO with three extra turns (Yang et al., SOSP 2023).
    #[serde(rename = "s3-fifo")]
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
            Self::Lru => drive(Lru::new(capacity, blocks, true), uses, missed),
            Self::Fifo => drive(Lru::new(capacity, blocks, false), uses, missed),
            Self::Clock => drive(SecondChance::new(capacity, blocks, false), uses, missed),
            Self::Lfu => drive(Lfu::new(capacity, blocks), uses, missed),
            Self::TwoQ => drive(TwoQ::new(capacity, blocks), uses, missed),
            Self::Arc => drive(Arc::new(capacity, blocks), uses, missed),
            Self::S3Fifo => drive(S3Fifo::new(capacity, blocks), uses, missed),
            Self::Sieve => drive(SecondChance::new(capacity, blocks, true), uses, missed),
        }
    }
}

/// What a policy knows of blocks, and what it does with them. Blocks are below the number that it has room for.
trait Replacement {
    /// Uses a block, and brings it in. Whether it was there. `evicted` gets each block that goes for it.
    fn touch(&mut self, block: Block, evicted: &mut impl FnMut(Block)) -> bool;

    /// Whether a block is there.
    fn holds(&self, block: Block) -> bool;

    /// Takes a block out if it is there.
    fn remove(&mut self, block: Block);

    /// Makes room for blocks below this number.
    fn grow(&mut self, blocks: u32);
}

fn drive(mut cache: impl Replacement, uses: impl Iterator<Item = Block>, mut missed: impl FnMut(usize)) {
    for (at, block) in uses.enumerate() {
        if !cache.touch(block, &mut |_| {}) {
            missed(at);
        }
    }
}

/// A cache that is used step by step, without knowing how many different blocks there will be.
#[derive(Clone)]
pub struct Cache {
    any: Any,
    /// Blocks that there is room for.
    room: u32,
    held: u32,
}

#[derive(Clone)]
enum Any {
    Lru(Lru),
    Lfu(Lfu),
    TwoQ(TwoQ),
    Arc(Arc),
    S3Fifo(S3Fifo),
    SecondChance(SecondChance),
}

/// The same of each policy.
macro_rules! each {
    ($any:expr, $policy:ident => $does:expr) => {
        match $any {
            Any::Lru($policy) => $does,
            Any::Lfu($policy) => $does,
            Any::TwoQ($policy) => $does,
            Any::Arc($policy) => $does,
            Any::S3Fifo($policy) => $does,
            Any::SecondChance($policy) => $does,
        }
    };
}

impl Cache {
    /// An empty one of so many blocks.
    #[must_use]
    pub fn new(policy: Policy, capacity: u32) -> Self {
        let any = match policy {
            Policy::Lru => Any::Lru(Lru::new(capacity, 0, true)),
            Policy::Fifo => Any::Lru(Lru::new(capacity, 0, false)),
            Policy::Clock => Any::SecondChance(SecondChance::new(capacity, 0, false)),
            Policy::Lfu => Any::Lfu(Lfu::new(capacity, 0)),
            Policy::TwoQ => Any::TwoQ(TwoQ::new(capacity, 0)),
            Policy::Arc => Any::Arc(Arc::new(capacity, 0)),
            Policy::S3Fifo => Any::S3Fifo(S3Fifo::new(capacity, 0)),
            Policy::Sieve => Any::SecondChance(SecondChance::new(capacity, 0, true)),
        };
        Self { any, room: 0, held: 0 }
    }

    /// Uses a block, and brings it in. Whether it was there. Blocks that go for it are appended to `evicted`.
    pub fn touch(&mut self, block: Block, evicted: &mut Vec<Block>) -> bool {
        if block >= self.room {
            self.room = (block + 1).max(self.room.saturating_mul(2)).max(1024);
            each!(&mut self.any, policy => policy.grow(self.room));
        }
        let before = evicted.len();
        let was_there = each!(&mut self.any, policy => policy.touch(block, &mut |block| evicted.push(block)));
        self.held -= (evicted.len() - before) as u32;
        if !was_there && self.holds(block) {
            self.held += 1;
        }
        was_there
    }

    /// Whether a block is there.
    #[must_use]
    pub fn holds(&self, block: Block) -> bool {
        block < self.room && each!(&self.any, policy => policy.holds(block))
    }

    /// Takes a block out. Whether it was there.
    pub fn remove(&mut self, block: Block) -> bool {
        let was_there = self.holds(block);
        if was_there {
            each!(&mut self.any, policy => policy.remove(block));
            self.held -= 1;
        }
        was_there
    }

    /// Blocks that are there.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.held
    }

    /// Whether none is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held == 0
    }
}

#[cfg(test)]
mod tests;
