//! The only writer of trails: files of rows, then a snapshot that lists them.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use arrow_array::RecordBatch;
use iotrail_format::ids::hash63;
use iotrail_format::schema::{TABLES, Table};

use crate::columns::{conform, continues, first_out_of_order};
use crate::error::{Error, IoContext as _};
use crate::file::{DataFile, FILE_ROWS, Finished, Layout};
use crate::private::make_folder;
use crate::seal::awaited;
use crate::snapshot::{DeadFile, Snapshot, TableFiles, now_ns};

/// How long a reader may keep to a snapshot that is no longer the newest, unless a caller says otherwise.
pub const GRACE: Duration = Duration::from_secs(60);

/// Writes one trail. Several may be open on the same trail (a recorder and a compaction): each
/// publishes its own changes on top of whatever is newest.
pub struct TrailWriter {
    path: PathBuf,
    newest: Snapshot,
    /// The file that [`TrailWriter::append_more`] goes on in, and the last row of it.
    open: Option<(DataFile, RecordBatch)>,
    added: Vec<Finished>,
    removed: BTreeSet<String>,
    nodes: BTreeSet<String>,
    durable: bool,
    layout: Layout,
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
            make_folder(&folder).at("make directory", &folder)?;
        }
        let mut writer = Self::on(path, Snapshot::empty());
        writer.publish()?;
        Ok(writer)
    }

    /// Begins anew in a trail none of whose snapshots can be read.
    pub(crate) fn rebuild(path: &Path) -> Result<Self, Error> {
        expect_own_folders(path)?;
        let folder = path.join("data");
        make_folder(&folder).at("make directory", &folder)?;
        let taken = Snapshot::numbers(path)?.last().copied().unwrap_or(0);
        Ok(Self::on(path, Snapshot { snapshot: taken, ..Snapshot::empty() }).durable())
    }

    /// Goes on with a trail that exists.
    ///
    /// # Errors
    /// Those of [`Snapshot::newest`]; [`Error::NotATrail`] if one of its folders is a link.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let newest = Snapshot::newest(path)?;
        expect_own_folders(path)?;
        Ok(Self::on(path, newest))
    }

    fn on(path: &Path, newest: Snapshot) -> Self {
        Self {
            path: path.to_owned(),
            newest,
            open: None,
            added: Vec::new(),
            removed: BTreeSet::new(),
            nodes: BTreeSet::new(),
            durable: false,
            layout: Layout::Quick,
        }
    }

    /// Makes files durable before they are listed, and smaller at some cost of time. A recorder doesn't want that: it would wait for the
    /// very storage it observes. What replaces older files does.
    #[must_use]
    pub fn durable(mut self) -> Self {
        self.durable = true;
        self.layout = Layout::Small;
        self
    }

    /// Makes files and snapshots durable before they are listed, and writes them as quickly as a recorder: for one who
    /// gives up another copy of the rows once they are published.
    #[must_use]
    pub fn synced(mut self) -> Self {
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
        self.append_more(table, batch)?;
        self.end_file()
    }

    /// As [`TrailWriter::append`], into the file of the rows before, if they are of the same table and these continue their
    /// order: who makes rows a few thousand at a time need not hold all of a file's. [`TrailWriter::end_file`] ends it.
    ///
    /// # Errors
    /// Those of [`TrailWriter::append`].
    pub fn append_more(&mut self, table: &'static Table, batch: &RecordBatch) -> Result<(), Error> {
        let batch = conform(table, batch)?;
        if let Some(row) = first_out_of_order(table, &batch) {
            let why = format!("row {row} is out of the order by {}", table.order.join(", "));
            return Err(Error::BadRows { table: table.name, why });
        }
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let goes_on = |(file, last): &(DataFile, RecordBatch)| {
            file.table().name == table.name
                && file.rows() < FILE_ROWS as u64
                && continues(table, last, &batch)
        };
        let mut file = match self.open.take_if(|open| goes_on(open)) {
            Some((file, _)) => file,
            None => {
                self.end_file()?;
                DataFile::create(&self.path, table, self.layout)?
            }
        };
        file.write(&batch)?;
        self.open = Some((file, batch.slice(batch.num_rows() - 1, 1)));
        Ok(())
    }

    /// Completes the file that [`TrailWriter::append_more`] goes on in, if there is one.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses.
    pub fn end_file(&mut self) -> Result<(), Error> {
        if let Some((file, _)) = self.open.take() {
            let file = file.finish(self.durable)?;
            self.add(file);
        }
        Ok(())
    }

    /// Path in the trail of the first file that the next publish lists. Who notes it durably beforehand can tell after a
    /// crash whether that publish happened: see [`crate::is_listed`].
    #[must_use]
    pub fn first_added(&self) -> Option<&str> {
        self.added.first().map(|file| file.entry.path.as_str())
    }

    /// Lists a finished file at the next publish.
    pub(crate) fn add(&mut self, file: Finished) {
        self.added.push(file);
    }

    /// Says that rows of these nodes were added.
    pub(crate) fn add_nodes(&mut self, nodes: &BTreeSet<String>) {
        self.nodes.extend(nodes.iter().cloned());
    }

    /// Takes a live file off the list at the next publish, which is refused if it isn't live any more.
    pub fn remove(&mut self, path: &str) {
        self.removed.insert(path.to_owned());
    }

    /// Publishes what was appended (and taken off) since the last time as a new snapshot, in one step:
    /// a reader sees all of it or nothing. Returns the snapshot's number.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another writer took off one of the files this one takes off;
    /// [`Error::Io`]. After an error nothing has changed, and it may be tried again; unless it was the last step, to make
    /// the new snapshot's name durable, which [`crate::is_listed`] tells and [`sync_snapshots`] repeats.
    pub fn publish(&mut self) -> Result<u64, Error> {
        self.end_file()?;
        loop {
            let taken = Snapshot::numbers(&self.path)?.last().copied().unwrap_or(0);
            if taken > self.newest.snapshot {
                // Another writer published meanwhile: build on that.
                self.newest = Snapshot::newest(&self.path)?;
            }
            // Above all numbers there are, also those of snapshots that can't be read.
            let highest = taken.max(self.newest.snapshot);
            let number = highest.checked_add(1).ok_or_else(|| Error::BadSnapshot {
                path: Snapshot::path(&self.path, highest),
                why: "no other can follow the snapshot of the highest number".to_owned(),
            })?;
            let next = self.next(number)?;
            if self.durable {
                // The files are; what names them must be too, up to what names the trail: who made it did not wait for
                // that.
                let named =
                    self.added.iter().flat_map(|file| Path::new(&file.entry.path).ancestors().skip(1));
                let folders: BTreeSet<&Path> = named.chain([Path::new(""), Path::new("..")]).collect();
                folders.iter().try_for_each(|folder| sync(&self.path.join(folder)))?;
            }
            if next.publish(&self.path, self.durable)? {
                self.newest = next;
                self.added.clear();
                self.removed.clear();
                self.drop_old_snapshots(GRACE);
                if self.durable {
                    sync_snapshots(&self.path)?;
                }
                return Ok(self.newest.snapshot);
            }
        }
    }

    /// The newest snapshot with this writer's changes.
    fn next(&self, number: u64) -> Result<Snapshot, Error> {
        let mut next = Snapshot {
            snapshot: number,
            parent: (self.newest.snapshot > 0).then_some(self.newest.snapshot),
            tables: self.newest.tables.clone(),
            node: self.newest.node.clone(),
            // What was deleted meanwhile needn't be remembered.
            dead: self.newest.dead.iter().filter(|d| self.path.join(&d.path).exists()).cloned().collect(),
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
        let since = now_ns();
        next.dead.extend(self.removed.iter().map(|path| DeadFile { path: path.clone(), since }));
        next.node.extend(self.nodes.iter().cloned());
        for added in &self.added {
            // Only tables that programs declared aren't there yet.
            let name = added.table.name.to_owned();
            let table = next.tables.entry(name).or_insert_with(|| TableFiles::of(added.table));
            table.files.push(added.entry.clone());
            next.node.extend(added.nodes.iter().cloned());
        }
        Ok(next)
    }
}

impl Drop for TrailWriter {
    /// Files that no snapshot came to list are of no use.
    fn drop(&mut self) {
        for file in &self.added {
            let _ = fs::remove_file(self.path.join(&file.entry.path));
        }
    }
}

impl TrailWriter {
    /// Removes the trail: for one that [`TrailWriter::create`] made and that could not be filled.
    /// What can't be removed stays.
    pub fn abandon(self) {
        if remove_trail(&self.path).is_ok() {
            // Only if nothing foreign is in it.
            let _ = fs::remove_dir(&self.path);
        }
    }

    /// Deletes files that have been dead for `grace`, and snapshots that have been superseded as long; during a
    /// recording not those by which its recovery would tell what was published.
    /// Returns how many data files it deleted.
    ///
    /// # Errors
    /// [`Error::Io`]; what is left is tried again next time.
    pub fn sweep(&mut self, grace: Duration) -> Result<usize, Error> {
        self.newest = Snapshot::newest(&self.path)?;
        // Recovery after a crash looks here for what was published: see `seal::recover`.
        let awaited = if self.path.join("session.json").exists() {
            let Some(awaited) = awaited(&self.path) else { return Ok(0) };
            awaited
        } else {
            HashSet::new()
        };
        // A snapshot goes before the files that only it lists.
        self.drop_old_snapshots(grace);
        let limit = now_ns().saturating_sub(i64::try_from(grace.as_nanos()).unwrap_or(i64::MAX));
        let mut deleted = 0;
        let over = |dead: &&DeadFile| dead.since <= limit && !awaited.contains(&hash63(dead.path.as_bytes()));
        for dead in self.newest.dead.iter().filter(over) {
            let path = self.path.join(&dead.path);
            match fs::remove_file(&path) {
                Ok(()) => deleted += 1,
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(source) => return Err(Error::Io { action: "delete", path, source }),
            }
        }
        Ok(deleted)
    }

    /// Deletes snapshots whose successor is older than `grace`. One that can't be deleted stays, which
    /// costs only its space.
    fn drop_old_snapshots(&self, grace: Duration) {
        let Ok(numbers) = Snapshot::numbers(&self.path) else { return };
        for pair in numbers.windows(2).filter(|pair| pair[1] <= self.newest.snapshot) {
            let successor = fs::metadata(Snapshot::path(&self.path, pair[1])).and_then(|m| m.modified());
            let superseded = successor.ok().and_then(|at| at.elapsed().ok());
            if superseded.is_none_or(|age| age < grace) {
                break;
            }
            let _ = fs::remove_file(Snapshot::path(&self.path, pair[0]));
        }
    }
}

/// Waits until the storage has a file, or the names in a folder.
fn sync(path: &Path) -> Result<(), Error> {
    fs::File::open(path).and_then(|file| file.sync_all()).at("make durable", path)
}

/// Makes durable which snapshots a trail has: what [`TrailWriter::publish`] does last, where that failed.
///
/// # Errors
/// [`Error::Io`].
pub fn sync_snapshots(trail: &Path) -> Result<(), Error> {
    sync(&trail.join("snapshots"))
}

/// Refuses a trail of which a folder is a link: whoever made the trail would choose where files are made and deleted.
///
/// # Errors
/// [`Error::NotATrail`], and [`Error::Io`] if the system refuses.
pub(crate) fn expect_own_folders(trail: &Path) -> Result<(), Error> {
    let data = trail.join("data");
    let mut folders = vec![trail.join("snapshots"), data.clone()];
    match fs::read_dir(&data) {
        Err(e) if e.kind() == ErrorKind::NotFound => {}
        entries => {
            for entry in entries.at("list", &data)? {
                folders.push(entry.at("list", &data)?.path());
            }
        }
    }
    match folders.into_iter().find(|folder| folder.is_symlink()) {
        Some(path) => {
            Err(Error::NotATrail { path, why: "expected a folder, found a symbolic link".to_owned() })
        }
        None => Ok(()),
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
