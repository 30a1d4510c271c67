//! A causal replay in parts, each on a machine of its own: who does what, and how they tell each other how far they are.
//!
//! Part 1 listens, the others connect to it, and it passes on what one says to all others: signals that a thread of another part waits
//! for, and operations that one of another part comes after. A part that is gone ends the replay of all.
//!
//! Everything is a message of 9 bytes: what it is, and two numbers (little endian).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use iotrail_causal::{OpRef, Order as _, Scripts, Step};
use iotrail_format::schema::{PROCESS, THREAD};
use iotrail_trail::TrailReader;

use crate::Error;
use crate::plan::Plan;

/// Which part this is, and who does what.
#[derive(Clone, Debug)]
pub struct Parts {
    /// From 0.
    pub mine: u32,
    /// How many there are.
    pub count: u32,
    /// The part of each thread of the plan.
    of: Vec<u32>,
}

impl Parts {
    /// Machines of the recording are shared out if there are as many as parts, else its processes, in the order in which they began.
    ///
    /// # Errors
    /// The trail can't be read, or there is less to share out than parts.
    pub fn of(trail: &Path, plan: &Plan, mine: u32, count: u32) -> Result<Self, Error> {
        let reader = TrailReader::open(trail)?;
        // what forked and ran another program is one process
        let mut pids: HashMap<i64, i64> = HashMap::new();
        for row in reader.small(&PROCESS, &["process", "pid"], &[])? {
            if let [Some(process), Some(pid)] = row.ints[..] {
                pids.insert(process, pid);
            }
        }
        let mut rows: HashMap<i64, (String, i64, i64)> = HashMap::new();
        for row in reader.small(&THREAD, &["thread", "process", "start_ts"], &["node"])? {
            if let [Some(thread), Some(process), start] = row.ints[..] {
                let node = row.texts[0].clone().unwrap_or_default();
                let process = pids.get(&process).copied().unwrap_or(process);
                rows.insert(thread, (node, process, start.unwrap_or(0)));
            }
        }
        let known = |thread: &crate::plan::Thread| rows.get(&thread.id).cloned().unwrap_or_default();
        let mut machines: BTreeMap<String, u32> = BTreeMap::new();
        let mut processes: Vec<(i64, i64)> = Vec::new();
        for (node, process, start) in plan.threads.iter().map(known) {
            machines.insert(node, 0);
            match processes.iter_mut().find(|one| one.1 == process) {
                Some(one) => one.0 = one.0.min(start),
                None => processes.push((start, process)),
            }
        }
        processes.sort_unstable();
        machines.values_mut().zip(0..).for_each(|(part, number)| *part = number % count);
        let by_machine = machines.len() >= count as usize;
        if !by_machine && processes.len() < count as usize {
            return Err(Error::place(
                format!("{} processes can't be shared out to {count} parts", processes.len()),
                "--part K/N: N is at most the number of recorded processes",
            ));
        }
        let shared = |process: i64| {
            let number = processes.iter().position(|one| one.1 == process).unwrap_or(0);
            (number * count as usize / processes.len().max(1)) as u32
        };
        let part = |(node, process, _): (String, i64, i64)| {
            if by_machine { machines[&node] } else { shared(process) }
        };
        Ok(Self { mine, count, of: plan.threads.iter().map(|thread| part(known(thread))).collect() })
    }

    /// Whether a thread of the plan is of this part.
    #[must_use]
    pub fn is_mine(&self, thread: usize) -> bool {
        self.of[thread] == self.mine
    }

    /// What has to be the same in all parts: the plan, and what threads wait for.
    #[must_use]
    pub fn fingerprint(&self, plan: &Plan) -> u64 {
        let causality = plan.causality.as_ref();
        let words = [u64::from(self.count), causality.map_or(0, |found| found.edges.into())];
        let threads = plan.threads.iter().zip(&self.of);
        let threads =
            threads.flat_map(|(thread, part)| [thread.id as u64, thread.ops.len() as u64, u64::from(*part)]);
        let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
        for byte in words.into_iter().chain(threads).flat_map(u64::to_le_bytes) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        hash
    }
}

/// What parts say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Message {
    /// A thread of another part waits for this edge, and a signal of it was given.
    Signal(u32),
    /// An operation is done that one of another part comes after.
    Done(OpRef),
    /// All begin now.
    Start,
    /// The part has done everything.
    End,
    /// The replay is to end early.
    Stop,
}

impl Message {
    const BYTES: usize = 9;

    fn bytes(self) -> [u8; Self::BYTES] {
        let (kind, a, b) = match self {
            Self::Signal(edge) => (1, edge, 0),
            Self::Done(op) => (2, op.thread, op.index),
            Self::Start => (3, 0, 0),
            Self::End => (4, 0, 0),
            Self::Stop => (5, 0, 0),
        };
        let mut bytes = [kind; Self::BYTES];
        bytes[1..5].copy_from_slice(&u32::to_le_bytes(a));
        bytes[5..].copy_from_slice(&u32::to_le_bytes(b));
        bytes
    }

    fn read(bytes: [u8; Self::BYTES]) -> Option<Self> {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        match bytes[0] {
            1 => Some(Self::Signal(number(1))),
            2 => Some(Self::Done(OpRef { thread: number(1), index: number(5) })),
            3 => Some(Self::Start),
            4 => Some(Self::End),
            5 => Some(Self::Stop),
            _ => None,
        }
    }
}

/// Connections to the other parts: part 1 has one to each, the others one to part 1.
pub struct Links {
    parts: Parts,
    streams: Vec<TcpStream>,
    /// One writer at a time, so that messages stay whole.
    writers: Vec<Mutex<TcpStream>>,
    /// Edges that threads of other parts wait for.
    edges: HashSet<u32>,
    /// Operations that those of other parts come after.
    ops: HashSet<OpRef>,
}

/// What a message of another part does here.
pub(crate) trait Hear: Sync {
    fn signal(&self, edge: u32);
    fn done(&self, op: OpRef);
    /// Why the replay ends early.
    fn stop(&self, why: String);
}

impl Links {
    /// Of connections that are made, by part; `scripts` are all parts'.
    ///
    /// # Errors
    /// The system refuses.
    pub fn new(parts: Parts, streams: Vec<TcpStream>, plan: &Plan, scripts: &Scripts) -> Result<Self, Error> {
        let mut edges = HashSet::new();
        let mut ops = HashSet::new();
        for (number, script) in
            scripts.threads.iter().enumerate().filter(|(number, _)| !parts.is_mine(*number))
        {
            edges.extend(script.steps.iter().filter_map(|step| match step {
                Step::Wait(edge, _) | Step::Poll(edge, _) | Step::Timeout(edge, _) => Some(*edge),
                _ => None,
            }));
            for index in 0..plan.threads[number].ops.len() as u32 {
                let before = plan.after(OpRef { thread: number as u32, index });
                ops.extend(before.filter(|op| parts.is_mine(op.thread as usize)));
            }
        }
        let mut writers = Vec::new();
        for stream in &streams {
            stream.set_nodelay(true).map_err(Error::io("use", "a connection to another part"))?;
            writers.push(Mutex::new(
                stream.try_clone().map_err(Error::io("use", "a connection to another part"))?,
            ));
        }
        Ok(Self { parts, streams, writers, edges, ops })
    }

    /// Who does what.
    #[must_use]
    pub fn parts(&self) -> &Parts {
        &self.parts
    }

    /// All parts go on from here together, as far as the network lets them.
    pub(crate) fn start(&self) -> Result<(), Error> {
        if self.parts.mine == 0 {
            self.say(Message::Start, None);
            return Ok(());
        }
        let mut bytes = [0; Message::BYTES];
        let read = (&self.streams[0]).read_exact(&mut bytes);
        match Message::read(bytes).filter(|_| read.is_ok()) {
            Some(Message::Start) => Ok(()),
            _ => Err(Error::place("part 1 ended before the replay began", None)),
        }
    }

    /// A signal of this part was given.
    pub(crate) fn signal(&self, edge: u32) {
        if self.edges.contains(&edge) {
            self.say(Message::Signal(edge), None);
        }
    }

    /// An operation of this part is done.
    pub(crate) fn done(&self, op: OpRef) {
        if self.ops.contains(&op) {
            self.say(Message::Done(op), None);
        }
    }

    /// This part has done everything, or won't.
    pub(crate) fn end(&self, is_stopped: bool) {
        self.say(if is_stopped { Message::Stop } else { Message::End }, None);
    }

    /// Writes to all but one. A reader sees who is gone.
    fn say(&self, message: Message, except: Option<usize>) {
        for (_, writer) in self.writers.iter().enumerate().filter(|(number, _)| Some(*number) != except) {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = writer.write_all(&message.bytes());
        }
    }

    /// How many connections have to be listened to, each by a thread of its own.
    pub(crate) fn count(&self) -> usize {
        self.streams.len()
    }

    /// Does what a connection says until its part has ended. Part 1 passes it on.
    pub(crate) fn listen(&self, number: usize, plan: &Plan, hear: &impl Hear) {
        let mut stream = std::io::BufReader::new(&self.streams[number]);
        let is_hub = self.parts.mine == 0;
        let name = if is_hub { format!("part {}", number + 2) } else { "part 1".to_owned() };
        let edges = plan.causality.as_ref().map_or(0, |found| found.edges);
        let is_op = |op: OpRef| {
            plan.threads.get(op.thread as usize).is_some_and(|thread| (op.index as usize) < thread.ops.len())
        };
        // of part 1: it ends when all others have
        let mut ends = if is_hub { 1 } else { self.parts.count - 1 };
        let mut bytes = [0; Message::BYTES];
        while ends > 0 {
            let message = match stream.read_exact(&mut bytes) {
                Ok(()) => Message::read(bytes),
                Err(_) => {
                    self.say(Message::Stop, Some(number));
                    return hear.stop(format!("{name} is gone"));
                }
            };
            if let Some(message) = message.filter(|_| is_hub) {
                self.say(message, Some(number));
            }
            match message {
                Some(Message::Signal(edge)) if edge < edges => hear.signal(edge),
                Some(Message::Done(op)) if is_op(op) => hear.done(op),
                Some(Message::End) => ends -= 1,
                Some(Message::Stop) => return hear.stop(format!("{name} ended early")),
                _ => {
                    hear.stop(format!("{name} says {bytes:?}, which is no message"));
                    return self.say(Message::Stop, Some(number));
                }
            }
        }
    }

    /// Ends all connections: whoever still listens learns of it.
    pub(crate) fn close(&self) {
        for stream in &self.streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
