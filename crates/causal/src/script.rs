//! What threads do.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

/// What a thread does while it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// It sleeps until it is woken.
    Sleep,
    /// It looks again and again, and gives its CPU away in between (sched_yield(2)), as ranks of Open MPI do.
    Yield,
    /// It looks again and again.
    Spin,
}

impl Style {
    /// The name in a trail.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Yield => "yield",
            Self::Spin => "spin",
        }
    }

    /// The style of a name in a trail.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Sleep, Self::Yield, Self::Spin].into_iter().find(|style| style.name() == name)
    }
}

/// One thing that a thread does. Times are ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Is on a CPU for so long.
    Compute(i64),
    /// Does nothing for so long: it sleeps, or waits for a timer.
    Rest(i64),
    /// Goes on when all signals of an edge have been given, or after so long.
    Timeout(u32, i64),
    /// Whoever gives a signal of this edge does until then what it would do after its timeouts: they end.
    Hurry(u32),
    /// Does the operation of this index, of those of its thread.
    Io(u32),
    /// Gives one of the signals of an edge.
    Signal(u32),
    /// Goes on when all signals of an edge have been given.
    Wait(u32, Style),
    /// Looks whether all signals of an edge have been given, and again after each so many ns, until they have.
    Poll(u32, i64),
    /// Goes on when it has a lock, which no other has meanwhile.
    Lock(u32),
    /// Goes on when it has a lock, which no other has but those that share it.
    Share(u32),
    /// Gives the lock back.
    Unlock(u32),
}

/// What one thread does, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Its steps.
    pub steps: Vec<Step>,
}

/// What all threads do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scripts {
    /// By number of the thread.
    pub threads: Vec<Script>,
    /// How many signals each edge has: as many as there are steps [`Step::Signal`] of it.
    pub signals: Vec<u32>,
    /// How many locks there are.
    pub locks: u32,
    /// Locks that threads try for, and sleep before they try again.
    pub tried: BTreeMap<u32, Pauses>,
}

/// How long threads sleep before they try for a lock again that another one had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pauses(Vec<i64>);

impl Pauses {
    /// From the first to the last, ns, which then comes again and again; none without any that takes time.
    #[must_use]
    pub fn new(mut pauses: Vec<i64>) -> Option<Self> {
        pauses.retain(|pause| *pause > 0);
        (!pauses.is_empty()).then_some(Self(pauses))
    }

    /// The one after so many.
    ///
    /// # Panics
    /// Never: there is at least one.
    #[must_use]
    pub fn at(&self, number: usize) -> i64 {
        self.0[number.min(self.0.len() - 1)]
    }

    /// How long after the first try the first one is that isn't before `elapsed`, ns, if tries take no time.
    #[must_use]
    pub fn until(&self, elapsed: i64) -> i64 {
        let mut at = 0;
        for pause in &self.0 {
            if at >= elapsed {
                return at;
            }
            at = at.saturating_add(*pause);
        }
        let last = self.at(self.0.len());
        let rest = elapsed.saturating_sub(at).max(0);
        at.saturating_add(rest.saturating_add(last - 1) / last * last)
    }
}

impl Scripts {
    /// Threads that give the signals of edges for which others hurry them ([`Step::Hurry`]), and with which of their steps.
    #[must_use]
    pub fn hurried_by(&self) -> HashMap<u32, Vec<(u32, u32)>> {
        let steps = || {
            self.threads.iter().zip(0..).flat_map(|(script, thread)| {
                script.steps.iter().zip(0..).map(move |(step, at)| (thread, at, *step))
            })
        };
        let mut found: HashMap<u32, Vec<(u32, u32)>> = steps()
            .filter_map(
                |(.., step)| if let Step::Hurry(edge) = step { Some((edge, Vec::new())) } else { None },
            )
            .collect();
        for (thread, at, step) in steps() {
            if let Step::Signal(edge) = step
                && let Some(givers) = found.get_mut(&edge)
            {
                givers.push((thread, at));
            }
        }
        found
    }
}

/// What is known of a thread's steps. All times are ns.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// When its operations began, in their order.
    pub ops: Vec<i64>,
    /// When it gave signals, and of which edges.
    pub signals: Vec<(i64, u32)>,
    /// When it went on after a wait.
    pub waits: Vec<Waited>,
    /// When it began to compute, and how long it was on a CPU.
    pub computed: Vec<(i64, i64)>,
    /// When it got locks, or shared or gave them back: those steps.
    pub locks: Vec<(i64, Step)>,
    /// When it found what it had looked for again and again: that step.
    pub polls: Vec<(i64, Step)>,
    /// From when to when it only looked for that: what it began then isn't done.
    pub left_out: Vec<Range<i64>>,
    /// Times that it is to rest besides: after what it did until then, before it gives signals, and how long. Nothing that was recorded.
    pub rests: Vec<(i64, i64)>,
}

/// A wait of a thread.
#[derive(Clone, Copy, Debug)]
pub struct Waited {
    /// When it began, and how long it took, ns.
    pub start: i64,
    /// See above.
    pub dur: i64,
    /// What for.
    pub reason: Reason,
}

/// Why a thread waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// For signals.
    Edge(u32, Style),
    /// For signals of one that a timeout had woken by chance just then.
    Chance(u32, Style),
    /// For a time to pass.
    Timer,
    /// For signals, so long at most.
    Timeout(u32),
    /// For a lock, which it contends for again.
    Lock,
    /// That isn't known.
    Unknown,
}

impl Recorded {
    /// When it did something first.
    #[must_use]
    pub fn first(&self) -> Option<i64> {
        let firsts = [
            self.ops.first().copied(),
            self.signals.iter().map(|signal| signal.0).min(),
            self.waits.iter().map(|wait| wait.start).min(),
            self.computed.iter().map(|one| one.0).min(),
        ];
        firsts.into_iter().flatten().min()
    }

    /// When it had done all.
    #[must_use]
    pub fn last(&self) -> Option<i64> {
        let lasts = [
            self.ops.last().copied(),
            self.signals.iter().map(|signal| signal.0).max(),
            self.waits.iter().map(|wait| wait.start + wait.dur).max(),
            self.computed.iter().map(|one| one.0 + one.1).max(),
        ];
        lasts.into_iter().flatten().max()
    }

    /// Its steps. A thread that waits for nobody at first begins so long after `zero`. What it waited for unknown reasons takes no
    /// time, unless `fixed`: then as much as it took.
    #[must_use]
    pub fn script(&self, zero: i64, fixed: bool) -> Script {
        // at equal times: what ended, then what goes on until the next call, then rests, then what a call begins with, then the call
        let mut steps: Vec<(i64, u8, Step)> = Vec::new();
        let is_done = |at: &i64| !self.left_out.iter().any(|left| left.contains(at));
        for wait in self.waits.iter().filter(|wait| is_done(&wait.start)) {
            let step = match wait.reason {
                Reason::Edge(edge, style) => Step::Wait(edge, style),
                Reason::Chance(edge, style) => {
                    steps.push((wait.start + wait.dur, 0, Step::Hurry(edge)));
                    Step::Wait(edge, style)
                }
                Reason::Timer => Step::Rest(wait.dur),
                Reason::Timeout(edge) => Step::Timeout(edge, wait.dur),
                Reason::Unknown if fixed => Step::Rest(wait.dur),
                Reason::Lock | Reason::Unknown => continue,
            };
            steps.push((wait.start + wait.dur, 0, step));
        }
        steps.extend(self.polls.iter().map(|(at, step)| (*at, 0, *step)));
        let of_calls = self.computed.iter().map(|(at, cpu)| (*at, 1, Step::Compute(*cpu)));
        let signals = self.signals.iter().map(|(at, edge)| (*at, 3, Step::Signal(*edge)));
        let rests = self.rests.iter().map(|(at, dur)| (*at, 2, Step::Rest(*dur)));
        let ops = self.ops.iter().zip(0..).map(|(at, index)| (*at, 4, Step::Io(index)));
        steps.extend(of_calls.chain(signals).chain(rests).chain(ops).filter(|(at, ..)| is_done(at)));
        let is_last = |step: &Step| if matches!(step, Step::Unlock(_)) { 3 } else { 0 };
        steps.extend(self.locks.iter().map(|(at, step)| (*at, is_last(step), *step)));
        steps.sort_by_key(|(at, class, _)| (*at, *class));
        let mut held = HashSet::new();
        // A lock that is taken again is recursive, one that is given back without was taken before the recording saw it.
        let is_possible = |step: &Step| match step {
            Step::Lock(lock) | Step::Share(lock) => held.insert(*lock),
            Step::Unlock(lock) => held.remove(lock),
            _ => true,
        };
        let mut steps: Vec<Step> = steps.into_iter().map(|(.., step)| step).filter(is_possible).collect();
        if let (Some(first), Some(step)) = (self.first(), steps.first())
            && !matches!(step, Step::Wait(..))
            && first > zero
        {
            steps.insert(0, Step::Rest(first - zero));
        }
        Script { steps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tries_come_after_pauses_of_which_the_last_comes_again() {
        let pauses = Pauses::new(vec![10, 0, 30]).expect("two that take time");
        assert_eq!(
            [0, 1, 10, 11, 40, 41, 70, 71].map(|elapsed| pauses.until(elapsed)),
            [0, 10, 10, 40, 40, 70, 70, 100]
        );
        assert_eq!(pauses.at(7), 30);
        assert_eq!(Pauses::new(vec![0, -1]), None);
        // times that no run has
        assert_eq!(Pauses::new(vec![i64::MAX, i64::MAX]).expect("pauses").until(i64::MAX), i64::MAX);
    }
}
