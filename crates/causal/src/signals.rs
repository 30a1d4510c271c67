//! Signals between processes and threads: which call of kill(2) ended which wait.
//!
//! A signal that is pending is sent once more in vain (signal(7), "Queueing and delivery semantics for standard signals"): who takes
//! one waits for the first that was sent after the one before it was taken. Where a call says which signal it took (signalfd(2),
//! sigwait(3)), and from whom, it is the first such; a call that a handler interrupted (pause(2), or error EINTR) was ended by the last one that
//! was sent to its process during it; or by the end of a child, if the handler was told of one (`calls`); or by an alarm (setitimer(2)), if one was due
//! later than that: such a wait is for a time. What other signals end has no edge.

use std::collections::HashMap;

use iotrail_format::call::WaitKind;

use crate::calls::{Row, act};
use crate::matching::{Act, Channel, Room, What};

/// The signal of an alarm, as Linux numbers it.
const SIGALRM: i64 = 14;

/// The kernel's clock and the recorder's counter differ by less than one in so many, of what has passed since an alarm was set.
const CLOCKS: i64 = 50_000;

/// A call that sent a signal to a process.
pub(crate) struct Sent {
    row: Row,
    machine: u32,
    /// To which process.
    to: i64,
    /// Its own process.
    pid: i64,
    signal: i64,
    /// When the call began that it is inside of: a handler's.
    inside: Option<i64>,
}

impl Sent {
    /// A row of a call that did; none if it sent nothing, or to a group.
    pub(crate) fn of(row: &Row, machine: u32, pid: i64, inside: Option<i64>) -> Option<Self> {
        let to = row.peer.filter(|to| *to > 0 && row.errno == 0)?;
        let signal = row.seq.filter(|signal| *signal > 0)?;
        Some(Self { row: *row, machine, to, pid, signal, inside })
    }

    fn end(&self) -> i64 {
        self.row.end.unwrap_or(i64::MAX)
    }
}

/// A process has itself sent SIGALRM after a time, and maybe again and again; or no longer. ns.
pub(crate) struct Alarm {
    machine: u32,
    pid: i64,
    /// When the call began and returned.
    start: i64,
    end: i64,
    /// The time to the first, 0: there is none; and between later ones, 0: none follow.
    first: i64,
    interval: i64,
}

impl Alarm {
    /// A row of a call that did; none if it failed.
    pub(crate) fn of(row: &Row, machine: u32, pid: i64) -> Option<Self> {
        let first = row.length.filter(|first| *first >= 0 && pid > 0 && row.errno == 0)?;
        let (start, end, interval) = (row.start, row.end?, row.seq.unwrap_or(0).max(0));
        Some(Self { machine, pid, start, end, first, interval })
    }

    /// The last time that it was due, of some time.
    fn last_due(&self, since: i64, until: i64) -> Option<Due> {
        if self.first == 0 {
            return None;
        }
        // at the earliest: it counts from when the kernel set it, in the call
        let doubt = until.saturating_sub(self.start).max(0) / CLOCKS;
        let first = self.start.saturating_add(self.first).saturating_sub(doubt);
        let past = until.checked_sub(first).filter(|past| *past >= 0)?;
        let number = past.checked_div(self.interval).unwrap_or(0);
        let due = first + number * self.interval;
        let latest = due.saturating_add(2 * doubt).saturating_add(self.end.saturating_sub(self.start));
        let is_within = latest >= since;
        is_within.then_some(Due { ts: due, set: self.start, number })
    }
}

/// A moment at which an alarm is due.
#[derive(Clone, Copy)]
struct Due {
    ts: i64,
    /// When the alarm was set, and how often it was due before.
    set: i64,
    number: i64,
}

/// Alarms by machine and process, in the order of time: each replaces the one before it.
struct Alarms(HashMap<(u32, i64), Vec<Alarm>>);

impl Alarms {
    fn new(mut alarms: Vec<Alarm>) -> Self {
        alarms.sort_by_key(|alarm| alarm.start);
        let mut of: HashMap<(u32, i64), Vec<Alarm>> = HashMap::new();
        for alarm in alarms {
            of.entry((alarm.machine, alarm.pid)).or_default().push(alarm);
        }
        Self(of)
    }

    /// When the last alarm was due that could have ended a call.
    fn last_due(&self, taken: &Taken) -> Option<Due> {
        let here = self.0.get(&(taken.machine, taken.pid))?;
        let since = taken.row.start;
        let mut until = taken.row.end?;
        // a handler, which is inside the call, may have set the next one
        let set = &here[..here.partition_point(|alarm| alarm.start < until)];
        for alarm in set.iter().rev() {
            let due = alarm.last_due(since, until);
            if due.is_some() || alarm.start < since {
                return due;
            }
            until = alarm.start;
        }
        None
    }
}

/// A call that a signal ended.
pub(crate) struct Taken {
    pub row: Row,
    pub machine: u32,
    /// Its process, as the system numbers it.
    pub pid: i64,
    /// And as the trail does.
    pub process: i64,
    /// When the call began that it is inside of.
    pub inside: Option<i64>,
}

impl Taken {
    fn end(&self) -> i64 {
        self.row.end.unwrap_or(i64::MAX)
    }

    /// Whether it waits where a signal came to, of threads with these handles.
    fn is_at(&self, sent: &Sent, handles: &HashMap<(i64, i64), u32>) -> bool {
        let handle = sent.row.object.and_then(|handle| handles.get(&(self.process, handle)));
        handle.is_none_or(|thread| *thread == self.row.thread)
    }

    /// What it is if nobody sent it.
    fn unknown(&self) -> What {
        let kind = match self.row.kind {
            WaitKind::Poll => "poll",
            WaitKind::Event => "event",
            _ => "signal",
        };
        What::Wait { kind }
    }
}

/// What calls did that sent and took signals. `handles` has threads by process and handle.
pub(crate) fn acts(
    mut sent: Vec<Sent>,
    alarms: Vec<Alarm>,
    mut taken: Vec<Taken>,
    handles: &HashMap<(i64, i64), u32>,
) -> Vec<Act> {
    sent.sort_by_key(|sent| sent.row.start);
    taken.sort_by_key(|taken| taken.row.start);
    let mut of: HashMap<(u32, i64), Vec<&Sent>> = HashMap::new();
    for sent in &sent {
        of.entry((sent.machine, sent.to)).or_default().push(sent);
    }
    let alarms = Alarms::new(alarms);
    // by machine, process and signal: how many were taken, or were pending already, and when the last was taken
    let mut so_far: HashMap<(u32, i64, i64), (usize, i64)> = HashMap::new();
    // by machine and process: the alarm that ended the last call that one did
    let mut rung: HashMap<(u32, i64), Due> = HashMap::new();
    let mut acts = Vec::new();
    for (taken, number) in taken.iter().zip(0..) {
        let here = of.get(&(taken.machine, taken.pid)).map_or(&[][..], Vec::as_slice);
        let giver = match taken.row.seq {
            Some(signal) => {
                let (next, since) = so_far.entry((taken.machine, taken.pid, signal)).or_insert((0, i64::MIN));
                let first =
                    (*next..here.len()).take_while(|at| here[*at].row.start <= taken.end()).find(|at| {
                        here[*at].signal == signal
                            && here[*at].end() >= *since
                            && is_from(taken, here[*at])
                            && taken.is_at(here[*at], handles)
                    });
                if let Some(at) = first {
                    (*next, *since) = (at + 1, taken.row.start);
                }
                first.map(|at| who_caused(here, at))
            }
            None => last_within(here, taken.row.start, taken.end(), |sent| {
                sent.row.thread != taken.row.thread && taken.is_at(sent, handles)
            }),
        };
        let last = rung.get(&(taken.machine, taken.pid));
        let is_new = |due: &Due| last.is_none_or(|last| (last.set, last.number) != (due.set, due.number));
        let alarm = alarms.last_due(taken).filter(is_new).filter(|due| match taken.row.seq {
            Some(signal) => giver.is_none() && signal == SIGALRM,
            None => giver.is_none_or(|giver| giver.row.start < due.ts),
        });
        rung.extend(alarm.map(|due| ((taken.machine, taken.pid), due)));
        let Some(giver) = giver.filter(|_| alarm.is_none()) else {
            let what = if alarm.is_some() { What::Wait { kind: "timer" } } else { taken.unknown() };
            acts.extend(act(&taken.row, what, taken.inside));
            continue;
        };
        let channel = Channel::Signal { number };
        let give = What::Give { channel, amount: 1, room: Room::Unlimited };
        acts.extend(act(&giver.row, give, giver.inside));
        let take = What::Take { channel, amount: 1, order: taken.row.start };
        acts.extend(act(&taken.row, take, taken.inside));
    }
    acts
}

/// Whether a signal came from whom the call says, if it does.
fn is_from(taken: &Taken, sent: &Sent) -> bool {
    taken.row.peer.is_none_or(|sender| sender == sent.pid)
}

/// A handler that sends its own process a signal, inside a call that waits, was itself called for a signal: who sent that one.
fn who_caused<'a>(here: &[&'a Sent], at: usize) -> &'a Sent {
    let own = here[at];
    let Some(since) = own.inside.filter(|_| own.pid == own.to) else { return own };
    last_within(here, since, own.row.start, |sent| sent.pid != sent.to).unwrap_or(own)
}

/// The last that was sent in some time.
fn last_within<'a>(
    here: &[&'a Sent],
    since: i64,
    until: i64,
    is_wanted: impl Fn(&Sent) -> bool,
) -> Option<&'a Sent> {
    let until = here.partition_point(|sent| sent.row.start <= until);
    let within = here[..until].iter().rev().take_while(|sent| sent.row.start >= since);
    within.copied().find(|sent| is_wanted(sent))
}
