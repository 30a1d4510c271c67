//! The journal: what was drained from the rings and is not yet in Parquet.
//!
//! Draining a ring frees its slots, Parquet is written half a million rows at a time, and between
//! the two a SIGKILL must lose nothing. So the sealer copies slots into a file on the session's
//! tmpfs, which outlives it: the buffer of pending rows *is* the journal. Two such files of bounded
//! size take turns, one being filled while the other is written.
//!
//! ```text
//! journal  0       magic, version, sequence, publishes, committed, file   (one page)
//!          4096    units of 64 bytes
//! ```
//!
//! A unit is a slot, exactly as it stood in its ring, or an [`Event`] of the sealer's, whose opcode
//! is above those of a segment. `committed` is stored last, so that what lies below it is whole.
//! `publishes` is the snapshot that will hold these rows: if the trail has it, they are durable and
//! a recovery must not add them again.
//!
//! The same encoding holds the *carry*: what must outlast a journal because its row is only
//! written later (names of live processes and threads, half-received texts, clock pairs). It is the
//! shortest series of events that makes the same state, replaced by rename at each publish.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use iotrail_format::segment::PAGE;

use super::clock::Pair;
use super::map::Mapping;
use super::view::Unit;

const MAGIC: u64 = u64::from_le_bytes(*b"IOTRJNL1");
const VERSION: u64 = 1;
/// Header words.
const AT_MAGIC: usize = 0;
const AT_VERSION: usize = 1;
const AT_SEQUENCE: usize = 2;
const AT_PUBLISHES: usize = 3;
const AT_COMMITTED: usize = 4;
const AT_FILE: usize = 5;
/// Words before the first unit.
const UNITS: usize = PAGE / 8;

/// Prefix of a journal's file name in the session's directory.
pub const JOURNAL_PREFIX: &str = "journal-";
/// Name of the carry in the session's directory.
pub const CARRY_NAME: &str = "carry";

/// How a process image ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ended {
    /// It still runs.
    Running = 0,
    /// It called `exit` or returned from `main`.
    Exit = 1,
    /// It became another program.
    Exec = 2,
    /// It went without a word.
    Killed = 3,
}

impl Ended {
    /// The name in a trail.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Exit => "exit",
            Self::Exec => "exec",
            Self::Killed => "killed",
        }
    }
}

/// Why calls are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Loss {
    /// The ring was full.
    RingFull = 1,
    /// A slot was reserved and never filled: a handler left posting by `longjmp`, or a program
    /// killed while it posted.
    NeverFilled = 2,
    /// The thread or process got no ring (budget or tmpfs spent).
    NoRing = 3,
    /// Rings that their program wrote over: what was in them, and what it would have posted there. `calls` counts rings.
    OverwrittenRing = 4,
    /// Segments that were refused: no regular file of the process that they name. `calls` counts files.
    RefusedSegment = 5,
    /// Segments that the system would not open to the last: no call of their processes is known. `calls` counts files.
    UnreadSegment = 6,
}

/// What the sealer notes between the slots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Event {
    /// The next `count` units are slots of `ring` of `process` from position `first` on.
    Run { process: i64, thread: i64, ring: u32, tid: u32, first: u64, count: u64 },
    /// A process image was found.
    Process { process: i64, parent: i64, pid: u32, start_ticks: u64 },
    /// A thread was found, or (`end_ticks` not 0) has ended.
    Thread { process: i64, thread: i64, tid: u32, start_ticks: u64, end_ticks: u64 },
    /// A process image is over, or (`Running`) the recording is. `usage` is user CPU, system CPU,
    /// minor faults, major faults, -1 unknown.
    ProcessEnd { process: i64, ended: Ended, end_ticks: u64, status: i32, rank: i32, usage: [i64; 4] },
    /// Calls of a process that were lost.
    Lost { process: i64, loss: Loss, calls: u64 },
    /// A clock pair and the wall clock at that moment.
    Clock { pair: Pair, wall: u64 },
}

/// First opcode of an event.
const EVENTS: u16 = 0x5000;

/// Half words of a unit's word.
const fn pack(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

impl Event {
    /// The event as a unit: the opcode in the low 16 bits of the first word.
    #[must_use]
    pub fn encode(&self) -> Unit {
        let op =
            |number: u16, byte: u8, high: u32| pack(u32::from(EVENTS + number) | u32::from(byte) << 16, high);
        match *self {
            Self::Run { process, thread, ring, tid, first, count } => {
                [op(0, 0, 0), process as u64, thread as u64, pack(ring, tid), first, count, 0, 0]
            }
            Self::Process { process, parent, pid, start_ticks } => {
                [op(1, 0, pid), process as u64, parent as u64, start_ticks, 0, 0, 0, 0]
            }
            Self::Thread { process, thread, tid, start_ticks, end_ticks } => {
                [op(2, 0, tid), process as u64, thread as u64, start_ticks, end_ticks, 0, 0, 0]
            }
            Self::ProcessEnd { process, ended, end_ticks, status, rank, usage } => {
                let [user, system, minor, major] = usage.map(|value| value as u64);
                let first = op(3, ended as u8, status as u32);
                [first, process as u64, end_ticks, user, system, minor, major, u64::from(rank as u32)]
            }
            Self::Lost { process, loss, calls } => {
                [op(4, loss as u8, 0), process as u64, calls, 0, 0, 0, 0, 0]
            }
            Self::Clock { pair, wall } => [op(5, 0, 0), pair.ticks, pair.mono, wall, 0, 0, 0, 0],
        }
    }

    /// The event of a unit; none if it is a slot or damaged.
    #[must_use]
    pub fn decode(unit: &Unit) -> Option<Self> {
        let (byte, high) = ((unit[0] >> 16) as u8, (unit[0] >> 32) as u32);
        Some(match (unit[0] as u16).checked_sub(EVENTS)? {
            0 => Self::Run {
                process: unit[1] as i64,
                thread: unit[2] as i64,
                ring: unit[3] as u32,
                tid: (unit[3] >> 32) as u32,
                first: unit[4],
                count: unit[5],
            },
            1 => Self::Process {
                process: unit[1] as i64,
                parent: unit[2] as i64,
                pid: high,
                start_ticks: unit[3],
            },
            2 => Self::Thread {
                process: unit[1] as i64,
                thread: unit[2] as i64,
                tid: high,
                start_ticks: unit[3],
                end_ticks: unit[4],
            },
            3 => Self::ProcessEnd {
                process: unit[1] as i64,
                ended: match byte {
                    0 => Ended::Running,
                    1 => Ended::Exit,
                    2 => Ended::Exec,
                    3 => Ended::Killed,
                    _ => return None,
                },
                end_ticks: unit[2],
                status: high as i32,
                rank: unit[7] as u32 as i32,
                usage: [unit[3] as i64, unit[4] as i64, unit[5] as i64, unit[6] as i64],
            },
            4 => Self::Lost {
                process: unit[1] as i64,
                loss: match byte {
                    1 => Loss::RingFull,
                    2 => Loss::NeverFilled,
                    3 => Loss::NoRing,
                    4 => Loss::OverwrittenRing,
                    5 => Loss::RefusedSegment,
                    6 => Loss::UnreadSegment,
                    _ => return None,
                },
                calls: unit[2],
            },
            5 => Self::Clock { pair: Pair { ticks: unit[1], mono: unit[2] }, wall: unit[3] },
            _ => return None,
        })
    }
}

/// A piece of a journal: one event, and the slots that belong to it.
pub type Piece<'a> = (Event, &'a [Unit]);

/// Walks over committed units; stops at the first that makes no sense.
pub fn pieces(mut units: &[Unit]) -> impl Iterator<Item = Piece<'_>> {
    core::iter::from_fn(move || {
        let (first, rest) = units.split_first()?;
        let event = Event::decode(first)?;
        let count = match event {
            Event::Run { count, .. } => usize::try_from(count).ok()?,
            _ => 0,
        };
        let slots = rest.get(..count)?;
        units = &rest[count..];
        Some((event, slots))
    })
}

/// One journal file, mapped.
pub struct Journal {
    map: Mapping,
    /// None: its memory is no file's, and is there when it is touched.
    file: Option<File>,
    capacity: usize,
    /// Units for which there is memory for certain.
    allocated: usize,
    len: usize,
}

/// Units by which a journal grows: a megabyte.
const STEP: usize = (1 << 20) / size_of::<Unit>();

impl Journal {
    /// Makes journal `index` in `dir` with room for `capacity` units. It grows to that as it is filled, and each part is
    /// allocated before it is written: a write into a hole of a full tmpfs would be SIGBUS.
    pub fn create(dir: &Path, index: usize, capacity: usize) -> io::Result<Self> {
        let path = dir.join(format!("{JOURNAL_PREFIX}{index}"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        let made = Mapping::shared(&file, PAGE + capacity * size_of::<Unit>())
            .and_then(|map| Self::start(map, Some(file), capacity));
        if made.is_err() {
            let _ = std::fs::remove_file(&path);
        }
        made
    }

    /// A journal in memory of its own, which does not outlive the process.
    pub fn volatile(capacity: usize) -> io::Result<Self> {
        Self::start(Mapping::anonymous(PAGE + capacity * size_of::<Unit>())?, None, capacity)
    }

    fn start(map: Mapping, file: Option<File>, capacity: usize) -> io::Result<Self> {
        let mut journal = Self { map, file, capacity, allocated: 0, len: 0 };
        journal.allocate(0, PAGE)?;
        journal.grow()?;
        let words = journal.map.words();
        words[AT_VERSION].store(VERSION, Ordering::Relaxed);
        words[AT_MAGIC].store(MAGIC, Ordering::Release);
        Ok(journal)
    }

    /// Allocates the next part.
    fn grow(&mut self) -> io::Result<()> {
        let units = STEP.min(self.capacity - self.allocated);
        self.allocate(PAGE + self.allocated * size_of::<Unit>(), units * size_of::<Unit>())?;
        self.allocated += units;
        Ok(())
    }

    fn allocate(&self, from: usize, bytes: usize) -> io::Result<()> {
        if let Some(file) = &self.file {
            // SAFETY: a system call on a descriptor that is open.
            if unsafe { libc::fallocate(file.as_raw_fd(), 0, from as libc::off_t, bytes as libc::off_t) } != 0
            {
                return Err(io::Error::last_os_error());
            }
        }
        self.map.populate(from, bytes);
        Ok(())
    }

    fn header(&self, index: usize) -> &AtomicU64 {
        &self.map.words()[index]
    }

    /// Empties it for a new turn.
    pub fn begin(&mut self, sequence: u64) {
        self.header(AT_COMMITTED).store(0, Ordering::Release);
        self.header(AT_PUBLISHES).store(0, Ordering::Release);
        self.header(AT_SEQUENCE).store(sequence, Ordering::Release);
        self.len = 0;
    }

    /// Its turn.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.header(AT_SEQUENCE).load(Ordering::Relaxed)
    }

    /// Notes that snapshot `snapshot` or a later one will list its rows, in a file whose path in the
    /// trail hashes to `file`.
    pub fn publishes(&self, snapshot: u64, file: i64) {
        self.header(AT_FILE).store(file as u64, Ordering::Release);
        self.header(AT_PUBLISHES).store(snapshot, Ordering::Release);
    }

    /// Units that can be written now, more than `units` if there is memory and it isn't full.
    #[must_use]
    pub fn room(&mut self, units: usize) -> usize {
        while self.allocated - self.len <= units && self.allocated < self.capacity {
            if self.grow().is_err() {
                // Without memory it is as large as it has become.
                self.capacity = self.allocated;
            }
        }
        self.allocated - self.len
    }

    /// Whether nothing was committed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Units committed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends an event. There must be room.
    pub fn event(&mut self, event: Event) {
        let at = self.len;
        self.put(at, &event.encode());
        self.commit(at + 1);
    }

    /// Writes the `index`th slot of a run that [`Self::commit_run`] will head. There must be room
    /// for it and the head.
    #[inline]
    pub fn slot(&mut self, index: usize, unit: &Unit) {
        self.put(self.len + 1 + index, unit);
    }

    /// Makes a run of slots written by [`Self::slot`] part of the journal.
    pub fn commit_run(&mut self, head: Event, count: usize) {
        let at = self.len;
        self.put(at, &head.encode());
        self.commit(at + 1 + count);
    }

    #[inline]
    fn put(&mut self, index: usize, unit: &Unit) {
        let at = UNITS + index * 8;
        for (word, value) in self.map.words()[at..at + 8].iter().zip(unit) {
            word.store(*value, Ordering::Relaxed);
        }
    }

    fn commit(&mut self, len: usize) {
        self.len = len;
        self.header(AT_COMMITTED).store(len as u64, Ordering::Release);
    }

    /// What was committed.
    #[must_use]
    pub fn units(&self) -> &[Unit] {
        let words = &self.map.words()[UNITS..UNITS + self.len * 8];
        // SAFETY: `words` is initialised, 8-aligned and `len` units long. Only this journal's owner
        // writes it, through `&mut self`, so nothing changes while the slice lives.
        unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), self.len) }
    }
}

/// A journal or carry left by a recorder that is gone.
pub struct Left {
    /// Its turn; of a carry, the last turn whose state it holds.
    pub sequence: u64,
    /// The snapshot its rows were to be published in, 0 if it hadn't come to that.
    pub publishes: u64,
    /// Hash of the path of a data file of its rows.
    pub file: i64,
    /// What was committed.
    pub units: Vec<Unit>,
}

impl Left {
    /// Reads a file; none if it isn't a journal or is empty.
    pub fn read(path: &Path) -> io::Result<Option<Self>> {
        let bytes = std::fs::read(path)?;
        Ok(Self::parse(&bytes))
    }

    /// The hash of the path of a data file of its rows, 0 if there is none, without reading the rest.
    pub fn file_of(path: &Path) -> io::Result<i64> {
        let mut header = [0; UNITS * 8];
        io::Read::read_exact(&mut std::fs::File::open(path)?, &mut header)?;
        let word = |at: usize| u64::from_le_bytes(header[at * 8..][..8].try_into().unwrap_or_default());
        let ours = word(AT_MAGIC) == MAGIC && word(AT_VERSION) == VERSION;
        Ok(if ours { word(AT_FILE) as i64 } else { 0 })
    }

    /// The journal in `bytes`; a count beyond them is cut to what is there.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| {
            bytes.get(at * 8..at * 8 + 8).map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
        };
        if word(AT_MAGIC)? != MAGIC || word(AT_VERSION)? != VERSION {
            return None;
        }
        let committed = usize::try_from(word(AT_COMMITTED)?).unwrap_or(usize::MAX);
        let units: Vec<Unit> = bytes
            .get(PAGE..)?
            .chunks_exact(size_of::<Unit>())
            .take(committed)
            .map(|unit| {
                core::array::from_fn(|at| {
                    u64::from_le_bytes(unit[at * 8..at * 8 + 8].try_into().unwrap_or_default())
                })
            })
            .collect();
        let (sequence, publishes) = (word(AT_SEQUENCE)?, word(AT_PUBLISHES)?);
        let file = word(AT_FILE)? as i64;
        (!units.is_empty()).then_some(Self { sequence, publishes, file, units })
    }
}

/// Writes the carry beside the old one; [`Carry::replace`] makes it count.
pub struct Carry {
    written: PathBuf,
    path: PathBuf,
}

impl Carry {
    /// Writes `units`, the state after journal `sequence`.
    pub fn write(dir: &Path, sequence: u64, units: &[Unit]) -> io::Result<Self> {
        let (path, written) = (dir.join(CARRY_NAME), dir.join("carry.new"));
        let mut bytes = Vec::with_capacity(PAGE + size_of_val(units));
        for word in [MAGIC, VERSION, sequence, 0, units.len() as u64] {
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.resize(PAGE, 0);
        for unit in units {
            for word in unit {
                bytes.extend_from_slice(&word.to_le_bytes());
            }
        }
        File::create(&written)?.write_all(&bytes)?;
        Ok(Self { written, path })
    }

    /// Replaces the old one.
    pub fn replace(self) -> io::Result<()> {
        std::fs::rename(self.written, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_back_as_they_went() {
        for event in [
            Event::Run { process: 1, thread: i64::MAX, ring: 3, tid: u32::MAX, first: 5, count: 6 },
            Event::Process { process: 1, parent: 0, pid: u32::MAX, start_ticks: u64::MAX },
            Event::Thread { process: 1, thread: 2, tid: 3, start_ticks: 4, end_ticks: 5 },
            Event::ProcessEnd {
                process: 1,
                ended: Ended::Killed,
                end_ticks: 9,
                status: -1,
                rank: -1,
                usage: [-1, 0, 7, i64::MAX],
            },
            Event::Lost { process: 1, loss: Loss::NoRing, calls: 3 },
            Event::Clock { pair: Pair { ticks: 1, mono: 2 }, wall: 3 },
        ] {
            assert_eq!(Event::decode(&event.encode()), Some(event));
        }
    }

    #[test]
    fn a_journal_grows_as_it_is_filled() {
        let dir = tempfile::tempdir().unwrap();
        let capacity = 2 * STEP + 100;
        let mut journal = Journal::create(dir.path(), 0, capacity).unwrap();
        journal.begin(1);
        let allocated = || std::fs::metadata(dir.path().join("journal-0")).unwrap().len();
        assert_eq!(allocated(), (PAGE + STEP * 64) as u64);
        let mut written = 0;
        while journal.room(1) > 1 {
            let count = (journal.room(1) - 1).min(1000);
            for index in 0..count {
                journal.slot(index, &[(written + index) as u64; 8]);
            }
            let head = Event::Run { process: 1, thread: 2, ring: 0, tid: 3, first: 0, count: count as u64 };
            journal.commit_run(head, count);
            written += count;
        }
        assert!(journal.len() >= capacity - 1 && journal.len() <= capacity);
        assert_eq!(allocated(), (PAGE + capacity * 64) as u64);
        let left = Left::read(&dir.path().join("journal-0")).unwrap().unwrap();
        let slots: Vec<u64> = pieces(&left.units).flat_map(|(_, slots)| slots.iter().map(|s| s[0])).collect();
        assert_eq!(slots, (0..written as u64).collect::<Vec<_>>());
        // What was allocated serves the next turn.
        journal.begin(2);
        assert_eq!(journal.room(0), capacity);
    }

    #[test]
    fn a_journal_cut_anywhere_reads_up_to_the_cut() {
        let dir = tempfile::tempdir().unwrap();
        let mut journal = Journal::create(dir.path(), 0, 100).unwrap();
        journal.begin(7);
        journal.slot(0, &[1; 8]);
        journal.slot(1, &[2; 8]);
        journal.commit_run(Event::Run { process: 1, thread: 2, ring: 0, tid: 3, first: 0, count: 2 }, 2);
        journal.event(Event::Lost { process: 1, loss: Loss::RingFull, calls: 3 });
        // Written but never committed.
        journal.slot(0, &[3; 8]);

        let bytes = std::fs::read(dir.path().join("journal-0")).unwrap();
        let left = Left::parse(&bytes).unwrap();
        assert_eq!((left.sequence, left.units.len()), (7, 4));
        assert_eq!(left.units, journal.units());
        let events: Vec<_> = pieces(&left.units).map(|(event, slots)| (event, slots.len())).collect();
        assert_eq!(events.len(), 2);
        assert_eq!(events[0].1, 2);
        for cut in 0..PAGE + 5 * 64 {
            if let Some(left) = Left::parse(&bytes[..cut]) {
                assert!(pieces(&left.units).count() <= 2);
            }
        }
    }
}
