//! `iotrail-native simulate run X.trail`: how long a recorded program would take if its calls on files, their device, its computing or its
//! machine were others, by its threads' scripts in virtual time (crates/causal). `iotrail whatif run` asks it.
//!
//! Standard input has a row for each call on a file that returned: `thread` (id in the trail), `ts`, `dur` (ns), `class` (calls whose
//! times are alike, from 0), `chosen` (1 if changed times are for it). Calls that a replay doesn't repeat keep their times.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;

use iotrail_causal::{
    Activity, Durations, Evaluated, Machines, OpRef, Order, Reason, Scripts, Step, Storage, Waited, check,
    evaluate,
};
use iotrail_replay::{Causality, Plan, plan_with_causality};
use iotrail_sim::file::DeviceFile;
use iotrail_sim::filesystem::{FileSystem, Parameters};
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use super::cache::numbers_of;
use super::on_device::{FileCalls, Kept, OnDevice};
use super::{batches, print};
use crate::arguments::size;
use crate::emudisk::read_device;
use crate::failure::Failure;

/// Where the first file begins on a device, bytes.
const START: u64 = 64 << 20;
/// Another sample's files begin up to so many bytes further, and its device has run up to so many ns before: more than a
/// revolution of a disk.
const FURTHER: u64 = 64 << 20;
const EARLIER: u64 = 100_000_000;

/// Arguments of `simulate run`.
#[derive(clap::Args)]
pub struct Args {
    /// The trail
    trail: PathBuf,
    /// Factors on the times of chosen calls
    #[arg(long, value_delimiter = ',', default_value = "1")]
    io: Vec<f64>,
    /// Devices that do the chosen calls, each another case
    #[arg(long, value_name = "DEVICE")]
    on: Vec<PathBuf>,
    /// The file system there has no journal
    #[arg(long)]
    no_journal: bool,
    /// Its size (default: the device's)
    #[arg(long, value_name = "SIZE", value_parser = size)]
    volume: Option<u64>,
    /// Factor on CPU time between calls
    #[arg(long, default_value_t = 1.0)]
    compute: f64,
    /// Cores of each machine
    #[arg(long)]
    cores: u32,
    /// Simulations of resampled times for each factor
    #[arg(long, default_value_t = 0)]
    samples: u32,
    /// Seed of the samples
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The answer.
#[derive(Serialize)]
struct Answer {
    threads: usize,
    operations: usize,
    /// From the beginning of the first thread to the end of the last, as recorded, ns.
    recorded_ns: i64,
    /// What nothing explains, of all threads, ns.
    unexplained_ns: i64,
    /// What devices don't do; none without devices.
    kept: Option<Kept>,
    cases: Vec<Case>,
}

/// A factor or a device.
#[derive(Serialize)]
struct Case {
    io: Option<f64>,
    /// Its name, as given.
    device: Option<PathBuf>,
    took: Took,
    /// As long as recorded where nothing explains a wait.
    fixed: Took,
    samples: Vec<Took>,
    path: Path,
}

/// Times of a run, ns.
#[derive(Serialize)]
struct Took {
    elapsed_ns: i64,
    /// From the start of the first chosen call to the end of the last; none without one.
    chosen_ns: Option<i64>,
}

/// The critical path, ns.
#[derive(Default, Serialize)]
struct Path {
    compute_ns: i64,
    ready_ns: i64,
    io_ns: i64,
    rest_ns: i64,
    /// By class of calls.
    io_by_class: Vec<(i64, i64)>,
}

/// Simulates.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let mut plan = plan_with_causality(&args.trail)?;
    let mut causality = plan.causality.take().unwrap_or_default();
    let calls = Calls::read(&plan, &mut causality)?;
    let order = After(&plan);
    let case = Situation { calls: &calls, order: &order, machines: Machines::one(args.cores) };
    let scripts = |fixed: bool| scaled(causality.scripts(fixed), args.compute);
    let (waiting, fixed) = (scripts(false), scripts(true));
    check(&waiting, &order)
        .map_err(|problem| Failure::new(format!("{}: {problem}", args.trail.display())))?;
    let mut cases = Vec::new();
    for io in args.io {
        let known = case.evaluate(&waiting, &calls.scaled(&calls.durs, io))?;
        let longer = case.evaluate(&fixed, &calls.scaled(&calls.durs, io))?;
        let mut random = Pcg64Mcg::seed_from_u64(args.seed);
        let mut samples = Vec::new();
        for number in 0..args.samples {
            let durs = calls.scaled(&calls.resampled(&mut random), io);
            let scripts = if number % 2 == 0 { &waiting } else { &fixed };
            samples.push(case.took(scripts, &case.evaluate(scripts, &durs)?));
        }
        let path = calls.path(&waiting, &known);
        let (took, fixed) = (case.took(&waiting, &known), case.took(&fixed, &longer));
        cases.push(Case { io: Some(io), device: None, took, fixed, samples, path });
    }
    let on_files = (!args.on.is_empty()).then(|| FileCalls::of(&plan, &calls.chosen));
    for (name, on_files) in args.on.iter().zip(on_files.iter().cycle()) {
        let (journal, volume) = (!args.no_journal, args.volume);
        let there = There { file: read_device(name)?, calls: on_files, journal, volume };
        let mut random = Pcg64Mcg::seed_from_u64(args.seed);
        let mut run = |scripts: &Scripts, further: u64, earlier: u64| -> Result<_, Failure> {
            let scripts = on_files.at_chance(scripts, &mut random);
            let found = case.evaluate_on(&scripts, &mut there.at(further, earlier)?)?;
            Ok((case.took(&scripts, &found), calls.path(&scripts, &found)))
        };
        let ((took, path), (longer, _)) = (run(&waiting, 0, 0)?, run(&fixed, 0, 0)?);
        let mut places = Pcg64Mcg::seed_from_u64(args.seed);
        let mut samples = Vec::new();
        for number in 0..args.samples {
            let (further, earlier) = (places.random_range(0..=FURTHER), places.random_range(0..EARLIER));
            samples.push(run(if number % 2 == 0 { &waiting } else { &fixed }, further, earlier)?.0);
        }
        cases.push(Case { io: None, device: Some(name.clone()), took, fixed: longer, samples, path });
    }
    let unknown = |wait: &&Waited| wait.reason == Reason::Unknown;
    print(&Answer {
        threads: causality.recorded.len(),
        operations: plan.threads.iter().map(|thread| thread.ops.len()).sum(),
        recorded_ns: causality.length(),
        unexplained_ns: causality
            .recorded
            .iter()
            .flat_map(|one| &one.waits)
            .filter(unknown)
            .map(|wait| wait.dur)
            .sum(),
        kept: on_files.map(|calls| calls.kept),
        cases,
    })
}

fn scaled(mut scripts: Scripts, compute: f64) -> Scripts {
    for step in scripts.threads.iter_mut().flat_map(|script| &mut script.steps) {
        if let Step::Compute(time) = step {
            *time = (*time as f64 * compute) as i64;
        }
    }
    scripts
}

/// What operations come after, as in a replay.
struct After<'a>(&'a Plan);

impl Order for After<'_> {
    fn after(&self, op: OpRef) -> impl Iterator<Item = OpRef> {
        let (begin, _, end) = self.0.threads[op.thread as usize].ops[op.index as usize].after;
        let waits = &self.0.after[begin as usize..end as usize];
        waits.iter().map(|wait| OpRef { thread: wait.thread, index: wait.index })
    }
}

struct Situation<'a> {
    calls: &'a Calls,
    order: &'a After<'a>,
    machines: Machines,
}

impl Situation<'_> {
    fn evaluate(&self, scripts: &Scripts, durs: &[Vec<i64>]) -> Result<Evaluated, Failure> {
        debug_assert_eq!(durs.len(), self.calls.durs.len());
        self.evaluate_on(scripts, &mut Durations::new(durs.to_vec()))
    }

    fn evaluate_on(&self, scripts: &Scripts, storage: &mut impl Storage) -> Result<Evaluated, Failure> {
        evaluate(scripts, self.order, storage, &self.machines)
            .map_err(|standstill| Failure::new(standstill.to_string()))
    }

    fn took(&self, scripts: &Scripts, found: &Evaluated) -> Took {
        let (mut first, mut last) = (None, None);
        for ((script, run), chosen) in scripts.threads.iter().zip(&found.threads).zip(&self.calls.chosen) {
            let begins = std::iter::once(&0).chain(&run.ends);
            for ((step, begin), end) in script.steps.iter().zip(begins).zip(&run.ends) {
                if matches!(step, Step::Io(op) if chosen[*op as usize]) {
                    first = Some(first.map_or(*begin, |known: i64| known.min(*begin)));
                    last = last.max(Some(*end));
                }
            }
        }
        Took {
            elapsed_ns: found.elapsed,
            chosen_ns: first.zip(last).map(|(first, last): (i64, i64)| last - first),
        }
    }
}

/// A device with a file system for the chosen calls.
struct There<'a> {
    file: DeviceFile,
    calls: &'a FileCalls,
    journal: bool,
    volume: Option<u64>,
}

impl There<'_> {
    /// With its files so many bytes further than they need be (where there is room), and after so many ns.
    fn at(&self, further: u64, earlier: u64) -> Result<OnDevice<'_>, Failure> {
        let device = self.file.build();
        let volume_bytes = self.volume.unwrap_or_else(|| device.capacity());
        let bytes: u64 = self.calls.before.iter().map(|file| file.most_bytes.next_multiple_of(4096)).sum();
        let room = volume_bytes.min(device.capacity()).saturating_sub(START + bytes);
        let start_bytes = START + further.min(room);
        let parameters = Parameters { journal: self.journal, volume_bytes, start_bytes };
        let files = FileSystem::new(device, parameters, &self.calls.before).map_err(|problem| {
            Failure::new(format!("{}: {problem}", self.file.name))
                .hint("--where chooses fewer calls, --volume says how large it is")
        })?;
        Ok(OnDevice::new(self.calls, files, earlier))
    }
}

/// Calls on files, by thread of the plan and operation.
struct Calls {
    durs: Vec<Vec<i64>>,
    classes: Vec<Vec<i64>>,
    chosen: Vec<Vec<bool>>,
    /// Of each class the times of its calls, in the order of time.
    of_class: HashMap<i64, Vec<i64>>,
}

impl Calls {
    /// Reads standard input. Calls that no plan has are times that pass.
    fn read(plan: &Plan, causality: &mut Causality) -> Result<Self, Failure> {
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
        let mut calls = Self {
            classes: durs.iter().map(|of| vec![-1; of.len()]).collect(),
            chosen: durs.iter().map(|of| vec![false; of.len()]).collect(),
            durs,
            of_class: HashMap::new(),
        };
        for batch in batches()? {
            let batch = batch?;
            let [thread, ts, dur, class, chosen] = [0, 1, 2, 3, 4].map(|at| numbers_of(&batch, at));
            let (thread, ts, dur, class, chosen) = (thread?, ts?, dur?, class?, chosen?);
            for row in 0..batch.num_rows() {
                let (thread, ts, dur) = (thread[row], ts[row], dur[row]);
                if let Some((number, index)) = place.get(&(thread, ts)).copied() {
                    calls.classes[number][index] = class[row];
                    calls.chosen[number][index] = chosen[row] != 0;
                    calls.of_class.entry(class[row]).or_default().push(dur);
                } else if let Some(number) = numbers.get(&thread) {
                    let start = ts - plan.zero;
                    causality.recorded[*number].waits.push(Waited { start, dur, reason: Reason::Timer });
                }
            }
        }
        Ok(calls)
    }

    fn scaled(&self, durs: &[Vec<i64>], factor: f64) -> Vec<Vec<i64>> {
        let scale = |(dur, chosen): (&i64, &bool)| if *chosen { (*dur as f64 * factor) as i64 } else { *dur };
        durs.iter()
            .zip(&self.chosen)
            .map(|(durs, chosen)| durs.iter().zip(chosen).map(scale).collect())
            .collect()
    }

    /// Times drawn anew: of each class blocks of its calls as they followed each other (Künsch, "The jackknife and the bootstrap
    /// for general stationary observations", Annals of Statistics 17(3), 1989), so that slow phases stay together.
    fn resampled(&self, random: &mut Pcg64Mcg) -> Vec<Vec<i64>> {
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

    fn path(&self, scripts: &Scripts, found: &Evaluated) -> Path {
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
