//! The records of bpf/records.h, as bytes, to events.

use std::collections::BTreeMap;

use crate::events::{
    Change, CpuSlice, Dev, DiskOp, Event, Flags, Left, Op, Opened, Process, Syscall, UringOp, Wake, What,
    text,
};

// enum kind
const DISK_OP: u32 = 1;
const CPU_SLICE: u32 = 2;
const SYSCALL: u32 = 3;
const SYSCALL_PATH: u32 = 4;
const URING_OP: u32 = 5;
const PROCESS: u32 = 6;
const PROCESS_TEXT: u32 = 7;
const WAKE: u32 = 8;

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
            WAKE => wake(fields).map(Event::Wake),
            SYSCALL => syscall(fields).map(|call| Event::Syscall(self.with_paths(call))),
            URING_OP => uring_op(fields).map(Event::UringOp),
            PROCESS => self.process(fields).map(Event::Process),
            SYSCALL_PATH | PROCESS_TEXT => {
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

    /// What was kept for what a thread began then.
    fn kept(&mut self, tid: u32, start: u64) -> [Option<Vec<u8>>; 2] {
        self.paths.remove(&tid).filter(|kept| kept.start == start).map(|kept| kept.paths).unwrap_or_default()
    }

    fn with_paths(&mut self, mut call: Syscall) -> Syscall {
        [call.path, call.path2] = self.kept(call.tid, call.start);
        call
    }

    fn process(&mut self, mut fields: Fields) -> Option<Process> {
        let (what, time, pid, tid) = (fields.u32()?, fields.u64()?, fields.u32()?, fields.u32()?);
        let (parent, status) = (fields.u32()?, fields.u32()? as i32);
        // enum process_event
        let change = match what {
            1 => Change::Forked { parent },
            2 => {
                let [file, arguments] = self.kept(tid, time);
                Change::Executed { file, arguments }
            }
            3 => Change::LoadsRecorder,
            4 => Change::HasRecorder,
            5 => Change::Ended { status },
            _ => return None,
        };
        Some(Process { time, pid, change })
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
    let requests = fields.u32()?;
    let (issued, completed) = (time(issued), time(completed));
    let comm = text(&comm);
    Some(DiskOp {
        queued,
        issued,
        completed,
        dev,
        op,
        pos,
        length,
        flags,
        merged,
        requests,
        failed,
        pid,
        tid,
        comm,
    })
}

fn cpu_slice(mut fields: Fields) -> Option<CpuSlice> {
    let (cpu, start, end) = (fields.u32()?, fields.u64()?, fields.u64()?);
    let (pid, tid) = (fields.u32()?, fields.u32()?);
    let left = left(fields.u32()?, fields.u32()? != 0);
    Some(CpuSlice { start, end, cpu, pid, tid, left })
}

fn wake(mut fields: Fields) -> Option<Wake> {
    let (interrupt, time) = (fields.u32()? != 0, fields.u64()?);
    let (pid, tid) = (fields.u32()?, fields.u32()?);
    let by = (fields.u32()?, fields.u32()?);
    Some(Wake { time, pid, tid, interrupt, by })
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
    // In the map of threads: the one that it was in last.
    let (nr, start, end) = (fields.u32()?, time(fields.u64()?)?, time(fields.u64()?));
    let (pid, tid) = (fields.u32()?, fields.u32()?);
    let mut args = [0; 6];
    for arg in &mut args {
        *arg = fields.u64()?;
    }
    let ret = fields.u64()? as i64;
    let (before, after, told) = (fields.u64()? as i64, fields.u64()? as i64, fields.u64()? as i64);
    let (foreign, _) = (fields.u32()? != 0, fields.u32()?);
    let opened = [opened(&mut fields)?, opened(&mut fields)?];
    let moved = u64::try_from(before).ok().zip(u64::try_from(after).ok());
    let told = u64::try_from(told).ok();
    let (path, path2) = (None, None);
    Some(Syscall { start, end, pid, tid, nr, args, ret, path, path2, opened, moved, told, foreign })
}

/// None inside: nothing.
fn opened(fields: &mut Fields) -> Option<Option<Opened>> {
    let (id, inode, dev, what) = (fields.u64()?, fields.u64()?, fields.u32()?, fields.u32()?);
    const APPENDS: u32 = 0x100;
    let append = what & APPENDS != 0;
    let dev = Dev::from_kernel(dev);
    // enum what
    let what = match what & 0xff {
        1 => What::Pipe,
        2 => What::Socket,
        3 => What::Terminal,
        4 => What::Event,
        _ => What::File,
    };
    Some((id != 0).then_some(Opened { id, inode, dev, what, append }))
}

fn uring_op(mut fields: Fields) -> Option<UringOp> {
    const DATA_ONLY: u32 = 0x100;
    let opcode = fields.u32()?;
    let (opcode, data_only) = (opcode as u8, opcode & DATA_ONLY != 0);
    let (submitted, completed, user_data) = (fields.u64()?, time(fields.u64()?), fields.u64()?);
    let (pos, length) = (fields.u64()? as i64, fields.u64()? as i64);
    let (fd, result, pid, tid) = (fields.u32()? as i32, fields.u32()? as i32, fields.u32()?, fields.u32()?);
    let (pos, length) = (u64::try_from(pos).ok(), u64::try_from(length).ok());
    let fd = (fd >= 0).then_some(fd);
    let opened = opened(&mut fields)?;
    Some(UringOp {
        submitted,
        completed,
        opcode,
        data_only,
        fd,
        pos,
        length,
        result,
        user_data,
        pid,
        tid,
        opened,
    })
}

/// 0 stands for what did not happen.
fn time(ns: u64) -> Option<u64> {
    (ns != 0).then_some(ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Records of Linux 6.18: `dd` reading 64 KiB past the cache, `sh`, `mv`, fio with io_uring.
    const READ: &str = "010000000000e00f5a5403a24d0e0000479b03a24d0e0000376c07a24d0e0000000080872f0000000000010001000000\
        0000000000000000000000003a5000003a5000006464000000000000000000000000000001000000";
    const SLICE: &str = "0200000000000000dbbc10a14d0e0000b0831fa14d0e000037500000375000000221000000000000";
    const FROM: &str = "040000000000000066a8d0a14d0e000039500000395000002f746d702f70742e696d67";
    const TO: &str = "040000000100000066a8d0a14d0e000039500000395000002f746d702f7074322e696d67";
    const RENAME: &str = "030000003c01000066a8d0a14d0e0000a378d1a14d0e000039500000395000009cffffff00000000620a2aabff7f0000\
        9cffffff000000006e0a2aabff7f0000010000000000000000000000000000000000000000000000\
        ffffffffffffffffffffffffffffffffffffffffffffffff0000000000000000\
        000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000";
    const RING: &str = "0500000016000000dd3cb78e4e0e00004cc1d48f4e0e0000c0f03b1cfd5500000000000000000000001000000000000007000000\
        00100000d4500000d4500000\
        80cd0c07819cffff0c000000000000000000000700000000";

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn decode(hex: &str) -> Option<Event> {
        Decoder::default().decode(&bytes(hex))
    }

    #[test]
    fn a_disk_op() {
        let wanted = DiskOp {
            queued: 15_726_593_397_850,
            issued: Some(15_726_593_416_007),
            completed: Some(15_726_593_666_103),
            dev: Dev { major: 254, minor: 0 },
            op: Op::Read,
            pos: 204_136_775_680,
            length: 65536,
            flags: Flags { sync: true, ..Flags::default() },
            merged: false,
            requests: 1,
            failed: false,
            pid: 20538,
            tid: 20538,
            comm: "dd".to_owned(),
        };
        assert_eq!(decode(READ), Some(Event::DiskOp(wanted)));
    }

    #[test]
    fn a_slice() {
        let (start, end) = (15_726_577_499_355, 15_726_578_467_760);
        let wanted = CpuSlice { start, end, cpu: 0, pid: 20535, tid: 20535, left: Left::Disk };
        assert_eq!(decode(SLICE), Some(Event::CpuSlice(wanted)));
    }

    #[test]
    fn states() {
        assert_eq!(left(0, false), Left::Runnable);
        assert_eq!(left(1, true), Left::Runnable, "on its way to sleep, but it was made to go");
        assert_eq!(left(0x1, false), Left::Sleep);
        assert_eq!(left(0x402, false), Left::Sleep, "TASK_IDLE");
        assert_eq!(left(0x102, false), Left::Disk, "TASK_KILLABLE");
        assert_eq!(left(0x4, false), Left::Sleep, "stopped");
        assert_eq!(left(0x80, false), Left::Ended);
    }

    #[test]
    fn a_call_gets_its_paths() {
        let mut decoder = Decoder::default();
        assert_eq!(decoder.decode(&bytes(FROM)), None);
        assert_eq!(decoder.decode(&bytes(TO)), None);
        let Some(Event::Syscall(call)) = decoder.decode(&bytes(RENAME)) else { panic!() };
        assert_eq!(
            (call.path.unwrap(), call.path2.unwrap()),
            (b"/tmp/pt.img".into(), b"/tmp/pt2.img".into())
        );
        assert_eq!((call.nr, call.pid, call.tid, call.ret), (316, 20537, 20537, 0));
        assert_eq!((call.start, call.end), (15_726_590_077_030, Some(15_726_590_130_339)));
        assert_eq!(call.args, [0xffff_ff9c, 0x7fff_ab2a_0a62, 0xffff_ff9c, 0x7fff_ab2a_0a6e, 1, 0]);
        assert_eq!((call.opened, call.moved, call.told, call.foreign), ([None, None], None, None, false));
        assert!(decoder.paths.is_empty());
    }

    #[test]
    fn a_read_with_what_it_read() {
        // As the rename's, but for what is said of its first descriptor.
        let moved = "0d000000000000001e00000000000000ffffffffffffffff0100000000000000";
        let opened = "80cd0c07819cffff0c000000000000000200100003010000";
        let start = RENAME.len() - 2 * (48 + 32);
        let read = format!("{}{moved}{opened}{}", &RENAME[..start], "0".repeat(48));
        let Some(Event::Syscall(call)) = decode(&read) else { panic!() };
        assert_eq!((call.moved, call.foreign, call.opened[1]), (Some((13, 30)), true, None));
        let dev = Dev { major: 1, minor: 2 };
        let (what, append) = (What::Terminal, true);
        let opened = Opened { id: 0xffff_9c81_070c_cd80, inode: 12, dev, what, append };
        assert_eq!(call.opened[0], Some(opened));
    }

    #[test]
    fn a_process_with_its_texts() {
        let mut decoder = Decoder::default();
        let head = "66a8d0a14d0e00003950000039500000";
        decoder.decode(&bytes(&format!("0700000000000000{head}2f62696e2f6d76")));
        decoder.decode(&bytes(&format!("0700000001000000{head}6d760061620000")));
        let record = |what: &str, rest: &str| bytes(&format!("06000000{what}{head}{rest}"));
        let change = |decoder: &mut Decoder, what, rest| match decoder.decode(&record(what, rest)) {
            Some(Event::Process(Process { time: 15_726_590_077_030, pid: 20537, change })) => change,
            other => panic!("{other:?}"),
        };
        let (file, arguments) = (Some(b"/bin/mv".to_vec()), Some(b"mv\0ab\0\0".to_vec()));
        assert_eq!(
            change(&mut decoder, "02000000", "0000000000000000"),
            Change::Executed { file, arguments }
        );
        assert_eq!(change(&mut decoder, "01000000", "0700000000000000"), Change::Forked { parent: 7 });
        assert_eq!(change(&mut decoder, "03000000", "0000000000000000"), Change::LoadsRecorder);
        assert_eq!(change(&mut decoder, "04000000", "0000000000000000"), Change::HasRecorder);
        assert_eq!(change(&mut decoder, "05000000", "0000000000030000"), Change::Ended { status: 768 });
    }

    #[test]
    fn paths_of_a_dropped_call_are_not_the_next_ones() {
        let mut decoder = Decoder::default();
        decoder.decode(&bytes(FROM));
        let mut later = bytes(RENAME);
        later[8] += 1;
        let Some(Event::Syscall(call)) = decoder.decode(&later) else { panic!() };
        assert_eq!((call.path, call.path2), (None, None));
    }

    #[test]
    fn waiting_paths_are_bounded() {
        let mut decoder = Decoder::default();
        let mut record = bytes(FROM);
        for tid in 0..=MOST_WAITING as u32 {
            record[20..24].copy_from_slice(&tid.to_ne_bytes());
            decoder.decode(&record);
        }
        assert_eq!(decoder.paths.len(), MOST_WAITING);
    }

    #[test]
    fn a_request_on_a_ring() {
        let wanted = UringOp {
            submitted: 15_730_564_611_293,
            completed: Some(15_730_583_322_956),
            opcode: 22,
            data_only: false,
            fd: Some(7),
            pos: Some(0),
            length: Some(4096),
            result: 4096,
            user_data: 0x55fd_1c3b_f0c0,
            pid: 20692,
            tid: 20692,
            opened: Some(Opened {
                id: 0xffff_9c81_070c_cd80,
                inode: 12,
                dev: Dev { major: 0x70, minor: 0 },
                what: What::File,
                append: false,
            }),
        };
        assert_eq!(decode(RING), Some(Event::UringOp(wanted)));
    }

    #[test]
    fn unknown_and_cut_off() {
        assert_eq!(decode("09000000"), None);
        let in_no_call = RENAME.replacen("66a8d0a14d0e0000", "0000000000000000", 1);
        assert_eq!(decode(&in_no_call), None);
        assert_eq!(decode(""), None);
        for hex in [READ, SLICE, RENAME, RING] {
            assert_eq!(decode(&hex[..hex.len() - 2]), None, "{hex}");
        }
    }
}
