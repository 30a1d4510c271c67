//! System calls made directly, so that the host's `errno` and interposed functions stay out of it.
//!
//! Each returns the kernel's value: negative is `-errno`. Numbers are those of x86-64
//! (`arch/x86/entry/syscalls/syscall_64.tbl`), constants those of the kernel's uapi headers.

use core::arch::asm;

/// Errors as the kernel gives them.
pub mod errno {
    /// Operation not permitted.
    pub const EPERM: isize = 1;
    /// Permission denied.
    pub const EACCES: isize = 13;
    /// No memory, or RLIMIT_AS allows no more.
    pub const ENOMEM: isize = 12;
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

/// A system call. A thread under a seccomp filter makes none: the answer is then EPERM.
///
/// # Safety
/// The arguments must be valid for the call, as for the C function of its name.
#[inline(always)]
pub unsafe fn syscall(number: usize, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> isize {
    if crate::thread::is_confined() {
        return -errno::EPERM;
    }
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
    /// sigaltstack(2)
    sigaltstack = 131 (new: *const u8, old: *mut u8);
    /// gettid(2)
    gettid = 186 ();
    /// futex(2)
    futex = 202 (address: *const u32, operation: usize, value: usize, timeout: usize);
    /// clock_gettime(2)
    clock_gettime = 228 (clock: usize, time: *mut [i64; 2]);
    /// openat(2)
    openat = 257 (directory: i32, path: *const u8, flags: i32, mode: usize);
    /// newfstatat(2); `buffer` holds the kernel's 144-byte `struct stat`.
    newfstatat = 262 (directory: i32, path: *const u8, buffer: *mut u8, flags: usize);
    /// unlink(2)
    unlink = 87 (path: *const u8);
    /// readlinkat(2)
    readlinkat = 267 (directory: i32, path: *const u8, buffer: *mut u8, length: usize);
    /// prlimit64(2); `old` receives the soft and the hard limit.
    prlimit = 302 (pid: usize, resource: usize, new: *const [u64; 2], old: *mut [u64; 2]);
}

/// Maps the first `length` bytes of a file opened with `flags`, shared, writable if the flags have `O_RDWR`.
///
/// # Safety
/// As for mmap(2).
pub unsafe fn map_shared(fd: i32, flags: i32, length: usize) -> isize {
    // Of one value on Linux, as the assembly below counts on.
    const { assert!(O_RDWR as usize == PROT_WRITE) }
    let protection = PROT_READ | (flags & O_RDWR) as usize;
    // SAFETY: passed on to the caller.
    unsafe { mmap(0, length, protection, MAP_SHARED | MAP_NORESERVE, fd, 0) }
}

/// As opening `path`, setting its size to `resize`, and [`map_shared`], in a process that has no
/// descriptor left: a child that shares this memory but has its own copy of the descriptor table
/// (clone(2), CLONE_VM without CLONE_FILES) makes room in its copy, maps, and ends. Nothing of the
/// host's descriptors changes; its SIGCHLD handler hears nothing.
///
/// # Safety
/// `path` is NUL-terminated.
pub unsafe fn map_without_descriptor(
    path: *const u8,
    flags: i32,
    resize: Option<usize>,
    length: usize,
) -> isize {
    const CLONE_VM_VFORK: usize = 0x100 | 0x4000;
    const WAIT_ALL: usize = 0x4000_0000;
    const WAIT4: usize = 61;
    const ENOENT: isize = 2;
    let mut mapped: isize = -ENOENT;
    let child: isize;
    // SAFETY: until the child exits, this thread stands still (CLONE_VFORK). The child runs on its
    // stack, but only in this block, which uses registers; it writes `mapped` and exits.
    unsafe {
        asm!(
            "syscall",
            "test rax, rax",
            "jnz 3f",
            // close(0), in the child's own table.
            "mov eax, 3",
            "xor edi, edi",
            "syscall",
            // openat(AT_FDCWD, path, flags, 0600)
            "mov eax, 257",
            "mov edi, -100",
            "mov rsi, r12",
            "mov edx, r13d",
            "mov r10d, 384",
            "syscall",
            "test rax, rax",
            "js 2f",
            "mov r12, rax",
            // ftruncate(fd, resize), where asked
            "test r14, r14",
            "js 4f",
            "mov eax, 77",
            "mov rdi, r12",
            "mov rsi, r14",
            "syscall",
            "test rax, rax",
            "js 2f",
            // mmap(0, length, READ | flags & O_RDWR, SHARED | NORESERVE, fd, 0)
            "4:",
            "mov eax, 9",
            "xor edi, edi",
            "mov rsi, r15",
            "mov edx, r13d",
            "and edx, 2",
            "or edx, 1",
            "mov r10d, 0x4001",
            "mov r8, r12",
            "xor r9d, r9d",
            "syscall",
            "2:",
            "mov qword ptr [{mapped}], rax",
            // exit(0)
            "mov eax, 60",
            "xor edi, edi",
            "syscall",
            "3:",
            mapped = in(reg) &raw mut mapped,
            inlateout("rax") 56isize => child,
            inlateout("rdi") CLONE_VM_VFORK => _,
            inlateout("rsi") 0usize => _,
            inlateout("rdx") 0usize => _,
            inlateout("r10") 0usize => _,
            inlateout("r8") 0usize => _,
            inlateout("r9") 0usize => _,
            inlateout("r12") path => _,
            inlateout("r13") flags as isize => _,
            inlateout("r14") resize.map_or(-1, |size| size as isize) => _,
            inlateout("r15") length => _,
            out("rcx") _, out("r11") _,
        );
        if failed(child) {
            return child;
        }
        syscall(WAIT4, child as usize, 0, WAIT_ALL, 0, 0, 0);
    }
    mapped
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

/// A clock of the system in whole seconds.
#[must_use]
pub fn clock_seconds(clock: usize) -> u64 {
    let mut time = [0i64; 2];
    // SAFETY: `time` is a writable timespec.
    unsafe { clock_gettime(clock, &raw mut time) };
    time[0].max(0) as u64
}
