//! `iotrail-native simulate`: caches and devices for requests on standard input. `iotrail whatif` runs it; it is no verb
//! for people. The answer is JSON on standard output.

mod cache;
mod cached;
mod device;
mod disk;

use std::io::Write as _;
use std::process::ExitCode;

use serde::Serialize;

use crate::failure::Failure;

/// Arguments of `simulate`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Misses of caches
    Cache(cache::Args),
    /// Response times on other devices
    Device(device::Args),
    /// Response times on a device with caches of some sizes before it
    Cached(cached::Args),
    /// Times of each request on one disk
    Disk(disk::Args),
}

/// Simulates.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        What::Cache(args) => cache::run(args),
        What::Device(args) => device::run(args),
        What::Cached(args) => cached::run(args),
        What::Disk(args) => disk::run(args),
    }
}

/// Prints an answer as a line of JSON.
pub fn print(answer: &impl Serialize) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, answer)
        .map_err(std::io::Error::from)
        .and_then(|()| writeln!(out))
        .map_err(Failure::stdout)?;
    Ok(ExitCode::SUCCESS)
}
