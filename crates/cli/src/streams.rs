//! `iotrail-native streams`: a server's reads of a file or block device, measured. `iotrail sweep` runs it; it is no verb for
//! people. It only reads; the answer is a line of JSON.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use iotrail_replay::Handlers;

use crate::failure::Failure;
use crate::simulate::print;

/// Arguments of `streams`.
#[derive(clap::Args)]
pub struct Args {
    /// File or block device
    target: PathBuf,
    /// Handlers that read
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    concurrency: u32,
    /// Bytes of a stream
    #[arg(long, default_value_t = 1 << 20, value_parser = clap::value_parser!(u64).range(512..))]
    stream: u64,
    /// Bytes of a stream that a handler reads before it turns to its other stream [default: the stream's]
    #[arg(long, value_parser = clap::value_parser!(u64).range(512..))]
    run: Option<u64>,
    /// Bytes of a read
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u64).range(512..=64 << 20))]
    read: u64,
    /// CPU time for each MiB, ns
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=1_000_000_000))]
    think: u64,
    /// Part of the target in which streams are, from its begin
    #[arg(long, default_value_t = 1.0)]
    span: f64,
    /// Read past the page cache
    #[arg(long)]
    direct: bool,
    /// How long is counted
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// How long is read before
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// Seed of places
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Reads.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let run = args.run.unwrap_or(args.stream);
    let wrong = |name: &str, expected: &str, found: &dyn std::fmt::Display| {
        Failure::new(format!("--{name}: expected {expected}, found {found}"))
    };
    if run > args.stream {
        return Err(wrong("run", "at most the bytes of a stream", &run));
    }
    for (name, bytes) in [("stream", args.stream), ("run", run)] {
        if !bytes.is_multiple_of(args.read) {
            return Err(wrong(name, &format!("a multiple of --read, {}", args.read), &bytes));
        }
    }
    if args.direct && !args.read.is_multiple_of(512) {
        return Err(wrong("read", "a multiple of 512 with --direct", &args.read));
    }
    if !(args.span > 0.0 && args.span <= 1.0) {
        return Err(wrong("span", "above 0, at most 1", &args.span));
    }
    let time = |name: &str, seconds: f64| match Duration::try_from_secs_f64(seconds) {
        Ok(time) if seconds <= 86_400.0 => Ok(time),
        _ => Err(wrong(name, "0 to 86400 seconds", &seconds)),
    };
    let handlers = Handlers {
        concurrency: args.concurrency,
        stream_bytes: args.stream,
        run_bytes: run,
        read_bytes: args.read,
        think_ns_per_mib: args.think,
        span: args.span,
        direct: args.direct,
    };
    let read = handlers
        .run(&args.target, time("warm-up", args.warm_up)?, time("seconds", args.seconds)?, args.seed)
        .map_err(|error| Failure::new(format!("cannot read {}: {error}", args.target.display())))?;
    print(&read)
}
