//! The sealer: from the segments of a recorded program to Parquet, beside the program.
//!
//! ```text
//! program ─ posts ─▶ ring (segment) ─ drain thread ─▶ journal ─ writer thread ─▶ Parquet, snapshot
//!                    tmpfs                            tmpfs                       trail
//! ```
//!
//! - [`session`] is the place on tmpfs where both meet, [`view`] how a segment is read,
//! - [`drain`] empties the rings into a [`journal`], whose slots [`rows`] turns into tables,
//! - [`clock`] turns counter ticks into nanoseconds,
//! - [`recover`] does the same for a session whose recorder was killed.
//!
//! Constraints: memory stays within the session's budget, whatever the recording's length; the
//! program never waits for the sealer (a full ring drops and counts); at any moment each posted call
//! is in a ring, in a journal or in a published snapshot, so that no SIGKILL loses one.

pub mod clock;
pub mod drain;
pub mod journal;
mod map;
mod mounts;
pub mod plain;
pub mod recover;
pub mod rows;
pub mod session;
pub mod view;

#[cfg(test)]
#[path = "../../tests/producer/mod.rs"]
mod producer;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use iotrail_format::ids::hash63;
use iotrail_format::segment::Want;

use self::drain::{Drain, Output, Stopped, Turn};
use self::journal::{Carry, JOURNAL_PREFIX, Journal, Left};
use self::rows::{Rows, Totals};
use self::session::{Budget, Session, SessionFile};
use crate::error::{Error, IoContext as _};
use crate::writer::TrailWriter;

/// Shortest and longest pause between two passes over the rings. On a machine without an idle core each
/// pass interrupts the program: passing every millisecond tripled its calls' p99.99, and rings grow to hold
/// more. A producer with a ring half full doesn't wait for the next pass: it wakes the sealer.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(40));
/// Pause while the last processes of an ended program end.
const END_PAUSE: Duration = Duration::from_micros(500);
/// Youngest and oldest age at which a pending journal is written, full or not. In between it is a
/// fiftieth of the recording's length, so that the number of small files grows only with its logarithm.
const AGE: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));
/// Journals that take turns.
const JOURNALS: usize = 2;
/// How long processes that are just ending may take after the program has ended.
const GRACE: Duration = Duration::from_millis(200);

/// A fact about a recording: a row of table `recording`.
pub type Fact = (String, Option<String>);

/// What came of a recording.
#[derive(Debug, Default)]
pub struct Sealed {
    /// What was recorded.
    pub totals: Totals,
    /// Processes that still ran when recording ended.
    pub running: Vec<u32>,
    /// Processes that got no memory to record into.
    pub refused: u64,
    /// Why, in words.
    pub wanted: Vec<&'static str>,
    /// Why writing stopped before the recording's end, if it did; at the end it could be gone on with.
    pub stopped: Option<Unsealed>,
    /// Programs recorded by another version of iotrail, whose segments can't be read.
    pub foreign_versions: u64,
    /// Why a kill of the recorder would have lost what was pending, if it would.
    pub volatile: Option<String>,
}

/// Why a recording could not be written. What was published stays; what was recorded and wasn't waits in the session, for
/// the recording's end or for `trail check`.
#[derive(Debug)]
pub struct Unsealed {
    /// What failed.
    pub error: Error,
    /// When what programs did was no longer taken, if that was before the end: from then on it is lost.
    pub lost_since: Option<Instant>,
}

impl From<Error> for Unsealed {
    fn from(error: Error) -> Self {
        Self { error, lost_since: None }
    }
}

/// Writes journals into a trail.
struct Writer {
    trail: TrailWriter,
    rows: Rows,
    dir: PathBuf,
}

impl Writer {
    /// Writes one journal's rows and publishes them.
    fn write(&mut self, journal: &Journal) -> Result<(), Error> {
        let trail = &mut self.trail;
        let sequence = journal.sequence();
        self.rows.apply(journal.units(), sequence, &mut |table, batch| trail.append_more(table, &batch))?;
        // Without room for the carry a crash later on costs names, not calls.
        let carry = Carry::write(&self.dir, sequence, &self.rows.carry());
        trail.end_file()?;
        if let Some(file) = trail.first_added() {
            journal.publishes(trail.snapshot().snapshot.saturating_add(1), hash63(file.as_bytes()));
            trail.publish()?;
        }
        if let Ok(carry) = carry {
            let _ = carry.replace();
        }
        Ok(())
    }
}

/// The drain thread's end of the two channels to the writer thread.
struct ToWriter {
    full: SyncSender<Journal>,
    empty: Receiver<Journal>,
    dir: PathBuf,
    units: usize,
    /// Journals made so far. They are made here, when they are needed: a short recording needs no second.
    made: usize,
    /// Why one could not be made where it outlives a crash.
    volatile: Option<String>,
    /// Why one could not be made at all.
    none: Option<String>,
}

impl ToWriter {
    fn make(&mut self) -> Option<Journal> {
        let made = Journal::create(&self.dir, self.made, self.units).or_else(|error| {
            self.volatile = Some(format!("no room for a journal in {}: {error}", self.dir.display()));
            Journal::volatile(self.units)
        });
        self.made += 1;
        made.map_err(|error| self.none = Some(format!("no memory for a journal: {error}"))).ok()
    }
}

impl Turn for ToWriter {
    fn spare(&mut self, wait: bool) -> Option<Journal> {
        match self.empty.try_recv() {
            Ok(journal) => Some(journal),
            Err(TryRecvError::Empty) if self.made < JOURNALS => self.make(),
            Err(TryRecvError::Empty) if wait => self.empty.recv().ok(),
            Err(_) => None,
        }
    }

    fn full(&mut self, journal: Journal) {
        // A writer that has failed takes nothing; the journal's file stays for a recovery.
        let _ = self.full.send(journal);
    }
}

/// What the drain thread leaves: the session, and its part of [`Sealed`].
type Drained = Result<(Session, Sealed), Undrained>;

/// The drain thread stopped before the end.
struct Undrained {
    since: Instant,
    /// Why, if that was not the writer's failure.
    why: Option<String>,
}

/// A running sealer.
pub struct Sealer {
    trail: PathBuf,
    stop: Arc<AtomicBool>,
    alive: Arc<AtomicBool>,
    drainer: JoinHandle<Drained>,
    writer: JoinHandle<Result<Writer, Error>>,
}

impl Sealer {
    /// Begins to seal what appears in `session` into the trail that `writer` has made, within
    /// `budget`. `facts` are written at once.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no room for the first rows or no memory for the journals.
    pub fn start(
        mut trail: TrailWriter,
        session: Session,
        budget: Budget,
        facts: &[Fact],
    ) -> Result<Self, Error> {
        let path = trail.path().to_owned();
        SessionFile::of(&session).write(&path)?;
        let rows = Rows::new(session.node(), session.clock(), HashSet::new());
        let mut sink = |table, batch| trail.append_more(table, &batch);
        rows.write_facts(facts, &mut sink)?;
        let mono = clock::clock_ns(libc::CLOCK_MONOTONIC);
        rows.write_clock(mono, clock::clock_ns(libc::CLOCK_REALTIME), "start", &mut sink)?;
        trail.publish()?;

        let (full, to_write) = sync_channel(1);
        let (give_back, empty) = channel();
        let mut writer = Writer { trail, rows, dir: session.home().to_owned() };
        let writing = move || {
            for journal in to_write {
                writer.write(&journal)?;
                // The drain thread may have ended.
                let _ = give_back.send(journal);
            }
            Ok(writer)
        };
        let stop = Arc::new(AtomicBool::new(false));
        let dir = session.home().to_owned();
        let turn =
            ToWriter { full, empty, dir, units: budget.journal_units, made: 0, volatile: None, none: None };
        let drain = Drain::new(session, Output::new(turn, 1));
        let alive = Arc::new(AtomicBool::new(true));
        let (stopped, seen_alive) = (stop.clone(), alive.clone());
        let spawn = |name: &str| std::thread::Builder::new().name(name.into());
        Ok(Self {
            writer: spawn("iotrail-write").spawn(writing).at("start a thread for", &path)?,
            drainer: spawn("iotrail-drain")
                .spawn(move || drain_until(drain, &stopped, &seen_alive))
                .at("start a thread for", &path)?,
            trail: path,
            stop,
            alive,
        })
    }

    /// Whether any process of the recording was still there when last looked, some hundredths of a second ago.
    #[must_use]
    pub fn any_alive(&self) -> bool {
        self.alive.load(Ordering::Acquire)
    }

    /// Ends the recording: takes what is left, adds `facts`, publishes and removes the session.
    ///
    /// # Errors
    /// [`Unsealed`] if the trail can't be written.
    pub fn finish(self, facts: &[Fact]) -> Result<Sealed, Unsealed> {
        self.stop.store(true, Ordering::Release);
        let ended = Instant::now();
        let ended_so = || Some("the draining thread ended unexpectedly".to_owned());
        let drained =
            self.drainer.join().unwrap_or_else(|_| Err(Undrained { since: Instant::now(), why: ended_so() }));
        let written = self.writer.join().unwrap_or_else(|_| {
            let source = std::io::Error::other("the writing thread ended unexpectedly");
            Err(source).at("write", &self.trail)
        });
        let (mut writer, (session, mut sealed)) = match (written, drained) {
            (Ok(writer), Ok(drained)) => (writer, drained),
            // There may be room again, or memory: the journals and segments are still there.
            (written, drained) => {
                let undrained = drained.err();
                let lost_since = undrained.as_ref().map(|it| it.since).filter(|since| *since < ended);
                let why = written.err().unwrap_or_else(|| {
                    let why = undrained.and_then(|it| it.why).or_else(ended_so).unwrap_or_default();
                    Error::Io {
                        action: "write",
                        path: self.trail.clone(),
                        source: std::io::Error::other(why),
                    }
                });
                let stopped = |error| Unsealed { error, lost_since };
                let sealed = recover::take_over(&self.trail, facts).map_err(stopped)?;
                return Ok(Sealed { stopped: Some(stopped(why)), ..sealed });
            }
        };
        sealed.totals = writer.rows.totals();
        close_trail(&mut writer.trail, &mut writer.rows, &session, &mut sealed, facts)?;
        SessionFile::remove(&self.trail)?;
        session.remove();
        Ok(sealed)
    }
}

/// What gives a program more of what it had too little of.
const WANTS: [(Want, &str); 4] = [
    (Want::Budget, "--memory gives more"),
    (Want::FileSize, "ulimit -f"),
    (Want::AddressSpace, "ulimit -v, or no memory"),
    (Want::Space, "no space for the session, in /dev/shm"),
];

/// The last rows of a recording, and its last snapshot.
fn close_trail(
    trail: &mut TrailWriter,
    rows: &mut Rows,
    session: &Session,
    sealed: &mut Sealed,
    facts: &[Fact],
) -> Result<u64, Error> {
    let mut sink = |table, batch| trail.append_more(table, &batch);
    rows.finish(u64::MAX, &mut sink)?;
    sealed.totals = Totals { lost: sealed.totals.lost, ..rows.totals() };
    let facts: Vec<Fact> = facts.iter().cloned().chain(rows.mounts()).collect();
    rows.write_facts(&facts, &mut sink)?;
    let mono = clock::clock_ns(libc::CLOCK_MONOTONIC);
    rows.write_clock(mono, clock::clock_ns(libc::CLOCK_REALTIME), "end", &mut sink)?;
    let control = session.control();
    let (elsewhere, wanted) = session.refused_elsewhere();
    sealed.refused = control.refused.load(Ordering::Relaxed).saturating_add(elsewhere);
    let wanted = wanted | control.wanted.load(Ordering::Relaxed);
    sealed.wanted =
        WANTS.iter().filter(|(want, _)| wanted & *want as u32 != 0).map(|(_, words)| *words).collect();
    let refused_calls = control.refused_calls.load(Ordering::Relaxed);
    sealed.totals.lost = sealed.totals.lost.saturating_add(refused_calls);
    let pids: Vec<String> = sealed.running.iter().map(u32::to_string).collect();
    for (kind, amount, detail) in [
        (
            "no_memory",
            refused_calls,
            "calls of processes that got no memory to record into; --memory gives more".to_owned(),
        ),
        (
            "refused_process",
            elsewhere,
            "processes of other users than the recorder's that got no memory to record into: their calls are not known"
                .to_owned(),
        ),
        (
            "still_running",
            sealed.running.len() as u64,
            format!("processes that went on after the recording ended: pid {}", pids.join(", ")),
        ),
        (
            "stopped",
            u64::from(session.was_stopped()),
            "the trail could not be written for a while; what programs did from then on is missing"
                .to_owned(),
        ),
        (
            "other_version",
            sealed.foreign_versions,
            "programs recorded by another version of iotrail, which this one can't read".to_owned(),
        ),
    ] {
        if amount != 0 {
            rows.write_unseen(kind, i64::try_from(amount).unwrap_or(i64::MAX), &detail, &mut sink)?;
        }
    }
    trail.publish()
}

/// The drain thread.
fn drain_until(mut drain: Drain<ToWriter>, stop: &AtomicBool, alive: &AtomicBool) -> Drained {
    let began = Instant::now();
    let mut pause = PAUSE.0;
    let mut woken = true;
    let mut ending: Option<Instant> = None;
    let result = loop {
        let seen = drain.session().control().wake.load(Ordering::Acquire);
        let fill = match drain.pass(woken || ending.is_some()) {
            Ok(fill) => fill,
            Err(Stopped) => break None,
        };
        alive.store(drain.any_alive(), Ordering::Release);
        if woken && fill.slots == 0 && ending.is_none() {
            // Nobody who posts wakes for nothing: who does, again and again, gets no more passes than all others.
            std::thread::sleep(PAUSE.0);
        }
        drain.hand_over((began.elapsed() / 50).clamp(AGE.0, AGE.1));
        if stop.load(Ordering::Acquire) {
            let since = *ending.get_or_insert_with(Instant::now);
            if !drain.any_alive() || since.elapsed() >= GRACE {
                break Some(());
            }
        }
        // Half full is when a producer begins to look for room; stay well below.
        pause = match fill.percent {
            50.. => pause / 4,
            20.. => pause / 2,
            0..5 => pause * 2,
            _ => pause,
        }
        .clamp(PAUSE.0, PAUSE.1);
        woken = sleep(&drain.session().control().wake, seen, pause, stop);
    };
    if result.is_none() {
        drain.session().stop();
        return Err(Undrained { since: Instant::now(), why: drain.turn().none.clone() });
    }
    drain.session().close();
    let foreign_versions = drain.foreign_versions();
    let (turn, session, running) =
        drain.finish().map_err(|Stopped| Undrained { since: Instant::now(), why: None })?;
    let volatile = turn.volatile;
    // Ends the writer thread: nothing follows.
    drop((turn.full, turn.empty));
    Ok((session, Sealed { running, foreign_versions, volatile, ..Sealed::default() }))
}

/// Sleeps until the futex is no longer `seen`, at most `pause`. Whether a producer woke it.
fn sleep(wake: &AtomicU32, seen: u32, pause: Duration, stop: &AtomicBool) -> bool {
    // `finish` doesn't wake the futex: the longest pause is short enough.
    if stop.load(Ordering::Acquire) {
        std::thread::sleep(END_PAUSE);
        return false;
    }
    let timeout = libc::timespec { tv_sec: 0, tv_nsec: i64::from(pause.subsec_nanos()) };
    // SAFETY: futex(2) on a mapped, aligned word with a valid timeout. Not FUTEX_PRIVATE: the
    // wakers are other processes.
    let woken = unsafe {
        libc::syscall(libc::SYS_futex, wake.as_ptr(), libc::FUTEX_WAIT, seen, &raw const timeout) == 0
    };
    // Who may only read the word wakes without changing it.
    woken || wake.load(Ordering::Acquire) != seen
}

/// Hashes of the paths by which a recovery of a trail's recording will tell what was published; none if that can't
/// be told.
pub(crate) fn awaited(trail: &Path) -> Option<HashSet<i64>> {
    let session = SessionFile::read(trail).ok()??;
    let mut hashes = HashSet::from([session.file]);
    for entry in std::fs::read_dir(session.home()).ok()? {
        let entry = entry.ok()?;
        if entry.file_name().as_encoded_bytes().starts_with(JOURNAL_PREFIX.as_bytes()) {
            hashes.insert(Left::file_of(&entry.path()).ok()?);
        }
    }
    Some(hashes)
}

/// Whether snapshot `first` of a trail or a later one lists, or once listed, a file whose path hashes to
/// `file` ([`hash63`]).
///
/// # Errors
/// Those of [`crate::Snapshot::numbers`], and [`Error::Io`] if the storage fails to read one: it may be the one.
pub fn is_listed(trail: &Path, first: u64, file: i64) -> Result<bool, Error> {
    if first == 0 {
        return Ok(false);
    }
    for number in crate::snapshot::Snapshot::numbers(trail)? {
        if number < first {
            continue;
        }
        let snapshot = match crate::snapshot::Snapshot::load(trail, number) {
            Ok(snapshot) => snapshot,
            Err(e) if e.is_of_storage() => return Err(e),
            Err(_) => continue,
        };
        // A compaction may have replaced it since; it is then remembered as long as the session is.
        let live = snapshot.all_files().map(|entry| &entry.path);
        if live.chain(snapshot.dead.iter().map(|dead| &dead.path)).any(|path| hash63(path.as_bytes()) == file)
        {
            return Ok(true);
        }
    }
    Ok(false)
}
