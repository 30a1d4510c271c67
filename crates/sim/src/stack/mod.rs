//! The I/O path of a server that reads: handlers, read-ahead, I/O scheduler, disk.
//!
//! A system whose faults are known, for a search of anomalies to be held against: the design of Linux 2.6.10 as Shen, Zhong
//! and Li describe it ("I/O system performance debugging using model-driven anomaly characterization", FAST 2005, sections 2
//! and 4.1), with the four faults of section 5, each behind a switch. A fault is a mechanism: it sees requests and times,
//! never what a workload or a setting was called.
//!
//! [`handlers`] are the application and the read-ahead, [`scheduler`] is the queue, [`medium`] the disk. Not modelled: the
//! page cache beyond a stream's windows, writes, merging of requests of several handlers, the disk's own queue.

mod handlers;
mod medium;
mod scheduler;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::handlers::Handlers;
pub use self::medium::Medium;
use self::scheduler::Queue;
use crate::bounds::InvalidParameter;
use crate::device::Nanos;
use crate::random::Random;

/// Bytes of a page, which is what a handler reads at a time.
pub const PAGE: u64 = 4096;

/// The least numbers of requests that are measured, of requests for each handler, of seeks, and of seeks for each handler.
const FEWEST_REQUESTS: u64 = 3000;
const REQUESTS_PER_HANDLER: u64 = 12;
const FEWEST_SEEKS: u64 = 200;
const SEEKS_PER_HANDLER: u64 = 3;
/// But no more requests than this.
const MOST_REQUESTS: u64 = 500_000;

/// What the server does: `concurrency` handlers, each of which reads two streams by turns, a run of the one and a run of the
/// other, and begins another stream where one ends. Lengths are multiples of a page.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Handlers.
    pub concurrency: u32,
    /// Length of a stream.
    pub stream_bytes: u64,
    /// Length of a run, at most that of a stream.
    pub run_bytes: u64,
    /// Whether a stream ends where its file does.
    #[serde(default)]
    pub whole_file: bool,
    /// Computing of a handler for each MiB it has read.
    #[serde(default)]
    pub think_ns_per_mib: u64,
    /// Part of the disk, from its first sector, in which streams begin; 0 to 1.
    #[serde(default = "one")]
    pub span: f64,
}

fn one() -> f64 {
    1.0
}

impl Workload {
    /// Checks that handlers can do this, who read so many bytes at a time.
    ///
    /// # Errors
    /// A number out of its range.
    pub fn validate(&self, read_bytes: u64) -> Result<(), InvalidParameter> {
        if !(1..=65_536).contains(&self.concurrency) {
            return Err(InvalidParameter::new("workload.concurrency", "1 to 65536", self.concurrency));
        }
        check_multiple("workload.stream_bytes", self.stream_bytes, read_bytes)?;
        check_multiple("workload.run_bytes", self.run_bytes, read_bytes)?;
        if self.run_bytes > self.stream_bytes {
            return Err(InvalidParameter::new(
                "workload.run_bytes",
                "at most that of a stream",
                self.run_bytes,
            ));
        }
        if self.think_ns_per_mib > 1_000_000_000 {
            return Err(InvalidParameter::new(
                "workload.think_ns_per_mib",
                "at most 1 s",
                self.think_ns_per_mib,
            ));
        }
        if !(self.span > 0.0 && self.span <= 1.0) {
            return Err(InvalidParameter::new("workload.span", "above 0, at most 1", self.span));
        }
        Ok(())
    }
}

fn check_multiple(name: &str, bytes: u64, of: u64) -> Result<(), InvalidParameter> {
    if bytes == 0 || !bytes.is_multiple_of(of) {
        return Err(InvalidParameter::new(name, format!("a multiple of {of}, above 0"), bytes));
    }
    Ok(())
}

/// Which request is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scheduler {
    /// The next one upwards from the heads, then the lowest (C-SCAN).
    Elevator,
    /// The same, but after a read the disk waits for the next one of its handler where that is likely to pay.
    Anticipatory,
}

/// What is wrong; nothing by default.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Faults {
    /// While the queue is congested, read-ahead is given up where it has pages that a handler waits for, too; they are read
    /// one by one.
    pub cancel: bool,
    /// Waiting for a handler ends if another request is closer than the handler's requests are on average, whatever a seek
    /// of that distance costs.
    pub distance: bool,
    /// Where nothing was queued above the last request, the search for the next one starts from the first sector.
    pub reset: bool,
    /// The time to wait for a handler begins when the first piece of its request is done, not the last.
    pub timer: bool,
}

/// The system.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Bytes of a read-ahead window; without, pages are read one by one.
    #[serde(default)]
    pub prefetch_bytes: Option<u64>,
    /// Which request is next.
    pub scheduler: Scheduler,
    /// What is wrong.
    #[serde(default)]
    pub faults: Faults,
    /// Queued requests above which the queue is congested. Linux 2.6.10: of 128, an eighth less one.
    #[serde(default = "congested_above")]
    pub congested_above: u32,
    /// How long the disk waits for a handler. Linux 2.6.10: a 150th of a second.
    #[serde(default = "wait_ns")]
    pub wait_ns: Nanos,
    /// Most bytes the disk is asked for at once: longer requests are split.
    #[serde(default = "piece_bytes")]
    pub piece_bytes: u64,
}

fn congested_above() -> u32 {
    112
}

fn wait_ns() -> Nanos {
    6_666_667
}

fn piece_bytes() -> u64 {
    64 << 10
}

/// One measurement.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// What the server does.
    pub workload: Workload,
    /// On which system.
    pub system: System,
    /// Seed of places and delays.
    #[serde(default)]
    pub seed: u64,
}

/// What was measured, over all but the first requests. Means are null where there was nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Bytes per second that handlers got.
    pub throughput_bytes_per_s: f64,
    /// Time measured.
    pub measured_ns: Nanos,
    /// Requests of the read-ahead layer for a stream's length of bytes that handlers got.
    pub requests_per_stream: f64,
    /// Mean length of a request of the read-ahead layer.
    pub prefetch_request_bytes: f64,
    /// Bytes that handlers got for each that the disk read.
    pub useful_share: f64,
    /// Mean bytes that the disk read from one seek to the next.
    pub request_bytes: f64,
    /// Mean distance of a seek, as a fraction of the disk.
    pub seek_distance: Option<f64>,
    /// Mean time that the disk was idle, from one seek to the next.
    pub idle_ns: f64,
    /// Mean time of a seek.
    pub seek_ns: Option<f64>,
    /// Mean rotational delay after a seek.
    pub rotation_ns: Option<f64>,
    /// Mean time that the disk transferred, from one seek to the next.
    pub transfer_ns: f64,
}

/// Some of a stream, from the disk.
#[derive(Clone, Copy, Debug)]
struct Request {
    handler: usize,
    /// Number of the stream among all.
    stream: u64,
    pos: u64,
    length: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A handler has computed.
    Computed(usize),
    /// The disk is done with the request that it has.
    Served,
    /// The disk has waited enough, if it still waits for the same.
    Waited(u64),
}

impl Setting {
    /// Checks that this can be measured.
    ///
    /// # Errors
    /// A number out of its range.
    pub fn validate(&self, medium: &Medium) -> Result<(), InvalidParameter> {
        medium.validate()?;
        self.workload.validate(PAGE)?;
        let Workload { stream_bytes, span, .. } = self.workload;
        for (name, bytes) in [
            ("system.piece_bytes", Some(self.system.piece_bytes)),
            ("system.prefetch_bytes", self.system.prefetch_bytes),
        ] {
            check_multiple(name, bytes.unwrap_or(PAGE), PAGE)?;
        }
        let window = self.system.prefetch_bytes.unwrap_or(PAGE);
        let needed = stream_bytes.saturating_add(window.saturating_mul(2));
        if needed.saturating_mul(8) > (span * medium.size_bytes as f64) as u64 {
            return Err(InvalidParameter::new(
                "workload.stream_bytes",
                "an eighth of the span at most",
                stream_bytes,
            ));
        }
        Ok(())
    }

    /// Measures until enough requests were served.
    ///
    /// # Errors
    /// A number out of its range.
    pub fn run(&self, medium: &Medium) -> Result<Outcome, InvalidParameter> {
        self.validate(medium)?;
        Ok(Stack::new(self, medium).run())
    }
}

/// The state of a measurement.
struct Stack<'a> {
    medium: &'a Medium,
    random: Random,
    handlers: Handlers,
    queue: Queue,
    events: BinaryHeap<Reverse<(Nanos, Event)>>,
    now: Nanos,
    /// What the disk has, and when the first piece of it is done.
    serving: Option<(Request, Nanos)>,
    /// Where the heads are.
    head: u64,
    idle_since: Nanos,
    seen: Seen,
    wait_ns: Nanos,
    piece_bytes: u64,
    early_timer: bool,
}

/// Sums since the measurement began.
#[derive(Clone, Debug, Default)]
struct Seen {
    requests: u64,
    bytes: u64,
    seeks: u64,
    distance: f64,
    seek_ns: f64,
    rotation_ns: f64,
    transfer_ns: f64,
    idle_ns: Nanos,
}

impl<'a> Stack<'a> {
    fn new(setting: &Setting, medium: &'a Medium) -> Self {
        let mut random = Random::new(setting.seed);
        let handlers = Handlers::new(&setting.workload, &setting.system, medium.size_bytes, &mut random);
        Self {
            medium,
            random,
            queue: Queue::new(&setting.system, medium, handlers.len()),
            events: (0..handlers.len()).map(|at| Reverse((0, Event::Computed(at)))).collect(),
            handlers,
            now: 0,
            serving: None,
            head: 0,
            idle_since: 0,
            seen: Seen::default(),
            wait_ns: setting.system.wait_ns,
            piece_bytes: setting.system.piece_bytes,
            early_timer: setting.system.faults.timer,
        }
    }

    fn run(mut self) -> Outcome {
        let handlers = self.handlers.len() as u64;
        let requests = FEWEST_REQUESTS.max(REQUESTS_PER_HANDLER * handlers);
        let seeks = FEWEST_SEEKS.max(SEEKS_PER_HANDLER * handlers);
        let mut started = None;
        while self.seen.requests < MOST_REQUESTS && (self.seen.requests < requests || self.seen.seeks < seeks)
        {
            if started.is_none() && self.seen.requests >= requests / 4 && self.seen.seeks >= seeks / 4 {
                started = Some((self.now, self.handlers.read_bytes));
                self.seen = Seen::default();
            }
            // There always is one: a handler computes, or waits for the disk.
            let Some(Reverse((at, event))) = self.events.pop() else { break };
            self.now = at;
            match event {
                Event::Computed(handler) => self.proceed(handler),
                Event::Served => self.complete(),
                Event::Waited(number) => {
                    if self.queue.stop_waiting(number) {
                        self.dispatch();
                    }
                }
            }
        }
        let (since, read) = started.unwrap_or_default();
        self.outcome(self.now - since, self.handlers.read_bytes - read)
    }

    /// Lets a handler go on until it computes or waits for the disk.
    fn proceed(&mut self, handler: usize) {
        let congested = self.queue.is_congested();
        let step = self.handlers.proceed(handler, congested, &mut self.random);
        for request in step.requests.into_iter().flatten() {
            self.queue.push(request, self.head, self.now);
        }
        if let Some(think) = step.think {
            self.events.push(Reverse((self.now + think, Event::Computed(handler))));
        }
        self.dispatch();
    }

    /// Gives the disk a request if it has none and does not wait for a handler.
    fn dispatch(&mut self) {
        if self.serving.is_some() {
            return;
        }
        let Some(request) = self.queue.next(self.head) else { return };
        self.seen.idle_ns += self.now - self.idle_since;
        let seek = self.medium.seek(self.head, request.pos, &mut self.random);
        if let Some(seek) = seek {
            self.seen.seeks += 1;
            self.seen.distance += seek.distance;
            self.seen.seek_ns += seek.seek_ns;
            self.seen.rotation_ns += seek.rotation_ns;
        }
        let positioned = seek.map_or(0.0, |seek| seek.seek_ns + seek.rotation_ns);
        let transfer = |bytes| self.medium.transfer_ns(request.pos, bytes);
        let first = self.now + (positioned + transfer(request.length.min(self.piece_bytes))) as Nanos;
        let done = self.now + (positioned + transfer(request.length)) as Nanos;
        self.seen.transfer_ns += transfer(request.length);
        self.head = request.pos + request.length;
        self.serving = Some((request, first));
        self.events.push(Reverse((done.max(self.now + 1), Event::Served)));
    }

    /// The disk is done with a request.
    fn complete(&mut self) {
        let Some((request, first)) = self.serving.take() else { return };
        self.idle_since = self.now;
        self.seen.requests += 1;
        self.seen.bytes += request.length;
        let timed_from = if self.early_timer { first } else { self.now };
        if let Some(number) = self.queue.served(request, self.head, self.now) {
            let until = (timed_from + self.wait_ns).max(self.now);
            self.events.push(Reverse((until, Event::Waited(number))));
        }
        // The interrupt gives the disk its next request before the handler runs.
        self.dispatch();
        if self.handlers.received(request) {
            self.proceed(request.handler);
        }
    }

    fn outcome(&self, measured_ns: Nanos, read: u64) -> Outcome {
        let seen = &self.seen;
        let requests = seen.requests as f64;
        // Without a seek all is one request.
        let groups = seen.seeks.max(1) as f64;
        let per_seek = |sum: f64| (seen.seeks > 0).then(|| sum / groups);
        Outcome {
            throughput_bytes_per_s: read as f64 / measured_ns as f64 * 1e9,
            measured_ns,
            requests_per_stream: requests * self.handlers.stream_bytes as f64 / read as f64,
            prefetch_request_bytes: seen.bytes as f64 / requests,
            useful_share: read as f64 / seen.bytes as f64,
            request_bytes: seen.bytes as f64 / groups,
            seek_distance: per_seek(seen.distance),
            idle_ns: seen.idle_ns as f64 / groups,
            seek_ns: per_seek(seen.seek_ns),
            rotation_ns: per_seek(seen.rotation_ns),
            transfer_ns: seen.transfer_ns / groups,
        }
    }
}
