//! Runs a trace through a disk: `disk_trace PARAMETERS.json TRACE`.
//!
//! The trace has a line for each request, in the order of arrival: arrival in ns, R or W, first byte, bytes. Prints for each,
//! in the same order, ns from arrival to the start of its service and from there to completion, and 1 where memory served it.

use std::error::Error;
use std::io::Write;

use iotrail_sim::device::run;
use iotrail_sim::disk::Disk;
use iotrail_sim::{Completion, Nanos, Op, Request};

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

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(parameters), Some(trace)) = (arguments.next(), arguments.next()) else {
        return Err("usage: disk_trace PARAMETERS.json TRACE".into());
    };
    let mut disk = Disk::new(serde_json::from_str(&std::fs::read_to_string(parameters)?)?)?;
    let mut requests = Vec::new();
    for (number, line) in std::fs::read_to_string(&trace)?.lines().enumerate() {
        requests.push(parse(line).map_err(|error| format!("{trace}, line {}: {error}", number + 1))?);
    }
    let mut completions: Vec<Option<Completion>> = vec![None; requests.len()];
    run(&mut disk, requests.iter().copied(), |at, completion| completions[at] = Some(completion));
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for ((arrival, _), completion) in requests.iter().zip(completions) {
        let completion = completion.ok_or("a request did not complete")?;
        let (wait, service) = (completion.issued - arrival, completion.done - completion.issued);
        writeln!(out, "{wait} {service} {}", u8::from(completion.cached))?;
    }
    Ok(out.flush()?)
}
