//! Pages in the order of their last uses: added at the end, taken out anywhere, found by time.

/// Places below which holes are not closed up.
const LEAST: usize = 256;

/// Pages by the time of their last use. What is taken out leaves a hole; once most are holes, the others close up.
#[derive(Debug, Default)]
pub struct Recency {
    /// Time and page of each place.
    uses: Vec<(u64, u32)>,
    /// A bit for each place that has a page.
    present: Vec<u64>,
    count: usize,
}

impl Recency {
    /// Adds a page, used after all that are there. `placed` is told its place, and those of others that move.
    pub fn push(&mut self, time: u64, page: u32, mut placed: impl FnMut(u32, u32)) {
        if self.uses.len() >= LEAST && self.uses.len() > 2 * self.count {
            self.close_up(&mut placed);
        }
        placed(page, self.uses.len() as u32);
        self.add(time, page);
    }

    /// Takes the page out that is at a place.
    pub fn remove(&mut self, place: u32) {
        self.present[place as usize / 64] &= !(1 << (place % 64));
        self.count -= 1;
    }

    /// Pages used before a time, the last one first.
    pub fn before(&self, time: u64) -> impl Iterator<Item = u32> {
        let mut end = self.uses.partition_point(|of| of.0 < time);
        std::iter::from_fn(move || {
            while end > 0 {
                let word = (end - 1) / 64;
                let present = self.present[word] & (u64::MAX >> (63 - (end - 1) % 64));
                end = 64 * word;
                if present > 0 {
                    end += present.ilog2() as usize;
                    return Some(self.uses[end].1);
                }
            }
            None
        })
    }

    /// Pages used at a time or after it, the first one first.
    pub fn since(&self, time: u64) -> impl Iterator<Item = u32> {
        let mut at = self.uses.partition_point(|of| of.0 < time);
        std::iter::from_fn(move || {
            while at < self.uses.len() {
                let word = at / 64;
                let present = self.present[word] & (u64::MAX << (at % 64));
                at = 64 * (word + 1);
                if present > 0 {
                    let place = 64 * word + present.trailing_zeros() as usize;
                    at = place + 1;
                    return Some(self.uses[place].1);
                }
            }
            None
        })
    }

    fn add(&mut self, time: u64, page: u32) {
        let place = self.uses.len();
        if place.is_multiple_of(64) {
            self.present.push(0);
        }
        self.present[place / 64] |= 1 << (place % 64);
        self.uses.push((time, page));
        self.count += 1;
    }

    fn close_up(&mut self, placed: &mut impl FnMut(u32, u32)) {
        let Self { uses, present, .. } = std::mem::take(self);
        for (place, (time, page)) in uses.into_iter().enumerate() {
            if present[place / 64] >> (place % 64) & 1 == 1 {
                placed(page, self.uses.len() as u32);
                self.add(time, page);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use rand::{Rng as _, SeedableRng as _};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    #[test]
    fn pages_are_found_as_in_a_sorted_map() {
        let mut random = Pcg64Mcg::seed_from_u64(3);
        let (mut recency, mut expected) = (Recency::default(), BTreeMap::new());
        let (mut places, mut times) = (vec![None; 400], vec![0; 400]);
        for step in 1..20_000 {
            let (time, page) = (3 * step, random.random_range(0..if step < 10_000 { 400 } else { 20 }));
            if let Some(place) = places[page as usize].take() {
                recency.remove(place);
                expected.remove(&times[page as usize]);
            }
            if random.random::<f64>() < 0.8 {
                recency.push(time, page, |page, place| places[page as usize] = Some(place));
                (times[page as usize], _) = (time, expected.insert(time, page));
            }
            let from = random.random_range(0..time + 2);
            let before: Vec<u32> = expected.range(..from).rev().map(|row| *row.1).take(5).collect();
            let since: Vec<u32> = expected.range(from..).map(|row| *row.1).take(5).collect();
            assert_eq!(recency.before(from).take(5).collect::<Vec<_>>(), before, "{step}");
            assert_eq!(recency.since(from).take(5).collect::<Vec<_>>(), since, "{step}");
        }
        assert!(recency.uses.len() <= LEAST + 2 * recency.count + 2, "holes close up");
    }
}
