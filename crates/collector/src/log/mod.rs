//! The durable log: what is acknowledged stands here until it is in the trail.
//!
//! One thread appends what all connections accepted and waits for the storage once for all of it (group commit), at most
//! every [`PAUSE`]. Only then senders are answered and rows go on, in the order of the log. It also owns the numbers that
//! were taken, so that a message that comes again is answered and dropped. Segments end when rows are sealed.

pub mod record;
pub mod segment;
pub mod state;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender};
use std::time::{Duration, Instant};

use iotrail_format::schema;
use prost::Message as _;
use tokio::sync::oneshot;

use self::record::{About, Kind, Numbers, Taken};
use self::segment::{Folder, Segment};
use crate::aside::{Aside, Entry};
use crate::clock::now_ns;
use crate::error::{Error, Refusal, is_full};
use crate::intake::Hold;
use crate::keeper::{Arrived, ToKeeper};
use crate::live::Feed;
use crate::metrics::{Metrics, OfTable};
use crate::rows::{Rows, from_ipc};

/// Least time between two commits: what comes meanwhile shares the next one.
const PAUSE: Duration = Duration::from_millis(4);
/// Bytes of one commit at most.
const COMMIT_BYTES: usize = 32 << 20;
/// How long a sender that isn't heard of is remembered, ns: 7 days, longer than an agent's spool lasts.
const REMEMBERED: i64 = 7 * 24 * 3600 * 1_000_000_000;
/// Space kept free for sealing, besides half of what is not sealed yet.
const RESERVE: u64 = 1 << 20;

/// What the log's thread is asked.
pub enum Command {
    /// To keep rows.
    Append(Append),
    /// To keep rows that the seal of all segments up to one left out, and when they came.
    Wait(u64, Vec<(Rows, i64)>, SyncSender<Result<(), Error>>),
    /// To end the segment; the keeper is told which.
    Rotate,
    /// To delete segments up to one: they are sealed.
    Sealed(u64),
    /// To end.
    End,
}

/// The number of a message.
#[derive(Clone, Debug)]
pub struct Number {
    /// The sender's name for its numbering.
    pub agent: Arc<str>,
    /// The number.
    pub number: u64,
    /// Whether a message of its stream was refused: then those behind it are too, or a higher number would be taken
    /// and the refused one, sent again, be thought to be.
    pub broken: Arc<AtomicBool>,
}

/// A message to be kept.
pub struct Append {
    /// Its number; none for those without.
    pub number: Option<Number>,
    /// Whether its rows may come again.
    pub repeats: bool,
    /// Its rows.
    pub rows: Vec<Rows>,
    /// The memory it holds.
    pub hold: Hold,
    /// Where to answer.
    pub done: oneshot::Sender<Result<(), Refusal>>,
}

/// What a log held when it was opened.
pub struct Replayed {
    numbers: HashMap<(Arc<str>, &'static str), (u64, i64)>,
    next: u64,
    bytes: u64,
    /// Records that could not be read.
    pub damaged: u64,
    /// Bytes that were cut off.
    pub torn: u64,
    /// Records that were set aside.
    pub set_aside: u64,
    /// Rows given to the keeper.
    pub rows: u64,
}

/// Reads all segments after `sealed` anew: rows go to `take` as they came. A message that decodes to more than `most`
/// bytes, or not at all, is set aside.
///
/// # Errors
/// [`Error::LogVersion`], [`Error::Io`], and those of `take`.
pub fn replay(
    folder: &Folder,
    sealed: u64,
    most: u64,
    aside: &Aside,
    mut take: impl FnMut(Arrived) -> Result<(), Error>,
) -> Result<Replayed, Error> {
    let segments = folder.segments()?;
    let mut replayed = Replayed {
        numbers: HashMap::new(),
        next: segments.last().copied().unwrap_or(0).max(sealed) + 1,
        bytes: 0,
        damaged: 0,
        torn: 0,
        set_aside: 0,
        rows: 0,
    };
    for segment in segments {
        let (mut bad, mut set_aside, mut rows, mut record) = (0, 0, 0, 0_u64);
        let numbers = &mut replayed.numbers;
        let unread = folder.read(segment, |kind, about, ipc| {
            record += 1;
            if kind == Kind::Numbers {
                for taken in Numbers::decode(about).unwrap_or_default().taken {
                    let Some(table) = schema::table(&taken.table) else { continue };
                    note(numbers, (taken.agent.into(), table.name), taken.number, taken.heard);
                }
                return Ok(());
            }
            let Ok(about) = About::decode(about) else {
                bad += 1;
                return Ok(());
            };
            let Some(table) = schema::table(&about.table) else {
                bad += 1;
                return Ok(());
            };
            if let Some(number) = about.number
                && !note(numbers, (about.agent.as_str().into(), table.name), number, about.since)
            {
                return Ok(());
            }
            let due = match kind {
                Kind::Waiting => about.through == sealed,
                _ => segment > sealed,
            };
            if due {
                // What waits was sealed once: many messages together.
                let most = if kind == Kind::Waiting { u64::MAX } else { most };
                match from_ipc(table, ipc.clone(), most) {
                    Ok(batch) => {
                        rows += batch.num_rows() as u64;
                        let repeats = about.repeats;
                        let waiting = kind == Kind::Waiting;
                        take(Arrived {
                            table,
                            batch,
                            repeats,
                            waiting,
                            since: about.since,
                            hold: Hold::none(),
                        })?;
                    }
                    Err(why) => {
                        let name = format!("{segment:012}-{record:06}-{}", table.name);
                        let entry = Entry { name, table: table.name, agent: &about.agent, why: &why };
                        aside.keep(&entry, [&ipc])?;
                        set_aside += 1;
                    }
                }
            }
            Ok(())
        })?;
        replayed.damaged += bad + unread.damaged;
        replayed.torn += unread.torn;
        replayed.set_aside += set_aside;
        replayed.rows += rows;
        if segment > sealed {
            replayed.bytes += unread.bytes;
        }
    }
    Ok(replayed)
}

/// Notes a number; false if it, or a higher one, was taken before.
fn note(
    numbers: &mut HashMap<(Arc<str>, &'static str), (u64, i64)>,
    key: (Arc<str>, &'static str),
    number: u64,
    heard: i64,
) -> bool {
    let mut new = false;
    let taken = numbers.entry(key).or_insert_with(|| {
        new = true;
        (number, heard)
    });
    new |= number > taken.0;
    *taken = (taken.0.max(number), taken.1.max(heard));
    new
}

/// The log, on a thread of its own.
pub struct Log {
    folder: Folder,
    segment: Segment,
    /// The segment can't be relied on any more: begin another one before the next commit.
    broken: bool,
    numbers: HashMap<(Arc<str>, &'static str), (u64, i64)>,
    /// Bytes of ended segments that are not sealed.
    ended: Vec<(u64, u64)>,
    keeper: Sender<ToKeeper>,
    live: Feed,
    metrics: Arc<Metrics>,
    committed: Option<Instant>,
}

impl Log {
    /// Goes on after a replay, in a new segment.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn begin(
        folder: Folder,
        replayed: Replayed,
        keeper: Sender<ToKeeper>,
        live: Feed,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Error> {
        let numbers = replayed.numbers;
        let segment = folder.create(replayed.next, &wire_numbers(&numbers))?;
        let ended = vec![(replayed.next - 1, replayed.bytes)];
        Ok(Self { folder, segment, broken: false, numbers, ended, keeper, live, metrics, committed: None })
    }

    /// Does what it is asked until nobody can ask any more.
    pub fn run(mut self, commands: &Receiver<Command>) {
        while let Ok(first) = commands.recv() {
            if let Some(early) = self.committed.and_then(|at| PAUSE.checked_sub(at.elapsed()))
                && matches!(first, Command::Append(_))
            {
                std::thread::sleep(early);
            }
            let mut appends = Vec::new();
            let mut bytes = 0;
            let mut next = Some(first);
            while let Some(command) = next {
                match command {
                    Command::End => return self.commit(appends),
                    Command::Append(append) => {
                        bytes += append.rows.iter().map(Rows::bytes).sum::<usize>();
                        appends.push(append);
                    }
                    other => {
                        self.commit(std::mem::take(&mut appends));
                        self.obey(other);
                    }
                }
                next = if bytes < COMMIT_BYTES { commands.try_recv().ok() } else { None };
            }
            self.commit(appends);
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            // The loop does these.
            Command::Append(_) | Command::End => {}
            Command::Wait(through, rows, done) => {
                let mut buffer = Vec::new();
                for (rows, since) in &rows {
                    let table = rows.table.name.to_owned();
                    let about = About { table, since: *since, through, ..About::default() };
                    record::append(&mut buffer, Kind::Waiting, &about, &rows.ipc);
                }
                let written = self.write(&buffer);
                let _ = done.send(written);
            }
            Command::Rotate => {
                let ended = self.rotate();
                let _ = self.keeper.send(ToKeeper::Rotated(ended));
            }
            Command::Sealed(through) => {
                self.ended.retain(|(number, _)| *number > through);
                // Tried again with the next one.
                let _ = self.folder.delete(through);
            }
        }
        self.measure();
    }

    fn unsealed(&self) -> u64 {
        self.ended.iter().map(|(_, bytes)| bytes).sum::<u64>() + self.segment.length
    }

    fn measure(&self) {
        self.metrics.log_bytes.set(i64::try_from(self.unsealed()).unwrap_or(i64::MAX));
    }

    /// Ends the segment and begins the next. Returns the number of the ended one.
    fn rotate(&mut self) -> Result<u64, Error> {
        let oldest = now_ns() - REMEMBERED;
        self.numbers.retain(|_, (_, heard)| *heard > oldest);
        let next = self.folder.create(self.segment.number + 1, &wire_numbers(&self.numbers))?;
        let old = std::mem::replace(&mut self.segment, next);
        self.ended.push((old.number, old.length));
        self.broken = false;
        Ok(old.number)
    }

    /// Writes durably.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.broken {
            self.rotate()?;
        }
        let begun = Instant::now();
        let written = self.segment.append(bytes);
        self.committed = Some(Instant::now());
        match &written {
            Ok(()) => {
                self.metrics.commits.inc();
                self.metrics.commit_seconds.observe(begun.elapsed().as_secs_f64());
            }
            // What the storage failed to take once it may claim to have the next time: don't ask it again.
            Err(Error::Io { source, .. }) => self.broken = !is_full(source),
            Err(_) => self.broken = true,
        }
        written
    }

    /// Makes messages durable, answers them, and sends their rows on.
    fn commit(&mut self, appends: Vec<Append>) {
        let appends = self.refuse_broken(appends);
        if appends.is_empty() {
            return;
        }
        let mut buffer = Vec::new();
        let mut undo = Vec::new();
        let now = now_ns();
        let mut fresh = Vec::with_capacity(appends.len());
        for append in &appends {
            let mut is_fresh = true;
            if let Some(Number { agent, number, .. }) = &append.number {
                let key = (agent.clone(), append.rows.first().map_or("", |rows| rows.table.name));
                let before = self.numbers.get(&key).copied();
                is_fresh = note(&mut self.numbers, key.clone(), *number, now);
                undo.push((key, before));
            }
            fresh.push(is_fresh);
            for rows in append.rows.iter().filter(|_| is_fresh) {
                let about = About {
                    agent: append.number.as_ref().map_or_else(String::new, |of| of.agent.to_string()),
                    number: append.number.as_ref().map(|of| of.number),
                    table: rows.table.name.to_owned(),
                    repeats: append.repeats,
                    since: now,
                    through: 0,
                };
                record::append(&mut buffer, Kind::Rows, &about, &rows.ipc);
            }
        }
        let written = match buffer.is_empty() {
            true => Ok(()),
            false => {
                self.space(buffer.len() as u64).and_then(|()| self.write(&buffer).map_err(|e| refusal(&e)))
            }
        };
        if let Err(refusal) = written {
            for (key, before) in undo.into_iter().rev() {
                match before {
                    Some(before) => self.numbers.insert(key, before),
                    None => self.numbers.remove(&key),
                };
            }
            appends.into_iter().for_each(|append| self.refuse(append, refusal.clone()));
            return;
        }
        for (append, fresh) in appends.into_iter().zip(fresh) {
            if fresh {
                self.pass(append.rows, append.repeats, now, &append.hold);
            } else {
                self.metrics.repeated_messages.inc();
            }
            let _ = append.done.send(Ok(()));
        }
        self.measure();
    }

    fn refuse(&self, append: Append, refusal: Refusal) {
        if let Some(number) = &append.number {
            number.broken.store(true, Ordering::Relaxed);
        }
        self.metrics.refuse(refusal.reason());
        let _ = append.done.send(Err(refusal));
    }

    /// Those whose stream isn't broken; refuses the others.
    fn refuse_broken(&self, appends: Vec<Append>) -> Vec<Append> {
        let is_broken = |append: &Append| {
            append.number.as_ref().is_some_and(|number| number.broken.load(Ordering::Relaxed))
        };
        let (broken, whole): (Vec<_>, Vec<_>) = appends.into_iter().partition(is_broken);
        for append in broken {
            let why = "a message before it was refused; send both again".to_owned();
            self.refuse(append, Refusal::NoSpace(why));
        }
        whole
    }

    /// Sends durable rows on.
    fn pass(&self, rows: Vec<Rows>, repeats: bool, since: i64, hold: &Hold) {
        for rows in rows {
            let of = OfTable { table: rows.table.name };
            self.metrics.messages.get_or_create(&of).inc();
            self.metrics.rows.get_or_create(&of).inc_by(rows.batch.num_rows() as u64);
            self.metrics.bytes.inc_by(rows.bytes() as u64);
            self.live.offer(rows.table, &rows.batch);
            let (table, batch, hold) = (rows.table, rows.batch, hold.clone());
            let arrived = Arrived { table, batch, repeats, waiting: false, since, hold };
            let _ = self.keeper.send(ToKeeper::Rows(arrived));
        }
    }

    /// Refuses what would leave too little space to seal what is in the log: sealing is what frees space.
    fn space(&self, bytes: u64) -> Result<(), Refusal> {
        let free = self.folder.free().map_err(|e| refusal(&e))?;
        let needed = bytes + (self.unsealed() + bytes) / 2 + RESERVE;
        if free >= needed {
            return Ok(());
        }
        Err(Refusal::NoSpace(format!(
            "the collector has no space: {} has {free} bytes left, and {needed} are needed; free some there, and send it \
             again",
            self.folder.path().display()
        )))
    }
}

fn refusal(error: &Error) -> Refusal {
    Refusal::NoSpace(format!("the collector can't write its log now: {error}; send it again"))
}

fn wire_numbers(numbers: &HashMap<(Arc<str>, &'static str), (u64, i64)>) -> Numbers {
    let taken = numbers.iter().map(|((agent, table), (number, heard))| Taken {
        agent: agent.to_string(),
        table: (*table).to_owned(),
        number: *number,
        heard: *heard,
    });
    Numbers { taken: taken.collect() }
}
