//! Lists of blocks, each of which is in one list at most: their links stand at the blocks' numbers.

use super::{Block, NONE};

/// The neighbours of all blocks in their lists.
#[derive(Clone)]
pub struct Links(Vec<Link>);

#[derive(Clone, Copy)]
struct Link {
    newer: Block,
    older: Block,
}

impl Links {
    /// Of so many blocks, none of them in a list.
    pub fn new(blocks: u32) -> Self {
        Self(vec![Link { newer: NONE, older: NONE }; blocks as usize])
    }

    /// Makes room for blocks below this number.
    pub fn grow(&mut self, blocks: u32) {
        self.0.resize(self.0.len().max(blocks as usize), Link { newer: NONE, older: NONE });
    }

    /// The block that is before this one in its list: newer.
    pub fn newer(&self, block: Block) -> Option<Block> {
        Some(self.0[block as usize].newer).filter(|block| *block != NONE)
    }
}

/// A list, from the newest block to the oldest.
#[derive(Clone)]
pub struct List {
    newest: Block,
    oldest: Block,
    len: u32,
}

impl List {
    /// An empty one.
    pub const fn new() -> Self {
        Self { newest: NONE, oldest: NONE, len: 0 }
    }

    /// Blocks in it.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// The oldest block; none if it is empty.
    pub fn oldest(&self) -> Option<Block> {
        Some(self.oldest).filter(|block| *block != NONE)
    }

    /// Adds a block that is in no list as the newest.
    pub fn push(&mut self, links: &mut Links, block: Block) {
        links.0[block as usize] = Link { newer: NONE, older: self.newest };
        match self.newest {
            NONE => self.oldest = block,
            newest => links.0[newest as usize].newer = block,
        }
        self.newest = block;
        self.len += 1;
    }

    /// Takes a block of this list out.
    pub fn remove(&mut self, links: &mut Links, block: Block) {
        let Link { newer, older } = links.0[block as usize];
        match newer {
            NONE => self.newest = older,
            newer => links.0[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => links.0[older as usize].newer = newer,
        }
        self.len -= 1;
    }

    /// Makes a block of this list the newest.
    pub fn renew(&mut self, links: &mut Links, block: Block) {
        if block != self.newest {
            self.remove(links, block);
            self.push(links, block);
        }
    }

    /// Takes the oldest out; none if it is empty.
    pub fn pop(&mut self, links: &mut Links) -> Option<Block> {
        let block = self.oldest()?;
        self.remove(links, block);
        Some(block)
    }
}
