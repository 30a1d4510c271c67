//! Data files: one table's rows as Parquet, with a checksum for each row group.
//!
//! Parquet's own page checksums are optional and the `parquet` crate doesn't write them, so the
//! footer's metadata carries a CRC-32 of each row group's bytes (`iotrail.crc32`). Native readers
//! compare it before they decode: damage is found where it is, and damaged bytes never reach a decoder.
//!
//! Encodings were chosen by measurement (`cargo bench -p iotrail-trail`, figures in `docs/format.md`).
//! All are read by DuckDB and by Spark's vectorised reader, which rules out BYTE_STREAM_SPLIT.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read as _, Seek as _, SeekFrom, Write};
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int32Type;
use arrow_array::{Array as _, RecordBatch};
use arrow_schema::{Field, Schema};
use bytes::Bytes;
use iotrail_format::TRAIL_VERSION;
use iotrail_format::schema::{Column, ColumnType, Table};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder,
};
use parquet::arrow::arrow_writer::{ArrowWriter, ArrowWriterOptions};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::{KeyValue, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{ChunkReader, Length};
use parquet::schema::types::ColumnPath;
use serde::Serialize;

use crate::columns::{arrow_schema, conform, first_out_of_order, position, time_column, time_range};
use crate::error::{Error, IoContext as _};
use crate::private::{make_folder, writing};
use crate::snapshot::FileEntry;

/// Rows of a row group: the unit of checksums, of skipping and of parallel scans.
pub const ROW_GROUP_ROWS: usize = 128 * 1024;

/// Rows of a file that compaction and ingestion aim at, which bounds what a reader must hold.
pub const FILE_ROWS: usize = 8 * ROW_GROUP_ROWS;

/// Size at which a dictionary ends and a column goes on without it.
const DICTIONARY_BYTES: usize = 256 << 10;

/// What a file is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Beside a program that is being recorded: a fifth faster.
    Quick,
    /// To be kept: a tenth smaller.
    Small,
}

/// Metadata keys of a data file.
const KEY_TABLE: &str = "iotrail.table";
const KEY_VERSION: &str = "iotrail.version";
const KEY_CRC: &str = "iotrail.crc32";

/// A data file being written. It becomes part of the trail when a snapshot lists it.
pub(crate) struct DataFile {
    table: &'static Table,
    path: PathBuf,
    relative: String,
    writer: ArrowWriter<Summed>,
    sums: Vec<u32>,
    rows: u64,
    times: Option<(i64, i64)>,
    nodes: BTreeSet<String>,
    finished: bool,
}

impl Drop for DataFile {
    /// A file that was not finished is of no use: nothing lists it.
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What a finished data file adds to a snapshot.
pub(crate) struct Finished {
    pub(crate) table: &'static Table,
    pub(crate) entry: FileEntry,
    pub(crate) nodes: BTreeSet<String>,
}

impl DataFile {
    /// Begins a file of a table under a name nobody else has.
    pub(crate) fn create(trail: &Path, table: &'static Table, layout: Layout) -> Result<Self, Error> {
        let folder = trail.join("data").join(table.name);
        make_folder(&folder).at("make directory", &folder)?;
        let (name, file) = new_file(&folder)?;
        let path = folder.join(&name);
        let options = ArrowWriterOptions::new()
            .with_properties(properties(table, layout))
            .with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Summed::new(file), arrow_schema(table), options)
            .map_err(|e| write_error(&path, e))?;
        let relative = format!("data/{}/{name}", table.name);
        let mut file = Self {
            table,
            path,
            relative,
            writer,
            sums: Vec::new(),
            rows: 0,
            times: None,
            nodes: BTreeSet::new(),
            finished: false,
        };
        // What precedes the first row group (Parquet's magic number) is not part of its sum.
        file.end_sum()?;
        Ok(file)
    }

    /// Adds rows of the table's [`arrow_schema`], which continue its order.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<(), Error> {
        let mut start = 0;
        while start < batch.num_rows() {
            let length = (ROW_GROUP_ROWS - self.writer.in_progress_rows()).min(batch.num_rows() - start);
            self.writer.write(&batch.slice(start, length)).map_err(|e| write_error(&self.path, e))?;
            start += length;
            if self.writer.in_progress_rows() == ROW_GROUP_ROWS {
                self.end_row_group()?;
            }
        }
        self.rows += batch.num_rows() as u64;
        if let Some((min, max)) = time_range(self.table, batch) {
            let (low, high) = self.times.unwrap_or((min, max));
            self.times = Some((low.min(min), high.max(max)));
        }
        collect_nodes(self.table, batch, &mut self.nodes);
        Ok(())
    }

    /// Its table.
    pub(crate) fn table(&self) -> &'static Table {
        self.table
    }

    /// Rows so far.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    fn end_row_group(&mut self) -> Result<(), Error> {
        self.writer.flush().map_err(|e| write_error(&self.path, e))?;
        let sum = self.end_sum()?;
        self.sums.push(sum);
        Ok(())
    }

    fn end_sum(&mut self) -> Result<u32, Error> {
        self.writer.sync().at("write", &self.path)?;
        let summed = self.writer.inner_mut();
        let part = std::mem::take(&mut summed.part);
        summed.whole.combine(&part);
        Ok(part.finalize())
    }

    /// Completes the file; with `durable`, waits until the storage has it.
    pub(crate) fn finish(mut self, durable: bool) -> Result<Finished, Error> {
        if self.writer.in_progress_rows() > 0 {
            self.end_row_group()?;
        }
        let sums: Vec<String> = self.sums.iter().map(|sum| format!("{sum:08x}")).collect();
        self.writer.append_key_value_metadata(KeyValue::new(KEY_CRC.to_owned(), sums.join(",")));
        self.writer.finish().map_err(|e| write_error(&self.path, e))?;
        let bytes = self.writer.bytes_written() as u64;
        self.end_sum()?;
        let crc32 = self.writer.inner().whole.clone().finalize();
        if durable {
            self.writer.inner().file.sync_data().at("make durable", &self.path)?;
        }
        self.finished = true;
        let (min_ts, max_ts) = self.times.unzip();
        let relative = std::mem::take(&mut self.relative);
        let entry = FileEntry { path: relative, rows: self.rows, bytes, min_ts, max_ts, crc32 };
        Ok(Finished { table: self.table, entry, nodes: std::mem::take(&mut self.nodes) })
    }
}

/// A new file in a table's folder. Names sort by the time of writing.
fn new_file(folder: &Path) -> Result<(String, File), Error> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    loop {
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let since_epoch = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_millis();
        let name = format!("{since_epoch:012x}-{:x}-{count:x}.parquet", std::process::id());
        let path = folder.join(&name);
        match writing().create_new(true).open(&path) {
            Ok(file) => return Ok((name, file)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(source) => return Err(Error::Io { action: "create", path, source }),
        }
    }
}

/// A file that sums what passes.
struct Summed {
    file: File,
    /// Sum of all that came before `part`.
    whole: crc32fast::Hasher,
    /// Sum since it was last taken.
    part: crc32fast::Hasher,
}

impl Summed {
    fn new(file: File) -> Self {
        Self { file, whole: crc32fast::Hasher::new(), part: crc32fast::Hasher::new() }
    }
}

impl Write for Summed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buffer)?;
        self.part.update(&buffer[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// How a table is laid out in Parquet.
fn properties(table: &Table, layout: Layout) -> WriterProperties {
    let sorting = table.order.iter().map(|name| SortingColumn {
        column_idx: position(table, name).expect("a table's order names its columns") as i32,
        descending: false,
        nulls_first: true,
    });
    let mut properties = WriterProperties::builder()
        .set_created_by(concat!("iotrail ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).expect("1 is a level of zstd")))
        // Row groups are ended by hand, for their sums.
        .set_max_row_group_row_count(None)
        // 32 Ki values: more of them in a row group don't pay for a dictionary.
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_offset_index_disabled(true)
        .set_sorting_columns(Some(sorting.collect()))
        .set_key_value_metadata(Some(vec![
            KeyValue::new(KEY_TABLE.to_owned(), table.name.to_owned()),
            KeyValue::new(KEY_VERSION.to_owned(), TRAIL_VERSION.to_string()),
        ]));
    for column in table.columns {
        let path = ColumnPath::from(column.name);
        let dictionary = is_dictionary(table, column, layout);
        properties = properties.set_column_dictionary_enabled(path.clone(), dictionary);
        if column.ty == ColumnType::BigInt {
            // Also where a dictionary outgrows its limit.
            properties = properties.set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED);
        }
        let statistics =
            if is_pruned_by(table, column) { EnabledStatistics::Chunk } else { EnabledStatistics::None };
        properties = properties.set_column_statistics_enabled(path, statistics);
    }
    properties.build()
}

/// Which columns are dictionaries: text, and ids, which are few values in no order, so that their
/// differences are as random as they are. For keeps also what repeats without following an order.
fn is_dictionary(table: &Table, column: &Column, layout: Layout) -> bool {
    let id = matches!(column.name, "file" | "file2" | "device" | "fd" | "object" | "process" | "parent");
    let repeats = matches!(column.name, "dur" | "length" | "result" | "errno" | "flags" | "calls" | "peer");
    column.ty == ColumnType::Text
        || (id && !table.order.contains(&column.name))
        || (repeats && layout == Layout::Small)
}

/// Columns by which queries skip row groups: the order, the time, the file, and breadcrumbs, which lie close together
/// where they are close in time, also in tables that have another order.
fn is_pruned_by(table: &Table, column: &Column) -> bool {
    table.order.contains(&column.name) || matches!(column.name, "ts" | "file" | "crumb" | "parent_crumb")
}

/// Adds the nodes that occur in a batch.
fn collect_nodes(table: &Table, batch: &RecordBatch, nodes: &mut BTreeSet<String>) {
    let Some(at) = position(table, "node") else { return };
    let column = batch.column(at).as_dictionary::<Int32Type>();
    let values = column.values().as_string::<i32>();
    let mut used = vec![false; values.len()];
    for key in column.keys_iter().flatten() {
        used[key] = true;
    }
    for (value, _) in values.iter().flatten().zip(used).filter(|(_, used)| *used) {
        if !nodes.contains(value) {
            nodes.insert(value.to_owned());
        }
    }
}

/// The system's error of a failed write, else Parquet's.
fn write_error(path: &Path, error: ParquetError) -> Error {
    let source = match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    };
    Error::Io { action: "write", path: path.to_owned(), source }
}

/// Copies a data file as it is into another trail, verified, where the writer's next publish lists it.
pub(crate) fn copy(
    from: &Path,
    table: &'static Table,
    entry: &FileEntry,
    to: &Path,
) -> Result<Finished, Error> {
    let old = OpenFile::open(from, table, entry)?;
    old.verify_whole(entry)?;
    let folder = to.join("data").join(table.name);
    make_folder(&folder).at("make directory", &folder)?;
    let (name, mut file) = new_file(&folder)?;
    let path = folder.join(&name);
    let copied = File::open(&old.path)
        .and_then(|mut old| io::copy(&mut old, &mut file))
        .and_then(|_| file.sync_data())
        .at("write", &path);
    if copied.is_err() {
        let _ = fs::remove_file(&path);
    }
    copied?;
    let entry = FileEntry { path: format!("data/{}/{name}", table.name), ..entry.clone() };
    Ok(Finished { table, entry, nodes: BTreeSet::new() })
}

/// Where a data file's bytes are. Each read opens the file anew, so that merging thousands of files
/// needs neither as many descriptors nor their contents in memory.
#[derive(Clone)]
struct Stored {
    path: Arc<Path>,
    length: u64,
}

impl Length for Stored {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Stored {
    type T = BufReader<File>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(start))?;
        Ok(BufReader::new(file))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let mut buffer = vec![0; length];
        File::open(&self.path)?.read_exact_at(&mut buffer, start)?;
        Ok(buffer.into())
    }
}

/// A data file of a snapshot, opened: footer read and compared with what the snapshot says.
pub(crate) struct OpenFile {
    table: &'static Table,
    path: PathBuf,
    stored: Stored,
    metadata: ArrowReaderMetadata,
    sums: Vec<u32>,
}

/// A row group that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    /// Its number in the file, from 0.
    pub row_group: usize,
    /// Its rows.
    pub rows: u64,
    /// What is wrong.
    pub why: String,
}

impl OpenFile {
    /// Reads a data file's footer and compares it with the table and the snapshot's entry.
    pub(crate) fn open(trail: &Path, table: &'static Table, entry: &FileEntry) -> Result<Self, Error> {
        let file = Self::open_any(trail, table, &entry.path).map_err(|e| match e {
            Error::Io { source, path, .. } if source.kind() == ErrorKind::NotFound => {
                Error::MissingFile { path, rows: entry.rows }
            }
            e => e,
        })?;
        let rows = file.rows();
        if rows != entry.rows {
            return Err(file.bad(format!("expected {} rows as the snapshot says, found {rows}", entry.rows)));
        }
        Ok(file)
    }

    /// Compares the whole file with the snapshot's checksum: row groups have their own, this one covers
    /// the footer too.
    pub(crate) fn verify_whole(&self, entry: &FileEntry) -> Result<(), Error> {
        let mut sum = crc32fast::Hasher::new();
        let mut file = File::open(&self.path).at("read", &self.path)?;
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read(&mut buffer).at("read", &self.path)? {
                0 => break,
                length => sum.update(&buffer[..length]),
            }
        }
        let found = sum.finalize();
        if found != entry.crc32 {
            return Err(self.bad(format!("expected checksum {:08x}, found {found:08x}", entry.crc32)));
        }
        Ok(())
    }

    /// As [`OpenFile::open`], for a file that no snapshot lists.
    pub(crate) fn open_any(trail: &Path, table: &'static Table, relative: &str) -> Result<Self, Error> {
        let path = trail.join(relative);
        let found = fs::metadata(&path).at("read", &path)?;
        if !found.is_file() {
            let why = "expected a regular file, found a folder, pipe or device".to_owned();
            return Err(Error::BadFile { path, why });
        }
        let length = found.len();
        let stored = Stored { path: Arc::from(path.as_path()), length };
        let bad = |why: String| Error::BadFile { path: path.clone(), why };
        let damaged =
            |e: ParquetError| bad(format!("not a whole Parquet file ({length} bytes): {}", plain(&e)));
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let inferred = ArrowReaderMetadata::load(&stored, options.clone()).map_err(damaged)?;
        let footer = inferred.metadata().file_metadata();
        let value = |key: &str| {
            let pairs = footer.key_value_metadata()?;
            pairs.iter().find(|pair| pair.key == key)?.value.clone()
        };
        if value(KEY_TABLE).as_deref() != Some(table.name) {
            let found =
                value(KEY_TABLE).map_or("a foreign Parquet file".to_owned(), |t| format!("one of table {t}"));
            return Err(bad(format!("expected a data file of table {}, found {found}", table.name)));
        }
        let version: u64 = value(KEY_VERSION).and_then(|v| v.parse().ok()).unwrap_or(0);
        if version > u64::from(TRAIL_VERSION) {
            return Err(Error::NewerVersion { path, found: version });
        }
        let groups = inferred.metadata().num_row_groups();
        let sums: Vec<u32> = value(KEY_CRC)
            .iter()
            .flat_map(|sums| sums.split(','))
            .filter_map(|sum| u32::from_str_radix(sum, 16).ok())
            .collect();
        if sums.len() != groups {
            return Err(bad(format!("expected {groups} checksums in its footer, found {}", sums.len())));
        }
        // Text as dictionaries where the table wants it so; types are compared batch by batch.
        let fields: Vec<Field> = inferred
            .schema()
            .fields()
            .iter()
            .map(|field| match table.columns.iter().find(|c| c.name == field.name()) {
                Some(column) if column.ty == ColumnType::Text => {
                    field.as_ref().clone().with_data_type(crate::columns::arrow_type(column))
                }
                _ => field.as_ref().clone(),
            })
            .collect();
        let options = options.with_schema(Arc::new(Schema::new(fields)));
        let metadata = ArrowReaderMetadata::try_new(inferred.metadata().clone(), options).map_err(damaged)?;
        let file = Self { table, path, stored, metadata, sums };
        file.check_schema()?;
        Ok(file)
    }

    fn check_schema(&self) -> Result<(), Error> {
        for column in self.table.columns {
            let expected = crate::columns::arrow_type(column);
            match self.metadata.schema().field_with_name(column.name) {
                Ok(field) if *field.data_type() != expected => {
                    return Err(self.bad(format!(
                        "column {}: expected {}, found {}",
                        column.name,
                        column.ty.sql(),
                        field.data_type()
                    )));
                }
                Err(_) if !column.nullable => {
                    return Err(
                        self.bad(format!("column {} of table {} is missing", column.name, self.table.name))
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn bad(&self, why: String) -> Error {
        Error::BadFile { path: self.path.clone(), why }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.metadata.metadata().row_groups().iter().map(|g| g.num_rows().max(0) as u64).sum()
    }

    pub(crate) fn row_groups(&self) -> usize {
        self.sums.len()
    }

    /// Earliest time of a row group from its statistics; `i64::MIN` if it has none.
    pub(crate) fn min_ts(&self, row_group: usize) -> i64 {
        use parquet::file::statistics::Statistics;
        let group = self.metadata.metadata().row_group(row_group);
        let name = time_column(self.table).map(|at| self.table.columns[at].name);
        let column = group.columns().iter().find(|c| Some(c.column_descr().name()) == name);
        match column.and_then(|c| c.statistics()) {
            Some(Statistics::Int64(values)) => values.min_opt().copied().unwrap_or(i64::MIN),
            _ => i64::MIN,
        }
    }

    /// Compares a row group with its checksum.
    pub(crate) fn verify(&self, row_group: usize) -> Result<(), Damage> {
        let group = self.metadata.metadata().row_group(row_group);
        let rows = group.num_rows().max(0) as u64;
        let damage = |why: String| Damage { row_group, rows, why };
        let (mut start, mut end) = (self.stored.length, 0);
        for column in group.columns() {
            let from = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let (at, length) = (u64::try_from(from), u64::try_from(column.compressed_size()));
            // Each by itself: the Parquet reader panics at a negative one.
            let range = at.ok().zip(length.ok()).and_then(|(at, length)| Some((at, at.checked_add(length)?)));
            let Some((from, to)) = range.filter(|(_, to)| *to <= self.stored.length) else {
                return Err(damage(format!(
                    "column {} lies outside the file of {} bytes",
                    column.column_path().string(),
                    self.stored.length
                )));
            };
            (start, end) = (start.min(from), end.max(to));
        }
        let (start, end) = (start.min(end), end);
        let bytes = self.stored.get_bytes(start, (end - start) as usize);
        let bytes = bytes.map_err(|e| damage(format!("cannot read bytes {start}..{end}: {}", plain(&e))))?;
        let (found, expected) = (crc32fast::hash(&bytes), self.sums[row_group]);
        if found != expected {
            return Err(damage(format!(
                "bytes {start}..{end} changed: expected checksum {expected:08x}, found {found:08x}"
            )));
        }
        Ok(())
    }

    /// The rows of some row groups in batches of at most `batch_rows` rows. The row groups must have
    /// been verified.
    fn read(&self, row_groups: Vec<usize>, batch_rows: usize) -> Result<Batches, Error> {
        // Columns that a later iotrail added are left out.
        let known = self.table.columns.iter().map(|c| c.name);
        let mask = ProjectionMask::columns(self.metadata.parquet_schema(), known);
        let reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.stored.clone(), self.metadata.clone())
                .with_row_groups(row_groups)
                .with_projection(mask)
                .with_batch_size(batch_rows)
                .build()
                .map_err(|e| self.bad(plain(&e)))?;
        Ok(Batches { table: self.table, path: self.path.clone(), reader })
    }

    /// Verifies a row group, then reads it in one batch.
    pub(crate) fn read_row_group(&self, row_group: usize) -> Result<Option<RecordBatch>, Error> {
        self.verify(row_group).map_err(|d| self.bad(format!("row group {row_group}: {}", d.why)))?;
        self.read(vec![row_group], ROW_GROUP_ROWS)?.next().transpose()
    }

    /// Verifies all row groups, then reads all rows.
    pub(crate) fn read_all(&self, batch_rows: usize) -> Result<Batches, Error> {
        let all: Vec<usize> = (0..self.row_groups()).collect();
        for &group in &all {
            self.verify(group).map_err(|d| self.bad(format!("row group {}: {}", d.row_group, d.why)))?;
        }
        self.read(all, batch_rows)
    }

    /// Verifies and decodes a row group, and looks at the order of its rows.
    pub(crate) fn try_row_group(&self, row_group: usize) -> Result<RecordBatch, Damage> {
        self.verify(row_group)?;
        let rows = self.metadata.metadata().row_group(row_group).num_rows().max(0) as u64;
        let damage = |why: String| Damage { row_group, rows, why };
        let mut batches = self.read(vec![row_group], ROW_GROUP_ROWS).map_err(|e| damage(e.to_string()))?;
        let batch = match batches.next() {
            Some(batch) => batch.map_err(|e| damage(e.to_string()))?,
            None => RecordBatch::new_empty(arrow_schema(self.table)),
        };
        if batch.num_rows() as u64 != rows {
            return Err(damage(format!("expected {rows} rows, found {}", batch.num_rows())));
        }
        if let Some(row) = first_out_of_order(self.table, &batch) {
            return Err(damage(format!("row {row} is out of the order by {}", self.table.order.join(", "))));
        }
        Ok(batch)
    }
}

/// The rows of a data file.
pub(crate) struct Batches {
    table: &'static Table,
    path: PathBuf,
    reader: ParquetRecordBatchReader,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let bad = |why: String| Some(Err(Error::BadFile { path: self.path.clone(), why }));
        // Of a changed footer, which no checksum covers, the Parquet reader may make pages without their dictionary, and
        // panics there.
        match catch_unwind(AssertUnwindSafe(|| self.reader.next())) {
            // An older file may lack columns that were added later.
            Ok(Some(Ok(batch))) => Some(conform(self.table, &batch)),
            Ok(Some(Err(error))) => bad(error.to_string()),
            Ok(None) => None,
            Err(panic) => {
                let why = panic.downcast_ref::<String>().map(String::as_str);
                bad(why
                    .or_else(|| panic.downcast_ref::<&str>().copied())
                    .unwrap_or("it can't be decoded")
                    .to_owned())
            }
        }
    }
}

/// Parquet's message without its prefix.
fn plain(error: &ParquetError) -> String {
    match error {
        ParquetError::External(source) => source.to_string(),
        ParquetError::General(text) | ParquetError::EOF(text) | ParquetError::NYI(text) => text.clone(),
        other => other.to_string(),
    }
}
