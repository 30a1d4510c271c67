//! `iotrail record`: run a program with the recorder beside it.

use std::process::ExitCode;

use crate::failure::Failure;

/// Arguments of `record`.
#[derive(clap::Args)]
pub struct Args {
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Runs the program and records it.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    Err(Failure::new(format!("cannot record {}: this build has no recorder yet", args.command[0])))
}
