//! Prints the kernel's events of a command as JSON lines: `probe [--tracefs] [--all] [--count] -- CMD ARGUMENT…`, as
//! root. With `--count` only their number, to measure what recording costs.

use std::error::Error;
use std::io::{self, Write};
use std::process::{Command, ExitCode};
use std::time::Duration;

use iotrail_probes::{Backend, Event, Options, Probes, Scope};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("probe: error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: probe [--tracefs] [--all] [--count] -- CMD ARGUMENT…";
    let (flags, command) =
        arguments.split_at(arguments.iter().position(|argument| argument == "--").ok_or(usage)?);
    let given = |flag: &str| flags.iter().any(|given| given == flag);
    let scope = if given("--all") { Scope::All } else { Scope::Targets };
    let backend = given("--tracefs").then_some(Backend::Tracefs);
    let options = Options { disk: scope, sched: scope, syscall: scope, backend, ..Options::default() };
    let mut probes = Probes::start(&options)?;

    // Stopped before it is the command, so that it's a target when it starts.
    let mut child =
        Command::new("sh").args(["-c", "kill -STOP $$; exec \"$@\"", "sh"]).args(&command[1..]).spawn()?;
    let pid = child.id();
    let mut status = 0;
    // SAFETY: waits for our own child, and `status` lives until the call returns.
    if unsafe { libc::waitpid(pid as i32, &mut status, libc::WUNTRACED) } < 0 {
        return Err(io::Error::last_os_error().into());
    }
    probes.add_target(pid)?;
    // SAFETY: a signal to our own child, which wasn't reaped.
    unsafe { libc::kill(pid as i32, libc::SIGCONT) };

    let mut out = io::stdout().lock();
    let mut events = 0;
    let mut print = |event: Event| {
        events += 1;
        if given("--count") {
            return;
        }
        let line = serde_json::to_string(&event).expect("events have string keys only");
        _ = writeln!(out, "{line}");
    };
    while child.try_wait()?.is_none() {
        probes.poll(Duration::from_millis(100), &mut print)?;
    }
    let dropped = probes.finish(&mut print)?;
    eprintln!("probe: {events} events, lost {dropped:?}");
    Ok(())
}
