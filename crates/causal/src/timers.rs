//! Timeouts: which wait would have ended earlier, had others been faster.
//!
//! A thread that looks for work waits so long at most, does something else, and waits again, until there is some: a loop on
//! epoll_wait(2), poll(2) or pthread_cond_timedwait(3) with a timeout, or with an alarm that interrupts it. How often it waits in vain is not
//! the program's: it depends on when the signal comes that ends the last of these waits. Each of them would have ended by that signal, had it
//! come earlier.

use std::collections::HashMap;

use iotrail_format::call::{Call, WaitKind};

use crate::calls::{EINTR, Row, is_expired, is_long};
use crate::matching::Edges;

/// A call that has a timeout, or could have one.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    thread: u32,
    start: i64,
    /// What it waits on, as far as the call says: calls that wait on the same belong together.
    site: (Call, Option<i64>),
    expired: bool,
    /// By a handler, which may have been called for an alarm.
    interrupted: bool,
    /// What it found was there when it began.
    at_once: bool,
}

impl Timed {
    /// A row of such a call.
    #[must_use]
    pub fn of(row: &Row) -> Option<Self> {
        let on = match row.kind {
            // the object of others is what was ready
            WaitKind::Poll => row.object.filter(|_| row.call == Call::EpollWait),
            WaitKind::Condition | WaitKind::Semaphore => row.object,
            WaitKind::Signal if row.call == Call::Pause => None,
            _ => return None,
        };
        let expired = if row.kind == WaitKind::Poll { row.result == Some(0) } else { is_expired(row) };
        let interrupted = row.kind == WaitKind::Poll && row.errno == EINTR;
        let at_once = row.kind == WaitKind::Poll && row.result > Some(0) && !is_long(row);
        let (thread, start, site) = (row.thread, row.start, (row.call, on));
        Some(Self { thread, start, site, expired, interrupted, at_once })
    }
}

/// Says of waits for a time which edge would have ended them: that of the next wait on the same thing which found something. `timed` has calls in
/// the order of their threads and starts; `edges` gets its waits in that order.
pub fn explain_timers(edges: &mut Edges, timed: &[Timed]) {
    edges.waits.sort_by_key(|wait| (wait.thread, wait.start, wait.end));
    let first_at = |edges: &Edges, call: &Timed| {
        let at = edges.waits.partition_point(|wait| (wait.thread, wait.start) < (call.thread, call.start));
        edges.waits.get(at).filter(|wait| (wait.thread, wait.start) == (call.thread, call.start))?;
        Some(at)
    };
    for calls in timed.chunk_by(|one, next| one.thread == next.thread) {
        let mut expired: HashMap<(Call, Option<i64>), Vec<usize>> = HashMap::new();
        for call in calls {
            let at = first_at(edges, call);
            let timer = at.filter(|at| edges.waits[*at].kind == "timer");
            if call.expired || call.interrupted && timer.is_some() {
                expired.entry(call.site).or_default().extend(timer);
                continue;
            }
            let edge = at.and_then(|at| edges.waits[at].edge);
            // as what a handler told its own thread; what is waited for is still to come
            if edge.is_none() && call.at_once {
                continue;
            }
            for timer in expired.remove(&call.site).unwrap_or_default() {
                edges.waits[timer].until = edge;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::{Act, Channel, Room, What, edges};

    const ROW: Row = Row {
        thread: 0,
        start: 0,
        end: None,
        call: Call::EpollWait,
        kind: WaitKind::Poll,
        object: None,
        peer: None,
        length: None,
        result: None,
        errno: 0,
        seq: None,
        tag: None,
        flags: None,
    };

    fn poll(start: i64, object: i64, result: i64) -> Row {
        Row { start, end: Some(start + 5), object: Some(object), result: Some(result), ..ROW }
    }

    /// Of each wait that is for a time when it began, and whether an edge would have ended it.
    fn ended(rows: &[Row]) -> Vec<(i64, bool)> {
        let mut acts = Vec::new();
        for row in rows {
            let channel = Channel::Event { object: row.start };
            let what = match row.result {
                Some(0) => What::Wait { kind: "timer" },
                // by an alarm
                Some(-1) if row.length == Some(1) => What::Wait { kind: "timer" },
                Some(1) => What::Take { channel, amount: 1, order: row.start },
                _ => What::Wait { kind: "poll" },
            };
            let giving = What::Give { channel, amount: 1, room: Room::Unlimited };
            acts.push(Act { thread: 1, start: row.start - 1, end: Some(row.start), what: giving });
            acts.push(Act { thread: 0, start: row.start, end: row.end, what });
        }
        let mut found = edges(&acts);
        let timed: Vec<Timed> = rows.iter().filter_map(Timed::of).collect();
        explain_timers(&mut found, &timed);
        let timers = found.waits.iter().filter(|wait| wait.kind == "timer");
        timers.map(|wait| (wait.start, wait.until.is_some())).collect()
    }

    #[test]
    fn who_waits_again_and_again_waits_for_what_comes_at_last() {
        // two sets of descriptors: one is ready at last, the other never
        let rows = [poll(10, 7, 0), poll(20, 8, 0), poll(30, 7, 0), poll(40, 7, 1), poll(50, 7, 0)];
        assert_eq!(ended(&rows), [(10, true), (20, false), (30, true), (50, false)]);
    }

    #[test]
    fn what_nothing_explains_ends_no_other() {
        assert_eq!(ended(&[poll(10, 7, 0), poll(20, 7, -1), poll(30, 7, 1)]), [(10, false)]);
    }

    #[test]
    fn an_alarm_is_a_timeout_where_it_interrupts() {
        let interrupted = |start| Row { errno: EINTR, length: Some(1), ..poll(start, 7, -1) };
        assert_eq!(ended(&[poll(10, 7, 0), interrupted(20), poll(30, 7, 1)]), [(10, true), (20, true)]);
        // its handler tells its own thread of it
        let told = poll(25, 7, 2);
        assert_eq!(ended(&[interrupted(20), told, poll(30, 7, 1)]), [(20, true)]);
        let late = Row { end: Some(90_000), ..told };
        assert_eq!(ended(&[interrupted(20), late, poll(100_000, 7, 1)]), [(20, false)]);
        // who waits for a time, and for nothing else, has a time to wait
        let on_time = Row { errno: 0, ..interrupted(20) };
        assert_eq!(ended(&[on_time, poll(30, 7, 1)]), [(20, false)]);
    }

    #[test]
    fn who_sleeps_is_not_woken() {
        let sleep = Row { call: Call::Sleep, kind: WaitKind::Sleep, ..ROW };
        assert!(Timed::of(&sleep).is_none());
    }
}
