//! Runs of scripts in virtual time: known ones by hand, random ones beside a naive simulation, and properties that all have.

mod naive;

use std::collections::HashMap;

use iotrail_sim::file::DeviceFile;
use iotrail_sim::{Device, Id, Op, Request};
use proptest::prelude::*;

use super::*;
use crate::check;
use crate::script::{Pauses, Script, Style};

use Step::{Compute, Hurry, Io, Lock, Poll, Rest, Share, Signal, Timeout, Unlock, Wait};

/// Scripts of threads, with as many edges, signals and locks as these name.
fn scripts(threads: &[&[Step]]) -> Scripts {
    let steps = threads.iter().copied().flatten();
    let edges = steps.clone().filter_map(|step| match step {
        Signal(edge) | Wait(edge, _) => Some(edge + 1),
        _ => None,
    });
    let mut signals = vec![0; edges.max().unwrap_or(0) as usize];
    let mut locks = 0;
    for step in steps {
        match step {
            Signal(edge) => signals[*edge as usize] += 1,
            Lock(lock) | Share(lock) | Unlock(lock) => locks = locks.max(lock + 1),
            _ => {}
        }
    }
    let threads = threads.iter().map(|steps| Script { steps: steps.to_vec() }).collect();
    Scripts { threads, signals, locks, ..Scripts::default() }
}

/// Order by a list.
#[derive(Clone, Debug, Default)]
struct After(HashMap<OpRef, Vec<OpRef>>);

impl Order for After {
    fn after(&self, op: OpRef) -> impl Iterator<Item = OpRef> {
        self.0.get(&op).into_iter().flatten().copied()
    }
}

fn op(thread: u32, index: u32) -> OpRef {
    OpRef { thread, index }
}

/// Runs threads whose operations take so long, on one machine.
fn run(threads: &[&[Step]], durs: &[&[i64]], cores: u32) -> Evaluated {
    let scripts = scripts(threads);
    assert_eq!(check(&scripts, &()), Ok(()));
    let mut storage = Durations::new(durs.iter().map(|durs| durs.to_vec()).collect());
    evaluate(&scripts, &(), &mut storage, &Machines::one(cores)).unwrap()
}

fn ends(found: &Evaluated) -> Vec<i64> {
    found.threads.iter().map(Run::end).collect()
}

fn path(found: &Evaluated) -> Vec<(u32, u32, Activity, i64, i64)> {
    found.path.iter().map(|one| (one.thread, one.step, one.activity, one.from, one.to)).collect()
}

const SLEEP: Style = Style::Sleep;

#[test]
fn nothing_takes_no_time() {
    let nothing = run(&[], &[], 1);
    assert_eq!((nothing.elapsed, nothing.threads.len(), nothing.path.len()), (0, 0, 0));
    let nothing =
        run(&[&[], &[Compute(0), Rest(0), Signal(0), Wait(0, SLEEP), Lock(0), Io(0)]], &[&[], &[0]], 1);
    assert_eq!((nothing.elapsed, nothing.path.len()), (0, 0));
    assert_eq!(nothing.threads[1].ends, [0; 6]);
}

#[test]
fn one_thread_does_one_thing_after_the_other() {
    let found = run(&[&[Compute(10), Io(0), Rest(5), Io(2)]], &[&[100, 7, 30]], 1);
    assert_eq!(found.threads[0].ends, [10, 110, 115, 145]);
    let times = Times { compute: 10, io: 130, rest: 5, ..Times::default() };
    assert_eq!((found.elapsed, found.threads[0].times), (145, times));
    assert_eq!(
        path(&found),
        [
            (0, 0, Activity::Compute, 0, 10),
            (0, 1, Activity::Io, 10, 110),
            (0, 2, Activity::Rest, 110, 115),
            (0, 3, Activity::Io, 115, 145)
        ]
    );
}

#[test]
fn a_reader_waits_for_the_writer() {
    // Figure 3 of //TRACE: node 1 opens what node 0 has written and closed
    let found = run(
        &[&[Io(0), Io(1), Compute(20), Io(2), Signal(0)], &[Compute(5), Wait(0, SLEEP), Io(0)]],
        &[&[100, 200, 50], &[30]],
        2,
    );
    assert_eq!(ends(&found), [370, 400]);
    assert_eq!(found.threads[1].times, Times { compute: 5, edge: 365, io: 30, ..Times::default() });
    assert_eq!(
        path(&found),
        [
            (0, 0, Activity::Io, 0, 100),
            (0, 1, Activity::Io, 100, 300),
            (0, 2, Activity::Compute, 300, 320),
            (0, 3, Activity::Io, 320, 370),
            (1, 2, Activity::Io, 370, 400)
        ]
    );
    // on storage ten times as fast it is as long as its computing makes it
    let fast = run(
        &[&[Io(0), Io(1), Compute(20), Io(2), Signal(0)], &[Compute(5), Wait(0, SLEEP), Io(0)]],
        &[&[10, 20, 5], &[3]],
        2,
    );
    assert_eq!(ends(&fast), [55, 58]);
}

#[test]
fn a_barrier_is_one_edge() {
    let rank = |dur| [Io(0), Compute(dur), Signal(0), Wait(0, SLEEP), Compute(10)];
    let (a, b, c) = (rank(50), rank(20), rank(30));
    let found = run(&[&a, &b, &c], &[&[100], &[140], &[110]], 3);
    assert_eq!(ends(&found), [170, 170, 170]);
    assert_eq!(found.threads.iter().map(|thread| thread.times.edge).collect::<Vec<_>>(), [10, 0, 20]);
    // of those that end together the first, which waited for the second
    let segments = path(&found);
    assert_eq!(
        segments,
        [
            (1, 0, Activity::Io, 0, 140),
            (1, 1, Activity::Compute, 140, 160),
            (0, 4, Activity::Compute, 160, 170)
        ]
    );
}

#[test]
fn cores_are_shared_evenly() {
    // three threads on two cores get two thirds of one each, until the shortest ends
    let found = run(&[&[Compute(20)], &[Compute(60)], &[Compute(60)]], &[], 2);
    assert_eq!(ends(&found), [30, 70, 70]);
    assert_eq!(found.threads[1].times, Times { compute: 60, ready: 10, ..Times::default() });
    assert_eq!(path(&found), [(1, 0, Activity::Ready, 0, 10), (1, 0, Activity::Compute, 10, 70)]);
    // who comes later shares from then on
    let found = run(&[&[Compute(100)], &[Rest(50), Compute(20)]], &[], 1);
    assert_eq!(ends(&found), [120, 90]);
    // what doesn't divide is rounded up to a ns
    assert_eq!(ends(&run(&[&[Compute(1)], &[Compute(2)], &[Compute(5)]], &[], 2)), [2, 3, 6]);
    // no core is none to share
    assert_eq!(ends(&run(&[&[Compute(10)], &[Compute(10)]], &[], 0)), [20, 20]);
}

#[test]
fn threads_share_the_cores_of_their_machine() {
    let scripts = scripts(&[&[Compute(10)], &[Compute(10)], &[Compute(10)]]);
    let machines = Machines { cores: vec![1, 1], of: vec![0, 1, 1] };
    let found = evaluate(&scripts, &(), &mut Durations::default(), &machines).unwrap();
    assert_eq!(ends(&found), [10, 20, 20]);
}

#[test]
fn only_who_spins_takes_a_core_from_those_who_compute() {
    let elapsed = |style| run(&[&[Compute(100), Signal(0)], &[Wait(0, style)]], &[], 1).elapsed;
    assert_eq!([Style::Sleep, Style::Yield, Style::Spin].map(elapsed), [100, 100, 200]);
    // with a core for everybody it disturbs nobody
    assert_eq!(run(&[&[Compute(100), Signal(0)], &[Wait(0, Style::Spin)]], &[], 2).elapsed, 100);
}

#[test]
fn a_lock_goes_to_the_first_that_asks() {
    let holder = [Lock(0), Compute(100), Unlock(0)];
    let late = [Rest(20), Lock(0), Compute(10), Unlock(0)];
    let later = [Rest(10), Lock(0), Compute(10), Unlock(0)];
    let found = run(&[&holder, &late, &later], &[], 4);
    assert_eq!(ends(&found), [100, 120, 110]);
    assert_eq!(found.threads[1].times.lock, 90);
    assert_eq!(
        path(&found),
        [
            (0, 1, Activity::Compute, 0, 100),
            (2, 2, Activity::Compute, 100, 110),
            (1, 2, Activity::Compute, 110, 120)
        ]
    );
}

#[test]
fn who_gives_a_lock_back_can_have_it_again() {
    // it asks again at the same moment: the other is woken, finds it taken, and waits on
    let greedy = [Lock(0), Compute(10), Unlock(0), Lock(0), Compute(10), Unlock(0), Compute(1)];
    let other = [Lock(0), Compute(10), Unlock(0)];
    let found = run(&[&greedy, &other], &[], 2);
    assert_eq!(ends(&found), [21, 30]);
    assert_eq!(
        path(&found),
        [
            (0, 1, Activity::Compute, 0, 10),
            (0, 4, Activity::Compute, 10, 20),
            (1, 1, Activity::Compute, 20, 30)
        ]
    );
    // with anything in between it doesn't
    let fair = [Lock(0), Compute(10), Unlock(0), Compute(1), Lock(0), Compute(10), Unlock(0)];
    assert_eq!(ends(&run(&[&fair, &other], &[], 2)), [30, 20]);
}

#[test]
fn operations_come_after_those_of_others() {
    let scripts = scripts(&[&[Compute(40), Io(0), Io(1)], &[Io(3)], &[Io(0), Rest(70)]]);
    let durs = vec![vec![10, 10], vec![0, 0, 0, 5], vec![20]];
    let after = [
        // one that is done by then, and one that isn't
        (op(1, 3), vec![op(2, 0), op(0, 0)]),
    ];
    let order = After(after.into());
    assert_eq!(check(&scripts, &order), Ok(()));
    let found = evaluate(&scripts, &order, &mut Durations::new(durs.clone()), &Machines::one(8)).unwrap();
    assert_eq!(ends(&found), [60, 55, 90]);
    assert_eq!(found.threads[1].times, Times { order: 50, io: 5, ..Times::default() });
    // of operations that aren't in the scripts the end is that of the next one, or of the thread
    let order = After([(op(1, 3), vec![op(2, 7)])].into());
    let found = evaluate(&scripts, &order, &mut Durations::new(durs), &Machines::one(8)).unwrap();
    assert_eq!(ends(&found), [60, 95, 90]);
    assert_eq!(
        path(&found),
        [(2, 0, Activity::Io, 0, 20), (2, 1, Activity::Rest, 20, 90), (1, 0, Activity::Io, 90, 95)]
    );
}

/// Storage that does one operation after the other, each in 10 ns, and knows the end when it begins.
#[derive(Default)]
struct Queue {
    waiting: std::collections::VecDeque<OpRef>,
    free: i64,
}

impl Storage for Queue {
    fn submit(&mut self, now: i64, op: OpRef) {
        self.free = self.free.max(now);
        self.waiting.push_back(op);
    }

    fn next_completion(&self) -> Option<i64> {
        (!self.waiting.is_empty()).then_some(self.free)
    }

    fn advance(&mut self, now: i64, completions: &mut Vec<Completion>) {
        while self.free <= now
            && let Some(op) = self.waiting.pop_front()
        {
            self.free += 10;
            completions.push(Completion { op, done: self.free });
        }
    }
}

#[test]
fn operations_of_all_threads_meet_in_the_storage() {
    let scripts = scripts(&[&[Io(0), Io(1)], &[Compute(5), Io(0), Compute(3)], &[Io(0)]]);
    let found = evaluate(&scripts, &(), &mut Queue::default(), &Machines::one(8)).unwrap();
    assert_eq!(found.threads[0].ends, [10, 40]);
    assert_eq!(found.threads[1].ends, [5, 30, 33]);
    assert_eq!(found.threads[2].ends, [20]);
}

/// A simulated device, and what operations ask of it.
struct OnDevice {
    device: Box<dyn Device>,
    requests: Vec<Vec<Request>>,
    completions: Vec<iotrail_sim::Completion>,
}

impl Storage for OnDevice {
    fn submit(&mut self, now: i64, op: OpRef) {
        let id = Id(u64::from(op.thread) << 32 | u64::from(op.index));
        self.device.submit(now as u64, id, self.requests[op.thread as usize][op.index as usize]);
    }

    fn next_completion(&self) -> Option<i64> {
        self.device.next_completion().map(|at| at as i64)
    }

    fn advance(&mut self, now: i64, completions: &mut Vec<Completion>) {
        self.device.advance(now as u64, &mut self.completions);
        let done = |one: iotrail_sim::Completion| Completion {
            op: op((one.id.0 >> 32) as u32, one.id.0 as u32),
            done: one.done as i64,
        };
        completions.extend(self.completions.drain(..).map(done));
    }
}

/// Reads and writes here and there on 1 TB, and times between them.
fn scattered(count: usize, seed: u64) -> Vec<(u64, Request)> {
    let mut state = seed;
    let mut next = |below: u64| {
        // a linear congruential generator (Knuth, The Art of Computer Programming 2, 3.3.4)
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let request = |_| {
        let op = if next(3) == 0 { Op::Write } else { Op::Read };
        let (pos, length) = (next(100_000_000) * 4096, (1 + next(32)) * 4096);
        (next(5_000_000), Request { op, pos, length })
    };
    (0..count).map(request).collect()
}

fn on_disk(requests: Vec<Vec<Request>>) -> OnDevice {
    let file = include_str!("../../../sim/devices/hdd-7200.toml");
    OnDevice { device: DeviceFile::parse(file).unwrap().build(), requests, completions: Vec::new() }
}

#[test]
fn who_shares_a_lock_has_it_with_others_and_who_does_not_alone() {
    let reads = |after| [Rest(after), Share(0), Rest(100), Unlock(0)];
    let writes = |after| [Rest(after), Lock(0), Rest(100), Unlock(0)];
    // the reader at 20 comes in although a writer waits since 10; both readers are through at 100 and 120, the writer from then on
    let found = run(&[&reads(0), &writes(10), &reads(20)], &[&[], &[], &[]], 4);
    assert_eq!(ends(&found), [100, 220, 120]);
    assert_eq!(found.threads[1].times.lock, 110);
    // behind a writer: all that read before the other writer, which came before them
    let found = run(&[&writes(0), &writes(10), &reads(20), &reads(30)], &[&[], &[], &[], &[]], 4);
    assert_eq!(ends(&found), [100, 300, 200, 200]);
}

#[test]
fn who_tries_for_a_lock_has_it_when_it_tries_again() {
    let holds = |after, dur| [Rest(after), Lock(0), Rest(dur), Unlock(0)];
    let mut scripts = scripts(&[&holds(0, 100), &holds(10, 100), &holds(230, 10)]);
    scripts.tried.insert(0, Pauses::new(vec![30, 50, 50]).unwrap());
    // the second one tries at 10, 40, 90, 140, the last at 230, 260
    let found = evaluate(&scripts, &(), &mut Durations::default(), &Machines::one(3)).unwrap();
    assert_eq!(ends(&found), [100, 240, 270]);
    let path = found.path.iter().map(|one| (one.thread, one.activity, one.from, one.to));
    let rests = [(0, 0, 100), (1, 100, 140), (1, 140, 240), (2, 240, 260), (2, 260, 270)];
    assert!(path.eq(rests.map(|(thread, from, to)| (thread, Activity::Rest, from, to))));
    // at 100 the third has lock 0, and gives lock 1 back: the second has tried for that at this moment, the fourth tries now
    let holds = [Lock(0), Rest(95), Unlock(0)];
    let (both, tries) = ([Lock(1), Lock(0), Unlock(1), Unlock(0)], [Rest(10), Lock(1), Unlock(1)]);
    let mut both = self::scripts(&[&holds, &tries, &both, &tries]);
    both.tried = (0..2).map(|lock| (lock, Pauses::new(vec![10]).unwrap())).collect();
    let found = evaluate(&both, &(), &mut Durations::default(), &Machines::one(3)).unwrap();
    assert_eq!(ends(&found), [95, 110, 100, 100]);
    // nobody gives it back any more
    scripts.threads[0].steps.pop();
    assert!(evaluate(&scripts, &(), &mut Durations::default(), &Machines::one(3)).is_err());
}

#[test]
fn who_looks_again_and_again_goes_on_with_the_look_that_finds_it() {
    let looks = |after| [Rest(after), Poll(0, 40), Compute(5)];
    let scripts = scripts(&[&[Compute(100), Signal(0)], &looks(10), &looks(20), &looks(130)]);
    // at 10, 50, 90, 130; at 20, 60, 100; at 130
    let found = evaluate(&scripts, &(), &mut Durations::default(), &Machines::one(3)).unwrap();
    assert_eq!(ends(&found), [100, 135, 105, 135]);
    assert_eq!(found.threads[1].times, Times { compute: 5, edge: 120, rest: 10, ..Times::default() });
    let path = found.path.iter().map(|one| (one.thread, one.activity, one.from, one.to));
    assert!(path.eq([
        (0, Activity::Compute, 0, 100),
        (1, Activity::Rest, 100, 130),
        (1, Activity::Compute, 130, 135)
    ]));
}

#[test]
fn a_simulated_disk_serves_a_thread_as_without_threads() {
    let work = scattered(400, 1);
    let mut storage = on_disk(vec![work.iter().map(|(_, request)| *request).collect()]);
    let expected = iotrail_sim::device::run_in_turn(&mut *storage.device, work.iter().copied()).unwrap();
    let steps = work.iter().zip(0..).flat_map(|((think, _), op)| [Rest(*think as i64), Io(op)]);
    let scripts = scripts(&[&steps.collect::<Vec<_>>()]);
    let mut storage = on_disk(storage.requests);
    let found = evaluate(&scripts, &(), &mut storage, &Machines::one(1)).unwrap();
    let expected = expected.iter().flat_map(|(arrival, completion)| [*arrival, completion.done]);
    assert!(found.threads[0].ends.iter().copied().eq(expected.map(|at| at as i64)));
}

#[test]
fn a_simulated_disk_serves_many_threads_as_requests_at_their_times() {
    let mut at = 0;
    let arrivals: Vec<(u64, Request)> = scattered(400, 2)
        .into_iter()
        .map(|(gap, request)| {
            // mostly faster than the disk
            at += gap / 2;
            (at, request)
        })
        .collect();
    let mut storage = on_disk(arrivals.iter().map(|(_, request)| vec![*request]).collect());
    let mut expected = vec![0; arrivals.len()];
    iotrail_sim::device::run(&mut storage.device, arrivals.iter().copied(), |at, completion| {
        expected[at] = completion.done as i64;
    });
    let steps: Vec<[Step; 2]> = arrivals.iter().map(|(at, _)| [Rest(*at as i64), Io(0)]).collect();
    let scripts = scripts(&steps.iter().map(|steps| &steps[..]).collect::<Vec<_>>());
    let found = evaluate(&scripts, &(), &mut on_disk(storage.requests), &Machines::one(1)).unwrap();
    assert_eq!(ends(&found), expected);
}

#[test]
fn a_standstill_names_who_waits_for_what() {
    let scripts = scripts(&[
        &[Lock(0), Compute(5), Wait(0, SLEEP), Signal(1)],
        &[Compute(20), Lock(0), Signal(0)],
        &[Io(0), Wait(1, Style::Spin)],
        &[Io(0)],
        &[Compute(30)],
    ]);
    let order = After([(op(3, 0), vec![op(2, 0), op(1, 4)])].into());
    let mut storage = Durations::new(vec![vec![], vec![], vec![50], vec![50], vec![]]);
    let found = evaluate(&scripts, &order, &mut storage, &Machines::one(8)).unwrap_err();
    assert_eq!(found.at, 50);
    let blocked = |thread, step, on| Blocked { thread, step, on };
    assert_eq!(
        found.blocked,
        [
            blocked(0, 2, On::Edge { edge: 0, missing: 1 }),
            blocked(1, 1, On::Lock { lock: 0, holder: 0 }),
            blocked(2, 1, On::Edge { edge: 1, missing: 1 }),
            blocked(3, 0, On::Op { op: op(3, 0), before: op(1, 4) }),
        ]
    );
    assert_eq!(
        found.to_string(),
        "standstill at 50 ns: thread 0 waits in step 2 for 1 signal of edge 0; thread 1 waits in step 1 for lock 0, which \
         thread 0 has; thread 2 waits in step 1 for 1 signal of edge 1; thread 3 waits in step 0 for operation 4 of thread 1, \
         before its operation 0"
    );
}

#[test]
fn a_lock_of_a_thread_that_has_ended_never_comes_free() {
    let scripts = scripts(&[&[Lock(0)], &[Compute(1), Lock(0)]]);
    let found = evaluate(&scripts, &(), &mut Durations::default(), &Machines::one(1)).unwrap_err();
    assert_eq!(found.blocked, [Blocked { thread: 1, step: 1, on: On::Lock { lock: 0, holder: 0 } }]);
}

#[test]
fn a_timeout_ends_by_its_signal_or_its_time() {
    // a loop that waits 10 at most, three times in vain, and once more until the signal comes
    let waits = [Timeout(0, 10), Compute(1), Timeout(0, 10), Compute(1), Timeout(0, 10), Wait(0, SLEEP)];
    for (given, ends) in
        [(4, [4, 5, 5, 6, 6, 6]), (15, [10, 11, 15, 16, 16, 16]), (50, [10, 11, 21, 22, 32, 50])]
    {
        let scripts = scripts(&[&waits, &[Rest(given), Signal(0)]]);
        let found = evaluate(&scripts, &(), &mut Durations::default(), &Machines::one(2)).unwrap();
        assert_eq!(found.threads[0].ends, ends);
    }
}

#[test]
fn who_is_hurried_does_what_comes_after_its_timeouts() {
    // it looks every 100 for something to do, and the second time it posts what the other waits for
    let looks = [
        Timeout(1, 100),
        Compute(5),
        Timeout(1, 100),
        Compute(5),
        Signal(0),
        Timeout(1, 100),
        Wait(1, SLEEP),
    ];
    let asks = [Compute(3), Hurry(0), Wait(0, SLEEP), Compute(30), Signal(1)];
    let run = |asks: &[Step]| {
        evaluate(&scripts(&[&looks, asks]), &(), &mut Durations::default(), &Machines::one(2)).unwrap()
    };
    let found = run(&asks);
    assert_eq!(found.threads[0].ends, [3, 8, 8, 13, 13, 43, 43]);
    assert_eq!(found.threads[1].ends, [3, 3, 13, 43, 43]);
    let path: Vec<_> = found.path.iter().map(|one| (one.thread, one.from, one.to)).collect();
    assert_eq!(path, [(1, 0, 3), (0, 3, 8), (0, 8, 13), (1, 13, 43)]);
    // who doesn't hurry it waits for its time
    assert_eq!(run(&[asks[0], asks[2], asks[3], asks[4]]).threads[1].ends[1], 210);
}

#[test]
fn storage_that_does_not_complete_is_named() {
    struct Never;
    impl Storage for Never {
        fn submit(&mut self, _: i64, _: OpRef) {}
        fn next_completion(&self) -> Option<i64> {
            None
        }
        fn advance(&mut self, _: i64, _: &mut Vec<Completion>) {}
    }
    let scripts = scripts(&[&[Rest(3), Io(0)]]);
    let found = evaluate(&scripts, &(), &mut Never, &Machines::one(1)).unwrap_err();
    assert_eq!(
        found.to_string(),
        "standstill at 3 ns: thread 0 waits in step 1 for the storage to do operation 0"
    );
}

#[test]
fn many_are_counted_rather_than_named() {
    let waits = [Wait(0, SLEEP)];
    let mut threads: Vec<&[Step]> = vec![&waits; 10];
    let never = [Lock(0), Lock(0), Signal(0)];
    threads.push(&never);
    let found = evaluate(&scripts(&threads), &(), &mut Durations::default(), &Machines::one(1)).unwrap_err();
    assert!(
        found.to_string().ends_with("thread 7 waits in step 0 for 1 signal of edge 0; and 3 more"),
        "{found}"
    );
}

#[test]
fn times_beyond_64_bits_end() {
    let long = [Compute(i64::MAX), Compute(i64::MAX), Rest(i64::MAX), Io(0)];
    let scripts = scripts(&[&long, &long]);
    let mut storage = Durations::new(vec![vec![i64::MAX]; 2]);
    let found = evaluate(&scripts, &(), &mut storage, &Machines::one(1)).unwrap();
    assert_eq!(found.elapsed, i64::MAX);
}

/// What threads of random scripts do, one after the other: what a wait needs has been done before it in this list, so that no cycle is
/// possible. Locks and edges together can still come to a standstill.
#[derive(Clone, Debug)]
struct Drawn {
    scripts: Scripts,
    order: After,
    durs: Vec<Vec<i64>>,
    machines: Machines,
}

/// What is drawn for one step: the thread, what it does, and two numbers.
type Draw = (u8, u8, u8, u8);

const LOCKS: u32 = 3;

fn build(threads: usize, cores: &[u32], draws: &[Draw], has_locks: bool) -> Drawn {
    let mut steps: Vec<Vec<Step>> = vec![Vec::new(); threads];
    let mut durs: Vec<Vec<i64>> = vec![Vec::new(); threads];
    let mut order = After::default();
    let (mut signals, mut open) = (Vec::<u32>::new(), Vec::<u32>::new());
    let mut held = vec![[false; LOCKS as usize]; threads];
    for (thread, kind, a, b) in draws.iter().copied() {
        let number = usize::from(thread) % threads;
        let own = &mut steps[number];
        // many equal times, some that don't divide, some long
        let dur = match b % 8 {
            0 => 0,
            1 | 2 => 10,
            3 => 1000,
            _ => i64::from(a),
        };
        match kind % 15 {
            0..3 => own.push(Compute(dur)),
            3 => own.push(Rest(dur)),
            4..7 => {
                // some operations are in no script
                let skipped = usize::from(b % 16 == 0);
                let index = durs[number].len() + skipped;
                durs[number].resize(index, 0);
                durs[number].push(dur);
                own.push(Io(index as u32));
                let other = usize::from(a) % threads;
                if b % 4 == 1 && other != number && !durs[other].is_empty() {
                    let before = op(other as u32, u32::from(a / 16) % durs[other].len() as u32);
                    order.0.entry(op(number as u32, index as u32)).or_default().push(before);
                }
            }
            7 | 8 => {
                let edge = if b % 3 == 0 && !open.is_empty() {
                    open[usize::from(a) % open.len()]
                } else {
                    signals.push(0);
                    open.push(signals.len() as u32 - 1);
                    signals.len() as u32 - 1
                };
                signals[edge as usize] += 1;
                own.push(Signal(edge));
            }
            9 | 10 if !signals.is_empty() => {
                let edge = u32::from(a) % signals.len() as u32;
                open.retain(|one| *one != edge);
                own.push(Wait(edge, [Style::Sleep, Style::Yield, Style::Spin][usize::from(b) % 3]));
            }
            12 if !signals.is_empty() => own.push(Timeout(u32::from(a) % signals.len() as u32, dur)),
            // who comes later may find at once what it would have slept over
            14 if has_locks && !signals.is_empty() => {
                let edge = u32::from(a) % signals.len() as u32;
                open.retain(|one| *one != edge);
                own.push(Poll(edge, 1 + i64::from(b)));
            }
            13 if !signals.is_empty() => own.push(Hurry(u32::from(a) % signals.len() as u32)),
            11 if has_locks => {
                let lock = u32::from(a) % LOCKS;
                let held = &mut held[number][lock as usize];
                own.push(match *held {
                    true => Unlock(lock),
                    false if b.is_multiple_of(2) => Share(lock),
                    false => Lock(lock),
                });
                *held = !*held;
            }
            _ => {}
        }
    }
    if has_locks {
        // most give back what they have
        for (own, held) in steps.iter_mut().zip(held).skip(usize::from(draws.len().is_multiple_of(8))) {
            own.extend((0..LOCKS).filter(|lock| held[*lock as usize]).map(Unlock));
        }
    }
    let threads_of = |number: usize| (number % cores.len()) as u32;
    Drawn {
        scripts: Scripts {
            threads: steps.into_iter().map(|steps| Script { steps }).collect(),
            signals,
            locks: LOCKS,
            // of a few programs, some
            tried: (0..draws.len() as u32 % (LOCKS + 1))
                .filter_map(|lock| Some((lock, Pauses::new(vec![3, 1 + i64::from(lock), 20])?)))
                .collect(),
        },
        order,
        durs,
        machines: Machines { cores: cores.to_vec(), of: (0..threads).map(threads_of).collect() },
    }
}

fn draws() -> impl Strategy<Value = Vec<Draw>> {
    prop::collection::vec(any::<Draw>(), 0..120)
}

fn drawn() -> impl Strategy<Value = Drawn> {
    (1_usize..13, prop::collection::vec(1_u32..9, 1..3), draws(), any::<bool>())
        .prop_map(|(threads, cores, draws, has_locks)| build(threads, &cores, &draws, has_locks))
}

/// As many cores as anybody could want, and no locks.
fn unlimited() -> impl Strategy<Value = Drawn> {
    (1_usize..7, draws()).prop_map(|(threads, draws)| build(threads, &[64], &draws, false))
}

fn evaluated(drawn: &Drawn) -> Result<Evaluated, Standstill> {
    evaluate(&drawn.scripts, &drawn.order, &mut Durations::new(drawn.durs.clone()), &drawn.machines)
}

fn times_of(drawn: &Drawn, found: &naive::Found, thread: usize) -> Times {
    let mut times = Times::default();
    let mut start = 0;
    for (step, end) in drawn.scripts.threads[thread].steps.iter().zip(&found.ends[thread]) {
        let dur = end - start;
        match step {
            Compute(cpu) => {
                times.compute += cpu;
                times.ready += dur - cpu;
            }
            Rest(_) | Timeout(..) => times.rest += dur,
            Io(index) => {
                let begun = found.begun[&op(thread as u32, *index)];
                times.order += begun - start;
                times.io += end - begun;
            }
            Wait(..) | Poll(..) => times.edge += dur,
            Lock(_) | Share(_) => times.lock += dur,
            Signal(_) | Hurry(_) | Unlock(_) => assert_eq!(dur, 0),
        }
        start = *end;
    }
    times
}

/// Asserts that a critical path is one: without gaps, of what threads did then, from one to another only where one waited.
fn check_path(drawn: &Drawn, found: &Evaluated) {
    let mut at = 0;
    for segment in &found.path {
        assert_eq!(segment.from, at);
        assert!(segment.from < segment.to);
        let (thread, step) = (segment.thread as usize, segment.step as usize);
        let ends = &found.threads[thread].ends;
        let start = if step == 0 { 0 } else { ends[step - 1] };
        assert!(start <= segment.from && segment.to <= ends[step]);
        let step = drawn.scripts.threads[thread].steps[step];
        match segment.activity {
            Activity::Compute => assert_eq!(step, Compute(segment.to - segment.from)),
            Activity::Ready => assert!(matches!(step, Compute(_))),
            Activity::Io => assert!(matches!(step, Io(_))),
            Activity::Rest => match step {
                Rest(dur) | Timeout(_, dur) => assert_eq!(dur, segment.to - segment.from),
                Lock(lock) | Share(lock) => assert!(drawn.scripts.tried.contains_key(&lock)),
                Poll(_, period) => assert!(segment.to - segment.from < period),
                _ => panic!("{step:?} is no rest"),
            },
        }
        at = segment.to;
    }
    assert_eq!(at, found.elapsed);
    for pair in found.path.windows(2).filter(|pair| pair[0].thread != pair[1].thread) {
        let (at, thread) = (pair[0].to, pair[1].thread as usize);
        let ends = &found.threads[thread].ends;
        let steps = &drawn.scripts.threads[thread].steps;
        let has_waited = (0..=pair[1].step as usize).any(|step| {
            let start = if step == 0 { 0 } else { ends[step - 1] };
            match steps[step] {
                Wait(..) | Timeout(..) => start < at && ends[step] == at,
                Io(_) | Lock(_) | Share(_) | Poll(..) => {
                    start < at && (step == pair[1].step as usize || ends[step] == at)
                }
                _ => false,
            }
        });
        assert!(has_waited, "thread {thread} didn't wait at {at}");
    }
}

fn config() -> ProptestConfig {
    ProptestConfig::with_cases(10000)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn all_is_as_in_the_naive_simulation(drawn in drawn()) {
        prop_assert_eq!(check(&drawn.scripts, &drawn.order), Ok(()));
        let slow = naive::evaluate(&drawn);
        match evaluated(&drawn) {
            Ok(found) => {
                for (thread, run) in found.threads.iter().enumerate() {
                    prop_assert_eq!(&run.ends, &slow.ends[thread]);
                    prop_assert_eq!(run.times, times_of(&drawn, &slow, thread));
                    prop_assert_eq!(run.times.total(), run.end());
                }
                check_path(&drawn, &found);
            }
            Err(standstill) => {
                let stuck: Vec<usize> = (0..slow.ends.len()).filter(|thread| !slow.has_ended[*thread]).collect();
                let blocked = standstill.blocked.iter().map(|one| (one.thread as usize, one.step as usize));
                let blocked: Vec<(usize, usize)> = blocked.collect();
                let stuck: Vec<(usize, usize)> = stuck.iter().map(|thread| (*thread, slow.ends[*thread].len())).collect();
                prop_assert_eq!(blocked, stuck);
            }
        }
    }

    #[test]
    fn without_locks_all_end(drawn in drawn()) {
        let mut drawn = drawn;
        for script in &mut drawn.scripts.threads {
            script.steps.retain(|step| !matches!(step, Lock(_) | Share(_) | Unlock(_) | Poll(..)));
        }
        let shared = evaluated(&drawn);
        prop_assert!(shared.is_ok());
        let shared = shared.unwrap();
        // cores do no more than they can, and nobody is earlier for having to share them
        let cores = drawn.machines.cores.clone();
        for (machine, cores) in cores.iter().enumerate() {
            let of = |thread: &usize| drawn.machines.of[*thread] as usize == machine;
            let threads: Vec<usize> = (0..drawn.scripts.threads.len()).filter(of).collect();
            let computed: i64 = threads.iter().map(|thread| shared.threads[*thread].times.compute).sum();
            prop_assert!(computed <= i64::from(*cores) * shared.elapsed);
        }
        drawn.machines.cores.fill(64);
        let alone = evaluated(&drawn).unwrap();
        for (shared, alone) in shared.threads.iter().zip(&alone.threads) {
            prop_assert_eq!(alone.times.ready, 0);
            prop_assert!(alone.ends.iter().zip(&shared.ends).all(|(alone, shared)| alone <= shared));
        }
    }

    #[test]
    fn longer_operations_end_nothing_earlier(
        drawn in unlimited(),
        longer in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0_i64..300), 1..4),
    ) {
        let before = evaluated(&drawn).unwrap();
        let mut slower = drawn.clone();
        for (thread, index, by) in longer {
            let durs = thread.get_mut(&mut slower.durs);
            if !durs.is_empty() {
                *index.get_mut(durs) += by;
            }
        }
        let after = evaluated(&slower).unwrap();
        for (before, after) in before.threads.iter().zip(&after.threads) {
            prop_assert!(before.ends.iter().zip(&after.ends).all(|(before, after)| before <= after));
        }
    }

    #[test]
    fn what_the_critical_path_does_longer_makes_all_longer_by_that(
        drawn in unlimited(),
        which in any::<prop::sample::Index>(),
        by in 1_i64..300,
    ) {
        // what comes later may find the signal given that ends a timeout before its time
        let mut drawn = drawn;
        for script in &mut drawn.scripts.threads {
            script.steps.retain(|step| !matches!(step, Timeout(..)));
        }
        let before = evaluated(&drawn).unwrap();
        if !before.path.is_empty() {
            let segment = which.get(&before.path);
            let mut slower = drawn.clone();
            match &mut slower.scripts.threads[segment.thread as usize].steps[segment.step as usize] {
                Compute(dur) | Rest(dur) => *dur += by,
                Io(index) => slower.durs[segment.thread as usize][*index as usize] += by,
                step => prop_assert!(false, "{:?} is on the path", step),
            }
            prop_assert_eq!(evaluated(&slower).unwrap().elapsed, before.elapsed + by);
        }
    }

    #[test]
    fn all_times_twice_as_long_is_twice_as_long(drawn in unlimited()) {
        let before = evaluated(&drawn).unwrap();
        let mut slower = drawn.clone();
        slower.durs.iter_mut().flatten().for_each(|dur| *dur *= 2);
        for step in slower.scripts.threads.iter_mut().flat_map(|script| &mut script.steps) {
            if let Compute(dur) | Rest(dur) | Timeout(_, dur) = step {
                *dur *= 2;
            }
        }
        let after = evaluated(&slower).unwrap();
        for (before, after) in before.threads.iter().zip(&after.threads) {
            prop_assert!(before.ends.iter().zip(&after.ends).all(|(before, after)| before * 2 == *after));
        }
    }
}
