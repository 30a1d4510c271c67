//! `iotrail-native simulate run X.trail`: how long a recorded program would take if its calls on files, their device, its computing or its
//! machine were others, by its threads' scripts in virtual time (crates/causal). `iotrail whatif run` asks it.
//!
//! Standard input has a row for each call on a file that returned: `thread` (id in the trail), `ts`, `dur` (ns), `class` (calls whose
//! times are alike, from 0), `chosen` (1 if changed times are for it), `file`, `call` (numbers of its file and name; -1 none). Calls that a
//! replay doesn't repeat keep their times.

mod calls;
mod curves;
mod on_device;

use std::path::PathBuf;
use std::process::ExitCode;

use iotrail_causal::{
    Durations, Evaluated, Machines, Reason, Scripts, Step, Storage, Waited, check, evaluate,
};
use iotrail_replay::{Plan, plan_with_causality};
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

use self::calls::Calls;
use self::curves::{By, Curve, Held, curves};
use self::on_device::{FileCalls, Kept, There};
use super::print;
use crate::arguments::size;
use crate::emudisk::read_device;
use crate::failure::Failure;

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
    /// The page cache there has the files at first
    #[arg(long)]
    warm: bool,
    /// Factor on CPU time between calls
    #[arg(long, default_value_t = 1.0)]
    compute: f64,
    /// Factor on CPU time of threads that hold a mutex
    #[arg(long, default_value_t = 1.0)]
    lock: f64,
    /// How much each file, call, rank or mutex would bring
    #[arg(long, value_enum, value_delimiter = ',')]
    by: Vec<By>,
    /// Cores of each machine
    #[arg(long)]
    cores: u32,
    /// Those of the recorded ones
    #[arg(long)]
    recorded_cores: u32,
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
    /// With nothing changed.
    unchanged: Took,
    /// What nothing explains, of all threads, ns.
    unexplained_ns: i64,
    /// What devices don't do; none without devices.
    kept: Option<Kept>,
    cases: Vec<Case>,
    curves: Vec<Curve>,
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
#[derive(Clone, Serialize)]
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
    let calls = Calls::read(&args.trail, &plan, &mut causality)?;
    let case = Situation { calls: &calls, plan: &plan, machines: Machines::one(args.cores) };
    let scripts = |fixed: bool| {
        let mut scripts = causality.scripts(fixed);
        let held = Held::of(&scripts);
        curves::scale_compute(&mut scripts, |_, _| args.compute);
        curves::scale_compute(
            &mut scripts,
            |thread, step| if held.any(thread, step) { args.lock } else { 1.0 },
        );
        scripts
    };
    let (waiting, fixed) = (scripts(false), scripts(true));
    check(&waiting, &plan).map_err(|problem| Failure::new(format!("{}: {problem}", args.trail.display())))?;
    let unchanged = {
        let before = Situation { machines: Machines::one(args.recorded_cores), ..case };
        let scripts = causality.scripts(false);
        before.took(&scripts, &before.evaluate(&scripts, &calls.durs)?)
    };
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
        let there = There { file: read_device(name)?, calls: on_files, journal, volume, warm: args.warm };
        let mut random = Pcg64Mcg::seed_from_u64(args.seed);
        let mut run = |scripts: &Scripts, further: u64, earlier: u64| -> Result<_, Failure> {
            let scripts = on_files.at_chance(scripts, &mut random);
            let found = case.evaluate_on(&scripts, &mut there.at(further, earlier)?)?;
            Ok((case.took(&scripts, &found), calls.path(&scripts, &found)))
        };
        let (mut with_waits, (longer, _)) = (vec![run(&waiting, 0, 0)?], run(&fixed, 0, 0)?);
        let mut places = Pcg64Mcg::seed_from_u64(args.seed);
        let mut samples = Vec::new();
        for number in 0..args.samples {
            let (further, earlier) = (places.random_range(0..=FURTHER), places.random_range(0..EARLIER));
            let found = run(if number % 2 == 0 { &waiting } else { &fixed }, further, earlier)?;
            samples.push(found.0.clone());
            if number % 2 == 0 {
                with_waits.push(found);
            }
        }
        // where things lie is chance: the answer is the one in the middle
        with_waits.sort_by_key(|(took, _)| took.elapsed_ns);
        let (took, path) = with_waits.swap_remove(with_waits.len() / 2);
        cases.push(Case { io: None, device: Some(name.clone()), took, fixed: longer, samples, path });
    }
    let unknown = |wait: &&Waited| wait.reason == Reason::Unknown;
    print(&Answer {
        threads: causality.recorded.len(),
        operations: plan.threads.iter().map(|thread| thread.ops.len()).sum(),
        recorded_ns: causality.length(),
        unchanged,
        unexplained_ns: causality
            .recorded
            .iter()
            .flat_map(|one| &one.waits)
            .filter(unknown)
            .map(|wait| wait.dur)
            .sum(),
        kept: on_files.map(|calls| calls.kept),
        cases,
        curves: curves(&case, &waiting, &causality.locks, &args.by)?,
    })
}

struct Situation<'a> {
    calls: &'a Calls,
    plan: &'a Plan,
    machines: Machines,
}

impl Situation<'_> {
    fn evaluate(&self, scripts: &Scripts, durs: &[Vec<i64>]) -> Result<Evaluated, Failure> {
        debug_assert_eq!(durs.len(), self.calls.durs.len());
        self.evaluate_on(scripts, &mut Durations::new(durs.to_vec()))
    }

    fn evaluate_on(&self, scripts: &Scripts, storage: &mut impl Storage) -> Result<Evaluated, Failure> {
        evaluate(scripts, self.plan, storage, &self.machines)
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
