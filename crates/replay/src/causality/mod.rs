//! What a trail says of who waited for whom, for each thread of a plan.

mod files;
mod locks;
mod processes;
mod searches;
mod windows;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use iotrail_causal::{Pauses, Reason, Recorded, Scripts, Step, Style, Waited};
use iotrail_format::schema::{COMPUTE, SIGNAL, THREAD, WAIT};
use iotrail_trail::TrailReader;

pub use locks::LockId;
use locks::{Contended, Locking, read_locks};
use processes::Life;
use searches::Searches;

use crate::Error;
use crate::plan::{Plan, Thread};

/// Kind of waits for a semaphore.
const SEMAPHORE: &str = "semaphore";
/// Kind of waits for a lock.
const LOCK: &str = "lock";
/// Kind of edges of files that are looked for.
const NAME: &str = "name";
/// Kinds of waits in which threads and processes begin, and for their ends.
const BEGIN: &str = "begin";
const END: &str = "end";
/// Kinds of waits for a time.
const TIMERS: [&str; 3] = ["sleep", "timer", "start"];

/// What each thread of a plan did, by its number.
#[derive(Clone, Debug, Default)]
pub struct Causality {
    /// Times are those of the plan.
    pub recorded: Vec<Recorded>,
    /// How many edges there are.
    pub edges: u32,
    /// Its locks, by their numbers.
    pub locks: Vec<LockId>,
    /// Those that threads try for.
    pub tried: BTreeMap<u32, Pauses>,
    /// Of each thread when it had, and gave back, locks that are not contended for, with numbers above those.
    pub others: Locking,
}

/// Reads it. Threads without operations are added to the plan.
///
/// # Errors
/// [`Error::Trail`] if the trail can't be read, [`Error::NoCausality`] if it was recorded without.
pub(crate) fn read(trail: &Path, reader: &TrailReader, plan: &mut Plan) -> Result<Causality, Error> {
    let zero = plan.zero;
    let computed = reader.small(&COMPUTE, &["thread", "ts", "dur", "cpu_ns", "call_cpu_ns"], &[])?;
    if computed.is_empty() {
        return Err(Error::NoCausality { path: trail.to_owned() });
    }
    let mut number_of: HashMap<i64, usize> =
        plan.threads.iter().enumerate().map(|(number, thread)| (thread.id, number)).collect();
    let mut recorded: Vec<Recorded> = plan
        .threads
        .iter()
        .map(|thread| {
            let ops = thread.ops.iter().map(|op| op.start).collect();
            Recorded { ops, ..Recorded::default() }
        })
        .collect();
    let mut edges: HashMap<i64, u32> = HashMap::new();
    let mut edge_of = |id: i64| {
        let next = edges.len() as u32;
        *edges.entry(id).or_insert(next)
    };
    let mut number = |id: i64, recorded: &mut Vec<Recorded>| {
        *number_of.entry(id).or_insert_with(|| {
            plan.threads.push(Thread { id, ..Thread::default() });
            recorded.push(Recorded::default());
            recorded.len() - 1
        })
    };
    for row in computed {
        if let [Some(thread), Some(ts), dur, cpu, in_call] = row.ints[..]
            && let Some(cpu) = cpu.or(dur)
        {
            let at = number(thread, &mut recorded);
            recorded[at].computed.push((ts - zero, cpu + in_call.unwrap_or(0)));
        }
    }
    let mut searches = Searches::default();
    for row in reader.small(&SIGNAL, &["thread", "ts", "edge"], &["kind"])? {
        if let [Some(thread), Some(ts), Some(edge)] = row.ints[..] {
            let at = number(thread, &mut recorded);
            recorded[at].signals.push((ts - zero, edge_of(edge)));
            if row.texts[0].as_deref() == Some(NAME) {
                searches.add_edge(edge_of(edge));
            }
        }
    }
    // of each thread's waits, whether they are for a semaphore
    let mut on_semaphores: Vec<Vec<bool>> = Vec::new();
    // threads and ends of waits for locks
    let mut for_locks = HashSet::new();
    let mut lives = Vec::new();
    // in the order of time
    for row in reader.small(&WAIT, &["thread", "ts", "dur", "edge", "until_edge"], &["kind", "style"])? {
        let [Some(thread), Some(ts), Some(dur), edge, until] = row.ints[..] else { continue };
        let kind = row.texts[0].as_deref().unwrap_or_default();
        let style = row.texts[1].as_deref().and_then(Style::from_name).unwrap_or(Style::Sleep);
        let reason = match edge {
            Some(edge) => Reason::Edge(edge_of(edge), style),
            None if let Some(edge) = until => Reason::Timeout(edge_of(edge)),
            None if TIMERS.contains(&kind) => Reason::Timer,
            None => Reason::Unknown,
        };
        let at = number(thread, &mut recorded);
        recorded[at].waits.push(Waited { start: ts - zero, dur, reason });
        for edge in [edge, until].into_iter().flatten() {
            searches.add_wait(at, edge_of(edge), (ts - zero, dur), kind);
        }
        if let (BEGIN | END, Some(edge)) = (kind, edge) {
            let end = ts - zero + dur;
            lives.push(Life { thread: at, end, edge: edge_of(edge), begins: kind == BEGIN });
        }
        if kind == LOCK {
            for_locks.insert((at, ts - zero + dur));
        }
        on_semaphores.resize(recorded.len(), Vec::new());
        on_semaphores[at].push(kind == SEMAPHORE);
    }
    on_semaphores.resize(recorded.len(), Vec::new());
    mark_chance(&mut recorded, &on_semaphores);
    let mut process_of = HashMap::new();
    for row in reader.small(&THREAD, &["thread", "process"], &[])? {
        if let [Some(thread), Some(process)] = row.ints[..] {
            process_of.insert(thread, process);
        }
    }
    let processes = number_of.iter().filter_map(|(id, number)| Some((*number, *process_of.get(id)?)));
    processes::add(&mut recorded, &lives, &processes.collect());
    let Contended { locks, tried, others } =
        read_locks(reader, &number_of, &process_of, &mut recorded, &for_locks, zero)?;
    searches.leave_out(&mut recorded);
    Ok(Causality { recorded, edges: edges.len() as u32, locks, tried, others })
}

/// Finds waits that a thread had to do by chance: for a semaphore that another one posted whom a timeout had woken a moment before, as a lock is
/// passed on that is made of semaphores. Had it come earlier or later, the other would have slept.
///
/// Not by chance is what began before the other woke: that waited for the timeout; and what another thread had asked for meanwhile.
fn mark_chance(recorded: &mut [Recorded], on_semaphores: &[Vec<bool>]) {
    // of each thread when it went on after waits that are not for semaphores, and whether those were timeouts
    let woken: Vec<Vec<(i64, bool)>> = recorded
        .iter()
        .zip(on_semaphores)
        .map(|(one, on_semaphores)| {
            let others = one.waits.iter().zip(on_semaphores).filter(|(_, on)| !**on).map(|(wait, _)| wait);
            let mut woken: Vec<(i64, bool)> = others
                .map(|wait| (wait.start + wait.dur, matches!(wait.reason, Reason::Timeout(_))))
                .collect();
            woken.sort_unstable();
            woken
        })
        .collect();
    let mut signals: HashMap<u32, Vec<(usize, i64)>> = HashMap::new();
    for (thread, one) in recorded.iter().enumerate() {
        for (ts, edge) in &one.signals {
            signals.entry(*edge).or_default().push((thread, *ts));
        }
    }
    let is_chance = |wait: &Waited, edge: u32| {
        let Some([(giver, ts)]) = signals.get(&edge).map(Vec::as_slice) else { return false };
        let before = woken[*giver].partition_point(|(end, _)| end <= ts);
        let last = before.checked_sub(1).map(|at| woken[*giver][at]);
        last.is_some_and(|(end, is_timeout)| is_timeout && (end..=*ts).contains(&wait.start))
    };
    let mut found: HashMap<u32, bool> = HashMap::new();
    for (one, on_semaphores) in recorded.iter().zip(on_semaphores) {
        for (wait, on_semaphore) in one.waits.iter().zip(on_semaphores) {
            if let Reason::Edge(edge, _) = wait.reason {
                let all = found.entry(edge).or_insert(true);
                *all = *all && *on_semaphore && is_chance(wait, edge);
            }
        }
    }
    for wait in recorded.iter_mut().flat_map(|one| &mut one.waits) {
        if let Reason::Edge(edge, style) = wait.reason
            && found.get(&edge) == Some(&true)
        {
            wait.reason = Reason::Chance(edge, style);
        }
    }
}

impl Causality {
    /// From when the first thread did something to when the last had, ns.
    #[must_use]
    pub fn length(&self) -> i64 {
        let ends = self.recorded.iter().filter_map(Recorded::last);
        ends.max().unwrap_or(0) - self.zero()
    }

    fn zero(&self) -> i64 {
        self.recorded.iter().filter_map(Recorded::first).min().unwrap_or(0)
    }

    /// Scripts of the threads, by their numbers. What they waited for unknown reasons takes no time, unless `fixed`.
    #[must_use]
    pub fn scripts(&self, fixed: bool) -> Scripts {
        let zero = self.zero();
        let threads: Vec<_> = self.recorded.iter().map(|one| one.script(zero, fixed)).collect();
        let mut signals = vec![0; self.edges as usize];
        for step in threads.iter().flat_map(|script| &script.steps) {
            if let Step::Signal(edge) = step {
                signals[*edge as usize] += 1;
            }
        }
        Scripts { threads, signals, locks: self.locks.len() as u32, tried: self.tried.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_meets_a_thread_that_a_timeout_woke_meets_it_by_chance() {
        // the second thread wakes at 100 and posts at 110
        let chance = |start: i64, between: Option<(i64, Reason)>, on_semaphore: bool| {
            let wait = |start, dur, reason| Waited { start, dur, reason };
            let mut waits = vec![wait(0, 100, Reason::Timeout(7))];
            waits.extend(between.map(|(at, reason)| wait(at, 2, reason)));
            let on: Vec<bool> = waits.iter().map(|wait| matches!(wait.reason, Reason::Edge(8, _))).collect();
            let mut recorded = [
                Recorded {
                    waits: vec![wait(start, 120 - start, Reason::Edge(1, Style::Sleep))],
                    ..Recorded::default()
                },
                Recorded { waits, signals: vec![(110, 1)], ..Recorded::default() },
            ];
            mark_chance(&mut recorded, &[vec![on_semaphore], on]);
            matches!(recorded[0].waits[0].reason, Reason::Chance(1, Style::Sleep))
        };
        assert!(chance(105, None, true));
        assert!(chance(105, Some((101, Reason::Edge(8, Style::Sleep))), true), "a semaphore itself");
        assert!(!chance(90, None, true), "it waited for the timeout");
        assert!(!chance(115, None, true), "it had not to wait");
        assert!(!chance(105, None, false), "no semaphore");
        assert!(!chance(105, Some((101, Reason::Edge(9, Style::Sleep))), true), "somebody asked for it");
    }
}
