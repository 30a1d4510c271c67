//! `iotrail-native device`: device files, for `iotrail device`. It is no verb for people; answers are JSON.

use std::path::PathBuf;
use std::process::ExitCode;

use iotrail_sim::file::{DeviceFile, Measured, SHIPPED, schema};
use serde::Serialize;

use crate::emudisk::read_device;
use crate::failure::Failure;
use crate::probe;
use crate::simulate::print;

/// Arguments of `device`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Devices that come with iotrail
    List,
    /// The values of a device file
    Show {
        /// Device file, or the name of one that comes with iotrail
        device: PathBuf,
    },
    /// The JSON Schema of device files
    Schema,
    /// Do requests on a file or block device and time each, as stdin says
    Probe(probe::Args),
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    device: String,
    capacity: u64,
}

#[derive(Serialize)]
struct Shown {
    device: String,
    kind: &'static str,
    capacity: u64,
    values: Vec<Value>,
    /// Points behind the values: table, column, numbers.
    measured: Measured,
}

#[derive(Serialize)]
struct Value {
    key: String,
    value: toml::Value,
    unit: Option<String>,
    source: String,
    /// Standard error, in the unit of the value; null if it isn't known.
    error: Option<toml::Value>,
}

/// Answers.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        What::Probe(args) => probe::run(args),
        What::Schema => print(&schema()),
        What::List => {
            let listed = |(name, _): &(&'static str, &str)| {
                let file = read_device(name.as_ref())?;
                Ok(Listed { name, capacity: file.device.capacity(), device: file.name })
            };
            print(&SHIPPED.iter().map(listed).collect::<Result<Vec<_>, Failure>>()?)
        }
        What::Show { device } => {
            let file = read_device(&device)?;
            let DeviceFile { name, device, entries, measured } = file;
            let values = entries.into_iter().map(|entry| Value {
                key: entry.key,
                value: entry.value,
                unit: entry.unit,
                source: entry.source,
                error: entry.error,
            });
            print(&Shown {
                device: name,
                kind: device.kind.name(),
                capacity: device.capacity(),
                values: values.collect(),
                measured,
            })
        }
    }
}
