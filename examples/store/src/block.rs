//! Blocks, and the least-recently-used cache of them that head and storage nodes have.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, LazyLock};

use iotrail_sdk::api;
use iotrail_sdk::request::{Buffer, Crumb, Name, buffer};
use lru::LruCache;
use parking_lot::Mutex;

/// Bytes of a block: the unit of caches, checksums and allocation; a page, as O_DIRECT wants it.
pub const BLOCK: usize = 4096;

/// One block, where O_DIRECT may read and write it.
#[repr(C, align(4096))]
#[derive(Clone)]
pub struct Block(pub [u8; BLOCK]);

impl Block {
    /// What a block that was never written holds.
    pub const ZERO: Self = Self([0; BLOCK]);

    /// The bytes of neighbouring blocks.
    pub fn bytes(blocks: &[Self]) -> &[u8] {
        // SAFETY: blocks are arrays of bytes without padding, one after the other.
        unsafe { std::slice::from_raw_parts(blocks.as_ptr().cast(), blocks.len() * BLOCK) }
    }

    /// As [`Self::bytes`], to fill them.
    pub fn bytes_mut(blocks: &mut [Self]) -> &mut [u8] {
        // SAFETY: as above; any bytes are valid.
        unsafe { std::slice::from_raw_parts_mut(blocks.as_mut_ptr().cast(), blocks.len() * BLOCK) }
    }

    /// The blocks of a message.
    pub fn of(bytes: &[u8]) -> Vec<Self> {
        let mut blocks = vec![Self::ZERO; bytes.len().div_ceil(BLOCK)];
        Self::bytes_mut(&mut blocks)[..bytes.len()].copy_from_slice(bytes);
        blocks
    }
}

/// A block of an object. A file's object has the number of its inode.
pub type Key = (u64, u64);

/// The id by which records name an object: `/store/NUMBER`, on all nodes.
pub fn file_id(object: u64) -> i64 {
    static KNOWN: LazyLock<Mutex<HashMap<u64, i64>>> = LazyLock::new(Default::default);
    *KNOWN.lock().entry(object).or_insert_with(|| api::file(format!("/store/{object}").as_bytes()))
}

/// Clean blocks, the least recently used of which makes room.
pub struct Clean {
    component: &'static Name,
    blocks: LruCache<Key, Arc<Block>>,
}

/// What all block caches are called in records.
pub static BLOCKS: Name = Name::new("blocks");

impl Clean {
    /// An empty one for `bytes`, of which one block is the least.
    pub fn new(component: &'static Name, bytes: u64) -> Self {
        let capacity = usize::try_from(bytes).unwrap_or(usize::MAX) / BLOCK;
        Self { component, blocks: LruCache::new(NonZeroUsize::new(capacity).unwrap_or(NonZeroUsize::MIN)) }
    }

    /// A block that is there; it is the most recently used one now.
    pub fn get(&mut self, key: Key) -> Option<Arc<Block>> {
        self.blocks.get(&key).cloned()
    }

    /// Whether a block is there.
    pub fn has(&self, key: Key) -> bool {
        self.blocks.contains(&key)
    }

    /// Keeps a block; what it drives out is posted as evicted for `crumb`.
    pub fn put(&mut self, key: Key, block: Arc<Block>, crumb: Crumb) {
        if let Some((gone, _)) = self.blocks.push(key, block)
            && gone != key
        {
            self.evicted(gone, crumb);
        }
    }

    /// Makes room until no more than `most` blocks are left.
    pub fn shrink(&mut self, most: usize, crumb: Crumb) {
        while self.blocks.len() > most
            && let Some((gone, _)) = self.blocks.pop_lru()
        {
            self.evicted(gone, crumb);
        }
    }

    /// Takes a block out.
    pub fn take(&mut self, key: Key) -> Option<Arc<Block>> {
        self.blocks.pop(&key)
    }

    /// Forgets an object's blocks from `first` on.
    pub fn forget(&mut self, object: u64, first: u64) {
        self.blocks.retain(|key, _| key.0 != object || key.1 < first);
    }

    fn evicted(&self, key: Key, crumb: Crumb) {
        post(self.component, Buffer::Evict, crumb, key, 1);
    }
}

/// Posts one access to `count` neighbouring blocks.
pub fn post(component: &Name, kind: Buffer, crumb: Crumb, key: Key, count: usize) {
    let (pos, length) = (key.1 * BLOCK as u64, (count * BLOCK) as u64);
    buffer(component, &BLOCKS, kind, crumb, file_id(key.0), pos, length);
}

/// Neighbouring numbers as (first, count), in order.
pub fn runs(numbers: impl IntoIterator<Item = u64>) -> Vec<(u64, usize)> {
    let mut runs: Vec<(u64, usize)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((first, count)) if *first + *count as u64 == number => *count += 1,
            _ => runs.push((number, 1)),
        }
    }
    runs
}
