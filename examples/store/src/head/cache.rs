//! The head's buffer cache: clean blocks, and dirty ones with the breadcrumbs of those who wrote their bytes.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use iotrail_sdk::request::Crumb;
use parking_lot::Mutex;

use super::HEAD;
use crate::block::{BLOCK, Block, Clean, Key};

/// Bytes of a block that one request wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    bytes: Range<usize>,
    crumb: Crumb,
}

/// Adds a span: the last writer of a byte is its writer.
fn overwrite(spans: &mut Vec<Span>, new: Span) {
    let old = std::mem::take(spans);
    for span in old {
        let before = span.bytes.start..span.bytes.end.min(new.bytes.start);
        let after = span.bytes.start.max(new.bytes.end)..span.bytes.end;
        spans.extend(
            [before, after].into_iter().filter(|left| !left.is_empty()).map(|bytes| Span { bytes, ..span }),
        );
    }
    spans.push(new);
}

struct Dirty {
    block: Arc<Block>,
    spans: Vec<Span>,
    /// Counts writes, so that one that comes while the block is written back keeps it dirty.
    version: u64,
}

struct State {
    clean: Clean,
    dirty: BTreeMap<Key, Dirty>,
}

/// The cache.
pub struct Cache {
    state: Mutex<State>,
    /// Most blocks.
    capacity: usize,
}

/// Neighbouring dirty blocks of a file, to be written back as one.
pub struct Run {
    object: u64,
    /// Number of its first block.
    pub first: u64,
    /// Their contents.
    pub blocks: Vec<Arc<Block>>,
    spans: Vec<Vec<Span>>,
    versions: Vec<u64>,
}

impl Run {
    /// Who wrote how many of its bytes.
    pub fn shares(&self) -> Vec<(Crumb, u64)> {
        let mut shares = BTreeMap::new();
        for span in self.spans.iter().flatten() {
            *shares.entry(span.crumb).or_insert(0) += span.bytes.len() as u64;
        }
        shares.into_iter().collect()
    }

    /// Number of the block after it.
    pub fn end(&self) -> u64 {
        self.first + self.blocks.len() as u64
    }
}

impl Cache {
    /// An empty one for `bytes`.
    pub fn new(bytes: u64) -> Self {
        let clean = Clean::new(&HEAD, bytes);
        Self {
            state: Mutex::new(State { clean, dirty: BTreeMap::new() }),
            capacity: (bytes as usize / BLOCK).max(1),
        }
    }

    /// A block, clean or dirty.
    pub fn get(&self, key: Key) -> Option<Arc<Block>> {
        let mut state = self.state.lock();
        state.dirty.get(&key).map(|dirty| Arc::clone(&dirty.block)).or_else(|| state.clean.get(key))
    }

    /// Which of these blocks of an object aren't there.
    pub fn missing(&self, object: u64, blocks: Range<u64>) -> Vec<u64> {
        let state = self.state.lock();
        blocks
            .filter(|&at| !state.dirty.contains_key(&(object, at)) && !state.clean.has((object, at)))
            .collect()
    }

    /// Keeps a block that was read.
    pub fn fill(&self, key: Key, block: Arc<Block>, crumb: Crumb) {
        let mut state = self.state.lock();
        if !state.dirty.contains_key(&key) {
            state.clean.put(key, block, crumb);
            self.fit(&mut state, crumb);
        }
    }

    /// Writes bytes of a block; where it isn't here yet, into `base`.
    pub fn write(&self, key: Key, bytes: Range<usize>, data: &[u8], base: Option<Arc<Block>>, crumb: Crumb) {
        let mut state = self.state.lock();
        let State { clean, dirty } = &mut *state;
        let clean = clean.take(key);
        let dirty = dirty.entry(key).or_insert_with(|| Dirty {
            block: clean.or(base).unwrap_or_else(|| Arc::new(Block::ZERO)),
            spans: Vec::new(),
            version: 0,
        });
        Arc::make_mut(&mut dirty.block).0[bytes.clone()].copy_from_slice(data);
        overwrite(&mut dirty.spans, Span { bytes, crumb });
        dirty.version += 1;
        self.fit(&mut state, crumb);
    }

    fn fit(&self, state: &mut State, crumb: Crumb) {
        let State { clean, dirty } = state;
        clean.shrink(self.capacity.saturating_sub(dirty.len()), crumb);
    }

    /// Whether more of it is dirty than may be.
    pub fn is_too_dirty(&self) -> bool {
        self.state.lock().dirty.len() > self.capacity / 2
    }

    /// Whether blocks of an object are dirty.
    pub fn is_dirty(&self, object: u64) -> bool {
        self.state.lock().dirty.range((object, 0)..=(object, u64::MAX)).next().is_some()
    }

    /// Objects with dirty blocks.
    pub fn dirty_objects(&self) -> Vec<u64> {
        let mut objects: Vec<u64> = self.state.lock().dirty.keys().map(|key| key.0).collect();
        objects.dedup();
        objects
    }

    /// The next neighbouring dirty blocks of an object from `from` on, at most `most`. They stay dirty, until
    /// [`Self::written`] or [`Self::not_written`]; one run of an object at a time.
    pub fn take_run(&self, object: u64, from: u64, most: usize) -> Option<Run> {
        let mut state = self.state.lock();
        let mut dirty = state.dirty.range_mut((object, from)..=(object, u64::MAX)).peekable();
        let first = dirty.peek()?.0.1;
        let mut run = Run { object, first, blocks: Vec::new(), spans: Vec::new(), versions: Vec::new() };
        for (key, dirty) in dirty {
            if key.1 != run.end() || run.blocks.len() == most {
                break;
            }
            run.blocks.push(Arc::clone(&dirty.block));
            run.spans.push(std::mem::take(&mut dirty.spans));
            run.versions.push(dirty.version);
        }
        Some(run)
    }

    /// A run was written back: its blocks are clean, but for those that were written meanwhile.
    pub fn written(&self, run: Run, crumb: Crumb) {
        let mut state = self.state.lock();
        let State { clean, dirty } = &mut *state;
        for ((at, block), version) in (run.first..).zip(run.blocks).zip(run.versions) {
            let key = (run.object, at);
            if dirty.get(&key).is_some_and(|dirty| dirty.version == version) {
                dirty.remove(&key);
                clean.put(key, block, crumb);
            }
        }
        self.fit(&mut state, crumb);
    }

    /// A run was not written back.
    pub fn not_written(&self, run: Run) {
        let mut state = self.state.lock();
        for (at, spans) in (run.first..).zip(run.spans) {
            if let Some(dirty) = state.dirty.get_mut(&(run.object, at)) {
                let newer = std::mem::replace(&mut dirty.spans, spans);
                newer.into_iter().for_each(|span| overwrite(&mut dirty.spans, span));
            }
        }
    }

    /// Forgets an object's blocks from `first` on, dirty or not.
    pub fn forget(&self, object: u64, first: u64) {
        let mut state = self.state.lock();
        state.clean.forget(object, first);
        state.dirty.retain(|key, _| key.0 != object || key.1 < first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crumb(number: i64) -> Crumb {
        Crumb::from_raw(number)
    }

    #[test]
    fn the_last_writer_of_a_byte_has_its_share() {
        let cache = Cache::new(1 << 20);
        let write = |block, bytes: Range<usize>, by| {
            cache.write((7, block), bytes.clone(), &vec![by as u8; bytes.len()], None, crumb(by));
        };
        write(3, 0..4096, 1);
        write(3, 100..200, 2);
        write(4, 0..50, 2);
        write(3, 150..300, 3);
        write(6, 0..1, 4);
        let run = cache.take_run(7, 0, 64).unwrap();
        assert_eq!((run.first, run.end()), (3, 5));
        assert_eq!(run.shares(), [(crumb(1), 4096 - 200), (crumb(2), 50 + 50), (crumb(3), 150)]);
        // Written while it is written back: stays dirty, for those who wrote it meanwhile.
        write(4, 10..20, 5);
        cache.written(run, Crumb::NONE);
        let again = cache.take_run(7, 0, 64).unwrap();
        assert_eq!((again.first, again.shares()), (4, vec![(crumb(5), 10)]));
        write(4, 15..25, 6);
        cache.not_written(again);
        let again = cache.take_run(7, 0, 64).unwrap();
        assert_eq!(again.shares(), [(crumb(5), 5), (crumb(6), 10)]);
        assert_eq!(again.blocks[0].0[..50].iter().filter(|byte| **byte == 2).count(), 35);
        assert_eq!(cache.missing(7, 0..8), [0, 1, 2, 5, 7]);
    }
}
