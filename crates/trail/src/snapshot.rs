//! Snapshots: which files are the trail, as numbered JSON documents that are never changed.
//!
//! `snapshots/00000007.json` lists every live data file with its rows and times. A writer links a
//! finished document to the next free number (link(2) fails if the number is taken), so that a
//! snapshot is there completely or not at all, and two writers can't overwrite each other. A reader
//! takes the highest number it can read and keeps to it.
//!
//! Constraints: the reader trusts nothing in the document. A path that leaves `data/`, a file listed
//! twice, a name that is none or a column of another type is refused, because the document decides which
//! files are opened and deleted, and its names become parts of SQL. `python/iotrail/snapshot.py` refuses the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use iotrail_format::TRAIL_VERSION;
use iotrail_format::record::is_identifier;
use iotrail_format::schema::{self, TABLES, Table};
use serde::{Deserialize, Serialize};

use crate::error::{Error, IoContext as _};
use crate::private::writing;
use crate::seal::plain::read_regular;

/// Bytes that it has at most: of some seven million files.
const MOST_BYTES: u64 = 1 << 30;

/// The document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Version of the trail format, [`TRAIL_VERSION`].
    pub iotrail_trail: u64,
    /// Its number, from 1.
    pub snapshot: u64,
    /// Number of the snapshot it was made from; none for the first.
    pub parent: Option<u64>,
    /// When it was published, RFC 3339, UTC.
    pub created: String,
    /// The nodes that occur in the rows, sorted.
    pub node: BTreeSet<String>,
    /// Who wrote it.
    pub writer: String,
    /// The tables by name: those of this version, also empty ones, and any that a later iotrail added.
    pub tables: BTreeMap<String, TableFiles>,
    /// Files that are no longer live and not yet deleted, because a reader may keep to an older snapshot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dead: Vec<DeadFile>,
}

/// A file that an older snapshot listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeadFile {
    /// Path in the trail, as [`FileEntry::path`].
    pub path: String,
    /// When it was taken off the list: ns since the epoch.
    pub since: i64,
}

/// A table in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableFiles {
    /// One line.
    pub meaning: String,
    /// Columns by which the rows of each file are sorted.
    pub order: Vec<String>,
    /// Its columns.
    pub columns: Vec<ColumnEntry>,
    /// Its live files.
    pub files: Vec<FileEntry>,
}

/// A column in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ColumnEntry {
    /// Name.
    pub name: String,
    /// BIGINT, VARCHAR or DOUBLE.
    pub r#type: String,
    /// Unit, empty if it has none.
    pub unit: String,
    /// Whether null is possible.
    pub nullable: bool,
    /// One line, with what null means.
    pub meaning: String,
}

/// A data file in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileEntry {
    /// Path in the trail, with `/`: `data/TABLE/NAME.parquet`.
    pub path: String,
    /// Rows.
    pub rows: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Earliest `ts` (or `start_ts`), ns since the epoch; none if the table has no time or no row.
    pub min_ts: Option<i64>,
    /// Latest `ts` (or `start_ts`); see `min_ts`.
    pub max_ts: Option<i64>,
    /// CRC-32 of the whole file.
    pub crc32: u32,
}

impl Snapshot {
    /// A trail with nothing in it.
    #[must_use]
    pub fn empty() -> Self {
        let tables = TABLES.iter().map(|table| (table.name.to_owned(), TableFiles::of(table))).collect();
        Self {
            iotrail_trail: u64::from(TRAIL_VERSION),
            snapshot: 0,
            parent: None,
            created: now(),
            node: BTreeSet::new(),
            writer: concat!("iotrail ", env!("CARGO_PKG_VERSION")).to_owned(),
            tables,
            dead: Vec::new(),
        }
    }

    /// The live files of a table.
    #[must_use]
    pub fn files(&self, table: &str) -> &[FileEntry] {
        self.tables.get(table).map_or(&[], |t| &t.files)
    }

    /// All live files.
    pub fn all_files(&self) -> impl Iterator<Item = &FileEntry> {
        self.tables.values().flat_map(|t| &t.files)
    }

    /// Rows of a table.
    #[must_use]
    pub fn rows(&self, table: &str) -> u64 {
        self.files(table).iter().map(|f| f.rows).sum()
    }

    /// Reads a document. `path` is only for messages.
    ///
    /// # Errors
    /// [`Error::NewerVersion`], or [`Error::BadSnapshot`] with line and column, or with what doesn't fit.
    pub fn parse(text: &[u8], path: &Path) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Version {
            iotrail_trail: u64,
        }
        let bad = |why: String| Error::BadSnapshot { path: path.to_owned(), why };
        if text.is_empty() {
            return Err(bad("the snapshot is empty; expected JSON".into()));
        }
        let json = |e: serde_json::Error| {
            bad(if e.is_eof() {
                format!(
                    "the snapshot is cut off: its JSON ends early at line {}, column {}",
                    e.line(),
                    e.column()
                )
            } else {
                format!("not a snapshot: {e}")
            })
        };
        // The version first: a later format may look different in everything else.
        let Version { iotrail_trail } = serde_json::from_slice(text).map_err(json)?;
        if iotrail_trail > u64::from(TRAIL_VERSION) {
            return Err(Error::NewerVersion { path: path.to_owned(), found: iotrail_trail });
        }
        if iotrail_trail == 0 {
            return Err(bad("not a snapshot: trail format 0 never existed".into()));
        }
        let snapshot: Self = serde_json::from_slice(text).map_err(json)?;
        snapshot.verify().map_err(bad)?;
        Ok(snapshot)
    }

    /// What the types can't say.
    fn verify(&self) -> Result<(), String> {
        if self.snapshot == 0 || self.parent.is_some_and(|parent| parent >= self.snapshot) {
            return Err(format!("snapshot {} can't have parent {:?}", self.snapshot, self.parent));
        }
        let mut seen = BTreeSet::new();
        let (mut rows, mut bytes): (u64, u64) = (0, 0);
        for (name, table) in &self.tables {
            table.verify(name)?;
            if let Some(known) = schema::table(name) {
                table.fits(known).map_err(|why| format!("table {name}: {why}"))?;
            }
            for file in &table.files {
                file.verify(name).map_err(|why| format!("file {:?} of table {name}: {why}", file.path))?;
                if !seen.insert(&file.path) {
                    return Err(format!("file {:?} is listed twice", file.path));
                }
                rows = counted(rows, file.rows).ok_or("more rows than can be counted")?;
                bytes = counted(bytes, file.bytes).ok_or("more bytes than can be counted")?;
            }
        }
        for dead in &self.dead {
            let table = dead.path.split('/').nth(1).filter(|table| is_identifier(table)).unwrap_or("TABLE");
            is_data_path(&dead.path, table).map_err(|why| format!("dead file {:?}: {why}", dead.path))?;
            if !seen.insert(&dead.path) {
                return Err(format!("file {:?} is listed twice", dead.path));
            }
        }
        Ok(())
    }

    /// The number in a snapshot's file name; none for any other file.
    #[must_use]
    pub fn number_of(name: &str) -> Option<u64> {
        let digits = name.strip_suffix(".json")?;
        let number = digits.parse().ok()?;
        (digits == format!("{number:08}") && number > 0).then_some(number)
    }

    /// Where snapshot `number` of a trail is.
    #[must_use]
    pub fn path(trail: &Path, number: u64) -> PathBuf {
        trail.join("snapshots").join(format!("{number:08}.json"))
    }

    /// The numbers a trail has, ascending.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotATrail`], [`Error::Io`].
    pub fn numbers(trail: &Path) -> Result<Vec<u64>, Error> {
        let folder = trail.join("snapshots");
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(not_a_trail(trail));
            }
            Err(source) => return Err(Error::Io { action: "list", path: folder, source }),
        };
        let mut numbers = Vec::new();
        for entry in entries {
            let name = entry.at("list", &folder)?.file_name();
            numbers.extend(name.to_str().and_then(Self::number_of));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Reads snapshot `number` of a trail.
    ///
    /// # Errors
    /// As [`Snapshot::parse`], and [`Error::Io`].
    pub fn load(trail: &Path, number: u64) -> Result<Self, Error> {
        let path = Self::path(trail, number);
        let text = read_regular(&path, MOST_BYTES).at("read", &path)?;
        let snapshot = Self::parse(&text, &path)?;
        if snapshot.snapshot != number {
            let why = format!("it says that it is snapshot {}", snapshot.snapshot);
            return Err(Error::BadSnapshot { path, why });
        }
        Ok(snapshot)
    }

    /// Reads the newest snapshot of a trail that can be read. After a crash of the machine the newest
    /// may be cut; the one before it is then the trail.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::NotATrail`]; that of the newest snapshot if none is whole, and
    /// [`Error::NewerVersion`] as soon as one says so; [`Error::Io`] as soon as the storage fails to read one: it may
    /// well be whole, and what was published on top of an older one would lose its rows.
    pub fn newest(trail: &Path) -> Result<Self, Error> {
        // A compaction may delete the listed snapshots before they are read: list again then.
        for _ in 0..8 {
            let mut first = None;
            for number in Self::numbers(trail)?.into_iter().rev() {
                match Self::load(trail, number) {
                    Ok(snapshot) => return Ok(snapshot),
                    Err(e @ Error::NewerVersion { .. }) => return Err(e),
                    Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {}
                    Err(e) if e.is_of_storage() => return Err(e),
                    Err(e) => first = first.or(Some(e)),
                }
            }
            if let Some(error) = first {
                return Err(error);
            }
        }
        let why = if trail.join("session.json").exists() {
            "its recorder ended before it published a first snapshot".to_owned()
        } else {
            "it has no snapshot".to_owned()
        };
        Err(Error::BadSnapshot { path: trail.to_owned(), why })
    }

    /// Publishes the document under its number; with `durable`, once the storage has it. Returns false if that number
    /// is taken.
    pub(crate) fn publish(&self, trail: &Path, durable: bool) -> Result<bool, Error> {
        let folder = trail.join("snapshots");
        let path = Self::path(trail, self.snapshot);
        let temporary = folder.join(format!(".{:08}.{}", self.snapshot, std::process::id()));
        let text = serde_json::to_vec_pretty(self).expect("a snapshot is plain data");
        // Of an earlier process of this pid, or a link that whoever made the trail put there: not written through.
        let _ = fs::remove_file(&temporary);
        let written = writing()
            .create_new(true)
            .open(&temporary)
            .and_then(|mut file| {
                file.write_all(&text)?;
                if durable { file.sync_all() } else { Ok(()) }
            })
            .at("write", &temporary)
            .and_then(|()| match fs::hard_link(&temporary, &path) {
                Ok(()) => Ok(true),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
                Err(source) => Err(Error::Io { action: "publish", path, source }),
            });
        // Of no further use either way; a failure to remove it harms nobody, because readers skip it.
        let _ = fs::remove_file(&temporary);
        written
    }
}

impl TableFiles {
    /// A table without files.
    #[must_use]
    pub fn of(table: &Table) -> Self {
        let columns = table.columns.iter().map(|c| ColumnEntry {
            name: c.name.to_owned(),
            r#type: c.ty.sql().to_owned(),
            unit: c.unit.to_owned(),
            nullable: c.nullable,
            meaning: c.meaning.to_owned(),
        });
        Self {
            meaning: table.meaning.to_owned(),
            order: table.order.iter().map(|&o| o.to_owned()).collect(),
            columns: columns.collect(),
            files: Vec::new(),
        }
    }

    /// What any table has to be.
    fn verify(&self, name: &str) -> Result<(), String> {
        let expected = "expected a name of lower-case letters, digits and _";
        if !is_identifier(name) {
            return Err(format!("table {:?}: {expected}", shortened(name)));
        }
        let mut seen = BTreeSet::new();
        for column in &self.columns {
            if !is_identifier(&column.name) {
                return Err(format!("column {:?} of table {name}: {expected}", shortened(&column.name)));
            }
            if !seen.insert(column.name.as_str()) {
                return Err(format!("column {name}.{} is listed twice", column.name));
            }
        }
        match self.order.iter().find(|column| !seen.contains(column.as_str())) {
            Some(_) => Err(format!("table {name}: its order names a column that it doesn't have")),
            None => Ok(()),
        }
    }

    /// Whether rows of this entry are rows of the table: no column that can't be null is missing,
    /// none has another type, the order is the same.
    fn fits(&self, table: &Table) -> Result<(), String> {
        for column in table.columns {
            match self.columns.iter().find(|c| c.name == column.name) {
                Some(found) if found.r#type != column.ty.sql() => {
                    return Err(format!(
                        "column {}: expected {}, found {}",
                        column.name,
                        column.ty.sql(),
                        shortened(&found.r#type).escape_debug()
                    ));
                }
                None if !column.nullable => return Err(format!("column {} is missing", column.name)),
                _ => {}
            }
        }
        if self.order != table.order {
            return Err(format!("expected order {:?}, found {:?}", table.order, self.order));
        }
        Ok(())
    }
}

impl FileEntry {
    fn verify(&self, table: &str) -> Result<(), String> {
        is_data_path(&self.path, table)?;
        match (self.min_ts, self.max_ts) {
            (Some(min), Some(max)) if min > max => Err(format!("min_ts {min} is after max_ts {max}")),
            (Some(_), None) | (None, Some(_)) => Err("min_ts and max_ts come together".into()),
            _ => Ok(()),
        }
    }
}

/// A sum that SQL's BIGINT holds.
fn counted(sum: u64, more: u64) -> Option<u64> {
    sum.checked_add(more).filter(|sum| i64::try_from(*sum).is_ok())
}

/// Whether a path is one of a data file of the table, and so inside the trail. No file has two of them.
fn is_data_path(text: &str, table: &str) -> Result<(), String> {
    let name = text.strip_prefix("data/").and_then(|rest| rest.strip_prefix(table)?.strip_prefix('/'));
    if name.is_some_and(is_file_name) {
        Ok(())
    } else {
        Err(format!("expected a path data/{table}/NAME.parquet"))
    }
}

/// No pattern of names, which DuckDB would expand.
fn is_file_name(name: &str) -> bool {
    name.ends_with(".parquet")
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

/// The begin of a text that may be of any length.
fn shortened(text: &str) -> &str {
    text.char_indices().nth(60).map_or(text, |(at, _)| &text[..at])
}

/// Why a path without `snapshots/` is not a trail.
fn not_a_trail(path: &Path) -> Error {
    let why = match fs::metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Error::NotFound { path: path.to_owned() },
        Err(source) => return Error::Io { action: "open", path: path.to_owned(), source },
        Ok(meta) if !meta.is_dir() => "it is a file, and a trail is a directory",
        Ok(_) => match fs::read_dir(path).map(|mut entries| entries.next().is_none()) {
            Ok(true) => "the directory is empty",
            _ => "it has no folder snapshots/",
        },
    };
    Error::NotATrail { path: path.to_owned(), why: why.to_owned() }
}

/// The time now, ns since the epoch.
pub(crate) fn now_ns() -> i64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |t| i64::try_from(t.as_nanos()).unwrap_or(i64::MAX))
}

/// The time now, as snapshots write it.
pub(crate) fn now() -> String {
    humantime::format_rfc3339_millis(SystemTime::now()).to_string()
}
