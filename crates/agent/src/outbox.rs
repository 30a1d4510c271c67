//! Rows of a tick, by table, as Arrow builders.
//!
//! Columns stand here in the order of `iotrail_format::schema`; [`Outbox::take`] makes batches of them that
//! `iotrail_trail::conform` accepts. Nothing is allocated per row but the text of plain text columns.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, Int64Builder, StringBuilder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, DataType};
use iotrail_format::ids::hash63;
use iotrail_format::schema::{self, ColumnType, Table};
use iotrail_trail::{arrow_schema, arrow_type};

use crate::source::Tick;

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// Nothing.
    Null,
    /// A `BIGINT`.
    Int(i64),
    /// A `DOUBLE`.
    Double(f64),
    /// A `VARCHAR`.
    Text(&'a str),
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Value<'_> {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// The columns of one table while they grow.
enum Column {
    Int(Int64Builder),
    Double(Float64Builder),
    Text(StringBuilder),
    Word(StringDictionaryBuilder<Int32Type>),
}

impl Column {
    fn of(column: &schema::Column) -> Self {
        match (column.ty, arrow_type(column)) {
            (ColumnType::BigInt, _) => Self::Int(Int64Builder::new()),
            (ColumnType::Double, _) => Self::Double(Float64Builder::new()),
            (ColumnType::Text, DataType::Utf8) => Self::Text(StringBuilder::new()),
            (ColumnType::Text, _) => Self::Word(StringDictionaryBuilder::new()),
        }
    }

    fn push(&mut self, value: Value<'_>) {
        match (self, value) {
            (Self::Int(column), Value::Int(value)) => column.append_value(value),
            (Self::Int(column), Value::Null) => column.append_null(),
            (Self::Double(column), Value::Double(value)) => column.append_value(value),
            (Self::Double(column), Value::Null) => column.append_null(),
            (Self::Text(column), Value::Text(value)) => column.append_value(value),
            (Self::Text(column), Value::Null) => column.append_null(),
            (Self::Word(column), Value::Text(value)) => column.append_value(value),
            (Self::Word(column), Value::Null) => column.append_null(),
            (_, value) => unreachable!("{value:?} doesn't fit its column"),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Int(column) => Arc::new(column.finish()),
            Self::Double(column) => Arc::new(column.finish()),
            Self::Text(column) => Arc::new(column.finish()),
            Self::Word(column) => Arc::new(column.finish()),
        }
    }
}

struct Rows {
    table: &'static Table,
    columns: Vec<Column>,
    rows: usize,
}

impl Rows {
    fn new(table: &'static Table) -> Self {
        Self { table, columns: table.columns.iter().map(Column::of).collect(), rows: 0 }
    }

    fn push<const N: usize>(&mut self, row: [Value<'_>; N]) {
        assert_eq!(N, self.columns.len(), "a row of {} has all its columns", self.table.name);
        self.columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
        self.rows += 1;
    }

    fn take(&mut self) -> Option<(&'static Table, RecordBatch)> {
        if mem::take(&mut self.rows) == 0 {
            return None;
        }
        let columns: Vec<ArrayRef> = self.columns.iter_mut().map(Column::finish).collect();
        let batch: Result<RecordBatch, ArrowError> = RecordBatch::try_new(arrow_schema(self.table), columns);
        Some((self.table, batch.expect("columns were made from the table's description")))
    }
}

/// A change of a member; see table `member`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Member<'a> {
    /// Its process; none a machine, or seen only from afar.
    pub process: Option<i64>,
    /// Name in the cluster.
    pub member: &'a str,
    /// Part it plays.
    pub role: &'a str,
    /// Where it stands.
    pub place: Option<&'a str>,
    /// up, standby, down, failed or left.
    pub state: &'a str,
    /// A sentence for people.
    pub detail: Option<&'a str>,
}

/// A request at a component; see table `service_op`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServiceOp<'a> {
    /// Arrival, ns since the epoch.
    pub ts: i64,
    /// Time until the reply; none if there was none.
    pub dur: Option<i64>,
    /// Thread.
    pub thread: i64,
    /// Breadcrumb.
    pub crumb: i64,
    /// Part of the system.
    pub component: &'a str,
    /// server, client or internal.
    pub kind: &'a str,
    /// What was asked for.
    pub op: &'a str,
    /// User on whose behalf.
    pub client: Option<&'a str>,
    /// 0 success, else an error number; none unfinished.
    pub status: Option<i64>,
    /// File it is about.
    pub file: Option<i64>,
    /// Offset.
    pub pos: Option<i64>,
    /// Bytes.
    pub length: Option<i64>,
    /// Number its system gave it.
    pub span: Option<i64>,
}

/// One breadcrumb works for another; see table `stitch`.
#[derive(Clone, Copy, Debug)]
pub struct Stitch<'a> {
    /// When, ns since the epoch.
    pub ts: i64,
    /// Machine of the child; none this one; else a member's name behind `@`.
    pub node: Option<&'a str>,
    /// Thread.
    pub thread: i64,
    /// The child.
    pub crumb: i64,
    /// Machine of the parent; none this one; else a member's name behind `@`, or empty for unknown.
    pub parent_node: Option<&'a str>,
    /// The parent.
    pub parent_crumb: i64,
    /// rpc, split or coalesce.
    pub kind: &'a str,
    /// Share of the parent.
    pub weight: i64,
    /// name, order or time if joined by that.
    pub how: Option<&'a str>,
}

/// A message of a storage system; see table `network_transmit`.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// When it was sent, ns since the epoch.
    pub ts: i64,
    /// Thread.
    pub thread: i64,
    /// Breadcrumb.
    pub crumb: i64,
    /// Who sent it, on this machine.
    pub sender: &'a str,
    /// Who receives it.
    pub receiver: &'a str,
    /// Bytes.
    pub length: i64,
}

/// Work of a disk; see table `disk_op`.
#[derive(Clone, Copy, Debug)]
pub struct DiskOp<'a> {
    /// When it was handed over, ns since the epoch.
    pub ts: i64,
    /// Time until it was durable.
    pub dur: i64,
    /// Thread.
    pub thread: i64,
    /// Breadcrumb.
    pub crumb: i64,
    /// Disk.
    pub dev: &'a str,
    /// read, write …
    pub op: &'a str,
    /// Bytes.
    pub length: Option<i64>,
}

/// Rows of tables, as they are handed over.
pub type Batches = Vec<(&'static Table, RecordBatch)>;

/// Rows at which they are handed over before a tick ends: 6 MB.
const ENOUGH: usize = 50_000;

/// What a source has to say in a tick.
pub struct Outbox {
    node: String,
    tick: Tick,
    member: Rows,
    sample: Rows,
    service_op: Rows,
    stitch: Rows,
    transmit: Rows,
    disk_op: Rows,
    process: Rows,
    thread: Rows,
    file: Rows,
    unseen: Rows,
    /// Weight of requests; none 1.
    weight: Option<i64>,
    others: Vec<(&'static Table, RecordBatch)>,
    taken: u64,
    hand_over: Option<Box<dyn FnMut(Batches)>>,
    warnings: BTreeSet<String>,
    dropped: u64,
}

impl Outbox {
    /// An empty one for rows of a machine.
    #[must_use]
    pub fn new(node: &str) -> Self {
        Self {
            node: node.to_owned(),
            tick: Tick { now: 0, before: None, from_wall: 0, settled: 0 },
            member: Rows::new(&schema::MEMBER),
            sample: Rows::new(&schema::NODE_SAMPLE),
            service_op: Rows::new(&schema::SERVICE_OP),
            stitch: Rows::new(&schema::STITCH),
            transmit: Rows::new(&schema::NETWORK_TRANSMIT),
            disk_op: Rows::new(&schema::DISK_OP),
            process: Rows::new(&schema::PROCESS),
            thread: Rows::new(&schema::THREAD),
            file: Rows::new(&schema::FILE),
            unseen: Rows::new(&schema::UNSEEN),
            weight: None,
            others: Vec::new(),
            taken: 0,
            hand_over: None,
            warnings: BTreeSet::new(),
            dropped: 0,
        }
    }

    /// One that hands rows over as they become many, so that memory for a long tick is bounded.
    #[must_use]
    pub fn with_hand_over(node: &str, hand_over: impl FnMut(Batches) + 'static) -> Self {
        Self { hand_over: Some(Box::new(hand_over)), ..Self::new(node) }
    }

    /// Hands rows over if there are many.
    pub fn relieve(&mut self) {
        if self.rows() >= ENOUGH
            && let Some(mut hand_over) = self.hand_over.take()
        {
            hand_over(self.take());
            self.hand_over = Some(hand_over);
        }
    }

    /// The machine.
    #[must_use]
    pub fn node(&self) -> &str {
        &self.node
    }

    /// Time of the tick, ns since the epoch.
    #[must_use]
    pub fn now(&self) -> i64 {
        self.tick.now
    }

    /// Begins a tick: samples are of the time since the one before.
    pub fn begin(&mut self, tick: Tick) {
        self.tick = tick;
    }

    /// Sums that follow in this tick are since then, not since the tick before: their source was not asked then.
    pub fn since(&mut self, before: Option<i64>) {
        self.tick.before = before;
    }

    /// A level: what `metric` is now.
    pub fn level(&mut self, member: &str, metric: &str, name: Option<&str>, value: f64) {
        self.row_of_sample(self.tick.now, Some(0), member, metric, name, None, value);
    }

    /// A sum over the time since the tick before; of the first tick there is none.
    pub fn sum(&mut self, member: &str, metric: &str, name: Option<&str>, value: f64) {
        if let Some(before) = self.tick.before {
            self.row_of_sample(before, Some(self.tick.now - before), member, metric, name, None, value);
        }
    }

    /// A count of a histogram's bucket that begins at `least`, over the time since the tick before.
    pub fn bucket(&mut self, member: &str, metric: &str, name: Option<&str>, least: i64, count: f64) {
        if let Some(before) = self.tick.before {
            let dur = Some(self.tick.now - before);
            self.row_of_sample(before, dur, member, metric, name, Some(least), count);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the columns of a sample")]
    fn row_of_sample(
        &mut self,
        ts: i64,
        dur: Option<i64>,
        member: &str,
        metric: &str,
        name: Option<&str>,
        least: Option<i64>,
        value: f64,
    ) {
        self.sample.push([
            ts.into(),
            dur.into(),
            self.node.as_str().into(),
            member.into(),
            metric.into(),
            name.into(),
            least.into(),
            value.into(),
        ]);
    }

    /// A change of what the cluster consists of, now.
    pub fn member(&mut self, member: Member<'_>) {
        self.member.push([
            self.tick.now.into(),
            self.node.as_str().into(),
            member.process.into(),
            member.member.into(),
            member.role.into(),
            member.place.into(),
            member.state.into(),
            member.detail.into(),
        ]);
    }

    /// A request.
    pub fn service_op(&mut self, op: ServiceOp<'_>) {
        self.service_op.push([
            op.ts.into(),
            op.dur.into(),
            self.node.as_str().into(),
            op.thread.into(),
            op.crumb.into(),
            op.component.into(),
            op.kind.into(),
            op.op.into(),
            op.client.into(),
            op.status.into(),
            op.file.into(),
            op.pos.into(),
            op.length.into(),
            Value::Null,
            Value::Null,
            op.span.into(),
            self.weight.into(),
        ]);
    }

    /// A stitch.
    pub fn stitch(&mut self, stitch: Stitch<'_>) {
        self.stitch.push([
            stitch.ts.into(),
            0.into(),
            stitch.node.unwrap_or(&self.node).into(),
            stitch.thread.into(),
            stitch.crumb.into(),
            stitch.parent_node.unwrap_or(&self.node).into(),
            stitch.parent_crumb.into(),
            stitch.kind.into(),
            stitch.weight.into(),
            stitch.how.into(),
        ]);
    }

    /// A message.
    pub fn transmit(&mut self, sent: Transmit<'_>) {
        self.transmit.push([
            sent.ts.into(),
            0.into(),
            self.node.as_str().into(),
            sent.thread.into(),
            sent.crumb.into(),
            sent.sender.into(),
            sent.receiver.into(),
            sent.length.into(),
            self.weight.into(),
        ]);
    }

    /// Work of a disk.
    pub fn disk_op(&mut self, op: DiskOp<'_>) {
        let null = Value::Null;
        self.disk_op.push([
            op.ts.into(),
            op.dur.into(),
            self.node.as_str().into(),
            op.thread.into(),
            op.crumb.into(),
            "program".into(),
            op.dev.into(),
            op.op.into(),
            null,
            op.length.into(),
            null,
            0.into(),
            null,
            null,
            null,
            self.weight.into(),
            null,
            null,
        ]);
    }

    /// What was not collected of a process: see table `unseen`.
    pub fn unseen(&mut self, kind: &str, process: i64, amount: u64, detail: &str) {
        self.unseen.push([
            self.node.as_str().into(),
            kind.into(),
            process.into(),
            Value::Null,
            i64::try_from(amount).unwrap_or(i64::MAX).into(),
            detail.into(),
        ]);
    }

    /// How many requests the requests that follow stand for: `weight` of tables `service_op`, `disk_op` and
    /// `network_transmit`.
    pub fn weigh(&mut self, weight: i64) {
        self.weight = (weight != 1).then_some(weight);
    }

    /// A daemon's process that runs, and one thread that stands for all of it: requests are not known by thread.
    pub fn process(&mut self, process: i64, pid: i64, name: &str, role: &str, start_ts: i64) {
        let node = self.node.as_str();
        let null = Value::Null;
        self.process.push([
            node.into(),
            process.into(),
            pid.into(),
            name.into(),
            role.into(),
            null,
            start_ts.into(),
            null,
            null,
            null,
            null,
            null,
            "running".into(),
            null,
            null,
            null,
            null,
            null,
        ]);
        self.thread.push([
            node.into(),
            process.into(),
            pid.into(),
            pid.into(),
            process.into(),
            name.into(),
            start_ts.into(),
            null,
        ]);
    }

    /// The name of a file; returns its id.
    pub fn file(&mut self, path: &str) -> i64 {
        let file = hash63(path.as_bytes());
        self.file.push([self.node.as_str().into(), file.into(), path.into()]);
        file
    }

    /// Rows of any table that are there already.
    pub fn batch(&mut self, table: &'static Table, batch: RecordBatch) {
        self.others.push((table, batch));
    }

    /// Rows since the last time they were taken.
    #[must_use]
    pub fn rows(&self) -> usize {
        let small =
            self.member.rows + self.process.rows + self.thread.rows + self.file.rows + self.unseen.rows;
        let others = self.others.iter().map(|(_, batch)| batch.num_rows()).sum::<usize>();
        let used = self.transmit.rows + self.disk_op.rows;
        small + self.sample.rows + self.service_op.rows + self.stitch.rows + used + others
    }

    /// Says something on the agent's stderr, once for as long as it is said each tick.
    pub fn warn(&mut self, message: impl Into<String>) {
        self.warnings.insert(message.into());
    }

    /// Counts records that could not be had.
    pub fn dropped(&mut self, records: u64) {
        self.dropped += records;
    }

    /// Rows said so far, taken or not: once as many are settled ([`Tick::settled`]), all of these are.
    #[must_use]
    pub fn said(&self) -> u64 {
        self.taken + self.rows() as u64
    }

    /// The rows since the last time, by table, in an order in which names come before what refers to them.
    pub fn take(&mut self) -> Batches {
        let batches: Vec<_> = [
            &mut self.member,
            &mut self.process,
            &mut self.thread,
            &mut self.file,
            &mut self.sample,
            &mut self.service_op,
            &mut self.stitch,
            &mut self.transmit,
            &mut self.disk_op,
            &mut self.unseen,
        ]
        .into_iter()
        .filter_map(Rows::take)
        .chain(mem::take(&mut self.others))
        .collect();
        self.taken += batches.iter().map(|(_, batch)| batch.num_rows() as u64).sum::<u64>();
        batches
    }

    /// What was said since the last time.
    pub fn take_warnings(&mut self) -> BTreeSet<String> {
        mem::take(&mut self.warnings)
    }

    /// What was dropped since the last time.
    pub fn take_dropped(&mut self) -> u64 {
        mem::take(&mut self.dropped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_trail::conform;

    #[test]
    fn rows_fit_their_tables() {
        let mut out = Outbox::new("here");
        out.begin(Tick { now: 3_000, before: Some(2_000), from_wall: 0, settled: 0 });
        out.level("here", "load", None, 0.5);
        out.sum("osd.0", "op", Some("write"), 7.0);
        out.bucket("osd.0", "io_size", Some("write"), 4096, 7.0);
        out.member(Member { member: "osd.0", role: "osd", state: "up", ..Member::default() });
        out.service_op(ServiceOp {
            ts: 1,
            component: "osd",
            kind: "server",
            op: "write",
            ..ServiceOp::default()
        });
        out.stitch(Stitch {
            ts: 1,
            node: Some("@osd.1"),
            thread: 1,
            crumb: 2,
            parent_node: None,
            parent_crumb: 1,
            kind: "rpc",
            weight: 1,
            how: None,
        });
        out.process(5, 50, "ceph-osd", "osd", 1);
        let file = out.file("pool/object");
        assert!(file > 0);
        let batches = out.take();
        assert_eq!(batches.len(), 7);
        for (table, batch) in &batches {
            conform(table, batch).unwrap_or_else(|e| panic!("{}: {e}", table.name));
        }
        let samples = &batches.iter().find(|(table, _)| table.name == "node_sample").expect("samples").1;
        assert_eq!(samples.num_rows(), 3);
        assert!(out.take().is_empty());
    }

    #[test]
    fn the_first_tick_has_no_sums() {
        let mut out = Outbox::new("here");
        out.begin(Tick { now: 3_000, before: None, from_wall: 0, settled: 0 });
        out.sum("here", "cpu", None, 7.0);
        assert!(out.take().is_empty());
    }
}
