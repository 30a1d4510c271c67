//! Calls on files of a trail, with what changes are for and what they have in common.

use std::collections::HashMap;

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
    /// Of each class the times of its calls, in the order of time.
    of_class: HashMap<i64, Vec<i64>>,
}

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
            of_class: HashMap::new(),
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
                    calls.of_class.entry(class[row]).or_default().push(dur);
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

    /// Times drawn anew: of each class blocks of its calls as they followed each other (Künsch, "The jackknife and the bootstrap
    /// for general stationary observations", Annals of Statistics 17(3), 1989), so that slow phases stay together.
    pub(super) fn resampled(&self, random: &mut Pcg64Mcg) -> Vec<Vec<i64>> {
        let mut drawn: HashMap<i64, Vec<i64>> = HashMap::new();
        let mut classes: Vec<&i64> = self.of_class.keys().collect();
        classes.sort_unstable();
        for class in classes {
            let times = &self.of_class[class];
            let length = (times.len() as f64).sqrt().ceil() as usize;
            let mut into = Vec::with_capacity(times.len() + length);
            while into.len() < times.len() {
                let begin = random.random_range(0..=times.len() - length);
                into.extend_from_slice(&times[begin..begin + length]);
            }
            // popped from the end
            into.truncate(times.len());
            into.reverse();
            drawn.insert(*class, into);
        }
        let draw = |(dur, class): (&i64, &i64)| drawn.get_mut(class).and_then(Vec::pop).unwrap_or(*dur);
        let mut draw = draw;
        self.durs
            .iter()
            .zip(&self.classes)
            .map(|(durs, classes)| durs.iter().zip(classes).map(&mut draw).collect())
            .collect()
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
