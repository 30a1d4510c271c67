//! What threads computed between their calls.

/// A stretch of time between two calls of a thread, or in one, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// When the call before it returned.
    pub start: i64,
    /// When the next one began.
    pub end: i64,
    /// Of it on a CPU; none unknown.
    pub cpu: Option<i64>,
    /// Of it waiting for a CPU; none unknown.
    pub ready: Option<i64>,
}

impl Gap {
    /// One of which only the times are known.
    #[must_use]
    pub const fn new(start: i64, end: i64) -> Self {
        Self { start, end, cpu: None, ready: None }
    }

    /// What is neither; none unknown.
    #[must_use]
    pub fn unexplained(&self) -> Option<i64> {
        Some((self.end - self.start - self.cpu? - self.ready.unwrap_or(0)).max(0))
    }
}

/// The CPU time of the call before each gap, where that is one of `calls`: those end where a gap begins. Both are in order.
pub fn before<'a>(gaps: &'a [Gap], calls: &'a [Gap]) -> impl Iterator<Item = Option<i64>> + 'a {
    let mut next = calls.iter().peekable();
    gaps.iter().map(move |gap| {
        while next.next_if(|call| call.end < gap.start).is_some() {}
        next.next_if(|call| call.end == gap.start).and_then(|call| call.cpu)
    })
}

/// What a thread's own clock says of a stretch of time, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Its start.
    pub start: i64,
    /// Its end.
    pub end: i64,
    /// CPU time in the gaps it is of.
    pub cpu: i64,
}

/// A stretch of time on a CPU, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Its start.
    pub start: i64,
    /// Its end.
    pub end: i64,
    /// Whether the thread could have gone on when it ended.
    pub runnable: bool,
}

/// Sets the CPU time of gaps from readings of the thread's clock. Both are in order and don't overlap.
///
/// A reading's CPU time is shared out over the gaps in it, by their length: clocks are read so often that a long
/// gap has readings of its own.
pub fn by_readings(gaps: &mut [Gap], readings: &[Reading]) {
    let mut first = 0;
    for reading in readings {
        while gaps.get(first).is_some_and(|gap| gap.end <= reading.start) {
            first += 1;
        }
        let inside = |gap: &Gap| (gap.end.min(reading.end) - gap.start.max(reading.start)).max(0);
        let last = first + gaps[first..].partition_point(|gap| gap.start < reading.end);
        let all: i64 = gaps[first..last].iter().map(inside).sum();
        let on = reading.cpu.clamp(0, all);
        // by what came before, so that rounding loses nothing
        let mut before = 0;
        let share = |length: i64| (i128::from(on) * i128::from(length) / i128::from(all.max(1))) as i64;
        for gap in &mut gaps[first..last] {
            let length = inside(gap);
            let cpu = share(before + length) - share(before);
            before += length;
            gap.cpu = Some(gap.cpu.unwrap_or(0) + cpu);
        }
    }
}

/// Sets the CPU time of gaps, and the time they waited for a CPU, from what the scheduler did. Both are in order and don't overlap.
pub fn by_slices(gaps: &mut [Gap], slices: &[Slice]) {
    // nothing is known of what was before the first and after the last slice
    let (Some(begin), Some(end)) =
        (slices.first().map(|slice| slice.start), slices.last().map(|slice| slice.end))
    else {
        return;
    };
    let mut first = 0;
    for gap in gaps.iter_mut().filter(|gap| gap.start >= begin && gap.end <= end) {
        while slices.get(first + 1).is_some_and(|next| next.start <= gap.start) {
            first += 1;
        }
        let (mut cpu, mut ready) = (0, 0);
        let inside = |from: i64, to: i64| (to.min(gap.end) - from.max(gap.start)).max(0);
        for (at, slice) in slices.iter().enumerate().skip(first) {
            if slice.start >= gap.end {
                break;
            }
            cpu += inside(slice.start, slice.end);
            if let Some(next) = slices.get(at + 1).filter(|_| slice.runnable) {
                ready += inside(slice.end, next.start);
            }
        }
        (gap.cpu, gap.ready) = (Some(cpu), Some(ready));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_long_gap_has_its_own_reading() {
        let mut gaps = [Gap::new(0, 10), Gap::new(20, 1000), Gap::new(1010, 1020)];
        let readings = [
            Reading { start: 0, end: 20, cpu: 10 },
            Reading { start: 20, end: 1000, cpu: 300 },
            Reading { start: 1000, end: 1020, cpu: 10 },
        ];
        by_readings(&mut gaps, &readings);
        assert_eq!(gaps.map(|gap| gap.cpu), [Some(10), Some(300), Some(10)]);
        assert_eq!(gaps[1].unexplained(), Some(680));
    }

    #[test]
    fn what_was_not_read_is_unknown() {
        let mut gaps = [Gap::new(0, 10), Gap::new(100, 200)];
        by_readings(&mut gaps, &[Reading { start: 100, end: 200, cpu: 100 }]);
        assert_eq!(gaps.map(|gap| gap.cpu), [None, Some(100)]);
        assert_eq!(gaps[0].unexplained(), None);
        by_slices(&mut gaps, &[Slice { start: 90, end: 300, runnable: false }]);
        assert_eq!(gaps.map(|gap| gap.cpu), [None, Some(100)]);
    }

    #[test]
    fn who_could_run_was_waiting_for_a_cpu() {
        let mut gaps = [Gap::new(100, 200)];
        let slice = |start, end, runnable| Slice { start, end, runnable };
        by_slices(&mut gaps, &[slice(0, 120, true), slice(140, 150, false), slice(170, 400, false)]);
        assert_eq!((gaps[0].cpu, gaps[0].ready, gaps[0].unexplained()), (Some(60), Some(20), Some(20)));
    }

    proptest! {
        #[test]
        fn nothing_is_lost(lengths in prop::collection::vec((1i64..100, 0i64..50), 1..30), cuts in prop::collection::vec(1i64..200, 1..20)) {
            let (mut gaps, mut at) = (Vec::new(), 0);
            for (length, call) in lengths {
                gaps.push(Gap::new(at, at + length));
                at += length + call;
            }
            let (mut readings, mut start, mut total) = (Vec::new(), 0, 0);
            for cut in cuts {
                let end = start + cut;
                let inside: i64 = gaps.iter().map(|gap| (gap.end.min(end) - gap.start.max(start)).max(0)).sum();
                readings.push(Reading { start, end, cpu: inside / 2 });
                total += inside / 2;
                start = end;
            }
            by_readings(&mut gaps, &readings);
            prop_assert_eq!(gaps.iter().filter_map(|gap| gap.cpu).sum::<i64>(), total);
            prop_assert!(gaps.iter().all(|gap| gap.cpu.unwrap_or(0) <= gap.end - gap.start));
        }
    }
}
