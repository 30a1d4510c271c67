//! Files that a thread looks for again and again until they are there: it waits for who makes them.
//!
//! A thread that finds a name missing, sleeps, and looks again, with no other call in between, waits for the name. Who made it is known where
//! one other thread alone made it between the last look in vain and the one that found it.

use std::collections::{HashMap, HashSet};

use iotrail_format::call::Call;

use crate::matching::{Edges, How, Signal};

/// Kind of these edges in a trail.
const NAME: &str = "name";
/// Kinds of waits for a time.
const SLEEPS: [&str; 2] = ["sleep", "timer"];
/// Error number of a name that isn't there, and flag of a call that makes it (open(2)).
const ENOENT: i64 = 2;
const O_CREAT: i64 = 0o100;

/// A path, by the number of the machine and its id there: files of different machines may be called the same.
type Name = (u32, i64);

/// What a call finds or does under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Missing(Name),
    Found(Name),
    Makes(Name),
    Other,
}

/// A call on a file. Times are ns.
#[derive(Clone, Copy, Debug)]
pub struct OnName {
    thread: u32,
    start: i64,
    end: i64,
    what: What,
}

/// Columns of `file_op` that tell.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    /// Number of the thread.
    pub thread: u32,
    /// Number of the machine.
    pub machine: u32,
    /// Start.
    pub start: i64,
    /// When it returned.
    pub end: i64,
    /// The call.
    pub call: Call,
    /// Id of its path.
    pub path: Option<i64>,
    /// Id of its second path.
    pub path2: Option<i64>,
    /// Error number; 0 success.
    pub errno: i64,
    /// Its flags.
    pub flags: Option<i64>,
}

impl OnName {
    /// Of a row.
    #[must_use]
    pub fn of(row: &Columns) -> Self {
        let opens = matches!(row.call, Call::Open | Call::Fopen);
        let creates = opens && row.flags.is_some_and(|flags| flags & O_CREAT != 0);
        let looks = opens && !creates
            || matches!(row.call, Call::Stat | Call::Access | Call::Opendir | Call::Readlink);
        let makes = creates || matches!(row.call, Call::Creat | Call::Mkdir | Call::Mknod | Call::Symlink);
        let gives_name = matches!(row.call, Call::Rename | Call::Link);
        let what = match (row.path, row.path2, row.errno) {
            (Some(path), _, ENOENT) if looks => What::Missing((row.machine, path)),
            (Some(path), _, 0) if looks => What::Found((row.machine, path)),
            (Some(path), _, 0) if makes => What::Makes((row.machine, path)),
            (_, Some(path), 0) if gives_name => What::Makes((row.machine, path)),
            _ => What::Other,
        };
        Self { thread: row.thread, start: row.start, end: row.end, what }
    }

    /// Whether it looks for a name that isn't there.
    #[must_use]
    pub fn is_in_vain(&self) -> bool {
        matches!(self.what, What::Missing(_))
    }
}

/// Looks in vain, by thread and start, for names that the thread found later, which another one alone had made meanwhile: how many there are
/// depends on when that was. `calls` are those of each thread in the order of their starts.
#[must_use]
pub fn in_vain(calls: &[OnName]) -> HashSet<(u32, i64)> {
    let makers = Makers::of(calls);
    let mut found = HashSet::new();
    for calls in calls.chunk_by(|one, next| one.thread == next.thread) {
        let mut missed: HashMap<Name, Vec<i64>> = HashMap::new();
        for call in calls {
            match call.what {
                What::Missing(path) => missed.entry(path).or_default().push(call.start),
                What::Makes(path) => drop(missed.remove(&path)),
                What::Found(path) => {
                    let Some(looks) = missed.remove(&path) else { continue };
                    let last = looks[looks.len() - 1];
                    if makers.only(path, call.thread, (last, call.end)).is_some() {
                        found.extend(looks.into_iter().map(|start| (call.thread, start)));
                    }
                }
                What::Other => {}
            }
        }
    }
    found
}

/// Calls that make names, by their paths.
struct Makers<'a>(HashMap<Name, Vec<&'a OnName>>);

impl<'a> Makers<'a> {
    /// Of those that somebody looked for in vain.
    fn of(calls: &'a [OnName]) -> Self {
        let missed = |call: &OnName| if let What::Missing(path) = call.what { Some(path) } else { None };
        let missed: HashSet<Name> = calls.iter().filter_map(missed).collect();
        let mut makers: HashMap<Name, Vec<&OnName>> = HashMap::new();
        for call in calls {
            if let What::Makes(path) = call.what
                && missed.contains(&path)
            {
                makers.entry(path).or_default().push(call);
            }
        }
        Self(makers)
    }

    /// The one that made a name between two times, if there is one alone, and of another thread.
    fn only(&self, path: Name, thread: u32, (from, to): (i64, i64)) -> Option<&'a OnName> {
        let of = self.0.get(&path)?;
        let mut between = of.iter().filter(|call| call.start <= to && call.end >= from);
        let maker = between.next().filter(|maker| maker.thread != thread)?;
        between.next().is_none().then_some(*maker)
    }
}

/// A thread looked for a name in vain, and found it at last.
struct Search {
    thread: u32,
    path: Name,
    /// When the first look in vain began, and the last one; when the one that found it began, and returned.
    first: i64,
    last: i64,
    found: (i64, i64),
}

/// Gives the sleeps of threads that look for a name the edge of who made it; those that ended before end earlier if it is made earlier. `calls` has those
/// of each thread in the order of their starts.
pub fn explain_lookups(edges: &mut Edges, calls: &[OnName]) {
    let searches = searches(calls);
    if searches.is_empty() {
        return;
    }
    edges.waits.sort_by_key(|wait| (wait.thread, wait.start, wait.end));
    let makers = Makers::of(calls);
    let maker = |search: &Search| makers.only(search.path, search.thread, (search.last, search.found.1));
    let made: Vec<(Search, &OnName)> =
        searches.into_iter().filter_map(|search| maker(&search).map(|maker| (search, maker))).collect();
    // It is there when the call returns that makes it, and can be before.
    let early: HashSet<(u32, u32)> = made
        .iter()
        .filter(|(search, maker)| search.found.0 < maker.end)
        .map(|(search, maker)| (maker.thread, search.thread))
        .collect();
    for (search, maker) in made {
        let is_early = early.contains(&(maker.thread, search.thread));
        explain(
            edges,
            &search,
            maker.thread,
            if is_early { maker.start } else { maker.start.max(maker.end - 1) },
        );
    }
}

/// Explains the sleeps of one search, if nothing else was waited for meanwhile.
fn explain(edges: &mut Edges, search: &Search, maker: u32, given: i64) {
    let at = |ts: i64| edges.waits.partition_point(|wait| (wait.thread, wait.start) < (search.thread, ts));
    let (from, to) = (at(search.first), at(search.found.0));
    let edge = edges.count;
    let waits = &mut edges.waits[from..to];
    let sleeps = |wait: &crate::matching::Wait| SLEEPS.contains(&wait.kind) && wait.edge.is_none();
    if waits.is_empty() || !waits.iter().all(sleeps) {
        return;
    }
    for wait in &mut *waits {
        if wait.end.is_some_and(|end| end < given) {
            wait.until = Some(edge);
        } else {
            (wait.edge, wait.kind, wait.last, wait.until) = (Some(edge), NAME, Some(given), None);
        }
    }
    edges.count += 1;
    edges.signals.push(Signal { thread: maker, ts: given, edge, kind: NAME, how: How::Matched });
}

fn searches(calls: &[OnName]) -> Vec<Search> {
    let mut found = Vec::new();
    for calls in calls.chunk_by(|one, next| one.thread == next.thread) {
        // the path, the first look in vain and the last
        let mut looking: Option<(Name, i64, i64)> = None;
        for call in calls {
            looking = match (call.what, looking) {
                (What::Missing(path), Some((of, first, _))) if of == path => Some((path, first, call.start)),
                (What::Missing(path), _) => Some((path, call.start, call.start)),
                (What::Found(path), Some((of, first, last))) if of == path => {
                    let found_it = (call.start, call.end);
                    found.push(Search { thread: call.thread, path, first, last, found: found_it });
                    None
                }
                _ => None,
            };
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::Wait;

    const PATH: i64 = 7;

    fn look(start: i64, errno: i64) -> Columns {
        let (call, path) = (Call::Access, Some(PATH));
        Columns { thread: 0, machine: 0, start, end: start + 1, call, path, path2: None, errno, flags: None }
    }

    fn make(start: i64) -> Columns {
        Columns { thread: 1, call: Call::Open, flags: Some(O_CREAT), ..look(start, 0) }
    }

    type Sleep = (i64, &'static str, bool);

    /// Of each sleep when it began, its kind, and whether an edge would have ended it; and when the signals are given.
    fn explained(rows: &[Columns], sleeps: &[(i64, i64)]) -> (Vec<Sleep>, Vec<i64>) {
        let wait = |(start, end): &(i64, i64)| Wait {
            thread: 0,
            start: *start,
            end: Some(*end),
            edge: None,
            kind: "sleep",
            how: How::default(),
            last: None,
            within: 0,
            style: None,
            until: None,
        };
        let mut edges = Edges { waits: sleeps.iter().map(wait).collect(), ..Edges::default() };
        let mut calls: Vec<OnName> = rows.iter().map(OnName::of).collect();
        calls.sort_by_key(|call| (call.thread, call.start));
        explain_lookups(&mut edges, &calls);
        let waits = edges.waits.iter().map(|wait| (wait.start, wait.kind, wait.until.is_some()));
        (waits.collect(), edges.signals.iter().map(|signal| signal.ts).collect())
    }

    #[test]
    fn who_looks_for_a_file_waits_for_who_makes_it() {
        let looks = [look(0, ENOENT), look(10, ENOENT), look(20, 0)];
        let sleeps = [(2, 9), (12, 19)];
        let with = |makes: &[Columns]| [&looks[..], makes].concat();
        let in_vain = vec![(2, "sleep", true), (12, NAME, false)];
        assert_eq!(explained(&with(&[make(15)]), &sleeps), (in_vain.clone(), vec![15]));
        // it returned after the look that found it
        let slow = Columns { end: 25, ..make(15) };
        assert_eq!(explained(&with(&[slow]), &sleeps), (in_vain, vec![15]));
        let nothing = (vec![(2, "sleep", false), (12, "sleep", false)], vec![]);
        assert_eq!(explained(&with(&[]), &sleeps), nothing, "nobody was seen to make it");
        assert_eq!(explained(&with(&[make(14), make(16)]), &sleeps), nothing, "two may have made it");
        assert_eq!(explained(&with(&[make(5)]), &sleeps), nothing, "it was not there after that");
        let elsewhere = Columns { machine: 1, ..make(15) };
        assert_eq!(explained(&with(&[elsewhere]), &sleeps), nothing, "a file of another machine");
        let own = Columns { thread: 0, ..make(15) };
        assert_eq!(explained(&with(&[own]), &sleeps), nothing, "itself");
    }

    #[test]
    fn who_does_something_else_meanwhile_does_not_wait() {
        let other = Columns { path: Some(9), call: Call::Pwrite, ..look(5, 0) };
        let rows = [look(0, ENOENT), other, look(20, 0), make(15)];
        let calls: Vec<OnName> = rows.iter().map(OnName::of).collect();
        assert_eq!(in_vain(&calls), HashSet::from([(0, 0)]), "it looked for it, whatever else it did");
        let calls: Vec<OnName> = rows[..3].iter().map(OnName::of).collect();
        assert!(in_vain(&calls).is_empty(), "nobody was seen to make it");
        assert_eq!(explained(&rows, &[(12, 19)]), (vec![(12, "sleep", false)], vec![]));
        let rows = [look(0, ENOENT), look(20, 0), make(15)];
        assert_eq!(explained(&rows, &[]), (vec![], vec![]), "it didn't sleep");
        let renamed = Columns { call: Call::Rename, path: Some(9), path2: Some(PATH), ..make(15) };
        assert_eq!(explained(&[rows[0], rows[1], renamed], &[(12, 19)]), (vec![(12, NAME, false)], vec![15]));
    }
}
