//! After a recording with `--causal`: what its threads computed, and who waited for whom, as tables of the trail.

mod hidden;
mod operations;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use iotrail_causal::calls::{Process, Reader, Row, Thread};
use iotrail_causal::compute::{Gap, Reading, Slice, before, by_readings, by_slices};
use iotrail_causal::critical::critical;
use iotrail_causal::lookups::explain_lookups;
use iotrail_causal::matching::{Edges, How, Wait, edges, explain_polls};
use iotrail_causal::reduction::reduce;
use iotrail_causal::throttle::gather;
use iotrail_causal::timers::{Timed, explain_timers};
use iotrail_causal::woken::{self, Wake, explain_woken};
use iotrail_format::call::{Call, WaitKind};
use iotrail_format::schema::{
    COMPUTE, CPU_SLICE, CRITICAL_PATH, PROCESS, SIGNAL, THREAD, THREAD_TIME, Table, WAIT, WAKE,
};
use iotrail_trail::{Error, Ingest, Order, TrailReader, TrailWriter};

use hidden::{is_hidden, part_gaps};

/// Rows of a batch.
const ROWS: usize = 1 << 16;

/// By thread and start of a call that starts or ends MPI: since when it waited for nobody any more.
type Works = HashMap<(u32, i64), i64>;

/// Threads of a trail, in the order of their ids, and the machine of each.
#[derive(Default)]
struct Threads {
    threads: Vec<Thread>,
    nodes: Vec<String>,
    /// By name.
    machines: HashMap<String, u32>,
    number_of: HashMap<i64, u32>,
}

impl Threads {
    /// The id of an edge: no other trail that this one may be merged with has it.
    fn edge(&self, number: u32) -> i64 {
        let first = self.threads.first().map_or(0, |thread| thread.id);
        first >> 32 << 32 | i64::from(number)
    }
}

pub use hidden::Hidden;
pub use operations::operations;

/// Writes the tables `compute`, `signal` and `wait` of a trail, in place of what is there, with the edges that were found by pausing
/// threads. Returns how many of those no others imply.
pub fn derive(path: &Path, hidden: Option<&Hidden>) -> Result<usize, Error> {
    let reader = TrailReader::open(path)?;
    let known = threads(&reader)?;
    let processes = processes(&reader, &known)?;
    let mut calls = Reader::new(&known.threads, &processes);
    // of each thread, in the order of their starts: start, end, whether it sleeps meanwhile
    let mut waited: Vec<Vec<(i64, i64, bool)>> = vec![Vec::new(); known.threads.len()];
    // calls that look for others as they wait, and then work
    let mut works: HashSet<(u32, i64)> = HashSet::new();
    let mut timed = Vec::new();
    let names: HashMap<&str, Call> = Call::ALL.iter().map(|call| (call.name(), *call)).collect();
    let kinds: HashMap<&str, WaitKind> =
        (0..u8::MAX).filter_map(WaitKind::from_number).map(|kind| (kind.name(), kind)).collect();
    let mut rows = reader.sync_ops(Order::Thread)?;
    while let Some(row) = rows.next()? {
        let (Some(thread), Some(call)) = (known.number_of.get(&row.thread.0), names.get(row.call)) else {
            continue;
        };
        let Some(kind) = kinds.get(row.kind) else { continue };
        let end = row.dur.map(|dur| row.ts + dur);
        let starts = matches!(call, Call::MpiInit | Call::MpiFinalize);
        if starts {
            works.insert((*thread, row.ts));
        }
        let sleeps = starts || *kind != WaitKind::Mpi && *call != Call::SpinLock;
        waited[*thread as usize].push((row.ts, end.unwrap_or(i64::MAX), sleeps));
        let row = Row {
            thread: *thread,
            start: row.ts,
            end,
            call: *call,
            kind: *kind,
            object: row.object,
            peer: row.peer,
            length: row.length,
            result: row.result,
            errno: row.errno,
            seq: row.seq,
            tag: row.tag,
            flags: row.flags,
        };
        timed.extend(Timed::of(&row));
        calls.add(&row);
    }
    let mut found = edges(&calls.finish());
    explain_polls(&mut found);
    let (wakes, slices) = (wakes(&reader, &known)?, slices(&reader, &known)?);
    if !wakes.is_empty() {
        let call = |call: &(i64, i64, bool)| woken::Call { start: call.0, end: call.1 };
        let of = |thread: &Vec<(i64, i64, bool)>| thread.iter().map(call).collect();
        explain_woken(&mut found, &wakes, &waited.iter().map(of).collect::<Vec<_>>(), &slices);
    }
    if let Some(hidden) = hidden {
        hidden.add_to(&mut found, &known, &reader)?;
    }
    reduce(&mut found, known.threads.len());
    let edges = found.waits.iter().filter(|wait| is_hidden(wait)).count();
    gather(&mut found);
    explain_timers(&mut found, &timed);
    let on_names = iotrail_replay::on_names(&reader, |thread| known.number_of.get(&thread).copied())?;
    explain_lookups(&mut found, &on_names);
    let mut writer = TrailWriter::open(path)?;
    for table in [&COMPUTE, &SIGNAL, &WAIT, &CRITICAL_PATH] {
        for entry in reader.snapshot().files(table.name) {
            writer.remove(&entry.path);
        }
    }
    let mut works: Works = works.into_iter().map(|call| (call, call.1)).collect();
    for wait in &found.waits {
        if let (Some(last), Some(from)) = (wait.last, works.get_mut(&(wait.thread, wait.start))) {
            *from = (*from).max(last);
        }
    }
    let (ends, rests) = write_gaps(&reader, &known, waited, (&works, &slices), &mut found, &mut writer)?;
    found.waits.extend(rests);
    write_edges(&known, &found, &mut writer)?;
    write_critical(&known, &found, &ends, &mut writer)?;
    writer.publish()?;
    Ok(edges)
}

fn threads(reader: &TrailReader) -> Result<Threads, Error> {
    let mut rows = reader.small(&THREAD, &["thread", "process", "tid", "start_ts", "end_ts"], &["node"])?;
    rows.sort_by_key(|row| row.ints[0]);
    let mut known = Threads::default();
    for row in rows {
        let (Some(id), Some(process), Some(tid), Some(start)) =
            (row.ints[0], row.ints[1], row.ints[2], row.ints[3])
        else {
            continue;
        };
        if known.number_of.insert(id, known.threads.len() as u32).is_none() {
            let node = row.texts[0].clone().unwrap_or_default();
            let next = known.machines.len() as u32;
            let machine = *known.machines.entry(node.clone()).or_insert(next);
            known.threads.push(Thread { id, process, machine, tid, start, end: row.ints[4] });
            known.nodes.push(node);
        }
    }
    Ok(known)
}

fn processes(reader: &TrailReader, known: &Threads) -> Result<Vec<Process>, Error> {
    let columns = ["process", "pid", "parent", "rank", "start_ts", "end_ts"];
    let rows = reader.small(&PROCESS, &columns, &["node"])?;
    let process = |ints: Vec<Option<i64>>, node: Option<String>| {
        let (id, pid, start) = (ints[0]?, ints[1]?, ints[4]?);
        let machine = *known.machines.get(&node?)?;
        Some(Process { id, machine, pid, parent: ints[2], rank: ints[3], start, end: ints[5] })
    };
    Ok(rows.into_iter().filter_map(|mut row| process(row.ints, row.texts.remove(0))).collect())
}

/// Who woke whom, in the order of who was woken and when.
fn wakes(reader: &TrailReader, known: &Threads) -> Result<Vec<Wake>, Error> {
    let number = |id: Option<i64>| known.number_of.get(&id?).copied();
    let rows = reader.small(&WAKE, &["thread", "ts", "waker"], &[])?;
    let wake =
        |ints: &[Option<i64>]| Some(Wake { thread: number(ints[0])?, ts: ints[1]?, waker: number(ints[2]) });
    let mut wakes: Vec<Wake> = rows.iter().filter_map(|row| wake(&row.ints)).collect();
    wakes.sort_unstable();
    Ok(wakes)
}

/// When threads were on a CPU, as the kernel saw it, in the order of time.
fn slices(reader: &TrailReader, known: &Threads) -> Result<Vec<Vec<Slice>>, Error> {
    let mut slices: Vec<Vec<Slice>> = vec![Vec::new(); known.threads.len()];
    for row in reader.small(&CPU_SLICE, &["thread", "ts", "dur"], &["kind", "state"])? {
        if let (Some(thread), Some(start), Some(dur), Some("kernel")) = (
            row.ints[0].and_then(|id| known.number_of.get(&id)),
            row.ints[1],
            row.ints[2],
            row.texts[0].as_deref(),
        ) {
            let runnable = row.texts[1].as_deref() == Some("runnable");
            slices[*thread as usize].push(Slice { start, end: start + dur, runnable });
        }
    }
    slices.iter_mut().for_each(|of| of.sort_by_key(|slice| slice.start));
    Ok(slices)
}

/// Writes what threads did between their calls, and says when each ended. `calls` has those of `sync_op`, `works` by thread and start
/// since when a call that starts or ends MPI waited for nobody any more. What of that was neither a CPU's nor a file's is
/// said, too: time that passes, as it did.
fn write_gaps(
    reader: &TrailReader,
    known: &Threads,
    mut calls: Vec<Vec<(i64, i64, bool)>>,
    (works, slices): (&Works, &[Vec<Slice>]),
    found: &mut Edges,
    writer: &mut TrailWriter,
) -> Result<(Vec<i64>, Vec<Wait>), Error> {
    let mut on_files: Vec<Vec<(i64, i64)>> = vec![Vec::new(); known.threads.len()];
    let mut rows = reader.file_ops(Order::Thread)?;
    while let Some(row) = rows.next()? {
        if let Some(thread) = known.number_of.get(&row.thread.0) {
            let end = row.dur.map_or(i64::MAX, |dur| row.ts + dur);
            on_files[*thread as usize].push((row.ts, end));
            calls[*thread as usize].push((row.ts, end, false));
        }
    }
    // outside calls, and in those that wait
    let mut readings: Vec<[Vec<Reading>; 2]> = vec![Default::default(); known.threads.len()];
    for row in reader.small(&THREAD_TIME, &["thread", "ts", "dur", "outside_ns", "wait_cpu_ns"], &[])? {
        let [Some(id), Some(start), Some(dur), Some(outside), Some(waiting)] = row.ints[..] else { continue };
        if let Some(thread) = known.number_of.get(&id) {
            for (of, cpu) in readings[*thread as usize].iter_mut().zip([outside, waiting]) {
                of.push(Reading { start, end: start + dur, cpu });
            }
        }
    }
    let last = |(thread, calls): (&Thread, &Vec<(i64, i64, bool)>)| {
        let ends = calls.iter().map(|call| call.1).filter(|end| *end != i64::MAX);
        thread.end.or_else(|| ends.max()).unwrap_or(thread.start)
    };
    let ends = known.threads.iter().zip(&calls).map(last).collect();
    let mut rests = Vec::new();
    let mut hidden: HashMap<u32, Vec<&mut Wait>> = HashMap::new();
    for wait in found.waits.iter_mut().filter(|wait| is_hidden(wait)) {
        hidden.entry(wait.thread).or_default().push(wait);
    }
    let mut table = Ingest::new(writer, &COMPUTE);
    for (number, thread) in known.threads.iter().enumerate() {
        let (mut gaps, mut sleeping) = gaps(thread, std::mem::take(&mut calls[number]));
        let [outside, waiting] = &mut readings[number];
        outside.sort_by_key(|reading| reading.start);
        waiting.sort_by_key(|reading| reading.start);
        by_readings(&mut gaps, outside);
        by_slices(&mut gaps, &slices[number]);
        by_readings(&mut sleeping, waiting);
        for call in &mut sleeping {
            let Some(from) = works.get(&(number as u32, call.start)) else { continue };
            let inside = on_files[number].iter().filter(|(start, end)| *start >= *from && *end <= call.end);
            let on_files: i64 = inside.map(|(start, end)| end - start).sum();
            let most = (call.end - from - on_files).max(0);
            call.cpu = call.cpu.map(|cpu| cpu.min(most));
            let rest = most - call.cpu.unwrap_or(0);
            rests.push(Wait {
                thread: number as u32,
                start: call.end - rest,
                end: Some(call.end),
                edge: None,
                kind: "start",
                how: How::default(),
                last: None,
                within: 0,
                style: None,
                until: None,
            });
        }
        let in_calls: Vec<Option<i64>> = before(&gaps, &sleeping).collect();
        let mut rows: Vec<(Gap, Option<i64>)> = gaps.into_iter().zip(in_calls).collect();
        if let Some(waits) = hidden.get_mut(&(number as u32)) {
            part_gaps(&mut rows, waits);
        }
        for rows in rows.chunks(ROWS) {
            let in_calls: Int64Array = rows.iter().map(|row| row.1).collect();
            let of = |value: fn(&Gap) -> Option<i64>| -> ArrayRef {
                Arc::new(rows.iter().map(|row| value(&row.0)).collect::<Int64Array>())
            };
            let columns = vec![
                of(|gap| Some(gap.start)),
                of(|gap| Some(gap.end - gap.start)),
                texts(rows.iter().map(|_| known.nodes[number].as_str())),
                Arc::new(Int64Array::from(vec![thread.id; rows.len()])),
                of(|gap| gap.cpu),
                Arc::new(in_calls),
                of(|gap| gap.ready),
                of(Gap::unexplained),
            ];
            table.add(batch(&COMPUTE, columns)?)?;
        }
    }
    table.finish()?;
    Ok((ends, rests))
}

/// The stretches of a thread's life in which it was in no call, and its outermost calls that sleep while they wait.
fn gaps(thread: &Thread, mut calls: Vec<(i64, i64, bool)>) -> (Vec<Gap>, Vec<Gap>) {
    calls.sort_unstable_by_key(|(start, end, _)| (*start, std::cmp::Reverse(*end)));
    let mut gaps = Vec::with_capacity(calls.len() + 1);
    let mut sleeping = Vec::new();
    let mut last = thread.start;
    for (start, end, sleeps) in calls.into_iter().chain(thread.end.map(|end| (end, end, false))) {
        if start > last {
            gaps.push(Gap::new(last, start));
        }
        if sleeps && start >= last && end != i64::MAX {
            sleeping.push(Gap::new(start, end));
        }
        last = last.max(end);
    }
    (gaps, sleeping)
}

fn write_edges(known: &Threads, found: &Edges, writer: &mut TrailWriter) -> Result<(), Error> {
    let id = |thread: u32| known.threads[thread as usize].id;
    let node = |thread: u32| known.nodes[thread as usize].as_str();
    let mut table = Ingest::new(writer, &SIGNAL);
    for signals in found.signals.chunks(ROWS) {
        let columns = vec![
            ints(signals.iter().map(|one| Some(one.ts))),
            texts(signals.iter().map(|one| node(one.thread))),
            ints(signals.iter().map(|one| Some(id(one.thread)))),
            ints(signals.iter().map(|one| Some(known.edge(one.edge)))),
            texts(signals.iter().map(|one| one.kind)),
            texts(signals.iter().map(|one| one.how.name())),
        ];
        table.add(batch(&SIGNAL, columns)?)?;
    }
    table.finish()?;
    let mut table = Ingest::new(writer, &WAIT);
    for waits in found.waits.chunks(ROWS) {
        let has_edge = |wait: &Wait| wait.edge.is_some();
        let columns = vec![
            ints(waits.iter().map(|one| Some(one.start))),
            ints(waits.iter().map(|one| one.end.map(|end| end - one.start))),
            texts(waits.iter().map(|one| node(one.thread))),
            ints(waits.iter().map(|one| Some(id(one.thread)))),
            ints(waits.iter().map(|one| one.edge.map(|edge| known.edge(edge)))),
            texts(waits.iter().map(|one| one.kind)),
            texts(waits.iter().map(|one| match one.kind {
                _ if has_edge(one) => one.how.name(),
                "lock" => "lock",
                _ => "none",
            })),
            texts(waits.iter().map(|one| one.style().name())),
            ints(waits.iter().map(|one| has_edge(one).then_some(i64::from(one.within)))),
            ints(waits.iter().map(|one| one.until.map(|edge| known.edge(edge)))),
        ];
        table.add(batch(&WAIT, columns)?)?;
    }
    table.finish()
}

/// Writes the path that leads to the end of the thread that ended last.
fn write_critical(
    known: &Threads,
    found: &Edges,
    ends: &[i64],
    writer: &mut TrailWriter,
) -> Result<(), Error> {
    let Some((last, end)) = ends.iter().enumerate().max_by_key(|(_, end)| **end) else { return Ok(()) };
    let starts: Vec<i64> = known.threads.iter().map(|thread| thread.start).collect();
    let path = critical(found, &starts, last as u32, *end);
    let columns = vec![
        ints(path.iter().map(|one| Some(one.start))),
        ints(path.iter().map(|one| Some(one.end - one.start))),
        texts(path.iter().map(|one| known.nodes[one.thread as usize].as_str())),
        ints(path.iter().map(|one| Some(known.threads[one.thread as usize].id))),
        ints(path.iter().map(|one| one.edge.map(|edge| known.edge(edge)))),
    ];
    let mut table = Ingest::new(writer, &CRITICAL_PATH);
    table.add(batch(&CRITICAL_PATH, columns)?)?;
    table.finish()
}

fn ints(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.collect::<Int64Array>())
}

fn texts<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<StringArray>())
}

fn batch(table: &'static Table, columns: Vec<ArrayRef>) -> Result<RecordBatch, Error> {
    let named = table.columns.iter().map(|column| column.name).zip(columns);
    RecordBatch::try_from_iter(named)
        .map_err(|error| Error::BadRows { table: table.name, why: error.to_string() })
}
