//! When requests are answered: one thread asks the simulated device and sends each answer at its time.
//!
//! Readers hand over a request when it arrives and move its data meanwhile; the answer waits for both. The device may know
//! a completion before its time, so that the floor can be subtracted: an answer is sent that much earlier.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fuser::{Errno, ReplyData, ReplyEmpty, ReplyWrite};
use iotrail_format::hist::{bucket_of, lower_bound};
use iotrail_sim::{Completion, Device, Id, Nanos, Op, Request};
use iotrail_trail::seal::clock::clock_ns;

use crate::awake::Awake;
use crate::error::Error;
use crate::floor::Floor;
use crate::log::Row;

/// Wait for data that is not there yet when its answer is due.
const DATA_POLL: Nanos = 20_000;
/// How late the device may do what completes no request: so that little is left to do when one arrives.
const BEHIND: Nanos = 5_000_000;
/// Longest wait without a message, so that a clock that was read too early costs little.
const LONGEST_WAIT: Nanos = 1_000_000_000;
/// How long before an answer the thread stops sleeping at most. How long it really is follows how late timers wake it: an
/// idle virtual machine takes up to 0.1 ms, a busy one little.
const MOST_SPIN: Nanos = 150_000;
/// An answer later than this is counted as late: 0.1 ms.
const LATE: Nanos = 100_000;

/// What became of a request's data: what was read (nothing for other requests), or an errno.
pub type Moved = Result<Vec<u8>, i32>;

/// The kernel's side of a request.
pub enum Reply {
    Read(ReplyData),
    Write(ReplyWrite, u32),
    Empty(ReplyEmpty),
}

impl Reply {
    fn send(self, moved: &Moved) {
        match (self, moved) {
            (Self::Read(reply), Ok(data)) => reply.data(data),
            (Self::Write(reply, written), Ok(_)) => reply.written(written),
            (Self::Empty(reply), Ok(_)) => reply.ok(),
            (Self::Read(reply), Err(errno)) => reply.error(Errno::from_i32(*errno)),
            (Self::Write(reply, _), Err(errno)) => reply.error(Errno::from_i32(*errno)),
            (Self::Empty(reply), Err(errno)) => reply.error(Errno::from_i32(*errno)),
        }
    }
}

/// A request that has arrived.
pub struct Arrival {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub at: Nanos,
    pub request: Request,
    pub reply: Reply,
    /// Set once the data was moved.
    pub moved: Arc<OnceLock<Moved>>,
}

/// What the pacing thread gets.
pub enum Message {
    Arrival(Arrival),
    /// Answer at once, without the device, to measure the floor; or not any more, and subtract it.
    Measure(Option<Floor>),
    Stop,
}

/// How late answers were, in nanoseconds: 32 buckets an octave.
#[derive(Clone, Debug, Default)]
pub struct Lateness(HashMap<i64, u64>);

impl Lateness {
    fn add(&mut self, late: Nanos) {
        *self.0.entry(bucket_of(late as i64)).or_default() += 1;
    }

    /// The lateness that a share of all answers does not exceed, in nanoseconds; none without answers.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<i64> {
        let total: u64 = self.0.values().sum();
        let mut buckets: Vec<_> = self.0.iter().collect();
        buckets.sort_unstable();
        let mut left = (total as f64 * share).ceil().max(1.0) as u64;
        buckets.into_iter().find_map(|(bucket, count)| {
            left = left.saturating_sub(*count);
            (left == 0).then(|| lower_bound(*bucket))
        })
    }
}

/// Requests so far.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Answered reads, writes, flushes and trims.
    pub requests: u64,
    /// Of them answered more than 0.1 ms later than the model says.
    pub late: u64,
    /// Of them failed: the storage of the data refused.
    pub failed: u64,
    /// By how much answers were late.
    pub lateness: Lateness,
}

/// The pacing thread.
pub struct Pacer {
    messages: Sender<Message>,
    counts: Arc<Mutex<Counts>>,
    thread: Option<JoinHandle<()>>,
}

impl Pacer {
    /// Starts it.
    pub fn start(device: Box<dyn Device>, log: Option<Sender<Row>>, size: u64) -> Self {
        let (messages, arrivals) = channel();
        let counts = Arc::default();
        let shared = Arc::clone(&counts);
        let thread = std::thread::spawn(move || {
            crate::raise_priority();
            Pacing::new(device, log, shared, size).run(&arrivals);
        });
        Self { messages, counts, thread: Some(thread) }
    }

    /// Where requests are handed over.
    pub fn sender(&self) -> Sender<Message> {
        self.messages.clone()
    }

    /// Answers at once while the floor is measured, then subtracts it.
    pub fn measure(&self, measure: impl FnOnce() -> Result<Floor, Error>) -> Result<Floor, Error> {
        let _ = self.messages.send(Message::Measure(None));
        let floor = measure()?;
        let _ = self.messages.send(Message::Measure(Some(floor)));
        Ok(floor)
    }

    /// Requests so far.
    pub fn counts(&self) -> Counts {
        lock(&self.counts).clone()
    }

    /// Ends the thread; what it had not answered fails.
    pub fn stop(&mut self) -> Counts {
        let _ = self.messages.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.counts()
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request that the device has completed, or will at a time that is certain.
struct Answer {
    arrival: Arrival,
    completion: Completion,
    floor: Nanos,
}

struct Pacing {
    device: Box<dyn Device>,
    log: Option<Sender<Row>>,
    counts: Arc<Mutex<Counts>>,
    size: u64,
    /// CLOCK_MONOTONIC at virtual time 0.
    origin: Nanos,
    /// None while it is measured.
    floor: Option<Floor>,
    next_id: u64,
    submitted: HashMap<Id, Arrival>,
    answers: HashMap<Id, Answer>,
    /// When to look at an answer, virtual time.
    due: BinaryHeap<Reverse<(Nanos, Id)>>,
    completions: Vec<Completion>,
    /// How late timers have woken this thread lately.
    oversleep: Nanos,
    /// Held until there was no request for `LONGEST_WAIT`.
    awake: Awake,
    /// Virtual time of the last request.
    arrived: Nanos,
}

impl Pacing {
    fn new(device: Box<dyn Device>, log: Option<Sender<Row>>, counts: Arc<Mutex<Counts>>, size: u64) -> Self {
        Self {
            device,
            log,
            counts,
            size,
            origin: monotonic(),
            floor: None,
            next_id: 0,
            submitted: HashMap::new(),
            answers: HashMap::new(),
            due: BinaryHeap::new(),
            completions: Vec::new(),
            oversleep: MOST_SPIN / 2,
            awake: Awake::default(),
            arrived: 0,
        }
    }

    fn run(&mut self, messages: &Receiver<Message>) {
        loop {
            self.step();
            let now = self.now();
            let completes = if self.submitted.is_empty() { None } else { self.device.next_completion() };
            // What a cache or a flash drive does by itself isn't waited for exactly: that would keep a processor busy.
            let happens = self.device.next_event().map(|at| at.max(now + BEHIND));
            let answers = self.due.peek().map(|Reverse((at, _))| *at);
            let next = [completes, happens, answers].into_iter().flatten().min();
            let wait = next.map_or(LONGEST_WAIT, |at| at.saturating_sub(now)).min(LONGEST_WAIT);
            let Some(message) = self.receive(messages, wait) else {
                if self.now() > self.arrived + LONGEST_WAIT {
                    self.awake.release();
                }
                continue;
            };
            match message {
                Message::Arrival(arrival) => self.arrive(arrival),
                Message::Measure(floor) => self.floor = floor,
                Message::Stop => return,
            }
        }
    }

    /// The next message, if there is one within a time. It sleeps first, and looks again and again at the end.
    fn receive(&mut self, messages: &Receiver<Message>, wait: Nanos) -> Option<Message> {
        let sleep = wait.saturating_sub((self.oversleep * 3 / 2).min(MOST_SPIN));
        if sleep == 0 {
            std::hint::spin_loop();
            return match messages.try_recv() {
                Ok(message) => Some(message),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Message::Stop),
            };
        }
        let due = self.now() + sleep;
        match messages.recv_timeout(Duration::from_nanos(sleep)) {
            Ok(message) => Some(message),
            Err(RecvTimeoutError::Timeout) => {
                let late = self.now().saturating_sub(due).min(MOST_SPIN);
                self.oversleep = (self.oversleep * 7 + late) / 8;
                None
            }
            Err(RecvTimeoutError::Disconnected) => Some(Message::Stop),
        }
    }

    fn now(&self) -> Nanos {
        monotonic().saturating_sub(self.origin)
    }

    /// Lets the device do what is due, and sends the answers that are.
    fn step(&mut self) {
        let now = self.now();
        self.device.advance(now, &mut self.completions);
        self.take_completions();
        while let Some(Reverse((at, id))) = self.due.peek().copied()
            && at <= self.now()
        {
            self.due.pop();
            self.answer(id);
        }
    }

    fn take_completions(&mut self) {
        for completion in self.completions.drain(..) {
            let Some(arrival) = self.submitted.remove(&completion.id) else { continue };
            let floor = self.floor.map_or(0, |floor| floor.of(arrival.request));
            self.due.push(Reverse((completion.done.saturating_sub(floor), completion.id)));
            self.answers.insert(completion.id, Answer { arrival, completion, floor });
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        let id = Id(self.next_id);
        self.next_id += 1;
        self.awake.hold();
        self.arrived = self.now();
        if self.floor.is_none() {
            wait_for(&arrival.moved);
            let moved = arrival.moved.get().cloned().unwrap_or(Err(libc::EIO));
            return arrival.reply.send(&moved);
        }
        // The device has done all until now, and goes on from here.
        let now = self.now();
        self.device.advance(now, &mut self.completions);
        self.take_completions();
        let request = clip(arrival.request, self.size);
        self.submitted.insert(id, arrival);
        self.device.submit(now, id, request);
        self.device.advance(now, &mut self.completions);
        self.take_completions();
    }

    fn answer(&mut self, id: Id) {
        let Some(Answer { arrival, completion, floor }) = self.answers.remove(&id) else { return };
        let Some(moved) = arrival.moved.get() else {
            self.due.push(Reverse((self.now() + DATA_POLL, id)));
            self.answers.insert(id, Answer { arrival, completion, floor });
            return;
        };
        arrival.reply.send(moved);
        let arrived = arrival.at.saturating_sub(self.origin);
        let seen = self.now().saturating_add(floor);
        let late = seen.saturating_sub(completion.done);
        {
            let mut counts = lock(&self.counts);
            counts.requests += 1;
            counts.late += u64::from(late > LATE);
            counts.failed += u64::from(moved.is_err());
            counts.lateness.add(late);
        }
        if let Some(log) = &self.log {
            let row = Row {
                at: arrival.at,
                dur: seen.saturating_sub(arrived),
                model_dur: completion.done.saturating_sub(arrived),
                issued: completion.issued + self.origin,
                request: arrival.request,
            };
            // A log that failed says so at the end.
            let _ = log.send(row);
        }
    }
}

/// A request as far as it lies on the disk.
fn clip(request: Request, size: u64) -> Request {
    if request.op == Op::Flush {
        return request;
    }
    let pos = request.pos.min(size);
    Request { length: request.length.min(size - pos), pos, ..request }
}

/// Waits until the data was moved.
fn wait_for(moved: &OnceLock<Moved>) {
    while moved.get().is_none() {
        std::thread::sleep(Duration::from_micros(5));
    }
}

fn monotonic() -> Nanos {
    clock_ns(libc::CLOCK_MONOTONIC)
}
