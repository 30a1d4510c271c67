//! A worker whose operations are recorded: the same binary again, so that the trail holds them and nothing else.
//!
//! The host runs the sealer; the worker posts its operations and prints how it went as one line of JSON.

use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};

use iotrail_format::segment::SESSION_ENV;
use iotrail_trail::TrailWriter;
use iotrail_trail::seal::session::{Budget, Session};
use iotrail_trail::seal::{Fact, Sealer};

use crate::failure::Failure;
use crate::host::Host;
use crate::record::machine_facts;

/// What became of a worker.
pub enum Outcome {
    /// It says how it went.
    Done(serde_json::Value),
    /// A signal ended it at once: the exit status of that.
    Killed(ExitCode),
}

/// Runs a worker with the arguments of this process, and records it.
pub struct Recording<'a> {
    /// Blocks signals since before the trail was made.
    pub host: &'a Host,
    /// The trail, which holds nothing yet.
    pub writer: TrailWriter,
    /// Where it is.
    pub output: &'a Path,
    /// What it says of the run, besides machine and command.
    pub facts: Vec<Fact>,
    /// Name of the fact that holds how it went.
    pub name: &'a str,
    /// What is run, in messages: "the replay".
    pub what: &'a str,
    /// Descriptors that the worker gets, and this process closes then: their numbers are the words of its option --links.
    pub links: Vec<OwnedFd>,
}

impl Recording<'_> {
    /// Runs it. `describe` adds how it was done to how it went.
    pub fn run(self, describe: impl FnOnce(&mut serde_json::Value)) -> Result<Outcome, Failure> {
        let Self { host, writer, output, facts: mine, name, what, links } = self;
        let undo = || {
            // The trail was made just before and holds nothing yet.
            let _ = std::fs::remove_dir_all(output);
        };
        let budget = Budget::of(256 << 20);
        let session = Session::create(budget.segments).inspect_err(|_| undo())?;
        let dir = session.dir().to_owned();
        let mut facts = machine_facts(None);
        facts.extend(mine);
        facts.push(("command".into(), serde_json::to_string(&std::env::args().collect::<Vec<_>>()).ok()));
        let sealer = Sealer::start(writer, session, budget, &facts).inspect_err(|_| undo())?;
        let me =
            std::env::current_exe().map_err(|error| Failure::new(format!("cannot find myself: {error}")))?;
        let mut command = Command::new(me);
        // After the verb: behind a `--` it would be a file.
        let mut words = std::env::args_os().skip(1);
        command.args(words.next()).arg("--worker");
        for link in &links {
            // SAFETY: a descriptor of ours; no other program is started until it is closed.
            unsafe { libc::fcntl(link.as_raw_fd(), libc::F_SETFD, 0) };
            command.arg(format!("--links={}", link.as_raw_fd()));
        }
        command.args(words).env(SESSION_ENV, &dir).stdout(Stdio::piped());
        host.restore_in(&mut command);
        let mut child =
            command.spawn().map_err(|error| Failure::new(format!("cannot start {what}: {error}")))?;
        drop(links);
        let mut said = String::new();
        if let Some(mut stdout) = child.stdout.take() {
            let _ = stdout.read_to_string(&mut said);
        }
        let status = host
            .wait(&mut child)
            .map_err(|error| Failure::new(format!("cannot wait for {what}: {error}")))?;
        let mut outcome: Option<serde_json::Value> = serde_json::from_str(&said).ok();
        if outcome.is_none()
            && let Some(signal) = interruption(status)
        {
            sealer.finish(&[])?;
            iotrail_trail::say!("iotrail: interrupted; {} holds what was done", output.display());
            return Ok(Outcome::Killed(exit_code(128 + signal)));
        }
        let mut facts: Vec<Fact> = Vec::new();
        if let Some(outcome) = &mut outcome {
            describe(outcome);
            facts.push((name.into(), Some(outcome.to_string())));
        }
        let sealed = sealer.finish(&facts)?;
        if let Some(stopped) = sealed.stopped.filter(|stopped| stopped.lost_since.is_some()) {
            let why = stopped.error;
            return Err(Failure::new(format!("only a part of what {what} did was recorded: {why}")).hint(
                format!("{} holds that part; run it again where there is room for all", output.display()),
            ));
        }
        let Some(outcome) = outcome.filter(|_| status.success()) else {
            return Err(Failure::new(format!("{what} ended early ({status})"))
                .hint(format!("{} holds what it did", output.display())));
        };
        if let Some(why) = outcome["stopped"].as_str() {
            return Err(Failure::new(format!("{what} ended early: {why}"))
                .hint(format!("{} holds what it did", output.display())));
        }
        Ok(Outcome::Done(outcome))
    }
}

/// Signals that end a worker.
const STOPPING: [i32; 2] = [libc::SIGINT, libc::SIGTERM];

/// Ends the work at the first signal, after the operations under way; the process at the second. The signals are
/// blocked in all threads but one, which waits for them.
pub fn stop_on_signals() {
    // SAFETY: a signal set is plain memory, filled by the calls; sigwait takes a valid set and place.
    unsafe {
        let mut awaited: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut awaited);
        for signal in STOPPING {
            libc::sigaddset(&mut awaited, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &awaited, std::ptr::null_mut());
        std::thread::spawn(move || {
            let mut signal = 0;
            libc::sigwait(&awaited, &mut signal);
            iotrail_replay::stop();
            libc::sigwait(&awaited, &mut signal);
            libc::_exit(128 + signal);
        });
    }
}

/// The signal that the host has got meanwhile and not taken, if it is one that ends a worker.
pub fn pending() -> Option<i32> {
    // SAFETY: a signal set is plain memory, filled by the call.
    let got = unsafe {
        let mut got: libc::sigset_t = std::mem::zeroed();
        libc::sigpending(&mut got);
        got
    };
    // SAFETY: a valid set.
    STOPPING.into_iter().find(|signal| unsafe { libc::sigismember(&got, *signal) } == 1)
}

/// The signal by which the worker ended at once.
fn interruption(status: ExitStatus) -> Option<i32> {
    use std::os::unix::process::ExitStatusExt as _;
    let signal = status.signal().or(status.code().map(|code| code - 128));
    signal.filter(|signal| STOPPING.contains(signal))
}

/// An exit status, as a shell shows it.
pub fn exit_code(status: i32) -> ExitCode {
    ExitCode::from(u8::try_from(status).unwrap_or(1))
}
