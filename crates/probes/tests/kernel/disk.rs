//! Disk I/O, with both backends.

use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use iotrail_probes::{Backend, DiskOp, Op, Options, Scope};

use crate::loop_device::{Access, LoopDevice, access, access_by_ring, accesses, dev, open_direct};
use crate::{Recorded, backends, record};

const BYTES: u64 = 32 << 20;
const COUNT: u64 = 1009;

fn options(backend: Backend, disk: Scope) -> Options {
    Options { disk, backend: Some(backend), ..Options::default() }
}

/// As it was asked for, if it is one of a read or write.
fn asked(op: &DiskOp) -> Access {
    assert!(matches!(op.op, Op::Read | Op::Write), "{op:?}");
    Access { write: op.op == Op::Write, pos: op.pos, length: op.length }
}

/// A child has other tests' files open too, and may be the last to: then it discards their blocks.
fn ops_on<'a>(recorded: &'a Recorded, device: &LoopDevice) -> Vec<&'a DiskOp> {
    recorded.disk_ops().into_iter().filter(|op| op.dev == device.dev()).collect()
}

fn in_order(op: &DiskOp) -> bool {
    op.issued.is_some_and(|issued| op.queued <= issued) && op.issued <= op.completed
}

#[test]
fn direct_accesses_one_by_one() {
    for backend in backends() {
        let device = LoopDevice::new(BYTES);
        let wanted = accesses(COUNT, BYTES);
        let file = device.open_direct();
        let recorded = record(&options(backend, Scope::Targets), || access(&file, &wanted));
        let mut ops = ops_on(&recorded, &device);
        ops.sort_by_key(|op| op.queued);
        assert_eq!(ops.len(), COUNT as usize, "{backend:?}");
        assert!(ops.iter().map(|op| asked(op)).eq(wanted), "{backend:?}");
        for op in ops {
            assert!(in_order(op) && op.dev == device.dev() && op.pid == recorded.pid, "{backend:?} {op:?}");
            assert!(!op.merged && !op.failed && op.tid == op.pid && op.flags.sync, "{backend:?} {op:?}");
        }
    }
}

#[test]
fn direct_accesses_by_ring() {
    by_ring(1280);
}

/// Larger ones are cut, which io_uring may not wait for: the kernel queues them a second time.
#[test]
fn what_would_have_to_wait_is_counted_once() {
    by_ring(16);
}

fn by_ring(largest_request_kib: u32) {
    for backend in backends() {
        let device = LoopDevice::new(BYTES);
        device.set_largest_request(largest_request_kib);
        let mut wanted = accesses(COUNT, BYTES);
        let file = device.open_direct();
        let recorded = record(&options(backend, Scope::Targets), || access_by_ring(&file, &wanted).unwrap());
        let ops = ops_on(&recorded, &device);
        let mut found: Vec<_> = ops.iter().map(|op| asked(op)).collect();
        found.sort();
        wanted.sort();
        assert_eq!(found, wanted, "{backend:?}");
        assert!(ops.into_iter().all(|op| in_order(op) && !op.failed), "{backend:?}");
    }
}

#[test]
fn merged_writes_share_their_request() {
    for backend in backends() {
        let device = LoopDevice::new(BYTES);
        let file = OpenOptions::new().write(true).open(&device.path).unwrap();
        let recorded = record(&options(backend, Scope::All), || {
            for n in 0..COUNT {
                file.write_all_at(&[1; 4096], n * 4096).unwrap();
            }
            file.sync_data().unwrap();
        });
        let ops = ops_on(&recorded, &device);
        let (flushes, ops): (Vec<&DiskOp>, Vec<&DiskOp>) = ops.into_iter().partition(|op| op.op == Op::Flush);
        assert_eq!(ops.iter().map(|op| u64::from(op.length)).sum::<u64>(), COUNT * 4096, "{backend:?}");
        assert!(ops.iter().all(|op| in_order(op) && op.op == Op::Write), "{backend:?} {ops:?}");
        let (merged, alone): (Vec<&DiskOp>, Vec<&DiskOp>) = ops.into_iter().partition(|op| op.merged);
        assert!(!merged.is_empty(), "{backend:?}");
        assert!(alone.iter().all(|op| op.requests == 1), "{backend:?} {alone:?}");
        for op in merged {
            assert_eq!(op.requests, 0, "{backend:?} {op:?}");
            let joined = |other: &&&DiskOp| (other.issued, other.completed) == (op.issued, op.completed);
            assert_eq!(alone.iter().filter(joined).count(), 1, "{backend:?} {op:?}");
        }
        assert_eq!(flushes.len(), 1, "{backend:?} {flushes:?}");
        assert!(flushes[0].completed.is_some() && flushes[0].length == 0, "{backend:?} {flushes:?}");
    }
}

#[test]
fn a_large_access_is_one_for_all_its_requests() {
    for backend in backends() {
        let device = LoopDevice::new(BYTES);
        device.set_largest_request(16);
        let wanted: Vec<_> =
            (0..101).map(|n| Access { write: n % 2 == 0, pos: n * 131_072, length: 65536 }).collect();
        let file = device.open_direct();
        let recorded = record(&options(backend, Scope::Targets), || access(&file, &wanted));
        let mut ops = ops_on(&recorded, &device);
        ops.sort_by_key(|op| op.queued);
        assert!(ops.iter().map(|op| asked(op)).eq(wanted), "{backend:?}");
        assert!(ops.into_iter().all(|op| in_order(op) && op.requests == 4), "{backend:?}");
    }
}

#[test]
fn a_partition_is_part_of_its_disk() {
    const START: u64 = 2048 * 512;
    for backend in backends() {
        let device = LoopDevice::new(BYTES);
        let file = open_direct(&device.add_partition(START / 512, 16384));
        assert_ne!(dev(&file), device.dev());
        let wanted = accesses(101, 16384 * 512);
        let recorded = record(&options(backend, Scope::Targets), || access(&file, &wanted));
        let mut ops = ops_on(&recorded, &device);
        ops.sort_by_key(|op| op.queued);
        let moved = wanted.into_iter().map(|access| Access { pos: access.pos + START, ..access });
        assert!(ops.iter().map(|op| asked(op)).eq(moved), "{backend:?}");
        assert!(ops.into_iter().all(|op| in_order(op) && op.dev == device.dev()), "{backend:?}");
    }
}

#[test]
fn a_failed_read_says_so() {
    for backend in backends() {
        let device = LoopDevice::new(BYTES);
        let file = device.open_direct();
        device.shrink(BYTES / 2);
        let recorded = record(&options(backend, Scope::Targets), || {
            let mut memory = Box::new(crate::loop_device::Aligned([0; 1 << 16]));
            assert!(file.read_at(&mut memory.0[..4096], BYTES - 4096).is_err(), "fd {}", file.as_raw_fd());
        });
        let ops = ops_on(&recorded, &device);
        assert_eq!(ops.len(), 1, "{backend:?} {ops:?}");
        assert!(ops[0].failed && in_order(ops[0]), "{backend:?} {ops:?}");
    }
}
