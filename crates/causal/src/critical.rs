//! The critical path of a run: what decided how long it took.
//!
//! From its last moment backwards: a thread that had waited for a signal went on when that was given, so that until then its
//! giver is to be looked at; and so on. What a thread does after its last wait, or before it gives the signal, is on the path.

use std::collections::HashMap;

use crate::matching::{Edges, Signal, Wait};

/// A stretch of the path, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Number of the thread.
    pub thread: u32,
    /// Its start.
    pub start: i64,
    /// Its end.
    pub end: i64,
    /// The edge by which it came to be this thread's turn; none where the path begins.
    pub edge: Option<u32>,
}

/// The path that leads to the moment `end` of a thread, the last stretch first. `starts` has the beginning of each thread.
#[must_use]
pub fn critical(edges: &Edges, starts: &[i64], thread: u32, end: i64) -> Vec<Stretch> {
    // of each thread its waits that had to wait, by their ends
    let mut blocked: Vec<Vec<&Wait>> = vec![Vec::new(); starts.len()];
    for wait in &edges.waits {
        let had_to = wait.kind == "begin" || wait.last.is_some_and(|last| last > wait.start);
        if had_to && wait.edge.is_some() && wait.end.is_some() {
            blocked[wait.thread as usize].push(wait);
        }
    }
    blocked.iter_mut().for_each(|waits| waits.sort_by_key(|wait| wait.end));
    let mut last: HashMap<u32, &Signal> = HashMap::new();
    for signal in &edges.signals {
        let known = last.entry(signal.edge).or_insert(signal);
        if (signal.ts, signal.thread) > (known.ts, known.thread) {
            *known = signal;
        }
    }
    let mut path = Vec::new();
    let (mut thread, mut until) = (thread, end);
    loop {
        let waits = &mut blocked[thread as usize];
        // each is used once, so that the walk ends
        while waits.last().is_some_and(|wait| wait.end > Some(until)) {
            waits.pop();
        }
        let Some((wait, signal)) = waits.pop().and_then(|wait| Some((wait, *last.get(&wait.edge?)?))) else {
            let start = starts[thread as usize].min(until);
            path.push(Stretch { thread, start, end: until, edge: None });
            return path;
        };
        if signal.thread == thread {
            continue;
        }
        // what came after the signal is its own: the message on its way, a CPU that wasn't free
        let start = signal.ts.min(until);
        path.push(Stretch { thread, start, end: until, edge: wait.edge });
        (thread, until) = (signal.thread, start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::How;

    #[test]
    fn who_was_waited_for_is_on_the_path() {
        let signal = |thread, ts, edge| Signal { thread, ts, edge, kind: "message", how: How::Matched };
        let wait = |thread, start, end, edge: u32, last| Wait {
            thread,
            start,
            end: Some(end),
            edge: Some(edge),
            kind: "message",
            how: How::Matched,
            last: Some(last),
            within: 0,
            style: None,
            until: None,
        };
        let edges = Edges {
            signals: vec![signal(1, 50, 0), signal(0, 10, 1), signal(1, 90, 2)],
            // the second was there already, so that nobody waited for thread 0
            waits: vec![wait(0, 20, 55, 0, 50), wait(1, 30, 31, 1, 10), wait(0, 80, 95, 2, 90)],
            count: 3,
        };
        let path = critical(&edges, &[0, 0], 0, 100);
        let stretch = |thread, start, end, edge| Stretch { thread, start, end, edge };
        assert_eq!(path, [stretch(0, 90, 100, Some(2)), stretch(1, 0, 90, None)]);
        assert_eq!(path.iter().map(|one| one.end - one.start).sum::<i64>(), 100);
        let path = critical(&edges, &[0, 0], 0, 79);
        assert_eq!(path, [stretch(0, 50, 79, Some(0)), stretch(1, 0, 50, None)]);
    }
}
