//! Epochs of one-sided MPI between processes that both take part (MPI 4.0, section 12.5.2).
//!
//! An origin accesses windows of its targets from MPI_Win_start to MPI_Win_complete; a target exposes its window to its
//! origins from MPI_Win_post to MPI_Win_wait. The n-th start of an origin that names a target belongs with the n-th post of that
//! target that names the origin, on one window.
//!
//! | who waits | for | kind |
//! |---|---|---|
//! | MPI_Win_start, or where that returns before, MPI_Win_complete | the posts of all targets | exposure |
//! | MPI_Win_wait, MPI_Win_test that was true | the completes of all origins | access |
//!
//! Which of the two waits for the posts is up to the implementation (MPICH, Open MPI's osc/rdma, osc/sm and osc/ucx wait in the start, osc/pt2pt
//! doesn't); the window's calls show it. Where every post came before its start they don't, and the complete is said to wait, which is
//! certain. Who completes and may have to wait for its targets before it tells any of them gives its signal when the call returns, or when
//! the first that waits for it has.

use std::collections::{HashMap, HashSet};

use iotrail_format::call::Call;

use crate::calls::{Row, is_long};
use crate::matching::{Act, Meeting, Role, What};

/// Kind of the edges to those that wait until epochs end, or until they begin.
pub(crate) const fn kind(ends: bool) -> &'static str {
    if ends { "access" } else { "exposure" }
}

/// A window, the rank of an origin, and that of its target.
type Pair = (i64, i64, i64);

/// What one process begins and ends on a window.
struct Epoch {
    window: i64,
    rank: i64,
    begin: Row,
    end: Option<Row>,
    /// Ranks of the others, with how many epochs of this process with each came before.
    others: Vec<(i64, usize)>,
}

/// Those that begin with one kind of call.
#[derive(Default)]
struct Side {
    epochs: Vec<Epoch>,
    /// By process and window.
    open: HashMap<(i64, i64), usize>,
    /// By window, own rank and that of the other.
    with: HashMap<Pair, Vec<usize>>,
}

impl Side {
    fn begin(&mut self, process: i64, window: i64, rank: i64, begin: Row) -> usize {
        let at = self.epochs.len();
        self.epochs.push(Epoch { window, rank, begin, end: None, others: Vec::new() });
        self.open.insert((process, window), at);
        at
    }

    fn add_member(&mut self, at: usize, other: i64) {
        let epoch = &mut self.epochs[at];
        let with = self.with.entry((epoch.window, epoch.rank, other)).or_default();
        epoch.others.push((other, with.len()));
        with.push(at);
    }

    /// Whether the call ends an epoch that is known to have begun.
    fn end(&mut self, process: i64, window: i64, end: Row) -> bool {
        let open = self.open.remove(&(process, window));
        if let Some(at) = open {
            self.epochs[at].end = Some(end);
        }
        open.is_some()
    }

    fn of(&self, window: i64, rank: i64, other: i64, number: usize) -> Option<&Epoch> {
        self.with.get(&(window, rank, other))?.get(number).map(|at| &self.epochs[*at])
    }
}

/// All epochs.
#[derive(Default)]
pub(crate) struct Epochs {
    /// From start to complete.
    access: Side,
    /// From post to wait.
    exposure: Side,
    /// What each thread began last, and whether that is an access.
    last: HashMap<u32, (bool, usize)>,
    /// Ends of what did not begin.
    lone: Vec<Row>,
}

impl Epochs {
    /// A call of a process with this rank, in the order of time; those of one time with MPI_Group last.
    pub(crate) fn add(&mut self, process: i64, rank: i64, window: i64, row: &Row) {
        match row.call {
            Call::MpiWinStart => {
                let at = self.access.begin(process, window, rank, *row);
                self.last.insert(row.thread, (true, at));
            }
            Call::MpiWinPost => {
                let at = self.exposure.begin(process, window, rank, *row);
                self.last.insert(row.thread, (false, at));
            }
            Call::MpiGroup => {
                if let (Some((accesses, at)), Some(other)) = (self.last.get(&row.thread), row.peer) {
                    let side = if *accesses { &mut self.access } else { &mut self.exposure };
                    side.add_member(*at, other);
                }
            }
            Call::MpiWinComplete if self.access.end(process, window, *row) => {}
            Call::MpiWinWait if self.exposure.end(process, window, *row) => {}
            _ => self.lone.push(*row),
        }
    }

    /// Who waits for whom.
    pub(crate) fn acts(&self) -> Vec<Act> {
        let impossible = self.impossible();
        let early = self.windows_whose_starts_wait();
        let mut acts = Acts::default();
        self.lone.iter().for_each(|row| acts.unexplained(row, row.call == Call::MpiWinWait));
        for epoch in &self.access.epochs {
            self.begin(epoch, &impossible, early.contains(&epoch.window), &mut acts);
        }
        for epoch in &self.exposure.epochs {
            self.end(epoch, &impossible, early.contains(&epoch.window), &mut acts);
        }
        acts.found
    }

    /// An access waits for the posts.
    fn begin(&self, epoch: &Epoch, impossible: &HashMap<Pair, usize>, early: bool, acts: &mut Acts) {
        let is_known = |target, number| is_before(impossible, (epoch.window, epoch.rank, target), number);
        let posts = givers(epoch, &self.exposure, is_known);
        let posts: Option<Vec<Act>> =
            posts.map(|posts| posts.iter().map(|post| act(&post.begin, post.begin.start)).collect());
        if early || epoch.begin.end.is_none() {
            acts.add(&epoch.begin, posts.as_deref(), false);
            // for the data, or for a target that isn't in MPI
            epoch.end.iter().filter(|complete| is_long(complete)).for_each(|complete| {
                acts.push(complete, What::Wait { kind: "mpi" });
            });
        } else if let Some(complete) = &epoch.end {
            acts.add(complete, posts.as_deref(), false);
        }
    }

    /// An exposure waits for the completes.
    fn end(&self, epoch: &Epoch, impossible: &HashMap<Pair, usize>, early: bool, acts: &mut Acts) {
        let Some(wait) = &epoch.end else { return };
        let is_known = |origin, number| is_before(impossible, (epoch.window, origin, epoch.rank), number);
        let until = wait.end.unwrap_or(i64::MAX);
        let told = |access: &&Epoch| {
            let complete = access.end.as_ref()?;
            let at = if early { complete.start } else { complete.end?.min(until).max(complete.start) };
            Some(act(complete, at))
        };
        let accesses = givers(epoch, &self.access, is_known);
        let completes = accesses.and_then(|accesses| accesses.iter().map(told).collect::<Option<Vec<_>>>());
        acts.add(wait, completes.as_deref(), true);
    }

    /// Of each pair the first of its epochs that can't be, because calls are missing: nothing is known of the pair from there on.
    fn impossible(&self) -> HashMap<Pair, usize> {
        let mut first = HashMap::new();
        for (pair @ (window, origin, target), accesses) in &self.access.with {
            let possible = |number: usize| {
                let access = &self.access.epochs[accesses[number]];
                let exposure = self.exposure.of(*window, *target, *origin, number);
                exposure.is_none_or(|exposure| can_be(access, exposure))
            };
            if let Some(number) = (0..accesses.len()).find(|number| !possible(*number)) {
                first.insert(*pair, number);
            }
        }
        first
    }

    /// Windows whose starts wait for the posts: one returned only after a post that began after it, and none before.
    fn windows_whose_starts_wait(&self) -> HashSet<i64> {
        let (mut waited, mut returned) = (HashSet::new(), HashSet::new());
        for access in &self.access.epochs {
            for (target, number) in &access.others {
                let Some(exposure) = self.exposure.of(access.window, *target, access.rank, *number) else {
                    continue;
                };
                let post = exposure.begin.start;
                if access.begin.end.is_some_and(|end| end < post) {
                    returned.insert(access.window);
                } else if access.begin.start < post {
                    waited.insert(access.window);
                }
            }
        }
        waited.retain(|window| !returned.contains(window));
        waited
    }
}

/// The epochs of the others, if all are known.
fn givers<'a>(epoch: &Epoch, of: &'a Side, is_known: impl Fn(i64, usize) -> bool) -> Option<Vec<&'a Epoch>> {
    let found = epoch.others.iter().map(|(other, number)| {
        of.of(epoch.window, *other, epoch.rank, *number).filter(|_| is_known(*other, *number))
    });
    let found: Vec<&Epoch> = found.collect::<Option<_>>()?;
    if found.is_empty() { None } else { Some(found) }
}

fn is_before(impossible: &HashMap<Pair, usize>, pair: Pair, number: usize) -> bool {
    impossible.get(&pair).is_none_or(|first| number < *first)
}

/// Whether the access ended after the exposure had begun, and before it had ended.
fn can_be(access: &Epoch, exposure: &Epoch) -> bool {
    let Some(complete) = &access.end else { return true };
    let wait = exposure.end.as_ref().and_then(|wait| wait.end);
    complete.end.is_none_or(|end| exposure.begin.start <= end) && wait.is_none_or(|end| complete.start <= end)
}

/// A call that gives a signal at a time.
fn act(row: &Row, at: i64) -> Act {
    Act { thread: row.thread, start: at, end: row.end, what: What::Nothing }
}

/// What was found: each call that waits meets those that it waits for.
#[derive(Default)]
struct Acts {
    found: Vec<Act>,
    meetings: u32,
}

impl Acts {
    /// The call waits for these; unexplained, if they are not known.
    fn add(&mut self, taker: &Row, givers: Option<&[Act]>, ends: bool) {
        let Some(givers) = givers else { return self.unexplained(taker, ends) };
        let meeting = Meeting::Epoch { number: self.meetings, ends };
        self.meetings += 1;
        let meet = |role| What::Meet { meeting, role };
        self.found.extend(givers.iter().map(|giver| Act { what: meet(Role::Contributor), ..*giver }));
        self.push(taker, meet(Role::Sink));
    }

    fn unexplained(&mut self, row: &Row, ends: bool) {
        self.push(row, What::Wait { kind: kind(ends) });
    }

    fn push(&mut self, row: &Row, what: What) {
        self.found.push(Act { thread: row.thread, start: row.start, end: row.end, what });
    }
}
