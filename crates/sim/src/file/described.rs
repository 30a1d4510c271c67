//! What a device file describes: a device of some kind, with a cache before it or without.

use std::iter::Sum;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::error::FileError;
use super::reader::join;
use crate::array::{self, Array};
use crate::bounds;
use crate::cached::{self, Cached};
use crate::device::Device;
use crate::disk::{self, Disk};
use crate::fixed::{self, Fixed};
use crate::ssd::{self, Fill, Ssd};

/// What a device is.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// Requests take a fixed time.
    Fixed(fixed::Parameters),
    /// A hard disk.
    Disk(Box<disk::Parameters>),
    /// A flash drive, and what was written to it before.
    Ssd(Box<ssd::Parameters>, Option<Written>),
    /// Several devices as one.
    Array(array::Parameters, Vec<Described>),
}

/// What was written to a flash drive before time 0: the table `written`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// Share of its capacity, from 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// In which order.
    pub order: Fill,
}

/// What devices cost before they serve a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Bytes of tables of flash memory. The operating system gives memory only to what is written of them.
    pub table_bytes: u64,
    /// Steps that filling flash takes, each some tens of nanoseconds.
    pub filling_steps: u64,
}

impl Cost {
    /// The most that a device file may ask for: no machine has much more memory to spare, and nobody waits longer than minutes.
    pub const MOST: Self = Self { table_bytes: 16 << 30, filling_steps: 1 << 32 };
}

impl Sum for Cost {
    fn sum<I: Iterator<Item = Self>>(costs: I) -> Self {
        costs.fold(Self::default(), |sum, one| Self {
            table_bytes: sum.table_bytes.saturating_add(one.table_bytes),
            filling_steps: sum.filling_steps.saturating_add(one.filling_steps),
        })
    }
}

/// A cache before a device: the table `cache`.
#[derive(Clone, Debug, PartialEq)]
pub struct Before {
    /// What it is like.
    pub parameters: cached::Parameters,
    /// The device that is its medium; none of memory.
    pub medium: Option<Box<Described>>,
}

/// A device, and what stands before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Described {
    /// What it is.
    pub kind: Kind,
    /// The cache before it.
    pub cache: Option<Before>,
}

impl Described {
    /// The device, at rest.
    #[must_use]
    pub fn build(&self) -> Box<dyn Device> {
        let device: Box<dyn Device> = match &self.kind {
            Kind::Fixed(parameters) => Box::new(Fixed::new(parameters.clone())),
            Kind::Disk(parameters) => {
                Box::new(Disk::new((**parameters).clone()).expect("parameters were checked"))
            }
            Kind::Ssd(parameters, written) => {
                let mut ssd = Ssd::new((**parameters).clone()).expect("parameters were checked");
                if let Some(Written { share, order }) = written {
                    ssd.precondition(*share, *order).expect("the share was checked, and the drive is new");
                }
                Box::new(ssd)
            }
            Kind::Array(parameters, members) => {
                let members = members.iter().map(Self::build).collect();
                Box::new(Array::new(parameters, members).expect("parameters were checked"))
            }
        };
        let Some(Before { parameters, medium }) = &self.cache else { return device };
        let medium = medium.as_ref().map(|medium| medium.build());
        Box::new(Cached::new(parameters.clone(), medium, device).expect("parameters were checked"))
    }

    /// What the device costs before it serves a request.
    #[must_use]
    pub fn cost(&self) -> Cost {
        let own = match &self.kind {
            Kind::Fixed(_) | Kind::Disk(_) => Cost::default(),
            Kind::Ssd(parameters, written) => Cost {
                table_bytes: parameters.table_bytes(),
                filling_steps: written
                    .as_ref()
                    .map_or(0, |Written { share, order }| parameters.filling_steps(*share, *order)),
            },
            Kind::Array(_, members) => members.iter().map(Self::cost).sum(),
        };
        let medium = self.cache.as_ref().and_then(|before| before.medium.as_ref());
        medium.map(|medium| medium.cost()).into_iter().chain([own]).sum()
    }

    /// Bytes it stores.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        match &self.kind {
            Kind::Fixed(parameters) => parameters.capacity_bytes,
            Kind::Disk(parameters) => parameters.capacity_bytes,
            Kind::Ssd(parameters, _) => parameters.capacity(),
            Kind::Array(parameters, members) => parameters.capacity(&capacities(members)),
        }
    }

    /// Whether it has platters. A cache before it doesn't count.
    #[must_use]
    pub fn is_rotational(&self) -> bool {
        match &self.kind {
            Kind::Disk(_) => true,
            Kind::Array(_, members) => members.iter().any(Self::is_rotational),
            Kind::Fixed(_) | Kind::Ssd(..) => false,
        }
    }
}

fn capacities(devices: &[Described]) -> Vec<u64> {
    devices.iter().map(Described::capacity).collect()
}

impl Kind {
    /// Its name in files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fixed(_) => "fixed",
            Self::Disk(_) => "disk",
            Self::Ssd(..) => "ssd",
            Self::Array(..) => "array",
        }
    }

    pub(super) fn validate(&self, place: &str) -> Result<(), FileError> {
        let checked = match self {
            Self::Fixed(parameters) => parameters.validate(),
            Self::Disk(parameters) => parameters.validate(),
            Self::Ssd(parameters, written) => {
                if let Some(written) = written {
                    bounds::check(written).map_err(|error| FileError::of(&join(place, "written"), error))?;
                }
                parameters.validate()
            }
            Self::Array(parameters, members) => parameters.validate(&capacities(members)),
        };
        checked.map_err(|error| FileError::of(&join(place, self.name()), error))
    }
}
