//! Sequential runs: requests that begin where the one before them in their run ended.

use iotrail_sim::{Nanos, Op, Request};

/// Runs that a request can go on with: the last ones that had a request, of all devices.
pub const RECENT: usize = 32;

/// A run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Number of its device.
    pub device: u32,
    /// Direction of its requests.
    pub op: Op,
    /// Where its last request ended.
    pub end: u64,
    /// Bytes of its last request.
    pub length: u64,
    /// Requests still to come.
    pub left: u64,
    /// Its number, of those that have one.
    pub number: u64,
}

impl Run {
    /// One that begins with a request.
    #[must_use]
    pub fn new(device: u32, request: Request, left: u64, number: u64) -> Self {
        let Request { op, pos, length } = request;
        Self { device, op, end: pos + length, length, left, number }
    }
}

/// The last runs, most recent first.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    runs: Vec<Run>,
}

impl Recent {
    /// The runs, most recent first.
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Which run a request goes on with.
    #[must_use]
    pub fn rank(&self, device: u32, op: Op, pos: u64) -> Option<usize> {
        self.runs.iter().position(|run| run.end == pos && run.op == op && run.device == device)
    }

    /// Adds a request to the run at a rank.
    pub fn go_on(&mut self, rank: usize, length: u64) -> &mut Run {
        self.runs[..=rank].rotate_right(1);
        let run = &mut self.runs[0];
        run.end += length;
        run.length = length;
        run
    }

    /// Begins a run; returns the one that is forgotten for it.
    pub fn begin(&mut self, run: Run) -> Option<Run> {
        let forgotten = if self.runs.len() == RECENT { self.runs.pop() } else { None };
        self.runs.insert(0, run);
        forgotten
    }

    /// Ranks of the runs with requests still to come.
    pub fn going(&self) -> impl Iterator<Item = usize> {
        self.runs.iter().enumerate().filter(|(_, run)| run.left > 0).map(|(rank, _)| rank)
    }

    /// What is known before a request: whether the one before began a run, the class of the gap between them, how many runs go
    /// on, and the rank of the first of these.
    #[must_use]
    pub fn context(&self, began: bool, gap: Nanos) -> Context {
        let mut going = self.going();
        let first = going.next().map_or(0, action);
        let others = going.count();
        let many = if others == 0 { 0 } else { (1 + others.ilog2() as u8).min(3) };
        Context { first, many, gap: gap_class(gap), began }
    }
}

/// What is known before a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    /// Action of going on with the first run that does; 0 if none does.
    pub first: u8,
    /// How many others there are, by powers of two.
    pub many: u8,
    /// Class of the gap.
    pub gap: u8,
    /// Whether the request before began a run.
    pub began: bool,
}

impl From<Context> for u8 {
    fn from(context: Context) -> Self {
        context.first << 5 | context.many << 3 | context.gap << 1 | Self::from(context.began)
    }
}

/// The class of a gap: below 0.1, 1 and 10 ms, and longer.
fn gap_class(gap: Nanos) -> u8 {
    [100_000, 1_000_000, 10_000_000].iter().filter(|least| gap >= **least).count() as u8
}

/// What a request does: begins a run, or goes on with one of some ranks among those that go on.
pub const BEGIN: u8 = 0;
/// It flushes.
pub const FLUSH: u8 = 15;

/// The action of going on with the run at a rank: by powers of two.
#[must_use]
pub fn action(rank: usize) -> u8 {
    if rank == 0 { 1 } else { 2 + rank.ilog2() as u8 }
}

/// The ranks of an action.
#[must_use]
pub fn ranks(action: u8) -> std::ops::Range<usize> {
    match action {
        BEGIN | FLUSH => 0..0,
        1 => 0..1,
        _ => 1 << (action - 2)..1 << (action - 1),
    }
}

/// The class of a run's length in requests, 1 or more: two in a power of two.
#[must_use]
pub fn length_class(requests: u64) -> u8 {
    let power = requests.ilog2();
    let upper = requests >= (3 << power) / 2 && power > 0;
    2 * power as u8 + u8::from(upper)
}

/// The lengths of a class: from, and up to.
#[must_use]
pub fn lengths(class: u8) -> (u64, u64) {
    let from = |class: u8| if class % 2 == 1 { (3 << (class / 2)) / 2 } else { 1 << (class / 2) };
    let next = if class == 0 { 2 } else { class + 1 };
    (from(class), if class == 0 { 2 } else { from(next) })
}
