//! A micro-benchmark that can be adjusted: concurrency, sizes, how sequential requests are, think time.
//!
//! Its parameters are those that throughput depends on by Shen, Zhong and Li, "I/O System Performance Debugging Using Model-driven
//! Anomaly Characterization" (FAST 2005), section 4.1: the concurrency of a server, the length of its sequential runs (here: the
//! share of requests that go elsewhere), its think time.

use iotrail_model::Arrival;
use iotrail_sim::{Op, Request};
use rand::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// What the requests of a benchmark are like.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Bench {
    /// Sequential streams, and requests in flight.
    pub threads: u32,
    /// Bytes of a request.
    pub size: u64,
    /// Bytes from the start of a request to that of the next one of its stream.
    pub stride: u64,
    /// Share of requests that go to a random place, from which their stream goes on.
    pub random: f64,
    /// Share of reads; the others are writes.
    pub read: f64,
    /// Time between the return of a request and the next one, ns.
    #[serde(rename = "think_ns")]
    pub think: i64,
}

/// The requests of a benchmark on a device of `bytes` bytes, without an end: one of each stream in turn. Streams begin at
/// equal distances; their places are multiples of the request size.
pub fn requests(bench: Bench, bytes: u64, seed: u64) -> impl Iterator<Item = Arrival> + Send {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let slots = (bytes / bench.size).max(1);
    let threads = u64::from(bench.threads.max(1));
    let mut places: Vec<u64> = (0..threads).map(|thread| slots * thread / threads * bench.size).collect();
    let mut turn = 0;
    std::iter::from_fn(move || {
        let place = &mut places[turn];
        turn = (turn + 1) % threads as usize;
        if bench.random > 0.0 && random.random_bool(bench.random) {
            *place = random.random_range(0..slots) * bench.size;
        }
        if *place + bench.size > slots * bench.size {
            *place %= bench.stride.min(bench.size);
        }
        let op = if random.random_bool(bench.read) { Op::Read } else { Op::Write };
        let pos = *place;
        *place += bench.stride;
        Some(Arrival { at: 0, device: 0, request: Request { op, pos, length: bench.size } })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BENCH: Bench = Bench { threads: 4, size: 4096, stride: 4096, random: 0.0, read: 1.0, think: 0 };

    #[test]
    fn streams_are_sequential_and_apart() {
        let pos: Vec<u64> = requests(BENCH, 1 << 20, 1).take(12).map(|one| one.request.pos / 4096).collect();
        assert_eq!(pos, [0, 64, 128, 192, 1, 65, 129, 193, 2, 66, 130, 194]);
        let strided = Bench { stride: 16384, threads: 1, ..BENCH };
        let pos: Vec<u64> = requests(strided, 65536, 1).take(6).map(|one| one.request.pos / 4096).collect();
        assert_eq!(pos, [0, 4, 8, 12, 0, 4]);
    }

    #[test]
    fn shares_are_as_asked_and_nothing_lies_beyond_the_end() {
        let bench = Bench { random: 0.5, read: 0.7, size: 16384, stride: 16384, ..BENCH };
        let n = 100_000;
        let drawn: Vec<Request> = requests(bench, 10 << 20, 1).take(n).map(|one| one.request).collect();
        assert!(drawn.iter().all(|one| one.pos + one.length <= 10 << 20 && one.pos % 16384 == 0));
        let reads = drawn.iter().filter(|one| one.op == Op::Read).count() as f64 / n as f64;
        let follows = |at: usize| drawn[at].pos == drawn[at - 4].pos + 16384;
        let sequential = (4..n).filter(|at| follows(*at)).count() as f64 / n as f64;
        assert!((reads - 0.7).abs() < 0.01 && (sequential - 0.5).abs() < 0.01, "{reads} {sequential}");
    }
}
