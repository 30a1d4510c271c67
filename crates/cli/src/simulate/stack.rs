//! `iotrail-native simulate stack MEDIUM.json`: what a server's reads reach on a simulated system, for `iotrail sweep`.
//!
//! Standard input has a setting a line, as JSON; standard output gets an outcome a line, in the same order.

use std::io::{BufRead as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use iotrail_sim::stack::{Medium, Setting};

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
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let failed =
            |error: &dyn std::fmt::Display| Failure::new(format!("stdin, line {}: {error}", number + 1));
        let line = line.map_err(|error| failed(&error))?;
        let setting: Setting = serde_json::from_str(&line).map_err(|error| failed(&error))?;
        let outcome = setting.run(&medium).map_err(|error| failed(&error))?;
        serde_json::to_writer(&mut out, &outcome)
            .map_err(std::io::Error::from)
            .and_then(|()| writeln!(out))
            .map_err(Failure::stdout)?;
    }
    out.flush().map_err(Failure::stdout)?;
    Ok(ExitCode::SUCCESS)
}
