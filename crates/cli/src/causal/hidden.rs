//! Edges that were found by pausing threads, among those that were matched.

use std::collections::HashMap;

use iotrail_causal::Style;
use iotrail_causal::compute::Gap;
use iotrail_causal::matching::{Edges, How, Wait};
use iotrail_causal::throttle::{Found, OpTimes, place};
use iotrail_trail::{Error, TrailReader};

use super::Threads;
use super::operations::operations;

/// What was found.
pub struct Hidden {
    /// By numbers of nodes.
    pub found: Vec<Found>,
    /// Ids of the nodes' threads in the trail.
    pub threads: Vec<i64>,
}

impl Hidden {
    /// Adds the edges.
    pub(super) fn add_to(
        &self,
        edges: &mut Edges,
        known: &Threads,
        reader: &TrailReader,
    ) -> Result<(), Error> {
        let mut operations = operations(reader)?;
        let (mut numbers, mut times, mut places) = (Vec::new(), Vec::new(), HashMap::new());
        for (node, id) in self.threads.iter().enumerate() {
            let Some(number) = known.number_of.get(id) else { continue };
            let ops = operations.remove(id).unwrap_or_default().times;
            let last = ops.last().map_or(i64::MAX, |op| op.1);
            let end = known.threads[*number as usize].end.unwrap_or(last);
            places.insert(node as u32, numbers.len() as u32);
            numbers.push(*number);
            times.push(OpTimes { ops, end });
        }
        let found = self.found.iter().filter_map(|one| {
            let mut one = *one;
            one.dependency.giver = *places.get(&one.dependency.giver)?;
            one.dependency.taker = *places.get(&one.dependency.taker)?;
            Some(one)
        });
        place(&found.collect::<Vec<_>>(), &numbers, &times, edges);
        Ok(())
    }
}

/// Gives the waits their time in the run: of the gap before the operation that waits the part until the last signal. What is left is computing; of
/// a thread that slept while it waited so is all the CPU time. `gaps` are those of the waits' thread, in order, each with the CPU time of the
/// call before it.
pub fn part_gaps(gaps: &mut Vec<(Gap, Option<i64>)>, waits: &mut [&mut Wait]) {
    for wait in waits {
        let (Some(until), Some(last)) = (wait.end, wait.last) else { continue };
        let at = gaps.partition_point(|(gap, _)| gap.end <= until);
        let Some(at) = at.checked_sub(1).filter(|at| gaps[*at].0.end == until) else { continue };
        let (gap, in_call) = gaps[at];
        // it came before the thread was there
        if last <= gap.start {
            continue;
        }
        let last = last.min(gap.end);
        let (all, after) = (gap.end - gap.start, gap.end - last);
        let share = |time: i64| (i128::from(time) * i128::from(after) / i128::from(all)) as i64;
        let sleeps = wait.style() == Style::Sleep;
        let later = Gap {
            start: last,
            end: gap.end,
            cpu: gap.cpu.map(|cpu| if sleeps { cpu.min(after) } else { share(cpu) }),
            ready: gap.ready.map(share),
        };
        let before = if sleeps { gap.cpu.unwrap_or(0) - later.cpu.unwrap_or(0) } else { 0 };
        wait.start = gap.start + before.min(last - gap.start);
        wait.end = Some(last);
        let earlier =
            Gap { start: gap.start, end: wait.start, cpu: Some(wait.start - gap.start), ready: None };
        let mut in_call = in_call;
        let parts = [earlier, later].into_iter().filter(|part| part.end > part.start);
        let parts: Vec<_> = parts.map(|part| (part, in_call.take())).collect();
        gaps.splice(at..=at, parts);
    }
}

/// Whether a wait is of such an edge.
pub fn is_hidden(wait: &Wait) -> bool {
    wait.how == How::Throttled && wait.edge.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(until: i64, last: i64, style: Style) -> Wait {
        Wait {
            thread: 0,
            start: until,
            end: Some(until),
            edge: Some(0),
            kind: "hidden",
            how: How::Throttled,
            last: Some(last),
            within: 0,
            style: Some(style),
            until: None,
        }
    }

    fn gap(start: i64, end: i64, cpu: i64) -> (Gap, Option<i64>) {
        (Gap { start, end, cpu: Some(cpu), ready: Some(0) }, None)
    }

    #[test]
    fn who_spins_waits_until_the_signal() {
        let mut gaps = vec![gap(0, 10, 10), (gap(100, 200, 90).0, Some(7))];
        let mut spun = wait(200, 150, Style::Spin);
        part_gaps(&mut gaps, &mut [&mut spun]);
        assert_eq!((spun.start, spun.end), (100, Some(150)));
        assert_eq!(gaps, [gap(0, 10, 10), (gap(150, 200, 45).0, Some(7))]);
    }

    #[test]
    fn who_sleeps_computed_before_what_it_could_not_compute_after() {
        let mut gaps = vec![gap(100, 200, 70)];
        let mut slept = wait(200, 150, Style::Sleep);
        part_gaps(&mut gaps, &mut [&mut slept]);
        assert_eq!((slept.start, slept.end), (120, Some(150)));
        let earlier = Gap { start: 100, end: 120, cpu: Some(20), ready: None };
        assert_eq!(gaps, [(earlier, None), gap(150, 200, 50)]);
    }

    #[test]
    fn a_signal_that_came_before_leaves_all_as_it_was() {
        for last in [50, 100] {
            let mut gaps = vec![gap(100, 200, 70)];
            let mut early = wait(200, last, Style::Spin);
            part_gaps(&mut gaps, &mut [&mut early]);
            assert_eq!((early.start, early.end, gaps), (200, Some(200), vec![gap(100, 200, 70)]));
        }
    }
}
