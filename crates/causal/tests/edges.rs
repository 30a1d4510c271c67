//! Edges between calls that are known by hand, and of programs that are drawn.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use iotrail_causal::matching::{Act, Channel, Edges, Meeting, Role, Room, What, edges, explain_polls};
use iotrail_causal::reduction::reduce;
use iotrail_causal::semaphores::Id;
use proptest::prelude::*;

fn act(thread: u32, start: i64, end: i64, what: What) -> Act {
    Act { thread, start, end: Some(end), what }
}

fn message(tag: i64) -> Channel {
    Channel::Message { communicator: 1, sender: 0, receiver: 1, tag }
}

fn send(start: i64, end: i64, tag: i64, bytes: u64) -> Act {
    let room = Room::Message { bytes, synchronous: false };
    act(0, start, end, What::Give { channel: message(tag), amount: 1, room })
}

fn receive(start: i64, end: i64, tag: i64) -> Act {
    act(1, start, end, What::Take { channel: message(tag), amount: 1, order: start })
}

/// A wait for an edge: thread, its end, the threads and times of the signals.
type Arrow = (u32, i64, Vec<(u32, i64)>);

fn arrows(edges: &Edges) -> BTreeSet<Arrow> {
    let mut of: HashMap<u32, Vec<(u32, i64)>> = HashMap::new();
    for signal in &edges.signals {
        of.entry(signal.edge).or_default().push((signal.thread, signal.ts));
    }
    of.values_mut().for_each(|signals| signals.sort_unstable());
    let of_wait = |wait: &iotrail_causal::matching::Wait| {
        Some((wait.thread, wait.end.unwrap_or(i64::MAX), of[&wait.edge?].clone()))
    };
    edges.waits.iter().filter_map(of_wait).collect()
}

fn unexplained(edges: &Edges) -> Vec<&'static str> {
    edges.waits.iter().filter(|wait| wait.edge.is_none()).map(|wait| wait.kind).collect()
}

#[test]
fn messages_of_one_tag_keep_their_order() {
    let found = edges(&[
        send(0, 1, 7, 8),
        send(10, 11, 9, 8),
        send(20, 21, 7, 8),
        receive(30, 31, 7),
        receive(32, 33, 7),
        receive(34, 35, 9),
    ]);
    assert_eq!(
        arrows(&found),
        [(1, 31, vec![(0, 0)]), (1, 33, vec![(0, 20)]), (1, 35, vec![(0, 10)])].into()
    );
}

/// Two receives are begun, and complete in the other order.
#[test]
fn what_was_begun_first_gets_the_first_message() {
    let take = |end: i64, order: i64| act(1, 50, end, What::Take { channel: message(0), amount: 1, order });
    let found = edges(&[send(0, 1, 0, 8), send(60, 61, 0, 8), take(80, 11), take(55, 10)]);
    assert_eq!(arrows(&found), [(1, 55, vec![(0, 0)]), (1, 80, vec![(0, 60)])].into());
}

#[test]
fn what_returned_before_it_was_sent_belongs_to_another() {
    let received = |sent: i64| {
        edges(&[receive(0, 5, 0), receive(6, 3000, 0), send(sent, 2001, 0, 8), send(2500, 2501, 0, 8)])
    };
    let found = received(1006);
    assert!(arrows(&found).is_empty(), "a send is missing: nothing can be said");
    assert_eq!(unexplained(&found), ["message", "message"]);
    // counters of two cores and how a processor reads them: times so close have no order
    assert_eq!(arrows(&received(1005)), [(1, 5, vec![(0, 1005)]), (1, 3000, vec![(0, 2500)])].into());
}

/// Small messages are sent ahead, large ones wait for their receiver: the run shows from where on.
#[test]
fn large_messages_wait_for_their_receiver() {
    let acts = [
        send(0, 1, 0, 1000),
        receive(100, 101, 0),
        send(200, 310, 1, 9000),
        receive(300, 311, 1),
        // in time: only its size says that it would have waited
        receive(400, 451, 2),
        send(450, 451, 2, 9000),
        receive(500, 551, 3),
        send(550, 551, 3, 1000),
    ];
    let waiting: Vec<_> = arrows(&edges(&acts)).into_iter().filter(|(thread, ..)| *thread == 0).collect();
    assert_eq!(waiting, [(0, 310, vec![(1, 300)]), (0, 451, vec![(1, 400)])]);
    let ahead: Vec<_> = acts.iter().copied().filter(|act| act.start < 200 || act.start >= 400).collect();
    assert!(arrows(&edges(&ahead)).iter().all(|(thread, ..)| *thread == 1), "none was seen to wait");
}

#[test]
fn bytes_come_in_the_order_they_were_written() {
    let channel = Channel::Stream { machine: 0, object: 5 };
    let write =
        |start, end, amount| act(0, start, end, What::Give { channel, amount, room: Room::Units(65_536) });
    let read = |start, end, amount| act(1, start, end, What::Take { channel, amount, order: end });
    let found =
        edges(&[write(0, 1, 100), write(10, 11, 100), read(20, 21, 150), read(22, 23, 50), read(24, 40, 0)]);
    assert_eq!(
        arrows(&found),
        [(1, 21, vec![(0, 10)]), (1, 23, vec![(0, 10)]), (1, 40, vec![(0, 11)])].into(),
        "the end of the stream comes after the last write"
    );
    // 64 KiB are in the pipe: the next write waits until so many were read
    let found = edges(&[write(0, 1, 65_536), write(2, 51, 4096), read(40, 50, 4096), read(60, 61, 65_536)]);
    assert!(arrows(&found).contains(&(0, 51, vec![(1, 50)])));
    // it returned before: the pipe holds more
    let found = edges(&[write(0, 1, 65_536), write(2, 3, 4096), read(40, 50, 4096), read(60, 61, 65_536)]);
    assert!(arrows(&found).iter().all(|(thread, ..)| *thread == 1));
}

#[test]
fn a_semaphore_lets_pass_what_it_was_made_with() {
    let channel = Channel::Semaphore { of: Id { process: 1, address: 2, made: 0 } };
    let wait = |thread, end| act(thread, end - 1, end, What::Take { channel, amount: 1, order: end });
    let found = edges(&[
        act(0, 0, 1, What::Hold { channel, amount: 2 }),
        wait(0, 10),
        wait(0, 20),
        wait(0, 40),
        act(1, 30, 31, What::Give { channel, amount: 1, room: Room::Unlimited }),
    ]);
    assert_eq!(arrows(&found), [(0, 40, vec![(1, 30)])].into());
}

fn collective(thread: u32, start: i64, end: i64, role: Role) -> Act {
    act(
        thread,
        start,
        end,
        What::Meet { meeting: Meeting::Collective { communicator: 1, family: 0, number: 0 }, role },
    )
}

#[test]
fn all_wait_for_the_last_at_a_barrier_and_nobody_but_listeners_in_a_broadcast() {
    let all: Vec<Act> = (0..3).map(|rank| collective(rank, rank.into(), 10, Role::All)).collect();
    let found = edges(&all);
    assert_eq!((found.count, found.signals.len(), found.waits.len()), (1, 3, 3), "one edge, not one each");
    assert!(found.waits.iter().all(|wait| wait.last == Some(2)));
    let cast = [
        collective(0, 5, 6, Role::Source),
        collective(1, 0, 9, Role::Listener),
        collective(2, 0, 9, Role::Listener),
    ];
    assert_eq!(arrows(&edges(&cast)), [(1, 9, vec![(0, 5)]), (2, 9, vec![(0, 5)])].into());
    let reduced = [
        collective(0, 0, 9, Role::Sink),
        collective(1, 5, 6, Role::Contributor),
        collective(2, 1, 2, Role::Contributor),
    ];
    assert_eq!(arrows(&edges(&reduced)), [(0, 9, vec![(1, 5), (2, 1)])].into());
    let prefix: Vec<Act> = (0..3)
        .map(|rank| collective(2 - rank, i64::from(rank), 10, Role::Prefix { rank: (2 - rank).into() }))
        .collect();
    assert!(arrows(&edges(&prefix)).iter().all(|(thread, ..)| *thread != 0), "rank 0 waits for nobody");
}

#[test]
fn a_barrier_of_threads_is_passed_again_and_again() {
    let meeting = Meeting::Barrier { process: 1, address: 2 };
    let wait = |thread, start, end| act(thread, start, end, What::Meet { meeting, role: Role::All });
    let mut acts = vec![wait(0, 0, 6), wait(1, 5, 6), wait(1, 10, 21), wait(2, 20, 21)];
    for told in [false, true] {
        if told {
            acts.push(act(0, -1, 0, What::Expect { meeting, count: 2 }));
        }
        let found = edges(&acts);
        assert_eq!((found.count, unexplained(&found).len()), (2, 0), "told {told}");
        assert_eq!(found.waits.iter().map(|wait| wait.last).collect::<Vec<_>>(), [5, 5, 20, 20].map(Some));
    }
    // the last pass is not complete: who waited there waited for somebody who isn't recorded
    acts.push(wait(0, 30, 40));
    assert_eq!(unexplained(&edges(&acts)), ["barrier"]);
}

#[test]
fn who_waits_for_a_condition_is_woken_by_another_thread() {
    let wake = |thread, start| act(thread, start, start + 1, What::Wake { process: 1, condition: 2 });
    let wait = |thread, start, end| act(thread, start, end, What::Await { process: 1, condition: 2 });
    let found = edges(&[wake(0, 0), wait(1, 10, 30), wake(0, 25), wake(1, 5), wait(0, 40, 50)]);
    assert_eq!(arrows(&found), [(1, 30, vec![(0, 25)])].into());
    assert_eq!(unexplained(&found), ["condition"], "nobody woke the second one");
}

#[test]
fn a_poll_waits_for_what_is_taken_then() {
    let poll = act(1, 0, 20, What::Wait { kind: "poll" });
    let mut found = edges(&[send(19, 20, 0, 8), poll, receive(21, 22, 0)]);
    explain_polls(&mut found);
    assert_eq!(arrows(&found).len(), 2);
    // it takes a lock first
    let lock = act(1, 20, 21, What::Wait { kind: "lock" });
    let mut found = edges(&[send(19, 20, 0, 8), poll, lock, receive(21, 22, 0)]);
    explain_polls(&mut found);
    assert_eq!((arrows(&found).len(), unexplained(&found)), (2, vec!["lock"]));
    // the message was there before: the poll waited for something else
    let mut found = edges(&[send(-5, -4, 0, 8), poll, receive(21, 22, 0)]);
    explain_polls(&mut found);
    assert_eq!(unexplained(&found), ["poll"]);
}

#[test]
fn who_looks_waits_for_what_nobody_has_taken() {
    let channel = Channel::Stream { machine: 0, object: 5 };
    let write =
        |start, amount| act(0, start, start + 1, What::Give { channel, amount, room: Room::Unlimited });
    let look = |start, end| act(1, start, end, What::Peek { channel });
    let read = |end, amount| act(1, end - 1, end, What::Take { channel, amount, order: end });
    let found = edges(&[
        write(10, 4),
        look(0, 12),
        read(14, 3),
        look(15, 16),
        read(18, 1),
        write(30, 4),
        look(19, 31),
    ]);
    assert_eq!(
        arrows(&found),
        [
            (1, 12, vec![(0, 10)]),
            (1, 14, vec![(0, 10)]),
            (1, 16, vec![(0, 10)]),
            (1, 18, vec![(0, 10)]),
            (1, 31, vec![(0, 30)])
        ]
        .into()
    );
    let found = edges(&[write(10, 4), look(0, 9)]);
    assert_eq!(unexplained(&found), ["poll"], "nothing had been written");
    assert!(arrows(&found).is_empty());
}

/// A program that was run: threads that send, receive and meet, by a simulation that knows no matching.
fn run_program(threads: u32, plan: &[(u32, u32, u8, i64)]) -> Vec<Act> {
    let mut clock = vec![0i64; threads as usize];
    let mut acts = Vec::new();
    let mut sent: BTreeMap<(u32, u32), Vec<i64>> = BTreeMap::new();
    let mut meetings = 0;
    for (one, other, what, time) in plan {
        let (one, other) = (one % threads, other % threads);
        clock[one as usize] += time;
        let start = clock[one as usize];
        let channel = |sender: u32, receiver: u32| Channel::Message {
            communicator: 1,
            sender: sender.into(),
            receiver: receiver.into(),
            tag: 0,
        };
        match what % 3 {
            0 => {
                sent.entry((one, other)).or_default().push(start);
                let give = What::Give { channel: channel(one, other), amount: 1, room: Room::Unlimited };
                acts.push(act(one, start, start + 1, give));
                clock[one as usize] += 2;
            }
            1 => {
                let Some(queue) = sent.get_mut(&(other, one)).filter(|queue| !queue.is_empty()) else {
                    continue;
                };
                let end = start.max(queue.remove(0)) + 1;
                let take = What::Take { channel: channel(other, one), amount: 1, order: start };
                acts.push(act(one, start, end, take));
                clock[one as usize] = end + 1;
            }
            _ => {
                let starts: Vec<i64> = clock.iter().map(|now| now + time).collect();
                let end = starts.iter().max().copied().unwrap_or(0) + 1;
                let meeting = Meeting::Collective { communicator: 1, family: 0, number: meetings };
                meetings += 1;
                for (thread, start) in starts.iter().enumerate() {
                    acts.push(act(thread as u32, *start, end, What::Meet { meeting, role: Role::All }));
                    clock[thread] = end + 1;
                }
            }
        }
    }
    acts
}

/// For each wait's thread and end, up to when each thread has done all that it had to, by following arrows back: slowly.
fn known(edges: &Edges, threads: usize) -> BTreeMap<(u32, i64), Vec<i64>> {
    let arrows = arrows(edges);
    let mut known: BTreeMap<(u32, i64), Vec<i64>> = BTreeMap::new();
    loop {
        let mut changed = false;
        for (thread, end, signals) in &arrows {
            let mut clock = vec![i64::MIN; threads];
            for (from, ts) in signals.iter().filter(|(from, _)| from != thread) {
                clock[*from as usize] = clock[*from as usize].max(*ts);
                for ((_, _), earlier) in known.range((*from, i64::MIN)..=(*from, *ts)) {
                    for (into, value) in clock.iter_mut().zip(earlier) {
                        *into = (*into).max(*value);
                    }
                }
            }
            let own =
                known.range((*thread, i64::MIN)..(*thread, *end)).next_back().map(|(_, clock)| clock.clone());
            for (into, value) in clock.iter_mut().zip(own.into_iter().flatten()) {
                *into = (*into).max(value);
            }
            let entry = known.entry((*thread, *end)).or_insert_with(|| vec![i64::MIN; threads]);
            for (into, value) in entry.iter_mut().zip(clock) {
                if value > *into {
                    *into = value;
                    changed = true;
                }
            }
        }
        if !changed {
            return known;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn programs_are_matched_whole_and_reduction_loses_no_order(
        threads in 2u32..5,
        plan in prop::collection::vec((0u32..5, 0u32..5, 0u8..3, 0i64..20), 1..40),
    ) {
        let acts = run_program(threads, &plan);
        let all = edges(&acts);
        prop_assert_eq!(unexplained(&all), Vec::<&str>::new());
        let others = |act: &&Act| match act.what {
            What::Take { channel: Channel::Message { sender, receiver, .. }, .. } => sender != receiver,
            What::Meet { .. } => true,
            _ => false,
        };
        prop_assert_eq!(all.waits.len(), acts.iter().filter(others).count());
        let mut fewer = all.clone();
        reduce(&mut fewer, threads as usize);
        prop_assert!(fewer.waits.len() <= all.waits.len());
        // what was known at each wait that is left, and at the others by the last before
        let (before, after) = (known(&all, threads as usize), known(&fewer, threads as usize));
        for ((thread, end), clock) in &before {
            let left = after.range((*thread, i64::MIN)..=(*thread, *end)).next_back().map(|(_, clock)| clock.clone());
            let left = left.unwrap_or_else(|| vec![i64::MIN; threads as usize]);
            for (other, (was, is)) in clock.iter().zip(&left).enumerate() {
                prop_assert!(other as u32 == *thread || is >= was, "thread {} at {} forgets thread {}", thread, end, other);
            }
        }
    }
}
