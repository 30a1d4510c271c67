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

use std::collections::HashSet;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use iotrail_format::segment::{
    ProcessState, RECORDER, RINGS_START, RingState, SEGMENT_PREFIX, SEGMENT_SPAN, SEGMENT_VERSION,
};

use self::output::clock_event;
pub use self::output::{Output, Stopped, Turn};
pub use self::ring::{Fill, read_dead};
use self::ring::{Producer, RingNote, drain_rings, note_rest};
use super::clock;
use super::journal::{Ended, Event};
use super::map::Mapping;
use super::session::Session;
use super::view::{NotASegment, Segment};

/// How often the session's directory is read for new segments, and processes are asked for life.
const LOOK_AROUND: Duration = Duration::from_millis(10);
/// How often threads of quiet rings are looked for in /proc.
const THREAD_CHECK: Duration = Duration::from_secs(2);
/// How often a clock pair is taken.
const CLOCK_PERIOD: Duration = Duration::from_secs(1);

/// A segment being drained.
struct Process {
    path: PathBuf,
    map: Mapping,
    id: i64,
    pid: u32,
    start_ticks: u64,
    /// Readable once the process has ended; none if it ended before it could be opened.
    pidfd: Option<OwnedFd>,
    rings: Vec<RingNote>,
    /// The recorder's own.
    recorder: bool,
}

/// Drains the segments of a session.
pub struct Drain<T> {
    session: Session,
    output: Output<T>,
    processes: Vec<Process>,
    /// File names that need no further look.
    seen: HashSet<std::ffi::OsString>,
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
            seen: HashSet::new(),
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
            let Ok(Some(process)) = open_segment(&path) else { continue };
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
        self.find_segments()?;
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
        self.find_segments()?;
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

    fn find_segments(&mut self) -> Result<(), Stopped> {
        let mut found = Vec::new();
        for path in segments(self.session.dir()) {
            let Some(name) = path.file_name() else { continue };
            if self.seen.contains(name) {
                continue;
            }
            match open_segment(&path) {
                // Not complete yet; the next look may find it so.
                Ok(None) => continue,
                Ok(Some(process)) => {
                    if self.processes.iter().chain(&found).any(|known| known.id == process.id) {
                        continue;
                    }
                    self.seen.insert(name.to_owned());
                    found.push(process);
                }
                Err(Skip::Version) => {
                    self.seen.insert(name.to_owned());
                    self.foreign_versions += 1;
                }
                Err(Skip::Io) => {}
            }
        }
        found.sort_by_key(|process| process.start_ticks);
        for process in found {
            let segment = process.segment();
            let parent = match segment.parent() {
                // After exec only the pids tell: the image before it, else the parent's.
                0 => self
                    .processes
                    .iter()
                    .rev()
                    .find(|other| other.pid == process.pid)
                    .or_else(|| self.processes.iter().rev().find(|other| other.pid == segment.ppid()))
                    .map_or(0, |other| other.id),
                parent => parent,
            };
            let (process_id, pid, start_ticks) = (process.id, process.pid, process.start_ticks);
            self.output.event(Event::Process { process: process_id, parent, pid, start_ticks })?;
            self.processes.push(process);
        }
        Ok(())
    }

    /// Ends the processes that have ended: death is looked for first, then the rings are drained,
    /// so that nothing is posted after the last look.
    fn end_processes(&mut self) -> Result<(), Stopped> {
        let mut index = 0;
        while index < self.processes.len() {
            let process = &self.processes[index];
            let (pid, start) = (process.pid, process.start_ticks);
            let dead = !process.is_alive();
            let replaced =
                !dead && self.processes.iter().any(|other| other.pid == pid && other.start_ticks > start);
            if !dead && !replaced {
                index += 1;
                continue;
            }
            let mut process = self.processes.remove(index);
            let mut fill = Fill::default();
            process.drain(&mut self.output, Producer::Gone, &mut self.copied, &mut fill)?;
            let ended = process.ended_as(replaced);
            if let Some(name) = process.path.file_name() {
                self.seen.remove(name);
            }
            process.end(&mut self.output, &self.session, ended)?;
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

enum Skip {
    Version,
    Io,
}

/// Maps a segment file; none if its header isn't complete.
fn open_segment(path: &Path) -> Result<Option<Process>, Skip> {
    let file = OpenOptions::new().read(true).write(true).open(path).map_err(|_| Skip::Io)?;
    let bytes = file.metadata().map_err(|_| Skip::Io)?.len();
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).min(SEGMENT_SPAN);
    if bytes < RINGS_START {
        return Ok(None);
    }
    let map = Mapping::shared(&file, bytes).map_err(|_| Skip::Io)?;
    let (id, pid, start_ticks, recorder) = match Segment::new(map.words()) {
        Ok(segment) => {
            (segment.process().0, segment.pid(), segment.start_ticks(), segment.parent() == RECORDER)
        }
        Err(NotASegment::Unfinished) => return Ok(None),
        Err(NotASegment::Version(version)) => {
            debug_assert_ne!(version, SEGMENT_VERSION);
            return Err(Skip::Version);
        }
    };
    let pidfd = open_pidfd(pid).ok();
    Ok(Some(Process { path: path.to_owned(), map, id, pid, start_ticks, pidfd, rings: Vec::new(), recorder }))
}

fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: pidfd_open(2) takes two integers.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor just made that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

impl Process {
    fn segment(&self) -> Segment<'_> {
        Segment::accepted(self.map.words())
    }

    fn is_alive(&self) -> bool {
        let Some(pidfd) = &self.pidfd else {
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
        let segment = Segment::accepted(self.map.words());
        drain_rings(segment, self.id, &mut self.rings, output, producer, copied, fill)
    }

    /// Threads killed alone, or ended past the recorder's sight, leave their rings open.
    fn close_rings_of_dead_threads(&mut self) {
        let segment = Segment::accepted(self.map.words());
        for (index, local) in self.rings.iter_mut().enumerate() {
            let Some(ring) = segment.ring(index) else { continue };
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
    fn end<T: Turn>(self, output: &mut Output<T>, session: &Session, ended: Ended) -> Result<(), Stopped> {
        let segment = self.segment();
        note_rest(segment, self.id, output)?;
        let end_ticks = match (segment.end_ticks(), ended) {
            (_, Ended::Running) => 0,
            // Killed: this is when it was seen, at most one look later.
            (0, _) if session.is_live() => clock::ticks(),
            (ticks, _) => ticks,
        };
        output.event(Event::ProcessEnd {
            process: self.id,
            ended,
            end_ticks,
            status: segment.exit_status(),
            rank: segment.rank(),
            usage: segment.usage(),
        })?;
        session.give_back(segment.populated().min(SEGMENT_SPAN as u64));
        // Everything in it is in the journal now. If it can't be removed, the session's end does.
        let _ = std::fs::remove_file(&self.path);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seal::journal::pieces;
    use crate::seal::journal::{Journal, Loss};
    use crate::seal::producer::{NOBODY, Producer, pread};
    use crate::seal::view::Unit;
    use proptest::prelude::*;

    /// Keeps what journals held.
    struct Kept(Vec<Unit>, usize);

    impl Turn for Kept {
        fn spare(&mut self, _wait: bool) -> Option<Journal> {
            Journal::volatile(self.1).ok()
        }
        fn full(&mut self, journal: Journal) {
            self.0.extend_from_slice(journal.units());
        }
    }

    fn drain(session: Session, units: usize) -> Drain<Kept> {
        Drain::new(session, Output::new(Kept(Vec::new(), units), 1))
    }

    /// `object` of each call, and how many were counted as never filled.
    fn calls(units: &[Unit]) -> (Vec<u64>, u64) {
        let (mut found, mut lost) = (Vec::new(), 0);
        for (event, slots) in pieces(units) {
            found.extend(slots.iter().map(|slot| slot[3]));
            if let Event::Lost { loss: Loss::NeverFilled, calls, .. } = event {
                lost += calls;
            }
        }
        (found, lost)
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Post,
        /// A handler interrupts a post, and the post goes on later.
        Reserve,
        Fill(usize),
        Drain,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => Just(Step::Post),
            1 => Just(Step::Reserve),
            2 => any::<usize>().prop_map(Step::Fill),
            2 => Just(Step::Drain),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Against the oracle: a queue of which only the filled head may leave. Whatever the order
        /// of reserving, filling and draining, each filled slot comes out once and in its order.
        #[test]
        fn every_filled_slot_comes_out_once_in_order(
            steps in prop::collection::vec(step(), 1..120),
            room in 4_usize..40,
        ) {
            let session = Session::create(1 << 20).unwrap();
            let dir = session.dir().to_owned();
            // This test's own pid: the process is alive until the end.
            let producer = Producer::create(&dir, std::process::id(), 7, 1, 16);
            let mut drain = drain(session, room);
            let mut reserved: Vec<(u64, bool)> = Vec::new();
            let mut next = 1_u64;
            for step in steps {
                match step {
                    Step::Post | Step::Reserve => {
                        if let Some(position) = producer.reserve(0) {
                            let fills = matches!(step, Step::Post);
                            if fills {
                                producer.fill(0, position, &pread(next as i64, 0, next, 1));
                            }
                            prop_assert_eq!(position as usize, reserved.len());
                            reserved.push((next, fills));
                            next += 1;
                        }
                    }
                    Step::Fill(which) => {
                        let open: Vec<usize> = (0..reserved.len()).filter(|at| !reserved[*at].1).collect();
                        if let Some(at) = open.get(which % open.len().max(1)) {
                            reserved[*at].1 = true;
                            let object = reserved[*at].0;
                            producer.fill(0, *at as u64, &pread(object as i64, 0, object, 1));
                        }
                    }
                    Step::Drain => {
                        drain.pass(true).unwrap();
                        let head = reserved.iter().take_while(|(_, filled)| *filled).count();
                        prop_assert_eq!(producer.tail(0) as usize, head);
                    }
                }
            }
            let (kept, session, running) = drain.finish_after_crash().unwrap();
            session.remove();
            prop_assert_eq!(running, vec![std::process::id()]);
            let (found, lost) = calls(&kept.0);
            let filled: Vec<u64> = reserved.iter().filter(|(_, filled)| *filled).map(|(object, _)| *object).collect();
            prop_assert_eq!(found, filled);
            prop_assert_eq!(lost as usize, reserved.iter().filter(|(_, filled)| !filled).count());
        }
    }

    #[test]
    fn a_dead_process_is_drained_noted_and_its_segment_removed() {
        let session = Session::create(1 << 20).unwrap();
        let producer = Producer::create(session.dir(), NOBODY, 7, 2, 16);
        assert!(producer.post(0, &pread(1, 0, 10, 1)));
        producer.reserve(0).unwrap();
        assert!(producer.post(0, &pread(2, 0, 12, 1)));
        producer.begin(1, 0, &pread(3, 0, 14, 0));
        let dir = session.dir().to_owned();
        let mut drain = drain(session, 1000);
        drain.pass(true).unwrap();
        assert!(!drain.any_alive());
        assert!(segments(&dir).is_empty());
        let (kept, session, _) = drain.finish().unwrap();
        session.remove();
        assert_eq!(calls(&kept.0), (vec![1, 2, 3], 1));
        let unfinished = pieces(&kept.0).flat_map(|(_, slots)| slots).filter(|slot| slot[2] == u64::MAX);
        assert_eq!(unfinished.count(), 1);
        let ended = |event: &Event| matches!(event, Event::ProcessEnd { ended: Ended::Killed, .. });
        assert_eq!(pieces(&kept.0).filter(|(event, _)| ended(event)).count(), 1);
    }

    #[test]
    fn a_closed_ring_is_freed_once_it_is_drained() {
        let session = Session::create(1 << 20).unwrap();
        let producer = Producer::create(session.dir(), std::process::id(), 7, 1, 16);
        assert!(producer.post(0, &pread(1, 0, 10, 1)));
        producer.close(0, 99);
        let mut drain = drain(session, 1000);
        drain.pass(true).unwrap();
        assert_eq!(producer.state(0), RingState::Free as u32);
        let (kept, session, running) = drain.finish().unwrap();
        session.remove();
        assert_eq!(running, [std::process::id()]);
        let ends = |event: &Event| matches!(event, Event::Thread { end_ticks: 99, .. });
        assert_eq!(pieces(&kept.0).filter(|(event, _)| ends(event)).count(), 1);
    }

    /// Nothing that a thread posted later comes before what is in the ring it left, wherever the two stand.
    #[test]
    fn a_ring_that_its_thread_left_comes_first() {
        let session = Session::create(1 << 20).unwrap();
        let producer = Producer::create(session.dir(), std::process::id(), 7, 2, 16);
        let mut drain = drain(session, 1000);
        assert!(producer.post(1, &pread(1, 0, 10, 1)));
        let hole = producer.reserve(1).unwrap();
        assert!(producer.post(1, &pread(3, 0, 12, 1)));
        producer.move_on(1, 0);
        assert!(producer.post(0, &pread(4, 0, 13, 1)));
        drain.pass(true).unwrap();
        assert_eq!((producer.tail(1), producer.tail(0)), (1, 0));
        producer.fill(1, hole, &pread(2, 0, 11, 1));
        drain.pass(true).unwrap();
        assert_eq!((producer.tail(1), producer.tail(0)), (3, 1));
        assert_eq!(producer.state(1), RingState::Free as u32);
        let (kept, session, _) = drain.finish().unwrap();
        session.remove();
        assert_eq!(calls(&kept.0), (vec![1, 2, 3, 4], 0));
    }

    /// A quiet ring is its dead thread's, or else stays: a living thread's, and the announcements', which no thread has.
    #[test]
    fn only_rings_of_dead_threads_are_closed() {
        let session = Session::create(1 << 20).unwrap();
        let (own, announcements) = (std::process::id(), 0);
        let producer = Producer::create(session.dir(), own, 7, 3, 16);
        for (ring, tid) in [own, announcements, NOBODY].into_iter().enumerate() {
            producer.give(ring, tid);
        }
        let mut drain = drain(session, 1000);
        drain.pass(true).unwrap();
        // quiet from one look to the next
        (0..2).for_each(|_| drain.processes[0].close_rings_of_dead_threads());
        let live = RingState::Live as u32;
        let states: Vec<bool> = (0..3).map(|ring| producer.state(ring) == live).collect();
        assert_eq!(states, [true, true, false]);
        drain.finish_after_crash().unwrap().1.remove();
    }

    #[test]
    fn what_a_killed_sealer_had_copied_is_not_taken_twice() {
        for given_back in [0, 2, 3] {
            let session = Session::create(1 << 20).unwrap();
            let producer = Producer::create(session.dir(), NOBODY, 7, 1, 16);
            for object in 1..=5 {
                assert!(producer.post(0, &pread(object, 0, 10, 1)));
            }
            // Three were committed to the journal; the kill came while they were given back.
            for position in 0..given_back {
                producer.fill(0, position, &[0; 8]);
            }
            let mut drain = drain(session, 1000);
            drain.skip_copied(producer.process, 0, 0, 3);
            let (kept, session, _) = {
                drain.find_segments().unwrap();
                drain.finish_after_crash().unwrap()
            };
            session.remove();
            assert_eq!(calls(&kept.0), (vec![4, 5], 0), "{given_back} given back");
        }
    }
}
