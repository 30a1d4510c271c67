//! How fast scripts are evaluated: steps and operations a second of one core.
//!
//! `cargo bench -p iotrail-causal` prints a table: for each program its threads, cores, steps and operations, the CPU time to check and to
//! evaluate it (medians and spread of several runs), and what that is a second.

use iotrail_causal::{Durations, Machines, Script, Scripts, Step, Style, check, evaluate};

const RUNS: usize = 5;

fn main() {
    println!(
        "{:<34} {:>7} {:>5} {:>10} {:>10} {:>9} {:>20} {:>9} {:>9}",
        "program", "threads", "cores", "steps", "ops", "check ms", "evaluate ms", "Mstep/s", "Mop/s"
    );
    for cores in [2, 16] {
        row("barrier after 10 operations", 8, cores, &barriers(8, 125_000, 10));
        row("pipeline, a message an operation", 8, cores, &pipeline(8, 125_000));
        row("a lock around each operation", 8, cores, &locked(8, 125_000));
    }
    for cores in [64, 2000] {
        row("barrier after 10 operations", 1000, cores, &barriers(1000, 450, 10));
        row("pipeline, a message an operation", 1000, cores, &pipeline(1000, 250));
    }
}

/// Numbers that look random and are the same each time (Knuth's MMIX generator, The Art of Computer Programming 2, 3.3.4).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: i64) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as i64 % most
    }
}

/// Scripts, and how long their operations take.
struct Program {
    scripts: Scripts,
    durs: Vec<Vec<i64>>,
}

impl Program {
    fn new(threads: usize) -> Self {
        let scripts = Scripts { threads: vec![Script::default(); threads], ..Scripts::default() };
        Self { scripts, durs: vec![Vec::new(); threads] }
    }

    fn push(&mut self, thread: usize, step: Step) {
        self.scripts.threads[thread].steps.push(step);
    }

    fn push_op(&mut self, thread: usize, dur: i64) {
        let index = self.durs[thread].len() as u32;
        self.push(thread, Step::Io(index));
        self.durs[thread].push(dur);
    }

    fn edge(&mut self, signals: u32) -> u32 {
        self.scripts.signals.push(signals);
        self.scripts.signals.len() as u32 - 1
    }
}

/// All threads compute and do an operation, and wait for each other after every few.
fn barriers(threads: usize, ops: usize, every: usize) -> Program {
    let (mut program, mut numbers) = (Program::new(threads), Numbers(1));
    for at in 0..ops {
        for thread in 0..threads {
            program.push(thread, Step::Compute(10_000 + numbers.below(20_000)));
            program.push_op(thread, 50_000 + numbers.below(100_000));
        }
        if at % every == 0 {
            let edge = program.edge(threads as u32);
            for thread in 0..threads {
                program.push(thread, Step::Signal(edge));
                program.push(thread, Step::Wait(edge, Style::Spin));
            }
        }
    }
    program
}

/// Each thread waits for a message of the one before it, does an operation, and sends one to the next.
fn pipeline(threads: usize, ops: usize) -> Program {
    let (mut program, mut numbers) = (Program::new(threads), Numbers(2));
    for _ in 0..ops {
        for thread in 0..threads {
            if thread > 0 {
                let edge = program.scripts.signals.len() as u32 - 1;
                program.push(thread, Step::Wait(edge, Style::Sleep));
            }
            program.push(thread, Step::Compute(10_000 + numbers.below(20_000)));
            program.push_op(thread, 50_000 + numbers.below(100_000));
            if thread + 1 < threads {
                let edge = program.edge(1);
                program.push(thread, Step::Signal(edge));
            }
        }
    }
    program
}

/// All threads do their operations under one lock.
fn locked(threads: usize, ops: usize) -> Program {
    let (mut program, mut numbers) = (Program::new(threads), Numbers(3));
    program.scripts.locks = 1;
    for _ in 0..ops {
        for thread in 0..threads {
            program.push(thread, Step::Compute(10_000 + numbers.below(20_000)));
            program.push(thread, Step::Lock(0));
            program.push_op(thread, 5_000 + numbers.below(10_000));
            program.push(thread, Step::Unlock(0));
        }
    }
    program
}

fn row(name: &str, threads: usize, cores: u32, program: &Program) {
    let machines = Machines::one(cores);
    let (mut checks, mut runs) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let start = cpu_seconds();
        check(&program.scripts, &()).expect("scripts without cycles");
        let checked = cpu_seconds();
        let mut storage = Durations::new(program.durs.clone());
        let begun = cpu_seconds();
        let found = evaluate(&program.scripts, &(), &mut storage, &machines).expect("scripts that end");
        runs.push(cpu_seconds() - begun);
        checks.push(checked - start);
        assert_eq!(found.path.iter().map(|one| one.to - one.from).sum::<i64>(), found.elapsed);
    }
    let steps: usize = program.scripts.threads.iter().map(|script| script.steps.len()).sum();
    let ops: usize = program.durs.iter().map(Vec::len).sum();
    checks.sort_by(f64::total_cmp);
    runs.sort_by(f64::total_cmp);
    let (check, run) = (checks[RUNS / 2], runs[RUNS / 2]);
    let spread = format!("{:.0} ({:.0}–{:.0})", run * 1e3, runs[0] * 1e3, runs[RUNS - 1] * 1e3);
    println!(
        "{name:<34} {threads:>7} {cores:>5} {steps:>10} {ops:>10} {:>9.0} {spread:>20} {:>9.1} {:>9.2}",
        check * 1e3,
        steps as f64 / run / 1e6,
        ops as f64 / run / 1e6
    );
}

/// CPU time of this process so far: the clock of a busy machine says less.
fn cpu_seconds() -> f64 {
    let status = std::fs::read_to_string("/proc/self/schedstat").expect("the kernel's accounts");
    let ns = status.split_ascii_whitespace().next().and_then(|ns| ns.parse::<f64>().ok());
    ns.expect("time on a CPU") / 1e9
}
