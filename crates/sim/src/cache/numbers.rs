//! Numbers for blocks, in the order in which they come.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::{Block, NONE};

/// Numbers blocks of devices.
#[derive(Default)]
pub struct Numbers(HashMap<(u32, u64), Block, BuildHasherDefault<Mixed>>);

impl Numbers {
    /// The number of a block of a device; none if there are too many different ones.
    pub fn of(&mut self, device: u32, block: u64) -> Option<Block> {
        let next = Block::try_from(self.0.len()).ok().filter(|next| *next < NONE);
        if let Some(number) = self.0.get(&(device, block)) {
            return Some(*number);
        }
        self.0.insert((device, block), next?);
        next
    }

    /// The number of a block that has one.
    #[must_use]
    pub fn get(&self, device: u32, block: u64) -> Option<Block> {
        self.0.get(&(device, block)).copied()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.len() as u32
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A hash of numbers that nobody chooses to collide: one multiplication of 64 bits, both halves of the product.
#[derive(Default)]
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
