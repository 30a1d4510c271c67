//! What is in the file system, what of it is durable, and which call fails next.
//!
//! A file's contents are durable once it was synced, a directory's entries once the directory was: to sync a file says
//! nothing of its name. As on Linux, what a sync failed to write is not written by the next one, which succeeds.
//!
//! A power cut with an odd seed keeps the first changes of directories (as a journal does), one with an even seed any of
//! them; both keep any writes of files, so that an entry may survive while its contents don't. Modes, owners and times
//! are always kept.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::time::SystemTime;

use libc::{EEXIST, EINVAL, EIO, EISDIR, ENOENT, ENOSPC, ENOTDIR, ENOTEMPTY};

/// Of the root directory, as FUSE has it.
pub const ROOT: u64 = 1;

/// What a file or a directory is.
#[derive(Clone, Debug)]
pub enum Body {
    /// A file: what is read of it, what is durable, and what was done to it since.
    File { data: Vec<u8>, durable: Vec<u8>, dirty: Vec<Edit> },
    /// A directory: its entries, and those that are durable.
    Directory { entries: Entries, durable: Entries },
    /// A symbolic link; durable when its entry is.
    Symlink(OsString),
}

type Entries = BTreeMap<OsString, u64>;

/// A change of a file's contents.
#[derive(Clone, Debug)]
pub enum Edit {
    /// Bytes from a position on.
    Write(usize, Vec<u8>),
    /// Another size.
    Resize(usize),
}

impl Edit {
    fn apply(&self, data: &mut Vec<u8>) {
        match self {
            Self::Write(pos, bytes) => {
                data.resize(data.len().max(pos + bytes.len()), 0);
                data[*pos..pos + bytes.len()].copy_from_slice(bytes);
            }
            Self::Resize(length) => data.resize(*length, 0),
        }
    }
}

/// A change of entries that is made as a whole: directory, name, and what the name stands for then.
type Change = Vec<(u64, OsString, Option<u64>)>;

/// A file or directory.
#[derive(Clone, Debug)]
pub struct Inode {
    pub body: Body,
    pub mode: u16,
    pub owner: (u32, u32),
    pub modified: SystemTime,
    /// The name it was made by, for messages.
    name: OsString,
}

/// What becomes of the calls after one that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Once,
    On,
    Dead,
}

#[derive(Debug)]
struct Fault {
    kinds: Vec<String>,
    at: u64,
    error: i32,
    how: How,
    seen: u64,
}

/// The file system.
pub struct State {
    inodes: BTreeMap<u64, Inode>,
    next: u64,
    /// Changes of entries that are not durable, in order.
    dirty: Vec<Change>,
    counts: BTreeMap<&'static str, u64>,
    fault: Option<Fault>,
    failed: Option<String>,
    /// Everything fails until the next power cut, and nothing changes.
    dead: bool,
}

/// An error number.
pub type Errno = i32;

impl State {
    /// Empty.
    pub fn new() -> Self {
        let mut state = Self {
            inodes: BTreeMap::new(),
            next: ROOT,
            dirty: Vec::new(),
            counts: BTreeMap::new(),
            fault: None,
            failed: None,
            dead: false,
        };
        state.add(directory(), 0o777, (0, 0), OsStr::new("/"));
        state
    }

    /// Does what a line asks for; none if it can't be understood.
    pub fn obey(&mut self, line: &str) -> Option<String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match *words {
            ["fail", kinds, at, error, how] => {
                let error = match error {
                    "EIO" => EIO,
                    "ENOSPC" => ENOSPC,
                    _ => return None,
                };
                let how = match how {
                    "once" => How::Once,
                    "on" => How::On,
                    "dead" => How::Dead,
                    _ => return None,
                };
                let kinds = kinds.split(',').map(str::to_owned).collect();
                self.clear();
                self.fault = Some(Fault { kinds, at: at.parse().ok()?, error, how, seen: 0 });
            }
            ["clear"] => self.clear(),
            ["count"] => {
                let counts = self.counts.iter().map(|(kind, calls)| format!("{kind}={calls}"));
                return Some(counts.collect::<Vec<_>>().join(" "));
            }
            ["failed"] => return Some(self.failed.clone().unwrap_or_else(|| "none".to_owned())),
            ["sync"] => {
                self.dirty.clear();
                for inode in self.inodes.values_mut() {
                    match &mut inode.body {
                        Body::File { data, durable, dirty } => {
                            durable.clone_from(data);
                            dirty.clear();
                        }
                        Body::Directory { entries, durable } => durable.clone_from(entries),
                        Body::Symlink(_) => {}
                    }
                }
            }
            ["cut", seed] => {
                self.cut(seed.parse().ok()?);
                self.clear();
            }
            _ => return None,
        }
        Some("ok".to_owned())
    }

    fn clear(&mut self) {
        self.counts.clear();
        (self.fault, self.failed, self.dead) = (None, None, false);
    }

    /// Whether a call fails. `ino` is what it is about, `name` an entry of that.
    pub fn call(&mut self, kind: &'static str, ino: u64, name: &OsStr) -> Result<(), Errno> {
        self.alive()?;
        *self.counts.entry(kind).or_default() += 1;
        let Some(fault) = self.fault.as_mut().filter(|fault| fault.kinds.iter().any(|of| of == kind)) else {
            return Ok(());
        };
        fault.seen += 1;
        if fault.seen < fault.at || (fault.how == How::Once && fault.seen > fault.at) {
            return Ok(());
        }
        self.dead = fault.how == How::Dead;
        let error = fault.error;
        let of = self.inodes.get(&ino).map_or_else(OsString::new, |inode| inode.name.clone());
        self.failed.get_or_insert_with(|| format!("{kind} {} {}", of.display(), name.display()));
        Err(error)
    }

    /// Whether anything works at all.
    pub fn alive(&self) -> Result<(), Errno> {
        if self.dead { Err(EIO) } else { Ok(()) }
    }

    /// A file or directory.
    pub fn inode(&mut self, ino: u64) -> Result<&mut Inode, Errno> {
        self.inodes.get_mut(&ino).ok_or(ENOENT)
    }

    /// Makes a file or directory without a name.
    pub fn add(&mut self, body: Body, mode: u16, owner: (u32, u32), name: &OsStr) -> u64 {
        let ino = self.next;
        self.next += 1;
        let inode = Inode { body, mode, owner, modified: SystemTime::now(), name: name.to_owned() };
        self.inodes.insert(ino, inode);
        ino
    }

    /// The entries of a directory.
    pub fn entries(&mut self, ino: u64) -> Result<&mut Entries, Errno> {
        match &mut self.inode(ino)?.body {
            Body::Directory { entries, .. } => Ok(entries),
            _ => Err(ENOTDIR),
        }
    }

    /// What a name stands for.
    pub fn lookup(&mut self, parent: u64, name: &OsStr) -> Result<u64, Errno> {
        self.entries(parent)?.get(name).copied().ok_or(ENOENT)
    }

    /// Refuses a name that is taken.
    pub fn refuse_taken(&mut self, parent: u64, name: &OsStr) -> Result<(), Errno> {
        if self.entries(parent)?.contains_key(name) { Err(EEXIST) } else { Ok(()) }
    }

    /// Changes entries, not durably yet.
    pub fn change(&mut self, change: Change) -> Result<(), Errno> {
        for (parent, name, ino) in &change {
            let entries = self.entries(*parent)?;
            match ino {
                Some(ino) => drop(entries.insert(name.clone(), *ino)),
                None => drop(entries.remove(name)),
            }
            self.inode(*parent)?.modified = SystemTime::now();
        }
        self.dirty.push(change);
        Ok(())
    }

    /// Takes a name away.
    pub fn remove(&mut self, parent: u64, name: &OsStr, is_directory: bool) -> Result<(), Errno> {
        let ino = self.lookup(parent, name)?;
        match (&self.inode(ino)?.body, is_directory) {
            (Body::Directory { entries, .. }, true) if !entries.is_empty() => return Err(ENOTEMPTY),
            (Body::Directory { .. }, false) => return Err(EISDIR),
            (Body::File { .. } | Body::Symlink(_), true) => return Err(ENOTDIR),
            _ => {}
        }
        self.change(vec![(parent, name.to_owned(), None)])
    }

    /// Changes a file's contents, not durably yet.
    pub fn edit(&mut self, ino: u64, edit: Edit) -> Result<(), Errno> {
        let inode = self.inode(ino)?;
        inode.modified = SystemTime::now();
        match &mut inode.body {
            Body::File { data, dirty, .. } => {
                edit.apply(data);
                dirty.push(edit);
                Ok(())
            }
            _ => Err(EINVAL),
        }
    }

    /// Syncs a file or a directory.
    pub fn sync(&mut self, ino: u64) -> Result<(), Errno> {
        let synced = self.call("fsync", ino, OsStr::new(""));
        self.alive()?;
        match &mut self.inode(ino)?.body {
            Body::File { durable, dirty, .. } => {
                // What could not be written isn't dirty any more.
                dirty.drain(..).filter(|_| synced.is_ok()).for_each(|edit| edit.apply(durable));
            }
            Body::Directory { .. } if synced.is_ok() => {
                let of_it = |change: &Change| change.iter().any(|(parent, ..)| *parent == ino);
                let (changes, others): (Vec<_>, Vec<_>) =
                    std::mem::take(&mut self.dirty).into_iter().partition(of_it);
                self.dirty = others;
                changes.into_iter().for_each(|change| self.settle(change));
            }
            _ => {}
        }
        synced
    }

    /// Makes a change durable.
    fn settle(&mut self, change: Change) {
        for (parent, name, ino) in change {
            if let Some(Inode { body: Body::Directory { durable, .. }, .. }) = self.inodes.get_mut(&parent) {
                match ino {
                    Some(ino) => drop(durable.insert(name, ino)),
                    None => drop(durable.remove(&name)),
                }
            }
        }
    }

    /// Cuts the power, and serves what is left.
    fn cut(&mut self, seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let changes = std::mem::take(&mut self.dirty);
        let first = random.usize(..=changes.len());
        for (number, change) in changes.into_iter().enumerate() {
            let survives = match seed {
                0 => false,
                odd if odd % 2 == 1 => number < first,
                _ => random.bool(),
            };
            if survives {
                self.settle(change);
            }
        }
        for inode in self.inodes.values_mut() {
            match &mut inode.body {
                Body::File { data, durable, dirty } => {
                    dirty
                        .drain(..)
                        .filter(|_| seed != 0 && random.bool())
                        .for_each(|edit| edit.apply(durable));
                    data.clone_from(durable);
                }
                Body::Directory { entries, durable } => entries.clone_from(durable),
                Body::Symlink(_) => {}
            }
        }
    }
}

/// An empty directory.
pub fn directory() -> Body {
    Body::Directory { entries: BTreeMap::new(), durable: BTreeMap::new() }
}

/// An empty file.
pub fn file() -> Body {
    Body::File { data: Vec::new(), durable: Vec::new(), dirty: Vec::new() }
}
