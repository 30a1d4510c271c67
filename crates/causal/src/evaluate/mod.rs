//! How long threads run that wait for each other, for storage, for locks and for cores: an event simulation of their scripts.
//!
//! All threads begin at time 0. At any moment those that can go on do so in the order of their numbers, each as far as it gets in no
//! time; operations that take no time end after that. Equal input gives equal output.
//!
//! | a step | takes |
//! |---|---|
//! | [`Step::Compute`] | its CPU time, and longer where more threads want a core than there are (see `cores`) |
//! | [`Step::Rest`] | its time |
//! | [`Step::Timeout`] | its time, or until the last signal of the edge, or until another thread hurries it |
//! | [`Step::Hurry`] | nothing: the timeouts end that come before the signals of the edge |
//! | [`Step::Io`] | until the operations that it comes after have ended ([`Order`]), and then as long as the [`Storage`] says; no core |
//! | [`Step::Wait`] | until the last signal of the edge. Who sleeps wants no core meanwhile, who spins a whole one; who yields leaves it to all who compute |
//! | [`Step::Poll`] | nothing if the last signal of the edge was given, else until the first look at which it was; no core |
//! | [`Step::Lock`], [`Step::Share`] | until the lock is free, or shared by all who have it, and who tries for it has tried again |
//!
//! **Locks are contended for again**, in whatever order threads come to them now. A lock goes to the first thread that asks while it
//! is free. When it is given back, the thread that has waited longest is woken, and finds it taken if another asked at
//! the same moment: the one that gave it back, which goes on first, or one with a lower number. Then it waits
//! again, behind those that came meanwhile. So do futexes, which promise no order (futex(2), FUTEX_WAKE;
//! pthread_mutex_unlock(3p)). A lock that one had alone goes to all who wait to share it
//! first, and who shares comes in although others wait, as the C library's read-write locks prefer readers
//! (pthread_rwlockattr_setkind_np(3)). Threads that wait for a lock sleep. A thread that ends keeps the locks that it has.
//!
//! Nobody is woken for a lock that threads only try for ([`Scripts::tried`]): whoever tries first after it was given back has it. Who tries again
//! does so after all else that happens at that moment, one after the other in the order of their numbers.

mod cores;
mod path;
mod standstill;
mod storage;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

pub use path::{Activity, Segment};
pub(crate) use standstill::join;
pub use standstill::{Blocked, On, Standstill};
pub use storage::{Completion, Durations, Storage};

use crate::order::{OpRef, Order};
use crate::script::{Scripts, Step};
use cores::Cores;

/// No thread.
const NONE: u32 = u32::MAX;

/// The machines that threads run on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machines {
    /// Cores of each, at least one.
    pub cores: Vec<u32>,
    /// The machine of each thread, as an index of `cores`; the first of threads beyond.
    pub of: Vec<u32>,
}

impl Machines {
    /// One machine for all threads.
    #[must_use]
    pub fn one(cores: u32) -> Self {
        Self { cores: vec![cores], of: Vec::new() }
    }
}

/// What threads did for how long, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Computed: CPU time.
    pub compute: i64,
    /// Would have computed, but had no core, or a part of one.
    pub ready: i64,
    /// Waited for the storage.
    pub io: i64,
    /// Waited for operations that theirs come after.
    pub order: i64,
    /// Waited for the signals of an edge.
    pub edge: i64,
    /// Waited for a lock.
    pub lock: i64,
    /// Rested.
    pub rest: i64,
}

impl Times {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> i64 {
        self.compute + self.ready + self.io + self.order + self.edge + self.lock + self.rest
    }
}

/// What became of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// When each of its steps ended, ns from the start. Each begins when the one before it ends, the first at 0.
    pub ends: Vec<i64>,
    /// What it did; all of it together until it ended.
    pub times: Times,
}

impl Run {
    /// When it ended.
    #[must_use]
    pub fn end(&self) -> i64 {
        self.ends.last().copied().unwrap_or(0)
    }
}

/// What became of all threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evaluated {
    /// From the start of the first step to the end of the last, ns.
    pub elapsed: i64,
    /// By number of the thread.
    pub threads: Vec<Run>,
    /// The critical path: what was done at each moment that the end had to wait for. In the order of time, each segment
    /// begins when the one before it ends, the first at 0, the last ends at `elapsed`.
    ///
    /// It goes back from the thread that ended last (of several the one with the lowest number): where that waited, to the thread that gave the last signal, or
    /// gave the lock back, or did the operation.
    pub path: Vec<Segment>,
}

/// Runs threads in virtual time.
///
/// # Errors
/// A thread waits for what never comes; [`check`](crate::check) finds most of that before.
///
/// # Panics
/// If a step names an edge, a lock or an operation that isn't there, or a thread is on such a machine.
pub fn evaluate(
    scripts: &Scripts,
    order: &impl Order,
    storage: &mut impl Storage,
    machines: &Machines,
) -> Result<Evaluated, Standstill> {
    let mut simulation = Simulation::new(scripts, order, storage, machines);
    simulation.run();
    simulation.finish()
}

/// Why a thread could go on.
#[derive(Clone, Copy, Debug)]
struct Cause {
    /// The step that waited.
    step: u32,
    /// Who let it go on, with which of its steps, and when.
    by: u32,
    by_step: u32,
    at: i64,
}

#[derive(Debug, Default)]
struct Thread {
    run: Run,
    /// Whether it is done with its step, and not only to try it again.
    is_done: bool,
    /// The index that the next of its operations has at least.
    next_op: u32,
    /// How many operations of others its own still waits for.
    pending: u32,
    /// Threads that wait for its operations, by the index of these.
    followers: BinaryHeap<Reverse<(u32, u32)>>,
    /// Timeouts before this step are over.
    hurried: u32,
    /// The timeout that it began last: its step.
    timeout: Option<u32>,
    /// Of steps that waited, in their order.
    causes: Vec<Cause>,
    /// The next of those that wait for the same edge.
    next_waiter: u32,
}

impl Thread {
    /// Its step, as an index.
    fn step(&self) -> usize {
        self.run.ends.len()
    }
}

struct Edge {
    /// Signals that haven't been given.
    missing: u32,
    /// The thread that came last of those that wait.
    waiter: u32,
    /// Threads that wait so long at most, and at which steps; some may have gone on.
    at_most: Vec<(u32, u32)>,
}

#[derive(Default)]
struct Lock {
    /// Threads that have it: one, or those that share it.
    holders: Vec<u32>,
    is_shared: bool,
    /// In the order in which they came, and whether they would share it.
    waiters: VecDeque<(u32, bool)>,
    /// Threads that have tried in vain since somebody has it, and when.
    tried: Vec<(u32, i64)>,
}

impl Lock {
    /// Whether the thread has it now.
    fn take(&mut self, number: u32, shares: bool) -> bool {
        let has_it = self.holders.is_empty() || shares && self.is_shared;
        if has_it {
            self.holders.push(number);
            self.is_shared = shares;
        }
        has_it
    }

    /// Takes it from a thread; whether it had it, and nobody has it now.
    fn let_go(&mut self, number: u32) -> bool {
        let Some(at) = self.holders.iter().position(|holder| *holder == number) else { return false };
        self.holders.swap_remove(at);
        self.holders.is_empty()
    }

    /// A thread gives back what others try for: those that tried in vain, and when, if nobody has it now.
    fn leave(&mut self, number: u32) -> Vec<(u32, i64)> {
        if self.let_go(number) { std::mem::take(&mut self.tried) } else { Vec::new() }
    }

    /// A thread gives it back: the threads that are woken.
    fn give_back(&mut self, number: u32) -> Vec<u32> {
        if !self.let_go(number) {
            return Vec::new();
        }
        let shared = |(number, shares): &(u32, bool)| shares.then_some(*number);
        let readers: Vec<u32> = self.waiters.iter().filter_map(shared).collect();
        if self.is_shared || readers.is_empty() {
            return self.waiters.pop_front().map(|(number, _)| number).into_iter().collect();
        }
        self.waiters.retain(|(_, shares)| !shares);
        readers
    }
}

struct Simulation<'a, O, S> {
    scripts: &'a Scripts,
    order: &'a O,
    storage: &'a mut S,
    machines: &'a Machines,
    now: i64,
    /// Until when the storage has been advanced.
    advanced: i64,
    threads: Vec<Thread>,
    edges: Vec<Edge>,
    locks: Vec<Lock>,
    cores: Vec<Cores>,
    /// Threads that can go on now.
    ready: BinaryHeap<Reverse<u32>>,
    /// When operations, rests and timeouts end, whose, and at which of its steps: a timeout may have ended before.
    timers: BinaryHeap<Reverse<(i64, u32, u32)>>,
    /// When threads try again for a lock.
    tries: BinaryHeap<Reverse<(i64, u32)>>,
    /// When one did last, and which.
    tried: (i64, u32),
    completions: Vec<Completion>,
    /// Threads that give the signals of edges for which others hurry them, and with which of their steps.
    hurried_by: HashMap<u32, Vec<(u32, u32)>>,
}

impl<'a, O: Order, S: Storage> Simulation<'a, O, S> {
    fn new(scripts: &'a Scripts, order: &'a O, storage: &'a mut S, machines: &'a Machines) -> Self {
        let thread = |steps: usize| Thread {
            run: Run { ends: Vec::with_capacity(steps), times: Times::default() },
            ..Thread::default()
        };
        Self {
            scripts,
            order,
            storage,
            machines,
            now: 0,
            advanced: 0,
            threads: scripts.threads.iter().map(|script| thread(script.steps.len())).collect(),
            edges: scripts
                .signals
                .iter()
                .map(|signals| Edge { missing: *signals, waiter: NONE, at_most: Vec::new() })
                .collect(),
            locks: std::iter::repeat_with(Lock::default).take(scripts.locks as usize).collect(),
            cores: machines.cores.iter().copied().map(Cores::new).collect(),
            ready: (0..scripts.threads.len() as u32).map(Reverse).collect(),
            timers: BinaryHeap::new(),
            tries: BinaryHeap::new(),
            tried: (i64::MIN, 0),
            completions: Vec::new(),
            hurried_by: scripts.hurried_by(),
        }
    }

    /// Runs until nothing more happens.
    fn run(&mut self) {
        loop {
            while let Some(Reverse(number)) = self.ready.pop() {
                self.go_on(number);
            }
            let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
            let computations = self.cores.iter().filter_map(Cores::next);
            let next = computations.chain(timer).chain(self.storage.next_completion()).min();
            let again = self.tries.peek().map(|Reverse((at, _))| *at);
            match (next, again) {
                (next, Some(again)) if next.is_none_or(|next| again < next) => {
                    self.now = again.max(self.now);
                    if let Some(Reverse((_, number))) = self.tries.pop() {
                        self.tried = (self.now, number);
                        self.ready.push(Reverse(number));
                    }
                }
                (Some(next), _) => {
                    self.now = next.max(self.now);
                    self.end_due();
                }
                (None, _) => break,
            }
        }
    }

    /// Ends what is due.
    fn end_due(&mut self) {
        if self.storage.next_completion().is_some_and(|next| next <= self.now) {
            self.advance_storage();
        }
        while let Some(Reverse((_, number, step))) =
            self.timers.peek().copied().filter(|due| due.0.0 <= self.now)
        {
            self.timers.pop();
            let thread = &self.threads[number as usize];
            if thread.step() == step as usize && !thread.is_done {
                self.end_step(number);
            }
        }
        for machine in 0..self.cores.len() {
            while let Some(number) = self.cores[machine].take_ended(self.now) {
                self.end_step(number);
            }
        }
    }

    fn advance_storage(&mut self) {
        self.storage.advance(self.now, &mut self.completions);
        self.advanced = self.now;
        for completion in self.completions.drain(..) {
            let number = completion.op.thread;
            let step = self.threads[number as usize].step() as u32;
            self.timers.push(Reverse((completion.done.max(self.now), number, step)));
        }
    }

    /// Lets a thread go on behind its step.
    fn end_step(&mut self, number: u32) {
        self.threads[number as usize].is_done = true;
        self.ready.push(Reverse(number));
    }

    /// Does steps of a thread until one takes time.
    fn go_on(&mut self, number: u32) {
        let steps = &self.scripts.threads[number as usize].steps;
        let mut is_done = std::mem::take(&mut self.threads[number as usize].is_done);
        loop {
            let Some(step) = steps.get(self.threads[number as usize].step()) else {
                // whatever others wait for won't be done any more
                self.end_ops(number, u32::MAX);
                return;
            };
            is_done = is_done || self.begin(number, step);
            if !is_done {
                return;
            }
            self.account(number, step);
            if let Step::Io(op) = *step {
                self.end_ops(number, op.saturating_add(1));
            }
            is_done = false;
        }
    }

    /// Begins a step, or tries again; whether it has ended.
    fn begin(&mut self, number: u32, step: &Step) -> bool {
        match *step {
            Step::Compute(dur) | Step::Rest(dur) if dur <= 0 => true,
            Step::Compute(dur) => {
                let now = self.now;
                self.cores_of(number).compute(now, number, dur);
                false
            }
            Step::Rest(dur) => {
                self.end_after(number, dur);
                false
            }
            Step::Timeout(edge, dur) => {
                let thread = &self.threads[number as usize];
                let (step, hurried) = (thread.step() as u32, thread.hurried);
                let edge = &mut self.edges[edge as usize];
                if edge.missing == 0 || dur <= 0 || step < hurried {
                    return true;
                }
                edge.at_most.push((number, step));
                self.threads[number as usize].timeout = Some(step);
                self.end_after(number, dur);
                false
            }
            Step::Io(op) => {
                self.begin_op(OpRef { thread: number, index: op });
                false
            }
            Step::Signal(edge) => {
                self.signal(number, edge);
                true
            }
            Step::Wait(edge, style) => {
                let Edge { missing, waiter, .. } = &mut self.edges[edge as usize];
                if *missing == 0 {
                    return true;
                }
                self.threads[number as usize].next_waiter = std::mem::replace(waiter, number);
                let now = self.now;
                self.cores_of(number).begin_wait(now, style);
                false
            }
            Step::Poll(edge, _) => {
                let Edge { missing, waiter, .. } = &mut self.edges[edge as usize];
                if *missing > 0 {
                    self.threads[number as usize].next_waiter = std::mem::replace(waiter, number);
                    return false;
                }
                true
            }
            Step::Hurry(edge) => {
                self.hurry(number, edge);
                true
            }
            Step::Lock(lock) => self.take(number, lock, false),
            Step::Share(lock) => self.take(number, lock, true),
            Step::Unlock(lock) => {
                self.unlock(number, lock);
                true
            }
        }
    }

    /// Ends a thread's step so much later, if nothing else does before.
    fn end_after(&mut self, number: u32, dur: i64) {
        self.end_at(number, self.now.saturating_add(dur));
    }

    fn end_at(&mut self, number: u32, at: i64) {
        let step = self.threads[number as usize].step() as u32;
        self.timers.push(Reverse((at, number, step)));
    }

    fn cores_of(&mut self, number: u32) -> &mut Cores {
        let machine = self.machines.of.get(number as usize).copied().unwrap_or(0);
        &mut self.cores[machine as usize]
    }

    fn begin_op(&mut self, op: OpRef) {
        let mut pending = 0;
        for before in self.order.after(op) {
            let other = &mut self.threads[before.thread as usize];
            if other.next_op <= before.index {
                other.followers.push(Reverse((before.index, op.thread)));
                pending += 1;
            }
        }
        if pending > 0 {
            self.threads[op.thread as usize].pending = pending;
            return;
        }
        if self.advanced < self.now {
            self.advance_storage();
        }
        self.storage.submit(self.now, op);
    }

    /// Notes that a thread's operations below an index have ended.
    fn end_ops(&mut self, number: u32, below: u32) {
        self.threads[number as usize].next_op = below;
        loop {
            let thread = &mut self.threads[number as usize];
            let by_step = thread.step().saturating_sub(1) as u32;
            let Some(Reverse((_, follower))) = thread.followers.peek().copied().filter(|due| due.0.0 < below)
            else {
                return;
            };
            thread.followers.pop();
            let pending = &mut self.threads[follower as usize].pending;
            *pending -= 1;
            if *pending == 0 {
                self.note_cause(follower, number, by_step);
                self.ready.push(Reverse(follower));
            }
        }
    }

    fn signal(&mut self, number: u32, edge: u32) {
        let Edge { missing, waiter, at_most } = &mut self.edges[edge as usize];
        *missing = missing.saturating_sub(1);
        if *missing > 0 {
            return;
        }
        let mut waiter = std::mem::replace(waiter, NONE);
        let at_most = std::mem::take(at_most);
        let by_step = self.threads[number as usize].step() as u32;
        while waiter != NONE {
            let next = self.threads[waiter as usize].next_waiter;
            let (step, start) =
                (self.threads[waiter as usize].step(), self.threads[waiter as usize].run.end());
            self.note_cause(waiter, number, by_step);
            match self.scripts.threads[waiter as usize].steps.get(step) {
                Some(Step::Poll(_, period)) => {
                    let late = (self.now - start) % *period;
                    let wait = if late > 0 { period - late } else { 0 };
                    self.end_at(waiter, self.now.saturating_add(wait));
                }
                Some(Step::Wait(_, style)) => {
                    let now = self.now;
                    self.cores_of(waiter).end_wait(now, *style);
                    self.end_step(waiter);
                }
                _ => self.end_step(waiter),
            }
            waiter = next;
        }
        for (waiter, step) in at_most {
            let thread = &self.threads[waiter as usize];
            if thread.step() == step as usize && !thread.is_done {
                self.note_cause(waiter, number, by_step);
                self.end_step(waiter);
            }
        }
    }

    fn hurry(&mut self, number: u32, edge: u32) {
        if self.edges[edge as usize].missing == 0 {
            return;
        }
        let by_step = self.threads[number as usize].step() as u32;
        for (giver, signal) in self.hurried_by.get(&edge).cloned().unwrap_or_default() {
            let thread = &mut self.threads[giver as usize];
            thread.hurried = thread.hurried.max(signal);
            let step = thread.step() as u32;
            if thread.timeout == Some(step) && !thread.is_done && step < signal {
                self.note_cause(giver, number, by_step);
                self.end_step(giver);
            }
        }
    }

    /// Whether a thread has a lock now: else it waits, or tries again.
    fn take(&mut self, number: u32, lock: u32, shares: bool) -> bool {
        let of = &mut self.locks[lock as usize];
        let has_it = of.take(number, shares);
        if !has_it && self.scripts.tried.contains_key(&lock) {
            of.tried.push((number, self.now));
        } else if !has_it {
            of.waiters.push_back((number, shares));
        }
        has_it
    }

    fn unlock(&mut self, number: u32, lock: u32) {
        let by_step = self.threads[number as usize].step() as u32;
        let of = &mut self.locks[lock as usize];
        let Some(pauses) = self.scripts.tried.get(&lock) else {
            for woken in of.give_back(number) {
                self.note_cause(woken, number, by_step);
                self.ready.push(Reverse(woken));
            }
            return;
        };
        for (trying, tried) in of.leave(number) {
            self.note_cause(trying, number, by_step);
            let start = self.threads[trying as usize].run.end();
            // of those that try at this moment, who comes before the last one has done so in vain
            let from = if (self.now, trying) <= self.tried { self.now + 1 } else { self.now };
            let again = start.saturating_add(pauses.until(from.max(tried + 1) - start));
            self.tries.push(Reverse((again, trying)));
        }
    }

    /// Notes who lets a thread go on that has waited.
    fn note_cause(&mut self, waiter: u32, by: u32, by_step: u32) {
        let thread = &mut self.threads[waiter as usize];
        if thread.run.end() == self.now {
            return;
        }
        let cause = Cause { step: thread.step() as u32, by, by_step, at: self.now };
        match thread.causes.last_mut() {
            // it found the lock taken the last time
            Some(last) if last.step == cause.step => *last = cause,
            _ => thread.causes.push(cause),
        }
    }

    /// Adds up what a thread did in a step that ends now.
    fn account(&mut self, number: u32, step: &Step) {
        let thread = &mut self.threads[number as usize];
        let start = thread.run.end();
        let dur = self.now - start;
        let cause = thread.causes.last().filter(|cause| cause.step as usize == thread.run.ends.len());
        let times = &mut thread.run.times;
        match *step {
            Step::Compute(cpu) => {
                // less only where times are beyond 64 bits
                let cpu = cpu.clamp(0, dur);
                times.compute += cpu;
                times.ready += dur - cpu;
            }
            Step::Rest(_) | Step::Timeout(..) => times.rest += dur,
            Step::Io(_) => {
                let waited = cause.map_or(0, |cause| cause.at - start);
                times.order += waited;
                times.io += dur - waited;
            }
            Step::Wait(..) | Step::Poll(..) => times.edge += dur,
            Step::Lock(_) | Step::Share(_) => times.lock += dur,
            Step::Signal(_) | Step::Hurry(_) | Step::Unlock(_) => {}
        }
        thread.run.ends.push(self.now);
    }

    /// What became of all, if all have ended.
    fn finish(self) -> Result<Evaluated, Standstill> {
        let is_ended = |(thread, script): (&Thread, &crate::Script)| thread.step() == script.steps.len();
        if !self.threads.iter().zip(&self.scripts.threads).all(is_ended) {
            return Err(self.standstill());
        }
        let path = path::trace(self.scripts, &self.threads);
        let threads: Vec<Run> = self.threads.into_iter().map(|thread| thread.run).collect();
        let elapsed = threads.iter().map(Run::end).max().unwrap_or(0);
        Ok(Evaluated { elapsed, threads, path })
    }

    fn standstill(&self) -> Standstill {
        let blocked = |(thread, number): (&Thread, u32)| {
            let step = thread.step();
            let on = match *self.scripts.threads[number as usize].steps.get(step)? {
                Step::Wait(edge, _) | Step::Poll(edge, _) => {
                    On::Edge { edge, missing: self.edges[edge as usize].missing }
                }
                Step::Lock(lock) | Step::Share(lock) => {
                    let holder = self.locks[lock as usize].holders.first().copied().unwrap_or(NONE);
                    On::Lock { lock, holder }
                }
                Step::Io(index) => {
                    let op = OpRef { thread: number, index };
                    let is_missing =
                        |before: &OpRef| self.threads[before.thread as usize].next_op <= before.index;
                    match self.order.after(op).find(is_missing) {
                        Some(before) => On::Op { op, before },
                        None => On::Storage { op },
                    }
                }
                // these end by themselves
                Step::Compute(_) | Step::Rest(_) | Step::Timeout(..) => return None,
                Step::Signal(_) | Step::Hurry(_) | Step::Unlock(_) => return None,
            };
            Some(Blocked { thread: number, step: step as u32, on })
        };
        Standstill { at: self.now, blocked: self.threads.iter().zip(0..).filter_map(blocked).collect() }
    }
}
