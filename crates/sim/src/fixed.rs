//! A device whose requests take a fixed time: so many servers, each with a latency and a transfer rate. For storage of
//! which no more is known (a network volume, a vendor's figures), and for tests whose answers can be worked out by hand.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{self, InvalidParameter};
use crate::device::{Completion, Device, Id, Nanos, Op, Request};

/// Longest time, so that sums of many fit 64 bits: 1000 s.
const LONGEST: Nanos = 1_000_000_000_000;

/// What one is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Bytes it stores.
    #[schemars(range(min = 1, max = i64::MAX))]
    pub capacity_bytes: u64,
    /// Requests it works on at the same time; 1 or more.
    #[schemars(range(min = 1, max = 1 << 20))]
    pub servers: u32,
    /// Time of a read without its transfer.
    #[schemars(range(max = LONGEST))]
    pub read_ns: Nanos,
    /// Time of a write without its transfer.
    #[schemars(range(max = LONGEST))]
    pub write_ns: Nanos,
    /// Time of a flush.
    #[schemars(range(max = LONGEST))]
    pub flush_ns: Nanos,
    /// Time of a trim.
    #[schemars(range(max = LONGEST))]
    pub trim_ns: Nanos,
    /// Bytes per second of each server.
    #[schemars(range(min = 1, max = i64::MAX))]
    pub rate_bytes_per_s: u64,
}

impl Parameters {
    /// Whether a device can be like this.
    ///
    /// # Errors
    /// The first parameter out of its range.
    pub fn validate(&self) -> Result<(), InvalidParameter> {
        bounds::check(self)
    }
}

/// The device. A request goes to the server that is free first, so that its completion is certain when it arrives.
#[derive(Clone)]
pub struct Fixed {
    parameters: Parameters,
    /// When each server that works will be free.
    free: BinaryHeap<Reverse<Nanos>>,
    /// Not yet reported, and since when.
    certain: Vec<Completion>,
    since: Nanos,
}

impl Fixed {
    /// One at rest.
    #[must_use]
    pub fn new(parameters: Parameters) -> Self {
        Self { parameters, free: BinaryHeap::new(), certain: Vec::new(), since: 0 }
    }

    fn service(&self, request: Request) -> Nanos {
        let Parameters { read_ns, write_ns, flush_ns, trim_ns, rate_bytes_per_s, .. } = self.parameters;
        let transfer = (request.length as f64 * 1e9 / rate_bytes_per_s as f64) as Nanos;
        match request.op {
            Op::Read => read_ns + transfer,
            Op::Write => write_ns + transfer,
            Op::Flush => flush_ns,
            Op::Trim => trim_ns,
        }
    }
}

impl Device for Fixed {
    fn capacity(&self) -> u64 {
        self.parameters.capacity_bytes
    }

    fn submit(&mut self, now: Nanos, id: Id, request: Request) {
        let mut issued = now;
        // Those that are free now are as good as those that never worked.
        while self.free.peek().is_some_and(|Reverse(free)| *free <= now) {
            self.free.pop();
        }
        if self.free.len() >= self.parameters.servers as usize
            && let Some(Reverse(free)) = self.free.pop()
        {
            issued = now.max(free);
        }
        let done = issued + self.service(request);
        self.free.push(Reverse(done));
        self.certain.push(Completion { id, issued, done, cached: false });
        self.since = now;
    }

    fn next_event(&self) -> Option<Nanos> {
        (!self.certain.is_empty()).then_some(self.since)
    }

    fn advance(&mut self, _: Nanos, completions: &mut Vec<Completion>) {
        completions.append(&mut self.certain);
    }

    fn energy(&self, _: Nanos) -> Option<f64> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::run;

    fn device(servers: u32) -> Fixed {
        Fixed::new(Parameters {
            capacity_bytes: 1 << 30,
            servers,
            read_ns: 100,
            write_ns: 200,
            flush_ns: 1000,
            trim_ns: 50,
            rate_bytes_per_s: 1_000_000_000,
        })
    }

    fn times(servers: u32, requests: &[(Nanos, Op, u64)]) -> Vec<(Nanos, Nanos)> {
        let mut times = vec![(0, 0); requests.len()];
        let requests = requests.iter().map(|&(at, op, length)| (at, Request { op, pos: 0, length }));
        run(&mut device(servers), requests, |at, completion| {
            times[at] = (completion.issued, completion.done)
        });
        times
    }

    #[test]
    fn one_server_takes_requests_in_turn() {
        let requests = [(0, Op::Read, 10), (5, Op::Write, 0), (5, Op::Flush, 0), (5000, Op::Trim, 4096)];
        assert_eq!(times(1, &requests), [(0, 110), (110, 310), (310, 1310), (5000, 5050)]);
    }

    #[test]
    fn servers_work_side_by_side() {
        let requests = [(0, Op::Read, 0), (10, Op::Read, 0), (20, Op::Read, 0), (300, Op::Read, 0)];
        assert_eq!(times(2, &requests), [(0, 100), (10, 110), (100, 200), (300, 400)]);
    }
}
