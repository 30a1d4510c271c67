//! From a trail to what is to be done: the operations of each thread, what each has to wait for, and what
//! has to exist before the first one.
//!
//! A trail names descriptors and paths; a plan names *handles* (a descriptor from its open to its close, in
//! whichever process) and paths. Operations of one thread keep their order by themselves. Between threads a
//! plan keeps what names and descriptors need: an operation waits for the open of its descriptor, a close for
//! the last use of it, a use of a name for the operation that made the name. It waits only for operations
//! that had returned when it began, so a plan has no cycle.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use iotrail_format::call::{Call, CallKind};
use iotrail_format::schema::{FILE, PROCESS, THREAD};
use iotrail_trail::{FileOp, Order, TrailReader};

use crate::Error;

/// No handle, no path.
pub const NONE: u32 = u32::MAX;

/// One operation. Times are ns, sizes and offsets bytes.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// What is called.
    pub call: Call,
    /// Start, since the start of the plan.
    pub start: i64,
    /// How long it took; 0 if it never returned.
    pub dur: i64,
    /// Descriptor it acts on, or [`NONE`].
    pub handle: u32,
    /// Descriptor it makes, or [`NONE`].
    pub made: u32,
    /// Name it acts on, or [`NONE`].
    pub path: u32,
    /// Second name, or [`NONE`].
    pub path2: u32,
    /// Offset, or -1.
    pub pos: i64,
    /// Bytes asked for, or -1.
    pub length: i64,
    /// What it returned.
    pub result: i64,
    /// Its error number; 0 success.
    pub errno: i32,
    /// Its flags.
    pub flags: i32,
    /// What it waits for: a part of [`Plan::after`].
    pub after: (u32, u32),
}

/// A descriptor, from where it comes to its close.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    /// The file.
    pub path: u32,
    /// How it comes to be where no operation of the trail makes it.
    pub origin: Origin,
    /// Flags of the open it stems from, without those that make or empty the file.
    pub flags: i32,
    /// Offset at its first use.
    pub pos: i64,
}

/// Where a descriptor comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An operation of the plan opens it.
    Opened,
    /// It was open before the recording saw it: opened when it is first used.
    Before,
    /// A process has it from its parent: a duplicate of that one, or opened anew if that is closed by then.
    Inherited(u32),
}

/// What has to be there before the replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Need {
    /// A file of this many bytes.
    File(u64),
    /// A directory.
    Directory,
    /// A symbolic link whose text has this many bytes.
    Link(usize),
}

/// A recorded thread.
#[derive(Debug, Default)]
pub struct Thread {
    /// Its id in the trail.
    pub id: i64,
    /// Its operations, in their order.
    pub ops: Vec<Op>,
    /// The operation (thread, index) that its first one follows: the last that its process, or the one that
    /// started it, had done by then.
    pub follows: Option<(u32, u32)>,
}

/// What is to be done.
#[derive(Debug, Default)]
pub struct Plan {
    /// The threads that do something.
    pub threads: Vec<Thread>,
    /// Absolute paths as recorded, and the directories they lie in.
    pub paths: Vec<String>,
    /// Descriptors.
    pub handles: Vec<Handle>,
    /// Operations (thread, index) that others wait for.
    pub after: Vec<(u32, u32)>,
    /// Paths that have to exist.
    pub needs: BTreeMap<u32, Need>,
    /// From the first operation's start to the last one's return.
    pub length: i64,
    /// Whether all operations are reads, writes and flushes of one file: a trace of a block device.
    pub is_block: bool,
    /// The end of the furthest read or write.
    pub reach: i64,
    /// Bytes that all files together grow by at most.
    pub grows: u64,
}

/// A path while the plan is made.
struct Name {
    /// The directory it lies in; [`NONE`] for what lies in the root.
    parent: u32,
    /// Whether it is known by now if it existed before.
    settled: bool,
    /// Whether some call found directories all the way to it.
    reached: bool,
    /// The path whose content this one has had since a rename.
    content_of: Option<u32>,
    /// How far the trail itself has written it.
    written: i64,
    /// The last operation that made or removed it, and when that had returned.
    changed: Option<(u32, u32, i64)>,
    /// The last use of each thread since.
    used: Vec<(u32, u32, i64)>,
}

impl Name {
    /// Notes the last use of a thread.
    fn note_use(&mut self, me: (u32, u32, i64)) {
        match self.used.iter_mut().find(|user| user.0 == me.0) {
            Some(user) => *user = me,
            None => self.used.push(me),
        }
    }
}

struct Maker<'a> {
    plan: Plan,
    names: Vec<Name>,
    path_of: HashMap<i64, u32>,
    by_name: HashMap<String, u32>,
    files: &'a HashMap<i64, String>,
    calls: HashMap<&'static str, Call>,
    threads: HashMap<i64, u32>,
    process_of: HashMap<i64, i64>,
    parent_of: HashMap<i64, i64>,
    /// (process, descriptor) to handle.
    open: HashMap<(i64, i64), u32>,
    /// Who made a handle, and the last use of each thread.
    opened_by: Vec<Option<(u32, u32)>>,
    used_by: Vec<Vec<(u32, u32)>>,
    /// The operation of each process that returned last: (end, thread, index).
    last_of: HashMap<i64, (i64, u32, u32)>,
    zero: i64,
}

/// Makes the plan of a trail.
///
/// # Errors
/// [`Error::Trail`] if the trail can't be read, [`Error::Empty`] if it holds no operation that can be replayed.
pub fn plan(trail: &Path) -> Result<Plan, Error> {
    let reader = TrailReader::open(trail)?;
    let mut files = HashMap::new();
    for row in reader.small(&FILE, &["file"], &["path"])? {
        if let (Some(file), Some(path)) = (row.ints[0], &row.texts[0]) {
            files.insert(file, path.clone());
        }
    }
    let mut process_of = HashMap::new();
    for row in reader.small(&THREAD, &["thread", "process"], &[])? {
        if let (Some(thread), Some(process)) = (row.ints[0], row.ints[1]) {
            process_of.insert(thread, process);
        }
    }
    let mut parent_of = HashMap::new();
    for row in reader.small(&PROCESS, &["process", "parent"], &[])? {
        if let (Some(process), Some(parent)) = (row.ints[0], row.ints[1]) {
            parent_of.insert(process, parent);
        }
    }
    let mut maker = Maker {
        plan: Plan::default(),
        names: Vec::new(),
        path_of: HashMap::new(),
        by_name: HashMap::new(),
        files: &files,
        calls: Call::ALL.iter().map(|call| (call.name(), *call)).collect(),
        threads: HashMap::new(),
        process_of,
        parent_of,
        open: HashMap::new(),
        opened_by: Vec::new(),
        used_by: Vec::new(),
        last_of: HashMap::new(),
        zero: i64::MIN,
    };
    let mut rows = reader.file_ops(Order::Time)?;
    while let Some(row) = rows.next()? {
        maker.add(&row);
    }
    maker.settle_directories();
    let mut plan = maker.plan;
    if plan.threads.is_empty() {
        return Err(Error::Empty { path: trail.to_owned() });
    }
    let data = |op: &Op| {
        matches!(op.call.kind(), CallKind::Read | CallKind::Write | CallKind::Flush) && op.pos != -1
            || op.call.kind() == CallKind::Flush
    };
    let mut ops = plan.threads.iter().flat_map(|thread| &thread.ops);
    let first = plan.threads[0].ops[0].path;
    plan.is_block = ops.all(|op| data(op) && op.path == first);
    Ok(plan)
}

impl Maker<'_> {
    fn add(&mut self, row: &FileOp<'_>) {
        let Some(call) = self.calls.get(row.call).copied() else { return };
        if self.zero == i64::MIN {
            self.zero = row.ts;
        }
        let start = row.ts - self.zero;
        let end = start + row.dur.unwrap_or(0);
        let process = self.process_of.get(&row.thread.0).copied().unwrap_or(row.thread.0);
        let succeeded = row.errno == 0 && row.dur.is_some() && row.result.is_some_and(|result| result >= 0);
        let path = row.file.map_or(NONE, |file| self.path(file.0));
        let path2 = row.file2.map_or(NONE, |file| self.path(file.0));

        let mut op = Op {
            call,
            start,
            dur: row.dur.unwrap_or(0),
            handle: NONE,
            made: NONE,
            path,
            path2,
            pos: row.pos.unwrap_or(-1),
            length: row.length.unwrap_or(-1),
            result: row.result.unwrap_or(0),
            errno: i32::try_from(row.errno).unwrap_or(0),
            flags: row.flags.unwrap_or(0) as i32,
            after: (0, 0),
        };
        let how = how(call, row.fd.is_some());
        if how == How::Not || path == NONE {
            return;
        }
        if op.errno != libc::ENOTDIR {
            self.reach(path);
        }
        if how == How::Descriptor {
            let descriptor = row.fd.unwrap_or(-1);
            op.handle = self.handle(process, descriptor, path, op.pos);
        }

        let next = self.plan.threads.len() as u32;
        let thread = *self.threads.entry(row.thread.0).or_insert(next);
        if thread == next {
            self.plan.threads.push(Thread { id: row.thread.0, ..Thread::default() });
            let parent = self.parent_of.get(&process);
            let before = [Some(&process), parent].into_iter().flatten().find_map(|id| self.last_of.get(id));
            self.plan.threads[thread as usize].follows =
                before.filter(|last| last.0 <= start).map(|last| (last.1, last.2));
        }
        let index = self.plan.threads[thread as usize].ops.len() as u32;
        let me = (thread, index);
        let mut after = Vec::new();

        if op.handle != NONE {
            self.use_handle(op.handle, me, call, &mut after);
        }
        if how == How::Name {
            self.use_name(op.path, me, start, end, changes(call, op.flags) && succeeded, &mut after);
            if op.path2 != NONE {
                self.use_name(op.path2, me, start, end, succeeded, &mut after);
            }
        }
        if succeeded {
            self.learn(&op);
            if makes_descriptor(call) && row.result.is_some_and(|fd| fd >= 0) {
                let kept = !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC);
                let made = self.new_handle(Handle {
                    path: op.path,
                    origin: Origin::Opened,
                    flags: op.flags & kept,
                    pos: 0,
                });
                self.opened_by[made as usize] = Some(me);
                self.open.insert((process, op.result), made);
                op.made = made;
            }
            if matches!(call, Call::Close | Call::Fclose | Call::Closedir)
                && let Some(fd) = row.fd
            {
                self.open.remove(&(process, fd));
            }
        }
        after.sort_unstable();
        after.dedup();
        op.after = (self.plan.after.len() as u32, (self.plan.after.len() + after.len()) as u32);
        self.plan.after.extend(after);
        self.plan.threads[thread as usize].ops.push(op);
        self.plan.length = self.plan.length.max(end);
        let last = self.last_of.entry(process).or_insert((end, thread, index));
        if last.0 <= end {
            *last = (end, thread, index);
        }
    }

    /// What lies on the way to a name that was looked for is a directory, though only its attributes were read.
    fn settle_directories(&mut self) {
        for name in self.names.iter().filter(|name| name.reached) {
            if let Some(need @ Need::File(0)) = self.plan.needs.get_mut(&name.parent) {
                *need = Need::Directory;
            }
        }
    }

    /// The path of a file; [`NONE`] for what has no path: pipes, sockets, deleted and unknown files.
    fn path(&mut self, file: i64) -> u32 {
        if let Some(path) = self.path_of.get(&file) {
            return *path;
        }
        let files = self.files;
        let path = match files.get(&file) {
            Some(path) if path.starts_with('/') => self.intern(path),
            _ => NONE,
        };
        self.path_of.insert(file, path);
        path
    }

    /// A path and the directories it lies in.
    fn intern(&mut self, path: &str) -> u32 {
        if let Some(known) = self.by_name.get(path) {
            return *known;
        }
        let parent = match path.rsplit_once('/') {
            Some((parent, _)) if !parent.is_empty() => self.intern(parent),
            _ => NONE,
        };
        let new = self.plan.paths.len() as u32;
        self.plan.paths.push(path.to_owned());
        self.by_name.insert(path.to_owned(), new);
        self.names.push(Name {
            parent,
            settled: false,
            reached: false,
            content_of: None,
            written: 0,
            changed: None,
            used: Vec::new(),
        });
        new
    }

    fn new_handle(&mut self, handle: Handle) -> u32 {
        self.plan.handles.push(handle);
        self.opened_by.push(None);
        self.used_by.push(Vec::new());
        self.plan.handles.len() as u32 - 1
    }

    /// The handle of a descriptor of the file with this path.
    fn handle(&mut self, process: i64, fd: i64, path: u32, pos: i64) -> u32 {
        // Traces of block devices name a file and no descriptor.
        let key = if fd < 0 { (process, -2 - i64::from(path)) } else { (process, fd) };
        // A close that was not seen (exec, close_range) leaves an entry of another file.
        let fits = |handle: &u32| self.plan.handles[*handle as usize].path == path;
        if let Some(handle) = self.open.get(&key).copied().filter(fits) {
            return handle;
        }
        let mut ancestor = self.parent_of.get(&process).copied();
        for _ in 0..64 {
            let Some(id) = ancestor else { break };
            if let Some(handle) = self.open.get(&(id, fd)).copied().filter(fits) {
                let parents = self.plan.handles[handle as usize];
                let made =
                    self.new_handle(Handle { origin: Origin::Inherited(handle), pos: pos.max(0), ..parents });
                self.opened_by[made as usize] = self.opened_by[handle as usize];
                self.open.insert(key, made);
                return made;
            }
            ancestor = self.parent_of.get(&id).copied();
        }
        let name = &mut self.names[path as usize];
        if !name.settled {
            name.settled = true;
            self.plan.needs.entry(path).or_insert(Need::File(0));
        }
        let flags = libc::O_RDWR;
        let made = self.new_handle(Handle { path, origin: Origin::Before, flags, pos: pos.max(0) });
        self.open.insert(key, made);
        made
    }

    fn use_handle(&mut self, handle: u32, me: (u32, u32), call: Call, after: &mut Vec<(u32, u32)>) {
        let users = &mut self.used_by[handle as usize];
        let known = users.iter_mut().find(|user| user.0 == me.0);
        match known {
            Some(user) => user.1 = me.1,
            None => {
                users.push(me);
                after.extend(self.opened_by[handle as usize].filter(|opener| opener.0 != me.0));
                // Its first use duplicates the parent's, which is not to be closed before.
                if let Origin::Inherited(parents) = self.plan.handles[handle as usize].origin {
                    self.used_by[parents as usize].push(me);
                }
            }
        }
        if matches!(call, Call::Close | Call::Fclose | Call::Closedir) {
            after.extend(self.used_by[handle as usize].iter().filter(|user| user.0 != me.0));
        }
    }

    fn use_name(
        &mut self,
        path: u32,
        me: (u32, u32),
        start: i64,
        end: i64,
        changes: bool,
        after: &mut Vec<(u32, u32)>,
    ) {
        let earlier = |(thread, index, ended): &(u32, u32, i64)| {
            (*thread != me.0 && *ended <= start).then_some((*thread, *index))
        };
        // All directories on the way have to be there; the one it lies in is not empty meanwhile.
        let mut parent = self.names[path as usize].parent;
        if parent != NONE {
            self.names[parent as usize].note_use((me.0, me.1, end));
        }
        while parent != NONE {
            let directory = &self.names[parent as usize];
            after.extend(directory.changed.as_ref().and_then(earlier));
            parent = directory.parent;
        }
        let name = &mut self.names[path as usize];
        after.extend(name.changed.as_ref().and_then(earlier));
        if changes {
            after.extend(name.used.iter().filter_map(earlier));
            name.used.clear();
            name.changed = Some((me.0, me.1, end));
        } else {
            name.note_use((me.0, me.1, end));
        }
    }

    /// Notes that a call found directories all the way to a path.
    fn reach(&mut self, path: u32) {
        let mut path = path;
        while path != NONE && !self.names[path as usize].reached {
            self.names[path as usize].reached = true;
            path = self.names[path as usize].parent;
        }
    }

    /// What a successful operation says about what was there before.
    fn learn(&mut self, op: &Op) {
        let path = op.path;
        let settled = std::mem::replace(&mut self.names[path as usize].settled, true);
        let mut need = |need: Need| {
            if !settled {
                self.plan.needs.insert(path, need);
            }
        };
        let lists = op.call == Call::Opendir || op.call == Call::Open && op.flags & libc::O_DIRECTORY != 0;
        match op.call {
            Call::Readlink => need(Need::Link(op.result as usize)),
            Call::Open | Call::Fopen if op.flags & libc::O_CREAT != 0 && op.flags & libc::O_EXCL == 0 => {
                // It may have been there or not: what is read from it tells.
                self.names[path as usize].settled = settled;
            }
            Call::Open | Call::Fopen if op.flags & libc::O_CREAT != 0 => {}
            _ if lists => need(Need::Directory),
            Call::Creat | Call::Mkstemp | Call::Mkdir | Call::Symlink | Call::Mknod => {}
            Call::Rmdir => need(Need::Directory),
            _ => need(Need::File(0)),
        }
        // Later operations know better than the first what a path is.
        match self.plan.needs.get_mut(&path) {
            Some(need @ Need::File(0)) if lists => *need = Need::Directory,
            Some(need @ Need::Link(_)) if op.call != Call::Readlink => *need = Need::File(0),
            _ => {}
        }
        match op.call {
            Call::Creat => self.names[path as usize].written = 0,
            Call::Unlink => self.names[path as usize].content_of = None,
            Call::Rename | Call::Link if op.path2 != NONE => {
                let (written, content_of) = {
                    let from = &self.names[path as usize];
                    (from.written, from.content_of.unwrap_or(path))
                };
                let into = &mut self.names[op.path2 as usize];
                (into.settled, into.written, into.content_of) = (true, written, Some(content_of));
            }
            Call::Symlink if op.path2 != NONE => self.names[op.path2 as usize].settled = true,
            _ => {}
        }
        if op.pos >= 0 && op.result > 0 {
            let end = op.pos.saturating_add(op.result);
            self.plan.reach = self.plan.reach.max(end);
            let name = &mut self.names[path as usize];
            let content = name.content_of.unwrap_or(path);
            match op.call.kind() {
                CallKind::Write if end > name.written => {
                    self.plan.grows += (end - name.written.max(op.pos)) as u64;
                    name.written = end;
                }
                CallKind::Read if end > name.written => {
                    let size = self.plan.needs.entry(content).or_insert(Need::File(0));
                    if let Need::File(size) = size {
                        *size = (*size).max(end as u64);
                    }
                }
                _ => {}
            }
        }
    }
}

/// How a call names what it acts on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Name,
    Descriptor,
    Not,
}

fn how(call: Call, has_descriptor: bool) -> How {
    use Call::*;
    match call {
        Open | Creat | Fopen | Mkstemp | Opendir | Stat | Access | Statfs | Rename | Unlink | Link
        | Readlink | Mkdir | Rmdir => How::Name,
        Truncate | Chmod | Utimes if !has_descriptor => How::Name,
        Close | Fclose | Closedir | Dup | Lseek | Fseek | Fstat | Truncate | Fallocate | Fadvise
        | Readdir | Chmod | Utimes | Read | Pread | Readv | Preadv | Fread | Write | Pwrite | Writev
        | Pwritev | Fwrite | Fsync | Fdatasync | SyncFileRange => How::Descriptor,
        // A buffer that held nothing moves nothing.
        Fflush => How::Descriptor,
        _ => How::Not,
    }
}

fn makes_descriptor(call: Call) -> bool {
    matches!(call, Call::Open | Call::Creat | Call::Fopen | Call::Mkstemp | Call::Opendir | Call::Dup)
}

/// Whether a call makes or removes the name it acts on.
fn changes(call: Call, flags: i32) -> bool {
    use Call::*;
    match call {
        Open | Fopen => flags & libc::O_CREAT != 0,
        Creat | Mkstemp | Rename | Unlink | Link | Symlink | Mkdir | Rmdir | Truncate => true,
        _ => false,
    }
}
