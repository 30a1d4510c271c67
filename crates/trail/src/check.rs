//! Checking a trail, and keeping what can still be read of a damaged one.
//!
//! Each live file is compared with its checksums, decoded, and looked through for rows, times and order.
//! Repair publishes a snapshot in which a damaged file is replaced by its sound row groups; the damaged
//! file itself stays until a compaction deletes it. A trail whose snapshots are all unreadable gets a new
//! one, made from its data files.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use iotrail_format::schema::{TABLES, Table};
use serde::Serialize;

use crate::columns::{first_out_of_order, time_range};
use crate::error::{Error, IoContext as _};
use crate::file::{Damage, DataFile, Layout, OpenFile};
use crate::seal::recover::{Recovered, recover};
use crate::snapshot::{FileEntry, Snapshot};
use crate::writer::{TrailWriter, expect_own_folders};

/// Files that no snapshot lists are left alone for so long: a writer may be about to publish them.
const ORPHAN_AGE: Duration = Duration::from_secs(600);

/// What a check found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Check {
    /// The snapshot it looked at; 0 if none can be read.
    pub snapshot: u64,
    /// The recorder that still writes the trail; none if nobody does.
    pub recorder: Option<u32>,
    /// What was left of a recording whose recorder was killed, and is now in the trail: in words.
    pub recovered: Option<String>,
    /// Live files.
    pub files: usize,
    /// Their rows as the snapshot says.
    pub rows: u64,
    /// Rows that can't be read.
    pub lost: u64,
    /// Live files with damage.
    pub damaged: Vec<DamagedFile>,
    /// Snapshots that can't be read, with the reason.
    pub bad_snapshots: Vec<String>,
    /// Data files that no snapshot lists: left by a writer that ended before it published them.
    pub orphans: Vec<String>,
    /// The snapshot a repair published; none if nothing was repaired.
    pub repaired: Option<u64>,
}

/// A live file with damage.
#[derive(Clone, Debug, Serialize)]
pub struct DamagedFile {
    /// Its table.
    pub table: String,
    /// Path in the trail.
    pub path: String,
    /// Rows as the snapshot says.
    pub rows: u64,
    /// Rows that can't be read.
    pub lost: u64,
    /// What is wrong with the file as a whole; none if only row groups are damaged.
    pub why: Option<String>,
    /// The damaged row groups.
    pub row_groups: Vec<Damage>,
}

impl Check {
    /// Whether nothing is wrong with the rows.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.damaged.is_empty() && self.snapshot > 0
    }
}

/// Checks a trail. What a killed recorder left in memory is added first, since that loses nothing; with `repair`, publishes a snapshot without what is damaged and deletes orphans.
///
/// # Errors
/// [`Error::NotATrail`], [`Error::NewerVersion`]; [`Error::Io`] where the system refuses, which is not
/// damage. Damage is no error.
pub fn check(trail: &Path, repair: bool) -> Result<Check, Error> {
    let mut found = Check::default();
    // What isn't a trail is refused as such, not for its lack of a session.
    let session = trail.join("session.json").exists();
    match if session { recover(trail) } else { Ok(Recovered::Nothing) } {
        Ok(Recovered::Nothing) => {}
        Ok(Recovered::Added) => {
            found.recovered = Some("the rest of a recording whose recorder was killed was added".into());
        }
        Ok(Recovered::Gone { session }) => {
            found.recovered = Some(format!(
                "the recorder was killed and its memory is gone ({}): calls after the last snapshot are lost",
                session.display()
            ));
        }
        Err(Error::Recording { pid, .. }) => found.recorder = Some(pid),
        Err(e) => return Err(e),
    }
    for number in Snapshot::numbers(trail)? {
        match Snapshot::load(trail, number) {
            Err(e @ (Error::NewerVersion { .. } | Error::Io { .. })) => return Err(e),
            Err(e) => found.bad_snapshots.push(e.to_string()),
            Ok(_) => {}
        }
    }
    let snapshot = match Snapshot::newest(trail) {
        Ok(snapshot) => snapshot,
        Err(Error::BadSnapshot { .. }) => return rebuild(trail, repair, found),
        Err(e) => return Err(e),
    };
    found.snapshot = snapshot.snapshot;
    for table in snapshot.all_tables() {
        for entry in snapshot.files(table.name) {
            found.files += 1;
            found.rows += entry.rows;
            if let Some(damaged) = check_file(trail, table, entry)? {
                found.lost += damaged.lost;
                found.damaged.push(damaged);
            }
        }
    }
    let orphans = orphans(trail, &snapshot)?;
    found.orphans = orphans.iter().cloned().collect();
    if repair && found.recorder.is_none() {
        expect_own_folders(trail)?;
        if !found.damaged.is_empty() {
            found.repaired = Some(replace_damaged(trail, &found.damaged)?);
        }
        for orphan in &orphans {
            let path = trail.join(orphan);
            let age = fs::metadata(&path).and_then(|m| m.modified()).ok().and_then(|at| at.elapsed().ok());
            if age.is_some_and(|age| age > ORPHAN_AGE) {
                fs::remove_file(&path).at("delete", &path)?;
            }
        }
    }
    Ok(found)
}

/// Looks at one live file.
fn check_file(trail: &Path, table: &'static Table, entry: &FileEntry) -> Result<Option<DamagedFile>, Error> {
    let mut damaged = DamagedFile {
        table: table.name.to_owned(),
        path: entry.path.clone(),
        rows: entry.rows,
        lost: entry.rows,
        why: None,
        row_groups: Vec::new(),
    };
    let file = match OpenFile::open(trail, table, entry) {
        Ok(file) => file,
        Err(Error::MissingFile { .. }) => {
            damaged.why = Some("the file is missing".into());
            return Ok(Some(damaged));
        }
        Err(Error::BadFile { why, .. }) => {
            damaged.why = Some(why);
            return Ok(Some(damaged));
        }
        Err(e) => return Err(e),
    };
    damaged.lost = 0;
    let mut times: Option<(i64, i64)> = None;
    let mut last = None;
    for group in 0..file.row_groups() {
        match file.try_row_group(group) {
            Err(damage) => {
                damaged.lost += damage.rows;
                damaged.row_groups.push(damage);
            }
            Ok(batch) => {
                if let Some((min, max)) = time_range(table, &batch) {
                    let (low, high) = times.unwrap_or((min, max));
                    times = Some((low.min(min), high.max(max)));
                }
                if last.as_ref().is_some_and(|last| goes_back(table, last, &batch)) {
                    damaged.why = Some(format!("row group {group} begins before its predecessor ends"));
                }
                last = last_row(&batch).or(last);
            }
        }
    }
    if damaged.row_groups.is_empty() && damaged.why.is_none() {
        let expected = entry.min_ts.zip(entry.max_ts);
        if times != expected {
            damaged.why = Some(format!("expected times {expected:?} as the snapshot says, found {times:?}"));
        } else if let Err(e) = file.verify_whole(entry) {
            match e {
                Error::BadFile { why, .. } => damaged.why = Some(format!("outside of its rows: {why}")),
                e => return Err(e),
            }
        }
    }
    Ok((damaged.why.is_some() || !damaged.row_groups.is_empty()).then_some(damaged))
}

/// Publishes a snapshot in which damaged files are replaced by their sound row groups.
fn replace_damaged(trail: &Path, damaged: &[DamagedFile]) -> Result<u64, Error> {
    let mut writer = TrailWriter::open(trail)?.durable();
    let tables = writer.snapshot().all_tables();
    for file in damaged {
        let Some(table) = tables.iter().find(|table| table.name == file.table) else { continue };
        writer.remove(&file.path);
        if file.lost < file.rows {
            keep_sound(&mut writer, table, &OpenFile::open_any(trail, table, &file.path)?)?;
        }
    }
    writer.publish()
}

/// Writes the sound row groups of a file anew.
fn keep_sound(writer: &mut TrailWriter, table: &'static Table, old: &OpenFile) -> Result<(), Error> {
    let mut last = None;
    let mut new: Option<DataFile> = None;
    for batch in (0..old.row_groups()).filter_map(|group| old.try_row_group(group).ok()) {
        // Where the order of row groups among each other is broken, a new file begins.
        if last.as_ref().is_some_and(|last| goes_back(table, last, &batch))
            && let Some(file) = new.take()
        {
            writer.add(file.finish(true)?);
        }
        last = last_row(&batch).or(last);
        match &mut new {
            Some(file) => file.write(&batch)?,
            None => new.insert(DataFile::create(writer.path(), table, Layout::Small)?).write(&batch)?,
        }
    }
    if let Some(file) = new {
        writer.add(file.finish(true)?);
    }
    Ok(())
}

/// A trail without a snapshot that can be read: what its data files hold. A file that a compaction had
/// replaced shortly before would count twice, which is why this is nobody's default.
fn rebuild(trail: &Path, repair: bool, mut found: Check) -> Result<Check, Error> {
    found.orphans = data_files(trail)?.into_iter().collect();
    if !repair {
        return Ok(found);
    }
    let mut writer = TrailWriter::rebuild(trail)?;
    for table in TABLES {
        let folder = format!("data/{}/", table.name);
        for path in found.orphans.iter().filter(|path| path.starts_with(&folder)) {
            match OpenFile::open_any(trail, table, path) {
                Ok(file) => {
                    found.files += 1;
                    found.rows += file.rows();
                    keep_sound(&mut writer, table, &file)?;
                }
                Err(Error::BadFile { why, .. }) => found.damaged.push(DamagedFile {
                    table: table.name.to_owned(),
                    path: path.clone(),
                    rows: 0,
                    lost: 0,
                    why: Some(why),
                    row_groups: Vec::new(),
                }),
                Err(e) => return Err(e),
            }
        }
    }
    found.repaired = Some(writer.publish()?);
    found.snapshot = writer.snapshot().snapshot;
    let kept: u64 = TABLES.iter().map(|table| writer.snapshot().rows(table.name)).sum();
    found.lost = found.rows - kept;
    Ok(found)
}

/// Data files that neither a snapshot nor its list of dead files knows.
fn orphans(trail: &Path, newest: &Snapshot) -> Result<BTreeSet<String>, Error> {
    let mut files = data_files(trail)?;
    for number in Snapshot::numbers(trail)? {
        if let Ok(snapshot) = Snapshot::load(trail, number) {
            for file in snapshot.all_files() {
                files.remove(&file.path);
            }
        }
    }
    for dead in &newest.dead {
        files.remove(&dead.path);
    }
    Ok(files)
}

/// All data files of known tables, as snapshots name them.
fn data_files(trail: &Path) -> Result<BTreeSet<String>, Error> {
    let mut files = BTreeSet::new();
    for table in TABLES {
        let folder = trail.join("data").join(table.name);
        let entries = match fs::read_dir(&folder) {
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            entries => entries.at("list", &folder)?,
        };
        for entry in entries {
            let name = entry.at("list", &folder)?.file_name();
            let name = name.to_str().filter(|name| name.ends_with(".parquet"));
            files.extend(name.map(|name| format!("data/{}/{name}", table.name)));
        }
    }
    Ok(files)
}

/// Whether the first row of `next` should stand before `last`, a batch of one row.
fn goes_back(table: &Table, last: &RecordBatch, next: &RecordBatch) -> bool {
    let border = concat_batches(next.schema_ref(), [last, &next.slice(0, next.num_rows().min(1))]);
    border.is_ok_and(|border| first_out_of_order(table, &border).is_some())
}

/// The last row as a batch; none if there is none.
fn last_row(batch: &RecordBatch) -> Option<RecordBatch> {
    batch.num_rows().checked_sub(1).map(|last| batch.slice(last, 1))
}
