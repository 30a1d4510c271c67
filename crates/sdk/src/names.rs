//! Symbols and declared types: what records name by a number.
//!
//! They are few, made once and used by many records, so they are announced once an image, in a ring of
//! their own that the sealer drains before the others. A forked child is a new image and announces
//! them again; so the process keeps them, in memory that is only ever added to: whenever a fork comes,
//! the child's copy is whole. Making one may wait for another thread that makes one, and takes memory
//! from the kernel; posting does neither.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*};

use iotrail_format::ids::hash63;
use iotrail_format::record::{Declaration, FIRST_DECLARED, MAX_TYPES};
use iotrail_format::segment::TextKind;

use crate::attach::{self, image};
use crate::thread::Thread;
use crate::{post, sys};

/// Most symbols of one process; what comes later is symbol 0, which is null in the trail.
const MAX_SYMBOLS: usize = 1 << 20;
/// Places of the index: twice as many, so that a search ends soon.
const PLACES: usize = MAX_SYMBOLS * 2;
/// Bytes for texts.
const TEXTS: usize = 64 << 20;
/// Longest symbol, in bytes; longer ones are cut.
const LONGEST: usize = 1024;
/// Tries to get the lock; a signal handler that interrupted its holder would wait for ever.
const PATIENCE: u32 = 1_000_000;

/// A text that is kept: which kind, its key, where it stands.
#[repr(C)]
struct Kept {
    kind: AtomicU32,
    key: AtomicU32,
    offset: AtomicU32,
    length: AtomicU32,
}

/// What the process keeps, in one mapping of address space that is used from the front.
#[repr(C)]
struct Names {
    /// Entries of `kept` that are whole.
    count: AtomicUsize,
    /// Bytes of `texts` used.
    used: AtomicUsize,
    /// Symbols made so far; the last one's number.
    symbols: AtomicU32,
    /// Types declared so far.
    types: AtomicU32,
    kept: [Kept; MAX_SYMBOLS],
    /// 1 + position in `kept`, by hash of the symbol's text; 0 free.
    index: [AtomicU32; PLACES],
    texts: [core::cell::UnsafeCell<u8>; TEXTS],
}

static KEPT: AtomicPtr<Names> = AtomicPtr::new(core::ptr::null_mut());
/// Posts into the announcements' ring; only under [`attach::Image::naming`].
static mut ANNOUNCER: Thread = Thread::announcer();

/// Why a type can't be declared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its description says something that may not be said.
    Description(&'static str),
    /// The process declared one of this name before, with another description.
    Differs,
    /// There are [`MAX_TYPES`] already.
    TooMany,
    /// There was no memory, or another thread holds the lock.
    NoRoom,
}

struct Guard;

impl Guard {
    fn lock() -> Option<Self> {
        for _ in 0..PATIENCE {
            if image().naming.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
                return Some(Self);
            }
            core::hint::spin_loop();
        }
        None
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        image().naming.store(0, Release);
    }
}

fn kept() -> Option<&'static Names> {
    // SAFETY: null or a mapping that stays, of a type that any bytes are valid for.
    unsafe { KEPT.load(Acquire).as_ref() }
}

/// As [`kept`], made if it isn't there. Under the lock.
fn make_kept() -> Option<&'static Names> {
    if kept().is_none() {
        let flags = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
        // SAFETY: a fresh anonymous mapping; only pages that are used take memory.
        let mapped =
            unsafe { sys::mmap(0, size_of::<Names>(), sys::PROT_READ | sys::PROT_WRITE, flags, -1, 0) };
        if sys::failed(mapped) {
            return None;
        }
        KEPT.store(mapped as *mut Names, Release);
    }
    kept()
}

impl Names {
    fn text(&self, entry: &Kept) -> &[u8] {
        let (offset, length) = (entry.offset.load(Relaxed) as usize, entry.length.load(Relaxed) as usize);
        // SAFETY: an entry's text was written before its entry and is never changed.
        unsafe { core::slice::from_raw_parts(self.texts.as_ptr().add(offset).cast(), length) }
    }

    /// Adds a text. Under the lock. Returns its position.
    fn add(&self, kind: TextKind, key: u32, text: &[u8]) -> Option<usize> {
        let (at, offset) = (self.count.load(Relaxed), self.used.load(Relaxed));
        if at == MAX_SYMBOLS || offset + text.len() > TEXTS {
            return None;
        }
        // SAFETY: room that no entry names yet, and whoever holds the lock is the only writer.
        unsafe {
            core::ptr::copy_nonoverlapping(
                text.as_ptr(),
                self.texts.as_ptr().add(offset).cast_mut().cast(),
                text.len(),
            );
        }
        let entry = &self.kept[at];
        entry.kind.store(kind as u32, Relaxed);
        entry.key.store(key, Relaxed);
        entry.offset.store(offset as u32, Relaxed);
        entry.length.store(text.len() as u32, Relaxed);
        self.used.store(offset + text.len(), Relaxed);
        self.count.store(at + 1, Release);
        announce(kind, key, text);
        Some(at)
    }

    /// The place in the index of a symbol: where it stands, or where it would.
    fn place(&self, text: &[u8]) -> (usize, Option<u32>) {
        let mut place = hash63(text) as usize % PLACES;
        loop {
            match self.index[place].load(Acquire) {
                0 => return (place, None),
                entry => {
                    let entry = &self.kept[entry as usize - 1];
                    if self.text(entry) == text {
                        return (place, Some(entry.key.load(Relaxed)));
                    }
                }
            }
            place = (place + 1) % PLACES;
        }
    }
}

/// The number of a text, the same each time; 0 if there is no room for another one. Costs a hash and a
/// comparison where it is known.
#[must_use]
pub fn symbol(text: &[u8]) -> u32 {
    let text = &text[..text.len().min(LONGEST)];
    if let Some(kept) = kept()
        && let (_, Some(known)) = kept.place(text)
    {
        return known;
    }
    let Some(_guard) = Guard::lock() else { return 0 };
    let Some(kept) = make_kept() else { return 0 };
    // Another thread may have been faster.
    let (place, known) = kept.place(text);
    if let Some(known) = known {
        return known;
    }
    let number = kept.symbols.load(Relaxed) + 1;
    let Some(at) = kept.add(TextKind::Symbol, number, text) else { return 0 };
    kept.symbols.store(number, Relaxed);
    kept.index[place].store(at as u32 + 1, Release);
    number
}

/// Declares a record type by its description (see [`Declaration`]) and returns its number.
/// Declared again alike it is the same type.
///
/// # Errors
/// [`Refused`].
pub fn declare(description: &str) -> Result<u16, Refused> {
    let declared = Declaration::parse(description).map_err(|bad| Refused::Description(bad.0))?;
    let _guard = Guard::lock().ok_or(Refused::NoRoom)?;
    let kept = make_kept().ok_or(Refused::NoRoom)?;
    for entry in &kept.kept[..kept.count.load(Relaxed)] {
        if entry.kind.load(Relaxed) != TextKind::Type as u32 {
            continue;
        }
        let known = kept.text(entry);
        if known == description.as_bytes() {
            return Ok(entry.key.load(Relaxed) as u16);
        }
        if known.split(|byte| *byte == b'\t').next() == Some(declared.name.as_bytes()) {
            return Err(Refused::Differs);
        }
    }
    let number = FIRST_DECLARED as u32 + kept.types.load(Relaxed);
    if number as usize >= MAX_TYPES {
        return Err(Refused::TooMany);
    }
    kept.add(TextKind::Type, number, description.as_bytes()).ok_or(Refused::NoRoom)?;
    kept.types.fetch_add(1, Relaxed);
    name_type(number, declared.name);
    Ok(number as u16)
}

/// Says what the process is in its system: `head`, `storage-1`.
pub fn role(name: &[u8]) {
    let Some(_guard) = Guard::lock() else { return };
    if let Some(kept) = make_kept() {
        kept.add(TextKind::Role, 0, &name[..name.len().min(LONGEST)]);
    }
}

/// Announces all that is kept: the image is new. What is being added is announced by whoever adds it.
pub(crate) fn announce_all() {
    let Some(kept) = kept() else { return };
    // Whoever holds it is another thread of this image, which announces into the same ring.
    let Some(_guard) = Guard::lock() else { return };
    for entry in &kept.kept[..kept.count.load(Acquire)] {
        let Some(kind) = TextKind::from_number(entry.kind.load(Relaxed) as u8) else { continue };
        let (key, text) = (entry.key.load(Relaxed), kept.text(entry));
        announce(kind, key, text);
        if kind == TextKind::Type
            && let Ok(text) = core::str::from_utf8(text)
            && let Some((name, _)) = text.split_once('\t')
        {
            name_type(key, name);
        }
    }
}

/// Posts a text into the announcements' ring, if the image is attached. Under the lock.
fn announce(kind: TextKind, key: u32, text: &[u8]) {
    // SAFETY: the lock makes the caller its only user.
    let announcer: &mut Thread = unsafe {
        let pointer = &raw mut ANNOUNCER;
        &mut *pointer
    };
    if attach::enter_announcer(announcer) {
        post::text_on(announcer, kind, i64::from(key), text);
    }
}

/// Enters a type's name where it can be switched from outside. Under the lock.
fn name_type(number: u32, name: &str) {
    let (Some(types), Some(header)) = (attach::types(), attach::header()) else { return };
    let entry = &types[number as usize];
    for (at, byte) in name.bytes().take(entry.name.len()).enumerate() {
        entry.name[at].store(byte, Relaxed);
    }
    entry.length.store(name.len().min(entry.name.len()) as u8, Relaxed);
    header.declared.store(number + 1 - FIRST_DECLARED as u32, Release);
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Description(why) => write!(f, "the description of a record type can't be used: {why}"),
            Self::Differs => {
                f.write_str("this process declared a record type of this name with other columns")
            }
            Self::TooMany => {
                write!(f, "a process has at most {} record types of its own", MAX_TYPES - FIRST_DECLARED)
            }
            Self::NoRoom => f.write_str("no memory for a record type's description"),
        }
    }
}

impl core::error::Error for Refused {}
