//! Reuse distances: what LRU caches of all sizes serve, from one pass.
//!
//! The reuse distance of a use is the number of different blocks used since the last use of its block, itself included:
//! an LRU cache that holds as many blocks serves it, a smaller one doesn't (Mattson et al., IBM Systems Journal 1970).
//! Each block used has a mark at the turn of its last use; the distance is the marks from there on. Marks are bits, counted
//! by 64, 4096 and 262,144 turns, so that a distance adds three short rows of numbers. When the turns are used up, the
//! marks move together: memory is that of the different blocks, not of the uses.

use super::{Block, NONE};

/// Turns in a word, words in a group, groups in a region.
const BITS: usize = 64;
const GROUP: usize = 64;
const REGION: usize = 64;
/// Turns at least, however few blocks there are.
const LEAST_TURNS: usize = BITS * GROUP;

/// Turns that a number of blocks is given.
fn turns_for(blocks: usize) -> usize {
    (2 * blocks).max(LEAST_TURNS).next_multiple_of(BITS * GROUP * REGION)
}

/// The uses of blocks so far.
pub struct Reuse {
    /// Turn of a block's last use; [`NONE`] if it wasn't used yet.
    last: Vec<u32>,
    /// The block whose last use is at a turn, where there is a mark.
    at: Vec<Block>,
    marks: Vec<u64>,
    /// Marks of a word, of a group of words, of a region of groups.
    words: Vec<u8>,
    groups: Vec<u16>,
    regions: Vec<u32>,
    turn: usize,
    used: u32,
}

impl Reuse {
    /// With room for blocks below `blocks`; there can be more.
    #[must_use]
    pub fn new(blocks: u32) -> Self {
        let turns = turns_for(blocks as usize);
        Self {
            last: vec![NONE; blocks as usize],
            at: vec![NONE; turns],
            marks: vec![0; turns / BITS],
            words: vec![0; turns / BITS],
            groups: vec![0; turns / BITS / GROUP],
            regions: vec![0; turns / BITS / GROUP / REGION],
            turn: 0,
            used: 0,
        }
    }

    /// Uses a block: its reuse distance in blocks, 0 for its first use.
    pub fn touch(&mut self, block: Block) -> u32 {
        if block as usize >= self.last.len() {
            self.last.resize((block as usize + 1).next_power_of_two(), NONE);
        }
        if self.turn == self.at.len() {
            self.close_up();
        }
        let last = std::mem::replace(&mut self.last[block as usize], self.turn as u32);
        let distance = if last == NONE {
            self.used += 1;
            0
        } else {
            let distance = self.marks_from(last as usize);
            self.mark(last as usize, false);
            distance
        };
        self.at[self.turn] = block;
        self.mark(self.turn, true);
        self.turn += 1;
        distance
    }

    /// The block whose reuse distance would be `distance` if it were used now; none if fewer blocks were used.
    #[must_use]
    pub fn at_distance(&self, distance: u32) -> Option<Block> {
        if distance == 0 || distance > self.used {
            return None;
        }
        let mut left = distance;
        // The last one of each level from whose end on there are `left` marks.
        let mut back = |counts: &mut dyn Iterator<Item = (usize, u32)>| {
            for (at, count) in counts {
                if count >= left {
                    return Some(at);
                }
                left -= count;
            }
            None
        };
        let with = |from: usize, to: usize| (from..to).rev();
        let region = back(&mut with(0, self.regions.len()).map(|at| (at, self.regions[at])))?;
        let groups = with(region * REGION, (region + 1) * REGION);
        let group = back(&mut groups.map(|at| (at, u32::from(self.groups[at]))))?;
        let words = with(group * GROUP, (group + 1) * GROUP);
        let word = back(&mut words.map(|at| (at, u32::from(self.words[at]))))?;
        let mut marks = self.marks[word];
        for _ in 1..left {
            marks ^= 1 << (BITS - 1 - marks.leading_zeros() as usize);
        }
        Some(self.at[word * BITS + BITS - 1 - marks.leading_zeros() as usize])
    }

    /// The reuse distance of a block if it were used now; 0 if it wasn't used yet.
    #[must_use]
    pub fn distance(&self, block: Block) -> u32 {
        match self.last.get(block as usize) {
            Some(&last) if last != NONE => self.marks_from(last as usize),
            _ => 0,
        }
    }

    /// Different blocks used so far.
    #[must_use]
    pub fn used(&self) -> u32 {
        self.used
    }

    fn mark(&mut self, turn: usize, set: bool) {
        let (word, group, region) = (turn / BITS, turn / BITS / GROUP, turn / BITS / GROUP / REGION);
        let step = |count: u32| if set { count + 1 } else { count - 1 };
        self.marks[word] ^= 1 << (turn % BITS);
        self.words[word] = step(u32::from(self.words[word])) as u8;
        self.groups[group] = step(u32::from(self.groups[group])) as u16;
        self.regions[region] = step(self.regions[region]);
    }

    /// Marks at a turn and after it.
    fn marks_from(&self, turn: usize) -> u32 {
        let (word, group, region) = (turn / BITS, turn / BITS / GROUP, turn / BITS / GROUP / REGION);
        // The nearer end is added up: of the words of the group, of the groups of the region, of all regions.
        let in_word = (self.marks[word] >> (turn % BITS)).count_ones();
        let words: u32 =
            self.words[word + 1..(group + 1) * GROUP].iter().map(|count| u32::from(*count)).sum();
        let groups: u32 =
            self.groups[group + 1..(region + 1) * REGION].iter().map(|count| u32::from(*count)).sum();
        let now = self.turn / BITS / GROUP / REGION;
        let regions: u32 = if region < now {
            self.regions[region + 1..=now.min(self.regions.len() - 1)].iter().sum()
        } else {
            0
        };
        in_word + words + groups + regions
    }

    /// Moves the marks together, in their order; if they take over half of the turns, there are twice as many from then on.
    fn close_up(&mut self) {
        let mut next = 0;
        for turn in 0..self.turn {
            if self.marks[turn / BITS] >> (turn % BITS) & 1 == 1 {
                let block = self.at[turn];
                self.at[next] = block;
                self.last[block as usize] = next as u32;
                next += 1;
            }
        }
        self.turn = next;
        let turns = turns_for(next).max(self.at.len());
        self.at.resize(turns, NONE);
        self.marks.clear();
        self.marks.resize(turns / BITS, 0);
        self.words.clear();
        self.words.resize(turns / BITS, 0);
        self.groups.clear();
        self.groups.resize(turns / BITS / GROUP, 0);
        self.regions.clear();
        self.regions.resize(turns / BITS / GROUP / REGION, 0);
        (0..next).for_each(|turn| self.mark(turn, true));
    }
}
