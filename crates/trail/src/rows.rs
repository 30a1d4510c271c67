//! The reader of native tools: typed rows of a snapshot, in one order over all its files.
//!
//! [`Order::Time`] is the order in which calls began, over all threads and nodes: a row group is loaded
//! when its first row is due and dropped after its last, and inside of it each thread is a sorted run of
//! its own. [`Order::Thread`] is the tables' declared order, thread by thread: files are merged by small
//! batches. So memory holds what overlaps, not the trail: after compaction, about a file
//! ([`crate::FILE_ROWS`] rows, 120 MB) in the first order, some megabytes a file in the second.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array as _, DictionaryArray, Int64Array, RecordBatch, StringArray};
use iotrail_format::ids::{Crumb, FileId, ThreadId};
use iotrail_format::schema::{FILE_OP, SYNC_OP, Table};

use crate::columns::position;
use crate::error::Error;
use crate::file::OpenFile;
use crate::kway::{Input, Merged};
use crate::snapshot::{FileEntry, Snapshot};

/// A trail as it was when it was opened.
pub struct TrailReader {
    path: PathBuf,
    snapshot: Snapshot,
}

/// In which order rows come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// By `ts`, then thread.
    Time,
    /// By thread, then `ts`.
    Thread,
}

/// A row of `file_op`. Times are ns, sizes and offsets bytes, `None` is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOp<'a> {
    /// Start, since the epoch.
    pub ts: i64,
    /// Time until it returned; none if it never did.
    pub dur: Option<i64>,
    /// Machine.
    pub node: &'a str,
    /// Thread that called.
    pub thread: ThreadId,
    /// Breadcrumb; 0 none.
    pub crumb: Crumb,
    /// Name of the call.
    pub call: &'a str,
    /// File it acted on; none unknown.
    pub file: Option<FileId>,
    /// Second file; none if the call has none.
    pub file2: Option<FileId>,
    /// Descriptor; none if the call has none.
    pub fd: Option<i64>,
    /// Offset in the file; none where the call has none.
    pub pos: Option<i64>,
    /// Bytes asked for; none where the call has none.
    pub length: Option<i64>,
    /// What it returned; none unfinished.
    pub result: Option<i64>,
    /// Error number; 0 success.
    pub errno: i64,
    /// Flags of the call; none if it has none.
    pub flags: Option<i64>,
    /// Calls of the program this row stands for.
    pub calls: i64,
}

/// A row of `sync_op`. Times are ns, `None` is null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncOp<'a> {
    /// Start, since the epoch.
    pub ts: i64,
    /// Time until it returned; none if it never did.
    pub dur: Option<i64>,
    /// Machine.
    pub node: &'a str,
    /// Thread that called.
    pub thread: ThreadId,
    /// Breadcrumb; 0 none.
    pub crumb: Crumb,
    /// Name of the call.
    pub call: &'a str,
    /// What it waited for.
    pub kind: &'a str,
    /// Lock's address, or id of the pipe, socket or file; none if there is none.
    pub object: Option<i64>,
    /// Who it waited for; none unknown.
    pub peer: Option<i64>,
    /// Descriptor; none if the call has none.
    pub fd: Option<i64>,
    /// Bytes asked for, or ns for sleep; none if there is none.
    pub length: Option<i64>,
    /// What it returned; none unfinished.
    pub result: Option<i64>,
    /// Error number; 0 success.
    pub errno: i64,
    /// Number of an MPI collective, the request that a call completed, or where the part of a file begins that is locked; none if there is none.
    pub seq: Option<i64>,
    /// MPI tag; none if there is none.
    pub tag: Option<i64>,
    /// Operation of a call that locks a file; none if it doesn't.
    pub flags: Option<i64>,
}

/// Columns of a row of a small table, in the order they were asked for; `None` is null.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmallRow {
    /// BIGINT columns.
    pub ints: Vec<Option<i64>>,
    /// VARCHAR columns.
    pub texts: Vec<Option<String>>,
}

impl TrailReader {
    /// Opens the newest snapshot of a trail and keeps to it. Its files stay for
    /// [`crate::GRACE`] after a compaction replaced them.
    ///
    /// # Errors
    /// Those of [`Snapshot::newest`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { path: path.to_owned(), snapshot: Snapshot::newest(path)? })
    }

    /// The snapshot.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// The rows of one live file of a table, in batches of at most `batch_rows`.
    ///
    /// # Errors
    /// [`Error::MissingFile`], [`Error::BadFile`], [`Error::NewerVersion`], [`Error::Io`], also of each batch.
    pub fn batches(
        &self,
        table: &'static Table,
        entry: &FileEntry,
        batch_rows: usize,
    ) -> Result<impl Iterator<Item = Result<RecordBatch, Error>> + use<>, Error> {
        OpenFile::open(&self.path, table, entry)?.read_all(batch_rows)
    }

    /// The calls on files.
    ///
    /// # Errors
    /// [`Error::MissingFile`], [`Error::BadFile`], [`Error::NewerVersion`], [`Error::Io`].
    pub fn file_ops(&self, order: Order) -> Result<Rows<FileOpColumns>, Error> {
        self.rows(order)
    }

    /// The calls that wait.
    ///
    /// # Errors
    /// As [`TrailReader::file_ops`].
    pub fn sync_ops(&self, order: Order) -> Result<Rows<SyncOpColumns>, Error> {
        self.rows(order)
    }

    /// Some columns of a table that is small enough to be read whole: processes, threads, files.
    ///
    /// # Errors
    /// As [`TrailReader::file_ops`].
    ///
    /// # Panics
    /// If the table has no such columns.
    pub fn small(
        &self,
        table: &'static Table,
        ints: &[&str],
        texts: &[&str],
    ) -> Result<Vec<SmallRow>, Error> {
        let mut rows = Vec::new();
        for entry in self.snapshot.files(table.name) {
            for batch in OpenFile::open(&self.path, table, entry)?.read_all(8192)? {
                let batch = batch?;
                let ints: Vec<Ints> = ints.iter().map(|name| Ints::of(table, &batch, name)).collect();
                let texts: Vec<Text> = texts.iter().map(|name| Text::of(table, &batch, name)).collect();
                rows.extend((0..batch.num_rows()).map(|at| SmallRow {
                    ints: ints.iter().map(|column| column.get(at)).collect(),
                    texts: texts.iter().map(|column| column.get(at).map(str::to_owned)).collect(),
                }));
            }
        }
        Ok(rows)
    }

    /// The rows of one data file, in batches of [`crate::arrow_schema`].
    ///
    /// # Errors
    /// As [`TrailReader::file_ops`].
    pub fn file(
        &self,
        table: &'static Table,
        entry: &FileEntry,
    ) -> Result<impl Iterator<Item = Result<RecordBatch, Error>> + use<>, Error> {
        OpenFile::open(&self.path, table, entry)?.read_all(8192)
    }

    fn rows<C: Columns>(&self, order: Order) -> Result<Rows<C>, Error> {
        let mut files = Vec::new();
        for entry in self.snapshot.files(C::TABLE.name) {
            files.push(OpenFile::open(&self.path, C::TABLE, entry)?);
        }
        Ok(Rows(match order {
            Order::Time => Source::Time(ByTime::new(files)),
            Order::Thread => {
                let rows = (crate::ROW_GROUP_ROWS / files.len().max(1)).clamp(256, 8192);
                let inputs: Result<Vec<Input>, Error> =
                    files.iter().map(|file| Ok(Box::new(file.read_all(rows)?) as Input)).collect();
                Source::Thread { merged: Box::new(Merged::new(C::TABLE, inputs?, false)?), now: None, at: 0 }
            }
        }))
    }
}

/// The columns of a table's batch, typed.
pub trait Columns: Sized {
    /// The table.
    const TABLE: &'static Table;
    /// One row.
    type Row<'a>
    where
        Self: 'a;
    /// Takes the columns of a batch of the table.
    fn new(batch: &RecordBatch) -> Self;
    /// The start and the thread of each row.
    fn keys(&self) -> (&[i64], &[i64]);
    /// A row.
    fn row(&self, at: usize) -> Self::Row<'_>;
}

/// Rows in order. Not an `Iterator`, because a row borrows from its batch.
pub struct Rows<C>(Source<C>);

enum Source<C> {
    Time(ByTime<C>),
    Thread { merged: Box<Merged>, now: Option<C>, at: usize },
}

impl<C: Columns> Rows<C> {
    /// The next row; none at the end.
    ///
    /// # Errors
    /// [`Error::BadFile`] if a file is damaged, [`Error::MissingFile`] or [`Error::Io`] if it can't be read.
    #[expect(clippy::should_implement_trait, reason = "rows borrow from the reader")]
    pub fn next(&mut self) -> Result<Option<C::Row<'_>>, Error> {
        match &mut self.0 {
            Source::Time(by_time) => by_time.next(),
            Source::Thread { merged, now, at } => {
                *at += 1;
                if now.as_ref().is_none_or(|columns| columns.keys().0.len() == *at) {
                    *now = merged.next().transpose()?.map(|batch| C::new(&batch));
                    *at = 0;
                }
                Ok(now.as_ref().map(|columns| columns.row(*at)))
            }
        }
    }
}

/// Merges by time what is sorted by thread and time.
struct ByTime<C> {
    /// Row groups not yet loaded, by their earliest row, last first.
    waiting: Vec<(i64, Rc<OpenFile>, usize)>,
    loaded: Vec<Option<Loaded<C>>>,
    free: Vec<usize>,
    /// The runs by their next row.
    runs: BinaryHeap<Reverse<Run>>,
    /// The run of the row given out last: it goes on before the next row is chosen.
    current: bool,
}

/// The rest of one thread's rows in a loaded row group; ordered as rows are to come.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    /// Time of the next row.
    ts: i64,
    thread: i64,
    /// Index in `loaded`.
    slot: usize,
    /// The next row.
    row: usize,
    end: usize,
}

struct Loaded<C> {
    columns: C,
    runs: usize,
}

impl<C: Columns> ByTime<C> {
    fn new(files: Vec<OpenFile>) -> Self {
        let mut waiting = Vec::new();
        for file in files.into_iter().map(Rc::new) {
            waiting.extend((0..file.row_groups()).map(|group| (file.min_ts(group), file.clone(), group)));
        }
        waiting.sort_by_key(|(min, ..)| Reverse(*min));
        Self { waiting, loaded: Vec::new(), free: Vec::new(), runs: BinaryHeap::new(), current: false }
    }

    fn next(&mut self) -> Result<Option<C::Row<'_>>, Error> {
        if self.current {
            self.go_on();
        }
        self.current = false;
        while let Some((min, ..)) = self.waiting.last() {
            if self.runs.peek().is_some_and(|Reverse(run)| run.ts < *min) {
                break;
            }
            self.load()?;
        }
        let Some(Reverse(run)) = self.runs.peek() else { return Ok(None) };
        self.current = true;
        Ok(self.loaded[run.slot].as_ref().map(|loaded| loaded.columns.row(run.row)))
    }

    /// Moves the first run to its next row.
    fn go_on(&mut self) {
        let Some(mut first) = self.runs.peek_mut() else { return };
        let Reverse(run) = &mut *first;
        run.row += 1;
        let slot = run.slot;
        let loaded = &mut self.loaded[slot];
        if let (true, Some(loaded)) = (run.row < run.end, loaded.as_ref()) {
            run.ts = loaded.columns.keys().0[run.row];
            return;
        }
        std::collections::binary_heap::PeekMut::pop(first);
        if let Some(one) = loaded {
            one.runs -= 1;
            if one.runs == 0 {
                *loaded = None;
                self.free.push(slot);
            }
        }
    }

    /// Loads the row group that is due and cuts it into runs.
    fn load(&mut self) -> Result<(), Error> {
        let Some((_, file, group)) = self.waiting.pop() else { return Ok(()) };
        let Some(batch) = file.read_row_group(group)? else { return Ok(()) };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.loaded.push(None);
            self.loaded.len() - 1
        });
        let columns = C::new(&batch);
        let (ts, threads) = columns.keys();
        let (mut start, mut runs) = (0, 0);
        for rows in threads.chunk_by(|a, b| a == b) {
            let end = start + rows.len();
            self.runs.push(Reverse(Run { ts: ts[start], thread: rows[0], slot, row: start, end }));
            start = end;
            runs += 1;
        }
        self.loaded[slot] = Some(Loaded { columns, runs });
        Ok(())
    }
}

/// An integer column.
struct Ints(Int64Array);

impl Ints {
    fn of(table: &Table, batch: &RecordBatch, name: &str) -> Self {
        let at = position(table, name).expect("a column of the table");
        Self(batch.column(at).as_primitive::<Int64Type>().clone())
    }

    fn get(&self, at: usize) -> Option<i64> {
        self.0.is_valid(at).then(|| self.0.value(at))
    }
}

/// A text column of a small table.
enum Text {
    Plain(StringArray),
    OfFewValues(Words),
}

impl Text {
    fn of(table: &Table, batch: &RecordBatch, name: &str) -> Self {
        let column = batch.column(position(table, name).expect("a column of the table"));
        match column.as_string_opt::<i32>() {
            Some(plain) => Self::Plain(plain.clone()),
            None => Self::OfFewValues(Words::of(table, batch, name)),
        }
    }

    fn get(&self, at: usize) -> Option<&str> {
        match self {
            Self::Plain(texts) => texts.is_valid(at).then(|| texts.value(at)),
            Self::OfFewValues(words) => words.keys.is_valid(at).then(|| words.get(at)),
        }
    }
}

/// A text column of few values.
struct Words {
    keys: DictionaryArray<Int32Type>,
    words: StringArray,
}

impl Words {
    fn of(table: &Table, batch: &RecordBatch, name: &str) -> Self {
        let at = position(table, name).expect("a column of the table");
        let keys = batch.column(at).as_dictionary::<Int32Type>().clone();
        Self { words: keys.values().as_string::<i32>().clone(), keys }
    }

    fn get(&self, at: usize) -> &str {
        self.keys.key(at).map_or("", |key| self.words.value(key))
    }
}

macro_rules! columns {
    ($(#[$doc:meta])* $name:ident $table:ident $row:ident;
     words $($word:ident)*; some $($some:ident $(as $id:ident)?),*; null $($null:ident $(as $null_id:ident)?),*) => {
        $(#[$doc])*
        pub struct $name { $($word: Words,)* $($some: Ints,)* $($null: Ints,)* }

        impl Columns for $name {
            const TABLE: &'static Table = &$table;
            type Row<'a> = $row<'a>;

            fn new(batch: &RecordBatch) -> Self {
                Self {
                    $($word: Words::of(&$table, batch, stringify!($word)),)*
                    $($some: Ints::of(&$table, batch, stringify!($some)),)*
                    $($null: Ints::of(&$table, batch, stringify!($null)),)*
                }
            }

            fn keys(&self) -> (&[i64], &[i64]) {
                (self.ts.0.values(), self.thread.0.values())
            }

            fn row(&self, at: usize) -> $row<'_> {
                $row {
                    $($word: self.$word.get(at),)*
                    $($some: columns!(@id self.$some.0.value(at) $(, $id)?),)*
                    $($null: self.$null.get(at)$(.map($null_id))?,)*
                }
            }
        }
    };
    (@id $value:expr) => { $value };
    (@id $value:expr, $id:ident) => { $id($value) };
}

columns! {
    /// Columns of `file_op`.
    FileOpColumns FILE_OP FileOp;
    words node call;
    some ts, thread as ThreadId, crumb as Crumb, errno, calls;
    null dur, file as FileId, file2 as FileId, fd, pos, length, result, flags
}

columns! {
    /// Columns of `sync_op`.
    SyncOpColumns SYNC_OP SyncOp;
    words node call kind;
    some ts, thread as ThreadId, crumb as Crumb, errno;
    null dur, object, peer, fd, length, result, seq, tag, flags
}
