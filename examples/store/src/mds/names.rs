//! Directories: names in memory, listed in the order in which they came, so that a reader that goes on after
//! a cookie misses none that stays.

use std::collections::{BTreeMap, HashMap};

use crate::calls::{Entry, FileName, Kind};

/// Most entries of one reply.
const PAGE: usize = 256;

#[derive(Default)]
struct Directory {
    by_name: HashMap<FileName, (u64, u64)>,
    by_cookie: BTreeMap<u64, FileName>,
}

/// All names.
#[derive(Default)]
pub struct Names {
    directories: HashMap<u64, Directory>,
    last_cookie: u64,
}

impl Names {
    /// What a name stands for.
    pub fn get(&self, parent: u64, name: &FileName) -> Option<u64> {
        self.directories.get(&parent)?.by_name.get(name).map(|(ino, _)| *ino)
    }

    /// Gives a name, or gives it anew.
    pub fn put(&mut self, parent: u64, name: FileName, ino: u64) {
        self.last_cookie += 1;
        let directory = self.directories.entry(parent).or_default();
        if let Some((_, cookie)) = directory.by_name.insert(name.clone(), (ino, self.last_cookie)) {
            directory.by_cookie.remove(&cookie);
        }
        directory.by_cookie.insert(self.last_cookie, name);
    }

    /// Takes a name away.
    pub fn take(&mut self, parent: u64, name: &FileName) {
        let Some(directory) = self.directories.get_mut(&parent) else { return };
        if let Some((_, cookie)) = directory.by_name.remove(name) {
            directory.by_cookie.remove(&cookie);
        }
        if directory.by_name.is_empty() {
            self.directories.remove(&parent);
        }
    }

    /// Names after a cookie; 0 is before all. Their kinds are not known here.
    pub fn list(&self, parent: u64, after: u64) -> Vec<Entry> {
        let Some(directory) = self.directories.get(&parent) else { return Vec::new() };
        let entry = |(cookie, name): (&u64, &FileName)| Entry {
            cookie: *cookie,
            name: name.clone(),
            ino: directory.by_name[name].0,
            kind: Kind::Directory,
        };
        directory.by_cookie.range(after + 1..).take(PAGE).map(entry).collect()
    }

    /// All of them: directory, name, inode.
    pub fn all(&self) -> impl Iterator<Item = (u64, &FileName, u64)> {
        self.directories.iter().flat_map(|(parent, directory)| {
            let names = directory.by_cookie.values();
            names.map(|name| (*parent, name, directory.by_name[name].0))
        })
    }
}
