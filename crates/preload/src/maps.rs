//! Mapped files: mmap, munmap, msync, and which mappings are of files.
//!
//! Page faults of a mapping can't be seen here; that a file was mapped is, so that a report can say so.

use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicI64, AtomicUsize, Ordering::*};

use iotrail_format::call::Call;
use iotrail_format::segment::UnseenKind;
use iotrail_sdk::{attach, post};
use libc::{off64_t, size_t};

use crate::descriptors;
use crate::real::interpose;
use crate::record::{call, draft};

/// Mappings of files that are followed at once.
const MAX: usize = 1024;

struct Mapping {
    /// 0: free. Stored last.
    start: AtomicUsize,
    end: AtomicUsize,
    file: AtomicI64,
}

impl Mapping {
    const fn free() -> Self {
        Self { start: AtomicUsize::new(0), end: AtomicUsize::new(0), file: AtomicI64::new(0) }
    }
}

static MAPPINGS: [Mapping; MAX] = [const { Mapping::free() }; MAX];
/// Entries ever used; none above need looking at.
static USED: AtomicUsize = AtomicUsize::new(0);

fn keep(start: usize, length: usize, file: i64) {
    for (index, mapping) in MAPPINGS.iter().enumerate() {
        // 1 marks an entry that is being filled.
        if mapping.start.load(Relaxed) == 0 && mapping.start.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
        {
            mapping.end.store(start + length, Relaxed);
            mapping.file.store(file, Relaxed);
            mapping.start.store(start, Release);
            USED.fetch_max(index + 1, Relaxed);
            return;
        }
    }
    post::unseen(UnseenKind::Mapping, file, 1);
}

/// The file of a mapping that overlaps the range; with `remove`, it is forgotten where the range
/// covers its start.
fn file_at(start: usize, length: usize, remove: bool) -> Option<i64> {
    let end = start.saturating_add(length);
    let mut found = None;
    for mapping in &MAPPINGS[..USED.load(Relaxed).min(MAX)] {
        let from = mapping.start.load(Acquire);
        if from > 1 && from < end && start < mapping.end.load(Relaxed) {
            found = Some(mapping.file.load(Relaxed));
            if remove && start <= from {
                mapping.start.store(0, Release);
            }
        }
    }
    found
}

interpose! {
    mmap, mmap64 =>
    fn(address: *mut c_void, length: size_t, access: c_int, flags: c_int, fd: c_int, pos: off64_t) -> *mut c_void, |real| {
        if fd < 0 || flags & libc::MAP_ANONYMOUS != 0 || attach::off() {
            return real(address, length, access, flags, fd, pos);
        }
        let mut map = draft(Call::Mmap);
        map.fd = fd;
        map.object = descriptors::known(fd);
        map.pos = pos;
        map.length = length as i64;
        map.aux = i64::from(access & 0xff) | i64::from(flags) << 8;
        call(map, || real(address, length, access, flags, fd, pos), |draft, mapped| {
            if mapped != libc::MAP_FAILED {
                keep(mapped as usize, length, draft.object);
            }
        })
    }
    munmap => fn(address: *mut c_void, length: size_t) -> c_int, |real| {
        on_mapping(Call::Munmap, address as usize, length, None, true, || real(address, length))
    }
    msync => fn(address: *mut c_void, length: size_t, flags: c_int) -> c_int, |real| {
        on_mapping(Call::Msync, address as usize, length, Some(flags), false, || real(address, length, flags))
    }
    madvise => fn(address: *mut c_void, length: size_t, advice: c_int) -> c_int, |real| {
        on_mapping(Call::Madvise, address as usize, length, Some(advice), false, || real(address, length, advice))
    }
}

/// A call on memory: recorded only where it is a file's.
fn on_mapping(
    kind: Call,
    start: usize,
    length: usize,
    flags: Option<c_int>,
    ends: bool,
    run: impl FnOnce() -> c_int,
) -> c_int {
    if USED.load(Relaxed) == 0 || attach::off() {
        return run();
    }
    let Some(file) = file_at(start, length, ends) else { return run() };
    let mut on = draft(kind);
    on.object = file;
    on.length = length as i64;
    on.aux = flags.map_or(iotrail_format::segment::NONE, i64::from);
    call(on, run, |_, _| {})
}
