//! Every call a recorder knows: its number in a segment, its name in a trail, what kind it is.
//!
//! Numbers are part of the segment's layout: they are never reused, new calls go to the end of
//! their group. A trail holds the name, so that it reads the same whatever wrote it.

/// What a call does, and so which table its row goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// Moves bytes from a file to the program.
    Read,
    /// Moves bytes from the program to a file.
    Write,
    /// Asks that written bytes become durable.
    Flush,
    /// Names, attributes, descriptors and directories.
    Meta,
    /// Maps a file into memory, or ends that.
    Map,
    /// Waits for something that is not a file: a row of `sync_op`.
    Wait,
}

impl CallKind {
    /// The name in the `call` table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Meta => "meta",
            Self::Map => "map",
            Self::Wait => "wait",
        }
    }
}

impl Call {
    /// Whether a call that succeeds may be an operation, see [`Self::is_operation`].
    #[must_use]
    pub const fn may_be_operation(self) -> bool {
        match self.kind() {
            // what is asynchronous is under way when the call returns
            CallKind::Read | CallKind::Write => !matches!(self, Self::AioRead | Self::AioWrite),
            CallKind::Flush => !matches!(self, Self::AioFsync),
            CallKind::Meta => matches!(
                self,
                Self::Open
                    | Self::Creat
                    | Self::Close
                    | Self::Truncate
                    | Self::Fallocate
                    | Self::Rename
                    | Self::Unlink
                    | Self::Link
                    | Self::Symlink
                    | Self::Mkdir
                    | Self::Rmdir
                    | Self::Mknod
                    | Self::Fopen
                    | Self::Fclose
                    | Self::Mkstemp
            ),
            CallKind::Map | CallKind::Wait => false,
        }
    }

    /// Whether a call did something that a program does as often in each run: it moved bytes, made them durable, or opened, closed or
    /// changed a file. What only looks (stat, access, a read at the end) or fails is done again and again by who waits for another.
    #[must_use]
    pub const fn is_operation(self, result: i64, errno: i64) -> bool {
        let moves = matches!(self.kind(), CallKind::Read | CallKind::Write);
        self.may_be_operation() && errno == 0 && result >= 0 && (result > 0 || !moves)
    }
}

macro_rules! calls {
    ($($number:literal $variant:ident $name:literal $kind:ident $meaning:literal;)*) => {
        /// A call a program makes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Call {
            $(#[doc = $meaning] $variant = $number,)*
        }

        impl Call {
            /// Numbers of calls are below.
            pub const NUMBERS: usize = 512;

            /// All calls, by number.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The call of a number in a segment.
            #[must_use]
            pub const fn from_number(number: u16) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The name in a trail: the function's, without its 64-bit, `_chk` and similar forms.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What the call does.
            #[must_use]
            pub const fn kind(self) -> CallKind {
                match self { $(Self::$variant => CallKind::$kind,)* }
            }

            /// One line for documentation and the `call` table.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

calls! {
    1 Open "open" Meta "Open or create a file (open, openat, openat2 and their forms); result is the descriptor, flags are O_*.";
    2 Creat "creat" Meta "Create a file and open it for writing.";
    3 Close "close" Meta "Close a descriptor.";
    4 Dup "dup" Meta "Duplicate a descriptor (dup, dup2, dup3, F_DUPFD); result is the new one.";
    5 CloseRange "close_range" Meta "Close many descriptors at once (close_range, closefrom).";
    6 Lseek "lseek" Meta "Set the file position; result is the new position, flags is whence.";
    7 Stat "stat" Meta "Read the attributes of a path (stat, lstat, fstatat, statx).";
    8 Fstat "fstat" Meta "Read the attributes of a descriptor.";
    9 Access "access" Meta "Test the permissions of a path (access, faccessat, euidaccess).";
    10 Statfs "statfs" Meta "Read the attributes of a file system.";
    11 Truncate "truncate" Meta "Set the size of a file (truncate, ftruncate); length is the new size.";
    12 Fallocate "fallocate" Meta "Reserve or free blocks of a file (fallocate, posix_fallocate); flags is the mode.";
    13 Fadvise "fadvise" Meta "Announce a pattern of access (posix_fadvise, readahead).";
    14 Rename "rename" Meta "Rename a file; file2 is the new name.";
    15 Unlink "unlink" Meta "Remove a name (unlink, remove, unlinkat without AT_REMOVEDIR).";
    16 Link "link" Meta "Give a file a second name; file2 is the new name.";
    17 Symlink "symlink" Meta "Create a symbolic link; file is the link.";
    18 Readlink "readlink" Meta "Read a symbolic link.";
    19 Mkdir "mkdir" Meta "Create a directory.";
    20 Rmdir "rmdir" Meta "Remove a directory (rmdir, unlinkat with AT_REMOVEDIR).";
    21 Opendir "opendir" Meta "Open a directory for listing.";
    22 Readdir "readdir" Meta "Read directory entries; calls says for how many calls of the program the row stands.";
    23 Closedir "closedir" Meta "Close a listed directory.";
    24 Chdir "chdir" Meta "Change the working directory (chdir, fchdir) or the root (chroot).";
    25 Chmod "chmod" Meta "Change permissions.";
    26 Chown "chown" Meta "Change owner or group.";
    27 Utimes "utimes" Meta "Change times.";
    28 Xattr "xattr" Meta "Read, list, set or remove extended attributes.";
    29 Fcntl "fcntl" Meta "Change or read properties of a descriptor; flags is the command. F_GETFD, F_SETFD and F_GETFL have no row.";
    30 Ioctl "ioctl" Meta "A device request on a file; flags is the request.";
    31 Mknod "mknod" Meta "Create a special file (mknod, mkfifo).";
    32 Fopen "fopen" Meta "Open a stdio stream (fopen, freopen); result is the descriptor.";
    33 Fclose "fclose" Meta "Close a stdio stream, writing what its buffer still held.";
    34 Fseek "fseek" Meta "Set the position of a stdio stream (fseek, fseeko, rewind, fsetpos).";
    35 Mkstemp "mkstemp" Meta "Create a temporary file (mkstemp, mkostemp, tmpfile, memfd_create).";
    36 Fdopen "fdopen" Meta "Make a stdio stream of a descriptor that is open already; result is the descriptor.";
    37 Fdopendir "fdopendir" Meta "List the directory of a descriptor that is open already; result is the descriptor.";

    64 Read "read" Read "Read at the file position.";
    65 Pread "pread" Read "Read at a given position.";
    66 Readv "readv" Read "Read at the file position into several buffers.";
    67 Preadv "preadv" Read "Read at a given position into several buffers (preadv, preadv2); flags are RWF_*.";
    68 Fread "fread" Read "A stdio read that had to fill the stream's buffer; length and result are what the kernel moved.";
    69 Sendfile "sendfile" Read "Move bytes from a file to a descriptor inside the kernel; file2 is the destination.";
    70 CopyFileRange "copy_file_range" Read "Copy between two files inside the kernel; file2 is the destination.";
    71 Splice "splice" Read "Move bytes between a descriptor and a pipe (splice, tee, vmsplice); file2 is the destination.";
    72 AioRead "aio_read" Read "Read asynchronously (aio_read, lio_listio, io_submit): from the submission until the program took the result.";

    96 Write "write" Write "Write at the file position.";
    97 Pwrite "pwrite" Write "Write at a given position.";
    98 Writev "writev" Write "Write at the file position from several buffers.";
    99 Pwritev "pwritev" Write "Write at a given position from several buffers (pwritev, pwritev2); flags are RWF_*.";
    100 Fwrite "fwrite" Write "A stdio write that made the stream's buffer reach the kernel; length and result are what the kernel moved.";
    101 Fflush "fflush" Write "A stdio stream's buffer was handed to the kernel by fflush, or ahead of fseek, fclose or exit; length and result are what it moved.";
    102 SpliceWrite "splice_write" Write "Move bytes from a pipe into a file (splice).";
    103 AioWrite "aio_write" Write "Write asynchronously (aio_write, lio_listio, io_submit): from the submission until the program took the result.";

    128 Fsync "fsync" Flush "Make a file and its attributes durable.";
    129 Fdatasync "fdatasync" Flush "Make a file's data durable.";
    130 SyncFileRange "sync_file_range" Flush "Start or await write-back of a range; flags are SYNC_FILE_RANGE_*.";
    131 Sync "sync" Flush "Make a whole file system durable (sync, syncfs).";
    132 AioFsync "aio_fsync" Flush "Make a file durable asynchronously (aio_fsync, io_submit): from the submission until the program took the result.";

    160 Mmap "mmap" Map "Map a file; result is the address, flags are PROT_* in the low 8 bits, then MAP_*.";
    161 Munmap "munmap" Map "End a mapping of a file.";
    162 Msync "msync" Map "Make a mapping durable; flags are MS_*.";
    163 Madvise "madvise" Map "Announce a pattern of access to a mapping of a file; flags is the advice.";

    192 Accept "accept" Wait "Wait for a connection; result is the descriptor.";
    193 Connect "connect" Wait "Connect a socket.";
    194 Send "send" Wait "Send on a socket (send, sendto, sendmsg, sendmmsg).";
    195 Recv "recv" Wait "Receive from a socket (recv, recvfrom, recvmsg, recvmmsg).";
    196 Poll "poll" Wait "Wait until one of several descriptors is ready (poll, ppoll); object and fd are the first that can be read (--causal).";
    197 Select "select" Wait "Wait until one of several descriptors is ready (select, pselect); object and fd are the first that can be read (--causal).";
    198 EpollWait "epoll_wait" Wait "Wait for events (epoll_wait, epoll_pwait, epoll_pwait2).";
    199 MutexLock "pthread_mutex_lock" Wait "Wait for a mutex; only locks that had to wait have a row.";
    200 RwlockRdlock "pthread_rwlock_rdlock" Wait "Wait for a shared lock; only those that had to wait.";
    201 RwlockWrlock "pthread_rwlock_wrlock" Wait "Wait for an exclusive lock; only those that had to wait.";
    202 CondWait "pthread_cond_wait" Wait "Wait for a condition (wait, timedwait, clockwait).";
    203 BarrierWait "pthread_barrier_wait" Wait "Wait at a barrier.";
    204 SemWait "sem_wait" Wait "Wait for a semaphore; only those that had to wait.";
    205 Semop "semop" Wait "System V semaphore operations.";
    206 PthreadJoin "pthread_join" Wait "Wait for a thread to end.";
    207 Wait "wait" Wait "Wait for a child process (wait, waitpid, wait3, wait4, waitid, system, pclose); peer is its pid, 0 if none had ended.";
    208 Sleep "sleep" Wait "Sleep (sleep, usleep, nanosleep, clock_nanosleep).";
    209 Pause "pause" Wait "Wait for a signal (pause, sigsuspend, sigwait, sigwaitinfo, sigtimedwait); seq is the signal, peer its sender, where the call says so (--causal).";
    210 Flock "flock" Wait "Lock a file (flock, lockf, fcntl F_SETLK, F_SETLKW).";
    211 Futex "futex" Wait "A futex wait made through syscall().";
    212 Message "message" Wait "System V or POSIX message queues.";
    213 SpinLock "pthread_spin_lock" Wait "Wait for a spin lock; only those that had to wait.";
    214 MutexUnlock "pthread_mutex_unlock" Wait "Free a mutex (--causal).";
    215 RwlockUnlock "pthread_rwlock_unlock" Wait "Free a shared or exclusive lock (--causal).";
    216 CondSignal "pthread_cond_signal" Wait "Wake one that waits for a condition (--causal).";
    217 CondBroadcast "pthread_cond_broadcast" Wait "Wake all that wait for a condition (--causal).";
    218 SemPost "sem_post" Wait "Let one more pass a semaphore (--causal).";
    219 PthreadCreate "pthread_create" Wait "Start a thread; peer is its handle. It begins with a row of its own, whose object is that handle (--causal).";
    220 Socketpair "socketpair" Wait "Make two sockets that are connected; object and peer are the two ends (--causal).";
    221 SpinUnlock "pthread_spin_unlock" Wait "Free a spin lock (--causal).";
    222 Eventfd "eventfd" Wait "Make an event counter; length is its first value (--causal).";
    223 BarrierInit "pthread_barrier_init" Wait "Make a barrier; length is for how many threads (--causal).";

    224 MpiInit "MPI_Init" Wait "Start of MPI (MPI_Init, MPI_Init_thread).";
    225 MpiFinalize "MPI_Finalize" Wait "End of MPI.";
    226 MpiBarrier "MPI_Barrier" Wait "Wait for all ranks of a communicator.";
    227 MpiSend "MPI_Send" Wait "Send to a rank (MPI_Send, Ssend, Bsend, Rsend); peer is its rank.";
    228 MpiRecv "MPI_Recv" Wait "Receive from a rank; peer is its rank, -1 any.";
    229 MpiSendrecv "MPI_Sendrecv" Wait "Send to one rank and receive from another; peer is the source.";
    230 MpiWait "MPI_Wait" Wait "Wait for requests (MPI_Wait, Waitall, Waitany, Waitsome).";
    231 MpiProbe "MPI_Probe" Wait "Wait until a message is there; peer is the source.";
    232 MpiBcast "MPI_Bcast" Wait "Broadcast; peer is the root.";
    233 MpiReduce "MPI_Reduce" Wait "Reduce to a root; peer is the root.";
    234 MpiAllreduce "MPI_Allreduce" Wait "Reduce to all ranks.";
    235 MpiGather "MPI_Gather" Wait "Gather to a root (MPI_Gather, Gatherv).";
    236 MpiScatter "MPI_Scatter" Wait "Scatter from a root (MPI_Scatter, Scatterv).";
    237 MpiAllgather "MPI_Allgather" Wait "Gather to all ranks (MPI_Allgather, Allgatherv).";
    238 MpiAlltoall "MPI_Alltoall" Wait "Every rank to every rank (MPI_Alltoall, Alltoallv).";
    239 MpiScan "MPI_Scan" Wait "Prefix reduction (MPI_Scan, Exscan, Reduce_scatter).";
    240 MpiIsend "MPI_Isend" Wait "Begin to send (MPI_Isend, Issend, Ibsend, Irsend; MPI_Start of such a request); result is the request (--causal).";
    241 MpiIrecv "MPI_Irecv" Wait "Begin to receive (MPI_Irecv; MPI_Start of such a request); result is the request (--causal).";
    242 MpiTest "MPI_Test" Wait "Look whether requests are complete (MPI_Test, Testall, Testany, Testsome); only where one was (--causal).";
    243 MpiStatus "MPI_Status" Wait "A request that a call completed, one row each; seq is the request, peer and tag those of the message (--causal).";
    244 MpiIbarrier "MPI_Ibarrier" Wait "Begin to wait for all ranks (--causal).";
    245 MpiIbcast "MPI_Ibcast" Wait "Begin to broadcast; peer is the root (--causal).";
    246 MpiIreduce "MPI_Ireduce" Wait "Begin to reduce to a root; peer is the root (--causal).";
    247 MpiIallreduce "MPI_Iallreduce" Wait "Begin to reduce to all ranks (--causal).";
    248 MpiIgather "MPI_Igather" Wait "Begin to gather to a root (MPI_Igather, Igatherv); peer is the root (--causal).";
    249 MpiIscatter "MPI_Iscatter" Wait "Begin to scatter from a root (MPI_Iscatter, Iscatterv); peer is the root (--causal).";
    250 MpiIallgather "MPI_Iallgather" Wait "Begin to gather to all ranks (MPI_Iallgather, Iallgatherv) (--causal).";
    251 MpiIalltoall "MPI_Ialltoall" Wait "Begin every rank to every rank (MPI_Ialltoall, Ialltoallv, Ialltoallw) (--causal).";
    252 MpiIscan "MPI_Iscan" Wait "Begin a prefix reduction (MPI_Iscan, Iexscan, Ireduce_scatter) (--causal).";
    253 MpiComm "MPI_Comm_split" Wait "Make a communicator (MPI_Comm_dup, split, create and the like); object is the one it is made of (--causal).";
    254 MpiWin "MPI_Win_fence" Wait "Synchronise one-sided access (MPI_Win_create, fence and the like) (--causal).";
    255 MpiFile "MPI_File_write_all" Wait "A collective call of MPI-IO (--causal).";
    256 MpiSsend "MPI_Ssend" Wait "Send to a rank, which has begun to receive when the call returns (--causal; else MPI_Send).";
    257 MpiIssend "MPI_Issend" Wait "Begin to send to a rank, which has begun to receive when the request is complete (MPI_Issend; MPI_Start of such a request); result is the request (--causal).";
    258 MpiNeighbor "MPI_Neighbor_alltoall" Wait "Exchange with the neighbours of a topology (MPI_Neighbor_allgather, alltoall and their forms) (--causal).";
    259 MpiIneighbor "MPI_Ineighbor_alltoall" Wait "Begin to exchange with the neighbours of a topology; result is the request (--causal).";
    260 MpiIcomm "MPI_Comm_idup" Wait "Begin to make a communicator; result is the request, object the communicator it is made of (--causal).";
    261 MpiIfile "MPI_File_iwrite_all" Wait "Begin a collective call of MPI-IO (MPI_File_iread_all, iwrite_all and their forms); result is the request (--causal).";
    262 MpiMprobe "MPI_Mprobe" Wait "Take a message out of those that other calls can receive (MPI_Mprobe; MPI_Improbe where there was one); result is the message (--causal).";
    263 MpiMrecv "MPI_Mrecv" Wait "Receive a message that MPI_Mprobe took; seq is the message (--causal).";
    264 MpiImrecv "MPI_Imrecv" Wait "Begin to receive a message that MPI_Mprobe took; seq is the message, result the request (--causal).";

    265 Fork "fork" Wait "Begin as a copy of a process, from the call of fork there; peer is the thread that made it (--causal).";
    266 Kill "kill" Wait "Send a signal to a process or thread (kill, tgkill, pthread_kill, sigqueue); peer is the process, seq the signal, object the handle of the thread (--causal).";
    267 Setitimer "setitimer" Wait "Have the process sent SIGALRM after a time (setitimer with ITIMER_REAL, alarm, ualarm); length is that time, ns, 0 never; seq is the time between later ones, ns, 0 if none follow (--causal).";

    272 SemInit "sem_init" Wait "Make a semaphore; length is how many may pass at first (--causal).";

    288 MpiWinPost "MPI_Win_post" Wait "Let the processes of a group access a window of this one; MPI_Group says which (--causal).";
    289 MpiWinStart "MPI_Win_start" Wait "Begin to access windows of the processes of a group; MPI_Group says which (--causal).";
    290 MpiWinComplete "MPI_Win_complete" Wait "End the accesses that MPI_Win_start began (--causal).";
    291 MpiWinWait "MPI_Win_wait" Wait "Wait until those that MPI_Win_post let access the window have ended that (MPI_Win_wait; MPI_Win_test where they had) (--causal).";
    292 MpiGroup "MPI_Group" Wait "A process of the group of MPI_Win_post or MPI_Win_start, one row each; peer is its rank (--causal).";
    293 MpiWinLock "MPI_Win_lock" Wait "Lock the window of a rank (peer), or share the locks of all (MPI_Win_lock_all); flags are as of flock (--causal).";
    294 MpiWinUnlock "MPI_Win_unlock" Wait "Give such a lock back (MPI_Win_unlock, unlock_all) (--causal).";
    295 MpiWinFlush "MPI_Win_flush" Wait "Complete accesses to the window of a rank (peer), or of all (MPI_Win_flush, flush_local, flush_all, flush_local_all) (--causal).";
}

macro_rules! waits {
    ($($number:literal $variant:ident $name:literal;)*) => {
        /// What a row of `sync_op` waited for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum WaitKind { $(#[doc = $name] $variant = $number,)* }

        impl WaitKind {
            /// The kind of a number in a segment.
            #[must_use]
            pub const fn from_number(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)* _ => None }
            }

            /// The name in a trail.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

waits! {
    1 Pipe "pipe";
    2 Socket "socket";
    3 Poll "poll";
    4 Lock "lock";
    5 Condition "condition";
    6 Barrier "barrier";
    7 Semaphore "semaphore";
    8 Process "process";
    9 Thread "thread";
    10 Sleep "sleep";
    11 Signal "signal";
    12 FileLock "file_lock";
    13 Terminal "terminal";
    14 Event "event";
    15 Queue "queue";
    16 Mpi "mpi";
    17 Futex "futex";
}

/// Added to an operation of flock(2) where a file that was opened has the lock, and not the process (fcntl(2), "Open file description
/// locks").
pub const LOCK_OF_OPEN_FILE: i64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        let mut names = std::collections::HashSet::new();
        for call in Call::ALL {
            assert_eq!(Call::from_number(*call as u16), Some(*call));
            assert!((*call as usize) < Call::NUMBERS);
            assert!(names.insert(call.name()), "{} twice", call.name());
            assert!(!call.meaning().is_empty());
        }
        assert_eq!(Call::from_number(0), None, "0 marks an empty slot");
    }
}
