//! Edges that the kernel shows: who woke a thread whose wait no other call explains.
//!
//! A thread that waits in a call sleeps until it is woken, maybe several times; the last time ended the wait. Who woke it in a call of
//! its own let it go on: a signal sent, a message of a queue, a datagram, a file unlocked. A thread that had not to sleep was not
//! woken: there a wake-up says less than two calls that belong together, which come first.

use crate::compute::{Gap, Slice, by_slices};
use crate::matching::{Edges, How, Signal, Wait};
use crate::script::Style;

/// A moment in which a thread was woken by a call of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wake {
    /// Number of the thread that was woken.
    pub thread: u32,
    /// When, ns.
    pub ts: i64,
    /// Number of the thread that woke it; none: an interrupt, or a thread that isn't recorded.
    pub waker: Option<u32>,
}

/// A call that a thread is in, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its start.
    pub start: i64,
    /// Its end; [`i64::MAX`]: it never returned.
    pub end: i64,
}

/// What the kernel saw of a thread: its stays on a CPU, in their order.
type Stays<'a> = &'a [Slice];

/// Kinds of waits that are none for another thread, or for whoever has a lock, which is contended for again.
const OTHERS: [&str; 5] = ["timer", "lock", "sleep", "start", "file_lock"];

/// Gives waits without an edge the one that the last wake-up in them shows, and removes those in which the thread never slept: it was on a CPU, or
/// waited for one. `wakes` are in the order of thread and time; `calls` has of each thread its calls, in the order of their starts, `slices` its
/// stays on CPUs.
///
/// A wake-up counts if the thread didn't sleep again before its call returned: else a later one was not seen. The signal is given when the
/// waker's call begins, or, if that had to sleep itself before it woke the other, when it has returned.
pub fn explain_woken(edges: &mut Edges, wakes: &[Wake], calls: &[Vec<Call>], slices: &[Vec<Slice>]) {
    let before = |thread, ts| wakes.partition_point(|wake| (wake.thread, wake.ts) <= (thread, ts));
    let stays = |thread: u32| slices.get(thread as usize).map_or(&[][..], Vec::as_slice);
    let concerns =
        |wait: &Wait| wait.edge.is_none() && wait.style() == Style::Sleep && !OTHERS.contains(&wait.kind);
    edges.waits.retain(|wait| {
        !concerns(wait) || wait.end.is_none_or(|end| !never_slept(stays(wait.thread), wait.start, end))
    });
    for wait in edges.waits.iter_mut().filter(|wait| concerns(wait)) {
        let Some(end) = wait.end else { continue };
        let last = before(wait.thread, end).checked_sub(1).map(|at| wakes[at]);
        let Some(last) = last.filter(|last| last.thread == wait.thread && last.ts >= wait.start) else {
            continue;
        };
        let Some(waker) = last.waker.filter(|waker| *waker != wait.thread) else { continue };
        if !stayed_awake(stays(wait.thread), last.ts, end) {
            continue;
        }
        let of_waker = calls.get(waker as usize).map_or(&[][..], Vec::as_slice);
        // calls inside of others come after them
        let until = of_waker.partition_point(|call| call.start <= last.ts);
        let around = of_waker[until.saturating_sub(NESTED)..until].iter().find(|call| call.end >= last.ts);
        let given = match around {
            None => last.ts,
            Some(call) => {
                let slept = before(waker, last.ts).checked_sub(1).map(|at| wakes[at]);
                let slept = slept.is_some_and(|own| own.thread == waker && own.ts >= call.start);
                if slept && call.end <= end { call.end } else { call.start }
            }
        };
        wait.edge = Some(edges.count);
        wait.last = Some(given);
        wait.how = How::Woken;
        edges.signals.push(Signal {
            thread: waker,
            ts: given,
            edge: edges.count,
            kind: wait.kind,
            how: How::Woken,
        });
        edges.count += 1;
    }
}

/// Whether all of a stretch of time is known, and the thread was on a CPU or waited for one.
fn never_slept(stays: Stays<'_>, start: i64, end: i64) -> bool {
    let from = stays.partition_point(|stay| stay.end < start).saturating_sub(1);
    let until = (stays.partition_point(|stay| stay.start <= end) + 1).min(stays.len());
    let mut gaps = [Gap::new(start, end)];
    by_slices(&mut gaps, &stays[from.min(until)..until]);
    gaps[0].cpu.is_some() && gaps[0].unexplained() == Some(0)
}

/// Whether the thread came on a CPU after it was woken, and didn't sleep until `end`.
fn stayed_awake(stays: Stays<'_>, woken: i64, end: i64) -> bool {
    let from = stays.partition_point(|stay| stay.end <= woken);
    let until = stays.partition_point(|stay| stay.start < end);
    let went_on = |pair: &[Slice]| pair[0].runnable || pair[1].start == pair[0].end;
    from < until && stays[from..until].windows(2).all(went_on)
}

/// Calls inside one another, at most.
const NESTED: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::{Act, What, edges};

    fn waits(kind: &'static str, times: &[(u32, i64, Option<i64>)]) -> Edges {
        let act = |(thread, start, end): &(u32, i64, Option<i64>)| Act {
            thread: *thread,
            start: *start,
            end: *end,
            what: What::Wait { kind },
        };
        edges(&times.iter().map(act).collect::<Vec<_>>())
    }

    /// Stays of thread 0: it sleeps from `from` until `until`.
    fn sleeper(from: i64, until: i64) -> Vec<Vec<Slice>> {
        let stay = |start, end| Slice { start, end, runnable: false };
        vec![vec![stay(0, from), stay(until, 1000)]]
    }

    fn wake(thread: u32, ts: i64, waker: Option<u32>) -> Wake {
        Wake { thread, ts, waker }
    }

    #[test]
    fn the_last_wake_up_ended_the_wait() {
        let mut found = waits("signal", &[(0, 100, Some(200)), (0, 300, Some(400)), (0, 500, None)]);
        let wakes =
            [wake(0, 90, Some(1)), wake(0, 150, Some(2)), wake(0, 190, Some(1)), wake(0, 550, Some(1))];
        let stay = |start, end| Slice { start, end, runnable: false };
        let stays = vec![stay(0, 110), stay(152, 160), stay(192, 310), stay(395, 510), stay(560, 570)];
        explain_woken(&mut found, &wakes, &[vec![], vec![Call { start: 180, end: 195 }], vec![]], &[stays]);
        let signal = Signal { thread: 1, ts: 180, edge: 0, kind: "signal", how: How::Woken };
        assert_eq!((found.count, &found.signals[..]), (1, &[signal][..]));
        let of = |at: usize| (found.waits[at].edge, found.waits[at].last, found.waits[at].how);
        assert_eq!(of(0), (Some(0), Some(180), How::Woken));
        assert_eq!([of(1), of(2)], [(None, None, How::Matched); 2]);
    }

    #[test]
    fn what_says_nothing_explains_nothing() {
        for (kind, waker) in
            [("signal", None), ("signal", Some(0)), ("lock", Some(1)), ("timer", Some(1)), ("mpi", Some(1))]
        {
            let mut found = waits(kind, &[(0, 100, Some(200))]);
            let unchanged = found.clone();
            explain_woken(&mut found, &[wake(0, 150, waker)], &[], &sleeper(110, 155));
            assert_eq!(found, unchanged, "{kind} {waker:?}");
        }
    }

    #[test]
    fn who_slept_before_it_woke_the_other_gives_the_signal_at_its_end() {
        for (slept, end, expected) in [(140, 160, 160), (130, 160, 130), (140, 900, 130)] {
            let mut found = waits("queue", &[(0, 100, Some(200))]);
            let wakes = [wake(0, 150, Some(1)), wake(1, if slept == 140 { 140 } else { 120 }, Some(0))];
            explain_woken(&mut found, &wakes, &[vec![], vec![Call { start: 130, end }]], &sleeper(110, 155));
            assert_eq!(found.signals[0].ts, expected);
        }
    }

    #[test]
    fn a_call_inside_another_is_part_of_it() {
        let mut found = waits("futex", &[(0, 100, Some(200))]);
        let calls = [
            vec![],
            vec![Call { start: 50, end: 60 }, Call { start: 120, end: 190 }, Call { start: 140, end: 160 }],
        ];
        explain_woken(&mut found, &[wake(0, 150, Some(1))], &calls, &sleeper(110, 155));
        assert_eq!(found.signals[0].ts, 120);
    }

    #[test]
    fn a_wake_up_before_another_sleep_is_not_the_last() {
        let stay = |start, end| Slice { start, end, runnable: false };
        let stays = vec![vec![stay(0, 110), stay(155, 160), stay(190, 300)]];
        let mut found = waits("signal", &[(0, 100, Some(200))]);
        let unchanged = found.clone();
        explain_woken(&mut found, &[wake(0, 150, Some(1))], &[], &stays);
        assert_eq!(found, unchanged);
        // and where nothing is known of it, nothing is said
        explain_woken(&mut found, &[wake(0, 150, Some(1))], &[], &[]);
        assert_eq!(found, unchanged);
    }

    #[test]
    fn who_never_slept_did_not_wait() {
        let stay = |start, end, runnable| Slice { start, end, runnable };
        for (runnable, left) in [(true, 0), (false, 1)] {
            let stays = vec![vec![stay(0, 110, runnable), stay(150, 300, false)]];
            let mut found = waits("queue", &[(0, 100, Some(200))]);
            explain_woken(&mut found, &[], &[], &stays);
            assert_eq!(found.waits.len(), left);
        }
        // stays before the recording of the kernel began aren't known
        let mut found = waits("queue", &[(0, 100, Some(200))]);
        explain_woken(&mut found, &[], &[], &[vec![stay(120, 300, false)]]);
        assert_eq!(found.waits.len(), 1);
    }
}
