//! `iotrail-native simulate linux DEVICE`: what a server's reads ought to reach on today's Linux, for `iotrail sweep`.
//!
//! Standard input has a setting a line, as JSON; standard output gets an outcome a line, in the same order.

use std::path::PathBuf;
use std::process::ExitCode;

use iotrail_sim::linux::Setting;

use super::answer_lines;
use crate::emudisk::read_device;
use crate::failure::Failure;

/// Arguments of `simulate linux`.
#[derive(clap::Args)]
pub struct Args {
    /// Device file, or the name of one that comes with iotrail
    device: PathBuf,
}

/// Simulates.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let device = read_device(&args.device)?.build();
    answer_lines(|setting: Setting| setting.run(device.clone()))
}
