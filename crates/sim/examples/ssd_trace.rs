//! Runs a trace through a simulated SSD and prints response times and the speed of the simulation.
//!
//! `cargo run --release -p iotrail-sim --example ssd_trace -- TRACE [NAME=VALUE ...]`
//!
//! A line of the trace is `ARRIVAL_NS OP POS LENGTH`, with op `read`, `write`, `flush` or `trim`. Values:
//! `depth=N` keeps N requests in flight instead of submitting each at its arrival; `full=SHARE` preconditions with random
//! writes, `sequential=SHARE` with one write of each page; `buffer=BYTES`, `buffer_rate=BYTES_PER_SECOND`,
//! `mapping=ENTRIES`, `gc=exclusive`, `interleaving=off`, `planes=single`, `queue=N`, `op=SHARE`, `channels=N`, `chips=N`
//! (per channel), `blocks=N` (per plane), `pages=N` (per block), `threshold=N` and `hard=N` (blocks) and `choices=N` (blocks
//! of which the emptiest is cleaned) change parameters; `log=PATH` writes the response times in ns, a line a request.

use std::collections::VecDeque;
use std::error::Error;
use std::str::FromStr;
use std::time::Instant;

use iotrail_sim::ssd::{Fill, Parameters, Priority, Ssd, Victim};
use iotrail_sim::{Completion, Device, Id, Nanos, Op, Request, device};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("expected a trace file")?;
    let (mut parameters, mut depth, mut fill, mut log) = (Parameters::default(), None, None, None);
    for argument in arguments {
        let (name, value) =
            argument.split_once('=').ok_or_else(|| format!("expected NAME=VALUE: {argument}"))?;
        match name {
            "depth" => depth = Some(parse::<usize>(name, value)?),
            "full" => fill = Some((parse(name, value)?, Fill::Random)),
            "sequential" => fill = Some((parse(name, value)?, Fill::Sequential)),
            "buffer" => parameters.write_buffer_bytes = parse(name, value)?,
            "buffer_rate" => parameters.buffer_rate_bytes_per_s = parse(name, value)?,
            "mapping" => parameters.mapping_cache_entries = Some(parse(name, value)?),
            "gc" => parameters.gc_priority = Priority::Exclusive,
            "interleaving" => parameters.die_interleaving = false,
            "planes" => parameters.multi_plane = false,
            "queue" => parameters.queue_depth = parse(name, value)?,
            "op" => parameters.over_provisioning = parse(name, value)?,
            "channels" => parameters.channels = parse(name, value)?,
            "chips" => parameters.chips_per_channel = parse(name, value)?,
            "pages" => parameters.pages_per_block = parse(name, value)?,
            "blocks" => parameters.blocks_per_plane = parse(name, value)?,
            "threshold" => parameters.gc_threshold_blocks = parse(name, value)?,
            "choices" => parameters.victim = Victim::RandomGreedy(parse(name, value)?),
            "hard" => parameters.gc_hard_threshold_blocks = parse(name, value)?,
            "log" => log = Some(value.to_owned()),
            _ => return Err(format!("unknown value: {name}").into()),
        }
    }
    let requests = read_trace(&std::fs::read_to_string(&path)?)?;
    let mut ssd = Ssd::new(parameters)?;
    if let Some((share, fill)) = fill {
        let started = Instant::now();
        ssd.precondition(share, fill)?;
        println!("preconditioned in {:.3} s", started.elapsed().as_secs_f64());
    }
    let mut responses = vec![0; requests.len()];
    let started = Instant::now();
    let mut record = |index: usize, since: Nanos, completion: Completion| {
        responses[index] = completion.done - since;
    };
    let end = match depth {
        None => device::run(&mut ssd, requests.iter().copied(), |index, completion| {
            record(index, requests[index].0, completion);
        }),
        Some(depth) => run_at_depth(&mut ssd, &requests, depth, record),
    };
    let elapsed = started.elapsed().as_secs_f64();
    println!(
        "{:5} {:>9} {:>12} {:>12} {:>12} {:>12}",
        "op", "requests", "mean_ns", "p50_ns", "p99_ns", "max_ns"
    );
    for (name, op) in [("read", Op::Read), ("write", Op::Write), ("flush", Op::Flush), ("trim", Op::Trim)] {
        let of_op = requests.iter().zip(&responses).filter(|((_, request), _)| request.op == op);
        let mut times: Vec<Nanos> = of_op.map(|(_, &time)| time).collect();
        if times.is_empty() {
            continue;
        }
        times.sort_unstable();
        let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
        let quantile = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let (p50, p99, max) = (quantile(0.5), quantile(0.99), quantile(1.0));
        println!("{name:5} {:9} {mean:12.0} {p50:12} {p99:12} {max:12}", times.len());
    }
    let counters = ssd.counters();
    println!(
        "virtual time {:.6} s, write amplification {:.4}",
        end as f64 / 1e9,
        counters.write_amplification().unwrap_or(0.0)
    );
    println!("{counters:?}");
    if let Some(log) = log {
        std::fs::write(log, responses.iter().map(|time| format!("{time}\n")).collect::<String>())?;
    }
    println!("simulated {:.0} requests/s in {elapsed:.3} s", requests.len() as f64 / elapsed);
    Ok(())
}

fn parse<Value: FromStr>(name: &str, value: &str) -> Result<Value, String> {
    value.parse().map_err(|_| format!("{name}: expected a number, found {value}"))
}

fn read_trace(text: &str) -> Result<Vec<(Nanos, Request)>, String> {
    let read_line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let arrival = fields.next()?.parse().ok()?;
        let op = match fields.next()? {
            "read" => Op::Read,
            "write" => Op::Write,
            "flush" => Op::Flush,
            "trim" => Op::Trim,
            _ => return None,
        };
        Some((
            arrival,
            Request { op, pos: fields.next()?.parse().ok()?, length: fields.next()?.parse().ok()? },
        ))
    };
    let read = |(at, line)| {
        read_line(line).ok_or_else(|| format!("line {}: expected ARRIVAL_NS OP POS LENGTH: {line}", at + 1))
    };
    text.lines().enumerate().map(read).collect()
}

/// Keeps `depth` requests in flight; arrival times don't matter. Returns the time of the last completion.
fn run_at_depth(
    ssd: &mut Ssd,
    requests: &[(Nanos, Request)],
    depth: usize,
    mut completed: impl FnMut(usize, Nanos, Completion),
) -> Nanos {
    let mut submitted: Vec<Nanos> = Vec::with_capacity(requests.len());
    let (mut completions, mut now) = (Vec::new(), 0);
    let mut waiting: VecDeque<_> = requests.iter().map(|&(_, request)| request).collect();
    let mut submit = |ssd: &mut Ssd, submitted: &mut Vec<Nanos>, now| {
        if let Some(request) = waiting.pop_front() {
            ssd.submit(now, Id(submitted.len() as u64), request);
            submitted.push(now);
        }
    };
    for _ in 0..depth {
        submit(ssd, &mut submitted, now);
    }
    while let Some(next) = ssd.next_event() {
        now = next;
        ssd.advance(now, &mut completions);
        for completion in completions.drain(..) {
            let index = completion.id.0 as usize;
            completed(index, submitted[index], completion);
            submit(ssd, &mut submitted, now);
        }
    }
    now
}
