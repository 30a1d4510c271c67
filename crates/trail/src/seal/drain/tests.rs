//! What the sealer takes of segments that live, end, lie or are killed.

use super::*;
use crate::columns::conform;
use crate::seal::clock::Clock;
use crate::seal::journal::pieces;
use crate::seal::journal::{Journal, Loss};
use crate::seal::producer::{NOBODY, Producer, pread};
use crate::seal::rows::Rows;
use crate::seal::view::Unit;
use core::mem::offset_of;
use iotrail_format::record::FIRST_TYPE;
use iotrail_format::schema::Table;
use iotrail_format::segment::{PAGE, RingHeader, SEGMENT_MAGIC, SegmentHeader, TYPES_START};
use proptest::prelude::*;

/// Keeps what journals held.
pub(super) struct Kept(pub(super) Vec<Unit>, pub(super) usize);

impl Turn for Kept {
    fn spare(&mut self, _wait: bool) -> Option<Journal> {
        Journal::volatile(self.1).ok()
    }
    fn full(&mut self, journal: Journal) {
        self.0.extend_from_slice(journal.units());
    }
}

fn drain(session: Session, units: usize) -> Drain<Kept> {
    Drain::new(session, Output::new(Kept(Vec::new(), units), 1))
}

/// `object` of each call, and how many were counted as never filled.
fn calls(units: &[Unit]) -> (Vec<u64>, u64) {
    let (mut found, mut lost) = (Vec::new(), 0);
    for (event, slots) in pieces(units) {
        found.extend(slots.iter().map(|slot| slot[3]));
        if let Event::Lost { loss: Loss::NeverFilled, calls, .. } = event {
            lost += calls;
        }
    }
    (found, lost)
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Post,
    /// A handler interrupts a post, and the post goes on later.
    Reserve,
    Fill(usize),
    Drain,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Post),
        1 => Just(Step::Reserve),
        2 => any::<usize>().prop_map(Step::Fill),
        2 => Just(Step::Drain),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Against the oracle: a queue of which only the filled head may leave. Whatever the order
    /// of reserving, filling and draining, each filled slot comes out once and in its order.
    #[test]
    fn every_filled_slot_comes_out_once_in_order(
        steps in prop::collection::vec(step(), 1..120),
        room in 4_usize..40,
    ) {
        let session = Session::create(1 << 20).unwrap();
        let dir = session.dir().to_owned();
        // This test's own pid: the process is alive until the end.
        let producer = Producer::create(&dir, std::process::id(), 7, 1, 16);
        let mut drain = drain(session, room);
        let mut reserved: Vec<(u64, bool)> = Vec::new();
        let mut next = 1_u64;
        for step in steps {
            match step {
                Step::Post | Step::Reserve => {
                    if let Some(position) = producer.reserve(0) {
                        let fills = matches!(step, Step::Post);
                        if fills {
                            producer.fill(0, position, &pread(next as i64, 0, next, 1));
                        }
                        prop_assert_eq!(position as usize, reserved.len());
                        reserved.push((next, fills));
                        next += 1;
                    }
                }
                Step::Fill(which) => {
                    let open: Vec<usize> = (0..reserved.len()).filter(|at| !reserved[*at].1).collect();
                    if let Some(at) = open.get(which % open.len().max(1)) {
                        reserved[*at].1 = true;
                        let object = reserved[*at].0;
                        producer.fill(0, *at as u64, &pread(object as i64, 0, object, 1));
                    }
                }
                Step::Drain => {
                    drain.pass(true).unwrap();
                    let head = reserved.iter().take_while(|(_, filled)| *filled).count();
                    prop_assert_eq!(producer.tail(0) as usize, head);
                }
            }
        }
        let (kept, session, running) = drain.finish_after_crash().unwrap();
        session.remove();
        prop_assert_eq!(running, vec![std::process::id()]);
        let (found, lost) = calls(&kept.0);
        let filled: Vec<u64> = reserved.iter().filter(|(_, filled)| *filled).map(|(object, _)| *object).collect();
        prop_assert_eq!(found, filled);
        prop_assert_eq!(lost as usize, reserved.iter().filter(|(_, filled)| !filled).count());
    }
}

#[test]
fn a_dead_process_is_drained_noted_and_its_segment_removed() {
    let session = Session::create(1 << 20).unwrap();
    let producer = Producer::create(session.dir(), NOBODY, 7, 2, 16);
    assert!(producer.post(0, &pread(1, 0, 10, 1)));
    producer.reserve(0).unwrap();
    assert!(producer.post(0, &pread(2, 0, 12, 1)));
    producer.begin(1, 0, &pread(3, 0, 14, 0));
    let dir = session.dir().to_owned();
    let mut drain = drain(session, 1000);
    drain.pass(true).unwrap();
    assert!(!drain.any_alive());
    assert!(segments(&dir).is_empty());
    let (kept, session, _) = drain.finish().unwrap();
    session.remove();
    assert_eq!(calls(&kept.0), (vec![1, 2, 3], 1));
    let unfinished = pieces(&kept.0).flat_map(|(_, slots)| slots).filter(|slot| slot[2] == u64::MAX);
    assert_eq!(unfinished.count(), 1);
    let ended = |event: &Event| matches!(event, Event::ProcessEnd { ended: Ended::Killed, .. });
    assert_eq!(pieces(&kept.0).filter(|(event, _)| ended(event)).count(), 1);
}

/// A program that began just before the end, on a file system where a segment takes its time to make.
#[test]
fn a_segment_completed_after_the_last_look_is_read_in_the_end() {
    for after_crash in [false, true] {
        let session = Session::create(1 << 20).unwrap();
        let producer = Producer::create(session.dir(), NOBODY, 7, 1, 16);
        assert!(producer.post(0, &pread(1, 0, 10, 1)));
        producer.scribble(offset_of!(SegmentHeader, magic), 0);
        let mut drain = drain(session, 1000);
        drain.pass(true).unwrap();
        assert_eq!((drain.known.len(), drain.unfinished.len()), (0, 1));
        producer.scribble(offset_of!(SegmentHeader, magic), SEGMENT_MAGIC);
        let ended = if after_crash { drain.finish_after_crash() } else { drain.finish() };
        let (kept, session, _) = ended.unwrap();
        session.remove();
        assert_eq!(calls(&kept.0), (vec![1], 0));
    }
}

/// Whatever keeps the system from opening a segment: what was in it is missing, and that is said.
#[test]
fn a_segment_that_is_never_opened_is_counted() {
    let session = Session::create(1 << 20).unwrap();
    let dir = session.dir().to_owned();
    let producer = Producer::create(&dir, NOBODY, 7, 1, 16);
    assert!(producer.post(0, &pread(1, 0, 10, 1)));
    drop(producer);
    let mut drain = drain(session, 1000);
    // A lease (fcntl(2), "Leases"): whoever opens the file for writing meanwhile must wait, or is refused.
    let lease = std::fs::File::open(segments(&dir).first().unwrap()).unwrap();
    const F_SETSIG: i32 = 10;
    for (command, argument) in [(F_SETSIG, libc::SIGWINCH), (libc::F_SETLEASE, libc::F_RDLCK)] {
        // SAFETY: integers, on a descriptor of ours.
        let done = unsafe { libc::fcntl(lease.as_raw_fd(), command, argument) };
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
    }
    drain.pass(true).unwrap();
    assert_eq!(drain.known.len(), 0);
    let (kept, session, _) = drain.finish().unwrap();
    session.remove();
    assert_eq!((calls(&kept.0).0.len(), counted(&kept.0, Loss::UnreadSegment)), (0, 1));
}

#[test]
fn a_closed_ring_is_freed_once_it_is_drained() {
    let session = Session::create(1 << 20).unwrap();
    let producer = Producer::create(session.dir(), std::process::id(), 7, 1, 16);
    assert!(producer.post(0, &pread(1, 0, 10, 1)));
    producer.close(0, 99);
    let mut drain = drain(session, 1000);
    drain.pass(true).unwrap();
    assert_eq!(producer.state(0), RingState::Free as u32);
    let (kept, session, running) = drain.finish().unwrap();
    session.remove();
    assert_eq!(running, [std::process::id()]);
    let ends = |event: &Event| matches!(event, Event::Thread { end_ticks: 99, .. });
    assert_eq!(pieces(&kept.0).filter(|(event, _)| ends(event)).count(), 1);
}

/// Nothing that a thread posted later comes before what is in the ring it left, wherever the two stand.
#[test]
fn a_ring_that_its_thread_left_comes_first() {
    let session = Session::create(1 << 20).unwrap();
    let producer = Producer::create(session.dir(), std::process::id(), 7, 2, 16);
    let mut drain = drain(session, 1000);
    assert!(producer.post(1, &pread(1, 0, 10, 1)));
    let hole = producer.reserve(1).unwrap();
    assert!(producer.post(1, &pread(3, 0, 12, 1)));
    producer.move_on(1, 0);
    assert!(producer.post(0, &pread(4, 0, 13, 1)));
    drain.pass(true).unwrap();
    assert_eq!((producer.tail(1), producer.tail(0)), (1, 0));
    producer.fill(1, hole, &pread(2, 0, 11, 1));
    drain.pass(true).unwrap();
    assert_eq!((producer.tail(1), producer.tail(0)), (3, 1));
    assert_eq!(producer.state(1), RingState::Free as u32);
    let (kept, session, _) = drain.finish().unwrap();
    session.remove();
    assert_eq!(calls(&kept.0), (vec![1, 2, 3, 4], 0));
}

/// A quiet ring is its dead thread's, or else stays: a living thread's, and the announcements', which no thread has.
#[test]
fn only_rings_of_dead_threads_are_closed() {
    let session = Session::create(1 << 20).unwrap();
    let (own, announcements) = (std::process::id(), 0);
    let producer = Producer::create(session.dir(), own, 7, 3, 16);
    for (ring, tid) in [own, announcements, NOBODY].into_iter().enumerate() {
        producer.give(ring, tid);
    }
    let mut drain = drain(session, 1000);
    drain.pass(true).unwrap();
    // quiet from one look to the next
    (0..2).for_each(|_| drain.processes[0].close_rings_of_dead_threads());
    let live = RingState::Live as u32;
    let states: Vec<bool> = (0..3).map(|ring| producer.state(ring) == live).collect();
    assert_eq!(states, [true, true, false]);
    drain.finish_after_crash().unwrap().1.remove();
}

#[test]
fn what_a_killed_sealer_had_copied_is_not_taken_twice() {
    for given_back in [0, 2, 3] {
        let session = Session::create(1 << 20).unwrap();
        let producer = Producer::create(session.dir(), NOBODY, 7, 1, 16);
        for object in 1..=5 {
            assert!(producer.post(0, &pread(object, 0, 10, 1)));
        }
        // Three were committed to the journal; the kill came while they were given back.
        for position in 0..given_back {
            producer.fill(0, position, &[0; 8]);
        }
        let mut drain = drain(session, 1000);
        drain.skip_copied(producer.process, 0, 0, 3);
        let (kept, session, _) = {
            drain.find_segments().unwrap();
            drain.finish_after_crash().unwrap()
        };
        session.remove();
        assert_eq!(calls(&kept.0), (vec![4, 5], 0), "{given_back} given back");
    }
}

/// A program that runs, beside this test's own.
fn other_pid() -> u32 {
    std::os::unix::process::parent_id()
}

/// How often something of a kind was counted.
fn counted(units: &[Unit], kind: Loss) -> u64 {
    pieces(units)
        .map(|(event, _)| match event {
            Event::Lost { loss, calls, .. } if loss == kind => calls,
            _ => 0,
        })
        .sum()
}

/// Each way in which a ring can't be a recorder's: that ring is closed, which is said once, and the ring beside it
/// is drained on.
#[test]
fn a_ring_that_was_written_over_is_closed_and_no_other() {
    type Case = (&'static str, fn(&Producer));
    let cases: [Case; 10] = [
        ("reserved beyond its room", |p| p.scribble(p.ring_at(1), 1 << 40)),
        ("reserved before its tail", |p| p.scribble(p.ring_at(1), 0)),
        ("its tail", |p| p.scribble(p.ring_at(1) + offset_of!(RingHeader, tail), 99)),
        ("no such state", |p| p.scribble(p.ring_at(1) + offset_of!(RingHeader, state), 77 | 5 << 32)),
        ("another thread", |p| p.scribble(p.ring_at(1) + offset_of!(RingHeader, thread), 4711)),
        ("another size", |p| p.scribble(PAGE + 16 + 8, 8)),
        ("another place", |p| p.scribble(PAGE + 16, p.ring_at(0) as u64)),
        ("a place outside", |p| p.scribble(PAGE + 16, 1 << 50)),
        ("slots of no call", |p| {
            (0..80).for_each(|_| assert!(p.post(1, &[0x1234, 7, 7, 7, 7, 7, 7, 7])));
        }),
        ("slots of the future", |p| {
            (0..80).for_each(|n| assert!(p.post(1, &pread(9, 0, u64::MAX - n, 1))));
        }),
    ];
    for (case, scribble) in cases {
        let session = Session::create(1 << 20).unwrap();
        let producer = Producer::create(session.dir(), std::process::id(), 7, 2, 128);
        let mut drain = drain(session, 1000);
        for ring in 0..2 {
            assert!(producer.post(ring, &pread(1, 0, 10, 1)));
        }
        drain.pass(true).unwrap();
        scribble(&producer);
        for object in 2..=4 {
            assert!(producer.post(0, &pread(object, 0, 10, 1)));
            drain.pass(true).unwrap();
        }
        let (kept, session, _) = drain.finish().unwrap();
        session.remove();
        assert_eq!(counted(&kept.0, Loss::OverwrittenRing), 1, "{case}");
        let of_first = pieces(&kept.0).filter(|(event, _)| matches!(event, Event::Run { ring: 0, .. }));
        let found: Vec<u64> = of_first.flat_map(|(_, slots)| slots).map(|slot| slot[3]).collect();
        assert_eq!(found, [1, 2, 3, 4], "{case}");
    }
}

/// A stray write costs the record that it hit.
#[test]
fn one_slot_that_was_written_over_is_left_out() {
    let session = Session::create(1 << 20).unwrap();
    let producer = Producer::create(session.dir(), std::process::id(), 7, 1, 16);
    let mut drain = drain(session, 1000);
    for object in 1..=3 {
        assert!(producer.post(0, &pread(object, 0, 10, 1)));
    }
    let slot = producer.ring_at(0) + PAGE + 64;
    producer.scribble(slot, 0x3333);
    drain.pass(true).unwrap();
    let (kept, session, _) = drain.finish().unwrap();
    session.remove();
    assert_eq!(calls(&kept.0), (vec![1, 0, 3], 0));
    assert_eq!(counted(&kept.0, Loss::OverwrittenRing), 0);
}

/// A record says how many slots belong to it: more than were reserved, of a program that is gone.
#[test]
fn a_record_longer_than_what_was_posted_ends() {
    let session = Session::create(1 << 20).unwrap();
    let producer = Producer::create(session.dir(), NOBODY, 7, 1, 16);
    let dir = session.dir().to_owned();
    assert!(producer.post(0, &[u64::from(FIRST_TYPE) | 4 << 24, 10, 0, 0, 0, 0, 0, 0]));
    let mut drain = drain(session, 1000);
    drain.pass(true).unwrap();
    let (kept, session, _) = drain.finish().unwrap();
    assert!(segments(&dir).is_empty());
    session.remove();
    assert_eq!(calls(&kept.0), (vec![0], 0));
    assert!(kept.0.len() < 10);
}

/// Segments that no program of the recording can have made are counted and left alone.
#[test]
fn what_is_no_segment_of_a_program_is_refused() {
    let session = Session::create(1 << 20).unwrap();
    let dir = session.dir().to_owned();
    let own = std::process::id();
    let victim = Producer::create(&dir, own, 7, 1, 16);
    let name = |pid: u32, start: u64| dir.join(format!("{SEGMENT_PREFIX}{pid:08x}-{start:016x}"));
    std::os::unix::fs::symlink("/etc/passwd", name(own, 8)).unwrap();
    std::os::unix::fs::symlink(name(own, 7), name(own, 9)).unwrap();
    std::fs::create_dir(name(own, 10)).unwrap();
    std::fs::File::create(name(own, 11)).unwrap().set_len(3 << 30).unwrap();
    // Neither of whom it says, nor of when.
    Producer::create(&dir, own, 12, 1, 16);
    std::fs::rename(name(own, 12), name(own, 13)).unwrap();
    Producer::create(&dir, own, u64::MAX, 1, 16);
    // Nobody but the recorder is the recorder.
    Producer::create(&dir, other_pid(), 14, 1, 16)
        .scribble(offset_of!(SegmentHeader, parent), RECORDER as u64);
    let fifo = std::ffi::CString::new(name(own, 15).as_os_str().as_encoded_bytes()).unwrap();
    // SAFETY: a NUL-terminated path.
    assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o666) }, 0);
    let mut expected = 8;
    if crate::seal::plain::effective_user() == 0 {
        // One that another user made names a process of ours.
        Producer::create(&dir, own, 16, 1, 16);
        std::os::unix::fs::chown(name(own, 16), Some(65_534), None).unwrap();
        expected += 1;
    }
    let mut drain = drain(session, 1000);
    for object in 1..=3 {
        assert!(victim.post(0, &pread(object, 0, 10, 1)));
        drain.pass(true).unwrap();
    }
    let (kept, session, running) = drain.finish().unwrap();
    session.remove();
    assert_eq!(running, [own]);
    assert_eq!(calls(&kept.0).0, [1, 2, 3]);
    assert_eq!(counted(&kept.0, Loss::RefusedSegment), expected);
}

/// Beyond so many files that are no program's, segments are not read; they are counted.
#[test]
fn what_is_not_looked_at_is_counted() {
    let session = Session::create(1 << 20).unwrap();
    let dir = session.dir().to_owned();
    let own = std::process::id();
    let first = Producer::create(&dir, own, 7, 1, 16);
    assert!(first.post(0, &pread(1, 0, 10, 1)));
    let mut drain = drain(session, 1000);
    drain.pass(true).unwrap();
    for start in 0..MOST_REFUSED {
        std::fs::create_dir(dir.join(format!("{SEGMENT_PREFIX}{own:08x}-{:016x}", 100 + start))).unwrap();
    }
    drain.pass(true).unwrap();
    // A program that begins now, and a file that isn't one.
    let late = Producer::create(&dir, other_pid(), 7, 1, 16);
    assert!(late.post(0, &pread(2, 0, 10, 1)));
    std::fs::create_dir(dir.join(format!("{SEGMENT_PREFIX}{own:08x}-{:016x}", 99))).unwrap();
    drain.pass(true).unwrap();
    assert!(first.post(0, &pread(3, 0, 10, 1)));
    let (kept, session, running) = drain.finish().unwrap();
    session.remove();
    assert_eq!(running, [own]);
    assert_eq!(calls(&kept.0).0, [1, 3]);
    assert_eq!(counted(&kept.0, Loss::RefusedSegment), MOST_REFUSED);
    assert_eq!(counted(&kept.0, Loss::UnreadSegment), 2);
}

/// A program that cuts its segment short loses what it posts; the sealer lives, and drains those of others.
#[test]
fn a_segment_that_is_truncated_costs_only_itself() {
    let session = Session::create(1 << 20).unwrap();
    let [cut, other] =
        [std::process::id(), other_pid()].map(|pid| Producer::create(session.dir(), pid, 7, 1, 16));
    let mut drain = drain(session, 1000);
    for producer in [&cut, &other] {
        assert!(producer.post(0, &pread(1, 0, 10, 1)));
    }
    drain.pass(true).unwrap();
    cut.truncate(0);
    for object in 2..=3 {
        assert!(other.post(0, &pread(object, 0, 10, 1)));
        drain.pass(true).unwrap();
    }
    let (kept, session, running) = drain.finish().unwrap();
    session.remove();
    assert_eq!(running.len(), 2);
    let mut found = calls(&kept.0).0;
    found.sort_unstable();
    assert_eq!(found, [1, 1, 2, 3]);
    assert_eq!(counted(&kept.0, Loss::OverwrittenRing), 1);
}

/// Where a program may write: in a header, the tables, a ring's header, its slots.
fn place() -> impl Strategy<Value = usize> {
    prop_oneof![
        2 => 0_usize..size_of::<SegmentHeader>(),
        2 => PAGE..PAGE + 6 * 16,
        1 => TYPES_START..RINGS_START,
        4 => (0_usize..3, 0_usize..128).prop_map(|(ring, at)| usize::MAX - (ring * 1000 + at)),
        6 => (0_usize..3, 0_usize..16 * 64).prop_map(|(ring, at)| usize::MAX - (ring * 10_000 + 5000 + at)),
    ]
}

fn value() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        0_u64..200,
        Just(u64::MAX),
        (0_u64..3).prop_map(|ring| (RINGS_START + ring as usize * 2 * PAGE) as u64),
        (0_u64..0x100, 0_u64..6).prop_map(|(number, extra)| (u64::from(FIRST_TYPE) + number) | (extra << 24)),
        (0x4000_u64..0x4008).prop_map(|opcode| opcode | (2 << 16)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Whatever a program writes over its segment, again and again: each pass ends, the journal grows by no more
    /// than rings hold, its rows fit their tables, and each call of the program beside it is there.
    #[test]
    fn a_program_that_writes_over_its_segment_harms_nobody(
        scribbles in prop::collection::vec(prop::collection::vec((place(), value()), 1..60), 1..12),
        ends in any::<bool>(),
    ) {
        let session = Session::create(1 << 20).unwrap();
        let pid = if ends { NOBODY } else { other_pid() };
        let wild = Producer::create(session.dir(), pid, 7, 3, 16);
        let good = Producer::create(session.dir(), std::process::id(), 7, 1, 64);
        let mut drain = drain(session, 500);
        let mut posted = 0;
        for words in &scribbles {
            for (place, value) in words {
                let at = match usize::MAX - place {
                    ring if ring < 5000 => wild.ring_at(ring / 1000) + ring % 1000 * 8,
                    slot if slot < 40_000 => {
                        wild.ring_at(slot / 10_000) + PAGE + (slot % 10_000).saturating_sub(5000)
                    }
                    _ => *place,
                };
                if at + 8 <= wild.bytes() {
                    wild.scribble(at & !7, *value);
                }
            }
            posted += 1;
            prop_assert!(good.post(0, &pread(posted, 0, 10, 1)));
            drain.pass(true).unwrap();
        }
        let (kept, session, _) = drain.finish().unwrap();
        session.remove();
        let of_good = |event: &Event| matches!(event, Event::Run { process, .. } if *process == good.process);
        let found: Vec<u64> = pieces(&kept.0)
            .filter(|(event, _)| of_good(event))
            .flat_map(|(_, slots)| slots)
            .map(|slot| slot[3])
            .collect();
        prop_assert_eq!(found, (1..=posted as u64).collect::<Vec<_>>());
        prop_assert!(kept.0.len() <= (scribbles.len() + 2) * (3 * (16 + 12) + 20), "{}", kept.0.len());
        let mut rows = Rows::new("n".into(), Clock::new(0), HashSet::new());
        let mut sink = |table: &'static Table, batch: arrow_array::RecordBatch| conform(table, &batch).map(drop);
        rows.apply(&kept.0, 1, &mut sink).unwrap();
        rows.finish(u64::MAX, &mut sink).unwrap();
        let mut again = Rows::new("n".into(), Clock::new(0), HashSet::new());
        again.apply(&rows.carry(), 1, &mut |_, _| Ok(())).unwrap();
    }
}
