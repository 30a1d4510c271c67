//! Draining: from the rings of all segments into the journal.
//!
//! One thread does nothing else, so that rings stay small. A ring's slots are copied into the
//! journal and committed there before they are given back to the producer: whenever the sealer is
//! killed, each posted call is in the journal, in its ring, or (only the last run) in both, and
//! [`Drain::skip_copied`] tells the two apart.
//!
//! A slot that was reserved but not filled (a *hole*) stops its ring. It is passed over only when
//! nobody can fill it any more, or when a full or closed ring has waited a second for it: then a
//! signal handler left posting by `longjmp`.

mod output;
mod ring;

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iotrail_format::segment::{
    ProcessState, RECORDER, RINGS_START, RingState, SEGMENT_PREFIX, SEGMENT_SPAN, SEGMENT_VERSION,
};

use self::output::clock_event;
pub use self::output::{Output, Stopped, Turn};
pub use self::ring::{Fill, read_dead};
use self::ring::{Owner, Producer, RingNote, drain_rings, note_rest};
use super::clock;
use super::journal::{Ended, Event, Loss};
use super::map::Mapping;
use super::plain::{Access, NotOpened, is_of_process, open_plain};
use super::session::Session;
use super::view::{NotASegment, Segment};

/// How often the session's directory is read for new segments, and processes are asked for life.
const LOOK_AROUND: Duration = Duration::from_millis(10);
/// How often threads of quiet rings are looked for in /proc.
const THREAD_CHECK: Duration = Duration::from_secs(2);
/// How often a clock pair is taken.
const CLOCK_PERIOD: Duration = Duration::from_secs(1);
/// Longest time until a segment that isn't complete is looked at again. A program completes it in microseconds; of one
/// that was killed meanwhile, it stays as it is.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// Files that were refused are remembered so as not to be looked at again; beyond so many nothing new is looked at, and
/// what is there at the end is counted as unread.
const MOST_REFUSED: u64 = if cfg!(test) { 64 } else { 1 << 16 };

/// So many descriptors are left for opening segments and writing files: of processes beyond, there are no pidfds.
const FEWEST_DESCRIPTORS: u64 = 32;

/// A segment being drained.
struct Process {
    path: PathBuf,
    map: Mapping,
    id: i64,
    pid: u32,
    start_ticks: u64,
    /// Readable once the process has ended; none if it ended before it could be opened.
    pidfd: Option<OwnedFd>,
    /// PID namespace that `pid` counts in, if it is not the sealer's; else 0.
    namespace: u32,
    rings: Vec<RingNote>,
    /// The recorder's own.
    recorder: bool,
    /// Its file was truncated, which was noted: nothing of it is read any more.
    torn: bool,
    /// Bytes that the sealer took of the budget for it; none if it takes its share itself.
    charged: Option<u64>,
}

/// Drains the segments of a session.
pub struct Drain<T> {
    session: Session,
    output: Output<T>,
    processes: Vec<Process>,
    /// All that were ever found.
    known: HashSet<i64>,
    /// File names that need no further look.
    seen: HashSet<OsString>,
    /// Segments that were not complete: when to look again, and how long to wait the next time.
    unfinished: HashMap<OsString, (Instant, Duration)>,
    refused: u64,
    looked: Option<Instant>,
    checked_threads: Instant,
    clocked: Option<Instant>,
    /// Run that a killed sealer committed and may not have given back: process, ring, first, end.
    copied: Option<(i64, u32, u64, u64)>,
    foreign_versions: u64,
}

impl<T: Turn> Drain<T> {
    /// Drains `session` into `output`.
    pub fn new(session: Session, output: Output<T>) -> Self {
        Self {
            session,
            output,
            processes: Vec::new(),
            known: HashSet::new(),
            seen: HashSet::new(),
            unfinished: HashMap::new(),
            refused: 0,
            looked: None,
            checked_threads: Instant::now(),
            clocked: None,
            copied: None,
            foreign_versions: 0,
        }
    }

    /// Slots `first..end` of a ring are in the journal already, though the ring may not say so.
    pub fn skip_copied(&mut self, process: i64, ring: u32, first: u64, end: u64) {
        self.copied = Some((process, ring, first, end));
    }

    /// Leaves the segments of these processes alone: their end is in the journal already.
    pub fn skip_ended(&mut self, ended: &HashSet<i64>) {
        for path in segments(self.session.dir()) {
            let Ok(process) = open_segment(&path, self.session.recorder_pid()) else { continue };
            if ended.contains(&process.id) {
                let _ = std::fs::remove_file(&path);
            }
        }
    }

    /// One pass over all rings. `hurry` (a producer woke the sealer) looks for new segments too.
    pub fn pass(&mut self, hurry: bool) -> Result<Fill, Stopped> {
        if self.clocked.is_none_or(|at| at.elapsed() >= CLOCK_PERIOD) {
            self.clocked = Some(Instant::now());
            let event = clock_event();
            if let Event::Clock { pair, .. } = event {
                self.session.keep_pair(pair);
            }
            self.output.event(event)?;
        }
        if hurry || self.looked.is_none_or(|at| at.elapsed() >= LOOK_AROUND) {
            self.looked = Some(Instant::now());
            self.find_segments()?;
            self.end_processes()?;
        }
        let mut fill = Fill::default();
        for process in &mut self.processes {
            process.charge(&self.session);
            process.drain(&mut self.output, Producer::Alive, &mut self.copied, &mut fill)?;
        }
        if self.checked_threads.elapsed() >= THREAD_CHECK {
            self.checked_threads = Instant::now();
            for process in &mut self.processes {
                process.close_rings_of_dead_threads();
            }
        }
        Ok(fill)
    }

    /// Hands over what is pending for longer than `age`.
    pub fn hand_over(&mut self, age: Duration) {
        self.output.hand_over(age);
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Where journals go.
    #[must_use]
    pub fn turn(&self) -> &T {
        &self.output.turn
    }

    /// Whether any process that posts is still there, beside the recorder.
    #[must_use]
    pub fn any_alive(&self) -> bool {
        self.processes.iter().any(|process| !process.recorder)
    }

    /// Segments of another version of iotrail, which were left alone.
    #[must_use]
    pub fn foreign_versions(&self) -> u64 {
        self.foreign_versions
    }

    /// The last pass: processes that still run are noted as such. Their pids are returned.
    pub fn finish(mut self) -> Result<(T, Session, Vec<u32>), Stopped> {
        self.find_last_segments()?;
        self.end_processes()?;
        let mut running = Vec::new();
        let mut fill = Fill::default();
        for mut process in std::mem::take(&mut self.processes) {
            process.drain(&mut self.output, Producer::Alive, &mut self.copied, &mut fill)?;
            if !process.recorder {
                running.push(process.pid);
            }
            process.end(&mut self.output, &self.session, Ended::Running)?;
        }
        Ok((self.output.finish(), self.session, running))
    }

    /// As [`Self::finish`], where no recorder is left to see processes end: everything posted is
    /// taken, holes are passed over, and a process that is not `alive` by now was killed.
    pub fn finish_after_crash(mut self) -> Result<(T, Session, Vec<u32>), Stopped> {
        self.find_last_segments()?;
        let mut running = Vec::new();
        let mut fill = Fill::default();
        for mut process in std::mem::take(&mut self.processes) {
            process.drain(&mut self.output, Producer::Gone, &mut self.copied, &mut fill)?;
            let mut ended = process.ended_as(false);
            if ended == Ended::Killed && process.is_alive() {
                ended = Ended::Running;
                running.push(process.pid);
            }
            process.end(&mut self.output, &self.session, ended)?;
        }
        Ok((self.output.finish(), self.session, running))
    }

    /// As [`Self::find_segments`], for the last time: what is complete by now is read, though it was not when it was
    /// looked at a moment ago, and what can't be opened, or isn't looked at, is lost.
    fn find_last_segments(&mut self) -> Result<(), Stopped> {
        self.unfinished.clear();
        let unread = self.find_segments()?;
        if unread != 0 {
            self.output.event(Event::Lost { process: 0, loss: Loss::UnreadSegment, calls: unread })?;
        }
        Ok(())
    }

    /// Adds the segments that were made since the last look. Returns how many the system did not open, or
    /// were not looked at beyond [`MOST_REFUSED`].
    fn find_segments(&mut self) -> Result<u64, Stopped> {
        let mut unread = 0;
        let mut found: Vec<Process> = Vec::new();
        let mut unfinished = HashMap::new();
        let now = Instant::now();
        for path in segments(self.session.dir()) {
            let Some(name) = path.file_name() else { continue };
            if self.seen.contains(name) {
                continue;
            }
            if self.refused >= MOST_REFUSED {
                unread += 1;
                continue;
            }
            let (look_at, wait) = self.unfinished.get(name).copied().unwrap_or((now, LOOK_AROUND));
            if look_at > now {
                unfinished.insert(name.to_owned(), (look_at, wait));
                continue;
            }
            match open_segment(&path, self.session.recorder_pid()) {
                // Nobody but its process names an image; the first one is it.
                Ok(process) if !self.known.insert(process.id) => self.refuse(name)?,
                Ok(process) => {
                    self.seen.insert(name.to_owned());
                    found.push(process);
                }
                Err(Skip::Unfinished) => {
                    unfinished.insert(name.to_owned(), (now + wait, (wait * 2).min(LONGEST_WAIT)));
                }
                Err(Skip::Refused) => self.refuse(name)?,
                Err(Skip::Version) => {
                    self.seen.insert(name.to_owned());
                    self.foreign_versions += 1;
                }
                Err(Skip::Io) => unread += 1,
            }
        }
        self.unfinished = unfinished;
        found.sort_by_key(|process| process.start_ticks);
        for process in found {
            let segment = process.segment();
            let parent = match segment.parent() {
                // After exec only the pids tell: the image before it, else the parent's.
                0 => self
                    .processes
                    .iter()
                    .rev()
                    .find(|other| other.is_pid(process.namespace, process.pid))
                    .or_else(|| {
                        let parent = segment.ppid();
                        self.processes.iter().rev().find(|other| other.is_pid(process.namespace, parent))
                    })
                    .map_or(0, |other| other.id),
                RECORDER if process.recorder => RECORDER,
                // A parent was found before. After a crash it may have been the killed recorder that did.
                parent if self.session.is_live() && !self.known.contains(&parent) => 0,
                parent if parent == process.id => 0,
                parent => parent,
            };
            let (process_id, pid, start_ticks) = (process.id, process.pid, process.start_ticks);
            self.output.event(Event::Process { process: process_id, parent, pid, start_ticks })?;
            self.processes.push(process);
        }
        Ok(unread)
    }

    /// Leaves a file alone from now on, and says so.
    fn refuse(&mut self, name: &std::ffi::OsStr) -> Result<(), Stopped> {
        self.seen.insert(name.to_owned());
        self.refused += 1;
        self.output.event(Event::Lost { process: 0, loss: Loss::RefusedSegment, calls: 1 })
    }

    /// Ends the processes that have ended: death is looked for first, then the rings are drained,
    /// so that nothing is posted after the last look.
    fn end_processes(&mut self) -> Result<(), Stopped> {
        let mut index = 0;
        while index < self.processes.len() {
            let process = &self.processes[index];
            let (pid, namespace, start) = (process.pid, process.namespace, process.start_ticks);
            let dead = !process.is_alive();
            let replaced = !dead
                && self
                    .processes
                    .iter()
                    .any(|other| other.is_pid(namespace, pid) && other.start_ticks > start);
            if !dead && !replaced {
                index += 1;
                continue;
            }
            let mut process = self.processes.remove(index);
            let mut fill = Fill::default();
            process.drain(&mut self.output, Producer::Gone, &mut self.copied, &mut fill)?;
            let ended = process.ended_as(replaced);
            let path = process.path.clone();
            process.end(&mut self.output, &self.session, ended)?;
            // One that could not be removed must not be read again.
            if let Some(name) = path.file_name().filter(|_| path.symlink_metadata().is_err()) {
                self.seen.remove(name);
            }
        }
        Ok(())
    }
}

/// Paths of all segment files, in no order.
fn segments(dir: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(dir) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(SEGMENT_PREFIX.as_bytes()))
        .map(|entry| entry.path())
        .collect()
}

/// Why a file is no segment to be drained.
enum Skip {
    /// Its header isn't complete: its program is just making it, or was killed doing so.
    Unfinished,
    /// Another version of iotrail made it.
    Version,
    /// No recorder in a program of this recording can have made it so.
    Refused,
    /// The system's answer; it may be another one the next time.
    Io,
}

/// Maps a segment file.
fn open_segment(path: &Path, recorder_pid: u32) -> Result<Process, Skip> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let named = name.strip_prefix(SEGMENT_PREFIX).and_then(|name| name.split_once('-'));
    let named = named.and_then(|(pid, start)| {
        Some((u32::from_str_radix(pid, 16).ok()?, u64::from_str_radix(start, 16).ok()?))
    });
    // Whose file it must be is asked below: the header says in which PID namespace the process has its pid.
    let opened = open_plain(path, Access::ReadWrite, SEGMENT_SPAN as u64, |_| {
        named.map(|_| ()).ok_or("another name than a segment's")
    });
    let (file, meta) = opened.map_err(|why| match why {
        NotOpened::Refused(_) => Skip::Refused,
        NotOpened::Io(error) if error.kind() == io::ErrorKind::PermissionDenied => Skip::Refused,
        NotOpened::Io(_) => Skip::Io,
    })?;
    let bytes = usize::try_from(meta.len()).unwrap_or(usize::MAX);
    if bytes < RINGS_START {
        return Err(Skip::Unfinished);
    }
    let map = Mapping::guarded(&file, bytes).map_err(|_| Skip::Io)?;
    let (id, pid, start_ticks, recorder, namespace, charged) = match Segment::new(map.words()) {
        Ok(segment) => {
            let (numbers, is_recorder) =
                ((segment.pid(), segment.start_ticks()), segment.parent() == RECORDER);
            let is_future = segment.start_ticks() > clock::ticks();
            if Some(numbers) != named || is_future || is_recorder && segment.pid() != recorder_pid {
                return Err(Skip::Refused);
            }
            let namespace = foreign_namespace(segment.pid_namespace());
            let charged = segment.is_uncharged().then_some(0);
            (segment.process().0, numbers.0, numbers.1, is_recorder, namespace, charged)
        }
        Err(NotASegment::Unfinished) => return Err(Skip::Unfinished),
        Err(NotASegment::Version(version)) => {
            debug_assert_ne!(version, SEGMENT_VERSION);
            return Err(Skip::Version);
        }
    };
    if map.is_torn() {
        return Err(Skip::Refused);
    }
    let own = if namespace == 0 { Some(pid) } else { find_pid(namespace, pid) };
    // A process that is gone can't be asked any more.
    if own.is_some_and(|pid| is_of_process(&meta, pid).is_err()) {
        return Err(Skip::Refused);
    }
    let pidfd = own.and_then(|pid| open_pidfd(pid).ok());
    let (path, rings) = (path.to_owned(), Vec::new());
    Ok(Process { path, map, id, pid, start_ticks, pidfd, namespace, rings, recorder, torn: false, charged })
}

/// Inode of a process's PID namespace.
fn pid_namespace(pid: &str) -> Option<u32> {
    use std::os::unix::fs::MetadataExt as _;
    Some(std::fs::metadata(format!("/proc/{pid}/ns/pid")).ok()?.ino() as u32)
}

/// `namespace` if it is known and not the sealer's own, else 0.
fn foreign_namespace(namespace: u32) -> u32 {
    if namespace == 0 || pid_namespace("self") == Some(namespace) { 0 } else { namespace }
}

/// The pid that a process of another PID namespace has in the sealer's (proc(5), NSpid); none if it is gone.
fn find_pid(namespace: u32, pid: u32) -> Option<u32> {
    let suffix = format!("\t{pid}");
    std::fs::read_dir("/proc").ok()?.filter_map(Result::ok).find_map(|entry| {
        let name = entry.file_name();
        let name = name.to_str().filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()))?;
        let status = std::fs::read_to_string(format!("/proc/{name}/status")).ok()?;
        let pids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
        let is_it = pids.ends_with(&suffix) && pid_namespace(name) == Some(namespace);
        if is_it { name.parse().ok() } else { None }
    })
}

fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open(2) takes two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just made that nobody else owns.
    let pidfd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a place for the limit of this process.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    // The lowest free number was taken: this is how many are left.
    if (fd as u64).saturating_add(FEWEST_DESCRIPTORS) > limit.rlim_cur {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    Ok(pidfd)
}

impl Process {
    fn segment(&self) -> Segment<'_> {
        Segment::accepted(self.map.words())
    }

    /// Whether it is the process of that pid in that namespace.
    fn is_pid(&self, namespace: u32, pid: u32) -> bool {
        self.pid == pid && self.namespace == namespace
    }

    fn owner(&self) -> Owner {
        Owner { process: self.id, recorder: self.recorder, start_ticks: self.start_ticks }
    }

    fn is_alive(&self) -> bool {
        let Some(pidfd) = &self.pidfd else {
            if self.namespace != 0 {
                return find_pid(self.namespace, self.pid).is_some();
            }
            // No descriptor left for a pidfd, or already gone: a signal 0 tells which.
            // SAFETY: signal 0 only checks.
            let gone = unsafe { libc::kill(self.pid as libc::pid_t, 0) } != 0
                && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
            return !gone;
        };
        let mut poll = libc::pollfd { fd: pidfd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd, no wait.
        let ready = unsafe { libc::poll(&mut poll, 1, 0) };
        ready <= 0
    }

    fn ended_as(&self, replaced: bool) -> Ended {
        match self.segment().state() {
            state if state == ProcessState::Exited as u32 => Ended::Exit,
            state if replaced || state == ProcessState::Exec as u32 => Ended::Exec,
            _ => Ended::Killed,
        }
    }

    /// Moves what was posted into the journal.
    fn drain<T: Turn>(
        &mut self,
        output: &mut Output<T>,
        producer: Producer,
        copied: &mut Option<(i64, u32, u64, u64)>,
        fill: &mut Fill,
    ) -> Result<(), Stopped> {
        let owner = self.owner();
        let segment = Segment::accepted(self.map.words());
        if !self.torn {
            drain_rings(segment, owner, &mut self.rings, output, producer, copied, fill)?;
        }
        self.note_torn(output)
    }

    /// Bytes that it says it populated, and not more than it has.
    fn populated(&self) -> u64 {
        let has = self.path.symlink_metadata().map_or(0, |meta| meta.blocks() * 512);
        self.segment().populated().min(has)
    }

    /// Takes its share of the budget for a process that may not.
    fn charge(&mut self, session: &Session) {
        if let Some(charged) = self.charged
            && self.segment().populated() > charged
        {
            let populated = self.populated().max(charged);
            session.charge(populated - charged);
            self.charged = Some(populated);
        }
    }

    /// Notes that the file was truncated: what was posted is gone, and what is posted is lost.
    fn note_torn<T: Turn>(&mut self, output: &mut Output<T>) -> Result<(), Stopped> {
        if self.map.is_torn() && !self.torn {
            self.torn = true;
            self.rings.clear();
            output.event(Event::Lost { process: self.id, loss: Loss::OverwrittenRing, calls: 1 })?;
        }
        Ok(())
    }

    /// Threads killed alone, or ended past the recorder's sight, leave their rings open.
    fn close_rings_of_dead_threads(&mut self) {
        // Of another namespace neither pid nor tids are the ones in the sealer's /proc.
        if self.namespace != 0 {
            return;
        }
        let segment = Segment::accepted(self.map.words());
        for (index, local) in self.rings.iter_mut().enumerate() {
            let Some(ring) = segment.ring(index).filter(|_| !local.is_closed()) else { continue };
            let reserved = ring.reserved();
            // The announcements' ring is no thread's, and quiet until there is something new to name.
            let of_thread = ring.tid() != 0;
            if of_thread && ring.state() == RingState::Live as u32 && local.checked == reserved {
                let task = format!("/proc/{}/task", self.pid);
                // Where /proc doesn't show the process at all (hidepid), nothing is known.
                if Path::new(&task).exists() && !Path::new(&format!("{task}/{}", ring.tid())).exists() {
                    local.found_dead = clock::ticks();
                    ring.change_state(RingState::Live, RingState::Closed);
                }
            }
            local.checked = reserved;
        }
    }

    /// Notes the end and removes the segment.
    fn end<T: Turn>(
        mut self,
        output: &mut Output<T>,
        session: &Session,
        ended: Ended,
    ) -> Result<(), Stopped> {
        let owner = self.owner();
        let segment = Segment::accepted(self.map.words());
        if !self.torn {
            note_rest(segment, owner, &mut self.rings, output)?;
        }
        let now = clock::ticks();
        let end_ticks = match (segment.end_ticks(), ended) {
            (_, Ended::Running) => 0,
            // Killed: this is when it was seen, at most one look later.
            (0, _) if session.is_live() => now,
            (ticks, _) => ticks.min(now),
        };
        output.event(Event::ProcessEnd {
            process: self.id,
            ended,
            end_ticks,
            status: segment.exit_status(),
            rank: segment.rank(),
            usage: segment.usage(),
        })?;
        session.give_back(self.charged.unwrap_or_else(|| self.populated()));
        // Everything in it is in the journal now. If it can't be removed, the session's end does.
        let _ = std::fs::remove_file(&self.path);
        Ok(())
    }
}

#[cfg(test)]
mod concurrent;
#[cfg(test)]
mod tests;
