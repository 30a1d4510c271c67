//! What an SSD is made of, and whether that makes sense.

use std::collections::HashSet;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::bounds::{self, InvalidParameter};

/// A dimension of the flash array over which pages are striped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// Channels.
    Channel,
    /// Chips of a channel (ways).
    Way,
    /// Dies of a chip.
    Die,
    /// Planes of a die.
    Plane,
}

/// Order in which consecutive logical pages go over the dimensions: the first one changes with each page.
///
/// The names are those of Tavakkol et al., "Performance evaluation of dynamic page allocation strategies in SSDs"
/// (TOMPECS 2016): CWDP is channel, way, die, plane.
pub type Allocation = [Dimension; 4];

/// Channel, way, die, plane: consecutive pages use all channels first.
pub const CWDP: Allocation = [Dimension::Channel, Dimension::Way, Dimension::Die, Dimension::Plane];
/// Plane, die, way, channel: consecutive pages use all planes of a die first.
pub const PDWC: Allocation = [Dimension::Plane, Dimension::Die, Dimension::Way, Dimension::Channel];

/// Parses the name of an allocation, four of the letters C, W, D and P. None if it isn't one.
#[must_use]
pub fn parse_allocation(name: &str) -> Option<Allocation> {
    let dimensions: Vec<_> = name
        .chars()
        .map(|letter| match letter {
            'C' => Some(Dimension::Channel),
            'W' => Some(Dimension::Way),
            'D' => Some(Dimension::Die),
            'P' => Some(Dimension::Plane),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let allocation = Allocation::try_from(dimensions).ok()?;
    is_permutation(allocation).then_some(allocation)
}

/// An allocation as its name.
mod by_name {
    use serde::{Deserialize as _, Deserializer, Serializer};

    use super::{Allocation, Dimension, parse_allocation};

    pub fn serialize<S: Serializer>(allocation: &Allocation, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&allocation.map(Dimension::letter).iter().collect::<String>())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Allocation, D::Error> {
        let name = String::deserialize(deserializer)?;
        let expected =
            || serde::de::Error::custom(format!("expected an order of C, W, D and P, found {name:?}"));
        parse_allocation(&name).ok_or_else(expected)
    }
}

impl Dimension {
    fn letter(self) -> char {
        match self {
            Self::Channel => 'C',
            Self::Way => 'W',
            Self::Die => 'D',
            Self::Plane => 'P',
        }
    }
}

fn is_permutation(allocation: Allocation) -> bool {
    allocation.iter().collect::<HashSet<_>>().len() == allocation.len()
}

/// The names of all allocations.
fn allocation_names(_: &mut SchemaGenerator) -> Schema {
    let letters = ['C', 'W', 'D', 'P'];
    let all =
        (0..256).map(|at| [64, 16, 4, 1].map(|place| letters[at / place % 4]).iter().collect::<String>());
    let names: Vec<String> = all.filter(|name| parse_allocation(name).is_some()).collect();
    json_schema!({ "type": "string", "enum": names })
}

/// Which block garbage collection cleans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Victim {
    /// The one with the fewest valid pages.
    Greedy,
    /// The one filled longest ago.
    Fifo,
    /// The one with the fewest valid pages of this many chosen at random (d-choices).
    RandomGreedy(#[schemars(range(min = 1))] u32),
}

/// When garbage collection gets the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// Requests go first, until a plane has so few free blocks that writes stall.
    Background,
    /// A chip that cleans a block serves no requests until the block is erased.
    Exclusive,
}

/// Power of the drive, in watts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// The whole drive when it does nothing.
    #[schemars(range(min = 0))]
    pub idle_w: f64,
    /// In addition, each plane that reads.
    #[schemars(range(min = 0))]
    pub read_w: f64,
    /// In addition, each plane that programs.
    #[schemars(range(min = 0))]
    pub program_w: f64,
    /// In addition, each plane that erases.
    #[schemars(range(min = 0))]
    pub erase_w: f64,
}

/// No single time is longer than this (about 18 minutes), so that sums of times can't overflow.
const LONGEST: Nanos = 1 << 40;

/// An SSD. Times are nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Channels, 1 to 64.
    #[schemars(range(min = 1, max = 64))]
    pub channels: u32,
    /// Chips on each channel.
    #[schemars(range(min = 1, max = 1024))]
    pub chips_per_channel: u32,
    /// Dies of each chip.
    #[schemars(range(min = 1, max = 1024))]
    pub dies_per_chip: u32,
    /// Planes of each die.
    #[schemars(range(min = 1, max = 1024))]
    pub planes_per_die: u32,
    /// Blocks of each plane, free and reserved ones included.
    #[schemars(range(min = 1))]
    pub blocks_per_plane: u32,
    /// Pages of each block.
    #[schemars(range(min = 1))]
    pub pages_per_block: u32,
    /// Bytes of a page, a multiple of `sector_bytes`.
    #[schemars(range(min = 1))]
    pub page_bytes: u32,
    /// Smallest part of a page that is tracked, in bytes. A page has at most 32.
    #[schemars(range(min = 1))]
    pub sector_bytes: u32,
    /// Share of the physical pages that is not part of the capacity, from 0 to 1.
    #[schemars(extend("exclusiveMinimum" = 0, "exclusiveMaximum" = 1))]
    pub over_provisioning: f64,
    /// How logical pages are striped over the planes. In files its name: four of the letters C, W, D and P.
    #[serde(with = "by_name")]
    #[schemars(schema_with = "allocation_names")]
    pub allocation: Allocation,

    /// Time to read a page into the register of its plane, by page type: page `n` of a block has type `n` modulo the
    /// number of types (1 for SLC, 2 for MLC: LSB, MSB, 3 for TLC: LSB, CSB, MSB).
    #[schemars(length(min = 1), inner(range(max = LONGEST)))]
    pub read_ns: Vec<Nanos>,
    /// Time to program a page, by page type.
    #[schemars(length(min = 1), inner(range(max = LONGEST)))]
    pub program_ns: Vec<Nanos>,
    /// Time to erase a block.
    #[schemars(range(max = LONGEST))]
    pub erase_ns: Nanos,
    /// Time to suspend a program operation for a read. None if reads wait for it.
    #[schemars(range(max = LONGEST))]
    pub suspend_program_ns: Option<Nanos>,
    /// Time to suspend an erase operation for a read. None if reads wait for it.
    #[schemars(range(max = LONGEST))]
    pub suspend_erase_ns: Option<Nanos>,
    /// Bytes per second of a channel.
    #[schemars(range(min = 1024))]
    pub channel_rate_bytes_per_s: u64,
    /// Time of a read command on the channel.
    #[schemars(range(max = LONGEST))]
    pub read_command_ns: Nanos,
    /// Time of a program command on the channel, without data.
    #[schemars(range(max = LONGEST))]
    pub program_command_ns: Nanos,
    /// Time of an erase command on the channel.
    #[schemars(range(max = LONGEST))]
    pub erase_command_ns: Nanos,
    /// Time on the channel for each further plane of a command.
    #[schemars(range(max = LONGEST))]
    pub plane_command_ns: Nanos,
    /// Whether planes of a die do operations of one kind at the same page offset together.
    pub multi_plane: bool,
    /// Whether dies of a chip work at the same time. If not, a chip executes one command at a time.
    pub die_interleaving: bool,

    /// Bytes per second of the link to the host, after protocol overhead.
    #[schemars(range(min = 1024))]
    pub link_rate_bytes_per_s: u64,
    /// Whether the link moves data in both directions at the same time (PCIe: yes, SATA: no).
    pub link_full_duplex: bool,
    /// Time from the submission of a request until the drive has its command.
    #[schemars(range(max = LONGEST))]
    pub request_ns: Nanos,
    /// Time from the end of a request in the drive until the host knows.
    #[schemars(range(max = LONGEST))]
    pub completion_ns: Nanos,
    /// Requests that the drive accepts at a time. Others wait in front of it.
    #[schemars(range(min = 1))]
    pub queue_depth: u32,

    /// Capacity of the write buffer in bytes. 0 if writes complete once they are programmed.
    pub write_buffer_bytes: u64,
    /// Whether the write buffer survives power loss. If so, a flush has nothing to do.
    pub write_buffer_protected: bool,
    /// Bytes per second of the memory of the write buffer.
    #[schemars(range(min = 1024))]
    pub buffer_rate_bytes_per_s: u64,
    /// Time of each access to the write buffer.
    #[schemars(range(max = LONGEST))]
    pub buffer_access_ns: Nanos,

    /// Garbage collection of a plane starts below this number of free blocks.
    #[schemars(range(min = 2))]
    pub gc_threshold_blocks: u32,
    /// Writes to a plane stall when it has only this number of free blocks, at least 1.
    #[schemars(range(min = 1))]
    pub gc_hard_threshold_blocks: u32,
    /// Which block is cleaned.
    pub victim: Victim,
    /// Whether valid pages move inside the die, without a transfer over the channel.
    pub copy_back: bool,
    /// When garbage collection gets the flash.
    pub gc_priority: Priority,

    /// Mapping entries (one per page) that fit into memory; others are read from flash. None if all fit.
    #[schemars(range(min = 16, max = (1 << 30) - 1))]
    pub mapping_cache_entries: Option<u32>,
    /// Bytes of a mapping entry in flash.
    #[schemars(range(min = 1))]
    pub mapping_entry_bytes: u32,

    /// Whether a read of a page that was never written, or was trimmed, returns zeros without the flash. If not, it reads
    /// the flash: a trace doesn't say what was written before it.
    pub zero_unwritten: bool,
    /// Power. None if energy is of no interest.
    pub power: Option<Power>,
    /// Seed of all random choices.
    pub seed: u64,
}

/// Fails unless `holds`.
pub(super) fn require(
    holds: bool,
    field: &str,
    expected: &str,
    found: impl std::fmt::Display,
) -> Result<(), InvalidParameter> {
    if holds { Ok(()) } else { Err(InvalidParameter::new(field, expected, found)) }
}

/// Physical pages are numbered in 32 bits.
const MOST_PAGES: u64 = (u32::MAX - 1) as u64;
/// Planes and blocks have records in memory even before they are written: about a gigabyte of them at most.
const MOST_PLANES: u64 = 1 << 16;
const MOST_BLOCKS: u64 = 1 << 24;
/// Blocks of a plane that are partly written or being cleaned: one for writes, one for moved pages, one victim.
const OPEN_BLOCKS: u64 = 3;

impl Default for Parameters {
    /// A drive of 64 GiB flash with the timings of MQSim's `ssdconfig.xml` (CMU-SAFARI/MQSim), all mapping in memory.
    ///
    /// Command times are sums of the ONFI NV-DDR2 timings that MQSim uses: tCS 20, tWC 25, tWB 100, tRR 20, tADL 70,
    /// tWPST 6, tWPSTH 15, tDBSY 500 ns. The link is PCIe 3.0 x4: 4 GB/s with 28 bytes of overhead per packet of 128.
    fn default() -> Self {
        Self {
            channels: 8,
            chips_per_channel: 4,
            dies_per_chip: 2,
            planes_per_die: 2,
            blocks_per_plane: 2048,
            pages_per_block: 256,
            page_bytes: 8192,
            sector_bytes: 512,
            over_provisioning: 0.07,
            allocation: CWDP,
            read_ns: vec![75_000],
            program_ns: vec![750_000],
            erase_ns: 3_800_000,
            suspend_program_ns: None,
            suspend_erase_ns: None,
            channel_rate_bytes_per_s: 333_333_333,
            read_command_ns: 290,
            program_command_ns: 361,
            erase_command_ns: 220,
            plane_command_ns: 650,
            multi_plane: true,
            die_interleaving: true,
            link_rate_bytes_per_s: 3_282_051_282,
            link_full_duplex: true,
            request_ns: 39,
            completion_ns: 11,
            queue_depth: 1024,
            write_buffer_bytes: 1 << 20,
            write_buffer_protected: false,
            buffer_rate_bytes_per_s: 3_200_000_000,
            buffer_access_ns: 26,
            gc_threshold_blocks: 102,
            gc_hard_threshold_blocks: 10,
            victim: Victim::RandomGreedy(11),
            copy_back: false,
            gc_priority: Priority::Background,
            mapping_cache_entries: None,
            mapping_entry_bytes: 6,
            zero_unwritten: false,
            power: None,
            seed: 321,
        }
    }
}

impl Parameters {
    /// Checks that a drive can be made of this.
    ///
    /// # Errors
    /// The first field that makes no sense.
    pub fn validate(&self) -> Result<(), InvalidParameter> {
        bounds::check(self)?;
        require(self.planes() <= MOST_PLANES, "channels", "at most 65536 planes in all", self.planes())?;
        require(
            self.page_bytes >= self.sector_bytes
                && self.page_bytes.is_multiple_of(self.sector_bytes)
                && self.page_bytes / self.sector_bytes <= 32,
            "page_bytes",
            "1 to 32 sectors",
            self.page_bytes,
        )?;
        require(
            is_permutation(self.allocation),
            "allocation",
            "each dimension once",
            format!("{:?}", self.allocation),
        )?;
        require(
            self.mapping_entry_bytes <= self.page_bytes,
            "mapping_entry_bytes",
            "1 to page_bytes",
            self.mapping_entry_bytes,
        )?;
        self.validate_blocks()
    }

    /// Garbage collection always finds an invalid page, and a free block for what it moves.
    fn validate_blocks(&self) -> Result<(), InvalidParameter> {
        let blocks = u64::from(self.blocks_per_plane);
        let pages = self
            .planes()
            .checked_mul(blocks)
            .and_then(|blocks| blocks.checked_mul(u64::from(self.pages_per_block)));
        require(
            pages.is_some_and(|pages| pages > 0 && pages <= MOST_PAGES)
                && self.planes() * blocks <= MOST_BLOCKS,
            "blocks_per_plane",
            "at least 1, with at most 2^24 blocks and less than 2^32 pages in all",
            self.blocks_per_plane,
        )?;
        require(
            self.logical_pages_per_plane() > 0,
            "over_provisioning",
            "at least one logical page in each plane",
            self.over_provisioning,
        )?;
        require(
            self.gc_threshold_blocks > self.gc_hard_threshold_blocks,
            "gc_threshold_blocks",
            &format!("more than gc_hard_threshold_blocks, {}", self.gc_hard_threshold_blocks),
            self.gc_threshold_blocks,
        )?;
        let held = (self.logical_pages_per_plane() + self.mapping_pages_per_plane())
            .div_ceil(u64::from(self.pages_per_block));
        let spare = blocks.saturating_sub(held);
        let needed = u64::from(self.gc_threshold_blocks) + OPEN_BLOCKS;
        require(
            spare >= needed,
            "over_provisioning",
            &format!("{needed} blocks of each plane, gc_threshold_blocks and {OPEN_BLOCKS} more"),
            format!("{} of it, {spare} blocks", self.over_provisioning),
        )
    }

    /// Planes of the drive.
    pub(super) fn planes(&self) -> u64 {
        [self.channels, self.chips_per_channel, self.dies_per_chip, self.planes_per_die]
            .into_iter()
            .fold(1, |product, count| product.saturating_mul(u64::from(count)))
    }

    /// Pages of each plane that belong to the capacity.
    pub(super) fn logical_pages_per_plane(&self) -> u64 {
        let pages = u64::from(self.blocks_per_plane) * u64::from(self.pages_per_block);
        (pages as f64 * (1.0 - self.over_provisioning)) as u64
    }

    /// Mapping entries in a page of flash.
    pub(super) fn mapping_entries_per_page(&self) -> u64 {
        u64::from(self.page_bytes / self.mapping_entry_bytes)
    }

    /// Pages of each plane that hold mapping entries. 0 if all mapping is in memory.
    pub(super) fn mapping_pages_per_plane(&self) -> u64 {
        if self.mapping_cache_entries.is_none() {
            return 0;
        }
        let pages = self.planes() * self.logical_pages_per_plane();
        pages.div_ceil(self.mapping_entries_per_page()).div_ceil(self.planes())
    }

    /// Bytes of the tables that the translation layer and the flash have before anything is written.
    pub(crate) fn table_bytes(&self) -> u64 {
        let (planes, blocks) = (self.planes(), self.planes() * u64::from(self.blocks_per_plane));
        let slots = planes * (self.logical_pages_per_plane() + self.mapping_pages_per_plane());
        // Of a slot its page and missing sectors; of a page its owner; of a block three counts and its place in a queue, which
        // has room for up to twice as many; of a plane its queues of blocks, operations and writes.
        8 * slots + 4 * blocks * u64::from(self.pages_per_block) + 20 * blocks + 512 * planes
    }

    /// Bytes that the drive stores.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.planes()
            .saturating_mul(self.logical_pages_per_plane())
            .saturating_mul(u64::from(self.page_bytes))
    }
}
