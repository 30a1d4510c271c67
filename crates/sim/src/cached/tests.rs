//! Caches before devices: hits as the policies say, and data that is never older than what was written, by an oracle of
//! versions.

use std::collections::{BinaryHeap, HashMap};

use proptest::prelude::*;

use super::*;
use crate::cache::Policy;
use crate::device::run;

/// A piece as it was made and carried out.
#[derive(Clone, Debug)]
pub struct Logged {
    piece: Piece,
    target: Target,
    request: Request,
    owner: Option<Id>,
    /// Index of the piece whose data it has.
    from: Option<usize>,
    /// What it reads or writes of the medium.
    spans: Vec<Span>,
    /// Whether the owner's data lies over that of `from`.
    has_own_data: bool,
    submitted: Nanos,
    done: Nanos,
}

impl<D: Device> Pieces<D> {
    fn last_of(&self, piece: Piece) -> Option<usize> {
        self.log.iter().rposition(|logged| logged.piece == piece)
    }

    pub(super) fn log_made(
        &mut self,
        piece: Piece,
        target: Target,
        request: Request,
        owner: Option<Id>,
        from: Option<Piece>,
    ) {
        let from = from.and_then(|from| self.last_of(from));
        let (spans, submitted, done) = (Vec::new(), Nanos::MAX, Nanos::MAX);
        self.log.push(Logged {
            piece,
            target,
            request,
            owner,
            from,
            spans,
            has_own_data: false,
            submitted,
            done,
        });
    }

    pub(super) fn log_spans(&mut self, spans: &[Span], has_own_data: bool) {
        let last = self.log.last_mut().unwrap();
        (last.spans, last.has_own_data) = (spans.to_vec(), has_own_data);
    }

    pub(super) fn log_submitted(&mut self, piece: Piece) {
        let at = self.last_of(piece).unwrap();
        self.log[at].submitted = self.now();
    }

    pub(super) fn log_end(&mut self, piece: Piece, done: Nanos) {
        let at = self.last_of(piece).unwrap();
        self.log[at].done = done;
    }
}

/// A device that takes any time for each request and reorders all; it reports at once, or when the time has come.
#[derive(Clone)]
struct Jitter {
    capacity: u64,
    state: u64,
    reports_at_once: bool,
    certain: Vec<Completion>,
    since: Nanos,
    due: BinaryHeap<std::cmp::Reverse<(Nanos, Id, Nanos)>>,
}

impl Jitter {
    fn new(capacity: u64, seed: u64, reports_at_once: bool) -> Self {
        let (certain, due) = (Vec::new(), BinaryHeap::new());
        Self { capacity, state: seed, reports_at_once, certain, since: 0, due }
    }
}

impl Device for Jitter {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn submit(&mut self, now: Nanos, id: Id, request: Request) {
        assert!(request.pos + request.length <= self.capacity, "{request:?} lies beyond the device");
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let done = now + (self.state >> 33) % 150;
        if self.reports_at_once {
            self.certain.push(Completion { id, issued: now, done, cached: false });
            self.since = now;
        } else {
            self.due.push(std::cmp::Reverse((done, id, now)));
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let due = self.due.peek().map(|due| due.0.0);
        due.into_iter().chain((!self.certain.is_empty()).then_some(self.since)).min()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        completions.append(&mut self.certain);
        while let Some(std::cmp::Reverse((done, id, issued))) = self.due.peek().copied()
            && done <= now
        {
            self.due.pop();
            completions.push(Completion { id, issued, done, cached: false });
        }
    }

    fn energy(&self, _: Nanos) -> Option<f64> {
        None
    }
}

const SECTOR: u64 = 512;
/// The last block of four sectors has one.
const SECTORS: u64 = 61;
/// Version of a sector of which nothing is known.
const ANY: u64 = u64::MAX;

fn parameters(policy: Policy, blocks: u64, write: Write, admission: u32, in_memory: bool) -> Parameters {
    Parameters {
        policy,
        size_bytes: blocks * 4 * SECTOR,
        block_bytes: 4 * SECTOR,
        write,
        admission,
        admission_memory: None,
        latency_ns: in_memory.then_some(10),
        rate_bytes_per_s: in_memory.then_some(1_000_000_000_000),
    }
}

fn sectors(pos: u64, length: u64) -> std::ops::Range<u64> {
    pos / SECTOR..(pos + length) / SECTOR
}

/// Versions of sectors after each request, if requests take no time: each write makes a version of its own.
fn expected(requests: &[(Nanos, Request)]) -> Vec<Vec<u64>> {
    let mut versions = vec![0; SECTORS as usize];
    let mut all = vec![versions.clone()];
    for (at, (_, request)) in requests.iter().enumerate() {
        let version = match request.op {
            Op::Write => at as u64 + 1,
            Op::Trim => ANY,
            Op::Read | Op::Flush => {
                all.push(versions.clone());
                continue;
            }
        };
        sectors(request.pos, request.length).for_each(|sector| versions[sector as usize] = version);
        all.push(versions.clone());
    }
    all
}

/// Carries out the pieces on real sectors: what each request reads, and what is behind at the end.
fn carry_out(log: &[Logged], requests: &[(Nanos, Request)]) -> (HashMap<(u64, u64), u64>, Vec<u64>) {
    let mut behind = vec![0; SECTORS as usize];
    let mut medium: HashMap<(u32, u64), u64> = HashMap::new();
    // by piece: sector of the device behind -> version
    let mut data: Vec<HashMap<u64, u64>> = vec![HashMap::new(); log.len()];
    let mut read: HashMap<(u64, u64), u64> = HashMap::new();
    let mut order: Vec<usize> = (0..log.len()).collect();
    order.sort_by_key(|at| (log[*at].submitted, *at));
    for at in order {
        let piece = &log[at];
        let own = |sector: u64| {
            let owner = piece.owner?;
            let request = requests[owner.0 as usize].1;
            sectors(request.pos, request.length).contains(&sector).then_some(owner.0 + 1)
        };
        let version = |sector: u64| match piece.from {
            Some(from) if piece.has_own_data => own(sector).unwrap_or_else(|| data[from][&sector]),
            Some(from) => data[from][&sector],
            None => own(sector).expect("what is written is a request's"),
        };
        // sectors of the device behind, with their place in the medium
        let places: Vec<(u64, Option<(u32, u64)>)> = match piece.target {
            Target::Medium => piece
                .spans
                .iter()
                .flat_map(|span| {
                    let first = span.offset / SECTOR;
                    sectors(span.pos, span.length)
                        .enumerate()
                        .map(move |(at, sector)| (sector, Some((span.slot, first + at as u64))))
                })
                .collect(),
            Target::Behind => {
                sectors(piece.request.pos, piece.request.length).map(|sector| (sector, None)).collect()
            }
        };
        let mut found = HashMap::new();
        for (sector, place) in places {
            match (piece.request.op, place) {
                (Op::Read, Some(place)) => {
                    found.insert(sector, medium[&place]);
                }
                (Op::Read, None) => {
                    found.insert(sector, behind[sector as usize]);
                }
                (Op::Write, Some(place)) => {
                    medium.insert(place, version(sector));
                }
                (Op::Write, None) => behind[sector as usize] = version(sector),
                (Op::Trim | Op::Flush, _) => behind[sector as usize] = ANY,
            }
        }
        if let Some(owner) = piece.owner {
            read.extend(found.iter().map(|(sector, version)| ((owner.0, *sector), *version)));
        }
        data[at] = found;
    }
    (read, behind)
}

/// Pieces that use the same slot or block, one of them as a writer, never overlap in time.
fn check_order(log: &[Logged]) {
    let units = |piece: &Logged| -> Vec<u64> {
        match piece.target {
            Target::Medium => piece.spans.iter().map(|span| span.slot.into()).collect(),
            Target::Behind => blocks(4 * SECTOR, piece.request.pos, piece.request.length).collect(),
        }
    };
    let writes = |piece: &Logged| matches!(piece.request.op, Op::Write | Op::Trim);
    for (at, later) in log.iter().enumerate() {
        assert!(later.submitted <= later.done && later.done < Nanos::MAX, "{later:?}");
        if let Some(from) = later.from {
            assert!(log[from].done <= later.submitted, "{later:?} comes before its data");
        }
        for earlier in &log[..at] {
            let conflicts = earlier.target == later.target
                && (writes(earlier) || writes(later))
                && units(later).iter().any(|unit| units(earlier).contains(unit));
            let is_flushed =
                later.request.op == Op::Flush && earlier.target == Target::Behind && writes(earlier);
            assert!(
                !(conflicts || is_flushed) || earlier.done <= later.submitted,
                "{later:?} overlaps {earlier:?}"
            );
        }
    }
}

fn requests(of: &[(u64, u8, u64, u64)]) -> Vec<(Nanos, Request)> {
    let mut now = 0;
    let request = |&(gap, op, first, count): &(u64, u8, u64, u64)| {
        now += gap;
        let first = first.min(SECTORS - 1);
        let (pos, length) = (first * SECTOR, count.min(SECTORS - first) * SECTOR);
        let request = match op {
            0..8 => Request { op: Op::Read, pos, length },
            8..15 => Request { op: Op::Write, pos, length },
            15 => Request { op: Op::Trim, pos, length },
            _ => Request { op: Op::Flush, pos: 0, length: 0 },
        };
        (now, request)
    };
    of.iter().map(request).collect()
}

fn modes() -> impl Strategy<Value = Write> {
    prop_oneof![Just(Write::Back), Just(Write::Through), Just(Write::Around)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn requests_read_what_was_written_before_them(
        steps in proptest::collection::vec((0_u64..120, 0_u8..17, 0..SECTORS, 0_u64..30), 1..60),
        policy in 0_usize..8,
        (blocks, write, admission) in (1_u64..8, modes(), 1_u32..4),
        (in_memory, at_once, seed) in (any::<bool>(), any::<(bool, bool)>(), any::<u64>()),
    ) {
        let mut all = requests(&steps);
        let end = all.last().map_or(0, |(at, _)| at + 1);
        all.push((end, Request { op: Op::Flush, pos: 0, length: 0 }));
        let behind = Jitter::new(SECTORS * SECTOR, seed, at_once.0);
        let medium = Jitter::new(blocks * 4 * SECTOR, !seed, at_once.1);
        let medium: Option<Box<dyn Device>> = if in_memory { None } else { Some(Box::new(medium)) };
        let parameters = parameters(Policy::ALL[policy], blocks, write, admission, in_memory);
        let mut cached = Cached::new(parameters, medium, behind).unwrap();
        let mut completed: Vec<Option<Completion>> = vec![None; all.len()];
        run(&mut cached, all.iter().copied(), |at, completion| {
            assert_eq!(completed[at].replace(completion), None, "completed twice");
        });
        for (completion, (arrival, request)) in completed.iter().zip(&all) {
            let completion = completion.expect("each request completes");
            prop_assert!(*arrival <= completion.issued && completion.issued <= completion.done);
            prop_assert!(!completion.cached || request.op != Op::Trim);
        }
        prop_assert_eq!(cached.pieces.unfinished(), 0);
        prop_assert_eq!(cached.dirty_blocks(), 0);
        prop_assert!(cached.held_blocks() <= blocks as u32);
        let log = &cached.pieces.log;
        check_order(log);
        let expected = expected(&all);
        let (read, behind) = carry_out(log, &all);
        for (at, (_, request)) in all.iter().enumerate().filter(|(_, (_, request))| request.op == Op::Read) {
            for sector in sectors(request.pos, request.length) {
                let version = expected[at][sector as usize];
                let found = read.get(&(at as u64, sector)).copied();
                prop_assert!(found.is_some(), "request {at} doesn't read sector {sector}");
                prop_assert!(version == ANY || found == Some(version), "request {at}, sector {sector}: {found:?}, not {version}");
            }
        }
        let last = &expected[all.len()];
        for (sector, (found, version)) in behind.iter().zip(last).enumerate() {
            prop_assert!(*version == ANY || found == version, "sector {sector} is not written behind");
        }
    }

    #[test]
    fn nothing_completes_before_it_can(
        steps in proptest::collection::vec((0_u64..120, 0_u8..17, 0..SECTORS, 0_u64..30), 1..60),
        (blocks, write, admission) in (1_u64..8, modes(), 1_u32..4),
        (at_once, seed) in (any::<(bool, bool)>(), any::<u64>()),
    ) {
        let behind = Jitter::new(SECTORS * SECTOR, seed, at_once.0);
        let medium = Jitter::new(blocks * 4 * SECTOR, !seed, at_once.1);
        let parameters = parameters(Policy::Lru, blocks, write, admission, false);
        let mut cached = Cached::new(parameters, Some(Box::new(medium)), behind).unwrap();
        let (mut completions, mut flying, mut now) = (Vec::new(), 0, 0);
        let all = requests(&steps);
        let mut arrivals = all.iter().enumerate().peekable();
        loop {
            let foreseen = cached.next_completion();
            prop_assert_eq!(foreseen.is_some(), flying > 0);
            let arrival = arrivals.peek().map(|(_, (arrival, _))| *arrival);
            let Some(next) = foreseen.into_iter().chain(arrival).min() else { break };
            // What happens until then, such as blocks that go to the medium, completes nothing.
            if next > now {
                cached.advance(next - 1, &mut completions);
                prop_assert!(completions.is_empty(), "{foreseen:?}, {completions:?}");
            }
            now = next;
            cached.advance(next, &mut completions);
            if let Some((at, (_, request))) = arrivals.next_if(|(_, (arrival, _))| *arrival <= next) {
                cached.submit(next, Id(at as u64), *request);
                flying += 1;
            }
            flying -= completions.drain(..).count();
        }
        prop_assert_eq!(flying, 0);
    }

    #[test]
    fn hits_are_those_of_the_policy(
        steps in proptest::collection::vec((0_u64..120, 0_u8..15, 0..SECTORS, 1_u64..12), 1..80),
        policy in 0_usize..8,
        (blocks, back) in (1_u64..8, any::<bool>()),
        seed in any::<u64>(),
    ) {
        let all = requests(&steps);
        let policy = Policy::ALL[policy];
        let write = if back { Write::Back } else { Write::Through };
        let mut cached = Cached::new(
            parameters(policy, blocks, write, 1, true), None, Jitter::new(SECTORS * SECTOR, seed, true),
        ).unwrap();
        let (mut uses, mut owners) = (Vec::new(), Vec::new());
        for (at, (_, request)) in all.iter().enumerate() {
            for (block, ..) in parts(4 * SECTOR, request.pos, request.length) {
                uses.push(block as Block);
                owners.push(at);
            }
        }
        let mut missed = vec![0; all.len()];
        policy.run(blocks as u32, 16, uses.into_iter(), |at| missed[owners[at]] += 1);
        let (mut completions, mut before) = (Vec::new(), 0);
        for (at, (arrival, request)) in all.iter().enumerate() {
            cached.advance(*arrival, &mut completions);
            cached.submit(*arrival, Id(at as u64), *request);
            let Counts { read_misses, write_misses, .. } = cached.counts();
            prop_assert_eq!(read_misses + write_misses - before, missed[at], "request {}", at);
            before = read_misses + write_misses;
        }
    }
}

/// Times of requests on a cache of two blocks of 1000 bytes; behind, a read takes 1000 ns and a write 2000, one after the other.
fn times(write: Write, requests: &[(Nanos, Op, u64, u64)]) -> Vec<(Nanos, bool)> {
    let behind = Fixed::new(fixed::Parameters {
        capacity_bytes: 1 << 20,
        servers: 1,
        read_ns: 1000,
        write_ns: 2000,
        flush_ns: 500,
        trim_ns: 100,
        rate_bytes_per_s: i64::MAX as u64,
    });
    let parameters = Parameters {
        policy: Policy::Lru,
        size_bytes: 1024,
        block_bytes: 512,
        write,
        admission: 1,
        admission_memory: None,
        latency_ns: Some(10),
        rate_bytes_per_s: Some(1_000_000_000),
    };
    let mut cached = Cached::new(parameters, None, behind).unwrap();
    let mut times = vec![(0, false); requests.len()];
    let all = requests.iter().map(|&(at, op, pos, length)| (at, Request { op, pos, length }));
    run(&mut cached, all, |at, Completion { done, cached, .. }| times[at] = (done - requests[at].0, cached));
    times
}

#[test]
fn times_are_those_of_the_parts() {
    // Missed, held, of two blocks one of which is held, and of a block that was evicted by it.
    let reads = [
        (0, Op::Read, 0, 512),
        (5000, Op::Read, 0, 512),
        (10_000, Op::Read, 0, 1024),
        (15_000, Op::Read, 1024, 512),
        (20_000, Op::Read, 0, 512),
    ];
    let expected = [(1000, false), (522, true), (1000, false), (1000, false), (1000, false)];
    assert_eq!(times(Write::Back, &reads), expected);
    let writes = [
        // whole, and part of a missed block
        (0, Op::Write, 0, 512),
        (10_000, Op::Write, 512, 100),
        // evicts block 0, which is dirty: read from memory, and written behind while the next request is read there
        (20_000, Op::Read, 1024, 512),
        (30_000, Op::Flush, 0, 0),
        (40_000, Op::Flush, 0, 0),
    ];
    assert_eq!(
        times(Write::Back, &writes),
        [(522, true), (1000 + 522, false), (1000, false), (522 + 2000 + 500, false), (500, false)]
    );
    assert_eq!(
        times(Write::Through, &writes),
        [(2000, false), (2000, false), (1000, false), (500, false), (500, false)]
    );
    let again = [(0, Op::Read, 0, 512), (10_000, Op::Write, 0, 512), (20_000, Op::Read, 0, 512)];
    assert_eq!(times(Write::Around, &again), [(1000, false), (2000, false), (1000, false)]);
}

#[test]
fn a_trim_drops_dirty_blocks() {
    let requests = [
        (0, Op::Write, 0, 1024),
        (10_000, Op::Trim, 0, 1 << 20),
        (20_000, Op::Flush, 0, 0),
        (30_000, Op::Read, 0, 512),
    ];
    assert_eq!(times(Write::Back, &requests), [(1034, true), (100, false), (500, false), (1000, false)]);
}

#[test]
fn blocks_come_in_when_they_were_missed_often() {
    let mut parameters = parameters(Policy::Lru, 4, Write::Back, 2, true);
    parameters.admission_memory = Some(1);
    let mut cached = Cached::new(parameters, None, Jitter::new(SECTORS * SECTOR, 1, true)).unwrap();
    let blocks = [0, 0, 0, 1, 2, 1, 1, 1];
    let requests = blocks.map(|block| (0, Request { op: Op::Read, pos: block * 4 * SECTOR, length: SECTOR }));
    run(&mut cached, requests.into_iter(), |_, _| ());
    // Block 1 is forgotten when 2 is missed.
    let Counts { read_hits, read_misses, .. } = cached.counts();
    assert_eq!((read_hits, read_misses), (2, 6));
}

#[test]
fn parameters_out_of_range_are_named() {
    let valid = parameters(Policy::Arc, 4, Write::Back, 1, true);
    let error = |parameters: Parameters, medium| parameters.validate(medium).unwrap_err().to_string();
    assert_eq!(valid.validate(None), Ok(()));
    let found = error(Parameters { size_bytes: 2047, ..valid.clone() }, None);
    assert!(found.starts_with("size_bytes: expected 2048 to"), "{found}");
    let found = error(Parameters { block_bytes: 1000, ..valid.clone() }, None);
    assert_eq!(found, "block_bytes: expected a multiple of 512, found 1000");
    let found = error(Parameters { latency_ns: None, ..valid.clone() }, None);
    assert_eq!(found, "latency_ns: expected a value, or a device as the medium, found nothing");
    let found = error(valid.clone(), Some(1 << 20));
    assert_eq!(found, "latency_ns: expected nothing, as a device is the medium, found 10");
    let found = error(valid, Some(4096));
    assert!(found.starts_with("size_bytes: expected 2048 to 4096, found 8192"), "{found}");
}
