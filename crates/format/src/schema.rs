//! The record types: every table of a trail, its columns, their types, units and meanings.
//!
//! This is the one place where a table is described. The trail writer, the SQL engine's comments,
//! the documentation and the tests read it (`iotrail-native schema` prints it as JSON). Columns are
//! only ever added, at the end, and nullable; a reader of an older trail sees null.

/// Type of a column. All integers are signed 64-bit, because Spark has no unsigned ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    /// Signed 64-bit integer.
    BigInt,
    /// UTF-8 text (bytes that are not UTF-8 are replaced), dictionary-encoded at rest.
    Text,
    /// IEEE 754 double.
    Double,
}

impl ColumnType {
    /// The SQL name.
    #[must_use]
    pub const fn sql(self) -> &'static str {
        match self {
            Self::BigInt => "BIGINT",
            Self::Text => "VARCHAR",
            Self::Double => "DOUBLE",
        }
    }
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Name.
    pub name: &'static str,
    /// Type.
    pub ty: ColumnType,
    /// Unit (`ns`, `bytes`, …), empty if it has none.
    pub unit: &'static str,
    /// Whether null is possible.
    pub nullable: bool,
    /// One line, with what null means.
    pub meaning: &'static str,
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Name.
    pub name: &'static str,
    /// One line.
    pub meaning: &'static str,
    /// Columns in order.
    pub columns: &'static [Column],
    /// Order of the rows in a file.
    pub order: &'static [&'static str],
}

macro_rules! table {
    ($(#[$doc:meta])* $konst:ident, $name:literal, $meaning:literal, order [$($order:literal),*],
     $($column:ident $ty:ident $unit:literal $null:ident $text:literal;)*) => {
        $(#[$doc])*
        pub const $konst: Table = Table {
            name: $name,
            meaning: $meaning,
            order: &[$($order),*],
            columns: &[$(Column {
                name: stringify!($column),
                ty: ColumnType::$ty,
                unit: $unit,
                nullable: table!(@null $null),
                meaning: $text,
            },)*],
        };
    };
    (@null some) => { false };
    (@null null) => { true };
}

table! {
    /// Calls on files.
    FILE_OP, "file_op", "One call of a program on a file.", order ["thread", "ts"],
    ts BigInt "ns" some "Start, since the epoch.";
    dur BigInt "ns" null "Time until it returned; null if it never did (result is null too) or unknown.";
    node Text "" some "Machine (one boot of it).";
    thread BigInt "" some "Thread that called.";
    crumb BigInt "" some "Breadcrumb; 0 none.";
    call Text "" some "Name of the call; table call says what it does.";
    file BigInt "" null "File it acted on; null unknown.";
    file2 BigInt "" null "Second file (rename, link, copies); null none.";
    fd BigInt "" null "Descriptor; null none.";
    pos BigInt "bytes" null "Offset in the file; null where the call has none.";
    length BigInt "bytes" null "Bytes asked for; null where the call has none.";
    result BigInt "" null "What it returned: bytes moved, a descriptor, 0, -1; null unfinished.";
    errno BigInt "" some "Error number; 0 success.";
    flags BigInt "" null "Flags of the call (O_*, whence, PROT_*, RWF_* …); null none.";
    calls BigInt "" some "Calls of the program this row stands for: more than 1 where stdio buffered.";
    trace_row BigInt "" null "Row in the imported trace, which orders rows of equal ts; null if recorded.";
}

table! {
    /// Calls that wait.
    SYNC_OP, "sync_op", "One call in which a program waits for something that is not a file.", order ["thread", "ts"],
    ts BigInt "ns" some "Start, since the epoch.";
    dur BigInt "ns" null "Time until it returned; null if it never did.";
    node Text "" some "Machine (one boot of it).";
    thread BigInt "" some "Thread that called.";
    crumb BigInt "" some "Breadcrumb; 0 none.";
    call Text "" some "Name of the call.";
    kind Text "" some "What it waited for: lock, condition, socket, pipe, poll, process, sleep, mpi …";
    object BigInt "" null "Lock's address, or id of the pipe, socket (the end of a connection that the process has), event counter, file, or MPI communicator, window or file; null none.";
    peer BigInt "" null "Who it waited for, or whom it sends a signal: pid, thread handle or rank (of MPI_COMM_WORLD if recorded with --causal); of connections their other end (--causal), of conditions their mutex; null unknown.";
    fd BigInt "" null "Descriptor; null none.";
    length BigInt "bytes" null "Bytes asked for, of locks of files those locked (0: to the end; null: all, by flock), or nanoseconds for sleep; null none.";
    result BigInt "" null "What it returned; of calls that begin an MPI request or take a message the handle of that; null unfinished.";
    errno BigInt "" some "Error number; 0 success.";
    seq BigInt "" null "Of MPI collectives their number on the communicator, window or file, of what completes an MPI request or receives a message taken before the handle of that, of event counters what was added or taken, of signals their number, of connections in the domain of UNIX what they were made to, of semaphores and barriers that are made whether processes share them, of locks of files the first byte; null none, not known, or not recorded with --causal.";
    tag BigInt "" null "MPI tag; null none, or not recorded with --causal.";
    flags BigInt "" null "Of calls that lock files or windows of MPI the operation, as flock(2) has it (LOCK_*), and 16 if a file that was opened has the lock (F_OFD_*); null none.";
}

table! {
    /// Program images.
    PROCESS, "process", "One run of one program image: fork and exec each begin a new one.", order ["start_ts"],
    node Text "" some "Machine (one boot of it).";
    process BigInt "" some "Id.";
    pid BigInt "" some "Process id of the system.";
    name Text "" some "Name of the executable's file.";
    role Text "" null "Part it plays (rank, daemon); null none.";
    rank BigInt "" null "MPI rank; null none.";
    start_ts BigInt "ns" some "When the image began.";
    end_ts BigInt "ns" null "When it ended; null if it still ran when recording ended.";
    parent BigInt "" null "Process that forked or exec'd it; null unknown.";
    exe Text "" null "Path of the executable; null unknown.";
    cmd Text "" null "Command line; null unknown.";
    cwd Text "" null "Working directory at the start; null unknown.";
    ended Text "" some "exit, exec, killed (no word at the end) or running.";
    status BigInt "" null "Exit status; null unknown.";
    user_ns BigInt "ns" null "CPU time in the program; null unknown.";
    system_ns BigInt "ns" null "CPU time in the kernel; null unknown.";
    minor_faults BigInt "" null "Page faults without I/O; null unknown.";
    major_faults BigInt "" null "Page faults that read from storage; null unknown.";
}

table! {
    /// Threads.
    THREAD, "thread", "One thread of a process.", order ["start_ts"],
    node Text "" some "Machine (one boot of it).";
    thread BigInt "" some "Id.";
    pid BigInt "" some "Process id of the system.";
    tid BigInt "" some "Thread id of the system.";
    process BigInt "" some "Process.";
    name Text "" null "Name; null none given.";
    start_ts BigInt "ns" some "When it began.";
    end_ts BigInt "ns" null "When it ended; null if it still ran when recording ended.";
}

table! {
    /// Names of files.
    FILE, "file", "The path of a file id.", order ["file"],
    node Text "" some "Machine (one boot of it).";
    file BigInt "" some "Id: a hash of the path.";
    path Text "" some "Absolute path as the program named it; pipes, sockets and the like in brackets.";
}

table! {
    /// Clocks.
    CLOCK, "clock", "Wall clock against ts: one row at the start, at the end and at each step.", order ["ts"],
    ts BigInt "ns" some "Moment on the trail's clock (monotonic plus one constant per boot).";
    node Text "" some "Machine (one boot of it).";
    wall BigInt "ns" some "Wall clock at that moment.";
    event Text "" some "start, step or end.";
}

table! {
    /// How the trail came to be.
    RECORDING, "recording", "How the trail was made: one row a fact.", order ["name"],
    node Text "" some "Machine (one boot of it).";
    name Text "" some "Fact: command, kernel, version, device of a path, memory, exit status …";
    value Text "" null "Its value.";
}

table! {
    /// What the trail doesn't hold.
    UNSEEN, "unseen", "What the recorder knows it could not see, or had to drop.", order ["kind"],
    node Text "" some "Machine (one boot of it).";
    kind Text "" some "static_program, setuid_program, io_uring_setup, io_uring_enter, mapped_file, dropped, requests_not_collected …";
    process BigInt "" null "Process concerned; null the whole recording.";
    file BigInt "" null "File concerned; null none.";
    amount BigInt "" some "How many (programs, rings, enters, calls) or how much (bytes of mapped files).";
    detail Text "" null "A sentence for people.";
}

table! {
    /// Requests at components.
    SERVICE_OP, "service_op", "One request at one component, from its arrival to its reply.", order ["crumb", "ts"],
    ts BigInt "ns" some "Arrival, since the epoch.";
    dur BigInt "ns" null "Time until the reply; null if there was none.";
    node Text "" some "Machine (one boot of it).";
    thread BigInt "" some "Thread on which it ended.";
    crumb BigInt "" some "Breadcrumb; 0 none.";
    component Text "" some "Part of the system that worked on it.";
    kind Text "" some "server: serves a request; client: waits for another component; internal: neither; event: a moment of one of these.";
    op Text "" some "What was asked for.";
    client Text "" null "User on whose behalf; null as that of the request it is part of.";
    status BigInt "" null "0 success, else an error number; null unfinished.";
    file BigInt "" null "File it is about; null none.";
    pos BigInt "bytes" null "Offset in the file; null none.";
    length BigInt "bytes" null "Bytes it is about; null none.";
    trace_hi BigInt "" null "Upper half of the id of its OpenTelemetry trace, as its bits are; null none.";
    trace_lo BigInt "" null "Lower half of that; null none.";
    span BigInt "" null "Number its system gave it: id of an OpenTelemetry span as its bits are, tid of a Ceph request; null none.";
    weight BigInt "" null "Requests that its request stands for, itself with them, where a sample was collected; 0 it is there for the paths of others; null 1.";
}

table! {
    /// Which request works for which.
    STITCH, "stitch", "One breadcrumb works for another one.", order ["crumb", "ts"],
    ts BigInt "ns" some "When it was said, on the clock of the child's node.";
    dur BigInt "ns" null "0.";
    node Text "" some "Machine of the child (one boot of it).";
    thread BigInt "" some "Thread that said it.";
    crumb BigInt "" some "The child: what works for the parent.";
    parent_node Text "" some "Machine of the parent.";
    parent_crumb BigInt "" some "The parent.";
    kind Text "" some "rpc: the parent's request in another process; split: a part of it; coalesce: one of several parents.";
    weight BigInt "" some "Share of the parent in the child's cost, against the child's other parents.";
    how Text "" null "How it is known: name, order or time if it was joined by that; null the system said it.";
}

table! {
    /// Buffer caches.
    BUFFER_OP, "buffer_op", "One access to a buffer cache.", order ["crumb", "ts"],
    ts BigInt "ns" some "Start, since the epoch.";
    dur BigInt "ns" null "Time it took; 0 an instant.";
    node Text "" some "Machine (one boot of it).";
    thread BigInt "" some "Thread that did it.";
    crumb BigInt "" some "Breadcrumb; 0 none.";
    component Text "" some "Part of the system whose cache it is.";
    cache Text "" some "Which of its caches.";
    kind Text "" some "read_hit, read_miss, write, read_ahead, flush or evict.";
    file BigInt "" null "File; null none.";
    pos BigInt "bytes" null "Offset in the file; null none.";
    length BigInt "bytes" null "Bytes; null none.";
    pruned BigInt "" null "1 if the request it was for was pruned, so that rollups count it; null not.";
}

table! {
    /// Messages.
    NETWORK_TRANSMIT, "network_transmit", "One message sent from one component to another.", order ["crumb", "ts"],
    ts BigInt "ns" some "When it was sent, since the epoch.";
    dur BigInt "ns" null "Time the sending took; 0 an instant.";
    node Text "" some "Machine of the sender (one boot of it).";
    thread BigInt "" some "Thread that sent it.";
    crumb BigInt "" some "Breadcrumb; 0 none.";
    sender Text "" some "Who sent it.";
    receiver Text "" some "Who receives it.";
    length BigInt "bytes" some "Bytes sent.";
    weight BigInt "" null "Requests that its request stands for, itself with them, where a sample was collected; 0 it is there for the paths of others; null 1.";
}

table! {
    /// Disk I/O.
    DISK_OP, "disk_op", "One request to a disk.", order ["crumb", "ts"],
    ts BigInt "ns" some "When it was queued, since the epoch.";
    dur BigInt "ns" null "Time until it was completed; null if it never was.";
    node Text "" some "Machine (one boot of it).";
    thread BigInt "" some "Thread that queued it.";
    crumb BigInt "" some "Breadcrumb; 0 none.";
    kind Text "" some "program: posted by the program that uses the disk; kernel: seen in the block layer; emulated: answered by an emulated disk.";
    dev Text "" some "Disk.";
    op Text "" some "read, write, flush, discard …";
    pos BigInt "bytes" null "Offset on the disk; null none.";
    length BigInt "bytes" null "Bytes; null none.";
    issued BigInt "ns" null "When the disk got it, since the epoch; null unknown.";
    merged BigInt "" some "1 if it joined a request queued before, with which it was issued; else 0.";
    pid BigInt "" null "Process that queued it; null unknown.";
    flags BigInt "" null "Sum of 1 somebody waits for it, 2 a file system's own structures, 4 only on the medium (FUA), 8 cache emptied first, 16 read ahead; null unknown.";
    pruned BigInt "" null "1 if the request it was for was pruned, so that rollups count it; null not.";
    weight BigInt "" null "Requests that its request stands for, itself with them, where a sample was collected; 0 it is there for the paths of others; null 1.";
    model_dur BigInt "ns" null "Time until it was completed by the model of an emulated disk; null not emulated.";
    requests BigInt "" null "Requests that the disk got and that begin with it: 0 it is in others', more than 1 it was cut; null unknown, or not issued.";
}

table! {
    /// Where files lie.
    EXTENT, "extent", "A part of a file on a device, as a request to the device names it.", order ["ts"],
    ts BigInt "ns" some "When the request was issued, since the epoch.";
    node Text "" some "Machine (one boot of it).";
    device BigInt "" some "Device: the file that its requests act on.";
    pos BigInt "bytes" some "Offset on the device.";
    length BigInt "bytes" some "Bytes.";
    file BigInt "" some "File.";
    file_pos BigInt "bytes" null "Offset in the file; null unknown.";
}

table! {
    /// Time on a CPU.
    CPU_SLICE, "cpu_slice", "One stretch of time that a thread, or a task on a thread, ran.", order ["thread", "ts"],
    ts BigInt "ns" some "When it began to run, since the epoch.";
    dur BigInt "ns" null "How long it ran; null if it still did.";
    node Text "" some "Machine (one boot of it).";
    thread BigInt "" some "Thread that ran.";
    crumb BigInt "" some "Breadcrumb it worked for; 0 none.";
    kind Text "" some "kernel: between two switches of the scheduler; user: a task between two switches of its program.";
    cpu BigInt "" null "CPU; null unknown.";
    pid BigInt "" null "Process id of the system; null unknown.";
    tid BigInt "" null "Thread id of the system; null unknown.";
    state Text "" null "What it went on to: runnable, sleep, disk, ended; null unknown or still on the CPU.";
    cpu_ns BigInt "ns" null "Of dur on a CPU: of kind kernel all, of kind user by the thread's own clock; null unknown.";
}

table! {
    /// Who woke whom.
    WAKE, "wake", "A moment in which the kernel woke a thread that slept, in recordings with --causal and --kernel=cpu.", order ["thread", "ts"],
    ts BigInt "ns" some "When, since the epoch.";
    node Text "" some "Machine (one boot of it).";
    thread BigInt "" some "Thread that was woken.";
    waker BigInt "" null "Thread whose call woke it; null: an interrupt (a timer, a device, the network), or a thread that is not recorded.";
    context Text "" some "thread: a thread that ran woke it; interrupt: an interrupt did, whoever ran.";
}

table! {
    /// What threads did with their time.
    THREAD_TIME, "thread_time", "CPU time of a thread over a stretch of time: from its own clock, or from the scheduler.", order ["thread", "ts"],
    ts BigInt "ns" some "Start of the stretch, since the epoch.";
    dur BigInt "ns" null "Its length.";
    node Text "" some "Machine (one boot of it).";
    thread BigInt "" some "Thread.";
    source Text "" some "thread: read by the thread itself where calls begin and end; scheduler: sampled beside the program. Both cover the same time.";
    cpu_ns BigInt "ns" null "Time on a CPU; null unknown.";
    outside_ns BigInt "ns" null "Of it outside recorded calls; null unknown.";
    io_cpu_ns BigInt "ns" null "Of it in calls on files; null unknown.";
    wait_cpu_ns BigInt "ns" null "Of it in calls that wait: spinning; null unknown.";
    away_ns BigInt "ns" null "Time off a CPU outside recorded calls; null unknown.";
    queued_ns BigInt "ns" null "Time in which it could run and no CPU was free, in calls too; null unknown.";
    minor_faults BigInt "" null "Page faults without I/O; null unknown.";
    major_faults BigInt "" null "Page faults that read from storage; null unknown.";
    voluntary_switches BigInt "" null "How often it gave its CPU away to wait for something, in calls too; null unknown.";
}

table! {
    /// What threads computed between their calls.
    COMPUTE, "compute", "Time of a thread between two of its calls, of recordings with --causal.", order ["thread", "ts"],
    ts BigInt "ns" some "When the call before it returned, since the epoch.";
    dur BigInt "ns" null "Time until the next one began.";
    node Text "" some "Machine (one boot of it).";
    thread BigInt "" some "Thread.";
    cpu_ns BigInt "ns" null "Of it on a CPU; null unknown.";
    call_cpu_ns BigInt "ns" null "Time on a CPU in the call before it, if that is one of sync_op that sleeps while it waits, or starts or ends MPI (then at most as long as it took after all others had come); else null.";
    ready_ns BigInt "ns" null "Of it waiting for a CPU; null unknown.";
    unexplained_ns BigInt "ns" null "The rest; null unknown.";
}

table! {
    /// What lets others go on.
    SIGNAL, "signal", "A moment from which those that wait for an edge can go on: each edge has one or several.", order ["thread", "ts"],
    ts BigInt "ns" some "When, since the epoch: its thread had done all that it did before.";
    node Text "" some "Machine (one boot of it).";
    thread BigInt "" some "Thread that let them go on.";
    edge BigInt "" some "Number of the edge.";
    kind Text "" some "What it is: message; rendezvous: a message's receiver is ready; collective; stream: bytes of a pipe or connection; room: space in a pipe; connection: made and accepted; event: counted by an eventfd; semaphore, condition, barrier; exposure and access: of MPI windows, begun by MPI_Win_post and ended by MPI_Win_complete; begin and end of a thread or process; name: a file that was looked for again and again is made; hidden: no call shows it (shared memory). Of woken ones the kind of sync_op.";
    how Text "" some "How it is known: matched: calls on one thing belong together; woken: the kernel woke the other in a call of this thread; throttled: others waited when this thread was paused.";
}

table! {
    /// What waits for signals.
    WAIT, "wait", "A call that returns when all signals of an edge have been given.", order ["thread", "ts"],
    ts BigInt "ns" some "Start of the call, since the epoch.";
    dur BigInt "ns" null "Time until it returned; null if it never did.";
    node Text "" some "Machine (one boot of it).";
    thread BigInt "" some "Thread that waited.";
    edge BigInt "" null "Number of the edge; null: nothing recorded explains why it waited.";
    kind Text "" some "As of the signals; without an edge the kind of sync_op.";
    how Text "" some "As of the signals; lock: for a lock, which is contended for again when the trail is replayed; none: nothing says.";
    style Text "" some "What it did meanwhile: sleep, yield (look and give the CPU away), spin.";
    within BigInt "" null "Operations of a thread that gives a signal by which that may be given later; null without an edge.";
    until_edge BigInt "" null "The edge whose signals would have ended the wait earlier, of timeouts, or made it needless, of looking for a file again: the beginning of a process that slept meanwhile, and the wait for its end; null none, or not known.";
}

table! {
    /// What decided how long a run took.
    CRITICAL_PATH, "critical_path", "The critical path: stretches of time, one after the other from the end of the run back to its start, in each of which one thread did what all waited for.", order ["ts"],
    ts BigInt "ns" some "Start, since the epoch.";
    dur BigInt "ns" null "Its length.";
    node Text "" some "Machine (one boot of it).";
    thread BigInt "" some "Thread.";
    edge BigInt "" null "Edge by which it came to be this thread's turn; null: where the path begins.";
}

table! {
    /// What a cluster consists of.
    MEMBER, "member", "Changes of what a cluster consists of: one row a change, the newest of a member holds.", order ["ts"],
    ts BigInt "ns" some "When it was seen, since the epoch.";
    node Text "" some "Machine (one boot of it); of a member seen only from afar the machine that saw it.";
    process BigInt "" null "Its process; null a machine, or seen only from afar.";
    member Text "" some "Its name in the cluster: osd.3, client.4150, or the machine's.";
    role Text "" some "Part it plays: host, client, mds, osd, mon, nfs …";
    place Text "" null "Where it stands, from the outside in, separated by /: rack/host; null unknown.";
    state Text "" some "up, standby, down (doesn't answer), failed (the cluster says so) or left.";
    detail Text "" null "A sentence for people; null none.";
}

table! {
    /// Metrics.
    NODE_SAMPLE, "node_sample", "One metric of a machine or of a member of a cluster, over a stretch of time.", order ["ts"],
    ts BigInt "ns" some "Start of the stretch, since the epoch.";
    dur BigInt "ns" null "Length of the stretch that the value is the sum over; 0 a level at ts; null unknown.";
    node Text "" some "Machine (one boot of it).";
    member Text "" some "Whose it is: see table member; the machine's own have its name.";
    metric Text "" some "What was measured: see module metric.";
    name Text "" null "Of which of its kind: interface, disk, operation …; null all together.";
    least BigInt "" null "Smallest value of the histogram's bucket that value counts; null no histogram.";
    value Double "" some "The value, in the metric's unit.";
}

table! {
    /// Pruned demand.
    DEMAND_ROLLUP, "demand_rollup", "What pruned requests used of resources, summed.", order ["ts"],
    ts BigInt "ns" some "Start of the stretch of time of use, since the epoch.";
    dur BigInt "ns" some "Its length.";
    node Text "" some "Machine (one boot of it).";
    component Text "" null "Part of the system; null unknown.";
    client Text "" null "Who it is billed to; null unattributed.";
    resource Text "" some "cpu, cache, network or disk.";
    place Text "" null "Cache, receiver or disk; null CPU.";
    name Text "" null "Kind of access, or operation of the disk; null others.";
    n BigInt "" some "Slices of CPU time, accesses to a cache, messages, requests to a disk.";
    time_ns BigInt "ns" null "Time on the CPU, service time of the disk, of those of which it is known; null: of none.";
    bytes BigInt "bytes" some "Bytes touched in a cache, sent, read from or written to a disk.";
    hits BigInt "" some "Reads that the cache held.";
    unknown BigInt "" null "Of n those whose time on the CPU is not known; null: an older version didn't count them.";
}

table! {
    /// Pruned servings.
    SERVED_ROLLUP, "served_rollup", "What components served of pruned requests, summed.", order ["ts"],
    ts BigInt "ns" some "Start of the stretch of time of arrival, since the epoch.";
    dur BigInt "ns" some "Its length.";
    node Text "" some "Machine (one boot of it).";
    component Text "" some "Part of the system.";
    op Text "" some "What was asked for.";
    client Text "" null "User on whose behalf; null as that of the request it is part of.";
    n BigInt "" some "Servings.";
    errors BigInt "" some "Those that failed.";
    unfinished BigInt "" some "Those without a reply.";
    time_ns BigInt "ns" some "Time until the replies.";
    bytes BigInt "bytes" some "Bytes they were about.";
}

table! {
    /// Pruned requests.
    REQUEST_ROLLUP, "request_rollup", "Pruned requests, counted by how long they took.", order ["ts"],
    ts BigInt "ns" some "Start of the stretch of time of arrival, since the epoch.";
    dur BigInt "ns" some "Its length.";
    node Text "" some "Machine they arrived at (one boot of it).";
    component Text "" some "Part of the system they arrived at.";
    op Text "" some "What was asked for.";
    client Text "" null "User on whose behalf; null none.";
    status BigInt "" null "0 success, else an error number; null unfinished.";
    least BigInt "ns" null "Smallest time until the reply of the histogram's bucket; null without a reply.";
    n BigInt "" some "Requests.";
    time_ns BigInt "ns" some "Time until the replies.";
    length BigInt "bytes" some "Bytes they were about.";
    path_ns BigInt "ns" some "Time from the first point to the reply: what critical steps are a share of.";
}

table! {
    /// Steps of pruned requests.
    STEP_ROLLUP, "step_rollup", "Steps of pruned requests, counted by how long they took.", order ["ts"],
    ts BigInt "ns" some "Start of the stretch of time in which the first of the requests arrived, since the epoch.";
    dur BigInt "ns" some "Its length.";
    workload BigInt "" some "The requests it was a step of, see table workload; 0 none is known.";
    from_record Text "" some "Table of the point it starts from.";
    from_component Text "" some "Part of the system; disk for disks.";
    from_kind Text "" some "Kind, as the record says.";
    from_op Text "" null "Operation; null caches.";
    from_place Text "" null "Cache or disk; null services.";
    from_moment BigInt "" some "0 start, 1 end, 2 instant, 3 issued.";
    to_record Text "" some "Table of the point it leads to.";
    to_component Text "" some "Part of the system; disk for disks.";
    to_kind Text "" some "Kind, as the record says.";
    to_op Text "" null "Operation; null caches.";
    to_place Text "" null "Cache or disk; null services.";
    to_moment BigInt "" some "0 start, 1 end, 2 instant, 3 issued.";
    kind Text "" some "within, the stitch it follows (rpc, split, coalesce), or back.";
    across BigInt "" some "1 if it leads to another machine; else 0.";
    least BigInt "ns" null "Smallest time of the histogram's bucket; null in the row that has the times of all buckets.";
    n BigInt "" some "How often it was taken, with a time in the bucket; where that is null, with an unknown time.";
    time_ns BigInt "ns" null "The times of all buckets together; null unknown, or a bucket.";
    max_ns BigInt "ns" null "The largest, exact; null unknown, or a bucket.";
    critical BigInt "" some "How often a reply waited for it last.";
    critical_ns BigInt "ns" some "The time it took then.";
}

table! {
    /// Whose steps were pruned.
    WORKLOAD, "workload", "Kinds of requests that pruned steps belong to: several of one number shared work.", order ["ts"],
    ts BigInt "ns" some "Start of the stretch of time in which they arrived, since the epoch.";
    dur BigInt "ns" some "Its length.";
    workload BigInt "" some "Number of all kinds that shared it: a hash of them.";
    component Text "" some "Part of the system they arrived at.";
    op Text "" some "What was asked for.";
    client Text "" null "User on whose behalf; null none.";
}

table! {
    /// What pruning keeps in mind of the kernel's records.
    KERNEL_SEEN, "kernel_seen", "Threads and disks of which the kernel's records were pruned: of them what programs posted doesn't count.", order ["node"],
    node Text "" some "Machine (one boot of it).";
    thread BigInt "" null "Thread; null a disk.";
    dev Text "" null "Disk; null a thread.";
}

table! {
    /// What was pruned.
    PRUNED, "pruned", "Records that were replaced by rollups.", order ["ts"],
    ts BigInt "ns" some "Start of the first of them, since the epoch.";
    dur BigInt "ns" some "Time until the last had ended.";
    node Text "" some "Machine (one boot of it).";
    record Text "" some "Their table.";
    every_ns BigInt "ns" some "Width of the rollups' stretches of time.";
    kept Text "" some "Rollups that were kept, and tables that were kept whole.";
    pruned_ts BigInt "ns" some "When that was last done, since the epoch.";
    n BigInt "" some "Records.";
}

table! {
    /// What a sweep sets.
    SETTING, "setting", "Settings of a sweep: one row for each and each dimension.", order ["setting"],
    node Text "" some "Machine (one boot of it).";
    setting BigInt "" some "Id: settings with the same values have the same.";
    dimension Text "" some "What is set: concurrency, scheduler …";
    word Text "" null "Value, if it is a word; null a number.";
    number Double "" null "Value, if it is a number, in bytes or ns if it is a size or a time; null a word.";
}

table! {
    /// Measurements of a sweep.
    MEASUREMENT, "measurement", "One measurement of a sweep: a setting was made, and the target measured.", order ["ts"],
    ts BigInt "ns" some "Start, since the epoch.";
    dur BigInt "ns" some "Time it took.";
    node Text "" some "Machine (one boot of it).";
    setting BigInt "" some "Setting.";
    purpose Text "" some "Why: uniform (drawn from all settings), again (a surprising one), adaptive (chosen by what was measured), confirm.";
    value Double "" null "What was measured, in the target's unit; null it failed.";
    detail Text "" null "Why it failed; null it didn't.";
}

table! {
    /// What layers showed.
    MEASURED, "measured", "What the measurements of a setting say, layer by layer.", order ["setting"],
    node Text "" some "Machine (one boot of it).";
    setting BigInt "" some "Setting.";
    layer Text "" some "Part of the stack: application, prefetch, scheduler, device; the target's own number is the application's.";
    metric Text "" some "What was measured, with its unit.";
    value Double "" null "Mean; of two modes that of the more frequent; null all failed.";
    low Double "" null "Lower end of the 95 % interval of the mean, of two modes the least value; null from one measurement alone.";
    high Double "" null "Upper end; null from one measurement alone.";
    n BigInt "" some "Measurements that didn't fail.";
    state Text "" some "ok, wide (the interval is wider than asked for), two modes, failed.";
}

table! {
    /// What layers ought to show.
    EXPECTED, "expected", "What a setting is expected to show, layer by layer.", order ["setting"],
    node Text "" some "Machine (one boot of it).";
    setting BigInt "" some "Setting.";
    expectation Text "" some "By what: paper, stack, a file.";
    layer Text "" some "Part of the stack.";
    metric Text "" some "What is expected, with its unit.";
    value Double "" some "Expected value.";
}

/// All tables.
pub const TABLES: &[Table] = &[
    FILE_OP,
    SYNC_OP,
    SERVICE_OP,
    STITCH,
    BUFFER_OP,
    NETWORK_TRANSMIT,
    DISK_OP,
    EXTENT,
    CPU_SLICE,
    WAKE,
    THREAD_TIME,
    COMPUTE,
    SIGNAL,
    WAIT,
    CRITICAL_PATH,
    MEMBER,
    NODE_SAMPLE,
    PROCESS,
    THREAD,
    FILE,
    CLOCK,
    RECORDING,
    UNSEEN,
    DEMAND_ROLLUP,
    SERVED_ROLLUP,
    REQUEST_ROLLUP,
    STEP_ROLLUP,
    WORKLOAD,
    KERNEL_SEEN,
    PRUNED,
    SETTING,
    MEASUREMENT,
    MEASURED,
    EXPECTED,
];

/// Tables in which `ts` is the start of a stretch of time and not of an operation.
pub const ROLLUPS: [&str; 5] =
    ["demand_rollup", "served_rollup", "request_rollup", "step_rollup", "workload"];

/// The table of a name.
#[must_use]
pub fn table(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_name_columns_and_no_name_is_reserved() {
        for table in TABLES {
            for order in table.order {
                assert!(table.columns.iter().any(|c| c.name == *order), "{}.{order}", table.name);
            }
            for column in table.columns {
                assert!(
                    !["from", "to", "end", "window", "desc", "using", "lateral", "table", "offset"]
                        .contains(&column.name)
                );
            }
        }
    }
}
