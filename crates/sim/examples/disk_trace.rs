//! Runs a trace through a disk: `disk_trace PARAMETERS.json TRACE [serial]`.
//!
//! The trace has a line for each request, in the order of arrival: arrival in ns, R or W, first byte, bytes. With `serial`, the
//! arrival is in ns since the completion of the request before. Prints for each, in the same order, ns from arrival to the
//! start of its service and from there to completion, and 1 where memory served it.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use iotrail_sim::device::run;
use iotrail_sim::disk::Disk;
use iotrail_sim::{Completion, Device, Id, Nanos, Op, Request};

fn parse(line: &str) -> Result<(Nanos, Request), Box<dyn Error>> {
    let mut fields = line.split_ascii_whitespace();
    let mut next = || fields.next().ok_or("expected four fields: arrival_ns R|W pos length");
    let arrival = next()?.parse()?;
    let op = match next()? {
        "R" => Op::Read,
        "W" => Op::Write,
        other => return Err(format!("expected R or W, found {other}").into()),
    };
    Ok((arrival, Request { op, pos: next()?.parse()?, length: next()?.parse()? }))
}

fn main() -> ExitCode {
    match simulate() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("disk_trace: error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn simulate() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(parameters), Some(trace)) = (arguments.next(), arguments.next()) else {
        return Err("usage: disk_trace PARAMETERS.json TRACE".into());
    };
    let mut disk = Disk::new(serde_json::from_str(&std::fs::read_to_string(parameters)?)?)?;
    let mut requests = Vec::new();
    for (number, line) in std::fs::read_to_string(&trace)?.lines().enumerate() {
        requests.push(parse(line).map_err(|error| format!("{trace}, line {}: {error}", number + 1))?);
    }
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut print = |arrival, completion: Completion| {
        let (wait, service) = (completion.issued - arrival, completion.done - completion.issued);
        writeln!(out, "{wait} {service} {}", u8::from(completion.cached))
    };
    if arguments.next().is_some_and(|mode| mode == "serial") {
        let mut now = 0;
        for (think, request) in requests {
            now += think;
            let completion = serve(&mut disk, now, request).ok_or("a request did not complete")?;
            print(now, completion)?;
            now = completion.done;
        }
    } else {
        let mut completions: Vec<Option<Completion>> = vec![None; requests.len()];
        run(&mut disk, requests.iter().copied(), |at, completion| completions[at] = Some(completion));
        for ((arrival, _), completion) in requests.iter().zip(completions) {
            print(*arrival, completion.ok_or("a request did not complete")?)?;
        }
    }
    Ok(out.flush()?)
}

/// Serves one request on a disk that has no other.
fn serve(disk: &mut Disk, now: Nanos, request: Request) -> Option<Completion> {
    let mut completions = Vec::new();
    disk.advance(now, &mut completions);
    disk.submit(now, Id(0), request);
    while completions.is_empty() {
        disk.advance(disk.next_event()?, &mut completions);
    }
    completions.pop()
}
