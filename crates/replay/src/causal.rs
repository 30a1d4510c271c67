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

    fn signal(&self) {
        if self.left.fetch_sub(1, SeqCst) == 1 && self.sleepers.load(SeqCst) != 0 {
            futex(&self.left, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX as u32, None);
        }
    }

    fn is_open(&self) -> bool {
        self.left.load(SeqCst) == 0
    }

    /// Waits until a moment at most.
    fn wait_until(&self, moment: i64) {
        self.sleepers.fetch_add(1, SeqCst);
        loop {
            let (left, time) = (self.left.load(SeqCst), moment - now());
            if left == 0 || time <= 0 || is_stopped() {
                break;
            }
            let nap = libc::timespec { tv_sec: 0, tv_nsec: time.min(NAP) };
            futex(&self.left, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, left, Some(&nap));
        }
        self.sleepers.fetch_sub(1, SeqCst);
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

/// What threads wait for.
pub(crate) struct Causes {
    edges: Vec<Edge>,
    locks: Vec<Lock>,
}

impl Causes {
    /// Of some scripts.
    pub(crate) fn of(scripts: &Scripts) -> Self {
        Self {
            edges: scripts.signals.iter().map(|signals| Edge::new(*signals)).collect(),
            locks: Lock::all(scripts),
        }
    }

    /// A signal of an edge is given.
    pub(crate) fn signal(&self, edge: u32) {
        self.edges[edge as usize].signal();
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
        for step in &script.steps {
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
                    causes.edges[edge as usize].wait_until(now() + (time as f64 * scale) as i64);
                }
                Step::Signal(edge) => {
                    causes.signal(edge);
                    if let Some(links) = self.links {
                        links.signal(edge);
                    }
                }
                Step::Wait(..) | Step::Lock(_) | Step::Share(_) if self.options.mode == Mode::Compute => {}
                Step::Wait(edge, style) => found.waited += u64::from(causes.edges[edge as usize].wait(style)),
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
                    self.progress[number].advance(index);
                    if let Some(links) = self.links {
                        links.done(OpRef { thread: number as u32, index });
                    }
                }
                Step::Lock(lock) => {
                    held.insert(lock, causes.locks[lock as usize].take());
                }
                Step::Share(lock) => {
                    held.insert(lock, causes.locks[lock as usize].share());
                }
                Step::Unlock(lock) => drop(held.remove(&lock)),
            }
        }
        attach::thread_ends();
        found.cpu = thread_cpu();
        found
    }
}
