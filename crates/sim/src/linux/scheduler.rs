//! The I/O schedulers of Linux, as far as reads go: which request the driver gets next.
//!
//! `none` and kyber pass requests on as they come (kyber's tokens hold up no reads where there is nothing else);
//! mq-deadline goes upwards in batches, and back to what has waited longest (block/mq-deadline.c of Linux 6.18); bfq serves one
//! process after another, and waits for the next request of the one it serves (block/bfq-iosched.c).

use std::collections::{BTreeMap, VecDeque};

use super::readahead::Window;
use crate::device::Nanos;

/// Requests in a batch of mq-deadline (fifo_batch), and how long a read waits at most (read_expire).
const BATCH: u32 = 16;
const EXPIRE_NS: Nanos = 500_000_000;
/// The last requests of a queue that a new one may join where requests aren't sorted (blk_bio_list_merge).
const JOINED: usize = 8;
/// How long bfq waits for a process (slice_idle), and for one that seeks; how long it serves one, and how many bytes at most.
const IDLE_NS: Nanos = 8_000_000;
const SEEKY_IDLE_NS: Nanos = 2_000_000;
const SLICE_NS: Nanos = 125_000_000;
const BUDGET_BYTES: u64 = 8 << 20;

/// A request to the disk: some of a stream, or several parts of it that follow each other.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub handler: usize,
    /// Number of the stream among all.
    pub stream: u64,
    pub pos: u64,
    pub length: u64,
    /// What was asked for, from the stream's begin.
    pub windows: Vec<Window>,
    /// When the first part was asked for.
    pub arrived: Nanos,
}

impl Request {
    fn end(&self) -> u64 {
        self.pos + self.length
    }

    /// Whether another one begins where this ends, and both are no longer than one may be.
    fn is_before(&self, other: &Self, most: u64) -> bool {
        self.end() == other.pos && self.stream == other.stream && self.length + other.length <= most
    }

    fn join(&mut self, other: Self) {
        self.length += other.length;
        self.windows.extend(other.windows);
    }
}

/// What the driver gets.
pub(super) enum Next {
    Request(Request),
    /// Nothing until then, or until another request arrives.
    Wait(Nanos),
    Nothing,
}

/// A queue of requests.
#[derive(Debug)]
pub(super) enum Queue {
    Fifo { queued: VecDeque<Request>, joins: bool },
    Deadline(Deadline),
    Bfq(Bfq),
}

impl Queue {
    /// Takes a request, or lets a queued one have it. Returns whether it is one more.
    pub(super) fn push(&mut self, request: Request, most: u64) -> bool {
        match self {
            Self::Fifo { queued, joins } => {
                let joined = queued.iter_mut().rev().take(JOINED).find(|one| one.is_before(&request, most));
                match joined.filter(|_| *joins) {
                    Some(before) => before.join(request),
                    None => {
                        queued.push_back(request);
                        return true;
                    }
                }
                false
            }
            Self::Deadline(deadline) => deadline.push(request, most),
            Self::Bfq(bfq) => bfq.push(request, most),
        }
    }

    pub(super) fn next(&mut self, now: Nanos) -> Next {
        match self {
            Self::Fifo { queued, .. } => queued.pop_front().map_or(Next::Nothing, Next::Request),
            Self::Deadline(deadline) => deadline.next(now).map_or(Next::Nothing, Next::Request),
            Self::Bfq(bfq) => bfq.next(now),
        }
    }

    /// The disk is done with a handler's request.
    pub(super) fn served(&mut self, handler: usize, now: Nanos) {
        if let Self::Bfq(bfq) = self {
            bfq.served(handler, now);
        }
    }
}

/// Requests by place, and in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Sorted {
    by_place: BTreeMap<(u64, u64), Request>,
    pushed: u64,
}

impl Sorted {
    fn push(&mut self, request: Request, most: u64) -> Option<(u64, u64)> {
        let key = (request.pos, self.pushed);
        if let Some((_, before)) = self.by_place.range_mut(..key).next_back()
            && before.is_before(&request, most)
        {
            before.join(request);
            return None;
        }
        self.pushed += 1;
        self.by_place.insert(key, request);
        Some(key)
    }

    /// The first one from a place on.
    fn from(&self, pos: u64) -> Option<(u64, u64)> {
        self.by_place.range((pos, 0)..).next().map(|(key, _)| *key)
    }
}

#[derive(Debug, Default)]
pub(super) struct Deadline {
    sorted: Sorted,
    /// In the order in which they came; those that were served are still in it.
    came: VecDeque<((u64, u64), Nanos)>,
    latest: u64,
    batched: u32,
}

impl Deadline {
    fn push(&mut self, request: Request, most: u64) -> bool {
        let arrived = request.arrived;
        let key = self.sorted.push(request, most);
        self.came.extend(key.map(|key| (key, arrived)));
        key.is_some()
    }

    fn next(&mut self, now: Nanos) -> Option<Request> {
        while self.came.front().is_some_and(|(key, _)| !self.sorted.by_place.contains_key(key)) {
            self.came.pop_front();
        }
        let &(oldest, arrived) = self.came.front()?;
        let upwards = self.sorted.from(self.latest);
        let key = match upwards {
            Some(key) if self.batched < BATCH => key,
            Some(key) if now < arrived + EXPIRE_NS => {
                self.batched = 0;
                key
            }
            _ => {
                self.batched = 0;
                oldest
            }
        };
        self.batched += 1;
        let request = self.sorted.by_place.remove(&key)?;
        self.latest = request.end();
        Some(request)
    }
}

/// A handler's requests in bfq.
#[derive(Debug, Default)]
struct Process {
    sorted: Sorted,
    in_flight: u32,
    /// Where its last request ends.
    end: u64,
    /// Of its last requests those far from the one before, a bit each.
    seeks: u32,
    is_listed: bool,
}

impl Process {
    fn is_seeky(&self) -> bool {
        self.seeks.count_ones() > 19
    }
}

#[derive(Debug)]
pub(super) struct Bfq {
    processes: Vec<Process>,
    /// Those that have requests, in the order of their turns.
    turns: VecDeque<usize>,
    /// Who is served, since when, and how many bytes it got.
    serving: Option<(usize, Nanos, u64)>,
    /// Until when it is waited for.
    idle_until: Option<Nanos>,
}

impl Bfq {
    pub(super) fn new(handlers: usize) -> Self {
        Self {
            processes: (0..handlers).map(|_| Process::default()).collect(),
            turns: VecDeque::new(),
            serving: None,
            idle_until: None,
        }
    }

    fn push(&mut self, request: Request, most: u64) -> bool {
        let handler = request.handler;
        let process = &mut self.processes[handler];
        let far = request.pos.abs_diff(process.end) > 8 * 100 * 512;
        process.seeks = process.seeks << 1 | u32::from(far);
        process.end = request.end();
        let is_more = process.sorted.push(request, most).is_some();
        if self.serving.is_some_and(|(served, ..)| served == handler) {
            self.idle_until = None;
        } else if !process.is_listed {
            process.is_listed = true;
            self.turns.push_back(handler);
        }
        is_more
    }

    fn next(&mut self, now: Nanos) -> Next {
        loop {
            if let Some((handler, since, bytes)) = self.serving {
                let process = &mut self.processes[handler];
                let is_over = now >= since + SLICE_NS || bytes >= BUDGET_BYTES;
                if !process.sorted.by_place.is_empty() && !is_over {
                    let key = process.sorted.from(process.end).or_else(|| process.sorted.from(0));
                    let Some(request) = key.and_then(|key| process.sorted.by_place.remove(&key)) else {
                        return Next::Nothing;
                    };
                    process.in_flight += 1;
                    self.serving = Some((handler, since, bytes + request.length));
                    return Next::Request(request);
                }
                if !is_over {
                    if process.in_flight > 0 {
                        return Next::Nothing;
                    }
                    if let Some(until) = self.idle_until.filter(|until| now < *until) {
                        return Next::Wait(until);
                    }
                }
                if !process.sorted.by_place.is_empty() {
                    process.is_listed = true;
                    self.turns.push_back(handler);
                }
                (self.serving, self.idle_until) = (None, None);
            }
            let Some(handler) = self.turns.pop_front() else { return Next::Nothing };
            self.processes[handler].is_listed = false;
            self.serving = Some((handler, now, 0));
        }
    }

    fn served(&mut self, handler: usize, now: Nanos) {
        let process = &mut self.processes[handler];
        process.in_flight -= 1;
        let is_served = self.serving.is_some_and(|(served, ..)| served == handler);
        if is_served && process.in_flight == 0 && process.sorted.by_place.is_empty() {
            self.idle_until = Some(now + if process.is_seeky() { SEEKY_IDLE_NS } else { IDLE_NS });
        }
    }
}
