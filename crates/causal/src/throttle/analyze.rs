//! From what was seen in runs to the dependencies between nodes.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Dependency, Doing, Found, OpTimes, Run, Snapshot};
use crate::script::Style;

/// Chance that is left to an edge to be one by accident, at most.
pub const CHANCE: f64 = 0.05;

/// What runs say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Analysis {
    /// Dependencies, direct and by others, in order.
    pub found: Vec<Found>,
    /// Of them those that were not seen singly: the taker waits for the giver elsewhere whenever that could be told.
    pub inferred: u32,
    /// Dependencies that one run shows and another contradicts: an order by chance, as of threads that share a queue.
    pub contradicted: u32,
    /// Dependencies that were seen too seldom to be told from a slow node.
    pub doubtful: u32,
    /// Waits of a node, by node and operation, of which some causes may be missing: more runs would tell.
    pub undecided: u32,
}

/// Evidence for a dependency.
struct Evidence {
    /// In how many runs it was seen.
    times: i32,
    within: u32,
}

/// What runs say of all dependencies. `totals` are the operations of each node, `free` their times in the run without pauses, which
/// contradicts as other runs do.
///
/// **The test.** A dependency is accepted that no run contradicts and that was seen more often than by accident. By accident it is
/// seen where the taker was slow and not stuck, and moved after the giver was released. Before each snapshot nodes are given as long
/// again; how many moved then, though nobody was released, is counted ([`Run::late`]), and as many will have moved later. Of m moves one is an
/// accident with p = (late + 1) / (m + 2). A dependency that was seen in t runs is accepted if that leaves no doubt of it,
/// pᵗ ≤ [`CHANCE`], nor of all together: late · pᵗ⁻¹ ≤ [`CHANCE`] accidents are expected among those seen t times.
///
/// **Several causes.** Of several nodes that one waits for only the last one is seen. The others are accepted for a pair of nodes
/// that is regular: wherever the taker waited and it could be told, the giver was a cause, at least twice; and if that holds in the whole
/// program but for [`CHANCE`]: with c such cases and e exceptions (e + 1) / (c + e + 2) ≤ [`CHANCE`]. Which cases can be told is
/// decided by random releases, so that they stand for the others. A barrier is regular, a queue is not. Such a cause is placed at the last
/// operation that no run contradicts. At a period over 1 that may be too late, and so nothing is concluded.
#[must_use]
pub fn analyze(runs: &[Run], totals: &[u32], free: &[OpTimes]) -> Analysis {
    let mut analysis = Analysis::default();
    let least = least_done(runs, totals, free);
    let mut seen: BTreeMap<Dependency, Evidence> = BTreeMap::new();
    // of each giver and taker, how often the taker was seen to spin, and to wait: one that has no CPU for a moment seems to sleep
    let mut spins: BTreeMap<(u32, u32), (u32, u32)> = BTreeMap::new();
    for run in runs {
        for (dependency, within, style) in moves(run) {
            let spins = spins.entry((dependency.giver, dependency.taker)).or_default();
            *spins = (spins.0 + u32::from(style == Style::Spin), spins.1 + 1);
            let evidence = seen.entry(dependency).or_insert(Evidence { times: 0, within });
            evidence.times += 1;
            evidence.within = evidence.within.min(within);
        }
    }
    let late: u64 = runs.iter().map(|run| run.late).sum();
    let moved: i32 = seen.values().map(|evidence| evidence.times).sum();
    let accident = (late + 1) as f64 / (f64::from(moved) + late as f64 + 2.0);
    let is_accident =
        |times: i32| accident.powi(times) > CHANCE || late as f64 * accident.powi(times - 1) > CHANCE;
    let mut accepted: BTreeMap<Dependency, (u32, Style)> = BTreeMap::new();
    for (dependency, evidence) in seen {
        let Dependency { giver, op, taker, before } = dependency;
        if least.of(giver, taker, before) <= op {
            analysis.contradicted += 1;
        } else if is_accident(evidence.times) {
            analysis.doubtful += 1;
        } else {
            let (spins, times) = spins[&(giver, taker)];
            let style = if 2 * spins > times { Style::Spin } else { Style::Sleep };
            accepted.insert(dependency, (evidence.within, style));
        }
    }
    infer(runs, &least, &mut accepted, &mut analysis);
    let found =
        |(dependency, (within, style)): (Dependency, (u32, Style))| Found { dependency, within, style };
    analysis.found = accepted.into_iter().map(found).collect();
    analysis
}

/// Of each giver, taker and operation of it: how many operations the giver had done at the least, of all runs, when the taker had got past it.
struct Least {
    /// By taker, operation and giver.
    done: Vec<Vec<Vec<u32>>>,
}

impl Least {
    fn of(&self, giver: u32, taker: u32, before: u32) -> u32 {
        let of = self.done.get(taker as usize).and_then(|ops| ops.get(before as usize));
        of.and_then(|givers| givers.get(giver as usize)).copied().unwrap_or(0)
    }
}

fn strayed(run: &Run, node: usize) -> bool {
    run.strayed.get(node).copied().unwrap_or(false)
}

fn least_done(runs: &[Run], totals: &[u32], free: &[OpTimes]) -> Least {
    let nodes = totals.len();
    let mut done: Vec<Vec<Vec<u32>>> =
        totals.iter().map(|total| vec![totals.to_vec(); *total as usize + 1]).collect();
    for (taker, times) in free.iter().enumerate().take(nodes) {
        let begins = times.ops.iter().map(|op| op.0).chain([times.end]);
        for (before, at) in begins.enumerate().take(totals[taker] as usize + 1) {
            for (giver, others) in free.iter().enumerate().take(nodes) {
                // what an operation does (a name that appears) may be seen before it returns
                let had = others.ops.partition_point(|op| op.0 <= at) as u32;
                let least = &mut done[taker][before][giver];
                *least = (*least).min(had);
            }
        }
    }
    for run in runs {
        let mut past = vec![0; nodes];
        for snapshot in &run.snapshots {
            for taker in (0..nodes).filter(|taker| !strayed(run, *taker)) {
                let state = snapshot.nodes[taker];
                let is_over = state.doing == Doing::Ended && state.done >= totals[taker];
                let now = (state.done + u32::from(is_over)).min(totals[taker] + 1);
                for before in past[taker]..now {
                    for giver in (0..nodes).filter(|giver| !strayed(run, *giver)) {
                        let least = &mut done[taker][before as usize][giver];
                        *least = (*least).min(snapshot.nodes[giver].done);
                    }
                }
                past[taker] = past[taker].max(now);
            }
        }
    }
    // who has got past a later one has got past the earlier ones
    for ops in &mut done {
        for before in (1..ops.len()).rev() {
            let (earlier, later) = ops.split_at_mut(before);
            for (earlier, later) in earlier[before - 1].iter_mut().zip(&later[0]) {
                *earlier = (*earlier).min(*later);
            }
        }
    }
    Least { done }
}

/// What moved after one node was released: once a run.
fn moves(run: &Run) -> Vec<(Dependency, u32, Style)> {
    let mut found = BTreeMap::new();
    for pair in run.snapshots.windows(2) {
        let [now, next] = pair else { continue };
        let Some(giver) = now.released.filter(|_| now.is_settled && next.is_settled) else { continue };
        let (from, to) = (now.nodes[giver as usize].done, next.nodes[giver as usize].done);
        // what it did before its next operation was done comes after the one before
        let (op, within) = if to > from { (Some(from), to - from - 1) } else { (from.checked_sub(1), 0) };
        let Some(op) = op.filter(|_| !strayed(run, giver as usize)) else { continue };
        if is_ambiguous(now, next) {
            continue;
        }
        for (taker, style) in moved(now, next) {
            if taker != giver && !strayed(run, taker as usize) {
                let before = now.nodes[taker as usize].done;
                found.insert(Dependency { giver, op, taker, before }, (within, style));
            }
        }
    }
    found.into_iter().map(|(dependency, (within, style))| (dependency, within, style)).collect()
}

/// Whether a node that had waited for a lock moved, or one began: then what moved may be its doing.
fn is_ambiguous(now: &Snapshot, next: &Snapshot) -> bool {
    let other = |was: Doing| matches!(was, Doing::Contending | Doing::Absent);
    now.nodes.iter().zip(&next.nodes).any(|(was, is)| other(was.doing) && was != is)
}

/// Nodes that were stuck and moved: they did an operation, came to it, or ended.
pub(super) fn moved<'a>(now: &'a Snapshot, next: &'a Snapshot) -> impl Iterator<Item = (u32, Style)> + 'a {
    (0..).zip(now.nodes.iter().zip(&next.nodes)).filter_map(|(node, (was, is))| match was.doing {
        Doing::Stuck(style) if is.done > was.done || matches!(is.doing, Doing::Paused | Doing::Ended) => {
            Some((node, style))
        }
        _ => None,
    })
}

/// What of a wait and a possible giver is known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Case {
    Cause,
    NoCause,
    Unknown(u32),
}

/// Adds the causes of regular pairs that were never the last one.
fn infer(
    runs: &[Run],
    least: &Least,
    accepted: &mut BTreeMap<Dependency, (u32, Style)>,
    analysis: &mut Analysis,
) {
    let together = seen_together(runs);
    let mut waits: BTreeMap<(u32, u32), (BTreeSet<u32>, Style)> = BTreeMap::new();
    for (dependency, (_, style)) in accepted.iter() {
        let wait = waits.entry((dependency.taker, dependency.before));
        wait.or_insert_with(|| (BTreeSet::new(), *style)).0.insert(dependency.giver);
    }
    let nodes = least.done.len() as u32;
    let mut cases: BTreeMap<(u32, u32), Vec<(u32, Case)>> = BTreeMap::new();
    for ((taker, before), (givers, ..)) in &waits {
        let earlier = waits.range((*taker, 0)..(*taker, *before)).next_back().map(|((_, before), _)| *before);
        for giver in (0..nodes).filter(|giver| giver != taker) {
            let had = least.of(giver, *taker, *before);
            let had_before = earlier.map_or(0, |before| least.of(giver, *taker, before));
            let case = if givers.contains(&giver) {
                Case::Cause
            } else if had <= had_before {
                Case::NoCause
            } else if together.contains(&(giver, *taker, *before, had - 1)) {
                Case::Unknown(had - 1)
            } else {
                continue;
            };
            cases.entry((giver, *taker)).or_default().push((*before, case));
        }
    }
    let count =
        |cases: &[(u32, Case)], wanted: Case| cases.iter().filter(|(_, case)| *case == wanted).count();
    let dependent = || cases.values().filter(|cases| count(cases, Case::Cause) > 0);
    let causes: usize = dependent().map(|cases| count(cases, Case::Cause)).sum();
    let exceptions: usize = dependent().map(|cases| count(cases, Case::NoCause)).sum();
    let is_regular = runs.iter().all(|run| run.period == 1)
        && (exceptions + 1) as f64 / (causes + exceptions + 2) as f64 <= CHANCE;
    let mut undecided = BTreeSet::new();
    for ((giver, taker), cases) in &cases {
        let is_pair_regular =
            is_regular && count(cases, Case::Cause) >= 2 && count(cases, Case::NoCause) == 0;
        for (before, case) in cases {
            let Case::Unknown(op) = case else { continue };
            if is_pair_regular {
                let (_, style) = waits[&(*taker, *before)];
                let dependency = Dependency { giver: *giver, op: *op, taker: *taker, before: *before };
                accepted.insert(dependency, (0, style));
                analysis.inferred += 1;
            } else {
                undecided.insert((*taker, *before));
            }
        }
    }
    analysis.undecided = undecided.len() as u32;
}

/// Givers, takers that were stuck before an operation (third), and operations that the giver was paused before then (last), settled.
fn seen_together(runs: &[Run]) -> BTreeSet<(u32, u32, u32, u32)> {
    let mut seen = BTreeSet::new();
    for run in runs {
        // the same pair is there at many snapshots
        let mut last: HashMap<(u32, u32), (u32, u32)> = HashMap::new();
        for snapshot in run.snapshots.iter().filter(|snapshot| snapshot.is_settled) {
            let of = |wanted: fn(Doing) -> bool| {
                (0..)
                    .zip(&snapshot.nodes)
                    .filter(move |(node, state)| wanted(state.doing) && !strayed(run, *node as usize))
            };
            for (taker, stuck) in of(|doing| matches!(doing, Doing::Stuck(_))) {
                for (giver, paused) in of(|doing| doing == Doing::Paused) {
                    let at = (paused.done, stuck.done);
                    if last.insert((giver, taker), at) != Some(at) {
                        seen.insert((giver, taker, stuck.done, paused.done));
                    }
                }
            }
        }
    }
    seen
}
