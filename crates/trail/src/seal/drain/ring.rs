//! Draining the rings of one segment.
//!
//! The program can write over all of it. A ring whose words a recorder can't have written is closed for good
//! ([`RingNote::check`]), and so is one with many slots that no recorder fills ([`MAX_BAD_SLOTS`]). Both are
//! counted; the other rings are drained on. The work of a pass over a ring is bounded by its capacity.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use iotrail_format::call::Call;
use iotrail_format::record::{FIRST_TYPE, MAX_EXTRA, MAX_TYPES};
use iotrail_format::segment::{
    OP_CALL, OP_CRUMB, OP_DISK, OP_IMAGE, OP_MORE, OP_SAMPLE, OP_SLICE, OP_TEXT, OP_TIME, OP_UNSEEN,
    OP_VFORK, OP_WAKE, RECORDER, RingState,
};

use super::output::{Output, Stopped, Turn};
use crate::seal::clock;
use crate::seal::journal::{Ended, Event, Loss};
use crate::seal::view::{self, Ring, Segment, Unit};

/// Slots moved at a time: small enough to be still in the cache when they are given back.
const RUN: u64 = 2048;
/// How long a hole may block a ring that is full or closed.
const HOLE_PATIENCE: Duration = Duration::from_secs(1);
/// Slots that no recorder fills, after which their ring is closed: a stray write spoils one or a few.
const MAX_BAD_SLOTS: u32 = 64;
/// By how many ticks a record may lie in the future: counters of two cores differ by less (a second or two).
const FUTURE_TICKS: u64 = 1 << 32;
/// A slot that says nothing, in place of one that no recorder fills: [`crate::seal::rows`] counts it.
const BAD_SLOT: Unit = [0; 8];

/// What the sealer remembers of a ring.
#[derive(Clone, Default)]
pub(super) struct RingNote {
    /// Where it stands and how large it is; `None` until it was seen.
    place: Option<(usize, u64)>,
    /// Slots given back so far: nobody else changes the ring's `tail`.
    tail: u64,
    /// Slots found that no recorder fills.
    bad_slots: u32,
    /// The program wrote over it: it is not looked at any more.
    closed: bool,
    /// The thread last announced.
    pub(super) thread: i64,
    /// The hole that blocks it and since when.
    hole: Option<(u64, Instant)>,
    /// `reserved` at the last look for dead threads.
    pub(super) checked: u64,
    /// End of its thread where the sealer found it dead.
    pub(super) found_dead: u64,
}

impl RingNote {
    /// Whether the ring's words can be those of a recorder. If so, takes note of them.
    ///
    /// A ring stays where it is, only the sealer moves its `tail`, its producer reserves at most what it has
    /// (or a few more slots, from within signal handlers), and its thread changes only after the sealer freed it.
    fn check(&mut self, ring: &Ring<'_>) -> bool {
        if self.place.is_none() {
            (self.place, self.tail) = (Some(ring.place()), ring.tail());
        }
        let thread = ring.thread();
        self.place == Some(ring.place())
            && ring.state() <= RingState::Claimed as u32
            && ring.tail() == self.tail
            && ring.reserved().wrapping_sub(self.tail) <= 2 * ring.capacity()
            && (thread == 0 || self.thread == 0 || thread == self.thread)
    }

    /// The ring was drained and freed: any thread may take it.
    fn free(&mut self) {
        *self = Self { place: self.place, tail: self.tail, bad_slots: self.bad_slots, ..Self::default() };
    }

    /// Closes the ring for good and says so: the program wrote over it.
    fn close<T: Turn>(&mut self, owner: Owner, output: &mut Output<T>) -> Result<(), Stopped> {
        self.closed = true;
        output.event(Event::Lost { process: owner.process, loss: Loss::OverwrittenRing, calls: 1 })
    }

    /// Whether the ring was closed because the program wrote over it.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }
}

/// Whose segment is drained.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    /// The process image.
    pub(super) process: i64,
    /// Whether it is the recorder's own: only that one posts what the kernel saw, at times that are no ticks.
    pub(super) recorder: bool,
    /// When the image began, counter ticks.
    pub(super) start_ticks: u64,
}

impl Owner {
    /// Whether a recorder can have filled a slot so. `now` is a counter reading, renewed when it is too old to tell.
    fn can_post(&self, unit: &Unit, now: &mut u64) -> bool {
        let timed = match unit[0] as u16 {
            OP_TEXT | OP_UNSEEN | OP_MORE => false,
            OP_DISK | OP_SLICE | OP_WAKE | OP_CALL | OP_IMAGE | OP_SAMPLE => return self.recorder,
            OP_CRUMB | OP_VFORK | OP_TIME => true,
            number if (FIRST_TYPE..FIRST_TYPE + MAX_TYPES as u16).contains(&number) => true,
            number if Call::from_number(number).is_some() => true,
            _ => return false,
        };
        if !timed || self.recorder {
            return true;
        }
        let end = view::end_ticks(unit);
        if end > now.saturating_add(FUTURE_TICKS) {
            *now = clock::ticks();
        }
        end <= now.saturating_add(FUTURE_TICKS)
    }

    /// A count of calls from shared memory; none if there can't have been so many: each takes at least a tick.
    fn believe(&self, calls: u64) -> Option<u64> {
        (calls <= clock::ticks().saturating_sub(self.start_ticks)).then_some(calls)
    }
}

/// How full rings were in a pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Fill {
    /// Slots moved.
    pub slots: u64,
    /// The fullest ring, in percent of its capacity.
    pub percent: u64,
}

/// Who may still post into a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Producer {
    Alive,
    Gone,
}

/// Moves what was posted into the rings of a segment.
///
/// Symbols and types first, which stand in the ring of thread 0: only what was posted before they were read
/// is moved after them, so that each record comes after what it names.
///
/// A thread that needs more room leaves its ring closed and goes on in another, which may stand anywhere in the
/// segment. Nothing of it is moved before all of the one it left.
pub(super) fn drain_rings<T: Turn>(
    segment: Segment<'_>,
    owner: Owner,
    notes: &mut Vec<RingNote>,
    output: &mut Output<T>,
    producer: Producer,
    copied: &mut Option<(i64, u32, u64, u64)>,
    fill: &mut Fill,
) -> Result<(), Stopped> {
    let posted: Vec<u64> = (0..segment.ring_count())
        .map(|index| segment.ring(index).map_or(0, |ring| ring.reserved()))
        .collect();
    // Announcements may have moved to a ring that is newer than those.
    let count = segment.ring_count();
    if notes.len() < count {
        notes.resize(count, RingNote::default());
    }
    let announcements = (0..count).map(|index| (index, None));
    let mut others: Vec<_> =
        posted.iter().enumerate().map(|(index, posted)| (index, Some(*posted))).collect();
    others.sort_by_key(|(index, _)| segment.ring(*index).map_or(0, |ring| ring.nth()));
    // Threads with a closed ring that is not empty yet: left while `posted` was read, or held up by a hole.
    let mut behind = HashSet::new();
    for (index, until) in announcements.chain(others) {
        if notes[index].closed {
            continue;
        }
        let Some(ring) = segment.ring(index) else {
            if segment.has_ring(index) {
                notes[index].close(owner, output)?;
            }
            continue;
        };
        let overlaps = notes[index].place.is_none()
            && notes.iter().filter_map(|note| note.place).any(|place| ring.overlaps(place));
        let local = &mut notes[index];
        if overlaps || !local.check(&ring) {
            local.close(owner, output)?;
            continue;
        }
        let state = ring.state();
        if (ring.tid() == 0) == until.is_some() {
            continue;
        }
        // Free: drained, and its thread's end is noted. Claimed: nothing was posted yet.
        if state == RingState::Free as u32 || state == RingState::Claimed as u32 {
            continue;
        }
        if let Some((of, number, first, end)) = *copied
            && (of, number) == (owner.process, index as u32)
        {
            // The one run that was committed last: given back wholly, in part, or not at all.
            if (first..end).contains(&ring.tail()) {
                ring.advance(end);
                local.tail = end;
            }
            *copied = None;
        }
        let thread = ring.thread();
        if producer == Producer::Alive && behind.contains(&thread) {
            continue;
        }
        let closed = state == RingState::Closed as u32;
        let drain = RingDrain { owner, index: index as u32, ring, local, output, producer };
        if drain.drain(closed, until, fill)? && closed {
            behind.insert(thread);
        }
    }
    Ok(())
}

/// Notes what the end of a segment leaves: calls in flight, and calls that were lost.
pub(super) fn note_rest<T: Turn>(
    segment: Segment<'_>,
    owner: Owner,
    notes: &mut [RingNote],
    output: &mut Output<T>,
) -> Result<(), Stopped> {
    let process = owner.process;
    let mut now = clock::ticks();
    for (index, local) in notes.iter_mut().enumerate() {
        if local.closed {
            continue;
        }
        let Some(ring) = segment.ring(index) else { continue };
        let mut unfinished = ring.inflight();
        unfinished.retain(|unit| owner.can_post(unit, &mut now));
        if !unfinished.is_empty() {
            let journal = output.room(unfinished.len() + 1)?;
            for (at, unit) in unfinished.iter().enumerate() {
                journal.slot(at, unit);
            }
            let count = unfinished.len() as u64;
            let (thread, tid, first) = (ring.thread(), ring.tid(), ring.tail());
            let head = Event::Run { process, thread, ring: index as u32, tid, first, count };
            journal.commit_run(head, unfinished.len());
        }
        match owner.believe(ring.dropped()) {
            None => local.close(owner, output)?,
            Some(0) => {}
            Some(calls) => output.event(Event::Lost { process, loss: Loss::RingFull, calls })?,
        }
    }
    match owner.believe(segment.refused_calls()) {
        None => output.event(Event::Lost { process, loss: Loss::OverwrittenRing, calls: 1 }),
        Some(0) => Ok(()),
        Some(calls) => output.event(Event::Lost { process, loss: Loss::NoRing, calls }),
    }
}

/// Reads a segment that nobody writes any more into `output`, whatever its words are.
///
/// # Errors
/// [`Stopped`] if there is no journal to write to.
pub fn read_dead<T: Turn>(segment: Segment<'_>, output: &mut Output<T>) -> Result<(), Stopped> {
    let (process, pid, start_ticks) = (segment.process().0, segment.pid(), segment.start_ticks());
    output.event(Event::Process { process, parent: segment.parent(), pid, start_ticks })?;
    let owner = Owner { process, recorder: segment.parent() == RECORDER, start_ticks };
    let (mut fill, mut notes) = (Fill::default(), Vec::new());
    drain_rings(segment, owner, &mut notes, output, Producer::Gone, &mut None, &mut fill)?;
    note_rest(segment, owner, &mut notes, output)?;
    output.event(Event::ProcessEnd {
        process,
        ended: Ended::Killed,
        end_ticks: segment.end_ticks(),
        status: segment.exit_status(),
        rank: segment.rank(),
        usage: segment.usage(),
    })
}

/// One ring in one pass.
struct RingDrain<'a, 'b, T> {
    owner: Owner,
    index: u32,
    ring: Ring<'a>,
    local: &'b mut RingNote,
    output: &'b mut Output<T>,
    producer: Producer,
}

impl<T: Turn> RingDrain<'_, '_, T> {
    /// Takes what stands before position `until`, if that is given. Returns whether anything is left.
    fn drain(mut self, closed: bool, until: Option<u64>, fill: &mut Fill) -> Result<bool, Stopped> {
        let ring = self.ring;
        let thread = ring.thread();
        if thread != 0 && thread != self.local.thread {
            self.local.thread = thread;
            self.thread_event(0)?;
        }
        let pending = ring.pending();
        fill.percent = fill.percent.max(pending * 100 / ring.capacity());
        // A producer that is gone may have left nonsense in `reserved`; `pending` bounds the work.
        let mut left = match until {
            Some(until) => until.saturating_sub(ring.tail()).min(pending),
            None => pending,
        };
        while left > 0 {
            let moved = self.run(left)?;
            fill.slots += moved;
            left -= moved;
            if self.local.bad_slots > MAX_BAD_SLOTS {
                self.local.close(self.owner, self.output)?;
                return Ok(false);
            }
            if left > 0 && moved < RUN && self.is_at_hole() {
                if !self.may_pass(closed, left) {
                    break;
                }
                left -= self.pass_holes(left)?;
            }
        }
        let more = ring.pending() != 0;
        if closed && !more && self.producer == Producer::Alive {
            match self.owner.believe(ring.take_dropped()) {
                None => {
                    self.local.close(self.owner, self.output)?;
                    return Ok(false);
                }
                Some(0) => {}
                Some(calls) => {
                    let process = self.owner.process;
                    self.output.event(Event::Lost { process, loss: Loss::RingFull, calls })?;
                }
            }
            let end = ring.end_ticks().max(self.local.found_dead);
            if end != 0 {
                self.thread_event(end)?;
            }
            self.local.free();
            ring.change_state(RingState::Closed, RingState::Free);
        } else if self.producer == Producer::Gone && ring.end_ticks() != 0 && thread != 0 {
            self.thread_event(ring.end_ticks())?;
        }
        Ok(more)
    }

    fn thread_event(&mut self, end_ticks: u64) -> Result<(), Stopped> {
        let now = clock::ticks();
        let start_ticks = Some(self.ring.start_ticks()).filter(|start| *start <= now);
        self.output.event(Event::Thread {
            process: self.owner.process,
            thread: self.ring.thread(),
            tid: self.ring.tid(),
            start_ticks: start_ticks.unwrap_or(self.owner.start_ticks),
            end_ticks: end_ticks.min(now),
        })
    }

    /// Moves filled slots, up to `left` and [`RUN`]; stops at a hole.
    fn run(&mut self, left: u64) -> Result<u64, Stopped> {
        let (ring, owner) = (self.ring, self.owner);
        let first = ring.tail();
        let least = 2 + MAX_EXTRA;
        let journal = self.output.room(least)?;
        let limit = left.min(RUN).min(journal.room(least) as u64 - 2);
        let mut now = clock::ticks();
        let mut count = 0;
        while count < limit {
            let slot = ring.slot(first.wrapping_add(count));
            // Acquire on the opcode: the rest of the slot was written before it.
            let head = slot[0].load(Ordering::Acquire);
            if head as u16 == 0 {
                break;
            }
            // The slots of a record stay together; they were complete before its first.
            let extra = if head as u16 >= FIRST_TYPE { head >> 24 & 0xff } else { 0 };
            // A record of more slots than were reserved is none.
            let whole = extra <= MAX_EXTRA as u64 && count + extra < left;
            if whole && count != 0 && count + extra >= limit {
                break;
            }
            let unit = view::copy(slot);
            let is_good = whole && owner.can_post(&unit, &mut now);
            journal.slot(count as usize, if is_good { &unit } else { &BAD_SLOT });
            count += 1;
            if !is_good {
                self.local.bad_slots += 1;
                continue;
            }
            for _ in 0..extra {
                journal.slot(count as usize, &view::copy(ring.slot(first.wrapping_add(count))));
                count += 1;
            }
        }
        if count == 0 {
            return Ok(0);
        }
        let head = Event::Run {
            process: owner.process,
            thread: ring.thread(),
            ring: self.index,
            tid: ring.tid(),
            first,
            count,
        };
        journal.commit_run(head, count as usize);
        for position in 0..count {
            ring.slot(first.wrapping_add(position))[0].store(0, Ordering::Relaxed);
        }
        self.give_back(first.wrapping_add(count));
        self.local.hole = None;
        Ok(count)
    }

    fn give_back(&mut self, position: u64) {
        self.ring.advance(position);
        self.local.tail = position;
    }

    fn is_hole(&self, position: u64) -> bool {
        self.ring.slot(position)[0].load(Ordering::Acquire) as u16 == 0
    }

    fn is_at_hole(&self) -> bool {
        self.is_hole(self.ring.tail())
    }

    fn may_pass(&mut self, closed: bool, pending: u64) -> bool {
        if self.producer == Producer::Gone {
            return true;
        }
        let tail = self.ring.tail();
        match self.local.hole {
            Some((position, since)) if position == tail => {
                let pressing = closed || pending * 4 > self.ring.capacity() * 3;
                pressing && since.elapsed() >= HOLE_PATIENCE
            }
            _ => {
                self.local.hole = Some((tail, Instant::now()));
                false
            }
        }
    }

    /// Passes over a hole, and where the producer is gone over all that follow it. Returns how many.
    fn pass_holes(&mut self, left: u64) -> Result<u64, Stopped> {
        let tail = self.ring.tail();
        let most = if self.producer == Producer::Gone { left } else { 1 };
        let calls = (1..most).find(|next| !self.is_hole(tail.wrapping_add(*next))).unwrap_or(most);
        self.output.event(Event::Lost { process: self.owner.process, loss: Loss::NeverFilled, calls })?;
        self.give_back(tail.wrapping_add(calls));
        Ok(calls)
    }
}
