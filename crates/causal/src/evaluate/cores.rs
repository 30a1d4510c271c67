//! Cores that threads share.
//!
//! A fluid model of a fair scheduler, such as Linux has (sched(7), SCHED_OTHER; the kernel's sched-eevdf.rst: CPU time is
//! distributed equally among all runnable tasks of one priority): at any moment each thread that wants a core gets the same share of them,
//! and none more than one core. So one number, the service that a thread which computes all the time would have had so far, says
//! when each computation ends: once it has grown by as much as the computation takes (the virtual time of Parekh and
//! Gallager, "A generalized processor sharing approach to flow control in integrated services networks: the single-node
//! case", IEEE/ACM Transactions on Networking 1(3), 1993, section III.A). A thread that comes or goes changes how fast it grows, and nothing else.
//!
//! A thread that spins takes as much as one that computes. One that yields takes nothing, though it keeps a core busy that nobody
//! else wants: on one core of Linux 6.18, up to three threads in sched_yield(2) had 0.5 to 1.3 % of what one had that computed
//! beside them, and those that spun as much as it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::script::Style;

/// Ticks of service in a ns: what rounding loses when threads come or go is less than one.
const TICKS: u64 = 1 << 10;

/// The cores of one machine.
#[derive(Debug)]
pub(super) struct Cores {
    count: u64,
    /// Threads that want one.
    wanted: u64,
    /// Service of a thread that computes all the time, ticks, at a time.
    served: u64,
    at: i64,
    /// By the service at which it ends, each computation and its thread.
    ends: BinaryHeap<Reverse<(u64, u32)>>,
    /// When the first of them ends if nobody comes or goes.
    next: Option<i64>,
}

impl Cores {
    pub(super) fn new(count: u32) -> Self {
        Self { count: count.max(1).into(), wanted: 0, served: 0, at: 0, ends: BinaryHeap::new(), next: None }
    }

    /// When a computation ends if no thread comes or goes before; none if none is under way.
    pub(super) fn next(&self) -> Option<i64> {
        self.next
    }

    /// A thread computes for so many ns of CPU time from now on.
    pub(super) fn compute(&mut self, now: i64, thread: u32, dur: i64) {
        self.serve(now);
        let ticks = dur.unsigned_abs().saturating_mul(TICKS);
        self.ends.push(Reverse((self.served.saturating_add(ticks), thread)));
        self.wanted += 1;
        self.plan();
    }

    /// The next thread whose computation has ended by now; none if none has.
    pub(super) fn take_ended(&mut self, now: i64) -> Option<u32> {
        if self.next? > now {
            return None;
        }
        self.serve(now);
        let Reverse((_, thread)) = self.ends.pop()?;
        self.wanted -= 1;
        self.plan();
        Some(thread)
    }

    /// A thread begins to wait. Who yields is served when nobody else wants to be.
    pub(super) fn begin_wait(&mut self, now: i64, style: Style) {
        if style == Style::Spin {
            self.serve(now);
            self.wanted += 1;
            self.plan();
        }
    }

    /// A thread that waited goes on.
    pub(super) fn end_wait(&mut self, now: i64, style: Style) {
        if style == Style::Spin {
            self.serve(now);
            self.wanted -= 1;
            self.plan();
        }
    }

    /// Serves until now.
    fn serve(&mut self, now: i64) {
        if self.ends.is_empty() {
            self.served = 0;
        } else {
            let ticks = (now - self.at).unsigned_abs().saturating_mul(TICKS);
            let share = if self.wanted > self.count { scale(ticks, self.count, self.wanted) } else { ticks };
            self.served = self.served.saturating_add(share);
        }
        self.at = now;
    }

    fn plan(&mut self) {
        self.next = self.ends.peek().map(|Reverse((end, _))| {
            let left = end.saturating_sub(self.served);
            let dur = if self.wanted > self.count {
                // rounded up, so that it has been served by then
                scale_up(left, self.wanted, self.count * TICKS)
            } else {
                left.div_ceil(TICKS)
            };
            self.at.saturating_add_unsigned(dur)
        });
    }
}

/// `value * by / of`, rounded down.
fn scale(value: u64, by: u64, of: u64) -> u64 {
    match value.checked_mul(by) {
        Some(product) => product / of,
        None => u64::try_from(u128::from(value) * u128::from(by) / u128::from(of)).unwrap_or(u64::MAX),
    }
}

/// `value * by / of`, rounded up.
fn scale_up(value: u64, by: u64, of: u64) -> u64 {
    match value.checked_mul(by) {
        Some(product) => product.div_ceil(of),
        None => {
            u64::try_from((u128::from(value) * u128::from(by)).div_ceil(u128::from(of))).unwrap_or(u64::MAX)
        }
    }
}
