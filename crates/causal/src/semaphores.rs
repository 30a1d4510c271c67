//! Semaphores and barriers: which one a call is on, where memory is used again and processes share it; and which semaphores are locks.

use std::collections::HashMap;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id {
    /// The process that made it, if those that it forked share it; else the one that uses it.
    pub process: i64,
    /// Where it lies there.
    pub address: i64,
    /// When it was made, ns; [`i64::MIN`]: that was not recorded.
    pub made: i64,
}

#[derive(Clone, Copy, Debug)]
struct Made {
    at: i64,
    is_shared: bool,
    count: i64,
}

/// All that were made, and who was forked from whom.
#[derive(Debug, Default)]
pub struct Semaphores {
    /// By process and address.
    made: HashMap<(i64, i64), Vec<Made>>,
    parents: HashMap<i64, i64>,
}

impl Semaphores {
    /// One was made at a time, ns; `count` may pass at first.
    pub fn make(&mut self, process: i64, address: i64, at: i64, is_shared: bool, count: i64) {
        let made = self.made.entry((process, address)).or_default();
        made.insert(made.partition_point(|one| one.at <= at), Made { at, is_shared, count });
    }

    /// A process began as a copy of another one.
    pub fn fork(&mut self, child: i64, parent: i64) {
        self.parents.insert(child, parent);
    }

    fn last(&self, process: i64, address: i64, at: i64) -> Option<Made> {
        let made = self.made.get(&(process, address))?;
        made[..made.partition_point(|one| one.at <= at)].last().copied()
    }

    /// The one that a process uses at an address at a time.
    #[must_use]
    pub fn id(&self, process: i64, address: i64, at: i64) -> Id {
        let mut maker = process;
        // as many as there are, at most, whatever a trail says
        for _ in 0..=self.parents.len() {
            match (self.last(maker, address, at), self.parents.get(&maker)) {
                (Some(made), _) if made.is_shared || maker == process => {
                    return Id { process: maker, address, made: made.at };
                }
                (None, Some(parent)) => maker = *parent,
                // a copy of its own
                _ => break,
            }
        }
        Id { process, address, made: i64::MIN }
    }

    /// Which semaphores are used as locks: one may pass at first, and who passes gives it back before another one does.
    pub fn locks(&self, uses: &mut HashMap<Id, Vec<Use>>) -> Vec<Id> {
        let is_lock = |(id, uses): (&Id, &mut Vec<Use>)| {
            let made = self.last(id.process, id.address, id.made)?;
            (made.at == id.made && made.count == 1 && is_lock(uses)).then_some(*id)
        };
        uses.iter_mut().filter_map(is_lock).collect()
    }
}

/// A thread passes a semaphore, or posts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// Number of the thread.
    pub thread: u32,
    /// When the call returned that passes, or the one began that posts, ns.
    pub at: i64,
    /// Which of them.
    pub posts: bool,
}

fn is_lock(uses: &mut [Use]) -> bool {
    uses.sort_by_key(|one| (one.at, !one.posts));
    let mut holder = None;
    let mut was_given_back = false;
    for one in uses {
        match (one.posts, holder) {
            (false, None) => holder = Some(one.thread),
            (true, Some(thread)) if thread == one.thread => (holder, was_given_back) = (None, true),
            _ => return false,
        }
    }
    was_given_back
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_and_shared() {
        let mut semaphores = Semaphores::default();
        semaphores.make(1, 64, 10, true, 1);
        semaphores.make(1, 64, 50, true, 0);
        semaphores.make(1, 72, 10, false, 1);
        semaphores.fork(2, 1);
        semaphores.fork(3, 2);
        let id = |process, address, made| Id { process, address, made };
        assert_eq!(semaphores.id(1, 64, 20), id(1, 64, 10));
        assert_eq!(semaphores.id(3, 64, 20), id(1, 64, 10));
        assert_eq!(semaphores.id(3, 64, 60), id(1, 64, 50));
        assert_eq!(semaphores.id(1, 72, 20), id(1, 72, 10));
        assert_eq!(semaphores.id(2, 72, 20), id(2, 72, i64::MIN), "a copy");
        assert_eq!(semaphores.id(4, 64, 20), id(4, 64, i64::MIN), "another program");
        // a circle, which no trail of ours has
        semaphores.fork(1, 3);
        assert_eq!(semaphores.id(3, 99, 20), id(3, 99, i64::MIN));
    }

    #[test]
    fn who_gives_back_what_it_took_has_a_lock() {
        let lock = |count: i64, uses: &[(u32, i64, bool)]| {
            let mut semaphores = Semaphores::default();
            semaphores.make(1, 64, 0, false, count);
            let of = |(thread, at, posts): &(u32, i64, bool)| Use { thread: *thread, at: *at, posts: *posts };
            let mut uses = HashMap::from([(semaphores.id(1, 64, 5), uses.iter().map(of).collect())]);
            !semaphores.locks(&mut uses).is_empty()
        };
        let taken = [(0, 1, false), (0, 5, true), (1, 6, false), (1, 9, true), (0, 9, false)];
        assert!(lock(1, &taken), "held at last");
        assert!(!lock(0, &taken) && !lock(2, &taken), "nobody, or two, may pass at first");
        assert!(!lock(1, &[(0, 1, false), (1, 5, true), (0, 6, false)]), "another one gives it");
        assert!(!lock(1, &[(0, 1, false), (0, 6, true), (0, 7, true)]), "twice");
        assert!(!lock(1, &[(0, 1, false)]), "never given back");
    }
}
