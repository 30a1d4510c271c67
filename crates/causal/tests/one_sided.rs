//! What rows of one-sided MPI say: epochs of post, start, complete and wait, and locks of windows.

use iotrail_causal::calls::{Process, Reader, Row, Thread};
use iotrail_causal::matching::{Edges, edges};
use iotrail_format::call::{Call, WaitKind};

const WINDOW: i64 = 77;

/// What ranks 0, 1 … did, each a process of one thread.
fn found(ranks: i64, rows: &[Row]) -> Edges {
    let thread =
        |rank: i64| Thread { id: rank, process: rank + 100, machine: 0, tid: rank, start: -100, end: None };
    let threads: Vec<Thread> = (0..ranks).map(thread).collect();
    let process = |rank: i64| Process {
        id: rank + 100,
        machine: 0,
        pid: rank + 100,
        parent: None,
        rank: Some(rank),
        start: -100,
        end: None,
    };
    let processes: Vec<Process> = (0..ranks).map(process).collect();
    let mut reader = Reader::new(&threads, &processes);
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| (row.thread, row.start, row.call == Call::MpiGroup));
    rows.iter().for_each(|row| reader.add(row));
    edges(&reader.finish())
}

fn row(rank: u32, start: i64, end: i64, call: Call, peer: Option<i64>) -> Row {
    Row {
        thread: rank,
        start,
        end: Some(end),
        call,
        kind: WaitKind::Mpi,
        object: Some(WINDOW),
        peer,
        length: None,
        result: Some(0),
        errno: 0,
        seq: None,
        tag: None,
        flags: None,
    }
}

/// A call with the processes of a group.
fn with(rank: u32, start: i64, end: i64, call: Call, group: &[i64]) -> Vec<Row> {
    let members = group.iter().map(|other| row(rank, start, start, Call::MpiGroup, Some(*other)));
    std::iter::once(row(rank, start, end, call, None)).chain(members).collect()
}

fn post(rank: u32, start: i64, end: i64, origins: &[i64]) -> Vec<Row> {
    with(rank, start, end, Call::MpiWinPost, origins)
}

fn start(rank: u32, start: i64, end: i64, targets: &[i64]) -> Vec<Row> {
    with(rank, start, end, Call::MpiWinStart, targets)
}

fn complete(rank: u32, start: i64, end: i64) -> Vec<Row> {
    vec![row(rank, start, end, Call::MpiWinComplete, None)]
}

fn wait(rank: u32, start: i64, end: i64) -> Vec<Row> {
    vec![row(rank, start, end, Call::MpiWinWait, None)]
}

/// A wait: its thread and end, and the threads and times of the signals.
type Arrow = (u32, i64, Vec<(u32, i64)>);

fn arrows(edges: &Edges) -> Vec<Arrow> {
    let mut all: Vec<Arrow> = Vec::new();
    for wait in edges.waits.iter().filter(|wait| wait.edge.is_some()) {
        assert!(["exposure", "access"].contains(&wait.kind));
        let of = edges.signals.iter().filter(|signal| Some(signal.edge) == wait.edge);
        let mut signals: Vec<(u32, i64)> = of.map(|signal| (signal.thread, signal.ts)).collect();
        signals.sort_unstable();
        all.push((wait.thread, wait.end.unwrap(), signals));
    }
    all.sort_unstable();
    all
}

/// Waits without an edge: thread, start and kind.
fn others(edges: &Edges) -> Vec<(u32, i64, &'static str)> {
    let others = edges.waits.iter().filter(|wait| wait.edge.is_none());
    let mut all: Vec<_> = others.map(|wait| (wait.thread, wait.start, wait.kind)).collect();
    all.sort_unstable();
    all
}

#[test]
fn who_completes_waits_for_all_targets_and_they_for_it() {
    let found = found(
        3,
        &[
            // its start returns before rank 2 has posted
            start(0, 10, 11, &[1, 2]),
            complete(0, 20, 60),
            post(1, 5, 6, &[0]),
            wait(1, 7, 62),
            post(2, 50, 51, &[0]),
            wait(2, 52, 59),
        ]
        .concat(),
    );
    assert_eq!(
        arrows(&found),
        [(0, 60, vec![(1, 5), (2, 50)]), (1, 62, vec![(0, 60)]), (2, 59, vec![(0, 59)])],
        "who waits for it can return earlier than it does"
    );
    assert_eq!(others(&found), []);
}

#[test]
fn the_start_waits_where_one_was_seen_to() {
    // the second start comes after the post: in this implementation it would wait, too
    let rows = [
        start(0, 10, 45, &[1]),
        complete(0, 50, 51),
        start(0, 70, 71, &[1]),
        complete(0, 80, 81),
        post(1, 40, 41, &[0]),
        wait(1, 42, 52),
        post(1, 60, 61, &[0]),
        wait(1, 62, 82),
    ]
    .concat();
    assert_eq!(
        arrows(&found(2, &rows)),
        [(0, 45, vec![(1, 40)]), (0, 71, vec![(1, 60)]), (1, 52, vec![(0, 50)]), (1, 82, vec![(0, 80)])],
        "who completes has waited before"
    );
    // one that returned too early shows that no start waits
    let early = [start(0, 100, 101, &[1]), complete(0, 110, 121), post(1, 120, 122, &[0])].concat();
    let waits = arrows(&found(2, &[rows, early].concat()));
    let of_origin: Vec<i64> = waits.iter().filter(|wait| wait.0 == 0).map(|wait| wait.1).collect();
    assert_eq!(of_origin, [51, 81, 121]);
}

#[test]
fn epochs_of_each_pair_are_counted_on_their_own() {
    // rank 0 accesses 1, then 2, then both; rank 1 also lets 2 access it in between
    let rows = [
        start(0, 10, 11, &[1]),
        complete(0, 12, 13),
        start(0, 20, 21, &[2]),
        complete(0, 22, 33),
        start(0, 40, 41, &[1, 2]),
        complete(0, 42, 63),
        post(1, 1, 2, &[0]),
        wait(1, 3, 14),
        post(1, 50, 51, &[0]),
        wait(1, 52, 64),
        post(2, 30, 31, &[0]),
        wait(2, 32, 34),
        post(2, 60, 61, &[0]),
        wait(2, 62, 65),
    ]
    .concat();
    let waits = arrows(&found(3, &rows));
    let of_origin: Vec<&Arrow> = waits.iter().filter(|wait| wait.0 == 0).collect();
    assert_eq!(
        of_origin,
        [&(0, 13, vec![(1, 1)]), &(0, 33, vec![(2, 30)]), &(0, 63, vec![(1, 50), (2, 60)])]
    );
    // all are origins and targets at once
    let ring = |rank: u32| {
        let (next, last) = (i64::from(rank + 1) % 3, i64::from(rank + 2) % 3);
        let at = i64::from(rank);
        [
            post(rank, 10 + at, 11 + at, &[last]),
            start(rank, 20, 21, &[next]),
            complete(rank, 30 + at, 31 + at),
            wait(rank, 40, 41),
        ]
        .concat()
    };
    let waits = arrows(&found(3, &[ring(0), ring(1), ring(2)].concat()));
    assert_eq!(
        waits,
        [
            (0, 31, vec![(1, 11)]),
            (0, 41, vec![(2, 33)]),
            (1, 32, vec![(2, 12)]),
            (1, 41, vec![(0, 31)]),
            (2, 33, vec![(0, 10)]),
            (2, 41, vec![(1, 32)]),
        ]
    );
}

#[test]
fn what_cannot_be_is_unexplained_from_there_on() {
    let rows = [
        start(0, 10, 11, &[1]),
        complete(0, 20, 21),
        start(0, 30, 31, &[1]),
        complete(0, 40, 41),
        start(0, 60, 61, &[1]),
        complete(0, 70, 71),
        post(1, 5, 6, &[0]),
        wait(1, 7, 22),
        // the one that is really of the second was not recorded
        post(1, 50, 51, &[0]),
        wait(1, 52, 72),
    ]
    .concat();
    let edges = found(2, &rows);
    assert_eq!(arrows(&edges), [(0, 21, vec![(1, 5)]), (1, 22, vec![(0, 21)])]);
    assert_eq!(others(&edges), [(0, 40, "exposure"), (0, 70, "exposure"), (1, 52, "access")]);
    // an exposure whose group is not known, and an end without a beginning
    let edges = found(2, &[post(1, 5, 6, &[]), wait(1, 7, 22), complete(0, 8, 9)].concat());
    assert_eq!(others(&edges), [(0, 8, "exposure"), (1, 7, "access")]);
}

fn locks(rank: u32, start: i64, end: i64, operation: i64) -> Row {
    let call = if operation == LOCK_UN { Call::MpiWinUnlock } else { Call::MpiWinLock };
    Row { flags: Some(operation), ..row(rank, start * 1000, end * 1000, call, Some(3)) }
}

const LOCK_SH: i64 = 1;
const LOCK_EX: i64 = 2;
const LOCK_UN: i64 = 8;

/// Times are µs here.
#[test]
fn who_waits_for_the_lock_of_a_window_waits_in_the_call_that_locks() {
    let edges = found(
        3,
        &[
            locks(0, 0, 1, LOCK_EX),
            locks(0, 100, 101, LOCK_UN),
            locks(1, 50, 102, LOCK_EX),
            locks(1, 150, 151, LOCK_UN),
            // it waits for the target, not for the lock, and then for data
            locks(2, 300, 340, LOCK_EX),
            locks(2, 350, 390, LOCK_UN),
        ],
    );
    assert_eq!(others(&edges), [(1, 50_000, "lock"), (2, 300_000, "mpi"), (2, 350_000, "mpi")]);
    let shared = found(
        3,
        &[
            locks(0, 0, 1, LOCK_SH),
            locks(0, 100, 101, LOCK_UN),
            locks(1, 2, 13, LOCK_SH),
            locks(1, 150, 151, LOCK_UN),
            locks(2, 60, 152, LOCK_EX),
            locks(2, 160, 161, LOCK_UN),
        ],
    );
    assert_eq!(others(&shared), [(1, 2_000, "mpi"), (2, 60_000, "lock")], "those that share wait for nobody");
}

#[test]
fn who_was_only_promised_the_lock_waits_in_the_next_call() {
    let flush = |rank, start: i64, end: i64| row(rank, start * 1000, end * 1000, Call::MpiWinFlush, Some(3));
    let edges = found(
        3,
        &[
            locks(0, 0, 1, LOCK_EX),
            locks(0, 100, 101, LOCK_UN),
            locks(1, 50, 51, LOCK_EX),
            flush(1, 60, 102),
            locks(1, 150, 170, LOCK_UN),
            locks(2, 80, 81, LOCK_EX),
            locks(2, 82, 175, LOCK_UN),
            // nobody has it
            locks(0, 300, 301, LOCK_EX),
            locks(0, 302, 350, LOCK_UN),
        ],
    );
    assert_eq!(
        others(&edges),
        [(0, 302_000, "mpi"), (1, 60_000, "lock"), (1, 150_000, "mpi"), (2, 82_000, "lock")]
    );
}

#[test]
fn a_lock_of_all_ranks_waits_for_something_if_it_waits() {
    let all = |start, end, call| Row { peer: None, ..row(0, start, end, call, None) };
    let edges = found(
        1,
        &[
            all(0, 5_000, Call::MpiWinLock),
            all(10_000, 90_000, Call::MpiWinFlush),
            all(95_000, 99_000, Call::MpiWinUnlock),
        ],
    );
    assert_eq!(others(&edges), [(0, 10_000, "mpi")]);
}
