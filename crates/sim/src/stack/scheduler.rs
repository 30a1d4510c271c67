//! The queue of requests, and which of them is next.

use std::collections::BTreeMap;

use super::medium::Medium;
use super::{Request, Scheduler, System};
use crate::device::Nanos;

/// Weight of the newest value in a handler's means, as in Linux's anticipatory scheduler (as-iosched.c, 2.6.10).
const NEWEST: f64 = 1.0 / 8.0;

/// What a handler's requests have been like.
#[derive(Clone, Copy, Debug)]
struct Habit {
    /// When its last request was done, if none has followed.
    done: Option<Nanos>,
    /// Its requests in the queue.
    queued: u32,
    /// Where its last request ends.
    end: u64,
    /// Share of requests that begin where the one before ends.
    close: f64,
    /// Mean time from the end of a request to the next one, in ns.
    think_ns: f64,
    /// Mean distance between requests, as a fraction of the disk.
    distance: f64,
}

impl Habit {
    const NEW: Self = Self { done: None, queued: 0, end: 0, close: 0.5, think_ns: 0.0, distance: 0.0 };

    fn learn(mean: &mut f64, value: f64) {
        *mean += (value - *mean) * NEWEST;
    }
}

pub(super) struct Queue {
    /// By place; the number tells apart those of the same.
    pending: BTreeMap<(u64, u64), Request>,
    pushed: u64,
    medium: Medium,
    habits: Vec<Habit>,
    /// The handler that the disk waits for, and the number of the wait.
    waiting: Option<(usize, u64)>,
    waits: u64,
    wait_ns: Nanos,
    is_anticipatory: bool,
    breaks_by_distance: bool,
    resets: bool,
    /// Nothing was queued above the last request when the disk got it.
    was_highest: bool,
    congested_above: usize,
}

impl Queue {
    pub(super) fn new(system: &System, medium: &Medium, handlers: usize) -> Self {
        Self {
            pending: BTreeMap::new(),
            pushed: 0,
            medium: medium.clone(),
            habits: vec![Habit::NEW; handlers],
            waiting: None,
            waits: 0,
            wait_ns: system.wait_ns,
            is_anticipatory: system.scheduler == Scheduler::Anticipatory,
            breaks_by_distance: system.faults.distance,
            resets: system.faults.reset,
            was_highest: false,
            congested_above: system.congested_above as usize,
        }
    }

    /// Whether there are so many requests that read-ahead only adds to them.
    pub(super) fn is_congested(&self) -> bool {
        self.pending.len() > self.congested_above
    }

    /// A handler's request arrives.
    pub(super) fn push(&mut self, request: Request, head: u64, now: Nanos) {
        let habit = &mut self.habits[request.handler];
        if let Some(done) = habit.done.take() {
            Habit::learn(&mut habit.close, f64::from(u8::from(request.pos == habit.end)));
            Habit::learn(&mut habit.think_ns, (now - done) as f64);
        }
        Habit::learn(&mut habit.distance, self.medium.distance(habit.end, request.pos));
        habit.end = request.pos + request.length;
        habit.queued += 1;
        self.pending.insert((request.pos, self.pushed), request);
        self.pushed += 1;
        if let Some((handler, _)) = self.waiting
            && (handler == request.handler || !self.pays(handler, head))
        {
            self.waiting = None;
        }
    }

    /// The disk is done with a request. Returns the number of the wait where it waits for the handler's next one.
    pub(super) fn served(&mut self, request: Request, head: u64, now: Nanos) -> Option<u64> {
        self.habits[request.handler].done = Some(now);
        let has_more = self.habits[request.handler].queued > 0;
        if !self.is_anticipatory || has_more || !self.pays(request.handler, head) {
            return None;
        }
        self.waits += 1;
        self.waiting = Some((request.handler, self.waits));
        Some(self.waits)
    }

    /// Ends a wait. Returns whether it was still on.
    pub(super) fn stop_waiting(&mut self, number: u64) -> bool {
        let is_on = self.waiting.is_some_and(|(_, waited)| waited == number);
        if is_on {
            self.waiting = None;
        }
        is_on
    }

    /// Takes the next request; none where there is none, or the disk waits for a handler.
    pub(super) fn next(&mut self, head: u64) -> Option<Request> {
        if self.waiting.is_some() {
            return None;
        }
        let key = self.candidate(head)?;
        let request = self.pending.remove(&key)?;
        self.habits[request.handler].queued -= 1;
        self.was_highest = self.pending.range(key..).next().is_none();
        Some(request)
    }

    fn candidate(&self, head: u64) -> Option<(u64, u64)> {
        let from = if self.resets && self.was_highest { 0 } else { head };
        let upwards = self.pending.range((from, 0)..).next();
        upwards.or_else(|| self.pending.iter().next()).map(|(key, _)| *key)
    }

    /// Whether it pays to wait for a handler: what a seek to another request and back costs, as likely as the handler goes on
    /// where it was, against the time until it does.
    fn pays(&self, handler: usize, head: u64) -> bool {
        let habit = &self.habits[handler];
        if habit.think_ns > self.wait_ns as f64 {
            return false;
        }
        let Some((pos, _)) = self.candidate(head) else { return true };
        if self.breaks_by_distance {
            return self.medium.distance(head, pos) >= habit.distance;
        }
        let saved = self.medium.seek_ns(head, pos) + self.medium.mean_rotation_ns();
        habit.close * saved > habit.think_ns
    }
}
