//! `record --prune`: old records of requests give way to sums while the recording goes on.
//!
//! `iotrail trail prune` does it, as a child of low priority, now and then: it asks with SQL, which this program can't.
//! It never harms the recording: a failure leaves the trail as it was, and is said at the end.

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::failure::Failure;
use crate::host::Host;
use crate::program;

/// Not more often than that, whatever the sums are over: each time starts a program.
const LEAST_PAUSE: Duration = Duration::from_secs(1);
/// How often it is looked whether the child has ended.
const LOOK: Duration = Duration::from_millis(50);
/// A low priority (setpriority(2)): a tenth of the CPU time of others. At the lowest one nothing was pruned in five minutes on
/// a machine without idle CPU, so that the trail only grew.
const NICE: i32 = 10;

/// What is pruned, as `--prune every=60s,keep=demand+graphs,older=10min` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    every: String,
    keep: String,
    older: String,
    pause: Duration,
}

/// Reads a rule; what it leaves out is as in the example.
pub fn rule(text: &str) -> Result<Rule, String> {
    let mut rule = Rule {
        every: "60s".into(),
        keep: "demand+graphs".into(),
        older: "10min".into(),
        pause: Duration::ZERO,
    };
    for part in text.split(',') {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let place = match name.trim() {
            "every" => &mut rule.every,
            "keep" => &mut rule.keep,
            "older" => &mut rule.older,
            _ => return Err(format!("expected every=60s,keep=demand+graphs,older=10min, found {part:?}")),
        };
        *place = value.trim().to_owned();
    }
    let time = |name: &str, text: &str| {
        humantime::parse_duration(text)
            .ok()
            .filter(|time| !time.is_zero())
            .ok_or_else(|| format!("{name}: expected a time such as 60s, found {text:?}"))
    };
    time("older", &rule.older)?;
    rule.pause = time("every", &rule.every)?.max(LEAST_PAUSE);
    let known = ["demand", "graphs", "buffer", "disk"];
    if let Some(other) = rule.keep.split('+').find(|name| !known.contains(name)) {
        return Err(format!("keep: expected {} joined by +, found {other:?}", known.join(", ")));
    }
    Ok(rule)
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How often it was tried.
    pub runs: u64,
    /// How often that failed.
    pub failed: u64,
    /// What was said the last time it failed.
    pub why: String,
}

/// Prunes a trail while it is recorded.
pub struct Pruner {
    stop: Sender<()>,
    thread: JoinHandle<Outcome>,
}

impl Pruner {
    /// Begins. `python` is the interpreter that has iotrail's package; none looks for the command `iotrail`.
    pub fn start(rule: Rule, python: Option<&Path>, trail: &Path, host: &Host) -> Result<Self, Failure> {
        let words = command(python)?;
        let (stop, stopped) = channel();
        let (trail, host) = (trail.to_owned(), host.clone());
        let thread = std::thread::Builder::new().name("prune".into()).spawn(move || {
            let mut outcome = Outcome::default();
            while stopped.recv_timeout(rule.pause) == Err(RecvTimeoutError::Timeout) {
                outcome.runs += 1;
                if let Err(why) = prune(&rule, &words, &trail, &host, &stopped) {
                    outcome.failed += 1;
                    outcome.why = why;
                }
            }
            outcome
        });
        let thread =
            thread.map_err(|error| Failure::new(format!("--prune: cannot start a thread: {error}")))?;
        Ok(Self { stop, thread })
    }

    /// Ends, without waiting for what is being pruned: the trail is as it was before that.
    pub fn finish(self) -> Outcome {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

/// The command `iotrail`.
fn command(python: Option<&Path>) -> Result<Vec<OsString>, Failure> {
    if let Some(python) = python {
        return Ok([python.as_os_str(), OsStr::new("-P"), OsStr::new("-m"), OsStr::new("iotrail")]
            .map(OsString::from)
            .into());
    }
    program::find(OsStr::new("iotrail"), false).map(|found| vec![found.path.into()]).map_err(|_| {
        Failure::new("--prune needs the command iotrail, which is not there")
            .hint("install iotrail's Python package, or leave out --prune")
    })
}

/// Prunes once. The child is in a process group of its own, so that Ctrl-C reaches only the program.
fn prune(
    rule: &Rule,
    words: &[OsString],
    trail: &Path,
    host: &Host,
    stopped: &Receiver<()>,
) -> Result<(), String> {
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .args(["trail", "prune", "--every", &rule.every, "--keep", &rule.keep, "--older", &rule.older, "--"])
        .arg(trail)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0);
    host.restore_in(&mut command);
    let calm = || {
        // SAFETY: an async-signal-safe system call without pointers.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
        Ok(())
    };
    // SAFETY: the closure makes that call only.
    unsafe { command.pre_exec(calm) };
    let failed = |error: std::io::Error| format!("cannot run {}: {error}", words[0].display());
    let mut child = command.spawn().map_err(failed)?;
    while child.try_wait().map_err(failed)?.is_none() {
        if stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Disconnected) {
            // SAFETY: a call without pointers; the child was not waited for, so the pid is still its.
            unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
            let _ = child.wait();
            return Ok(());
        }
    }
    let done = child.wait_with_output().map_err(failed)?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let said = said.lines().find_map(|line| line.strip_prefix("iotrail: error: "));
    Err(said.map_or_else(|| format!("it ended with {}", done.status), str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_says_what_it_takes() {
        let said = rule("every=5s,keep=demand,older=1min").expect("a rule");
        assert_eq!((said.every.as_str(), said.keep.as_str(), said.older.as_str()), ("5s", "demand", "1min"));
        assert_eq!(said.pause, Duration::from_secs(5));
        assert_eq!(rule("every=10ms").expect("a rule").pause, LEAST_PAUSE);
        for (wrong, why) in [
            ("", "found \"\""),
            ("often=1s", "found \"often=1s\""),
            ("every=0s", "every: expected a time"),
            ("older=", "older: expected a time"),
            ("keep=all", "keep: expected demand, graphs, buffer, disk"),
        ] {
            assert!(rule(wrong).is_err_and(|said| said.contains(why)), "{wrong}");
        }
    }
}
