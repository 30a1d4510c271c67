//! What is known between one line and the next: processes, threads, descriptors, files.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use iotrail_format::call::WaitKind;
use iotrail_format::ids::{FileId, hash63};
use iotrail_format::path::absolute;
use iotrail_trail::arrays::lossy;

use crate::arguments::{Directory, Fd, unescape};

/// An open file description: descriptors made by dup and fork share one, and with it the position.
#[derive(Debug)]
pub(crate) struct Open {
    /// What strace prints for it with -y, still escaped.
    name: RefCell<Option<Box<[u8]>>>,
    /// Id of the file, pipe or socket; 0 unknown.
    pub(crate) object: i64,
    /// What one waits for in it; none for a file.
    pub(crate) kind: Option<WaitKind>,
    /// Where the next read or write is; none if unknown.
    pub(crate) pos: Cell<Option<i64>>,
    /// Whether writes go to the end.
    pub(crate) append: bool,
}

impl Open {
    /// A file, opened at its beginning.
    pub(crate) fn file(name: Option<&[u8]>, file: i64, kind: Option<WaitKind>, append: bool) -> Rc<Self> {
        let name = RefCell::new(name.map(Box::from));
        Rc::new(Self { name, object: file, kind, pos: Cell::new(Some(0)), append })
    }

    /// What has no positions, or one that isn't known.
    pub(crate) fn other(name: Option<&[u8]>, object: i64, kind: Option<WaitKind>) -> Rc<Self> {
        let name = RefCell::new(name.map(Box::from));
        Rc::new(Self { name, object, kind, pos: Cell::new(None), append: false })
    }

    /// The file; 0 if it is none, or unknown.
    pub(crate) fn as_file(&self) -> i64 {
        if self.kind.is_none() { self.object } else { 0 }
    }
}

/// A process's descriptors. Threads, and processes made with CLONE_FILES, share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Descriptors {
    open: HashMap<i64, Rc<Open>>,
    /// Those that exec closes.
    cloexec: HashSet<i64>,
}

impl Descriptors {
    /// What a number stands for, if it is known.
    pub(crate) fn get(&self, number: i64) -> Option<&Rc<Open>> {
        self.open.get(&number)
    }

    /// A number stands for something new.
    pub(crate) fn install(&mut self, number: i64, entry: Rc<Open>, cloexec: bool) {
        self.open.insert(number, entry);
        if cloexec {
            self.cloexec.insert(number);
        } else {
            self.cloexec.remove(&number);
        }
    }

    /// exec will close it.
    pub(crate) fn close_on_exec(&mut self, number: i64) {
        self.cloexec.insert(number);
    }

    /// A number is free.
    pub(crate) fn close(&mut self, number: i64) {
        self.open.remove(&number);
    }

    /// All numbers from `low` to `high` are free.
    pub(crate) fn close_range(&mut self, low: i64, high: i64) {
        self.open.retain(|number, _| !(low..=high).contains(number));
    }

    /// What is left after exec.
    pub(crate) fn after_exec(&self) -> Self {
        let kept = self.open.iter().filter(|(number, _)| !self.cloexec.contains(number));
        Self { open: kept.map(|(number, entry)| (*number, entry.clone())).collect(), cloexec: HashSet::new() }
    }
}

/// A program image.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) id: i64,
    pub(crate) pid: u32,
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) parent: Option<i64>,
    pub(crate) program: Program,
    pub(crate) cwd: Option<Rc<[u8]>>,
    pub(crate) descriptors: Rc<RefCell<Descriptors>>,
    pub(crate) ended: Ended,
    pub(crate) status: Option<i64>,
}

/// What exec said; forked processes have it too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Program {
    pub(crate) exe: Option<Rc<[u8]>>,
    pub(crate) cmd: Option<Rc<[u8]>>,
}

impl Program {
    /// The name of its file; none if it isn't known.
    pub(crate) fn name(&self) -> Option<String> {
        let exe = self.exe.as_deref()?;
        let name = exe.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty());
        Some(lossy(name.unwrap_or(exe))).filter(|name| !name.is_empty())
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Not in this trace.
    Running,
    Exit,
    Exec,
    Killed,
}

impl Ended {
    /// The name in a trail.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Exit => "exit",
            Self::Exec => "exec",
            Self::Killed => "killed",
        }
    }
}

/// A thread.
#[derive(Debug)]
pub(crate) struct Thread {
    pub(crate) id: i64,
    pub(crate) tid: u32,
    /// Its process, by number.
    pub(crate) process: usize,
    pub(crate) start: i64,
    pub(crate) last: i64,
    /// The call whose end another thread's line came before.
    pub(crate) pending: Option<Pending>,
}

/// The beginning of a call.
#[derive(Debug)]
pub(crate) struct Pending {
    pub(crate) start: i64,
    pub(crate) name: Box<[u8]>,
    pub(crate) args: Vec<u8>,
    /// Row in the trace.
    pub(crate) row: i64,
    /// What a close closes: its number is free at once, another thread may get it before the close is printed as done.
    pub(crate) closes: Option<Rc<Open>>,
}

/// A clone whose child hasn't been seen yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cloning {
    /// The thread that calls, by number.
    pub(crate) parent: usize,
    pub(crate) how: CloneFlags,
}

/// What a clone shares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CloneFlags {
    /// The process: a new thread.
    pub(crate) process: bool,
    /// The descriptors.
    pub(crate) descriptors: bool,
}

/// Processes, threads and files of a trace, dead ones too. Numbers are positions in these lists.
#[derive(Debug)]
pub(crate) struct State {
    node: String,
    pub(crate) processes: Vec<Process>,
    pub(crate) threads: Vec<Thread>,
    /// Threads that live, by the system's number.
    pub(crate) live: HashMap<u32, usize>,
    pub(crate) cloning: VecDeque<Cloning>,
    /// Paths by id.
    pub(crate) files: HashMap<i64, Box<[u8]>>,
    /// Program images that a pid had.
    images: HashMap<u32, u32>,
    /// Pipes, sockets and the like that have no name.
    nameless: u64,
    /// Threads that strace said it attached to, and that didn't call yet.
    pub(crate) attached: HashSet<u32>,
}

impl State {
    /// Nothing is known.
    pub(crate) fn new(node: String) -> Self {
        Self {
            node,
            processes: Vec::new(),
            threads: Vec::new(),
            live: HashMap::new(),
            cloning: VecDeque::new(),
            files: HashMap::new(),
            images: HashMap::new(),
            nameless: 0,
            attached: HashSet::new(),
        }
    }

    // -- processes and threads

    /// A thread seen for the first time: the child of a clone still under way, or of nobody known.
    pub(crate) fn first_seen(&mut self, tid: u32, ts: i64) -> usize {
        match self.cloning.pop_front() {
            Some(Cloning { parent, how }) => self.add_child(parent, how, tid, ts),
            None => {
                let process = self.add_process(tid, ts, None);
                self.add_thread(tid, process, ts)
            }
        }
    }

    /// The thread whose lines had no pid has this one: strace prints it only while it traces several.
    pub(crate) fn name_first(&mut self, tid: u32) -> Option<usize> {
        let thread = self.live.remove(&0)?;
        self.live.insert(tid, thread);
        self.threads[thread].tid = tid;
        let process = self.process_of(thread);
        if process.pid == 0 {
            process.pid = tid;
        }
        Some(thread)
    }

    /// The child of a clone.
    pub(crate) fn add_child(&mut self, parent: usize, how: CloneFlags, tid: u32, ts: i64) -> usize {
        let old = self.threads[parent].process;
        if how.process {
            return self.add_thread(tid, old, ts);
        }
        let new = self.add_process(tid, ts, Some(self.processes[old].id));
        let old = &self.processes[old];
        let descriptors = if how.descriptors {
            old.descriptors.clone()
        } else {
            Rc::new(RefCell::new(old.descriptors.borrow().clone()))
        };
        let (program, cwd) = (old.program.clone(), old.cwd.clone());
        let child = &mut self.processes[new];
        (child.program, child.cwd, child.descriptors) = (program, cwd, descriptors);
        self.add_thread(tid, new, ts)
    }

    /// A thread runs a new program. `begun` is when its call began, `ts` when it returned.
    pub(crate) fn exec(&mut self, thread: usize, begun: i64, ts: i64, program: Program) {
        let old = self.threads[thread].process;
        let first = self.threads[thread].start == begun && self.processes[old].program.exe.is_none();
        if first && self.is_last(thread) {
            // The first line of a trace.
            self.processes[old].program = program;
            return;
        }
        let tid = self.threads[thread].tid;
        self.threads[thread].last = ts;
        let process = &mut self.processes[old];
        (process.end, process.ended) = (ts, Ended::Exec);
        let (pid, parent, cwd) = (process.pid, process.id, process.cwd.clone());
        let descriptors = process.descriptors.borrow().after_exec();
        let new = self.add_process(pid, ts, Some(parent));
        let process = &mut self.processes[new];
        (process.program, process.cwd) = (program, cwd);
        process.descriptors = Rc::new(RefCell::new(descriptors));
        let thread = self.add_thread(tid, new, ts);
        if self.is_last_of(old, thread) {
            self.processes[old].descriptors = Rc::default();
        }
    }

    /// A thread ended.
    pub(crate) fn end(&mut self, thread: usize, ts: i64, ended: Ended, status: Option<i64>) {
        let last = self.is_last(thread);
        let Thread { tid, process, .. } = self.threads[thread];
        self.threads[thread].last = ts;
        self.live.remove(&tid);
        let process = &mut self.processes[process];
        if last || tid == process.pid {
            (process.end, process.status, process.ended) = (ts, status, ended);
        }
        if last {
            process.descriptors = Rc::default();
        }
    }

    /// Whether no other thread of its process lives.
    fn is_last(&self, thread: usize) -> bool {
        self.is_last_of(self.threads[thread].process, thread)
    }

    /// Whether no thread of a process lives but, perhaps, this one.
    fn is_last_of(&self, process: usize, thread: usize) -> bool {
        !self.live.values().any(|&other| other != thread && self.threads[other].process == process)
    }

    fn add_process(&mut self, pid: u32, start: i64, parent: Option<i64>) -> usize {
        let image = self.images.entry(pid).or_default();
        let id = hash63(format!("process {} {pid} {image}", self.node).as_bytes());
        *image += 1;
        self.processes.push(Process {
            id,
            pid,
            start,
            end: 0,
            parent,
            program: Program::default(),
            cwd: None,
            descriptors: Rc::default(),
            ended: Ended::Running,
            status: None,
        });
        self.processes.len() - 1
    }

    fn add_thread(&mut self, tid: u32, process: usize, start: i64) -> usize {
        let id = hash63(format!("thread {} {tid}", self.processes[process].id).as_bytes());
        self.threads.push(Thread { id, tid, process, start, last: start, pending: None });
        let number = self.threads.len() - 1;
        self.live.insert(tid, number);
        number
    }

    /// The process of a thread.
    pub(crate) fn process_of(&mut self, thread: usize) -> &mut Process {
        &mut self.processes[self.threads[thread].process]
    }

    // -- descriptors

    /// What a descriptor stands for: with -y what strace says, else what was followed.
    pub(crate) fn open(&mut self, thread: usize, fd: Fd<'_>) -> Option<Rc<Open>> {
        let descriptors = self.process_of(thread).descriptors.clone();
        let known = descriptors.borrow().get(fd.number).cloned();
        let Some(label) = fd.label else { return known };
        if let Some(entry) = &known
            && entry.name.borrow().as_deref() == Some(label)
        {
            return known;
        }
        let entry = self.named(label, known);
        descriptors.borrow_mut().open.insert(fd.number, entry.clone());
        Some(entry)
    }

    /// A descriptor strace names; the one followed so far may be the same under another name.
    fn named(&mut self, label: &[u8], followed: Option<Rc<Open>>) -> Rc<Open> {
        if let Some(entry) = followed.filter(|entry| entry.name.borrow().is_none()) {
            *entry.name.borrow_mut() = Some(label.into());
            if label.starts_with(b"/") || entry.kind.is_some() {
                return entry;
            }
        }
        let kind = kind_of(label);
        let object = if kind.is_some() { hash63(label) } else { self.path(b"", label) };
        Open::other(Some(label), object, kind)
    }

    /// What a call that makes a pipe, socket or the like returned.
    pub(crate) fn made(&mut self, label: Option<&[u8]>, kind: WaitKind) -> Rc<Open> {
        self.nameless += 1;
        self.end_of(label, kind)
    }

    /// An end of the pipe or socket that [`State::made`] made last.
    pub(crate) fn end_of(&self, label: Option<&[u8]>, kind: WaitKind) -> Rc<Open> {
        let object = match label {
            Some(label) => hash63(label),
            None => hash63(format!("{} {} of {}", kind.name(), self.nameless, self.node).as_bytes()),
        };
        Open::other(label, object, Some(kind))
    }

    // -- files

    /// The id of an escaped path. A relative one is as given where its directory isn't known.
    pub(crate) fn path(&mut self, directory: &[u8], path: &[u8]) -> i64 {
        let path = unescape(path);
        let whole = absolute(directory, &path);
        let FileId(id) = FileId::of_path(&whole);
        self.files.entry(id).or_insert_with(|| whole.into());
        id
    }

    /// The id of an escaped path in the working directory.
    pub(crate) fn path_here(&mut self, thread: usize, path: &[u8]) -> i64 {
        let directory = self.process_of(thread).cwd.clone();
        self.path(directory.as_deref().unwrap_or_default(), path)
    }

    /// The id of an escaped path in a directory.
    pub(crate) fn path_at(&mut self, thread: usize, directory: Directory<'_>, path: &[u8]) -> i64 {
        let directory = self.directory(thread, directory);
        self.path(directory.as_deref().unwrap_or_default(), path)
    }

    /// The path of a directory, if it is known. With -y strace says where the process works.
    fn directory(&mut self, thread: usize, directory: Directory<'_>) -> Option<Rc<[u8]>> {
        match directory {
            Directory::Working(label) => {
                let process = self.process_of(thread);
                if let Some(label) = label {
                    let path = unescape(label);
                    if process.cwd.as_deref() != Some(&*path) {
                        process.cwd = Some(path.into());
                    }
                }
                process.cwd.clone()
            }
            Directory::Of(Fd { label: Some(label), .. }) => Some(unescape(label).into()),
            Directory::Of(fd) => {
                let file = self.process_of(thread).descriptors.borrow().get(fd.number)?.as_file();
                self.files.get(&file).map(|path| path.clone().into())
            }
        }
    }
}

/// What one waits for in a descriptor of this name; none for a file.
pub(crate) fn kind_of(label: &[u8]) -> Option<WaitKind> {
    match label {
        [b'/', ..] => is_terminal(label).then_some(WaitKind::Terminal),
        _ if label.starts_with(b"pipe:") => Some(WaitKind::Pipe),
        _ if label.starts_with(b"anon_inode:") => Some(WaitKind::Event),
        _ => Some(WaitKind::Socket),
    }
}

/// Whether a path is a terminal's.
pub(crate) fn is_terminal(path: &[u8]) -> bool {
    path.starts_with(b"/dev/pts/") || path.starts_with(b"/dev/tty")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_all_importers() {
        let mut state = State::new("trace".into());
        state.first_seen(100, 0);
        // python/iotrail/importers/ids.py: process_id("trace", 100), thread_id of that, file_id.
        assert_eq!(state.processes[0].id, 803_319_636_914_934_136);
        assert_eq!(state.threads[0].id, 3_563_238_282_153_951_320);
        assert_eq!(state.path(b"/etc", b"./passwd"), 2_317_399_646_986_329_491);
    }
}
