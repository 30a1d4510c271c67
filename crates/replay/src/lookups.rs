//! Looks in vain of threads that looked for a file again and again: how often they did depends on the storage, and nobody waits for them.

use std::collections::{HashMap, HashSet};

use iotrail_causal::lookups::NAME;
use iotrail_format::schema::{SIGNAL, WAIT};
use iotrail_trail::{Error, Order, TrailReader};

/// By thread and start, ns since the epoch. A sleep comes after each, which the trail says was for the file.
pub(crate) fn in_vain(reader: &TrailReader) -> Result<HashSet<(i64, i64)>, Error> {
    let mut edges = HashSet::new();
    for row in reader.small(&SIGNAL, &["edge"], &["kind"])? {
        if row.texts[0].as_deref() == Some(NAME) {
            edges.extend(row.ints[0]);
        }
    }
    let mut found = HashSet::new();
    if edges.is_empty() {
        return Ok(found);
    }
    // of each thread when it began to sleep
    let mut sleeps: HashMap<i64, Vec<i64>> = HashMap::new();
    for row in reader.small(&WAIT, &["thread", "ts", "edge", "until_edge"], &[])? {
        if let [Some(thread), Some(ts), edge, until] = row.ints[..]
            && [edge, until].into_iter().flatten().any(|edge| edges.contains(&edge))
        {
            sleeps.entry(thread).or_default().push(ts);
        }
    }
    sleeps.values_mut().for_each(|of| of.sort_unstable());
    // the thread's call before: its thread, start and end, if it failed
    let mut before: Option<(i64, i64, i64)> = None;
    let mut rows = reader.file_ops(Order::Thread)?;
    loop {
        let row = rows.next()?;
        let next = row.as_ref().map(|row| (row.thread.0, row.ts));
        if let Some((thread, start, end)) = before
            && let Some(of) = sleeps.get(&thread)
        {
            let until = next.filter(|next| next.0 == thread).map_or(i64::MAX, |next| next.1);
            let slept = of.get(of.partition_point(|sleep| *sleep < end));
            if slept.is_some_and(|sleep| *sleep < until) {
                found.insert((thread, start));
            }
        }
        let Some(row) = row else { return Ok(found) };
        let failed = row.errno == i64::from(libc::ENOENT);
        before = row.dur.filter(|_| failed).map(|dur| (row.thread.0, row.ts, row.ts + dur));
    }
}
