//! Fills a drive before time begins, up to the state that long use leads to.
//!
//! For uniform random writes, blocks are first laid out as age leaves them: if all blocks are filled and cleaned in turn,
//! one that was filled when the share `a` of a round remains has lost pages for the rest of it, and each write hits one
//! page of all, so that the share of valid pages falls exponentially with age (Desnoyers, "Analytic modeling of SSD write
//! performance", SYSTOR 2012). Then writes without timing, through the same translation layer and garbage collection, remove
//! what the victim policy does otherwise.

use super::Ssd;
use super::ftl::Stream;
use super::geometry::{Geometry, Plane};
use super::parameters::{Parameters, Victim, require};
use crate::bounds::InvalidParameter;
use crate::random::Random;

/// What was written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// Each page once, in order.
    Sequential,
    /// Pages at random, all equally often, for so long that garbage collection is in steady state.
    Random,
}

/// Writes without timing after the layout by age, as a share of the physical pages. With this much, write amplification is
/// within 0.5 % of that after long writing (test `preconditioning_is_as_long_writing`).
const SETTLING: f64 = 0.25;

impl Ssd {
    /// Fills the first pages, `full` of all (0 to 1), as if they had been written before time 0. Takes time in proportion to
    /// the pages written for it: a quarter of the physical pages times the write amplification.
    ///
    /// # Errors
    /// If `full` is out of range, or the drive has been used.
    pub fn precondition(&mut self, full: f64, fill: Fill) -> Result<(), InvalidParameter> {
        require((0.0..=1.0).contains(&full), "full", "0 to 1", full)?;
        let is_new = self.requests.is_empty() && !self.is_preconditioned;
        require(is_new, "full", "a drive that has not been used", "one that has")?;
        self.is_preconditioned = true;
        let pages = (full * self.ftl.geometry.pages as f64) as u64;
        for plane in 0..self.ftl.geometry.planes {
            // Logical pages go over the planes in turn.
            let turn = self.ftl.geometry.logical_page(plane * self.ftl.geometry.slots_per_plane);
            let count = (pages + u64::from(self.ftl.geometry.planes) - 1 - turn)
                / u64::from(self.ftl.geometry.planes);
            match fill {
                Fill::Sequential => (0..count as u32).for_each(|page| self.rewrite_page(plane, page)),
                Fill::Random => self.age_plane(plane, count as u32),
            }
        }
        Ok(())
    }

    /// Brings a plane of which the first `count` pages are in use into steady state.
    fn age_plane(&mut self, plane: Plane, count: u32) {
        if count == 0 {
            return;
        }
        let Geometry { blocks_per_plane, pages_per_block, slots_per_plane, .. } = self.ftl.geometry;
        let blocks = blocks_per_plane - self.parameters.gc_threshold_blocks - 1;
        let all = self.ftl.all_sectors();
        for members in lay_out(count, blocks, pages_per_block, &mut self.random) {
            for at in 0..pages_per_block as usize {
                let page = match members.get(at) {
                    Some(page) => self.ftl.write_slot(plane * slots_per_plane + page, all, Stream::Host),
                    None => self.ftl.skip_page(plane),
                };
                page.into_iter().for_each(|page| self.ftl.finish_program(page));
            }
        }
        let writes = (SETTLING * f64::from(blocks_per_plane) * f64::from(pages_per_block)) as u64;
        for _ in 0..writes {
            let page = self.random.below(count);
            self.rewrite_page(plane, page);
        }
    }

    /// Writes a page of a plane, and cleans blocks as far as needed, without timing.
    fn rewrite_page(&mut self, plane: Plane, page: u32) {
        while self.ftl.free_blocks(plane) < self.parameters.gc_threshold_blocks as usize {
            let Some(victim) = self.ftl.take_victim(plane, &mut self.random) else { break };
            self.ftl.clean_block(victim);
        }
        let slot = plane * self.ftl.geometry.slots_per_plane + page;
        let all = self.ftl.all_sectors();
        if let Some(page) = self.ftl.write_slot(slot, all, Stream::Host) {
            self.ftl.finish_program(page);
        }
    }
}

impl Parameters {
    /// Steps of [`Ssd::precondition`], about: pages written, and blocks looked at to choose one to clean.
    pub(crate) fn filling_steps(&self, full: f64, fill: Fill) -> u64 {
        let blocks = f64::from(self.blocks_per_plane);
        let per_plane = full * self.logical_pages_per_plane() as f64;
        let steps = match fill {
            Fill::Sequential => per_plane,
            Fill::Random => {
                let usable = blocks - f64::from(self.gc_threshold_blocks) - 1.0;
                let used = per_plane / (usable * f64::from(self.pages_per_block)).max(1.0);
                // Pages moved for each page written, if the oldest block is cleaned and data is spread evenly.
                let moved = used / (2.0 * (1.0 - used).max(1.0 / blocks));
                let writes = SETTLING * blocks * f64::from(self.pages_per_block);
                let looked_at = match self.victim {
                    Victim::Greedy => blocks,
                    Victim::Fifo => 1.0,
                    Victim::RandomGreedy(choices) => f64::from(choices).min(blocks),
                };
                let cleaned = SETTLING * blocks * (1.0 + moved);
                per_plane + writes * (1.0 + moved) + cleaned * looked_at
            }
        };
        // Rounded down, and at most 2^64 - 1.
        (steps * self.planes() as f64) as u64
    }
}

/// Distributes pages over blocks of `size` pages, oldest block first, as random writes leave them.
fn lay_out(count: u32, blocks: u32, size: u32, random: &mut Random) -> Vec<Vec<u32>> {
    let rate = decay(f64::from(count) / (f64::from(blocks) * f64::from(size)));
    let mut members = vec![Vec::new(); blocks as usize];
    for page in 0..count {
        // Exponential distribution of the age, cut off at 1, the age of the oldest block.
        let age = -(random.unit() * (-rate).exp_m1()).ln_1p() / rate;
        let mut block = ((1.0 - age).clamp(0.0, 1.0) * f64::from(blocks)) as usize % blocks as usize;
        while members[block].len() >= size as usize {
            block = (block + 1) % blocks as usize;
        }
        members[block].push(page);
    }
    members
}

/// Rate at which the share of valid pages falls with age, from 0 to 1, if it is 1 at age 0 and `used` on average: the root
/// of (1 - e^-rate) / rate = used.
fn decay(used: f64) -> f64 {
    // The mean lies between those of these rates, and falls with the rate.
    let (mut low, mut high) = (1e-9, 2.0 / used.max(1e-9));
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if -(-middle).exp_m1() / middle > used { low = middle } else { high = middle }
    }
    f64::midpoint(low, high)
}
