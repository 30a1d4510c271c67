//! A segment as the sealer sees it: bytes that somebody else writes.
//!
//! Every offset, capacity and count in a segment is untrusted: a program may have written over it,
//! a crash may have cut it. So it is read as a slice of atomic words, whatever it holds; an index
//! that leaves the slice makes the ring invalid, and no loop is longer than the slice.
//! The layout is drawn in `iotrail_format::segment`; this file is its only reader.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use iotrail_format::ids::ProcessId;
use iotrail_format::segment::{
    INFLIGHT_DEPTH, MAX_RINGS, PAGE, RINGS_START, RingEntry, RingHeader, RingState, SEGMENT_MAGIC,
    SEGMENT_VERSION, SegmentHeader, Slot, UNFINISHED,
};

/// 64 bytes: a slot of a ring or an entry of the journal.
pub type Unit = [u64; 8];

/// Words of a slot.
const SLOT_WORDS: usize = size_of::<Slot>() / 8;
const PAGE_WORDS: usize = PAGE / 8;

/// Why bytes are not a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotASegment {
    /// Its header is not complete: the program is just making it, or was killed doing so.
    Unfinished,
    /// Of another version of the layout.
    Version(u32),
}

/// A segment.
#[derive(Clone, Copy)]
pub struct Segment<'a> {
    words: &'a [AtomicU64],
}

impl<'a> Segment<'a> {
    /// Looks at `words` as a segment.
    pub fn new(words: &'a [AtomicU64]) -> Result<Self, NotASegment> {
        if words.len() * 8 < RINGS_START
            || words[offset_of!(SegmentHeader, magic) / 8].load(Ordering::Acquire) != SEGMENT_MAGIC
        {
            return Err(NotASegment::Unfinished);
        }
        let segment = Self { words };
        match segment.u32(offset_of!(SegmentHeader, version)) {
            SEGMENT_VERSION => Ok(segment),
            other => Err(NotASegment::Version(other)),
        }
    }

    /// Looks at `words` that [`Self::new`] accepted before: whatever they hold by now, reading
    /// them is sound, only their header is no longer vouched for. They must reach to the first ring.
    #[must_use]
    pub fn accepted(words: &'a [AtomicU64]) -> Self {
        assert!(words.len() * 8 >= RINGS_START);
        Self { words }
    }

    fn u64(&self, offset: usize) -> u64 {
        self.words[offset / 8].load(Ordering::Acquire)
    }

    fn i64(&self, offset: usize) -> i64 {
        self.u64(offset) as i64
    }

    fn u32(&self, offset: usize) -> u32 {
        half(self.words, offset).load(Ordering::Acquire)
    }

    /// See [`SegmentHeader::pid`].
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.u32(offset_of!(SegmentHeader, pid))
    }

    /// See [`SegmentHeader::ppid`].
    #[must_use]
    pub fn ppid(&self) -> u32 {
        self.u32(offset_of!(SegmentHeader, ppid))
    }

    /// See [`SegmentHeader::pid_namespace`].
    #[must_use]
    pub fn pid_namespace(&self) -> u32 {
        self.u32(offset_of!(SegmentHeader, pid_namespace))
    }

    /// See [`SegmentHeader::state`].
    #[must_use]
    pub fn state(&self) -> u32 {
        self.u32(offset_of!(SegmentHeader, state))
    }

    /// See [`SegmentHeader::start_ticks`].
    #[must_use]
    pub fn start_ticks(&self) -> u64 {
        self.u64(offset_of!(SegmentHeader, start_ticks))
    }

    /// See [`SegmentHeader::end_ticks`].
    #[must_use]
    pub fn end_ticks(&self) -> u64 {
        self.u64(offset_of!(SegmentHeader, end_ticks))
    }

    /// See [`SegmentHeader::parent`].
    #[must_use]
    pub fn parent(&self) -> i64 {
        self.i64(offset_of!(SegmentHeader, parent))
    }

    /// See [`SegmentHeader::exit_status`].
    #[must_use]
    pub fn exit_status(&self) -> i32 {
        self.u32(offset_of!(SegmentHeader, exit_status)) as i32
    }

    /// See [`SegmentHeader::rank`].
    #[must_use]
    pub fn rank(&self) -> i32 {
        self.u32(offset_of!(SegmentHeader, rank)) as i32
    }

    /// See [`SegmentHeader::populated`].
    #[must_use]
    pub fn populated(&self) -> u64 {
        self.u64(offset_of!(SegmentHeader, populated))
    }

    /// See [`SegmentHeader::uncharged`].
    #[must_use]
    pub fn is_uncharged(&self) -> bool {
        self.u32(offset_of!(SegmentHeader, uncharged)) != 0
    }

    /// See [`SegmentHeader::refused_calls`].
    #[must_use]
    pub fn refused_calls(&self) -> u64 {
        self.u64(offset_of!(SegmentHeader, refused_calls))
    }

    /// User CPU, system CPU, minor faults, major faults; -1 unknown.
    #[must_use]
    pub fn usage(&self) -> [i64; 4] {
        [
            self.i64(offset_of!(SegmentHeader, user_ns)),
            self.i64(offset_of!(SegmentHeader, system_ns)),
            self.i64(offset_of!(SegmentHeader, minor_faults)),
            self.i64(offset_of!(SegmentHeader, major_faults)),
        ]
    }

    /// The process image's id.
    #[must_use]
    pub fn process(&self) -> ProcessId {
        ProcessId::new(self.pid(), self.start_ticks())
    }

    /// How many rings were handed out.
    #[must_use]
    pub fn ring_count(&self) -> usize {
        (self.u32(offset_of!(SegmentHeader, ring_count)) as usize).min(MAX_RINGS)
    }

    /// Ring `index`; none while it isn't there yet or if its entry points outside the segment.
    #[must_use]
    pub fn ring(&self, index: usize) -> Option<Ring<'a>> {
        let entry = PAGE + index * size_of::<RingEntry>();
        let offset = usize::try_from(self.u64(entry + offset_of!(RingEntry, offset))).ok()?;
        let capacity = self.u32(entry + offset_of!(RingEntry, capacity)) as usize;
        if offset < RINGS_START || offset % PAGE != 0 || !capacity.is_power_of_two() {
            return None;
        }
        let header = offset / 8;
        let slots = header.checked_add(PAGE_WORDS)?;
        let end = slots.checked_add(capacity.checked_mul(SLOT_WORDS)?)?;
        Some(Ring {
            start: header,
            header: self.words.get(header..slots)?,
            slots: self.words.get(slots..end)?,
        })
    }

    /// Whether ring `index` is said to be there, wherever.
    #[must_use]
    pub fn has_ring(&self, index: usize) -> bool {
        self.u64(PAGE + index * size_of::<RingEntry>() + offset_of!(RingEntry, offset)) != 0
    }
}

/// A ring of a segment.
#[derive(Clone, Copy)]
pub struct Ring<'a> {
    /// Where it begins in its segment, in words.
    start: usize,
    header: &'a [AtomicU64],
    slots: &'a [AtomicU64],
}

impl<'a> Ring<'a> {
    fn at(&self, offset: usize) -> &'a AtomicU64 {
        &self.header[offset / 8]
    }

    /// Slots.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        (self.slots.len() / SLOT_WORDS) as u64
    }

    /// Where it begins in its segment, in words, and its slots: what tells it from any other ring.
    #[must_use]
    pub fn place(&self) -> (usize, u64) {
        (self.start, self.capacity())
    }

    /// Whether it shares memory with a ring at another [`Self::place`].
    #[must_use]
    pub fn overlaps(&self, (start, capacity): (usize, u64)) -> bool {
        let end = |start: usize, capacity: u64| start + PAGE_WORDS + capacity as usize * SLOT_WORDS;
        self.start < end(start, capacity) && start < end(self.start, self.capacity())
    }

    /// The eight words of the slot at a position.
    #[inline]
    #[must_use]
    pub fn slot(&self, position: u64) -> &'a [AtomicU64] {
        let index = (position & (self.capacity() - 1)) as usize * SLOT_WORDS;
        &self.slots[index..index + SLOT_WORDS]
    }

    /// See [`RingHeader::reserved`].
    #[must_use]
    pub fn reserved(&self) -> u64 {
        self.at(offset_of!(RingHeader, reserved)).load(Ordering::Acquire)
    }

    /// See [`RingHeader::dropped`].
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.at(offset_of!(RingHeader, dropped)).load(Ordering::Relaxed)
    }

    /// Takes the count of dropped calls. Only when nobody posts any more.
    #[must_use]
    pub fn take_dropped(&self) -> u64 {
        self.at(offset_of!(RingHeader, dropped)).swap(0, Ordering::Relaxed)
    }

    /// See [`RingState`].
    #[must_use]
    pub fn state(&self) -> u32 {
        half(self.header, offset_of!(RingHeader, state)).load(Ordering::Acquire)
    }

    /// Changes the state if it is still `old`.
    pub fn change_state(&self, old: RingState, new: RingState) {
        // The producer may have changed it meanwhile: then its state counts.
        let state = half(self.header, offset_of!(RingHeader, state));
        let _ = state.compare_exchange(old as u32, new as u32, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// See [`RingHeader::tid`].
    #[must_use]
    pub fn tid(&self) -> u32 {
        half(self.header, offset_of!(RingHeader, tid)).load(Ordering::Relaxed)
    }

    /// See [`RingHeader::thread`].
    #[must_use]
    pub fn thread(&self) -> i64 {
        self.at(offset_of!(RingHeader, thread)).load(Ordering::Relaxed) as i64
    }

    /// See [`RingHeader::nth`].
    #[must_use]
    pub fn nth(&self) -> u32 {
        half(self.header, offset_of!(RingHeader, nth)).load(Ordering::Relaxed)
    }

    /// See [`RingHeader::start_ticks`].
    #[must_use]
    pub fn start_ticks(&self) -> u64 {
        self.at(offset_of!(RingHeader, start_ticks)).load(Ordering::Relaxed)
    }

    /// See [`RingHeader::end_ticks`].
    #[must_use]
    pub fn end_ticks(&self) -> u64 {
        self.at(offset_of!(RingHeader, end_ticks)).load(Ordering::Relaxed)
    }

    /// See [`RingHeader::tail`].
    #[must_use]
    pub fn tail(&self) -> u64 {
        self.at(offset_of!(RingHeader, tail)).load(Ordering::Relaxed)
    }

    /// Gives the slots before `position` back to the producer.
    pub fn advance(&self, position: u64) {
        self.at(offset_of!(RingHeader, tail)).store(position, Ordering::Release);
    }

    /// Slots reserved and not yet consumed; never more than there are.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.reserved().wrapping_sub(self.tail()).min(self.capacity())
    }

    /// Calls that have not returned, outermost first, as slots with `dur` [`UNFINISHED`]. One that
    /// changes while it is read is left out: it belongs to a thread that runs, and will be posted.
    #[must_use]
    pub fn inflight(&self) -> Vec<Unit> {
        let depth = half(self.header, offset_of!(RingHeader, depth)).load(Ordering::Acquire) as usize;
        (0..depth.min(INFLIGHT_DEPTH))
            .filter_map(|index| {
                let start = offset_of!(RingHeader, inflight) / 8 + index * SLOT_WORDS;
                let words = &self.header[start..start + SLOT_WORDS];
                let mut unit = copy(words);
                let whole = unit[0] as u16 != 0 && unit == copy(words);
                unit[offset_of!(Slot, dur) / 8] = UNFINISHED;
                whole.then_some(unit)
            })
            .collect()
    }
}

/// The half word at a byte offset. Whoever writes halves of a word is read by halves: two sizes of atomic access to
/// the same memory at once are no part of the memory model.
fn half(words: &[AtomicU64], offset: usize) -> &AtomicU32 {
    let word = &words[offset / 8];
    // SAFETY: a half of a live, aligned, atomic word is itself an aligned atomic half word, the low one first on
    // this little-endian machine; it lives as long as the word.
    unsafe { AtomicU32::from_ptr(word.as_ptr().cast::<u32>().add(offset % 8 / 4)) }
}

/// When what a slot says was over: when it began, if it is not over or ended before it began (the counters of
/// two cores may differ a little).
#[inline]
#[must_use]
pub fn end_ticks(unit: &Unit) -> u64 {
    match unit[offset_of!(Slot, dur) / 8] {
        UNFINISHED => unit[1],
        dur => unit[1].checked_add(dur).unwrap_or(unit[1]),
    }
}

/// Reads a slot. The words are atomic only because a broken program may write meanwhile.
#[inline]
#[must_use]
pub fn copy(words: &[AtomicU64]) -> Unit {
    core::array::from_fn(|index| words[index].load(Ordering::Relaxed))
}
