//! `iotrail-native simulate cached`: recorded requests on a device with caches of some sizes before it.
//!
//! Standard input is what `simulate device` takes. Each device of the record gets a simulated one with a cache of its own.

use std::path::PathBuf;
use std::process::ExitCode;

use iotrail_sim::Device;
use iotrail_sim::cache::Policy;
use iotrail_sim::cached::{Parameters, Write};
use iotrail_sim::file::{Before, Described, DeviceFile};
use iotrail_sim::requests::{Arrivals, serve};
use serde::Serialize;

use super::cache::policy;
use super::device::{Outcome, fit, has_ends, read, simulated_outcome};
use crate::arguments::size;
use crate::emudisk::read_device;
use crate::failure::Failure;

/// Arguments of `simulate cached`.
#[derive(clap::Args)]
pub struct Args {
    /// Device file, or the name of one that comes with iotrail
    #[arg(long, value_name = "DEVICE")]
    on: PathBuf,
    /// Device that is the cache's medium; its own cache doesn't count
    #[arg(long, value_name = "DEVICE")]
    medium: Option<PathBuf>,
    /// Without a medium: ns of an access to memory
    #[arg(long, value_name = "NS", default_value_t = 0)]
    latency: u64,
    /// Without a medium: bytes per second of memory
    #[arg(long, value_name = "BYTES", default_value_t = 10_000_000_000)]
    rate: u64,
    /// Sizes of the cache; 0 is none
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = size, required = true)]
    size: Vec<u64>,
    /// Policy of the cache
    #[arg(long, value_parser = policy)]
    policy: Policy,
    /// Bytes of a block
    #[arg(long, value_name = "BYTES", default_value_t = 4096)]
    block: u64,
    /// Where writes go
    #[arg(long, value_parser = write)]
    write: Write,
    /// Wrap offsets that lie beyond the end of a device
    #[arg(long)]
    fold: bool,
}

fn write(name: &str) -> Result<Write, String> {
    match name {
        "back" => Ok(Write::Back),
        "through" => Ok(Write::Through),
        "around" => Ok(Write::Around),
        _ => Err(format!("expected back, through or around, found {name:?}")),
    }
}

#[derive(Serialize)]
struct OfSize {
    size_bytes: u64,
    /// Each request at its recorded time.
    arrivals_recorded: Outcome,
    /// Each request as long after the completion before it as in the record; null if no completion is known.
    arrivals_after_completions: Option<Outcome>,
}

#[derive(Serialize)]
struct Answer {
    device: String,
    /// None of memory.
    medium: Option<String>,
    requests: u64,
    devices: u64,
    sizes: Vec<OfSize>,
}

/// Reads, simulates and answers.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let file = read_device(&args.on)?;
    let medium = args.medium.as_deref().map(read_device).transpose()?;
    let described: Vec<Described> = args
        .size
        .iter()
        .map(|size| before(&args, &file, medium.as_ref(), *size))
        .collect::<Result<_, _>>()?;
    let (rows, requests, devices) = read()?;
    let requests = fit(&requests, file.device.capacity(), args.fold, &file.name)?;
    let outcome = |mut built: Vec<Box<dyn Device>>, arrivals| {
        let served = serve(&mut built, &requests, arrivals);
        simulated_outcome(&rows, &requests, &served, &built)
    };
    let of_size = |(size_bytes, described): (&u64, &Described)| {
        let device = described.build();
        let at_rest = || vec![device.clone(); devices.len()];
        OfSize {
            size_bytes: *size_bytes,
            arrivals_recorded: outcome(at_rest(), Arrivals::Recorded),
            arrivals_after_completions: has_ends(&rows)
                .then(|| outcome(at_rest(), Arrivals::AfterCompletions)),
        }
    };
    super::print(&Answer {
        device: file.name.clone(),
        medium: medium.map(|medium| medium.name),
        requests: rows.len() as u64,
        devices: devices.len() as u64,
        sizes: args.size.iter().zip(&described).map(of_size).collect(),
    })
}

/// The device with a cache of this size before it.
fn before(
    args: &Args,
    file: &DeviceFile,
    medium: Option<&DeviceFile>,
    size_bytes: u64,
) -> Result<Described, Failure> {
    let kind = file.device.kind.clone();
    if size_bytes == 0 {
        return Ok(Described { kind, cache: None });
    }
    let parameters = Parameters {
        policy: args.policy,
        size_bytes,
        block_bytes: args.block,
        write: args.write,
        admission: 1,
        admission_memory: None,
        latency_ns: medium.is_none().then_some(args.latency),
        rate_bytes_per_s: medium.is_none().then_some(args.rate),
    };
    let medium = medium.map(|medium| Box::new(medium.device.clone()));
    let capacity = medium.as_ref().map(|medium| medium.capacity());
    parameters
        .validate(capacity)
        .map_err(|error| Failure::new(format!("cache of {size_bytes} bytes: {error}")))?;
    Ok(Described { kind, cache: Some(Before { parameters, medium }) })
}
