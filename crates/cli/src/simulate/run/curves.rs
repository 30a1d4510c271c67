//! How much each file, call, rank and mutex would bring if it took less time.
//!
//! Coz (Curtsinger and Berger, "Coz: Finding code that counts with causal profiling", SOSP 2015) asks this of lines of code by slowing all
//! others down. Here the run is simulated, so that what is asked about takes less time itself.

use std::collections::{BTreeMap, HashMap};

use iotrail_causal::{Activity, Evaluated, Scripts, Step};
use iotrail_replay::LockId;
use serde::Serialize;

use super::Situation;
use crate::failure::Failure;

/// Factors on its time.
const FACTORS: [f64; 4] = [0.75, 0.5, 0.25, 0.0];
/// The least share of the critical path that is asked about: what isn't on it hardly brings anything.
const SHARE: f64 = 0.01;
/// Curves of each kind, at most.
const MOST: usize = 10;

/// What takes less time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(super) enum By {
    /// Calls on a file.
    File,
    /// Calls of a name.
    Call,
    /// Calls and computing of a rank.
    Rank,
    /// Computing with a mutex.
    Lock,
}

/// A file, call, rank or mutex.
#[derive(Debug, Serialize)]
pub(super) struct Curve {
    by: By,
    /// Its number on standard input; of mutexes from 0.
    number: i64,
    /// What lock.
    lock: Option<LockId>,
    /// Its part of the critical path, ns.
    path_ns: i64,
    /// Factor on its time, and how long the run would take, ns.
    points: Vec<(f64, i64)>,
}

/// The mutexes that a thread has while it computes.
pub(super) struct Held(Vec<HashMap<usize, Vec<u32>>>);

impl Held {
    pub(super) fn of(scripts: &Scripts) -> Self {
        let of_thread = |script: &iotrail_causal::Script| {
            let (mut holds, mut held) = (Vec::new(), HashMap::new());
            for (at, step) in script.steps.iter().enumerate() {
                match step {
                    Step::Lock(lock) | Step::Share(lock) => holds.push(*lock),
                    Step::Unlock(lock) => holds.retain(|one| one != lock),
                    Step::Compute(_) if !holds.is_empty() => {
                        held.insert(at, holds.clone());
                    }
                    _ => {}
                }
            }
            held
        };
        Self(scripts.threads.iter().map(of_thread).collect())
    }

    /// Those of a step of a thread.
    fn at(&self, thread: usize, step: usize) -> &[u32] {
        self.0[thread].get(&step).map_or(&[], Vec::as_slice)
    }

    pub(super) fn any(&self, thread: usize, step: usize) -> bool {
        !self.at(thread, step).is_empty()
    }
}

/// Gives each computation of a thread (first) in a step (second) a factor.
pub(super) fn scale_compute(scripts: &mut Scripts, factor: impl Fn(usize, usize) -> f64) {
    for (thread, script) in scripts.threads.iter_mut().enumerate() {
        for (at, step) in script.steps.iter_mut().enumerate() {
            if let Step::Compute(time) = step {
                *time = (*time as f64 * factor(thread, at)) as i64;
            }
        }
    }
}

/// Those that have a part of the critical path, the largest of each kind that is asked for.
pub(super) fn curves(
    case: &Situation<'_>,
    scripts: &Scripts,
    locks: &[LockId],
    asked: &[By],
) -> Result<Vec<Curve>, Failure> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let held = Held::of(scripts);
    let found = case.evaluate(scripts, &case.calls.durs)?;
    let mut curves = Vec::new();
    let mut count: BTreeMap<By, usize> = BTreeMap::new();
    let mut parts: Vec<((By, i64), i64)> = parts(case, scripts, &held, &found).into_iter().collect();
    parts.retain(|((by, _), _)| asked.contains(by));
    parts.sort_by_key(|((by, number), time)| (*by, -time, *number));
    for ((by, number), path_ns) in parts {
        let count = count.entry(by).or_default();
        if (path_ns as f64) < SHARE * found.elapsed as f64 || *count >= MOST {
            continue;
        }
        *count += 1;
        let mut points = Vec::new();
        for factor in FACTORS {
            points.push((factor, elapsed(case, scripts, &held, (by, number), factor)?));
        }
        let lock = (by == By::Lock).then(|| locks[number as usize].clone());
        curves.push(Curve { by, number, lock, path_ns, points });
    }
    Ok(curves)
}

/// The critical path by what it consists of, ns.
fn parts(
    case: &Situation<'_>,
    scripts: &Scripts,
    held: &Held,
    found: &Evaluated,
) -> BTreeMap<(By, i64), i64> {
    let mut parts = BTreeMap::new();
    for segment in &found.path {
        let (thread, step) = (segment.thread as usize, segment.step as usize);
        let mut add = |by, number: i64| {
            if number >= 0 {
                *parts.entry((by, number)).or_default() += segment.to - segment.from;
            }
        };
        match (segment.activity, &scripts.threads[thread].steps[step]) {
            (Activity::Io, Step::Io(op)) => {
                add(By::File, case.calls.files[thread][*op as usize]);
                add(By::Call, case.calls.names[thread][*op as usize]);
                add(By::Rank, case.calls.ranks[thread]);
            }
            (Activity::Compute, _) => {
                add(By::Rank, case.calls.ranks[thread]);
                for lock in held.at(thread, step) {
                    add(By::Lock, i64::from(*lock));
                }
            }
            _ => {}
        }
    }
    parts
}

/// How long the run would take with a factor on the time of one of them, ns.
fn elapsed(
    case: &Situation<'_>,
    scripts: &Scripts,
    held: &Held,
    (by, number): (By, i64),
    factor: f64,
) -> Result<i64, Failure> {
    let calls = case.calls;
    let is_meant = |thread: usize, op: usize| match by {
        By::File => calls.files[thread][op] == number,
        By::Call => calls.names[thread][op] == number,
        By::Rank => calls.ranks[thread] == number,
        By::Lock => false,
    };
    let mut durs = calls.durs.clone();
    for (thread, durs) in durs.iter_mut().enumerate() {
        for (op, dur) in durs.iter_mut().enumerate().filter(|(op, _)| is_meant(thread, *op)) {
            *dur = (calls.durs[thread][op] as f64 * factor) as i64;
        }
    }
    let mut scripts = scripts.clone();
    scale_compute(&mut scripts, |thread, step| match by {
        By::Rank if calls.ranks[thread] == number => factor,
        By::Lock if held.at(thread, step).iter().any(|lock| i64::from(*lock) == number) => factor,
        _ => 1.0,
    });
    Ok(case.evaluate(&scripts, &durs)?.elapsed)
}
