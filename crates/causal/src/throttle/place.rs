//! From dependencies between operations to edges in the time of the run without pauses.

use std::collections::{BTreeMap, BTreeSet};

use super::{Dependency, Found};
use crate::matching::{Edges, How, Signal, Wait};

/// Kind of these edges in a trail.
const HIDDEN: &str = "hidden";

/// When a node did its operations in the run without pauses, ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpTimes {
    /// Start and end of each, in their order.
    pub ops: Vec<(i64, i64)>,
    /// When the node ended.
    pub end: i64,
}

/// Adds the dependencies to `edges`, each as an edge of its own: the signal is given when the giver has done its operation, the wait ends when
/// the taker's begins. Where that began before the other ended, what the operation itself does was waited for (a name that appears):
/// then all signals between these two nodes are given when the operation begins. `threads` are the threads' numbers of nodes, `free` their times, by number of the node.
pub fn place(found: &[Found], threads: &[u32], free: &[OpTimes], edges: &mut Edges) {
    let ends = |op: &Dependency| {
        let (giver, taken) = (free.get(op.giver as usize)?, free.get(op.taker as usize)?);
        let until = taken.ops.get(op.before as usize).map_or(taken.end, |op| op.0);
        Some((*giver.ops.get(op.op as usize)?, until))
    };
    let is_seen_early = |op: &&Dependency| ends(op).is_some_and(|((_, done), until)| until < done);
    let early: BTreeSet<(u32, u32)> = found
        .iter()
        .map(|one| &one.dependency)
        .filter(is_seen_early)
        .map(|op| (op.giver, op.taker))
        .collect();
    for Found { dependency, within, style } in found {
        let (giver, taker) = (dependency.giver as usize, dependency.taker as usize);
        let Some(((begun, done), until)) = ends(dependency) else { continue };
        let given = if early.contains(&(dependency.giver, dependency.taker)) { begun } else { done };
        let edge = edges.count;
        edges.count += 1;
        let how = How::Throttled;
        edges.signals.push(Signal { thread: threads[giver], ts: given, edge, kind: HIDDEN, how });
        edges.waits.push(Wait {
            thread: threads[taker],
            start: until,
            end: Some(until),
            edge: Some(edge),
            kind: HIDDEN,
            how,
            last: Some(given),
            within: *within,
            style: Some(*style),
            until: None,
        });
    }
}

/// Makes the edges that one operation waits for one edge with several signals: it begins when all have been given.
pub fn gather(edges: &mut Edges) {
    let mut first: BTreeMap<(u32, Option<i64>), usize> = BTreeMap::new();
    let mut into: BTreeMap<u32, u32> = BTreeMap::new();
    let mut kept: Vec<Wait> = Vec::with_capacity(edges.waits.len());
    for wait in edges.waits.drain(..) {
        let (How::Throttled, Some(edge)) = (wait.how, wait.edge) else {
            kept.push(wait);
            continue;
        };
        match first.get(&(wait.thread, wait.end)) {
            None => {
                first.insert((wait.thread, wait.end), kept.len());
                kept.push(wait);
            }
            Some(at) => {
                let to = &mut kept[*at];
                to.last = to.last.max(wait.last);
                to.within = to.within.max(wait.within);
                into.extend(to.edge.map(|to| (edge, to)));
            }
        }
    }
    edges.waits = kept;
    for signal in &mut edges.signals {
        if let Some(edge) = into.get(&signal.edge) {
            signal.edge = *edge;
        }
    }
    // edges are numbered without gaps
    let mut numbers: BTreeMap<u32, u32> = BTreeMap::new();
    for edge in edges.waits.iter().filter_map(|wait| wait.edge) {
        let next = numbers.len() as u32;
        numbers.entry(edge).or_insert(next);
    }
    edges.signals.retain(|signal| numbers.contains_key(&signal.edge));
    for signal in &mut edges.signals {
        signal.edge = numbers[&signal.edge];
    }
    for wait in &mut edges.waits {
        wait.edge = wait.edge.map(|edge| numbers[&edge]);
    }
    edges.count = numbers.len() as u32;
}
