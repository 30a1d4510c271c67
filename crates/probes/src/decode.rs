//! The records of bpf/records.h, as bytes, to events.

use std::collections::BTreeMap;

use crate::events::{CpuSlice, Dev, DiskOp, Event, Flags, Left, Op, Syscall, UringOp, text};

// enum kind
const DISK_OP: u32 = 1;
const CPU_SLICE: u32 = 2;
const SYSCALL: u32 = 3;
const SYSCALL_PATH: u32 = 4;
const URING_OP: u32 = 5;

/// Threads of which paths are kept until their call comes. More only if many calls were dropped.
const MOST_WAITING: usize = 1 << 14;

/// Joins calls with their paths; everything else is a record an event.
#[derive(Default)]
pub struct Decoder {
    /// By thread: those of the call it is in.
    paths: BTreeMap<u32, Paths>,
}

#[derive(Default)]
struct Paths {
    /// When the call started.
    start: u64,
    paths: [Option<Vec<u8>>; 2],
}

impl Decoder {
    /// The event a record is, if it is one by itself.
    pub fn decode(&mut self, record: &[u8]) -> Option<Event> {
        let mut fields = Fields(record);
        match fields.u32()? {
            DISK_OP => disk_op(fields).map(Event::DiskOp),
            CPU_SLICE => cpu_slice(fields).map(Event::CpuSlice),
            SYSCALL => syscall(fields).map(|call| Event::Syscall(self.with_paths(call))),
            URING_OP => uring_op(fields).map(Event::UringOp),
            SYSCALL_PATH => {
                self.keep_path(fields);
                None
            }
            _ => None,
        }
    }

    fn keep_path(&mut self, mut fields: Fields) -> Option<()> {
        let (which, start, _pid, tid) = (fields.u32()?, fields.u64()?, fields.u32()?, fields.u32()?);
        if self.paths.len() == MOST_WAITING {
            self.paths.pop_first();
        }
        let kept = self.paths.entry(tid).or_default();
        if kept.start != start {
            *kept = Paths { start, paths: [None, None] };
        }
        *kept.paths.get_mut(which as usize)? = Some(fields.0.to_vec());
        Some(())
    }

    fn with_paths(&mut self, mut call: Syscall) -> Syscall {
        if let Some(Paths { start, paths: [first, second] }) = self.paths.remove(&call.tid)
            && start == call.start
        {
            (call.path, call.path2) = (first, second);
        }
        call
    }
}

/// Takes fields off the front.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }
}

fn disk_op(mut fields: Fields) -> Option<DiskOp> {
    let dev = Dev::from_kernel(fields.u32()?);
    let (queued, issued, completed) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (pos, length, flags, op) = (fields.u64()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let (merged, failed) = (fields.u32()? != 0, fields.u32()? != 0);
    let flags = Flags {
        sync: flags & 1 != 0,
        meta: flags & 2 != 0,
        fua: flags & 4 != 0,
        preflush: flags & 8 != 0,
        rahead: flags & 16 != 0,
    };
    let op = match op {
        0 => Op::Read,
        // How a flush is asked for (blkdev_issue_flush).
        1 if length == 0 => Op::Flush,
        1 => Op::Write,
        2 => Op::Flush,
        3 => Op::Discard,
        5 => Op::SecureErase,
        _ => Op::Other,
    };
    let (pid, tid, comm) = (fields.u32()?, fields.u32()?, fields.array::<16>()?);
    let (issued, completed) = (time(issued), time(completed));
    let comm = text(&comm);
    Some(DiskOp { queued, issued, completed, dev, op, pos, length, flags, merged, failed, pid, tid, comm })
}

fn cpu_slice(mut fields: Fields) -> Option<CpuSlice> {
    let (cpu, start, end) = (fields.u32()?, fields.u64()?, fields.u64()?);
    let (pid, tid) = (fields.u32()?, fields.u32()?);
    let left = left(fields.u32()?, fields.u32()? != 0);
    Some(CpuSlice { start, end, cpu, pid, tid, left })
}

/// From a task's state bits (include/linux/sched.h).
fn left(state: u32, preempted: bool) -> Left {
    const UNINTERRUPTIBLE: u32 = 0x2;
    const ENDED: u32 = 0x10 | 0x20 | 0x80; // EXIT_DEAD, EXIT_ZOMBIE, TASK_DEAD
    const NOLOAD: u32 = 0x400; // a kernel thread with nothing to do
    match state {
        _ if preempted => Left::Runnable,
        0 => Left::Runnable,
        _ if state & ENDED != 0 => Left::Ended,
        _ if state & (UNINTERRUPTIBLE | NOLOAD) == UNINTERRUPTIBLE => Left::Disk,
        _ => Left::Sleep,
    }
}

fn syscall(mut fields: Fields) -> Option<Syscall> {
    let (nr, start, end) = (fields.u32()?, fields.u64()?, time(fields.u64()?));
    let (pid, tid) = (fields.u32()?, fields.u32()?);
    let mut args = [0; 6];
    for arg in &mut args {
        *arg = fields.u64()?;
    }
    Some(Syscall { start, end, pid, tid, nr, args, ret: fields.u64()? as i64, path: None, path2: None })
}

fn uring_op(mut fields: Fields) -> Option<UringOp> {
    let opcode = fields.u32()? as u8;
    let (submitted, completed, user_data) = (fields.u64()?, time(fields.u64()?), fields.u64()?);
    let (pos, length) = (fields.u64()? as i64, fields.u64()? as i64);
    let (fd, result, pid, tid) = (fields.u32()? as i32, fields.u32()? as i32, fields.u32()?, fields.u32()?);
    let (pos, length) = (u64::try_from(pos).ok(), u64::try_from(length).ok());
    let fd = (fd >= 0).then_some(fd);
    Some(UringOp { submitted, completed, opcode, fd, pos, length, result, user_data, pid, tid })
}

/// 0 stands for what did not happen.
fn time(ns: u64) -> Option<u64> {
    (ns != 0).then_some(ns)
}
