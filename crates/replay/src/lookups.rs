//! Looks in vain of threads that looked for a file again and again: how often they did depends on the storage, and nobody waits for them.

use std::collections::{HashMap, HashSet};

use iotrail_causal::lookups::{self, Columns, OnName};
use iotrail_format::call::Call;
use iotrail_trail::{Error, Order, TrailReader};

/// By thread and start, ns since the epoch.
pub(crate) fn in_vain(reader: &TrailReader) -> Result<HashSet<(i64, i64)>, Error> {
    let names: HashMap<&str, Call> = Call::ALL.iter().map(|call| (call.name(), *call)).collect();
    let mut threads: Vec<i64> = Vec::new();
    let mut calls = Vec::new();
    let mut rows = reader.file_ops(Order::Thread)?;
    while let Some(row) = rows.next()? {
        let (Some(call), Some(dur)) = (names.get(row.call), row.dur) else { continue };
        if threads.last() != Some(&row.thread.0) {
            threads.push(row.thread.0);
        }
        calls.push(OnName::of(&Columns {
            thread: threads.len() as u32 - 1,
            start: row.ts,
            end: row.ts + dur,
            call: *call,
            path: row.file.map(|file| file.0),
            path2: row.file2.map(|file| file.0),
            errno: row.errno,
            flags: row.flags,
        }));
    }
    if !calls.iter().any(OnName::is_in_vain) {
        return Ok(HashSet::new());
    }
    let looks = lookups::in_vain(&calls);
    Ok(looks.into_iter().map(|(thread, start)| (threads[thread as usize], start)).collect())
}
