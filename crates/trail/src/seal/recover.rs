//! After a recorder was killed: what its session still holds becomes rows of the trail.
//!
//! In order of age: the carry (state), the journals that no snapshot lists, the segments. The same
//! code as in a live recording reads them; only nobody is there any more to see processes end. All
//! of it is published as one snapshot, which `session.json` names beforehand, so that a recovery
//! that is itself killed can be run again and adds nothing twice.

use std::collections::HashSet;
use std::path::Path;
use std::time::Duration;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use iotrail_format::ids::hash63;
use iotrail_format::schema::FILE;

use super::clock::{Clock, Pair};
use super::drain::{Drain, Output, Turn};
use super::journal::{CARRY_NAME, Event, JOURNAL_PREFIX, Journal, Left, pieces};
use super::rows::Rows;
use super::session::{Session, SessionFile, boot_id};
use super::{Fact, Sealed, close_trail, is_listed};
use crate::error::{Error, IoContext as _};
use crate::file::OpenFile;
use crate::snapshot::Snapshot;
use crate::writer::TrailWriter;

/// Units of the buffer between segments and rows: 8 MiB.
const BUFFER_UNITS: usize = 128 * 1024;
/// Time for calls that are just being posted, once programs were told to stop.
const SETTLE: Duration = Duration::from_millis(50);

/// What `trail check` found of an unfinished recording.
#[derive(Debug)]
pub enum Recovered {
    /// The trail is not being recorded and was ended well.
    Nothing,
    /// The rest of the recording was added.
    Added,
    /// The session is gone (the machine was started anew, or somebody removed it): what was
    /// published is all there is.
    Gone {
        /// Where it was.
        session: std::path::PathBuf,
    },
}

/// Ends the recording of a trail whose recorder was killed.
///
/// # Errors
/// [`Error::Recording`] if the recorder still runs; [`Error::Io`], and those of reading the trail.
pub fn recover(trail: &Path) -> Result<Recovered, Error> {
    let Some(file) = SessionFile::read(trail)? else { return Ok(Recovered::Nothing) };
    if file.recorder_runs() {
        return Err(Error::Recording { path: trail.to_owned(), pid: file.pid });
    }
    if file.boot_id != boot_id() || !file.session_dir.is_dir() {
        let session = file.session_dir;
        let mut writer = TrailWriter::open(trail)?;
        let rows = Rows::new(file.node, Clock::new(0), HashSet::new());
        let mut sink = |table, batch| writer.append_more(table, &batch);
        rows.write_facts(
            &[recovered_fact("its session was gone: the last seconds may be missing")],
            &mut sink,
        )?;
        writer.publish()?;
        SessionFile::remove(trail)?;
        return Ok(Recovered::Gone { session });
    }
    run(trail, file, &[recovered_fact("from the session of a recorder that was killed")])
        .map(|_| Recovered::Added)
}

/// Ends a recording whose writing failed, from within its recorder.
pub(super) fn take_over(trail: &Path, facts: &[Fact]) -> Result<Sealed, Error> {
    let Some(file) = SessionFile::read(trail)? else {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(source).at("read", &trail.join(super::session::SESSION_FILE));
    };
    run(trail, file, facts)
}

fn recovered_fact(how: &str) -> Fact {
    ("recovered".to_owned(), Some(how.to_owned()))
}

fn run(trail: &Path, mut file: SessionFile, facts: &[Fact]) -> Result<Sealed, Error> {
    let session = Session::open(&file.session_dir)?;
    session.close();
    std::thread::sleep(SETTLE);
    let dir = session.home().to_owned();
    if is_listed(trail, file.publishes, file.file)? {
        // An earlier recovery got as far as this.
        SessionFile::remove(trail)?;
        session.remove();
        return Ok(Sealed::default());
    }
    let mut writer = TrailWriter::open(trail)?;
    let known = known_files(trail, writer.snapshot())?;
    let carry = Left::read(&dir.join(CARRY_NAME)).ok().flatten();
    let journals = journals(&dir)?;
    let clock = whole_clock(session.clock(), carry.iter().chain(&journals));
    let mut rows = Rows::new(file.node.clone(), clock, known.iter().map(|(id, _)| *id).collect());
    known.iter().for_each(|(_, path)| rows.note_mount(path.as_bytes()));
    drop(known);

    let mut sequence = 0;
    if let Some(carry) = carry {
        sequence = carry.sequence;
        rows.apply(&carry.units, sequence, &mut |_, _| Ok(()))?;
    }
    let mut ended = HashSet::new();
    let mut last = None;
    for journal in journals {
        for (event, _) in pieces(&journal.units) {
            if let Event::ProcessEnd { process, .. } = event {
                ended.insert(process);
            }
            last = Some(event);
        }
        if journal.sequence <= sequence {
            continue;
        }
        sequence = journal.sequence;
        if is_listed(trail, journal.publishes, journal.file)? {
            // Only what later rows need of it.
            rows.apply(&journal.units, sequence, &mut |_, _| Ok(()))?;
        } else {
            rows.apply(&journal.units, sequence, &mut |table, batch| writer.append_more(table, &batch))?;
        }
    }

    let output = Output::new(ToRows { rows, writer, spare: None, failed: None }, sequence + 1);
    let mut drain = Drain::new(session, output);
    drain.skip_ended(&ended);
    if let Some(Event::Run { process, ring, first, count, .. }) = last {
        drain.skip_copied(process, ring, first, first.wrapping_add(count));
    }
    let foreign_versions = drain.foreign_versions();
    let (to_rows, session, running) = drain.finish_after_crash().map_err(|_| Error::Io {
        action: "read the segments in",
        path: dir.clone(),
        source: std::io::Error::other("no memory for a buffer"),
    })?;
    let ToRows { mut rows, mut writer, failed, .. } = to_rows;
    if let Some(error) = failed {
        return Err(error);
    }
    let mut sealed = Sealed { totals: rows.totals(), running, foreign_versions, ..Sealed::default() };
    writer.end_file()?;
    if let Some(path) = writer.first_added() {
        (file.publishes, file.file) = (writer.snapshot().snapshot.saturating_add(1), hash63(path.as_bytes()));
        file.write(trail)?;
    }
    close_trail(&mut writer, &mut rows, &session, &mut sealed, facts)?;
    SessionFile::remove(trail)?;
    session.remove();
    Ok(sealed)
}

/// The session's clock with all pairs that were left and one of now, before anything is converted: what lies
/// after the last pair has only an estimated rate, and two estimates in one thread could swap its calls.
fn whole_clock<'a>(mut clock: Clock, left: impl Iterator<Item = &'a Left>) -> Clock {
    let mut pairs = clock.pairs().to_vec();
    for journal in left {
        pairs.extend(pieces(&journal.units).filter_map(|(event, _)| match event {
            Event::Clock { pair, .. } => Some(pair),
            _ => None,
        }));
    }
    pairs.sort_unstable_by_key(|pair| pair.ticks);
    clock.clear();
    pairs.into_iter().chain([Pair::now()]).for_each(|pair| clock.push(pair));
    clock
}

/// Journals of a session, oldest first.
fn journals(dir: &Path) -> Result<Vec<Left>, Error> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).at("list", dir)? {
        let entry = entry.at("list", dir)?;
        if entry.file_name().as_encoded_bytes().starts_with(JOURNAL_PREFIX.as_bytes()) {
            found.extend(Left::read(&entry.path()).at("read", &entry.path())?);
        }
    }
    found.sort_by_key(|left| left.sequence);
    Ok(found)
}

/// The files whose path the trail has.
fn known_files(trail: &Path, snapshot: &Snapshot) -> Result<Vec<(i64, String)>, Error> {
    let mut known = Vec::new();
    let [id, path] = ["file", "path"].map(|name| FILE.columns.iter().position(|column| column.name == name));
    for entry in snapshot.files(FILE.name) {
        for batch in OpenFile::open(trail, &FILE, entry)?.read_all(1 << 16)? {
            let batch = batch?;
            let (Some(id), Some(path)) = (id, path) else { continue };
            let ids = batch.column(id).as_primitive::<Int64Type>().values().iter();
            let paths = batch.column(path).as_string::<i32>().iter().map(Option::unwrap_or_default);
            known.extend(ids.copied().zip(paths.map(str::to_owned)));
        }
    }
    Ok(known)
}

/// Turns full journals into rows at once.
struct ToRows {
    rows: Rows,
    writer: TrailWriter,
    spare: Option<Journal>,
    failed: Option<Error>,
}

impl Turn for ToRows {
    fn spare(&mut self, _wait: bool) -> Option<Journal> {
        self.spare.take().or_else(|| Journal::volatile(BUFFER_UNITS).ok())
    }

    fn full(&mut self, journal: Journal) {
        if self.failed.is_none() {
            let writer = &mut self.writer;
            let mut sink = |table, batch| writer.append_more(table, &batch);
            self.failed = self.rows.apply(journal.units(), journal.sequence(), &mut sink).err();
        }
        self.spare = Some(journal);
    }
}
