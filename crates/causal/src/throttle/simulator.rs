//! Programs with known dependencies, run in virtual time with some nodes held.

use std::collections::HashMap;

use super::{Doing, OpTimes, Releases, Run, Snapshot, State};
use crate::script::Style;

/// What a node does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An operation.
    Op,
    /// Sets a flag in memory, once.
    Set(u32),
    /// Looks at flags until all are set.
    Wait(Vec<u32>),
    /// Puts something into a queue.
    Put(u32),
    /// Takes something out of a queue, whoever put it there.
    Take(u32),
}

/// A program: the steps of its nodes.
pub type Program = Vec<Vec<Step>>;

/// Operations of each node.
pub fn totals(program: &Program) -> Vec<u32> {
    program.iter().map(|steps| steps.iter().filter(|step| **step == Step::Op).count() as u32).collect()
}

/// Random numbers below a bound.
pub type Random<'a> = &'a mut dyn FnMut(u32) -> u32;

#[derive(Default)]
struct Memory {
    flags: HashMap<u32, i64>,
    queues: HashMap<u32, i64>,
}

impl Memory {
    /// Whether a step can be done now; operations always.
    fn allows(&self, step: &Step) -> bool {
        match step {
            Step::Wait(flags) => flags.iter().all(|flag| self.flags.contains_key(flag)),
            Step::Take(queue) => self.queues.get(queue).copied().unwrap_or(0) > 0,
            Step::Op | Step::Set(_) | Step::Put(_) => true,
        }
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Set(flag) => drop(self.flags.insert(*flag, 0)),
            Step::Put(queue) => *self.queues.entry(*queue).or_default() += 1,
            Step::Take(queue) => *self.queues.entry(*queue).or_default() -= 1,
            Step::Op | Step::Wait(_) => {}
        }
    }
}

/// How a run is done.
pub struct How<'a> {
    /// Nodes that are held.
    pub held: &'a [u32],
    /// They pause before each operation whose index is a multiple of it.
    pub period: u32,
    /// Of 1000 times that a node could move, in how many it is slow: it seems stuck.
    pub slow: u32,
}

/// Runs a program to its end, or until nothing can move any more.
pub fn run(program: &Program, how: &How, releases: &mut Releases, random: Random) -> Run {
    let count = program.len();
    let mut memory = Memory::default();
    let mut at = vec![0; count];
    let mut done = vec![0; count];
    let mut allowed: Vec<u32> =
        (0..count as u32).map(|node| if how.held.contains(&node) { 0 } else { u32::MAX }).collect();
    let mut seen = Run { period: how.period, strayed: vec![false; count], ..Run::default() };
    loop {
        let mut slow = vec![false; count];
        loop {
            let can = |node: usize, memory: &Memory| match program[node].get(at[node]) {
                None => false,
                Some(Step::Op) => done[node] < allowed[node],
                Some(step) => memory.allows(step),
            };
            let able: Vec<usize> = (0..count).filter(|node| !slow[*node] && can(*node, &memory)).collect();
            if able.is_empty() {
                break;
            }
            let node = able[random(able.len() as u32) as usize];
            if random(1000) < how.slow {
                // half of them are found when it is looked at once more
                if random(2) == 0 {
                    seen.late += 1;
                } else {
                    slow[node] = true;
                    continue;
                }
            }
            memory.apply(&program[node][at[node]]);
            done[node] += u32::from(program[node][at[node]] == Step::Op);
            at[node] += 1;
        }
        let state = |node: usize| {
            let doing = match program[node].get(at[node]) {
                None => Doing::Ended,
                Some(Step::Op) if done[node] >= allowed[node] => Doing::Paused,
                Some(_) => Doing::Stuck(Style::Spin),
            };
            State { done: done[node], doing }
        };
        let nodes: Vec<State> = (0..count).map(state).collect();
        let paused: Vec<(u32, u32)> = (0..)
            .zip(&nodes)
            .filter(|(_, is)| is.doing == Doing::Paused)
            .map(|(node, is)| (node, is.done))
            .collect();
        let mut snapshot = Snapshot { nodes, is_settled: true, released: None };
        let next = releases.choose(&paused);
        snapshot.released = next;
        let is_over = next.is_none() && snapshot.nodes.iter().all(|is| is.doing == Doing::Ended);
        seen.snapshots.push(snapshot);
        match next {
            Some(node) => allowed[node as usize] = done[node as usize] + how.period,
            None if is_over || !slow.contains(&true) => break,
            None => {}
        }
    }
    releases.learn(&seen);
    seen
}

/// When the operations are done without pauses; all take random times.
pub fn free_run(program: &Program, random: Random) -> Vec<OpTimes> {
    let mut memory = Memory::default();
    let mut set_at: HashMap<u32, i64> = HashMap::new();
    let mut at = vec![0; program.len()];
    let mut clock: Vec<i64> = (0..program.len()).map(|_| i64::from(random(50))).collect();
    let mut times = vec![OpTimes::default(); program.len()];
    // the node that is earliest and can move does
    while let Some(node) = (0..program.len())
        .filter(|node| program[*node].get(at[*node]).is_some_and(|step| memory.allows(step)))
        .min_by_key(|node| clock[*node])
    {
        let step = &program[node][at[node]];
        match step {
            Step::Op => {
                let start = clock[node] + 1 + i64::from(random(100));
                clock[node] = start + 1 + i64::from(random(100));
                times[node].ops.push((start, clock[node]));
            }
            Step::Set(flag) => {
                clock[node] += 1;
                set_at.insert(*flag, clock[node]);
            }
            Step::Wait(flags) => {
                let last = flags.iter().map(|flag| set_at[flag]).max().unwrap_or(0);
                clock[node] = clock[node].max(last) + 1;
            }
            Step::Put(_) | Step::Take(_) => {
                // who takes does so when all that was put before it is known
                let latest = clock.iter().copied().filter(|_| matches!(step, Step::Take(_))).max();
                clock[node] = latest.unwrap_or(clock[node]) + 1;
            }
        }
        memory.apply(step);
        at[node] += 1;
        times[node].end = clock[node] + 1;
    }
    times
}
