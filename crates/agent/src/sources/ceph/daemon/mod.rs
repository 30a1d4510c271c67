//! One daemon behind an admin socket: who it is, what it is to be asked next, and what its answers come to.
//!
//! Questions stand in a queue and are put one at a time, so a daemon that hangs hangs on one of them. After each
//! failure everything begins anew with who it is: the next process on this socket may be another.
//!
//! The first question is always `status`, and as long as the answer isn't that the daemon is ready, it is the only
//! one: `config set` at an OSD that is not yet `active` waits in `OSD::handle_conf_change` for a lock that
//! `OSD::init` holds, which waits for the thread that answers (ceph/src/osd/OSD.cc, Pacific): both wait for ever.
//! It is likewise for good if `config set` comes while an OSD ends that isn't told to end at once
//! (`osd_fast_shutdown`): `OSD::shutdown` holds that lock and waits for the thread that answers. Such an OSD's settings
//! are changed when it is met and when the agent leaves, and not in between.
//! What a daemon refused, which it writes into its log, is asked again after a minute, then more rarely.

mod account;
mod ask;
mod identity;
mod refusals;
mod round;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use procfs::DiskStat;
use serde::Deserialize;

use account::Account;
use ask::Ask;
use identity::Identity;
use refusals::Refusals;

use super::counters::{Counters, Used};
use super::history::History;
use super::membership::{Afar, SESSION, Status};
use super::process::Daemon as Process;
use super::requests::Requests;
use super::sample::{Pace, SLOW, Schedule, Window};
use super::settings::{self, Settings};
use super::socket::{Command, Conversation, Progress, SocketError};
use super::split::Splitter;
use crate::outbox::{Member, Outbox};
use crate::source::Tick;

/// Time for an answer. A history of 20,000 requests took 0.6 s here.
const WITHIN: Duration = Duration::from_secs(10);

/// Longest pause after failures.
const PAUSE: Duration = Duration::from_secs(10);

/// What is not told of a daemon that ended.
const ENDED: &str = "when it ended, by its last counters; what it did after those isn't known";

/// How long a daemon that said that it is ready is believed to be, where its settings are to be changed.
const FRESH: Duration = Duration::from_millis(200);

/// How answers begin that are none.
const REFUSED: &[u8] = b"ERROR";

/// Time between two looks at a monitor's sessions; and for each MB of them, that much more.
const SESSIONS: Duration = Duration::from_secs(3);

#[derive(Deserialize)]
struct MonStatus {
    state: String,
    quorum: Vec<i64>,
    monmap: MonMap,
}

#[derive(Deserialize)]
struct MonMap {
    mons: Vec<Mon>,
}

#[derive(Deserialize)]
struct Mon {
    rank: i64,
    name: String,
}

/// What all daemons of a source share in a tick.
pub struct Shared<'a> {
    /// When,
    pub tick: Tick,
    /// and by the clock that measures how long that is ago.
    pub since: Instant,
    /// Whether it is the last.
    pub leaves: bool,
    /// Since when requests are told, on the trail's clock; none: not yet.
    pub began: Option<i64>,
    /// When daemons were looked at first, on the trail's clock.
    pub started: i64,
    /// When what is collected; none: all is.
    pub sample: Option<&'a Schedule>,
    /// Where this machine stands, and daemons that name no other place.
    pub place: &'a str,
    /// Whether and how settings are changed; none: only looked at.
    pub settings: Option<&'a mut Settings>,
    /// Members on this machine.
    pub near: &'a BTreeSet<String>,
    /// How many members a process is.
    pub sharing: &'a BTreeMap<i64, u32>,
    /// Disks of the machine.
    pub disks: &'a [DiskStat],
    /// Memory for long answers that none needs now.
    pub spare: &'a mut Vec<Vec<u8>>,
}

/// Memory that is kept for long answers: as many at a time as this.
const SPARE: usize = 4;

/// One daemon.
pub struct Daemon {
    /// Its socket.
    pub path: PathBuf,
    queue: VecDeque<Ask>,
    talk: Option<(Ask, Conversation)>,
    /// What it said of itself before it was asked who it is.
    status: Option<Status>,
    identity: Option<Identity>,
    /// How often it said that it isn't ready, since it was.
    starting: u32,
    /// When it said that it is ready.
    ready_at: Option<Instant>,
    refusals: Refusals,
    /// Whether it is a client that the cluster has not let in yet, and so not named.
    nameless: bool,
    /// Whether its settings can be changed at any time: it is an OSD that ends at once.
    may_set: bool,
    told: Option<(String, &'static str, Option<String>)>,
    counters: Counters,
    /// Tick of the last counters.
    counted: Option<i64>,
    ready: bool,
    size: u64,
    serves: bool,
    requests: Option<Requests>,
    history: History,
    history_due: Instant,
    /// When the last dump was asked for.
    dumped: Instant,
    /// Dumps that were told: how many rows had been said then, and when each was asked for.
    told_dumps: VecDeque<(u64, Instant)>,
    /// The dump after which is purged, and the seconds for which requests are kept at that moment.
    purges: (Instant, u64),
    /// Whether its history, and its list of slow requests, are worth a purge.
    long: (bool, bool),
    /// Whether it goes on with what an agent before it had changed.
    goes_on: bool,
    /// Entries of the dump before, and of the list of slow ones.
    found: (u64, u64),
    /// Of a sample: what is to be read,
    due: Vec<Window>,
    /// since when an OSD keeps all requests, on the wall clock; none: its history is as short as it was,
    keeps_since: Option<i64>,
    /// whether all lists are read in this round, and are to be in the next one,
    whole: (bool, bool),
    /// whether a slow request may have ended since its list was read, and when that may be read again,
    slow: (bool, Instant),
    /// how long requests take, and what is worth a burst.
    pace: Pace,
    notice: Option<&'static str>,
    account: Account,
    sessions: Splitter,
    sessions_due: Instant,
    afar: Afar,
    mons: Vec<(String, bool)>,
    failures: u32,
    quiet_until: Instant,
}

impl Daemon {
    /// The one behind a socket.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        let now = Instant::now();
        Self {
            path,
            queue: VecDeque::new(),
            talk: None,
            status: None,
            identity: None,
            starting: 0,
            ready_at: None,
            refusals: Refusals::default(),
            nameless: false,
            may_set: false,
            told: None,
            counters: Counters::default(),
            counted: None,
            ready: false,
            size: settings::SIZE.parse().expect("a number"),
            serves: false,
            requests: None,
            history: History::default(),
            history_due: now,
            dumped: now,
            told_dumps: VecDeque::new(),
            purges: (now, 0),
            long: (false, false),
            goes_on: false,
            found: (0, 0),
            due: Vec::new(),
            keeps_since: None,
            whole: (true, false),
            slow: (true, now),
            pace: Pace::default(),
            notice: None,
            account: Account::default(),
            sessions: Splitter::new(SESSION),
            sessions_due: now,
            afar: Afar::default(),
            mons: Vec::new(),
            failures: 0,
            quiet_until: now,
        }
    }

    /// Its name, once known.
    #[must_use]
    pub fn member(&self) -> Option<&str> {
        self.identity.as_ref().map(|identity| identity.member.as_str())
    }

    /// Its process, once known.
    #[must_use]
    pub fn process(&self) -> Option<i64> {
        Some(self.identity.as_ref()?.process.as_ref()?.process)
    }

    /// Whether its history is what it is to be, or it doesn't answer.
    #[must_use]
    pub fn is_set(&self) -> bool {
        let mut asks = self.talk.iter().map(|(ask, _)| ask).chain(&self.queue);
        self.failures > 0
            || self.starting > 0
            || self.nameless
            || self.identity.is_some() && !asks.any(|ask| matches!(ask, Ask::Diff | Ask::Set(..)))
    }

    /// The question it was put last, if that isn't answered.
    #[must_use]
    pub fn talk(&self) -> Option<&Conversation> {
        self.talk.as_ref().map(|(_, talk)| talk)
    }

    /// Begins a tick: what is to be asked in it. One that has not answered all of the tick before isn't asked more.
    pub fn plan(&mut self, shared: &Shared<'_>, out: &mut Outbox) {
        let now = Instant::now();
        if self.talk.is_some() || !self.queue.is_empty() || now < self.quiet_until {
            return;
        }
        // Of one that has no status, as a client that mounts nothing, that is known.
        if self.identity.is_none() || !self.refusals.holds_back(&Ask::Status, now) {
            self.queue.push_back(Ask::Status);
        } else {
            self.plan_rest(shared, out);
        }
    }

    /// What a daemon is asked in a tick in which it said that it is ready.
    fn plan_rest(&mut self, shared: &Shared<'_>, out: &mut Outbox) {
        let now = Instant::now();
        let Some(identity) = &self.identity else { return };
        self.queue.push_back(Ask::Counters);
        match identity.role.as_str() {
            "osd" => self.queue.push_back(Ask::Histogram),
            "mon" => {
                self.queue.push_back(Ask::MonStatus);
                if now >= self.sessions_due {
                    self.queue.push_back(Ask::Sessions);
                }
            }
            _ => {}
        }
        let is_osd = identity.role == "osd";
        if !shared.leaves {
            self.purge(shared);
        }
        if let (Some(requests), Some(began)) = (&mut self.requests, shared.began) {
            requests.began = began;
        }
        if shared.began.is_none() || !self.ready || !self.serves {
            self.due.clear();
            return;
        }
        if !std::mem::replace(&mut self.account.begun, true) {
            self.tell_unseen("before its history was kept", shared.tick.now, out);
        }
        if let Some(schedule) = shared.sample {
            self.plan_sample(schedule, shared);
        } else if now >= self.history_due || shared.leaves {
            self.queue.push_back(Ask::History("dump_historic_ops"));
            if is_osd {
                self.queue.push_back(Ask::History("dump_historic_slow_ops"));
            }
            self.queue.push_back(Ask::RoundEnds);
        }
    }

    /// Goes on as far as it can without waiting; whether it has a question on its way.
    pub fn advance(&mut self, shared: &mut Shared<'_>, out: &mut Outbox) -> bool {
        loop {
            if self.talk.is_none() {
                let Some(ask) = self.queue.pop_front() else { return false };
                // It may have been told to end since.
                if ask.changes_settings() && self.ready_at.is_some_and(|at| at.elapsed() > FRESH) {
                    self.queue.push_front(ask);
                    self.queue.push_front(Ask::Status);
                    self.ready_at = None;
                    continue;
                }
                match ask {
                    Ask::RoundEnds => {
                        self.round_ends(shared, out);
                        continue;
                    }
                    Ask::History("dump_historic_ops") => self.dumped = Instant::now(),
                    Ask::Purge => self.purges.1 = round::purge_keeps(self.purges.0.elapsed()),
                    ref ask if self.refusals.holds_back(ask, Instant::now()) => continue,
                    _ => {}
                }
                match self.put(&ask) {
                    Ok(talk) if self.is_another(&talk) => {
                        self.tell_unseen(ENDED, shared.tick.now, out);
                        self.begin_anew();
                        (self.refusals, self.starting) = (Refusals::default(), 0);
                        self.plan(shared, out);
                        continue;
                    }
                    Ok(mut talk) => {
                        if ask.is_long() {
                            // Fresh memory would have to be cleared by the kernel, a page fault each 4 KiB.
                            talk.body = shared.spare.pop().unwrap_or_default();
                        }
                        self.talk = Some((ask, talk));
                    }
                    Err(error) => {
                        self.failed(&error, out);
                        return false;
                    }
                }
            }
            let Some((ask, mut talk)) = self.talk.take() else { return false };
            match talk.advance() {
                Ok(progress) => {
                    let done = progress == Progress::Done;
                    let refused = done && talk.body.starts_with(REFUSED);
                    if ask.is_long() && !refused {
                        self.streamed(&ask, &mut talk.body, done, out);
                        out.relieve();
                    }
                    if refused {
                        self.refused(&ask, &talk, shared, out);
                    } else if done {
                        self.answered(&ask, &talk, shared, out);
                        if ask.is_long() && shared.spare.len() < SPARE {
                            shared.spare.push(talk.body);
                        }
                    } else {
                        self.talk = Some((ask, talk));
                        if progress == Progress::Waits {
                            return true;
                        }
                    }
                }
                Err(error) => {
                    match ask {
                        Ask::History(_) => self.history.cut(),
                        Ask::Sessions => {
                            self.sessions.finish();
                            self.afar.cut();
                        }
                        _ => {}
                    }
                    self.failed(&error, out);
                    return false;
                }
            }
        }
    }

    /// What came of a long answer.
    fn streamed(&mut self, ask: &Ask, body: &mut Vec<u8>, done: bool, out: &mut Outbox) {
        match ask {
            Ask::History(prefix) => {
                let Some(requests) = &mut self.requests else { return body.clear() };
                let Some(found) = self.history.read(body, done, requests, out) else { return };
                if *prefix == "dump_historic_slow_ops" {
                    self.found.1 = found;
                } else {
                    self.found.0 = self.found.0.max(found);
                }
            }
            // Of a daemon that knows no filter all of them.
            Ask::Clean => body.clear(),
            _ => {
                let afar = &mut self.afar;
                let mut odd = false;
                self.sessions.split(body, done, |session| odd |= !afar.session(session));
                if odd {
                    out.warn(format!(
                        "{}: sessions that can't be read: this Ceph is newer or older than \
                                      what iotrail knows",
                        self.path.display()
                    ));
                }
            }
        }
    }

    fn answered(&mut self, ask: &Ask, talk: &Conversation, shared: &mut Shared<'_>, out: &mut Outbox) {
        let body = talk.body.as_slice();
        let read = match ask {
            Ask::Config => {
                serde_json::from_slice(body).map(|config| self.introduce(config, talk, shared, out))
            }
            Ask::Status => serde_json::from_slice(body).map(|status| self.status(status, shared, out)),
            Ask::Counters => self.count(body, shared, out),
            Ask::Histogram => match &self.identity {
                Some(identity) => {
                    out.since(self.counted.replace(shared.tick.now));
                    self.counters.histogram(&identity.member, body, out)
                }
                None => Ok(()),
            },
            Ask::Diff => {
                self.changes(body, shared, out);
                Ok(())
            }
            Ask::Set(setting, value) => {
                if memchr::memmem::find(body, b"\"error\"").is_some() {
                    let answer = String::from_utf8_lossy(&body[..body.len().min(200)]).trim().to_owned();
                    out.warn(format!("{}: can't set {setting} to {value}: {answer}", self.path.display()));
                } else if *setting == settings::OSD_SIZE && *value == self.size.to_string() {
                    let now = shared.tick.now - shared.tick.from_wall
                        + i64::try_from(shared.since.elapsed().as_nanos()).unwrap_or(i64::MAX);
                    self.keeps_since.get_or_insert(now);
                }
                Ok(())
            }
            Ask::MonStatus => serde_json::from_slice(body).map(|status| self.monitors(&status, shared, out)),
            Ask::Sessions => {
                self.sessions.finish();
                if let Some(identity) = &self.identity {
                    self.afar.end(&identity.member, shared.near, out);
                }
                let more = SESSIONS.mul_f64(talk.length() as f64 / 1e6);
                self.sessions_due = Instant::now() + SESSIONS + more;
                Ok(())
            }
            Ask::Keep => {
                self.purged(out);
                Ok(())
            }
            Ask::Unset(_) | Ask::History(_) | Ask::Purge | Ask::Clean | Ask::RoundEnds => Ok(()),
        };
        match read {
            Ok(()) => self.failures = 0,
            Err(error) => {
                let begin = String::from_utf8_lossy(&body[..body.len().min(60)]).trim().to_owned();
                out.warn(format!(
                    "{}: the answer to {ask:?} is not what Ceph says: {error}; it begins with {begin:?}",
                    self.path.display()
                ));
                if self.identity.is_none() {
                    self.pause();
                }
            }
        }
    }

    /// A daemon refused to answer.
    fn refused(&mut self, ask: &Ask, talk: &Conversation, shared: &Shared<'_>, out: &mut Outbox) {
        self.failures = 0;
        // Until it is initialized a daemon knows no `status`; a library's user never does.
        if *ask == Ask::Status {
            if talk.pid().and_then(Process::of).is_some_and(|process| process.answers_status()) {
                self.starts(None, out);
                return;
            }
            self.refusals.add(ask, Instant::now());
            self.status(Status::default(), shared, out);
            return;
        }
        self.refusals.add(ask, Instant::now());
        let answer = String::from_utf8_lossy(&talk.body[..talk.body.len().min(200)]).trim().to_owned();
        out.warn(match ask {
            Ask::Set(setting, value) => {
                format!("{}: can't set {setting} to {value}: {answer}", self.path.display())
            }
            _ => format!(
                "{}: refuses {ask:?}, which is asked again in a minute, then more rarely: {answer}",
                self.path.display()
            ),
        });
        match ask {
            Ask::History(_) => self.history.cut(),
            Ask::Config => self.pause(),
            _ => {}
        }
    }

    /// A daemon isn't ready: for some time, longer each time, it is left alone, and then only asked for its status.
    fn starts(&mut self, state: Option<&str>, out: &mut Outbox) {
        self.queue.clear();
        self.status = None;
        self.starting += 1;
        self.quiet_until = Instant::now() + pause_after(self.starting);
        if self.identity.is_some() {
            let role = self.identity.as_ref().map_or("osd", |identity| &identity.role).to_owned();
            let status = Status { state: state.map(str::to_owned), ..Status::default() };
            let (state, detail) = status.member(&role);
            self.state(state, detail, out);
        }
    }

    /// What a daemon says of itself: whether it is ready to be asked more.
    fn status(&mut self, status: Status, shared: &Shared<'_>, out: &mut Outbox) {
        if !status.is_ready() {
            self.starts(status.state.as_deref(), out);
            return;
        }
        self.starting = 0;
        self.ready_at = Some(Instant::now());
        if self.identity.is_some() {
            if self.queue.is_empty() {
                self.plan_rest(shared, out);
            }
            self.tell_state(&status, out);
        } else {
            self.status = Some(status);
            self.queue.push_back(Ask::Config);
        }
    }

    /// Tells the state of a daemon whose name is known.
    fn tell_state(&mut self, status: &Status, out: &mut Outbox) {
        let Some(identity) = &self.identity else { return };
        if identity.role == "mds" {
            self.serves = status.serves();
            if let (Some(requests), Some(fs)) = (&mut self.requests, &status.fs_name) {
                requests.teller.fs.clone_from(fs);
            }
        }
        if identity.role != "mon" {
            let (state, detail) = status.member(&identity.role);
            self.state(state, detail, out);
        }
    }

    fn count(&mut self, body: &[u8], shared: &Shared<'_>, out: &mut Outbox) -> Result<(), serde_json::Error> {
        let Some(identity) = &self.identity else { return Ok(()) };
        out.since(self.counted);
        self.counters.dump(&identity.member, &identity.role, body, out)?;
        self.account.count(&self.counters, identity, shared.started);
        let (completed, took_ns) = self.counters.last();
        // A request's time is added to that of all when it ends: it is no less than its own.
        self.slow.0 |= took_ns >= SLOW.unsigned_abs();
        if self.pace.jumps(completed, took_ns) {
            self.notice = Some("its requests take five times as long as they did in the last minute");
        }
        // What a process uses that is several members, as clients of one program may be, is no single one's.
        let own =
            identity.process.as_ref().filter(|p| shared.sharing.get(&p.process).is_none_or(|n| *n == 1));
        let used: Used = own.map(|p| p.used(identity.disk, shared.disks)).unwrap_or_default();
        self.counters.process(&identity.member, used, out);
        // The histogram, which is asked next, is of the same stretch of time.
        if identity.role != "osd" {
            self.counted = Some(shared.tick.now);
        }
        Ok(())
    }

    fn monitors(&mut self, status: &MonStatus, shared: &Shared<'_>, out: &mut Outbox) {
        let of = Status { state: Some(status.state.clone()), ..Status::default() };
        let (state, detail) = of.member("mon");
        self.state(state, detail, out);
        for mon in &status.monmap.mons {
            let (member, up) = (format!("mon.{}", mon.name), status.quorum.contains(&mon.rank));
            let known = self.mons.iter_mut().find(|(name, _)| *name == member);
            if shared.near.contains(&member) || known.as_ref().is_some_and(|(_, was)| *was == up) {
                continue;
            }
            let (state, detail) = if up { ("up", None) } else { ("down", Some("not in the quorum")) };
            out.member(Member { member: &member, role: "mon", state, detail, ..Member::default() });
            match known {
                Some(known) => known.1 = up,
                None => self.mons.push((member, up)),
            }
        }
    }

    /// Tells a state, if it is another one.
    fn state(&mut self, state: &'static str, detail: Option<String>, out: &mut Outbox) {
        let Some(identity) = &self.identity else { return };
        let now = (identity.member.clone(), state, detail);
        if self.told.as_ref() != Some(&now) {
            out.member(Member {
                process: identity.process.as_ref().map(|process| process.process),
                member: &identity.member,
                role: &identity.role,
                place: Some(&identity.place),
                state,
                detail: now.2.as_deref(),
            });
            self.told = Some(now);
        }
    }

    fn failed(&mut self, error: &SocketError, out: &mut Outbox) {
        // A client that ended took its socket with it, or left it: both say nothing else.
        let client = self.identity.as_ref().is_some_and(|identity| identity.role == "client");
        if error.is_gone() {
            self.tell_unseen(ENDED, out.now(), out);
        }
        if error.is_gone() && client {
            self.state("left", None, out);
        } else {
            self.state("down", Some(error.to_string()), out);
            if self.identity.is_some() || !error.is_gone() {
                out.warn(error.to_string());
            }
        }
        self.begin_anew();
        if error.is_gone() {
            self.refusals = Refusals::default();
        }
        self.pause();
    }

    /// Whether another process than the one that was asked so far listens now: it was restarted between two ticks.
    fn is_another(&self, talk: &Conversation) -> bool {
        let known = self.identity.as_ref().and_then(|identity| identity.process.as_ref());
        known.is_some_and(|process| talk.pid().is_some_and(|pid| pid != process.pid))
    }

    /// The next process here counts from 0, has its own settings and its own history.
    fn begin_anew(&mut self) {
        let path = std::mem::take(&mut self.path);
        let (told, failures) = (self.told.take(), self.failures);
        let (starting, refusals) = (self.starting, std::mem::take(&mut self.refusals));
        *self = Self { told, failures, starting, refusals, ..Self::new(path) };
    }

    fn pause(&mut self) {
        self.failures += 1;
        self.quiet_until = Instant::now() + pause_after(self.failures);
    }

    /// Its socket is gone.
    pub fn gone(&mut self, out: &mut Outbox) {
        self.tell_unseen(ENDED, out.now(), out);
        if self.identity.as_ref().is_some_and(|identity| identity.role == "client") {
            self.state("left", None, out);
        } else {
            self.state("down", Some(format!("its socket {} is gone", self.path.display())), out);
        }
    }
}

/// How long a daemon is left alone that failed so often.
fn pause_after(times: u32) -> Duration {
    (Duration::from_secs(1 << times.min(5)) - Duration::from_millis(1500)).min(PAUSE)
}

/// Whether a process is still the one behind a socket.
#[must_use]
pub fn runs(socket: &Path, id: i64) -> bool {
    match Conversation::ask(socket, &Command::new("status"), false, WITHIN) {
        // Of another namespace: nothing tells it from one that came after it.
        Ok(talk) => talk.pid().and_then(Process::of).is_none_or(|process| process.process == id),
        Err(_) => false,
    }
}
