//! `iotrail-native`: the verbs that touch a system, on machines without Python too.
//!
//! One module a verb; each has its arguments and `run`. Exit codes: 0 done, 1 an error (a message of a
//! few lines on stderr), 2 wrong usage, and for `record` that of the program (`record --help` says more).

mod agent;
mod arguments;
mod causal;
mod clock;
mod closing;
mod collect;
mod device;
mod emudisk;
mod failure;
mod generate;
mod host;
mod human;
mod ingest;
mod kernel;
mod memory;
mod model;
mod probe;
mod program;
mod prune;
mod record;
mod replay;
mod sampler;
mod schema;
mod simulate;
mod strace;
mod streams;
mod throttle;
mod trail;
mod types;
mod worker;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// Record a program's I/O, replay it, and keep the trails it makes.
#[derive(Parser)]
#[command(name = "iotrail-native", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Run a program and record its I/O
    #[command(after_help = record::STATUS)]
    Record(record::Args),
    /// Run the I/O of a trail on other storage, and record it
    Replay(replay::Args),
    /// Run the requests of a workload model, or of a micro-benchmark, on storage
    Generate(Box<generate::Args>),
    /// Sample this machine and its storage systems, and send the samples to a collector
    Agent(agent::Args),
    /// Collect records of many machines into one trail, and show them live
    Collect(collect::Args),
    /// Serve a disk that has the response times of a simulated device
    Emudisk(emudisk::Args),
    /// Inspect, check, compact, merge and prune trails
    Trail(trail::Args),
    /// Switch record types of a running program on and off
    Types(types::Args),
    /// Create a trail from Arrow streams
    Ingest(ingest::Args),
    /// Make rows of strace's output, for `iotrail import`
    #[command(hide = true)]
    Strace(strace::Args),
    /// Read device files, for `iotrail device`
    #[command(hide = true)]
    Device(device::Args),
    /// Fit and read workload models, and draw from them, for `iotrail model` and `iotrail generate`
    #[command(hide = true)]
    Model(model::Args),
    /// Simulate caches and devices, for `iotrail whatif`
    #[command(hide = true)]
    Simulate(simulate::Args),
    /// Print this machine's name and clock in trails, for `iotrail sweep`
    #[command(hide = true)]
    Clock(clock::Args),
    /// Read streams of a file or device as a server's handlers do, for `iotrail sweep`
    #[command(hide = true)]
    Streams(streams::Args),
    /// Print the tables of a trail and the calls iotrail knows, as JSON
    Schema(schema::Args),
}

/// Set by the Python package to its version, for [`check_package`].
const PACKAGE_VERSION: &str = "IOTRAIL_PACKAGE_VERSION";

/// Says on stderr if the Python package that runs this binary is of another version. What runs below doesn't get the
/// variable.
fn check_package() {
    let ours = env!("CARGO_PKG_VERSION");
    let Some(theirs) = std::env::var_os(PACKAGE_VERSION) else { return };
    // SAFETY: no other thread runs yet.
    unsafe { std::env::remove_var(PACKAGE_VERSION) };
    if theirs != ours {
        let (path, theirs) = (std::env::current_exe().unwrap_or_default(), theirs.to_string_lossy());
        iotrail_trail::say!(
            "iotrail: warning: {} is version {ours}, the Python package {theirs}",
            path.display()
        );
        iotrail_trail::say!("  hint: in a checkout run `make`, else install iotrail again");
    }
}

fn main() -> ExitCode {
    check_package();
    let arguments = Arguments::parse();
    if matches!(
        arguments.verb,
        Verb::Trail(_)
            | Verb::Types(_)
            | Verb::Strace(_)
            | Verb::Device(_)
            | Verb::Model(_)
            | Verb::Simulate(_)
            | Verb::Clock(_)
            | Verb::Schema(_)
    ) {
        // What these verbs print may go to `head`: they end then like other programs, and not by a panic. Verbs that
        // record or serve go on.
        // SAFETY: no other thread runs yet.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    }
    let result = match arguments.verb {
        Verb::Record(args) => record::run(args),
        Verb::Replay(args) => replay::run(args),
        Verb::Generate(args) => generate::run(&args),
        Verb::Agent(args) => agent::run(args),
        Verb::Collect(args) => collect::run(args),
        Verb::Emudisk(args) => emudisk::run(args),
        Verb::Trail(args) => trail::run(args),
        Verb::Types(args) => types::run(args),
        Verb::Ingest(args) => ingest::run(args),
        Verb::Strace(args) => strace::run(args),
        Verb::Device(args) => device::run(args),
        Verb::Streams(args) => streams::run(args),
        Verb::Model(args) => model::run(args),
        Verb::Simulate(args) => simulate::run(args),
        Verb::Clock(args) => clock::run(args),
        Verb::Schema(args) => schema::run(args),
    };
    result.unwrap_or_else(|failure: Failure| {
        use std::io::Write as _;
        let _ = write!(std::io::stderr(), "{failure}");
        ExitCode::FAILURE
    })
}
