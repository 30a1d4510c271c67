//! System calls made directly, so that the host's `errno` and interposed functions stay out of it.
//!
//! Each returns the kernel's value: negative is `-errno`. Numbers are those of x86-64
//! (`arch/x86/entry/syscalls/syscall_64.tbl`), constants those of the kernel's uapi headers.

use core::arch::asm;

/// Errors as the kernel gives them.
pub mod errno {
    /// Too many open files in the system.
    pub const ENFILE: isize = 23;
    /// Too many open files of the process.
    pub const EMFILE: isize = 24;
}

/// `openat`'s "relative to the working directory".
pub const AT_FDCWD: i32 = -100;
/// Open for reading and writing.
pub const O_RDWR: i32 = 2;
/// Create.
pub const O_CREAT: i32 = 0o100;
/// Fail if it exists.
pub const O_EXCL: i32 = 0o200;
/// Close on exec.
pub const O_CLOEXEC: i32 = 0o2_000_000;
/// Map readable.
pub const PROT_READ: usize = 1;
/// Map writable.
pub const PROT_WRITE: usize = 2;
/// Share with other mappings.
pub const MAP_SHARED: usize = 1;
/// Copy on write.
pub const MAP_PRIVATE: usize = 2;
/// No file.
pub const MAP_ANONYMOUS: usize = 0x20;
/// Reserve no swap.
pub const MAP_NORESERVE: usize = 0x4000;
/// Not inherited by a child.
pub const MADV_DONTFORK: usize = 10;
/// Not in core dumps.
pub const MADV_DONTDUMP: usize = 16;
/// Zero in a child (Linux 4.14).
pub const MADV_WIPEONFORK: usize = 18;
/// Fault in writable, or fail where touching would be SIGBUS (Linux 5.14).
pub const MADV_POPULATE_WRITE: usize = 23;
/// Set the position / tell it.
pub const SEEK_CUR: usize = 1;

/// A system call.
///
/// # Safety
/// The arguments must be valid for the call, as for the C function of its name.
#[inline(always)]
pub unsafe fn syscall(number: usize, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    let result: isize;
    // SAFETY: the caller vouches for the arguments; the kernel clobbers rcx and r11 only.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// Unused arguments are zero.
const fn pad<const N: usize>(given: [usize; N]) -> [usize; 6] {
    let mut all = [0; 6];
    let mut i = 0;
    while i < N {
        all[i] = given[i];
        i += 1;
    }
    all
}

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $number:literal ($($arg:ident: $ty:ty),*);)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the C function.
        #[inline]
        pub unsafe fn $name($($arg: $ty),*) -> isize {
            let args = pad([$($arg as usize),*]);
            // SAFETY: passed on to the caller.
            unsafe { syscall($number, args[0], args[1], args[2], args[3], args[4], args[5]) }
        }
    )*};
}

calls! {
    /// read(2)
    read = 0 (fd: i32, buffer: *mut u8, length: usize);
    /// close(2)
    close = 3 (fd: i32);
    /// fstat(2); `buffer` holds the kernel's 144-byte `struct stat`.
    fstat = 5 (fd: i32, buffer: *mut u8);
    /// lseek(2)
    lseek = 8 (fd: i32, pos: i64, whence: usize);
    /// mmap(2)
    mmap = 9 (address: usize, length: usize, protection: usize, flags: usize, fd: i32, pos: usize);
    /// munmap(2)
    munmap = 11 (address: usize, length: usize);
    /// sched_yield(2)
    sched_yield = 24 ();
    /// madvise(2)
    madvise = 28 (address: usize, length: usize, advice: usize);
    /// getpid(2)
    getpid = 39 ();
    /// fcntl(2)
    fcntl = 72 (fd: i32, command: usize, argument: usize);
    /// ftruncate(2)
    ftruncate = 77 (fd: i32, length: i64);
    /// getcwd(2); the result counts the terminating NUL.
    getcwd = 79 (buffer: *mut u8, length: usize);
    /// getrusage(2); `usage` holds the 144-byte `struct rusage`.
    getrusage = 98 (who: usize, usage: *mut u8);
    /// getppid(2)
    getppid = 110 ();
    /// gettid(2)
    gettid = 186 ();
    /// futex(2)
    futex = 202 (address: *const u32, operation: usize, value: usize, timeout: usize);
    /// clock_gettime(2)
    clock_gettime = 228 (clock: usize, time: *mut [i64; 2]);
    /// openat(2)
    openat = 257 (directory: i32, path: *const u8, flags: i32, mode: usize);
    /// unlink(2)
    unlink = 87 (path: *const u8);
    /// readlinkat(2)
    readlinkat = 267 (directory: i32, path: *const u8, buffer: *mut u8, length: usize);
    /// prlimit64(2); `old` receives the soft and the hard limit.
    prlimit = 302 (pid: usize, resource: usize, new: *const [u64; 2], old: *mut [u64; 2]);
}

/// Whether a result of a system call is an error.
#[inline]
#[must_use]
pub const fn failed(result: isize) -> bool {
    result < 0 && result > -4096
}

/// CLOCK_MONOTONIC, nanoseconds.
#[must_use]
pub fn monotonic() -> u64 {
    let mut time = [0i64; 2];
    // SAFETY: `time` is a writable timespec.
    unsafe { clock_gettime(1, &raw mut time) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}
