//! `iotrail-native clock`: this machine's name in trails and its clock, for trails that Python writes. It is no verb for
//! people; the answer is JSON.

use std::io::Write as _;
use std::process::ExitCode;

use iotrail_trail::seal::session::{epoch_offset, node};

use crate::failure::Failure;

/// Arguments of `clock`: none.
#[derive(clap::Args)]
pub struct Args {}

/// Prints the node, and what CLOCK_MONOTONIC lacks to the time of its trails, in ns.
pub fn run(_: Args) -> Result<ExitCode, Failure> {
    let answer = serde_json::json!({ "node": node(), "offset": epoch_offset() });
    writeln!(std::io::stdout(), "{answer}").map_err(Failure::stdout)?;
    Ok(ExitCode::SUCCESS)
}
