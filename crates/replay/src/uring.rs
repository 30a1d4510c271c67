//! Requests of a block trace through one io_uring for each recorded thread.

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use iotrail_format::call::{Call, CallKind};
use iotrail_format::segment::TextKind;
use iotrail_sdk::{attach, clock, post};

use crate::Error;
use crate::plan::Op;
use crate::run::{Buffer, Found, Mode, NAP, PAGE, Shared, is_stopped, now, thread_cpu};

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

/// How long a request waits for another thread's before it looks again, ns.
const LOOK_AGAIN: i64 = 20_000;

/// A request under way: its operation and its index, where it lies, and the counter at its start.
type Flight<'a> = Option<(&'a Op, u32, i64, u64)>;

/// Bytes from one request's buffer to the next, of reads up to this long.
pub(crate) fn stride(longest: usize) -> usize {
    longest.max(1).next_multiple_of(PAGE)
}

/// Replays one thread of a block trace, at most `depth` requests at a time, each with its `stride` of the buffer.
pub(crate) fn replay(
    shared: &Shared<'_>,
    number: usize,
    depth: usize,
    buffer: &Buffer,
    stride: usize,
) -> Found {
    let thread = shared.thread(number);
    attach::thread_began(clock::ticks());
    post::text(TextKind::ThreadName, 0, thread.id.to_string().as_bytes());
    let mut found = Found::default();
    let entries = depth.next_power_of_two().max(2) as u32;
    let mut ring = match IoUring::new(entries) {
        Ok(ring) => ring,
        Err(error) => {
            found.stopped = Some(format!("no io_uring of {entries} entries: {error}"));
            return found;
        }
    };
    let timed = shared.options.mode == Mode::Timed;
    let mut flights: Vec<Flight<'_>> = vec![None; depth];
    let mut free: Vec<usize> = (0..depth).rev().collect();
    let mut ops = thread.ops.iter().zip(0u32..).peekable();
    let due_of = |op: &Op| shared.zero + (op.start as f64 * shared.options.scale) as i64;

    let mut is_counted = false;
    while ops.peek().is_some() || free.len() < depth {
        if is_stopped()
            && let Some((op, _)) = ops.peek()
        {
            found.interrupted_at = Some(op.start);
            ops = [].iter().zip(0u32..).peekable();
            continue;
        }
        let mut wait = true;
        let mut timeout = None;
        while let (Some((op, index)), Some(slot)) = (ops.peek().copied(), free.last().copied()) {
            let due = if timed { due_of(op) } else { shared.zero };
            let late = now() - due;
            if late < 0 {
                timeout = Some((-late).min(NAP));
                break;
            }
            let (_, data) = shared.waits(op);
            if !shared.are_done(data) {
                if timed {
                    // Of this ring's own it hears; of another thread's it has to ask.
                    wait = free.len() < depth && data.iter().all(|wait| wait.thread as usize == number);
                    timeout = (!wait).then_some(LOOK_AGAIN);
                    break;
                }
                found.order_broken += u64::from(!std::mem::replace(&mut is_counted, true));
            }
            if timed {
                found.late(late);
            }
            let pos = shared.place(op);
            // SAFETY: the buffer has `depth` strides.
            let into = unsafe { buffer.start.add(slot * stride) };
            let entry = request(shared, op, pos, into).user_data(slot as u64);
            // SAFETY: the buffers outlive the ring; the queue has room for `depth` requests.
            if unsafe { ring.submission().push(&entry) }.is_err() {
                break;
            }
            ops.next();
            is_counted = false;
            free.pop();
            flights[slot] = Some((op, index, pos, clock::ticks()));
            wait = free.is_empty() || ops.peek().is_none();
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
                ring.submit_and_wait(usize::from(wait && !more && free.len() < depth)).map(drop)
            }
        };
        if let Err(error) = submitted
            && !matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY))
        {
            found.stopped = Some(format!("io_uring stopped: {error}"));
            break;
        }
        for done in ring.completion().take(BATCH) {
            let slot = done.user_data() as usize;
            let Some((op, index, pos, start)) = flights[slot].take() else { continue };
            let (result, errno) = match done.result() {
                failed @ ..0 => (-1, -failed),
                moved => (i64::from(moved), 0),
            };
            post::completed(&shared.draft(op, shared.descriptor(op.handle), pos), start, result, errno as u8);
            found.done();
            shared.progress[number].advance(index);
            free.push(slot);
        }
    }
    attach::thread_ends();
    found.cpu = thread_cpu();
    found
}

fn request(shared: &Shared<'_>, op: &Op, pos: i64, into: *mut u8) -> squeue::Entry {
    let fd = Fd(shared.descriptor(op.handle));
    let length = op.length.max(0) as u32;
    match op.call.kind() {
        CallKind::Read => opcode::Read::new(fd, into, length).offset(pos.max(0) as u64).build(),
        CallKind::Write => {
            opcode::Write::new(fd, shared.noise_at(pos.max(0)), length).offset(pos.max(0) as u64).build()
        }
        _ => {
            let flags = if op.call == Call::Fdatasync { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
            opcode::Fsync::new(fd).flags(flags).build()
        }
    }
}
