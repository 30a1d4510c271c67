//! Which block of the disk holds which block of which object, kept in a journal.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::disk::errno;
use crate::journal::Journal;
use crate::rpc::Errno;

/// A block on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    /// Which one.
    pub number: u64,
    /// CRC-32 of what was written there.
    pub crc: u32,
}

#[derive(Serialize, Deserialize)]
enum Change {
    Put { object: u64, first: u64, slots: Vec<Slot> },
    Shorten { object: u64, blocks: Option<u64> },
}

type Slots = BTreeMap<u64, Slot>;

/// The map. A change is in the journal before it is in the map.
pub struct Map {
    journal: Journal<Change>,
    objects: HashMap<u64, Slots>,
    used: Vec<bool>,
    free: u64,
    /// Where to look for free blocks: after the last ones, so that a run of blocks stays one on the disk.
    next: usize,
}

impl Map {
    /// Replays the journal, and replaces it by a short one, for a disk of `blocks` blocks.
    pub fn open(path: &Path, blocks: u64) -> io::Result<Self> {
        let mut objects = HashMap::new();
        let journal = Journal::open(path, |_, change| drop(apply(&mut objects, &change)))?;
        drop(journal);
        let mut used = vec![false; blocks as usize];
        for slot in objects.values().flat_map(BTreeMap::values) {
            let place = used.get_mut(slot.number as usize).ok_or_else(|| {
                let what = format!("block {} is used, but the disk has {blocks} blocks only", slot.number);
                io::Error::new(io::ErrorKind::InvalidData, what)
            })?;
            *place = true;
        }
        let whole = objects.iter().flat_map(|(&object, slots)| {
            let begin = Change::Shorten { object, blocks: Some(0) };
            let puts =
                slots.iter().map(move |(&first, &slot)| Change::Put { object, first, slots: vec![slot] });
            std::iter::once(begin).chain(puts)
        });
        let (journal, _) = Journal::rewrite(path, whole)?;
        let free = used.iter().filter(|used| !**used).count() as u64;
        Ok(Self { journal, objects, used, free, next: 0 })
    }

    /// The blocks of an object. ENOENT: this node doesn't have it.
    pub fn object(&self, object: u64) -> Result<&Slots, Errno> {
        self.objects.get(&object).ok_or(Errno::ENOENT)
    }

    /// Free blocks of the disk.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Makes an object, unless it is there.
    pub fn create(&mut self, object: u64) -> Result<(), Errno> {
        match self.objects.contains_key(&object) {
            true => Ok(()),
            false => self.change(&Change::Shorten { object, blocks: Some(0) }),
        }
    }

    /// Takes free blocks for an object, neighbours where possible. [`Self::put`] or [`Self::give_back`] them.
    pub fn allocate(&mut self, object: u64, count: usize) -> Result<Vec<u64>, Errno> {
        self.object(object)?;
        if self.free < count as u64 {
            return Err(Errno::ENOSPC);
        }
        let (before, after) = (0..self.next, self.next..self.used.len());
        let found: Vec<usize> = after.chain(before).filter(|at| !self.used[*at]).take(count).collect();
        for at in &found {
            self.used[*at] = true;
            self.next = at + 1;
        }
        self.free -= count as u64;
        Ok(found.into_iter().map(|at| at as u64).collect())
    }

    /// Makes them the object's blocks from `first` on; those they replace are free.
    pub fn put(&mut self, object: u64, first: u64, slots: &[Slot]) -> Result<(), Errno> {
        self.object(object)?;
        self.change(&Change::Put { object, first, slots: slots.to_vec() })
    }

    /// Gives back blocks that weren't put.
    pub fn give_back(&mut self, numbers: &[u64]) {
        for number in numbers {
            self.used[*number as usize] = false;
        }
        self.free += numbers.len() as u64;
    }

    /// Keeps an object's first blocks; `None` of them: its end.
    pub fn shorten(&mut self, object: u64, blocks: Option<u64>) -> Result<(), Errno> {
        match (self.objects.contains_key(&object), blocks) {
            (false, None) => Ok(()),
            (false, Some(1..)) => Err(Errno::ENOENT),
            _ => self.change(&Change::Shorten { object, blocks }),
        }
    }

    /// Makes all changes durable.
    pub fn sync(&self) -> Result<(), Errno> {
        self.journal.sync().map_err(errno)
    }

    fn change(&mut self, change: &Change) -> Result<(), Errno> {
        self.journal.append(change).map_err(errno)?;
        let gone = apply(&mut self.objects, change);
        self.give_back(&gone);
        Ok(())
    }
}

/// Changes the map, and returns the blocks of the disk that are free now.
fn apply(objects: &mut HashMap<u64, Slots>, change: &Change) -> Vec<u64> {
    let gone = match change {
        Change::Put { object, first, slots } => {
            let object = objects.entry(*object).or_default();
            slots.iter().zip(*first..).filter_map(|(slot, number)| object.insert(number, *slot)).collect()
        }
        Change::Shorten { object, blocks: None } => {
            objects.remove(object).unwrap_or_default().into_values().collect()
        }
        Change::Shorten { object, blocks: Some(blocks) } => {
            objects.entry(*object).or_default().split_off(blocks).into_values().collect::<Vec<_>>()
        }
    };
    gone.iter().map(|slot: &Slot| slot.number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_come_back_after_a_restart_and_replaced_ones_are_free() {
        let path = std::env::temp_dir().join(format!("store-map-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let mut map = Map::open(&path, 10).unwrap();
        assert_eq!(map.allocate(1, 1), Err(Errno::ENOENT));
        map.create(1).unwrap();
        let put = |map: &mut Map, first, count| {
            let numbers = map.allocate(1, count).unwrap();
            let slots: Vec<_> =
                numbers.iter().map(|&number| Slot { number, crc: number as u32 * 7 }).collect();
            map.put(1, first, &slots).unwrap();
            numbers
        };
        assert_eq!(put(&mut map, 0, 4), [0, 1, 2, 3]);
        assert_eq!(put(&mut map, 2, 3), [4, 5, 6]);
        assert_eq!(map.free(), 5);
        assert_eq!(map.allocate(1, 6), Err(Errno::ENOSPC));
        // Taken, but never put: free after the restart.
        assert_eq!(map.allocate(1, 4).unwrap(), [7, 8, 9, 2]);
        map.shorten(1, Some(4)).unwrap();
        let mut map = Map::open(&path, 10).unwrap();
        let slots: Vec<_> =
            map.object(1).unwrap().iter().map(|(at, slot)| (*at, slot.number, slot.crc)).collect();
        assert_eq!(slots, [(0, 0, 0), (1, 1, 7), (2, 4, 28), (3, 5, 35)]);
        assert_eq!(map.free(), 6);
        assert!(Map::open(&path, 4).is_err());
        map.shorten(1, None).unwrap();
        assert_eq!(Map::open(&path, 10).unwrap().object(1).err(), Some(Errno::ENOENT));
        std::fs::remove_file(&path).unwrap();
    }
}
