//! Calls of a trail that look for files and make them.

use std::collections::{HashMap, HashSet};

use iotrail_causal::lookups::{self, Columns, OnName};
use iotrail_format::call::Call;
use iotrail_trail::{Error, Order, TrailReader};

/// Those of threads that have a number, of each in the order of their starts; none if nobody looks for what isn't there.
///
/// # Errors
/// The trail can't be read.
pub fn on_names(
    reader: &TrailReader,
    mut number_of: impl FnMut(i64) -> Option<u32>,
) -> Result<Vec<OnName>, Error> {
    let names: HashMap<&str, Call> = Call::ALL.iter().map(|call| (call.name(), *call)).collect();
    let mut machines: HashMap<String, u32> = HashMap::new();
    let mut calls = Vec::new();
    let mut rows = reader.file_ops(Order::Thread)?;
    while let Some(row) = rows.next()? {
        let (Some(call), Some(dur)) = (names.get(row.call), row.dur) else { continue };
        let Some(thread) = number_of(row.thread.0) else { continue };
        if !machines.contains_key(row.node) {
            machines.insert(row.node.to_owned(), machines.len() as u32);
        }
        calls.push(OnName::of(&Columns {
            thread,
            machine: machines[row.node],
            start: row.ts,
            end: row.ts + dur,
            call: *call,
            path: row.file.map(|file| file.0),
            path2: row.file2.map(|file| file.0),
            errno: row.errno,
            flags: row.flags,
        }));
    }
    Ok(if calls.iter().any(OnName::is_in_vain) { calls } else { Vec::new() })
}

/// Looks in vain of threads that looked for a file again and again, by thread and start, ns since the epoch: how often they did depends on the storage,
/// and nobody waits for them.
pub(crate) fn in_vain(reader: &TrailReader) -> Result<HashSet<(i64, i64)>, Error> {
    let mut threads: Vec<i64> = Vec::new();
    let calls = on_names(reader, |thread| {
        if threads.last() != Some(&thread) {
            threads.push(thread);
        }
        Some(threads.len() as u32 - 1)
    })?;
    let looks = lookups::in_vain(&calls);
    Ok(looks.into_iter().map(|(thread, start)| (threads[thread as usize], start)).collect())
}
