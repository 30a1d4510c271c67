//! The only writer of trails: files of rows, then a snapshot that lists them.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use iotrail_format::schema::{TABLES, Table};

use crate::columns::{conform, first_out_of_order};
use crate::error::{Error, IoContext as _};
use crate::file::{DataFile, Finished};
use crate::snapshot::{Snapshot, TableFiles};

/// Writes one trail. Several may be open on the same trail (a recorder and a compaction): each
/// publishes its own changes on top of whatever is newest.
pub struct TrailWriter {
    path: PathBuf,
    newest: Snapshot,
    added: Vec<Finished>,
    removed: BTreeSet<String>,
    durable: bool,
}

impl TrailWriter {
    /// Makes an empty trail and publishes its first snapshot.
    ///
    /// `force` replaces a trail that is there, and nothing else: never a foreign directory or file.
    ///
    /// # Errors
    /// [`Error::Exists`] if something is at the path, [`Error::Io`] if the system refuses.
    pub fn create(path: &Path, force: bool) -> Result<Self, Error> {
        match fs::symlink_metadata(path) {
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(Error::Io { action: "look at", path: path.to_owned(), source }),
            Ok(meta) => {
                let trail = meta.is_dir() && (path.join("snapshots").is_dir() || is_empty(path));
                if !(force && trail) {
                    return Err(Error::Exists { path: path.to_owned(), trail });
                }
                remove_trail(path)?;
            }
        }
        for folder in [path.to_owned(), path.join("snapshots"), path.join("data")] {
            fs::create_dir_all(&folder).at("make directory", &folder)?;
        }
        let mut writer = Self::on(path, Snapshot::empty());
        writer.publish()?;
        Ok(writer)
    }

    /// Goes on with a trail that exists.
    ///
    /// # Errors
    /// Those of [`Snapshot::newest`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self::on(path, Snapshot::newest(path)?))
    }

    fn on(path: &Path, newest: Snapshot) -> Self {
        Self { path: path.to_owned(), newest, added: Vec::new(), removed: BTreeSet::new(), durable: false }
    }

    /// Makes files durable before they are listed. A recorder doesn't want that: it would wait for the
    /// very storage it observes. What replaces older files does.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self
    }

    /// The trail.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The snapshot this writer last published or opened.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.newest
    }

    /// Writes rows as one Parquet file, which the next [`TrailWriter::publish`] lists. No rows, no file.
    ///
    /// # Errors
    /// [`Error::BadRows`] if the columns are not the table's (text may be of any Arrow layout, missing
    /// nullable columns become null) or a row stands before its predecessor in the table's order
    /// ([`crate::sort`] helps); [`Error::Io`] if the system refuses.
    pub fn append(&mut self, table: &'static Table, batch: &RecordBatch) -> Result<(), Error> {
        let batch = conform(table, batch)?;
        if let Some(row) = first_out_of_order(table, &batch) {
            let why = format!("row {row} is out of the order by {}", table.order.join(", "));
            return Err(Error::BadRows { table: table.name, why });
        }
        if batch.num_rows() > 0 {
            let mut file = DataFile::create(&self.path, table)?;
            file.write(&batch)?;
            let file = file.finish(self.durable)?;
            self.add(file);
        }
        Ok(())
    }

    /// Path in the trail of the first file that the next publish lists.
    pub(crate) fn first_added(&self) -> Option<&str> {
        self.added.first().map(|file| file.entry.path.as_str())
    }

    /// Lists a finished file at the next publish.
    pub(crate) fn add(&mut self, file: Finished) {
        self.added.push(file);
    }

    /// Takes a live file off the list at the next publish.
    pub(crate) fn remove(&mut self, path: &str) {
        self.removed.insert(path.to_owned());
    }

    /// Publishes what was appended (and taken off) since the last time as a new snapshot, in one step:
    /// a reader sees all of it or nothing. Returns the snapshot's number.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another writer took off one of the files this one takes off;
    /// [`Error::Io`]. After an error nothing has changed, and it may be tried again.
    pub fn publish(&mut self) -> Result<u64, Error> {
        loop {
            let next = self.next()?;
            if next.publish(&self.path)? {
                self.newest = next;
                self.added.clear();
                self.removed.clear();
                return Ok(self.newest.snapshot);
            }
            // Another writer was first: build on its snapshot.
            self.newest = Snapshot::newest(&self.path)?;
        }
    }

    /// The newest snapshot with this writer's changes.
    fn next(&self) -> Result<Snapshot, Error> {
        let mut next = Snapshot {
            // Numbers of snapshots that can't be read are taken too.
            snapshot: Snapshot::numbers(&self.path)?.last().copied().unwrap_or(0).max(self.newest.snapshot)
                + 1,
            parent: (self.newest.snapshot > 0).then_some(self.newest.snapshot),
            tables: self.newest.tables.clone(),
            node: self.newest.node.clone(),
            ..Snapshot::empty()
        };
        for table in TABLES {
            // An older trail lists fewer columns: from now on it has files with all of them.
            let entry = next.tables.entry(table.name.to_owned()).or_insert_with(|| TableFiles::of(table));
            let of_now = TableFiles::of(table);
            if entry.columns.len() < of_now.columns.len() {
                entry.columns = of_now.columns;
            }
        }
        let mut gone = 0;
        for table in next.tables.values_mut() {
            let before = table.files.len();
            table.files.retain(|file| !self.removed.contains(&file.path));
            gone += before - table.files.len();
        }
        if gone != self.removed.len() {
            let why = "files to be replaced are no longer live".to_owned();
            return Err(Error::Conflict { path: self.path.clone(), why });
        }
        for added in &self.added {
            let table = next.tables.get_mut(added.table.name).expect("all known tables were entered above");
            table.files.push(added.entry.clone());
            next.node.extend(added.nodes.iter().cloned());
        }
        Ok(next)
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Removes a trail: what trails consist of, then the directory if nothing foreign is in it.
fn remove_trail(path: &Path) -> Result<(), Error> {
    // Snapshots first, so that a reader never sees a snapshot without its files.
    for folder in ["snapshots", "data"] {
        let folder = path.join(folder);
        match fs::remove_dir_all(&folder) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e).at("remove", &folder),
            _ => {}
        }
    }
    let session = path.join("session.json");
    match fs::remove_file(&session) {
        Err(e) if e.kind() != ErrorKind::NotFound => Err(e).at("remove", &session),
        _ => Ok(()),
    }
}
