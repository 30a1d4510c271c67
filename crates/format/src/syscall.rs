//! What each system call is: one line a call, with what whoever makes rows of system calls needs to know of it.

use crate::call::{Call, WaitKind};

/// What handles a call, and its parameters. Arguments are counted from 0.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Reads and writes: at a given position or at the file's, into one buffer or several.
    Transfer {
        /// What it is in a trail.
        call: Call,
        /// Whether at a given position.
        positioned: bool,
        /// Whether into several buffers.
        vector: bool,
    },
    /// Opens a path: in a directory, flags in a struct, or neither.
    Open(OpenForm),
    /// Closes a descriptor.
    Close,
    /// Closes a range of descriptors.
    CloseRange,
    /// Makes a second descriptor of one.
    Dup,
    /// fcntl, whose command says what it does.
    Fcntl,
    /// Sets the position.
    Lseek,
    /// Begins with a path.
    Path(Call),
    /// Begins with two paths; the second is the new name.
    TwoPaths(Call),
    /// Begins with a directory and a path; whether the path may be null.
    At {
        /// What it is in a trail.
        call: Call,
        /// Whether the path may be null.
        null: bool,
    },
    /// Begins with two pairs of a directory and a path.
    TwoAt(Call),
    /// Begins with a text, a directory and a path.
    SymlinkAt,
    /// Begins with a descriptor; which arguments are position and length.
    Descriptor {
        /// What it is in a trail.
        call: Call,
        /// The argument that is a position.
        pos: Option<usize>,
        /// The argument that is a length.
        length: Option<usize>,
    },
    /// Maps a file, or memory.
    Mmap,
    /// Moves bytes between descriptors; which arguments are source, destination and length.
    Copy {
        /// What it is in a trail.
        call: Call,
        /// The argument that is read from.
        source: usize,
        /// The argument that is written to.
        target: usize,
        /// The argument that is a length.
        length: usize,
    },
    /// Without arguments.
    Sync,
    /// Makes descriptors of what isn't a file: one, or two that are connected.
    Make {
        /// What one waits for in them.
        kind: WaitKind,
        /// Whether there are two.
        pair: bool,
    },
    /// Waits; whether for the descriptor it begins with, and which argument is a length.
    Wait {
        /// What it is in a trail.
        call: Call,
        /// What it waits for.
        kind: WaitKind,
        /// Whether it begins with a descriptor.
        descriptor: bool,
        /// The argument that is a length.
        length: Option<usize>,
    },
    /// Waits for a connection and makes a descriptor of it.
    Accept,
    /// futex, whose operation says whether it waits.
    Futex,
    /// Sleeps.
    Sleep,
    /// Waits for a child.
    WaitForChild,
    /// Makes a process or a thread.
    Clone,
    /// Runs a program.
    Exec,
    /// Does what can't be seen.
    Ring,
}

/// How a path is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenForm {
    /// Path, flags.
    Open,
    /// A path.
    Creat,
    /// Directory, path, flags.
    At,
    /// Directory, path, a struct with the flags.
    At2,
}

/// What handles the call of this name; none if it is no I/O.
#[must_use]
pub fn kind(name: &[u8]) -> Option<Kind> {
    use Kind::{At, Descriptor, Path, TwoAt, TwoPaths};
    let transfer = |call, positioned, vector| Kind::Transfer { call, positioned, vector };
    let fd = |call| Descriptor { call, pos: None, length: None };
    let range = |call, pos, length| Descriptor { call, pos: Some(pos), length: Some(length) };
    let at = |call| At { call, null: false };
    let at_or_null = |call| At { call, null: true };
    let copy = |call, source, target, length| Kind::Copy { call, source, target, length };
    let wait = |call, kind| Kind::Wait { call, kind, descriptor: false, length: None };
    let wait_fd = |call, kind| Kind::Wait { call, kind, descriptor: true, length: None };
    let message = |call| Kind::Wait { call, kind: WaitKind::Socket, descriptor: true, length: Some(2) };
    let make = |kind| Kind::Make { kind, pair: false };
    let pair = |kind| Kind::Make { kind, pair: true };
    Some(match name {
        b"read" => transfer(Call::Read, false, false),
        b"write" => transfer(Call::Write, false, false),
        b"readv" => transfer(Call::Readv, false, true),
        b"writev" => transfer(Call::Writev, false, true),
        b"pread64" | b"pread" => transfer(Call::Pread, true, false),
        b"pwrite64" | b"pwrite" => transfer(Call::Pwrite, true, false),
        b"preadv" | b"preadv2" => transfer(Call::Preadv, true, true),
        b"pwritev" | b"pwritev2" => transfer(Call::Pwritev, true, true),

        b"open" => Kind::Open(OpenForm::Open),
        b"openat" => Kind::Open(OpenForm::At),
        b"openat2" => Kind::Open(OpenForm::At2),
        b"creat" => Kind::Open(OpenForm::Creat),
        b"close" => Kind::Close,
        b"close_range" => Kind::CloseRange,
        b"dup" | b"dup2" | b"dup3" => Kind::Dup,
        b"fcntl" | b"fcntl64" => Kind::Fcntl,
        b"lseek" | b"_llseek" => Kind::Lseek,

        b"stat" | b"stat64" | b"lstat" | b"lstat64" => Path(Call::Stat),
        b"access" => Path(Call::Access),
        b"statfs" | b"statfs64" => Path(Call::Statfs),
        b"truncate" | b"truncate64" => Path(Call::Truncate),
        b"unlink" => Path(Call::Unlink),
        b"readlink" => Path(Call::Readlink),
        b"mkdir" => Path(Call::Mkdir),
        b"rmdir" => Path(Call::Rmdir),
        b"chmod" => Path(Call::Chmod),
        b"chown" | b"lchown" => Path(Call::Chown),
        b"utime" | b"utimes" => Path(Call::Utimes),
        b"chdir" | b"chroot" => Path(Call::Chdir),
        b"mknod" => Path(Call::Mknod),
        b"getxattr" | b"setxattr" | b"listxattr" | b"removexattr" => Path(Call::Xattr),
        b"lgetxattr" | b"lsetxattr" | b"llistxattr" | b"lremovexattr" => Path(Call::Xattr),
        b"rename" => TwoPaths(Call::Rename),
        b"link" => TwoPaths(Call::Link),
        b"symlink" => TwoPaths(Call::Symlink),

        b"newfstatat" | b"statx" => at_or_null(Call::Stat),
        b"utimensat" => at_or_null(Call::Utimes),
        b"fstatat64" => at(Call::Stat),
        b"faccessat" | b"faccessat2" => at(Call::Access),
        b"unlinkat" => at(Call::Unlink),
        b"readlinkat" => at(Call::Readlink),
        b"mkdirat" => at(Call::Mkdir),
        b"mknodat" => at(Call::Mknod),
        b"fchmodat" | b"fchmodat2" => at(Call::Chmod),
        b"fchownat" => at(Call::Chown),
        b"futimesat" => at(Call::Utimes),
        b"renameat" | b"renameat2" => TwoAt(Call::Rename),
        b"linkat" => TwoAt(Call::Link),
        b"symlinkat" => Kind::SymlinkAt,

        b"fstat" | b"fstat64" => fd(Call::Fstat),
        b"fsync" => fd(Call::Fsync),
        b"fdatasync" => fd(Call::Fdatasync),
        b"syncfs" => fd(Call::Sync),
        b"fchmod" => fd(Call::Chmod),
        b"fchown" => fd(Call::Chown),
        b"getdents" | b"getdents64" => fd(Call::Readdir),
        b"ioctl" => fd(Call::Ioctl),
        b"fchdir" => fd(Call::Chdir),
        b"fstatfs" | b"fstatfs64" => fd(Call::Statfs),
        b"fgetxattr" | b"fsetxattr" | b"flistxattr" | b"fremovexattr" => fd(Call::Xattr),
        b"ftruncate" | b"ftruncate64" => Descriptor { call: Call::Truncate, pos: None, length: Some(1) },
        b"fallocate" => range(Call::Fallocate, 2, 3),
        b"sync_file_range" => range(Call::SyncFileRange, 1, 2),
        b"fadvise64" | b"readahead" => range(Call::Fadvise, 1, 2),

        b"mmap" | b"mmap2" => Kind::Mmap,
        b"sendfile" | b"sendfile64" => copy(Call::Sendfile, 1, 0, 3),
        b"copy_file_range" => copy(Call::CopyFileRange, 0, 2, 4),
        b"splice" => copy(Call::Splice, 0, 2, 4),
        b"tee" => copy(Call::Splice, 0, 1, 2),
        b"sync" => Kind::Sync,

        b"pipe" | b"pipe2" => pair(WaitKind::Pipe),
        b"socketpair" => pair(WaitKind::Socket),
        b"socket" => make(WaitKind::Socket),
        b"eventfd" | b"eventfd2" | b"epoll_create" | b"epoll_create1" => make(WaitKind::Event),
        b"timerfd_create" | b"signalfd" | b"signalfd4" => make(WaitKind::Event),
        b"inotify_init" | b"inotify_init1" | b"pidfd_open" => make(WaitKind::Event),
        b"userfaultfd" | b"perf_event_open" | b"io_uring_setup" => make(WaitKind::Event),

        b"accept" | b"accept4" => Kind::Accept,
        b"connect" => wait_fd(Call::Connect, WaitKind::Socket),
        b"sendto" => message(Call::Send),
        b"recvfrom" => message(Call::Recv),
        b"sendmsg" | b"sendmmsg" => wait_fd(Call::Send, WaitKind::Socket),
        b"recvmsg" | b"recvmmsg" => wait_fd(Call::Recv, WaitKind::Socket),
        b"epoll_wait" | b"epoll_pwait" | b"epoll_pwait2" => wait_fd(Call::EpollWait, WaitKind::Poll),
        b"flock" => wait_fd(Call::Flock, WaitKind::FileLock),
        b"poll" | b"ppoll" => wait(Call::Poll, WaitKind::Poll),
        b"select" | b"pselect6" | b"_newselect" => wait(Call::Select, WaitKind::Poll),
        b"semop" | b"semtimedop" => wait(Call::Semop, WaitKind::Semaphore),
        b"pause" | b"rt_sigsuspend" | b"rt_sigtimedwait" => wait(Call::Pause, WaitKind::Signal),
        b"msgrcv" | b"msgsnd" | b"mq_timedreceive" | b"mq_timedsend" => wait(Call::Message, WaitKind::Queue),
        b"futex" | b"futex_time64" => Kind::Futex,
        b"nanosleep" | b"clock_nanosleep" => Kind::Sleep,
        b"wait4" | b"waitid" | b"waitpid" => Kind::WaitForChild,

        b"clone" | b"clone3" | b"fork" | b"vfork" => Kind::Clone,
        b"execve" | b"execveat" => Kind::Exec,
        b"io_uring_enter" => Kind::Ring,
        _ => return None,
    })
}
