//! `iotrail collect`: records of many machines into one trail, and to those who watch.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use iotrail_collector::{Options, server};

use crate::arguments::size;
use crate::failure::Failure;

/// Arguments of `collect`.
#[derive(clap::Args)]
pub struct Args {
    /// The trail to write; appended to if it exists
    #[arg(short, long, value_name = "X.trail")]
    output: PathBuf,
    /// Where to listen, for agents, OpenTelemetry and viewers alike; port 0 takes a free one
    /// [default: 127.0.0.1:4317 and 127.0.0.1:4318]
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<SocketAddr>,
    /// File with the token that agents and viewers must send
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Certificate chain, PEM
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// How often what came is written to the trail
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = humantime::parse_duration)]
    seal: Duration,
    /// How long samples wait to be shown in order
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = humantime::parse_duration)]
    window: Duration,
    /// Folder for what is not in the trail yet [default: X.trail.log]
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
    /// Threads that serve connections
    #[arg(long, value_name = "N", default_value_t = 1)]
    cores: usize,
    /// Largest message
    #[arg(long, value_name = "SIZE", default_value = "16M", value_parser = mebibytes)]
    max_message: usize,
    /// Memory for rows that are not in the trail yet, for messages being received, and for decoded spans, each
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = mebibytes)]
    memory: usize,
}

/// A size of a mebibyte or more.
fn mebibytes(text: &str) -> Result<usize, String> {
    let bytes = size(text)?;
    if bytes < 1 << 20 {
        return Err(format!("expected at least 1M, found {text}"));
    }
    usize::try_from(bytes).map_err(|_| "too large".to_owned())
}

/// Collects until SIGINT or SIGTERM.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let mut options = Options::new(args.output);
    if !args.listen.is_empty() {
        options.listen = args.listen;
    }
    options.token_file = args.token_file;
    options.tls = args.tls_cert.zip(args.tls_key);
    options.seal = args.seal;
    options.window = args.window;
    options.log = args.log;
    options.cores = args.cores;
    options.largest = args.max_message.min(1 << 30);
    options.memory = args.memory.max(args.max_message);
    let trail = options.trail.display().to_string();
    let ready = |addresses: &[SocketAddr]| {
        let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
        // Nobody needs to read it.
        let _ = writeln!(std::io::stdout(), "collecting into {trail} on {}", addresses.join(", "));
    };
    iotrail_collector::run(&options, || Ok(Box::pin(server::signal()?)), ready).map_err(|error| {
        let failure = Failure::new(error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    })?;
    Ok(ExitCode::SUCCESS)
}
