//! Steps of requests that wait for each other and for disks: when each is done.
//!
//! A step is ready some time after all those that it waits for are done, and then works on a disk, or on none. That is a
//! recorded latency graph whose disks, or some of whose steps, are other ones now.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::device::{Device, Id, Nanos, Request};

/// What a step asks of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Index of the disk.
    pub disk: usize,
    /// Other disks that have the same: the one with fewest requests then is asked, of several the first.
    pub others: Vec<usize>,
    /// What it asks for.
    pub request: Request,
    /// How long it took in the record, from its issue.
    pub service: Nanos,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Indices of the steps that it waits for.
    pub after: Vec<usize>,
    /// Time from the last of them until it is ready; of one that waits for none, from time 0.
    pub delay: Nanos,
    /// What it does then; nothing takes no time.
    pub work: Option<Work>,
}

/// When a step happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// When it was ready: its request was queued.
    pub ready: Nanos,
    /// When the disk took it, or as `ready`.
    pub issued: Nanos,
    /// When it was done.
    pub done: Nanos,
}

/// What does the work of steps.
pub enum Disk {
    /// Takes so many requests at a time, in the order in which they come, each as long as in the record.
    Recorded {
        /// When each of its servers is free.
        free: BinaryHeap<Reverse<Nanos>>,
    },
    /// A simulated one.
    Simulated(Box<dyn Device>),
}

impl Disk {
    /// A disk that works on `servers` requests at a time, at least one, each as long as in the record.
    #[must_use]
    pub fn recorded(servers: usize) -> Self {
        Self::Recorded { free: std::iter::repeat_n(Reverse(0), servers.max(1)).collect() }
    }
}

/// Runs steps on disks at rest. The result has one element a step: none for those that wait for themselves, or for a
/// step that isn't there.
///
/// # Panics
/// If there is no disk of one of a step's indices.
#[must_use]
pub fn run(steps: &[Step], disks: &mut [Disk]) -> Vec<Option<Times>> {
    let mut times = vec![None; steps.len()];
    // What a step still waits for, and the last of those that were done.
    let mut waits: Vec<(usize, Nanos)> = steps.iter().map(|step| (step.after.len(), 0)).collect();
    let mut followers: Vec<(usize, usize)> = steps
        .iter()
        .enumerate()
        .flat_map(|(at, step)| step.after.iter().map(move |before| (*before, at)))
        .collect();
    followers.sort_unstable();
    let mut ready: BinaryHeap<Reverse<(Nanos, usize)>> = steps
        .iter()
        .enumerate()
        .filter(|(_, step)| step.after.is_empty())
        .map(|(at, step)| Reverse((step.delay, at)))
        .collect();
    let (mut completions, mut done, mut now) = (Vec::new(), Vec::new(), 0);
    // Requests at each disk, and when those end of which that is known.
    let mut busy = vec![0_usize; disks.len()];
    let mut ends: BinaryHeap<Reverse<(Nanos, usize)>> = BinaryHeap::new();
    loop {
        let events = disks.iter().filter_map(|disk| match disk {
            Disk::Recorded { .. } => None,
            Disk::Simulated(device) => device.next_event(),
        });
        let next = ready.peek().map(|Reverse((time, _))| *time);
        let Some(event) = next.into_iter().chain(events).min() else { break };
        now = event.max(now);
        for (at, disk) in disks.iter_mut().enumerate() {
            if let Disk::Simulated(device) = disk {
                let before = completions.len();
                device.advance(now, &mut completions);
                ends.extend(completions[before..].iter().map(|completion| Reverse((completion.done, at))));
            }
        }
        while let Some(Reverse((_, disk))) = ends.peek().copied().filter(|Reverse((end, _))| *end <= now) {
            ends.pop();
            busy[disk] -= 1;
        }
        while let Some(Reverse((time, at))) = ready.peek().copied().filter(|Reverse((time, _))| *time <= now)
        {
            ready.pop();
            let Some(work) = &steps[at].work else {
                done.push((at, Times { ready: time, issued: time, done: time }));
                continue;
            };
            let choices = std::iter::once(work.disk).chain(work.others.iter().copied());
            let disk = choices.min_by_key(|disk| busy[*disk]).unwrap_or(work.disk);
            busy[disk] += 1;
            match &mut disks[disk] {
                Disk::Recorded { free } => {
                    let issued = free.pop().map_or(time, |Reverse(free)| free.max(time));
                    let end = issued.saturating_add(work.service);
                    free.push(Reverse(end));
                    ends.push(Reverse((end, disk)));
                    done.push((at, Times { ready: time, issued, done: end }));
                }
                Disk::Simulated(device) => {
                    times[at] = Some(Times { ready: time, issued: time, done: time });
                    device.submit(now, Id(at as u64), work.request);
                    let before = completions.len();
                    device.advance(now, &mut completions);
                    ends.extend(
                        completions[before..].iter().map(|completion| Reverse((completion.done, disk))),
                    );
                }
            }
        }
        done.extend(completions.drain(..).map(|completion| {
            let at = completion.id.0 as usize;
            let ready = times[at].map_or(completion.issued, |times| times.ready);
            (at, Times { ready, issued: completion.issued, done: completion.done })
        }));
        for (at, found) in done.drain(..) {
            times[at] = Some(found);
            let first = followers.partition_point(|(before, _)| *before < at);
            for (_, follower) in followers[first..].iter().take_while(|(before, _)| *before == at) {
                let (left, last) = &mut waits[*follower];
                (*left, *last) = (*left - 1, (*last).max(found.done));
                if *left == 0 {
                    ready.push(Reverse((last.saturating_add(steps[*follower].delay), *follower)));
                }
            }
        }
    }
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Op;
    use crate::fixed::{Fixed, Parameters};
    use proptest::prelude::*;

    fn step(after: &[usize], delay: Nanos, service: Option<Nanos>) -> Step {
        let request = Request { op: Op::Read, pos: 0, length: 512 };
        let work = service.map(|service| Work { disk: 0, others: vec![], request, service });
        Step { after: after.to_vec(), delay, work }
    }

    fn ends(steps: &[Step], disks: &mut [Disk]) -> Vec<Option<Nanos>> {
        run(steps, disks).into_iter().map(|times| times.map(|times| times.done)).collect()
    }

    #[test]
    fn what_waits_for_several_waits_for_the_last() {
        // An arrival at 100, two requests to a disk at once, a reply 5 after both.
        let steps = [
            step(&[], 100, None),
            step(&[0], 10, Some(50)),
            step(&[0], 10, Some(70)),
            step(&[1, 2], 5, None),
        ];
        assert_eq!(ends(&steps, &mut [Disk::recorded(1)]), [100, 160, 230, 235].map(Some));
        assert_eq!(ends(&steps, &mut [Disk::recorded(2)]), [100, 160, 180, 185].map(Some));
        let fixed = Fixed::new(Parameters {
            capacity_bytes: 1 << 20,
            servers: 1,
            read_ns: 20,
            write_ns: 20,
            flush_ns: 20,
            trim_ns: 20,
            rate_bytes_per_s: i64::MAX as u64,
        });
        assert_eq!(ends(&steps, &mut [Disk::Simulated(Box::new(fixed))]), [100, 130, 150, 155].map(Some));
    }

    #[test]
    fn the_least_busy_of_several_disks_is_asked() {
        let either = |delay, service| {
            let mut step = step(&[], delay, Some(service));
            step.work.as_mut().unwrap().others = vec![1];
            step
        };
        // Disk 0 works until 50; 1 is asked until it has as many, then the first again. At 60 both are idle.
        let steps = [step(&[], 0, Some(50)), either(10, 30), either(11, 30), either(60, 30), either(61, 30)];
        let expected = [50, 40, 80, 90, 110];
        assert_eq!(ends(&steps, &mut [Disk::recorded(1), Disk::recorded(1)]), expected.map(Some));
        let fixed = || {
            let times = 30;
            let parameters = Parameters {
                capacity_bytes: 1 << 20,
                servers: 1,
                read_ns: times,
                write_ns: times,
                flush_ns: times,
                trim_ns: times,
                rate_bytes_per_s: i64::MAX as u64,
            };
            Disk::Simulated(Box::new(Fixed::new(parameters)))
        };
        let steps = [step(&[], 0, Some(0)), either(10, 0), either(11, 0), either(75, 0), either(76, 0)];
        assert_eq!(ends(&steps, &mut [fixed(), fixed()]), [30, 40, 60, 105, 106].map(Some));
    }

    #[test]
    fn a_circle_never_begins_and_the_rest_does() {
        let steps = [step(&[1], 0, None), step(&[0], 0, None), step(&[], 7, None), step(&[9, 2], 0, None)];
        assert_eq!(ends(&steps, &mut []), [None, None, Some(7), None]);
    }

    proptest! {
        /// A disk that takes as long as it did gives each request of a recorded chain its recorded times.
        #[test]
        fn on_the_recorded_disk_nothing_changes(
            chains in proptest::collection::vec(proptest::collection::vec((0_u64..200, 1_u64..90), 1..8), 1..5),
        ) {
            let mut steps = Vec::new();
            for chain in &chains {
                for (at, (gap, service)) in chain.iter().enumerate() {
                    let after: Vec<usize> = if at == 0 { vec![] } else { vec![steps.len() - 1] };
                    steps.push(step(&after, *gap, Some(*service)));
                }
            }
            let first = run(&steps, &mut [Disk::recorded(1)]);
            for (step, times) in steps.iter().zip(&first) {
                let times = times.unwrap();
                prop_assert_eq!(times.done - times.issued, step.work.as_ref().unwrap().service);
            }
            // One after the other: nothing overlaps.
            let mut served: Vec<_> = first.iter().flatten().map(|times| (times.issued, times.done)).collect();
            served.sort_unstable();
            prop_assert!(served.windows(2).all(|pair| pair[0].1 <= pair[1].0));
            // In the order in which they were ready.
            let mut queued: Vec<_> = first.iter().flatten().map(|times| (times.ready, times.issued)).collect();
            queued.sort_unstable();
            prop_assert!(queued.windows(2).all(|pair| pair[0].0 == pair[1].0 || pair[0].1 <= pair[1].1));
        }
    }
}
