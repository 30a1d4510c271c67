//! Requests with several in flight at a time, by the kernel's asynchronous I/O (io_submit(2)).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

use super::{Answer, Buffer, Op, Request, longest, now_ns};

/// Memory of all buffers together at most.
const MOST_BUFFERS_BYTES: u64 = 256 << 20;

/// struct iocb of linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct ControlBlock {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    descriptor: u32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_descriptor: u32,
}

/// struct io_event of linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    control_block: u64,
    result: i64,
    result2: i64,
}

/// An io_setup(2) context.
struct Context(libc::c_ulong);

impl Context {
    fn new(depth: usize) -> io::Result<Self> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the call stores the context.
        match unsafe { libc::syscall(libc::SYS_io_setup, depth as libc::c_long, &raw mut context) } {
            0 => Ok(Self(context)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // It waits for what is in flight, so that buffers may go after it.
        // SAFETY: a context of ours.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.0) };
    }
}

/// So many requests at a time: when one ends, the next starts.
pub(super) fn side_by_side(file: &File, requests: &[Request], depth: usize) -> io::Result<Vec<Answer>> {
    let length = longest(requests);
    if (length * depth) as u64 > MOST_BUFFERS_BYTES {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let depth = depth.min(requests.len());
    let mut buffers: Vec<_> = (0..depth).map(|_| Buffer::new(length)).collect();
    let mut blocks = vec![ControlBlock::default(); depth];
    let mut events = vec![Event::default(); depth];
    let mut answers = vec![Answer::default(); requests.len()];
    let context = Context::new(depth.max(1))?;
    let mut free: Vec<usize> = (0..depth).collect();
    let (mut next, mut done) = (0, 0);
    while done < requests.len() {
        while next < requests.len()
            && let Some(slot) = free.pop()
        {
            let request = requests[next];
            let opcode = match request.op {
                Op::Read => 0,
                Op::Write => 1,
                Op::Flush | Op::Trim => return Err(io::Error::from(io::ErrorKind::Unsupported)),
            };
            blocks[slot] = ControlBlock {
                data: (next as u64) << 16 | slot as u64,
                opcode,
                descriptor: file.as_raw_fd() as u32,
                buffer: buffers[slot].bytes().as_mut_ptr() as u64,
                length: request.length,
                offset: request.pos as i64,
                ..ControlBlock::default()
            };
            let mut list = [&raw mut blocks[slot]];
            answers[next].start_ns = now_ns();
            // SAFETY: one control block, whose buffer lives until the context is destroyed.
            if unsafe { libc::syscall(libc::SYS_io_submit, context.0, 1_i64, list.as_mut_ptr()) } != 1 {
                return Err(io::Error::last_os_error());
            }
            next += 1;
        }
        // SAFETY: room for so many events, no time limit.
        let found = unsafe {
            libc::syscall(
                libc::SYS_io_getevents,
                context.0,
                1_i64,
                depth as libc::c_long,
                events.as_mut_ptr(),
                std::ptr::null_mut::<libc::timespec>(),
            )
        };
        if found < 0 {
            let error = io::Error::last_os_error();
            if error.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(error);
        }
        let end_ns = now_ns();
        for event in &events[..found as usize] {
            let (at, slot) = ((event.data >> 16) as usize, (event.data & 0xffff) as usize);
            answers[at].end_ns = end_ns;
            answers[at].errno = match event.result {
                result if result < 0 => -result as i32,
                result if result as u64 == requests[at].length => 0,
                _ => libc::EIO,
            };
            free.push(slot);
            done += 1;
        }
    }
    drop(context);
    Ok(answers)
}
