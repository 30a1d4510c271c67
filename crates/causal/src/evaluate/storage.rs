//! What does the operations.

use crate::order::OpRef;

/// An operation that the storage has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which one.
    pub op: OpRef,
    /// When it is done, ns.
    pub done: i64,
}

/// Storage in virtual time, driven as the simulated devices of `iotrail-sim` are: it has no clock, its caller says what time it
/// is (ns, never decreasing), and it reports a completion as soon as that is certain, which can be before it is due.
pub trait Storage {
    /// An operation begins now. The storage has been advanced until now.
    fn submit(&mut self, now: i64, op: OpRef);

    /// A time before which no completion becomes certain if no operation begins; none if none is under way. Once the storage
    /// has been advanced until then, it is a later one.
    fn next_completion(&self) -> Option<i64>;

    /// Does everything due until `now`, included, and appends the operations whose completion became certain.
    fn advance(&mut self, now: i64, completions: &mut Vec<Completion>);
}

/// Storage where each operation takes a known time, however many others are under way: as recorded, or scaled.
#[derive(Clone, Debug, Default)]
pub struct Durations {
    /// By thread and operation, ns.
    durs: Vec<Vec<i64>>,
    /// Begun and not yet reported, all since the last time.
    certain: Vec<Completion>,
    now: i64,
}

impl Durations {
    /// Storage with these times of operations, by thread and index (ns).
    #[must_use]
    pub fn new(durs: Vec<Vec<i64>>) -> Self {
        Self { durs, certain: Vec::new(), now: 0 }
    }
}

impl Storage for Durations {
    /// # Panics
    /// If the operation has no time.
    fn submit(&mut self, now: i64, op: OpRef) {
        let dur = self.durs[op.thread as usize][op.index as usize].max(0);
        self.certain.push(Completion { op, done: now.saturating_add(dur) });
        self.now = now;
    }

    fn next_completion(&self) -> Option<i64> {
        (!self.certain.is_empty()).then_some(self.now)
    }

    fn advance(&mut self, _: i64, completions: &mut Vec<Completion>) {
        completions.append(&mut self.certain);
    }
}
