//! From a trail to what is to be done: the operations of each thread, what each has to wait for, and what
//! has to exist before the first one.
//!
//! A trail names descriptors and paths; a plan names *handles* (a descriptor from its open to its close, in
//! whichever process) and paths. Operations of one thread keep their order by themselves. What an operation
//! waits for in other threads says [`crate::order`]; a descriptor's open and its last use besides.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use iotrail_causal::OpRef;
use iotrail_format::call::{Call, CallKind};
use iotrail_format::schema::{FILE, PROCESS, THREAD};
use iotrail_trail::{FileOp, Order, TrailReader};

use crate::Error;
use crate::causality::{self, Causality};
use crate::lookups;
use crate::names::Namespace;
use crate::order::{Effect, Order as Causes, Wait};
use crate::sections::Sections;

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
    /// What it waits for, a part of [`Plan::after`]: its start, the start of those that only decide what data it
    /// finds, its end.
    pub after: (u32, u32, u32),
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
    pub follows: Option<OpRef>,
}

/// What is to be done.
#[derive(Debug, Default)]
pub struct Plan {
    /// Where the operations come from.
    pub workload: Workload,
    /// The threads that do something.
    pub threads: Vec<Thread>,
    /// Absolute paths as recorded, and the directories they lie in.
    pub paths: Vec<String>,
    /// Descriptors.
    pub handles: Vec<Handle>,
    /// Operations that others wait for.
    pub after: Vec<Wait>,
    /// Paths that have to exist.
    pub needs: BTreeMap<u32, Need>,
    /// From the first operation's start to the last one's return.
    pub length: i64,
    /// Files or devices, if all operations are reads, writes and flushes of those and nothing else: a block trace.
    pub devices: Vec<Device>,
    /// Whether requests of one thread overlap: those of a block trace, which has no descriptors.
    pub overlaps: bool,
    /// The end of the furthest read or write.
    pub reach: i64,
    /// Bytes that all files together grow by at most.
    pub grows: u64,
    /// When it starts, ns since the epoch: times of operations are from then on.
    pub zero: i64,
    /// What threads computed and waited for, where that was asked for.
    pub causality: Option<Causality>,
}

/// A file or device of a block trace, or a device of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Number of its path in the plan.
    pub path: u32,
    /// Machine.
    pub node: String,
    /// The end of the furthest request.
    pub reach: u64,
    /// Whether any request writes.
    pub writes: bool,
}

/// What operations come from, as messages name it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workload {
    /// A recording.
    #[default]
    Trail,
    /// A workload model.
    Model,
    /// A micro-benchmark.
    Benchmark,
}

impl Workload {
    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Trail => "the trail",
            Self::Model => "the model",
            Self::Benchmark => "the benchmark",
        }
    }

    /// The option that gives one of its devices a target.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Trail => "--map",
            Self::Model | Self::Benchmark => "--target",
        }
    }
}

impl Plan {
    /// A plan of devices without operations, which [`crate::stream()`] is given. The device with number `n` has path `n`.
    #[must_use]
    pub fn of_devices(workload: Workload, devices: impl Iterator<Item = Reach>) -> Self {
        let mut plan = Self { workload, ..Self::default() };
        for (Reach { bytes, writes }, path) in devices.zip(0..) {
            plan.paths.push(path.to_string());
            plan.handles.push(Handle { path, origin: Origin::Before, flags: libc::O_RDWR, pos: 0 });
            plan.devices.push(Device { path, node: String::new(), reach: bytes, writes });
        }
        plan
    }
}

/// What requests need of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// The end of the furthest one.
    pub bytes: u64,
    /// Whether any of them writes.
    pub writes: bool,
}

struct Maker<'a> {
    plan: Plan,
    names: Namespace,
    order: Causes,
    /// (file, machine if it matters) to path.
    path_of: HashMap<(i64, u32), u32>,
    nodes: HashMap<String, u32>,
    device_node: HashMap<u32, u32>,
    files: &'a HashMap<i64, String>,
    calls: HashMap<&'static str, Call>,
    threads: HashMap<i64, u32>,
    process_of: HashMap<i64, i64>,
    parent_of: HashMap<i64, i64>,
    /// (process, descriptor) to handle.
    open: HashMap<(i64, i64), u32>,
    /// Of each handle: its file, its position's number (duplicates share it), who made it, the last use of each thread.
    opened: Vec<Opened>,
    positions: u32,
    /// Process of each thread of the plan.
    processes: Vec<i64>,
    /// The operation of each process that returned last: (end, operation).
    last_of: HashMap<i64, (i64, OpRef)>,
    returned: Vec<(OpRef, i64)>,
    zero: i64,
    /// Looks, by thread and start, that nobody waits for.
    in_vain: &'a HashSet<(i64, i64)>,
    sections: &'a Sections,
}

/// A handle while the plan is made.
struct Opened {
    file: u32,
    position: u32,
    by: Option<OpRef>,
    used_by: Vec<OpRef>,
}

/// Makes the plan of a trail.
///
/// # Errors
/// [`Error::Trail`] if the trail can't be read.
pub fn plan(trail: &Path) -> Result<Plan, Error> {
    make(&TrailReader::open(trail)?, &HashSet::new(), &Sections::default())
}

/// As [`plan()`], with what threads computed and waited for.
///
/// # Errors
/// Those of [`plan()`], and [`Error::NoCausality`] if the trail doesn't say.
pub fn plan_with_causality(trail: &Path) -> Result<Plan, Error> {
    let reader = TrailReader::open(trail)?;
    let in_vain = lookups::in_vain(&reader)?;
    let mut plan = make(&reader, &in_vain, &Sections::default())?;
    let mut causality = causality::read(trail, &reader, &mut plan)?;
    let ends = plan.threads.iter().map(|thread| thread.ops.iter().map(|op| op.start + op.dur).collect());
    let sections = Sections::of(&causality, ends.collect());
    if !sections.is_empty() {
        let again = make(&reader, &in_vain, &sections)?;
        plan.after = again.after;
        plan.threads.iter_mut().zip(again.threads).for_each(|(thread, again)| thread.ops = again.ops);
        sections.wait_before_locks(&mut causality);
    }
    plan.causality = Some(causality);
    Ok(plan)
}

impl iotrail_causal::Order for Plan {
    fn after(&self, op: OpRef) -> impl Iterator<Item = OpRef> {
        let (begin, _, end) = self.threads[op.thread as usize].ops[op.index as usize].after;
        let waits = &self.after[begin as usize..end as usize];
        waits.iter().map(|wait| OpRef { thread: wait.thread, index: wait.index })
    }
}

impl Plan {
    /// Whether all threads would end, if they wait for each other.
    ///
    /// # Errors
    /// [`Error::Standstill`] says who waits for whom.
    pub fn check_waits(&self, trail: &Path) -> Result<(), Error> {
        let Some(causality) = &self.causality else { return Ok(()) };
        iotrail_causal::check(&causality.scripts(false), self)
            .map_err(|problem| Error::Standstill { path: trail.to_owned(), problem })
    }
}

/// Makes it. Nobody waits for looks `in_vain`, by thread and start; operations that a lock keeps apart don't wait for each other.
fn make(reader: &TrailReader, in_vain: &HashSet<(i64, i64)>, sections: &Sections) -> Result<Plan, Error> {
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
        names: Namespace::default(),
        order: Causes::default(),
        path_of: HashMap::new(),
        nodes: HashMap::new(),
        device_node: HashMap::new(),
        files: &files,
        calls: Call::ALL.iter().map(|call| (call.name(), *call)).collect(),
        threads: HashMap::new(),
        process_of,
        parent_of,
        open: HashMap::new(),
        opened: Vec::new(),
        positions: 0,
        processes: Vec::new(),
        last_of: HashMap::new(),
        returned: Vec::new(),
        zero: i64::MIN,
        in_vain,
        sections,
    };
    let mut rows = reader.file_ops(Order::Time)?;
    while let Some(row) = rows.next()? {
        maker.add(&row);
    }
    let zero = maker.zero;
    let mut plan = maker.finish();
    plan.zero = if zero == i64::MIN { 0 } else { zero };
    Ok(plan)
}

impl Maker<'_> {
    fn add(&mut self, row: &FileOp<'_>) {
        let Some(call) = self.calls.get(row.call).copied() else { return };
        if self.zero == i64::MIN {
            self.zero = row.ts;
        }
        let how = how(call, row.fd.is_some());
        if how == How::Not || row.file.is_none() {
            return;
        }
        // Requests to a device name no descriptor; nor do those of one thread wait for each other.
        let is_request = how == How::Descriptor && row.fd.is_none();
        let start = row.ts - self.zero;
        // A trace without latencies tells the order of what returned only.
        let returned = is_request || row.result.is_some();
        let end = row.dur.or(returned.then_some(0)).map(|dur| start + dur);
        let process = self.process_of.get(&row.thread.0).copied().unwrap_or(row.thread.0);
        let path = row.file.map_or(NONE, |file| self.path(file.0, is_request.then_some(row.node)));
        let path2 = row.file2.map_or(NONE, |file| self.path(file.0, None));
        if path == NONE {
            return;
        }
        self.advance(start);
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
            after: (0, 0, 0),
        };
        let mut effects = Vec::new();
        if how == How::Descriptor {
            op.handle = self.handle(process, row.fd.unwrap_or(-1), path, op.pos, &mut effects);
        }

        let next = self.plan.threads.len() as u32;
        let thread = *self.threads.entry(row.thread.0).or_insert(next);
        if thread == next {
            self.plan.threads.push(Thread { id: row.thread.0, ..Thread::default() });
            self.processes.push(process);
            let parent = self.parent_of.get(&process);
            let before = [Some(&process), parent].into_iter().flatten().find_map(|id| self.last_of.get(id));
            self.plan.threads[thread as usize].follows = before.map(|last| last.1);
        }
        let index = self.plan.threads[thread as usize].ops.len() as u32;
        let me = OpRef { thread, index };
        let succeeded = row.errno == 0 && row.result.is_some_and(|result| result >= 0);
        let is_done = succeeded || is_request && row.errno == 0;

        let mut uses = Vec::new();
        if op.handle != NONE {
            self.use_handle(op.handle, me, call, &mut uses);
            uses.iter().for_each(|one: &Wait| {
                self.sections.needs(me, OpRef { thread: one.thread, index: one.index })
            });
        }
        let file = match how {
            How::Name => self.use_names(&op, succeeded, &mut effects),
            _ => Some(self.opened[op.handle as usize].file),
        };
        if self.in_vain.contains(&(row.thread.0, row.ts)) {
            effects.clear();
        }
        if let (true, Some(file)) = (is_done, file) {
            self.use_content(&op, file, row.result.is_none(), &mut effects);
        }
        if succeeded && makes_descriptor(call) {
            let kept = !(libc::O_CREAT | libc::O_EXCL | libc::O_TRUNC);
            // a duplicate is of the same open file
            let of = (call == Call::Dup && op.handle != NONE).then_some(op.handle as usize);
            let flags = of.map_or(op.flags & kept, |of| self.plan.handles[of].flags);
            let handle = Handle { path: op.path, origin: Origin::Opened, flags, pos: 0 };
            let made = self.new_handle(handle, file.unwrap_or(0));
            self.opened[made as usize].by = Some(me);
            if let Some(of) = of {
                self.opened[made as usize].position = self.opened[of].position;
            }
            op.made = made;
        }
        if succeeded
            && matches!(call, Call::Close | Call::Fclose | Call::Closedir)
            && let Some(fd) = row.fd
        {
            self.open.remove(&(process, fd));
        }

        let sections = self.sections;
        let waits = self.order.add(me, start, end, effects, !is_request, &|after| sections.wait(me, after));
        let begin = self.plan.after.len() as u32;
        uses.extend(waits.names);
        uses.sort_unstable();
        uses.dedup();
        self.plan.after.extend(uses);
        let middle = self.plan.after.len() as u32;
        self.plan.after.extend(waits.data);
        op.after = (begin, middle, self.plan.after.len() as u32);
        self.plan.overlaps |= is_request;
        self.plan.length = self.plan.length.max(end.unwrap_or(start));
        self.plan.threads[thread as usize].ops.push(op);
    }

    /// Makes visible what returned until `time`: descriptors that were opened, and who was last in its process.
    fn advance(&mut self, time: i64) {
        let mut returned = std::mem::take(&mut self.returned);
        self.order.advance(time, &mut returned);
        for (op, end) in returned.drain(..) {
            let process = self.processes[op.thread as usize];
            self.last_of.insert(process, (end, op));
            let done = &self.plan.threads[op.thread as usize].ops[op.index as usize];
            if done.made != NONE {
                self.open.insert((process, done.result), done.made);
            }
        }
        self.returned = returned;
    }

    fn finish(mut self) -> Plan {
        self.plan.needs = self.names.needs();
        self.plan.paths = std::mem::take(&mut self.names.paths);
        let mut plan = self.plan;
        let is_data = |op: &Op| match op.call.kind() {
            CallKind::Read | CallKind::Write => op.pos != -1,
            CallKind::Flush => true,
            CallKind::Meta | CallKind::Map | CallKind::Wait => false,
        };
        let mut ops = plan.threads.iter().flat_map(|thread| &thread.ops);
        if ops.all(is_data) {
            let mut seen: HashMap<u32, usize> = HashMap::new();
            let names: HashMap<u32, &String> =
                self.nodes.iter().map(|(name, number)| (*number, name)).collect();
            for op in plan.threads.iter().flat_map(|thread| &thread.ops) {
                let at = *seen.entry(op.path).or_insert_with(|| {
                    let node = self.device_node.get(&op.path).and_then(|node| names.get(node));
                    let node = node.map_or_else(String::new, |node| (*node).clone());
                    plan.devices.push(Device { path: op.path, node, reach: 0, writes: false });
                    plan.devices.len() - 1
                });
                let device = &mut plan.devices[at];
                device.reach = device.reach.max(op.pos.max(0).saturating_add(op.length.max(0)) as u64);
                device.writes |= op.call.kind() == CallKind::Write;
            }
        }
        plan.overlaps &= !plan.devices.is_empty();
        plan
    }

    /// The number of a file's path; of a device's, which is another on each machine.
    fn path(&mut self, file: i64, node: Option<&str>) -> u32 {
        let machine = match node {
            None => NONE,
            Some(node) => match self.nodes.get(node) {
                Some(number) => *number,
                None => {
                    self.nodes.insert(node.to_owned(), self.nodes.len() as u32);
                    self.nodes.len() as u32 - 1
                }
            },
        };
        if let Some(known) = self.path_of.get(&(file, machine)) {
            return *known;
        }
        let Some(path) = self.files.get(&file) else { return NONE };
        // Files of all machines but the first are devices of their own; under a root they would be one file.
        let number =
            if machine == NONE || machine == 0 { self.names.name(path) } else { self.names.device(path) };
        if machine != NONE {
            self.device_node.insert(number, machine);
        }
        self.path_of.insert((file, machine), number);
        number
    }

    fn new_handle(&mut self, handle: Handle, file: u32) -> u32 {
        self.plan.handles.push(handle);
        self.opened.push(Opened { file, position: self.positions, by: None, used_by: Vec::new() });
        self.positions += 1;
        self.plan.handles.len() as u32 - 1
    }

    /// The handle of a descriptor of the file with this path.
    fn handle(&mut self, process: i64, fd: i64, path: u32, pos: i64, effects: &mut Vec<Effect>) -> u32 {
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
                let file = self.opened[handle as usize].file;
                let origin = Origin::Inherited(handle);
                let made = self.new_handle(Handle { origin, pos: pos.max(0), ..parents }, file);
                self.opened[made as usize].by = self.opened[handle as usize].by;
                self.opened[made as usize].position = self.opened[handle as usize].position;
                self.open.insert(key, made);
                return made;
            }
            ancestor = self.parent_of.get(&id).copied();
        }
        // Its open was not seen: it is opened when it is first used, if it can't be at the start.
        let file = self.names.found(path, Need::File(0));
        if fd >= 0 {
            self.look_up(path, effects);
        }
        let flags = libc::O_RDWR;
        let made = self.new_handle(Handle { path, origin: Origin::Before, flags, pos: pos.max(0) }, file);
        self.open.insert(key, made);
        made
    }

    /// Waits for the open of a descriptor at a thread's first use of it, and for all uses before its close.
    fn use_handle(&mut self, handle: u32, me: OpRef, call: Call, uses: &mut Vec<Wait>) {
        let wait = |op: OpRef| Wait { thread: op.thread, index: op.index, alone: false };
        let opened = &mut self.opened[handle as usize];
        match opened.used_by.iter_mut().find(|user| user.thread == me.thread) {
            Some(user) => *user = me,
            None => {
                opened.used_by.push(me);
                uses.extend(opened.by.filter(|opener| opener.thread != me.thread).map(wait));
                // Its first use duplicates the parent's, which is not to be closed before.
                if let Origin::Inherited(parents) = self.plan.handles[handle as usize].origin {
                    self.opened[parents as usize].used_by.push(me);
                }
            }
        }
        if matches!(call, Call::Close | Call::Fclose | Call::Closedir) {
            let users = self.opened[handle as usize].used_by.iter();
            uses.extend(users.filter(|user| user.thread != me.thread).map(|user| wait(*user)));
        }
    }

    fn look_up(&self, name: u32, effects: &mut Vec<Effect>) {
        effects.extend(self.names.directories(name).map(|name| Effect::LookUp { name }));
        effects.push(Effect::LookUp { name });
    }

    fn change(&self, name: u32, effects: &mut Vec<Effect>) {
        effects.extend(self.names.directories(name).map(|name| Effect::LookUp { name }));
        effects.push(Effect::Change { name });
    }

    /// What a call does to the names it was given, and the file it acts on.
    fn use_names(&mut self, op: &Op, succeeded: bool, effects: &mut Vec<Effect>) -> Option<u32> {
        use Call::*;
        let (path, other) = (op.path, op.path2);
        let creates = matches!(op.call, Open | Fopen) && op.flags & libc::O_CREAT != 0 || op.call == Creat;
        if !succeeded {
            self.look_up(path, effects);
            if other != NONE {
                self.look_up(other, effects);
            }
            self.learn_from_failure(op, creates);
            return None;
        }
        let lists = op.call == Opendir || op.call == Open && op.flags & libc::O_DIRECTORY != 0;
        let file = match op.call {
            Open | Fopen if op.flags & libc::O_TMPFILE == libc::O_TMPFILE => {
                self.look_up(path, effects);
                self.names.found(path, Need::Directory);
                return Some(self.names.nameless());
            }
            Open | Fopen | Creat if creates && op.flags & libc::O_EXCL == 0 => {
                let empties = op.call == Creat || op.flags & libc::O_TRUNC != 0;
                let (file, may_make) = self.names.opened_or_made(path, empties);
                if may_make {
                    self.change(path, effects);
                } else {
                    self.look_up(path, effects);
                }
                file
            }
            Open | Fopen if creates => self.make(path, Need::File(0), effects),
            Mkstemp | Mknod | Symlink => self.make(path, Need::File(0), effects),
            Mkdir => self.make(path, Need::Directory, effects),
            Unlink | Rmdir => {
                self.change(path, effects);
                let kind = if op.call == Rmdir { Need::Directory } else { Need::File(0) };
                self.names.removed(path, kind);
                return None;
            }
            Rename | Link => {
                if op.call == Rename {
                    self.change(path, effects);
                } else {
                    self.look_up(path, effects);
                }
                if other != NONE {
                    self.change(other, effects);
                    if op.call == Rename {
                        self.names.renamed(path, other)
                    } else {
                        self.names.linked(path, other)
                    }
                } else if op.call == Rename {
                    self.names.removed(path, Need::File(0));
                }
                return None;
            }
            _ => {
                self.look_up(path, effects);
                let looks_at_link =
                    op.call == Readlink || op.call == Stat && op.flags & libc::AT_SYMLINK_NOFOLLOW != 0;
                match self.names.file(path).filter(|_| looks_at_link && op.call == Stat) {
                    Some(file) => file,
                    None => {
                        let kind = match op.call {
                            Readlink => Need::Link(op.result.max(0) as usize),
                            _ if lists => Need::Directory,
                            _ => Need::File(0),
                        };
                        self.names.found(path, kind)
                    }
                }
            }
        };
        Some(file)
    }

    fn make(&mut self, path: u32, kind: Need, effects: &mut Vec<Effect>) -> u32 {
        self.change(path, effects);
        self.names.made(path, kind)
    }

    /// What an error says about what was there.
    fn learn_from_failure(&mut self, op: &Op, creates: bool) {
        let makes = creates || matches!(op.call, Call::Mkdir | Call::Mkstemp | Call::Symlink | Call::Mknod);
        match op.errno {
            libc::ENOENT if makes => {
                let directory = self.names.directories(op.path).next();
                if let Some(directory) = directory {
                    self.names.missing(directory, false);
                }
            }
            libc::ENOENT => {
                let removes = matches!(op.call, Call::Unlink | Call::Rmdir | Call::Rename);
                self.names.missing(op.path, removes);
            }
            libc::EEXIST => {
                let path = if op.path2 == NONE { op.path } else { op.path2 };
                let kind = if op.call == Call::Mkdir { Need::Directory } else { Need::File(0) };
                self.names.found(path, kind);
            }
            libc::EISDIR => {
                self.names.found(op.path, Need::Directory);
            }
            // Not a link.
            libc::EINVAL if op.call == Call::Readlink => {
                self.names.found(op.path, Need::File(0));
            }
            _ => {}
        }
    }

    /// What a successful call does to the content of a file. `is_blind` if it isn't known how many bytes it moved.
    fn use_content(&mut self, op: &Op, file: u32, is_blind: bool, effects: &mut Vec<Effect>) {
        use Call::*;
        let moved = if is_blind { op.length } else { op.result }.max(0);
        let end = op.pos.saturating_add(moved);
        let opened = (op.handle != NONE).then(|| self.opened[op.handle as usize].position);
        let kind = op.call.kind();
        if let Some(opened) = opened
            && matches!(
                op.call,
                Read | Readv | Fread | Write | Writev | Fwrite | Fflush | Lseek | Fseek | Readdir
            )
        {
            effects.push(Effect::Move { opened });
        }
        match (op.call, kind) {
            (Open | Fopen, _) if op.flags & libc::O_TRUNC != 0 => {
                effects.push(Effect::Resize { file });
                self.names.resized(file, 0);
            }
            (Creat, _) => {
                effects.push(Effect::Resize { file });
                self.names.resized(file, 0);
            }
            (Truncate, _) => {
                effects.push(Effect::Resize { file });
                self.names.resized(file, op.length.max(0));
            }
            // It reserves blocks, and makes the file longer unless told not to.
            (Fallocate, _) if op.pos >= 0 && op.length > 0 => {
                let end = op.pos.saturating_add(op.length);
                if op.flags & libc::FALLOC_FL_KEEP_SIZE == 0 {
                    let growth = self.names.written(file, op.pos, end, false);
                    let (from, extends) = (growth.from, growth.extends);
                    effects.push(Effect::Write { file, from, to: end, extends, appends: false });
                }
            }
            (_, CallKind::Read) if op.pos >= 0 => {
                if moved > 0 {
                    self.names.read(file, op.pos, end);
                    self.plan.reach = self.plan.reach.max(end);
                }
                let met_end = moved < op.length;
                effects.push(Effect::Read { file, from: op.pos, to: end, met_end });
            }
            (_, CallKind::Write) if op.pos >= 0 && moved > 0 => {
                let appends =
                    op.handle != NONE && self.plan.handles[op.handle as usize].flags & libc::O_APPEND != 0;
                let growth = self.names.written(file, op.pos, end, appends);
                self.plan.grows += growth.by;
                self.plan.reach = self.plan.reach.max(end);
                let (from, extends) = (growth.from, growth.extends);
                effects.push(Effect::Write { file, from, to: end, extends, appends });
            }
            (_, CallKind::Flush) => effects.push(Effect::Flush { file }),
            _ => {}
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
