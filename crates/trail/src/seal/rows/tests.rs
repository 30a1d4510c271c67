//! Journals made by hand, and the rows that come of them.

use super::carry::push_run;
use super::*;
use crate::columns::conform;
use crate::seal::clock::Pair;
use crate::seal::producer::{call, pread, text};
use arrow_array::cast::AsArray as _;
use arrow_array::types::Int64Type;
use iotrail_format::call::WaitKind;
use iotrail_format::record::STITCHED;
use iotrail_format::segment::{ImageNote, NONE, OP_MORE, UNFINISHED};
use proptest::prelude::*;

const PROCESS_ID: i64 = 11;
const THREAD_ID: i64 = 22;

fn rows() -> Rows {
    let mut clock = Clock::new(1_000_000);
    clock.push(Pair { ticks: 0, mono: 1 });
    clock.push(Pair { ticks: 2_000_000, mono: 1_000_001 });
    Rows::new("here-1".into(), clock, HashSet::new())
}

fn run(slots: &[Unit]) -> Vec<Unit> {
    let mut units = Vec::new();
    push_run(&mut units, PROCESS_ID, THREAD_ID, 5, slots);
    units
}

fn begin() -> Vec<Unit> {
    let start_ticks = 100;
    vec![
        Event::Process { process: PROCESS_ID, parent: 0, pid: 5, start_ticks }.encode(),
        Event::Thread { process: PROCESS_ID, thread: THREAD_ID, tid: 5, start_ticks, end_ticks: 0 }.encode(),
    ]
}

fn end() -> Unit {
    Event::ProcessEnd {
        process: PROCESS_ID,
        ended: Ended::Exit,
        end_ticks: 1_000_000,
        status: 3,
        rank: 1,
        usage: [1, 2, 3, -1],
    }
    .encode()
}

/// All rows of a table that `units` make, as text.
fn apply(rows: &mut Rows, units: &[Unit], sequence: u64) -> HashMap<&'static str, Vec<RecordBatch>> {
    let mut tables: HashMap<&'static str, Vec<RecordBatch>> = HashMap::new();
    rows.apply(units, sequence, &mut |table, batch| {
        assert_eq!(crate::columns::first_out_of_order(table, &batch), None);
        tables.entry(table.name).or_default().push(conform(table, &batch)?);
        Ok(())
    })
    .unwrap();
    tables
}

fn column(tables: &HashMap<&str, Vec<RecordBatch>>, table: &str, name: &str) -> Vec<Option<i64>> {
    let batches = tables.get(table).into_iter().flatten();
    batches
        .flat_map(|batch| {
            batch.column_by_name(name).unwrap().as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
        })
        .collect()
}

fn texts(tables: &HashMap<&str, Vec<RecordBatch>>, table: &str, name: &str) -> Vec<Option<String>> {
    let batches = tables.get(table).into_iter().flatten();
    batches
        .flat_map(|batch| {
            let column = batch.column_by_name(name).unwrap().clone();
            let column = column.as_string::<i32>().iter().map(|text| text.map(str::to_owned));
            column.collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn each_field_of_a_slot_goes_to_its_column() {
    let none = NONE as u64;
    let mut units = begin();
    units.extend(run(&[
        pread(7, 8192, 500, 100),
        call(Call::Rename, 0, -1, [600, 10, 7, none, none, 0, 8]),
        call(Call::Fwrite, 0, 4, [700, 10, 7, none, 4096, 4096, 25]),
        call(Call::Open, 0, -1, [800, 10, 7, none, none, u64::MAX, 0o2]),
        call(Call::Read, 0, 3, [900, UNFINISHED, 7, none, 10, 0, none]),
        call(Call::Recv, WaitKind::Socket as u8, 9, [950, 20, 77, none, 64, 32, none]),
    ]));
    let tables = apply(&mut rows(), &units, 1);
    assert_eq!(column(&tables, "file_op", "ts")[0], Some(1_000_000 + 1 + 250));
    assert_eq!(column(&tables, "file_op", "dur"), [Some(50), Some(5), Some(5), Some(5), None]);
    assert_eq!(column(&tables, "file_op", "pos"), [Some(8192), None, None, None, None]);
    assert_eq!(column(&tables, "file_op", "file2"), [None, Some(8), None, None, None]);
    assert_eq!(column(&tables, "file_op", "calls"), [1, 1, 25, 1, 1].map(Some));
    assert_eq!(column(&tables, "file_op", "flags"), [None, None, None, Some(2), None]);
    assert_eq!(column(&tables, "file_op", "result")[3..], [Some(-1), None]);
    assert_eq!(column(&tables, "file_op", "fd")[..2], [Some(3), None]);
    assert_eq!(column(&tables, "sync_op", "object"), [Some(77)]);
    assert_eq!(column(&tables, "sync_op", "peer"), [None]);
    assert_eq!(column(&tables, "sync_op", "dur"), [Some(10)]);
}

#[test]
fn a_vfork_child_has_its_own_process() {
    let marker = |pid: u64, start: u64| [u64::from(OP_VFORK) | pid << 32, start, 0, 0, 0, 0, 0, 0];
    let mut units = begin();
    units.extend(run(&[
        pread(7, 0, 500, 1),
        marker(6, 600),
        pread(7, 1, 700, 1),
        marker(0, 800),
        pread(7, 2, 900, 1),
    ]));
    units.push(Event::Process { process: 33, parent: PROCESS_ID, pid: 6, start_ticks: 790 }.encode());
    units.push(end());
    let tables = apply(&mut rows(), &units, 1);
    let threads = column(&tables, "file_op", "thread");
    assert_eq!(threads.iter().filter(|thread| **thread == Some(THREAD_ID)).count(), 2);
    assert_eq!(threads.len(), 3);
    assert_eq!(column(&tables, "process", "pid"), [Some(5), Some(6)]);
    assert_eq!(column(&tables, "process", "parent"), [None, Some(PROCESS_ID)]);
    assert_eq!(texts(&tables, "process", "ended"), ["exit", "exec"].map(|text| Some(text.to_owned())));
    assert_eq!(column(&tables, "thread", "tid"), [Some(5), Some(6)]);
}

#[test]
fn a_thread_that_posts_after_its_end_has_one_row() {
    let ended =
        Event::Thread { process: PROCESS_ID, thread: THREAD_ID, tid: 5, start_ticks: 100, end_ticks: 500 };
    let again =
        Event::Thread { process: PROCESS_ID, thread: THREAD_ID, tid: 5, start_ticks: 100, end_ticks: 0 };
    let mut rows = rows();
    let mut units = begin();
    units.push(ended.encode());
    units.push(again.encode());
    units.extend(run(&[pread(7, 0, 600, 1)]));
    assert_eq!(column(&apply(&mut rows, &units, 1), "thread", "tid"), []);
    assert_eq!(column(&apply(&mut rows, &[], 2), "thread", "tid"), [Some(5)]);
    assert_eq!(column(&apply(&mut rows, &[end()], 3), "thread", "tid"), []);
}

proptest! {
    /// Wherever journals end, and whether or not the state went through a carry in between (as
    /// after a kill), the rows are those of one journal.
    #[test]
    fn rows_do_not_depend_on_where_journals_end(
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        carried in any::<bool>(),
        path in prop::collection::vec(1_u8..255, 1..200),
    ) {
        let marker = |pid: u64, start: u64| [u64::from(OP_VFORK) | pid << 32, start, 0, 0, 0, 0, 0, 0];
        let mut slots = text(TextKind::Exe, 0, b"/usr/bin/some-program-with-a-name-of-more-than-one-slot");
        slots.extend(text(TextKind::Command, 0, b"program\0it's\0plain\0"));
        slots.extend(text(TextKind::ThreadName, 0, b"worker"));
        slots.extend(text(TextKind::Path, 77, &path));
        slots.push(pread(77, 0, 500, 1));
        slots.push(marker(6, 600));
        slots.push(pread(77, 1, 700, 1));
        slots.push(marker(0, 800));
        slots.push(pread(77, 2, 900, 1));

        let mut whole = begin();
        whole.extend(run(&slots));
        whole.push(end());
        let expected = apply(&mut rows(), &whole, 1);

        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(slots.len())).collect();
        cuts.extend([0, slots.len()]);
        cuts.sort_unstable();
        let mut found: HashMap<&'static str, Vec<RecordBatch>> = HashMap::new();
        let mut state = rows();
        let mut sequence = 1;
        let mut feed = |units: &[Unit], state: &mut Rows| {
            for (table, batches) in apply(state, units, sequence) {
                found.entry(table).or_default().extend(batches);
            }
            if carried {
                let units = state.carry();
                let files: HashSet<i64> = state.files.iter().copied().collect();
                *state = Rows::new("here-1".into(), Clock::new(1_000_000), files);
                assert!(apply(state, &units, sequence).is_empty());
            }
            sequence += 1;
        };
        feed(&begin(), &mut state);
        for two in cuts.windows(2) {
            feed(&run(&slots[two[0]..two[1]]), &mut state);
        }
        feed(&[end()], &mut state);

        for (table, columns) in [
            ("file_op", &["ts", "thread", "pos"][..]),
            ("process", &["process", "pid", "start_ts", "end_ts", "status", "rank", "parent"]),
            ("thread", &["thread", "tid", "start_ts", "end_ts"]),
            ("file", &["file"]),
        ] {
            for name in columns {
                let (mut one, mut other) = (column(&expected, table, name), column(&found, table, name));
                one.sort_unstable();
                other.sort_unstable();
                prop_assert_eq!(one, other, "{}.{}", table, name);
            }
        }
        for (table, name) in [("process", "exe"), ("process", "cmd"), ("thread", "name"), ("file", "path")] {
            let (mut one, mut other) = (texts(&expected, table, name), texts(&found, table, name));
            one.sort_unstable();
            other.sort_unstable();
            prop_assert_eq!(one, other, "{}.{}", table, name);
        }
        let cmd = texts(&expected, "process", "cmd");
        prop_assert!(cmd.contains(&Some("program 'it'\\''s' plain".to_owned())), "{:?}", cmd);
    }
}

/// A note of the kernel's on an image.
fn note(kind: ImageNote, number: u32, start: u64, [dur, pos, length]: [u64; 3]) -> Unit {
    let word = u64::from(OP_IMAGE) | (kind as u64) << 16 | u64::from(number) << 32;
    [word, start, dur, IMAGE_ID as u64, pos, length, 0, 0]
}

/// A call that the kernel saw: `thread` is pid and tid, `fields` object, pos, length, result, aux.
fn seen(call: Call, thread: [u64; 2], start: u64, fields: [u64; 5], image: i64) -> [Unit; 2] {
    let [object, pos, length, result, aux] = fields;
    let head = u64::from(OP_CALL) | 1 << 24 | 3 << 32;
    let more = [u64::from(OP_MORE), aux, call as u64, image as u64, 0, 0, 0, 0];
    [[head, start, 7, thread[0] | thread[1] << 32, object, pos, length, result], more]
}

const IMAGE_ID: i64 = 44;

/// What the recorder of the kernel posted, from a segment of its own.
fn by_kernel(slots: &[Unit]) -> Vec<Unit> {
    let process = Event::Process { process: 99, parent: RECORDER, pid: 1, start_ticks: 1 };
    let mut units = vec![process.encode()];
    push_run(&mut units, 99, 98, 1, slots);
    units
}

#[test]
fn calls_that_the_kernel_saw_are_rows_of_their_image() {
    let none = NONE as u64;
    let mut slots = vec![note(ImageNote::Watching, 0, 0, [0; 3]), note(ImageNote::Begun, 7, 1000, [0, 5, 0])];
    slots.extend(text(TextKind::Exe, IMAGE_ID, b"/opt/fixed"));
    slots.extend(text(TextKind::Command, IMAGE_ID, b"./fixed\0-x\0"));
    slots.extend(seen(Call::Pread, [7, 7], 1100, [77, 8192, 4096, 4096, none], IMAGE_ID));
    slots.extend(seen(Call::Rename, [7, 8], 1200, [77, none, none, 0, 78], IMAGE_ID));
    slots.push(note(ImageNote::Ended, 7, 2000, [0, 1, 3]));
    // What a recorder in a program could not see is not unseen.
    let unseen = u64::from(OP_UNSEEN) | (UnseenKind::Static as u64) << 16;
    let mut units = begin();
    units.extend(run(&[[unseen, 500, 0, 0, none, 1, 0, none]]));
    units.extend(by_kernel(&slots));

    for carried in [false, true] {
        let mut state = rows();
        assert!(!apply(&mut state, &units, 1).contains_key("file_op"), "they wait for the next journal");
        if carried {
            let units = state.carry();
            state = Rows::new("here-1".into(), Clock::new(1_000_000), HashSet::new());
            assert!(apply(&mut state, &units, 1).is_empty());
        }
        let tables = apply(&mut state, &[], 2);
        let thread = |tid| ThreadId::new(ProcessId(IMAGE_ID), tid, 0).0;
        let mut expected = vec![
            (Some(thread(7)), Some(1_001_100), Some(8192), None),
            (Some(thread(8)), Some(1_001_200), None, Some(78)),
        ];
        expected.sort_unstable();
        let found: Vec<_> = column(&tables, "file_op", "thread")
            .into_iter()
            .zip(column(&tables, "file_op", "ts"))
            .zip(column(&tables, "file_op", "pos"))
            .zip(column(&tables, "file_op", "file2"))
            .map(|(((thread, ts), pos), file2)| (thread, ts, pos, file2))
            .collect();
        assert_eq!(found, expected);
        assert_eq!(column(&tables, "file_op", "dur"), [Some(7), Some(7)]);
        assert!(!tables.contains_key("unseen"));
        assert_eq!((state.totals().calls, state.totals().read), (2, 4096));
        assert!(!tables.contains_key("process"), "what else belongs to it may still come");
        let tables = apply(&mut state, &[end()], 4);
        assert_eq!(column(&tables, "process", "pid"), [Some(5), Some(7)]);
        assert_eq!(column(&tables, "process", "parent"), [None, Some(PROCESS_ID)]);
        assert_eq!(column(&tables, "process", "status"), [Some(3), Some(3)]);
        assert_eq!(column(&tables, "process", "end_ts")[1], Some(1_002_000));
        assert_eq!(texts(&tables, "process", "exe"), [None, Some("/opt/fixed".to_owned())]);
        assert_eq!(texts(&tables, "process", "cmd")[1].as_deref(), Some("./fixed -x"));
        let mut tids = column(&tables, "thread", "tid");
        tids.sort_unstable();
        assert_eq!(tids, [Some(5), Some(7), Some(8)]);
    }
}

#[test]
fn calls_that_the_kernel_saw_are_for_the_breadcrumb_their_thread_worked_for() {
    let none = NONE as u64;
    let crumb = |start: u64, crumb: u64| [u64::from(OP_CRUMB), start, 0, crumb, 0, 0, 0, 0];
    let call = |start: u64, image: i64| seen(Call::Pwrite, [5, 5], start, [77, start, 1, 1, none], image);
    // The process's clock is at 2 ticks a nanosecond: the breadcrumbs change at 500 ns and 1000 ns.
    let marks = run(&[crumb(1000, 11), crumb(2000, 0)]);
    for image in [0, IMAGE_ID] {
        let mut slots = Vec::new();
        if image != 0 {
            // The process posts records from an image that has no recorder.
            slots.push(note(ImageNote::Begun, 5, 10, [0; 3]));
        }
        slots.extend([100, 600, 900, 1100].into_iter().flat_map(|start| call(start, image)));
        let mut units = by_kernel(&slots);
        units.extend(begin());
        units.extend(marks.clone());
        let mut state = rows();
        apply(&mut state, &units, 1);
        let tables = apply(&mut state, &[], 2);
        assert_eq!(column(&tables, "file_op", "pos"), [100, 600, 900, 1100].map(Some));
        assert_eq!(column(&tables, "file_op", "crumb"), [0, 11, 11, 0].map(Some));
        assert_eq!(column(&tables, "file_op", "thread"), [Some(THREAD_ID); 4]);
    }
}

/// A record that its table refuses costs only itself, and a marker that names another process takes nothing from it.
#[test]
fn records_that_no_recorder_posts_are_counted_and_have_no_row() {
    let stitch = |parent: i64| {
        let word = u64::from(FIRST_TYPE) + u64::from(STITCHED);
        [word, 500, 0, 77, parent as u64, 0, 0, 0]
    };
    let mut units = begin();
    units.push(Event::Process { process: 12, parent: 0, pid: 6, start_ticks: 200 }.encode());
    units.push(
        Event::Process { process: ProcessId::new(7, 300).0, parent: 0, pid: 7, start_ticks: 300 }.encode(),
    );
    units.extend(run(&[
        stitch(5),
        stitch(NONE),
        stitch(6),
        [0; 8],
        [u64::from(OP_VFORK) | 7 << 32, 300, 0, 0, 0, 0, 0, 0],
        pread(7, 0, 600, 1),
    ]));
    let mut state = rows();
    let tables = apply(&mut state, &units, 1);
    assert_eq!(column(&tables, "stitch", "parent_crumb"), [Some(5), Some(6)]);
    assert_eq!(column(&tables, "file_op", "thread"), [Some(THREAD_ID)]);
    assert_eq!(column(&tables, "unseen", "amount"), [Some(3)]);
    assert_eq!((state.totals().records, state.totals().lost), (2, 0));
    assert_eq!(state.totals().unseen.get(BAD_RECORD), Some(&3));
    assert_eq!(state.totals().processes, 3);
}
