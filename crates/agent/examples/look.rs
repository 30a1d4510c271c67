//! Runs the Ceph source without a collector for some seconds and writes what it says as a trail:
//! `look SOCKETS TRAIL SECONDS [STATE]`. With a folder for the state all requests are told, and daemons' settings changed
//! and put back; with `keep` behind it they are not put back, as when an agent is killed.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use arrow_ord::sort::{SortColumn, lexsort_to_indices};
use arrow_schema::ArrowError;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use iotrail_agent::outbox::Outbox;
use iotrail_agent::source::{Source, Tick};
use iotrail_agent::sources::ceph::settings::Collected;
use iotrail_agent::sources::ceph::{Ceph, Options};
use iotrail_format::schema::Table;
use iotrail_trail::seal::clock::clock_ns;
use iotrail_trail::{TrailWriter, arrow_schema};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [sockets, trail, seconds, more @ ..] = arguments.as_slice() else {
        return Err("usage: look SOCKETS TRAIL SECONDS [STATE [keep]]".into());
    };
    let state = more.first().map(PathBuf::from);
    if let Some(state) = &state {
        std::fs::create_dir_all(state)?;
    }
    let mut source = Ceph::new(Options {
        sockets: vec![sockets.clone()],
        state,
        place: "here".to_owned(),
        collected: Collected::All,
        burst: Arc::default(),
    })?;
    let mut trail = TrailWriter::create(Path::new(trail), true)?;
    let mut out = Outbox::new("here");
    let mut said: BTreeMap<&str, (&'static Table, Vec<RecordBatch>)> = BTreeMap::new();
    let (mut before, mut due) = (None, Instant::now());
    for _ in 0..=seconds.parse::<u64>()? {
        let now = clock_ns(libc::CLOCK_REALTIME) as i64;
        let tick = Tick { now, before, from_wall: 0, settled: 0 };
        before = Some(now);
        out.begin(tick);
        source.poll(tick, &mut out);
        out.take_warnings().iter().for_each(|warning| eprintln!("{warning}"));
        let dropped = out.take_dropped();
        if dropped > 0 {
            eprintln!("{dropped} records dropped");
        }
        for (table, batch) in out.take() {
            said.entry(table.name).or_insert((table, Vec::new())).1.push(batch);
        }
        due += Duration::from_secs(1);
        sleep(due.saturating_duration_since(Instant::now()));
    }
    eprintln!("{} ms of CPU time", clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) / 1_000_000);
    if more.len() < 2 {
        let now = clock_ns(libc::CLOCK_REALTIME) as i64;
        source.leave(Tick { now, before, from_wall: 0, settled: 0 }, &mut out);
    }
    for (table, batches) in said.into_values() {
        trail.append(table, &in_order(table, &concat_batches(&arrow_schema(table), &batches)?)?)?;
    }
    trail.publish()?;
    Ok(())
}

/// Rows as a trail wants them.
fn in_order(table: &Table, rows: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let keys: Vec<SortColumn> = table
        .order
        .iter()
        .filter_map(|name| rows.column_by_name(name))
        .map(|values| SortColumn { values: values.clone(), options: None })
        .collect();
    take_record_batch(rows, &lexsort_to_indices(&keys, None)?)
}
