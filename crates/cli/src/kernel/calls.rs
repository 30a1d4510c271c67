//! System calls and io_uring as the kernel saw them, posted as the calls of programs that no recorder is in.
//!
//! The kernel says what a descriptor stands for and where in the file it is ([`iotrail_probes::Syscall`]); followed
//! here is what it doesn't say: by which path a file was opened, and in which directory a process works.
//!
//! Whether a program has a recorder in it shows once its loader is done, by [`Change::HasRecorder`]. What an image did
//! before is kept until then, and forgotten: it is the loader's. An image that forks, ends, or goes on for a while
//! without has none.
//!
//! Where a recorder is in the program, calls that its own code makes past the C library (Go's) are posted for it, and
//! requests on io_uring.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::rc::Rc;

use iotrail_format::call::{Call, WaitKind};
use iotrail_format::ids::{FileId, ProcessId, hash63};
use iotrail_format::path::absolute;
use iotrail_format::record::FIRST_TYPE;
use iotrail_format::segment::{ImageNote, NONE, OP_CALL, OP_IMAGE, TextKind, UNFINISHED, UnseenKind};
use iotrail_format::syscall::{Kind, OpenForm, kind};
use iotrail_probes::{Change, Opened, Process, Syscall, UringOp, What};
use iotrail_sdk::post;
use iotrail_sdk::record::{self, Record};

/// Calls after which an image that showed no recorder has none; some 200 bytes each.
const MOST_HELD: usize = 1 << 14;
/// Nanoseconds after which it has none, unless it opened the recorder's library, which a loader does before all
/// others.
const LONGEST_HELD: u64 = 2_000_000_000;

/// A file's id and path.
type Named = Rc<(i64, Box<[u8]>)>;

/// Everything that is followed.
#[derive(Default)]
pub struct Calls {
    processes: HashMap<u32, Image>,
    /// What each call is, by number.
    kinds: HashMap<u32, Option<Kind>>,
    /// Paths of open file descriptions, with the inode that each was; none where it can't be known.
    opened: HashMap<u64, (Opened, Option<Named>)>,
    /// Paths of what the first process had open, by inode and device.
    inherited: HashMap<(u64, u64), Named>,
    /// Paths that were posted.
    told: HashSet<i64>,
}

/// What a process runs.
struct Image {
    id: i64,
    start: u64,
    /// Pid and image of who began it.
    parent: (u32, i64),
    exe: Option<Box<[u8]>>,
    arguments: Option<Box<[u8]>>,
    cwd: Option<Rc<[u8]>>,
    recorder: Recorder,
    /// It opened the recorder's library.
    loads: bool,
}

/// Whether a recorder is in an image.
enum Recorder {
    /// Not known yet; what it did so far.
    Unknown(Vec<Row>),
    /// It is posted.
    None,
    /// It records itself, or is the recorder's own child before its exec.
    There,
}

/// A call on its way.
struct Row {
    call: Call,
    wait: Option<WaitKind>,
    tid: u32,
    start: u64,
    end: Option<u64>,
    object: i64,
    file: Option<Named>,
    file2: Option<Named>,
    fd: Option<i64>,
    pos: Option<i64>,
    length: Option<i64>,
    result: i64,
    errno: u16,
    /// Flags or peer; a second file goes before.
    aux: Option<i64>,
}

impl Calls {
    /// Begins with a process that waits to become the program.
    pub fn begin(&mut self, pid: u32) {
        let link = |name: &str| std::fs::read_link(format!("/proc/{pid}/{name}")).ok();
        let cwd = link("cwd").map(|path| Rc::from(path.as_os_str().as_bytes()));
        let mut image = Image::new(pid, 0, (0, 0), cwd);
        image.recorder = Recorder::There;
        self.processes.insert(pid, image);
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        for descriptor in descriptors {
            if let Some((inode, dev, named)) = look_up(&descriptor.path()) {
                self.inherited.insert((inode, dev), named);
            }
        }
        note(ImageNote::Watching, 0, 0, 0, [0; 3]);
    }

    /// Says that a program makes calls that nobody sees.
    pub fn unseen(&mut self, program: &Path) {
        let whole = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
        let file = named(&absolute(b"", whole.as_os_str().as_bytes()));
        post::text(TextKind::Path, file.0, &file.1);
        post::unseen(UnseenKind::Static, file.0, 1);
    }

    /// What became of a process.
    pub fn process(&mut self, event: &Process) {
        let (pid, time) = (event.pid, event.time);
        match &event.change {
            Change::Forked { parent } => {
                let Some(from) = self.processes.get_mut(parent) else { return };
                // No loader forks, but the recorder's library may, to help itself.
                if !from.loads {
                    from.settle(*parent, &mut self.told);
                }
                let there = !matches!(from.recorder, Recorder::None);
                let mut child =
                    Image::new(pid, time, (*parent, if there { 0 } else { from.id }), from.cwd.clone());
                (child.exe, child.arguments) = (from.exe.clone(), from.arguments.clone());
                if there {
                    child.recorder = Recorder::There;
                } else {
                    child.settle(pid, &mut self.told);
                }
                self.processes.insert(pid, child);
            }
            Change::Executed { file, arguments } => {
                let old = self.processes.remove(&pid);
                let from = old.as_ref().map_or(0, |old| if old.posted() { old.id } else { 0 });
                let cwd = old.as_ref().and_then(|old| old.cwd.clone());
                if let Some(mut old) = old {
                    old.settle(pid, &mut self.told);
                    old.ended(pid, time, 2, NONE);
                }
                let mut image = Image::new(pid, time, (pid, from), cwd);
                let directory = image.cwd.as_deref().unwrap_or_default();
                image.exe = file.as_deref().map(|file| absolute(directory, file).into());
                image.arguments = arguments.as_deref().map(Box::from);
                self.processes.insert(pid, image);
            }
            Change::LoadsRecorder => {
                if let Some(image) = self.processes.get_mut(&pid) {
                    image.loads = true;
                }
            }
            Change::HasRecorder => {
                if let Some(image) = self.processes.get_mut(&pid) {
                    image.recorder = Recorder::There;
                }
            }
            Change::Ended { status } => {
                if let Some(mut image) = self.processes.remove(&pid) {
                    image.settle(pid, &mut self.told);
                    let exited = libc::WIFEXITED(*status);
                    let code = if exited { i64::from(libc::WEXITSTATUS(*status)) } else { NONE };
                    image.ended(pid, time, if exited { 1 } else { 3 }, code);
                }
            }
        }
    }

    /// Settles images that are old enough.
    pub fn tick(&mut self, now: u64) {
        for (pid, image) in &mut self.processes {
            if !image.loads && now.saturating_sub(image.start) > LONGEST_HELD {
                image.settle(*pid, &mut self.told);
            }
        }
    }

    /// The recording ends.
    pub fn finish(&mut self) {
        for (pid, image) in &mut self.processes {
            image.settle(*pid, &mut self.told);
        }
    }

    /// A system call.
    pub fn syscall(&mut self, call: &Syscall) {
        if !self.processes.contains_key(&call.pid) {
            return;
        }
        let known = || iotrail_probes::name(call.nr).and_then(|name| kind(name.as_bytes()));
        let Some(kind) = *self.kinds.entry(call.nr).or_insert_with(known) else { return };
        // Also of those that record themselves: what they open, others inherit.
        let row = self.row(kind, call);
        let Some(image) = self.processes.get_mut(&call.pid) else { return };
        let Some(row) = row else { return };
        match &mut image.recorder {
            Recorder::Unknown(held) if held.len() < MOST_HELD => held.push(row),
            Recorder::Unknown(_) => {
                image.settle(call.pid, &mut self.told);
                row.post(call.pid, image.id, &mut self.told);
            }
            Recorder::None => row.post(call.pid, image.id, &mut self.told),
            Recorder::There if call.foreign => row.post(call.pid, 0, &mut self.told),
            Recorder::There => {}
        }
    }

    /// A request on an io_uring, which no recorder in a program sees.
    pub fn uring(&mut self, op: &UringOp) {
        let Some((call, wait)) = uring_call(op) else { return };
        let (result, errno) = outcome(i64::from(op.result));
        let mut row = Row::new(call, op.tid, op.submitted, op.completed, (result, errno));
        row.fd = op.fd.map(i64::from);
        let number = |number: Option<u64>| number.and_then(|number| i64::try_from(number).ok());
        if !matches!(call, Call::Fsync | Call::Fdatasync) {
            (row.pos, row.length) = (number(op.pos), number(op.length));
        }
        row.wait = wait;
        if let Some(opened) = op.opened {
            self.place(&mut row, op.pid, &opened, op.fd.map(i64::from));
            if row.wait.is_some() {
                row.pos = None;
            }
        }
        let Some(image) = self.processes.get_mut(&op.pid) else { return };
        match &mut image.recorder {
            Recorder::Unknown(held) if held.len() < MOST_HELD => held.push(row),
            Recorder::Unknown(_) => {
                image.settle(op.pid, &mut self.told);
                row.post(op.pid, image.id, &mut self.told);
            }
            Recorder::None => row.post(op.pid, image.id, &mut self.told),
            Recorder::There => row.post(op.pid, 0, &mut self.told),
        }
    }

    // -- what a call is

    /// The row a call becomes, and what it changes of what is known.
    fn row(&mut self, kind: Kind, c: &Syscall) -> Option<Row> {
        let argument = |at: usize| c.args[at] as i64;
        let fd = |at: usize| i64::from(c.args[at] as i32);
        let (result, errno) = outcome(c.ret);
        let row = |call: Call| Row::new(call, c.tid, c.start, c.end, (result, errno));
        let on = |calls: &mut Self, mut row: Row, at: usize| {
            row.fd = Some(fd(at));
            if let Some(opened) = &c.opened[0] {
                calls.place(&mut row, c.pid, opened, Some(fd(at)));
            }
            row
        };
        Some(match kind {
            Kind::Transfer { call, positioned, vector } => {
                let mut row = on(self, row(call), 0);
                row.length = if vector { c.told.map(|told| told as i64) } else { Some(argument(2)) };
                // preadv2 and pwritev2 take -1 for the file's own position.
                let own = !positioned || c.moved.is_some() && argument(3) == -1;
                row.pos = if own { position(c, result) } else { Some(argument(3)) };
                if row.wait.is_some() {
                    row.pos = None;
                }
                row.length = row.length.filter(|length| *length >= 0);
                row
            }
            Kind::Open(form) => {
                self.open(row(if form == OpenForm::Creat { Call::Creat } else { Call::Open }), form, c)
            }
            Kind::Close => on(self, row(Call::Close), 0).of_file(),
            Kind::CloseRange => row(Call::CloseRange),
            Kind::Dup => on(self, row(Call::Dup), 0).of_file(),
            Kind::Fcntl => match c.args[1] as i32 {
                libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => on(self, row(Call::Dup), 0).of_file(),
                libc::F_GETFD | libc::F_SETFD | libc::F_GETFL => return None,
                libc::F_SETLKW | libc::F_OFD_SETLKW => {
                    on(self, row(Call::Flock), 0).waits_for(WaitKind::FileLock)
                }
                command => Row { aux: Some(command.into()), ..on(self, row(Call::Fcntl), 0).of_file() },
            },
            Kind::Lseek => Row { aux: Some(argument(2)), ..on(self, row(Call::Lseek), 0).of_file() },
            Kind::Path(call) => {
                let file = self.at(c.pid, None, c.path.as_deref());
                if call == Call::Chdir && c.ret == 0 {
                    self.works_in(c.pid, file.as_ref());
                }
                let length = (call == Call::Truncate).then(|| argument(1));
                Row { file, length, ..row(call) }
            }
            Kind::TwoPaths(call) => Row {
                file: self.at(
                    c.pid,
                    None,
                    if call == Call::Symlink { c.path2.as_deref() } else { c.path.as_deref() },
                ),
                file2: self.at(c.pid, None, c.path2.as_deref()).filter(|_| call != Call::Symlink),
                ..row(call)
            },
            Kind::At { call, null } => self.in_directory(row(call), call, null, c),
            Kind::TwoAt(call) => Row {
                file: self.path_at(c, 0, 0, c.path.as_deref()),
                file2: self.path_at(c, 1, 2, c.path2.as_deref()),
                ..row(call)
            },
            Kind::SymlinkAt => Row { file: self.path_at(c, 0, 1, c.path2.as_deref()), ..row(Call::Symlink) },
            Kind::Descriptor { call, pos, length } => {
                let mut row = on(self, row(call), 0).of_file();
                (row.pos, row.length) = (pos.map(argument), length.map(argument));
                if call == Call::Chdir && c.ret == 0 {
                    self.works_in(c.pid, row.file.as_ref());
                }
                row
            }
            Kind::Mmap => {
                if (c.args[4] as i32) < 0 || c.args[3] as i32 & libc::MAP_ANONYMOUS != 0 {
                    return None;
                }
                let mut row = on(self, row(Call::Mmap), 4).of_file();
                (row.pos, row.length) = (Some(argument(5)), Some(argument(1)));
                row.aux = Some(argument(2) & 0xff | (argument(3) & 0xffff) << 8);
                row
            }
            Kind::Copy { call, source, target: _, length } => {
                let mut row = on(self, row(call), source).of_file();
                row.length = Some(argument(length)).filter(|length| *length >= 0);
                // Without an offset of the call's own it is the file's, which moves.
                let offset = if call == Call::Sendfile { c.args[2] } else { c.args[1] };
                row.pos = if offset == 0 { position(c, result) } else { c.told.map(|offset| offset as i64) };
                row.pos = row.pos.filter(|_| row.file.is_some());
                row.file2 = c.opened[1].and_then(|opened| self.path_of(c.pid, &opened, None));
                row
            }
            Kind::Sync => row(Call::Sync),
            Kind::Wait { call, kind, descriptor, length } => {
                let row = if descriptor { on(self, row(call), 0) } else { row(call) };
                let length = length.map(argument).filter(|length| *length >= 0);
                Row { length, ..row.waits_for(kind) }
            }
            Kind::Accept => on(self, row(Call::Accept), 0).waits_for(WaitKind::Socket),
            Kind::Sleep => row(Call::Sleep).waits_for(WaitKind::Sleep),
            Kind::WaitForChild => {
                let peer = Some(result).filter(|pid| *pid > 0);
                Row { aux: peer, ..row(Call::Wait).waits_for(WaitKind::Process) }
            }
            Kind::Make { .. } | Kind::Futex | Kind::Clone | Kind::Exec | Kind::Ring => return None,
        })
    }

    fn open(&mut self, mut row: Row, form: OpenForm, c: &Syscall) -> Row {
        let at = matches!(form, OpenForm::At | OpenForm::At2);
        row.file = if at {
            self.path_at(c, 0, 0, c.path.as_deref())
        } else {
            self.at(c.pid, None, c.path.as_deref())
        };
        row.aux = match form {
            OpenForm::Open => Some(i64::from(c.args[1] as i32)),
            OpenForm::At => Some(i64::from(c.args[2] as i32)),
            OpenForm::At2 => c.told.map(|told| told as i64),
            OpenForm::Creat => Some(i64::from(libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC)),
        };
        if row.result >= 0 {
            row.fd = Some(row.result);
            // A directory that a path is relative to stands before it.
            let made = if at { c.opened[1] } else { c.opened[0] };
            if let (Some(made), Some(file)) = (made, &row.file) {
                self.opened.insert(made.id, (made, Some(file.clone())));
            }
        }
        row
    }

    fn in_directory(&mut self, mut row: Row, call: Call, null: bool, c: &Syscall) -> Row {
        let itself = match c.path.as_deref() {
            None => null && c.args[1] == 0,
            Some(path) => path.is_empty(),
        };
        if itself {
            row.fd = Some(i64::from(c.args[0] as i32)).filter(|fd| *fd >= 0);
            row.file = match c.opened[0] {
                Some(opened) => self.path_of(c.pid, &opened, row.fd),
                None => self.at(c.pid, None, Some(b".")),
            };
        } else {
            row.file = self.path_at(c, 0, 0, c.path.as_deref());
        }
        row.call = match call {
            Call::Stat if itself && c.path.is_some() => Call::Fstat,
            Call::Unlink if c.args[2] as i32 & libc::AT_REMOVEDIR != 0 => Call::Rmdir,
            call => call,
        };
        row
    }

    // -- paths

    /// A path of a call, in the directory that a descriptor among its arguments stands for.
    fn path_at(&mut self, c: &Syscall, which: usize, at: usize, path: Option<&[u8]>) -> Option<Named> {
        if c.args[at] as i32 == libc::AT_FDCWD {
            return self.at(c.pid, None, path);
        }
        let directory = c.opened[which]
            .and_then(|opened| self.path_of(c.pid, &opened, Some(i64::from(c.args[at] as i32))));
        self.at(c.pid, Some(directory.as_ref().map_or(&[], |named| &named.1)), path)
    }

    /// A path in a directory, or where the process works.
    fn at(&self, pid: u32, directory: Option<&[u8]>, path: Option<&[u8]>) -> Option<Named> {
        let cwd = || self.processes.get(&pid).and_then(|image| image.cwd.as_deref());
        let directory = directory.or_else(cwd).unwrap_or_default();
        path.filter(|path| !path.is_empty()).map(|path| named(&absolute(directory, path)))
    }

    fn works_in(&mut self, pid: u32, directory: Option<&Named>) {
        if let (Some(image), Some(directory)) = (self.processes.get_mut(&pid), directory) {
            image.cwd = Some(Rc::from(&*directory.1));
        }
    }

    /// The path by which something was opened, if it is a file.
    fn path_of(&mut self, pid: u32, opened: &Opened, fd: Option<i64>) -> Option<Named> {
        if !matches!(opened.what, What::File) {
            return None;
        }
        let same =
            |known: &&(Opened, Option<Named>)| known.0.inode == opened.inode && known.0.dev == opened.dev;
        if let Some((_, named)) = self.opened.get(&opened.id).filter(same) {
            return named.clone();
        }
        // It was there before, or came in another way: over a socket, from a ring.
        let dev = libc::makedev(opened.dev.major, opened.dev.minor);
        // Some file systems show programs a number that isn't the kernel's own (btrfs, overlayfs): all without a
        // device of their own, whose major is 0.
        let is = |inode: u64, of: u64| inode == opened.inode && (of == dev || opened.dev.major == 0);
        let mut known = self.inherited.iter().filter(|((inode, of), _)| is(*inode, *of));
        let found = known.next().map(|(_, named)| named.clone()).or_else(|| {
            let link = format!("/proc/{pid}/fd/{}", fd?);
            look_up(Path::new(&link)).filter(|(inode, of, _)| is(*inode, *of)).map(|(.., named)| named)
        });
        self.opened.insert(opened.id, (*opened, found.clone()));
        found
    }

    /// Says what a descriptor of a row stands for.
    fn place(&mut self, row: &mut Row, pid: u32, opened: &Opened, fd: Option<i64>) {
        let inode = |kind: &str| hash63(format!("{kind}:[{}]", opened.inode).as_bytes());
        let (wait, object) = match opened.what {
            What::File => (None, 0),
            What::Pipe => (Some(WaitKind::Pipe), inode("pipe")),
            What::Socket => (Some(WaitKind::Socket), inode("socket")),
            What::Terminal => (Some(WaitKind::Terminal), 0),
            What::Event => (Some(WaitKind::Event), 0),
        };
        (row.wait, row.object) = (wait, object);
        row.file = self.path_of(pid, opened, fd);
    }
}

impl Image {
    fn new(pid: u32, start: u64, parent: (u32, i64), cwd: Option<Rc<[u8]>>) -> Self {
        let (id, recorder) = (ProcessId::new(pid, start).0, Recorder::Unknown(Vec::new()));
        Self { id, start, parent, exe: None, arguments: None, cwd, recorder, loads: false }
    }

    fn posted(&self) -> bool {
        !matches!(self.recorder, Recorder::There)
    }

    /// It has no recorder if none was seen by now: it is posted, and what it did.
    fn settle(&mut self, pid: u32, told: &mut HashSet<i64>) {
        let Recorder::Unknown(held) = &mut self.recorder else { return };
        let held = std::mem::take(held);
        self.recorder = Recorder::None;
        let parent = [0, i64::from(self.parent.0), self.parent.1];
        note(ImageNote::Begun, pid, self.start, self.id, parent);
        let cwd = self.cwd.as_deref();
        for (kind, text) in [
            (TextKind::Exe, self.exe.as_deref()),
            (TextKind::Command, self.arguments.as_deref()),
            (TextKind::Cwd, cwd),
        ] {
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                post::text(kind, self.id, text);
            }
        }
        held.into_iter().for_each(|row| row.post(pid, self.id, told));
    }

    fn ended(&self, pid: u32, time: u64, how: i64, status: i64) {
        if self.posted() {
            note(ImageNote::Ended, pid, time, self.id, [0, how, status]);
        }
    }
}

impl Row {
    fn new(call: Call, tid: u32, start: u64, end: Option<u64>, (result, errno): (i64, u16)) -> Self {
        Self {
            call,
            wait: None,
            tid,
            start,
            end,
            object: 0,
            file: None,
            file2: None,
            fd: None,
            pos: None,
            length: None,
            result,
            errno,
            aux: None,
        }
    }

    /// It is a call on a file, whatever it is a call on: nothing in it waits.
    fn of_file(mut self) -> Self {
        (self.wait, self.object) = (None, 0);
        self
    }

    /// It waits, whatever its descriptor stands for.
    fn waits_for(mut self, kind: WaitKind) -> Self {
        self.wait = Some(kind);
        self
    }

    fn post(self, pid: u32, image: i64, told: &mut HashSet<i64>) {
        let mut id = |file: &Option<Named>| {
            file.as_ref().map_or(0, |file| {
                if told.insert(file.0) && !post::text(TextKind::Path, file.0, &file.1) {
                    told.remove(&file.0);
                }
                file.0
            })
        };
        let (file, file2) = (id(&self.file), id(&self.file2));
        let aux = if file2 == 0 { self.aux.unwrap_or(NONE) } else { file2 };
        let dur = self.end.map_or(UNFINISHED, |end| end.saturating_sub(self.start));
        let object = if self.object == 0 { file } else { self.object };
        let record = Record {
            number: OP_CALL - FIRST_TYPE,
            kind: self.wait.map_or(0, |kind| kind as u8),
            extra: 0,
            small: self.fd.unwrap_or(-1) as i32 as u32,
            start: self.start,
            dur,
            crumb: i64::from(pid) | i64::from(self.tid) << 32,
            words: [object, self.pos.unwrap_or(NONE), self.length.unwrap_or(NONE), self.result],
        };
        let call = self.call as i64 | i64::from(self.errno.min(0xff)) << 16;
        record::post(&record, &[aux, call, image]);
    }
}

/// Result and errno as the C library gives them.
fn outcome(ret: i64) -> (i64, u16) {
    /// Results from here up to -1 are errors (MAX_ERRNO in include/linux/err.h).
    const LOWEST: i64 = -4095;
    /// ERESTARTSYS and ERESTART_RESTARTBLOCK: a signal came; who isn't restarted gets EINTR.
    const RESTARTED: std::ops::RangeInclusive<i64> = 512..=516;
    match -ret {
        restart if RESTARTED.contains(&restart) => (-1, libc::EINTR as u16),
        error if (LOWEST..0).contains(&ret) => (-1, error as u16),
        _ => (ret, 0),
    }
}

/// Where a call at the file's position was. None where others moved it meanwhile.
fn position(c: &Syscall, result: i64) -> Option<i64> {
    let (before, after) = c.moved?;
    let (before, after, moved) = (before as i64, after as i64, result.max(0));
    let append = c.opened[0].is_some_and(|opened| opened.append);
    (append || before + moved == after).then_some(after - moved)
}

fn named(path: &[u8]) -> Named {
    Rc::new((FileId::of_path(path).0, path.into()))
}

/// What a link in /proc leads to: inode, device, path; none if it is no file.
fn look_up(link: &Path) -> Option<(u64, u64, Named)> {
    let path = std::fs::read_link(link).ok()?;
    let meta = std::fs::metadata(link).ok()?;
    let path = path.as_os_str().as_bytes();
    path.starts_with(b"/").then(|| (meta.ino(), meta.dev(), named(path)))
}

/// What a request on an io_uring is as a call. Those that only order or poll others are none.
fn uring_call(op: &UringOp) -> Option<(Call, Option<WaitKind>)> {
    // include/uapi/linux/io_uring.h
    let own = op.pos.is_none();
    let socket = |call| Some((call, Some(WaitKind::Socket)));
    let call = match op.opcode {
        1 if own => Call::Readv,
        1 => Call::Preadv,
        2 if own => Call::Writev,
        2 => Call::Pwritev,
        3 if op.data_only => Call::Fdatasync,
        3 => Call::Fsync,
        4 | 22 if own => Call::Read,
        4 | 22 => Call::Pread,
        5 | 23 if own => Call::Write,
        5 | 23 => Call::Pwrite,
        8 => Call::SyncFileRange,
        9 | 26 => return socket(Call::Send),
        10 | 27 => return socket(Call::Recv),
        13 => return socket(Call::Accept),
        16 => return socket(Call::Connect),
        17 => Call::Fallocate,
        _ => return None,
    };
    Some((call, None))
}

fn note(note: ImageNote, number: u32, start: u64, image: i64, [dur, pos, length]: [i64; 3]) {
    let record = Record {
        number: OP_IMAGE - FIRST_TYPE,
        kind: note as u8,
        extra: 0,
        small: number,
        start,
        dur: dur as u64,
        crumb: image,
        words: [pos, length, NONE, NONE],
    };
    record::post(&record, &[]);
}
