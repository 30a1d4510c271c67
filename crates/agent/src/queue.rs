//! What waits to be sent: in memory while the collector answers, else in a file of bounded size.
//!
//! The order in which messages were put in is the order in which they come out, also over an agent's end and new
//! beginning: the collector takes the numbers of one agent and table only in order. When the file is full the oldest
//! give way, and are counted. What came out of the file stays in it until it is answered, so that an agent that is
//! killed meanwhile loses nothing of it: what was answered and is sent again is known by its number.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use queue_file::QueueFile;

use crate::message::Message;

/// Bytes in memory at most while the collector answers, before the file takes what comes.
const MEMORY: usize = 2 << 20;
/// Messages of the file that may be out and not answered: to reach the next one, those before it are stepped over.
const OUT: usize = 64;

/// Bytes that an element of the file takes beside its own, at most.
const AROUND: u64 = 64;

/// What became of a message in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It came out, and back.
    Waiting,
    /// It came out.
    Out,
    /// It is done with, and goes once those before it do.
    Done,
}

/// Messages that wait.
pub struct Queue {
    /// Older than all in the file.
    memory: VecDeque<Message>,
    memory_bytes: usize,
    path: PathBuf,
    file: QueueFile,
    /// Storage failed and `file` can't be trusted: it counts as empty until a new one can be made.
    given_up: bool,
    /// The first messages in the file, which are or were out.
    out: VecDeque<Place>,
    /// Place of the file's first message, counted over all that were removed.
    first: u64,
    bound: u64,
    /// The collector doesn't answer: nothing is kept only in memory.
    away: bool,
    dropped: u64,
    /// Why the file can't be written, once it couldn't.
    failure: Option<String>,
}

impl Queue {
    /// With what an agent before left at `path`; the file is at most `bound` bytes.
    ///
    /// # Errors
    /// If the file can't be read or made. One that is damaged is moved aside.
    pub fn open(path: &Path, bound: u64) -> io::Result<Self> {
        let file = match QueueFile::open(path) {
            Ok(file) => file,
            Err(queue_file::Error::Io { source, .. }) => return Err(source),
            Err(_) => {
                fs::rename(path, path.with_extension("damaged"))?;
                QueueFile::open(path).map_err(io::Error::other)?
            }
        };
        let mut queue = Self {
            memory: VecDeque::new(),
            memory_bytes: 0,
            path: path.to_owned(),
            file,
            given_up: false,
            out: VecDeque::new(),
            first: 0,
            bound,
            away: true,
            dropped: 0,
            failure: None,
        };
        queue.set_up();
        Ok(queue)
    }

    /// A machine that loses power loses its last seconds anyway: waiting for its disk would disturb it for nothing.
    fn set_up(&mut self) {
        self.file.set_sync_writes(false);
        self.file.set_overwrite_on_remove(false);
    }

    /// Messages in the file.
    fn size(&self) -> usize {
        if self.given_up { 0 } else { self.file.size() }
    }

    /// Reads the file again, after an error of which what is in memory of it may not know.
    fn reopen(&mut self) -> Result<(), queue_file::Error> {
        self.file = QueueFile::open(&self.path)?;
        self.set_up();
        Ok(())
    }

    /// Storage failed, and again when it was tried anew: `size` messages of the file, but those that are out, are lost.
    fn give_up(&mut self, size: usize, error: &queue_file::Error) {
        self.failure = Some(error.to_string());
        let waiting = self.out.iter().filter(|place| **place == Place::Waiting).count();
        self.dropped += (size.saturating_sub(self.out.len()) + waiting) as u64;
        self.first += size as u64;
        self.out.clear();
        self.given_up = true;
    }

    /// A new file in the place of one that was given up, if storage is well again.
    fn begin_anew(&mut self) -> Result<(), queue_file::Error> {
        if self.given_up {
            // What it may have of the old one was counted as lost.
            let _ = fs::remove_file(&self.path);
            self.reopen()?;
            self.file.clear()?;
            self.given_up = false;
        }
        Ok(())
    }

    /// Adds one behind all others.
    pub fn push(&mut self, mut message: Message) {
        let bytes = message.bytes();
        if !self.away && self.size() == 0 && self.memory_bytes + bytes <= MEMORY {
            self.memory_bytes += bytes;
            self.memory.push_back(message);
        } else {
            self.spool(&mut message);
        }
    }

    /// The oldest that is not out yet; none also while many are out.
    pub fn pop(&mut self) -> Option<Message> {
        if let Some(message) = self.memory.pop_front() {
            self.memory_bytes -= message.bytes();
            return Some(message);
        }
        loop {
            let waiting = self.out.iter().position(|place| *place == Place::Waiting);
            let at = waiting.unwrap_or(self.out.len());
            if at >= OUT.min(self.size()) {
                return None;
            }
            if waiting.is_none() {
                self.out.push_back(Place::Waiting);
            }
            let read = || self.file.iter().nth(at).and_then(|bytes| Message::from_bytes(&bytes));
            // Storage may fail to read it once.
            if let Some(mut message) = read().or_else(read) {
                self.out[at] = Place::Out;
                message.place = Some(self.first + at as u64);
                return Some(message);
            }
            // Its rows are unknown: it counts as one.
            self.dropped += 1;
            self.out[at] = Place::Done;
            self.forget_done();
        }
    }

    /// The collector has one that was popped, or won't ever have it.
    pub fn done(&mut self, message: &Message) {
        if let Some(at) = self.index(message) {
            self.out[at] = Place::Done;
            self.forget_done();
        }
    }

    /// Where in the file a message is that was popped; none if it isn't there, or not any more.
    fn index(&self, message: &Message) -> Option<usize> {
        let at = message.place?.checked_sub(self.first)? as usize;
        (at < self.out.len()).then_some(at)
    }

    fn forget_done(&mut self) {
        while self.out.front() == Some(&Place::Done) {
            self.forget_oldest();
        }
    }

    /// Bytes in the file.
    #[must_use]
    pub fn spooled(&self) -> u64 {
        if self.size() == 0 { 0 } else { self.file.used_bytes() }
    }

    /// Rows that had to be dropped since the last time, and why if the file can't be written.
    pub fn take_dropped(&mut self) -> (u64, Option<String>) {
        (std::mem::take(&mut self.dropped), self.failure.take())
    }

    /// The collector answers.
    pub fn present(&mut self) {
        self.away = false;
    }

    /// The collector doesn't answer, or the agent ends: `unanswered`, older than all here, and what is in memory go to
    /// the front of the file.
    pub fn park(&mut self, unanswered: Vec<Message>) {
        self.away = true;
        let lost = unanswered.into_iter().filter(|message| self.index(message).is_none());
        let mut waiting: Vec<Message> = lost.collect();
        waiting.extend(self.memory.drain(..));
        self.memory_bytes = 0;
        // None of the file is out any more.
        self.out.iter_mut().filter(|place| **place == Place::Out).for_each(|place| *place = Place::Waiting);
        if waiting.is_empty() {
            return;
        }
        if self.size() == 0 {
            waiting.iter_mut().for_each(|message| self.spool(message));
            return;
        }
        let placed = self.renew(&waiting);
        waiting.iter_mut().for_each(Message::settle);
        match placed {
            Ok(()) => self.shrink(0),
            Err(error) => {
                self.dropped += waiting.iter().map(|message| message.rows).sum::<u64>();
                self.failure = Some(error.to_string());
            }
        }
    }

    /// Puts a new file in the place of the old one: with `front`, and then what was there. With a front what is done
    /// with goes, for then none may be out.
    fn renew(&mut self, front: &[Message]) -> Result<(), queue_file::Error> {
        let new = self.path.with_extension("new");
        let size = self.file.size();
        let mut left = size;
        let goes = |at: usize| !front.is_empty() && self.out.get(at) == Some(&Place::Done);
        let made = (|| {
            let _ = fs::remove_file(&new);
            let mut file = QueueFile::open(&new)?;
            file.set_sync_writes(false);
            file.add_n(front.iter().map(Message::to_bytes))?;
            for (at, bytes) in self.file.iter().enumerate() {
                if !goes(at) {
                    file.add(&bytes)?;
                }
                left -= 1;
            }
            fs::rename(&new, &self.path)?;
            Ok(file)
        })();
        match made {
            Ok(file) => {
                self.file = file;
                self.set_up();
                // Behind one that is damaged.
                self.dropped += left as u64;
                if front.is_empty() {
                    self.out.truncate(self.file.size());
                } else {
                    self.out.clear();
                    self.first += size as u64;
                }
                Ok(())
            }
            Err(error) => {
                let _ = fs::remove_file(&new);
                Err(error)
            }
        }
    }

    /// Adds to the file. It is made longer only by a new file: queue-file 2.0.0 damages a ring that goes over its end
    /// when it makes it longer (`QueueFileInner::transfer` takes the file's cursor to be where it wrote).
    fn add(&mut self, bytes: &[u8]) -> Result<(), queue_file::Error> {
        if !self.file.is_empty()
            && self.file.file_len() - self.file.used_bytes() < bytes.len() as u64 + AROUND
        {
            self.renew(&[])?;
        }
        let size = self.file.size();
        let added = self.file.add(bytes);
        // It may have written a part, and takes its cursor to be in front of that.
        if added.is_err()
            && let Err(error) = self.reopen()
        {
            self.give_up(size, &error);
        }
        added
    }

    fn spool(&mut self, message: &mut Message) {
        let bytes = message.to_bytes();
        message.settle();
        let length = bytes.len() as u64 + AROUND;
        self.shrink(length);
        if length > self.bound {
            self.dropped += message.rows;
        } else if let Err(error) = self.begin_anew().and_then(|()| self.add(&bytes)) {
            self.dropped += message.rows;
            self.failure = Some(error.to_string());
        }
    }

    /// Makes room in the file: the oldest give way.
    fn shrink(&mut self, room: u64) {
        while self.size() != 0 && self.spooled() + room > self.bound {
            // One that is out is dropped only if it isn't answered: then it comes back to `park`.
            if matches!(self.out.front(), None | Some(Place::Waiting)) {
                let oldest = self.file.peek().ok().flatten();
                let oldest = oldest.and_then(|bytes| Message::from_bytes(&bytes));
                self.dropped += oldest.map_or(1, |message| message.rows);
            }
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        self.out.pop_front();
        self.first += 1;
        let left = self.file.size() - 1;
        let removed = self.file.remove().or_else(|_| {
            self.reopen()?;
            if self.file.size() > left { self.file.remove() } else { Ok(()) }
        });
        // One that can't be removed would come for ever: then all go.
        if let Err(error) = removed {
            self.give_up(left, &error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::Outbox;
    use crate::source::Tick;
    use std::sync::Arc;

    fn message(number: u64) -> Message {
        of_samples(number, 1)
    }

    fn of_samples(number: u64, samples: usize) -> Message {
        let mut out = Outbox::new("here");
        out.begin(Tick { now: 3_000, before: Some(2_000), from_wall: 0, settled: 0 });
        (0..samples).for_each(|_| out.sum("osd.0", "op", Some("write"), 7.0));
        let (table, batch) = out.take().remove(0);
        Message::new(&"here/1".into(), table, false, number, &batch, Arc::default())
    }

    fn numbers(queue: &mut Queue) -> Vec<u64> {
        let next = || {
            let message = queue.pop()?;
            queue.done(&message);
            Some(message.number)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn order_is_kept_over_loss_of_the_collector_and_a_restart() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("spool");
        let mut queue = Queue::open(&path, 1 << 20).expect("a queue");
        queue.push(message(3));
        queue.present();
        queue.push(message(4));
        let unanswered = vec![message(1), message(2)];
        queue.park(unanswered);
        queue.push(message(5));
        drop(queue);
        let mut queue = Queue::open(&path, 1 << 20).expect("a queue");
        assert!(queue.spooled() > 0);
        assert_eq!(numbers(&mut queue), [1, 2, 3, 4, 5]);
        assert_eq!(queue.spooled(), 0);
    }

    #[test]
    fn a_full_file_drops_the_oldest_and_counts() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut queue = Queue::open(&folder.path().join("spool"), 20_000).expect("a queue");
        for number in 0..50 {
            queue.push(message(number));
        }
        assert!(queue.spooled() <= 20_000);
        let (dropped, failure) = queue.take_dropped();
        let left = numbers(&mut queue);
        assert_eq!(left, (dropped..50).collect::<Vec<_>>());
        assert!(dropped > 0 && failure.is_none());
    }

    proptest::proptest! {
        #[test]
        fn a_file_that_goes_over_its_end_and_grows_loses_nothing(
            steps in proptest::collection::vec((proptest::bool::weighted(0.6), 1..60_usize), 1..80),
        ) {
            let folder = tempfile::tempdir().expect("a folder");
            let mut queue = Queue::open(&folder.path().join("spool"), 16 << 20).expect("a queue");
            let mut waiting = VecDeque::new();
            for (number, (put, samples)) in steps.into_iter().enumerate() {
                if put {
                    queue.push(of_samples(number as u64, samples));
                    waiting.push_back(number as u64);
                } else {
                    let message = queue.pop();
                    message.iter().for_each(|message| queue.done(message));
                    assert_eq!(message.map(|message| message.number), waiting.pop_front());
                }
            }
            assert_eq!(numbers(&mut queue), Vec::from(waiting));
            assert_eq!(queue.take_dropped(), (0, None));
        }
    }

    #[test]
    fn memory_overflows_into_the_file_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut queue = Queue::open(&folder.path().join("spool"), 64 << 20).expect("a queue");
        queue.present();
        let many = (MEMORY / message(0).bytes() + 100) as u64;
        for number in 0..many {
            queue.push(message(number));
        }
        assert!(queue.spooled() > 0);
        assert_eq!(numbers(&mut queue), (0..many).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_out_stays_in_the_file_until_it_is_done_with() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("spool");
        let mut queue = Queue::open(&path, 1 << 20).expect("a queue");
        (1..=5).for_each(|number| queue.push(message(number)));
        let out: Vec<Message> = (0..3).map(|_| queue.pop().expect("a message")).collect();
        // Answers of different tables come in any order.
        queue.done(&out[1]);
        // Killed: those behind one that is not done with come again.
        drop(queue);
        let mut queue = Queue::open(&path, 1 << 20).expect("a queue");
        let mut out: Vec<Message> = (0..4).map(|_| queue.pop().expect("a message")).collect();
        assert_eq!(out.iter().map(|message| message.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
        queue.done(&out[0]);
        queue.done(&out[1]);
        // The connection is lost.
        queue.park(out.split_off(2));
        assert_eq!(numbers(&mut queue), [3, 4, 5]);
        assert_eq!((queue.spooled(), queue.take_dropped().0), (0, 0));
    }

    #[test]
    fn one_that_is_out_gives_way_and_is_dropped_only_if_nobody_took_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut queue = Queue::open(&folder.path().join("spool"), 20_000).expect("a queue");
        (0..3).for_each(|number| queue.push(message(number)));
        let out: Vec<Message> = (0..3).map(|_| queue.pop().expect("a message")).collect();
        (3..50).for_each(|number| queue.push(message(number)));
        let dropped = queue.take_dropped().0;
        assert!(dropped > 0 && queue.spooled() <= 20_000);
        // The first was answered, and the two others come to the front and have to go.
        let [first, others @ ..] = <[Message; 3]>::try_from(out).expect("three");
        queue.done(&first);
        queue.park(others.into());
        assert_eq!(queue.take_dropped().0, 2);
        assert_eq!(numbers(&mut queue), (dropped + 3..50).collect::<Vec<_>>());
    }

    #[test]
    fn a_damaged_message_costs_itself() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("spool");
        let mut queue = Queue::open(&path, 1 << 20).expect("a queue");
        (1..=5).for_each(|number| queue.push(message(number)));
        let second = message(2).to_bytes();
        drop(queue);
        let mut bytes = fs::read(&path).expect("a file");
        let at = bytes.windows(second.len()).position(|part| part == second).expect("it is there");
        bytes[at + 100] ^= 1;
        fs::write(&path, bytes).expect("written");
        let mut queue = Queue::open(&path, 1 << 20).expect("a queue");
        assert_eq!(numbers(&mut queue), [1, 3, 4, 5]);
        assert_eq!(queue.take_dropped().0, 1);
    }

    /// Puts ten in, takes four out, loses the connection and takes the others: what came out, and what was dropped.
    fn work(queue: &mut Queue, first: u64) -> (Vec<u64>, u64) {
        (first..first + 7).for_each(|number| queue.push(of_samples(number, 20)));
        let mut popped: Vec<Message> = std::iter::from_fn(|| queue.pop()).take(4).collect();
        let mut came: Vec<u64> = popped.iter().map(|message| message.number).collect();
        popped.iter().for_each(|message| queue.done(message));
        queue.present();
        (first + 7..first + 10).for_each(|number| queue.push(of_samples(number, 20)));
        popped = std::iter::from_fn(|| queue.pop()).take(2).collect();
        queue.park(popped);
        came.extend(numbers(queue));
        (came, queue.take_dropped().0)
    }

    /// At each call that the file makes: nothing comes twice, out of order or damaged, and what doesn't come is counted.
    #[test]
    fn storage_that_fails_or_loses_power_costs_what_is_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let storage = match iotrail_faultfs::Mounted::at(folder.path()) {
            Ok(storage) => storage,
            Err(error) => {
                eprintln!("left out: FUSE can't be mounted here: {error}");
                return;
            }
        };
        let path = folder.path().join("spool");
        let ask = |line: &str| storage.ask(line).expect("a line of faultfs");
        let anew = || {
            ask("clear");
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(path.with_extension("damaged"));
        };
        anew();
        let mut queue = Queue::open(&path, 1 << 20).expect("a queue");
        ask("clear");
        assert_eq!(work(&mut queue, 0), ((0..10).collect(), 0));
        let counts = ask("count");
        drop(queue);
        let kinds = "open,create,read,write,fsync,rename,truncate,unlink";
        let calls: u64 = counts
            .split(' ')
            .filter_map(|count| count.split_once('='))
            .filter(|(kind, _)| kinds.split(',').any(|known| known == *kind))
            .map(|(_, calls)| calls.parse::<u64>().expect("a count"))
            .sum();
        assert!(calls > 20, "{counts}");
        // One error at each call, others at each seventh.
        for n in 1..=calls {
            for fault in ["EIO once", "EIO on", "ENOSPC on", "EIO dead"] {
                if fault != "EIO once" && n % 7 != calls % 7 {
                    continue;
                }
                anew();
                let mut queue = Queue::open(&path, 1 << 20).expect("a queue");
                ask(&format!("fail {kinds} {n} {fault}"));
                let (came, dropped) = work(&mut queue, 0);
                let at = format!("{fault} at {n}, {}: {came:?} and {dropped} dropped", ask("failed"));
                assert!(came.is_sorted_by(|a, b| a < b), "{at}");
                // Each has twenty rows; of one that can't be read nobody knows how many.
                let lost = 10 - came.len() as u64;
                assert!((lost..=20 * lost).contains(&dropped), "{at}");
                // The storage is well again: so is the queue, without a new beginning.
                if fault != "EIO dead" {
                    ask("clear");
                    let (came, dropped) = work(&mut queue, 100);
                    assert_eq!((came, dropped), ((100..110).collect(), 0), "{at}");
                }
                // A power cut, of which any part of the file may have survived, costs what was in the file.
                ask(&format!("cut {}", n % 3));
                drop(queue);
                let mut queue = Queue::open(&path, 1 << 20).expect("a queue");
                let mut came = numbers(&mut queue);
                assert!(came.is_sorted_by(|a, b| a < b), "{at}, after the cut {came:?}");
                queue.take_dropped();
                came = work(&mut queue, 200).0;
                assert_eq!(came, (200..210).collect::<Vec<_>>(), "{at}");
            }
        }
        storage.end().expect("unmounted");
    }

    #[test]
    fn a_damaged_file_is_moved_aside() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("spool");
        fs::write(&path, vec![0xa5; 5000]).expect("written");
        let mut queue = Queue::open(&path, 1 << 20).expect("a queue");
        assert!(path.with_extension("damaged").exists());
        queue.push(message(1));
        assert_eq!(numbers(&mut queue), [1]);
    }
}
