//! What the recorder changes of its own process, and how it waits for the program.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use iotrail_format::segment::SESSION_ENV;
use iotrail_trail::seal::Sealer;

/// Limits the recorder raises for itself: it may hold a descriptor for each process, and writes
/// files that are not the program's.
const RAISED: [libc::__rlimit_resource_t; 3] = [libc::RLIMIT_NOFILE, libc::RLIMIT_FSIZE, libc::RLIMIT_AS];
/// Signals passed on to the program when sent to the recorder alone.
const PASSED_ON: [i32; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// What the recorder changes of its own process, and gives back to the program.
#[derive(Clone)]
pub struct Host {
    mask: libc::sigset_t,
    awaited: libc::sigset_t,
    child: libc::sighandler_t,
    limits: [libc::rlimit; 3],
}

impl Host {
    /// Blocks the signals that [`Self::wait`] awaits, in this thread and in all it will start.
    pub fn prepare() -> Self {
        // SAFETY: signal sets and limits are plain memory, zeroed before the calls that fill them;
        // no other thread runs yet.
        unsafe {
            let mut mask = std::mem::zeroed();
            let mut awaited = std::mem::zeroed();
            libc::sigemptyset(&mut awaited);
            for signal in PASSED_ON.into_iter().chain([libc::SIGCHLD]) {
                libc::sigaddset(&mut awaited, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &awaited, &mut mask);
            // If it was ignored, the kernel would reap the program unseen (wait(2)).
            let child = libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            // A file limit of the program's must be an error to the recorder, not its end.
            libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
            let limits = RAISED.map(|resource| {
                let mut limit = std::mem::zeroed::<libc::rlimit>();
                if libc::getrlimit(resource, &mut limit) == 0 {
                    let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
                    libc::setrlimit(resource, &raised);
                }
                limit
            });
            Self { mask, awaited, child, limits }
        }
    }

    /// Makes the program start with what was before.
    pub fn restore_in(&self, command: &mut Command) {
        let (mask, child, limits) = (self.mask, self.child, self.limits);
        let restore = move || {
            // SAFETY: async-signal-safe calls with values this process had at its start. SIGXFSZ:
            // Python, which may have started the recorder, ignores it in itself only.
            unsafe {
                for (resource, limit) in RAISED.iter().zip(&limits) {
                    libc::setrlimit(*resource, limit);
                }
                libc::signal(libc::SIGCHLD, child);
                libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
                libc::pthread_sigmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
            }
            Ok(())
        };
        // SAFETY: the closure only makes async-signal-safe system calls.
        unsafe { command.pre_exec(restore) };
    }

    /// Waits until no process of the recording is left, or a signal asks to end it.
    ///
    /// The sealer doesn't know a process yet that was just forked, nor an image that is being loaded: their environment
    /// names the session, and is looked at twice.
    pub fn wait_for_rest(&self, sealer: &Sealer, session: &Path) {
        let mut absent = 0;
        while absent < 2 {
            let has_processes = processes_of(session).next().is_some();
            absent = if sealer.any_alive() || has_processes { 0 } else { absent + 1 };
            // SAFETY: valid set and buffer.
            let signal = unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                let timeout = libc::timespec { tv_sec: 0, tv_nsec: 50_000_000 };
                libc::sigtimedwait(&self.awaited, &mut info, &timeout)
            };
            if PASSED_ON.contains(&signal) {
                return;
            }
        }
    }

    /// The next signal that asks to end, within so long; none if there is none. A process that ends ends the waiting, too.
    pub fn next_signal(&self, timeout: Duration) -> Option<i32> {
        let timeout = libc::timespec { tv_sec: 0, tv_nsec: i64::from(timeout.subsec_nanos()) };
        // SAFETY: valid set and buffer.
        let signal = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::sigtimedwait(&raw const self.awaited, &raw mut info, &raw const timeout)
        };
        PASSED_ON.contains(&signal).then_some(signal)
    }

    /// Waits for the program to end; passes signals on meanwhile.
    pub fn wait(&self, child: &mut Child) -> std::io::Result<ExitStatus> {
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(status);
            }
            // SAFETY: valid set and buffer; the timeout is only against a lost SIGCHLD.
            let (signal, info) = unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                let timeout = libc::timespec { tv_sec: 1, tv_nsec: 0 };
                (libc::sigtimedwait(&self.awaited, &mut info, &timeout), info)
            };
            // From the terminal (SI_KERNEL) the whole process group has it, the program too.
            if PASSED_ON.contains(&signal) && info.si_code != libc::SI_KERNEL {
                // SAFETY: the child was not waited for yet, so the pid is still its.
                unsafe { libc::kill(child.id() as libc::pid_t, signal) };
            }
        }
    }
}

/// Processes whose environment names this session (proc(5), environ), of those that may be looked at.
pub fn processes_of(session: &Path) -> impl Iterator<Item = libc::pid_t> {
    let variable = [SESSION_ENV.as_bytes(), b"=", session.as_os_str().as_encoded_bytes()].concat();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbered.filter(move |pid: &libc::pid_t| {
        std::fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|word| word == variable))
    })
}
