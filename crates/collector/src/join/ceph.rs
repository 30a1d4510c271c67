//! Ceph's requests that only time joins: which write of an MDS's journal a metadata request waited for.
//!
//! An MDS's journal is written as requests of client `mds.RANK` to objects `INODE.BLOCK`, where the inode is 0x200 + RANK
//! (`MDS_INO_LOG_OFFSET`, ceph/src/mds/mdstypes.h). Neither side names the other. The MDS says when a request's event
//! was handed to the journal and when it was durable (`submit entry`, `journal_committed`: the row `journal`), the OSD
//! when it served the write: it notes the end just after it has sent the reply, which may be handled by then. The rule:
//!
//! > A request waited for the journal write of its MDS's rank that was served within its `journal` row, and of several for
//! > the last one that ended: an event is durable once the write that holds it, and all before, are (`Journaler::safe_pos`).
//! > Its end may be noted [`NOTED`] later; if there is none, it is the first that had begun and whose end was noted within
//! > [`HELD_UP`].
//!
//! A write holds the events of several requests, which share its cost alike (`coalesce`). `stitch.how` is `time`. Between
//! machines, whose clocks differ, a write may begin and end [`SLACK`] outside the row. Of several file systems the ranks are
//! told apart by time only.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use arrow_array::{Array as _, Int64Array, RecordBatch};
use iotrail_format::schema::{FILE, MEMBER, SERVICE_OP, STITCH, Table};
use iotrail_trail::arrays::batch;

use super::{PATIENCE, Text, column};
use crate::LONGEST_NAME;

/// What clocks of two machines may differ by, ns.
const SLACK: i64 = 1_000_000;
/// How long an OSD's thread may wait for a processor before it notes that it replied, ns: 1.6 ms were seen beside busy programs.
const HELD_UP: i64 = 5_000_000;
/// Until an OSD notes that it replied, ns: 11 us were seen.
const NOTED: i64 = 100_000;
/// First inode of journals, and one past the last.
const JOURNALS: std::ops::Range<u64> = 0x200..0x300;
/// Rows of each side that are known at most: about 100 bytes each.
const MOST: usize = 1 << 18;
/// How long a write is known, ns: an MDS tells a request when it ended, some seconds after its write at the latest.
const KNOWN: i64 = 60 * 1_000_000_000;

/// One side of a pair.
#[derive(Clone, Debug)]
struct Row {
    /// When it came, by the collector's clock.
    since: i64,
    ts: i64,
    end: i64,
    node: Arc<str>,
    thread: i64,
    crumb: i64,
    /// What it wrote; of a wait 0.
    file: i64,
}

/// Both sides, as they came lately.
#[derive(Default)]
pub struct Journals {
    /// Files that are objects of journals.
    objects: HashSet<i64>,
    /// Ranks of MDSs by process.
    ranks: HashMap<i64, u64>,
    /// MDSs' writes, by rank, end and breadcrumb.
    writes: BTreeMap<(u64, i64, i64), Row>,
    /// Requests' waits, as they came.
    waits: VecDeque<Row>,
}

impl Journals {
    /// Learns from rows as they come.
    pub fn learn(&mut self, table: &'static Table, batch: &RecordBatch, now: i64) {
        match table.name {
            name if name == FILE.name => self.files(batch),
            name if name == MEMBER.name => self.members(batch),
            name if name == SERVICE_OP.name => self.requests(batch, now),
            _ => {}
        }
    }

    fn files(&mut self, batch: &RecordBatch) {
        let (files, paths) = (ints(batch, &FILE, "file"), Text::of(column(batch, &FILE, "path")));
        for row in (0..batch.num_rows()).filter(|row| is_journal(paths.get(*row))) {
            if self.objects.len() < MOST {
                self.objects.insert(files.value(row));
            }
        }
    }

    fn members(&mut self, batch: &RecordBatch) {
        let (processes, details) =
            (ints(batch, &MEMBER, "process"), Text::of(column(batch, &MEMBER, "detail")));
        for row in (0..batch.num_rows()).filter(|row| processes.is_valid(*row)) {
            // As the agent says it of an MDS: rank 0 of FS.
            if let Some(rank) = number_after(details.get(row), "rank ")
                && self.ranks.len() < MOST
            {
                self.ranks.insert(processes.value(row), rank);
            }
        }
    }

    fn requests(&mut self, batch: &RecordBatch, now: i64) {
        let text = |name| Text::of(column(batch, &SERVICE_OP, name));
        let (components, ops, clients) = (text("component"), text("op"), text("client"));
        // Most batches are of others.
        if !ops.has(|op| op == "journal") && !clients.has(|client| client.starts_with("mds.")) {
            return;
        }
        let (kinds, nodes) = (text("kind"), text("node"));
        let int = |name| ints(batch, &SERVICE_OP, name);
        let (ts, dur, thread, crumb, file) =
            (int("ts"), int("dur"), int("thread"), int("crumb"), int("file"));
        for row in (0..batch.num_rows()).filter(|row| dur.is_valid(*row)) {
            if nodes.get(row).len() > LONGEST_NAME {
                continue;
            }
            let known = || Row {
                since: now,
                ts: ts.value(row),
                end: ts.value(row) + dur.value(row),
                node: nodes.get(row).into(),
                thread: thread.value(row),
                crumb: crumb.value(row),
                file: if file.is_valid(row) { file.value(row) } else { 0 },
            };
            match (components.get(row), kinds.get(row)) {
                ("osd", "server") => {
                    if let Some(rank) = number_after(clients.get(row), "mds.") {
                        let write = known();
                        self.writes.insert((rank, write.end, write.crumb), write);
                    }
                }
                ("mds", "internal") if ops.get(row) == "journal" => self.waits.push_back(known()),
                _ => {}
            }
        }
        self.waits.drain(..self.waits.len().saturating_sub(MOST));
        if self.writes.len() > MOST {
            self.writes.retain(|_, write| now - write.since < KNOWN / 6);
            while self.writes.len() > MOST {
                self.writes.pop_first();
            }
        }
    }

    /// Whether there are waits whose writes must have come by now, or any.
    #[must_use]
    pub fn are_due(&self, now: i64, all: bool) -> bool {
        self.waits.front().is_some_and(|wait| all || now - wait.since >= PATIENCE)
    }

    /// Stitches of the waits whose writes must have come by now, or of all.
    ///
    /// # Panics
    /// Never: rows are made as the table has them.
    pub fn joined(&mut self, now: i64, all: bool) -> Option<RecordBatch> {
        let mut rows = Vec::new();
        while self.are_due(now, all) {
            let wait = self.waits.pop_front().expect("there is one");
            if let Some(write) = self.write_of(&wait) {
                rows.push(vec![
                    write.ts.into(),
                    0.into(),
                    write.node.as_ref().into(),
                    write.thread.into(),
                    write.crumb.into(),
                    wait.node.as_ref().into(),
                    wait.crumb.into(),
                    "coalesce".into(),
                    1.into(),
                    "time".into(),
                ]);
            }
        }
        self.writes.retain(|_, write| now - write.since < KNOWN);
        (!rows.is_empty()).then(|| batch(&STITCH, rows).expect("rows of the table"))
    }

    /// The rule.
    fn write_of(&self, wait: &Row) -> Option<&Row> {
        let rank = *self.ranks.get(&wait.thread)?;
        let (mut within, mut after) = (None, None);
        for (_, write) in self.writes.range((rank, wait.ts, i64::MIN)..=(rank, wait.end + HELD_UP, i64::MAX))
        {
            let (apart, late) = if write.node == wait.node { (0, NOTED) } else { (SLACK, SLACK) };
            let began_within = wait.ts - apart <= write.ts && write.ts < wait.end + apart;
            if !began_within || !self.objects.contains(&write.file) {
                continue;
            }
            if write.end <= wait.end + late {
                within = Some(write);
            } else {
                after = after.or(Some(write));
            }
        }
        within.or(after)
    }
}

/// Whether a path, `POOL/INODE.BLOCK`, is an object of a journal.
fn is_journal(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let inode = name.split_once('.').map(|(inode, _)| u64::from_str_radix(inode, 16));
    matches!(inode, Some(Ok(inode)) if JOURNALS.contains(&inode))
}

/// The number behind a word.
fn number_after(text: &str, word: &str) -> Option<u64> {
    text.strip_prefix(word)?.split(' ').next()?.parse().ok()
}

fn ints<'a>(batch: &'a RecordBatch, table: &Table, name: &str) -> &'a Int64Array {
    column(batch, table, name).as_primitive::<Int64Type>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotrail_format::schema::ColumnType;
    use iotrail_trail::arrays::Value;

    const S: i64 = 1_000_000_000;

    /// A row of a table with what is given; the rest is null, 0 or empty.
    fn row(table: &'static Table, given: &[(&str, Value)]) -> RecordBatch {
        let values = table.columns.iter().map(|column| {
            let value = given.iter().find(|(name, _)| *name == column.name).map(|(_, value)| value.clone());
            value.unwrap_or(match column.ty {
                _ if column.nullable => Value::Null,
                ColumnType::Text => "".into(),
                _ => 0.into(),
            })
        });
        batch(table, vec![values.collect()]).expect("a row of the table")
    }

    fn learn(journals: &mut Journals, table: &'static Table, given: &[(&str, Value)]) {
        journals.learn(table, &row(table, given), 7 * S);
    }

    fn write(journals: &mut Journals, node: &str, crumb: i64, client: &str, file: i64, ts: i64, end: i64) {
        let given: &[(&str, Value)] = &[
            ("component", "osd".into()),
            ("kind", "server".into()),
            ("op", "write".into()),
            ("client", client.into()),
            ("node", node.into()),
            ("crumb", crumb.into()),
            ("file", file.into()),
            ("ts", ts.into()),
            ("dur", (end - ts).into()),
        ];
        learn(journals, &SERVICE_OP, given);
    }

    fn wait(journals: &mut Journals, crumb: i64, process: i64, ts: i64, end: i64) {
        let given: &[(&str, Value)] = &[
            ("component", "mds".into()),
            ("kind", "internal".into()),
            ("op", "journal".into()),
            ("node", "m".into()),
            ("thread", process.into()),
            ("crumb", crumb.into()),
            ("ts", ts.into()),
            ("dur", (end - ts).into()),
        ];
        learn(journals, &SERVICE_OP, given);
    }

    /// Child, parent and how.
    fn pairs(rows: Option<RecordBatch>) -> Vec<(i64, i64, String)> {
        let Some(rows) = rows else { return Vec::new() };
        let how = Text::of(column(&rows, &STITCH, "how"));
        let (children, parents) = (ints(&rows, &STITCH, "crumb"), ints(&rows, &STITCH, "parent_crumb"));
        (0..rows.num_rows())
            .map(|row| (children.value(row), parents.value(row), how.get(row).to_owned()))
            .collect()
    }

    fn two_ranks() -> Journals {
        let mut journals = Journals::default();
        for (process, detail) in [(10, "rank 0 of fs"), (11, "rank 1 of fs")] {
            learn(&mut journals, &MEMBER, &[("process", process.into()), ("detail", detail.into())]);
        }
        for (file, path) in [(1, "2/200.0000001c"), (2, "2/201.00000000"), (3, "2/10000000000.00000000")] {
            learn(&mut journals, &FILE, &[("file", file.into()), ("path", path.into())]);
        }
        journals
    }

    #[test]
    fn a_request_waited_for_the_last_write_of_its_rank_within_its_wait() {
        let mut journals = two_ranks();
        wait(&mut journals, 100, 10, 1_000, 2_000);
        wait(&mut journals, 101, 10, 1_100, 2_000);
        wait(&mut journals, 102, 11, 1_000, 2_000);
        write(&mut journals, "m", 1, "mds.0", 1, 1_050, 1_500);
        write(&mut journals, "m", 2, "mds.0", 1, 1_200, 1_900);
        // Began before, ended after, of a directory, of another rank.
        write(&mut journals, "m", 3, "mds.0", 1, 900, 1_950);
        write(&mut journals, "m", 4, "mds.0", 1, 1_300, 2_001 + NOTED);
        write(&mut journals, "m", 5, "mds.0", 3, 1_300, 1_990);
        write(&mut journals, "m", 6, "mds.1", 2, 1_300, 1_995);
        assert!(!journals.are_due(8 * S, false) && journals.are_due(8 * S, true));
        assert_eq!(pairs(journals.joined(8 * S, false)), []);
        let time = || "time".to_owned();
        assert_eq!(
            pairs(journals.joined(17 * S, false)),
            [(2, 100, time()), (2, 101, time()), (6, 102, time())]
        );
        assert!(!journals.are_due(99 * S, true));
        assert_eq!(pairs(journals.joined(99 * S, true)), []);
    }

    #[test]
    fn an_end_is_noted_when_the_reply_is_gone() {
        const US: i64 = 1_000;
        let mut journals = two_ranks();
        wait(&mut journals, 100, 10, 1_000 * US, 6_458 * US);
        write(&mut journals, "m", 1, "mds.0", 1, 2_000 * US, 4_000 * US);
        write(&mut journals, "m", 2, "mds.0", 1, 3_450 * US, 6_469 * US);
        write(&mut journals, "m", 3, "mds.0", 1, 3_500 * US, 6_600 * US);
        assert_eq!(pairs(journals.joined(8 * S, true)), [(2, 100, "time".to_owned())]);
        // Held up for longer: only if there is no other.
        let mut journals = two_ranks();
        wait(&mut journals, 100, 10, 1_000 * US, 6_000 * US);
        write(&mut journals, "m", 3, "mds.0", 1, 3_500 * US, 6_600 * US);
        write(&mut journals, "m", 4, "mds.0", 1, 3_500 * US, 6_900 * US);
        assert_eq!(pairs(journals.joined(8 * S, true)), [(3, 100, "time".to_owned())]);
        // One that began after the wait isn't what it waited for.
        let mut journals = two_ranks();
        wait(&mut journals, 100, 10, 1_000 * US, 6_000 * US);
        write(&mut journals, "m", 3, "mds.0", 1, 6_001 * US, 6_300 * US);
        assert_eq!(pairs(journals.joined(8 * S, true)), []);
        write(&mut journals, "m", 4, "mds.0", 1, 3_500 * US, 6_900 * US);
        wait(&mut journals, 101, 10, 1_000 * US, 6_000 * US);
        assert_eq!(pairs(journals.joined(8 * S, true)), [(4, 101, "time".to_owned())]);
        // As seen: it began while the request waited, and its end was noted 1.6 ms later; so late that the next one has begun is
        // too late.
        let mut journals = two_ranks();
        wait(&mut journals, 100, 10, 36_589 * US, 41_734 * US);
        wait(&mut journals, 101, 10, 61_000 * US, 66_000 * US);
        write(&mut journals, "m", 3, "mds.0", 1, 36_420 * US, 38_612 * US);
        write(&mut journals, "m", 4, "mds.0", 1, 38_497 * US, 43_364 * US);
        write(&mut journals, "m", 5, "mds.0", 1, 63_000 * US, 66_001 * US + HELD_UP);
        assert_eq!(pairs(journals.joined(8 * S, true)), [(4, 100, "time".to_owned())]);
    }

    #[test]
    fn on_another_machine_it_may_stick_out() {
        let mut journals = two_ranks();
        wait(&mut journals, 100, 10, 10 * SLACK, 20 * SLACK);
        wait(&mut journals, 101, 10, 30 * SLACK, 40 * SLACK);
        write(&mut journals, "o", 1, "mds.0", 1, 10 * SLACK - 9, 20 * SLACK + 9);
        write(&mut journals, "o", 2, "mds.0", 1, 28 * SLACK, 39 * SLACK);
        assert_eq!(pairs(journals.joined(8 * S, true)), [(1, 100, "time".to_owned())]);
    }

    #[test]
    fn what_is_unknown_is_not_joined() {
        let mut journals = two_ranks();
        wait(&mut journals, 100, 12, 1_000, 2_000);
        wait(&mut journals, 101, 11, 1_000, 2_000);
        write(&mut journals, "m", 1, "mds.0", 1, 1_050, 1_500);
        assert_eq!(pairs(journals.joined(8 * S, true)), []);
    }

    #[test]
    fn objects_of_journals() {
        for (path, is) in
            [("2/200.00000000", true), ("2/ns/2ff.1", true), ("2/300.0", false), ("2/200", false)]
        {
            assert_eq!(is_journal(path), is, "{path}");
        }
    }
}
