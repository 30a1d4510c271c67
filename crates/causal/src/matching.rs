//! Which calls belong together: from what calls do to the edges between them.
//!
//! A call of a thread *gives* to a channel, *takes* from one, *meets* others, or *wakes* those that wait for a condition.
//! What it takes was given before, so a taker waits for the giver, whether or not it had to wait in this run: on slower
//! storage it may have to. The signal is given when the giving call begins (all that its thread did before is done), and
//! waited for until the taking call returns.
//!
//! | channel | unit | which is which |
//! |---|---|---|
//! | message of MPI | message | the n-th that was received of a sender, tag and communicator is the n-th that was sent (MPI 4.1, section 3.5) |
//! | pipe, connection | byte | in the order in which they were written |
//! | event counter | what is added | as of a pipe: a read takes as much as its value says |
//! | semaphore | post | the n-th wait takes the n-th post, after those it began with; one that is used as a lock is one (`semaphores`) |
//! | signal | once | the first that was sent after the one before it was taken (`signals`) |
//! | thread, process | once | its beginning and its end |
//!
//! Epochs of one-sided MPI are matched before (`epochs`).
//!
//! What can't be (a taker that returned before the giver began, by more than [`UNORDERED_NS`]) shows that calls are missing, or that
//! the order was another one: then nothing is said of the channel from there on: its calls have no edge.

use std::collections::HashMap;

use crate::epochs;
use crate::script::Style;
use crate::semaphores::Id;

/// Moments of two threads that are so close have no order, ns. The recorder reads the counter by RDTSC, which a processor may run
/// ahead of the instructions before it (Intel SDM vol. 2, RDTSC), and counters of two cores differ: a wait for a semaphore that was
/// posted just then was seen to return 190 ns before the post began.
const UNORDERED_NS: i64 = 1_000;

/// What is given and taken. Numbers that a process hands out (addresses, handles) come with the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Channel {
    /// Messages of MPI, by communicator, ranks of the sender and the receiver in MPI_COMM_WORLD, and tag.
    Message { communicator: i64, sender: i64, receiver: i64, tag: i64 },
    /// Bytes of a pipe, or those written at one end of a connection; ids of different machines may be equal.
    Stream { machine: u32, object: i64 },
    /// The connection that this end made.
    Connection { machine: u32, object: i64 },
    /// What was added to an event counter.
    Event { object: i64 },
    /// A semaphore.
    Semaphore { of: Id },
    /// A signal that was sent, by its number among all.
    Signal { number: u32 },
    /// The beginning of a thread.
    Begin { thread: u32 },
    /// The end of a thread.
    End { thread: u32 },
}

impl Channel {
    /// Kind of its edges, as in a trail.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Message { .. } => "message",
            Self::Stream { .. } => "stream",
            Self::Connection { .. } => "connection",
            Self::Event { .. } => "event",
            Self::Semaphore { .. } => "semaphore",
            Self::Signal { .. } => "signal",
            Self::Begin { .. } => "begin",
            Self::End { .. } => "end",
        }
    }
}

/// Whether who gives has to wait, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Never, or that isn't known.
    Unlimited,
    /// If the channel would hold more than so many units.
    Units(u64),
    /// A message of so many bytes: until its receiver is ready if it is `synchronous`, or larger than what is sent ahead.
    Message { bytes: u64, synchronous: bool },
}

/// Where calls meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Meeting {
    /// The n-th collective call on a communicator of MPI; those of one family have numbers of their own.
    Collective { communicator: i64, family: u32, number: i64 },
    /// A barrier of threads: how often it was passed before is found by counting.
    Barrier { process: i64, address: i64 },
    /// A call that waits for epochs of one-sided MPI to begin or to end (`epochs`), by its number among all.
    Epoch { number: u32, ends: bool },
}

/// Who waits for whom where calls meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Each for all.
    All,
    /// The others wait for this one (it broadcasts, scatters).
    Source,
    /// It waits for a [`Role::Source`].
    Listener,
    /// It waits for the others (it reduces, gathers).
    Sink,
    /// A [`Role::Sink`] waits for it.
    Contributor,
    /// It waits for those of a lower rank (prefix reductions).
    Prefix { rank: i64 },
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Gives so many units.
    Give { channel: Channel, amount: u64, room: Room },
    /// Takes so many units; 0: it learns that nothing more comes. Of calls on one channel the one with the smaller `order` comes
    /// first: of messages the one that was ready for its message earlier, at that time.
    Take { channel: Channel, amount: u64, order: i64 },
    /// Takes so many units inside another call, which waits for something itself.
    Drain { channel: Channel, amount: u64, order: i64 },
    /// Waits until there is a unit that nobody has taken yet, and takes none.
    Peek { channel: Channel },
    /// Units that a channel held at first.
    Hold { channel: Channel, amount: u64 },
    /// Meets others.
    Meet { meeting: Meeting, role: Role },
    /// How many meet at a barrier.
    Expect { meeting: Meeting, count: u64 },
    /// Wakes one, or all, that wait for a condition.
    Wake { process: i64, condition: i64 },
    /// Waits for a condition.
    Await { process: i64, condition: i64 },
    /// Waits for something that has no edge: what it is called in a trail.
    Wait { kind: &'static str },
    /// Neither waits nor lets others go on.
    Nothing,
}

/// A call, or the beginning or end of a thread. Times are ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Act {
    /// Number of the thread.
    pub thread: u32,
    /// When it began.
    pub start: i64,
    /// When it returned; none if it never did.
    pub end: Option<i64>,
    /// What it does.
    pub what: What,
}

/// How an edge is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum How {
    /// Its calls belong together.
    #[default]
    Matched,
    /// The kernel woke who waited, in a call of who gave the signal.
    Woken,
    /// Who waited stopped when the other was paused.
    Throttled,
}

impl How {
    /// The name in a trail.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Matched => "matched",
            Self::Woken => "woken",
            Self::Throttled => "throttled",
        }
    }
}

/// A moment from which others can go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Number of the thread.
    pub thread: u32,
    /// When.
    pub ts: i64,
    /// Number of the edge.
    pub edge: u32,
    /// Its kind.
    pub kind: &'static str,
    /// How it is known.
    pub how: How,
}

/// A call that returns when all signals of an edge have been given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// Number of the thread.
    pub thread: u32,
    /// When it began.
    pub start: i64,
    /// When it returned; none if it never did.
    pub end: Option<i64>,
    /// Number of the edge; none if nothing explains why it waited.
    pub edge: Option<u32>,
    /// Its kind.
    pub kind: &'static str,
    /// How its edge is known, if it has one.
    pub how: How,
    /// When the last signal was given; none without an edge.
    pub last: Option<i64>,
    /// Operations by which the edge may be misplaced.
    pub within: u32,
    /// What the thread did meanwhile, if that was seen.
    pub style: Option<Style>,
    /// Of a wait for a time the edge that ends it earlier.
    pub until: Option<u32>,
}

impl Wait {
    /// What the thread did meanwhile: ranks of MPI look again and again.
    #[must_use]
    pub fn style(&self) -> Style {
        match self.kind {
            "message" | "rendezvous" | "collective" | "exposure" | "access" | "mpi" => Style::Yield,
            _ => self.style.unwrap_or(Style::Sleep),
        }
    }
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// In no order.
    pub signals: Vec<Signal>,
    /// In no order.
    pub waits: Vec<Wait>,
    /// How many edges there are: they are numbered from 0.
    pub count: u32,
}

impl Edges {
    fn add(&mut self, kind: &'static str, givers: &[&Act], takers: &[&Act]) {
        // who gives all signals itself doesn't wait
        let is_own = |taker: &Act| givers.iter().all(|giver| giver.thread == taker.thread);
        let takers: Vec<&&Act> = takers.iter().filter(|taker| !is_own(taker)).collect();
        let Some(last) = givers.iter().map(|giver| giver.start).max() else { return };
        if takers.is_empty() {
            return;
        }
        let edge = self.count;
        self.count += 1;
        self.signals.extend(givers.iter().map(|giver| Signal {
            thread: giver.thread,
            ts: giver.start,
            edge,
            kind,
            how: How::Matched,
        }));
        self.waits.extend(takers.into_iter().map(|taker| Wait {
            thread: taker.thread,
            start: taker.start,
            end: taker.end,
            edge: Some(edge),
            kind,
            how: How::Matched,
            last: Some(last),
            within: 0,
            style: None,
            until: None,
        }));
    }

    /// Nothing says for what a call waited: it has no edge, or what it belongs to wasn't recorded.
    fn unexplained(&mut self, act: &Act, kind: &'static str) {
        let (thread, start, end) = (act.thread, act.start, act.end);
        let how = How::default();
        self.waits.push(Wait {
            thread,
            start,
            end,
            edge: None,
            kind,
            how,
            last: None,
            within: 0,
            style: None,
            until: None,
        });
    }
}

/// Bytes, messages or posts of one channel.
#[derive(Default)]
struct Traffic<'a> {
    gives: Vec<(&'a Act, u64, Room)>,
    /// With whether it waits.
    takes: Vec<(&'a Act, u64, i64, bool)>,
    peeks: Vec<&'a Act>,
    held: u64,
}

/// Calls on one condition.
#[derive(Default)]
struct Condition<'a> {
    wakes: Vec<&'a Act>,
    awaits: Vec<&'a Act>,
}

/// The edges between calls. `acts` may come in any order.
#[must_use]
pub fn edges(acts: &[Act]) -> Edges {
    let mut edges = Edges::default();
    let mut messages = Vec::new();
    let mut channels: HashMap<Channel, Traffic> = HashMap::new();
    let mut collectives: HashMap<Meeting, Vec<(&Act, Role)>> = HashMap::new();
    let mut barriers: HashMap<Meeting, Vec<&Act>> = HashMap::new();
    let mut expected: HashMap<Meeting, Vec<(i64, u64)>> = HashMap::new();
    let mut conditions: HashMap<(i64, i64), Condition> = HashMap::new();
    for act in acts {
        match act.what {
            What::Give { channel, amount, room } => {
                channels.entry(channel).or_default().gives.push((act, amount, room));
            }
            What::Take { channel, amount, order } => {
                channels.entry(channel).or_default().takes.push((act, amount, order, true));
            }
            What::Drain { channel, amount, order } => {
                channels.entry(channel).or_default().takes.push((act, amount, order, false));
            }
            What::Peek { channel } => channels.entry(channel).or_default().peeks.push(act),
            What::Hold { channel, amount } => channels.entry(channel).or_default().held += amount,
            What::Meet { meeting: meeting @ Meeting::Barrier { .. }, .. } => {
                barriers.entry(meeting).or_default().push(act);
            }
            What::Meet { meeting, role } => collectives.entry(meeting).or_default().push((act, role)),
            What::Expect { meeting, count } => {
                expected.entry(meeting).or_default().push((act.start, count));
            }
            What::Wake { process, condition } => {
                conditions.entry((process, condition)).or_default().wakes.push(act);
            }
            What::Await { process, condition } => {
                conditions.entry((process, condition)).or_default().awaits.push(act);
            }
            What::Wait { kind } => edges.unexplained(act, kind),
            What::Nothing => {}
        }
    }
    // numbers of edges don't depend on the order of a map
    for (channel, traffic) in sorted(channels) {
        flow(channel, traffic, &mut messages, &mut edges);
    }
    rendezvous(&messages, &mut edges);
    for (meeting, there) in sorted(collectives) {
        let kind = if let Meeting::Epoch { ends, .. } = meeting { epochs::kind(ends) } else { "collective" };
        meet(&there, kind, &mut edges);
    }
    for (meeting, there) in sorted(barriers) {
        let counts = expected.remove(&meeting).unwrap_or_default();
        pass(there, counts, &mut edges);
    }
    for (_, Condition { wakes, awaits }) in sorted(conditions) {
        wake(wakes, &awaits, &mut edges);
    }
    edges
}

fn sorted<K: Ord, V>(map: HashMap<K, V>) -> Vec<(K, V)> {
    let mut list: Vec<(K, V)> = map.into_iter().collect();
    list.sort_by(|one, other| one.0.cmp(&other.0));
    list
}

/// A message, its sender and its receiver.
struct Message<'a> {
    sender: &'a Act,
    receiver: &'a Act,
    /// When the receiver was ready for it.
    ready: i64,
    bytes: u64,
    synchronous: bool,
}

/// What is taken was given before; what finds no room waits until enough was taken.
fn flow<'a>(channel: Channel, traffic: Traffic<'a>, messages: &mut Vec<Message<'a>>, edges: &mut Edges) {
    let Traffic { mut gives, mut takes, peeks, held } = traffic;
    // several writers of a pipe: a write is in it when it has returned
    let by_end = matches!(channel, Channel::Stream { .. } | Channel::Event { .. });
    gives.sort_by_key(|(act, ..)| if by_end { act.end.unwrap_or(i64::MAX) } else { act.start });
    takes.sort_by_key(|(act, _, order, _)| (*order, act.start));
    let kind = channel.kind();
    // the units before each giving call, and all
    let mut before = Vec::with_capacity(gives.len());
    let mut given = held;
    for (_, amount, _) in &gives {
        before.push(given);
        given = given.saturating_add(*amount);
    }
    let mut after_take = Vec::with_capacity(takes.len());
    let mut taken = 0u64;
    let mut is_known = true;
    for (taker, amount, order, waits) in &takes {
        taken = taken.saturating_add(*amount);
        after_take.push(taken);
        if !waits {
            continue;
        }
        if *amount == 0 {
            learns_the_end(taker, &gives, kind, edges);
            continue;
        }
        if taken <= held {
            continue;
        }
        // the one that gave the last unit, which came after all before it
        let giver = before.partition_point(|before| *before < taken).checked_sub(1).map(|at| gives[at]);
        match giver {
            Some((giver, _, room))
                if is_known
                    && taken <= given
                    && taker.end.is_none_or(|end| giver.start.saturating_sub(UNORDERED_NS) <= end) =>
            {
                edges.add(kind, &[giver], &[taker]);
                if let Room::Message { bytes, synchronous } = room {
                    messages.push(Message {
                        sender: giver,
                        receiver: taker,
                        ready: *order,
                        bytes,
                        synchronous,
                    });
                }
            }
            _ => {
                is_known = false;
                edges.unexplained(taker, kind);
            }
        }
    }
    for peek in peeks {
        let end = peek.end.unwrap_or(i64::MAX);
        let taken = takes.partition_point(|(.., order, _)| *order <= end).checked_sub(1);
        let taken = taken.map_or(0, |last| after_take[last]);
        // the first unit that is left
        let giver = before.partition_point(|before| *before <= taken).checked_sub(1).map(|at| gives[at].0);
        match giver.filter(|giver| is_known && (held..given).contains(&taken) && giver.start <= end) {
            Some(giver) => edges.add(kind, &[giver], &[peek]),
            None => edges.unexplained(peek, "poll"),
        }
    }
    if !is_known {
        return;
    }
    for (at, (giver, amount, room)) in gives.iter().enumerate() {
        let Room::Units(room) = room else { continue };
        let full = (before[at] + amount).saturating_sub(*room);
        if full <= held || *amount == 0 {
            continue;
        }
        let taker = after_take.partition_point(|after| *after < full);
        // what returned before found more room than that
        if let Some((taker, ..)) = takes.get(taker)
            && giver.end.is_none_or(|end| taker.end.is_some_and(|taken| taken <= end))
        {
            let done = Act { start: taker.end.unwrap_or(taker.start), ..**taker };
            edges.add("room", &[&done], &[giver]);
        }
    }
}

/// The end of a stream comes after what was last given to it.
fn learns_the_end(taker: &Act, gives: &[(&Act, u64, Room)], kind: &'static str, edges: &mut Edges) {
    let end = taker.end.unwrap_or(i64::MAX);
    let last =
        gives.iter().rev().map(|(giver, ..)| *giver).find(|giver| giver.end.is_some_and(|done| done <= end));
    match last {
        Some(giver) => {
            let done = Act { start: giver.end.unwrap_or(giver.start), ..*giver };
            edges.add(kind, &[&done], &[taker]);
        }
        None => edges.unexplained(taker, kind),
    }
}

/// Messages whose sender waits until the receiver is ready. From which size on that is shows the run itself: a send that returned
/// before was sent ahead; one that began before and returned after has waited. Without one that waited nobody is said to wait.
fn rendezvous(messages: &[Message], edges: &mut Edges) {
    let ahead = messages
        .iter()
        .filter(|message| message.sender.end.is_some_and(|end| end < message.ready))
        .map(|message| message.bytes)
        .max();
    let waited = |message: &&Message| {
        let sender = message.sender;
        sender.start < message.ready && sender.end.is_none_or(|end| message.ready <= end)
    };
    let waited = messages
        .iter()
        .filter(waited)
        .map(|message| message.bytes)
        .filter(|bytes| ahead.is_none_or(|ahead| *bytes > ahead))
        .min();
    for message in messages {
        let is_large = waited.is_some_and(|waited| message.bytes >= waited);
        let sender = message.sender;
        if (message.synchronous || is_large) && sender.end.is_none_or(|end| message.ready <= end) {
            let ready = Act { start: message.ready, ..*message.receiver };
            edges.add("rendezvous", &[&ready], &[sender]);
        }
    }
}

/// Who waits until something is there to take waits for whoever gives it: a wait of kind poll without an edge gets that of the same
/// thread's next wait, but for locks that it takes in between, if the signal came meanwhile.
pub fn explain_polls(edges: &mut Edges) {
    edges.waits.sort_by_key(|wait| (wait.thread, wait.start, wait.end));
    let mut poll: Option<usize> = None;
    for at in 0..edges.waits.len() {
        let next = edges.waits[at];
        let before = poll.map(|poll| &mut edges.waits[poll]).filter(|poll| poll.thread == next.thread);
        if next.kind == "lock" && before.is_some() {
            continue;
        }
        if let (Some(before), Some(last)) = (before, next.last)
            && last >= before.start
            && before.end.is_some_and(|end| last <= end)
        {
            (before.edge, before.kind, before.last) = (next.edge, next.kind, next.last);
        }
        poll = (next.kind == "poll" && next.edge.is_none()).then_some(at);
    }
}

/// A collective call, or others in which some wait for some.
fn meet(there: &[(&Act, Role)], kind: &'static str, edges: &mut Edges) {
    let of = |wanted: fn(&Role) -> bool| -> Vec<&Act> {
        there.iter().filter(|(_, role)| wanted(role)).map(|(act, _)| *act).collect()
    };
    let all = of(|role| *role == Role::All);
    if all.len() > 1 {
        edges.add(kind, &all, &all);
    }
    let (sources, listeners) = (of(|role| *role == Role::Source), of(|role| *role == Role::Listener));
    edges.add(kind, &sources, &listeners);
    let (contributors, sinks) = (of(|role| *role == Role::Contributor), of(|role| *role == Role::Sink));
    edges.add(kind, &contributors, &sinks);
    let mut prefix: Vec<(i64, &Act)> = there
        .iter()
        .filter_map(|(act, role)| if let Role::Prefix { rank } = role { Some((*rank, *act)) } else { None })
        .collect();
    prefix.sort_by_key(|(rank, _)| *rank);
    for pair in prefix.windows(2) {
        let done = Act { start: pair[0].1.end.unwrap_or(pair[0].1.start), ..*pair[0].1 };
        // the lower one may return later than it passes its part on
        let done = Act { start: done.start.min(pair[1].1.end.unwrap_or(done.start)), ..done };
        edges.add(kind, &[&done], &[pair[1].1]);
    }
}

/// A barrier of threads, which is passed again and again by as many as were told, in the order of their arrival.
fn pass(mut there: Vec<&Act>, mut counts: Vec<(i64, u64)>, edges: &mut Edges) {
    counts.sort_unstable();
    there.sort_by_key(|act| act.start);
    let mut rest = there.as_slice();
    while let Some(first) = rest.first() {
        let told =
            counts.iter().rev().find(|(made, _)| *made <= first.start).map(|(_, count)| *count as usize);
        // Not told: those that had come when the first of them went on.
        let count = told.unwrap_or_else(|| {
            let went_on = rest.iter().filter_map(|act| act.end).min().unwrap_or(i64::MAX);
            rest.partition_point(|act| act.start <= went_on)
        });
        let (now, later) = rest.split_at(count.clamp(1, rest.len()));
        if told.is_none_or(|told| told == now.len()) && now.len() > 1 {
            edges.add("barrier", now, now);
        } else {
            now.iter().for_each(|act| edges.unexplained(act, "barrier"));
        }
        rest = later;
    }
}

/// Who waits for a condition is woken by the last that wakes before it returns.
fn wake(mut wakes: Vec<&Act>, awaits: &[&Act], edges: &mut Edges) {
    wakes.sort_by_key(|act| act.start);
    for waiter in awaits {
        let end = waiter.end.unwrap_or(i64::MAX);
        let woken = wakes.partition_point(|wake| wake.start <= end);
        let waker = wakes[..woken].iter().rev().find(|wake| wake.thread != waiter.thread);
        match waker.filter(|wake| waiter.end.is_some() && wake.end.unwrap_or(wake.start) >= waiter.start) {
            Some(waker) => edges.add("condition", &[waker], &[waiter]),
            None => edges.unexplained(waiter, "condition"),
        }
    }
}
