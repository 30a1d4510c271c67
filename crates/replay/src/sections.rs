//! Operations that threads do while they have a lock. Of two that can't be under way at once because of it, the lock decides which comes first, anew
//! each time: the one doesn't wait for the other, whose thread may wait for the lock.
//!
//! Where one that has a lock comes after one whose thread had the lock before, but has it no longer, the two have the lock in the order of the
//! recording: else the one could wait, with the lock, for what the other does only after it has had it.

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
    /// When it had it, and gave it back, ns.
    taken: i64,
    given: i64,
}

impl Section {
    fn excludes(&self, other: &Self) -> bool {
        self.lock == other.lock && !(self.is_shared && other.is_shared)
    }
}

/// A thread has a lock after another one: who gives it back when, who has it when.
type Succession = ((u32, i64), (u32, i64));

/// Of each thread the locks that it has during its operations.
#[derive(Debug, Default)]
pub(crate) struct Sections {
    /// Those with operations, in the order of the first.
    of: Vec<Vec<Section>>,
    /// The longest of each thread, in operations.
    longest: Vec<u32>,
    /// All by thread and lock, in their order.
    by_lock: HashMap<(u32, u32), Vec<Section>>,
    /// Locks below this number are contended for.
    contended: u32,
    successions: RefCell<BTreeSet<Succession>>,
}

impl Sections {
    pub(crate) fn of(causality: &Causality) -> Self {
        let mut found = Self { contended: causality.locks.len() as u32, ..Self::default() };
        let others = causality.others.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
        for ((one, others), thread) in causality.recorded.iter().zip(others).zip(0..) {
            let sections = sections(&one.ops, &[&one.locks, others].concat());
            for section in &sections {
                found.by_lock.entry((thread, section.lock)).or_default().push(*section);
            }
            let mut with_ops = sections;
            with_ops.retain(|section| section.from < section.to);
            found.longest.push(with_ops.iter().map(|section| section.to - section.from).max().unwrap_or(0));
            found.of.push(with_ops);
        }
        found
    }

    /// Whether no thread does anything while it has a lock.
    pub(crate) fn is_empty(&self) -> bool {
        self.of.iter().all(Vec::is_empty)
    }

    /// What an operation waits for that comes after another one: that one, or if a lock keeps them apart the last that its thread does before it has the
    /// lock first; none if there is none.
    pub(crate) fn wait(&self, op: OpRef, after: OpRef) -> Option<OpRef> {
        let apart = |mine: &&Section| self.at(after).any(|other| other.excludes(mine));
        let locks = self.at(op).filter(apart).map(|section| section.lock);
        let first = |lock| self.by_lock.get(&(after.thread, lock)).map(|of| of[0].from);
        if let Some(before) = locks.filter_map(first).min() {
            return before.checked_sub(1).map(|index| OpRef { index, ..after });
        }
        for mine in self.at(op).filter(|mine| mine.lock < self.contended) {
            let Some(of) = self.by_lock.get(&(after.thread, mine.lock)) else { continue };
            let before = of.partition_point(|other| other.to <= after.index);
            let last = of[..before].iter().rev().find(|other| other.excludes(mine));
            if let Some(other) = last.filter(|other| other.given <= mine.taken) {
                let succession = ((after.thread, other.given), (op.thread, mine.taken));
                self.successions.borrow_mut().insert(succession);
            }
        }
        Some(after)
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

    /// Adds that threads have locks one after the other, where waits that were asked for need that.
    pub(crate) fn keep_order(self, causality: &mut Causality) {
        for ((giver, given), (taker, taken)) in self.successions.into_inner() {
            let edge = causality.edges;
            causality.edges += 1;
            causality.recorded[giver as usize].signals.push((given, edge));
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
                found.extend(held.remove(&lock).map(|section| Section { to: from, given: at, ..section }));
                continue;
            }
            _ => continue,
        };
        let (to, given) = (ops.len() as u32, i64::MAX);
        held.entry(lock).or_insert(Section { lock, is_shared, from, to, taken: at, given });
    }
    found.extend(held.into_values());
    found.sort_by_key(|section| (section.from, section.to, section.lock));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causality::LockId;
    use iotrail_causal::Recorded;

    #[test]
    fn what_a_lock_keeps_apart_does_not_wait() {
        let thread = |locks: &[(i64, Step)]| Recorded {
            ops: (0..10).map(|op| 10 * op).collect(),
            locks: locks.to_vec(),
            ..Recorded::default()
        };
        let all = |recorded: Vec<Recorded>| Causality {
            recorded,
            locks: vec![LockId::Memory { process: 0, address: 0 }; 2],
            ..Causality::default()
        };
        let (take, share, give) = (Step::Lock(0), Step::Share(0), Step::Unlock(0));
        let mut causality = all(vec![
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
        let sections = Sections::of(&causality);
        let wait = |op: (u32, u32), after: (u32, u32)| {
            let of = |(thread, index): (u32, u32)| OpRef { thread, index };
            sections.wait(of(op), of(after)).map(|op| (op.thread, op.index))
        };
        assert_eq!(wait((1, 5), (0, 3)), Some((0, 1)), "what it did before it had the lock");
        assert_eq!(wait((0, 3), (1, 6)), None, "it had it from the start");
        assert_eq!(wait((0, 3), (1, 3)), Some((1, 3)), "the other had no lock");
        assert_eq!(wait((0, 5), (1, 5)), Some((1, 5)), "it has none");
        assert_eq!(wait((2, 3), (3, 1)), Some((3, 1)), "both share it");
        assert_eq!(wait((2, 3), (0, 2)), Some((0, 1)), "one has it alone");
        assert_eq!(wait((4, 3), (0, 2)), Some((0, 2)));
        assert!(!sections.is_empty());
        assert!(Sections::of(&all(vec![thread(&[(15, take), (16, give)])])).is_empty());
        // the other had no lock any more: it has it first
        sections.keep_order(&mut causality);
        assert_eq!(causality.edges, 1);
        assert_eq!((causality.recorded[1].signals[0], causality.recorded[0].waits[0].start), ((15, 0), 15));
    }
}
