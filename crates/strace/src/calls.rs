//! What each kind of call does to what is known, and the row it becomes.

use std::rc::Rc;

use iotrail_format::call::{Call, WaitKind};
use iotrail_format::syscall::{Kind, OpenForm};
use memchr::{memchr, memmem};

use crate::Reader;
use crate::arguments::{
    At, Bad, Directory, any_number, at, descriptor, has, label_after, last_two, number, numbers_after, split,
    string, strings, unescape,
};
use crate::constants::{errno, fcntl_command, mmap_flags, open_flags, whence};
use crate::rows::{FileOp, SyncOp};
use crate::state::{CloneFlags, Open, Program, is_terminal, kind_of};

/// A call as printed, in one line or two.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Syscall<'a> {
    /// Who called, by number.
    pub(crate) thread: usize,
    pub(crate) ts: i64,
    /// None if it never returned, or the trace doesn't say.
    pub(crate) dur: Option<i64>,
    /// Whether it returned; else its last arguments may be missing.
    pub(crate) returned: bool,
    /// Row in the trace.
    pub(crate) row: i64,
    pub(crate) name: &'a [u8],
    pub(crate) args: &'a [u8],
    /// None if it never returned or strace doesn't know.
    pub(crate) result: Option<i64>,
    pub(crate) errno: i64,
    /// What follows the result.
    pub(crate) rest: &'a [u8],
}

/// Result and errno from what strace prints behind `=`: none and 0 for `?`.
pub(crate) fn outcome(result: &[u8], rest: &[u8]) -> Result<(Option<i64>, i64), Bad> {
    if !result[0].is_ascii_digit() {
        let word = rest.trim_ascii().split(|byte| *byte == b' ').next().unwrap_or_default();
        if let Some(number) = errno(word) {
            return Ok((Some(-1), number));
        }
        if result == b"?" {
            return Ok((None, 0));
        }
    }
    Ok((any_number(result)?, 0))
}

/// How a clone shares, by its flags.
pub(crate) fn clone_flags(args: &[u8]) -> CloneFlags {
    CloneFlags { process: has(args, "CLONE_THREAD"), descriptors: has(args, "CLONE_FILES") }
}

impl Syscall<'_> {
    /// The descriptor it made, if it made one.
    fn made(&self) -> Option<i64> {
        self.result.filter(|result| *result >= 0)
    }

    /// A row of `file_op` without what only some calls have.
    fn file_op(&self, reader: &Reader, call: Call) -> FileOp {
        FileOp {
            ts: self.ts,
            dur: self.dur,
            thread: reader.state.threads[self.thread].id,
            call,
            file: 0,
            file2: 0,
            fd: None,
            pos: None,
            length: None,
            result: self.result,
            errno: self.errno,
            flags: None,
            row: self.row,
        }
    }

    /// A row of `sync_op` without what only some calls have.
    fn sync_op(&self, reader: &Reader, call: Call, kind: WaitKind) -> SyncOp {
        SyncOp {
            ts: self.ts,
            dur: self.dur,
            thread: reader.state.threads[self.thread].id,
            call,
            kind,
            object: 0,
            peer: None,
            fd: None,
            length: None,
            result: self.result,
            errno: self.errno,
        }
    }
}

impl Reader {
    /// Handles a call.
    pub(crate) fn handle(&mut self, kind: Kind, c: &Syscall<'_>) -> Result<(), Bad> {
        match kind {
            Kind::Transfer { call, positioned, vector } => self.transfer(c, call, positioned, vector),
            Kind::Open(form) => self.open(c, form),
            Kind::Close => self.close(c),
            Kind::CloseRange => self.close_range(c),
            Kind::Dup => self.dup(c),
            Kind::Fcntl => self.fcntl(c),
            Kind::Lseek => self.lseek(c),
            Kind::Path(call) => self.path(c, call),
            Kind::TwoPaths(call) => self.two_paths(c, call),
            Kind::At { call, null } => self.at(c, call, null),
            Kind::TwoAt(call) => self.two_at(c, call),
            Kind::SymlinkAt => self.symlink_at(c),
            Kind::Descriptor { call, pos, length } => self.descriptor(c, call, pos, length),
            Kind::Mmap => self.mmap(c),
            Kind::Copy { call, source, target, length } => self.copy(c, call, [source, target, length]),
            Kind::Sync => {
                self.rows.file(c.file_op(self, Call::Sync));
                Ok(())
            }
            Kind::Make { kind, pair } => {
                self.make(c, kind, pair);
                Ok(())
            }
            Kind::Wait { call, kind, descriptor, length } => self.wait(c, call, kind, descriptor, length),
            Kind::Accept => self.accept(c),
            Kind::Futex => self.futex(c),
            Kind::Sleep => {
                self.sleep(c);
                Ok(())
            }
            Kind::WaitForChild => {
                let peer = c.result.filter(|pid| *pid > 0);
                self.rows.sync(SyncOp { peer, ..c.sync_op(self, Call::Wait, WaitKind::Process) });
                Ok(())
            }
            Kind::Clone => {
                self.clone_done(c);
                Ok(())
            }
            Kind::Exec => self.exec(c),
            Kind::Ring => {
                self.rings += 1;
                self.others.count(c.name);
                Ok(())
            }
        }
    }

    // -- bytes

    fn transfer(&mut self, c: &Syscall<'_>, call: Call, positioned: bool, vector: bool) -> Result<(), Bad> {
        let (fd, _) = descriptor(c.args)?;
        let entry = self.state.open(c.thread, fd);
        let (length, mut pos) = extent(c, positioned, vector)?;
        let entry = match entry.as_deref() {
            Some(Open { kind: Some(kind), object, .. }) => {
                let row = c.sync_op(self, call, *kind);
                self.rows.sync(SyncOp { object: *object, fd: Some(fd.number), length, ..row });
                return Ok(());
            }
            entry => entry,
        };
        if let Some(entry) = entry.filter(|_| !positioned) {
            if entry.append && matches!(call, Call::Write | Call::Writev) {
                // At the end, wherever that is.
                entry.pos.set(None);
            }
            pos = entry.pos.get();
            entry.pos.set(moved(pos, c.result));
        }
        let file = entry.map_or(0, |entry| entry.object);
        self.rows.file(FileOp { file, fd: Some(fd.number), pos, length, ..c.file_op(self, call) });
        Ok(())
    }

    fn copy(&mut self, c: &Syscall<'_>, call: Call, [source, target, length]: [usize; 3]) -> Result<(), Bad> {
        let argument = |at: usize| split(c.args).nth(at);
        let mut end = |at: usize| {
            let (fd, _) = descriptor(argument(at)?).ok()?;
            Some((fd.number, self.state.open(c.thread, fd)))
        };
        let (source, target) = (end(source), end(target));
        let length = argument(length).and_then(|text| size(text).ok().flatten());
        let entry = source.as_ref().and_then(|(_, entry)| entry.as_deref());
        let mut row = FileOp { length, fd: source.as_ref().map(|(fd, _)| *fd), ..c.file_op(self, call) };
        if let Some(entry) = entry {
            row.file = entry.as_file();
            // Without an offset of the call's own it is the file's, which moves.
            if has(c.args, "NULL") {
                row.pos = entry.pos.get();
                entry.pos.set(moved(row.pos, c.result));
            }
        }
        row.file2 = target.and_then(|(_, entry)| entry).map_or(0, |entry| entry.as_file());
        self.rows.file(row);
        Ok(())
    }

    fn mmap(&mut self, c: &Syscall<'_>) -> Result<(), Bad> {
        let mut arguments = split(c.args).skip(1);
        let (length, protection, sharing) = (arguments.next(), arguments.next(), arguments.next());
        let Some(fd) = arguments.next().filter(|fd| fd.first().is_some_and(u8::is_ascii_digit)) else {
            // Memory, which is no I/O.
            self.others.count(c.name);
            return Ok(());
        };
        let (fd, _) = descriptor(fd)?;
        let entry = self.state.open(c.thread, fd);
        let pos = any_number(arguments.next().ok_or(Bad)?)?;
        let flags = mmap_flags(protection.unwrap_or_default()) | mmap_flags(sharing.unwrap_or_default());
        self.rows.file(FileOp {
            file: entry.map_or(0, |entry| entry.as_file()),
            fd: Some(fd.number),
            pos,
            length: number(length.unwrap_or_default())?,
            flags: Some(flags),
            ..c.file_op(self, Call::Mmap)
        });
        Ok(())
    }

    // -- descriptors

    fn open(&mut self, c: &Syscall<'_>, form: OpenForm) -> Result<(), Bad> {
        let (file, words) = match form {
            OpenForm::Open | OpenForm::Creat => {
                let (path, rest) = string(c.args)?;
                (self.state.path_here(c.thread, path), rest.strip_prefix(b", ").unwrap_or_default())
            }
            OpenForm::At | OpenForm::At2 => {
                let place = at(c.args)?;
                (self.locate(c, &place).0, place.rest)
            }
        };
        let words = match form {
            OpenForm::At2 => memmem::find(words, b"flags=").map_or(&b""[..], |at| &words[at + 6..]),
            _ => words,
        };
        let words = &words[..words.iter().position(|byte| b",}".contains(byte)).unwrap_or(words.len())];
        let flags = match form {
            OpenForm::Creat => i64::from(libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC),
            _ => open_flags(words).ok_or(Bad)?,
        };
        let given = |flag: i32| flags & i64::from(flag) != 0;
        if let Some(fd) = c.made() {
            let label = label_after(c.rest);
            let kind = match label {
                Some(label) => kind_of(label),
                None => {
                    self.state.files.get(&file).filter(|path| is_terminal(path)).map(|_| WaitKind::Terminal)
                }
            };
            let entry = Open::file(label, file, kind, given(libc::O_APPEND));
            self.install(c, fd, entry, given(libc::O_CLOEXEC));
        }
        let call = if form == OpenForm::Creat { Call::Creat } else { Call::Open };
        self.rows.file(FileOp { file, fd: c.made(), flags: Some(flags), ..c.file_op(self, call) });
        Ok(())
    }

    fn close(&mut self, c: &Syscall<'_>) -> Result<(), Bad> {
        let (fd, _) = descriptor(c.args)?;
        let entry = self.state.open(c.thread, fd);
        if c.result == Some(0) {
            self.state.process_of(c.thread).descriptors.borrow_mut().close(fd.number);
        }
        self.closed(c, entry)
    }

    /// The row of a close of what is known.
    pub(crate) fn closed(&mut self, c: &Syscall<'_>, entry: Option<Rc<Open>>) -> Result<(), Bad> {
        let (fd, _) = descriptor(c.args)?;
        let file = entry.map_or(0, |entry| entry.as_file());
        self.rows.file(FileOp { file, fd: Some(fd.number), ..c.file_op(self, Call::Close) });
        Ok(())
    }

    fn close_range(&mut self, c: &Syscall<'_>) -> Result<(), Bad> {
        let mut arguments = split(c.args);
        let mut bound = || any_number(arguments.next().ok_or(Bad)?);
        // The last may be the largest number there is, which no column holds.
        let (low, high) = (bound()?.unwrap_or(i64::MAX), bound()?.unwrap_or(i64::MAX));
        if c.result == Some(0) {
            self.state.process_of(c.thread).descriptors.borrow_mut().close_range(low, high);
        }
        self.rows.file(c.file_op(self, Call::CloseRange));
        Ok(())
    }

    fn dup(&mut self, c: &Syscall<'_>) -> Result<(), Bad> {
        let (fd, rest) = descriptor(c.args)?;
        let entry = self.state.open(c.thread, fd);
        match (c.made(), &entry) {
            (Some(new), Some(entry)) => self.install(c, new, entry.clone(), has(rest, "CLOEXEC")),
            (Some(new), None) => self.state.process_of(c.thread).descriptors.borrow_mut().close(new),
            (None, _) => {}
        }
        let file = entry.map_or(0, |entry| entry.as_file());
        self.rows.file(FileOp { file, fd: Some(fd.number), ..c.file_op(self, Call::Dup) });
        Ok(())
    }

    fn fcntl(&mut self, c: &Syscall<'_>) -> Result<(), Bad> {
        let (fd, rest) = descriptor(c.args)?;
        let command = split(rest).nth(1).unwrap_or_default();
        match command {
            _ if command.starts_with(b"F_DUPFD") => return self.dup(c),
            b"F_GETFD" | b"F_SETFD" | b"F_GETFL" => {
                if command == b"F_SETFD" && has(rest, "FD_CLOEXEC") {
                    self.state.process_of(c.thread).descriptors.borrow_mut().close_on_exec(fd.number);
                }
                self.others.count(c.name);
                return Ok(());
            }
            _ => {}
        }
        let entry = self.state.open(c.thread, fd);
        if matches!(command, b"F_SETLKW" | b"F_OFD_SETLKW") {
            let row = c.sync_op(self, Call::Flock, WaitKind::FileLock);
            let object = entry.map_or(0, |entry| entry.object);
            self.rows.sync(SyncOp { object, fd: Some(fd.number), ..row });
            return Ok(());
        }
        let (file, flags) = (entry.map_or(0, |entry| entry.as_file()), fcntl_command(command));
        self.rows.file(FileOp { file, fd: Some(fd.number), flags, ..c.file_op(self, Call::Fcntl) });
        Ok(())
    }

    fn lseek(&mut self, c: &Syscall<'_>) -> Result<(), Bad> {
        let (fd, _) = descriptor(c.args)?;
        let entry = self.state.open(c.thread, fd);
        if let (Some(entry), Some(pos)) = (&entry, c.made()) {
            entry.pos.set(Some(pos));
        }
        let file = entry.map_or(0, |entry| entry.as_file());
        let flags = last_two(c.args).1.and_then(whence);
        self.rows.file(FileOp { file, fd: Some(fd.number), flags, ..c.file_op(self, Call::Lseek) });
        Ok(())
    }

    fn descriptor(
        &mut self,
        c: &Syscall<'_>,
        call: Call,
        pos: Option<usize>,
        length: Option<usize>,
    ) -> Result<(), Bad> {
        let (fd, _) = descriptor(c.args)?;
        let entry = self.state.open(c.thread, fd);
        let argument = |at: Option<usize>| match at.filter(|_| c.returned) {
            Some(at) => number(split(c.args).nth(at).ok_or(Bad)?),
            None => Ok(None),
        };
        let (pos, length) = (argument(pos)?, argument(length)?);
        let file = entry.map_or(0, |entry| entry.as_file());
        if call == Call::Chdir && c.result == Some(0) && file != 0 {
            let path = self.state.files.get(&file).map(|path| path.clone().into());
            self.state.process_of(c.thread).cwd = path;
        }
        self.rows.file(FileOp { file, fd: Some(fd.number), pos, length, ..c.file_op(self, call) });
        Ok(())
    }

    /// What isn't a file has no row; what is done with it will be a wait.
    fn make(&mut self, c: &Syscall<'_>, kind: WaitKind, pair: bool) {
        self.others.count(c.name);
        let Some(fd) = c.made() else { return };
        if !pair {
            let entry = self.state.made(label_after(c.rest), kind);
            return self.install(c, fd, entry, has(c.args, "CLOEXEC"));
        }
        let cloexec = has(c.args, "CLOEXEC");
        let Some(begin) = memchr(b'[', c.args) else { return };
        let Ok((first, rest)) = descriptor(&c.args[begin + 1..]) else { return };
        let entry = self.state.made(first.label, kind);
        self.install(c, first.number, entry, cloexec);
        let Ok((second, _)) = descriptor(rest.strip_prefix(b", ").unwrap_or_default()) else { return };
        let entry = self.state.end_of(second.label, kind);
        self.install(c, second.number, entry, cloexec);
    }

    fn install(&mut self, c: &Syscall<'_>, fd: i64, entry: Rc<Open>, cloexec: bool) {
        self.state.process_of(c.thread).descriptors.borrow_mut().install(fd, entry, cloexec);
    }

    // -- paths

    fn path(&mut self, c: &Syscall<'_>, call: Call) -> Result<(), Bad> {
        let (path, _) = string(c.args)?;
        let file = self.state.path_here(c.thread, path);
        let length = match call {
            Call::Truncate => number(last_two(c.args).1.ok_or(Bad)?)?,
            _ => None,
        };
        if call == Call::Chdir && c.result == Some(0) {
            self.state.process_of(c.thread).cwd = Some((*self.state.files[&file]).into());
        }
        self.rows.file(FileOp { file, length, ..c.file_op(self, call) });
        Ok(())
    }

    fn two_paths(&mut self, c: &Syscall<'_>, call: Call) -> Result<(), Bad> {
        let (path, rest) = string(c.args)?;
        let file = self.state.path_here(c.thread, path);
        let second = strings(rest).next().map_or(0, |path| self.state.path_here(c.thread, path));
        // Of a symbolic link the link is the file, its target a text.
        let (file, file2) = if call == Call::Symlink && second != 0 { (second, 0) } else { (file, second) };
        self.rows.file(FileOp { file, file2, ..c.file_op(self, call) });
        Ok(())
    }

    /// The file that a directory and a path mean, and whether it is the descriptor itself, by an empty path.
    fn locate(&mut self, c: &Syscall<'_>, place: &At<'_>) -> (i64, bool) {
        match place.directory {
            Directory::Of(fd) if place.path.is_empty() => {
                (self.state.open(c.thread, fd).map_or(0, |entry| entry.as_file()), true)
            }
            directory => {
                let file = self.state.path_at(c.thread, directory, place.path);
                (file, self.state.files[&file].is_empty())
            }
        }
    }

    fn at(&mut self, c: &Syscall<'_>, call: Call, null: bool) -> Result<(), Bad> {
        let place = match at(c.args) {
            Err(Bad) if null && has(c.args, ", NULL") => return self.null_path(c, call),
            place => place?,
        };
        let (file, itself) = self.locate(c, &place);
        let fd = match place.directory {
            Directory::Of(fd) if itself => Some(fd.number),
            _ => None,
        };
        let call = match call {
            Call::Stat if itself => Call::Fstat,
            Call::Unlink if has(place.rest, "AT_REMOVEDIR") => Call::Rmdir,
            call => call,
        };
        self.rows.file(FileOp { file, fd, ..c.file_op(self, call) });
        Ok(())
    }

    /// A null path: the descriptor itself, or a fault on purpose.
    fn null_path(&mut self, c: &Syscall<'_>, call: Call) -> Result<(), Bad> {
        let fd = descriptor(c.args).ok().map(|(fd, _)| fd);
        let file = fd.and_then(|fd| self.state.open(c.thread, fd)).map_or(0, |entry| entry.as_file());
        self.rows.file(FileOp { file, fd: fd.map(|fd| fd.number), ..c.file_op(self, call) });
        Ok(())
    }

    fn two_at(&mut self, c: &Syscall<'_>, call: Call) -> Result<(), Bad> {
        let first = at(c.args)?;
        let second = at(first.rest)?;
        let file = self.state.path_at(c.thread, first.directory, first.path);
        let file2 = self.state.path_at(c.thread, second.directory, second.path);
        self.rows.file(FileOp { file, file2, ..c.file_op(self, call) });
        Ok(())
    }

    fn symlink_at(&mut self, c: &Syscall<'_>) -> Result<(), Bad> {
        let (_, rest) = string(c.args)?;
        let link = at(rest.strip_prefix(b", ").ok_or(Bad)?)?;
        let file = self.state.path_at(c.thread, link.directory, link.path);
        self.rows.file(FileOp { file, ..c.file_op(self, Call::Symlink) });
        Ok(())
    }

    // -- waits

    fn wait(
        &mut self,
        c: &Syscall<'_>,
        call: Call,
        kind: WaitKind,
        on: bool,
        length: Option<usize>,
    ) -> Result<(), Bad> {
        let mut row = c.sync_op(self, call, kind);
        if on {
            let (fd, _) = descriptor(c.args)?;
            row.object = self.state.open(c.thread, fd).map_or(0, |entry| entry.object);
            row.fd = Some(fd.number);
        }
        row.length = length.and_then(|at| split(c.args).nth(at)).and_then(|text| size(text).ok().flatten());
        self.rows.sync(row);
        Ok(())
    }

    fn accept(&mut self, c: &Syscall<'_>) -> Result<(), Bad> {
        self.wait(c, Call::Accept, WaitKind::Socket, true, None)?;
        if let Some(fd) = c.made() {
            let entry = self.state.made(label_after(c.rest), WaitKind::Socket);
            self.install(c, fd, entry, has(c.args, "CLOEXEC"));
        }
        Ok(())
    }

    fn futex(&mut self, c: &Syscall<'_>) -> Result<(), Bad> {
        if !has(c.args, "FUTEX_WAIT") && !has(c.args, "FUTEX_LOCK_PI") {
            self.others.count(c.name);
            return Ok(());
        }
        let address = split(c.args).next().filter(|address| address.starts_with(b"0x"));
        let object = address.map_or(Ok(None), any_number)?.unwrap_or(0);
        // As in a recording: who expects 2 waits for a lock that is held, others for something else.
        let lock = has(c.args, "FUTEX_LOCK_PI") || split(c.args).nth(2) == Some(b"2");
        let kind = if lock { WaitKind::Lock } else { WaitKind::Futex };
        self.rows.sync(SyncOp { object, ..c.sync_op(self, Call::Futex, kind) });
        Ok(())
    }

    fn sleep(&mut self, c: &Syscall<'_>) {
        let first = |key: &[u8]| numbers_after(c.args, key).next().flatten();
        let length = first(b"tv_sec=")
            .and_then(|seconds| seconds.checked_mul(1_000_000_000)?.checked_add(first(b"tv_nsec=")?));
        self.rows.sync(SyncOp { length, ..c.sync_op(self, Call::Sleep, WaitKind::Sleep) });
    }

    // -- processes

    fn clone_done(&mut self, c: &Syscall<'_>) {
        if let Some(at) = self.state.cloning.iter().position(|cloning| cloning.parent == c.thread) {
            self.state.cloning.remove(at);
        }
        let child = c.result.filter(|tid| *tid > 0).and_then(|tid| u32::try_from(tid).ok());
        if let Some(tid) =
            child.filter(|tid| i32::try_from(*tid).is_ok() && !self.state.live.contains_key(tid))
        {
            self.state.add_child(c.thread, clone_flags(c.args), tid, c.ts);
        }
    }

    /// A new program in the same process; nothing where it failed, as a recorder's.
    fn exec(&mut self, c: &Syscall<'_>) -> Result<(), Bad> {
        if c.result != Some(0) {
            self.others.count(c.name);
            return Ok(());
        }
        let end = memmem::find(c.args, b"], ").unwrap_or(c.args.len());
        let mut words = strings(&c.args[..end]).map(unescape);
        let path = words.next().ok_or(Bad)?;
        let cmd = words.collect::<Vec<_>>().join(&b' ');
        let program = Program { exe: Some(path.into()), cmd: Some(cmd.into()) };
        self.state.exec(c.thread, c.ts, c.ts + c.dur.unwrap_or(0), program);
        Ok(())
    }
}

/// Where a read or write is, by its arguments, and how long.
fn extent(c: &Syscall<'_>, positioned: bool, vector: bool) -> Result<(Option<i64>, Option<i64>), Bad> {
    let finished = c.returned;
    if vector {
        let length = numbers_after(c.args, b"iov_len=").try_fold(0_i64, |sum, n| sum.checked_add(n?));
        if !(positioned && finished) {
            return Ok((length, None));
        }
        // Behind the vector its length, the position, and of preadv2 and pwritev2 flags.
        let tail = memmem::rfind(c.args, b"], ").map_or(c.args, |at| &c.args[at + 3..]);
        return Ok((length, split(tail).nth(1).map_or(Ok(None), number)?));
    }
    let (before, last) = last_two(c.args);
    let (length, pos) = if positioned { (before, last) } else { (last, None) };
    match length.map(size) {
        Some(Ok(length)) => Ok((length, pos.map_or(Ok(None), number)?)),
        // What isn't printed yet.
        _ if !finished => Ok((None, None)),
        _ => Err(Bad),
    }
}

/// A size, which is never negative.
fn size(text: &[u8]) -> Result<Option<i64>, Bad> {
    if text.starts_with(b"-") { Err(Bad) } else { number(text) }
}

/// Where a file's position is after a call that moved bytes.
fn moved(pos: Option<i64>, result: Option<i64>) -> Option<i64> {
    pos?.checked_add(result.unwrap_or(0).max(0))
}
