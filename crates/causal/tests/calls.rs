//! What rows of calls say: connections, and calls inside others.

use iotrail_causal::calls::{Process, Reader, Row, Thread};
use iotrail_causal::matching::{Edges, edges};
use iotrail_format::call::{Call, WaitKind};

/// Processes 100, 101 … of one thread each, on these machines.
fn found(machines: &[u32], rows: &[Row]) -> Edges {
    let threads: Vec<Thread> = (0..)
        .zip(machines)
        .map(|(at, machine)| Thread {
            id: at,
            process: at + 100,
            machine: *machine,
            tid: at,
            start: -100,
            end: None,
        })
        .collect();
    let processes: Vec<Process> = threads
        .iter()
        .map(|thread| Process {
            id: thread.process,
            machine: thread.machine,
            pid: thread.process,
            parent: None,
            rank: None,
            start: -100,
            end: None,
        })
        .collect();
    let mut reader = Reader::new(&threads, &processes);
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| (row.thread, row.start));
    rows.iter().for_each(|row| reader.add(row));
    edges(&reader.finish())
}

fn row(thread: u32, start: i64, end: i64, call: Call, object: i64) -> Row {
    let kind = WaitKind::Socket;
    let (object, peer, length, seq, tag) = (Some(object), None, None, None, None);
    Row {
        thread,
        start,
        end: Some(end),
        call,
        kind,
        object,
        peer,
        length,
        result: Some(0),
        errno: 0,
        seq,
        tag,
    }
}

fn moved(thread: u32, start: i64, end: i64, call: Call, object: i64, bytes: i64) -> Row {
    Row { result: Some(bytes), ..row(thread, start, end, call, object) }
}

/// Who waited for whom, until when, since when: the waits with an edge.
fn arrows(edges: &Edges) -> Vec<(u32, i64, u32, i64)> {
    let mut all = Vec::new();
    for wait in &edges.waits {
        for signal in edges.signals.iter().filter(|signal| Some(signal.edge) == wait.edge) {
            all.push((wait.thread, wait.end.unwrap(), signal.thread, signal.ts));
        }
    }
    all.sort_unstable();
    all
}

fn unexplained(edges: &Edges) -> Vec<(u32, &'static str)> {
    edges.waits.iter().filter(|wait| wait.edge.is_none()).map(|wait| (wait.thread, wait.kind)).collect()
}

#[test]
fn connections_to_one_address_are_accepted_in_their_order() {
    // two clients connect twice each to what thread 0 accepts; the ends of the server are 1 to 4, theirs 11 to 14
    let connect = |thread, at, end| Row { seq: Some(7), ..row(thread, at, at + 1, Call::Connect, end) };
    let accept = |end: i64, of: i64, object| Row {
        seq: Some(7),
        peer: Some(of),
        ..row(0, end - 1, end, Call::Accept, object)
    };
    let mut rows = vec![
        connect(1, 10, 11),
        connect(2, 12, 12),
        connect(1, 20, 13),
        connect(2, 22, 14),
        // not in the order of all connections, but of each process
        accept(30, 102, 2),
        accept(31, 101, 1),
        accept(32, 101, 3),
        accept(33, 102, 4),
    ];
    for (at, (thread, end)) in [(1, 11), (2, 12), (1, 13), (2, 14)].into_iter().enumerate() {
        rows.push(moved(thread, 40 + at as i64, 41 + at as i64, Call::Send, end, 5));
        rows.push(moved(0, 50 + 2 * at as i64, 51 + 2 * at as i64, Call::Recv, end - 10, 5));
    }
    let found = found(&[0, 0, 0], &rows);
    assert_eq!(unexplained(&found), [(1, "socket"); 0]);
    assert_eq!(
        arrows(&found),
        [
            (0, 30, 2, 12),
            (0, 31, 1, 10),
            (0, 32, 1, 20),
            (0, 33, 2, 22),
            (0, 51, 1, 40),
            (0, 53, 2, 41),
            (0, 55, 1, 42),
            (0, 57, 2, 43),
        ]
    );
}

#[test]
fn ends_of_other_machines_are_others() {
    // the same ids of inodes on two machines, each connected there
    let pair = |thread| Row { peer: Some(2), ..row(thread, 0, 0, Call::Socketpair, 1) };
    let write = |thread, at| moved(thread, at, at + 1, Call::Write, 1, 5);
    let read = |thread, at| moved(thread, at, at + 1, Call::Read, 2, 5);
    let found =
        found(&[0, 1, 0, 1], &[pair(0), pair(1), write(0, 10), write(1, 20), read(2, 30), read(3, 40)]);
    assert_eq!(arrows(&found), [(2, 31, 0, 10), (3, 41, 1, 20)]);
}

#[test]
fn whose_other_end_was_not_recorded_waits_for_something_unknown() {
    let read = Row { peer: Some(9), ..moved(0, 10, 20, Call::Recv, 1, 5) };
    let write = Row { peer: Some(9), ..moved(0, 30, 31, Call::Send, 1, 5) };
    let found = found(&[0], &[read, write]);
    assert_eq!(unexplained(&found), [(0, "socket"), (0, "socket")]);
    assert!(arrows(&found).is_empty());
}

#[test]
fn calls_inside_others_let_others_go_on_and_wait_not() {
    let pair = Row { peer: Some(2), ..row(0, 0, 0, Call::Socketpair, 1) };
    let start = Row { kind: WaitKind::Mpi, ..row(0, 10, 50, Call::MpiInit, 0) };
    let rows = [
        pair,
        start,
        moved(0, 20, 21, Call::Write, 1, 5),
        moved(1, 15, 25, Call::Read, 2, 5),
        moved(1, 30, 31, Call::Write, 2, 5),
        moved(0, 29, 40, Call::Read, 1, 5),
        // after the call: what was read inside it is not read again
        moved(1, 60, 61, Call::Write, 2, 5),
        moved(0, 55, 70, Call::Read, 1, 5),
    ];
    let found = found(&[0, 0], &rows);
    assert_eq!(unexplained(&found), [(0, "mpi")], "a process without a rank");
    assert_eq!(arrows(&found), [(0, 70, 1, 60), (1, 25, 0, 10)], "since the call around it began");
}

#[test]
fn threads_are_those_that_said_their_handle() {
    // the first thread creates two with handles 70 and 80, which begin in the other order, and after both a third with handle 70 again;
    // what the fourth said was lost
    let thread = |(id, start, end): (i64, i64, i64)| Thread {
        id,
        process: 100,
        machine: 0,
        tid: id,
        start,
        end: Some(end),
    };
    let threads: Vec<Thread> =
        [(0, -100, 500), (1, 20, 50), (2, 15, 40), (3, 120, 150), (4, 220, 250)].map(thread).into();
    let process =
        Process { id: 100, machine: 0, pid: 100, parent: None, rank: None, start: -100, end: Some(500) };
    let row = |thread, start, end, call, object, peer| Row {
        kind: WaitKind::Thread,
        object,
        peer,
        ..row(thread, start, end, call, 0)
    };
    let create = |at, handle| row(0, at, at + 3, Call::PthreadCreate, None, Some(handle));
    let join = |at, until, handle| row(0, at, until, Call::PthreadJoin, None, Some(handle));
    let begins = |thread, at, handle| row(thread, at, at, Call::PthreadCreate, Some(handle), None);
    let rows = [
        create(10, 70),
        create(13, 80),
        begins(1, 20, 70),
        begins(2, 15, 80),
        join(30, 50, 70),
        join(60, 61, 80),
        create(110, 70),
        begins(3, 120, 70),
        join(130, 150, 70),
        create(210, 70),
        join(230, 250, 70),
    ];
    let processes = [process];
    let mut reader = Reader::new(&threads, &processes);
    let mut rows = rows.to_vec();
    rows.sort_by_key(|row| (row.thread, row.start));
    rows.iter().for_each(|row| reader.add(row));
    let found = edges(&reader.finish());
    let ends: Vec<_> = arrows(&found).into_iter().filter(|(waiter, ..)| *waiter == 0).collect();
    assert_eq!(ends, [(0, 50, 1, 50), (0, 61, 2, 40), (0, 150, 3, 150), (0, 250, 4, 250)]);
    assert_eq!(unexplained(&found), []);
}
