//! Which operations of a trail have to wait for which others when they are done again.
//!
//! The rule: an operation waits for each one that had *returned* before it began and that it *conflicts* with.
//! Operations that overlapped in time raced, so no order is made up for them. What conflicts:
//!
//! | an operation | waits for earlier |
//! |---|---|
//! | looks a name up | changes of that name, and of the directories on its way |
//! | makes, renames or removes a name | uses and changes of it; for a directory, of all that lay in it |
//! | reads a range | writes of a part of it, changes of the file's size by truncation |
//! | writes a range | writes of a part of it, truncations |
//! | writes beyond the end | also reads that met the end of the file |
//! | appends | also writes that made the file longer |
//! | truncates | all reads and writes |
//! | flushes | writes that no earlier flush waited for |
//! | uses a descriptor's own position | earlier uses of it, by whichever process shares it |
//!
//! A write doesn't wait for reads of what it overwrites: the bytes that they move don't depend on it.
//!
//! Operations arrive in the order of their start. What one does becomes visible when it *returns* ([`Order`]
//! keeps those under way in a heap), so that the state is that which the arriving one found. Of what it found it
//! waits only for the latest in each thread, and not for what its own thread has waited for already. A write
//! replaces the earlier writes of its range, since it waited for them; a rename the earlier uses of its name; and
//! so on. Time is O(n log n), memory O(n). All waits go back in the order of starts: a plan has no cycle.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};

use iotrail_causal::OpRef;

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wait {
    /// Number of the thread.
    pub thread: u32,
    /// Index of the operation in it.
    pub index: u32,
    /// Whether that one alone: else all earlier ones of its thread, too, which had returned as well. They differ in
    /// traces of devices only, where requests of one thread overlap.
    pub alone: bool,
}

/// What an operation does to one thing. Offsets are bytes; ranges end before `to`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Uses a name, or passes through a directory.
    LookUp { name: u32 },
    /// Makes or removes a name.
    Change { name: u32 },
    /// Reads; `met_end` if it got less than it asked for.
    Read { file: u32, from: i64, to: i64, met_end: bool },
    /// Writes; `extends` if the file gets longer, `appends` if that decides where.
    Write { file: u32, from: i64, to: i64, extends: bool, appends: bool },
    /// Sets the size.
    Resize { file: u32 },
    /// Makes durable what was written.
    Flush { file: u32 },
    /// Uses the position of an open file.
    Move { opened: u32 },
}

impl Effect {
    /// Whether it is needed for the operation to succeed, rather than for what it moves.
    fn is_of_name(self) -> bool {
        matches!(self, Self::LookUp { .. } | Self::Change { .. })
    }
}

/// An operation that has returned.
#[derive(Clone, Copy, Debug)]
struct Done {
    op: OpRef,
    /// How many operations had arrived by then: the later ones found it, the earlier ones did not.
    at: u64,
}

/// Operations under way: those of a thread that returned before an earlier one of it did.
#[derive(Default)]
struct Returned {
    /// All before this index have.
    next: u32,
    early: BTreeSet<u32>,
}

impl Returned {
    fn note(&mut self, index: u32) {
        self.early.insert(index);
        while self.early.remove(&self.next) {
            self.next += 1;
        }
    }
}

/// The latest operation of each thread among some.
#[derive(Default)]
struct Latest {
    /// Of those before which all of their thread had returned.
    of: HashMap<u32, (u32, u64)>,
    /// The others.
    early: Vec<Done>,
}

impl Latest {
    fn note(&mut self, done: Done, returned: &[Returned]) {
        let thread = done.op.thread;
        if done.op.index < returned[thread as usize].next {
            let latest = self.of.entry(thread).or_insert((done.op.index, done.at));
            *latest = (latest.0.max(done.op.index), latest.1.max(done.at));
        } else {
            self.early.push(done);
        }
    }

    /// Forgets what the operation of this arrival has waited for.
    fn forget(&mut self, arrival: u64) {
        self.of.retain(|_, latest| latest.1 >= arrival);
        self.early.retain(|done| done.at >= arrival);
    }

    fn gather(&mut self, returned: &[Returned], into: &mut Vec<OpRef>) {
        if !self.early.is_empty() {
            for done in std::mem::take(&mut self.early) {
                self.note(done, returned);
            }
        }
        into.extend(self.of.iter().map(|(thread, latest)| OpRef { thread: *thread, index: latest.0 }));
        into.extend(self.early.iter().map(|done| done.op));
    }
}

/// What happened to a name.
#[derive(Default)]
struct Name {
    changed: Vec<Done>,
    used: Latest,
}

/// A range that was written, and by whom: the last, and those that raced with it.
struct Written {
    to: i64,
    last: Done,
    raced: Vec<Done>,
}

impl Written {
    fn split_at(&mut self, at: i64) -> Self {
        let rest = Self { to: self.to, last: self.last, raced: self.raced.clone() };
        self.to = at;
        rest
    }
}

/// What happened to the content of a file.
#[derive(Default)]
struct Content {
    /// By the start of the range; ranges don't overlap.
    written: BTreeMap<i64, Written>,
    resized: Vec<Done>,
    used: Latest,
    met_end: Latest,
    extended: Latest,
    dirty: Latest,
}

impl Content {
    /// Cuts the range that holds `at` there.
    fn cut(&mut self, at: i64) {
        if let Some((_, range)) = self.written.range_mut(..at).next_back()
            && range.to > at
        {
            let rest = range.split_at(at);
            self.written.insert(at, rest);
        }
    }

    /// Notes a write.
    fn write(&mut self, from: i64, to: i64, arrival: u64, done: Done) {
        self.cut(from);
        self.cut(to);
        let earlier: Vec<i64> = self.written.range(from..to).map(|(from, _)| *from).collect();
        let mut at = from;
        for found in earlier {
            if at < found {
                self.written.insert(at, Written { to: found, last: done, raced: Vec::new() });
            }
            let Some(range) = self.written.remove(&found) else { continue };
            at = range.to;
            let mut raced = range.raced;
            raced.push(range.last);
            // it has waited for the others
            raced.retain(|one| one.at >= arrival);
            self.written.insert(found, Written { to: range.to, last: done, raced });
        }
        if at < to {
            self.written.insert(at, Written { to, last: done, raced: Vec::new() });
        }
        self.join(from, to);
    }

    /// Joins neighbours that the same operation alone wrote.
    fn join(&mut self, from: i64, to: i64) {
        let starts: Vec<i64> = self.written.range(from..to).map(|(start, _)| *start).collect();
        let Some((first, rest)) = starts.split_first() else { return };
        let mut kept = *first;
        for start in rest {
            let next = &self.written[start];
            let (end, alone, last) = (next.to, next.raced.is_empty(), next.last.op);
            let joins = self.written.get_mut(&kept).filter(|range| {
                alone && range.raced.is_empty() && range.last.op == last && range.to == *start
            });
            match joins {
                Some(range) => {
                    range.to = end;
                    self.written.remove(start);
                }
                None => kept = *start,
            }
        }
    }

    /// Who wrote a part of a range.
    fn writers(&self, from: i64, to: i64, into: &mut Vec<OpRef>) {
        let before = self.written.range(..=from).next_back().filter(|(_, range)| range.to > from);
        let inside = self.written.range(from + 1..to.max(from + 1));
        for (_, range) in before.into_iter().chain(inside) {
            if into.last() != Some(&range.last.op) {
                into.push(range.last.op);
            }
            into.extend(range.raced.iter().map(|done| done.op));
        }
    }
}

/// An operation that has not returned yet.
struct Running {
    op: OpRef,
    effects: Vec<Effect>,
}

/// The waits of one operation.
#[derive(Debug, Default)]
pub struct Waits {
    /// Without which it can't succeed.
    pub names: Vec<Wait>,
    /// Without which it finds other data.
    pub data: Vec<Wait>,
}

/// What happened so far to names, files and positions.
#[derive(Default)]
pub struct Order {
    names: Vec<Name>,
    files: Vec<Content>,
    opened: Vec<Vec<Done>>,
    returned: Vec<Returned>,
    /// By when they return, then by arrival.
    running: BinaryHeap<Reverse<(i64, u64)>>,
    under_way: HashMap<u64, Running>,
    arrived: u64,
    /// How many operations of another thread a thread has waited for: by names alone, and by any wait.
    waited: HashMap<(u32, u32), (u32, u32)>,
    found: Vec<OpRef>,
}

fn of<T: Default>(list: &mut Vec<T>, number: u32) -> &mut T {
    let number = number as usize;
    if list.len() <= number {
        list.resize_with(number + 1, T::default);
    }
    &mut list[number]
}

impl Order {
    /// Makes visible what returned until `time`, in that order, and says which operations that were and when.
    pub fn advance(&mut self, time: i64, returned: &mut Vec<(OpRef, i64)>) {
        while let Some(Reverse((end, number))) = self.running.peek().copied() {
            if end > time {
                break;
            }
            self.running.pop();
            if let Some(running) = self.under_way.remove(&number) {
                self.complete(&running, number);
                returned.push((running.op, end));
            }
        }
    }

    /// What an operation that begins now waits for; it returns at `end`, or never. Those before it have arrived, and
    /// [`Self::advance`] was called with its start. `sequential` says that it begins when the one before it in its thread
    /// is done: of a device's requests that isn't so. It waits for what `instead` says of what it would wait for.
    pub fn add(
        &mut self,
        op: OpRef,
        start: i64,
        end: Option<i64>,
        effects: Vec<Effect>,
        sequential: bool,
        instead: &dyn Fn(OpRef) -> Option<OpRef>,
    ) -> Waits {
        of(&mut self.returned, op.thread);
        let mut waits = Waits::default();
        for of_name in [true, false] {
            let mut found = std::mem::take(&mut self.found);
            found.clear();
            for effect in effects.iter().filter(|effect| effect.is_of_name() == of_name) {
                self.gather(*effect, &mut found);
            }
            let mut found: Vec<OpRef> = found.into_iter().filter_map(instead).collect();
            self.reduce(op, sequential, of_name, &mut found, &mut waits);
            self.found = found;
        }
        self.arrived += 1;
        if let Some(end) = end {
            self.running.push(Reverse((end.max(start), self.arrived)));
            self.under_way.insert(self.arrived, Running { op, effects });
        }
        waits
    }

    /// The returned operations that an effect conflicts with, or some that have waited for them.
    fn gather(&mut self, effect: Effect, into: &mut Vec<OpRef>) {
        let returned = &self.returned;
        let mut all = |list: &[Done]| into.extend(list.iter().map(|done| done.op));
        match effect {
            Effect::LookUp { name } => all(&of(&mut self.names, name).changed),
            Effect::Change { name } => {
                let name = of(&mut self.names, name);
                all(&name.changed);
                name.used.gather(returned, into);
            }
            Effect::Read { file, from, to, .. } => {
                let file = of(&mut self.files, file);
                all(&file.resized);
                if from < to {
                    file.writers(from, to, into);
                }
            }
            Effect::Write { file, from, to, extends, appends } => {
                let file = of(&mut self.files, file);
                all(&file.resized);
                if from < to {
                    file.writers(from, to, into);
                }
                if extends {
                    file.met_end.gather(returned, into);
                }
                if appends {
                    file.extended.gather(returned, into);
                }
            }
            Effect::Resize { file } => {
                let file = of(&mut self.files, file);
                all(&file.resized);
                file.used.gather(returned, into);
            }
            Effect::Flush { file } => {
                let file = of(&mut self.files, file);
                all(&file.resized);
                file.dirty.gather(returned, into);
            }
            Effect::Move { opened } => all(of(&mut self.opened, opened)),
        }
    }

    /// From conflicts to waits: the latest of each thread, if its own thread hasn't waited for it yet.
    fn reduce(
        &mut self,
        me: OpRef,
        sequential: bool,
        of_name: bool,
        found: &mut Vec<OpRef>,
        waits: &mut Waits,
    ) {
        found.sort_unstable();
        found.dedup();
        let mut rest = found.as_slice();
        while let Some(first) = rest.first() {
            let thread = first.thread;
            let (these, others) = rest.split_at(rest.partition_point(|one| one.thread == thread));
            rest = others;
            if thread == me.thread && sequential {
                continue;
            }
            let next = self.returned[thread as usize].next;
            let (before, early) = these.split_at(these.partition_point(|one| one.index < next));
            let into = if of_name { &mut waits.names } else { &mut waits.data };
            if let Some(last) = before.last() {
                let known = self.waited.entry((me.thread, thread)).or_default();
                let reached = last.index + 1;
                let is_new = reached > if of_name { known.0 } else { known.1 };
                if is_new || !sequential {
                    into.push(Wait { thread, index: last.index, alone: false });
                }
                known.1 = known.1.max(reached);
                if of_name {
                    known.0 = known.0.max(reached);
                }
            }
            into.extend(early.iter().map(|one| Wait { thread, index: one.index, alone: true }));
        }
    }

    /// What an operation did is there.
    fn complete(&mut self, running: &Running, arrival: u64) {
        let Running { op, effects } = running;
        let done = Done { op: *op, at: self.arrived };
        of(&mut self.returned, op.thread).note(op.index);
        let returned = &self.returned;
        let replace = |list: &mut Vec<Done>| {
            list.retain(|one| one.at >= arrival);
            list.push(done);
        };
        for effect in effects {
            match *effect {
                Effect::LookUp { name } => of(&mut self.names, name).used.note(done, returned),
                Effect::Change { name } => {
                    let name = of(&mut self.names, name);
                    replace(&mut name.changed);
                    name.used.forget(arrival);
                }
                Effect::Read { file, met_end, .. } => {
                    let file = of(&mut self.files, file);
                    file.used.note(done, returned);
                    if met_end {
                        file.met_end.note(done, returned);
                    }
                }
                Effect::Write { file, from, to, extends, appends } => {
                    let file = of(&mut self.files, file);
                    file.used.note(done, returned);
                    file.dirty.note(done, returned);
                    if from < to {
                        file.write(from, to, arrival, done);
                    }
                    if appends {
                        file.extended.forget(arrival);
                    }
                    if extends || appends {
                        file.extended.note(done, returned);
                    }
                }
                Effect::Resize { file } => {
                    let file = of(&mut self.files, file);
                    replace(&mut file.resized);
                    file.used.forget(arrival);
                    file.met_end.forget(arrival);
                    file.extended.forget(arrival);
                    file.dirty.forget(arrival);
                    for range in file.written.values_mut() {
                        range.raced.retain(|one| one.at >= arrival);
                    }
                    file.written.retain(|_, range| range.last.at >= arrival || !range.raced.is_empty());
                }
                Effect::Flush { file } => of(&mut self.files, file).dirty.forget(arrival),
                Effect::Move { opened } => replace(of(&mut self.opened, opened)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An operation as it was recorded.
    #[derive(Clone, Debug)]
    struct Recorded {
        op: OpRef,
        start: i64,
        end: i64,
        effects: Vec<Effect>,
    }

    /// Whether `later` has to wait for `earlier`, of which it began after the return: the table at the top.
    fn conflicts(earlier: Effect, later: Effect) -> bool {
        use Effect::*;
        let overlap = |a: (i64, i64), b: (i64, i64)| a.0 < b.1 && b.0 < a.1;
        match (earlier, later) {
            (Change { name: a }, LookUp { name: b } | Change { name: b })
            | (LookUp { name: a }, Change { name: b }) => a == b,
            (
                Resize { file: a },
                Read { file: b, .. } | Write { file: b, .. } | Resize { file: b } | Flush { file: b },
            )
            | (Read { file: a, .. } | Write { file: a, .. }, Resize { file: b }) => a == b,
            (Write { file: a, from, to, .. }, Read { file: b, from: begin, to: end, .. }) => {
                a == b && overlap((from, to), (begin, end))
            }
            (
                Write { file: a, from, to, extends, appends: _ },
                Write { file: b, from: begin, to: end, appends, .. },
            ) => a == b && (overlap((from, to), (begin, end)) || extends && appends),
            (Read { file: a, met_end, .. }, Write { file: b, extends, .. }) => a == b && met_end && extends,
            (Move { opened: a }, Move { opened: b }) => a == b,
            _ => false,
        }
    }

    /// All waits by looking at all pairs.
    fn oracle(ops: &[Recorded]) -> Vec<Vec<usize>> {
        let flushes = |op: &Recorded, of: u32| op.effects.contains(&Effect::Flush { file: of });
        let mut waits = Vec::new();
        for (number, later) in ops.iter().enumerate() {
            let mut mine = Vec::new();
            for (other, earlier) in ops[..number].iter().enumerate() {
                if earlier.end > later.start {
                    continue;
                }
                let pairs = earlier.effects.iter().flat_map(|a| later.effects.iter().map(move |b| (*a, *b)));
                let mut conflict = false;
                for (a, b) in pairs {
                    conflict |= conflicts(a, b);
                    if let (Effect::Write { file, .. }, Effect::Flush { file: flushed }) = (a, b) {
                        let flushed_before = ops[other + 1..number].iter().any(|between| {
                            flushes(between, file)
                                && earlier.end <= between.start
                                && between.end <= later.start
                        });
                        conflict |= file == flushed && !flushed_before;
                    }
                }
                if conflict {
                    mine.push(other);
                }
            }
            waits.push(mine);
        }
        waits
    }

    /// For each operation all those that are certainly done when it begins.
    fn closure(ops: &[Recorded], waits: &[Vec<usize>], sequential: bool) -> Vec<BTreeSet<usize>> {
        let mut before: Vec<BTreeSet<usize>> = Vec::new();
        for (number, op) in ops.iter().enumerate() {
            let mut mine = BTreeSet::new();
            let own = (0..number).filter(|other| sequential && ops[*other].op.thread == op.op.thread);
            for other in waits[number].iter().copied().chain(own) {
                assert!(other < number, "a wait goes forward");
                mine.insert(other);
                mine.extend(before[other].iter().copied());
            }
            before.push(mine);
        }
        before
    }

    /// What [`Order`] says, as indices; checks that nothing is waited for that had not returned.
    fn built(ops: &[Recorded], sequential: bool) -> Vec<Vec<usize>> {
        let mut order = Order::default();
        let number_of: HashMap<OpRef, usize> = ops.iter().enumerate().map(|(n, op)| (op.op, n)).collect();
        let mut waits = Vec::new();
        for op in ops {
            order.advance(op.start, &mut Vec::new());
            let found = order.add(op.op, op.start, Some(op.end), op.effects.clone(), sequential, &Some);
            let mut mine = Vec::new();
            for wait in found.names.into_iter().chain(found.data) {
                let first = if wait.alone { wait.index } else { 0 };
                for index in first..=wait.index {
                    let other = number_of[&OpRef { thread: wait.thread, index }];
                    assert!(
                        ops[other].end <= op.start,
                        "{op:?} waits for {:?}, which had not returned",
                        ops[other]
                    );
                    mine.push(other);
                }
            }
            waits.push(mine);
        }
        waits
    }

    fn effect() -> impl Strategy<Value = Effect> {
        let range = (0u32..2, 0i64..12, 1i64..6);
        prop_oneof![
            (0u32..3).prop_map(|name| Effect::LookUp { name }),
            (0u32..3).prop_map(|name| Effect::Change { name }),
            (range.clone(), any::<bool>()).prop_map(|((file, from, n), met_end)| Effect::Read {
                file,
                from,
                to: from + n,
                met_end
            }),
            (range.clone(), any::<bool>()).prop_map(|((file, from, n), met_end)| Effect::Read {
                file,
                from,
                to: from + n,
                met_end
            }),
            (range.clone(), any::<bool>(), any::<bool>()).prop_map(|((file, from, n), extends, appends)| {
                Effect::Write { file, from, to: from + n, extends: extends || appends, appends }
            }),
            range.prop_map(|(file, from, n)| Effect::Write {
                file,
                from,
                to: from + n,
                extends: false,
                appends: false
            }),
            (0u32..2).prop_map(|file| Effect::Resize { file }),
            (0u32..2).prop_map(|file| Effect::Flush { file }),
            (0u32..2).prop_map(|opened| Effect::Move { opened }),
        ]
    }

    /// Operations of some threads. A sequential thread begins the next when one is done; others overlap their own.
    fn recorded(sequential: bool) -> impl Strategy<Value = Vec<Recorded>> {
        let one = (0u32..4, 0i64..4, 0i64..8, prop::collection::vec(effect(), 1..3));
        prop::collection::vec(one, 1..60).prop_map(move |drawn| {
            let mut ops: Vec<Recorded> = Vec::new();
            let mut free = [0i64; 4];
            let mut time = 0;
            for (thread, gap, dur, effects) in drawn {
                time += gap;
                let start = if sequential { free[thread as usize].max(time) } else { time };
                free[thread as usize] = start + dur;
                ops.push(Recorded { op: OpRef { thread, index: 0 }, start, end: start + dur, effects });
            }
            ops.sort_by_key(|op| (op.start, op.op.thread));
            let mut next = [0u32; 4];
            for op in &mut ops {
                let index = &mut next[op.op.thread as usize];
                op.op.index = *index;
                *index += 1;
            }
            ops
        })
    }

    fn agree(ops: &[Recorded], sequential: bool) {
        let (mine, all) = (built(ops, sequential), oracle(ops));
        let (reached, allowed) = (closure(ops, &mine, sequential), closure(ops, &all, sequential));
        for number in 0..ops.len() {
            for other in &all[number] {
                assert!(
                    reached[number].contains(other),
                    "{:?} does not wait for {:?}",
                    ops[number],
                    ops[*other]
                );
            }
            // a wait for a whole thread so far includes operations without conflict, all of which had returned
            let conflicts: BTreeSet<u32> =
                allowed[number].iter().map(|other| ops[*other].op.thread).collect();
            for other in &mine[number] {
                assert!(conflicts.contains(&ops[*other].op.thread), "{:?} waits for a stranger", ops[number]);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn waits_are_those_of_all_pairs(ops in recorded(true)) {
            agree(&ops, true);
        }

        #[test]
        fn requests_of_one_thread_may_overlap(ops in recorded(false)) {
            agree(&ops, false);
        }
    }

    /// 4 threads, a million random reads and writes of a file: waits and their number stay linear.
    #[test]
    fn a_wait_is_made_once_for_each_pair_of_threads() {
        let mut order = Order::default();
        let mut made = 0;
        for number in 0..40_000u32 {
            let (thread, index) = (number % 4, number / 4);
            let start = i64::from(number) * 10;
            order.advance(start, &mut Vec::new());
            let read = Effect::Read { file: 0, from: 0, to: 4096, met_end: false };
            let write = Effect::Write { file: 0, from: 0, to: 4096, extends: false, appends: false };
            let effect = if number == 0 { write } else { read };
            let waits = order.add(OpRef { thread, index }, start, Some(start + 5), vec![effect], true, &Some);
            made += waits.data.len() + waits.names.len();
        }
        assert_eq!(made, 3, "one for each thread that reads what the first has written");
    }
}
