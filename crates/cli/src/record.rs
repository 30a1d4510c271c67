//! `iotrail record`: run a program with the recorder in it and the sealer beside it.
//!
//! The program runs as it would without: same standard streams, signals, limits and environment but
//! for LD_PRELOAD and IOTRAIL_SESSION. Its exit status is passed on (128 + n after signal n); where it was 0 and
//! a part of the recording is lost, because the trail could not be written, 125 says so. The recorder writes only to
//! stderr, and only after the end.
//!
//! Signals: Ctrl-C goes to the whole foreground process group, so the program has it already and the
//! recorder just waits for it to end. A signal that somebody sends to the recorder alone is passed on.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use iotrail_format::segment::SESSION_ENV;
use iotrail_trail::seal::session::{Budget, Session, node};
use iotrail_trail::seal::{Fact, Sealer};
use iotrail_trail::{Snapshot, TrailWriter, compact, say};

use crate::arguments::node_name;
use crate::causal;
use crate::closing::{self, Asked};
use crate::failure::Failure;
use crate::host::Host;
use crate::kernel::{Kernel, Part, Via, Wanted};
use crate::memory;
use crate::program::{self, Found};
use crate::prune::{self, Pruner, Rule};
use crate::sampler::Sampler;
use crate::throttle::{self, First, Page, Throttle, Which, Wish};

/// Name of the recorder's library, beside this binary.
const LIBRARY: &str = "libiotrail_preload.so";
/// Names tried for a trail without `-o`.
const MOST_NAMES: usize = 100_000;

/// Files of one table that a finished trail is left with, if there was [`MEMORY_TO_TIDY`].
const MOST_FILES: usize = 8;
/// Memory with which many small files are made few at the end: that takes some 60 MiB.
const MEMORY_TO_TIDY: u64 = 96 << 20;
/// Exit status where the program ended well and part of its recording is lost: as timeout(1)'s where it fails itself.
const LOST: u8 = 125;

/// What `--help` says of the exit status.
pub const STATUS: &str = "Exit status: CMD's, or 128 + N if signal N ended it; 125 if CMD succeeded and a part of its recording is \
                          lost; 126 if CMD can't be run, 127 if there is none.";

/// Arguments of `record`.
#[derive(clap::Args)]
pub struct Args {
    /// Where to write the trail [default: the program's name, numbered if it is taken]
    #[arg(short, long, value_name = "X.trail")]
    output: Option<PathBuf>,
    /// Replace a trail that is there
    #[arg(long)]
    force: bool,
    /// Print a summary at the end
    #[arg(long)]
    summary: bool,
    /// Memory that recording may use, whatever its length [default: 256M, or a quarter of what is left]
    #[arg(long, value_name = "SIZE", value_parser = memory::parse)]
    memory: Option<u64>,
    /// Record what programs post through the SDK and not their calls: no recorder is put into them
    #[arg(long)]
    no_calls: bool,
    /// Record the kernel's side too, all of it or some
    #[arg(
        long,
        value_enum,
        value_name = "disk,cpu,calls",
        num_args = 0..,
        require_equals = true,
        value_delimiter = ',',
        default_missing_values = ["disk", "cpu", "calls"]
    )]
    kernel: Vec<Part>,
    /// Record the disk I/O of the whole machine, not only what CMD and its children queue
    #[arg(long, requires = "kernel")]
    system: bool,
    /// How the kernel is asked
    #[arg(long, value_enum, default_value_t = Via::Auto, requires = "kernel")]
    kernel_via: Via,
    /// Record who waits for whom too, so that the trail can be replayed and predicted with its causality
    #[arg(long, conflicts_with = "no_calls")]
    causal: bool,
    /// Run CMD again with threads paused before their operations, to find who waits for whom without a call that shows it: halves of
    /// the threads in each run, each alone, or N of them; auto only if a check (as --check) says that something is missing
    #[arg(long, requires = "causal", value_name = "auto|groups|all|N")]
    throttle: Option<Which>,
    /// Pause before each N-th operation only: faster, edges may be misplaced by up to N - 1 operations [default: 1]
    #[arg(long, requires = "throttle", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    period: Option<u32>,
    /// Run CMD once more with longer operations, and say how far a prediction of that run from the recording is off
    #[arg(long, requires = "causal")]
    check: bool,
    /// Record until the last process that CMD started has ended, daemons too; Ctrl-C ends the recording before
    #[arg(long)]
    follow: bool,
    /// Name of this machine in the trail [default: host name and boot]
    #[arg(long, value_name = "NODE", value_parser = node_name)]
    node: Option<String>,
    /// Replace old records of requests by sums meanwhile, see `iotrail trail prune`
    #[arg(long, value_name = "every=60s,keep=demand+graphs,older=10min", value_parser = prune::rule)]
    prune: Option<Rule>,
    /// The interpreter that has iotrail's package (for --prune)
    #[arg(long, hide = true, value_name = "FILE")]
    python: Option<PathBuf>,
    /// Write the trail's path to this file once it is whole (for the summary)
    #[arg(long, hide = true, value_name = "FILE")]
    announce: Option<PathBuf>,
    /// For the answer that a running program can't be recorded
    #[arg(short = 'p', long = "pid", hide = true, value_name = "PID")]
    pid: Option<OsString>,
    /// The program and its arguments
    #[arg(
        required_unless_present = "pid",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "CMD"
    )]
    command: Vec<OsString>,
}

/// Runs the program and records it.
pub fn run(mut args: Args) -> Result<ExitCode, Failure> {
    if let Some(pid) = &args.pid {
        return Err(Failure::new(format!(
            "can't attach to process {}: the recorder is loaded by a program's loader when the program starts",
            pid.to_string_lossy()
        ))
        .hint("start the program anew: iotrail record -- CMD; of a service, put it in front of its ExecStart="));
    }
    if args.no_calls {
        args.kernel.retain(|part| *part != Part::Calls);
    }
    let found = program::find(&args.command[0], args.no_calls || args.kernel.contains(&Part::Calls));
    let program = match found {
        // Whether a recorder can be in it doesn't matter then.
        Ok(found) if args.no_calls => Found { bare: None, ..found },
        Ok(found) => found,
        Err(refused) => {
            let _ = write!(std::io::stderr(), "{}", refused.failure);
            return Ok(ExitCode::from(refused.status));
        }
    };
    let library = library()?;
    if let Some(why) = args.memory.and_then(memory::warning) {
        say!("iotrail: warning: {why}");
    }
    let memory = *args.memory.get_or_insert_with(memory::default);
    let budget = Budget::of(memory);
    let host = Host::prepare();
    let preload = |session: &Path| preloaded(&library, session).ok().map(|own| with_others(&own));
    let again = throttle::Program {
        path: &program.path,
        words: &args.command,
        preload: &preload,
        host: &host,
        memory: budget.segments,
    };
    let wish = match (args.throttle, args.period) {
        (Some(Which::Auto), Some(_)) => {
            return Err(Failure::new("--throttle auto chooses the period")
                .hint("leave --period out, or choose the threads: --throttle groups"));
        }
        (Some(Which::Auto), None) => Some(Wish { which: Which::Auto, period: None }),
        (Some(which), period) => Some(Wish { which, period: period.or(Some(1)) }),
        (None, _) => None,
    };
    if let (Some(wish), Some(trail), false) = (&wish, &args.output, args.force)
        && throttle::unfinished(trail, &args.command, wish)
            .map_err(|why| Failure::new(why).hint("--force records anew"))?
        && let Some(throttle) = Throttle::resume(trail, &again, wish)
    {
        say!("iotrail: {} is recorded; going on with the runs that are left", trail.display());
        throttle.run();
        return Ok(exit_code(throttle.status()));
    }
    let target = Target::claim(&args, &program.path)?;
    let began = Instant::now();
    let recording = match start(&args, &program, &library, budget, &target, &host) {
        Ok(recording) => recording,
        Err(failure) => {
            target.undo();
            return Err(failure);
        }
    };
    target.settle();
    throttle::forget(&target.path);
    let Recording { mut child, spawned, session, sealer, kernel, sampler, pruner, page } = recording;
    let status = host
        .wait(&mut child)
        .map_err(|error| Failure::new(format!("cannot wait for {}: {error}", program.path.display())))?;
    let ran = spawned.elapsed();
    if args.follow {
        host.wait_for_rest(&sealer, &session);
    }
    let took = began.elapsed();
    let facts = [
        ("end".to_owned(), Some(humantime::format_rfc3339_nanos(std::time::SystemTime::now()).to_string())),
        ("exit_status".to_owned(), status.code().map(|code| code.to_string())),
        ("signal".to_owned(), status.signal().map(|signal| signal.to_string())),
    ];
    let facts: Vec<Fact> = facts.into_iter().filter(|(_, value)| value.is_some()).collect();
    if let Some(sampler) = sampler {
        sampler.finish();
    }
    if let Some(kernel) = kernel {
        kernel.finish();
    }
    let pruned = pruner.map(Pruner::finish);
    let sealed = sealer.finish(&facts);
    if sealed.is_ok() && memory >= MEMORY_TO_TIDY {
        tidy(&target.path);
    }
    let asked = Asked {
        summary: args.summary,
        follow: args.follow,
        calls_of_kernel: args.kernel.contains(&Part::Calls),
    };
    let is_sealed = sealed.is_ok();
    if args.causal
        && is_sealed
        && let Err(error) = causal::derive(&target.path, None)
    {
        say!("iotrail: warning: the trail is whole, but who waited for whom could not be found: {error}");
    }
    let machine = args.node.clone().unwrap_or_else(node);
    if let (Some(wish), Some(page), true) = (&wish, page, is_sealed) {
        let first = First { machine: &machine, took: ran, status };
        Throttle::begin(&target.path, &again, wish, &page, &first).run();
    }
    // which auto has done
    if args.check && is_sealed && args.throttle != Some(Which::Auto) {
        throttle::check(&target.path, &machine, &again, ran, status);
    }
    let is_whole = closing::report(&target.path, sealed, took, asked);
    closing::report_pruned(pruned, &target.path);
    if let Some(file) = args.announce.filter(|_| is_sealed)
        && let Err(error) = std::fs::write(&file, target.path.as_os_str().as_encoded_bytes())
    {
        say!("iotrail: warning: cannot write {}: {error}", file.display());
    }
    Ok(if status.success() && !is_whole { ExitCode::from(LOST) } else { exit_code(status) })
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    ExitCode::from(code as u8)
}

/// The recorder's library: beside this binary, or where IOTRAIL_PRELOAD says.
fn library() -> Result<PathBuf, Failure> {
    let beside = std::env::current_exe().ok().and_then(|binary| {
        let binary = std::fs::canonicalize(binary).ok()?;
        Some(binary.parent()?.join(LIBRARY))
    });
    let named = std::env::var_os("IOTRAIL_PRELOAD").map(PathBuf::from);
    let tried: Vec<PathBuf> = beside.into_iter().chain(named).collect();
    let found = tried.iter().find(|path| path.is_file()).and_then(|path| std::fs::canonicalize(path).ok());
    found.ok_or_else(|| {
        let places: Vec<_> = tried.iter().map(|path| path.display().to_string()).collect();
        Failure::new(format!("the recorder's library is missing: looked for {}", places.join(" and ")))
            .hint("install iotrail anew, or build it (make) and set IOTRAIL_PRELOAD to the library")
    })
}

/// The trail's place, taken before the program starts; what was there is put aside until then.
struct Target {
    path: PathBuf,
    aside: Option<PathBuf>,
}

impl Target {
    fn claim(args: &Args, program: &Path) -> Result<Self, Failure> {
        let path = match &args.output {
            Some(path) => path.clone(),
            None => default_name(program, args.force)?,
        };
        let mut target = Self { path, aside: None };
        if args.force && target.path.join("snapshots").is_dir() {
            let mut name = target.path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".replaced-{}", std::process::id()));
            let aside = target.path.with_file_name(name);
            std::fs::rename(&target.path, &aside).map_err(|error| {
                Failure::new(format!("cannot replace {}: {error}", target.path.display()))
            })?;
            target.aside = Some(aside);
        }
        Ok(target)
    }

    /// The program runs: the old trail is replaced.
    fn settle(&self) {
        if let Some(aside) = &self.aside
            && let Err(error) = std::fs::remove_dir_all(aside)
        {
            say!("iotrail: warning: cannot remove the replaced trail {}: {error}", aside.display());
        }
    }

    /// It doesn't: all is as before.
    fn undo(&self) {
        if let Some(aside) = &self.aside
            && let Err(error) = std::fs::rename(aside, &self.path)
        {
            say!("iotrail: warning: the replaced trail is now {}: {error}", aside.display());
        }
    }
}

/// `ls.trail`, `ls-2.trail`, … in the working directory: the first that is free.
fn default_name(program: &Path, force: bool) -> Result<PathBuf, Failure> {
    let stem = program.file_name().unwrap_or(OsStr::new("program"));
    for number in 1..MOST_NAMES {
        let mut name = stem.to_owned();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        name.push(".trail");
        let path = PathBuf::from(name);
        if force || std::fs::symlink_metadata(&path).is_err() {
            return Ok(path);
        }
    }
    Err(Failure::new(format!("too many trails of {} here", stem.display())).hint("name one with -o"))
}

/// A program being recorded.
struct Recording {
    child: Child,
    /// When it was started.
    spawned: Instant,
    /// The session's folder, as its environment names it.
    session: PathBuf,
    sealer: Sealer,
    kernel: Option<Kernel>,
    sampler: Option<Sampler>,
    pruner: Option<Pruner>,
    /// Where threads say how far they come, with --throttle.
    page: Option<Page>,
}

fn start(
    args: &Args,
    found: &Found,
    library: &Path,
    budget: Budget,
    target: &Target,
    host: &Host,
) -> Result<Recording, Failure> {
    let program = &found.path;
    let writer = TrailWriter::create(&target.path, false)?;
    let undo = |session: Option<PathBuf>| {
        // The trail was made here and holds nothing yet.
        let _ = std::fs::remove_dir_all(&target.path);
        session.map(std::fs::remove_dir_all);
    };
    let node = args.node.clone().unwrap_or_else(node);
    let session = Session::create_on(&node, budget.segments).inspect_err(|_| undo(None))?;
    if let Some(why) = session.slow() {
        say!("iotrail: warning: {why}; recording will disturb the program more than it should");
    }
    if args.causal {
        session.record_causality();
    }
    let dir = session.dir().to_owned();
    let page = match args.throttle.map(|_| Page::create(&dir, &[], 1)).transpose() {
        Ok(page) => page,
        Err(error) => {
            undo(Some(dir.clone()));
            return Err(Failure::new(format!(
                "cannot make the page of pauses in {}: {error}",
                dir.display()
            )));
        }
    };
    if page.is_some() {
        session.follow();
    }
    let preloaded = preloaded(library, &dir).inspect_err(|_| undo(Some(dir.clone())))?;
    let mut command = Command::new(program);
    command.arg0(&args.command[0]).args(&args.command[1..]).env(SESSION_ENV, &dir);
    if !args.no_calls {
        command.env("LD_PRELOAD", with_others(&preloaded));
    }
    host.restore_in(&mut command);
    let kernel = match (!args.kernel.is_empty())
        .then(|| {
            Kernel::start(
                &Wanted { parts: &args.kernel, system: args.system, causal: args.causal },
                args.kernel_via,
                &dir,
                &expand_token(&preloaded),
                found,
            )
        })
        .transpose()
    {
        Ok(None) => None,
        Ok(Some((kernel, gate))) => {
            if let Some(why) = &kernel.fallback {
                say!("iotrail: the kernel is recorded through tracefs: eBPF: {why}");
            }
            if let Some(why) = found.bare.as_ref().filter(|_| !kernel.sees_calls) {
                say!(
                    "iotrail: warning: {why}: its calls are not recorded, as tracefs doesn't show them and no \
                     recorder can be in it; its disk I/O and CPU time are"
                );
            }
            gate.guard(&mut command);
            Some(kernel)
        }
        Err(failure) => {
            undo(Some(dir));
            return Err(failure);
        }
    };
    let start = |rule: &Rule| Pruner::start(rule.clone(), args.python.as_deref(), &target.path, host);
    let pruner = match args.prune.as_ref().map(start).transpose() {
        Ok(pruner) => pruner,
        Err(failure) => {
            drop(command);
            if let Some(kernel) = kernel {
                kernel.finish();
            }
            undo(Some(dir));
            return Err(failure);
        }
    };
    let mut facts = facts(args);
    facts.extend(kernel.as_ref().map(|kernel| ("kernel_via".to_owned(), Some(kernel.via.to_owned()))));
    let sealer = Sealer::start(writer, session, budget, &facts).inspect_err(|_| undo(Some(dir.clone())))?;
    let began = Instant::now();
    let spawned = command.spawn();
    // Its ends of the gate, without which the kernel's recorder would wait for a program that never came.
    drop(command);
    match spawned {
        Ok(child) => {
            let sampler = Sampler::start(&dir, child.id());
            Ok(Recording { child, spawned: began, session: dir, sealer, kernel, sampler, pruner, page })
        }
        Err(error) => {
            if let Some(kernel) = kernel {
                kernel.finish();
            }
            pruner.map(Pruner::finish);
            // Ends its threads; what they wrote goes.
            let _ = sealer.finish(&[]);
            undo(Some(dir));
            Err(Failure::new(format!("cannot run {}: {error}", program.display())))
        }
    }
}

/// Directory that glibc's loader puts for `$LIB`, below the root and below /usr. Every loader of glibc knows the token
/// (ld.so(8), "Dynamic string tokens") and no other: musl's looks for a directory of that name, finds none and goes on,
/// where it would load the library itself and fail for what it needs of glibc.
const TOKEN: &str = "$LIB";
/// From wherever `/$LIB` leads up to the root: `..` in the root is the root.
const UP: &str = "/../../../../../../../..";
/// What `$LIB` is: Debian and its kin, Fedora and SUSE, Arch.
const TOKEN_MEANINGS: [&str; 3] = ["lib/x86_64-linux-gnu", "lib64", "lib"];

/// The library as the program's loader is told of it. The loader splits LD_PRELOAD at colons and spaces, so that a
/// library whose path has one is reached through a link in the session.
fn preloaded(library: &Path, session: &Path) -> Result<OsString, Failure> {
    let mut path = library.to_owned();
    if library.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b':' | b' ')) {
        path = session.join(LIBRARY);
        std::os::unix::fs::symlink(library, &path)
            .map_err(|error| Failure::new(format!("cannot link {}: {error}", path.display())))?;
    }
    // Where none of the directories is there (NixOS) the loader wouldn't find its way up.
    if !TOKEN_MEANINGS.iter().any(|meaning| Path::new("/").join(meaning).is_dir()) {
        return Ok(path.into_os_string());
    }
    let mut told = OsString::from(format!("/{TOKEN}{UP}"));
    told.push(path);
    Ok(told)
}

/// What the loader makes of it: the path that it opens.
fn expand_token(told: &OsStr) -> OsString {
    let Some(rest) = told.to_str().and_then(|told| told.strip_prefix(&format!("/{TOKEN}"))) else {
        return told.to_owned();
    };
    // glibc 2.33 and newer say it; otherwise the first directory that is there.
    let said = Command::new("/lib64/ld-linux-x86-64.so.2").arg("--list-diagnostics").output().ok();
    let said = said.and_then(|output| {
        let text = String::from_utf8(output.stdout).ok()?;
        Some(text.lines().find_map(|line| line.strip_prefix("dl_dst_lib=\"")?.strip_suffix('"'))?.to_owned())
    });
    let there = || TOKEN_MEANINGS.iter().find(|meaning| Path::new("/").join(meaning).is_dir());
    let meaning = said.or_else(|| there().map(ToString::to_string)).unwrap_or_default();
    OsString::from(format!("/{meaning}{rest}"))
}

/// LD_PRELOAD for the program: ours first, then what was there.
fn with_others(preloaded: &OsStr) -> OsString {
    let mut value = preloaded.to_owned();
    if let Some(other) = std::env::var_os("LD_PRELOAD").filter(|other| !other.is_empty()) {
        value.push(":");
        value.push(other);
    }
    value
}

/// How the trail was made, as far as it is known at the start.
fn facts(args: &Args) -> Vec<Fact> {
    let words: Vec<_> = args.command.iter().map(|word| word.to_string_lossy()).collect();
    let mut facts = machine_facts(args.node.as_deref());
    facts.push(("command".into(), serde_json::to_string(&words).ok()));
    facts.push(("memory".into(), args.memory.map(|bytes| bytes.to_string())));
    facts
}

/// What of it is the machine's and the moment's.
pub(crate) fn machine_facts(named: Option<&str>) -> Vec<Fact> {
    let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let cpu = read("/proc/cpuinfo").and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(": ")?.1.to_owned())
    });
    // SAFETY: calls without pointers.
    let (user, page) = unsafe { (libc::geteuid(), libc::sysconf(libc::_SC_PAGESIZE)) };
    [
        ("cwd", std::env::current_dir().ok().map(|dir| dir.display().to_string())),
        ("version", Some(env!("CARGO_PKG_VERSION").to_owned())),
        ("node", Some(named.map_or_else(node, str::to_owned))),
        ("hostname", read("/proc/sys/kernel/hostname")),
        ("kernel", read("/proc/sys/kernel/osrelease")),
        ("cpu", cpu),
        ("cpus", std::thread::available_parallelism().ok().map(|cpus| cpus.to_string())),
        ("page_size", Some(page.to_string())),
        ("user", Some(user.to_string())),
        ("start", Some(humantime::format_rfc3339_nanos(std::time::SystemTime::now()).to_string())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// A long recording leaves many small files: makes few of them. If that fails the trail is as it was.
fn tidy(trail: &Path) {
    let many = Snapshot::newest(trail)
        .is_ok_and(|snapshot| snapshot.tables.values().any(|table| table.files.len() > MOST_FILES));
    if many && let Err(error) = compact(trail, Duration::ZERO) {
        say!("iotrail: warning: the trail is whole, but could not be compacted: {error}");
    }
}
