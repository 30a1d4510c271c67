//! `iotrail replay`: does what a trail recorded on other storage, and records that.
//!
//! Two processes: this one makes the plan, looks whether the place may be used, makes the files the replay
//! needs and runs the sealer; a worker, the same binary again, does the operations and posts them, so that
//! the trail of a replay holds them and nothing else.

use std::io::{IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use iotrail_format::segment::SESSION_ENV;
use iotrail_replay::{Engine, Mode, Options, Place, Plan, plan, prepare, run as replay};
use iotrail_trail::TrailWriter;
use iotrail_trail::seal::session::{Budget, Session};
use iotrail_trail::seal::{Fact, Sealer};

use crate::failure::Failure;
use crate::record::{Host, machine_facts};

/// Arguments of `replay`.
#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("place").required(true).args(["root", "target"]))]
pub struct Args {
    /// The trail to replay
    #[arg(value_name = "X.trail")]
    trail: PathBuf,
    /// Replay under this directory: recorded paths are rewritten to lie in it
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Replay a trace of one file or block device on this file or device
    #[arg(long, value_name = "FILE")]
    target: Option<PathBuf>,
    /// When operations are due: at once, after the recorded think time, or at their recorded time
    #[arg(long, value_enum, default_value_t = When::Think)]
    mode: When,
    /// How requests reach the kernel
    #[arg(long, value_enum, default_value_t = How::Psync)]
    engine: How,
    /// Stretch recorded times by this factor
    #[arg(long, value_name = "F", default_value_t = 1.0, value_parser = factor)]
    scale: f64,
    /// Requests under way at once for each recorded thread of a block trace [default: 32 if timed, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    depth: Option<u16>,
    /// Where to write the trail of the replay [default: X.replay.trail here]
    #[arg(short, long, value_name = "Y.trail")]
    output: Option<PathBuf>,
    /// Replace the output if it exists
    #[arg(long)]
    force: bool,
    /// Make the files that the replay reads without blocks
    #[arg(long)]
    sparse: bool,
    /// Write zeros instead of bytes that don't compress
    #[arg(long)]
    zeros: bool,
    /// Open the target with O_DIRECT
    #[arg(long, requires = "target")]
    direct: bool,
    /// Wrap offsets beyond the target's end
    #[arg(long, requires = "target")]
    fold: bool,
    /// The target's data may be lost
    #[arg(long, requires = "target")]
    overwrite: bool,
    /// Print how it went as JSON
    #[arg(long)]
    json: bool,
    /// Write how it went to this file instead of stdout
    #[arg(long, value_name = "FILE", hide = true)]
    announce: Option<PathBuf>,
    /// Do the operations; the session is in the environment
    #[arg(long, hide = true)]
    worker: bool,
}

/// [`Mode`] on the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
enum When {
    /// As fast as possible
    Afap,
    /// Closed loop with the recorded time between operations
    Think,
    /// Open loop at the recorded times
    Timed,
}

/// [`Engine`] on the command line.
#[derive(Clone, Copy, clap::ValueEnum)]
enum How {
    /// System calls, each in a thread that waits for it
    Psync,
    /// One io_uring for each recorded thread of a block trace
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

fn factor(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|factor: &f64| factor.is_finite() && *factor > 0.0)
        .ok_or_else(|| "expected a number above 0, such as 2 or 0.5".into())
}

/// Replays.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let plan = plan(&args.trail)?;
    if matches!(args.mode, When::Timed)
        && plan.length == 0
        && plan.threads.iter().any(|thread| thread.ops.len() > 1)
    {
        return Err(Failure::new(format!("{} has no times to keep", args.trail.display()))
            .hint("--mode afap replays the order alone"));
    }
    if matches!((args.engine, args.mode), (How::IoUring, When::Think)) {
        return Err(Failure::new(
            "think times are between calls that wait, which requests to an io_uring don't",
        )
        .hint("--engine psync, or --mode timed or afap"));
    }
    Engine::from(args.engine).check(&plan)?;
    let place = match (&args.root, &args.target) {
        (Some(root), _) => Place::root(root)?,
        // The worker's parent has looked already.
        (None, Some(target)) => Place::target(target, &plan, args.fold, args.overwrite || args.worker)?,
        (None, None) => return Err(Failure::new("expected --root DIR or --target FILE")),
    };
    if args.worker { work(&args, &plan, &place) } else { host(&args, &plan, &place) }
}

/// The worker: does it and says on stdout how it went.
fn work(args: &Args, plan: &Plan, place: &Place) -> Result<ExitCode, Failure> {
    let (mode, depth) = match args.mode {
        When::Afap => (Mode::Afap, 1),
        When::Think => (Mode::Think, 1),
        When::Timed => (Mode::Timed, 32),
    };
    let depth = args.depth.map_or(depth, usize::from);
    let engine = args.engine.into();
    let options = Options { engine, mode, scale: args.scale, depth, direct: args.direct, zeros: args.zeros };
    let session = std::env::var_os(SESSION_ENV).unwrap_or_default();
    let outcome = replay(plan, place, options, session.as_encoded_bytes())?;
    println!("{}", serde_json::to_string(&outcome).map_err(|error| Failure::new(error.to_string()))?);
    Ok(ExitCode::SUCCESS)
}

fn host(args: &Args, plan: &Plan, place: &Place) -> Result<ExitCode, Failure> {
    let output = args.output.clone().unwrap_or_else(|| {
        let mut name = args.trail.file_stem().unwrap_or_default().to_owned();
        name.push(".replay.trail");
        name.into()
    });
    let writer = TrailWriter::create(&output, args.force)?;
    let undo = || {
        // The trail was made here and holds nothing yet.
        let _ = std::fs::remove_dir_all(&output);
    };
    let shown = std::io::stderr().is_terminal();
    let mut told = 0;
    let mut progress = |done: u64, total: u64| {
        if shown && total > 0 && done * 100 / total != told {
            told = done * 100 / total;
            eprint!("\riotrail: making the files to replay on: {told} % of {}", bytes(total));
        }
    };
    prepare(plan, place, args.sparse, &mut progress).inspect_err(|_| undo())?;
    if told > 0 {
        eprint!("\r\x1b[K");
    }

    let host = Host::prepare();
    let budget = Budget::of(256 << 20);
    let session = Session::create(budget.segments).inspect_err(|_| undo())?;
    let dir = session.dir().to_owned();
    let mut facts = machine_facts(None);
    facts.push(("replay_of".into(), Some(args.trail.display().to_string())));
    facts.push(("command".into(), serde_json::to_string(&std::env::args().collect::<Vec<_>>()).ok()));
    let sealer = Sealer::start(writer, session, budget, &facts).inspect_err(|_| undo())?;
    let me = std::env::current_exe().map_err(|error| Failure::new(format!("cannot find myself: {error}")))?;
    let mut command = Command::new(me);
    command.args(std::env::args_os().skip(1)).arg("--worker").env(SESSION_ENV, &dir).stdout(Stdio::piped());
    host.restore_in(&mut command);
    let mut child =
        command.spawn().map_err(|error| Failure::new(format!("cannot start the replay: {error}")))?;
    let mut said = String::new();
    if let Some(mut stdout) = child.stdout.take() {
        let _ = stdout.read_to_string(&mut said);
    }
    let status = host
        .wait(&mut child)
        .map_err(|error| Failure::new(format!("cannot wait for the replay: {error}")))?;
    let mut outcome: Option<serde_json::Value> = serde_json::from_str(&said).ok();
    let mut facts: Vec<Fact> = Vec::new();
    if let Some(outcome) = &mut outcome {
        describe(args, place, outcome)?;
        facts.push(("replay".into(), Some(outcome.to_string())));
    }
    sealer.finish(&facts)?;
    let Some(mut outcome) = outcome.filter(|_| status.success()) else {
        return Err(Failure::new(format!("the replay ended early ({status})"))
            .hint(format!("{} holds what it did", output.display())));
    };
    if let Some(why) = outcome["stopped"].as_str() {
        return Err(Failure::new(format!("the replay ended early: {why}"))
            .hint(format!("{} holds what it did", output.display())));
    }
    outcome["trail"] = text(&output);
    outcome["replay_of"] = text(&args.trail);
    outcome["json"] = args.json.into();
    match &args.announce {
        None => println!("{outcome}"),
        Some(file) => std::fs::write(file, outcome.to_string())
            .map_err(|error| Failure::new(format!("cannot write {}: {error}", file.display())))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Adds how it was done to how it went: who compares the two trails needs both.
fn describe(args: &Args, place: &Place, outcome: &mut serde_json::Value) -> Result<(), Failure> {
    let (place, one) = place.whole()?;
    outcome[if one { "target" } else { "root" }] = text(&place);
    outcome["mode"] = word(args.mode);
    outcome["engine"] = word(args.engine);
    outcome["scale"] = args.scale.into();
    outcome["fold"] = args.fold.into();
    Ok(())
}

fn text(path: &Path) -> serde_json::Value {
    path.display().to_string().into()
}

/// A choice as it is typed.
fn word(choice: impl clap::ValueEnum) -> serde_json::Value {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).into()
}

fn bytes(number: u64) -> String {
    match number {
        0..1_048_576 => format!("{} KiB", number >> 10),
        1_048_576..1_073_741_824 => format!("{} MiB", number >> 20),
        _ => format!("{:.1} GiB", number as f64 / (1u64 << 30) as f64),
    }
}
