//! A program's side of a segment, written by the layout's drawing and nothing else: what the sealer
//! is tested and measured against. It writes the file by system calls, one field at a time, so that
//! a test can stop it between any two steps.

#![allow(dead_code, reason = "each user needs another part")]

use core::mem::offset_of;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use iotrail_format::call::Call;
use iotrail_format::ids::{ProcessId, ThreadId};
use iotrail_format::segment::*;

/// A slot as eight words.
pub type Unit = [u64; 8];

/// A segment that a test writes.
pub struct Producer {
    file: File,
    pub process: i64,
    capacity: u64,
}

impl Producer {
    /// Makes the segment of process `pid` with `rings` live rings of `capacity` slots.
    pub fn create(session: &Path, pid: u32, start: u64, rings: usize, capacity: u64) -> Self {
        let path = session.join(format!("{SEGMENT_PREFIX}{pid:08x}-{start:016x}"));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path).unwrap();
        let process = ProcessId::new(pid, start).0;
        let producer = Self { file, process, capacity };
        producer.file.set_len(producer.header(rings) as u64).unwrap();
        producer.put(offset_of!(SegmentHeader, version), u64::from(SEGMENT_VERSION) | u64::from(pid) << 32);
        producer.put(offset_of!(SegmentHeader, start_ticks), start);
        producer.put(offset_of!(SegmentHeader, exit_status), u64::MAX);
        for field in [offset_of!(SegmentHeader, user_ns), offset_of!(SegmentHeader, system_ns)] {
            producer.put(field, u64::MAX);
        }
        for ring in 0..rings {
            let header = producer.header(ring);
            let tid = pid + ring as u32;
            producer.put(header + offset_of!(RingHeader, thread), producer.thread(ring) as u64);
            producer.put(header + offset_of!(RingHeader, start_ticks), start);
            producer
                .put(header + offset_of!(RingHeader, state), RingState::Live as u64 | u64::from(tid) << 32);
            producer.put(PAGE + ring * 16 + 8, capacity);
            producer.put(PAGE + ring * 16, header as u64);
        }
        producer.put(offset_of!(SegmentHeader, ring_count), rings as u64);
        producer.put(offset_of!(SegmentHeader, magic), SEGMENT_MAGIC);
        producer
    }

    /// The thread of a ring.
    pub fn thread(&self, ring: usize) -> i64 {
        ThreadId::new(ProcessId(self.process), ring as u32, 1).0
    }

    fn header(&self, ring: usize) -> usize {
        RINGS_START + ring * (PAGE + (self.capacity as usize * 64).next_multiple_of(PAGE))
    }

    /// Where the header of a ring stands.
    pub fn ring_at(&self, ring: usize) -> usize {
        self.header(ring)
    }

    /// Writes any word anywhere, as a program that goes wrong may.
    pub fn scribble(&self, offset: usize, value: u64) {
        self.put(offset, value);
    }

    /// Cuts the file.
    pub fn truncate(&self, bytes: u64) {
        self.file.set_len(bytes).unwrap();
    }

    /// Bytes of the segment.
    pub fn bytes(&self) -> usize {
        self.file.metadata().unwrap().len() as usize
    }

    fn put(&self, offset: usize, value: u64) {
        self.file.write_all_at(&value.to_le_bytes(), offset as u64).unwrap();
    }

    fn get(&self, offset: usize) -> u64 {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, offset as u64).unwrap();
        u64::from_le_bytes(bytes)
    }

    /// Reserves a slot; none if the ring is full.
    pub fn reserve(&self, ring: usize) -> Option<u64> {
        let at = self.header(ring) + offset_of!(RingHeader, reserved);
        let position = self.get(at);
        if position.wrapping_sub(self.tail(ring)) >= self.capacity {
            return None;
        }
        self.put(at, position + 1);
        Some(position)
    }

    /// What the sealer gave back so far.
    pub fn tail(&self, ring: usize) -> u64 {
        self.get(self.header(ring) + offset_of!(RingHeader, tail))
    }

    /// Fills a reserved slot, its opcode last.
    pub fn fill(&self, ring: usize, position: u64, unit: &Unit) {
        let at = self.header(ring) + PAGE + (position % self.capacity) as usize * 64;
        for (index, word) in unit.iter().enumerate().rev() {
            self.put(at + index * 8, *word);
        }
    }

    /// Posts a record; false if the ring is full.
    pub fn post(&self, ring: usize, unit: &Unit) -> bool {
        let position = self.reserve(ring);
        position.inspect(|position| self.fill(ring, *position, unit)).is_some()
    }

    /// Fills a whole ring at once.
    pub fn fill_ring(&self, ring: usize, units: impl Iterator<Item = Unit>) {
        let bytes: Vec<u8> =
            units.take(self.capacity as usize).flatten().flat_map(u64::to_le_bytes).collect();
        self.file.write_all_at(&bytes, (self.header(ring) + PAGE) as u64).unwrap();
        let at = self.header(ring) + offset_of!(RingHeader, reserved);
        self.put(at, self.tail(ring) + self.capacity);
    }

    /// Puts a call in flight.
    pub fn begin(&self, ring: usize, depth: usize, unit: &Unit) {
        let header = self.header(ring);
        for (index, word) in unit.iter().enumerate() {
            self.put(header + offset_of!(RingHeader, inflight) + depth * 64 + index * 8, *word);
        }
        self.put(header + offset_of!(RingHeader, depth), depth as u64 + 1);
    }

    /// Gives a live ring to another thread of the process; 0 to its announcements.
    pub fn give(&self, ring: usize, tid: u32) {
        let state = self.header(ring) + offset_of!(RingHeader, state);
        self.put(state, RingState::Live as u64 | u64::from(tid) << 32);
    }

    /// The thread of `left` goes on in another live ring, its second.
    pub fn move_on(&self, left: usize, to: usize) {
        self.put(self.header(to) + offset_of!(RingHeader, thread), self.thread(left) as u64);
        self.put(self.header(to) + offset_of!(RingHeader, depth), 2 << 32);
        self.close(left, 0);
    }

    /// The thread of a ring ends.
    pub fn close(&self, ring: usize, end: u64) {
        let header = self.header(ring);
        self.put(header + offset_of!(RingHeader, end_ticks), end);
        let state = header + offset_of!(RingHeader, state);
        self.put(state, self.get(state) & !0xffff_ffff | RingState::Closed as u64);
    }

    /// State of a ring.
    pub fn state(&self, ring: usize) -> u32 {
        self.get(self.header(ring) + offset_of!(RingHeader, state)) as u32
    }

    /// The image says that it exits.
    pub fn exit(&self, status: i32, end: u64) {
        self.put(offset_of!(SegmentHeader, end_ticks), end);
        let at = offset_of!(SegmentHeader, exit_status);
        self.put(at, self.get(at) & !0xffff_ffff | u64::from(status as u32));
        let at = offset_of!(SegmentHeader, state) & !7;
        let shift = 8 * (offset_of!(SegmentHeader, state) % 8);
        self.put(at, self.get(at) & !(0xffff_ffff << shift) | (ProcessState::Exited as u64) << shift);
    }
}

/// A pread of 4 KiB.
pub fn pread(file: i64, pos: i64, start: u64, dur: u64) -> Unit {
    call(Call::Pread, 0, 3, [start, dur, file as u64, pos as u64, 4096, 4096, NONE as u64])
}

/// Any call.
pub fn call(call: Call, kind: u8, fd: i32, rest: [u64; 7]) -> Unit {
    let first = call as u64 | u64::from(kind) << 16 | u64::from(fd as u32) << 32;
    let [start, dur, object, pos, length, result, aux] = rest;
    [first, start, dur, object, pos, length, result, aux]
}

/// A text in parts.
pub fn text(kind: TextKind, key: i64, text: &[u8]) -> Vec<Unit> {
    text.chunks(TEXT_BYTES)
        .enumerate()
        .map(|(part, chunk)| {
            let mut unit = [0; 8];
            unit[0] = u64::from(OP_TEXT)
                | u64::from(kind as u8) << 16
                | (part as u64) << 32
                | (text.len() as u64) << 48;
            unit[1] = key as u64;
            let mut bytes = chunk.to_vec();
            bytes.resize(TEXT_BYTES, 0);
            for (word, bytes) in unit[2..].iter_mut().zip(bytes.chunks(8)) {
                *word = u64::from_le_bytes(bytes.try_into().unwrap());
            }
            unit
        })
        .collect()
}

/// A pid that no process has: beyond the kernel's largest (PID_MAX_LIMIT is 2^22).
pub const NOBODY: u32 = 1 << 23;
