//! Edges that others imply.
//!
//! Who waits for a signal of a thread that it has waited for later already, or that somebody it waited for has, never waits: the
//! signals and waits of //TRACE that "can be easily removed" (section 4.1.1), and the transitive ones, which can't be told there.
//! Here they can, by vector clocks: calls have times.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::matching::{Edges, Signal, Wait};

/// Threads beyond which clocks would take more memory and time than they save.
const MOST_THREADS: usize = 512;
/// Signals of an edge beyond which it is kept as it is.
const MOST_SIGNALS: usize = 64;

/// Removes the waits that never wait, and the edges that nobody waits for. Threads are numbered below `threads`.
pub fn reduce(edges: &mut Edges, threads: usize) {
    if threads > MOST_THREADS {
        return;
    }
    let keep = needed(edges, threads);
    let mut kept = keep.iter();
    edges.waits.retain(|_| kept.next().copied().unwrap_or(true));
    let mut numbers = HashMap::new();
    for wait in &mut edges.waits {
        let next = numbers.len() as u32;
        wait.edge = wait.edge.map(|edge| *numbers.entry(edge).or_insert(next));
    }
    edges.signals.retain(|signal| numbers.contains_key(&signal.edge));
    for signal in &mut edges.signals {
        signal.edge = numbers[&signal.edge];
    }
    edges.count = numbers.len() as u32;
}

/// What a thread, or whoever waits for an edge, knows: of each thread the time until which it had done all.
type Clock = Box<[i64]>;

/// Of each wait whether it can wait.
fn needed(edges: &Edges, threads: usize) -> Vec<bool> {
    enum Event<'a> {
        Signal(&'a Signal),
        Wait(usize, &'a Wait),
    }
    let mut events: Vec<(i64, Event)> =
        edges.signals.iter().map(|one| (one.ts, Event::Signal(one))).collect();
    let ended = edges.waits.iter().enumerate().filter_map(|(at, one)| Some((one.end?, Event::Wait(at, one))));
    events.extend(ended);
    // Of equal times signals first: who waits for them has seen them. Of waits the one for the later signal, which may imply the others.
    events.sort_by_key(|(ts, event)| match event {
        Event::Signal(_) => (*ts, false, Reverse(None)),
        Event::Wait(_, wait) => (*ts, true, Reverse(wait.last)),
    });
    let mut of: HashMap<u32, Vec<&Signal>> = HashMap::new();
    for signal in &edges.signals {
        of.entry(signal.edge).or_default().push(signal);
    }
    let mut left: HashMap<u32, usize> = HashMap::new();
    for wait in &edges.waits {
        if let Some(edge) = wait.edge {
            *left.entry(edge).or_default() += 1;
        }
    }
    let nothing = || -> Clock { vec![i64::MIN; threads].into() };
    let mut known: Vec<Clock> = (0..threads).map(|_| nothing()).collect();
    let mut carried: HashMap<u32, Clock> = HashMap::new();
    let mut keep = vec![true; edges.waits.len()];
    for (_, event) in events {
        match event {
            Event::Signal(signal) => {
                let thread = signal.thread as usize;
                let clock = carried.entry(signal.edge).or_insert_with(nothing);
                merge(clock, &known[thread]);
                clock[thread] = clock[thread].max(signal.ts);
            }
            Event::Wait(at, wait) => {
                let Some(edge) = wait.edge else { continue };
                let thread = wait.thread as usize;
                let signals = &of[&edge];
                let mut others = signals.iter().filter(|signal| signal.thread != wait.thread);
                if signals.len() <= MOST_SIGNALS
                    && others.all(|signal| known[thread][signal.thread as usize] >= signal.ts)
                {
                    keep[at] = false;
                }
                if let Some(clock) = carried.get(&edge) {
                    merge(&mut known[thread], clock);
                }
                if let Some(left) = left.get_mut(&edge) {
                    *left -= 1;
                    if *left == 0 {
                        carried.remove(&edge);
                    }
                }
            }
        }
    }
    keep
}

fn merge(into: &mut [i64], from: &[i64]) {
    for (into, from) in into.iter_mut().zip(from) {
        *into = (*into).max(*from);
    }
}
