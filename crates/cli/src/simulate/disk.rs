//! `iotrail-native simulate disk PARAMETERS.json TRACE [serial]`: each request's times on one disk, for `iotrail device fit`,
//! which tries many parameters on one trace.
//!
//! The trace has a line for each request, in the order of arrival: arrival in ns, R or W, first byte, bytes. With `serial`,
//! the arrival is in ns since the completion of the request before. Prints for each, in the same order, ns from arrival to the
//! start of its service and from there to completion, and 1 where memory served it.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use iotrail_sim::device::{run as run_requests, run_in_turn};
use iotrail_sim::disk::Disk;
use iotrail_sim::{Completion, Nanos, Op, Request};

use crate::failure::Failure;

/// Arguments of `simulate disk`.
#[derive(clap::Args)]
pub struct Args {
    /// Parameters of the disk, JSON
    parameters: PathBuf,
    /// Requests
    trace: PathBuf,
    /// How requests follow each other
    #[arg(value_parser = ["serial"])]
    mode: Option<String>,
}

/// Simulates.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let read = |path: &PathBuf| {
        std::fs::read_to_string(path)
            .map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))
    };
    let parameters = serde_json::from_str(&read(&args.parameters)?)
        .map_err(|error| Failure::new(format!("{}: {error}", args.parameters.display())))?;
    let mut disk = Disk::new(parameters).map_err(|error| Failure::new(error.to_string()))?;
    let mut requests = Vec::new();
    for (number, line) in read(&args.trace)?.lines().enumerate() {
        let request = parse(line).ok_or_else(|| {
            let place = format!("{}, line {}", args.trace.display(), number + 1);
            Failure::new(format!("{place}: expected arrival_ns R|W pos length, found {line:?}"))
        })?;
        requests.push(request);
    }
    let served = if args.mode.is_some() {
        run_in_turn(&mut disk, requests.iter().copied())
    } else {
        at_arrival(&mut disk, &requests)
    };
    let served = served.ok_or_else(|| Failure::new("a request did not complete"))?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (arrival, Completion { issued, done, cached, .. }) in served {
        writeln!(out, "{} {} {}", issued - arrival, done - issued, u8::from(cached))
            .map_err(Failure::stdout)?;
    }
    out.flush().map_err(Failure::stdout)?;
    Ok(ExitCode::SUCCESS)
}

fn parse(line: &str) -> Option<(Nanos, Request)> {
    let mut fields = line.split_ascii_whitespace();
    let arrival = fields.next()?.parse().ok()?;
    let op = match fields.next()? {
        "R" => Op::Read,
        "W" => Op::Write,
        _ => return None,
    };
    let [pos, length] = [fields.next()?.parse().ok()?, fields.next()?.parse().ok()?];
    Some((arrival, Request { op, pos, length }))
}

type Served = Option<Vec<(Nanos, Completion)>>;

fn at_arrival(disk: &mut Disk, requests: &[(Nanos, Request)]) -> Served {
    let mut completions = vec![None; requests.len()];
    run_requests(disk, requests.iter().copied(), |at, completion| completions[at] = Some(completion));
    requests.iter().zip(completions).map(|((arrival, _), completion)| Some((*arrival, completion?))).collect()
}
