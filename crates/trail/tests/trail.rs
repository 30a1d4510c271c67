//! The trail as a whole: what is written is what is read, whatever is compacted, merged or damaged
//! in between. Each property is held against a naive oracle: a vector of rows and its sort.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray};
use iotrail_format::ids::{FileId, ThreadId, hash63};
use iotrail_format::schema::{FILE, FILE_OP, PROCESS, SYNC_OP};
use iotrail_trail::seal::session::SessionFile;
use iotrail_trail::{
    Error, Ingest, Order, ROW_GROUP_ROWS, Snapshot, TrailReader, TrailWriter, check, compact, merge, sort,
};
use proptest::prelude::*;

const NOW: Duration = Duration::ZERO;

/// The columns that vary, in the order (thread, ts, …) so that deriving `Ord` gives the declared order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    thread: i64,
    ts: i64,
    dur: Option<i64>,
    node: String,
    call: String,
    file: Option<i64>,
    pos: Option<i64>,
}

fn row() -> impl Strategy<Value = Row> {
    let word = |words: &'static [&'static str]| prop::sample::select(words).prop_map(str::to_owned);
    (
        (0..5_i64, -20..200_i64, prop::option::of(0..50_i64), word(&["n1", "n2"])),
        (
            word(&["read", "pread", "open", "fsync"]),
            prop::option::of(0..i64::MAX),
            prop::option::of(0..9_i64),
        ),
    )
        .prop_map(|((thread, ts, dur, node), (call, file, pos))| Row {
            thread,
            ts,
            dur,
            node,
            call,
            file,
            pos,
        })
}

fn file_ops(rows: &[Row]) -> RecordBatch {
    let ints =
        |of: fn(&Row) -> i64| Arc::new(rows.iter().map(|r| Some(of(r))).collect::<Int64Array>()) as ArrayRef;
    let maybe =
        |of: fn(&Row) -> Option<i64>| Arc::new(rows.iter().map(of).collect::<Int64Array>()) as ArrayRef;
    let words = |of: fn(&Row) -> &str| {
        Arc::new(rows.iter().map(|r| Some(of(r))).collect::<DictionaryArray<Int32Type>>()) as ArrayRef
    };
    RecordBatch::try_from_iter([
        ("ts", ints(|r| r.ts)),
        ("dur", maybe(|r| r.dur)),
        ("node", words(|r| &r.node)),
        ("thread", ints(|r| r.thread)),
        ("crumb", ints(|_| 0)),
        ("call", words(|r| &r.call)),
        ("file", maybe(|r| r.file)),
        ("pos", maybe(|r| r.pos)),
        ("errno", ints(|_| 0)),
        ("calls", ints(|_| 1)),
    ])
    .expect("columns of one length")
}

fn names(rows: &[(&str, i64, &str)]) -> RecordBatch {
    RecordBatch::try_from_iter([
        ("node", Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.0))) as ArrayRef),
        ("file", Arc::new(Int64Array::from_iter_values(rows.iter().map(|r| r.1)))),
        ("path", Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.2)))),
    ])
    .expect("columns of one length")
}

/// Appends rows as one file.
fn append(writer: &mut TrailWriter, rows: &[Row]) {
    let batch = iotrail_trail::conform(&FILE_OP, &file_ops(rows)).expect("columns of file_op");
    writer.append(&FILE_OP, &sort(&FILE_OP, &batch).expect("sortable")).expect("rows in order");
}

fn trail(folder: &Path, name: &str, files: &[Vec<Row>]) -> PathBuf {
    let path = folder.join(name);
    let mut writer = TrailWriter::create(&path, false).expect("a new trail");
    for rows in files {
        append(&mut writer, rows);
    }
    writer.publish().expect("a snapshot");
    path
}

fn read(path: &Path, order: Order) -> Vec<Row> {
    let reader = TrailReader::open(path).expect("a trail");
    let mut rows = reader.file_ops(order).expect("live files");
    let mut all = Vec::new();
    while let Some(op) = rows.next().expect("a sound row") {
        all.push(Row {
            thread: op.thread.0,
            ts: op.ts,
            dur: op.dur,
            node: op.node.to_owned(),
            call: op.call.to_owned(),
            file: op.file.map(|FileId(id)| id),
            pos: op.pos,
        });
    }
    all
}

fn sorted(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort();
    rows
}

fn data_files(path: &Path) -> usize {
    let folders = fs::read_dir(path.join("data")).expect("data/");
    folders.map(|f| fs::read_dir(f.expect("an entry").path()).expect("a folder").count()).sum()
}

/// The Parquet reader panics at what this bit makes of a footer: a page whose dictionary is gone.
#[test]
fn a_footer_that_loses_a_dictionary_is_damage() {
    let rows: Vec<Row> = (0..300).map(|i| plain(i % 3, i * 10)).collect();
    let folder = tempfile::tempdir().expect("a directory");
    let path = trail(folder.path(), "a.trail", &[rows]);
    let file = path.join(&TrailReader::open(&path).expect("a trail").snapshot().files("file_op")[0].path);
    let whole = fs::read(&file).expect("the data file");
    // The footer: its length stands in front of the last four bytes.
    let length = u32::from_le_bytes(whole[whole.len() - 8..whole.len() - 4].try_into().expect("four bytes"));
    for at in whole.len() - 8 - length as usize..whole.len() - 8 {
        for bit in [0, 7] {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << bit;
            fs::write(&file, bytes).expect("the data file");
            let found = check(&path, false).expect("damage is no error");
            assert!(!found.is_sound(), "bit {bit} of byte {at}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_order_and_compaction_equal_a_sort(files in prop::collection::vec(prop::collection::vec(row(), 0..60), 0..9)) {
        let folder = tempfile::tempdir().expect("a directory");
        let path = trail(folder.path(), "a.trail", &files);
        let expected = sorted(files.concat());
        for round in 0..3 {
            let by_thread = read(&path, Order::Thread);
            prop_assert!(by_thread.is_sorted_by_key(|r| (r.thread, r.ts)), "round {}", round);
            prop_assert_eq!(&sorted(by_thread), &expected);
            let by_time = read(&path, Order::Time);
            prop_assert!(by_time.is_sorted_by_key(|r| (r.ts, r.thread)), "round {}", round);
            prop_assert_eq!(&sorted(by_time), &expected);
            let done = compact(&path, NOW).expect("compaction");
            prop_assert_eq!(done.files_after, usize::from(!expected.is_empty()));
            prop_assert_eq!(data_files(&path), done.files_after, "replaced files are deleted");
            let found = check(&path, false).expect("a check");
            prop_assert!(found.is_sound() && found.orphans.is_empty(), "{:?}", found);
        }
    }

    #[test]
    fn merging_keeps_every_row(a in prop::collection::vec(row(), 1..80), b in prop::collection::vec(row(), 1..80)) {
        let folder = tempfile::tempdir().expect("a directory");
        let first = trail(folder.path(), "a.trail", std::slice::from_ref(&a));
        let second = trail(folder.path(), "b.trail", std::slice::from_ref(&b));
        let both = folder.path().join("c.trail");
        prop_assume!(sorted(a.clone()) != sorted(b.clone()));
        merge(&[first, second], &both, false).expect("two recordings");
        prop_assert_eq!(sorted(read(&both, Order::Time)), sorted([a, b].concat()));
        compact(&both, NOW).expect("compaction");
        prop_assert!(check(&both, false).expect("a check").is_sound());
    }

    #[test]
    fn no_change_to_a_data_file_goes_unseen(at in any::<prop::sample::Index>(), bit in 0..8_u32) {
        let rows: Vec<Row> = (0..300).map(|i| plain(i % 3, i * 10)).collect();
        let folder = tempfile::tempdir().expect("a directory");
        let path = trail(folder.path(), "a.trail", &[rows]);
        let file = path.join(&TrailReader::open(&path).expect("a trail").snapshot().files("file_op")[0].path);
        let mut bytes = fs::read(&file).expect("the data file");
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        fs::write(&file, bytes).expect("the data file");
        let found = check(&path, false).expect("damage is no error");
        prop_assert!(!found.is_sound(), "bit {} of byte {}", bit, at);
        let repaired = check(&path, true).expect("a repair");
        prop_assert!(repaired.repaired.is_some());
        prop_assert!(check(&path, false).expect("a check").is_sound());
        prop_assert_eq!(read(&path, Order::Thread).len() as u64, 300 - repaired.lost);
    }

    #[test]
    fn a_changed_snapshot_is_refused_or_read(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let folder = tempfile::tempdir().expect("a directory");
        let path = trail(folder.path(), "a.trail", &[vec![plain(1, 1)]]);
        let text = fs::read(Snapshot::path(&path, 2)).expect("the second snapshot");
        let mut changed = text.clone();
        changed[at.index(text.len())] = byte;
        let _ = Snapshot::parse(&changed, &path);
        let cut = &text[..at.index(text.len())];
        prop_assert!(Snapshot::parse(cut, &path).is_err());
    }
}

fn plain(thread: i64, ts: i64) -> Row {
    Row { thread, ts, dur: Some(1), node: "n1".into(), call: "read".into(), file: Some(7), pos: None }
}

#[test]
fn names_of_files_become_one_sorted_list() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("a.trail");
    let mut writer = TrailWriter::create(&path, false).expect("a new trail");
    writer.append(&FILE, &names(&[("n1", 3, "/c"), ("n1", 5, "/e")])).expect("in order");
    writer.append(&FILE, &names(&[("n1", 3, "/c"), ("n2", 3, "/c"), ("n1", 4, "/d")])).expect("in order");
    writer.publish().expect("a snapshot");
    let done = compact(&path, NOW).expect("compaction");
    assert_eq!((done.repeated, done.files_after), (1, 1));
    assert_eq!(Snapshot::newest(&path).expect("a trail").rows("file"), 4);
}

#[test]
fn readers_keep_their_snapshot_until_the_grace_is_over() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = trail(folder.path(), "a.trail", &[vec![plain(1, 1)], vec![plain(1, 2)]]);
    let pinned = TrailReader::open(&path).expect("a trail");
    compact(&path, Duration::from_secs(3600)).expect("compaction");
    let mut rows = pinned.file_ops(Order::Time).expect("its files are still there");
    let mut count = 0;
    while rows.next().expect("a row").is_some() {
        count += 1;
    }
    assert_eq!(count, 2);
    assert_eq!(data_files(&path), 3);
    assert_eq!(compact(&path, NOW).expect("compaction").deleted, 2);
    assert!(matches!(pinned.file_ops(Order::Time), Err(Error::MissingFile { rows: 1, .. })));
    assert_eq!(read(&path, Order::Time).len(), 2);
}

#[test]
fn two_writers_both_get_their_rows_in() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = trail(folder.path(), "a.trail", &[]);
    let mut one = TrailWriter::open(&path).expect("a trail");
    let mut two = TrailWriter::open(&path).expect("a trail");
    for i in 0..5 {
        append(&mut one, &[plain(1, i)]);
        append(&mut two, &[plain(2, i)]);
        let first = one.publish().expect("a snapshot");
        assert_eq!(two.publish().expect("a snapshot"), first + 1);
    }
    assert_eq!(read(&path, Order::Thread).len(), 10);
}

#[test]
fn nothing_is_deleted_under_an_unfinished_recording() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = trail(folder.path(), "a.trail", &[vec![plain(1, 1)], vec![plain(1, 2)]]);
    fs::write(path.join("session.json"), "{}").expect("a session");
    assert_eq!(compact(&path, NOW).expect("compaction").deleted, 0);
    assert_eq!(Snapshot::newest(&path).expect("a trail").dead.len(), 2);
    fs::remove_file(path.join("session.json")).expect("a session");
    assert_eq!(compact(&path, NOW).expect("compaction").deleted, 2);
}

#[test]
fn a_recording_keeps_only_the_files_that_its_journals_name() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = trail(folder.path(), "a.trail", &[vec![plain(1, 1)], vec![plain(1, 2)], vec![plain(1, 3)]]);
    let files: Vec<String> =
        Snapshot::newest(&path).expect("a trail").all_files().map(|f| f.path.clone()).collect();
    let session_dir = folder.path().join("session");
    let inner = session_dir.join("inner");
    fs::create_dir_all(&inner).expect("a directory");
    let named = |file: &str| {
        // crates/trail/src/seal/journal.rs: magic, version, sequence, publishes, committed, file
        let words = [u64::from_le_bytes(*b"IOTRJNL1"), 1, 7, 2, 9, hash63(file.as_bytes()) as u64];
        let mut header: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        header.resize(4096, 0);
        fs::write(session_dir.join("journal-0"), header).expect("a journal");
    };
    named(&files[1]);
    let session = SessionFile {
        session_dir: inner,
        pid: 1,
        start: 0,
        boot_id: String::new(),
        node: "n".into(),
        publishes: 0,
        file: 0,
    };
    session.write(&path).expect("a session");
    assert_eq!(compact(&path, NOW).expect("compaction").deleted, 2);
    assert!(path.join(&files[1]).exists());
    // The journal's next turn names another file.
    named("data/file_op/another.parquet");
    assert_eq!(compact(&path, NOW).expect("compaction").deleted, 1);
    assert_eq!(read(&path, Order::Thread).len(), 3);
    // What can't be read may name any.
    append_and_compact(&path);
    fs::write(session_dir.join("journal-1"), "short").expect("a journal");
    assert_eq!(compact(&path, NOW).expect("compaction").deleted, 0);
}

/// Makes dead files that are kept for readers.
fn append_and_compact(path: &Path) {
    let mut writer = TrailWriter::open(path).expect("a trail");
    append(&mut writer, &[plain(1, 4)]);
    writer.publish().expect("a snapshot");
    compact(path, Duration::from_secs(60)).expect("compaction");
}

#[test]
fn damage_costs_its_row_group_only() {
    let folder = tempfile::tempdir().expect("a directory");
    let count = 2 * ROW_GROUP_ROWS + 1000;
    let rows: Vec<Row> = (0..count as i64).map(|i| plain(i / 100_000, i)).collect();
    let path = trail(folder.path(), "a.trail", std::slice::from_ref(&rows));
    let entry = TrailReader::open(&path).expect("a trail").snapshot().files("file_op")[0].clone();
    let file = path.join(&entry.path);
    let mut bytes = fs::read(&file).expect("the data file");
    bytes[100] ^= 1;
    fs::write(&file, bytes).expect("the data file");

    let found = check(&path, false).expect("damage is no error");
    assert_eq!(found.lost, ROW_GROUP_ROWS as u64);
    assert_eq!(found.damaged.len(), 1);
    assert_eq!(found.damaged[0].row_groups.len(), 1);
    assert_eq!(found.damaged[0].row_groups[0].row_group, 0);
    let reader = TrailReader::open(&path).expect("a trail");
    assert!(matches!(reader.file_ops(Order::Thread), Err(Error::BadFile { .. })), "never decoded");

    assert!(check(&path, true).expect("a repair").repaired.is_some());
    assert!(check(&path, false).expect("a check").is_sound());
    assert_eq!(read(&path, Order::Thread), rows[ROW_GROUP_ROWS..]);
}

#[test]
fn a_missing_file_is_named_and_repair_keeps_the_rest() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = trail(folder.path(), "a.trail", &[vec![plain(1, 1)], vec![plain(1, 2), plain(1, 3)]]);
    let entry = TrailReader::open(&path).expect("a trail").snapshot().files("file_op")[0].clone();
    fs::remove_file(path.join(&entry.path)).expect("a live file");
    let reader = TrailReader::open(&path).expect("a trail");
    assert!(matches!(reader.file_ops(Order::Time), Err(Error::MissingFile { rows: 1, .. })));
    let found = check(&path, true).expect("a repair");
    assert_eq!((found.lost, found.damaged[0].path.as_str()), (1, entry.path.as_str()));
    assert_eq!(read(&path, Order::Time).len(), 2);
}

#[test]
fn without_a_readable_snapshot_the_data_files_are_the_trail() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = trail(folder.path(), "a.trail", &[vec![plain(1, 1)], vec![plain(1, 2), plain(1, 3)]]);
    for number in Snapshot::numbers(&path).expect("a trail") {
        fs::write(Snapshot::path(&path, number), "{\"iotrail_trail\": 1,").expect("a snapshot");
    }
    assert!(matches!(Snapshot::newest(&path), Err(Error::BadSnapshot { .. })));
    assert!(!check(&path, false).expect("a check").is_sound());
    assert_eq!(check(&path, true).expect("a repair").repaired, Some(3));
    assert_eq!(read(&path, Order::Time).len(), 3);
}

#[test]
fn a_cut_newest_snapshot_gives_way_to_the_one_before() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = trail(folder.path(), "a.trail", &[vec![plain(1, 1)]]);
    let text = fs::read(Snapshot::path(&path, 2)).expect("the second snapshot");
    fs::write(Snapshot::path(&path, 3), &text[..text.len() / 2]).expect("a third, cut");
    assert_eq!(read(&path, Order::Time).len(), 1);
    let mut writer = TrailWriter::open(&path).expect("a trail");
    append(&mut writer, &[plain(1, 2)]);
    assert_eq!(writer.publish().expect("a snapshot"), 4, "numbers are never used twice");
    assert_eq!(read(&path, Order::Time).len(), 2);
}

#[test]
fn the_same_recording_is_not_merged_twice() {
    let folder = tempfile::tempdir().expect("a directory");
    let one = trail(folder.path(), "a.trail", &[vec![plain(1, 1)]]);
    let out = folder.path().join("c.trail");
    let refused = merge(&[one.clone(), one.clone()], &out, false);
    assert!(matches!(refused, Err(Error::Merge { .. })), "{refused:?}");

    // The same run of a program, in files of other bytes.
    let process = |name: &str, end: i64| {
        let path = folder.path().join(name);
        let mut writer = TrailWriter::create(&path, false).expect("a new trail");
        let text = |text: &str| Arc::new(StringArray::from(vec![text])) as ArrayRef;
        let int = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        let columns = [
            ("node", text("n1")),
            ("process", int(77)),
            ("pid", int(1)),
            ("name", text("cat")),
            ("start_ts", int(5)),
            ("end_ts", int(end)),
            ("ended", text("exit")),
        ];
        writer.append(&PROCESS, &RecordBatch::try_from_iter(columns).expect("columns")).expect("in order");
        writer.publish().expect("a snapshot");
        path
    };
    let refused = merge(&[process("p.trail", 8), process("q.trail", 9)], &out, false);
    let message = refused.expect_err("one run in both").to_string();
    assert!(message.contains("process 77 of node n1"), "{message}");
    assert!(!out.exists());
}

#[test]
fn rows_that_do_not_fit_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("a.trail");
    let mut writer = TrailWriter::create(&path, false).expect("a new trail");
    let mut refuse = |batch: &RecordBatch, expected: &str| {
        let message = writer.append(&FILE_OP, batch).expect_err("rows that don't fit").to_string();
        assert!(message.contains(expected), "{message}");
    };
    let good = file_ops(&[plain(1, 5), plain(1, 9)]);
    let without = |name: &str| {
        let (at, _) = good.schema_ref().column_with_name(name).expect("a column");
        let mut less = good.clone();
        less.remove_column(at);
        less
    };
    refuse(&without("ts"), "column \"ts\" is missing");
    refuse(&file_ops(&[plain(1, 9), plain(1, 5)]), "row 1 is out of the order by thread, ts");
    let with = |name: &str, column: ArrayRef| {
        let rest = without("ts");
        let columns = rest.schema_ref().fields().iter().zip(rest.columns());
        let columns = columns.map(|(field, column)| (field.name().clone(), column.clone()));
        RecordBatch::try_from_iter(columns.chain([(name.to_owned(), column)])).expect("columns")
    };
    refuse(&with("tz", Arc::new(Int64Array::from(vec![1, 2]))), "no column \"tz\"; it has ts, dur");
    refuse(
        &with("ts", Arc::new(StringArray::from(vec!["1", "2"]))),
        "column \"ts\": expected BIGINT, found Utf8",
    );
    refuse(&with("ts", Arc::new(Int64Array::from(vec![Some(1), None]))), "column \"ts\" is null in row 1");
    writer.publish().expect("a snapshot");
    assert_eq!(data_files(&path), 0);
}

#[test]
fn ingestion_sorts_across_batches() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("a.trail");
    let mut writer = TrailWriter::create(&path, false).expect("a new trail");
    let mut ingest = Ingest::new(&mut writer, &FILE_OP);
    for i in (0..50).rev() {
        ingest.add(file_ops(&[plain(i % 3, i)])).expect("columns of file_op");
    }
    ingest.finish().expect("a file");
    writer.publish().expect("a snapshot");
    assert_eq!(Snapshot::newest(&path).expect("a trail").files("file_op").len(), 1);
    assert_eq!(
        read(&path, Order::Time).iter().map(|r| r.ts).collect::<Vec<_>>(),
        (0..50).collect::<Vec<_>>()
    );
}

#[test]
fn only_a_trail_is_replaced_and_only_by_force() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = trail(folder.path(), "a.trail", &[vec![plain(1, 1)]]);
    assert!(matches!(TrailWriter::create(&path, false), Err(Error::Exists { trail: true, .. })));
    let foreign = folder.path().join("home");
    fs::create_dir(&foreign).expect("a directory");
    fs::write(foreign.join("thesis.tex"), "years of work").expect("a file");
    assert!(matches!(TrailWriter::create(&foreign, true), Err(Error::Exists { trail: false, .. })));
    assert!(matches!(
        TrailWriter::create(&foreign.join("thesis.tex"), true),
        Err(Error::Exists { trail: false, .. })
    ));
    assert!(foreign.join("thesis.tex").exists());
    fs::write(path.join("notes.txt"), "mine").expect("a file");
    TrailWriter::create(&path, true).expect("replaced");
    assert!(path.join("notes.txt").exists(), "what isn't iotrail's stays");
    assert_eq!(read(&path, Order::Time).len(), 0);
}

#[test]
fn waits_are_read_with_their_types() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("a.trail");
    let mut writer = TrailWriter::create(&path, false).expect("a new trail");
    let text = |text: &str| Arc::new(StringArray::from(vec![text])) as ArrayRef;
    let int = |value: i64| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
    let columns = [
        ("ts", int(5)),
        ("node", text("n1")),
        ("thread", int(3)),
        ("crumb", int(0)),
        ("call", text("poll")),
        ("kind", text("poll")),
        ("peer", int(9)),
        ("errno", int(4)),
    ];
    writer.append(&SYNC_OP, &RecordBatch::try_from_iter(columns).expect("columns")).expect("in order");
    writer.publish().expect("a snapshot");
    let reader = TrailReader::open(&path).expect("a trail");
    let mut rows = reader.sync_ops(Order::Time).expect("live files");
    let wait = rows.next().expect("sound").expect("one row");
    assert_eq!(
        (wait.thread, wait.kind, wait.peer, wait.dur, wait.errno),
        (ThreadId(3), "poll", Some(9), None, 4)
    );
    assert!(rows.next().expect("sound").is_none());
}
