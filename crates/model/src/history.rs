//! What was used so far: how far back the last use of a page lies, which page lies so far back, where runs ended.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use iotrail_sim::cache::{Numbers, Reuse};
use iotrail_sim::{Op, Request};

use crate::PAGE;
use crate::model::Return;

/// Steps of distances in a power of two.
const STEPS: f64 = 2.0;
/// Ends of forgotten runs that are known.
const MOST_ENDS: usize = 1 << 16;

/// The class of a distance in pages, 1 or more; classes begin with 1, [`STEPS`] in a power of two.
#[must_use]
pub fn class(distance: u32) -> u8 {
    // Half powers of two are powers of two of the square.
    1 + u64::from(distance).pow(2).ilog2() as u8
}

/// Distances of a class: from, and up to.
#[must_use]
pub fn distances(class: u8) -> (f64, f64) {
    let at = |class: u8| (f64::from(class) / STEPS).exp2();
    (at(class - 1), at(class))
}

/// The last request that used a page.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Number of its device.
    pub device: u32,
    /// Its number there.
    pub page: u64,
    /// Where the last request that began in it began, and how long it was; 0 if none did.
    pub pos: u64,
    /// Bytes of that.
    pub length: u64,
    /// Whether the last use was a write.
    pub write: bool,
    /// Uses.
    pub uses: u32,
    /// When it was used last: counts uses of pages.
    pub time: u64,
}

/// The pages of all devices.
pub struct History {
    numbers: Numbers,
    pages: Vec<Page>,
    reuse: Reuse,
    time: u64,
}

impl Default for History {
    fn default() -> Self {
        Self { numbers: Numbers::default(), pages: Vec::new(), reuse: Reuse::new(1 << 16), time: 0 }
    }
}

impl History {
    /// Uses of pages so far.
    #[must_use]
    pub fn time(&self) -> u64 {
        self.time
    }

    /// The page of an address; none if it wasn't used.
    #[must_use]
    pub fn find(&self, device: u32, pos: u64) -> Option<u32> {
        self.numbers.get(device, pos / PAGE)
    }

    /// A page by its number.
    #[must_use]
    pub fn page(&self, number: u32) -> &Page {
        &self.pages[number as usize]
    }

    /// Of the middle and the end of a run, how many were used.
    #[must_use]
    pub fn covered(&self, device: u32, pos: u64, bytes: u64) -> u8 {
        let used = |at: u64| u8::from(self.find(device, at).is_some());
        used(pos.saturating_add(bytes / 2)) + used(pos.saturating_add(bytes.max(1) - 1))
    }

    /// Where a run of so many bytes begins with a request: the distance class of its first page, and what is there.
    #[must_use]
    pub fn back(&self, device: u32, request: Request, bytes: u64, follows: bool) -> (u8, Return) {
        let covered = self.covered(device, request.pos, bytes);
        let Some(number) = self.find(device, request.pos) else {
            return (0, Return { follows, covered, ..Return::default() });
        };
        let page = self.page(number);
        let back = Return {
            follows,
            same_size: page.length == request.length,
            same_direction: page.write == (request.op == Op::Write),
            uses: page.uses.max(1).ilog2().min(6) as u8,
            covered,
        };
        (class(self.reuse.distance(number)), back)
    }

    /// Uses the pages of a request, unless it discards them; says of each its number and the distance class (0: never used before).
    pub fn used_by(&mut self, device: u32, request: Request, mut say: impl FnMut(u32, u8)) {
        if request.op == Op::Trim {
            return;
        }
        let first = request.pos / PAGE;
        for page in first..(request.pos + request.length).div_ceil(PAGE).max(first + 1) {
            // With billions of different pages, those that have no number are left out.
            let Some(number) = self.numbers.of(device, page) else { continue };
            if number as usize == self.pages.len() {
                self.pages.push(Page { device, page, pos: 0, length: 0, write: false, uses: 0, time: 0 });
            }
            let distance = self.reuse.touch(number);
            let used = &mut self.pages[number as usize];
            say(number, if distance == 0 { 0 } else { class(distance) });
            self.time += 1;
            used.uses += 1;
            used.write = request.op == Op::Write;
            used.time = self.time;
            if page == first {
                used.pos = request.pos;
                used.length = request.length;
            }
        }
    }

    /// The page whose last use lies so far back.
    #[must_use]
    pub fn at_distance(&self, distance: f64) -> Option<u32> {
        self.reuse.at_distance((distance.round() as u32).clamp(1, self.reuse.used().max(1)))
    }
}

/// Where forgotten runs ended.
#[derive(Default)]
pub struct Ends {
    at: HashMap<(u32, bool, u64), u64, FixedState>,
    order: std::collections::VecDeque<(u32, bool, u64)>,
}

impl Ends {
    /// Adds an end.
    pub fn add(&mut self, device: u32, op: Op, end: u64) {
        if self.order.len() == MOST_ENDS
            && let Some(oldest) = self.order.pop_front()
        {
            self.at.remove(&oldest);
        }
        let key = (device, op == Op::Write, end);
        if self.at.insert(key, 0).is_none() {
            self.order.push_back(key);
        }
    }

    /// Whether one is there.
    #[must_use]
    pub fn has(&self, device: u32, op: Op, pos: u64) -> bool {
        self.at.contains_key(&(device, op == Op::Write, pos))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_hold_their_distances() {
        for power in 0..64 {
            let least = (1u64 << power).isqrt() as u32;
            for distance in [least.saturating_sub(1), least, least.saturating_add(1), u32::MAX] {
                if let 1.. = distance {
                    let expected = 1 + (f64::from(distance).log2() * STEPS) as u8;
                    assert_eq!(class(distance), expected, "{distance}");
                }
            }
        }
    }
}
