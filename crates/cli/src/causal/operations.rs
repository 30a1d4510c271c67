//! The operations of threads, as the recorder in the program counts them where threads are followed ([`iotrail_format::throttle`]).

use std::collections::HashMap;

use iotrail_format::call::Call;
use iotrail_format::throttle::sign;
use iotrail_trail::{Error, Order, TrailReader};

/// The operations of a thread.
#[derive(Clone, Debug, Default)]
pub struct Operations {
    /// Start and end of each, ns since the epoch, in their order.
    pub times: Vec<(i64, i64)>,
    /// Hash of all of them.
    pub signature: u64,
}

struct Row {
    start: i64,
    end: i64,
    operation: Option<(Call, i64)>,
}

/// Of each thread with calls on files its operations: outermost calls only, as those are what a thread is paused before.
pub fn operations(reader: &TrailReader) -> Result<HashMap<i64, Operations>, Error> {
    let names: HashMap<&str, Call> = Call::ALL.iter().map(|call| (call.name(), *call)).collect();
    let mut calls: HashMap<i64, Vec<Row>> = HashMap::new();
    let mut rows = reader.file_ops(Order::Thread)?;
    while let Some(row) = rows.next()? {
        let (Some(call), Some(dur)) = (names.get(row.call), row.dur) else { continue };
        // under way beside other calls of the thread
        if matches!(call, Call::AioRead | Call::AioWrite | Call::AioFsync) {
            continue;
        }
        let result = row.result.unwrap_or(-1);
        let operation = call.is_operation(result, row.errno).then_some((*call, result));
        let (start, end) = (row.ts, row.ts + dur);
        calls.entry(row.thread.0).or_default().push(Row { start, end, operation });
    }
    let mut rows = reader.sync_ops(Order::Thread)?;
    while let Some(row) = rows.next()? {
        if let (Some(of), Some(dur)) = (calls.get_mut(&row.thread.0), row.dur) {
            of.push(Row { start: row.ts, end: row.ts + dur, operation: None });
        }
    }
    Ok(calls.into_iter().map(|(thread, rows)| (thread, count(rows))).collect())
}

fn count(mut rows: Vec<Row>) -> Operations {
    rows.sort_by_key(|row| (row.start, std::cmp::Reverse(row.end)));
    let mut found = Operations::default();
    let mut outer = i64::MIN;
    for row in rows {
        if row.start < outer && row.end <= outer {
            continue;
        }
        outer = outer.max(row.end);
        if let Some((call, result)) = row.operation {
            found.times.push((row.start, row.end));
            found.signature = sign(found.signature, call, result);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inside_another_call_is_not_counted() {
        let row = |start, end, call| Row { start, end, operation: Some((call, 1)) };
        let waiting = Row { start: 20, end: 40, operation: None };
        let rows = vec![
            row(25, 30, Call::Write),
            row(0, 10, Call::Open),
            row(10, 12, Call::Close),
            waiting,
            row(40, 45, Call::Write),
        ];
        let found = count(rows);
        assert_eq!(found.times, [(0, 10), (10, 12), (40, 45)]);
        let by_hand =
            [Call::Open, Call::Close, Call::Write].into_iter().fold(0, |all, call| sign(all, call, 1));
        assert_eq!(found.signature, by_hand);
    }
}
