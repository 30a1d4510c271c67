//! Absolute paths, their ids, and which of them the trail already knows.
//!
//! A path is made absolute as the program wrote it: `.`, `..` and doubled slashes go, symbolic links
//! stay. Its text is posted once per process (and again where the bounded table of known paths is full).

use core::ffi::{c_char, c_int};
use core::mem::MaybeUninit;
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicI64, AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};

use iotrail_format::ids::FileId;
use iotrail_format::segment::TextKind;
use iotrail_sdk::{post, sys};

/// Linux's PATH_MAX: what one call can name. Directories that are walked down by relative names may lie deeper; of
/// such a path the beginning is kept, and a number that stands for the rest.
const MAX: usize = 4096;
/// Bytes of that number: `/…` and 16 digits.
const REST: usize = 4 + 16;
/// What stands for a working directory that has no path (removed, or outside the root).
const NOWHERE: &[u8] = b"(unknown)";
/// Below is never mapped (vm.mmap_min_addr), from the second on is the kernel's.
const FIRST_PAGE: usize = 4096;
const USER_END: usize = 1 << 47;

/// A path being put together, on the stack.
struct Builder {
    bytes: MaybeUninit<[u8; MAX]>,
    length: usize,
    /// Hash of the components that found no room; 0 none.
    rest: u64,
}

impl Builder {
    #[inline]
    fn new() -> Self {
        Self { bytes: MaybeUninit::uninit(), length: 0, rest: 0 }
    }

    fn pointer(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr().cast()
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the first `length` bytes were written.
        unsafe { core::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.length) }
    }

    #[inline]
    fn push(&mut self, part: &[u8]) {
        let room = MAX - self.length;
        let part = &part[..part.len().min(room)];
        // SAFETY: `part` fits behind the first `length` bytes.
        unsafe { core::ptr::copy_nonoverlapping(part.as_ptr(), self.pointer().add(self.length), part.len()) };
        self.length += part.len();
    }

    /// Appends a relative or absolute path, component by component.
    #[inline]
    fn join(&mut self, path: &[u8]) {
        for component in path.split(|&byte| byte == b'/') {
            match component {
                b"" | b"." => {}
                b".." => self.length = self.bytes().iter().rposition(|&byte| byte == b'/').unwrap_or(0),
                name if self.rest != 0 || self.length + 1 + name.len() > MAX - REST => {
                    self.rest = fold(self.rest, name);
                }
                name => {
                    self.push(b"/");
                    self.push(name);
                }
            }
        }
    }

    fn finish(&mut self) -> FileId {
        if self.length == 0 {
            self.push(b"/");
        }
        if self.rest != 0 {
            if self.length > MAX - REST {
                // It began with a path that was too long already, and ends with its number.
                self.rest = fold(self.rest, &self.bytes()[MAX - REST..]);
                self.length = MAX - REST;
            }
            self.push("/…".as_bytes());
            for digit in (0..16).rev() {
                self.push(&[b"0123456789abcdef"[(self.rest >> (4 * digit) & 15) as usize]]);
            }
        }
        let file = FileId::of_path(self.bytes());
        tell(file, self.bytes());
        file
    }
}

/// Goes on with the hash of what found no room in a path by a further component (FNV-1a, RFC 9923).
fn fold(rest: u64, name: &[u8]) -> u64 {
    let from = if rest == 0 { 0xcbf2_9ce4_8422_2325 } else { rest };
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    name.iter().chain(b"/").fold(from, step).max(1)
}

static CWD_VERSION: AtomicU64 = AtomicU64::new(0);
static CWD_LENGTH: AtomicUsize = AtomicUsize::new(0);
static mut CWD: [u8; MAX] = [0; MAX];

/// Reads the working directory again; after chdir. Where the kernel doesn't tell it (deeper than [`MAX`]), it is `file`.
pub fn read_cwd(file: FileId) {
    let version = CWD_VERSION.load(Relaxed);
    if version & 1 == 1 || CWD_VERSION.compare_exchange(version, version + 1, AcqRel, Relaxed).is_err() {
        return;
    }
    // SAFETY: the odd version keeps other writers out; readers check the version after copying.
    let length = unsafe { sys::getcwd((&raw mut CWD).cast(), MAX) };
    // A directory that was unlinked, or lies outside the root, has no absolute path.
    // SAFETY: as above.
    let absolute = length > 1 && unsafe { CWD[0] } == b'/';
    let mut known = if absolute { length as usize - 1 } else { 0 };
    let text = if absolute { b"" } else { text_of(file) };
    if !text.is_empty() && text.len() <= MAX {
        // SAFETY: as above; the text fits.
        unsafe { core::ptr::copy_nonoverlapping(text.as_ptr(), (&raw mut CWD).cast(), text.len()) };
        known = text.len();
    }
    CWD_LENGTH.store(known, Relaxed);
    CWD_VERSION.store(version + 2, Release);
}

fn push_cwd(builder: &mut Builder) {
    for _ in 0..1000 {
        let version = CWD_VERSION.load(Acquire);
        (builder.length, builder.rest) = (0, 0);
        // SAFETY: may read bytes while they change; then the version tells and the copy is redone.
        builder.join(unsafe {
            core::slice::from_raw_parts((&raw const CWD).cast(), CWD_LENGTH.load(Relaxed).min(MAX))
        });
        core::sync::atomic::fence(Acquire);
        if version & 1 == 0 && CWD_VERSION.load(Relaxed) == version {
            if builder.length == 0 && CWD_LENGTH.load(Relaxed) == 0 {
                builder.push(NOWHERE);
            }
            return;
        }
    }
}

/// The working directory.
pub fn with_cwd(use_it: impl FnOnce(&[u8])) {
    let mut builder = Builder::new();
    push_cwd(&mut builder);
    use_it(builder.bytes());
}

/// The id of `path` relative to directory descriptor `directory` (AT_FDCWD: the working directory);
/// [`FileId::NONE`] for an address that can't be a path's. An empty path means the descriptor itself.
#[inline]
pub fn of(directory: c_int, path: *const c_char) -> FileId {
    name(directory, path, false)
}

/// As [`of`], for a directory that is opened: its text is kept, since paths may be given relative to it.
pub fn of_directory(directory: c_int, path: *const c_char) -> FileId {
    name(directory, path, true)
}

#[inline]
fn name(directory: c_int, path: *const c_char, keep: bool) -> FileId {
    // What can't be a user's address (null, -1, an error number): the kernel answers EFAULT.
    if !(FIRST_PAGE..USER_END).contains(&(path as usize)) {
        return FileId::NONE;
    }
    // SAFETY: the program passed a C string; if it is not readable the real call's EFAULT would have
    // been a SIGSEGV in libc for most functions too.
    let path = unsafe { core::slice::from_raw_parts(path.cast::<u8>(), crate::real::c_length(path)) };
    let mut builder = Builder::new();
    if path.first() != Some(&b'/') {
        if directory == sys::AT_FDCWD {
            push_cwd(&mut builder);
        } else if path.is_empty() {
            return FileId(crate::descriptors::known(directory));
        } else {
            push_directory(&mut builder, directory);
        }
    }
    builder.join(path);
    let file = builder.finish();
    // What is too long for a path can't be asked back from its descriptor.
    if keep || builder.rest != 0 {
        keep_text(file, builder.bytes());
    }
    file
}

fn push_directory(builder: &mut Builder, directory: c_int) {
    let file = crate::descriptors::known(directory);
    let text = text_of(FileId(file));
    if text.is_empty() {
        read_link(builder, directory);
        if builder.length == 0 {
            builder.push(NOWHERE);
        }
        if file != 0 && builder.bytes().first() == Some(&b'/') {
            keep_text(FileId(file), builder.bytes());
        }
    } else {
        builder.push(text);
    }
    // What lies in the root directory is joined to nothing.
    if builder.bytes() == b"/" {
        builder.length = 0;
    }
}

fn read_link(builder: &mut Builder, fd: c_int) {
    let mut name = *b"/proc/self/fd/\0\0\0\0\0\0\0\0\0\0\0";
    decimal(&mut name[14..24], fd as u64);
    // SAFETY: a NUL-terminated path and a buffer of MAX bytes.
    let length = unsafe { sys::readlinkat(sys::AT_FDCWD, name.as_ptr(), builder.pointer(), MAX) };
    builder.length = if sys::failed(length) { 0 } else { (length as usize).min(MAX) };
}

fn decimal(out: &mut [u8], value: u64) -> usize {
    let mut digits = [0u8; 20];
    let (mut at, mut rest) = (20, value);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let length = (20 - at).min(out.len());
    out[..length].copy_from_slice(&digits[at..at + length]);
    length
}

/// The id of what an unknown descriptor stands for, as /proc names it.
pub fn of_descriptor(fd: c_int) -> FileId {
    let mut builder = Builder::new();
    read_link(&mut builder, fd);
    if builder.length == 0 { FileId::NONE } else { builder.finish() }
}

/// The id of a pipe or socket: `prefix`, inode number, `]`, as /proc names it.
pub fn inode_object(prefix: &[u8], inode: u64) -> FileId {
    let mut builder = Builder::new();
    let mut digits = [0u8; 20];
    let length = decimal(&mut digits, inode);
    builder.push(prefix);
    builder.push(&digits[..length]);
    builder.push(b"]");
    builder.finish()
}

// Known paths: an insert-only hash table. A key that is there has been posted by this process or an
// ancestor. `text` is kept for directories that paths were given relative to.

const KNOWN: usize = 1 << 16;
/// Entries looked at for one key.
const PROBES: usize = 8;
/// Bytes kept for directories' texts.
const TEXTS: usize = 4 << 20;

#[repr(C)]
struct Known {
    file: AtomicI64,
    text: AtomicPtr<u8>,
}

static TABLE: AtomicPtr<Known> = AtomicPtr::new(null_mut());
static TEXT_BASE: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static TEXT_USED: AtomicUsize = AtomicUsize::new(0);

fn mapping<T>(cell: &AtomicPtr<T>, length: usize) -> *mut T {
    let present = cell.load(Acquire);
    if !present.is_null() {
        return present;
    }
    // SAFETY: a fresh anonymous mapping; touched pages only are backed.
    let mapped = unsafe {
        let kind = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS | sys::MAP_NORESERVE;
        sys::mmap(0, length, sys::PROT_READ | sys::PROT_WRITE, kind, -1, 0)
    };
    if sys::failed(mapped) {
        return null_mut();
    }
    match cell.compare_exchange(null_mut(), mapped as *mut T, AcqRel, Acquire) {
        Ok(_) => mapped as *mut T,
        Err(other) => {
            // SAFETY: nobody else knows the mapping.
            unsafe { sys::munmap(mapped as usize, length) };
            other
        }
    }
}

/// The entry of `file`; with `insert`, a free one is taken.
fn find(file: FileId, insert: bool) -> Option<&'static Known> {
    let table = mapping(&TABLE, KNOWN * size_of::<Known>());
    if table.is_null() {
        return None;
    }
    // SAFETY: the mapping holds KNOWN zeroed entries and stays.
    let table = unsafe { core::slice::from_raw_parts(table, KNOWN) };
    for probe in 0..PROBES {
        let entry = &table[(file.0 as usize).wrapping_add(probe) % KNOWN];
        let key = entry.file.load(Relaxed);
        if key == file.0 {
            return Some(entry);
        }
        if key == 0 {
            if !insert {
                return None;
            }
            match entry.file.compare_exchange(0, file.0, Relaxed, Relaxed) {
                Ok(_) => return Some(entry),
                Err(other) if other == file.0 => return Some(entry),
                Err(_) => {}
            }
        }
    }
    None
}

/// Posts a path unless the trail knows it.
#[inline]
fn tell(file: FileId, path: &[u8]) {
    if find(file, false).is_none() && post::text(TextKind::Path, file.0, path) {
        find(file, true);
    }
}

fn text_of(file: FileId) -> &'static [u8] {
    let text = find(file, false).map_or(null(), |entry| entry.text.load(Acquire).cast_const());
    if text.is_null() {
        return b"";
    }
    // SAFETY: a kept text is two bytes of length and the bytes, never changed.
    unsafe {
        let length = u16::from_ne_bytes([*text, *text.add(1)]) as usize;
        core::slice::from_raw_parts(text.add(2), length)
    }
}

fn keep_text(file: FileId, path: &[u8]) {
    let Some(entry) = find(file, true) else { return };
    let base = mapping(&TEXT_BASE, TEXTS);
    let at = TEXT_USED.fetch_add(path.len() + 2, Relaxed);
    if base.is_null() || at + path.len() + 2 > TEXTS || !entry.text.load(Relaxed).is_null() {
        return;
    }
    // SAFETY: the reserved range lies in the mapping and is ours alone.
    unsafe {
        let target = base.add(at);
        core::ptr::copy_nonoverlapping((path.len() as u16).to_ne_bytes().as_ptr(), target, 2);
        core::ptr::copy_nonoverlapping(path.as_ptr(), target.add(2), path.len());
        entry.text.store(target, Release);
    }
}
