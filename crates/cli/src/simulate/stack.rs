//! `iotrail-native simulate stack MEDIUM.json`: what a server's reads reach on a simulated system, for `iotrail sweep`.
//!
//! Standard input has a setting a line, as JSON; standard output gets an outcome a line, in the same order.

use std::path::PathBuf;
use std::process::ExitCode;

use iotrail_sim::stack::{Medium, Setting};

use super::answer_lines;
use crate::failure::Failure;

/// Arguments of `simulate stack`.
#[derive(clap::Args)]
pub struct Args {
    /// The disk, JSON
    medium: PathBuf,
}

/// Simulates.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let path = args.medium.display().to_string();
    let text = std::fs::read_to_string(&args.medium)
        .map_err(|error| Failure::new(format!("cannot read {path}: {error}")))?;
    let medium: Medium =
        serde_json::from_str(&text).map_err(|error| Failure::new(format!("{path}: {error}")))?;
    answer_lines(|setting: Setting| setting.run(&medium))
}
