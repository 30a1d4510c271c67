//! `iotrail trail`: look at trails, check, compact and merge them.

use std::process::ExitCode;

use crate::failure::Failure;

/// Arguments of `trail`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {}

/// Runs the chosen verb.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.verb {}
}
