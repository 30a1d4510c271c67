//! What is known of MPI's handles: of communicators, windows and files whose they are, of requests what they receive.
//!
//! One table has them all, because no two live ones are equal (Open MPI's are addresses, MPICH's numbers with the kind
//! in their high bits). It needs no lock: an entry is taken by one compare-and-swap, and looked for where its handle hashes
//! to, or in the buckets after that if some had no room there. All memory is mapped when MPI starts, bounded, and touched
//! as it is used; what finds no room is counted as [`UnseenKind::Mpi`].

use core::ptr::{null_mut, with_exposed_provenance};
use core::sync::atomic::{AtomicI32, AtomicI64, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use iotrail_format::segment::UnseenKind;
use iotrail_sdk::{post, sys};

/// Buckets of the table; with [`ENTRIES`] each, 4 MiB.
const BUCKETS: usize = 1 << 15;
/// Entries of a bucket: two cache lines.
const ENTRIES: usize = 5;
/// Buckets looked at for a handle.
const REACH: usize = 16;
/// Communicators, windows and files at once. MPICH has 2,048 communicators at most.
const GROUPS: usize = 1 << 14;
/// Persistent requests at once.
const PERSISTENT: usize = 1 << 14;

/// An entry that is being filled: no handle.
const FILLING: usize = 1;

struct Entry {
    /// 0 free.
    handle: AtomicUsize,
    /// Counter when it was kept.
    since: AtomicU64,
    /// A [`Kept`].
    value: AtomicUsize,
}

#[repr(C, align(128))]
struct Bucket {
    /// Handles that hash to here and are in a later bucket.
    elsewhere: AtomicUsize,
    entries: [Entry; ENTRIES],
}

/// Ranks of a communicator, window or file, and its collective calls.
#[repr(C, align(64))]
pub struct Group {
    /// Entries that name it; 0 free.
    holders: AtomicU32,
    /// Ranks that calls can name: of an intercommunicator those of the other group.
    pub(super) size: AtomicI32,
    /// Its id in the trail; 0 unknown.
    pub(super) id: AtomicI64,
    /// Collective calls so far.
    pub(super) next: AtomicI64,
    /// Collective calls inside others that made something of it, so far.
    pub(super) inside: AtomicI64,
    /// Rank 0 in MPI_COMM_WORLD, and how far each next one is from the one before; unused where `ranks` lists them.
    pub(super) first: AtomicI32,
    pub(super) stride: AtomicI32,
    /// Ranks in MPI_COMM_WORLD, one mapping of `size` integers; null where they are evenly spaced.
    pub(super) ranks: AtomicPtr<i32>,
    /// Rank of this process in MPI_COMM_WORLD.
    pub(super) own: AtomicI32,
    /// 1 an intercommunicator.
    pub(super) inter: AtomicU32,
}

/// A persistent request (MPI 4.0, section 3.9): what each start of it begins.
#[repr(C, align(64))]
pub struct Persistent {
    /// 1 in use; 0 free.
    holders: AtomicU32,
    /// 1 from its start until it is complete.
    pub(super) active: AtomicU32,
    /// Call number; above it the tag.
    pub(super) call: AtomicU64,
    pub(super) object: AtomicI64,
    pub(super) peer: AtomicI64,
    pub(super) length: AtomicI64,
    /// Starts so far, of collective calls.
    pub(super) starts: AtomicI64,
    /// What a message that it received has to be told by: a [`Kept`], 0 none.
    pub(super) receives: AtomicUsize,
}

const _: () = {
    assert!(size_of::<Bucket>() == 128);
    assert!(size_of::<Group>() == 64 && size_of::<Persistent>() == 64);
};

/// What a handle stands for.
#[derive(Clone, Copy)]
pub enum Kept {
    /// A communicator, window or file.
    Group(&'static Group),
    /// A request of which there is nothing to say when it is complete: a send, a collective call.
    Other,
    /// A receive from this rank of MPI_COMM_WORLD.
    From(i64),
    /// A receive from any rank of the communicator, which it holds.
    FromAny(&'static Group),
    /// A persistent request.
    Persistent(&'static Persistent),
}

impl Kept {
    const TAGS: usize = 3;

    /// As one word: a rank or an address, with the kind in the lowest bits, which alignment leaves free.
    pub(super) fn encode(self) -> usize {
        match self {
            Self::Group(group) => core::ptr::from_ref(group).expose_provenance(),
            Self::Other => i32::MIN as u32 as usize * 4 + 1,
            Self::From(rank) => rank as i32 as u32 as usize * 4 + 1,
            Self::FromAny(group) => core::ptr::from_ref(group).expose_provenance() + 2,
            Self::Persistent(request) => core::ptr::from_ref(request).expose_provenance() + 3,
        }
    }

    /// What [`Kept::encode`] made.
    pub(super) fn decode(value: usize) -> Self {
        let address = value & !Self::TAGS;
        // SAFETY: made from references that live forever.
        unsafe {
            match value & Self::TAGS {
                0 => Self::Group(&*with_exposed_provenance(address)),
                1 => match (value / 4) as u32 as i32 {
                    i32::MIN => Self::Other,
                    rank => Self::From(rank.into()),
                },
                2 => Self::FromAny(&*with_exposed_provenance(address)),
                _ => Self::Persistent(&*with_exposed_provenance(address)),
            }
        }
    }

    /// Gives back what it holds.
    pub fn release(self) {
        match self {
            Self::Group(group) | Self::FromAny(group) => group.release(),
            Self::From(_) | Self::Other => {}
            Self::Persistent(request) => {
                let receives = request.receives.load(Relaxed);
                if receives != 0 {
                    Self::decode(receives).release();
                }
                request.holders.store(0, Release);
            }
        }
    }
}

impl Group {
    /// Of nothing known.
    pub(super) const fn new() -> Self {
        Self {
            holders: AtomicU32::new(0),
            size: AtomicI32::new(0),
            id: AtomicI64::new(0),
            next: AtomicI64::new(0),
            inside: AtomicI64::new(0),
            first: AtomicI32::new(0),
            stride: AtomicI32::new(0),
            ranks: AtomicPtr::new(null_mut()),
            own: AtomicI32::new(0),
            inter: AtomicU32::new(0),
        }
    }

    /// One more entry names it.
    pub(super) fn hold(&self) {
        self.holders.fetch_add(1, Relaxed);
    }

    fn release(&self) {
        if self.holders.load(Relaxed) == 1 {
            let ranks = self.ranks.swap(null_mut(), Relaxed);
            if !ranks.is_null() {
                let bytes = self.size.load(Relaxed) as usize * size_of::<i32>();
                // SAFETY: its own mapping, which the last entry named.
                unsafe { sys::munmap(ranks.expose_provenance(), bytes) };
            }
        }
        self.holders.fetch_sub(1, AcqRel);
    }
}

/// Everything, zero at first.
struct Tables {
    buckets: [Bucket; BUCKETS],
    groups: [Group; GROUPS],
    persistent: [Persistent; PERSISTENT],
    group_hint: AtomicUsize,
    persistent_hint: AtomicUsize,
}

static TABLES: AtomicPtr<Tables> = AtomicPtr::new(null_mut());

#[inline(always)]
fn tables() -> Option<&'static Tables> {
    // SAFETY: null or a mapping that stays, of which any bytes are valid.
    unsafe { TABLES.load(Acquire).as_ref() }
}

/// Maps the tables: without, nothing is kept. By the thread that starts MPI.
pub fn prepare() {
    if tables().is_none() {
        let (access, kind) = (sys::PROT_READ | sys::PROT_WRITE, sys::MAP_PRIVATE | sys::MAP_ANONYMOUS);
        // SAFETY: a fresh anonymous mapping.
        let mapped = unsafe { sys::mmap(0, size_of::<Tables>(), access, kind | sys::MAP_NORESERVE, -1, 0) };
        if !sys::failed(mapped) {
            TABLES.store(mapped as *mut Tables, Release);
        }
    }
}

/// Says that something can't be followed.
#[cold]
fn refuse() {
    post::unseen(UnseenKind::Mpi, 0, 1);
}

/// A free cell, taken; the search begins after the one taken before.
fn claim<T>(
    cells: &'static [T],
    hint: &AtomicUsize,
    holders: impl Fn(&T) -> &AtomicU32,
) -> Option<&'static T> {
    let first = hint.load(Relaxed);
    for place in 0..cells.len() {
        let index = (first + place) % cells.len();
        let taken = holders(&cells[index]);
        if taken.load(Relaxed) == 0 && taken.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
            hint.store(index + 1, Relaxed);
            return Some(&cells[index]);
        }
    }
    refuse();
    None
}

/// A new group, which its caller fills and keeps.
pub fn new_group() -> Option<&'static Group> {
    let tables = tables()?;
    claim(&tables.groups, &tables.group_hint, |group| &group.holders)
}

/// A new persistent request, likewise.
pub fn new_persistent() -> Option<&'static Persistent> {
    let tables = tables()?;
    claim(&tables.persistent, &tables.persistent_hint, |request| &request.holders)
}

fn home(handle: usize) -> usize {
    // Fibonacci hashing (Knuth, TAOCP 3, section 6.4).
    (handle as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) as usize >> (usize::BITS - BUCKETS.trailing_zeros())
}

/// Keeps what a handle stands for as of counter `now`. What it stood for before stays: the thread whose call completed that
/// is yet to take it.
pub fn keep(handle: usize, kept: Kept, now: u64) {
    let Some(tables) = tables() else { return kept.release() };
    let home = home(handle);
    let is_other = matches!(kept, Kept::Other);
    for distance in 0..REACH {
        for entry in &tables.buckets[(home + distance) % BUCKETS].entries {
            // Sends that are complete when they are begun share one handle.
            if is_other && entry.handle.load(Relaxed) == handle && entry.value.load(Relaxed) == kept.encode()
            {
                entry.since.store(now, Relaxed);
                return;
            }
            if entry.handle.load(Relaxed) != 0
                || entry.handle.compare_exchange(0, FILLING, Acquire, Relaxed).is_err()
            {
                continue;
            }
            entry.since.store(now, Relaxed);
            entry.value.store(kept.encode(), Relaxed);
            if distance > 0 {
                tables.buckets[home].elsewhere.fetch_add(1, Relaxed);
            }
            entry.handle.store(handle, Release);
            return;
        }
    }
    kept.release();
    refuse();
}

/// An entry, and how far from its home it is.
struct Place {
    entry: &'static Entry,
    home: &'static Bucket,
    is_elsewhere: bool,
}

/// The newest entry of a handle that was kept before counter `before`.
#[inline]
fn find(handle: usize, before: u64) -> Option<Place> {
    let tables = tables()?;
    let place = home(handle);
    let home = &tables.buckets[place];
    let reach = if home.elsewhere.load(Relaxed) == 0 { 1 } else { REACH };
    let mut found: Option<Place> = None;
    for distance in 0..reach {
        for entry in &tables.buckets[(place + distance) % BUCKETS].entries {
            if entry.handle.load(Acquire) == handle
                && entry.since.load(Relaxed) <= before
                && found
                    .as_ref()
                    .is_none_or(|found| found.entry.since.load(Relaxed) <= entry.since.load(Relaxed))
            {
                found = Some(Place { entry, home, is_elsewhere: distance > 0 });
            }
        }
    }
    found
}

/// What a handle stands for that was kept before counter `before`.
///
/// A request is gone, and its handle that of another one, before the call that completed it can look it up: hence `before`, the
/// counter when that call began, and an entry of each request, whatever there is to say of it.
#[inline]
pub fn look_up(handle: usize, before: u64) -> Option<Kept> {
    find(handle, before).map(|place| Kept::decode(place.entry.value.load(Relaxed)))
}

/// As [`look_up`], and the handle stands for it no more; the caller releases it.
#[inline]
pub fn take(handle: usize, before: u64) -> Option<Kept> {
    loop {
        let place = find(handle, before)?;
        let kept = Kept::decode(place.entry.value.load(Relaxed));
        if place.entry.handle.compare_exchange(handle, 0, AcqRel, Relaxed).is_ok() {
            if place.is_elsewhere {
                place.home.elsewhere.fetch_sub(1, Relaxed);
            }
            return Some(kept);
        }
    }
}
