//! What was acknowledged and can't be sealed: set aside in a folder of the log, so that the rest goes on.
//!
//! Each entry is two files: `NAME.arrows`, the rows as an Arrow IPC stream, and `NAME.txt`, which says of whom they are
//! and why they are there. Nothing reads them again; a person may.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use iotrail_trail::private::{make_folder, writing};
use iotrail_trail::{Seldom, one_line};

use crate::error::{Error, IoContext as _};

/// Name of the folder in the log's.
const FOLDER: &str = "set-aside";

/// The folder. Cheap to clone.
#[derive(Clone)]
pub struct Aside {
    folder: Arc<Path>,
    said: Arc<Mutex<Seldom>>,
}

/// An entry.
#[derive(Debug)]
pub struct Entry<'a> {
    /// Its name: the same entry set aside again takes the place of itself.
    pub name: String,
    /// Table of its rows.
    pub table: &'a str,
    /// Who sent it; empty if nobody is known.
    pub agent: &'a str,
    /// Why it can't be sealed.
    pub why: &'a str,
}

impl Aside {
    /// That of a log.
    #[must_use]
    pub fn of(log: &Path) -> Self {
        Self { folder: log.join(FOLDER).into(), said: Arc::default() }
    }

    /// Where entries are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How many entries there are.
    #[must_use]
    pub fn entries(&self) -> u64 {
        let names = fs::read_dir(&self.folder).into_iter().flatten().flatten().map(|entry| entry.path());
        names.filter(|path| path.extension().is_some_and(|kind| kind == "arrows")).count() as u64
    }

    /// Keeps an entry durably, and says so.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn keep<'a>(&self, entry: &Entry<'_>, ipc: impl IntoIterator<Item = &'a Bytes>) -> Result<(), Error> {
        let Entry { name, table, agent, why } = entry;
        make_folder(&self.folder).at("make directory", &self.folder)?;
        let rows = self.folder.join(format!("{name}.arrows"));
        let is_new = !rows.exists();
        let write = |path: &Path, parts: &[&[u8]]| {
            let mut file = writing().create(true).truncate(true).open(path)?;
            parts.iter().try_for_each(|part| file.write_all(part))?;
            file.sync_all()
        };
        let about = self.folder.join(format!("{name}.txt"));
        let text = format!("table: {table}\nagent: {agent}\nwhy: {why}\n");
        write(&about, &[text.as_bytes()]).at("write", &about)?;
        let parts: Vec<&[u8]> = ipc.into_iter().map(|part| &part[..]).collect();
        write(&rows, &parts).at("write", &rows)?;
        File::open(&self.folder).and_then(|folder| folder.sync_all()).at("make durable", &self.folder)?;
        if is_new {
            let of = if agent.is_empty() { String::new() } else { format!(" of agent {}", one_line(agent)) };
            let line = format!(
                "iotrail: rows of table {table}{of} can't be written to the trail: {why}; they are set aside in {}, and \
                 the rest goes on",
                rows.display()
            );
            self.said.lock().unwrap_or_else(PoisonError::into_inner).say(&line);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_set_aside_again_is_one() {
        let folder = tempfile::tempdir().unwrap();
        let aside = Aside::of(folder.path());
        assert_eq!(aside.entries(), 0);
        for name in ["1-2", "1-2", "1-3"] {
            let entry = Entry { name: name.to_owned(), table: "file_op", agent: "a", why: "it is too large" };
            aside.keep(&entry, [&Bytes::from_static(b"ro"), &Bytes::from_static(b"ws")]).unwrap();
        }
        assert_eq!(aside.entries(), 2);
        let read = |name: &str| fs::read_to_string(aside.folder().join(name)).unwrap();
        assert_eq!(read("1-2.arrows"), "rows");
        assert_eq!(read("1-3.txt"), "table: file_op\nagent: a\nwhy: it is too large\n");
    }
}
