//! Calls on paths: opening, attributes, names, directories.

use core::ffi::{c_char, c_int, c_uint, c_void};

use iotrail_format::call::Call;
use iotrail_format::ids::FileId;
use iotrail_format::segment::NONE;
use iotrail_sdk::attach;
use iotrail_sdk::sys::AT_FDCWD;
use libc::{DIR, gid_t, mode_t, off64_t, size_t, ssize_t, uid_t};

use crate::real::interpose;
use crate::record::{Outcome, call, draft, on_descriptor};
use crate::{descriptors, paths};

/// A call on one path.
#[inline(always)]
fn on_path<R: Outcome>(
    kind: Call,
    directory: c_int,
    path: *const c_char,
    aux: i64,
    run: impl FnOnce() -> R,
) -> R {
    if attach::off() {
        return run();
    }
    let mut named = draft(kind);
    named.object = paths::of(directory, path).0;
    named.aux = aux;
    call(named, run, |_, _| {})
}

/// A call on two paths; the first is what exists, or what is made in case of a symbolic link.
#[inline(always)]
fn on_two_paths(
    kind: Call,
    (from_directory, from): (c_int, *const c_char),
    (into_directory, into): (c_int, *const c_char),
    run: impl FnOnce() -> c_int,
) -> c_int {
    if attach::off() {
        return run();
    }
    let mut named = draft(kind);
    named.object = paths::of(from_directory, from).0;
    named.aux = paths::of(into_directory, into).0;
    call(named, run, |_, _| {})
}

/// Opens `path`; the new descriptor stands for it.
#[inline(always)]
pub fn open_path(
    kind: Call,
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    run: impl FnOnce() -> c_int,
) -> c_int {
    if attach::off() {
        return run();
    }
    let file = if flags & libc::O_DIRECTORY != 0 {
        paths::of_directory(directory, path)
    } else {
        paths::of(directory, path)
    };
    let mut open = draft(kind);
    open.object = file.0;
    open.aux = flags.into();
    call(open, run, |draft, fd| {
        draft.fd = fd;
        descriptors::opened(fd, file, flags);
    })
}

const CREAT: c_int = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;

interpose! {
    // The mode stands in a register whether the caller passed one or not.
    open, open64 => fn(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, |real| {
        open_path(Call::Open, AT_FDCWD, path, flags, || real(path, flags, mode))
    }
    __open_2, __open64_2 => fn(path: *const c_char, flags: c_int) -> c_int, |real| {
        open_path(Call::Open, AT_FDCWD, path, flags, || real(path, flags))
    }
    openat, openat64 => fn(directory: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, |real| {
        open_path(Call::Open, directory, path, flags, || real(directory, path, flags, mode))
    }
    __openat_2, __openat64_2 => fn(directory: c_int, path: *const c_char, flags: c_int) -> c_int, |real| {
        open_path(Call::Open, directory, path, flags, || real(directory, path, flags))
    }
    creat, creat64 => fn(path: *const c_char, mode: mode_t) -> c_int, |real| {
        open_path(Call::Creat, AT_FDCWD, path, CREAT, || real(path, mode))
    }
    shm_open => fn(name: *const c_char, flags: c_int, mode: mode_t) -> c_int, |real| {
        if attach::off() {
            return real(name, flags, mode);
        }
        let fd = real(name, flags, mode);
        descriptors::forget(fd);
        fd
    }
    memfd_create => fn(name: *const c_char, flags: c_uint) -> c_int, |real| {
        if attach::off() {
            return real(name, flags);
        }
        call(draft(Call::Mkstemp), || real(name, flags), |draft, fd| {
            descriptors::forget(fd);
            draft.fd = fd;
            draft.object = descriptors::known(fd);
        })
    }
    mkstemp, mkstemp64 => fn(template: *mut c_char) -> c_int, |real| {
        make_temporary(template, || real(template))
    }
    mkostemp, mkostemp64 => fn(template: *mut c_char, flags: c_int) -> c_int, |real| {
        make_temporary(template, || real(template, flags))
    }
    mkstemps, mkstemps64 => fn(template: *mut c_char, suffix: c_int) -> c_int, |real| {
        make_temporary(template, || real(template, suffix))
    }
    mkostemps, mkostemps64 => fn(template: *mut c_char, suffix: c_int, flags: c_int) -> c_int, |real| {
        make_temporary(template, || real(template, suffix, flags))
    }
    mkdtemp => fn(template: *mut c_char) -> *mut c_char, |real| {
        if attach::off() {
            return real(template);
        }
        // The name is known afterwards only.
        call(draft(Call::Mkdir), || real(template), |draft, made| draft.object = paths::of(AT_FDCWD, made).0)
    }

    stat, stat64 => fn(path: *const c_char, into: *mut libc::stat) -> c_int, |real| {
        on_path(Call::Stat, AT_FDCWD, path, 0, || real(path, into))
    }
    lstat, lstat64 => fn(path: *const c_char, into: *mut libc::stat) -> c_int, |real| {
        on_path(Call::Stat, AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW.into(), || real(path, into))
    }
    fstatat, fstatat64 => fn(directory: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int, |real| {
        if is_empty(path) && flags & libc::AT_EMPTY_PATH != 0 {
            return stat_descriptor(directory, into, || real(directory, path, into, flags));
        }
        on_path(Call::Stat, directory, path, flags.into(), || real(directory, path, into, flags))
    }
    statx => fn(directory: c_int, path: *const c_char, flags: c_int, mask: c_uint, into: *mut c_void) -> c_int, |real| {
        if is_empty(path) && flags & libc::AT_EMPTY_PATH != 0 {
            return on_descriptor(Call::Fstat, directory, NONE, NONE, || real(directory, path, flags, mask, into));
        }
        on_path(Call::Stat, directory, path, flags.into(), || real(directory, path, flags, mask, into))
    }
    fstat, fstat64 => fn(fd: c_int, into: *mut libc::stat) -> c_int, |real| {
        stat_descriptor(fd, into, || real(fd, into))
    }
    // What programs linked before glibc 2.33 call.
    __xstat, __xstat64 => fn(version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int, |real| {
        on_path(Call::Stat, AT_FDCWD, path, 0, || real(version, path, into))
    }
    __lxstat, __lxstat64 => fn(version: c_int, path: *const c_char, into: *mut libc::stat) -> c_int, |real| {
        on_path(Call::Stat, AT_FDCWD, path, libc::AT_SYMLINK_NOFOLLOW.into(), || real(version, path, into))
    }
    __fxstat, __fxstat64 => fn(version: c_int, fd: c_int, into: *mut libc::stat) -> c_int, |real| {
        stat_descriptor(fd, into, || real(version, fd, into))
    }
    __fxstatat, __fxstatat64 =>
    fn(version: c_int, directory: c_int, path: *const c_char, into: *mut libc::stat, flags: c_int) -> c_int, |real| {
        on_path(Call::Stat, directory, path, flags.into(), || real(version, directory, path, into, flags))
    }
    access => fn(path: *const c_char, mode: c_int) -> c_int, |real| {
        on_path(Call::Access, AT_FDCWD, path, mode.into(), || real(path, mode))
    }
    faccessat => fn(directory: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int, |real| {
        on_path(Call::Access, directory, path, mode.into(), || real(directory, path, mode, flags))
    }
    euidaccess, eaccess => fn(path: *const c_char, mode: c_int) -> c_int, |real| {
        on_path(Call::Access, AT_FDCWD, path, mode.into(), || real(path, mode))
    }
    statfs, statfs64, statvfs, statvfs64 => fn(path: *const c_char, into: *mut c_void) -> c_int, |real| {
        on_path(Call::Statfs, AT_FDCWD, path, NONE, || real(path, into))
    }
    fstatfs, fstatfs64, fstatvfs, fstatvfs64 => fn(fd: c_int, into: *mut c_void) -> c_int, |real| {
        on_descriptor(Call::Statfs, fd, NONE, NONE, || real(fd, into))
    }
    truncate, truncate64 => fn(path: *const c_char, length: off64_t) -> c_int, |real| {
        if attach::off() {
            return real(path, length);
        }
        let mut named = draft(Call::Truncate);
        named.object = paths::of(AT_FDCWD, path).0;
        named.length = length;
        call(named, || real(path, length), |_, _| {})
    }

    rename => fn(from: *const c_char, into: *const c_char) -> c_int, |real| {
        on_two_paths(Call::Rename, (AT_FDCWD, from), (AT_FDCWD, into), || real(from, into))
    }
    renameat => fn(from_at: c_int, from: *const c_char, into_at: c_int, into: *const c_char) -> c_int, |real| {
        on_two_paths(Call::Rename, (from_at, from), (into_at, into), || real(from_at, from, into_at, into))
    }
    renameat2 =>
    fn(from_at: c_int, from: *const c_char, into_at: c_int, into: *const c_char, flags: c_uint) -> c_int, |real| {
        on_two_paths(Call::Rename, (from_at, from), (into_at, into), || real(from_at, from, into_at, into, flags))
    }
    link => fn(from: *const c_char, into: *const c_char) -> c_int, |real| {
        on_two_paths(Call::Link, (AT_FDCWD, from), (AT_FDCWD, into), || real(from, into))
    }
    linkat =>
    fn(from_at: c_int, from: *const c_char, into_at: c_int, into: *const c_char, flags: c_int) -> c_int, |real| {
        on_two_paths(Call::Link, (from_at, from), (into_at, into), || real(from_at, from, into_at, into, flags))
    }
    symlink => fn(content: *const c_char, path: *const c_char) -> c_int, |real| {
        on_path(Call::Symlink, AT_FDCWD, path, NONE, || real(content, path))
    }
    symlinkat => fn(content: *const c_char, directory: c_int, path: *const c_char) -> c_int, |real| {
        on_path(Call::Symlink, directory, path, NONE, || real(content, directory, path))
    }
    readlink => fn(path: *const c_char, buffer: *mut c_char, length: size_t) -> ssize_t, |real| {
        on_path(Call::Readlink, AT_FDCWD, path, NONE, || real(path, buffer, length))
    }
    __readlink_chk => fn(path: *const c_char, buffer: *mut c_char, length: size_t, size: size_t) -> ssize_t, |real| {
        on_path(Call::Readlink, AT_FDCWD, path, NONE, || real(path, buffer, length, size))
    }
    readlinkat => fn(directory: c_int, path: *const c_char, buffer: *mut c_char, length: size_t) -> ssize_t, |real| {
        on_path(Call::Readlink, directory, path, NONE, || real(directory, path, buffer, length))
    }
    __readlinkat_chk =>
    fn(directory: c_int, path: *const c_char, buffer: *mut c_char, length: size_t, size: size_t) -> ssize_t, |real| {
        on_path(Call::Readlink, directory, path, NONE, || real(directory, path, buffer, length, size))
    }
    unlink, remove => fn(path: *const c_char) -> c_int, |real| {
        on_path(Call::Unlink, AT_FDCWD, path, NONE, || real(path))
    }
    unlinkat => fn(directory: c_int, path: *const c_char, flags: c_int) -> c_int, |real| {
        let kind = if flags & libc::AT_REMOVEDIR != 0 { Call::Rmdir } else { Call::Unlink };
        on_path(kind, directory, path, NONE, || real(directory, path, flags))
    }
    mkdir => fn(path: *const c_char, mode: mode_t) -> c_int, |real| {
        on_path(Call::Mkdir, AT_FDCWD, path, NONE, || real(path, mode))
    }
    mkdirat => fn(directory: c_int, path: *const c_char, mode: mode_t) -> c_int, |real| {
        on_path(Call::Mkdir, directory, path, NONE, || real(directory, path, mode))
    }
    rmdir => fn(path: *const c_char) -> c_int, |real| {
        on_path(Call::Rmdir, AT_FDCWD, path, NONE, || real(path))
    }
    mkfifo => fn(path: *const c_char, mode: mode_t) -> c_int, |real| {
        on_path(Call::Mknod, AT_FDCWD, path, NONE, || real(path, mode))
    }
    mkfifoat => fn(directory: c_int, path: *const c_char, mode: mode_t) -> c_int, |real| {
        on_path(Call::Mknod, directory, path, NONE, || real(directory, path, mode))
    }
    mknod => fn(path: *const c_char, mode: mode_t, device: u64) -> c_int, |real| {
        on_path(Call::Mknod, AT_FDCWD, path, NONE, || real(path, mode, device))
    }
    mknodat => fn(directory: c_int, path: *const c_char, mode: mode_t, device: u64) -> c_int, |real| {
        on_path(Call::Mknod, directory, path, NONE, || real(directory, path, mode, device))
    }
    chdir => fn(path: *const c_char) -> c_int, |real| {
        let into = if attach::off() { FileId::NONE } else { paths::of_directory(AT_FDCWD, path) };
        let result = on_path(Call::Chdir, AT_FDCWD, path, NONE, || real(path));
        moved(result, into)
    }
    fchdir => fn(fd: c_int) -> c_int, |real| {
        let result = on_descriptor(Call::Chdir, fd, NONE, NONE, || real(fd));
        moved(result, FileId(descriptors::named(fd)))
    }
    chroot => fn(path: *const c_char) -> c_int, |real| {
        let result = on_path(Call::Chdir, AT_FDCWD, path, NONE, || real(path));
        moved(result, FileId::NONE)
    }
    chmod, lchmod => fn(path: *const c_char, mode: mode_t) -> c_int, |real| {
        on_path(Call::Chmod, AT_FDCWD, path, mode.into(), || real(path, mode))
    }
    fchmod => fn(fd: c_int, mode: mode_t) -> c_int, |real| {
        on_descriptor(Call::Chmod, fd, NONE, mode.into(), || real(fd, mode))
    }
    fchmodat => fn(directory: c_int, path: *const c_char, mode: mode_t, flags: c_int) -> c_int, |real| {
        on_path(Call::Chmod, directory, path, mode.into(), || real(directory, path, mode, flags))
    }
    chown, lchown => fn(path: *const c_char, owner: uid_t, group: gid_t) -> c_int, |real| {
        on_path(Call::Chown, AT_FDCWD, path, NONE, || real(path, owner, group))
    }
    fchown => fn(fd: c_int, owner: uid_t, group: gid_t) -> c_int, |real| {
        on_descriptor(Call::Chown, fd, NONE, NONE, || real(fd, owner, group))
    }
    fchownat => fn(directory: c_int, path: *const c_char, owner: uid_t, group: gid_t, flags: c_int) -> c_int, |real| {
        on_path(Call::Chown, directory, path, NONE, || real(directory, path, owner, group, flags))
    }
    utime, utimes, lutimes => fn(path: *const c_char, times: *const c_void) -> c_int, |real| {
        on_path(Call::Utimes, AT_FDCWD, path, NONE, || real(path, times))
    }
    utimensat => fn(directory: c_int, path: *const c_char, times: *const c_void, flags: c_int) -> c_int, |real| {
        if path.is_null() {
            return on_descriptor(Call::Utimes, directory, NONE, NONE, || real(directory, path, times, flags));
        }
        on_path(Call::Utimes, directory, path, NONE, || real(directory, path, times, flags))
    }
    futimens, futimes => fn(fd: c_int, times: *const c_void) -> c_int, |real| {
        on_descriptor(Call::Utimes, fd, NONE, NONE, || real(fd, times))
    }
    getxattr, lgetxattr =>
    fn(path: *const c_char, name: *const c_char, value: *mut c_void, size: size_t) -> ssize_t, |real| {
        on_path(Call::Xattr, AT_FDCWD, path, NONE, || real(path, name, value, size))
    }
    fgetxattr => fn(fd: c_int, name: *const c_char, value: *mut c_void, size: size_t) -> ssize_t, |real| {
        on_descriptor(Call::Xattr, fd, NONE, NONE, || real(fd, name, value, size))
    }
    setxattr, lsetxattr =>
    fn(path: *const c_char, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int, |real| {
        on_path(Call::Xattr, AT_FDCWD, path, NONE, || real(path, name, value, size, flags))
    }
    fsetxattr =>
    fn(fd: c_int, name: *const c_char, value: *const c_void, size: size_t, flags: c_int) -> c_int, |real| {
        on_descriptor(Call::Xattr, fd, NONE, NONE, || real(fd, name, value, size, flags))
    }
    listxattr, llistxattr => fn(path: *const c_char, list: *mut c_char, size: size_t) -> ssize_t, |real| {
        on_path(Call::Xattr, AT_FDCWD, path, NONE, || real(path, list, size))
    }
    flistxattr => fn(fd: c_int, list: *mut c_char, size: size_t) -> ssize_t, |real| {
        on_descriptor(Call::Xattr, fd, NONE, NONE, || real(fd, list, size))
    }
    removexattr, lremovexattr => fn(path: *const c_char, name: *const c_char) -> c_int, |real| {
        on_path(Call::Xattr, AT_FDCWD, path, NONE, || real(path, name))
    }
    fremovexattr => fn(fd: c_int, name: *const c_char) -> c_int, |real| {
        on_descriptor(Call::Xattr, fd, NONE, NONE, || real(fd, name))
    }

    opendir => fn(path: *const c_char) -> *mut DIR, |real| {
        if attach::off() {
            return real(path);
        }
        let file = paths::of_directory(AT_FDCWD, path);
        let mut open = draft(Call::Opendir);
        open.object = file.0;
        call(open, || Listed(real(path)), |draft, directory| {
            if !directory.failed() {
                draft.fd = directory.value() as c_int;
                descriptors::opened(draft.fd, file, libc::O_DIRECTORY);
            }
        }).0
    }
    fdopendir => fn(fd: c_int) -> *mut DIR, |real| {
        on_descriptor(Call::Fdopendir, fd, NONE, NONE, || Listed(real(fd))).0
    }
    readdir, readdir64 => fn(directory: *mut DIR) -> *mut c_void, |real| {
        if attach::off() || directory.is_null() {
            return real(directory);
        }
        list(directory, || real(directory))
    }
    readdir_r, readdir64_r => fn(directory: *mut DIR, entry: *mut c_void, result: *mut *mut c_void) -> c_int, |real| {
        if attach::off() || directory.is_null() {
            return real(directory, entry, result);
        }
        let mut listed = 0;
        list(directory, || {
            listed = real(directory, entry, result);
            core::ptr::null_mut::<c_void>()
        });
        listed
    }
    closedir => fn(directory: *mut DIR) -> c_int, |real| {
        if attach::off() || directory.is_null() {
            return real(directory);
        }
        let fd = libc::dirfd(directory);
        let mut close = draft(Call::Closedir);
        close.fd = fd;
        close.object = descriptors::known(fd);
        if let Some(entry) = descriptors::of_stream(fd) {
            let absorbed = entry.absorbed.swap(0, core::sync::atomic::Ordering::Relaxed);
            close.aux = i64::from(absorbed) + 1;
        }
        descriptors::forget(fd);
        call(close, || real(directory), |_, _| {})
    }
    scandir, scandir64 =>
    fn(path: *const c_char, names: *mut c_void, select: *const c_void, compare: *const c_void) -> c_int, |real| {
        on_path(Call::Readdir, AT_FDCWD, path, 1, || real(path, names, select, compare))
    }
}

/// A directory just opened: what its record returns is the descriptor.
#[derive(Clone, Copy)]
struct Listed(*mut DIR);

impl Outcome for Listed {
    fn value(self) -> i64 {
        // SAFETY: an open directory, or null.
        if self.0.is_null() { -1 } else { i64::from(unsafe { libc::dirfd(self.0) }) }
    }
    fn failed(self) -> bool {
        self.0.is_null()
    }
}

fn is_empty(path: *const c_char) -> bool {
    // SAFETY: a C string, if not null.
    path.is_null() || unsafe { *path } == 0
}

#[inline(always)]
fn stat_descriptor(fd: c_int, into: *mut libc::stat, run: impl FnOnce() -> c_int) -> c_int {
    if attach::off() {
        return run();
    }
    let mut on = draft(Call::Fstat);
    on.fd = fd;
    on.object = descriptors::named(fd);
    call(on, run, |draft, result| {
        if result == 0 && !into.is_null() {
            // SAFETY: the call succeeded and filled it.
            descriptors::seen_mode(fd, unsafe { &*into });
            draft.object = descriptors::known(fd);
        }
    })
}

/// A call that makes a descriptor without a path.
#[inline]
pub fn made(run: impl FnOnce() -> c_int) -> c_int {
    let fd = run();
    if !attach::off() {
        descriptors::forget(fd);
    }
    fd
}

fn make_temporary(template: *const c_char, run: impl FnOnce() -> c_int) -> c_int {
    if attach::off() {
        return run();
    }
    let mut open = draft(Call::Mkstemp);
    open.aux = (libc::O_CREAT | libc::O_RDWR | libc::O_EXCL).into();
    call(open, run, |draft, fd| {
        if fd >= 0 {
            // The template holds the name now.
            let file: FileId = paths::of(AT_FDCWD, template);
            draft.fd = fd;
            draft.object = file.0;
            descriptors::opened(fd, file, libc::O_RDWR);
        }
    })
}

fn moved(result: c_int, into: FileId) -> c_int {
    if result == 0 && !attach::off() && !attach::in_vfork_child() {
        paths::read_cwd(into);
    }
    result
}

/// One row for each batch of entries the kernel gives, not for each entry: a listing moves on by a
/// batch when the position the kernel keeps changes.
#[inline(always)]
fn list<R: Outcome>(directory: *mut DIR, run: impl FnOnce() -> R) -> R {
    use core::sync::atomic::Ordering::Relaxed;
    // SAFETY: an open directory.
    let fd = unsafe { libc::dirfd(directory) };
    let Some(entry) = descriptors::of_stream(fd) else { return run() };
    if !Listing::at(directory).is_exhausted() {
        entry.absorbed.store(entry.absorbed.load(Relaxed) + 1, Relaxed);
        return run();
    }
    let mut read = draft(Call::Readdir);
    read.fd = fd;
    read.object = descriptors::known(fd);
    read.aux = i64::from(entry.absorbed.swap(0, Relaxed)) + 1;
    // Null is the end of the directory as well as an error; only an error sets errno, and its
    // row would need errno cleared before, which a program might notice.
    let pending = iotrail_sdk::post::begin(&read);
    let listed = run();
    if let Some(pending) = pending {
        iotrail_sdk::post::end(&pending, &read, i64::from(listed.value() != 0), 0);
    }
    listed
}

/// The part of glibc's `struct __dirstream` (sysdeps/unix/sysv/linux/dirstream.h, unchanged since
/// 2.14 on x86-64) that tells whether the next entry is in the buffer.
#[repr(C)]
struct Listing {
    fd: c_int,
    lock: c_int,
    allocation: size_t,
    size: size_t,
    offset: size_t,
}

impl Listing {
    fn at<'a>(directory: *mut DIR) -> &'a Self {
        // SAFETY: a DIR of glibc begins so.
        unsafe { &*directory.cast::<Self>() }
    }

    fn is_exhausted(&self) -> bool {
        self.offset >= self.size
    }
}
