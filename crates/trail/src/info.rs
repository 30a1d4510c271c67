//! What a trail holds, in short.

use std::collections::BTreeMap;
use std::path::Path;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array as _, RecordBatch};
use iotrail_format::schema::{PRUNED, RECORDING, ROLLUPS, Table, UNSEEN};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::columns::time_column;
use crate::error::Error;
use crate::file::OpenFile;
use crate::snapshot::Snapshot;

/// Rows of a table that are shown at most; a recording has some twenty in each.
pub const MOST_ROWS: usize = 10_000;
/// Bytes of a table's texts that are shown at most.
pub const MOST_TEXT_BYTES: usize = 4 << 20;
/// Rows that are read at once: more than are shown may be in a file.
const BATCH_ROWS: usize = 256;

/// A trail in short.
#[derive(Clone, Debug, Serialize)]
pub struct Info {
    /// Where it is.
    pub path: String,
    /// Its format's version.
    pub version: u64,
    /// Number of its newest snapshot.
    pub snapshot: u64,
    /// Snapshots after it that can't be read.
    pub unreadable: Vec<u64>,
    /// When that was published, RFC 3339, UTC.
    pub created: String,
    /// Who wrote it.
    pub writer: String,
    /// Whether a recording goes on, or its recorder was killed.
    pub session: bool,
    /// Machines.
    pub node: Vec<String>,
    /// First start of any operation, ns since the epoch; null if there is none.
    pub start_ts: Option<i64>,
    /// Last start of any operation, ns since the epoch; null if there is none.
    pub end_ts: Option<i64>,
    /// Tables in declared order, also empty ones.
    pub tables: Vec<TableInfo>,
    /// Rows of the three tables below that are left out: those beyond the first [`MOST_ROWS`], or beyond
    /// [`MOST_TEXT_BYTES`]; none where all are there.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Rows of table `recording`: how it was made.
    pub recording: Vec<Map<String, Value>>,
    /// Rows of table `unseen`: what it doesn't hold.
    pub unseen: Vec<Map<String, Value>>,
    /// Rows of table `pruned`: what rollups stand for.
    pub pruned: Vec<Map<String, Value>>,
}

/// A table in short.
#[derive(Clone, Debug, Serialize)]
pub struct TableInfo {
    /// Name.
    pub name: String,
    /// Rows.
    pub rows: u64,
    /// Live files.
    pub files: usize,
    /// Their size.
    pub bytes: u64,
}

impl Info {
    /// Looks at a trail.
    ///
    /// # Errors
    /// Those of [`Snapshot::newest`]; [`Error::BadFile`], [`Error::MissingFile`] for tables `recording`,
    /// `unseen` and `pruned`, the only ones whose rows it reads.
    pub fn of(trail: &Path) -> Result<Self, Error> {
        let snapshot = Snapshot::newest(trail)?;
        let known = snapshot.all_tables();
        let times = known.iter().filter(|table| {
            let timed = time_column(table).is_some_and(|at| table.columns[at].name == "ts");
            timed && !ROLLUPS.contains(&table.name)
        });
        let files: Vec<_> = times.flat_map(|table| snapshot.files(table.name)).collect();
        let later = snapshot.tables.keys().map(String::as_str);
        let later = later.filter(|name| !known.iter().any(|table| table.name == *name));
        let names = known.iter().map(|table| table.name).chain(later);
        let tables = names.map(|name| {
            let files = snapshot.files(name);
            let bytes = files.iter().map(|file| file.bytes).sum();
            TableInfo { name: name.to_owned(), rows: snapshot.rows(name), files: files.len(), bytes }
        });
        let mut left_out = BTreeMap::new();
        let mut rows = |table: &'static Table| {
            let (shown, left) = rows(trail, &snapshot, table)?;
            if left > 0 {
                left_out.insert(table.name, left);
            }
            Ok::<_, Error>(shown)
        };
        let (recording, unseen, pruned) = (rows(&RECORDING)?, rows(&UNSEEN)?, rows(&PRUNED)?);
        Ok(Self {
            path: trail.display().to_string(),
            version: snapshot.iotrail_trail,
            snapshot: snapshot.snapshot,
            unreadable: Snapshot::numbers(trail)?.into_iter().filter(|n| *n > snapshot.snapshot).collect(),
            created: snapshot.created.clone(),
            writer: snapshot.writer.clone(),
            session: trail.join("session.json").exists(),
            node: snapshot.node.iter().cloned().collect(),
            start_ts: files.iter().filter_map(|file| file.min_ts).min(),
            end_ts: files.iter().filter_map(|file| file.max_ts).max(),
            tables: tables.collect(),
            left_out,
            recording,
            unseen,
            pruned,
        })
    }
}

/// The rows of a small table, within bounds, and how many more it has.
fn rows(
    trail: &Path,
    snapshot: &Snapshot,
    table: &'static Table,
) -> Result<(Vec<Map<String, Value>>, u64), Error> {
    let mut rows = Vec::new();
    let mut text_bytes = 0;
    'files: for entry in snapshot.files(table.name) {
        for batch in OpenFile::open(trail, table, entry)?.read_all(BATCH_ROWS)? {
            let batch = batch?;
            for row in 0..batch.num_rows() {
                let object = object(table, &batch, row);
                text_bytes += object.values().filter_map(Value::as_str).map(str::len).sum::<usize>();
                if rows.len() == MOST_ROWS || text_bytes > MOST_TEXT_BYTES {
                    break 'files;
                }
                rows.push(object);
            }
        }
    }
    let left_out = snapshot.rows(table.name).saturating_sub(rows.len() as u64);
    Ok((rows, left_out))
}

fn object(table: &Table, batch: &RecordBatch, row: usize) -> Map<String, Value> {
    let value = |at: usize| {
        let column = batch.column(at);
        if column.is_null(row) {
            Value::Null
        } else if let Some(texts) = column.as_string_opt::<i32>() {
            texts.value(row).into()
        } else if let Some(dictionary) = column.as_dictionary_opt::<Int32Type>() {
            dictionary
                .key(row)
                .map_or(Value::Null, |key| dictionary.values().as_string::<i32>().value(key).into())
        } else {
            column.as_primitive_opt::<Int64Type>().map_or(Value::Null, |ints| ints.value(row).into())
        }
    };
    table.columns.iter().enumerate().map(|(at, column)| (column.name.to_owned(), value(at))).collect()
}
