//! Compaction: many small files into few, each in the declared order.
//!
//! Files that follow each other in time are merged into files of about [`FILE_ROWS`] rows, so that a file
//! is a window of time, inside of which rows are in the table's order. Names of files (`file`) are one
//! sorted run without repetitions. The old files stay until a reader that keeps to an older snapshot has
//! had its time.

use std::path::Path;
use std::time::Duration;

use iotrail_format::schema::{FILE, Table};

use crate::error::Error;
use crate::file::{DataFile, FILE_ROWS, Layout, OpenFile, ROW_GROUP_ROWS};
use crate::kway::{Input, Merged};
use crate::snapshot::{FileEntry, Snapshot};
use crate::writer::TrailWriter;

/// Files merged at once at most: bounds memory when files are tiny.
const MAX_FAN_IN: usize = 256;

/// Files that a grown trail has at least before they are merged.
const GROWN_FILES: usize = 6;

/// What a compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// The trail's newest snapshot now.
    pub snapshot: u64,
    /// Live files before.
    pub files_before: usize,
    /// Live files after.
    pub files_after: usize,
    /// Bytes of live files before.
    pub bytes_before: u64,
    /// Bytes of live files after.
    pub bytes_after: u64,
    /// Rows of `file` that were there already.
    pub repeated: u64,
    /// Dead files deleted: those whose `grace` is over.
    pub deleted: usize,
}

/// Compacts a trail; readers see the change in one step. Old files are deleted once they have been dead
/// for `grace`: those of this compaction by a later one, unless `grace` is 0.
///
/// # Errors
/// [`Error::BadFile`], [`Error::MissingFile`] if a live file can't be read whole; [`Error::Conflict`] if
/// another compaction was faster; [`Error::Io`]. The trail is then as before.
pub fn compact(trail: &Path, grace: Duration) -> Result<Compacted, Error> {
    compact_groups(trail, grace, groups)
}

fn compact_groups(
    trail: &Path,
    grace: Duration,
    groups: impl Fn(&Table, &[FileEntry]) -> Vec<Vec<FileEntry>>,
) -> Result<Compacted, Error> {
    let mut writer = TrailWriter::open(trail)?.durable();
    let before = writer.snapshot().clone();
    let mut done = Compacted::default();
    let mut changed = false;
    for table in before.all_tables() {
        for group in groups(table, before.files(table.name)) {
            done.repeated += rewrite(&mut writer, table, trail, &group)?;
            changed = true;
        }
    }
    if changed {
        writer.publish()?;
    }
    done.deleted = writer.sweep(grace)?;
    let size = |snapshot: &Snapshot| {
        (snapshot.all_files().count(), snapshot.all_files().map(|file| file.bytes).sum::<u64>())
    };
    (done.files_before, done.bytes_before) = size(&before);
    (done.files_after, done.bytes_after) = size(writer.snapshot());
    done.snapshot = writer.snapshot().snapshot;
    Ok(done)
}

/// As [`compact`], for a trail that somebody writes to all the time: merges only where it at least halves the files
/// that are at hand, so that each row is written again a few times in all and not each time.
///
/// # Errors
/// As [`compact`].
pub fn compact_grown(trail: &Path, grace: Duration) -> Result<Compacted, Error> {
    compact_groups(trail, grace, |table, files| {
        groups(table, files).into_iter().map(tail).filter(|group| group.len() >= GROWN_FILES).collect()
    })
}

/// Without the files at the front that are larger than all that come after them: it doesn't pay yet to write
/// them again.
fn tail(mut group: Vec<FileEntry>) -> Vec<FileEntry> {
    let mut after: u64 = group.iter().map(|file| file.rows).sum();
    let first = group.iter().position(|file| {
        after -= file.rows;
        file.rows <= after
    });
    group.split_off(first.unwrap_or(group.len()))
}

/// The files to be merged with each other, in order of time. What is large enough stays as it is.
fn groups(table: &Table, files: &[FileEntry]) -> Vec<Vec<FileEntry>> {
    let mut files: Vec<FileEntry> = files.to_vec();
    // By the latest start: that is how a recorder wrote them. The earliest may lie far back, where one
    // call took long.
    files.sort_by(|a, b| (a.max_ts, &a.path).cmp(&(b.max_ts, &b.path)));
    if table.name == FILE.name {
        // Ids have no time: all names are one run.
        return if files.len() > 1 { vec![files] } else { Vec::new() };
    }
    let mut groups = vec![Vec::new()];
    let mut rows = 0;
    for file in files {
        let large = file.rows > FILE_ROWS as u64 / 2;
        if large
            || rows + file.rows > FILE_ROWS as u64
            || groups.last().is_some_and(|g| g.len() == MAX_FAN_IN)
        {
            groups.push(Vec::new());
            rows = 0;
        }
        if !large {
            rows += file.rows;
            groups.last_mut().expect("begins with one").push(file);
        }
    }
    groups.retain(|group| group.len() > 1);
    groups
}

/// Replaces files by their merger. Returns how many repeated rows it dropped.
fn rewrite(
    writer: &mut TrailWriter,
    table: &'static Table,
    trail: &Path,
    files: &[FileEntry],
) -> Result<u64, Error> {
    let dropped = merge_files(writer, table, files.iter().map(|file| (trail, file)))?;
    for file in files {
        writer.remove(&file.path);
    }
    Ok(dropped)
}

/// Merges data files, of several trails perhaps, into new files of the writer's trail, which its next
/// publish lists. Equal rows of `file` become one; returns how many were dropped.
pub(crate) fn merge_files<'a>(
    writer: &mut TrailWriter,
    table: &'static Table,
    files: impl ExactSizeIterator<Item = (&'a Path, &'a FileEntry)>,
) -> Result<u64, Error> {
    let batch_rows = (ROW_GROUP_ROWS / files.len().max(1)).clamp(512, 8192);
    let mut expected = 0;
    let mut inputs: Vec<Input> = Vec::with_capacity(files.len());
    for (trail, entry) in files {
        expected += entry.rows;
        inputs.push(Box::new(OpenFile::open(trail, table, entry)?.read_all(batch_rows)?));
    }
    let mut merged = Merged::new(table, inputs, table.name == FILE.name)?;
    let mut written = 0;
    let mut output: Option<DataFile> = None;
    for batch in &mut merged {
        let batch = batch?;
        written += batch.num_rows() as u64;
        let file = match &mut output {
            Some(file) => file,
            None => output.insert(DataFile::create(writer.path(), table, Layout::Small)?),
        };
        file.write(&batch)?;
        if file.rows() >= FILE_ROWS as u64 {
            writer.add(output.take().expect("it was written to").finish(true)?);
        }
    }
    if let Some(file) = output {
        writer.add(file.finish(true)?);
    }
    // The originals are about to be given up: be sure.
    if written + merged.dropped != expected {
        let why = format!("merging kept {written} and dropped {} of {expected} rows", merged.dropped);
        return Err(Error::BadRows { table: table.name, why });
    }
    Ok(merged.dropped)
}
