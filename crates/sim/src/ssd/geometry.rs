//! Where pages are: which plane holds a logical page, and which die and channel a plane belongs to.
//!
//! Planes are numbered by channel, chip, die, plane. A logical page has a *slot*: its number among all, plane by plane, so
//! that what belongs to a plane lies together in memory.

use super::parameters::{Dimension, Parameters};

/// Number of a logical page, plane by plane.
pub(super) type Slot = u32;
/// Number of a physical page, plane by plane, block by block.
pub(super) type Page = u32;
/// Number of a block, plane by plane.
pub(super) type Block = u32;
/// Number of a plane.
pub(super) type Plane = u32;

#[derive(Clone, Debug)]
pub(super) struct Geometry {
    pub channels: u32,
    pub planes: u32,
    /// Logical pages.
    pub pages: u64,
    /// Slots of a plane: those of logical pages, then those of mapping pages.
    pub slots_per_plane: u32,
    /// Slots of logical pages of a plane.
    pub data_slots_per_plane: u32,
    pub blocks_per_plane: u32,
    pub pages_per_block: u32,
    /// Planes that execute one command at a time, as dies or chips do.
    pub planes_per_unit: u32,
    pub planes_per_die: u32,
    pub units_per_channel: u32,
    /// Plane of each of the first consecutive logical pages; those after them repeat it.
    stripe: Vec<Plane>,
    /// By plane, which of these it is the plane of.
    lanes: Vec<u32>,
}

impl Geometry {
    /// Of parameters that are valid.
    pub fn new(parameters: &Parameters) -> Self {
        let planes_per_chip = parameters.dies_per_chip * parameters.planes_per_die;
        let planes_per_unit =
            if parameters.die_interleaving { parameters.planes_per_die } else { planes_per_chip };
        let planes = parameters.planes() as u32;
        let data = parameters.logical_pages_per_plane() as u32;
        let stripe: Vec<Plane> = (0..planes).map(|page| plane_of_stripe(parameters, page)).collect();
        let mut lanes = vec![0; planes as usize];
        for (lane, &plane) in stripe.iter().enumerate() {
            lanes[plane as usize] = lane as u32;
        }
        Self {
            channels: parameters.channels,
            planes,
            pages: u64::from(planes) * u64::from(data),
            slots_per_plane: data + parameters.mapping_pages_per_plane() as u32,
            data_slots_per_plane: data,
            blocks_per_plane: parameters.blocks_per_plane,
            pages_per_block: parameters.pages_per_block,
            planes_per_unit,
            planes_per_die: parameters.planes_per_die,
            units_per_channel: planes / parameters.channels / planes_per_unit,
            stripe,
            lanes,
        }
    }

    /// Slot of a logical page.
    pub fn slot(&self, page: u64) -> Slot {
        let planes = u64::from(self.planes);
        let plane = self.stripe[(page % planes) as usize];
        plane * self.slots_per_plane + (page / planes) as u32
    }

    /// Logical page of a slot that is not of a mapping page.
    pub fn logical_page(&self, slot: Slot) -> u64 {
        let (plane, within) = (slot / self.slots_per_plane, slot % self.slots_per_plane);
        u64::from(within) * u64::from(self.planes) + u64::from(self.lanes[plane as usize])
    }

    /// Slot of a mapping page. They are striped as logical pages are.
    pub fn mapping_slot(&self, page: u64) -> Slot {
        self.slot(page) + self.data_slots_per_plane
    }

    pub fn plane_of_slot(&self, slot: Slot) -> Plane {
        slot / self.slots_per_plane
    }

    pub fn block_of_page(&self, page: Page) -> Block {
        page / self.pages_per_block
    }

    pub fn plane_of_block(&self, block: Block) -> Plane {
        block / self.blocks_per_plane
    }

    /// Where a page lies in its block.
    pub fn offset(&self, page: Page) -> u32 {
        page % self.pages_per_block
    }

    /// Any page of the plane of a slot, the same each time: where a page never written is read.
    pub fn page_of_unwritten(&self, slot: Slot) -> Page {
        let (plane, within) = (slot / self.slots_per_plane, slot % self.slots_per_plane);
        plane * (self.blocks_per_plane * self.pages_per_block) + within
    }

    pub fn unit_of_plane(&self, plane: Plane) -> u32 {
        plane / self.planes_per_unit
    }

    pub fn channel_of_unit(&self, unit: u32) -> u32 {
        unit / self.units_per_channel
    }
}

fn plane_of_stripe(parameters: &Parameters, page: u32) -> Plane {
    let (mut channel, mut chip, mut die, mut plane, mut rest) = (0, 0, 0, 0, page);
    for dimension in parameters.allocation {
        let (size, index) = match dimension {
            Dimension::Channel => (parameters.channels, &mut channel),
            Dimension::Way => (parameters.chips_per_channel, &mut chip),
            Dimension::Die => (parameters.dies_per_chip, &mut die),
            Dimension::Plane => (parameters.planes_per_die, &mut plane),
        };
        *index = rest % size;
        rest /= size;
    }
    ((channel * parameters.chips_per_channel + chip) * parameters.dies_per_chip + die)
        * parameters.planes_per_die
        + plane
}
