//! The run without pauses: which threads do operations, how many, and how long each took.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use iotrail_causal::throttle::OpTimes;
use iotrail_format::schema::{COMPUTE, PROCESS, THREAD, WAIT};
use iotrail_trail::{Error, TrailReader};
use serde::{Deserialize, Serialize};

use super::channels::{self, Channels};
use super::page::Seen;
use crate::causal::operations;

/// What the recorder in the program counted of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// See [`Seen::lineage`].
    pub lineage: u64,
    /// Its id in the trail.
    pub thread: i64,
    /// Operations.
    pub done: u32,
    /// Their hash.
    pub signature: u64,
}

impl From<&Seen> for Counted {
    fn from(seen: &Seen) -> Self {
        Self { lineage: seen.lineage, thread: seen.thread, done: seen.done, signature: seen.signature }
    }
}

/// A thread that does operations.
pub struct FreeNode {
    /// What tells it from others, in each run.
    pub lineage: u64,
    /// Its id in the trail.
    pub thread: i64,
    /// How many operations it does.
    pub total: u32,
    /// Their hash.
    pub signature: u64,
    /// When it did them.
    pub times: OpTimes,
    /// From the end of the operation before each, or its beginning, to its end; the last until the thread's end. Without what it was off a
    /// CPU outside calls, which was for want of one. ns.
    gaps: Vec<u64>,
    /// From the last that was seen of any thread to its beginning, ns.
    pub absent: u64,
    /// What it shares with those that may wait for it, or it for them, without a call that shows it ([`Channels::of`]).
    pub channel: i64,
}

impl FreeNode {
    /// How long it took from its operation before this one to this one, ns.
    pub fn gap(&self, op: u32) -> u64 {
        self.gaps[(op as usize).min(self.gaps.len() - 1)]
    }
}

/// The run without pauses.
pub struct FreeRun {
    /// Threads that do operations.
    pub nodes: Vec<FreeNode>,
    /// From the first thread's beginning to the last's end, ns.
    pub length: u64,
    /// Threads whose recorded operations are not those that were counted: records were lost.
    pub incomplete: u32,
    /// Share of the nodes' lives in which no recorded call says what they did, and that may be a wait: from 0 to 1.
    pub unexplained: f64,
}

impl FreeRun {
    /// From a trail with causality, and what was counted. Of a program of MPI the ranks: what starts them (mpirun) only waits for them.
    pub fn read(trail: &Path, counted: &[Counted]) -> Result<Self, Error> {
        let reader = TrailReader::open(trail)?;
        let mut ranks = HashSet::new();
        for row in reader.small(&PROCESS, &["process", "rank"], &[])? {
            if let [Some(process), Some(_)] = row.ints[..] {
                ranks.insert(process);
            }
        }
        let mut lives: HashMap<i64, (i64, Option<i64>)> = HashMap::new();
        let mut starters = HashSet::new();
        let mut process_of = HashMap::new();
        for row in reader.small(&THREAD, &["thread", "process", "start_ts", "end_ts"], &[])? {
            if let [Some(thread), Some(process), Some(start), end] = row.ints[..] {
                lives.insert(thread, (start, end));
                process_of.insert(thread, process);
                if !ranks.is_empty() && !ranks.contains(&process) {
                    starters.insert(thread);
                }
            }
        }
        let channels = Channels::read(&reader, &process_of)?;
        let mut operations = operations(&reader)?;
        let idle = idle(&reader)?;
        let mut nodes = Vec::new();
        let mut incomplete = 0;
        for one in counted.iter().filter(|one| one.done > 0 && !starters.contains(&one.thread)) {
            let found = operations.remove(&one.thread).unwrap_or_default();
            let Some((start, end)) = lives.get(&one.thread).copied() else {
                incomplete += 1;
                continue;
            };
            if found.times.len() as u32 != one.done || found.signature != one.signature {
                incomplete += 1;
                continue;
            }
            let last = found.times.last().map_or(start, |op| op.1);
            let times = OpTimes { ops: found.times, end: end.unwrap_or(last).max(last) };
            let mut before = start;
            let mut gaps: Vec<u64> = Vec::with_capacity(times.ops.len() + 1);
            let idle = idle.get(&one.thread).map_or(&[][..], Vec::as_slice);
            for end in times.ops.iter().map(|op| op.1).chain([times.end]) {
                let first = idle.partition_point(|row| row.0 < before);
                let off: i64 = idle[first..].iter().take_while(|row| row.0 < end).map(|row| row.1).sum();
                gaps.push((end - before - off).max(0) as u64);
                before = end;
            }
            nodes.push(FreeNode {
                lineage: one.lineage,
                thread: one.thread,
                total: one.done,
                signature: one.signature,
                times,
                gaps,
                absent: 0,
                channel: process_of.get(&one.thread).map_or(one.thread, |process| channels.of(*process)),
            });
        }
        let start = lives.values().map(|life| life.0).min().unwrap_or(0);
        let end = nodes.iter().map(|node| node.times.end).max().unwrap_or(start);
        let unexplained = unexplained(&reader, &nodes, &lives)?;
        let mut free = Self { nodes, length: (end - start).max(0) as u64, incomplete, unexplained };
        free.bound_last_gaps();
        free.set_absences(&lives);
        Ok(free)
    }

    /// Nodes that may wait for each other without a call that shows it.
    pub fn shared(&self) -> Vec<Vec<u32>> {
        channels::shared(&self.nodes.iter().map(|node| node.channel).collect::<Vec<i64>>())
    }

    /// The number of the node with a lineage.
    pub fn number_of(&self, lineage: u64) -> Option<usize> {
        self.nodes.iter().position(|node| node.lineage == lineage)
    }

    /// After its last operation a thread mostly waits for others: it is given no longer than any was between two.
    fn bound_last_gaps(&mut self) {
        let between = self.nodes.iter().flat_map(|node| &node.gaps[..node.gaps.len() - 1]);
        let longest = between.copied().max().unwrap_or(0);
        for last in self.nodes.iter_mut().filter_map(|node| node.gaps.last_mut()) {
            *last = (*last).min(longest);
        }
    }

    fn set_absences(&mut self, lives: &HashMap<i64, (i64, Option<i64>)>) {
        let ends = self.nodes.iter().flat_map(|node| node.times.ops.iter().map(|op| op.1));
        let mut seen: Vec<i64> = ends.chain(lives.values().map(|life| life.0)).collect();
        seen.sort_unstable();
        for node in &mut self.nodes {
            let Some((start, _)) = lives.get(&node.thread) else { continue };
            let before = seen[..seen.partition_point(|at| at < start)].last();
            node.absent = before.map_or(0, |before| (start - before) as u64);
        }
    }
}

/// Of each thread the time off a CPU between its calls: when that was, and how long, ns. In order.
fn idle(reader: &TrailReader) -> Result<HashMap<i64, Vec<(i64, i64)>>, Error> {
    let mut found: HashMap<i64, Vec<(i64, i64)>> = HashMap::new();
    for row in reader.small(&COMPUTE, &["thread", "ts", "dur", "cpu_ns"], &[])? {
        if let [Some(thread), Some(ts), Some(dur), Some(cpu)] = row.ints[..] {
            found.entry(thread).or_default().push((ts, dur - cpu));
        }
    }
    found.values_mut().for_each(|rows| rows.sort_unstable());
    Ok(found)
}

/// What of the nodes' lives is outside calls, or in calls that wait for nobody knows what. Looking at memory is outside calls as
/// computing is.
fn unexplained(
    reader: &TrailReader,
    nodes: &[FreeNode],
    lives: &HashMap<i64, (i64, Option<i64>)>,
) -> Result<f64, Error> {
    /// Waits whose end nobody causes, or whom chance causes.
    const KNOWN: [&str; 4] = ["sleep", "timer", "start", "lock"];
    let is_node = |thread: i64| nodes.iter().any(|node| node.thread == thread);
    let mut open = 0;
    for row in reader.small(&COMPUTE, &["thread", "dur"], &[])? {
        if let [Some(thread), Some(dur)] = row.ints[..]
            && is_node(thread)
        {
            open += dur;
        }
    }
    for row in reader.small(&WAIT, &["thread", "dur", "edge"], &["kind"])? {
        let kind = row.texts[0].as_deref().unwrap_or_default();
        if let [Some(thread), Some(dur), None] = row.ints[..]
            && is_node(thread)
            && !KNOWN.contains(&kind)
        {
            open += dur;
        }
    }
    let of = |node: &FreeNode| lives.get(&node.thread).map_or(0, |life| node.times.end - life.0);
    let all: i64 = nodes.iter().map(of).sum();
    Ok(open as f64 / all.max(1) as f64)
}
