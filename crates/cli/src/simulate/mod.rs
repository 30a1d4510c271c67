//! `iotrail-native simulate`: caches and devices for requests on standard input. `iotrail whatif` runs it; it is no verb
//! for people. The answer is JSON on standard output, or an Arrow IPC stream where there is one for each row.

mod accesses;
pub mod cache;
mod cached;
mod defrag;
mod device;
mod disk;
mod linux;

mod run;
mod stack;
mod steps;

use std::fmt::Display;
use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::reader::StreamReader;
use arrow_ipc::writer::StreamWriter;
use iotrail_sim::Op;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;

/// Arguments of `simulate`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Misses of caches
    Cache(cache::Args),
    /// Response times on other devices
    Device(device::Args),
    /// Response times on a device with caches of some sizes before it
    Cached(cached::Args),
    /// Response times on a device before and after the blocks of files are put one after the other
    Defrag(defrag::Args),
    /// Times of each request on one disk
    Disk(disk::Args),
    /// Blocks of each access that caches miss
    Accesses(accesses::Args),
    /// Times of steps that wait for each other and for disks
    Steps(steps::Args),
    /// How long a recorded program would take
    Run(run::Args),
    /// Throughput of a server's reads on today's Linux
    Linux(linux::Args),
    /// Throughput of a server's reads through read-ahead, scheduler and disk
    Stack(stack::Args),
}

/// Simulates.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        What::Cache(args) => cache::run(args),
        What::Device(args) => device::run(args),
        What::Cached(args) => cached::run(args),
        What::Defrag(args) => defrag::run(args),
        What::Disk(args) => disk::run(args),
        What::Accesses(args) => accesses::run(args),
        What::Steps(args) => steps::run(args),
        What::Run(args) => run::run(args),
        What::Linux(args) => linux::run(args),
        What::Stack(args) => stack::run(args),
    }
}

/// The operation of a number on standard input; none of others than 0 to 3.
pub fn op_of(number: i64) -> Option<Op> {
    [Op::Read, Op::Write, Op::Flush, Op::Trim].get(usize::try_from(number).ok()?).copied()
}

/// Prints an answer as a line of JSON.
pub fn print(answer: &impl Serialize) -> Result<ExitCode, Failure> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, answer)
        .map_err(std::io::Error::from)
        .and_then(|()| writeln!(out))
        .map_err(Failure::stdout)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints an answer for each line of standard input, which is JSON.
fn answer_lines<Q: DeserializeOwned, A: Serialize, E: Display>(
    answer: impl Fn(Q) -> Result<A, E>,
) -> Result<ExitCode, Failure> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for (number, line) in std::io::stdin().lock().lines().enumerate() {
        let failed = |error: &dyn Display| Failure::new(format!("stdin, line {}: {error}", number + 1));
        let line = line.map_err(|error| failed(&error))?;
        let question = serde_json::from_str(&line).map_err(|error| failed(&error))?;
        let answer = answer(question).map_err(|error| failed(&error))?;
        serde_json::to_writer(&mut out, &answer)
            .map_err(std::io::Error::from)
            .and_then(|()| writeln!(out))
            .map_err(Failure::stdout)?;
    }
    out.flush().map_err(Failure::stdout)?;
    Ok(ExitCode::SUCCESS)
}

/// The batches of standard input.
pub fn batches() -> Result<impl Iterator<Item = Result<RecordBatch, Failure>>, Failure> {
    let broken = |e| Failure::new(format!("stdin: not a whole Arrow IPC stream: {e}"));
    let reader = StreamReader::try_new(std::io::stdin().lock(), None).map_err(broken)?;
    Ok(reader.map(move |batch| batch.map_err(broken)))
}

/// Prints columns of one length as an Arrow IPC stream.
fn print_columns<const N: usize>(columns: [(&str, ArrayRef); N]) -> Result<ExitCode, Failure> {
    let failed = |error: arrow_schema::ArrowError| Failure::new(format!("cannot print the answer: {error}"));
    let batch = RecordBatch::try_from_iter_with_nullable(columns.map(|(name, values)| (name, values, true)));
    let batch = batch.map_err(failed)?;
    let mut out = StreamWriter::try_new(std::io::stdout().lock(), &batch.schema()).map_err(failed)?;
    out.write(&batch).and_then(|()| out.finish()).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
