//! Several devices as one: striped, as RAID 0, or mirrored, as RAID 1.
//!
//! *Stripe*: chunks of the array go to the members in turn. What a request has on one member lies together there, so that it is
//! one request to each member at most. *Mirror*: each member has all data. A write goes to all and completes with the last;
//! a read goes to the member that has the fewest requests in flight, of several to the one that has been without any for
//! longest. Flushes go to all members. Each member counts with as many bytes as the smallest has.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasherDefault;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounds::{self, InvalidParameter};
use crate::cache::Mixed;
use crate::device::{Completion, Device, Id, Nanos, Op, Request};

/// Where data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// A chunk on each member in turn.
    Stripe,
    /// All on each member.
    Mirror,
}

/// Smallest chunk, the smallest sector of disks; largest chunk.
const CHUNKS: (u64, u64) = (512, 1 << 30);

/// What an array is like, beside its members.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// Where data goes.
    pub layout: Layout,
    /// Bytes of a chunk of a stripe; none of a mirror.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = CHUNKS.0, max = CHUNKS.1))]
    pub chunk_bytes: Option<u64>,
}

/// Members at most.
pub const MOST_MEMBERS: usize = 256;

impl Parameters {
    /// Whether an array of members of so many bytes can be like this.
    ///
    /// # Errors
    /// The first parameter out of its range.
    pub fn validate(&self, members: &[u64]) -> Result<(), InvalidParameter> {
        bounds::check(self)?;
        let wrong =
            |field: &str, expected: String, found: String| Err(InvalidParameter::new(field, expected, found));
        if !(1..=MOST_MEMBERS).contains(&members.len()) {
            return wrong("member", format!("1 to {MOST_MEMBERS} devices"), members.len().to_string());
        }
        match (self.layout, self.chunk_bytes) {
            (Layout::Mirror, None) => Ok(()),
            (Layout::Mirror, Some(found)) => {
                wrong("chunk_bytes", "nothing, as a mirror has no chunks".into(), found.to_string())
            }
            (Layout::Stripe, None) => wrong("chunk_bytes", "the size of a chunk".into(), "nothing".into()),
            (Layout::Stripe, Some(chunk)) => {
                let smallest = members.iter().copied().min().unwrap_or(0);
                if !chunk.is_multiple_of(CHUNKS.0) || chunk > smallest {
                    let expected = format!("a multiple of {} up to {smallest}", CHUNKS.0);
                    return wrong("chunk_bytes", expected, chunk.to_string());
                }
                if (smallest / chunk * chunk).checked_mul(members.len() as u64).is_none() {
                    return wrong("member", "members of less than 2^64 bytes".into(), "more".into());
                }
                Ok(())
            }
        }
    }

    /// Bytes that an array of valid members stores.
    #[must_use]
    pub fn capacity(&self, members: &[u64]) -> u64 {
        let smallest = members.iter().copied().min().unwrap_or(0);
        match (self.layout, self.chunk_bytes) {
            (Layout::Stripe, Some(chunk)) => smallest / chunk * chunk * members.len() as u64,
            (Layout::Stripe, None) | (Layout::Mirror, _) => smallest,
        }
    }
}

/// Where a byte of a striped array is: the member, and the byte there.
#[must_use]
fn place(chunk: u64, members: u64, pos: u64) -> (usize, u64) {
    let (stripe, within) = (pos / chunk, pos % chunk);
    ((stripe % members) as usize, stripe / members * chunk + within)
}

/// Requests that a member has.
#[derive(Clone, Default)]
struct Load {
    /// Those whose completion isn't certain.
    unknown: u32,
    /// Completions that are certain and lie in the future.
    ends: BinaryHeap<Reverse<Nanos>>,
    /// The last completion.
    last: Nanos,
}

impl Load {
    fn in_flight(&mut self, now: Nanos) -> u64 {
        while self.ends.peek().is_some_and(|Reverse(end)| *end <= now) {
            self.ends.pop();
        }
        u64::from(self.unknown) + self.ends.len() as u64
    }
}

/// A request of which a part isn't certain.
#[derive(Clone)]
struct Open {
    left: u32,
    completion: Completion,
}

/// Several devices as one.
#[derive(Clone)]
pub struct Array {
    layout: Layout,
    chunk: u64,
    capacity: u64,
    members: Vec<Box<dyn Device>>,
    loads: Vec<Load>,
    open: HashMap<u64, Open, BuildHasherDefault<Mixed>>,
    certain: Vec<Completion>,
    now: Nanos,
}

impl Array {
    /// An array of devices at rest.
    ///
    /// # Errors
    /// The first parameter out of its range.
    pub fn new(parameters: &Parameters, members: Vec<Box<dyn Device>>) -> Result<Self, InvalidParameter> {
        let bytes: Vec<u64> = members.iter().map(|member| member.capacity()).collect();
        parameters.validate(&bytes)?;
        Ok(Self {
            layout: parameters.layout,
            chunk: parameters.chunk_bytes.unwrap_or(1),
            capacity: parameters.capacity(&bytes),
            loads: members.iter().map(|_| Load::default()).collect(),
            members,
            open: HashMap::default(),
            certain: Vec::new(),
            now: 0,
        })
    }

    /// What each member gets of a request.
    fn shares(&mut self, request: Request) -> Vec<(usize, Request)> {
        let members = self.members.len();
        match (self.layout, request.op) {
            (_, Op::Flush) | (Layout::Mirror, Op::Write | Op::Trim) => {
                (0..members).map(|member| (member, request)).collect()
            }
            (Layout::Mirror, Op::Read) => vec![(self.least_busy(), request)],
            (Layout::Stripe, _) => stripe_shares(self.chunk, members, request),
        }
    }

    fn least_busy(&mut self) -> usize {
        let now = self.now;
        let loads = self.loads.iter_mut().enumerate();
        loads.map(|(at, load)| (load.in_flight(now), load.last, at)).min().map_or(0, |(.., at)| at)
    }

    fn know(&mut self, member: usize, part: Completion) {
        let load = &mut self.loads[member];
        load.unknown -= 1;
        load.ends.push(Reverse(part.done));
        load.last = load.last.max(part.done);
        let Some(open) = self.open.get_mut(&part.id.0) else { return };
        open.left -= 1;
        let whole = &mut open.completion;
        whole.issued = whole.issued.min(part.issued);
        whole.done = whole.done.max(part.done);
        whole.cached &= part.cached;
        if open.left == 0
            && let Some(open) = self.open.remove(&part.id.0)
        {
            self.certain.push(open.completion);
        }
    }
}

/// What each member of a stripe gets of a request: neighbouring chunks of a member are neighbours there.
fn stripe_shares(chunk: u64, members: usize, request: Request) -> Vec<(usize, Request)> {
    let Request { op, pos, length } = request;
    if length == 0 {
        let (member, pos) = place(chunk, members as u64, pos);
        return vec![(member, Request { op, pos, length })];
    }
    let (first, last) = (pos / chunk, (pos + length - 1) / chunk);
    // The first and the last chunk of each member; those between are whole.
    let of = |chunk_at: u64| {
        let member = chunk_at % members as u64;
        let end_chunk = last - (last - member) % members as u64;
        let begin = pos.max(chunk_at * chunk);
        let end = (pos + length).min((end_chunk + 1) * chunk);
        let (member, begin) = place(chunk, members as u64, begin);
        let (_, last_byte) = place(chunk, members as u64, end - 1);
        (member, Request { op, pos: begin, length: last_byte + 1 - begin })
    };
    (first..=last.min(first + members as u64 - 1)).map(of).collect()
}

impl Device for Array {
    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn submit(&mut self, now: Nanos, id: Id, request: Request) {
        self.now = now;
        let shares = self.shares(request);
        let completion = Completion { id, issued: Nanos::MAX, done: now, cached: true };
        self.open.insert(id.0, Open { left: shares.len() as u32, completion });
        for (member, share) in shares {
            self.loads[member].unknown += 1;
            self.members[member].submit(now, id, share);
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        let certain = (!self.certain.is_empty()).then_some(self.now);
        self.members.iter().filter_map(|member| member.next_event()).chain(certain).min()
    }

    fn next_completion(&self) -> Option<Nanos> {
        let certain = (!self.certain.is_empty()).then_some(self.now);
        self.members.iter().filter_map(|member| member.next_completion()).chain(certain).min()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        self.now = now;
        let mut parts = Vec::new();
        for member in 0..self.members.len() {
            self.members[member].advance(now, &mut parts);
            parts.drain(..).for_each(|part| self.know(member, part));
        }
        completions.append(&mut self.certain);
    }

    fn energy(&self, now: Nanos) -> Option<f64> {
        self.members.iter().map(|member| member.energy(now)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::run;
    use crate::fixed::{self, Fixed};
    use proptest::prelude::*;
    use std::sync::{Arc, Mutex};

    /// A device that notes what it gets.
    #[derive(Clone)]
    struct Noted {
        inner: Fixed,
        member: usize,
        notes: Arc<Mutex<Vec<(usize, Id, Request)>>>,
    }

    impl Device for Noted {
        fn capacity(&self) -> u64 {
            self.inner.capacity()
        }

        fn submit(&mut self, now: Nanos, id: Id, request: Request) {
            assert!(request.pos + request.length <= self.capacity(), "{request:?}");
            self.notes.lock().unwrap().push((self.member, id, request));
            self.inner.submit(now, id, request);
        }

        fn next_event(&self) -> Option<Nanos> {
            self.inner.next_event()
        }

        fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
            self.inner.advance(now, completions);
        }

        fn energy(&self, _: Nanos) -> Option<f64> {
            Some(1.0)
        }
    }

    type Notes = Arc<Mutex<Vec<(usize, Id, Request)>>>;

    /// Members of 10,000 bytes and more, whose requests take 100 ns and more.
    fn array(layout: Layout, chunk: Option<u64>, members: usize) -> (Array, Notes) {
        let notes = Notes::default();
        let devices = (0..members).map(|member| {
            let inner = Fixed::new(fixed::Parameters {
                capacity_bytes: 10_000 + 1000 * member as u64,
                servers: 1,
                read_ns: 100 + 10 * member as u64,
                write_ns: 200 + 10 * member as u64,
                flush_ns: 1000,
                trim_ns: 50,
                rate_bytes_per_s: i64::MAX as u64,
            });
            Box::new(Noted { inner, member, notes: Arc::clone(&notes) }) as Box<dyn Device>
        });
        let parameters = Parameters { layout, chunk_bytes: chunk };
        (Array::new(&parameters, devices.collect()).unwrap(), notes)
    }

    fn serve(array: &mut Array, requests: &[(Nanos, Op, u64, u64)]) -> Vec<(Nanos, Nanos)> {
        let mut times = vec![(0, 0); requests.len()];
        let requests = requests.iter().map(|&(at, op, pos, length)| (at, Request { op, pos, length }));
        run(array, requests, |at, completion| times[at] = (completion.issued, completion.done));
        times
    }

    #[test]
    fn capacity_is_that_of_whole_chunks_on_the_smallest_member() {
        assert_eq!(array(Layout::Stripe, Some(1024), 3).0.capacity(), 3 * 9 * 1024);
        assert_eq!(array(Layout::Mirror, None, 3).0.capacity(), 10_000);
        assert_eq!(array(Layout::Mirror, None, 3).0.energy(5), Some(3.0));
    }

    #[test]
    fn a_request_takes_as_long_as_its_slowest_share() {
        let (mut stripe, notes) = array(Layout::Stripe, Some(1024), 3);
        // Chunks 1 to 5: the members 1 and 2 have two each, neighbours there; member 0 one.
        assert_eq!(serve(&mut stripe, &[(7, Op::Read, 1024, 5 * 1024)]), [(7, 7 + 120)]);
        let notes: Vec<_> =
            notes.lock().unwrap().iter().map(|(member, _, r)| (*member, r.pos, r.length)).collect();
        assert_eq!(notes, [(1, 0, 2048), (2, 0, 2048), (0, 1024, 1024)]);
        let (mut mirror, _) = array(Layout::Mirror, None, 2);
        assert_eq!(
            serve(&mut mirror, &[(0, Op::Write, 0, 512), (500, Op::Flush, 0, 0)]),
            [(0, 210), (500, 1500)]
        );
    }

    #[test]
    fn reads_of_a_mirror_go_to_the_member_that_is_free() {
        let (mut mirror, notes) = array(Layout::Mirror, None, 2);
        // Both are free; then the other; then the one that was free first; after a rest, the one free for longer.
        let reads = [0, 10, 110, 1000].map(|at| (at, Op::Read, 0, 512));
        assert_eq!(serve(&mut mirror, &reads), [(0, 100), (10, 120), (110, 210), (1000, 1110)]);
        let members: Vec<usize> = notes.lock().unwrap().iter().map(|(member, ..)| *member).collect();
        assert_eq!(members, [0, 1, 0, 1]);
    }

    #[test]
    fn parameters_out_of_range_are_named() {
        let error = |layout, chunk_bytes, members: &[u64]| {
            Parameters { layout, chunk_bytes }.validate(members).unwrap_err().to_string()
        };
        assert_eq!(error(Layout::Mirror, None, &[]), "member: expected 1 to 256 devices, found 0");
        assert!(error(Layout::Mirror, Some(512), &[1]).starts_with("chunk_bytes: expected nothing"));
        assert!(error(Layout::Stripe, None, &[1]).starts_with("chunk_bytes: expected the size"));
        assert_eq!(
            error(Layout::Stripe, Some(1000), &[9000, 8000]),
            "chunk_bytes: expected a multiple of 512 up to 8000, found 1000"
        );
        assert!(error(Layout::Stripe, Some(8192), &[9000, 8000]).contains("up to 8000, found 8192"));
        assert!(error(Layout::Stripe, Some(512), &[i64::MAX as u64; 3]).starts_with("member: expected"));
    }

    proptest! {
        #[test]
        fn a_stripe_gives_each_byte_a_place_of_its_own(chunk in 1_u64..6, members in 1_u64..7) {
            let chunk = chunk * 512;
            let mut places: Vec<_> = (0..chunk * members * 3).step_by(256).map(|pos| place(chunk, members, pos)).collect();
            prop_assert!(places.iter().all(|(member, pos)| *member < members as usize && *pos < chunk * 3));
            let count = places.len();
            places.sort_unstable();
            places.dedup();
            prop_assert_eq!(places.len(), count);
        }

        #[test]
        fn shares_are_the_places_of_all_bytes(
            chunk in 1_u64..5, members in 1_usize..6, pos in 0_u64..9000, length in 1_u64..9000,
        ) {
            // in units of 512 bytes, so that each byte can be looked at
            let shares = stripe_shares(chunk, members, Request { op: Op::Read, pos, length });
            let mut found: Vec<(usize, u64)> = shares.iter()
                .flat_map(|(member, share)| (share.pos..share.pos + share.length).map(move |pos| (*member, pos)))
                .collect();
            let mut expected: Vec<(usize, u64)> =
                (pos..pos + length).map(|pos| place(chunk, members as u64, pos)).collect();
            found.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(found, expected);
            prop_assert!(shares.len() <= members);
        }

        #[test]
        fn each_request_is_served_once_by_those_who_have_it(
            steps in proptest::collection::vec((0_u64..300, 0_usize..4, 0_u64..10_000, 0_u64..5000), 0..60),
            members in 1_usize..5,
            stripes in any::<bool>(),
        ) {
            let (mut array, notes) = if stripes {
                array(Layout::Stripe, Some(512), members)
            } else {
                array(Layout::Mirror, None, members)
            };
            let mut now = 0;
            let requests: Vec<_> = steps.iter().map(|&(gap, op, pos, length)| {
                now += gap;
                let op = [Op::Read, Op::Write, Op::Trim, Op::Flush][op];
                let pos = pos % array.capacity();
                let length = length.min(array.capacity() - pos);
                let request = if op == Op::Flush { Request { op, pos: 0, length: 0 } } else { Request { op, pos, length } };
                (now, request)
            }).collect();
            let mut completed = vec![0; requests.len()];
            let mut ends = Vec::new();
            run(&mut array, requests.iter().copied(), |at, completion| {
                completed[at] += 1;
                ends.push((at, completion));
            });
            prop_assert!(completed.iter().all(|count| *count == 1));
            prop_assert!(array.open.is_empty() && array.loads.iter().all(|load| load.unknown == 0));
            for (at, completion) in ends {
                prop_assert!(requests[at].0 <= completion.issued && completion.issued < completion.done);
            }
            let notes = notes.lock().unwrap();
            for (at, (_, request)) in requests.iter().enumerate() {
                let shares: Vec<_> = notes.iter().filter(|(_, id, _)| id.0 == at as u64).collect();
                let total: u64 = shares.iter().map(|(.., share)| share.length).sum();
                let copies = match (stripes, request.op) {
                    (true, _) | (false, Op::Read) => 1,
                    (false, _) => members as u64,
                };
                prop_assert_eq!(total, request.length * copies);
                if request.op == Op::Flush {
                    prop_assert_eq!(shares.len(), members);
                }
            }
        }
    }
}
