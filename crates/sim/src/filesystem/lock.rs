//! A lock that some share or one has alone, in the order in which they come.

use std::collections::VecDeque;

/// How a lock is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    Shared,
    Alone,
}

#[derive(Debug, Default)]
pub(super) struct Lock {
    /// How many hold it, and how.
    holders: u32,
    alone: bool,
    waiters: VecDeque<(u64, Hold)>,
}

impl Lock {
    /// A call wants it: whether it has it now, or will be told.
    pub(super) fn take(&mut self, call: u64, hold: Hold) -> bool {
        let has_it = self.waiters.is_empty() && self.admits(hold);
        if has_it {
            self.holders += 1;
            self.alone = hold == Hold::Alone;
        } else {
            self.waiters.push_back((call, hold));
        }
        has_it
    }

    /// A holder gives it back: the calls that have it now.
    pub(super) fn give_back(&mut self) -> Vec<u64> {
        self.holders -= 1;
        self.alone = false;
        let mut next = Vec::new();
        while let Some((call, hold)) = self.waiters.front().copied().filter(|(_, hold)| self.admits(*hold)) {
            self.waiters.pop_front();
            self.holders += 1;
            self.alone = hold == Hold::Alone;
            next.push(call);
        }
        next
    }

    fn admits(&self, hold: Hold) -> bool {
        self.holders == 0 || hold == Hold::Shared && !self.alone
    }
}
