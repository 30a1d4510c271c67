//! Numbers for blocks, in the order in which they come.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::{Block, NONE};

/// Blocks side by side that share an entry: they are mostly used one after the other.
const GROUP: u64 = 16;

/// Numbers blocks of devices.
#[derive(Clone, Default)]
pub struct Numbers {
    /// By device and group, where its numbers are.
    groups: HashMap<(u32, u64), u32, BuildHasherDefault<Mixed>>,
    /// [`NONE`] is that of a block that has none.
    numbers: Vec<[Block; GROUP as usize]>,
    /// The group asked for last, and where its numbers are.
    last: Option<((u32, u64), u32)>,
    len: u32,
}

impl Numbers {
    /// The number of a block of a device; none if there are too many different ones.
    pub fn of(&mut self, device: u32, block: u64) -> Option<Block> {
        let group = (device, block / GROUP);
        let at = match self.place(group) {
            Some(at) => at,
            None if self.len == NONE => return None,
            None => {
                let at = self.numbers.len() as u32;
                self.numbers.push([NONE; GROUP as usize]);
                self.groups.insert(group, at);
                at
            }
        };
        self.last = Some((group, at));
        let number = &mut self.numbers[at as usize][(block % GROUP) as usize];
        if *number == NONE && self.len < NONE {
            *number = self.len;
            self.len += 1;
        }
        Some(*number).filter(|number| *number != NONE)
    }

    /// The number of a block that has one.
    #[must_use]
    pub fn get(&self, device: u32, block: u64) -> Option<Block> {
        let at = self.place((device, block / GROUP))?;
        Some(self.numbers[at as usize][(block % GROUP) as usize]).filter(|number| *number != NONE)
    }

    fn place(&self, group: (u32, u64)) -> Option<u32> {
        match self.last {
            Some((last, at)) if last == group => Some(at),
            _ => self.groups.get(&group).copied(),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// A hash of numbers that nobody chooses to collide: one multiplication of 64 bits, both halves of the product.
#[derive(Clone, Default)]
pub struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
