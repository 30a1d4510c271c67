//! The watchdog of a run with paused threads (//TRACE, FAST 2007, section 4.1.2): it sees when nothing moves any more.
//!
//! A node is stuck when it has not moved for longer than it took at this place in the run without pauses, and [`MARGIN`]. What it waited
//! for a CPU doesn't count (`/proc/PID/task/TID/schedstat`), so that spinning threads may share cores. A thread asleep in a call that waits
//! for another one is stuck after [`MARGIN`]. Before a snapshot all are given as long again: who moves then was slow, and the
//! thresholds too small, which is counted.

use std::process::{Child, ExitStatus};
use std::time::Duration;

use iotrail_causal::Style;
use iotrail_causal::throttle::{Doing, Releases, Run, Snapshot, State};
use iotrail_format::call::WaitKind;
use iotrail_format::throttle::NodeState;
use iotrail_trail::seal::clock::clock_ns;

use super::free::FreeRun;
use super::page::{Page, Seen};
use crate::host::Host;
use crate::human;
use crate::sampler::read_times;

/// What a node is given besides what it took before, ns: timers, wake-ups.
const MARGIN: u64 = 5_000_000;
/// What a pause takes at least, ns: all that aren't paused are given [`MARGIN`] twice.
pub const LEAST_PAUSE: u64 = 2 * MARGIN;
/// Threads without operations, which may pass on what others wait for, are given this, ns.
const BYSTANDER: u64 = 4 * MARGIN;
/// Between two looks.
const TICK: Duration = Duration::from_micros(500);
/// A snapshot is taken unsettled after this many times what all are given, and at least [`LEAST_LIMIT`] ns.
const LIMIT: u64 = 20;
/// See above.
const LEAST_LIMIT: u64 = 10_000_000_000;
/// A run hangs if nothing moves, and nobody is paused, for so many times the length of the run without pauses, and [`HANG`] ns.
pub const HANG_TIMES: u64 = 5;
/// See above.
pub const HANG: u64 = 10_000_000_000;

/// Pauses between two lines on the terminal.
const SHOWN: usize = 16;

/// How a run ended.
pub enum End {
    /// The program ended.
    Exited(ExitStatus),
    /// Nothing moved any more.
    Hung,
    /// A signal asks to stop.
    Interrupted(i32),
}

/// What the watchdog saw.
pub struct Watched {
    /// For the analysis.
    pub run: Run,
    /// How it ended.
    pub end: End,
}

/// What is known of a node in this run.
#[derive(Clone, Default)]
struct Node {
    slot: Option<usize>,
    seen: Option<Seen>,
    is_gone: bool,
    /// CPU time and time without one when all became quiet, ns.
    base: (u64, u64),
    /// Whether it was in one call that waits for somebody since then.
    has_waited: bool,
}

impl Node {
    fn is_paused(&self) -> bool {
        self.seen.is_some_and(|seen| seen.is_paused())
    }

    fn is_ended(&self) -> bool {
        self.is_gone || self.seen.is_some_and(|seen| seen.state == NodeState::Ended)
    }

    fn times(&self) -> Option<(u64, u64)> {
        let seen = self.seen?;
        read_times(format!("/proc/{}/task/{}/schedstat", seen.pid, seen.tid).as_ref())
    }

    /// What changes when it moves.
    fn place(&self) -> (Option<u32>, bool, bool) {
        (self.seen.map(|seen| seen.done), self.is_paused(), self.is_ended())
    }
}

/// A run being watched.
pub struct Watchdog<'a> {
    page: &'a Page,
    free: &'a FreeRun,
    period: u32,
    /// How many times of what it took a node is given in all; at least 2.
    scale: u64,
    /// Nodes first, in their order, then threads without operations.
    nodes: Vec<Node>,
    run: Run,
    /// Whether all have been quiet for longer than they are given.
    is_over: bool,
    /// How the run is called on a terminal, and about how many pauses it has.
    shown: Option<(String, u64)>,
}

impl<'a> Watchdog<'a> {
    /// Before the program starts.
    pub fn new(page: &'a Page, free: &'a FreeRun, period: u32, scale: u64) -> Self {
        let nodes = vec![Node::default(); free.nodes.len()];
        let run = Run { period, ..Run::default() };
        Self { page, free, period, scale, nodes, run, is_over: false, shown: None }
    }

    /// Shows on the terminal how far it is, of about so many pauses.
    pub fn show(mut self, what: &str, pauses: u64) -> Self {
        self.shown = Some((what.to_owned(), pauses));
        self
    }

    /// Until the program ends.
    pub fn watch(
        mut self,
        child: &mut Child,
        host: &Host,
        releases: &mut Releases,
    ) -> std::io::Result<Watched> {
        let mut quiet: Option<u64> = None;
        let mut moved_at = now();
        let end = loop {
            self.page.beat();
            if let Some(status) = child.try_wait()? {
                break End::Exited(status);
            }
            if let Some(signal) = host.next_signal(TICK) {
                break End::Interrupted(signal);
            }
            if self.refresh() {
                quiet = None;
                moved_at = now();
                continue;
            }
            let Some(since) = quiet else {
                quiet = Some(now());
                self.note_base();
                continue;
            };
            let elapsed = now() - since;
            let (is_settled, given) = self.look(elapsed);
            let is_any_paused = self.nodes.iter().any(Node::is_paused);
            if !is_any_paused {
                if now() - moved_at > HANG + HANG_TIMES * self.free.length {
                    break End::Hung;
                }
                continue;
            }
            if is_settled || elapsed > LEAST_LIMIT.max(LIMIT * given) {
                self.snapshot(is_settled, elapsed, releases);
                quiet = None;
                moved_at = now();
            }
        };
        self.refresh();
        self.finish(matches!(end, End::Exited(_)));
        Ok(Watched { run: self.run, end })
    }

    /// Reads the page. Whether something moved.
    fn refresh(&mut self) -> bool {
        let seen = self.page.read();
        for (slot, seen) in seen.iter().enumerate().filter(|(_, seen)| seen.lineage != 0) {
            if !self.nodes.iter().any(|node| node.slot == Some(slot)) {
                let number = self.free.number_of(seen.lineage).filter(|at| self.nodes[*at].slot.is_none());
                let at = number.unwrap_or_else(|| {
                    self.nodes.push(Node::default());
                    self.nodes.len() - 1
                });
                self.nodes[at].slot = Some(slot);
            }
        }
        let mut has_moved = false;
        for node in &mut self.nodes {
            let before = node.place();
            let Some(now) = node.slot.map(|slot| seen[slot]) else { continue };
            node.has_waited &= waits_for_somebody(&now);
            node.seen = Some(now);
            if node.place() != before {
                has_moved = true;
                self.run.late += u64::from(self.is_over);
            }
        }
        has_moved
    }

    /// All are quiet from now on.
    fn note_base(&mut self) {
        self.is_over = false;
        for node in &mut self.nodes {
            node.has_waited = node.seen.is_some_and(|seen| waits_for_somebody(&seen));
            match node.times() {
                Some(times) => node.base = times,
                None => node.is_gone = node.seen.is_some(),
            }
        }
    }

    /// What a node is given before it is stuck, ns.
    fn given(&self, number: usize, cpu: u64, elapsed: u64) -> u64 {
        let node = &self.nodes[number];
        if node.has_waited && cpu < elapsed / 4 {
            return MARGIN;
        }
        match (self.free.nodes.get(number), node.seen) {
            (Some(free), None) => MARGIN + free.absent,
            (Some(free), Some(seen)) => MARGIN + free.gap(seen.done),
            (None, _) => BYSTANDER,
        }
    }

    /// Whether nothing will move, and the longest that a node is given.
    fn look(&mut self, elapsed: u64) -> (bool, u64) {
        let (mut is_settled, mut longest) = (true, 0);
        let mut is_over = true;
        for number in 0..self.nodes.len() {
            let node = &self.nodes[number];
            if node.is_paused() || node.is_ended() {
                continue;
            }
            let shortest = self.given(number, 0, elapsed.max(4));
            if elapsed < shortest {
                (is_settled, is_over, longest) = (false, false, longest.max(shortest));
                continue;
            }
            let (cpu, delay) = match (node.seen, node.times()) {
                (None, _) => (0, 0),
                (Some(_), Some(times)) => {
                    (times.0 - node.base.0.min(times.0), times.1 - node.base.1.min(times.1))
                }
                (Some(_), None) => {
                    self.nodes[number].is_gone = true;
                    (is_settled, is_over) = (false, false);
                    continue;
                }
            };
            let given = self.given(number, cpu, elapsed);
            let effective = elapsed.saturating_sub(delay);
            is_over &= effective >= given;
            is_settled &= effective >= self.scale * given;
            longest = longest.max(given);
        }
        self.is_over = is_over;
        (is_settled, longest)
    }

    fn state(&self, number: usize, elapsed: u64) -> State {
        let node = &self.nodes[number];
        let Some(seen) = node.seen else { return State { done: 0, doing: Doing::Absent } };
        let doing = if node.is_ended() {
            Doing::Ended
        } else if node.is_paused() {
            Doing::Paused
        } else if seen.state == NodeState::Waiting && is_lock(seen.waits_for) {
            Doing::Contending
        } else {
            let (cpu, delay) = node.times().unwrap_or(node.base);
            let (cpu, delay) = (cpu.saturating_sub(node.base.0), delay.saturating_sub(node.base.1));
            let spins = cpu > elapsed.saturating_sub(delay) / 2;
            Doing::Stuck(if spins { Style::Spin } else { Style::Sleep })
        };
        State { done: seen.done, doing }
    }

    /// Takes a snapshot and releases a node.
    fn snapshot(&mut self, is_settled: bool, elapsed: u64, releases: &mut Releases) {
        let states: Vec<State> =
            (0..self.free.nodes.len()).map(|number| self.state(number, elapsed)).collect();
        let paused: Vec<(u32, u32)> = (0..)
            .zip(&states)
            .filter(|(_, state)| state.doing == Doing::Paused)
            .map(|(node, state)| (node, state.done))
            .collect();
        let released = releases.choose(&paused);
        if let Some(node) = released
            && let Some(slot) = self.nodes[node as usize].slot
        {
            self.page.allow(slot, states[node as usize].done.saturating_add(self.period));
        }
        self.is_over = false;
        self.run.snapshots.push(Snapshot { nodes: states, is_settled, released });
        if let Some((what, pauses)) = &self.shown
            && self.run.snapshots.len() % SHOWN == 1
        {
            eprint!(
                "\r\x1b[Kiotrail: {what}: {} of about {} pauses",
                human::count(self.run.snapshots.len() as u64),
                human::count(*pauses)
            );
        }
    }

    /// The end: what strayed.
    fn finish(&mut self, is_whole: bool) {
        let count = self.free.nodes.len();
        let states = self.nodes[..count].iter().map(|node| State {
            done: node.seen.map_or(0, |seen| seen.done),
            doing: if is_whole { Doing::Ended } else { Doing::Busy },
        });
        self.run.snapshots.push(Snapshot { nodes: states.collect(), is_settled: is_whole, released: None });
        self.run.strayed = (0..count)
            .map(|number| {
                let free = &self.free.nodes[number];
                self.nodes[number]
                    .seen
                    .is_none_or(|seen| seen.done != free.total || seen.signature != free.signature)
            })
            .collect();
    }
}

/// CLOCK_MONOTONIC, ns.
fn now() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

fn is_lock(kind: u32) -> bool {
    kind == WaitKind::Lock as u32 || kind == WaitKind::FileLock as u32
}

/// Whether it is in a call that returns when somebody else does something. Sleeps and polls may return without.
fn waits_for_somebody(seen: &Seen) -> bool {
    let by_itself = [WaitKind::Sleep, WaitKind::Poll, WaitKind::Signal, WaitKind::Mpi];
    seen.state == NodeState::Waiting && !by_itself.iter().any(|kind| *kind as u32 == seen.waits_for)
}
