//! The read cache: segments of contiguous sectors.

use std::ops::Range;

use super::geometry::Sector;

/// Names a segment until it is replaced.
pub(super) type Slot = usize;

#[derive(Clone, Debug)]
struct Segment {
    holds: Range<Sector>,
    used: u64,
}

/// What was read, in segments of limited size.
#[derive(Clone, Debug)]
pub(super) struct Segments {
    segments: Vec<Segment>,
    most: usize,
    /// Sectors of a segment.
    size: u64,
    uses: u64,
}

impl Segments {
    /// An empty cache. 0 segments: none ever.
    pub fn new(most: usize, size: u64) -> Self {
        Self { segments: Vec::new(), most, size, uses: 0 }
    }

    /// The segment that holds a sector, or ends before it; of several the one that goes on furthest.
    pub fn find(&self, first: Sector) -> Option<Slot> {
        let at = self.segments.iter().enumerate();
        at.filter(|(_, segment)| segment.holds.start <= first && first <= segment.holds.end)
            .max_by_key(|(_, segment)| segment.holds.end)
            .map(|(slot, _)| slot)
    }

    /// The end of what a segment holds.
    pub fn end(&self, slot: Slot) -> Sector {
        self.segments[slot].holds.end
    }

    /// Makes a segment the most recent.
    pub fn touch(&mut self, slot: Slot) {
        self.uses += 1;
        self.segments[slot].used = self.uses;
    }

    /// Extends a segment. Where it becomes too long, its start goes.
    pub fn extend(&mut self, slot: Slot, end: Sector) {
        let holds = &mut self.segments[slot].holds;
        holds.end = holds.end.max(end);
        holds.start = holds.start.max(holds.end.saturating_sub(self.size));
    }

    /// Extends a segment at its start, as far as its size allows.
    pub fn extend_front(&mut self, slot: Slot, start: Sector) {
        let holds = &mut self.segments[slot].holds;
        holds.start = holds.start.min(start.max(holds.end.saturating_sub(self.size)));
    }

    /// Stores what was read in a new segment, or in that one which it continues. None if there are no segments.
    pub fn store(&mut self, read: Range<Sector>) -> Option<Slot> {
        if self.most == 0 {
            return None;
        }
        let continues = self
            .segments
            .iter()
            .position(|held| held.holds.start <= read.start && read.start <= held.holds.end);
        let slot = match continues {
            Some(slot) => slot,
            None => self.replace(read.start),
        };
        self.extend(slot, read.end);
        self.touch(slot);
        Some(slot)
    }

    /// An empty segment, new or instead of the least recently used one.
    fn replace(&mut self, first: Sector) -> Slot {
        let empty = Segment { holds: first..first, used: 0 };
        if self.segments.len() < self.most {
            self.segments.push(empty);
            return self.segments.len() - 1;
        }
        let oldest = (0..self.most).min_by_key(|slot| self.segments[*slot].used).unwrap_or(0);
        self.segments[oldest] = empty;
        oldest
    }
}
