//! The write cache: ranges of sectors that are not on the medium yet.

use std::collections::BTreeMap;
use std::ops::Range;

use super::geometry::Sector;

#[derive(Clone, Copy, Debug)]
struct Extent {
    end: Sector,
    /// Number of the first write of it.
    since: u64,
}

/// Ranges of sectors, disjoint, none touching another.
#[derive(Clone, Debug, Default)]
pub(super) struct Dirty {
    /// By first sector.
    extents: BTreeMap<Sector, Extent>,
    /// First sectors by number of the first write.
    by_age: BTreeMap<u64, Sector>,
    writes: u64,
    /// Sectors.
    pub sectors: u64,
}

impl Dirty {
    /// Whether all of a range is dirty.
    pub fn covers(&self, range: &Range<Sector>) -> bool {
        self.extents.range(..=range.start).next_back().is_some_and(|(_, extent)| extent.end >= range.end)
    }

    /// Sectors of a range that are dirty.
    pub fn overlap(&self, range: &Range<Sector>) -> u64 {
        let before = self.extents.range(..range.start).next_back();
        let from = before.map_or(range.start, |(start, _)| *start);
        let overlap = |(start, extent): (&Sector, &Extent)| {
            extent.end.min(range.end).saturating_sub(range.start.max(*start))
        };
        self.extents.range(from..range.end.max(from)).map(overlap).sum()
    }

    /// Adds a range. It grows together with those that it overlaps or touches, and is as old as the oldest of them.
    pub fn insert(&mut self, range: Range<Sector>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end, mut since) = (range.start, range.end, self.writes);
        self.writes += 1;
        while let Some((first, extent)) = self.extents.range(..=end).next_back() {
            let (first, extent) = (*first, *extent);
            if extent.end < start {
                break;
            }
            self.take(first);
            start = start.min(first);
            end = end.max(extent.end);
            since = since.min(extent.since);
        }
        self.put(start, Extent { end, since });
    }

    /// Removes what lies in a range.
    pub fn remove(&mut self, range: &Range<Sector>) {
        if range.is_empty() {
            return;
        }
        while let Some((first, extent)) = self.extents.range(..range.end).next_back() {
            let (first, extent) = (*first, *extent);
            if extent.end <= range.start {
                break;
            }
            self.take(first);
            if extent.end > range.end {
                // Two extents can't have one age; the part behind counts as new.
                let since = self.writes;
                self.writes += 1;
                self.put(range.end, Extent { since, ..extent });
            }
            if first < range.start {
                self.put(first, Extent { end: range.start, ..extent });
                break;
            }
        }
    }

    /// The oldest extent.
    pub fn oldest(&self) -> Option<Range<Sector>> {
        let (_, start) = self.by_age.first_key_value()?;
        self.extents.get(start).map(|extent| *start..extent.end)
    }

    /// Extents upwards from a sector on, then from the lowest; each once.
    pub fn upwards(&self, from: Sector) -> impl Iterator<Item = Range<Sector>> {
        self.extents.range(from..).chain(self.extents.range(..from)).map(|(start, extent)| *start..extent.end)
    }

    fn take(&mut self, first: Sector) {
        if let Some(extent) = self.extents.remove(&first) {
            self.by_age.remove(&extent.since);
            self.sectors -= extent.end - first;
        }
    }

    fn put(&mut self, first: Sector, extent: Extent) {
        self.extents.insert(first, extent);
        self.by_age.insert(extent.since, first);
        self.sectors += extent.end - first;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a set of single sectors.
        #[test]
        fn ranges_are_those_of_a_set(
            steps in prop::collection::vec((any::<bool>(), 0_u64..60, 0_u64..12), 1..60),
            probe in (0_u64..70, 1_u64..12),
        ) {
            let (mut dirty, mut set) = (Dirty::default(), std::collections::BTreeSet::new());
            for (add, first, count) in steps {
                let range = first..first + count;
                if add {
                    set.extend(range.clone());
                    dirty.insert(range);
                } else {
                    set.retain(|sector| !range.contains(sector));
                    dirty.remove(&range);
                }
                let probe = probe.0..probe.0 + probe.1;
                prop_assert_eq!(dirty.sectors, set.len() as u64);
                prop_assert_eq!(dirty.covers(&probe), probe.clone().all(|sector| set.contains(&sector)));
                prop_assert_eq!(dirty.overlap(&probe), set.range(probe).count() as u64);
                let mut all: Vec<_> = dirty.upwards(30).flatten().collect();
                all.sort_unstable();
                prop_assert_eq!(&all, &set.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(dirty.by_age.len(), dirty.extents.len());
                prop_assert_eq!(dirty.oldest().is_none(), set.is_empty());
            }
        }
    }
}
