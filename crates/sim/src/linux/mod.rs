//! What the Linux of today is designed to do with a server's reads: reading ahead, I/O scheduler, driver, device.
//!
//! An expectation for real systems: the mechanisms as the kernel's sources describe them (6.18), in virtual time, on a device of
//! [`crate::device`]. The workload is that of [`crate::stack`], on a block device or in files. The driver gets no more requests
//! than it is told ([`System::depth`]): what waits is sorted. Not modelled: writes, memory that is short, how long the kernel
//! computes, tasks that share processors.

mod readahead;
mod scheduler;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::readahead::{ReadAhead, Window};
use self::scheduler::{Bfq, Deadline, Next, Queue, Request};
use crate::bounds::InvalidParameter;
use crate::device::{Completion, Device, Id, Nanos, Op};
use crate::random::Random;
use crate::stack::{PAGE, Workload};

/// Streams that a handler reads by turns.
const STREAMS: usize = 2;
/// Requests that the scheduler holds, those in the driver with them: twice what a driver takes, of 128 at most (BLKDEV_DEFAULT_RQ).
const HELD: usize = 256;
/// Of so many requests a driver has, handlers that wait for one to be done are woken together, and at most so many
/// (SBQ_WAIT_QUEUES, SBQ_WAKE_BATCH).
const WAIT_QUEUES: usize = 8;
const MOST_WOKEN: usize = 8;
/// Requests after which a warm-up and a measurement end early: as many, or so many a handler if those are more. Devices that serve so many in
/// a moment don't need as long as real ones to tell a mean.
const ENOUGH: u64 = 5_000;
const ENOUGH_EACH: u64 = 32;
/// Longest measurement.
const LONGEST_NS: Nanos = 3_600_000_000_000;

/// Which request is next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// As they come.
    None,
    /// Upwards in batches, and back to what has waited longest.
    MqDeadline,
    /// As they come, where there are only reads.
    Kyber,
    /// One process after another.
    Bfq,
}

/// The system.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Most bytes of a read-ahead window (read_ahead_kb); 0 reads nothing ahead.
    pub readahead_bytes: u64,
    /// Which request is next.
    pub scheduler: Scheduler,
    /// Requests that the driver gets at a time.
    pub depth: u32,
    /// Requests of the driver (nr_requests without a scheduler): so many there are where nothing sorts them.
    #[serde(default = "tags")]
    pub tags: u32,
    /// Reads pass the page cache.
    #[serde(default)]
    pub direct: bool,
    /// Most bytes of a request (max_sectors_kb).
    #[serde(default = "request_bytes")]
    pub request_bytes: u64,
}

fn tags() -> u32 {
    128
}

fn request_bytes() -> u64 {
    1280 << 10
}

/// One measurement.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Setting {
    /// What the server does.
    pub workload: Workload,
    /// Bytes of a read.
    #[serde(default = "page")]
    pub read_bytes: u64,
    /// On which system.
    pub system: System,
    /// How long handlers read before it is measured. They begin in the middle of streams of which nothing is read ahead.
    pub warm_up_ns: Nanos,
    /// How long is measured; less, if enough requests were served before.
    pub length_ns: Nanos,
    /// Seed of places.
    #[serde(default)]
    pub seed: u64,
}

fn page() -> u64 {
    PAGE
}

/// What was measured. Means are null where there was nothing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Bytes per second that handlers got.
    pub throughput_bytes_per_s: f64,
    /// Requests that were served.
    pub requests: u64,
    /// Mean bytes that were asked for at a time, before requests join.
    pub asked_bytes: Option<f64>,
    /// Bytes that handlers got for each that the disk read.
    pub useful_share: Option<f64>,
    /// Mean bytes of a request to the driver.
    pub request_bytes: Option<f64>,
    /// Mean distance from the end of a request to the begin of the next one, as a fraction of the disk.
    pub seek_distance: Option<f64>,
    /// Mean time of a request while the driver has any.
    pub service_ns: Option<f64>,
    /// Mean time without a request in the driver, for each request.
    pub idle_ns: Option<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A handler has computed.
    Computed(usize),
    /// The disk is done with a request.
    Served(u64),
    /// The device does something.
    Device,
    /// The scheduler has waited enough.
    Waited,
}

struct Stream {
    number: u64,
    /// Its place on the disk, bytes.
    begin: u64,
    /// Pages that the handler has read.
    read: u64,
    cache: ReadAhead,
}

struct Handler {
    streams: [Stream; STREAMS],
    current: usize,
    /// Pages left of the run.
    run: u64,
    /// It waits for this page of the current stream.
    waits_for: Option<u64>,
    /// What it could not ask for yet: the scheduler holds no more.
    held_up: VecDeque<Request>,
}

impl Setting {
    /// Checks that this can be measured.
    ///
    /// # Errors
    /// A number out of its range.
    pub fn validate(&self, device: &dyn Device) -> Result<(), InvalidParameter> {
        if self.read_bytes == 0 || !self.read_bytes.is_multiple_of(PAGE) || self.read_bytes > 64 << 20 {
            return Err(InvalidParameter::new(
                "read_bytes",
                "a multiple of 4096, to 64 MiB",
                self.read_bytes,
            ));
        }
        self.workload.validate(self.read_bytes)?;
        let Workload { stream_bytes, span, .. } = self.workload;
        for (name, least, time) in [("warm_up_ns", 0, self.warm_up_ns), ("length_ns", 1, self.length_ns)] {
            if !(least..=LONGEST_NS).contains(&time) {
                return Err(InvalidParameter::new(name, "more than none, an hour at most", time));
            }
        }
        let System { readahead_bytes, depth, tags, request_bytes, .. } = self.system;
        if !readahead_bytes.is_multiple_of(PAGE) || readahead_bytes > 1 << 30 {
            return Err(InvalidParameter::new(
                "system.readahead_bytes",
                "a multiple of 4096, to 1 GiB",
                readahead_bytes,
            ));
        }
        for (name, number) in [("system.depth", depth), ("system.tags", tags)] {
            if !(1..=65_536).contains(&number) {
                return Err(InvalidParameter::new(name, "1 to 65536", number));
            }
        }
        if request_bytes < PAGE {
            return Err(InvalidParameter::new("system.request_bytes", "at least 4096", request_bytes));
        }
        let needed = stream_bytes.saturating_add(readahead_bytes.saturating_mul(4));
        if needed.saturating_mul(8) > (span * device.capacity() as f64) as u64 {
            return Err(InvalidParameter::new(
                "workload.stream_bytes",
                "an eighth of the span at most",
                stream_bytes,
            ));
        }
        Ok(())
    }

    /// Measures on a device.
    ///
    /// # Errors
    /// A number out of its range.
    pub fn run(&self, device: Box<dyn Device>) -> Result<Outcome, InvalidParameter> {
        self.validate(&*device)?;
        Ok(Linux::new(self, device).run())
    }
}

/// The state of a measurement.
struct Linux<'a> {
    setting: &'a Setting,
    device: Box<dyn Device>,
    random: Random,
    handlers: Vec<Handler>,
    begun: u64,
    /// Places where a stream can begin, in pages.
    places: u64,
    queue: Queue,
    /// Requests that the scheduler or the driver has.
    held: usize,
    most_held: usize,
    /// Handlers that can't ask for what they want, in their order.
    held_up: VecDeque<usize>,
    /// Requests that were done since such handlers were woken.
    freed: usize,
    in_driver: HashMap<u64, Request>,
    issued: u64,
    completions: Vec<Completion>,
    events: BinaryHeap<Reverse<(Nanos, Event)>>,
    now: Nanos,
    /// When the next event of the device and of the scheduler is in `events`.
    device_at: Option<Nanos>,
    /// Where the last request that was served ends.
    head: u64,
    idle_since: Option<Nanos>,
    seen: Seen,
}

/// Sums since the measurement began.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    read_bytes: u64,
    asked: u64,
    asked_bytes: u64,
    requests: u64,
    bytes: u64,
    distance: f64,
    idle_ns: Nanos,
}

impl<'a> Linux<'a> {
    fn new(setting: &'a Setting, device: Box<dyn Device>) -> Self {
        let Setting { workload, system, .. } = setting;
        let end = (workload.span * device.capacity() as f64) as u64;
        let handlers = workload.concurrency as usize;
        let queue = match system.scheduler {
            Scheduler::None => Queue::Fifo { queued: VecDeque::new(), joins: false },
            Scheduler::Kyber => Queue::Fifo { queued: VecDeque::new(), joins: true },
            Scheduler::MqDeadline => Queue::Deadline(Deadline::default()),
            Scheduler::Bfq => Queue::Bfq(Bfq::new(handlers)),
        };
        let mut all = Self {
            setting,
            device,
            random: Random::new(setting.seed),
            handlers: Vec::new(),
            begun: 0,
            places: (end - workload.stream_bytes - 4 * system.readahead_bytes) / PAGE,
            queue,
            held: 0,
            most_held: if system.scheduler == Scheduler::None { system.tags as usize } else { HELD },
            held_up: VecDeque::new(),
            freed: 0,
            in_driver: HashMap::new(),
            issued: 0,
            completions: Vec::new(),
            events: (0..handlers).map(|at| Reverse((0, Event::Computed(at)))).collect(),
            now: 0,
            device_at: None,
            head: 0,
            idle_since: Some(0),
            seen: Seen::default(),
        };
        let (stream, run) = (workload.stream_bytes / PAGE, workload.run_bytes / PAGE);
        let step = setting.read_bytes / PAGE;
        for _ in 0..handlers {
            let streams = std::array::from_fn(|_| {
                let mut one = all.begin();
                one.read = all.middle(stream, step);
                one
            });
            let run = run - all.middle(run, step);
            all.handlers.push(Handler {
                streams,
                current: 0,
                run,
                waits_for: None,
                held_up: VecDeque::new(),
            });
        }
        all
    }

    /// Some of so many pages, a multiple of a step.
    fn middle(&mut self, pages: u64, step: u64) -> u64 {
        (self.random.unit() * (pages / step) as f64) as u64 * step
    }

    fn begin(&mut self) -> Stream {
        self.begun += 1;
        let page = (self.random.unit() * self.places as f64) as u64;
        let most = self.setting.system.readahead_bytes / PAGE;
        let Workload { stream_bytes, whole_file, .. } = self.setting.workload;
        let cache = ReadAhead::new(most, page, whole_file.then_some(stream_bytes / PAGE));
        Stream { number: self.begun, begin: page * PAGE, read: 0, cache }
    }

    fn run(mut self) -> Outcome {
        let Setting { warm_up_ns, length_ns, .. } = *self.setting;
        self.run_until(warm_up_ns);
        let begun = self.now;
        self.seen = Seen::default();
        self.idle_since = self.idle_since.map(|_| begun);
        self.run_until(begun + length_ns);
        let length_ns = self.now - begun;
        let rest = self.idle_since.map_or(0, |since| self.now - since);
        let Seen { read_bytes, asked, asked_bytes, requests, bytes, distance, idle_ns } = self.seen;
        let idle_ns = idle_ns + rest;
        let mean = |sum: f64, of: u64| (of > 0).then(|| sum / of as f64);
        Outcome {
            throughput_bytes_per_s: read_bytes as f64 / length_ns as f64 * 1e9,
            requests,
            asked_bytes: mean(asked_bytes as f64, asked),
            useful_share: mean(read_bytes as f64, bytes),
            request_bytes: mean(bytes as f64, requests),
            seek_distance: mean(distance, requests),
            service_ns: mean((length_ns - idle_ns) as f64, requests),
            idle_ns: mean(idle_ns as f64, requests),
        }
    }

    /// Goes on until a time, or until enough requests were served.
    fn run_until(&mut self, end: Nanos) {
        let enough = ENOUGH.max(ENOUGH_EACH * u64::from(self.setting.workload.concurrency));
        // There always is one: a handler computes, or waits for the disk.
        while let Some(Reverse((at, _))) = self.events.peek()
            && *at <= end
            && let Some(Reverse((at, event))) = self.events.pop()
        {
            self.now = at;
            match event {
                Event::Computed(handler) => self.proceed(handler),
                Event::Served(number) => self.served(number),
                // One that was overtaken by an earlier one has nothing to do.
                Event::Device if self.device_at != Some(at) => {}
                Event::Device => {
                    self.device_at = None;
                    self.advance();
                }
                Event::Waited => self.dispatch(),
            }
            if self.seen.requests >= enough {
                return;
            }
        }
        self.now = end;
    }

    /// Lets a handler go on until it computes or waits.
    fn proceed(&mut self, at: usize) {
        let Workload { stream_bytes, run_bytes, think_ns_per_mib, .. } = self.setting.workload;
        let pages = stream_bytes / PAGE;
        let current = self.handlers[at].current;
        let is_read = self.handlers[at].streams[current].read >= pages;
        if is_read {
            let stream = self.begin();
            self.handlers[at].streams[current] = stream;
        }
        let handler = &mut self.handlers[at];
        if is_read || handler.run == 0 {
            handler.current = (current + 1) % STREAMS;
            handler.run = run_bytes / PAGE;
        }
        let stream = &mut handler.streams[handler.current];
        let page = stream.read;
        let step = self.setting.read_bytes / PAGE;
        // What is left of the read that the page is in.
        let wanted = step - page % step;
        let asked = if !self.setting.system.direct {
            stream.cache.read(page, wanted)
        } else if stream.cache.has(page) {
            None
        } else {
            stream.cache.ask(page, Window { start: page, end: page + wanted })
        };
        handler.waits_for = None;
        if let Some(window) = asked {
            let (number, begin) = (stream.number, stream.begin);
            self.ask(at, number, begin, window);
        }
        if self.handlers[at].held_up.is_empty() {
            self.consume(at, think_ns_per_mib);
        } else {
            self.held_up.push_back(at);
        }
        self.dispatch();
    }

    /// A handler reads what is there, and computes, or waits for what isn't.
    fn consume(&mut self, at: usize, think_ns_per_mib: Nanos) {
        let pages = self.setting.workload.stream_bytes / PAGE;
        let handler = &mut self.handlers[at];
        let stream = &mut handler.streams[handler.current];
        let readable = stream.cache.readable(stream.read).min(pages - stream.read).min(handler.run);
        if readable == 0 {
            handler.waits_for = Some(stream.read);
            return;
        }
        stream.read += readable;
        stream.cache.has_read(stream.read);
        handler.run -= readable;
        self.seen.read_bytes += readable * PAGE;
        let think = (u128::from(readable * PAGE) * u128::from(think_ns_per_mib)) >> 20;
        self.events.push(Reverse((self.now + think as Nanos, Event::Computed(at))));
    }

    /// A handler asks for some of a stream.
    fn ask(&mut self, handler: usize, stream: u64, begin: u64, window: Window) {
        let most = self.setting.system.request_bytes / PAGE;
        let mut start = window.start;
        while start < window.end {
            let part = Window { start, end: window.end.min(start + most) };
            let request = Request {
                handler,
                stream,
                pos: begin + part.start * PAGE,
                length: (part.end - part.start) * PAGE,
                windows: vec![part],
                arrived: self.now,
            };
            start = part.end;
            self.seen.asked += 1;
            self.seen.asked_bytes += request.length;
            if self.held < self.most_held {
                self.push(request);
            } else {
                self.handlers[handler].held_up.push_back(request);
            }
        }
    }

    fn push(&mut self, request: Request) {
        if self.queue.push(request, self.setting.system.request_bytes) {
            self.held += 1;
        }
    }

    /// Gives the driver what it takes.
    fn dispatch(&mut self) {
        let depth = self.setting.system.depth as usize;
        let mut is_new = false;
        while self.in_driver.len() < depth {
            match self.queue.next(self.now) {
                Next::Request(request) => {
                    if let Some(since) = self.idle_since.take() {
                        self.seen.idle_ns += self.now - since;
                    }
                    if !is_new {
                        self.advance_device();
                        is_new = true;
                    }
                    self.issued += 1;
                    let asked =
                        crate::device::Request { op: Op::Read, pos: request.pos, length: request.length };
                    self.device.submit(self.now, Id(self.issued), asked);
                    self.in_driver.insert(self.issued, request);
                }
                Next::Wait(until) => {
                    self.events.push(Reverse((until, Event::Waited)));
                    break;
                }
                Next::Nothing => break,
            }
        }
        if is_new {
            self.advance();
        }
    }

    /// Lets the device do what is due.
    fn advance_device(&mut self) {
        self.device.advance(self.now, &mut self.completions);
        for completion in self.completions.drain(..) {
            self.events.push(Reverse((completion.done.max(self.now), Event::Served(completion.id.0))));
        }
    }

    fn advance(&mut self) {
        self.advance_device();
        if let Some(next) = self.device.next_event()
            && self.device_at.is_none_or(|at| next < at)
        {
            let at = next.max(self.now);
            self.device_at = Some(at);
            self.events.push(Reverse((at, Event::Device)));
        }
    }

    /// The disk is done with a request.
    fn served(&mut self, number: u64) {
        let Some(request) = self.in_driver.remove(&number) else { return };
        self.seen.requests += 1;
        self.seen.bytes += request.length;
        self.seen.distance += self.head.abs_diff(request.pos) as f64 / self.device.capacity() as f64;
        self.head = request.pos + request.length;
        if self.in_driver.is_empty() {
            self.idle_since = Some(self.now);
        }
        self.held -= 1;
        self.queue.served(request.handler, self.now);
        // The interrupt gives the disk its next request before the handler runs.
        self.dispatch();
        self.let_go_on();
        let handler = &mut self.handlers[request.handler];
        // A stream that has ended does not miss what was read ahead.
        let Some(at) = handler.streams.iter().position(|one| one.number == request.stream) else { return };
        let cache = &mut handler.streams[at].cache;
        request.windows.iter().for_each(|window| cache.arrived(*window));
        let is_there = handler.waits_for.is_some_and(|page| handler.streams[at].cache.has(page));
        if handler.current == at && is_there {
            self.proceed(request.handler);
        }
    }

    /// A request is done: handlers that were held up are woken in batches. Who asks meanwhile gets ahead of them
    /// (lib/sbitmap.c, sbq_calc_wake_batch).
    fn let_go_on(&mut self) {
        self.freed += 1;
        let batch = (self.most_held / WAIT_QUEUES).clamp(1, MOST_WOKEN);
        if self.freed < batch && self.held > 0 {
            return;
        }
        self.freed = 0;
        for _ in 0..batch.min(self.held_up.len()) {
            let Some(at) = self.held_up.pop_front() else { break };
            while self.held < self.most_held
                && let Some(request) = self.handlers[at].held_up.pop_front()
            {
                self.push(request);
            }
            if self.handlers[at].held_up.is_empty() {
                self.consume(at, self.setting.workload.think_ns_per_mib);
            } else {
                self.held_up.push_back(at);
            }
        }
        self.dispatch();
    }
}
