//! Calls on files of a trail, with what changes are for and what they have in common.

use std::collections::{BTreeMap, HashMap};

use iotrail_causal::{Activity, Evaluated, Reason, Scripts, Step, Waited};
use iotrail_format::schema::{PROCESS, THREAD};
use iotrail_replay::{Causality, Plan};
use iotrail_trail::TrailReader;
use rand::Rng as _;
use rand_pcg::Pcg64Mcg;

use super::Path;
use crate::failure::Failure;
use crate::simulate::batches;
use crate::simulate::cache::numbers_of;

/// Calls on files, by thread of the plan and operation.
pub(super) struct Calls {
    pub(super) durs: Vec<Vec<i64>>,
    classes: Vec<Vec<i64>>,
    pub(super) chosen: Vec<Vec<bool>>,
    /// Numbers of their files and of the names of their calls; -1 none.
    pub(super) files: Vec<Vec<i64>>,
    pub(super) names: Vec<Vec<i64>>,
    /// Ranks, by thread; -1 none.
    pub(super) ranks: Vec<i64>,
    /// Thread and operation of calls that times may be drawn from for each other: of a class, and of how they use storage, in the
    /// order of threads and time.
    alike: BTreeMap<(i64, i32), Vec<(usize, usize)>>,
}

/// Flags of an open file by which calls on it differ in what they do.
const FLAGS: i32 = libc::O_SYNC | libc::O_DSYNC | libc::O_DIRECT;

impl Calls {
    /// Reads standard input, and the ranks of threads. Calls that no plan has are times that pass.
    pub(super) fn read(
        trail: &std::path::Path,
        plan: &Plan,
        causality: &mut Causality,
    ) -> Result<Self, Failure> {
        let mut place: HashMap<(i64, i64), (usize, usize)> = HashMap::new();
        for (number, thread) in plan.threads.iter().enumerate() {
            for (index, op) in thread.ops.iter().enumerate() {
                place.insert((thread.id, op.start + plan.zero), (number, index));
            }
        }
        let numbers: HashMap<i64, usize> =
            plan.threads.iter().enumerate().map(|(number, thread)| (thread.id, number)).collect();
        let durs: Vec<Vec<i64>> =
            plan.threads.iter().map(|thread| thread.ops.iter().map(|op| op.dur).collect()).collect();
        let unknown = || -> Vec<Vec<i64>> { durs.iter().map(|of| vec![-1; of.len()]).collect() };
        let mut calls = Self {
            classes: unknown(),
            files: unknown(),
            names: unknown(),
            ranks: ranks(trail, plan)?,
            chosen: durs.iter().map(|of| vec![false; of.len()]).collect(),
            durs,
            alike: BTreeMap::new(),
        };
        for batch in batches()? {
            let batch = batch?;
            let [thread, ts, dur, class, chosen] = [0, 1, 2, 3, 4].map(|at| numbers_of(&batch, at));
            let (thread, ts, dur, class, chosen) = (thread?, ts?, dur?, class?, chosen?);
            let (file, name) = (numbers_of(&batch, 5)?, numbers_of(&batch, 6)?);
            for row in 0..batch.num_rows() {
                let (thread, ts, dur) = (thread[row], ts[row], dur[row]);
                if let Some((number, index)) = place.get(&(thread, ts)).copied() {
                    calls.classes[number][index] = class[row];
                    calls.chosen[number][index] = chosen[row] != 0;
                    calls.files[number][index] = file[row];
                    calls.names[number][index] = name[row];
                    let handle = plan.handles.get(plan.threads[number].ops[index].handle as usize);
                    let flags = handle.map_or(0, |handle| handle.flags & FLAGS);
                    calls.alike.entry((class[row], flags)).or_default().push((number, index));
                } else if let Some(number) = numbers.get(&thread) {
                    let start = ts - plan.zero;
                    causality.recorded[*number].waits.push(Waited { start, dur, reason: Reason::Timer });
                }
            }
        }
        Ok(calls)
    }

    pub(super) fn scaled(&self, durs: &[Vec<i64>], factor: f64) -> Vec<Vec<i64>> {
        let scale = |(dur, chosen): (&i64, &bool)| if *chosen { (*dur as f64 * factor) as i64 } else { *dur };
        durs.iter()
            .zip(&self.chosen)
            .map(|(durs, chosen)| durs.iter().zip(chosen).map(scale).collect())
            .collect()
    }

    /// Times drawn anew: of calls that are alike blocks as they followed each other (Künsch, "The jackknife and the bootstrap for
    /// general stationary observations", Annals of Statistics 17(3), 1989), from nearby, as programs have phases (Paparoditis and
    /// Politis, "Local block bootstrap", Comptes Rendus Mathematique 335(11), 2002).
    pub(super) fn resampled(&self, random: &mut Pcg64Mcg) -> Vec<Vec<i64>> {
        let mut drawn = self.durs.clone();
        for places in self.alike.values() {
            let length = (places.len() as f64).sqrt().ceil() as usize;
            let last = places.len() - length;
            for (number, block) in places.chunks(length).enumerate() {
                let at = number * length;
                let from = random.random_range(at.saturating_sub(length).min(last)..=(at + length).min(last));
                for ((thread, op), (of, taken)) in block.iter().zip(&places[from..]) {
                    drawn[*thread][*op] = self.durs[*of][*taken];
                }
            }
        }
        drawn
    }

    pub(super) fn path(&self, scripts: &Scripts, found: &Evaluated) -> Path {
        let mut path = Path::default();
        let mut by_class: HashMap<i64, i64> = HashMap::new();
        for segment in &found.path {
            let time = segment.to - segment.from;
            let thread = segment.thread as usize;
            match segment.activity {
                Activity::Compute => path.compute_ns += time,
                Activity::Ready => path.ready_ns += time,
                Activity::Rest => path.rest_ns += time,
                Activity::Io => {
                    path.io_ns += time;
                    if let Step::Io(op) = scripts.threads[thread].steps[segment.step as usize] {
                        *by_class.entry(self.classes[thread][op as usize]).or_default() += time;
                    }
                }
            }
        }
        path.io_by_class = by_class.into_iter().collect();
        path.io_by_class.sort_unstable_by_key(|(class, time)| (-*time, *class));
        path
    }
}

/// Ranks by thread of the plan; -1 none.
fn ranks(trail: &std::path::Path, plan: &Plan) -> Result<Vec<i64>, Failure> {
    let reader = TrailReader::open(trail)?;
    let mut ranks = HashMap::new();
    for row in reader.small(&PROCESS, &["process", "rank"], &[])? {
        if let [Some(process), Some(rank)] = row.ints[..] {
            ranks.insert(process, rank);
        }
    }
    let mut of_thread = HashMap::new();
    for row in reader.small(&THREAD, &["thread", "process"], &[])? {
        if let [Some(thread), Some(process)] = row.ints[..] {
            of_thread.extend(ranks.get(&process).map(|rank| (thread, *rank)));
        }
    }
    Ok(plan.threads.iter().map(|thread| of_thread.get(&thread.id).copied().unwrap_or(-1)).collect())
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    fn calls(durs: Vec<Vec<i64>>, alike: BTreeMap<(i64, i32), Vec<(usize, usize)>>) -> Calls {
        let like = |of: &Vec<i64>| vec![0; of.len()];
        let numbers: Vec<Vec<i64>> = durs.iter().map(like).collect();
        Calls {
            classes: numbers.clone(),
            chosen: durs.iter().map(|of| vec![false; of.len()]).collect(),
            files: numbers.clone(),
            names: numbers,
            ranks: vec![-1; durs.len()],
            durs,
            alike,
        }
    }

    #[test]
    fn times_are_drawn_from_nearby_and_from_calls_that_are_alike() {
        // a slow phase after a fast one, and a call of another kind among them
        let mut durs: Vec<i64> =
            (0..200).map(|number| if number < 100 { 10 } else { 1000 } + number % 7).collect();
        durs[50] = 70_000;
        let places: Vec<_> = (0..200).filter(|number| *number != 50).map(|number| (0, number)).collect();
        let alike = BTreeMap::from([((1, 0), places), ((1, libc::O_DSYNC), vec![(0, 50)])]);
        let calls = calls(vec![durs.clone()], alike);
        let mut differ = 0;
        for seed in 0..50 {
            let drawn = calls.resampled(&mut Pcg64Mcg::seed_from_u64(seed)).remove(0);
            assert_eq!((drawn.len(), drawn[50]), (200, 70_000));
            // a block is 15 calls long, and comes from no further away
            assert!(
                drawn[..70].iter().enumerate().all(|(number, dur)| number == 50 || *dur < 20),
                "{drawn:?}"
            );
            assert!(drawn[131..].iter().all(|dur| (1000..1010).contains(dur)), "{drawn:?}");
            differ += usize::from(drawn != durs);
        }
        assert!(differ > 45, "{differ}");
    }

    #[test]
    fn few_calls_are_drawn_from_themselves() {
        let alike = BTreeMap::from([((1, 0), vec![(0, 0)]), ((2, 0), vec![(0, 1), (1, 0)])]);
        let calls = calls(vec![vec![5, 6], vec![7]], alike);
        for seed in 0..20 {
            let drawn = calls.resampled(&mut Pcg64Mcg::seed_from_u64(seed));
            assert_eq!(drawn[0][0], 5);
            assert!([6, 7].contains(&drawn[0][1]) && [6, 7].contains(&drawn[1][0]));
        }
    }
}
