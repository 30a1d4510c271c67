//! The interface of every simulated device, and runs of requests through one.
//!
//! A device is a state machine in virtual time. It has no clock: the caller says what time it is. A simulation passes the
//! arrival times of a trace ([`run`]); `emudisk` passes the time of the machine, and answers each request when the device
//! completes it. Equal calls give equal completions: randomness comes from a seed in the device's parameters.

use dyn_clone::DynClone;

/// Virtual time in nanoseconds, from any origin.
pub type Nanos = u64;

/// Names one request of a device. The caller chooses it; no two requests in flight have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Id(pub u64);

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Read bytes.
    Read,
    /// Write bytes. Completes when the device would report it: with a volatile write cache, once it is in that cache.
    Write,
    /// Make all writes that completed before durable. Has no position and no length.
    Flush,
    /// Say that the bytes are not needed any more.
    Trim,
}

/// A request to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What it asks for.
    pub op: Op,
    /// First byte; 0 for a flush.
    pub pos: u64,
    /// Bytes; 0 for a flush.
    pub length: u64,
}

/// A request that a device has served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Which one.
    pub id: Id,
    /// When the device began to work on it: the wait for other requests is over.
    pub issued: Nanos,
    /// When it was done.
    pub done: Nanos,
    /// Whether memory (of a cache in or before the device) served it without the medium.
    pub cached: bool,
}

/// A storage device in virtual time.
///
/// Times given to one device never decrease. Whoever calls [`submit`](Self::submit) at a time has called
/// [`advance`](Self::advance) with it before, so that the device has done all that comes earlier. A copy is in the same state:
/// of a drive that was filled, it takes a fraction of the time.
pub trait Device: Send + DynClone {
    /// Bytes it stores.
    fn capacity(&self) -> u64;

    /// Hands over a request that arrives now and lies within the capacity.
    fn submit(&mut self, now: Nanos, id: Id, request: Request);

    /// When something happens next if no request arrives; none if nothing will. Not every event completes a request, and
    /// a device comes to rest: without requests, events end.
    fn next_event(&self) -> Option<Nanos>;

    /// A time before which no completion becomes certain if no request arrives; none if no request is in flight. What happens
    /// until then, such as what a cache fetches for later, needs no exact waking.
    fn next_completion(&self) -> Option<Nanos> {
        self.next_event()
    }

    /// Does everything due until `now`, included, and appends the requests whose completion became certain. Its time can
    /// lie after `now`: an emulation answers such a request a little earlier, for what the answer itself costs.
    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>);

    /// Energy used since time 0, in joules, with the device idle where nothing was asked. None if no watts are given.
    fn energy(&self, now: Nanos) -> Option<f64>;
}

dyn_clone::clone_trait_object!(Device);

impl<D: Device + ?Sized> Device for Box<D>
where
    Self: Clone,
{
    fn capacity(&self) -> u64 {
        (**self).capacity()
    }

    fn submit(&mut self, now: Nanos, id: Id, request: Request) {
        (**self).submit(now, id, request);
    }

    fn next_event(&self) -> Option<Nanos> {
        (**self).next_event()
    }

    fn next_completion(&self) -> Option<Nanos> {
        (**self).next_completion()
    }

    fn advance(&mut self, now: Nanos, completions: &mut Vec<Completion>) {
        (**self).advance(now, completions);
    }

    fn energy(&self, now: Nanos) -> Option<f64> {
        (**self).energy(now)
    }
}

/// Runs requests through a device, each submitted at its arrival (ns, never decreasing), until all are completed.
///
/// `completed` gets the index of each request with its completion, in the order in which completions became certain. Requests in flight are
/// unbounded: what the device can't take yet waits in it.
///
/// Returns the time of the last completion, or 0 without requests.
pub fn run(
    device: &mut impl Device,
    requests: impl Iterator<Item = (Nanos, Request)>,
    mut completed: impl FnMut(usize, Completion),
) -> Nanos {
    let (mut completions, mut last) = (Vec::new(), 0);
    let mut report = |completions: &mut Vec<Completion>| {
        for completion in completions.drain(..) {
            last = last.max(completion.done);
            completed(completion.id.0 as usize, completion);
        }
    };
    for (at, (arrival, request)) in requests.enumerate() {
        device.advance(arrival, &mut completions);
        report(&mut completions);
        device.submit(arrival, Id(at as u64), request);
    }
    while let Some(next) = device.next_event() {
        device.advance(next, &mut completions);
        report(&mut completions);
    }
    last
}

/// Runs requests through a device at rest, each so long (ns) after the completion of the one before.
///
/// Returns the arrival and the completion of each; none if one didn't complete.
pub fn run_in_turn(
    device: &mut (impl Device + ?Sized),
    requests: impl Iterator<Item = (Nanos, Request)>,
) -> Option<Vec<(Nanos, Completion)>> {
    let (mut now, mut completions) = (0, Vec::new());
    let mut serve = |(think, request): (Nanos, Request)| {
        let arrival = now + think;
        device.advance(arrival, &mut completions);
        device.submit(arrival, Id(0), request);
        device.advance(arrival, &mut completions);
        while completions.is_empty() {
            device.advance(device.next_event()?, &mut completions);
        }
        let completion = completions.pop()?;
        now = completion.done;
        Some((arrival, completion))
    };
    requests.map(&mut serve).collect()
}
