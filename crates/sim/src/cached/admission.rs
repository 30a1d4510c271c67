//! Which missed blocks a cache brings in: all, or those that were missed several times recently.

use crate::cache::{Block, Links, List};

/// Counts misses of blocks.
#[derive(Clone)]
pub struct Admission {
    /// Misses until a block is brought in, that one included.
    uses: u32,
    /// Blocks whose misses are remembered at most.
    memory: u32,
    /// Misses of a remembered block; 0 of others.
    seen: Vec<u32>,
    links: Links,
    remembered: List,
}

impl Admission {
    pub fn new(uses: u32, memory: u32) -> Self {
        Self { uses, memory, seen: Vec::new(), links: Links::new(0), remembered: List::new() }
    }

    /// Whether a block that is missed now is brought in.
    pub fn admits(&mut self, block: Block) -> bool {
        if self.uses <= 1 {
            return true;
        }
        let at = block as usize;
        if at >= self.seen.len() {
            let room = (at + 1).max(self.seen.len() * 2).max(1024);
            self.seen.resize(room, 0);
            self.links.grow(room as u32);
        }
        self.seen[at] += 1;
        if self.seen[at] > 1 {
            self.remembered.remove(&mut self.links, block);
        }
        if self.seen[at] >= self.uses {
            self.seen[at] = 0;
            return true;
        }
        if self.remembered.len() >= self.memory
            && let Some(oldest) = self.remembered.pop(&mut self.links)
        {
            self.seen[oldest as usize] = 0;
        }
        self.remembered.push(&mut self.links, block);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_admitted_at_its_nth_miss_while_it_is_remembered() {
        let mut all = Admission::new(1, 1);
        assert!(all.admits(7));
        let mut admission = Admission::new(3, 2);
        // 0 is forgotten when 2 comes, as 1 and 2 are all that is remembered.
        let admitted = [0, 1, 2, 0, 0, 0, 2, 2, 0].map(|block| admission.admits(block));
        assert_eq!(admitted, [false, false, false, false, false, true, false, true, false]);
    }
}
