//! How devices go together: which is next and after which gap, how bursty each is, and whether they are busy at the same time.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use iotrail_sim::Nanos;
use serde::Serialize;

use crate::Arrival;

/// Widths of the intervals in which the requests of each device are counted, ns: 0.1, 1, 10 s.
pub const WIDTHS: [Nanos; 3] = [100_000_000, 1_000_000_000, 10_000_000_000];
/// Devices that are compared with each other: those with the most requests.
pub const MOST: usize = 8;
/// Intervals from which on their variance says something.
const LEAST_INTERVALS: u64 = 10;

/// What requests to more than one device are like; empty of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Devices {
    /// Requests and the next ones: device, device of the next one, power of two of the gap in ns, how many.
    pub pairs: Vec<(u32, u32, u32, u64)>,
    /// Variance by mean of the requests of a device in intervals: device, width in ns. Null of fewer than ten.
    pub dispersion: Vec<(u32, u64, Option<f64>)>,
    /// Correlation of the requests of two devices in the same intervals: devices, width in ns. Null of fewer than ten, and if a
    /// device has as many in each.
    pub correlation: Vec<(u32, u32, u64, Option<f64>)>,
}

/// Describes requests in the order of their arrivals. `counts` are the requests of each device.
#[must_use]
pub fn describe(arrivals: &[Arrival], counts: &[(u32, u64)]) -> Devices {
    let mut found = Devices::default();
    if counts.len() < 2 {
        return found;
    }
    let mut pairs: HashMap<(u32, u32, u32), u64, FixedState> = HashMap::default();
    for pair in arrivals.windows(2) {
        let gap = (pair[1].at - pair[0].at).max(1).ilog2();
        *pairs.entry((pair[0].device, pair[1].device, gap)).or_default() += 1;
    }
    found.pairs = pairs.into_iter().map(|((from, to, gap), count)| (from, to, gap, count)).collect();
    found.pairs.sort_unstable();
    let mut busiest = counts.to_vec();
    busiest.sort_by_key(|(device, count)| (std::cmp::Reverse(*count), *device));
    busiest.truncate(MOST);
    let busiest: Vec<u32> = busiest.into_iter().map(|(device, _)| device).collect();
    for width in WIDTHS {
        let moments = Moments::of(arrivals, &busiest, width);
        for (one, device) in busiest.iter().enumerate() {
            found.dispersion.push((*device, width, moments.as_ref().and_then(|of| of.dispersion(one))));
            for (other, second) in busiest.iter().enumerate().skip(one + 1) {
                let correlation = moments.as_ref().and_then(|of| of.correlation(one, other));
                found.correlation.push((*device, *second, width, correlation));
            }
        }
    }
    found
}

/// Counts of requests in whole intervals: means, and means of their products.
struct Moments {
    means: Vec<f64>,
    products: Vec<Vec<f64>>,
}

impl Moments {
    fn of(arrivals: &[Arrival], devices: &[u32], width: Nanos) -> Option<Self> {
        let first = arrivals.first()?.at;
        let intervals = (arrivals.last()?.at - first) / width;
        if intervals < LEAST_INTERVALS {
            return None;
        }
        let column: HashMap<u32, usize, FixedState> =
            devices.iter().enumerate().map(|(at, device)| (*device, at)).collect();
        let size = devices.len();
        let mut found = Self { means: vec![0.0; size], products: vec![vec![0.0; size]; size] };
        // Those without a request add nothing.
        let inside = arrivals.partition_point(|arrival| (arrival.at - first) / width < intervals);
        let interval = |arrival: &Arrival| (arrival.at - first) / width;
        for chunk in arrivals[..inside].chunk_by(|one, next| interval(one) == interval(next)) {
            let mut counts = vec![0.0; size];
            for at in chunk.iter().filter_map(|arrival| column.get(&arrival.device)) {
                counts[*at] += 1.0;
            }
            for (at, count) in counts.iter().enumerate() {
                found.means[at] += count / intervals as f64;
                for (product, other) in found.products[at].iter_mut().zip(&counts) {
                    *product += count * other / intervals as f64;
                }
            }
        }
        Some(found)
    }

    fn covariance(&self, one: usize, other: usize) -> f64 {
        self.products[one][other] - self.means[one] * self.means[other]
    }

    fn dispersion(&self, device: usize) -> Option<f64> {
        (self.means[device] > 0.0).then(|| self.covariance(device, device) / self.means[device])
    }

    fn correlation(&self, one: usize, other: usize) -> Option<f64> {
        let variances = self.covariance(one, one) * self.covariance(other, other);
        // Less is rounding.
        (variances > 1e-12).then(|| (self.covariance(one, other) / variances.sqrt()).clamp(-1.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use iotrail_sim::{Op, Request};

    use super::*;

    fn at(ms: u64, device: u32) -> Arrival {
        Arrival { at: ms * 1_000_000, device, request: Request { op: Op::Read, pos: 0, length: 4096 } }
    }

    #[test]
    fn pairs_have_the_power_of_two_of_their_gap() {
        let arrivals = [at(0, 0), at(1, 1), at(2, 0), at(3, 1), at(3, 1)];
        let found = describe(&arrivals, &[(0, 2), (1, 3)]);
        // 1 ms is from 2^19 ns on
        assert_eq!(found.pairs, [(0, 1, 19, 2), (1, 0, 19, 1), (1, 1, 0, 1)]);
        assert!(found.dispersion.iter().all(|row| row.2.is_none()));
        assert_eq!(describe(&arrivals[..1], &[(0, 1)]), Devices::default());
    }

    #[test]
    fn devices_that_are_busy_in_turn_are_opposed() {
        // 100 ms each in which one has 10 requests, then the other, for 2 s
        let turns = (0..200).map(|of| at(of * 10, (of / 10 % 2) as u32));
        let arrivals: Vec<Arrival> = turns.chain([at(2000, 0)]).collect();
        let found = describe(&arrivals, &[(0, 101), (1, 100)]);
        assert_eq!(found.dispersion[..2], [(0, WIDTHS[0], Some(5.0)), (1, WIDTHS[0], Some(5.0))]);
        let (one, other, width, opposed) = found.correlation[0];
        assert_eq!((one, other, width), (0, 1, WIDTHS[0]));
        assert!((opposed.unwrap() + 1.0).abs() < 1e-9);
        // 2 s are too short for intervals of 1 s
        assert_eq!(found.correlation[1], (0, 1, WIDTHS[1], None));
        // both at the same time
        let same: Vec<Arrival> = arrivals.iter().flat_map(|of| [*of, at(of.at / 1_000_000, 2)]).collect();
        let alike = describe(&same, &[(0, 101), (1, 100), (2, 201)]);
        assert!(alike.correlation.iter().all(|row| row.3.is_none_or(|of| (-1.0..=1.0).contains(&of))));
        // as many in each interval: no correlation is known
        assert_eq!(alike.correlation[0], (2, 0, WIDTHS[0], None));
    }
}
