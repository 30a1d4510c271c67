//! Requests through one io_uring: those of a recorded thread of a block trace, or drawn ones.

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use iotrail_format::call::{Call, CallKind};
use iotrail_format::segment::TextKind;
use iotrail_sdk::{attach, clock, post};

use crate::Error;
use crate::plan::Op;
use crate::run::{Buffer, Found, Mode, NAP, Shared, is_stopped, now, thread_cpu};

/// Shorter waits for the next request's time are spun: a timeout ends some tens of microseconds late.
const SPIN: i64 = 50_000;

/// Completions taken before what they make room for is submitted: a device that reports many at once would idle
/// meanwhile.
const BATCH: usize = 4;

/// Whether this system lets a program use io_uring.
pub(crate) fn available() -> Result<(), Error> {
    IoUring::new(2).map(drop).map_err(|error| {
        Error::place(
            format!("io_uring can't be used here: {error}"),
            "--engine psync needs none; sysctl kernel.io_uring_disabled says whether it is forbidden",
        )
    })
}

/// How long a request waits for another thread before it looks again, ns.
const LOOK_AGAIN: i64 = 20_000;

/// What a ring does next.
pub(crate) enum Next {
    /// Submit this operation.
    Submit(Op),
    /// Ask again after so many ns, or when a request returns.
    Wait(i64),
    /// Ask again when a request returns.
    WaitForRequest,
    /// Nothing: only requests in flight are left.
    End,
}

/// Where a ring gets its operations, and reports them.
pub(crate) trait Feed {
    /// What to do while so many requests are in flight.
    fn next(&mut self, in_flight: usize) -> Next;
    /// The operation that slot `slot` was given.
    fn submitted(&mut self, slot: usize, op: &Op);
    /// It returned `result`; or -1, with this error number.
    fn returned(&mut self, slot: usize, op: &Op, result: i64, errno: i32);
}

/// A request in flight: its operation, where it lies, and the counter at its start.
type Flight = Option<(Op, i64, u64)>;

/// Submits what a feed gives, at most as many at a time as there are buffers, each with one of its own.
pub(crate) fn drive(shared: &Shared<'_>, feed: &mut impl Feed, buffers: &mut [Buffer]) -> Result<(), String> {
    let depth = buffers.len();
    let entries = depth.next_power_of_two().max(2) as u32;
    let mut ring =
        IoUring::new(entries).map_err(|error| format!("no io_uring of {entries} entries: {error}"))?;
    let mut flights: Vec<Flight> = vec![None; depth];
    let mut free: Vec<usize> = (0..depth).rev().collect();
    let (mut ended, mut failed) = (false, None);
    while !ended || free.len() < depth {
        let mut timeout = None;
        while let (false, Some(slot)) = (ended, free.last().copied()) {
            let op = match feed.next(depth - free.len()) {
                Next::Submit(op) => op,
                Next::Wait(time) => {
                    timeout = Some(time.min(NAP));
                    break;
                }
                Next::WaitForRequest => break,
                Next::End => {
                    ended = true;
                    break;
                }
            };
            if op.call.kind() == CallKind::Read {
                failed = buffers[slot].grow(op.length.max(0) as usize).err();
                if failed.is_some() {
                    ended = true;
                    break;
                }
            }
            let pos = shared.place(&op);
            let entry = request(shared, &op, pos, buffers[slot].start).user_data(slot as u64);
            // SAFETY: the buffers outlive the ring, and none grows while it is used; the queue has room for `depth`
            // requests.
            if unsafe { ring.submission().push(&entry) }.is_err() {
                return Err("io_uring has no room for a request".into());
            }
            free.pop();
            feed.submitted(slot, &op);
            flights[slot] = Some((op, pos, clock::ticks()));
        }
        let submitted = match timeout {
            // Something is due before long: it is polled for.
            Some(left) if left < SPIN => ring.submit().map(drop),
            Some(left) => {
                let left = (left - SPIN / 2) as u64;
                let time = Timespec::new().sec(left / 1_000_000_000).nsec((left % 1_000_000_000) as u32);
                ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&time)).map(drop)
            }
            None => {
                let more = !ring.completion().is_empty();
                ring.submit_and_wait(usize::from(!more && free.len() < depth)).map(drop)
            }
        };
        if let Err(error) = submitted
            && !matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY))
        {
            return Err(format!("io_uring stopped: {error}"));
        }
        for done in ring.completion().take(BATCH) {
            let slot = done.user_data() as usize;
            let Some((op, pos, start)) = flights[slot].take() else { continue };
            let (result, errno) = match done.result() {
                failed @ ..0 => (-1, -failed),
                moved => (i64::from(moved), 0),
            };
            if shared.is_recorded {
                let draft = shared.draft(&op, shared.descriptor(op.handle), pos);
                post::completed(&draft, start, result, errno as u8);
            }
            feed.returned(slot, &op, result, errno);
            free.push(slot);
        }
    }
    failed.map_or(Ok(()), |error| Err(error.to_string()))
}

/// The operations of one recorded thread.
struct Recorded<'a> {
    shared: &'a Shared<'a>,
    number: usize,
    next: u32,
    /// Of each slot the index of its operation.
    indices: Vec<u32>,
    /// Whether the next operation is counted as one that broke the order.
    is_counted: bool,
    found: Found,
}

impl Feed for Recorded<'_> {
    fn next(&mut self, in_flight: usize) -> Next {
        let thread = self.shared.thread(self.number);
        let Some(op) = thread.ops.get(self.next as usize) else { return Next::End };
        if is_stopped() {
            self.found.interrupted_at = Some(op.start);
            return Next::End;
        }
        let timed = self.shared.options.mode == Mode::Timed;
        let scaled = (op.start as f64 * self.shared.options.scale) as i64;
        let late = now() - self.shared.zero - if timed { scaled } else { 0 };
        if late < 0 {
            return Next::Wait(-late);
        }
        let (_, data) = self.shared.waits(op);
        if !self.shared.are_done(data) {
            if timed {
                // Of this ring's own it hears; of another thread's it has to ask.
                let own = data.iter().all(|wait| wait.thread as usize == self.number);
                return if own && in_flight > 0 { Next::WaitForRequest } else { Next::Wait(LOOK_AGAIN) };
            }
            self.found.order_broken += u64::from(!std::mem::replace(&mut self.is_counted, true));
        }
        if timed {
            self.found.late.add(late);
        }
        Next::Submit(*op)
    }

    fn submitted(&mut self, slot: usize, _: &Op) {
        self.indices[slot] = self.next;
        self.next += 1;
        self.is_counted = false;
    }

    fn returned(&mut self, slot: usize, _: &Op, _: i64, _: i32) {
        self.found.done();
        self.shared.progress[self.number].advance(self.indices[slot]);
    }
}

/// Replays one thread of a block trace.
pub(crate) fn replay(shared: &Shared<'_>, number: usize, buffers: &mut [Buffer]) -> Found {
    attach::thread_began(clock::ticks());
    post::text(TextKind::ThreadName, 0, shared.thread(number).id.to_string().as_bytes());
    let indices = vec![0; buffers.len()];
    let mut feed = Recorded { shared, number, next: 0, indices, is_counted: false, found: Found::default() };
    feed.found.stopped = drive(shared, &mut feed, buffers).err();
    attach::thread_ends();
    feed.found.cpu = thread_cpu();
    feed.found
}

fn request(shared: &Shared<'_>, op: &Op, pos: i64, into: *mut u8) -> squeue::Entry {
    let fd = Fd(shared.descriptor(op.handle));
    let (offset, length) = (pos.max(0) as u64, op.length.max(0));
    match op.call.kind() {
        CallKind::Read => opcode::Read::new(fd, into, length as u32).offset(offset).build(),
        CallKind::Write => {
            opcode::Write::new(fd, shared.noise_at(pos.max(0)), length as u32).offset(offset).build()
        }
        _ if op.call == Call::Fallocate => {
            opcode::Fallocate::new(fd, length as u64).offset(offset).mode(op.flags).build()
        }
        _ => {
            let flags = if op.call == Call::Fdatasync { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
            opcode::Fsync::new(fd).flags(flags).build()
        }
    }
}
