//! The disk of the paper's section 3.3: a seek, half a turn on average, the transfer. A request that begins where the last one
//! ended takes its transfer alone: the disk reads its track ahead.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::InvalidParameter;
use crate::disk::SeekCurve;
use crate::random::Random;

/// A disk, by what its requests take.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Medium {
    /// Bytes of the disk.
    pub size_bytes: u64,
    /// Time of a seek by its distance (equation 14).
    pub seek: SeekCurve,
    /// One turn of the platters.
    pub turn_ns: u64,
    /// Rate of transfers in equal parts of the disk, from the first sector to the last, in bytes per second.
    pub rates: Vec<f64>,
}

/// A seek, as a fraction of the disk and in ns, and the rotational delay after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Positioning {
    pub distance: f64,
    pub seek_ns: f64,
    pub rotation_ns: f64,
}

impl Medium {
    pub(super) fn validate(&self) -> Result<(), InvalidParameter> {
        if !(1 << 20..=1 << 60).contains(&self.size_bytes) {
            return Err(InvalidParameter::new("medium.size_bytes", "1 MiB to 1 EiB", self.size_bytes));
        }
        if self.turn_ns > 1_000_000_000 {
            return Err(InvalidParameter::new("medium.turn_ns", "at most 1 s", self.turn_ns));
        }
        if let Some(rate) = self.rates.iter().find(|rate| !(1e3..=1e12).contains(*rate)) {
            return Err(InvalidParameter::new("medium.rates", "1 kB/s to 1 TB/s", rate));
        }
        if self.rates.is_empty() {
            return Err(InvalidParameter::new("medium.rates", "at least one", "none"));
        }
        self.seek.validate()
    }

    /// Time of a seek, in ns; none for no distance.
    pub(super) fn seek_ns(&self, from: u64, to: u64) -> f64 {
        let distance = self.distance(from, to);
        if distance == 0.0 { 0.0 } else { self.seek.time_ns(distance) }
    }

    /// Mean delay until the first sector is below the heads.
    pub(super) fn mean_rotation_ns(&self) -> f64 {
        self.turn_ns as f64 / 2.0
    }

    pub(super) fn distance(&self, from: u64, to: u64) -> f64 {
        from.abs_diff(to) as f64 / self.size_bytes as f64
    }

    /// What it takes to get from one place to another; nothing where that is the same.
    pub(super) fn seek(&self, from: u64, to: u64, random: &mut Random) -> Option<Positioning> {
        (from != to).then(|| Positioning {
            distance: self.distance(from, to),
            seek_ns: self.seek_ns(from, to),
            rotation_ns: random.unit() * self.turn_ns as f64,
        })
    }

    /// Time of a transfer.
    pub(super) fn transfer_ns(&self, pos: u64, bytes: u64) -> f64 {
        let part = (pos as f64 / self.size_bytes as f64 * self.rates.len() as f64) as usize;
        bytes as f64 / self.rates[part.min(self.rates.len() - 1)] * 1e9
    }
}
