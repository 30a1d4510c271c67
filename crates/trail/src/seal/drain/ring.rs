//! Draining the rings of one segment.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use iotrail_format::record::{FIRST_TYPE, MAX_EXTRA};
use iotrail_format::segment::RingState;

use super::output::{Output, Stopped, Turn};
use crate::seal::journal::{Ended, Event, Loss};
use crate::seal::view::{self, Ring, Segment};

/// Slots moved at a time: small enough to be still in the cache when they are given back.
const RUN: u64 = 2048;
/// How long a hole may block a ring that is full or closed.
const HOLE_PATIENCE: Duration = Duration::from_secs(1);

/// What the sealer remembers of a ring.
#[derive(Clone, Default)]
pub(super) struct RingNote {
    /// The thread last announced.
    pub(super) thread: i64,
    /// The hole that blocks it and since when.
    hole: Option<(u64, Instant)>,
    /// `reserved` at the last look for dead threads.
    pub(super) checked: u64,
    /// End of its thread where the sealer found it dead.
    pub(super) found_dead: u64,
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
    process: i64,
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
        let local = &mut notes[index];
        let Some(ring) = segment.ring(index) else { continue };
        let state = ring.state();
        if (ring.tid() == 0) == until.is_some() {
            continue;
        }
        // Free: drained, and its thread's end is noted. Claimed: nothing was posted yet.
        if state == RingState::Free as u32 || state == RingState::Claimed as u32 {
            continue;
        }
        if let Some((of, number, first, end)) = *copied
            && (of, number) == (process, index as u32)
        {
            // The one run that was committed last: given back wholly, in part, or not at all.
            if (first..end).contains(&ring.tail()) {
                ring.advance(end);
            }
            *copied = None;
        }
        let thread = ring.thread();
        if producer == Producer::Alive && behind.contains(&thread) {
            continue;
        }
        let closed = state == RingState::Closed as u32;
        let drain = RingDrain { process, index: index as u32, ring, local, output, producer };
        if drain.drain(closed, until, fill)? && closed {
            behind.insert(thread);
        }
    }
    Ok(())
}

/// Notes what the end of a segment leaves: calls in flight, and calls that were lost.
pub(super) fn note_rest<T: Turn>(
    segment: Segment<'_>,
    process: i64,
    output: &mut Output<T>,
) -> Result<(), Stopped> {
    for index in 0..segment.ring_count() {
        let Some(ring) = segment.ring(index) else { continue };
        let unfinished = ring.inflight();
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
        let dropped = ring.dropped();
        if dropped != 0 {
            output.event(Event::Lost { process, loss: Loss::RingFull, calls: dropped })?;
        }
    }
    let refused = segment.refused_calls();
    if refused != 0 {
        output.event(Event::Lost { process, loss: Loss::NoRing, calls: refused })?;
    }
    Ok(())
}

/// Reads a segment that nobody writes any more into `output`, whatever its words are.
///
/// # Errors
/// [`Stopped`] if there is no journal to write to.
pub fn read_dead<T: Turn>(segment: Segment<'_>, output: &mut Output<T>) -> Result<(), Stopped> {
    let (process, pid, start_ticks) = (segment.process().0, segment.pid(), segment.start_ticks());
    output.event(Event::Process { process, parent: segment.parent(), pid, start_ticks })?;
    let mut fill = Fill::default();
    drain_rings(segment, process, &mut Vec::new(), output, Producer::Gone, &mut None, &mut fill)?;
    note_rest(segment, process, output)?;
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
    process: i64,
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
            let moved = self.run(left.min(RUN))?;
            fill.slots += moved;
            left -= moved;
            if left > 0 && moved < RUN && self.at_hole() {
                if !self.may_pass(closed, left) {
                    break;
                }
                self.pass_hole()?;
                left -= 1;
            }
        }
        let more = ring.pending() != 0;
        if closed && !more && self.producer == Producer::Alive {
            let dropped = ring.take_dropped();
            if dropped != 0 {
                self.output.event(Event::Lost {
                    process: self.process,
                    loss: Loss::RingFull,
                    calls: dropped,
                })?;
            }
            let end = ring.end_ticks().max(self.local.found_dead);
            if end != 0 {
                self.thread_event(end)?;
            }
            *self.local = RingNote::default();
            ring.change_state(RingState::Closed, RingState::Free);
        } else if self.producer == Producer::Gone && ring.end_ticks() != 0 && thread != 0 {
            self.thread_event(ring.end_ticks())?;
        }
        Ok(more)
    }

    fn thread_event(&mut self, end_ticks: u64) -> Result<(), Stopped> {
        self.output.event(Event::Thread {
            process: self.process,
            thread: self.ring.thread(),
            tid: self.ring.tid(),
            start_ticks: self.ring.start_ticks(),
            end_ticks,
        })
    }

    /// Moves up to `limit` filled slots; stops at a hole.
    fn run(&mut self, limit: u64) -> Result<u64, Stopped> {
        let ring = self.ring;
        let first = ring.tail();
        let journal = self.output.room(2 + MAX_EXTRA)?;
        let limit = limit.min(journal.room() as u64 - 2);
        let mut count = 0;
        while count < limit {
            let slot = ring.slot(first.wrapping_add(count));
            // Acquire on the opcode: the rest of the slot was written before it.
            let head = slot[0].load(std::sync::atomic::Ordering::Acquire);
            if head as u16 == 0 {
                break;
            }
            // The slots of a record stay together; they were complete before its first.
            let extra = if head as u16 >= FIRST_TYPE { (head >> 24 & 0xff).min(MAX_EXTRA as u64) } else { 0 };
            if count != 0 && count + extra >= limit {
                break;
            }
            for position in count..=count + extra {
                journal.slot(position as usize, &view::copy(ring.slot(first.wrapping_add(position))));
            }
            count += 1 + extra;
        }
        if count == 0 {
            return Ok(0);
        }
        let head = Event::Run {
            process: self.process,
            thread: ring.thread(),
            ring: self.index,
            tid: ring.tid(),
            first,
            count,
        };
        journal.commit_run(head, count as usize);
        for position in 0..count {
            ring.slot(first.wrapping_add(position))[0].store(0, std::sync::atomic::Ordering::Relaxed);
        }
        ring.advance(first.wrapping_add(count));
        self.local.hole = None;
        Ok(count)
    }

    fn at_hole(&self) -> bool {
        let slot = self.ring.slot(self.ring.tail());
        slot[0].load(std::sync::atomic::Ordering::Acquire) as u16 == 0
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

    fn pass_hole(&mut self) -> Result<(), Stopped> {
        self.output.event(Event::Lost { process: self.process, loss: Loss::NeverFilled, calls: 1 })?;
        self.ring.advance(self.ring.tail().wrapping_add(1));
        Ok(())
    }
}
