//! What later rows still need, written down as events.

use std::collections::HashSet;

use iotrail_format::segment::{CRUMB_SLICE, OP_CRUMB, OP_TEXT, OP_VFORK, RECORDER, TEXT_BYTES, TextKind};

use super::{Rows, Thread};
use crate::seal::journal::Event;
use crate::seal::view::Unit;

impl Rows {
    /// The state as events: applied to new [`Rows`] they make the same state and no row.
    #[must_use]
    pub fn carry(&self) -> Vec<Unit> {
        let mut units = Vec::new();
        let pairs = self.clock.pairs();
        for (index, pair) in pairs.iter().enumerate() {
            let wall = match self.wall {
                Some(offset) if index + 1 == pairs.len() => (pair.mono as i64).wrapping_add(offset) as u64,
                _ => 0,
            };
            units.push(Event::Clock { pair: *pair, wall }.encode());
        }
        let children: HashSet<i64> = self
            .processes
            .values()
            .flat_map(|process| process.threads.values())
            .filter_map(|thread| thread.child.map(|(child, _)| child))
            .collect();
        for (id, process) in &self.processes {
            // A vfork child is made again by its marker, on its parent's thread.
            if children.contains(id) {
                continue;
            }
            if process.found || process.recorder {
                let event = Event::Process {
                    process: *id,
                    parent: if process.recorder { RECORDER } else { process.parent },
                    pid: process.pid,
                    start_ticks: process.start_ticks,
                };
                units.push(event.encode());
            }
            let texts = [
                (TextKind::Exe, &process.exe),
                (TextKind::Command, &process.cmd),
                (TextKind::Cwd, &process.cwd),
                (TextKind::Role, &process.role),
            ];
            let mut slots: Vec<Unit> = texts
                .into_iter()
                .filter_map(|(kind, bytes)| bytes.as_ref().map(|bytes| (kind, bytes)))
                .flat_map(|(kind, bytes)| text_units(kind, 0, bytes))
                .collect();
            let symbols = process.announced.symbols.iter();
            slots.extend(
                symbols
                    .flat_map(|(key, text)| text_units(TextKind::Symbol, u64::from(*key), text.as_bytes())),
            );
            let types = process.announced.types.iter();
            slots.extend(
                types.flat_map(|(key, (text, _))| {
                    text_units(TextKind::Type, u64::from(*key), text.as_bytes())
                }),
            );
            // They belong to no thread; the one that posted them may be gone.
            push_run(&mut units, *id, 0, 0, &slots);
            for (thread_id, thread) in process.threads.iter().filter(|(id, _)| **id != 0) {
                let Thread { tid, start_ticks, end_ticks, .. } = *thread;
                let event = Event::Thread { process: *id, thread: *thread_id, tid, start_ticks, end_ticks };
                units.push(event.encode());
                let mut slots: Vec<Unit> =
                    thread.open.iter().flat_map(|open| open.parts.values().copied()).collect();
                if let Some(name) = &thread.name {
                    slots.extend(text_units(TextKind::ThreadName, 0, name));
                }
                if let Some(child) = thread.child.and_then(|(child, _)| self.processes.get(&child)) {
                    slots.push([
                        u64::from(OP_VFORK) | u64::from(child.pid) << 32,
                        child.start_ticks,
                        0,
                        0,
                        0,
                        0,
                        0,
                        0,
                    ]);
                }
                if thread.crumb != 0 || thread.slices {
                    let word =
                        u64::from(OP_CRUMB) | u64::from(if thread.slices { CRUMB_SLICE } else { 0 }) << 16;
                    let clock = thread.crumb_cpu as u64;
                    slots.push([word, thread.crumb_since, 0, thread.crumb as u64, 0, clock, 0, 0]);
                }
                push_run(&mut units, *id, *thread_id, tid, &slots);
            }
        }
        self.carry_images(&mut units);
        push_run(&mut units, 0, 0, 0, self.kernel.waiting());
        units
    }
}

/// A text as the slots that a program would post.
pub(super) fn text_units(kind: TextKind, key: u64, bytes: &[u8]) -> Vec<Unit> {
    let bytes = &bytes[..bytes.len().min(usize::from(u16::MAX))];
    let part = |(index, chunk): (usize, &[u8])| {
        let mut unit = [0; 8];
        let word = u64::from(OP_TEXT) | u64::from(kind as u8) << 16;
        unit[0] = word | (index as u64) << 32 | (bytes.len() as u64) << 48;
        unit[1] = key;
        for (at, byte) in chunk.iter().enumerate() {
            unit[2 + at / 8] |= u64::from(*byte) << (8 * (at % 8));
        }
        unit
    };
    bytes.chunks(TEXT_BYTES).enumerate().map(part).collect()
}

pub(super) fn push_run(units: &mut Vec<Unit>, process: i64, thread: i64, tid: u32, slots: &[Unit]) {
    if !slots.is_empty() {
        let count = slots.len() as u64;
        units.push(Event::Run { process, thread, ring: 0, tid, first: 0, count }.encode());
        units.extend_from_slice(slots);
    }
}
