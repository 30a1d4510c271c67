//! Keeps what is not in the trail yet, and seals it: the thread between the log and the trail.
//!
//! Rows come in the order of the log. Those seen before are dropped, the others grow in memory, by table. Every few
//! seconds, or when they are many, the log's segment ends, and what came before that end is joined, sorted, written and
//! published as one snapshot. A crash at any point leaves each row in the log or in the trail, never in both: see
//! [`crate::log::state`].

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, sync_channel};
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use iotrail_format::schema::{MEMBER, SERVICE_OP, TABLES, Table};
use iotrail_trail::{FILE_ROWS, Seldom, Snapshot, TrailReader, TrailWriter, sort};
use tokio::sync::oneshot;

use crate::aside::{Aside, Entry};
use crate::clock::now_ns;
use crate::error::Error;
use crate::intake::Hold;
use crate::join::Joiner;
use crate::log::Command;
use crate::log::state::{Intent, State};
use crate::metrics::{Metrics, OfTable};
use crate::once::{Once, WINDOW, is_for_good};
use crate::rows::Rows;
use crate::tail::Tail;

/// Rows of a table that are read again at most after a restart, newest first, to know what comes again.
const READ_AGAIN: u64 = 2 << 20;

/// Rows that are durable.
pub struct Arrived {
    /// Their table.
    pub table: &'static Table,
    /// The rows, of [`iotrail_trail::arrow_schema`].
    pub batch: RecordBatch,
    /// Whether they may come again.
    pub repeats: bool,
    /// Whether a seal left them out because they wait.
    pub waiting: bool,
    /// When they came, ns since the epoch.
    pub since: i64,
    /// The memory they hold.
    pub hold: Hold,
}

/// What the keeper's thread is told.
pub enum ToKeeper {
    /// Rows that are durable.
    Rows(Arrived),
    /// The log's segment ended; all rows of it came before.
    Rotated(Result<u64, Error>),
    /// Somebody wants all that came before to be in the trail.
    Seal(SealNow),
    /// The collector ends, and the log with it.
    End,
}

/// A wish for a seal.
pub struct SealNow {
    /// Whether rows that wait are written as they are.
    pub all: bool,
    /// Where to answer.
    pub done: oneshot::Sender<Result<Sealed, String>>,
}

/// What a seal came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Sealed {
    /// The trail's newest snapshot.
    pub snapshot: u64,
    /// Rows that wait for the machine they name, and are not in it.
    pub waiting: u64,
}

/// What a seal wrote, or takes back.
struct Pending {
    /// The last segment its rows are of.
    through: u64,
    /// The snapshot that lists them.
    snapshot: u64,
    /// The rows as they came.
    came: Vec<Came>,
    /// Those of them that wait.
    waiting: Vec<(&'static Table, RecordBatch, i64)>,
    /// How many don't.
    rows: u64,
}

/// The rows, and what is known of those before.
pub struct Keeper {
    trail: PathBuf,
    folder: PathBuf,
    state: State,
    tails: BTreeMap<&'static str, Tail>,
    holds: Vec<Hold>,
    once: Once,
    joiner: Joiner,
    waiting: u64,
    snapshot: u64,
    aside: Aside,
    /// A publication that failed, of which it isn't known yet whether it came as far as listing the files for good.
    pending: Option<Pending>,
    failures: Seldom,
    metrics: Arc<Metrics>,
}

impl Keeper {
    /// Opens the trail, and learns from it what may come again and who is who.
    ///
    /// # Errors
    /// Those of reading the trail.
    pub fn open(trail: &Path, folder: &Path, state: State, metrics: Arc<Metrics>) -> Result<Self, Error> {
        let mut keeper = Self {
            trail: trail.to_owned(),
            folder: folder.to_owned(),
            state,
            tails: BTreeMap::new(),
            holds: Vec::new(),
            once: Once::default(),
            joiner: Joiner::default(),
            waiting: 0,
            snapshot: 0,
            aside: Aside::of(folder),
            pending: None,
            failures: Seldom::default(),
            metrics,
        };
        let reader = TrailReader::open(trail)?;
        keeper.snapshot = reader.snapshot().snapshot;
        keeper.remember(&reader)?;
        Ok(keeper)
    }

    /// Reads again what was sealed lately, newest first, and what is known for good.
    fn remember(&mut self, reader: &TrailReader) -> Result<(), Error> {
        let now = now_ns();
        for table in TABLES {
            let mut left = READ_AGAIN;
            let for_good = is_for_good(table) || table.name == MEMBER.name;
            let mut files: Vec<_> = reader.snapshot().files(table.name).iter().collect();
            files.sort_by(|a, b| b.path.cmp(&a.path));
            for entry in files {
                let sealed = sealed_at(&entry.path).unwrap_or(now);
                if !for_good && (now - sealed > WINDOW || entry.rows > left) {
                    break;
                }
                if !for_good {
                    left -= entry.rows;
                }
                for batch in reader.file(table, entry)? {
                    let batch = batch?;
                    self.once.fresh(table, &batch, sealed.min(now));
                    let recent = table.name == SERVICE_OP.name;
                    self.joiner.learn(table, &batch, recent, sealed.min(now));
                }
            }
        }
        Ok(())
    }

    /// Takes rows.
    pub fn take(&mut self, rows: Arrived) {
        let Arrived { table, mut batch, repeats, waiting, since, hold } = rows;
        if waiting {
            // It was looked at before the crash; from now on it is known again.
            let _ = self.once.fresh(table, &batch, since);
        } else if repeats || is_for_good(table) {
            let fresh = self.once.fresh(table, &batch, since);
            let dropped = batch.num_rows() - fresh.true_count();
            if dropped > 0 {
                let of = OfTable { table: table.name };
                self.metrics.duplicates.get_or_create(&of).inc_by(dropped as u64);
                batch = filter_record_batch(&batch, &fresh).expect("one value a row");
            }
            self.metrics.forgotten.inc_by(std::mem::take(&mut self.once.forgotten));
        }
        self.joiner.learn(table, &batch, repeats, since);
        self.tails.entry(table.name).or_insert_with(|| Tail::new(table)).append(&batch, since);
        self.holds.push(hold);
    }

    /// Whether there is nothing to seal. Messages of which every row was known leave no rows, but are in the log; and
    /// what came before and is in the trail may have rows that follow from it by now, or with `all`.
    fn is_empty(&self, all: bool) -> bool {
        let is_sealed = self.holds.is_empty() && self.pending.is_none();
        is_sealed && self.fullest() == 0 && !self.joiner.finds(now_ns(), all)
    }

    /// Rows of the fullest table.
    fn fullest(&self) -> usize {
        self.tails.values().map(Tail::rows).max().unwrap_or(0)
    }

    /// Writes all that came to the trail; it is of segments up to `through`. With `all`, also what waits, as it is.
    /// Rows that the trail will never take are set aside, and the rest is written.
    ///
    /// # Errors
    /// Those of writing the trail and the log; nothing is lost then, and it may be tried again.
    pub fn seal(&mut self, through: u64, log: &Sender<Command>, all: bool) -> Result<Sealed, Error> {
        match self.try_to_seal(through, log, all) {
            Err(error) if is_of_rows(&error) && self.set_bad_rows_aside(through, &error)? > 0 => {
                self.try_to_seal(through, log, all)
            }
            other => other,
        }
    }

    /// Sets all rows aside that the trail will never take. Returns how many those are.
    fn set_bad_rows_aside(&mut self, through: u64, error: &Error) -> Result<u64, Error> {
        let mut rows = 0;
        let names: Vec<&'static str> = self.tails.keys().copied().collect();
        for name in names {
            let table = iotrail_format::schema::table(name).expect("tails are of tables");
            let (batch, since) = self.tails.entry(name).or_insert_with(|| Tail::new(table)).take();
            let mut bad = Vec::new();
            let mut good = Vec::new();
            for (batch, since) in pieces(&batch, &since) {
                part(&batch, &|piece| self.takes(table, piece), &mut |piece, takes| match takes {
                    true => good.push((piece, since)),
                    false => bad.push(piece),
                });
            }
            let set_aside = self.keep_aside(table, &format!("{through:012}-{}", now_ns()), &bad, error);
            if set_aside.is_err() {
                good = pieces(&batch, &since).collect();
            }
            let tail = self.tails.entry(name).or_insert_with(|| Tail::new(table));
            good.iter().for_each(|(piece, since)| tail.append(piece, *since));
            set_aside?;
            rows += bad.iter().map(|piece| piece.num_rows() as u64).sum::<u64>();
            self.metrics.set_aside.inc_by(u64::from(!bad.is_empty()));
        }
        Ok(rows)
    }

    /// Whether the trail takes rows: an error of the storage says nothing about them.
    fn takes(&self, table: &'static Table, rows: &RecordBatch) -> bool {
        // What no snapshot comes to list is removed again.
        let write = || write(&mut TrailWriter::open(&self.trail)?, table, rows);
        let written = catch_unwind(AssertUnwindSafe(write));
        written.is_ok_and(|written| !written.is_err_and(|error| is_of_rows(&error)))
    }

    fn keep_aside(
        &self,
        table: &'static Table,
        name: &str,
        bad: &[RecordBatch],
        error: &Error,
    ) -> Result<(), Error> {
        let Some(first) = bad.first() else { return Ok(()) };
        let arrow = |source| iotrail_trail::Error::Arrow { action: "set rows aside", source };
        let rows = concat_batches(&first.schema(), bad).map_err(arrow)?;
        let rows = Rows::of(table, rows).map_err(arrow)?;
        let entry = Entry {
            name: format!("{name}-{}", table.name),
            table: table.name,
            agent: "",
            why: &error.to_string(),
        };
        self.aside.keep(&entry, &rows.ipc)
    }

    fn try_to_seal(&mut self, through: u64, log: &Sender<Command>, all: bool) -> Result<Sealed, Error> {
        let begun = Instant::now();
        let now = now_ns();
        self.settle(log)?;
        let mut came = Vec::new();
        let mut waiting: Vec<(&'static Table, RecordBatch, i64)> = Vec::new();
        let mut writer = TrailWriter::open(&self.trail)?.synced();
        let mut rows = 0;
        if let Some((table, found)) = self.joiner.found(now, all) {
            // After a crash some are found again.
            let fresh = self.once.fresh(table, &found, now);
            let found = filter_record_batch(&found, &fresh).expect("one value a row");
            self.tails.entry(table.name).or_insert_with(|| Tail::new(table)).append(&found, now);
        }
        for (name, tail) in &mut self.tails {
            let table = iotrail_format::schema::table(name).expect("tails are of tables");
            if tail.rows() == 0 {
                continue;
            }
            let (batch, since) = tail.take();
            came.push((table, batch.clone(), since.clone()));
            let joiner = &mut self.joiner;
            let written = catch_unwind(AssertUnwindSafe(|| {
                let settled = joiner.settle(table, batch, &since, now, all);
                write(&mut writer, table, &settled.ready).map(|()| settled)
            }));
            match written.unwrap_or_else(|_| Err(panicked(table))) {
                Ok(settled) => {
                    waiting.extend(settled.waiting.into_iter().map(|(batch, since)| (table, batch, since)));
                    rows += settled.ready.num_rows() as u64;
                }
                Err(e) => {
                    self.put_back(came);
                    return Err(e);
                }
            }
        }
        let published = self.publish(&mut writer, through, log, &waiting);
        let pending = Pending { through, snapshot: writer.snapshot().snapshot, came, waiting, rows };
        match published {
            Ok(()) => self.finish(pending, log),
            Err(e) if self.state.intent.is_some() => {
                self.pending = Some(pending);
                if self.settle(log).is_err() || self.state.sealed != through {
                    return Err(e);
                }
            }
            Err(e) => {
                self.put_back(pending.came);
                return Err(e);
            }
        }
        self.metrics.seal_seconds.observe(begun.elapsed().as_secs_f64());
        Ok(Sealed { snapshot: self.snapshot, waiting: self.waiting })
    }

    /// After a failure: the rows as they came, before those that came since.
    fn put_back(&mut self, came: Vec<Came>) {
        self.joiner.unjoined = 0;
        for (table, batch, since) in came {
            let tail = self.tails.entry(table.name).or_insert_with(|| Tail::new(table));
            pieces(&batch, &since).for_each(|(piece, since)| tail.append(&piece, since));
        }
    }

    fn publish(
        &mut self,
        writer: &mut TrailWriter,
        through: u64,
        log: &Sender<Command>,
        waiting: &[(&'static Table, RecordBatch, i64)],
    ) -> Result<(), Error> {
        if !waiting.is_empty() {
            let rows: Result<Vec<_>, _> = waiting
                .iter()
                .map(|(table, batch, since)| Rows::of(table, batch.clone()).map(|rows| (rows, *since)))
                .collect();
            let arrow = |source| iotrail_trail::Error::Arrow { action: "keep rows that wait", source };
            let (done, kept) = sync_channel(1);
            let asked = log.send(Command::Wait(through, rows.map_err(arrow)?, done));
            let kept = asked.ok().and_then(|()| kept.recv().ok());
            kept.unwrap_or_else(|| Err(Error::ending(&self.folder)))?;
        }
        if let Some(file) = writer.first_added() {
            let intent = Intent {
                through,
                snapshot: writer.snapshot().snapshot.saturating_add(1),
                file: file.to_owned(),
            };
            self.state.intent = Some(intent);
            self.state.write(&self.folder)?;
            writer.publish()?;
        }
        Ok(())
    }

    /// Finds out what became of a publication that failed. What is in the trail must not be written again, nor leave the
    /// log before a power cut can't take it any more.
    fn settle(&mut self, log: &Sender<Command>) -> Result<(), Error> {
        let Some(intent) = self.state.intent.as_ref().filter(|_| self.pending.is_some()) else {
            return Ok(());
        };
        let is_published = intent.is_published(&self.trail)?;
        if is_published {
            iotrail_trail::sync_snapshots(&self.trail)?;
        }
        match self.pending.take() {
            Some(pending) if is_published => self.finish(pending, log),
            Some(pending) => self.put_back(pending.came),
            None => {}
        }
        self.state.intent = None;
        Ok(())
    }

    /// After a publication: what was sealed is in the trail for good, what waits still does.
    fn finish(&mut self, sealed: Pending, log: &Sender<Command>) {
        self.state = State { sealed: sealed.through, intent: None };
        // If this fails, the intent tells the same.
        if self.state.write(&self.folder).is_ok() {
            let _ = log.send(Command::Sealed(sealed.through));
        }
        self.holds.clear();
        self.snapshot = sealed.snapshot;
        self.waiting = sealed.waiting.iter().map(|(_, batch, _)| batch.num_rows() as u64).sum();
        for (table, batch, since) in sealed.waiting {
            self.tails.entry(table.name).or_insert_with(|| Tail::new(table)).append(&batch, since);
        }
        self.metrics.sealed_rows.inc_by(sealed.rows);
        self.metrics.waiting.set(i64::try_from(self.waiting).unwrap_or(i64::MAX));
        self.metrics.unjoined.inc_by(std::mem::take(&mut self.joiner.unjoined));
    }

    /// Does what it is told until nobody can tell it any more. Seals every `every`.
    pub fn run(mut self, told: &Receiver<ToKeeper>, log: Sender<Command>, every: Duration) {
        let mut due = Instant::now() + every;
        let mut wishes: Vec<SealNow> = Vec::new();
        let mut rotating = false;
        loop {
            match told.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(ToKeeper::Rows(rows)) => self.take(rows),
                Ok(ToKeeper::Seal(wish)) => wishes.push(wish),
                Ok(ToKeeper::End) => {
                    let _ = log.send(Command::End);
                    return;
                }
                Ok(ToKeeper::Rotated(ended)) => {
                    rotating = false;
                    let all = wishes.iter().any(|wish| wish.all);
                    let sealed = ended.and_then(|through| self.seal(through, &log, all));
                    if let Err(e) = &sealed {
                        self.metrics.seal_failures.inc();
                        self.failures
                            .say(&format!("iotrail: cannot write to the trail, and tries again: {e}"));
                    }
                    for wish in wishes.drain(..) {
                        let _ = wish.done.send(sealed.as_ref().copied().map_err(ToString::to_string));
                    }
                    due = Instant::now() + every;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if rotating {
                continue;
            }
            if self.is_empty(wishes.iter().any(|wish| wish.all)) {
                let nothing = Sealed { snapshot: self.snapshot, waiting: 0 };
                wishes.drain(..).for_each(|wish| drop(wish.done.send(Ok(nothing))));
            } else if self.fullest() >= FILE_ROWS || Instant::now() >= due || !wishes.is_empty() {
                rotating = log.send(Command::Rotate).is_ok();
            }
            if Instant::now() >= due {
                due = Instant::now() + every;
            }
        }
    }
}

/// Rows by when they came.
fn pieces(batch: &RecordBatch, since: &[(usize, i64)]) -> impl Iterator<Item = (RecordBatch, i64)> {
    let ends = since.iter().skip(1).map(|(row, _)| *row).chain([batch.num_rows()]);
    since.iter().zip(ends).map(|((start, since), end)| (batch.slice(*start, end - start), *since))
}

/// Parts rows into those that `takes` and single ones that it doesn't, by halves.
fn part(rows: &RecordBatch, takes: &impl Fn(&RecordBatch) -> bool, give: &mut impl FnMut(RecordBatch, bool)) {
    if takes(rows) {
        return give(rows.clone(), true);
    }
    if rows.num_rows() <= 1 {
        return give(rows.clone(), false);
    }
    let half = rows.num_rows() / 2;
    part(&rows.slice(0, half), takes, give);
    part(&rows.slice(half, rows.num_rows() - half), takes, give);
}

/// Whether it is the rows that can't be written, whatever the storage.
fn is_of_rows(error: &Error) -> bool {
    use iotrail_trail::Error::{Arrow, BadRows};
    matches!(error, Error::Trail(BadRows { .. } | Arrow { .. }))
}

fn panicked(table: &'static Table) -> Error {
    let why = "they can't be sorted or encoded".to_owned();
    iotrail_trail::Error::BadRows { table: table.name, why }.into()
}

/// Sorts rows and writes them, as files of at most [`FILE_ROWS`].
fn write(writer: &mut TrailWriter, table: &'static Table, rows: &RecordBatch) -> Result<(), Error> {
    let sorted = sort(table, rows)?;
    let mut start = 0;
    while start < sorted.num_rows() {
        // A rest that is small goes along.
        let left = sorted.num_rows() - start;
        let length = if left > FILE_ROWS + FILE_ROWS / 2 { FILE_ROWS } else { left };
        writer.append(table, &sorted.slice(start, length))?;
        start += length;
    }
    Ok(())
}

/// When a data file was written, ns since the epoch: names begin with it, in ms.
fn sealed_at(path: &str) -> Option<i64> {
    let name = path.rsplit('/').next()?;
    Some(i64::from_str_radix(name.split('-').next()?, 16).ok()?.saturating_mul(1_000_000))
}

/// Rows of a table, and from which row on they came at which time, ns since the epoch.
type Came = (&'static Table, RecordBatch, Vec<(usize, i64)>);

/// Opens a trail, or makes an empty one, durably: the log beside it is.
///
/// # Errors
/// Those of the trail.
pub fn open_trail(path: &Path) -> Result<(), Error> {
    use iotrail_trail::Error::{BadSnapshot, NotATrail, NotFound};
    let force = match Snapshot::newest(path) {
        Ok(_) => return Ok(()),
        Err(NotFound { .. }) => false,
        // A crash while it was made may have left a part of it.
        Err(NotATrail { .. } | BadSnapshot { .. }) if is_without_rows(path) => true,
        Err(e) => return Err(e.into()),
    };
    TrailWriter::create(path, force)?.synced().publish()?;
    Ok(())
}

/// Whether a directory consists of what an empty trail does.
fn is_without_rows(path: &Path) -> bool {
    let names = |folder: &Path| -> Option<Vec<_>> {
        std::fs::read_dir(folder).ok()?.map(|entry| Some(entry.ok()?.file_name())).collect()
    };
    let is_part = |name: &std::ffi::OsString| name == "snapshots" || name == "data";
    names(path).is_some_and(|parts| {
        parts.iter().all(is_part)
            && parts
                .iter()
                .filter(|part| *part == "data")
                .all(|data| names(&path.join(data)).is_some_and(|tables| tables.is_empty()))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use arrow_array::types::Int32Type;
    use arrow_array::{ArrayRef, DictionaryArray, Int64Array, StringArray};
    use iotrail_format::schema::FILE;

    use super::*;

    /// Files of ids, one of which may be null though none may be.
    fn files(ids: &[Option<i64>]) -> RecordBatch {
        let nodes: DictionaryArray<Int32Type> = ids.iter().map(|_| Some("n-1")).collect();
        let paths: Vec<String> = ids.iter().map(|id| format!("/file/{id:?}")).collect();
        let columns = FILE.columns.iter().map(|column| -> (&str, ArrayRef) {
            let values: ArrayRef = match column.name {
                "node" => Arc::new(nodes.clone()),
                "file" => Arc::new(Int64Array::from(ids.to_vec())),
                "path" => Arc::new(StringArray::from(paths.clone())),
                other => panic!("a new column {other}"),
            };
            (column.name, values)
        });
        let columns = columns.map(|(name, values)| (name, values, true));
        RecordBatch::try_from_iter_with_nullable(columns).unwrap()
    }

    /// Rows that the trail refuses are set aside and named; all others are sealed, those of the same message too.
    #[test]
    fn rows_that_cannot_be_sealed_are_set_aside() {
        let folder = tempfile::tempdir().unwrap();
        let (trail, log) = (folder.path().join("a.trail"), folder.path().join("a.log"));
        std::fs::create_dir(&log).unwrap();
        open_trail(&trail).unwrap();
        let metrics = Arc::new(Metrics::default());
        let mut keeper = Keeper::open(&trail, &log, State::default(), metrics).unwrap();
        for (since, ids) in [(1, vec![Some(1), None, Some(2)]), (2, vec![Some(3)]), (3, vec![None])] {
            let batch = files(&ids);
            keeper.take(Arrived {
                table: &FILE,
                batch,
                repeats: false,
                waiting: false,
                since,
                hold: Hold::none(),
            });
        }
        let (to_log, _commands) = channel();
        keeper.seal(1, &to_log, true).unwrap();
        assert_eq!(Snapshot::newest(&trail).unwrap().rows("file"), 3);
        assert_eq!(keeper.aside.entries(), 1);
        let names = std::fs::read_dir(keeper.aside.folder()).unwrap().flatten().map(|entry| entry.path());
        let text = names.filter(|path| path.extension().is_some_and(|kind| kind == "txt"));
        let text: String = text.map(|path| std::fs::read_to_string(path).unwrap()).collect();
        assert!(text.contains("table: file\n") && text.contains("\"file\" is null"), "{text}");
        // Nothing is left over.
        assert!(keeper.tails.values().all(|tail| tail.rows() == 0));
        keeper.seal(2, &to_log, true).unwrap();
        assert_eq!(keeper.aside.entries(), 1);
    }
}
