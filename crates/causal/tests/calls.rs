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
            rank: Some(thread.tid),
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
        flags: None,
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
fn who_waits_for_a_request_waits_for_its_message_alone() {
    let mpi = |thread, start, end, call| Row { kind: WaitKind::Mpi, ..row(thread, start, end, call, 9) };
    let asks = |start, call, request| Row {
        peer: Some(0),
        tag: Some(3),
        result: Some(request),
        ..mpi(1, start, start + 1, call)
    };
    let waits = |start, end| Row { object: None, ..mpi(1, start, end, Call::MpiWait) };
    let completes = |start, end, request| Row {
        object: None,
        seq: Some(request),
        peer: Some(0),
        tag: Some(3),
        ..mpi(1, start, end, Call::MpiStatus)
    };
    let rows = [
        Row { peer: Some(1), tag: Some(3), ..mpi(0, 10, 12, Call::MpiSend) },
        asks(1, Call::MpiIrecv, 77),
        waits(5, 20),
        completes(5, 20, 77),
        // of a send: for whom it waits is not known
        asks(30, Call::MpiIsend, 78),
        waits(40, 50),
        completes(40, 50, 78),
    ];
    let found = found(&[0, 0], &rows);
    assert_eq!(arrows(&found), [(1, 20, 0, 10)]);
    assert_eq!(unexplained(&found), [(1, "mpi")]);
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

/// Sends signal `number` to the process of a thread.
fn kill(thread: u32, start: i64, end: i64, to: u32, number: i64) -> Row {
    let row = row(thread, start, end, Call::Kill, 0);
    Row { kind: WaitKind::Signal, object: None, peer: Some(100 + i64::from(to)), seq: Some(number), ..row }
}

/// Takes signal `number`, of a process if the call says so.
fn takes(thread: u32, start: i64, end: i64, number: Option<i64>, sender: Option<u32>) -> Row {
    let row = row(thread, start, end, Call::Pause, 0);
    let peer = sender.map(|thread| 100 + i64::from(thread));
    Row { kind: WaitKind::Signal, object: None, peer, seq: number, ..row }
}

#[test]
fn a_signal_that_is_pending_is_not_sent_again() {
    let rows = [
        // before anybody waits, and again in vain; another one; one of another machine
        kill(0, 10, 11, 1, 10),
        kill(2, 20, 21, 1, 10),
        kill(2, 22, 23, 1, 12),
        kill(3, 24, 25, 1, 10),
        takes(1, 30, 40, Some(10), None),
        // while it is taken: the next one
        kill(2, 35, 36, 1, 10),
        takes(1, 50, 60, Some(10), None),
        // the call says that another one sent it
        kill(0, 70, 71, 1, 10),
        kill(2, 72, 73, 1, 10),
        takes(1, 65, 80, Some(10), Some(2)),
        // of nobody, and of the same process
        takes(1, 90, 100, Some(14), None),
        kill(1, 110, 111, 1, 10),
        takes(1, 120, 130, Some(10), None),
    ];
    let found = found(&[0, 0, 0, 1], &rows);
    assert_eq!(arrows(&found), [(1, 40, 0, 10), (1, 60, 2, 35), (1, 80, 2, 72)]);
    assert_eq!(unexplained(&found), [(1, "signal")]);
}

/// A process has an alarm sent after `first` and each `interval`.
fn alarm(thread: u32, start: i64, end: i64, first: i64, interval: i64) -> Row {
    let row = row(thread, start, end, Call::Setitimer, 0);
    Row { kind: WaitKind::Signal, object: None, length: Some(first), seq: Some(interval), ..row }
}

#[test]
fn who_is_interrupted_by_an_alarm_waits_for_a_time() {
    let poll = |start: i64, end| {
        let row = row(1, start, end, Call::EpollWait, 5);
        Row { kind: WaitKind::Poll, result: Some(-1), errno: 4, ..row }
    };
    // of each call that was interrupted whether it waited for a time, and who sent it a signal
    let found = |rows: &[Row]| {
        let found = found(&[0, 0], rows);
        let all: Vec<_> = found.waits.iter().filter(|wait| wait.thread == 1).collect();
        all.iter().map(|wait| (wait.kind, wait.last)).collect::<Vec<_>>()
    };
    let (timer, unknown) = (("timer", None), ("poll", None));
    assert_eq!(found(&[alarm(1, 10, 12, 100, 0), poll(20, 115)]), [timer]);
    assert_eq!(found(&[poll(20, 115)]), [unknown]);
    // due before it, and once only; due after it; set anew; no longer; for another process
    assert_eq!(found(&[alarm(1, 10, 12, 5, 0), poll(20, 115)]), [unknown]);
    assert_eq!(found(&[alarm(1, 10, 12, 200, 0), poll(20, 115)]), [unknown]);
    assert_eq!(found(&[alarm(1, 10, 12, 100, 0), alarm(1, 15, 16, 200, 0), poll(20, 115)]), [unknown]);
    assert_eq!(found(&[alarm(1, 10, 12, 100, 0), alarm(1, 15, 16, 0, 0), poll(20, 115)]), [unknown]);
    assert_eq!(found(&[alarm(0, 10, 12, 100, 0), poll(20, 115)]), [unknown]);
    // the handler sets the next one, inside the call
    assert_eq!(found(&[alarm(1, 10, 12, 100, 0), poll(20, 120), alarm(1, 115, 117, 100, 0)]), [timer]);
    // again and again, until it is set anew
    let calls = [alarm(1, 10, 12, 5, 50), poll(20, 70), poll(70, 100), poll(100, 130), poll(130, 150)];
    assert_eq!(found(&calls), [timer, unknown, timer, unknown]);
    // whichever came last ended it
    let sent = |at| vec![alarm(1, 10, 12, 50, 0), kill(0, at, at + 1, 1, 10), poll(20, 115)];
    assert_eq!(found(&sent(90)), [("signal", Some(90))]);
    assert_eq!(found(&sent(30)), [timer]);
    // a call that says which signal it took
    assert_eq!(found(&[alarm(1, 10, 12, 100, 0), takes(1, 20, 115, Some(14), None)]), [timer]);
    assert_eq!(found(&[alarm(1, 10, 12, 100, 0), takes(1, 20, 115, Some(10), None)]), [("signal", None)]);
    // clocks differ by 20 ppm at most, and one alarm ends one call
    let long = |end| found(&[alarm(1, 0, 2, 1_000_000, 0), poll(20, end), poll(end + 5, 1_001_000)]);
    assert_eq!((long(999_990), long(999_970)), (vec![timer, unknown], vec![unknown, timer]));
}

#[test]
fn what_a_handler_interrupts_waits_for_who_sent_the_signal() {
    let poll = |start, end| {
        let row = row(1, start, end, Call::EpollWait, 5);
        Row { kind: WaitKind::Poll, result: Some(-1), errno: 4, ..row }
    };
    let rows = [
        takes(1, 10, 40, None, None),
        kill(0, 5, 6, 1, 10),
        kill(0, 20, 21, 1, 10),
        kill(2, 30, 31, 1, 12),
        poll(50, 90),
        kill(2, 60, 61, 1, 12),
        // an alarm
        poll(100, 200),
    ];
    let found = found(&[0, 0, 0], &rows);
    assert_eq!(arrows(&found), [(1, 40, 2, 30), (1, 90, 2, 60)]);
    assert_eq!(unexplained(&found), [(1, "poll")]);
}

#[test]
fn a_handler_that_sends_its_process_a_signal_was_sent_one_itself() {
    let wait = Row { kind: WaitKind::Poll, ..row(1, 10, 50, Call::Poll, 5) };
    let read = Row { result: Some(128), ..takes(1, 60, 61, Some(23), Some(1)) };
    let own = kill(1, 40, 41, 1, 23);
    let rows = [kill(2, 5, 6, 1, 10), wait, kill(0, 30, 31, 1, 10), own, read];
    assert!(arrows(&found(&[0, 0, 0], &rows)).contains(&(1, 61, 0, 30)));
    // without another one it is its own doing
    assert_eq!(arrows(&found(&[0, 0, 0], &[wait, own, read])), []);
}

#[test]
fn processes_share_what_was_made_for_them_before_they_were_forked() {
    let on = |thread, start, end, call, address| Row {
        kind: WaitKind::Semaphore,
        ..row(thread, start, end, call, address)
    };
    let made = |shared| Row { length: Some(0), seq: Some(shared), ..on(0, 0, 1, Call::SemInit, 64) };
    let fork = |thread, start, by| Row {
        kind: WaitKind::Process,
        object: None,
        peer: Some(by),
        ..row(thread, start, start, Call::Fork, 0)
    };
    let rows = |shared| {
        vec![
            made(shared),
            fork(1, 5, 0),
            // a child of the child
            fork(2, 6, 1),
            on(2, 10, 30, Call::SemWait, 64),
            on(1, 20, 21, Call::SemPost, 64),
            // not forked: an address of its own
            on(3, 15, 16, Call::SemPost, 64),
        ]
    };
    let of = |found: &Edges| -> Vec<_> {
        arrows(found).into_iter().filter(|(_, until, ..)| *until == 30).collect()
    };
    let shared = found(&[0, 0, 0, 0], &rows(1));
    assert_eq!((of(&shared), unexplained(&shared)), (vec![(2, 30, 1, 20)], vec![]));
    let private = found(&[0, 0, 0, 0], &rows(0));
    assert_eq!((of(&private), unexplained(&private)), (vec![], vec![(2, "semaphore")]));
}

#[test]
fn who_finds_nothing_there_has_not_waited() {
    let nothing = |start, end| Row { result: Some(-1), errno: 11, ..row(0, start, end, Call::Recv, 1) };
    let found = found(&[0], &[nothing(10, 500), nothing(1_000, 5_000_000)]);
    assert_eq!(unexplained(&found), [(0, "timer")], "the second until its timeout was over");
}

#[test]
fn who_is_told_by_a_handler_that_a_child_ended_waited_for_that() {
    let thread = |id, start, end| Thread { id, process: id + 100, machine: 0, tid: id, start, end };
    let threads = [thread(0, -100, None), thread(1, 5, Some(40)), thread(2, 6, Some(90))];
    let process = |of: &Thread| Process {
        id: of.process,
        machine: 0,
        pid: of.process,
        parent: (of.id > 0).then_some(100),
        rank: None,
        start: of.start,
        end: of.end,
    };
    let processes: Vec<Process> = threads.iter().map(process).collect();
    let select = |start, end| {
        let row = row(0, start, end, Call::Select, 0);
        Row { kind: WaitKind::Poll, object: None, result: Some(-1), errno: 4, ..row }
    };
    let wait = |at, pid, result| {
        let row = row(0, at, at + 1, Call::Wait, 0);
        Row { kind: WaitKind::Process, object: None, peer: Some(pid), result: Some(result), ..row }
    };
    let found = |rows: &[Row]| {
        let mut reader = Reader::new(&threads, &processes);
        rows.iter().for_each(|row| reader.add(row));
        let found = edges(&reader.finish());
        let ends = arrows(&found).into_iter().filter(|(waiter, ..)| *waiter == 0);
        (ends.collect::<Vec<_>>(), unexplained(&found))
    };
    let select_alone = vec![(0, "poll")];
    // the second is interrupted by something else: no child has ended
    let rows = [select(10, 50), wait(45, 101, 101), select(60, 80), wait(75, 0, 0)];
    assert_eq!(found(&rows), (vec![(0, 50, 1, 40)], select_alone.clone()));
    // as a shell, which asks afterwards
    let (end, own) = ((0, 50, 1, 40), (0, 52, 1, 40));
    assert_eq!(found(&[select(10, 50), wait(51, 101, 101)]), (vec![end, own], vec![]));
    let late = (vec![(0, 57, 1, 40)], select_alone.clone());
    assert_eq!(found(&[select(42, 55), wait(56, 101, 101)]), late, "it had ended before");
    assert_eq!(found(&[select(10, 50), wait(51, 0, 0)]), (vec![], select_alone), "it asked in vain");
}

#[test]
fn who_asks_for_a_process_to_run_waits_for_its_end() {
    // of a process: a command run by system(3), one begun before that pclose(3) waits for, another one that waitid(2) names,
    // and one that nobody waits for; of the first an image that execs another one
    let lives = [(5, Some(12)), (12, Some(40)), (6, Some(52)), (8, Some(49)), (7, Some(90))];
    let parents = [100, 101, 100, 100, 100];
    let pids = [7, 7, 8, 9, 10];
    let mut threads = vec![Thread { id: 0, process: 100, machine: 0, tid: 1, start: -100, end: None }];
    let mut processes =
        vec![Process { id: 100, machine: 0, pid: 1, parent: None, rank: None, start: -100, end: None }];
    for (number, ((start, end), (parent, pid))) in
        lives.into_iter().zip(parents.into_iter().zip(pids)).enumerate()
    {
        let (id, process) = (number as i64 + 1, number as i64 + 101);
        threads.push(Thread { id, process, machine: 0, tid: pid, start, end });
        processes.push(Process {
            id: process,
            machine: 0,
            pid,
            parent: Some(parent),
            rank: None,
            start,
            end,
        });
    }
    let wait = |start, end, peer, result| {
        let row = row(0, start, end, Call::Wait, 0);
        Row { kind: WaitKind::Process, object: None, peer, result: Some(result), ..row }
    };
    let rows = [
        wait(4, 45, None, 0),
        // none has ended, however long it takes to see
        wait(46, 30_000_000, Some(0), 0),
    ];
    let found = |rows: &[Row]| {
        let mut reader = Reader::new(&threads, &processes);
        rows.iter().for_each(|row| reader.add(row));
        let found = edges(&reader.finish());
        (arrows(&found), unexplained(&found))
    };
    let (arrows, left) = found(&rows);
    assert!(arrows.contains(&(0, 45, 2, 40)), "{arrows:?}");
    assert!(arrows.contains(&(1, 5, 0, 5)), "its thread made it: {arrows:?}");
    assert_eq!(left, []);
    let ends = |rows: &[Row]| {
        let (arrows, left) = found(rows);
        let ends: Vec<_> = arrows.into_iter().filter(|(waiter, ..)| *waiter == 0).collect();
        (ends, left)
    };
    let named = wait(50, 51, Some(9), 0);
    assert_eq!(ends(&[named, wait(51, 55, None, 768)]), (vec![(0, 51, 4, 49), (0, 55, 3, 52)], vec![]));
    // who was waited for once is not waited for again
    let again =
        ends(&[wait(51, 53, None, 0), wait(54, 56, None, 0), wait(57, 58, None, 0), wait(59, 60, None, 0)]);
    assert_eq!(again, (vec![(0, 53, 3, 52), (0, 56, 4, 49), (0, 58, 2, 40)], vec![]));
    // who had to wait didn't for one that had ended before
    assert_eq!(ends(&[wait(100, 500_000, None, 0)]), (vec![], vec![(0, "process")]));
    // of a program that was not recorded nothing is known
    assert_eq!(ends(&[wait(-50, -40, None, 256)]), (vec![], vec![(0, "process")]));
}

#[test]
fn who_takes_a_mutex_alone_does_not_wait_for_it() {
    let lock = |thread, start, call, of| Row {
        kind: WaitKind::Lock,
        ..row(thread, start, start + 50_000, call, of)
    };
    let long = lock(0, 0, Call::MutexLock, 7);
    let kinds = |others: &[Row]| {
        let rows: Vec<Row> = std::iter::once(long).chain(others.iter().copied()).collect();
        unexplained(&found(&[0, 0], &rows))
    };
    assert_eq!(kinds(&[]), []);
    assert_eq!(kinds(&[lock(0, 60_000, Call::MutexUnlock, 7), lock(0, 120_000, Call::MutexLock, 7)]), []);
    assert_eq!(kinds(&[lock(1, 60_000, Call::MutexLock, 8)]), [], "another one");
    // also if the other one had not to wait
    let brief = Row { end: Some(60_001), ..lock(1, 60_000, Call::MutexLock, 7) };
    assert_eq!(kinds(&[brief]), [(0, "lock")]);
    assert_eq!(kinds(&[brief, lock(0, 70_000, Call::MutexLock, 7)]), [(0, "lock"), (0, "lock")]);
}

#[test]
fn who_locks_what_nobody_else_locks_waits_for_no_lock() {
    // of two processes, bytes from there on of one file, for long enough to have waited
    let lock = |thread, from, flags| Row {
        kind: WaitKind::FileLock,
        seq: Some(from),
        length: Some(10),
        flags: Some(flags),
        ..row(thread, 0, 50_000, Call::Flock, 7)
    };
    let (exclusive, give_back) = (2, 8);
    let kinds = |rows: &[Row]| unexplained(&found(&[0, 0], rows));
    let alone = [(0, "file_lock"), (1, "file_lock")];
    assert_eq!(kinds(&[lock(0, 0, exclusive), lock(1, 10, exclusive)]), alone, "other bytes");
    assert_eq!(kinds(&[lock(0, 0, exclusive), lock(1, 9, exclusive)]), [(0, "lock"), (1, "lock")]);
    assert_eq!(kinds(&[lock(0, 0, exclusive), lock(1, 9, give_back)]), [(0, "file_lock")], "given back only");
    let refused = Row { errno: 35, ..lock(1, 9, exclusive) };
    assert_eq!(kinds(&[lock(0, 0, exclusive), refused]), alone, "a deadlock");
    let whole = Row { seq: None, length: None, ..lock(1, 9, exclusive) };
    assert_eq!(kinds(&[lock(0, 0, exclusive), whole]), alone, "flock(2) and fcntl(2) don't see each other");
    let elsewhere = Row { object: Some(8), ..lock(1, 9, exclusive) };
    assert_eq!(kinds(&[lock(0, 0, exclusive), elsewhere]), alone, "another file");
}
