//! What describes a hard disk, and the check that it describes one that can exist.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::seek::Seek;
use crate::bounds::{self, InvalidParameter};
use crate::device::Nanos;

/// Upper bound of every time in [`Parameters`]: 1 s, so that sums over all tracks of a disk fit 64 bits.
pub(super) const MAX_TIME_NS: Nanos = 1_000_000_000;
/// Lower bound of the bus's rate, so that transfers take less than the time that 64 bits hold.
const MIN_BYTES_PER_S: u64 = 1000;
/// Upper bounds that keep positions and times within 64 bits; disks of 2025 have about 500,000 cylinders, 20 heads and
/// 1,000 sectors of 4 KiB a track.
const MAX_CYLINDERS: u64 = 4_000_000;
const MAX_HEADS: u32 = 64;
const MAX_SECTORS_PER_TRACK: u32 = 100_000;
/// Bounds of lists that are searched from end to end.
const MAX_SEGMENTS: u32 = 4096;
const MAX_QUEUE_DEPTH: u32 = 65_536;

/// A hard disk. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Bytes it stores: a multiple of `sector_bytes`, at most what the zones hold.
    #[schemars(range(min = 1))]
    pub capacity_bytes: u64,
    /// Bytes of a sector, the smallest unit that it reads or writes. Other positions and lengths are rounded outwards.
    #[schemars(range(min = 1, max = 1 << 20))]
    pub sector_bytes: u32,
    /// Heads, that is tracks of a cylinder.
    #[schemars(range(min = 1, max = MAX_HEADS))]
    pub heads: u32,
    /// Zones, outermost first: the zone of position 0.
    #[schemars(length(min = 1))]
    pub zones: Vec<Zone>,
    /// Time of a revolution: 60 s / rpm.
    #[schemars(range(min = 1, max = MAX_TIME_NS))]
    pub revolution_ns: Nanos,
    /// How much later than on its track before the first sector of a track passes, if both are of one cylinder.
    #[schemars(range(max = MAX_TIME_NS))]
    pub track_skew_ns: Nanos,
    /// The same for the first track of a cylinder.
    #[schemars(range(max = MAX_TIME_NS))]
    pub cylinder_skew_ns: Nanos,
    /// Time to change the head within a cylinder.
    #[schemars(range(max = MAX_TIME_NS))]
    pub head_switch_ns: Nanos,
    /// Time to go on to the next cylinder in the middle of a transfer.
    #[schemars(range(max = MAX_TIME_NS))]
    pub cylinder_switch_ns: Nanos,
    /// Time to move to another cylinder at the start of a request.
    pub seek: Seek,
    /// Additional time for the head to settle before a write, where the head or cylinder changes.
    #[schemars(range(max = MAX_TIME_NS))]
    pub write_settle_ns: Nanos,
    /// Reading starts in the middle of the requested part of a track if the head arrives there, and the rest follows when it
    /// comes round.
    pub zero_latency: bool,
    /// Memory for what was read. None: each read goes to the medium.
    pub read_cache: Option<ReadCache>,
    /// Memory in which writes complete. None: a write completes when it is on the medium.
    pub write_cache: Option<WriteCache>,
    /// The interface.
    pub bus: Bus,
    /// Requests that the scheduler sees at most, from 1; others wait in the order of arrival.
    #[schemars(range(min = 1, max = MAX_QUEUE_DEPTH))]
    pub queue_depth: u32,
    /// Which request is next.
    pub scheduler: Scheduler,
    /// A request that has waited longer than this goes first. None: no limit.
    pub age_limit_ns: Option<Nanos>,
    /// Power. None: not known.
    pub power: Option<Power>,
}

/// Neighbouring cylinders whose tracks have equally many sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Cylinders, from 1.
    #[schemars(range(min = 1, max = MAX_CYLINDERS))]
    pub cylinders: u32,
    /// Sectors of each track, from 1.
    #[schemars(range(min = 1, max = MAX_SECTORS_PER_TRACK))]
    pub sectors_per_track: u32,
}

/// Memory for what was read, divided in segments of one contiguous range each; the least recently used is replaced.
///
/// Data written meanwhile is updated in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadCache {
    /// Segments, from 1.
    #[schemars(range(min = 1, max = MAX_SEGMENTS))]
    pub segments: u32,
    /// Bytes of a segment.
    #[schemars(range(min = 1))]
    pub segment_bytes: u64,
    /// Bytes that the disk reads beyond a request, unless another needs the heads; at most `segment_bytes`. 0: none.
    pub read_ahead_bytes: u64,
    /// A read served from memory extends the read-ahead that follows it, though that is complete and the heads rest.
    pub read_ahead_on_hit: bool,
    /// The track of a read is kept as a whole: what passes before the requested sectors too, and read-ahead goes round
    /// until all of the track is in memory instead of going on to the next track.
    pub track_buffer: bool,
}

/// Memory in which writes complete. They go to the medium later (destage), adjacent ones together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteCache {
    /// Its bytes. A longer write goes to the medium directly.
    #[schemars(range(min = 1))]
    pub size_bytes: u64,
    /// Above this fraction of `size_bytes`, from 0 to 1, destages take turns with requests.
    #[schemars(range(min = 0, max = 1))]
    pub destage_above: f64,
    /// Below it, destages begin when no request came for this time.
    #[schemars(range(max = MAX_TIME_NS))]
    pub idle_ns: Nanos,
}

/// The interface to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// Bytes it transfers in a second, from 1000.
    #[schemars(range(min = MIN_BYTES_PER_S))]
    pub rate_bytes_per_s: u64,
    /// A read from the medium goes over the bus while it is read, as far as the bus is fast enough; else after it.
    pub read_overlap: bool,
    /// Work before the heads move for a read.
    #[schemars(range(max = MAX_TIME_NS))]
    pub read_ns: Nanos,
    /// Work before the heads move for a write.
    #[schemars(range(max = MAX_TIME_NS))]
    pub write_ns: Nanos,
    /// Work on a read that memory serves.
    #[schemars(range(max = MAX_TIME_NS))]
    pub read_hit_ns: Nanos,
    /// Work on a write that memory takes, on a flush and on a trim.
    #[schemars(range(max = MAX_TIME_NS))]
    pub write_hit_ns: Nanos,
}

/// Which of the waiting requests is next, and which of the writes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// The oldest.
    Fcfs,
    /// The next one upwards from the last position, and from the top back to the lowest.
    CLook,
    /// The one with the shortest seek and rotational delay together.
    Sptf,
}

/// Electrical power by what the disk does, in watts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// Rotating only, also while waiting for a sector to come round.
    #[schemars(range(min = 0))]
    pub idle_w: f64,
    /// Moving or switching heads.
    #[schemars(range(min = 0))]
    pub seek_w: f64,
    /// Reading or writing, read-ahead included.
    #[schemars(range(min = 0))]
    pub transfer_w: f64,
}

/// Checks a number against bounds that depend on others, both included.
fn within(field: &str, found: u64, least: u64, most: u64) -> Result<(), InvalidParameter> {
    if (least..=most).contains(&found) {
        Ok(())
    } else {
        Err(InvalidParameter::new(field, format!("{least} to {most}"), found))
    }
}

impl Parameters {
    /// Whether a disk can be like this.
    ///
    /// # Errors
    /// The first parameter that is out of its range or contradicts another.
    pub fn validate(&self) -> Result<(), InvalidParameter> {
        bounds::check(self)?;
        let sector_bytes = u64::from(self.sector_bytes);
        within("track_skew_ns", self.track_skew_ns, 0, self.revolution_ns - 1)?;
        within("cylinder_skew_ns", self.cylinder_skew_ns, 0, self.revolution_ns - 1)?;
        self.seek.validate()?;
        if let Some(cache) = &self.read_cache {
            within("read_cache.segment_bytes", cache.segment_bytes, sector_bytes, u64::MAX)?;
            within("read_cache.read_ahead_bytes", cache.read_ahead_bytes, 0, cache.segment_bytes)?;
        }
        if let Some(cache) = &self.write_cache {
            within("write_cache.size_bytes", cache.size_bytes, sector_bytes, u64::MAX)?;
        }
        let (mut cylinders, mut sectors) = (0, 0);
        for zone in &self.zones {
            cylinders += u64::from(zone.cylinders);
            within("zones: sum of cylinders", cylinders, 1, MAX_CYLINDERS)?;
            sectors += u64::from(zone.cylinders) * u64::from(self.heads) * u64::from(zone.sectors_per_track);
        }
        within("capacity_bytes", self.capacity_bytes, sector_bytes, sectors.saturating_mul(sector_bytes))?;
        if self.capacity_bytes.is_multiple_of(sector_bytes) {
            Ok(())
        } else {
            let expected = format!("a multiple of sector_bytes ({sector_bytes})");
            Err(InvalidParameter::new("capacity_bytes", expected, self.capacity_bytes))
        }
    }
}
