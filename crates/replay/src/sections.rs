//! Operations that threads do while they have a lock. Of two that can't be under way at once because of it, the lock decides which comes first, anew
//! each time: the one doesn't wait for the other, whose thread may wait for the lock.
//!
//! Who has a lock waits for no operation: what it would wait for it waits for before it takes the first lock that it has then. What others did while it had that
//! it doesn't wait for. So whoever has a lock gives it back, and all waits but those for locks go back in the order of the recording: nobody waits for ever.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use iotrail_causal::{OpRef, Reason, Step, Style, Waited};

use crate::causality::Causality;

/// A thread has a lock during some of its operations.
#[derive(Clone, Copy, Debug)]
struct Section {
    lock: u32,
    is_shared: bool,
    /// The first of its operations that began meanwhile, and the first that did not.
    from: u32,
    to: u32,
    /// When it had it, ns.
    taken: i64,
}

/// Before a thread takes a lock at a time, ns, another one has done an operation of this index.
type Ahead = ((u32, i64), (u32, u32));

/// Of each thread the locks that it has during its operations.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    /// Those with operations, in the order of the first.
    of: Vec<Vec<Section>>,
    /// The longest of each thread, in operations.
    longest: Vec<u32>,
    /// By thread and lock how many operations it does before it has that first.
    before: HashMap<(u32, u32), u32>,
    /// When each operation of each thread, and all before it, had ended, ns.
    ends: Vec<Vec<i64>>,
    /// Locks below this number are contended for.
    contended: u32,
    ahead: RefCell<BTreeSet<Ahead>>,
}

impl Sections {
    /// From what threads did, and when their operations ended, ns, by their numbers.
    pub(crate) fn of(causality: &Causality, mut ends: Vec<Vec<i64>>) -> Self {
        // asynchronous ones end in another order
        for ends in &mut ends {
            let mut last = i64::MIN;
            for end in ends {
                last = last.max(*end);
                *end = last;
            }
        }
        let mut found = Self { contended: causality.locks.len() as u32, ends, ..Self::default() };
        let others = causality.others.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
        for ((one, others), thread) in causality.recorded.iter().zip(others).zip(0..) {
            let mut sections = sections(&one.ops, &[&one.locks, others].concat());
            for section in &sections {
                found.before.entry((thread, section.lock)).or_insert(section.from);
            }
            sections.retain(|section| section.from < section.to);
            found.longest.push(sections.iter().map(|section| section.to - section.from).max().unwrap_or(0));
            found.of.push(sections);
        }
        found
    }

    /// Whether no thread does anything while it has a lock.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.iter().all(Vec::is_empty)
    }

    /// What an operation waits for that comes after another one: that one; if a lock keeps them apart, the last that its thread does before it has the
    /// lock first; and if it began with a lock, the last before that. None if there is none.
    pub(crate) fn wait(&self, op: OpRef, after: OpRef) -> Option<OpRef> {
        let is_apart = |mine: &&Section| {
            self.at(after).any(|other| other.lock == mine.lock && !(other.is_shared && mine.is_shared))
        };
        let locks = self.at(op).filter(is_apart).map(|section| section.lock);
        if let Some(before) = locks.filter_map(|lock| self.before.get(&(after.thread, lock))).min() {
            // which another lock may keep apart
            return before.checked_sub(1).and_then(|index| self.wait(op, OpRef { index, ..after }));
        }
        let Some(taken) = self.first_lock(op) else { return Some(after) };
        let ended = self.ends[after.thread as usize].partition_point(|end| *end <= taken) as u32;
        let after = OpRef { index: after.index.min(ended.checked_sub(1)?), ..after };
        self.ahead.borrow_mut().insert(((op.thread, taken), (after.thread, after.index)));
        Some(after)
    }

    /// An operation can't be done without another one: its thread takes locks after that, where it did.
    pub(crate) fn needs(&self, op: OpRef, other: OpRef) {
        if let Some(taken) = self.first_lock(op)
            && self.ends[other.thread as usize].get(other.index as usize).is_some_and(|end| *end <= taken)
        {
            self.ahead.borrow_mut().insert(((op.thread, taken), (other.thread, other.index)));
        }
    }

    /// When the thread took the first of the locks, of those that are contended for, that it has during an operation.
    fn first_lock(&self, op: OpRef) -> Option<i64> {
        self.at(op).filter(|mine| mine.lock < self.contended).map(|mine| mine.taken).min()
    }

    /// The sections that an operation is in.
    fn at(&self, op: OpRef) -> impl Iterator<Item = &Section> {
        let thread = op.thread as usize;
        let of = self.of.get(thread).map_or(&[][..], Vec::as_slice);
        let longest = self.longest.get(thread).copied().unwrap_or(0);
        let until = of.partition_point(|section| section.from <= op.index);
        let may_reach = move |section: &&Section| section.from.saturating_add(longest) > op.index;
        of[..until].iter().rev().take_while(may_reach).filter(move |section| op.index < section.to)
    }

    /// Adds what threads wait for before they take locks.
    pub(crate) fn wait_before_locks(self, causality: &mut Causality) {
        for ((taker, taken), (giver, index)) in self.ahead.into_inner() {
            let edge = causality.edges;
            causality.edges += 1;
            let (giver, index) = (giver as usize, index as usize);
            let giving = &mut causality.recorded[giver];
            // behind the operation, also if that took no time
            giving.signals.push((self.ends[giver][index].max(giving.ops[index] + 1), edge));
            let reason = Reason::Edge(edge, Style::Sleep);
            causality.recorded[taker as usize].waits.push(Waited { start: taken, dur: 0, reason });
        }
    }
}

fn sections(ops: &[i64], steps: &[(i64, Step)]) -> Vec<Section> {
    let mut steps = steps.to_vec();
    let gives_back = |step: &Step| matches!(step, Step::Unlock(_));
    steps.sort_by_key(|(at, step)| (*at, !gives_back(step)));
    let mut held: HashMap<u32, Section> = HashMap::new();
    let mut found = Vec::new();
    for (at, step) in steps {
        let from = ops.partition_point(|start| *start < at) as u32;
        let (lock, is_shared) = match step {
            Step::Lock(lock) => (lock, false),
            Step::Share(lock) => (lock, true),
            Step::Unlock(lock) => {
                found.extend(held.remove(&lock).map(|section| Section { to: from, ..section }));
                continue;
            }
            _ => continue,
        };
        let to = ops.len() as u32;
        held.entry(lock).or_insert(Section { lock, is_shared, from, to, taken: at });
    }
    found.extend(held.into_values());
    found.sort_by_key(|section| (section.from, section.to, section.lock));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causality::LockId;
    use crate::order::{Effect, Order};
    use iotrail_causal::{Durations, Machines, Recorded, Script, Scripts, evaluate};
    use proptest::prelude::*;

    /// Operations take 9.
    fn ends(causality: &Causality) -> Vec<Vec<i64>> {
        causality.recorded.iter().map(|one| one.ops.iter().map(|start| start + 9).collect()).collect()
    }

    fn all_of(recorded: Vec<Recorded>) -> Causality {
        let locks = vec![LockId::Memory { process: 0, address: 0 }; 2];
        Causality { recorded, locks, ..Causality::default() }
    }

    #[test]
    fn what_a_lock_keeps_apart_does_not_wait() {
        let thread = |locks: &[(i64, Step)]| Recorded {
            ops: (0..10).map(|op| 10 * op).collect(),
            locks: locks.to_vec(),
            ..Recorded::default()
        };
        let (take, share, give) = (Step::Lock(0), Step::Share(0), Step::Unlock(0));
        let mut causality = all_of(vec![
            // operations 2 to 4
            thread(&[(15, take), (45, give)]),
            // 0 and 1, 5 and 6
            thread(&[(0, take), (15, give), (45, take), (65, give)]),
            // 3 shared, and another lock for all of them
            thread(&[(0, Step::Lock(1)), (25, share), (35, give)]),
            // 1 shared
            thread(&[(5, share), (15, give)]),
            thread(&[]),
        ]);
        let sections = Sections::of(&causality, ends(&causality));
        let wait = |op: (u32, u32), after: (u32, u32)| {
            let of = |(thread, index): (u32, u32)| OpRef { thread, index };
            sections.wait(of(op), of(after)).map(|op| (op.thread, op.index))
        };
        assert_eq!(wait((1, 5), (0, 3)), Some((0, 1)), "what it did before it had the lock");
        assert_eq!(wait((0, 3), (1, 6)), None, "it had it from the start");
        assert_eq!(wait((0, 5), (1, 5)), Some((1, 5)), "it has none");
        assert_eq!(wait((4, 3), (0, 2)), Some((0, 2)));
        assert_eq!(wait((3, 1), (2, 3)), None, "both share it, but it was done later");
        // it had the lock from 15 on, when operation 0 was done
        assert_eq!(wait((0, 3), (4, 0)), Some((4, 0)));
        assert_eq!(wait((0, 4), (4, 2)), Some((4, 0)));
        let mut late = ends(&causality);
        late[4][0] = 16;
        let first_ends_late = Sections::of(&causality, late);
        assert_eq!(first_ends_late.wait(OpRef { thread: 0, index: 3 }, OpRef { thread: 4, index: 0 }), None);
        sections.needs(OpRef { thread: 0, index: 4 }, OpRef { thread: 4, index: 2 });
        assert!(!sections.is_empty());
        let short = all_of(vec![thread(&[(15, take), (16, give)])]);
        assert!(Sections::of(&short, ends(&short)).is_empty());
        sections.wait_before_locks(&mut causality);
        assert_eq!((causality.recorded[4].signals[0], causality.recorded[0].waits[0].start), ((9, 0), 15));
        assert_eq!(
            (causality.recorded[0].signals[0], causality.edges),
            ((19, 1), 2),
            "operation 1, before it is taken at 45"
        );
    }

    /// What a thread does next: computes, and does operations on a file, with a lock or two or without.
    #[derive(Clone, Debug)]
    struct Turn {
        compute: i64,
        locks: Vec<u32>,
        shares: bool,
        ops: Vec<(u32, i64)>,
    }

    fn turn() -> impl Strategy<Value = Turn> {
        let locks = prop_oneof![Just(vec![]), Just(vec![0]), Just(vec![1]), Just(vec![0, 1])];
        let ops = proptest::collection::vec((0..3_u32, 1..40_i64), 0..4);
        (1..60_i64, locks, any::<bool>(), ops).prop_map(|(compute, locks, shares, ops)| Turn {
            compute,
            locks,
            shares,
            ops,
        })
    }

    /// The steps of a thread, what its operations do, and how long they take.
    fn program(turns: &[Turn]) -> (Script, Vec<Effect>, Vec<i64>) {
        let (mut steps, mut effects, mut durs) = (Vec::new(), Vec::new(), Vec::new());
        for turn in turns {
            steps.push(Step::Compute(turn.compute));
            let take = if turn.shares { Step::Share } else { Step::Lock };
            for lock in &turn.locks {
                steps.extend([take(*lock), Step::Compute(1)]);
            }
            for (file, dur) in &turn.ops {
                steps.extend([Step::Io(durs.len() as u32), Step::Compute(1)]);
                let (file, extends) = (*file, dur % 3 == 0);
                effects.push(if turn.shares {
                    Effect::Read { file, from: 0, to: 9, met_end: extends }
                } else if dur % 5 == 0 {
                    Effect::Change { name: file }
                } else {
                    Effect::Write { file, from: 0, to: 9, extends, appends: extends }
                });
                durs.push(*dur);
            }
            for lock in turn.locks.iter().rev() {
                steps.extend([Step::Unlock(*lock), Step::Compute(1)]);
            }
        }
        (Script { steps }, effects, durs)
    }

    #[derive(Default)]
    struct Waits(HashMap<OpRef, Vec<OpRef>>);

    impl iotrail_causal::Order for Waits {
        fn after(&self, op: OpRef) -> impl Iterator<Item = OpRef> {
            self.0.get(&op).into_iter().flatten().copied()
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        /// Threads that once ran through don't stand still when they compute faster or slower.
        #[test]
        fn whoever_has_a_lock_first_now_nobody_waits_for_ever(
            turns in proptest::collection::vec(proptest::collection::vec(turn(), 1..6), 2..5),
            speeds in proptest::collection::vec(1..30_i64, 5),
        ) {
            let programs: Vec<_> = turns.iter().map(|turns| program(turns)).collect();
            let threads: Vec<Script> = programs.iter().map(|(script, ..)| script.clone()).collect();
            let scripts = Scripts { threads, locks: 2, ..Scripts::default() };
            let durs = || Durations::new(programs.iter().map(|(.., durs)| durs.clone()).collect());
            let machines = Machines::one(8);
            let ran = evaluate(&scripts, &Waits::default(), &mut durs(), &machines).expect("locks are taken in one order");
            // as it is recorded
            let mut ops = Vec::new();
            let mut ended: Vec<Vec<i64>> = vec![Vec::new(); programs.len()];
            let recorded = ran.threads.iter().zip(&programs).zip(0..).map(|((run, (script, effects, _)), thread): (_, u32)| {
                let mut one = Recorded::default();
                let mut began = 0;
                for (step, end) in script.steps.iter().zip(&run.ends) {
                    match *step {
                        Step::Compute(cpu) => one.computed.push((began, cpu * speeds[thread as usize] / 10)),
                        Step::Io(index) => {
                            one.ops.push(began);
                            ended[thread as usize].push(*end);
                            ops.push((began, *end, OpRef { thread, index }, effects[index as usize]));
                        }
                        step => one.locks.push((*end, step)),
                    }
                    began = *end;
                }
                one
            });
            let mut causality = all_of(recorded.collect());
            let sections = Sections::of(&causality, ended);
            ops.sort_by_key(|(start, _, op, _)| (*start, *op));
            let (mut order, mut waits) = (Order::default(), Waits::default());
            for (start, end, op, effect) in ops {
                order.advance(start, &mut Vec::new());
                let found = order.add(op, start, Some(end), vec![effect], true, &|after| sections.wait(op, after));
                let found = found.names.into_iter().chain(found.data);
                waits.0.insert(op, found.map(|wait| OpRef { thread: wait.thread, index: wait.index }).collect());
            }
            sections.wait_before_locks(&mut causality);
            let again = evaluate(&causality.scripts(false), &waits, &mut durs(), &machines);
            prop_assert!(again.is_ok(), "{:?}", again.err());
        }
    }
}
