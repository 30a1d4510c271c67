//! The log: one row of `disk_op` for each request, written to a trail while the emulation runs.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use iotrail_format::schema::{DISK_OP, RECORDING};
use iotrail_sim::{Nanos, Op, Request};
use iotrail_trail::arrays::{Value, batch, ints, repeated};
use iotrail_trail::seal::session::{epoch_offset, node};
use iotrail_trail::{Error as TrailError, FILE_ROWS, TrailWriter, sort};

use crate::NAME;
use crate::error::Error;
use crate::floor::Floor;
use crate::pace::Counts;

/// How long rows wait before they are in the trail: what a killed emulation loses.
const WAIT: Duration = Duration::from_secs(10);

/// An answered request. Times are CLOCK_MONOTONIC in nanoseconds.
pub struct Row {
    /// When it arrived.
    pub at: Nanos,
    /// Time until its answer, with the floor.
    pub dur: Nanos,
    /// Time until its answer by the model.
    pub model_dur: Nanos,
    /// When the device began to work on it.
    pub issued: Nanos,
    pub request: Request,
}

/// The thread that writes.
pub struct Log {
    rows: Sender<Row>,
    thread: JoinHandle<Result<TrailWriter, TrailError>>,
    node: String,
}

impl Log {
    /// Starts it.
    pub fn start(mut trail: TrailWriter, directory: &Path) -> Result<Self, Error> {
        let node = node();
        let facts = [
            ("command", command_line()),
            ("node", node.clone()),
            ("emulated_disk", directory.join(NAME).display().to_string()),
        ];
        write_facts(&mut trail, &node, &facts)?;
        trail.publish()?;
        let (rows, received) = channel();
        let device = directory.join(NAME).display().to_string();
        let mut writer = Writer { trail, node: node.clone(), device, offset: epoch_offset() };
        let thread = std::thread::spawn(move || writer.run(&received).map(|()| writer.trail));
        Ok(Self { rows, thread, node })
    }

    /// Where rows go.
    pub fn sender(&self) -> Sender<Row> {
        self.rows.clone()
    }

    /// Writes what is left, and how punctual the answers were. All senders are gone.
    pub fn finish(self, floor: &Floor, counts: &Counts) -> Result<(), Error> {
        drop(self.rows);
        let mut trail = self.thread.join().expect("the log doesn't panic")?;
        let quantile = |share| counts.lateness.quantile(share).map(|late| late.to_string());
        let facts = [
            ("emulated_floor_read_ns", Some(floor.read.at(4096).to_string())),
            ("emulated_floor_write_ns", Some(floor.write.at(4096).to_string())),
            ("emulated_requests", Some(counts.requests.to_string())),
            ("emulated_late_requests", Some(counts.late.to_string())),
            ("emulated_failed_requests", Some(counts.failed.to_string())),
            ("emulated_lateness_p50_ns", quantile(0.5)),
            ("emulated_lateness_p99_ns", quantile(0.99)),
        ];
        let known: Vec<_> = facts.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
        write_facts(&mut trail, &self.node, &known)?;
        trail.publish()?;
        Ok(())
    }
}

fn command_line() -> String {
    std::env::args().collect::<Vec<_>>().join(" ")
}

fn write_facts(trail: &mut TrailWriter, node: &str, facts: &[(&str, String)]) -> Result<(), TrailError> {
    let rows = facts.iter().map(|(name, value)| vec![node.into(), (*name).into(), value.as_str().into()]);
    trail.append(&RECORDING, &batch(&RECORDING, rows.collect::<Vec<Vec<Value>>>())?)
}

struct Writer {
    trail: TrailWriter,
    node: String,
    device: String,
    offset: i64,
}

impl Writer {
    fn run(&mut self, received: &Receiver<Row>) -> Result<(), TrailError> {
        let mut rows = Vec::new();
        let mut since = Instant::now();
        loop {
            let gone = match received.recv_timeout(WAIT) {
                Ok(row) => {
                    rows.push(row);
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            if gone || rows.len() >= FILE_ROWS || since.elapsed() >= WAIT {
                self.write(&rows)?;
                rows.clear();
                since = Instant::now();
            }
            if gone {
                return Ok(());
            }
        }
    }

    fn write(&mut self, rows: &[Row]) -> Result<(), TrailError> {
        if rows.is_empty() {
            return Ok(());
        }
        let column = |value: &dyn Fn(&Row) -> i64| -> ArrayRef { ints(rows.iter().map(value).collect()) };
        let known = |value: &dyn Fn(&Row) -> Option<i64>| -> ArrayRef {
            Arc::new(Int64Array::from_iter(rows.iter().map(value)))
        };
        let at = |mono: Nanos| mono as i64 + self.offset;
        let placed = |row: &Row, value: u64| (row.request.op != Op::Flush).then_some(value as i64);
        let names = rows.iter().map(|row| Some(name(row.request.op)));
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("ts", column(&|row| at(row.at))),
            ("dur", column(&|row| row.dur as i64)),
            ("node", repeated(&self.node, rows.len())),
            ("thread", column(&|_| 0)),
            ("crumb", column(&|_| 0)),
            ("kind", repeated("emulated", rows.len())),
            ("dev", repeated(&self.device, rows.len())),
            ("op", Arc::new(arrow_array::StringArray::from_iter(names))),
            ("pos", known(&|row| placed(row, row.request.pos))),
            ("length", known(&|row| placed(row, row.request.length))),
            ("issued", column(&|row| at(row.issued))),
            ("merged", column(&|_| 0)),
            ("model_dur", column(&|row| row.model_dur as i64)),
            ("requests", column(&|_| 1)),
        ];
        let made = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
            .expect("columns of one length");
        let conformed = iotrail_trail::conform(&DISK_OP, &made)?;
        self.trail.append(&DISK_OP, &sort(&DISK_OP, &conformed)?)?;
        self.trail.publish()?;
        Ok(())
    }
}

fn name(op: Op) -> &'static str {
    match op {
        Op::Read => "read",
        Op::Write => "write",
        Op::Flush => "flush",
        Op::Trim => "discard",
    }
}
