//! Ranges of bytes with a value each that goes on within the range: a place, an offset in a file.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A value that goes on by so much after so many bytes.
pub(crate) trait Linear: Copy + PartialEq {
    /// The value so many bytes later.
    fn after(self, bytes: u64) -> Self;
}

impl Linear for u64 {
    fn after(self, bytes: u64) -> Self {
        self + bytes
    }
}

/// Ranges that don't overlap. Neighbours whose values go on are one.
pub(crate) struct Ranges<V>(BTreeMap<u64, (u64, V)>);

impl<V> Default for Ranges<V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<V: Linear> Ranges<V> {
    /// All ranges in order: first byte, bytes, value there.
    pub(crate) fn all(&self) -> impl Iterator<Item = (u64, u64, V)> {
        self.0.iter().map(|(start, (end, value))| (*start, end - start, *value))
    }

    /// The value at one byte.
    pub(crate) fn get(&self, at: u64) -> Option<V> {
        let (begin, (end, value)) = self.0.range(..=at).next_back()?;
        (at < *end).then(|| value.after(at - begin))
    }

    /// What is in `length` bytes from `start` on, without gaps: first byte, bytes, value there, if there is one.
    pub(crate) fn pieces(&self, start: u64, length: u64) -> Vec<(u64, u64, Option<V>)> {
        let end = start + length;
        let mut pieces = Vec::new();
        let mut at = start;
        let before = self.0.range(..start).next_back().filter(|(_, (end, _))| *end > start);
        for (begin, (stop, value)) in before.into_iter().chain(self.0.range(start..end)) {
            if *begin > at {
                pieces.push((at, begin - at, None));
                at = *begin;
            }
            let stop = (*stop).min(end);
            pieces.push((at, stop - at, Some(value.after(at - begin))));
            at = stop;
        }
        if at < end {
            pieces.push((at, end - at, None));
        }
        pieces
    }

    /// Gives bytes that have no value theirs.
    pub(crate) fn fill(&mut self, start: u64, length: u64, value: V) {
        for (at, length, known) in self.pieces(start, length) {
            if known.is_none() {
                self.insert(at, length, value.after(at - start));
            }
        }
    }

    /// Gives bytes their value, whatever they had.
    pub(crate) fn cover(&mut self, start: u64, length: u64, value: V) {
        let end = start + length;
        let before = self.0.range(..end).next_back().map(|(begin, range)| (*begin, *range));
        if let Some((begin, (stop, known))) = before
            && begin <= start
            && stop >= end
            && known.after(start - begin) == value
        {
            return;
        }
        self.clear(start, length);
        self.insert(start, length, value);
    }

    /// Takes the value of bytes, of those that have one.
    pub(crate) fn clear(&mut self, start: u64, length: u64) {
        for (at, length, known) in self.pieces(start, length) {
            if known.is_some() {
                self.remove(at, length);
            }
        }
    }

    /// Takes bytes of one range off.
    fn remove(&mut self, start: u64, length: u64) {
        let end = start + length;
        let Some((begin, (stop, value))) =
            self.0.range(..=start).next_back().map(|(begin, range)| (*begin, *range))
        else {
            return;
        };
        self.0.remove(&begin);
        if begin < start {
            self.0.insert(begin, (start, value));
        }
        if end < stop {
            self.0.insert(end, (stop, value.after(end - begin)));
        }
    }

    /// Adds bytes that have no value, joined to their neighbours.
    fn insert(&mut self, start: u64, length: u64, value: V) {
        if length == 0 {
            return;
        }
        let mut end = start + length;
        if let Entry::Occupied(next) = self.0.entry(end)
            && next.get().1 == value.after(length)
        {
            end = next.remove().0;
        }
        if let Some((begin, (stop, before))) = self.0.range_mut(..start).next_back()
            && *stop == start
            && before.after(start - begin) == value
        {
            *stop = end;
        } else {
            self.0.insert(start, (end, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_what_bytes_one_by_one_are(
            steps in proptest::collection::vec((0..3, 0_u64..60, 1_u64..20, 0_u64..40), 0..40),
            asked in (0_u64..60, 1_u64..40),
        ) {
            let (mut ranges, mut bytes) = (Ranges::default(), [None; 100]);
            for (step, start, length, value) in steps {
                match step {
                    0 => ranges.cover(start, length, value),
                    1 => ranges.fill(start, length, value),
                    _ => ranges.clear(start, length),
                }
                for at in 0..length {
                    let byte = &mut bytes[(start + at) as usize];
                    match step {
                        0 => *byte = Some(value + at),
                        1 => *byte = byte.or(Some(value + at)),
                        _ => *byte = None,
                    }
                }
            }
            for (at, byte) in bytes.iter().enumerate() {
                prop_assert_eq!(ranges.get(at as u64), *byte);
            }
            let mut found = Vec::new();
            let mut next = asked.0;
            for (at, length, value) in ranges.pieces(asked.0, asked.1) {
                prop_assert_eq!(at, next);
                next = at + length;
                found.extend((0..length).map(|by| value.map(|value| value + by)));
            }
            prop_assert_eq!(&found[..], &bytes[asked.0 as usize..(asked.0 + asked.1) as usize]);
            // neighbours that go on are one
            let all: Vec<_> = ranges.all().collect();
            for pair in all.windows(2) {
                prop_assert!(pair[0].0 + pair[0].1 < pair[1].0 || pair[0].2 + pair[0].1 != pair[1].2);
            }
        }
    }
}
