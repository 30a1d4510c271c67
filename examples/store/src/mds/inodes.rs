//! Inodes: in the journal, the ones in use in a cache. Names, which are small, are all in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::num::NonZeroUsize;
use std::path::Path;

use iotrail_sdk::request::{Buffer, Crumb, Disk, Name, buffer};
use lru::LruCache;
use serde::{Deserialize, Serialize};

use super::MDS;
use super::names::Names;
use crate::block::file_id;
use crate::calls::{FileName, Inode};
use crate::journal::{Journal, Place};
use crate::rpc::Errno;

static INODES: Name = Name::new("inodes");
static JOURNAL: Name = Name::new("journal");
static FLUSH: Name = Name::new("flush");

/// Bytes of memory that an inode in the cache is taken for.
const INODE: u64 = 512;

/// A change of the metadata.
#[derive(Clone, Serialize, Deserialize)]
pub enum Change {
    Inode(Inode),
    Gone(u64),
    Named {
        parent: u64,
        name: FileName,
        ino: u64,
    },
    Unnamed {
        parent: u64,
        name: FileName,
    },
    /// A write to it was approved.
    Begun(u64),
    /// All its writes are finished.
    Finished(u64),
}

/// The metadata. What changes together is one entry of the journal.
pub struct Inodes {
    journal: Journal<Vec<Change>>,
    /// Where each inode's newest state stands.
    places: BTreeMap<u64, Place>,
    cache: LruCache<u64, Inode>,
    pub names: Names,
    /// Inodes to which a write was approved and not finished.
    pub unfinished: BTreeSet<u64>,
    /// Inodes that somebody has open, without a name.
    pub nameless: BTreeSet<u64>,
    last: u64,
}

impl Inodes {
    /// Replays the journal and replaces it by a short one.
    pub fn open(path: &Path, cache: u64) -> io::Result<Self> {
        let mut inodes = BTreeMap::new();
        let (mut names, mut unfinished, mut last) = (Names::default(), BTreeSet::new(), 0);
        drop(Journal::open(path, |_, changes: Vec<Change>| {
            for change in changes {
                match change {
                    Change::Inode(inode) => {
                        last = last.max(inode.ino);
                        inodes.insert(inode.ino, inode);
                    }
                    Change::Gone(ino) => {
                        last = last.max(ino);
                        inodes.remove(&ino);
                    }
                    Change::Named { parent, name, ino } => names.put(parent, name, ino),
                    Change::Unnamed { parent, name } => names.take(parent, &name),
                    Change::Begun(ino) => drop(unfinished.insert(ino)),
                    Change::Finished(ino) => drop(unfinished.remove(&ino)),
                }
            }
        })?);
        unfinished.retain(|ino| inodes.contains_key(ino));
        let numbers: Vec<u64> = inodes.keys().copied().collect();
        let nameless = inodes.values().filter(|inode| inode.nlink == 0).map(|inode| inode.ino).collect();
        let named = names.all().map(|(parent, name, ino)| Change::Named { parent, name: name.clone(), ino });
        let begun = unfinished.iter().map(|ino| Change::Begun(*ino));
        // So that numbers of removed inodes, whose blocks a node may still have, aren't used again.
        let highest = [Change::Gone(last)];
        let whole = inodes.into_values().map(Change::Inode).chain(named).chain(begun).chain(highest);
        let (journal, places) = Journal::rewrite(path, whole.map(|change| vec![change]))?;
        let capacity = NonZeroUsize::new((cache / INODE) as usize).unwrap_or(NonZeroUsize::MIN);
        Ok(Self {
            journal,
            places: numbers.into_iter().zip(places).collect(),
            cache: LruCache::new(capacity),
            names,
            unfinished,
            nameless,
            last,
        })
    }

    /// Whether this is a new store.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The number of a new inode.
    pub fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// An inode, from the cache or the journal.
    pub fn get(&mut self, ino: u64, crumb: Crumb) -> Result<Inode, Errno> {
        let place = *self.places.get(&ino).ok_or(Errno::ENOENT)?;
        if let Some(inode) = self.cache.get(&ino) {
            buffer(&MDS, &INODES, Buffer::ReadHit, crumb, file_id(ino), 0, INODE);
            return Ok(inode.clone());
        }
        buffer(&MDS, &INODES, Buffer::ReadMiss, crumb, file_id(ino), 0, INODE);
        let changes = self.journal.read(place).map_err(failed)?;
        let inode = changes.into_iter().rev().find_map(|change| match change {
            Change::Inode(inode) if inode.ino == ino => Some(inode),
            _ => None,
        });
        let inode = inode.ok_or(Errno::EIO)?;
        self.keep(inode.clone(), crumb);
        Ok(inode)
    }

    /// Makes changes that belong together.
    pub fn change(&mut self, changes: Vec<Change>, crumb: Crumb) -> Result<(), Errno> {
        let place = self.journal.append(&changes).map_err(failed)?;
        for change in changes {
            match change {
                Change::Inode(inode) => {
                    buffer(&MDS, &INODES, Buffer::Write, crumb, file_id(inode.ino), 0, INODE);
                    self.last = self.last.max(inode.ino);
                    self.places.insert(inode.ino, place);
                    if inode.nlink == 0 {
                        self.nameless.insert(inode.ino);
                    }
                    self.keep(inode, crumb);
                }
                Change::Gone(ino) => {
                    self.places.remove(&ino);
                    self.cache.pop(&ino);
                    self.nameless.remove(&ino);
                    self.unfinished.remove(&ino);
                }
                Change::Named { parent, name, ino } => self.names.put(parent, name, ino),
                Change::Unnamed { parent, name } => self.names.take(parent, &name),
                Change::Begun(ino) => drop(self.unfinished.insert(ino)),
                Change::Finished(ino) => drop(self.unfinished.remove(&ino)),
            }
        }
        Ok(())
    }

    /// Makes all changes durable.
    pub fn sync(&self, crumb: Crumb) -> Result<(), Errno> {
        let mut disk = Disk::queued(&JOURNAL, &FLUSH, crumb, 0, 0);
        disk.issued();
        self.journal.sync().map_err(failed)
    }

    fn keep(&mut self, inode: Inode, crumb: Crumb) {
        let ino = inode.ino;
        if let Some((gone, _)) = self.cache.push(ino, inode)
            && gone != ino
        {
            buffer(&MDS, &INODES, Buffer::Evict, crumb, file_id(gone), 0, INODE);
        }
    }
}

fn failed(error: io::Error) -> Errno {
    eprintln!("store: the journal of the metadata service: {error}");
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
