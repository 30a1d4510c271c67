//! What waits to be sent: in memory while the collector answers, else in a file of bounded size.
//!
//! The order in which messages were put in is the order in which they come out, also over an agent's end and new
//! beginning: the collector takes the numbers of one agent and table only in order. When the file is full the oldest
//! give way, and are counted.

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use queue_file::QueueFile;

use crate::message::Message;

/// Bytes in memory at most while the collector answers, before the file takes what comes.
const MEMORY: usize = 2 << 20;

/// Messages that wait.
pub struct Queue {
    /// Older than all in the file.
    memory: VecDeque<Message>,
    memory_bytes: usize,
    path: PathBuf,
    file: QueueFile,
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

    /// Adds one behind all others.
    pub fn push(&mut self, mut message: Message) {
        let bytes = message.bytes();
        if !self.away && self.file.is_empty() && self.memory_bytes + bytes <= MEMORY {
            self.memory_bytes += bytes;
            self.memory.push_back(message);
        } else {
            self.spool(&mut message);
        }
    }

    /// The oldest.
    pub fn pop(&mut self) -> Option<Message> {
        if let Some(message) = self.memory.pop_front() {
            self.memory_bytes -= message.bytes();
            return Some(message);
        }
        while let Ok(Some(bytes)) = self.file.peek() {
            self.forget_oldest();
            match Message::from_bytes(&bytes) {
                Some(message) => return Some(message),
                // Its rows are unknown: it counts as one.
                None => self.dropped += 1,
            }
        }
        None
    }

    /// Bytes in the file.
    #[must_use]
    pub fn spooled(&self) -> u64 {
        if self.file.is_empty() { 0 } else { self.file.used_bytes() }
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
        let mut waiting: Vec<Message> = unanswered.into_iter().chain(self.memory.drain(..)).collect();
        self.memory_bytes = 0;
        if waiting.is_empty() {
            return;
        }
        if self.file.is_empty() {
            waiting.iter_mut().for_each(|message| self.spool(message));
            return;
        }
        // A file that has them first, in its place.
        let new = self.path.with_extension("new");
        let made = (|| -> Result<QueueFile, queue_file::Error> {
            let _ = fs::remove_file(&new);
            let mut file = QueueFile::open(&new)?;
            file.set_sync_writes(false);
            file.add_n(waiting.iter().map(Message::to_bytes))?;
            for bytes in self.file.iter() {
                file.add(&bytes)?;
            }
            Ok(file)
        })();
        let placed = made.map_err(|e| e.to_string()).and_then(|file| {
            fs::rename(&new, &self.path).map_err(|e| e.to_string())?;
            self.file = file;
            Ok(())
        });
        waiting.iter_mut().for_each(Message::settle);
        match placed {
            Ok(()) => {
                self.set_up();
                self.shrink();
            }
            Err(why) => {
                let _ = fs::remove_file(&new);
                self.dropped += waiting.iter().map(|message| message.rows).sum::<u64>();
                self.failure = Some(why);
            }
        }
    }

    fn spool(&mut self, message: &mut Message) {
        let bytes = message.to_bytes();
        message.settle();
        if let Err(error) = self.file.add(&bytes) {
            self.dropped += message.rows;
            self.failure = Some(error.to_string());
        }
        self.shrink();
    }

    fn shrink(&mut self) {
        while self.spooled() > self.bound {
            let Ok(Some(bytes)) = self.file.peek() else { break };
            self.dropped += Message::from_bytes(&bytes).map_or(1, |message| message.rows);
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        // One that can't be removed would come for ever: then all go.
        let removed = self.file.remove();
        if removed.is_err() || self.file.is_empty() {
            if let Err(error) = removed {
                self.failure = Some(error.to_string());
            }
            // An empty file gives its space back.
            let _ = self.file.clear();
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
        let mut out = Outbox::new("here");
        out.begin(Tick { now: 3_000, before: Some(2_000), from_wall: 0, settled: 0 });
        out.sum("osd.0", "op", Some("write"), 7.0);
        let (table, batch) = out.take().remove(0);
        Message::new(&"here/1".into(), table, false, number, &batch, Arc::default())
    }

    fn numbers(queue: &mut Queue) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop()).map(|message| message.number).collect()
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
