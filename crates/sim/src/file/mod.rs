//! Device files: TOML that describes a device, each value with its unit and source.
//!
//! ```toml
//! format = 1
//! kind = "fixed"
//! name = "a network volume"
//!
//! [fixed]
//! capacity = { value = 100, unit = "GB", source = "the provider's console" }
//! ```
//!
//! The table named like the kind has the fields of that kind's `Parameters`, without the unit at the end of their names: the
//! file's unit takes its place. `source` says where a value is from: a data sheet, a measurement, a fit, a guess.
//!
//! The table `cache` puts a cache before the device, in memory or in another device; an array has tables `member`. A device in
//! another is the name of one that comes with the program, or a table with `kind` and what belongs to it:
//!
//! ```toml
//! [cache]
//! policy = { value = "lru", source = "chosen" }
//! size = { value = 8, unit = "GB", source = "chosen" }
//! block = { value = 64, unit = "KiB", source = "chosen" }
//! write = { value = "back", source = "chosen" }
//! device = { device = { value = "sata-ssd", source = "comes with iotrail" } }
//! ```

mod described;
mod error;
mod measured;
mod reader;
mod schema;
#[cfg(test)]
mod tests;
mod units;
mod values;

use toml::{Table, Value};

pub use self::described::{Before, Cost, Described, Kind, Written};
pub use self::error::FileError;
pub use self::measured::Measured;
pub use self::schema::schema;
pub use self::values::Entry;

use self::error::show;
use self::reader::{Reader, text_of};
use crate::device::Device;

/// Version of the format that is read.
pub const FORMAT: i64 = 1;

/// Device files that come with the program: name and text.
pub const SHIPPED: [(&str, &str); 5] = [
    ("hdd-10k", include_str!("../../devices/hdd-10k.toml")),
    ("hdd-7200", include_str!("../../devices/hdd-7200.toml")),
    ("network-volume", include_str!("../../devices/network-volume.toml")),
    ("nvme-ssd", include_str!("../../devices/nvme-ssd.toml")),
    ("sata-ssd", include_str!("../../devices/sata-ssd.toml")),
];

/// A device file that was read and makes sense.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceFile {
    /// The device's name for people.
    pub name: String,
    /// What it is.
    pub device: Described,
    /// All values.
    pub entries: Vec<Entry>,
    /// The table `measured`: points behind the values; empty if there are none.
    pub measured: Measured,
}

impl DeviceFile {
    /// Reads a file.
    ///
    /// # Errors
    /// The first thing in it that is wrong.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(0, |span| text[..span.start.min(text.len())].lines().count());
            FileError::new(format!("line {}", line.max(1)), "TOML", error.message())
        })?;
        let format = table.get("format");
        if format.and_then(Value::as_integer) != Some(FORMAT) {
            return Err(FileError::new("format", FORMAT.to_string(), show(format)));
        }
        let name = text_of("", &table, "name")?.to_owned();
        let mut reader = Reader::default();
        let device = reader.device("", &table, &["format", "name", "measured"])?;
        check_cost(device.cost())?;
        let measured = table.get("measured").map(measured::points).transpose()?.unwrap_or_default();
        Ok(Self { name, device, entries: reader.entries, measured })
    }

    /// The device, at rest.
    #[must_use]
    pub fn build(&self) -> Box<dyn Device> {
        self.device.build()
    }

    /// Whether it has platters, so that the distance between requests matters.
    #[must_use]
    pub fn is_rotational(&self) -> bool {
        self.device.is_rotational()
    }
}

/// Refuses a device that no machine can hold, or that takes too long to be filled.
fn check_cost(cost: Cost) -> Result<(), FileError> {
    if cost.table_bytes > Cost::MOST.table_bytes {
        let gib = |bytes: u64| format!("{:.0} GiB", bytes as f64 / f64::from(1 << 30));
        let expected = format!(
            "flash whose tables take at most {} of memory, 12 bytes a page",
            gib(Cost::MOST.table_bytes)
        );
        return Err(FileError::new("blocks_per_plane", expected, gib(cost.table_bytes)));
    }
    if cost.filling_steps > Cost::MOST.filling_steps {
        let billions = |steps: u64| format!("{:.1} billion steps", steps as f64 / 1e9);
        let expected = format!(
            "flash that is filled in at most {}: a smaller share, or fewer pages or blocks",
            billions(Cost::MOST.filling_steps)
        );
        return Err(FileError::new("written.share", expected, billions(cost.filling_steps)));
    }
    Ok(())
}
