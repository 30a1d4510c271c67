//! A slow simulation with nothing in common with the fast one but the rules: at each moment it looks at all threads, and takes what a
//! computation was served from what is left of it.

use super::*;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Doing {
    /// Can do its step.
    Nothing,
    /// What is left, in 1/1024 ns.
    Computes(i128),
    Until(i64),
    /// Until then, or until the last signal.
    AtMost(i64, u32),
    Waits(u32, Style),
    /// Looks for an edge's signals since then, after each so many ns.
    Polls(u32, i64, i64),
    /// For a lock, and since when among those who wait.
    Asks(u32, u64, bool),
    /// Tries for a lock that it shares or not, then, after so many tries.
    Tries(u32, bool, i64, usize),
    Orders(u32),
    /// Has done its step.
    Done,
    Ended,
}

pub struct Found {
    /// By thread, when its steps ended.
    pub ends: Vec<Vec<i64>>,
    /// When its operations began in the storage.
    pub begun: HashMap<OpRef, i64>,
    pub has_ended: Vec<bool>,
}

struct World<'a> {
    drawn: &'a Drawn,
    now: i64,
    doing: Vec<Doing>,
    given: Vec<u32>,
    /// Steps of each thread before which its timeouts are over.
    hurried: Vec<usize>,
    holders: Vec<Vec<usize>>,
    is_shared: Vec<bool>,
    asked: u64,
    since: Vec<i64>,
    found: Found,
}

impl World<'_> {
    fn machine(&self, thread: usize) -> usize {
        self.drawn.machines.of[thread] as usize
    }

    fn on(&self, machine: usize) -> Vec<usize> {
        (0..self.doing.len()).filter(|thread| self.machine(*thread) == machine).collect()
    }

    /// Threads that want a core, and cores.
    fn load(&self, machine: usize) -> (i128, i128) {
        let wants =
            |thread: &usize| matches!(self.doing[*thread], Doing::Computes(_) | Doing::Waits(_, Style::Spin));
        let wanted = self.on(machine).iter().filter(|thread| wants(thread)).count();
        (wanted as i128, i128::from(self.drawn.machines.cores[machine]))
    }

    /// Takes from all computations what they were served since the last time.
    fn settle(&mut self, machine: usize) {
        let (wanted, cores) = self.load(machine);
        let ticks = i128::from(self.now - self.since[machine]) * 1024;
        let served = if wanted > cores { ticks * cores / wanted } else { ticks };
        for thread in self.on(machine) {
            if let Doing::Computes(left) = &mut self.doing[thread] {
                *left -= served;
            }
        }
        self.since[machine] = self.now;
    }

    /// When the look comes that finds all signals given; none if they aren't.
    fn end_of_looks(&self, thread: usize) -> Option<i64> {
        let Doing::Polls(edge, since, period) = self.doing[thread] else { return None };
        let is_given = self.given[edge as usize] >= self.drawn.scripts.signals[edge as usize];
        is_given.then(|| (since..).step_by(period as usize).find(|look| *look >= self.now)).flatten()
    }

    /// When the computation of a thread ends if no other changes.
    fn end_of_computation(&self, thread: usize) -> Option<i64> {
        let Doing::Computes(left) = self.doing[thread] else { return None };
        let machine = self.machine(thread);
        let (wanted, cores) = self.load(machine);
        let (by, of) = if wanted > cores { (wanted, cores * 1024) } else { (1, 1024) };
        let left = left.max(0);
        Some(self.since[machine] + ((left * by + of - 1) / of) as i64)
    }

    fn step(&self, thread: usize) -> Option<Step> {
        self.drawn.scripts.threads[thread].steps.get(self.found.ends[thread].len()).copied()
    }

    fn has_passed(&self, op: OpRef) -> bool {
        let thread = op.thread as usize;
        let steps = &self.drawn.scripts.threads[thread].steps[..self.found.ends[thread].len()];
        self.doing[thread] == Doing::Ended
            || steps.iter().any(|step| matches!(step, Io(index) if *index >= op.index))
    }

    fn is_in_order(&self, thread: usize, index: u32) -> bool {
        self.drawn.order.after(op(thread as u32, index)).all(|before| self.has_passed(before))
    }

    fn can_go_on(&self, thread: usize) -> bool {
        match self.doing[thread] {
            Doing::Nothing | Doing::Done => true,
            Doing::Waits(edge, _) | Doing::AtMost(_, edge) => {
                self.given[edge as usize] >= self.drawn.scripts.signals[edge as usize]
            }
            Doing::Orders(index) => self.is_in_order(thread, index),
            _ => false,
        }
    }

    fn go_on(&mut self, thread: usize) {
        let machine = self.machine(thread);
        match self.doing[thread] {
            Doing::Waits(_, style) => {
                if style == Style::Spin {
                    self.settle(machine);
                }
                self.found.ends[thread].push(self.now);
            }
            Doing::Done | Doing::AtMost(..) => self.found.ends[thread].push(self.now),
            _ => {}
        }
        self.doing[thread] = Doing::Nothing;
        while self.doing[thread] == Doing::Nothing {
            self.begin(thread);
        }
    }

    fn begin(&mut self, thread: usize) {
        let machine = self.machine(thread);
        let doing = match self.step(thread) {
            None => Doing::Ended,
            Some(Compute(dur)) if dur > 0 => {
                self.settle(machine);
                Doing::Computes(i128::from(dur) * 1024)
            }
            Some(Rest(dur)) if dur > 0 => Doing::Until(self.now + dur),
            Some(Timeout(edge, dur))
                if dur > 0
                    && self.found.ends[thread].len() >= self.hurried[thread]
                    && self.given[edge as usize] < self.drawn.scripts.signals[edge as usize] =>
            {
                Doing::AtMost(self.now + dur, edge)
            }
            Some(Io(index)) if self.is_in_order(thread, index) => {
                self.found.begun.insert(op(thread as u32, index), self.now);
                Doing::Until(self.now + self.drawn.durs[thread][index as usize])
            }
            Some(Io(index)) => Doing::Orders(index),
            Some(Wait(edge, style))
                if self.given[edge as usize] < self.drawn.scripts.signals[edge as usize] =>
            {
                if style == Style::Spin {
                    self.settle(machine);
                }
                Doing::Waits(edge, style)
            }
            Some(Poll(edge, period))
                if self.given[edge as usize] < self.drawn.scripts.signals[edge as usize] =>
            {
                Doing::Polls(edge, self.now, period)
            }
            Some(step @ (Lock(lock) | Share(lock))) if !self.can_have(lock, matches!(step, Share(_))) => {
                let shares = matches!(step, Share(_));
                self.asked += 1;
                match self.drawn.scripts.tried.get(&lock) {
                    Some(pauses) => Doing::Tries(lock, shares, self.now + pauses.at(0), 1),
                    None => Doing::Asks(lock, self.asked, shares),
                }
            }
            Some(step) => {
                match step {
                    Signal(edge) => self.given[edge as usize] += 1,
                    Lock(lock) | Share(lock) => {
                        self.holders[lock as usize].push(thread);
                        self.is_shared[lock as usize] = matches!(step, Share(_));
                    }
                    Unlock(lock) => self.unlock(thread, lock),
                    Hurry(edge) => self.hurry(thread, edge),
                    _ => {}
                }
                self.found.ends[thread].push(self.now);
                Doing::Nothing
            }
        };
        self.doing[thread] = doing;
    }

    fn can_have(&self, lock: u32, shares: bool) -> bool {
        self.holders[lock as usize].is_empty() || shares && self.is_shared[lock as usize]
    }

    /// Lets the thread try again that does so next, if that is before `end`; whether any did.
    fn tries(&mut self, end: Option<i64>) -> bool {
        let tries = |(thread, doing): (usize, &Doing)| match *doing {
            Doing::Tries(lock, shares, at, _) => Some((at, thread, self.can_have(lock, shares))),
            _ => None,
        };
        let all: Vec<(i64, usize, bool)> = self.doing.iter().enumerate().filter_map(tries).collect();
        let Some(&(at, thread, has_it)) = all.iter().min() else { return false };
        // when nothing else happens, nobody gives anything back
        if end.is_some_and(|end| end <= at) || end.is_none() && !all.iter().any(|(.., has_it)| *has_it) {
            return false;
        }
        self.now = at;
        if has_it {
            self.doing[thread] = Doing::Nothing;
        } else if let Doing::Tries(lock, _, at, number) = &mut self.doing[thread] {
            *at += self.drawn.scripts.tried[lock].at(*number);
            *number += 1;
        }
        true
    }

    fn hurry(&mut self, by: usize, edge: u32) {
        if self.given[edge as usize] >= self.drawn.scripts.signals[edge as usize] {
            return;
        }
        for (thread, script) in self.drawn.scripts.threads.iter().enumerate() {
            let Some(last) = script.steps.iter().rposition(|step| *step == Signal(edge)) else {
                continue;
            };
            self.hurried[thread] = self.hurried[thread].max(last);
            if matches!(self.doing[thread], Doing::AtMost(..))
                && self.found.ends[thread].len() < last
                && thread != by
            {
                self.doing[thread] = Doing::Done;
            }
        }
    }

    fn unlock(&mut self, thread: usize, lock: u32) {
        self.holders[lock as usize].retain(|holder| *holder != thread);
        if !self.holders[lock as usize].is_empty() {
            return;
        }
        let asking = |(thread, doing): (usize, &Doing)| match doing {
            Doing::Asks(asked, since, shares) if *asked == lock => Some((*since, thread, *shares)),
            _ => None,
        };
        let mut asking: Vec<_> = self.doing.iter().enumerate().filter_map(asking).collect();
        asking.sort_unstable();
        if !self.is_shared[lock as usize] && asking.iter().any(|(_, _, shares)| *shares) {
            asking.retain(|(_, _, shares)| *shares);
        } else {
            asking.truncate(1);
        }
        for (_, woken, _) in asking {
            self.doing[woken] = Doing::Nothing;
        }
    }
}

pub fn evaluate(drawn: &Drawn) -> Found {
    let count = drawn.scripts.threads.len();
    let mut world = World {
        drawn,
        now: 0,
        doing: vec![Doing::Nothing; count],
        given: vec![0; drawn.scripts.signals.len()],
        hurried: vec![0; count],
        holders: vec![Vec::new(); drawn.scripts.locks as usize],
        is_shared: vec![false; drawn.scripts.locks as usize],
        asked: 0,
        since: vec![0; drawn.machines.cores.len()],
        found: Found { ends: vec![Vec::new(); count], begun: HashMap::new(), has_ended: Vec::new() },
    };
    loop {
        while let Some(thread) = (0..count).find(|thread| world.can_go_on(*thread)) {
            world.go_on(thread);
        }
        let end = |thread: usize| match world.doing[thread] {
            Doing::Until(end) | Doing::AtMost(end, _) => Some(end),
            Doing::Polls(..) => world.end_of_looks(thread),
            _ => world.end_of_computation(thread),
        };
        let next = (0..count).filter_map(end).min();
        let due: Vec<usize> = (0..count).filter(|thread| end(*thread) == next).collect();
        if world.tries(next) {
            continue;
        }
        let Some(next) = next else { break };
        world.now = next;
        for thread in due {
            if let Doing::Computes(_) = world.doing[thread] {
                let machine = world.machine(thread);
                world.settle(machine);
            }
            world.doing[thread] = Doing::Done;
        }
    }
    world.found.has_ended = world.doing.iter().map(|doing| *doing == Doing::Ended).collect();
    world.found
}
