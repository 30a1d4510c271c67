//! The closing lines of `iotrail record`: what was recorded, what was not seen, and what is lost.

use std::path::Path;
use std::time::Duration;

use iotrail_trail::say;
use iotrail_trail::seal::{Sealed, Unsealed};

use crate::human::{bytes, counted, duration};
use crate::prune::Outcome;

/// Kinds of `unseen` that `--kernel` sees.
const SEEN_BY_KERNEL: [&str; 8] = [
    "static_program",
    "setuid_program",
    "io_uring_setup",
    "io_uring_enter",
    "preload_removed",
    "other_libc",
    "go_program",
    "chroot_program",
];

/// What was asked for, as far as the lines depend on it.
#[derive(Clone, Copy)]
pub struct Asked {
    /// A summary follows.
    pub summary: bool,
    /// The recording went on for processes that outlived the program.
    pub follow: bool,
    /// The kernel was asked for calls that pass no recorder.
    pub calls_of_kernel: bool,
}

/// The closing lines. Returns whether the recording goes to the program's end.
pub fn report(path: &Path, sealed: Result<Sealed, Unsealed>, took: Duration, asked: Asked) -> bool {
    let shown = path.display();
    let sealed = match sealed {
        Ok(sealed) => sealed,
        Err(Unsealed { error, lost_since }) => {
            say!("iotrail: error: the recording was stopped: {error}");
            if let Some(since) = lost_since {
                say!("  what programs did in the last {} is lost", duration(since.elapsed()));
            }
            say!("  what was recorded and is not yet in {shown} is kept until the machine is started anew");
            say!("  hint: when that can be written again, iotrail trail check {shown} adds it");
            return false;
        }
    };
    let totals = &sealed.totals;
    say!(
        "iotrail: {} of {} on {} in {}; read {}, wrote {}",
        counted(totals.calls, "call"),
        counted(totals.processes, "process"),
        counted(totals.files, "file"),
        duration(took),
        bytes(totals.read),
        bytes(totals.written),
    );
    if totals.records != 0 {
        say!("iotrail: {} of requests", counted(totals.records, "record"));
    }
    if totals.kernel != 0 {
        say!("iotrail: {}", counted(totals.kernel, "kernel record"));
    }
    let mut unseen = Vec::new();
    for (kind, amount) in &totals.unseen {
        unseen.push(match *kind {
            "static_program" => counted(*amount, "statically linked program"),
            "setuid_program" => counted(*amount, "setuid program"),
            "foreign_program" => counted(*amount, "program of another architecture"),
            "preload_removed" => counted(*amount, "program without the recorder in its environment"),
            "io_uring_setup" => counted(*amount, "ring of io_uring"),
            "io_uring_enter" => counted(*amount, "submission to io_uring"),
            "seccomp" => counted(*amount, "process under a seccomp filter"),
            "other_libc" => counted(*amount, "program of another C library"),
            "go_program" => counted(*amount, "Go program"),
            "chroot_program" => counted(*amount, "program in a root directory without the recorder"),
            "native_aio" => counted(*amount, "submission of native AIO"),
            "unfollowed_mapping" => format!("munmap and msync of {}", counted(*amount, "mapping")),
            "unfollowed_mpi" => counted(*amount, "MPI handle"),
            "kernel_dropped" => counted(*amount, "kernel event"),
            "bad_record" => format!("{} with impossible values", counted(*amount, "record")),
            "overwritten_ring" => {
                let what = counted(*amount, "thread");
                format!("what {what} did after the program wrote over the memory it records into")
            }
            "refused_segment" => counted(*amount, "file that no program of the recording can have made"),
            "unread_segment" => {
                let what = counted(*amount, "process");
                // Beyond the files that are refused nothing is looked at.
                format!(
                    "all that {what} recorded, which could not be opened (ulimit -n, ulimit -v) or came after too many \
                     files of no program"
                )
            }
            "bad_type" => format!("{} of undeclared types", counted(*amount, "record")),
            "redeclared_type" => {
                format!("{} of types that were declared before with other columns", counted(*amount, "record"))
            }
            "mapped_file" => format!("page faults of {} of mapped files", bytes(*amount)),
            other => format!("{other}: {amount}"),
        });
    }
    if totals.lost != 0 {
        unseen.push(format!("{} that found no room (--memory gives more)", counted(totals.lost, "call")));
    }
    if sealed.foreign_versions != 0 {
        unseen.push(counted(sealed.foreign_versions, "program recorded by another version of iotrail"));
    }
    if !sealed.running.is_empty() {
        let pids: Vec<_> = sealed.running.iter().take(5).map(u32::to_string).collect();
        unseen.push(format!(
            "what {} did after the end (pid {})",
            counted(sealed.running.len() as u64, "process still running"),
            pids.join(", ")
        ));
    }
    if sealed.refused != 0 {
        let what = counted(sealed.refused, "process");
        let why = sealed.wanted.join("; ");
        unseen.push(format!("{what} that got no memory to record into ({why})"));
    } else if totals.processes == 0 {
        unseen.push("anything: the recorder was not loaded into the program".into());
    }
    if !unseen.is_empty() {
        say!("iotrail: not seen: {}", unseen.join("; "));
    }
    let seen_by_kernel = totals.unseen.keys().any(|kind| SEEN_BY_KERNEL.contains(kind));
    if seen_by_kernel && !asked.calls_of_kernel {
        say!("  hint: as root, iotrail record --kernel records their calls where they reach the kernel");
    }
    if !sealed.running.is_empty() && !asked.follow {
        say!("  hint: iotrail record --follow records until the last process has ended");
    }
    if let Some(why) = &sealed.volatile {
        say!("iotrail: warning: {why}; had the recorder been killed, the last seconds were lost");
    }
    if let Some(Unsealed { error, lost_since }) = &sealed.stopped {
        say!("iotrail: error: writing the trail was stopped: {error}");
        match lost_since {
            Some(since) => say!(
                "  what programs did in the last {} is lost; what was recorded before is in the trail",
                duration(since.elapsed())
            ),
            None => say!("  it could be written at the end: all that was recorded is in the trail"),
        }
    }
    let on_disk = size_of_tree(path).map_or(String::new(), |size| format!(", {}", bytes(size)));
    let next = if asked.summary { "" } else { "; next: iotrail report " };
    let name = if asked.summary { String::new() } else { shown.to_string() };
    say!("iotrail: {shown}{on_disk}{next}{name}");
    sealed.stopped.is_none_or(|stopped| stopped.lost_since.is_none())
}

/// A line about what was pruned meanwhile, where that failed.
pub fn report_pruned(pruned: Option<Outcome>, trail: &Path) {
    if let Some(Outcome { runs, failed, why }) = pruned.filter(|outcome| outcome.failed != 0) {
        say!("iotrail: warning: --prune failed {failed} of {}, the last time: {why}", counted(runs, "time"));
        say!("  hint: nothing is lost; iotrail trail prune {} does it now", trail.display());
    }
}

/// Bytes of all files in a folder; none if a part of it can't be read.
fn size_of_tree(path: &Path) -> Option<u64> {
    let mut size = 0;
    for entry in std::fs::read_dir(path).ok()? {
        let entry = entry.ok()?;
        let meta = entry.metadata().ok()?;
        size += if meta.is_dir() { size_of_tree(&entry.path())? } else { meta.len() };
    }
    Some(size)
}
