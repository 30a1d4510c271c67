//! A device with a cache before it: memory, or another device such as an SSD before a disk (Delimitrou et al., "Accurate
//! Modeling and Generation of Storage I/O for Datacenter Workloads", §5.1).
//!
//! The cache holds whole blocks, in slots of its medium. What it does for a request is decided when the request arrives, in
//! the order of arrivals, block by block from the first on, so that which blocks hit is what [`Policy::run`] says of
//! the same uses.
//!
//! | | block is held | block is missed |
//! |---|---|---|
//! | read | from the medium | the whole block is read behind; the request completes then, and the block goes to the medium after that |
//! | write, `back` | to the medium | to the medium; of a part of a block, the whole block is read behind first |
//! | write, `through` | to the medium and behind | the same; of a part of a block, it is written behind, and the block is read from there and goes to the medium after that |
//! | write, `around` | behind; the block is no longer held | behind |
//!
//! A block that is not admitted is read or written behind only, and only the bytes of the request. With `back`, a block that
//! was written is dirty until it is evicted or a flush comes, which reads it from the medium and writes it behind. A flush
//! treats the medium as volatile: it writes all dirty blocks, and flushes the device behind. A trim drops the blocks that lie in it whole, dirty or
//! not, and goes to the device behind.
//!
//! Reads behind of neighbouring blocks are one request, and so are writes. Memory takes [`Parameters::latency_ns`] and
//! the transfer for what a request has in it, whatever else it does; a device takes each run of neighbouring slots as a request.
//!
//! It takes about 50 bytes for each different block that was ever used, and 8 for each slot.

mod admission;
mod pieces;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::admission::Admission;
use self::pieces::{New, Piece, Pieces, Target};
use crate::bounds::{self, InvalidParameter};
use crate::cache::{Block, Cache, Numbers, Policy};
use crate::device::{Completion, Device, Id, Nanos, Op, Request};
use crate::fixed::{self, Fixed};

/// Where writes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Write {
    /// To the cache and to the device behind.
    Through,
    /// To the cache; to the device behind when the block is evicted, or by a flush.
    Back,
    /// To the device behind only.
    Around,
}

/// Smallest block, the smallest sector of disks; largest block.
const BLOCKS: (u64, u64) = (512, 1 << 30);
/// Longest latency of memory: 1000 s, as of [`fixed`].
const LONGEST: Nanos = 1_000_000_000_000;

/// What a cache is like.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Which block goes.
    pub policy: Policy,
    /// Bytes it holds, of which whole blocks are used.
    #[schemars(range(min = BLOCKS.0, max = i64::MAX))]
    pub size_bytes: u64,
    /// Bytes of a block.
    #[schemars(range(min = BLOCKS.0, max = BLOCKS.1))]
    pub block_bytes: u64,
    /// Where writes go.
    pub write: Write,
    /// Misses of a block until it is brought in; 1 brings in all.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1 << 20))]
    pub admission: u32,
    /// Blocks whose misses are remembered for that at most; without, as many as the cache holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = u32::MAX / 2))]
    pub admission_memory: Option<u32>,
    /// Of memory: time of an access without its transfer. None with a device as the medium.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = LONGEST))]
    pub latency_ns: Option<Nanos>,
    /// Of memory: bytes per second of each access. None with a device as the medium.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = i64::MAX))]
    pub rate_bytes_per_s: Option<u64>,
}

fn one() -> u32 {
    1
}

/// Bytes that a flush reads or writes at once at most.
const MOST_CLEANED: u64 = 1 << 20;
/// Blocks of an I/O behind at most for which an order is kept each; a longer one is ordered with all others.
const MOST_UNITS: u64 = 1 << 16;
/// Not in a slot.
const NOWHERE: u32 = u32::MAX;

impl Parameters {
    /// Whether a cache can be like this, with a medium of so many bytes, or in memory.
    ///
    /// # Errors
    /// The first parameter out of its range.
    pub fn validate(&self, medium_bytes: Option<u64>) -> Result<(), InvalidParameter> {
        bounds::check(self)?;
        if !self.block_bytes.is_multiple_of(BLOCKS.0) {
            let expected = format!("a multiple of {}", BLOCKS.0);
            return Err(InvalidParameter::new("block_bytes", expected, self.block_bytes));
        }
        let most = self.block_bytes.saturating_mul(u64::from(u32::MAX / 2)).min(i64::MAX as u64);
        let most = most.min(medium_bytes.unwrap_or(most));
        if !(self.block_bytes..=most).contains(&self.size_bytes) {
            let expected = format!("{} to {most}", self.block_bytes);
            return Err(InvalidParameter::new("size_bytes", expected, self.size_bytes));
        }
        for (field, value) in [("latency_ns", self.latency_ns), ("rate_bytes_per_s", self.rate_bytes_per_s)] {
            match (value, medium_bytes) {
                (Some(found), Some(_)) => {
                    return Err(InvalidParameter::new(field, "nothing, as a device is the medium", found));
                }
                (None, None) => {
                    return Err(InvalidParameter::new(
                        field,
                        "a value, or a device as the medium",
                        "nothing",
                    ));
                }
                (Some(_), None) | (None, Some(_)) => {}
            }
        }
        Ok(())
    }

    /// Blocks it holds.
    fn blocks(&self) -> u32 {
        u32::try_from(self.size_bytes / self.block_bytes).unwrap_or(u32::MAX)
    }
}

/// What a cache did for blocks that requests used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Blocks read that were held, and that were not.
    pub read_hits: u64,
    /// Blocks read that were not held.
    pub read_misses: u64,
    /// Blocks written that were held.
    pub write_hits: u64,
    /// Blocks written that were not held.
    pub write_misses: u64,
    /// Dirty blocks written to the device behind.
    pub cleaned: u64,
}

/// What a slot of the medium holds.
#[derive(Clone, Copy)]
struct Slot {
    number: Block,
    dirty: bool,
    held: bool,
    /// The last [`Cached::batch`] that has I/O on it.
    batch: u64,
}

/// A part of a block that a request reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    slot: u32,
    /// Byte of the block, and how many.
    offset: u64,
    length: u64,
    /// Where it is on the device behind.
    pos: u64,
}

/// Bytes to be read behind, and the slot they go to.
#[derive(Clone, Copy)]
struct Fetch {
    pos: u64,
    length: u64,
    slot: Option<u32>,
}

/// What a request does, gathered so that neighbours become one I/O.
#[derive(Clone, Default)]
struct Gathered {
    /// Dirty blocks that go.
    cleaned: Vec<Span>,
    /// From or to the medium.
    medium: Vec<Span>,
    /// From or to the device behind only: first byte and length.
    direct: Vec<(u64, u64)>,
    fetched: Vec<Fetch>,
}

/// What the completion of a request waits for, of a fetch and of the write to the medium after it.
#[derive(Clone, Copy)]
struct Awaited {
    fetch: bool,
    fill: bool,
}

/// A device with a cache before it.
#[derive(Clone)]
pub struct Cached<D> {
    parameters: Parameters,
    in_memory: bool,
    pieces: Pieces<D>,
    cache: Cache,
    admission: Admission,
    numbers: Numbers,
    /// By number: the block on the device behind, and its slot or [`NOWHERE`].
    block_of: Vec<u64>,
    slot_of: Vec<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    gathered: Gathered,
    /// Number of what is being gathered.
    batch: u64,
    evicted: Vec<Block>,
    dirty: u32,
    counts: Counts,
}

impl<D: Device> Cached<D> {
    /// An empty cache before a device; in a medium, or in memory.
    ///
    /// # Errors
    /// The first parameter out of its range.
    pub fn new(
        parameters: Parameters,
        medium: Option<Box<dyn Device>>,
        behind: D,
    ) -> Result<Self, InvalidParameter> {
        parameters.validate(medium.as_ref().map(|medium| medium.capacity()))?;
        let in_memory = medium.is_none();
        let medium = medium.unwrap_or_else(|| {
            let latency = parameters.latency_ns.unwrap_or(0);
            Box::new(Fixed::new(fixed::Parameters {
                capacity_bytes: i64::MAX as u64,
                servers: u32::MAX,
                read_ns: latency,
                write_ns: latency,
                flush_ns: 0,
                trim_ns: 0,
                rate_bytes_per_s: parameters.rate_bytes_per_s.unwrap_or(u64::MAX),
            }))
        });
        let blocks = parameters.blocks();
        Ok(Self {
            in_memory,
            pieces: Pieces::new(medium, behind),
            cache: Cache::new(parameters.policy, blocks),
            admission: Admission::new(parameters.admission, parameters.admission_memory.unwrap_or(blocks)),
            numbers: Numbers::default(),
            block_of: Vec::new(),
            slot_of: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
            gathered: Gathered::default(),
            batch: 1,
            evicted: Vec::new(),
            dirty: 0,
            counts: Counts::default(),
            parameters,
        })
    }

    /// What it did so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Blocks that the device behind doesn't have as they are.
    #[must_use]
    pub fn dirty_blocks(&self) -> u32 {
        self.dirty
    }

    /// Blocks held.
    #[must_use]
    pub fn held_blocks(&self) -> u32 {
        self.cache.len()
    }

    /// The number of a block; none if there are too many different ones, which are not cached.
    fn number(&mut self, block: u64) -> Option<Block> {
        let number = self.numbers.of(0, block)?;
        if number as usize == self.block_of.len() {
            self.block_of.push(block);
            self.slot_of.push(NOWHERE);
        }
        Some(number)
    }

    /// The block's bytes on the device behind: the last one may be short.
    fn bytes_of(&self, block: u64) -> (u64, u64) {
        let pos = block * self.parameters.block_bytes;
        (pos, self.parameters.block_bytes.min(self.pieces.behind.capacity() - pos))
    }

    fn whole(&self, slot: u32) -> Span {
        let (pos, length) = self.bytes_of(self.block_of[self.slots[slot as usize].number as usize]);
        Span { slot, offset: 0, length, pos }
    }

    /// Uses a block: its slot, and whether it was held. None if it is not brought in.
    fn touch(&mut self, request: (Id, Op), block: u64) -> Option<(u32, bool)> {
        let number = self.number(block)?;
        if !self.cache.holds(number) && !self.admission.admits(number) {
            return None;
        }
        let mut evicted = std::mem::take(&mut self.evicted);
        let was_held = self.cache.touch(number, &mut evicted);
        for number in evicted.drain(..) {
            self.release(request, number);
        }
        self.evicted = evicted;
        if !was_held {
            self.take_slot(number);
        }
        Some((self.slot_of[number as usize], was_held))
    }

    fn take_slot(&mut self, number: Block) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { number, dirty: false, held: false, batch: 0 });
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Slot { number, dirty: false, held: true, batch: 0 };
        self.slot_of[number as usize] = slot;
    }

    /// A block goes that the policy has evicted.
    fn release(&mut self, request: (Id, Op), number: Block) {
        let slot = self.slot_of[number as usize];
        // What the same request does with it comes first.
        if self.slots[slot as usize].batch == self.batch {
            self.perform(request);
        }
        self.drop_dirt(slot, true);
        self.slots[slot as usize].held = false;
        self.slot_of[number as usize] = NOWHERE;
        self.free.push(slot);
    }

    /// A slot isn't dirty any more, as it is written behind or not needed.
    fn drop_dirt(&mut self, slot: u32, is_cleaned: bool) {
        if std::mem::take(&mut self.slots[slot as usize].dirty) {
            self.dirty -= 1;
            if is_cleaned {
                self.counts.cleaned += 1;
                let whole = self.whole(slot);
                self.gathered.cleaned.push(whole);
            }
        }
    }

    fn soil(&mut self, slot: u32) {
        self.dirty += u32::from(!std::mem::replace(&mut self.slots[slot as usize].dirty, true));
    }

    fn gather_span(&mut self, span: Span) {
        self.slots[span.slot as usize].batch = self.batch;
        self.gathered.medium.push(span);
    }

    fn gather_fetch(&mut self, slot: u32, pos: u64, length: u64) {
        self.slots[slot as usize].batch = self.batch;
        self.gathered.fetched.push(Fetch { pos, length, slot: Some(slot) });
    }

    fn read(&mut self, id: Id, pos: u64, length: u64) {
        for (block, pos, length) in parts(self.parameters.block_bytes, pos, length) {
            let touched = self.touch((id, Op::Read), block);
            let is_hit = touched.is_some_and(|(_, was_held)| was_held);
            self.counts.read_hits += u64::from(is_hit);
            self.counts.read_misses += u64::from(!is_hit);
            let (first, whole) = self.bytes_of(block);
            match touched {
                Some((slot, true)) => self.gather_span(Span { slot, offset: pos - first, length, pos }),
                Some((slot, false)) => self.gather_fetch(slot, first, whole),
                None => self.gathered.fetched.push(Fetch { pos, length, slot: None }),
            }
        }
        self.perform((id, Op::Read));
    }

    fn write(&mut self, id: Id, pos: u64, length: u64) {
        let mode = self.parameters.write;
        for (block, pos, length) in parts(self.parameters.block_bytes, pos, length) {
            let touched = match mode {
                Write::Around => self.forget(block),
                Write::Back | Write::Through => self.touch((id, Op::Write), block),
            };
            let is_hit = touched.is_some_and(|(_, was_held)| was_held);
            self.counts.write_hits += u64::from(is_hit);
            self.counts.write_misses += u64::from(!is_hit);
            if mode != Write::Back || touched.is_none() {
                self.gathered.direct.push((pos, length));
            }
            let Some((slot, was_held)) = touched.filter(|_| mode != Write::Around) else { continue };
            let (first, whole) = self.bytes_of(block);
            if mode == Write::Back {
                self.soil(slot);
            }
            if was_held || length == whole {
                self.gather_span(Span { slot, offset: pos - first, length, pos });
            } else {
                self.gather_fetch(slot, first, whole);
            }
        }
        self.perform((id, Op::Write));
    }

    /// A block isn't held any more, dirty or not.
    fn forget(&mut self, block: u64) -> Option<(u32, bool)> {
        let number = self.numbers.get(0, block)?;
        if !self.cache.remove(number) {
            return None;
        }
        let slot = std::mem::replace(&mut self.slot_of[number as usize], NOWHERE);
        self.drop_dirt(slot, false);
        self.slots[slot as usize].held = false;
        self.free.push(slot);
        Some((slot, true))
    }

    fn flush(&mut self, id: Id) {
        let mut dirty: Vec<u32> =
            (0..self.slots.len() as u32).filter(|slot| self.slots[*slot as usize].dirty).collect();
        dirty.sort_unstable_by_key(|slot| self.block_of[self.slots[*slot as usize].number as usize]);
        for slot in dirty {
            self.drop_dirt(slot, true);
        }
        self.perform((id, Op::Flush));
        let request = Request { op: Op::Flush, pos: 0, length: 0 };
        self.pieces.add(New {
            target: Target::Behind,
            request,
            units: Some(&[]),
            from: None,
            owner: Some(id),
        });
    }

    fn trim(&mut self, id: Id, request: Request) {
        let Request { pos, length, .. } = request;
        let is_whole = |(first, whole): (u64, u64)| first >= pos && first + whole <= pos + length;
        let blocks = blocks(self.parameters.block_bytes, pos, length);
        if blocks.end - blocks.start > self.slots.len() as u64 {
            for slot in 0..self.slots.len() {
                let Slot { number, held, .. } = self.slots[slot];
                let block = self.block_of[number as usize];
                if held && is_whole(self.bytes_of(block)) {
                    self.forget(block);
                }
            }
        } else {
            for block in blocks {
                if is_whole(self.bytes_of(block)) {
                    self.forget(block);
                }
            }
        }
        self.behind(request, None, Some(id));
    }

    /// An I/O on the device behind.
    fn behind(&mut self, request: Request, from: Option<Piece>, owner: Option<Id>) -> Piece {
        let blocks = blocks(self.parameters.block_bytes, request.pos, request.length);
        let units: Option<Vec<u64>> = (blocks.end - blocks.start <= MOST_UNITS).then(|| blocks.collect());
        self.pieces.add(New { target: Target::Behind, request, units: units.as_deref(), from, owner })
    }

    /// I/O on the medium: a request for each run of neighbouring slots; of memory one for all.
    fn medium(&mut self, op: Op, spans: &[Span], from: Option<Piece>, owner: Option<Id>) -> Vec<Piece> {
        let block_bytes = self.parameters.block_bytes;
        let follows = |before: &Span, span: &Span| {
            let ends_block = before.offset + before.length == block_bytes;
            self.in_memory || (before.slot + 1 == span.slot && ends_block && span.offset == 0)
        };
        let mut pieces = Vec::new();
        for run in spans.chunk_by(follows) {
            let units: Vec<u64> = run.iter().map(|span| u64::from(span.slot)).collect();
            let pos = if self.in_memory { 0 } else { u64::from(run[0].slot) * block_bytes + run[0].offset };
            let length = run.iter().map(|span| span.length).sum();
            let request = Request { op, pos, length };
            let new = New { target: Target::Medium, request, units: Some(&units), from, owner };
            pieces.push(self.pieces.add(new));
            #[cfg(test)]
            self.pieces.log_spans(run, from.is_some() && op == Op::Write && owner.is_some());
        }
        pieces
    }

    /// Does what was gathered for a request.
    fn perform(&mut self, (id, op): (Id, Op)) {
        let gathered = std::mem::take(&mut self.gathered);
        self.batch += 1;
        self.clean(&gathered.cleaned);
        self.medium(op, &gathered.medium, None, Some(id));
        for run in gathered.direct.chunk_by(|before, next| before.0 + before.1 == next.0) {
            let length = run.iter().map(|(_, length)| length).sum();
            self.behind(Request { op, pos: run[0].0, length }, None, Some(id));
        }
        let awaited = match (op, self.parameters.write) {
            (Op::Write, Write::Back) => Awaited { fetch: true, fill: true },
            (Op::Write, _) => Awaited { fetch: false, fill: false },
            _ => Awaited { fetch: true, fill: false },
        };
        for run in gathered.fetched.chunk_by(|before, next| before.pos + before.length == next.pos) {
            let length = run.iter().map(|fetch| fetch.length).sum();
            let request = Request { op: Op::Read, pos: run[0].pos, length };
            let piece = self.behind(request, None, awaited.fetch.then_some(id));
            let filled: Vec<Span> = run
                .iter()
                .filter_map(|fetch| {
                    let Fetch { pos, length, slot } = *fetch;
                    Some(Span { slot: slot?, offset: 0, length, pos })
                })
                .collect();
            self.medium(Op::Write, &filled, Some(piece), awaited.fill.then_some(id));
        }
    }

    /// Reads blocks from the medium and writes them behind.
    fn clean(&mut self, spans: &[Span]) {
        let mut rest = spans;
        while let Some(first) = rest.first() {
            // A run of neighbouring blocks behind; from the medium each needs only one I/O if they are neighbours there too.
            let most = (MOST_CLEANED / self.parameters.block_bytes).max(1) as usize;
            let neighbours = rest.windows(2).take_while(|pair| {
                let [before, next] = pair else { return false };
                before.pos + before.length == next.pos && (self.in_memory || before.slot + 1 == next.slot)
            });
            let count = neighbours.take(most - 1).count() + 1;
            let run = &rest[..count];
            let length = run.iter().map(|span| span.length).sum();
            let read = self.medium(Op::Read, run, None, None);
            self.behind(Request { op: Op::Write, pos: first.pos, length }, read.last().copied(), None);
            rest = &rest[count..];
        }
    }
}

/// Blocks that bytes lie in.
fn blocks(block_bytes: u64, pos: u64, length: u64) -> std::ops::Range<u64> {
    if length == 0 { 0..0 } else { pos / block_bytes..(pos + length - 1) / block_bytes + 1 }
}

/// Each block that bytes lie in, with the first byte in it and their number.
fn parts(block_bytes: u64, pos: u64, length: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    blocks(block_bytes, pos, length).map(move |block| {
        let first = pos.max(block * block_bytes);
        let end = (pos + length).min((block + 1) * block_bytes);
        (block, first, end - first)
    })
}

impl<D: Device + Clone> Device for Cached<D> {
    fn capacity(&self) -> u64 {
        self.pieces.behind.capacity()
    }

    fn submit(&mut self, now: Nanos, id: Id, request: Request) {
        self.pieces.open(now, id);
        match request.op {
            Op::Flush => self.flush(id),
            _ if request.length == 0 => {
                self.behind(request, None, Some(id));
            }
            Op::Read => self.read(id, request.pos, request.length),
            Op::Write => self.write(id, request.pos, request.length),
            Op::Trim => self.trim(id, request),
        }
        self.pieces.close(id);
    }

    fn next_event(&self) -> Option<Nanos> {
        self.pieces.next_event()
    }

    fn next_completion(&self) -> Option<Nanos> {
        self.pieces.next_completion()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.pieces.advance(now, completions);
    }

    fn energy(&self, now: Nanos) -> Option<f64> {
        let behind = self.pieces.behind.energy(now)?;
        // What memory takes isn't known, and is little beside a device.
        if self.in_memory { Some(behind) } else { Some(behind + self.pieces.medium.energy(now)?) }
    }
}
