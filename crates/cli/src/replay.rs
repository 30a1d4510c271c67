//! `iotrail replay`: does what a trail recorded on other storage, and records that.
//!
//! Two processes: this one makes the plan, looks whether the place may be used, makes the files the replay
//! needs and runs the sealer; a worker, the same binary again, does the operations and posts them, so that
//! the trail of a replay holds them and nothing else.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{IsTerminal as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{FromRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use iotrail_format::schema::RECORDING;
use iotrail_format::segment::SESSION_ENV;
use iotrail_replay::{
    Allowed, Engine, Links, Mapping, Meeting, Mode, Options, Parts, Place, Plan, has_mark, mark, plan,
    plan_with_causality, prepare, run as replay,
};
use iotrail_trail::{TrailReader, TrailWriter};

use crate::failure::Failure;
use crate::host::Host;
use crate::human;
use crate::worker::{Outcome, Recording, exit_code, pending, stop_on_signals};

/// Parts of a replay, at most.
const MOST_PARTS: u32 = 1000;

/// Arguments of `replay`.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("place").required(true).args(["root", "target", "map"]))]
pub struct Args {
    /// Trail to replay
    #[arg(value_name = "X.trail")]
    trail: PathBuf,
    /// Replay in this directory: recorded paths lie below it. It must be new, empty, or from an earlier replay
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Replay a trace of one device on this file or block device
    #[arg(long, value_name = "FILE")]
    target: Option<PathBuf>,
    /// Replay a trace of several devices: one --map each, as /dev/sda=FILE, or HOST:/dev/sda=FILE if several machines
    /// have a device of that name
    #[arg(long, value_name = "DEVICE=FILE", value_parser = mapping)]
    map: Vec<Mapping>,
    /// When an operation starts
    #[arg(long, value_enum, default_value_t = When::Think)]
    mode: When,
    /// How requests reach the kernel
    #[arg(long, value_enum, default_value_t = How::Psync)]
    engine: How,
    /// Multiply recorded times by this factor: 2 is half as fast
    #[arg(long, value_name = "F", default_value_t = 1.0, value_parser = factor)]
    scale: f64,
    /// Multiply what threads computed by this factor, with --mode compute or causal: 0.5 is a processor twice as fast
    #[arg(long, value_name = "F", default_value_t = 1.0, value_parser = factor)]
    scale_compute: f64,
    /// Replay this part of the threads (2/3: the second of three), with --mode causal; the others run on other machines
    #[arg(long, value_name = "K/N", value_parser = part, requires = "meet")]
    part: Option<(u32, u32)>,
    /// Where the parts meet: an address and port on which part 1 listens
    #[arg(long, value_name = "HOST:PORT", requires = "part")]
    meet: Option<String>,
    /// Descriptors of the connections to the other parts
    #[arg(long, hide = true)]
    links: Vec<i32>,
    /// Maximum requests in flight for each recorded thread of a block trace [default: 32 with --mode timed, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    depth: Option<u16>,
    /// Trail of the replay [default: X.replay.trail in the working directory]
    #[arg(short, long, value_name = "Y.trail")]
    output: Option<PathBuf>,
    /// Overwrite the output if it exists
    #[arg(long)]
    force: bool,
    /// Create input files sparse, without data
    #[arg(long)]
    sparse: bool,
    /// Write zeros instead of incompressible data
    #[arg(long)]
    zeros: bool,
    /// Open targets with O_DIRECT
    #[arg(long, conflicts_with = "root")]
    direct: bool,
    /// Wrap offsets that lie beyond the end of a target
    #[arg(long, conflicts_with = "root")]
    fold: bool,
    /// Allow the replay to overwrite data on the targets
    #[arg(long, conflicts_with = "root")]
    overwrite: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Write the result to this file instead of stdout
    #[arg(long, value_name = "FILE", hide = true)]
    announce: Option<PathBuf>,
    /// Do the operations; the session is in the environment
    #[arg(long, hide = true)]
    worker: bool,
}

/// [`Mode`] on the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
enum When {
    /// As fast as possible: when the previous operation of its thread is done
    Afap,
    /// Closed loop: after the recorded think time since the previous operation of its thread
    Think,
    /// Open loop: at its recorded time
    Timed,
    /// Closed loop: after what its thread computed; nobody waits for another (record --causal)
    Compute,
    /// Closed loop: after what its thread computed, and what it waited for in other threads (record --causal)
    Causal,
}

/// [`Engine`] on the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
pub(crate) enum How {
    /// Blocking system calls
    Psync,
    /// One io_uring per recorded thread, for block traces
    #[value(name = "io_uring")]
    IoUring,
}

impl From<How> for Engine {
    fn from(how: How) -> Self {
        match how {
            How::Psync => Self::Psync,
            How::IoUring => Self::IoUring,
        }
    }
}

impl From<iotrail_replay::Error> for Failure {
    fn from(error: iotrail_replay::Error) -> Self {
        let failure = Self::new(error.to_string());
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

pub(crate) fn factor(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|factor: &f64| factor.is_finite() && *factor > 0.0)
        .ok_or_else(|| "expected a number above 0, such as 2 or 0.5".into())
}

/// A part from 0, and how many there are.
fn part(text: &str) -> Result<(u32, u32), String> {
    let numbers =
        text.split_once('/').and_then(|(k, n)| Some((k.parse::<u32>().ok()?, n.parse::<u32>().ok()?)));
    match numbers {
        Some((k, n)) if (2..=MOST_PARTS).contains(&n) && (1..=n).contains(&k) => Ok((k - 1, n)),
        _ => Err(format!("expected K/N, such as 1/2, with K from 1 to N and N from 2 to {MOST_PARTS}")),
    }
}

/// A device and its target.
fn mapping(text: &str) -> Result<Mapping, String> {
    let (device, target) = text.split_once('=').ok_or("expected DEVICE=FILE, such as /dev/sda=/dev/loop0")?;
    if device.is_empty() || target.is_empty() {
        return Err("expected DEVICE=FILE, such as /dev/sda=/dev/loop0".into());
    }
    Ok(Mapping { device: Some(device.into()), target: target.into() })
}

/// Whether the trail's times mean anything: an importer says if its trace had none.
fn has_times(trail: &Path, plan: &Plan) -> Result<bool, Failure> {
    let facts = TrailReader::open(trail)?.small(&RECORDING, &[], &["name", "value"])?;
    let is_none = |name: &Option<String>, value: &Option<String>| {
        name.as_deref() == Some("time_unit") && value.as_deref() == Some("none")
    };
    let made_up = facts.iter().any(|row| is_none(&row.texts[0], &row.texts[1]));
    let ops: usize = plan.threads.iter().map(|thread| thread.ops.len()).sum();
    Ok(!made_up && (plan.length != 0 || ops <= 1))
}

/// Replays.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let plan = match args.mode {
        When::Compute | When::Causal => plan_with_causality(&args.trail)?,
        _ => plan(&args.trail)?,
    };
    if plan.threads.iter().all(|thread| thread.ops.is_empty()) {
        return Err(iotrail_replay::Error::Empty { path: args.trail }.into());
    }
    if matches!(args.mode, When::Causal) {
        plan.check_waits(&args.trail)?;
    }
    let parts = match args.part {
        None => None,
        Some(_) if !matches!(args.mode, When::Causal) => {
            return Err(Failure::new("--part needs --mode causal: in other modes threads wait for nobody")
                .hint("each machine can replay a trail of its own"));
        }
        Some((mine, count)) => Some(Parts::of(&args.trail, &plan, mine, count)?),
    };
    if args.scale_compute != 1.0 && !matches!(args.mode, When::Compute | When::Causal) {
        return Err(Failure::new(
            "--scale-compute is for what threads computed, which only --mode compute and causal repeat",
        )
        .hint("--scale multiplies all recorded times"));
    }
    if matches!(args.mode, When::Timed) && !has_times(&args.trail, &plan)? {
        return Err(Failure::new(format!(
            "{} has no times: --mode timed can't replay it",
            args.trail.display()
        ))
        .hint("--mode afap replays its operations in their order, as fast as possible"));
    }
    if matches!((args.engine, args.mode), (How::IoUring, When::Think | When::Compute | When::Causal)) {
        return Err(Failure::new(
            "think times are between calls that wait, which requests to an io_uring don't",
        )
        .hint("--engine psync, or --mode timed or afap"));
    }
    Engine::from(args.engine).check(&plan)?;
    let output = output(&args);
    // The worker's parent has looked at the content already.
    let allowed = Allowed { fold: args.fold, overwrite: args.overwrite || args.worker };
    let place = match (&args.root, &args.target) {
        (Some(root), _) => Place::root(root, &[&args.trail, &output])?,
        (None, Some(target)) => {
            let only = Mapping { device: None, target: target.clone() };
            Place::targets(&[only], &plan, allowed)?
        }
        (None, None) => Place::targets(&args.map, &plan, allowed)?,
    };
    if args.worker { work(&args, &plan, &place, parts) } else { host(&args, &plan, &place, parts, &output) }
}

/// Where the trail of the replay goes.
fn output(args: &Args) -> PathBuf {
    args.output.clone().unwrap_or_else(|| {
        let mut name = args.trail.file_stem().unwrap_or_default().to_owned();
        name.push(".replay.trail");
        name.into()
    })
}

/// The worker: does it and says on stdout how it went.
fn work(args: &Args, plan: &Plan, place: &Place, parts: Option<Parts>) -> Result<ExitCode, Failure> {
    let (mode, depth) = match args.mode {
        When::Afap => (Mode::Afap, 1),
        When::Think => (Mode::Think, 1),
        When::Timed => (Mode::Timed, 32),
        When::Compute => (Mode::Compute, 1),
        When::Causal => (Mode::Causal, 1),
    };
    let depth = args.depth.map_or(depth, usize::from);
    let engine = args.engine.into();
    let options = Options {
        engine,
        mode,
        scale: args.scale,
        compute: args.scale_compute,
        depth,
        direct: args.direct,
        zeros: args.zeros,
    };
    stop_on_signals();
    let session = std::env::var_os(SESSION_ENV).unwrap_or_default();
    let links = match (parts, &plan.causality) {
        (Some(parts), Some(causality)) => {
            // SAFETY: the host opened them for this process alone.
            let streams = args.links.iter().map(|link| unsafe { TcpStream::from_raw_fd(*link) });
            Some(Links::new(parts, streams.collect(), plan, &causality.scripts(false))?)
        }
        _ => None,
    };
    let outcome = replay(plan, place, options, session.as_encoded_bytes(), links.as_ref())?;
    println!("{}", serde_json::to_string(&outcome).map_err(|error| Failure::new(error.to_string()))?);
    Ok(ExitCode::SUCCESS)
}

fn host(
    args: &Args,
    plan: &Plan,
    place: &Place,
    parts: Option<Parts>,
    output: &Path,
) -> Result<ExitCode, Failure> {
    // Signals are blocked from here on: looked for while files are made, then taken while the worker runs.
    let host = Host::prepare();
    let writer = TrailWriter::create(output, args.force)?;
    let undo = || {
        // The trail was made here and holds nothing yet.
        let _ = std::fs::remove_dir_all(output);
    };
    let shown = std::io::stderr().is_terminal();
    let mut told = 0;
    let mut progress = |done: u64, total: u64| {
        if shown && total > 0 && done * 100 / total != told {
            told = done * 100 / total;
            eprint!("\riotrail: creating input files: {told} % of {}", human::bytes(total));
        }
        pending().is_none()
    };
    let mut prepare = || prepare(plan, place, args.sparse, &mut progress);
    let prepared = match (parts, &args.meet) {
        (Some(parts), Some(address)) => meet(plan, place, &parts, address, &mut prepare),
        _ => prepare().map(|()| Vec::new()),
    };
    let links = match prepared {
        Ok(links) => links,
        Err(iotrail_replay::Error::Interrupted) => {
            undo();
            iotrail_trail::say!("\niotrail: {}", iotrail_replay::Error::Interrupted);
            return Ok(exit_code(128 + pending().unwrap_or(libc::SIGINT)));
        }
        Err(error) => {
            undo();
            return Err(error.into());
        }
    };
    if told > 0 {
        eprint!("\r\x1b[K");
    }

    let recording = Recording {
        host: &host,
        writer,
        output,
        facts: vec![("replay_of".into(), Some(args.trail.display().to_string()))],
        name: "replay",
        what: "the replay",
        links,
    };
    let mut outcome = match recording.run(|outcome| describe(args, plan, place, outcome))? {
        Outcome::Done(outcome) => outcome,
        Outcome::Killed(status) => return Ok(status),
    };
    outcome["trail"] = text(output);
    outcome["replay_of"] = text(&args.trail);
    outcome["json"] = args.json.into();
    match &args.announce {
        // Whoever read the beginning may be gone (`| head`); what was replayed is recorded.
        None => drop(writeln!(std::io::stdout(), "{outcome}")),
        Some(file) => std::fs::write(file, outcome.to_string())
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", file.display())))?,
    }
    // The worker has ended as the signal asked, which a shell is to know.
    Ok(if outcome["interrupted_at"].is_null() { ExitCode::SUCCESS } else { exit_code(128 + libc::SIGINT) })
}

/// Meets the other parts. Files are made by part 1, and by those who don't share its folder. The connections.
fn meet(
    plan: &Plan,
    place: &Place,
    parts: &Parts,
    address: &str,
    prepare: &mut dyn FnMut() -> Result<(), iotrail_replay::Error>,
) -> Result<Vec<OwnedFd>, iotrail_replay::Error> {
    let mut told = String::new();
    let mut wait = |what: &str| {
        if told != what {
            iotrail_trail::say!("iotrail: waiting for {what}");
            what.clone_into(&mut told);
        }
        pending().is_none()
    };
    let mut meeting = Meeting::join(address, parts, parts.fingerprint(plan), &mut wait)?;
    if parts.mine == 0 {
        prepare()?;
        let of_folder = RandomState::new().build_hasher().finish();
        mark(place, of_folder)?;
        meeting.show(of_folder)?;
    } else {
        let of_folder = meeting.mark(&mut wait)?;
        if !has_mark(place, of_folder) {
            prepare()?;
        }
    }
    meeting.ready(&mut wait)?;
    Ok(meeting.into_streams().into_iter().map(OwnedFd::from).collect())
}

/// Adds how it was done to how it went: who compares the two trails needs both.
fn describe(args: &Args, plan: &Plan, place: &Place, outcome: &mut serde_json::Value) {
    match place {
        Place::Root(root) => outcome["root"] = text(root),
        Place::Targets(targets) => {
            let list = targets.values().map(|target| {
                serde_json::json!({
                    "node": target.device.node,
                    "path": plan.paths[target.device.path as usize],
                    "target": target.path.display().to_string(),
                })
            });
            outcome["targets"] = list.collect();
        }
    }
    outcome["mode"] = word(args.mode);
    outcome["engine"] = word(args.engine);
    outcome["scale"] = args.scale.into();
    outcome["scale_compute"] = args.scale_compute.into();
    outcome["fold"] = args.fold.into();
    outcome["part"] = args.part.map(|(mine, count)| format!("{}/{count}", mine + 1)).into();
}

pub(crate) fn text(path: &Path) -> serde_json::Value {
    path.display().to_string().into()
}

/// A choice as it is typed.
pub(crate) fn word(choice: impl clap::ValueEnum) -> serde_json::Value {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).into()
}
