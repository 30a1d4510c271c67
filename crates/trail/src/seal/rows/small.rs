//! Rows of the small tables: processes, threads, files, clocks, what was not seen.

use std::collections::BTreeMap;

use iotrail_format::schema::{CLOCK, FILE, PROCESS, THREAD, THREAD_TIME, UNSEEN};
use iotrail_format::segment::UnseenKind;

use super::{Rows, Sink};
use crate::arrays::{Value, batch, lossy};
use crate::error::Error;

/// Rows of small tables.
#[derive(Default)]
pub(super) struct Small {
    pub(super) process: Vec<Vec<Value>>,
    pub(super) thread: Vec<Vec<Value>>,
    pub(super) file: Vec<Vec<Value>>,
    pub(super) clock: Vec<Vec<Value>>,
    pub(super) time: Vec<Vec<Value>>,
    /// By kind, process and file: amount, times.
    unseen: BTreeMap<(&'static str, i64, i64), (i64, i64)>,
}

impl Small {
    /// Adds up what of one kind a process could not see of a file.
    pub(super) fn add(&mut self, kind: &'static str, process: i64, file: i64, amount: i64) {
        let sum = self.unseen.entry((kind, process, file)).or_default();
        sum.0 = sum.0.saturating_add(amount);
        sum.1 += 1;
    }

    /// Forgets what a recorder in a program couldn't see: the kernel's recorder did.
    pub(super) fn see_all_calls(&mut self) {
        let seen = [
            UnseenKind::Static,
            UnseenKind::Setuid,
            UnseenKind::Environment,
            UnseenKind::UringSetup,
            UnseenKind::UringEnter,
            UnseenKind::OtherLibc,
            UnseenKind::Go,
            UnseenKind::Chroot,
        ];
        self.unseen.retain(|(kind, ..), _| !seen.iter().any(|seen| seen.name() == *kind));
    }
}

impl Rows {
    pub(super) fn write_small(&mut self, mut small: Small, sink: Sink<'_>) -> Result<(), Error> {
        for (file, path) in std::mem::take(&mut self.new_files) {
            small.file.push(vec![self.node.as_str().into(), file.into(), lossy(&path).into()]);
        }
        for ((kind, ..), (amount, _)) in &small.unseen {
            // Lost calls are counted as such.
            if !matches!(*kind, "dropped" | "interrupted" | "no_memory") {
                let sum = self.totals.unseen.entry(kind).or_default();
                *sum = sum.saturating_add(*amount as u64);
            }
        }
        let unseen = small.unseen.iter().map(|((kind, process, file), (amount, times))| {
            vec![
                self.node.as_str().into(),
                (*kind).into(),
                Some(*process).filter(|id| *id != 0).into(),
                Some(*file).filter(|id| *id != 0).into(),
                (*amount).into(),
                detail(kind, *times).into(),
            ]
        });
        let unseen = unseen.collect();
        for (table, rows) in [
            (&PROCESS, small.process),
            (&THREAD, small.thread),
            (&FILE, small.file),
            (&CLOCK, small.clock),
            (&THREAD_TIME, small.time),
            (&UNSEEN, unseen),
        ] {
            if !rows.is_empty() {
                sink(table, batch(table, rows)?)?;
            }
        }
        Ok(())
    }
}

/// A sentence for people about what was not seen.
fn detail(kind: &str, times: i64) -> String {
    match kind {
        "dropped" => "calls that were made faster than they could be written away".into(),
        "interrupted" => {
            "calls whose record was begun and never completed (longjmp out of a handler, or killed)".into()
        }
        "no_memory" => "calls of threads that got no memory to record into; --memory gives more".into(),
        "mapped_file" => {
            let often = if times == 1 { "once".into() } else { format!("{times} times") };
            format!("mapped into memory {often}; what the program reads and writes there makes no call")
        }
        "static_program" => "statically linked programs load no recorder".into(),
        "setuid_program" => "programs that gain privileges load no recorder".into(),
        "io_uring_setup" => "rings of io_uring; what is submitted to them makes no call".into(),
        "io_uring_enter" => "submissions or waits of io_uring, each for any number of operations".into(),
        "preload_removed" => "programs started with an environment that lacks the recorder".into(),
        "foreign_program" => "programs of another architecture load no recorder".into(),
        "seccomp" => {
            "processes under a seccomp filter: their calls are recorded only as far as that needs no system \
                      call of the recorder, those of programs and processes they start are not"
                .into()
        }
        "other_libc" => "programs of another C library (musl) load no recorder".into(),
        "go_program" => "Go programs make their system calls past the C library".into(),
        "chroot_program" => {
            "programs started in a root directory without the recorder's library load no recorder".into()
        }
        "native_aio" => "submissions of Linux native AIO".into(),
        "bad_record" => {
            "records with impossible values: the program posted them so, or wrote over the memory it records into; \
             they have no rows"
                .into()
        }
        "overwritten_ring" => {
            "threads whose further calls are missing: the program wrote over the memory they are recorded into"
                .into()
        }
        "refused_segment" => {
            "files in the recording's folder that no program of the recording can have made; they were not read"
                .into()
        }
        "unread_segment" => {
            "processes whose calls are all missing: the system did not let the recorder open what they recorded, \
             or it came after more files of no program than are looked at"
                .into()
        }
        "bad_type" => "records of a type whose description never came".into(),
        "redeclared_type" => {
            "records of a type of whose name another one, with other columns, was declared before".into()
        }
        "kernel_dropped" => "events of the kernel that found no room, or that it left out".into(),
        "unfollowed_mapping" => {
            "mappings beyond those followed at once; their munmap, msync and madvise have no rows".into()
        }
        "unfollowed_mpi" => {
            "communicators, windows, files and requests of MPI beyond those followed at once; their rows lack who they \
             wait for"
                .into()
        }
        _ => String::new(),
    }
}

pub(super) fn base_name(path: &[u8]) -> String {
    lossy(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path))
}

/// NUL-separated arguments as one would type them.
pub(super) fn command_line(bytes: &[u8]) -> String {
    let arguments = bytes.strip_suffix(b"\0").unwrap_or(bytes).split(|byte| *byte == 0);
    let quoted = arguments.map(|argument| {
        let text = lossy(argument);
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@%".contains(c) || !c.is_ascii();
        if !text.is_empty() && text.chars().all(plain) {
            text
        } else {
            format!("'{}'", text.replace('\'', "'\\''"))
        }
    });
    quoted.collect::<Vec<_>>().join(" ")
}
