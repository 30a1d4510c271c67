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
pub struct Args {
    /// The trail to replay
    #[arg(value_name = "X.trail")]
    trail: PathBuf,
    /// Replay under this directory: recorded paths are rewritten to lie in it
    #[arg(long, value_name = "DIR", conflicts_with = "target", required_unless_present = "target")]
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
    let mut facts = machine_facts();
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
    let outcome: Option<serde_json::Value> = serde_json::from_str(&said).ok();
    let mut facts: Vec<Fact> = Vec::new();
    if let Some(outcome) = &outcome {
        facts.push(("replay".into(), Some(outcome.to_string())));
    }
    sealer.finish(&facts)?;
    let Some(outcome) = outcome.filter(|_| status.success()) else {
        return Err(Failure::new(format!("the replay ended early ({status})"))
            .hint(format!("{} holds what it did", output.display())));
    };
    if args.json {
        println!("{outcome}");
    } else {
        table(args, plan, &outcome, &output);
    }
    Ok(ExitCode::SUCCESS)
}

/// How faithful the run was.
fn table(args: &Args, plan: &Plan, outcome: &serde_json::Value, output: &Path) {
    let number = |name: &str| outcome[name].as_i64().unwrap_or(0);
    let time = |ns: i64| {
        if ns.abs() >= 1_000_000_000 {
            format!("{:.3} s", ns as f64 / 1e9)
        } else if ns.abs() >= 1_000_000 {
            format!("{:.2} ms", ns as f64 / 1e6)
        } else {
            format!("{:.1} µs", ns as f64 / 1e3)
        }
    };
    let (took, recorded, ops) = (number("took"), number("recorded"), number("ops"));
    let share = |part: i64, whole: i64| if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 };
    let mut lines = vec![
        ("operations", format!("{ops} by {} threads", plan.threads.len())),
        (
            "run time",
            format!(
                "{} replayed, {} recorded ({:+.1} %)",
                time(took),
                time(recorded),
                share(took - recorded, recorded)
            ),
        ),
    ];
    if let Some(late) = outcome["late"].as_object() {
        let of = |name: &str| late.get(name).and_then(serde_json::Value::as_i64).unwrap_or(0);
        lines.push((
            "lateness",
            format!(
                "p50 {}, p99 {}, max {}; {:.2} % over 1 ms",
                time(of("p50")),
                time(of("p99")),
                time(of("max")),
                share(of("over_ms"), ops)
            ),
        ));
    }
    lines.push((
        "came out differently",
        format!("{} ({:.2} %)", number("differed"), share(number("differed"), ops)),
    ));
    for example in outcome["examples"].as_array().into_iter().flatten() {
        lines.push(("", example.as_str().unwrap_or_default().to_owned()));
    }
    lines.push(("waited for another thread", number("waited").to_string()));
    let left_out: u64 = plan.left_out.values().sum();
    if left_out > 0 {
        let mut most: Vec<_> = plan.left_out.iter().collect();
        most.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let names: Vec<String> = most.iter().take(4).map(|(name, count)| format!("{count} {name}")).collect();
        lines.push(("not replayed", format!("{left_out}: {}", names.join(", "))));
    }
    println!("Replay of {}", args.trail.display());
    for (name, text) in lines {
        println!("  {name:<26} {text}");
    }
    println!("  {:<26} {}", "trail", output.display());
}

fn bytes(number: u64) -> String {
    match number {
        0..1_048_576 => format!("{} KiB", number >> 10),
        1_048_576..1_073_741_824 => format!("{} MiB", number >> 20),
        _ => format!("{:.1} GiB", number as f64 / (1u64 << 30) as f64),
    }
}
