//! Runs with paused threads in virtual time, of programs whose dependencies are known: all are found, and no others, over seeds.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng};

use super::simulator::{How, Program, Step, free_run, run, totals};
use super::*;
use crate::matching::Edges;
use crate::reduction::reduce;

use Step::{Op, Put, Set, Take, Wait};

fn generator(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let mut random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    move |bound| random.random_range(0..bound)
}

/// What was found, after what others imply was removed, and how many runs that took.
struct Outcome {
    analysis: Analysis,
    direct: BTreeSet<Dependency>,
    runs: usize,
}

fn find(program: &Program, plan: &[Vec<u32>], period: u32, slow: u32, seed: u64) -> Outcome {
    let mut random = generator(seed);
    let free = free_run(program, &mut random);
    let mut releases = Releases::new(seed);
    let runs: Vec<Run> = plan
        .iter()
        .map(|held| run(program, &How { held, period, slow }, &mut releases, &mut random))
        .collect();
    let analysis = analyze(&runs, &totals(program), &free);
    let threads: Vec<u32> = (0..program.len() as u32).collect();
    let mut edges = Edges::default();
    place(&analysis.found, &threads, &free, &mut edges);
    reduce(&mut edges, program.len());
    // from times back to operations
    let ops: BTreeMap<u32, (u32, u32)> = edges
        .signals
        .iter()
        .map(|signal| {
            let ops = &free[signal.thread as usize].ops;
            (signal.edge, (signal.thread, ops.partition_point(|op| op.1 < signal.ts) as u32))
        })
        .collect();
    let direct = edges.waits.iter().map(|wait| {
        let (giver, op) = ops[&wait.edge.unwrap()];
        let before = free[wait.thread as usize].ops.partition_point(|op| op.0 < wait.start) as u32;
        Dependency { giver, op, taker: wait.thread, before }
    });
    Outcome { direct: direct.collect(), analysis, runs: plan.len() }
}

/// Of each node and operation how many operations of each node have to be done before it begins; the last is of its end.
type Needs = Vec<Vec<Vec<u32>>>;

/// What the program demands. Nodes set flags before others wait for them, in the order of `order`.
fn demanded(program: &Program) -> Needs {
    let count = program.len();
    let mut needs: Needs = vec![Vec::new(); count];
    let mut now = vec![vec![0; count]; count];
    let mut at = vec![0; count];
    let mut flags: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    loop {
        let mut moved = false;
        for node in 0..count {
            while let Some(step) = program[node].get(at[node]) {
                match step {
                    Op => {
                        needs[node].push(now[node].clone());
                        now[node][node] += 1;
                    }
                    Set(flag) => drop(flags.insert(*flag, now[node].clone())),
                    Wait(wanted) if wanted.iter().all(|flag| flags.contains_key(flag)) => {
                        for flag in wanted {
                            raise(&mut now[node], &flags[flag]);
                        }
                    }
                    Wait(_) => break,
                    Put(_) | Take(_) => unreachable!("queues demand nothing of anybody"),
                }
                at[node] += 1;
                moved = true;
            }
        }
        if !moved {
            break;
        }
    }
    for node in 0..count {
        assert_eq!(at[node], program[node].len(), "the program has to end");
        needs[node].push(now[node].clone());
    }
    needs
}

fn raise(to: &mut [u32], by: &[u32]) {
    for (to, by) in to.iter_mut().zip(by) {
        *to = (*to).max(*by);
    }
}

/// What dependencies demand.
fn implied(dependencies: &BTreeSet<Dependency>, totals: &[u32]) -> Needs {
    let count = totals.len();
    let mut needs: Needs = totals.iter().map(|total| vec![vec![0; count]; *total as usize + 1]).collect();
    loop {
        let before = needs.clone();
        for (node, needs) in needs.iter_mut().enumerate() {
            for at in 1..needs.len() {
                let mut earlier = needs[at - 1].clone();
                earlier[node] = at as u32;
                raise(&mut needs[at], &earlier);
            }
        }
        for one in dependencies {
            let mut given = needs[one.giver as usize][one.op as usize].clone();
            given[one.giver as usize] = one.op + 1;
            raise(&mut needs[one.taker as usize][one.before as usize], &given);
        }
        if needs == before {
            return needs;
        }
    }
}

/// How many of `wanted` operations are demanded, how many are found, and how many are found that aren't demanded; each where a node's
/// needs grow.
fn compare(wanted: &Needs, found: &Needs) -> (usize, usize, usize) {
    let (mut all, mut right, mut wrong) = (0, 0, 0);
    for (node, (wanted, found)) in wanted.iter().zip(found).enumerate() {
        for at in 0..wanted.len() {
            for giver in (0..wanted[at].len()).filter(|giver| *giver != node) {
                let is_new = wanted[at][giver] > if at == 0 { 0 } else { wanted[at - 1][giver] };
                all += usize::from(is_new);
                right += usize::from(is_new && found[at][giver] == wanted[at][giver]);
                wrong += usize::from(found[at][giver] > wanted[at][giver]);
            }
        }
    }
    (all, right, wrong)
}

/// Each node after each of `rounds` operations waits for all others.
fn barrier(nodes: u32, rounds: u32) -> Program {
    (0..nodes)
        .map(|node| {
            (0..rounds)
                .flat_map(|round| {
                    [
                        Op,
                        Set(round * nodes + node),
                        Wait((0..nodes).map(|other| round * nodes + other).collect()),
                    ]
                })
                .chain([Op])
                .collect()
        })
        .collect()
}

/// Each node hands on to the next one.
fn chain(nodes: u32, rounds: u32) -> Program {
    (0..nodes)
        .map(|node| {
            (0..rounds)
                .flat_map(|round| {
                    let before = (node > 0).then(|| Wait(vec![round * nodes + node - 1]));
                    before.into_iter().chain([Op, Set(round * nodes + node)])
                })
                .collect()
        })
        .collect()
}

/// Random programs: in each round each node does operations and may wait for one or two others' operations of earlier rounds.
fn random_program(nodes: u32, rounds: u32, waits: u32, random: &mut impl FnMut(u32) -> u32) -> Program {
    let mut program = vec![Vec::new(); nodes as usize];
    for round in 0..rounds {
        for node in 0..nodes {
            let steps = &mut program[node as usize];
            if round > 0 && random(100) < waits {
                let flags = (0..=random(2)).map(|_| (round - 1) * nodes + random(nodes));
                steps.push(Wait(flags.filter(|flag| flag % nodes != node).collect()));
            }
            steps.extend((0..=random(2)).map(|_| Op));
            steps.push(Set(round * nodes + node));
        }
    }
    program
}

#[test]
fn groups_hold_each_node_without_each_other_one() {
    for nodes in 2..70_u32 {
        let plan = groups(nodes, 7);
        let bits = f64::from(nodes).log2().ceil() as usize;
        assert_eq!(plan.len(), 2 * bits, "{nodes} nodes");
        for one in 0..nodes {
            for other in (0..nodes).filter(|other| *other != one) {
                let is_apart = plan.iter().any(|held| held.contains(&one) && !held.contains(&other));
                assert!(is_apart, "{one} is never held without {other}, of {nodes}");
            }
        }
    }
    assert!(groups(1, 7).is_empty() && groups(0, 7).is_empty());
    assert_ne!(groups(8, 1), groups(8, 2));
    assert_eq!(one_each(3, 9, 1).len(), 3);
    let some: BTreeSet<Vec<u32>> = one_each(8, 4, 1).into_iter().collect();
    assert_eq!(some.len(), 4);
}

#[test]
fn a_release_tries_what_was_no_cause_yet_last() {
    let mut releases = Releases::new(1);
    releases.note_cause(3, 7);
    for _ in 0..10 {
        assert_eq!(releases.choose(&[(1, 7), (3, 7), (5, 0)]), Some(3));
        assert_ne!(releases.choose(&[(1, 7), (3, 8)]), None);
    }
    assert_eq!(releases.choose(&[]), None);
}

/// As Figure 3: node 1 reads what node 0 has written, after it closed the file.
#[test]
fn one_node_a_run_finds_what_algorithm_1_does() {
    let program: Program = vec![vec![Op, Op, Op, Op, Set(0)], vec![Wait(vec![0]), Op, Op, Op]];
    // often enough to be no accident
    let plan: Vec<Vec<u32>> = (0..8).map(|run| vec![run % 2]).collect();
    let found = find(&program, &plan, 1, 0, 1);
    let only = Dependency { giver: 0, op: 3, taker: 1, before: 0 };
    assert_eq!(found.direct, [only].into());
    assert_eq!((found.analysis.contradicted, found.analysis.inferred), (0, 0));
}

#[test]
fn seen_once_in_a_short_run_is_doubtful() {
    let program: Program = vec![vec![Op, Op, Set(0)], vec![Wait(vec![0]), Op]];
    let found = find(&program, &groups(2, 1), 1, 0, 1);
    assert!(found.direct.is_empty());
    assert_eq!(found.analysis.doubtful, 1);
}

#[test]
fn without_dependencies_there_are_none() {
    for seed in 0..200 {
        let mut random = generator(seed);
        let program: Program = (0..2 + random(7)).map(|_| vec![Op; 5 + random(40) as usize]).collect();
        let plan = groups(program.len() as u32, seed);
        for slow in [0, 20] {
            let found = find(&program, &plan, 1, slow, seed);
            assert!(found.direct.is_empty(), "seed {seed}, slow {slow}: {:?}", found.direct);
        }
    }
}

#[test]
fn a_chain_has_only_its_direct_edges() {
    for seed in 0..100 {
        for nodes in [3, 4, 8] {
            let program = chain(nodes, 12);
            let found = find(&program, &groups(nodes, seed), 1, 0, seed);
            let wanted: BTreeSet<Dependency> = (1..nodes)
                .flat_map(|taker| {
                    (0..12).map(move |op| Dependency { giver: taker - 1, op, taker, before: op })
                })
                .collect();
            assert_eq!(found.direct, wanted, "seed {seed}, {nodes} nodes");
        }
    }
}

#[test]
fn a_queue_is_no_order() {
    for seed in 0..100 {
        let producer = || -> Vec<Step> { (0..20).flat_map(|_| [Op, Put(0)]).collect() };
        let consumer: Vec<Step> = (0..40).flat_map(|_| [Take(0), Op]).collect();
        let program = vec![producer(), producer(), consumer];
        let plan: Vec<Vec<u32>> = groups(3, seed).into_iter().chain(groups(3, seed + 1)).collect();
        let found = find(&program, &plan, 1, 0, seed);
        // That the last ones come after all that was put is true whoever comes first.
        let wrong: Vec<&Dependency> = found
            .direct
            .iter()
            .filter(|one| one.giver < 2 && one.before < 20 + one.op || one.giver == 2)
            .collect();
        assert!(wrong.is_empty(), "seed {seed}: {wrong:?}");
    }
}

/// Who pauses inside a lock holds up the others, and it is chance who that is.
#[test]
fn a_lock_is_no_order() {
    let state = |done, doing| State { done, doing };
    let spin = Doing::Stuck(Style::Spin);
    let window = |contender: Doing| -> Run {
        let first = vec![state(0, Doing::Paused), state(0, contender), state(0, spin)];
        let next = vec![state(1, Doing::Ended), state(1, Doing::Ended), state(1, Doing::Ended)];
        let snapshot = |nodes, released| Snapshot { nodes, is_settled: true, released };
        Run {
            period: 1,
            snapshots: vec![snapshot(first, Some(0)), snapshot(next, None)],
            late: 0,
            strayed: vec![false; 3],
        }
    };
    let found = |contender: Doing| analyze(&vec![window(contender); 5], &[1, 1, 1], &[]).found;
    assert_eq!(found(spin).len(), 2);
    assert_eq!(found(Doing::Contending), []);
}

#[test]
fn who_strayed_says_nothing() {
    let program = chain(2, 30);
    let mut random = generator(3);
    let mut releases = Releases::new(3);
    let free = free_run(&program, &mut random);
    let runs: Vec<Run> = groups(2, 3)
        .iter()
        .map(|held| {
            let seen = run(&program, &How { held, period: 1, slow: 0 }, &mut releases, &mut random);
            Run { strayed: vec![false, true], ..seen }
        })
        .collect();
    assert!(analyze(&runs, &totals(&program), &free).found.is_empty());
}

/// At a period of P an edge is found at most P - 1 operations too early, and none too late.
#[test]
fn a_period_misplaces_edges_by_less_than_itself() {
    for seed in 0..50 {
        for period in [2, 5, 10] {
            let program = chain(4, 60);
            let found = find(&program, &groups(4, seed), period, 0, seed);
            let wrong: Vec<_> = found
                .direct
                .iter()
                .filter(|one| one.op > one.before || one.op + period <= one.before)
                .collect();
            assert!(wrong.is_empty(), "seed {seed}, period {period}: {wrong:?} of {:?}", found.direct);
            let within = found.analysis.found.iter().map(|one| one.within).max().unwrap();
            assert!(within < period, "seed {seed}: {within}");
            let (all, _, wrong) = compare(&demanded(&program), &implied(&found.direct, &totals(&program)));
            assert!(all > 0 && wrong == 0);
            let meeting = barrier(4, 60);
            let found = find(&meeting, &groups(4, seed), period, 0, seed);
            let (all, _, wrong) = compare(&demanded(&meeting), &implied(&found.direct, &totals(&meeting)));
            assert!(all > 0 && wrong == 0, "seed {seed}, period {period}: {wrong} wrong");
            assert_eq!(found.analysis.inferred, 0);
        }
    }
}

struct Sum {
    all: usize,
    right: usize,
    wrong: usize,
    runs: usize,
}

impl Sum {
    fn of(programs: impl Iterator<Item = (Program, u64)>, slow: u32, repeats: u64) -> Self {
        let mut sum = Self { all: 0, right: 0, wrong: 0, runs: 0 };
        for (program, seed) in programs {
            let plan: Vec<Vec<u32>> =
                (0..repeats).flat_map(|more| groups(program.len() as u32, seed + 1000 * more)).collect();
            let found = find(&program, &plan, 1, slow, seed);
            let (all, right, wrong) =
                compare(&demanded(&program), &implied(&found.direct, &totals(&program)));
            (sum.all, sum.right, sum.wrong) = (sum.all + all, sum.right + right, sum.wrong + wrong);
            sum.runs = sum.runs.max(found.runs);
        }
        sum
    }

    fn recall(&self) -> f64 {
        self.right as f64 / self.all as f64
    }
}

#[test]
fn barriers_are_found_in_few_runs() {
    for nodes in [2, 4, 8, 16] {
        let sum = Sum::of((0..20).map(|seed| (barrier(nodes, 20), seed)), 0, 1);
        println!(
            "barrier of {nodes}: {} runs, recall {:.4}, wrong {} of {}",
            sum.runs,
            sum.recall(),
            sum.wrong,
            sum.all
        );
        assert_eq!(sum.wrong, 0);
        assert!(sum.recall() > 0.99, "{nodes}: {}", sum.recall());
    }
}

#[test]
fn random_programs_are_found_and_nothing_else() {
    for (nodes, waits) in [(4, 30), (8, 30), (8, 80), (16, 50)] {
        for slow in [0, 5] {
            let programs = (0..30).map(|seed| (random_program(nodes, 20, waits, &mut generator(seed)), seed));
            for repeats in [1, 2] {
                let sum = Sum::of(programs.clone(), slow, repeats);
                println!(
                    "random, {nodes} nodes, {waits} % wait, {slow} of 1000 slow: {} runs, recall {:.4}, wrong {} of {}",
                    sum.runs,
                    sum.recall(),
                    sum.wrong,
                    sum.all
                );
                assert_eq!(sum.wrong, 0);
                // what was seen in one run only may be a slow node where there are some
                let least = [[0.92, 0.98], [0.1, 0.5]][usize::from(slow > 0)][repeats as usize - 1];
                assert!(sum.recall() > least, "{} runs: {}", sum.runs, sum.recall());
            }
        }
    }
}

proptest! {
    #![proptest_config(Config::with_cases(300))]

    /// Held one by one, often enough, all is found: //TRACE's n runs.
    #[test]
    fn one_by_one_all_is_found(nodes in 2_u32..6, rounds in 2_u32..10, waits in 10_u32..90, seed in any::<u64>()) {
        let program = random_program(nodes, rounds, waits, &mut generator(seed));
        let plan: Vec<Vec<u32>> = (0..6).flat_map(|_| one_each(nodes, nodes, seed)).collect();
        let found = find(&program, &plan, 1, 0, seed);
        let (all, right, wrong) = compare(&demanded(&program), &implied(&found.direct, &totals(&program)));
        prop_assert_eq!((right, wrong), (all, 0));
    }
}
