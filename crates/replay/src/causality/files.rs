//! Locks of files, and of parts of them, that a trail has (flock(2), fcntl(2)).

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use iotrail_causal::file_locks::{self, Act, Asked, Owner, Tries};
use iotrail_causal::{Pauses, Reason, Recorded, Waited};
use iotrail_format::call::Call;
use iotrail_trail::{Order, SyncOp, TrailReader};

use super::locks::{LockId, Use, Used};
use crate::Error;

/// Locks of files.
#[derive(Default)]
pub(super) struct OnFiles {
    /// By file, and whether flock(2) locked it: those don't see the others.
    uses: BTreeMap<(i64, bool), Vec<file_locks::Use>>,
    tries: Tries,
    /// What threads asked for again and again, and from when to when.
    pub(super) wanted: Vec<Wanted>,
    /// Parts of files that threads wait for in calls.
    waited_for: HashSet<(i64, Range<i64>)>,
}

/// A thread asked for a part of a file, which it got at last.
pub(super) struct Wanted {
    thread: usize,
    file: i64,
    part: Range<i64>,
    pub(super) from: i64,
    pub(super) to: i64,
}

impl OnFiles {
    /// Takes a row that locks a file; times are the plan's.
    pub(super) fn add(&mut self, row: &SyncOp<'_>, process: i64, thread: usize, at: (i64, i64)) {
        let (Some(file), Some(asked)) = (row.object, Asked::of(row.length, row.seq, row.flags)) else {
            return;
        };
        let number = thread as u32;
        if let Some((from, to)) = self.tries.add(number, file, &asked, at, row.errno) {
            self.wanted.push(Wanted { thread, file, part: asked.part.clone(), from, to });
        }
        if asked.waits {
            self.waited_for.insert((file, asked.part.clone()));
        }
        if row.errno == 0 {
            let owner = if asked.by_process { Owner::Process(process) } else { Owner::Thread(number) };
            let at = if asked.act == Act::GiveBack { at.0 } else { at.1 };
            let one = file_locks::Use { thread: number, owner, at, act: asked.act, part: asked.part };
            self.uses.entry((file, row.length.is_none())).or_default().push(one);
        }
    }

    /// Whether any thread waits for a lock, in a call or asleep. Who only asks whether it is free goes another way if it isn't.
    pub(super) fn is_waited_for(&self, lock: &LockId) -> bool {
        self.wanted.iter().any(|one| one.is_of(lock)) || self.is_waited_for_in_calls(lock)
    }

    /// Whether any thread waits for a lock in a call.
    fn is_waited_for_in_calls(&self, lock: &LockId) -> bool {
        self.waited_for.iter().any(|(file, part)| lock.is_in(*file, part))
    }

    /// Of locks that nobody waits for in a call, how long threads sleep between tries: medians of those that were as many before.
    pub(super) fn tried(&self, locks: &[LockId], recorded: &[Recorded]) -> BTreeMap<u32, Pauses> {
        let pauses = |lock: &LockId| {
            let mut by_number: Vec<Vec<i64>> = Vec::new();
            for one in self.wanted.iter().filter(|one| one.is_of(lock)) {
                for (number, sleep) in one.sleeps(recorded).enumerate() {
                    by_number.resize_with(by_number.len().max(number + 1), Vec::new);
                    by_number[number].push(sleep.dur);
                }
            }
            let median = |mut durs: Vec<i64>| {
                durs.sort_unstable();
                durs[durs.len() / 2]
            };
            Pauses::new(by_number.into_iter().map(median).collect())
        };
        let numbered = (0..).zip(locks).filter(|(_, lock)| !self.is_waited_for_in_calls(lock));
        numbered.filter_map(|(number, lock)| Some((number, pauses(lock)?))).collect()
    }

    /// Who closes a file gives back its locks of it (flock(2), fcntl(2)).
    pub(super) fn close(
        &mut self,
        reader: &TrailReader,
        number_of: &HashMap<i64, usize>,
        process_of: &HashMap<i64, i64>,
        zero: i64,
    ) -> Result<(), Error> {
        if self.uses.is_empty() {
            return Ok(());
        }
        let mut rows = reader.file_ops(Order::Time)?;
        while let Some(row) = rows.next()? {
            if row.call == Call::Close.name()
                && let (Some(file), Some(thread)) = (row.file, number_of.get(&row.thread.0))
            {
                let (thread, process) = (*thread as u32, process_of.get(&row.thread.0).copied());
                let of_process = process.map(|process| (false, Owner::Process(process)));
                for (by_flock, owner) in of_process
                    .into_iter()
                    .chain([(true, Owner::Thread(thread)), (false, Owner::Thread(thread))])
                {
                    if let Some(uses) = self.uses.get_mut(&(file.0, by_flock)) {
                        let (at, part) = (row.ts - zero, 0..i64::MAX);
                        uses.push(file_locks::Use { thread, owner, at, act: Act::GiveBack, part });
                    }
                }
            }
        }
        Ok(())
    }

    /// What threads did with each part of a file that is locked.
    pub(super) fn locks(&mut self, recorded: &[Recorded]) -> Vec<Used> {
        let ends = |thread: u32| recorded[thread as usize].last().unwrap_or(0);
        let one = |(thread, at, act): (u32, i64, Act)| Use { thread: thread as usize, at, act };
        std::mem::take(&mut self.uses)
            .into_iter()
            .flat_map(|((file, _), uses)| {
                file_locks::parts(uses, ends).into_iter().map(move |part| {
                    (LockId::File { file, part: part.bytes }, part.uses.into_iter().map(one).collect())
                })
            })
            .collect()
    }
}

impl LockId {
    fn is_in(&self, of: i64, within: &Range<i64>) -> bool {
        matches!(self, Self::File { file, part } if *file == of && part.start < within.end && within.start < part.end)
    }
}

impl Wanted {
    pub(super) fn is_of(&self, lock: &LockId) -> bool {
        lock.is_in(self.file, &self.part)
    }

    /// The thread's sleeps meanwhile.
    pub(super) fn sleeps<'a>(&self, recorded: &'a [Recorded]) -> impl Iterator<Item = &'a Waited> {
        let waits = &recorded[self.thread].waits;
        let (from, to) = (self.from, self.to);
        let first = waits.partition_point(|wait| wait.start < from);
        waits[first..]
            .iter()
            .take_while(move |wait| wait.start < to)
            .filter(|wait| wait.reason == Reason::Unknown)
    }
}

/// What a thread waited while it asked for a lock again and again: it takes no time, if the lock is contended for, else as long as it did.
pub(super) fn wait_for_files(locks: &[LockId], wanted: &[Wanted], recorded: &mut [Recorded]) {
    let is_contended = |one: &&Wanted| locks.iter().any(|lock| one.is_of(lock));
    let (contended, others): (Vec<&Wanted>, Vec<&Wanted>) = wanted.iter().partition(is_contended);
    let contended = contended.into_iter().map(|one| (one, Reason::Lock));
    for (one, reason) in contended.chain(others.into_iter().map(|one| (one, Reason::Timer))) {
        let waits = &mut recorded[one.thread].waits;
        let first = waits.partition_point(|wait| wait.start < one.from);
        for wait in waits[first..].iter_mut().take_while(|wait| wait.start < one.to) {
            if wait.reason == Reason::Unknown {
                wait.reason = reason;
            }
        }
    }
}
