//! The part of the mapping table that is in memory, where it doesn't fit as a whole (DFTL: Gupta et al., ASPLOS 2009).
//!
//! An entry maps one logical page. Entries are loaded and evicted one by one, least recently used first; a page of flash
//! holds those of many consecutive logical pages. When a changed entry is evicted, its page is written with all changed
//! entries of it.

use super::buffer::Pages;
use super::flash::Id;

/// Place of an entry in the table of entries.
type At = u32;
/// No entry.
const NONE: At = At::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    page: u32,
    loaded: bool,
    changed: bool,
    older: At,
    newer: At,
}

/// What happens to an operation that needs an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// It goes on.
    Known,
    /// It waits for a page of the table that is being read.
    Waits,
    /// It waits for this page of the table, which must be read.
    Load(u32),
}

#[derive(Clone, Debug)]
pub(super) struct MappingCache {
    capacity: usize,
    entries_per_page: u32,
    entries: Vec<Entry>,
    unused: Vec<At>,
    by_page: Pages<At>,
    oldest: At,
    newest: At,
    /// By page of the table that is being read, the operations and logical pages that wait for it.
    loading: Pages<Vec<(Id, u32)>>,
    /// By page of the table that is being written, how often: its entries are still in memory.
    storing: Pages<u32>,
    /// By page of the table, logical pages whose entries have changed.
    changed: Pages<Vec<u32>>,
}

impl MappingCache {
    pub fn new(capacity: u32, entries_per_page: u64) -> Self {
        Self {
            capacity: capacity as usize,
            entries_per_page: entries_per_page as u32,
            entries: Vec::new(),
            unused: Vec::new(),
            by_page: Pages::default(),
            oldest: NONE,
            newest: NONE,
            loading: Pages::default(),
            storing: Pages::default(),
            changed: Pages::default(),
        }
    }

    /// Looks up the entry of a logical page for an operation. A page of the table that must be written to make room for it
    /// is appended to `stores`.
    pub fn look_up(&mut self, page: u32, id: Id, stores: &mut Vec<u32>) -> Lookup {
        let table_page = page / self.entries_per_page;
        if let Some(&at) = self.by_page.get(&page) {
            if self.entries[at as usize].loaded {
                self.unlink(at);
                self.link(at);
                return Lookup::Known;
            }
            self.loading.entry(table_page).or_default().push((id, page));
            return Lookup::Waits;
        }
        if self.by_page.len() >= self.capacity {
            self.evict(stores);
        }
        let in_memory = self.storing.contains_key(&table_page);
        self.insert(page, in_memory);
        if in_memory {
            return Lookup::Known;
        }
        let waiting = self.loading.entry(table_page).or_default();
        waiting.push((id, page));
        if waiting.len() == 1 { Lookup::Load(table_page) } else { Lookup::Waits }
    }

    fn insert(&mut self, page: u32, loaded: bool) {
        let entry = Entry { page, loaded, changed: false, older: NONE, newer: NONE };
        let at = match self.unused.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as At
            }
        };
        self.by_page.insert(page, at);
        self.link(at);
    }

    /// Removes the entry used longest ago. Those that are being loaded stay, even if there are too many.
    fn evict(&mut self, stores: &mut Vec<u32>) {
        let mut at = self.oldest;
        while at != NONE && !self.entries[at as usize].loaded {
            at = self.entries[at as usize].newer;
        }
        if at == NONE {
            return;
        }
        let entry = self.entries[at as usize];
        self.unlink(at);
        self.by_page.remove(&entry.page);
        self.unused.push(at);
        if entry.changed {
            let table_page = entry.page / self.entries_per_page;
            for page in self.changed.remove(&table_page).unwrap_or_default() {
                if let Some(&other) = self.by_page.get(&page) {
                    self.entries[other as usize].changed = false;
                }
            }
            *self.storing.entry(table_page).or_default() += 1;
            stores.push(table_page);
        }
    }

    /// The entry of a logical page changes.
    pub fn mark_changed(&mut self, page: u32) {
        if let Some(&at) = self.by_page.get(&page) {
            let entry = &mut self.entries[at as usize];
            if !entry.changed {
                entry.changed = true;
                self.changed.entry(page / self.entries_per_page).or_default().push(page);
            }
        }
    }

    /// A page of the table is read. Returns the operations that waited for it.
    pub fn finish_load(&mut self, table_page: u32) -> impl Iterator<Item = Id> {
        let waiting = self.loading.remove(&table_page).unwrap_or_default();
        for (_, page) in &waiting {
            if let Some(&at) = self.by_page.get(page) {
                self.entries[at as usize].loaded = true;
            }
        }
        waiting.into_iter().map(|(id, _)| id)
    }

    /// A page of the table is written.
    pub fn finish_store(&mut self, table_page: u32) {
        if let Some(count) = self.storing.get_mut(&table_page) {
            *count -= 1;
            if *count == 0 {
                self.storing.remove(&table_page);
            }
        }
    }

    fn unlink(&mut self, at: At) {
        let Entry { older, newer, .. } = self.entries[at as usize];
        match older {
            NONE => self.oldest = newer,
            _ => self.entries[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.entries[newer as usize].older = older,
        }
    }

    /// Makes an entry the newest.
    fn link(&mut self, at: At) {
        let newest = self.newest;
        let entry = &mut self.entries[at as usize];
        (entry.older, entry.newer) = (newest, NONE);
        match newest {
            NONE => self.oldest = at,
            _ => self.entries[newest as usize].newer = at,
        }
        self.newest = at;
    }
}
