//! What is wrong with scripts, before any of their steps is done.
//!
//! Locks are left out of it, but for their use by each thread: which thread has one when is known only when they run.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use crate::evaluate::{Blocked, On, join};
use crate::order::{OpRef, Order};
use crate::script::{Scripts, Step};

/// The longest that a thread's computations and rests may take together: times of all threads then fit 64 bits (104 days, ns).
const LONGEST: i64 = 1 << 53;

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A step can't be done.
    #[error("thread {thread}, step {step}: expected {expected}, found {found}")]
    Step {
        /// Number of the thread.
        thread: u32,
        /// The step, as an index.
        step: u32,
        /// What would be valid.
        expected: String,
        /// What is there.
        found: String,
    },
    /// Threads give another number of signals of an edge than it has.
    #[error("edge {edge}: expected {expected} signals, found {found}")]
    Signals {
        /// Number of the edge.
        edge: u32,
        /// How many it has.
        expected: u32,
        /// How many there are.
        found: u32,
    },
    /// Each of these threads waits for what the next one would do later, and the last for the first.
    #[error("threads wait for each other: {}", join(.0))]
    Cycle(Vec<Blocked>),
}

/// Looks for what would keep threads from ending, whatever their steps take: steps that can't be done, signals that nobody gives, and
/// cycles of waits, of which it names one of the shortest among threads that get no further. O(steps) if there is no cycle.
///
/// # Errors
/// The first problem.
pub fn check(scripts: &Scripts, order: &impl Order) -> Result<(), Problem> {
    let mut signals = vec![0_u32; scripts.signals.len()];
    for thread in 0..scripts.threads.len() {
        check_thread(scripts, order, thread, &mut signals)?;
    }
    for (edge, (expected, found)) in scripts.signals.iter().zip(&signals).enumerate() {
        if expected != found {
            return Err(Problem::Signals { edge: edge as u32, expected: *expected, found: *found });
        }
    }
    let blocked = find_blocked(scripts, order);
    if blocked.is_empty() { Ok(()) } else { Err(Problem::Cycle(shortest_cycle(scripts, &blocked))) }
}

/// Looks at each step by itself, and counts the signals.
fn check_thread(
    scripts: &Scripts,
    order: &impl Order,
    thread: usize,
    signals: &mut [u32],
) -> Result<(), Problem> {
    let (mut held, mut next_op, mut time) = (BTreeSet::new(), 0, 0_i64);
    for (step, at) in scripts.threads[thread].steps.iter().zip(0..) {
        let wrong = |expected: String, found: String| {
            Err(Problem::Step { thread: thread as u32, step: at, expected, found })
        };
        match *step {
            Step::Timeout(edge, _) if edge as usize >= signals.len() => {
                return wrong(format!("an edge below {}", signals.len()), format!("edge {edge}"));
            }
            Step::Compute(dur) | Step::Rest(dur) | Step::Timeout(_, dur) => {
                if dur < 0 {
                    return wrong("a time of 0 or more".into(), format!("{dur} ns"));
                }
                time = time.saturating_add(dur);
                if time > LONGEST {
                    return wrong(format!("at most {LONGEST} ns of a thread"), format!("{time} ns so far"));
                }
            }
            Step::Io(op) => {
                if op < next_op {
                    return wrong(format!("operation {next_op} or a later one"), format!("operation {op}"));
                }
                next_op = op.saturating_add(1);
                let is_unknown = |before: &OpRef| before.thread as usize >= scripts.threads.len();
                if let Some(before) = order.after(OpRef { thread: thread as u32, index: op }).find(is_unknown)
                {
                    let found = format!("an operation after one of thread {}", before.thread);
                    return wrong(format!("a thread below {}", scripts.threads.len()), found);
                }
            }
            Step::Signal(edge) | Step::Wait(edge, _) | Step::Poll(edge, _) | Step::Hurry(edge)
                if edge as usize >= signals.len() =>
            {
                return wrong(format!("an edge below {}", signals.len()), format!("edge {edge}"));
            }
            Step::Poll(_, period) if period <= 0 => {
                return wrong("a time between looks of 1 or more".into(), format!("{period} ns"));
            }
            Step::Signal(edge) => signals[edge as usize] = signals[edge as usize].saturating_add(1),
            Step::Wait(..) | Step::Poll(..) | Step::Hurry(_) => {}
            Step::Lock(lock) | Step::Share(lock) | Step::Unlock(lock) if lock >= scripts.locks => {
                return wrong(format!("a lock below {}", scripts.locks), format!("lock {lock}"));
            }
            Step::Lock(lock) | Step::Share(lock) => {
                if !held.insert(lock) {
                    return wrong("a lock that the thread doesn't have".into(), format!("lock {lock}"));
                }
            }
            Step::Unlock(lock) => {
                if !held.remove(&lock) {
                    return wrong("a lock that the thread has".into(), format!("lock {lock}"));
                }
            }
        }
    }
    Ok(())
}

/// Threads that don't get to their end if nothing takes time and all locks are free.
fn find_blocked(scripts: &Scripts, order: &impl Order) -> Vec<Blocked> {
    let count = scripts.threads.len();
    let mut steps = vec![0_usize; count];
    // until which of its operations a thread has got, and who waits for a later one
    let mut next_op = vec![0_u32; count];
    let mut followers: Vec<BinaryHeap<Reverse<(u32, u32)>>> = vec![BinaryHeap::new(); count];
    let mut missing = scripts.signals.clone();
    let mut waiters: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut ready: Vec<u32> = (0..count as u32).collect();
    while let Some(number) = ready.pop() {
        let thread = number as usize;
        let release = |next: u32, followers: &mut BinaryHeap<Reverse<(u32, u32)>>, ready: &mut Vec<u32>| {
            while followers.peek().is_some_and(|Reverse((index, _))| *index < next) {
                ready.extend(followers.pop().map(|Reverse((_, follower))| follower));
            }
        };
        loop {
            let Some(step) = scripts.threads[thread].steps.get(steps[thread]) else {
                next_op[thread] = u32::MAX;
                release(u32::MAX, &mut followers[thread], &mut ready);
                break;
            };
            match *step {
                Step::Wait(edge, _) | Step::Poll(edge, _) if missing[edge as usize] > 0 => {
                    waiters.entry(edge).or_default().push(number);
                    break;
                }
                Step::Signal(edge) => {
                    missing[edge as usize] -= 1;
                    if missing[edge as usize] == 0 {
                        ready.extend(waiters.remove(&edge).unwrap_or_default());
                    }
                }
                Step::Io(index) => {
                    let mut after = order.after(OpRef { thread: number, index });
                    if let Some(before) = after.find(|before| next_op[before.thread as usize] <= before.index)
                    {
                        followers[before.thread as usize].push(Reverse((before.index, number)));
                        break;
                    }
                    next_op[thread] = index.saturating_add(1);
                    release(next_op[thread], &mut followers[thread], &mut ready);
                }
                Step::Wait(..) | Step::Poll(..) | Step::Hurry(_) => {}
                Step::Compute(_) | Step::Rest(_) | Step::Timeout(..) => {}
                Step::Lock(_) | Step::Share(_) | Step::Unlock(_) => {}
            }
            steps[thread] += 1;
        }
    }
    let blocked = |(step, thread): (&usize, u32)| {
        let on = match *scripts.threads[thread as usize].steps.get(*step)? {
            Step::Wait(edge, _) | Step::Poll(edge, _) => On::Edge { edge, missing: missing[edge as usize] },
            Step::Io(index) => {
                let op = OpRef { thread, index };
                let mut after = order.after(op);
                On::Op { op, before: after.find(|before| next_op[before.thread as usize] <= before.index)? }
            }
            Step::Compute(_) | Step::Rest(_) | Step::Timeout(..) => return None,
            Step::Signal(_) | Step::Hurry(_) => return None,
            Step::Lock(_) | Step::Share(_) | Step::Unlock(_) => return None,
        };
        Some(Blocked { thread, step: *step as u32, on })
    };
    steps.iter().zip(0..).filter_map(blocked).collect()
}

/// One of the shortest cycles of threads that get no further: each waits for at least one of the others, or for itself.
fn shortest_cycle(scripts: &Scripts, blocked: &[Blocked]) -> Vec<Blocked> {
    let index_of: BTreeMap<u32, usize> = blocked.iter().zip(0..).map(|(one, at)| (one.thread, at)).collect();
    // of each edge that somebody waits for the threads that would give a signal of it
    let mut givers: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for one in blocked {
        if let On::Edge { edge, .. } = one.on {
            givers.entry(edge).or_default();
        }
    }
    for (one, at) in blocked.iter().zip(0..) {
        for step in &scripts.threads[one.thread as usize].steps[one.step as usize..] {
            if let Step::Signal(edge) = step
                && let Some(givers) = givers.get_mut(edge)
                && givers.last() != Some(&at)
            {
                givers.push(at);
            }
        }
    }
    let mut best: Vec<usize> = Vec::new();
    // from which each was reached
    let mut reached: Vec<Option<usize>> = vec![None; blocked.len()];
    let mut queue = VecDeque::new();
    for start in 0..blocked.len() {
        reached.fill(None);
        queue.clear();
        queue.push_back((start, 1));
        'search: while let Some((at, length)) = queue.pop_front() {
            if !best.is_empty() && length >= best.len() {
                break;
            }
            let single;
            let next = match blocked[at].on {
                On::Edge { edge, .. } => givers[&edge].as_slice(),
                On::Op { before, .. } => {
                    single = [index_of[&before.thread]];
                    &single
                }
                On::Lock { .. } | On::Storage { .. } => &[],
            };
            for next in next.iter().copied() {
                if next == start {
                    best = std::iter::successors(Some(at), |at| reached[*at]).collect();
                    best.reverse();
                    break 'search;
                }
                if reached[next].is_none() {
                    reached[next] = Some(at);
                    queue.push_back((next, length + 1));
                }
            }
        }
    }
    best.into_iter().map(|at| blocked[at]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::{Durations, Machines, Script, Style, evaluate};

    use Step::{Compute, Io, Lock, Signal, Unlock, Wait};

    const SLEEP: Style = Style::Sleep;

    fn scripts(threads: &[&[Step]], signals: &[u32], locks: u32) -> Scripts {
        let threads = threads.iter().map(|steps| Script { steps: steps.to_vec() }).collect();
        Scripts { threads, signals: signals.to_vec(), locks, ..Scripts::default() }
    }

    struct After(HashMap<OpRef, OpRef>);

    impl Order for After {
        fn after(&self, op: OpRef) -> impl Iterator<Item = OpRef> {
            self.0.get(&op).copied().into_iter()
        }
    }

    #[test]
    fn what_can_be_done_is_right() {
        let right = scripts(
            &[
                &[Signal(0), Lock(1), Wait(1, SLEEP), Io(0), Unlock(1), Lock(1)],
                &[Wait(0, Style::Spin), Io(3), Io(7), Signal(1), Wait(2, SLEEP)],
            ],
            &[1, 1, 0],
            2,
        );
        assert_eq!(check(&right, &()), Ok(()));
        assert_eq!(check(&Scripts::default(), &()), Ok(()));
    }

    #[test]
    fn steps_that_cannot_be_done_are_named() {
        let message = |steps: &[Step]| check(&scripts(&[&[], steps], &[1], 1), &()).unwrap_err().to_string();
        for (steps, expected) in [
            (&[Wait(1, SLEEP)][..], "thread 1, step 0: expected an edge below 1, found edge 1"),
            (&[Signal(0), Signal(3)], "thread 1, step 1: expected an edge below 1, found edge 3"),
            (&[Lock(1)], "thread 1, step 0: expected a lock below 1, found lock 1"),
            (&[Unlock(0)], "thread 1, step 0: expected a lock that the thread has, found lock 0"),
            (
                &[Lock(0), Lock(0)],
                "thread 1, step 1: expected a lock that the thread doesn't have, found lock 0",
            ),
            (&[Compute(-5)], "thread 1, step 0: expected a time of 0 or more, found -5 ns"),
            (
                &[Compute(1 << 53), Step::Rest(1)],
                "thread 1, step 1: expected at most 9007199254740992 ns of a thread, found 9007199254740993 ns so far",
            ),
            (&[Io(4), Io(4)], "thread 1, step 1: expected operation 5 or a later one, found operation 4"),
            (&[Compute(1)], "edge 0: expected 1 signals, found 0"),
            (&[Signal(0), Signal(0)], "edge 0: expected 1 signals, found 2"),
        ] {
            assert_eq!(message(steps), expected);
        }
        let op = |thread, index| OpRef { thread, index };
        let order = After([(op(0, 0), op(1, 0))].into());
        let unknown = check(&scripts(&[&[Io(0)]], &[], 0), &order).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "thread 0, step 0: expected a thread below 1, found an operation after one of thread 1"
        );
    }

    #[test]
    fn the_shortest_cycle_is_named() {
        // 0 waits for 1, 1 for 2, 2 for 3, 3 for 0 and for 2, 4 for all of them
        let found = check(
            &scripts(
                &[
                    &[Compute(1), Wait(1, SLEEP), Signal(0), Signal(4)],
                    &[Wait(2, SLEEP), Signal(1)],
                    &[Wait(3, SLEEP), Signal(2), Signal(0)],
                    &[Io(0), Wait(0, SLEEP), Signal(3)],
                    &[Wait(4, SLEEP)],
                ],
                &[2, 1, 1, 1, 1],
                0,
            ),
            &(),
        );
        assert_eq!(
            found.unwrap_err().to_string(),
            "threads wait for each other: thread 2 waits in step 0 for 1 signal of edge 3; thread 3 waits in step 1 for \
             2 signals of edge 0"
        );
    }

    #[test]
    fn who_waits_for_itself_is_a_cycle() {
        let found = check(&scripts(&[&[Compute(1)], &[Wait(0, SLEEP), Signal(0)]], &[1], 0), &());
        let blocked = Blocked { thread: 1, step: 0, on: On::Edge { edge: 0, missing: 1 } };
        assert_eq!(found, Err(Problem::Cycle(vec![blocked])));
    }

    #[test]
    fn edges_and_the_order_of_operations_make_cycles_together() {
        let op = |thread, index| OpRef { thread, index };
        let order = After([(op(0, 0), op(1, 0))].into());
        let waiting = scripts(&[&[Io(0), Signal(0)], &[Wait(0, SLEEP), Io(0)]], &[1], 0);
        let found = check(&waiting, &order).unwrap_err();
        assert_eq!(
            found.to_string(),
            "threads wait for each other: thread 0 waits in step 0 for operation 0 of thread 1, before its operation 0; \
             thread 1 waits in step 0 for 1 signal of edge 0"
        );
        assert_eq!(check(&waiting, &()), Ok(()));
    }

    /// Whether a thread, where it is, waits for something that another does later.
    fn waits_for(scripts: &Scripts, one: &Blocked, other: &Blocked) -> bool {
        match one.on {
            On::Edge { edge, .. } => {
                scripts.threads[other.thread as usize].steps[other.step as usize..].contains(&Signal(edge))
            }
            On::Op { before, .. } => before.thread == other.thread,
            On::Lock { .. } | On::Storage { .. } => false,
        }
    }

    /// How many threads the shortest cycle has, by the lengths of the ways between all.
    fn girth(scripts: &Scripts, blocked: &[Blocked]) -> Option<usize> {
        let count = blocked.len();
        let length = |one: usize, other: usize| {
            if waits_for(scripts, &blocked[one], &blocked[other]) { 1 } else { usize::MAX / 2 }
        };
        let mut ways: Vec<Vec<usize>> =
            (0..count).map(|one| (0..count).map(|other| length(one, other)).collect()).collect();
        for by in 0..count {
            for from in 0..count {
                for to in 0..count {
                    ways[from][to] = ways[from][to].min(ways[from][by] + ways[by][to]);
                }
            }
        }
        (0..count).map(|one| ways[one][one]).min().filter(|length| *length <= count)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn cycles_are_what_does_not_run(
            threads in 1_usize..8,
            draws in prop::collection::vec((any::<u8>(), 0_u8..5, 0_u32..12, any::<u8>()), 0..60),
        ) {
            let mut steps: Vec<Vec<Step>> = vec![Vec::new(); threads];
            let mut ops = vec![0_u32; threads];
            let mut signals = vec![0; 12];
            let mut order = After(HashMap::new());
            for (thread, kind, number, other) in draws {
                let thread = usize::from(thread) % threads;
                match kind {
                    0 | 1 => {
                        signals[number as usize] += 1;
                        steps[thread].push(Signal(number));
                    }
                    2 => steps[thread].push(Wait(number, SLEEP)),
                    _ => {
                        let other = usize::from(other) % threads;
                        let own = OpRef { thread: thread as u32, index: ops[thread] };
                        // mostly an earlier one of the others, at times a later one
                        if number < 4 {
                            let index = (ops[other] + u32::from(number == 0)).saturating_sub(1);
                            order.0.insert(own, OpRef { thread: other as u32, index });
                        }
                        steps[thread].push(Io(own.index));
                        ops[thread] += 1;
                    }
                }
            }
            let scripts = Scripts {
                threads: steps.into_iter().map(|steps| Script { steps }).collect(),
                signals,
                ..Scripts::default()
            };
            let durs = ops.iter().map(|count| vec![10; *count as usize]).collect();
            let run = evaluate(&scripts, &order, &mut Durations::new(durs), &Machines::one(2));
            match check(&scripts, &order) {
                Ok(()) => prop_assert!(run.is_ok()),
                Err(Problem::Cycle(cycle)) => {
                    for (one, next) in cycle.iter().zip(cycle.iter().cycle().skip(1)) {
                        prop_assert!(waits_for(&scripts, one, next), "{} doesn't wait for {}", one, next);
                    }
                    let blocked = run.unwrap_err().blocked;
                    prop_assert!(cycle.iter().all(|one| blocked.contains(one)));
                    prop_assert_eq!(Some(cycle.len()), girth(&scripts, &blocked));
                }
                Err(problem) => prop_assert!(false, "{}", problem),
            }
        }
    }
}
