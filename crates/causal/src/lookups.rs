//! Files that a thread looks for again and again until they are there: it waits for who makes them.
//!
//! A thread that finds a name missing, sleeps, and looks again, with no other call in between, waits for the name. Who made it is known where
//! one other thread alone made it between the last look in vain and the one that found it. It may also have another process sleep, as a shell does, and wait for
//! its end: one that changes nothing and waits for nobody else.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use iotrail_format::call::{Call, CallKind};

use crate::matching::{Edges, How, Signal, Wait};

/// Kind of these edges in a trail.
const NAME: &str = "name";
/// Kinds of waits for a time.
const SLEEPS: [&str; 2] = ["sleep", "timer"];
/// Kinds of waits for a process to be made, and to end.
const BEGIN: &str = "begin";
const END: &str = "end";
/// How many images lie at most between one that waits for a process and the one that ends: it forks one, which executes another.
const DEEPEST: usize = 4;
/// Error number of a name that isn't there, and flag of a call that makes it (open(2)).
const ENOENT: i64 = 2;
const O_CREAT: i64 = 0o100;

/// Calls that change what others see, beside those that write, or make a name.
const CHANGES: [Call; 6] =
    [Call::Unlink, Call::Rmdir, Call::Rename, Call::Truncate, Call::Fallocate, Call::Mkstemp];

/// A path, by the number of the machine and its id there: files of different machines may be called the same.
type Name = (u32, i64);

/// What a call finds or does under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Missing(Name),
    Found(Name),
    Makes(Name),
    /// Something that others may see.
    Changes,
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
            _ if row.call.kind() == CallKind::Write || CHANGES.contains(&row.call) => What::Changes,
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
                What::Changes | What::Other => {}
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
    let children = Children::of(edges, calls);
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
            &children,
            &search,
            maker.thread,
            if is_early { maker.start } else { maker.start.max(maker.end - 1) },
        );
    }
}

/// Whether a thread waits for a time.
fn sleeps(wait: &Wait) -> bool {
    SLEEPS.contains(&wait.kind) && wait.edge.is_none()
}

/// Where the waits of a thread are that begin from `from` on, before `to`.
fn waits(edges: &Edges, thread: u32, (from, to): (i64, i64)) -> Range<usize> {
    let at = |ts: i64| edges.waits.partition_point(|wait| (wait.thread, wait.start) < (thread, ts));
    at(from)..at(to)
}

/// Processes that others make, and wait for.
struct Children {
    /// By edge the thread that gives its only signal.
    givers: HashMap<u32, u32>,
    /// Threads that change what others see.
    busy: HashSet<u32>,
}

impl Children {
    fn of(edges: &Edges, calls: &[OnName]) -> Self {
        let mut givers: HashMap<u32, Option<u32>> = HashMap::new();
        for signal in &edges.signals {
            let giver = |known: &mut Option<u32>| *known = None;
            givers.entry(signal.edge).and_modify(giver).or_insert(Some(signal.thread));
        }
        let changes = |call: &&OnName| matches!(call.what, What::Makes(_) | What::Changes);
        Self {
            givers: givers.into_iter().filter_map(|(edge, giver)| Some((edge, giver?))).collect(),
            busy: calls.iter().filter(changes).map(|call| call.thread).collect(),
        }
    }

    /// Whether it is the end of a process that began before a time: whoever waits for any of its processes may be told of that one.
    fn is_older(&self, edges: &Edges, wait: &Wait, than: i64) -> bool {
        let giver = wait.edge.filter(|_| wait.kind == END).and_then(|edge| self.givers.get(&edge));
        giver.is_some_and(|thread| {
            edges.waits[waits(edges, *thread, (i64::MIN, than))].iter().any(|wait| wait.kind == BEGIN)
        })
    }

    /// The images of a process whose end is waited for, the last first, which a thread made and which then did nothing but sleep; none if it did
    /// anything else.
    fn idle(&self, edges: &Edges, wait: &Wait) -> Option<Vec<u32>> {
        let mut of = wait.edge.filter(|_| wait.kind == END)?;
        let mut images = Vec::new();
        loop {
            let thread = *self.givers.get(&of)?;
            if thread == wait.thread {
                return Some(images);
            }
            if self.busy.contains(&thread) || images.len() == DEEPEST {
                return None;
            }
            images.push(thread);
            let mut others = edges.waits[waits(edges, thread, (i64::MIN, i64::MAX))].iter();
            let begin = others.clone().find(|wait| wait.kind == BEGIN)?;
            if !others.all(|wait| wait.kind == BEGIN || sleeps(wait)) {
                return None;
            }
            of = begin.edge?;
        }
    }
}

/// Explains the sleeps of one search, and of processes that were made to sleep, if nothing else was waited for meanwhile.
fn explain(edges: &mut Edges, children: &Children, search: &Search, maker: u32, given: i64) {
    let (mut own, mut images) = (Vec::new(), Vec::new());
    for at in waits(edges, search.thread, (search.first, search.found.0)) {
        let wait = &edges.waits[at];
        if children.is_older(edges, wait, search.first) {
            continue;
        }
        own.push(at);
        match children.idle(edges, wait) {
            Some(found) => images.extend(found),
            None if sleeps(wait) => {}
            None => return,
        }
    }
    if own.is_empty() {
        return;
    }
    let edge = edges.count;
    own.extend(images.iter().flat_map(|thread| waits(edges, *thread, (i64::MIN, i64::MAX))));
    for at in own {
        let wait = &mut edges.waits[at];
        if !sleeps(wait) || wait.end.is_some_and(|end| end < given) {
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

    /// Thread 0 looks at 0, 10 and 20; between them it makes processes, whose first images (2 and 4) execute others (3 and 5) that sleep at `sleeps`;
    /// thread 1 makes the file at 15. What the waits of all have: kind, edge, and whether one would have made it shorter.
    fn by_children(
        sleeps: &[(i64, i64)],
        more: &[Columns],
        last: Option<(u32, &'static str)>,
    ) -> Vec<(u32, &'static str, bool, bool)> {
        let wait = |thread, kind, start, end, edge| Wait {
            thread,
            start,
            end: Some(end),
            edge,
            kind,
            how: How::default(),
            last: None,
            within: 0,
            style: None,
            until: None,
        };
        let signal = |thread, ts, edge| Signal { thread, ts, edge, kind: BEGIN, how: How::Matched };
        let mut edges = Edges { count: 10, ..Edges::default() };
        for (number, (start, end)) in (0..).zip(sleeps) {
            let (forked, executed, at) = (2 + 2 * number, 3 + 2 * number, 10 * i64::from(number) + 2);
            let edge = 3 * number;
            edges.signals.extend([
                signal(0, at, edge),
                signal(forked, at + 1, edge + 1),
                signal(executed, at + 6, edge + 2),
            ]);
            edges.waits.push(wait(forked, BEGIN, at, at, Some(edge)));
            edges.waits.push(wait(executed, BEGIN, at + 1, at + 1, Some(edge + 1)));
            edges.waits.push(wait(executed, "sleep", *start, *end, None));
            edges.waits.push(wait(0, END, at, at + 6, Some(edge + 2)));
        }
        edges.waits.extend(last.map(|(thread, kind)| wait(thread, kind, 17, 18, (kind == END).then_some(8))));
        edges.waits.push(wait(9, BEGIN, -5, -5, Some(9)));
        edges.signals.extend([signal(0, -5, 9), signal(9, 17, 8)]);
        let looks = [look(0, ENOENT), look(10, ENOENT), look(20, 0), make(15)];
        let mut calls: Vec<OnName> = looks.iter().chain(more).map(OnName::of).collect();
        calls.sort_by_key(|call| (call.thread, call.start));
        explain_lookups(&mut edges, &calls);
        let found = edges.waits.iter();
        found.map(|wait| (wait.thread, wait.kind, wait.edge.is_some(), wait.until.is_some())).collect()
    }

    #[test]
    fn who_waits_for_a_process_that_sleeps_looks_again_and_again() {
        let sleeps = [(4, 7), (14, 17)];
        let found = vec![
            (0, END, true, true),
            (0, END, true, true),
            (2, BEGIN, true, true),
            (3, BEGIN, true, true),
            (3, "sleep", false, true),
            (4, BEGIN, true, true),
            (5, BEGIN, true, true),
            (5, NAME, true, false),
            (9, BEGIN, true, false),
        ];
        assert_eq!(by_children(&sleeps, &[], None), found);
        let reads = Columns { thread: 3, path: Some(9), ..look(5, 0) };
        assert_eq!(by_children(&sleeps, &[reads], None), found, "as what a program needs to begin");
        let nothing = |found: Vec<(u32, &'static str, bool, bool)>| {
            assert!(found.iter().all(|(_, kind, _, is_shorter)| *kind != NAME && !is_shorter));
        };
        let writes = Columns { call: Call::Pwrite, ..reads };
        nothing(by_children(&sleeps, &[writes], None));
        for call in [Call::Unlink, Call::Mkstemp] {
            nothing(by_children(&sleeps, &[Columns { call, ..reads }], None));
        }
        nothing(by_children(&sleeps, &[], Some((5, "stream"))));
        nothing(by_children(&sleeps, &[], Some((0, "stream"))));
        // an older process ends meanwhile
        let older = by_children(&sleeps, &[], Some((0, END)));
        assert!(older.contains(&(5, NAME, true, false)) && older.contains(&(0, END, true, false)));
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
