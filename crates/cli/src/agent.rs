//! `iotrail agent`: one per machine, see `iotrail_agent`.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use iotrail_agent::source::Source;
use iotrail_agent::sources::ceph::settings::Collected;
use iotrail_agent::sources::ceph::{self, Ceph};
use iotrail_agent::sources::machine::Machine;
use iotrail_agent::sources::nfs::Nfs;
use iotrail_agent::sources::trails::Trails;
use iotrail_agent::{Config, Destination, End, Totals};
use iotrail_format::wire;
use iotrail_trail::seal::plain::read_secret;
use iotrail_trail::seal::session;

use crate::arguments::{node_name, size};
use crate::failure::Failure;

/// Arguments of `agent`.
#[derive(clap::Args)]
pub struct Args {
    /// The collector
    #[arg(short, long, value_name = "HOST:PORT", default_value_t = format!("127.0.0.1:{}", wire::PORT))]
    collector: String,
    /// File with the token that the collector asks for
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// File with the certificates (PEM) that vouch for the collector's; without, nothing is encrypted
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// Send the token unencrypted to another machine
    #[arg(long)]
    insecure: bool,
    /// Name of this machine [default: its host name and a part of its boot's id]
    #[arg(long, value_name = "NODE", value_parser = node_name)]
    node: Option<String>,
    /// Where this machine stands, from the outside in, as RACK/HOST [default: its host name]
    #[arg(long, value_name = "PLACE", value_parser = place)]
    place: Option<String>,
    /// Ceph's admin sockets: a folder or a pattern of names
    #[arg(long, value_name = "DIR|PATTERN", default_value = ceph::SOCKETS)]
    ceph: Vec<String>,
    /// Which of Ceph's requests to collect; with none, settings of its daemons stay as they are
    #[arg(long, value_name = "WHICH", value_enum, default_value_t = Requests::Sampled)]
    requests: Requests,
    /// What `--requests none` was called
    #[arg(long, hide = true, conflicts_with = "requests")]
    no_requests: bool,
    /// Send what recorders write too: a trail, or a folder of trails
    #[arg(long, value_name = "TRAIL|DIR")]
    trails: Vec<PathBuf>,
    /// Time between samples; of Ceph a second at most where its requests are sampled
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = every)]
    every: Duration,
    /// Folder for what waits while the collector is away
    /// [default: /var/lib/iotrail/agent as root, else ~/.local/state/iotrail/agent, and NODE in it]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Bytes that may wait there, as 256M; the oldest give way
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size)]
    spool: u64,
    /// Bytes a second to send at most, as 4M
    #[arg(long, value_name = "SIZE", default_value = "4M", value_parser = size)]
    rate: u64,
}

/// Requests that are collected besides counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Requests {
    /// One second of each minute, the same on all machines, each slow request, and bursts of 10 s
    Sampled,
    /// All of them: costs daemons a tenth of their requests a second where no CPU is idle
    All,
    /// None
    None,
}

/// Names from the outside in, the last one the host's.
fn place(text: &str) -> Result<String, String> {
    if text.split('/').all(|part| !part.trim().is_empty()) {
        Ok(text.to_owned())
    } else {
        Err("expected HOST or RACK/HOST, with a name in each part".to_owned())
    }
}

/// From ten times a second to once an hour.
fn every(text: &str) -> Result<Duration, String> {
    let every = humantime::parse_duration(text).map_err(|e| e.to_string())?;
    if (Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&every) {
        Ok(every)
    } else {
        Err("expected 100ms to 1h".to_owned())
    }
}

/// Whether HOST:PORT is on this machine.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
}

/// Runs until a signal ends it.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    // By its name: the process's own link goes on to lead to the old file when a new one takes its place.
    let program =
        std::env::current_exe().map_err(|e| Failure::new(format!("cannot find this program: {e}")))?;
    let node = args.node.clone().unwrap_or_else(session::node);
    let read = |path: &PathBuf| {
        fs::read_to_string(path).map_err(|e| Failure::new(format!("cannot read {}: {e}", path.display())))
    };
    let secret = |path: &PathBuf| {
        read_secret(path).map_err(|e| Failure::new(format!("cannot read {}: {e}", path.display())))
    };
    let token = args.token_file.as_ref().map(secret).transpose()?;
    if token.is_some() && args.tls_ca.is_none() && !args.insecure && !is_loopback(&args.collector) {
        return Err(Failure::new(format!(
            "--collector {}: the token would go there unencrypted",
            args.collector
        ))
        .hint("--tls-ca FILE, with the certificates that vouch for the collector's; or --insecure"));
    }
    let destination = Destination {
        address: args.collector.clone(),
        token,
        tls_ca: args.tls_ca.as_ref().map(read).transpose()?,
        rate: args.rate,
    };
    let totals = Arc::<Totals>::default();
    let state = match args.state {
        Some(state) => state,
        None => default_state()?.join(node.replace('/', "_")),
    };
    let place = args.place.clone().unwrap_or_else(session::host);
    let mut sources: Vec<Box<dyn Source>> =
        vec![Box::new(Machine::new(place.clone(), totals.clone())), Box::new(Nfs::new(place.clone()))];
    let burst = Arc::<AtomicBool>::default();
    let requests = if args.no_requests { Requests::None } else { args.requests };
    let options = ceph::Options {
        sockets: args.ceph,
        state: (requests != Requests::None).then(|| state.clone()),
        collected: if requests == Requests::All { Collected::All } else { Collected::Sampled },
        burst: burst.clone(),
        place,
    };
    sources.push(Box::new(Ceph::new(options).map_err(|e| Failure::new(e.to_string()))?));
    if !args.trails.is_empty() {
        sources.push(Box::new(Trails::new(args.trails, &state)));
    }
    let (every, spool) = (args.every, args.spool);
    let config = Config { node, destination, every, state, spool, sources, totals, burst };
    let end = iotrail_agent::run(config).map_err(|e| match e {
        iotrail_agent::Error::Taken { .. } => {
            Failure::new(e.to_string()).hint("end that one, or give this one another --node or --state")
        }
        _ => Failure::new(e.to_string()),
    })?;
    if end == End::Restart {
        // The same program, perhaps a newer file of it, goes on where this one was.
        let anew = |program: &Path| Command::new(program).args(std::env::args_os().skip(1)).exec();
        let error = anew(&program);
        iotrail_trail::say!("iotrail agent: cannot run {}: {error}; this version goes on", program.display());
        let error = anew(Path::new("/proc/self/exe"));
        return Err(Failure::new(format!("cannot begin anew: {error}")));
    }
    Ok(ExitCode::SUCCESS)
}

fn default_state() -> Result<PathBuf, Failure> {
    // SAFETY: geteuid always succeeds and touches no memory.
    if unsafe { libc::geteuid() } == 0 {
        return Ok("/var/lib/iotrail/agent".into());
    }
    let home = |name: &str, rest: &str| Some(PathBuf::from(std::env::var_os(name)?).join(rest));
    home("XDG_STATE_HOME", "iotrail/agent").or_else(|| home("HOME", ".local/state/iotrail/agent")).ok_or_else(
        || Failure::new("no folder for the agent's state: HOME isn't set").hint("say --state DIR"),
    )
}
