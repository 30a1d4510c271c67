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
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
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
use parquet::schema::types::ColumnPath;

use crate::columns::{arrow_schema, conform, first_out_of_order, position, time_column};
use crate::error::{Error, IoContext as _};
use crate::snapshot::FileEntry;

/// Rows of a row group: the unit of checksums, of skipping and of parallel scans.
pub const ROW_GROUP_ROWS: usize = 128 * 1024;

/// Rows of a file that compaction and ingestion aim at, which bounds what a reader must hold.
pub const FILE_ROWS: usize = 8 * ROW_GROUP_ROWS;

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
}

/// What a finished data file adds to a snapshot.
pub(crate) struct Finished {
    pub(crate) table: &'static Table,
    pub(crate) entry: FileEntry,
    pub(crate) nodes: BTreeSet<String>,
}

impl DataFile {
    /// Begins a file of a table under a name nobody else has.
    pub(crate) fn create(trail: &Path, table: &'static Table) -> Result<Self, Error> {
        let folder = trail.join("data").join(table.name);
        fs::create_dir_all(&folder).at("make directory", &folder)?;
        let (name, file) = new_file(&folder)?;
        let path = folder.join(&name);
        let options =
            ArrowWriterOptions::new().with_properties(properties(table)).with_skip_arrow_metadata(true);
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
        Ok(std::mem::take(&mut self.writer.inner_mut().sum).finalize())
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
        if durable {
            self.writer.inner().file.sync_data().at("make durable", &self.path)?;
        }
        let (min_ts, max_ts) = self.times.unzip();
        let entry = FileEntry { path: self.relative, rows: self.rows, bytes, min_ts, max_ts };
        Ok(Finished { table: self.table, entry, nodes: self.nodes })
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
        match File::options().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((name, file)),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(source) => return Err(Error::Io { action: "create", path, source }),
        }
    }
}

/// A file that sums what passes.
struct Summed {
    file: File,
    sum: crc32fast::Hasher,
}

impl Summed {
    fn new(file: File) -> Self {
        Self { file, sum: crc32fast::Hasher::new() }
    }
}

impl Write for Summed {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buffer)?;
        self.sum.update(&buffer[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// How a table is laid out in Parquet.
fn properties(table: &Table) -> WriterProperties {
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
        .set_offset_index_disabled(true)
        .set_sorting_columns(Some(sorting.collect()))
        .set_key_value_metadata(Some(vec![
            KeyValue::new(KEY_TABLE.to_owned(), table.name.to_owned()),
            KeyValue::new(KEY_VERSION.to_owned(), TRAIL_VERSION.to_string()),
        ]));
    for column in table.columns {
        let path = ColumnPath::from(column.name);
        let dictionary = is_dictionary(column);
        properties = properties.set_column_dictionary_enabled(path.clone(), dictionary);
        if !dictionary && column.ty == ColumnType::BigInt {
            properties = properties.set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED);
        }
        let statistics =
            if is_pruned_by(table, column) { EnabledStatistics::Chunk } else { EnabledStatistics::None };
        properties = properties.set_column_statistics_enabled(path, statistics);
    }
    properties.build()
}

/// Text, and ids: hashes, whose differences are as random as they are, but few in number.
fn is_dictionary(column: &Column) -> bool {
    column.ty == ColumnType::Text || matches!(column.name, "file2")
}

/// Columns by which queries skip row groups: the order, the time, the file.
fn is_pruned_by(table: &Table, column: &Column) -> bool {
    table.order.contains(&column.name) || matches!(column.name, "ts" | "file")
}

/// Earliest and latest time in a batch.
fn time_range(table: &Table, batch: &RecordBatch) -> Option<(i64, i64)> {
    let times = batch.column(time_column(table)?).as_primitive::<Int64Type>().values();
    let min = times.iter().min()?;
    let max = times.iter().max()?;
    Some((*min, *max))
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

/// A data file of a snapshot, opened: footer read and compared with what the snapshot says.
pub(crate) struct OpenFile {
    table: &'static Table,
    path: PathBuf,
    bytes: Bytes,
    metadata: ArrowReaderMetadata,
    sums: Vec<u32>,
}

/// A row group that can't be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Damage {
    pub(crate) row_group: usize,
    pub(crate) rows: u64,
    pub(crate) why: String,
}

impl OpenFile {
    /// Reads a data file into memory (a few MiB: [`FILE_ROWS`] bounds it) and compares its footer with
    /// the table and the snapshot's entry.
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

    /// As [`OpenFile::open`], for a file that no snapshot lists.
    pub(crate) fn open_any(trail: &Path, table: &'static Table, relative: &str) -> Result<Self, Error> {
        let path = trail.join(relative);
        let bytes = Bytes::from(fs::read(&path).at("read", &path)?);
        let bad = |why: String| Error::BadFile { path: path.clone(), why };
        let damaged = |e: ParquetError| {
            bad(format!("not a whole Parquet file of {} bytes: {}", bytes.len(), plain(&e)))
        };
        let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
        let inferred = ArrowReaderMetadata::load(&bytes, options.clone()).map_err(damaged)?;
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
        let file = Self { table, path, bytes: bytes.clone(), metadata, sums };
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
        let ranges = group.columns().iter().map(|column| {
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            (start, start.saturating_add(column.compressed_size()))
        });
        let (start, end) =
            ranges.fold((i64::MAX, 0), |(low, high), (start, end)| (low.min(start), high.max(end)));
        let range = usize::try_from(start).ok().zip(usize::try_from(end).ok());
        let bytes = range.and_then(|(start, end)| self.bytes.get(start..end));
        let bytes = bytes.ok_or_else(|| damage(format!("bytes {start}..{end} lie outside the file")))?;
        let (found, expected) = (crc32fast::hash(bytes), self.sums[row_group]);
        if found != expected {
            return Err(damage(format!(
                "bytes {start}..{end} changed: expected checksum {expected:08x}, found {found:08x}"
            )));
        }
        Ok(())
    }

    /// The rows of some row groups, of all or of the named columns, in batches of at most `batch_rows`
    /// rows. The row groups must have been verified.
    pub(crate) fn read(
        &self,
        row_groups: Vec<usize>,
        columns: Option<&[&str]>,
        batch_rows: usize,
    ) -> Result<Batches, Error> {
        let known: Vec<&str> = match columns {
            Some(columns) => columns.to_vec(),
            None => self.table.columns.iter().map(|c| c.name).collect(),
        };
        let mask = ProjectionMask::columns(self.metadata.parquet_schema(), known.iter().copied());
        let reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.bytes.clone(), self.metadata.clone())
                .with_row_groups(row_groups)
                .with_projection(mask)
                .with_batch_size(batch_rows)
                .build()
                .map_err(|e| self.bad(plain(&e)))?;
        Ok(Batches { table: self.table, path: self.path.clone(), whole: columns.is_none(), reader })
    }

    /// Verifies all row groups, then reads all rows.
    pub(crate) fn read_all(&self, batch_rows: usize) -> Result<Batches, Error> {
        let all: Vec<usize> = (0..self.row_groups()).collect();
        for &group in &all {
            self.verify(group).map_err(|d| self.bad(format!("row group {}: {}", d.row_group, d.why)))?;
        }
        self.read(all, None, batch_rows)
    }

    /// Verifies and decodes a row group, and looks at the order of its rows.
    pub(crate) fn try_row_group(&self, row_group: usize) -> Result<RecordBatch, Damage> {
        self.verify(row_group)?;
        let rows = self.metadata.metadata().row_group(row_group).num_rows().max(0) as u64;
        let damage = |why: String| Damage { row_group, rows, why };
        let mut batches =
            self.read(vec![row_group], None, ROW_GROUP_ROWS).map_err(|e| damage(e.to_string()))?;
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
    whole: bool,
    reader: ParquetRecordBatchReader,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.reader.next()?;
        Some(match batch {
            // An older file may lack columns that were added later.
            Ok(batch) if self.whole => conform(self.table, &batch),
            Ok(batch) => Ok(batch),
            Err(e) => Err(Error::BadFile { path: self.path.clone(), why: e.to_string() }),
        })
    }
}

/// Parquet's message without its prefix.
fn plain(error: &ParquetError) -> String {
    match error {
        ParquetError::General(text) | ParquetError::EOF(text) | ParquetError::NYI(text) => text.clone(),
        other => other.to_string(),
    }
}
