//! An append-only file of entries, replayed at the start.
//!
//! ```text
//! u32 length │ u32 CRC-32 of the payload │ payload (postcard)
//! ```
//!
//! An entry is there if it is whole: a torn one at the end is cut off. What was appended outlives the
//! process; [`Journal::sync`] makes it outlive the machine.

use std::fs::{File, OpenOptions};
use std::io::{self, Error, ErrorKind};
use std::marker::PhantomData;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

const HEADER: usize = 8;

/// Where an entry stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Byte offset of its header.
    pub pos: u64,
    /// Bytes with its header.
    pub length: u64,
}

/// A journal of entries `T`.
pub struct Journal<T> {
    file: File,
    end: u64,
    entries: PhantomData<fn(T) -> T>,
}

impl<T: Serialize + DeserializeOwned> Journal<T> {
    /// Opens the journal, or makes it, and hands each entry over.
    pub fn open(path: &Path, mut each: impl FnMut(Place, T)) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        let mut journal = Self { file, end: 0, entries: PhantomData };
        let size = journal.file.metadata()?.len();
        while let Some((place, entry)) = journal.at(journal.end, size)? {
            each(place, entry);
            journal.end += place.length;
        }
        if journal.end < size {
            let lost = size - journal.end;
            eprintln!("store: {}: cut off {lost} bytes of an entry that isn't whole", path.display());
            journal.file.set_len(journal.end)?;
        }
        Ok(journal)
    }

    /// Replaces the journal by one of these entries, as a whole, and returns where each stands.
    pub fn rewrite(path: &Path, entries: impl Iterator<Item = T>) -> io::Result<(Self, Vec<Place>)> {
        let new = path.with_extension("new");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&new)?;
        let mut journal = Self { file, end: 0, entries: PhantomData };
        let places = entries.map(|entry| journal.append(&entry)).collect::<io::Result<_>>()?;
        journal.sync()?;
        std::fs::rename(&new, path)?;
        Ok((journal, places))
    }

    /// Adds an entry; if that fails, the journal is as it was.
    pub fn append(&mut self, entry: &T) -> io::Result<Place> {
        let mut bytes = vec![0; HEADER];
        bytes = postcard::to_extend(entry, bytes).map_err(Error::other)?;
        let (length, crc) = ((bytes.len() - HEADER) as u32, crc32fast::hash(&bytes[HEADER..]));
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes[4..HEADER].copy_from_slice(&crc.to_le_bytes());
        self.file.write_all_at(&bytes, self.end)?;
        let place = Place { pos: self.end, length: bytes.len() as u64 };
        self.end += place.length;
        Ok(place)
    }

    /// Reads an entry again.
    pub fn read(&self, place: Place) -> io::Result<T> {
        let found = self.at(place.pos, self.end)?;
        found.map(|(_, entry)| entry).ok_or_else(|| {
            let what = format!("the entry at {} of the journal is not what was written", place.pos);
            Error::new(ErrorKind::InvalidData, what)
        })
    }

    /// Makes all that was appended durable.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn at(&self, pos: u64, size: u64) -> io::Result<Option<(Place, T)>> {
        if pos + HEADER as u64 > size {
            return Ok(None);
        }
        let mut header = [0; HEADER];
        self.file.read_exact_at(&mut header, pos)?;
        let word =
            |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let length = HEADER as u64 + u64::from(word(0));
        if pos + length > size {
            return Ok(None);
        }
        let mut payload = vec![0; word(0) as usize];
        self.file.read_exact_at(&mut payload, pos + HEADER as u64)?;
        if crc32fast::hash(&payload) != word(4) {
            return Ok(None);
        }
        Ok(postcard::from_bytes(&payload).ok().map(|entry| (Place { pos, length }, entry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_entry_is_cut_off_and_whole_ones_stay() {
        let path = std::env::temp_dir().join(format!("store-journal-{}", std::process::id()));
        let (mut journal, _) = Journal::rewrite(&path, std::iter::empty()).unwrap();
        let places: Vec<Place> = (0..7u64).map(|n| journal.append(&vec![n; 3]).unwrap()).collect();
        assert_eq!(journal.read(places[4]).unwrap(), vec![4; 3]);
        drop(journal);
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(places[6].pos + places[6].length - 1).unwrap();
        let replay = || {
            let mut found = Vec::new();
            let journal = Journal::open(&path, |place, entry: Vec<u64>| found.push((place, entry))).unwrap();
            (journal, found)
        };
        let (mut journal, found) = replay();
        assert_eq!(found, (0..6).map(|n| (places[n as usize], vec![n; 3])).collect::<Vec<_>>());
        journal.append(&vec![9]).unwrap();
        let (_, found) = replay();
        assert_eq!(found.last().map(|(_, entry)| entry.clone()), Some(vec![9]));
        std::fs::remove_file(&path).unwrap();
    }
}
