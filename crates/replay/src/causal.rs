//! Doing what threads did with what they waited for: computing, signals, waits and operations in the order of their scripts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::*};

use iotrail_causal::{OpRef, Script, Scripts, Step, Style};
use iotrail_format::segment::TextKind;
use iotrail_sdk::{attach, clock, post};

use crate::lock::Lock;
use crate::run::{Buffer, Found, Mode, NAP, Shared, futex, is_stopped, now, thread_cpu, until};

/// Computing below this is spun by the wall clock: reading the CPU clock takes longer than it could be off a CPU.
const SHORT: i64 = 20_000;
/// Computing below this is added to the next: less than it takes to read a clock.
const SHORTEST: i64 = 500;

/// The signals of one edge.
pub(crate) struct Edge {
    /// How many are still to be given.
    left: AtomicU32,
    /// How many sleep until they are.
    sleepers: AtomicU32,
}

impl Edge {
    fn new(signals: u32) -> Self {
        Self { left: AtomicU32::new(signals), sleepers: AtomicU32::new(0) }
    }

    /// Whether it was the last.
    fn signal(&self) -> bool {
        let is_last = self.left.fetch_sub(1, SeqCst) == 1;
        if is_last && self.sleepers.load(SeqCst) != 0 {
            wake_all(&self.left);
        }
        is_last
    }

    fn is_open(&self) -> bool {
        self.left.load(SeqCst) == 0
    }

    /// Waits as the program did. Whether that took time.
    fn wait(&self, style: Style) -> bool {
        if self.is_open() {
            return false;
        }
        match style {
            Style::Sleep => {
                self.sleepers.fetch_add(1, SeqCst);
                let nap = libc::timespec { tv_sec: 0, tv_nsec: NAP };
                loop {
                    let left = self.left.load(SeqCst);
                    if left == 0 || is_stopped() {
                        break;
                    }
                    futex(&self.left, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, left, Some(&nap));
                }
                self.sleepers.fetch_sub(1, SeqCst);
            }
            Style::Yield => {
                while !self.is_open() && !is_stopped() {
                    std::thread::yield_now();
                }
            }
            Style::Spin => {
                while !self.is_open() && !is_stopped() {
                    std::hint::spin_loop();
                }
            }
        }
        true
    }
}

fn wake_all(word: &AtomicU32) {
    futex(word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX as u32, None);
}

/// What ends a thread's timeouts before their time.
#[derive(Default)]
struct Bell {
    /// How often it rang.
    rung: AtomicU32,
    /// Timeouts before this step are over.
    hurried: AtomicU32,
}

impl Bell {
    fn ring(&self) {
        self.rung.fetch_add(1, SeqCst);
        wake_all(&self.rung);
    }
}

/// What threads wait for.
pub(crate) struct Causes {
    edges: Vec<Edge>,
    locks: Vec<Lock>,
    /// By number of the thread.
    bells: Vec<Bell>,
    /// Threads with timeouts that the signals of an edge end.
    timeouts: HashMap<u32, Vec<u32>>,
    /// See [`Scripts::hurried_by`].
    hurried_by: HashMap<u32, Vec<(u32, u32)>>,
}

impl Causes {
    /// Of some scripts.
    pub(crate) fn of(scripts: &Scripts) -> Self {
        let mut timeouts: HashMap<u32, Vec<u32>> = HashMap::new();
        for (script, thread) in scripts.threads.iter().zip(0..) {
            for step in &script.steps {
                if let Step::Timeout(edge, _) = step {
                    let threads = timeouts.entry(*edge).or_default();
                    if threads.last() != Some(&thread) {
                        threads.push(thread);
                    }
                }
            }
        }
        Self {
            edges: scripts.signals.iter().map(|signals| Edge::new(*signals)).collect(),
            locks: Lock::all(scripts),
            bells: scripts.threads.iter().map(|_| Bell::default()).collect(),
            timeouts,
            hurried_by: scripts.hurried_by(),
        }
    }

    /// A signal of an edge is given.
    pub(crate) fn signal(&self, edge: u32) {
        if self.edges[edge as usize].signal() {
            for thread in self.timeouts.get(&edge).into_iter().flatten() {
                self.bells[*thread as usize].ring();
            }
        }
    }

    /// Looks whether the signals of an edge have been given, and again and again; whether it had to.
    fn poll(&self, edge: u32, period: i64, scale: f64) -> bool {
        let edge = &self.edges[edge as usize];
        let (first, period) = (now(), (period as f64 * scale) as i64);
        let looks = (1..).take_while(|_| !edge.is_open() && !is_stopped());
        looks.map(|number| until(first.saturating_add(period.saturating_mul(number)))).count() > 0
    }

    /// Ends the timeouts of who gives the signals of an edge, until it does.
    fn hurry(&self, edge: u32) {
        if self.edges[edge as usize].is_open() {
            return;
        }
        for (thread, step) in self.hurried_by.get(&edge).into_iter().flatten() {
            let bell = &self.bells[*thread as usize];
            bell.hurried.fetch_max(*step, SeqCst);
            bell.ring();
        }
    }

    /// Waits at a step of a thread for an edge, until a moment at most.
    fn wait_until(&self, thread: usize, step: u32, edge: u32, moment: i64) {
        let bell = &self.bells[thread];
        loop {
            let (rung, time) = (bell.rung.load(SeqCst), moment - now());
            let is_over = self.edges[edge as usize].is_open() || bell.hurried.load(SeqCst) > step;
            if is_over || time <= 0 || is_stopped() {
                return;
            }
            let nap = libc::timespec { tv_sec: 0, tv_nsec: time.min(NAP) };
            futex(&bell.rung, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, rung, Some(&nap));
        }
    }
}

/// Is on a CPU for so long, ns.
fn compute(time: i64) {
    if time < SHORT {
        let end = now() + time;
        while now() < end {
            std::hint::spin_loop();
        }
        return;
    }
    let end = thread_cpu() + time;
    while thread_cpu() < end && !is_stopped() {
        std::hint::spin_loop();
    }
}

impl Shared<'_> {
    /// Replays one thread by its script.
    pub(crate) fn replay_script(
        &self,
        number: usize,
        script: &Script,
        causes: &Causes,
        buffer: &Buffer,
    ) -> Found {
        // SAFETY: plain numbers.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        let thread = self.thread(number);
        attach::thread_began(clock::ticks());
        post::text(TextKind::ThreadName, 0, thread.id.to_string().as_bytes());
        let mut found = Found::default();
        let scale = self.options.scale;
        until(self.zero);
        let mut owed = 0;
        let mut held = HashMap::new();
        // operations that are done, or left out
        let mut passed = 0;
        let mut pass = |last: u32| {
            for index in passed..=last {
                self.progress[number].advance(index);
                if let Some(links) = self.links {
                    links.done(OpRef { thread: number as u32, index });
                }
            }
            passed = last + 1;
        };
        for (step, at) in script.steps.iter().zip(0..) {
            if is_stopped() {
                break;
            }
            match *step {
                Step::Compute(time) => {
                    owed += (time as f64 * scale * self.options.compute) as i64;
                    if owed >= SHORTEST {
                        compute(owed);
                        owed = 0;
                    }
                }
                Step::Rest(time) => until(now() + (time as f64 * scale) as i64),
                Step::Timeout(_, time) if self.options.mode == Mode::Compute => {
                    until(now() + (time as f64 * scale) as i64);
                }
                Step::Timeout(edge, time) => {
                    causes.wait_until(number, at, edge, now() + (time as f64 * scale) as i64);
                }
                Step::Hurry(edge) => causes.hurry(edge),
                Step::Signal(edge) => {
                    causes.signal(edge);
                    if let Some(links) = self.links {
                        links.signal(edge);
                    }
                }
                Step::Wait(..) | Step::Poll(..) | Step::Lock(_) | Step::Share(_)
                    if self.options.mode == Mode::Compute => {}
                Step::Wait(edge, style) => found.waited += u64::from(causes.edges[edge as usize].wait(style)),
                Step::Poll(edge, period) => found.waited += u64::from(causes.poll(edge, period, scale)),
                Step::Io(index) => {
                    let op = &thread.ops[index as usize];
                    let (names, data) = self.waits(op);
                    for wait in names.iter().chain(data) {
                        self.progress[wait.thread as usize].wait(wait.index, wait.alone);
                    }
                    if is_stopped() {
                        found.interrupted_at = Some(op.start);
                        break;
                    }
                    found.begins();
                    self.perform(op, buffer);
                    found.done();
                    pass(index);
                }
                Step::Lock(lock) | Step::Share(lock) => {
                    let shares = matches!(step, Step::Share(_));
                    held.extend(causes.locks[lock as usize].take(shares, scale).map(|having| (lock, having)));
                }
                Step::Unlock(lock) => drop(held.remove(&lock)),
            }
        }
        if let Some(last) = thread.ops.len().checked_sub(1).filter(|_| !is_stopped()) {
            pass(last as u32);
        }
        attach::thread_ends();
        found.cpu = thread_cpu();
        found
    }
}
