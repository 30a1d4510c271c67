//! Threads that look for a file again and again: how often they do depends on when another one makes it, so that they do it anew.

use std::collections::{BTreeMap, HashMap, HashSet};

use iotrail_causal::{Reason, Recorded, Step, Waited};

/// Threads that looked for files, and the processes that they made to sleep meanwhile.
#[derive(Default)]
pub(super) struct Searches {
    /// Edges of files that were looked for.
    edges: HashSet<u32>,
    /// By edge and thread.
    parts: BTreeMap<(u32, usize), Part>,
}

/// What one thread did for a search, ns.
#[derive(Clone, Copy, Debug)]
struct Part {
    from: i64,
    to: i64,
    /// How often it waited then.
    waits: u32,
    /// It was made for this, and did nothing else.
    is_all: bool,
}

impl Part {
    fn has(&self, at: i64) -> bool {
        self.is_all || (self.from..self.to).contains(&at)
    }
}

impl Searches {
    /// An edge of a file that was looked for.
    pub(super) fn add_edge(&mut self, edge: u32) {
        self.edges.insert(edge);
    }

    /// A wait that an edge ended, or would have made shorter: from when on, and how long, ns.
    pub(super) fn add_wait(&mut self, thread: usize, edge: u32, (start, dur): (i64, i64), kind: &str) {
        if !self.edges.contains(&edge) {
            return;
        }
        let none = Part { from: i64::MAX, to: i64::MIN, waits: 0, is_all: false };
        let part = self.parts.entry((edge, thread)).or_insert(none);
        part.from = part.from.min(start);
        part.to = part.to.max(start + dur);
        part.waits += 1;
        part.is_all |= kind == "begin";
    }

    /// Has threads look anew, as often as they have to, and leaves out what they did to look, where nobody else had to do with it.
    pub(super) fn leave_out(mut self, recorded: &mut [Recorded]) {
        if self.parts.is_empty() {
            return;
        }
        // of edges who gives their signals and who waits for them, and when
        let mut ends: HashMap<u32, Vec<(usize, i64)>> = HashMap::new();
        for (thread, one) in recorded.iter().enumerate() {
            let waits = one.waits.iter().filter_map(|wait| Some((wait.start, edge_of(wait.reason)?)));
            for (at, edge) in one.signals.iter().copied().chain(waits) {
                ends.entry(edge).or_default().push((thread, at));
            }
        }
        for edge in self.edges.iter().copied() {
            let parts: Vec<(usize, &mut Part)> = self
                .parts
                .range_mut((edge, 0)..=(edge, usize::MAX))
                .map(|((_, thread), part)| (*thread, part))
                .collect();
            leave_out(edge, parts, &ends, recorded);
        }
    }
}

fn edge_of(reason: Reason) -> Option<u32> {
    match reason {
        Reason::Edge(edge, _) | Reason::Chance(edge, _) => Some(edge),
        _ => None,
    }
}

/// Leaves out one search.
fn leave_out(
    edge: u32,
    mut parts: Vec<(usize, &mut Part)>,
    ends: &HashMap<u32, Vec<(usize, i64)>>,
    recorded: &mut [Recorded],
) {
    let made: HashSet<usize> =
        parts.iter().filter(|(_, part)| part.is_all).map(|(thread, _)| *thread).collect();
    // it begins with making the first process that sleeps
    let begins = |signal: &(i64, u32)| {
        ends.get(&signal.1).is_some_and(|ends| ends.iter().any(|(thread, _)| made.contains(thread)))
    };
    for (thread, part) in &mut parts {
        let first = recorded[*thread].signals.iter().filter(|signal| begins(signal)).map(|(at, _)| *at).min();
        part.from = part.from.min(first.unwrap_or(i64::MAX));
    }
    let has = |thread: usize, at: i64| parts.iter().any(|(of, part)| *of == thread && part.has(at));
    let is_inside = |of: u32| ends.get(&of).into_iter().flatten().all(|(thread, at)| has(*thread, *at));
    // who looks may be told of the end of a process that has nothing to do with it: for that it waits all the same
    let kept: Vec<Vec<i64>> = parts
        .iter()
        .map(|(thread, part)| {
            let waits = recorded[*thread].waits.iter().filter(|wait| part.has(wait.start));
            let of_others =
                |wait: &&Waited| edge_of(wait.reason).is_some_and(|of| of != edge && !is_inside(of));
            waits.filter(of_others).map(|wait| wait.start).collect()
        })
        .collect();
    let is_own = |((thread, part), kept): (&(usize, &mut Part), &Vec<i64>)| {
        let one = &recorded[*thread];
        one.signals.iter().filter(|(at, _)| part.has(*at)).all(|(_, of)| is_inside(*of))
            && !one.locks.iter().any(|(at, _)| part.has(*at))
            && (kept.is_empty() || !part.is_all)
    };
    let gives = |(thread, part): &(usize, &mut Part)| {
        recorded[*thread].signals.iter().any(|(at, of)| *of == edge && part.has(*at))
    };
    if !parts.iter().zip(&kept).all(is_own) || parts.iter().any(gives) {
        return;
    }
    for ((thread, part), kept) in parts.into_iter().zip(kept) {
        let one = &mut recorded[thread];
        if part.is_all {
            one.left_out.push(i64::MIN..i64::MAX);
        } else {
            let mut from = part.from;
            for at in kept {
                one.left_out.push(from..at);
                from = at + 1;
            }
            one.left_out.push(from..part.to);
            let period = (part.to - part.from) / i64::from(part.waits);
            one.polls.push((part.to, Step::Poll(edge, period.max(1))));
        }
    }
}

#[cfg(test)]
mod tests {
    use iotrail_causal::Style;

    use super::*;

    const NAME: u32 = 7;

    /// A thread looks at 0, 20, 40 and finds at 60 what the second made at 45; meanwhile it made threads 2 and 3, which slept; at 12 the first also gave a
    /// signal of these.
    fn recorded(at: i64, more: Option<u32>, older: bool) -> Vec<Recorded> {
        let wait = |start, dur, edge| Waited { start, dur, reason: Reason::Edge(edge, Style::Sleep) };
        let mut own = Recorded { ops: vec![0, 20, 40, 60], ..Recorded::default() };
        let mut threads = vec![Recorded { ops: vec![44], signals: vec![(45, NAME)], ..Recorded::default() }];
        own.computed = (0..4).map(|look| (20 * look + 1, 3)).collect();
        for child in 0..2 {
            let (made, ended) = (20 * i64::from(child) + 5, 20 * i64::from(child) + 18);
            own.signals.push((made, child));
            own.waits.push(wait(made + 1, ended - made, 10 + child));
            let sleeps = if child == 1 {
                wait(30, 13, NAME)
            } else {
                Waited { start: 8, dur: 5, reason: Reason::Timeout(NAME) }
            };
            threads.push(Recorded {
                ops: vec![made + 2],
                waits: vec![wait(made, 0, child), sleeps],
                computed: vec![(made, 2)],
                signals: vec![(ended, 10 + child)],
                ..Recorded::default()
            });
        }
        own.signals.extend(more.map(|edge| (at, edge)));
        own.waits.extend(older.then(|| wait(19, 2, 21)));
        let last = Recorded { waits: vec![wait(70, 1, 20)], signals: vec![(20, 21)], ..Recorded::default() };
        std::iter::once(own).chain(threads).chain([last]).collect()
    }

    fn steps(mut recorded: Vec<Recorded>) -> Vec<Vec<Step>> {
        let mut searches = Searches::default();
        searches.add_edge(NAME);
        for (child, thread) in [(0, 2), (1, 3)] {
            searches.add_wait(0, NAME, (20 * child + 6, 13), "end");
            searches.add_wait(thread, NAME, (20 * child + 5, 0), "begin");
            searches.add_wait(thread, NAME, (20 * child + 8, 5), "sleep");
        }
        searches.add_wait(4, 20, (70, 1), "stream");
        searches.leave_out(&mut recorded);
        recorded.iter().map(|one| one.script(0, false).steps).collect()
    }

    #[test]
    fn what_was_done_to_look_is_left_out() {
        let look = [Step::Io(0), Step::Compute(3)];
        // from 5, when the first is made, to 39, when the last has ended, for two
        let found = [
            &look[..],
            &[Step::Poll(NAME, 17), Step::Io(2), Step::Compute(3), Step::Io(3), Step::Compute(3)],
        ];
        let made = steps(recorded(0, None, false));
        assert_eq!(made[0], found.concat());
        assert_eq!(made[1], [Step::Rest(44), Step::Io(0), Step::Signal(NAME)]);
        assert_eq!((&made[2], &made[3]), (&vec![], &vec![]));
        let older = steps(recorded(0, None, true)).swap_remove(0);
        assert_eq!(older[2..4], [Step::Wait(21, Style::Sleep), Step::Poll(NAME, 17)]);
    }

    #[test]
    fn what_others_wait_for_is_not_left_out() {
        let polls = |made: Vec<Vec<Step>>| made.iter().flatten().any(|step| matches!(step, Step::Poll(..)));
        assert!(polls(steps(recorded(2, Some(20), false))), "it was before");
        assert!(!polls(steps(recorded(12, Some(20), false))));
    }
}
