//! Locks of files and of parts of them (flock(2), fcntl(2)): what a call asks for, who has which part when, and who asks again and again.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use iotrail_format::call::LOCK_OF_OPEN_FILE;

/// Operations of flock(2).
const LOCK_SH: i64 = 1;
const LOCK_NB: i64 = 4;
const LOCK_UN: i64 = 8;
/// Error numbers of what another one has (fcntl(2)).
const TAKEN: [i64; 2] = [11, 13];
/// Parts times those who have them: more are not told apart.
const MOST: usize = 2_000_000;

/// What is done with a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It is taken alone.
    Take,
    /// It is taken, and may be shared.
    Share,
    /// It is given back.
    GiveBack,
}

/// What a call asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// What is done.
    pub act: Act,
    /// The part of the file, bytes.
    pub part: Range<i64>,
    /// Whether it waits until nobody else has it.
    pub waits: bool,
    /// Whether all threads of the process have it then.
    pub by_process: bool,
}

impl Asked {
    /// From columns of `sync_op`; none if the part isn't known, or the call only asks who has it.
    #[must_use]
    pub fn of(length: Option<i64>, seq: Option<i64>, flags: Option<i64>) -> Option<Self> {
        let flags = flags?;
        let part = match (seq, length) {
            (None, None) => 0..i64::MAX,
            (Some(from), Some(0)) => from..i64::MAX,
            (Some(from), Some(length)) => from..from.saturating_add(length),
            _ => return None,
        };
        let act = match flags & !(LOCK_NB | LOCK_OF_OPEN_FILE) {
            LOCK_UN => Act::GiveBack,
            LOCK_SH => Act::Share,
            0 => return None,
            _ => Act::Take,
        };
        let waits = act != Act::GiveBack && flags & LOCK_NB == 0;
        Some(Self { act, part, waits, by_process: length.is_some() && flags & LOCK_OF_OPEN_FILE == 0 })
    }
}

/// A file, and whether flock(2) locks it: those locks don't see the others.
pub type Locks = (i64, bool);

/// What is locked of files, and by whom.
#[derive(Debug, Default)]
pub struct Locked(HashMap<Locks, HashSet<(Range<i64>, Owner)>>);

/// Parts of files that several owners lock.
#[derive(Debug)]
pub struct Contended(HashMap<Locks, Vec<Range<i64>>>);

impl Locked {
    /// An owner locks a part.
    pub fn add(&mut self, of: Locks, part: Range<i64>, owner: Owner) {
        self.0.entry(of).or_default().insert((part, owner));
    }

    /// The parts that several lock.
    #[must_use]
    pub fn contended(self) -> Contended {
        Contended(self.0.into_iter().map(|(of, uses)| (of, contended(uses))).collect())
    }
}

impl Contended {
    /// Whether several lock something of a part.
    #[must_use]
    pub fn is_in(&self, of: Locks, part: &Range<i64>) -> bool {
        self.0.get(&of).is_some_and(|parts| {
            let first = parts.partition_point(|one| one.end <= part.start);
            parts.get(first).is_some_and(|one| overlap(one, part))
        })
    }
}

/// Those parts of a file that several owners lock, in their order: none of them has bytes in common with what is left out.
fn contended(uses: HashSet<(Range<i64>, Owner)>) -> Vec<Range<i64>> {
    let mut uses: Vec<_> = uses.into_iter().collect();
    uses.sort_by_key(|(part, _)| (part.start, part.end));
    let mut found: Vec<(Range<i64>, Owner, bool)> = Vec::new();
    for (part, owner) in uses {
        match found.last_mut() {
            Some((last, of, several)) if part.start < last.end => {
                last.end = last.end.max(part.end);
                *several |= *of != owner;
            }
            _ => found.push((part, owner, false)),
        }
    }
    found.into_iter().filter(|(_, _, several)| *several).map(|(part, _, _)| part).collect()
}

fn overlap(one: &Range<i64>, other: &Range<i64>) -> bool {
    one.start < other.end && other.start < one.end
}

/// Threads that ask for a lock again and again, without waiting in the call.
#[derive(Debug, Default)]
pub struct Tries {
    /// By thread and file: what was asked for in vain, and when first.
    since: HashMap<(u32, i64), Vec<(Asked, i64)>>,
}

impl Tries {
    /// Takes a call that began and ended then, of each thread in its order. From when to when the thread wanted the lock, if it has it now and had
    /// asked for it in vain before. Giving back another part meanwhile (to let others go on) ends nothing.
    pub fn add(
        &mut self,
        thread: u32,
        file: i64,
        asked: &Asked,
        at: (i64, i64),
        errno: i64,
    ) -> Option<(i64, i64)> {
        let since = self.since.entry((thread, file)).or_default();
        if TAKEN.contains(&errno) && !asked.waits {
            if !since.iter().any(|(one, _)| one == asked) {
                since.push((asked.clone(), at.0));
            }
            return None;
        }
        if errno != 0 {
            return None;
        }
        let of_part = since.extract_if(.., |(one, _)| overlap(&one.part, &asked.part));
        // who gets less than it asked for goes another way
        let same = of_part.filter(|(one, _)| one.act == asked.act).map(|(_, first)| first);
        same.min().map(|first| (first, at.1))
    }
}

/// Who has a lock: what one asks for replaces what it has, and never waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// All threads of a process.
    Process(i64),
    /// A thread, which stands for a file that it opened.
    Thread(u32),
}

/// A part of a file is locked, or given back. Times are ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// Number of the thread.
    pub thread: u32,
    /// Who has it then.
    pub owner: Owner,
    /// When it has it, or begins to give it back.
    pub at: i64,
    /// Which of them.
    pub act: Act,
    /// The part, bytes.
    pub part: Range<i64>,
}

/// A part of a file that threads lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Where it lies, bytes: from the first that is in it to the end of the last.
    pub bytes: Range<i64>,
    /// When threads lock it and give it back, in the order of time; each time of a thread ends before its next.
    pub uses: Vec<(u32, i64, Act)>,
}

/// A thread has a part of a file.
#[derive(Clone, Debug)]
struct Hold {
    thread: u32,
    owner: Owner,
    act: Act,
    part: Range<i64>,
    from: i64,
    to: i64,
}

/// The parts of a file that several threads lock: as few as tell apart what any of them had without another. None of a file of which there
/// are too many.
///
/// A lock ends when its owner gives it back, or asks for that part in another way; at the latest when another owner has it that can't share it, or, with its
/// thread, at `ends`: where it was given back was not recorded then.
#[must_use]
pub fn parts(uses: Vec<Use>, ends: impl Fn(u32) -> i64) -> Vec<Part> {
    let holds = holds(uses, ends);
    let mut bounds: Vec<i64> = holds.iter().flat_map(|hold| [hold.part.start, hold.part.end]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut having: HashMap<i64, Vec<usize>> = HashMap::new();
    let mut count = 0;
    for (number, hold) in holds.iter().enumerate() {
        let first = bounds.partition_point(|bound| *bound < hold.part.start);
        for bound in bounds[first..].iter().take_while(|bound| **bound < hold.part.end) {
            having.entry(*bound).or_default().push(number);
            count += 1;
            if count > MOST {
                return Vec::new();
            }
        }
    }
    // what the same have is one
    let mut parts: HashMap<Vec<usize>, Range<i64>> = HashMap::new();
    for pair in bounds.windows(2) {
        if let Some(of) = having.remove(&pair[0])
            && of.iter().any(|number| holds[*number].owner != holds[of[0]].owner)
        {
            let part = parts.entry(of).or_insert(pair[0]..pair[1]);
            part.end = part.end.max(pair[1]);
        }
    }
    let mut found: Vec<Part> = parts
        .into_iter()
        .map(|(of, bytes)| {
            let mut uses: Vec<(u32, i64, Act)> = of
                .iter()
                .map(|number| &holds[*number])
                .flat_map(|hold| [(hold.thread, hold.from, hold.act), (hold.thread, hold.to, Act::GiveBack)])
                .collect();
            uses.sort_by_key(|(_, at, act)| (*at, *act != Act::GiveBack));
            Part { bytes, uses: joined(uses) }
        })
        .collect();
    found.sort_by_key(|part| (part.bytes.start, part.bytes.end));
    found
}

/// Without what is given back only to be had again at the same time, as where the rest of a lock is.
fn joined(uses: Vec<(u32, i64, Act)>) -> Vec<(u32, i64, Act)> {
    let mut having: HashMap<u32, Act> = HashMap::new();
    let mut left: Vec<(u32, i64, Act)> = Vec::with_capacity(uses.len());
    for (thread, at, act) in uses {
        let had = having.insert(thread, act);
        let again = left.iter().rposition(|one| *one == (thread, at, Act::GiveBack));
        match again.filter(|_| had == Some(act)) {
            Some(place) => drop(left.remove(place)),
            None => left.push((thread, at, act)),
        }
        if act == Act::GiveBack
            && let Some(had) = had
        {
            having.insert(thread, had);
        }
    }
    left
}

/// Who has which part from when to when.
fn holds(mut uses: Vec<Use>, ends: impl Fn(u32) -> i64) -> Vec<Hold> {
    uses.sort_by_key(|one| (one.at, one.act != Act::GiveBack));
    let last = uses.last().map_or(0, |one| one.at);
    let mut having: Vec<Hold> = Vec::new();
    let mut done = Vec::new();
    for Use { thread, owner, at, act, part } in uses {
        let has_it = |hold: &Hold| {
            hold.owner == owner
                && hold.act == act
                && hold.part.start <= part.start
                && part.end <= hold.part.end
        };
        if having.iter().any(has_it) || part.is_empty() {
            continue;
        }
        let is_over = |hold: &mut Hold| {
            let excludes = act == Act::Take || act == Act::Share && hold.act == Act::Take;
            overlap(&hold.part, &part) && (hold.owner == owner || excludes)
        };
        let over: Vec<Hold> = having.extract_if(.., is_over).collect();
        for hold in over {
            if hold.owner == owner {
                // what is left of it
                let before = hold.part.start..part.start.min(hold.part.end);
                let after = part.end.max(hold.part.start)..hold.part.end;
                having.extend([before, after].into_iter().filter(|rest| !rest.is_empty()).map(|rest| Hold {
                    part: rest,
                    from: at,
                    ..hold.clone()
                }));
            }
            done.push(Hold { to: at, ..hold });
        }
        if act != Act::GiveBack {
            having.push(Hold { thread, owner, act, part, from: at, to: at });
        }
    }
    done.extend(having.into_iter().map(|hold| Hold { to: ends(hold.thread).max(last), ..hold }));
    done.sort_by_key(|hold| (hold.from, hold.part.start));
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Range<i64> = 0..i64::MAX;

    type Uses = Vec<(u32, i64, Act)>;

    fn found(uses: &[(u32, i64, Act, Range<i64>)]) -> Vec<(Range<i64>, Uses)> {
        let used = |(thread, at, act, part): &(u32, i64, Act, Range<i64>)| Use {
            thread: *thread,
            owner: Owner::Thread(*thread),
            at: *at,
            act: *act,
            part: part.clone(),
        };
        let parts = parts(uses.iter().map(used).collect(), |thread| if thread == 0 { 50 } else { 70 });
        parts.into_iter().map(|part| (part.bytes, part.uses)).collect()
    }

    use Act::{GiveBack, Share, Take};

    #[test]
    fn a_call_asks_for_a_part() {
        let of = |length, seq, flags| {
            Asked::of(length, seq, Some(flags)).map(|asked| (asked.act, asked.part, asked.waits))
        };
        assert_eq!(of(None, None, 2), Some((Take, ALL, true)));
        assert_eq!(of(None, None, 1 | 4), Some((Share, ALL, false)));
        assert_eq!(of(Some(0), Some(8), 2 | 4 | 16), Some((Take, 8..i64::MAX, false)));
        assert_eq!(of(Some(8), Some(8), 8), Some((GiveBack, 8..16, false)));
        assert_eq!(of(Some(8), None, 2), None, "nobody knows where");
        assert_eq!(of(None, None, 0), None, "F_TEST");
        assert!(!Asked::of(None, None, Some(2)).expect("flock").by_process);
        assert!(!Asked::of(Some(0), Some(0), Some(2 | 16)).expect("of an open file").by_process);
    }

    #[test]
    fn whole_files() {
        let plain = vec![(0, 1, Take), (0, 5, GiveBack), (1, 6, Take), (1, 9, GiveBack)];
        let whole = |uses: &[(u32, i64, Act)]| {
            uses.iter().map(|(thread, at, act)| (*thread, *at, *act, ALL)).collect::<Vec<_>>()
        };
        // given back, and closed again
        let closed: Vec<_> = plain.iter().copied().chain([(0, 10, GiveBack)]).collect();
        assert_eq!(found(&whole(&closed)), [(ALL, plain.clone())]);
        // given back where nobody saw it
        assert_eq!(
            found(&whole(&[(0, 1, Take), (1, 6, Take), (1, 9, GiveBack)])),
            [(ALL, vec![(0, 1, Take), (0, 6, GiveBack), (1, 6, Take), (1, 9, GiveBack)])]
        );
        // shared, until one wants it alone; and until the end
        assert_eq!(
            found(&whole(&[(0, 1, Share), (1, 2, Share), (0, 3, GiveBack), (1, 4, Take)])),
            [(
                ALL,
                vec![
                    (0, 1, Share),
                    (1, 2, Share),
                    (0, 3, GiveBack),
                    (1, 4, GiveBack),
                    (1, 4, Take),
                    (1, 70, GiveBack)
                ]
            )]
        );
        assert_eq!(found(&whole(&[(0, 1, Take), (0, 3, GiveBack)])), [], "nobody else wants it");
    }

    #[test]
    fn parts_are_apart() {
        let apart = [(0, 1, Take, 0..10), (1, 2, Take, 10..20), (0, 3, GiveBack, ALL), (1, 4, GiveBack, ALL)];
        assert_eq!(found(&apart), []);
        // they share bytes 5 to 9
        let both = [(0, 1, Take, 0..10), (0, 2, GiveBack, 0..10), (1, 3, Take, 5..20), (1, 4, GiveBack, ALL)];
        assert_eq!(
            found(&both),
            [(5..10, vec![(0, 1, Take), (0, 2, GiveBack), (1, 3, Take), (1, 4, GiveBack)])]
        );
    }

    #[test]
    fn only_what_several_lock_is_contended_for() {
        let of = |uses: &[(Range<i64>, u32)]| {
            let owned = uses.iter().map(|(part, thread)| (part.clone(), Owner::Thread(*thread)));
            contended(owned.collect()).into_iter().map(|part| (part.start, part.end)).collect::<Vec<_>>()
        };
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[(0..10, 0), (10..20, 1), (5..8, 0)]), [], "apart");
        assert_eq!(of(&[(20..30, 0), (0..10, 0), (25..28, 1), (9..12, 0)]), [(20, 30)]);
        assert_eq!(of(&[(0..10, 0), (8..20, 0), (19..30, 1)]), [(0, 30)], "one with the other");
    }

    #[test]
    fn a_part_of_a_lock_is_given_back() {
        let uses = [
            (0, 1, Take, 0..30),
            (0, 2, GiveBack, 10..20),
            (1, 3, Take, 10..20),
            (1, 4, GiveBack, 10..20),
            (0, 5, GiveBack, ALL),
            (1, 6, Take, 0..30),
            (1, 7, GiveBack, ALL),
        ];
        let rest = vec![(0, 1, Take), (0, 5, GiveBack), (1, 6, Take), (1, 7, GiveBack)];
        let middle = vec![
            (0, 1, Take),
            (0, 2, GiveBack),
            (1, 3, Take),
            (1, 4, GiveBack),
            (1, 6, Take),
            (1, 7, GiveBack),
        ];
        assert_eq!(found(&uses), [(0..10, rest.clone()), (10..20, middle), (20..30, rest)]);
    }

    #[test]
    fn what_an_owner_has_it_can_ask_for_again() {
        let again = [(0, 1, Share, 0..10), (0, 2, Share, 2..5), (0, 4, GiveBack, ALL), (1, 5, Take, 0..10)];
        let uses = vec![(0, 1, Share), (0, 4, GiveBack), (1, 5, Take), (1, 70, GiveBack)];
        assert_eq!(found(&again), [(0..10, uses)]);
    }

    #[test]
    fn who_asks_again_and_again_has_waited() {
        let ask = |act, part| Asked { act, part, waits: false, by_process: true };
        let mut tries = Tries::default();
        let mut add = |at: i64, asked: &Asked, errno| tries.add(0, 7, asked, (at, at + 1), errno);
        assert_eq!(add(1, &ask(Take, 0..1), 11), None);
        assert_eq!(add(3, &ask(GiveBack, 5..6), 0), None, "another part");
        assert_eq!(add(5, &ask(Take, 0..1), 13), None);
        assert_eq!(add(9, &ask(Take, 0..1), 0), Some((1, 10)));
        assert_eq!(add(11, &ask(Take, 0..1), 0), None, "at once");
        assert_eq!(add(11, &ask(Take, 0..1), 11), None);
        assert_eq!(add(11, &ask(Share, 0..1), 0), None, "less than it asked for");
        assert_eq!(add(12, &ask(Take, 5..6), 11), None);
        assert_eq!(add(13, &ask(GiveBack, ALL), 0), None, "it has given up");
        assert_eq!(add(15, &ask(Take, 5..6), 0), None);
    }
}
