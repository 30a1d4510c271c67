//! Recorded requests on another device: when each arrives there, and when it is done.
//!
//! A record doesn't say why a request came when it did. Two answers bound what would have happened:
//! - [`Arrivals::Recorded`]: at its recorded time, whatever the device does (an open loop): nobody waits for the device.
//! - [`Arrivals::AfterCompletions`]: as long after a completion as in the record (a closed loop): whoever sends the next
//!   request has waited for the last one that was done before it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::device::{Completion, Device, Id, Nanos, Request};

/// A request as it was recorded. Times are nanoseconds from any origin, the same for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// Index of the device that it is for.
    pub device: usize,
    /// When it was sent.
    pub arrival: Nanos,
    /// When it was done; none if that is unknown.
    pub done: Option<Nanos>,
    /// What it asks for.
    pub request: Request,
}

/// When requests arrive at the other device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At their recorded times.
    Recorded,
    /// After the completion that was the last before them in the record, by the same time.
    AfterCompletions,
}

/// A request on the other device. Times are nanoseconds since the first recorded arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// When it arrived.
    pub arrival: Nanos,
    /// When it was issued and done.
    pub completion: Completion,
}

/// What a request waits for: the index of another, and the time from its completion.
type Cause = Option<(usize, Nanos)>;

/// Runs requests, which are in the order of their arrivals, through devices at rest. The result has one element each.
///
/// # Panics
/// If there is no device of a request's index.
#[must_use]
pub fn serve(devices: &mut [Box<dyn Device>], recorded: &[Recorded], arrivals: Arrivals) -> Vec<Served> {
    let origin = recorded.first().map_or(0, |first| first.arrival);
    let causes = match arrivals {
        Arrivals::Recorded => vec![None; recorded.len()],
        Arrivals::AfterCompletions => causes(recorded),
    };
    let mut followers: Vec<(usize, usize, Nanos)> = causes
        .iter()
        .enumerate()
        .filter_map(|(at, cause)| cause.map(|(before, think)| (before, at, think)))
        .collect();
    followers.sort_unstable();
    let nothing = Completion { id: Id(0), issued: 0, done: 0, cached: false };
    let mut served = vec![Served { arrival: 0, completion: nothing }; recorded.len()];
    // Those without a cause come at their recorded time.
    let mut coming: BinaryHeap<Reverse<(Nanos, usize)>> = causes
        .iter()
        .enumerate()
        .filter(|(_, cause)| cause.is_none())
        .map(|(at, _)| Reverse((recorded[at].arrival - origin, at)))
        .collect();
    let mut completions = Vec::new();
    let mut now = 0;
    loop {
        let next = coming.peek().map(|Reverse((arrival, _))| *arrival);
        let events = devices.iter().filter_map(|device| device.next_event());
        let Some(event) = next.into_iter().chain(events).min() else { break };
        now = event.max(now);
        devices.iter_mut().for_each(|device| device.advance(now, &mut completions));
        while let Some(Reverse((arrival, at))) =
            coming.peek().copied().filter(|Reverse((arrival, _))| *arrival <= now)
        {
            coming.pop();
            served[at].arrival = arrival;
            let device = &mut devices[recorded[at].device];
            device.submit(now, Id(at as u64), recorded[at].request);
            device.advance(now, &mut completions);
        }
        for completion in completions.drain(..) {
            let at = completion.id.0 as usize;
            served[at].completion = completion;
            let first = followers.partition_point(|(before, ..)| *before < at);
            for (_, follower, think) in followers[first..].iter().take_while(|(before, ..)| *before == at) {
                coming.push(Reverse((completion.done + think, *follower)));
            }
        }
    }
    served
}

/// For each request the last completion before its arrival, of a request that arrived earlier.
fn causes(recorded: &[Recorded]) -> Vec<Cause> {
    let mut ends: Vec<(Nanos, usize)> =
        recorded.iter().enumerate().filter_map(|(at, request)| Some((request.done?, at))).collect();
    ends.sort_unstable();
    let of = |(at, request): (usize, &Recorded)| {
        let mut before = ends.partition_point(|(done, _)| *done <= request.arrival);
        // A request that took no time has ended at its own arrival: it doesn't wait for itself, nor for later ones.
        while before > 0 && ends[before - 1].1 >= at {
            before -= 1;
        }
        let (done, cause) = *ends.get(before.checked_sub(1)?)?;
        Some((cause, request.arrival - done))
    };
    recorded.iter().enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;
    use crate::fixed::{Fixed, Parameters};
    use proptest::prelude::*;

    fn device(latency: Nanos, servers: u32) -> [Box<dyn Device>; 1] {
        [Box::new(Fixed::new(Parameters {
            capacity_bytes: 1 << 40,
            servers,
            read_ns: latency,
            write_ns: latency,
            flush_ns: latency,
            trim_ns: latency,
            rate_bytes_per_s: i64::MAX as u64,
        }))]
    }

    fn recorded(times: &[(Nanos, Option<Nanos>)]) -> Vec<Recorded> {
        let request = Request { op: Op::Read, pos: 0, length: 4096 };
        times.iter().map(|&(arrival, done)| Recorded { device: 0, arrival, done, request }).collect()
    }

    #[test]
    fn a_thread_that_waits_keeps_its_think_time() {
        // 100 ns of service and 50 ns of thought each, on a device that takes 1000.
        let requests = recorded(&[(1000, Some(1100)), (1150, Some(1250)), (1300, Some(1400))]);
        let served = serve(&mut device(1000, 1), &requests, Arrivals::AfterCompletions);
        let times: Vec<_> = served.iter().map(|served| (served.arrival, served.completion.done)).collect();
        assert_eq!(times, [(0, 1000), (1050, 2050), (2100, 3100)]);
        let served = serve(&mut device(1000, 1), &requests, Arrivals::Recorded);
        let times: Vec<_> = served.iter().map(|served| (served.arrival, served.completion.done)).collect();
        assert_eq!(times, [(0, 1000), (150, 2000), (300, 3000)]);
    }

    #[test]
    fn nobody_waits_for_a_request_without_an_end() {
        let requests = recorded(&[(0, None), (10, None), (20, Some(30)), (40, None)]);
        let served = serve(&mut device(100, 4), &requests, Arrivals::AfterCompletions);
        assert_eq!(served.iter().map(|served| served.arrival).collect::<Vec<_>>(), [0, 10, 20, 130]);
    }

    #[test]
    fn requests_of_no_time_follow_each_other() {
        let requests = recorded(&[(5, Some(5)), (5, Some(5)), (5, Some(5))]);
        let served = serve(&mut device(10, 1), &requests, Arrivals::AfterCompletions);
        assert_eq!(served.iter().map(|served| served.completion.done).collect::<Vec<_>>(), [10, 20, 30]);
        assert!(serve(&mut device(10, 1), &[], Arrivals::Recorded).is_empty());
    }

    proptest! {
        #[test]
        fn on_the_recorded_device_nothing_changes(
            gaps in proptest::collection::vec((0_u64..300, 0_u64..3), 1..60),
            servers in 1_u32..4,
        ) {
            // Recorded by the device itself, however its requests came.
            let mut at = 0;
            let arrivals: Vec<_> = gaps.iter().map(|(gap, _)| { at += gap; (at, None) }).collect();
            let first = serve(&mut device(100, servers), &recorded(&arrivals), Arrivals::Recorded);
            let origin = arrivals[0].0;
            let known: Vec<_> = first.iter().map(|s| (s.arrival + origin, Some(s.completion.done + origin))).collect();
            let again = serve(&mut device(100, servers), &recorded(&known), Arrivals::AfterCompletions);
            prop_assert_eq!(first, again);
        }

        #[test]
        fn each_request_is_served_once_after_its_arrival(
            times in proptest::collection::vec((0_u64..500, proptest::option::of(0_u64..200)), 0..60),
        ) {
            let mut at = 0;
            let times: Vec<_> = times.iter().map(|(gap, dur)| { at += gap; (at, dur.map(|dur| at + dur)) }).collect();
            let served = serve(&mut device(70, 2), &recorded(&times), Arrivals::AfterCompletions);
            prop_assert_eq!(served.len(), times.len());
            for served in served {
                prop_assert!(served.completion.done >= served.arrival + 70);
            }
        }
    }
}
