//! One daemon behind an admin socket: who it is, what it is to be asked next, and what its answers come to.
//!
//! Questions stand in a queue and are put one at a time, so a daemon that hangs hangs on one of them. After each
//! failure everything begins anew with who it is: the next process on this socket may be another.

mod ask;
mod identity;
mod round;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use procfs::DiskStat;
use serde::Deserialize;

use ask::Ask;
use identity::{Config, Identity};

use super::counters::{Counters, Used};
use super::history::History;
use super::membership::{Afar, SESSION, Status};
use super::process::Daemon as Process;
use super::requests::Requests;
use super::settings::{self, Settings};
use super::socket::{Command, Conversation, Progress, SocketError};
use super::split::Splitter;
use crate::outbox::{Member, Outbox};
use crate::source::Tick;

/// Time for an answer. A history of 20,000 requests took 0.6 s here.
const WITHIN: Duration = Duration::from_secs(10);

/// Longest pause after failures.
const PAUSE: Duration = Duration::from_secs(10);

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
    /// When.
    pub tick: Tick,
    /// Whether it is the last.
    pub leaves: bool,
    /// Since when requests are told, on the trail's clock; none: not yet.
    pub began: Option<i64>,
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
    config: Option<Config>,
    identity: Option<Identity>,
    /// Whether it is a client that the cluster has not let in yet, and so not named.
    nameless: bool,
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
            config: None,
            identity: None,
            nameless: false,
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
            || self.nameless
            || self.identity.is_some() && !asks.any(|ask| matches!(ask, Ask::Diff | Ask::Set(..)))
    }

    /// The question it was put last, if that isn't answered.
    #[must_use]
    pub fn talk(&self) -> Option<&Conversation> {
        self.talk.as_ref().map(|(_, talk)| talk)
    }

    /// Begins a tick: what is to be asked in it. One that has not answered all of the tick before isn't asked more.
    pub fn plan(&mut self, shared: &Shared<'_>) {
        let now = Instant::now();
        if self.talk.is_some() || !self.queue.is_empty() || now < self.quiet_until {
            return;
        }
        let Some(identity) = &self.identity else {
            self.queue.extend([Ask::Config, Ask::Status]);
            return;
        };
        self.queue.push_back(Ask::Counters);
        match identity.role.as_str() {
            "osd" => self.queue.extend([Ask::Histogram, Ask::Status]),
            "mon" => {
                self.queue.push_back(Ask::MonStatus);
                if now >= self.sessions_due {
                    self.queue.push_back(Ask::Sessions);
                }
            }
            "mds" | "client" => self.queue.push_back(Ask::Status),
            _ => {}
        }
        let is_osd = identity.role == "osd";
        if !shared.leaves {
            self.purge(shared.tick.settled);
        }
        if let (Some(requests), Some(began)) = (&mut self.requests, shared.began) {
            requests.began = began;
        }
        if shared.began.is_some() && self.ready && self.serves && (now >= self.history_due || shared.leaves) {
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
                match ask {
                    Ask::RoundEnds => {
                        self.round_ends(shared, out);
                        continue;
                    }
                    Ask::History("dump_historic_ops") => self.dumped = Instant::now(),
                    Ask::Purge => self.purges.1 = round::purge_keeps(self.purges.0.elapsed()),
                    _ => {}
                }
                match self.put(&ask) {
                    Ok(talk) if self.is_another(&talk) => {
                        self.begin_anew();
                        self.plan(shared);
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
                    if ask.is_long() {
                        self.streamed(&ask, &mut talk.body, done, out);
                        out.relieve();
                    }
                    if done {
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
            Ask::Config => serde_json::from_slice(body).map(|config| self.config = Some(config)),
            // A client that mounts nothing has none.
            Ask::Status if body.starts_with(b"ERROR") => {
                self.status(&Status::default(), talk, shared, out);
                Ok(())
            }
            Ask::Status => {
                serde_json::from_slice(body).map(|status: Status| self.status(&status, talk, shared, out))
            }
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
                if body.starts_with(b"ERROR") || memchr::memmem::find(body, b"\"error\"").is_some() {
                    let answer = String::from_utf8_lossy(&body[..body.len().min(200)]).trim().to_owned();
                    out.warn(format!("{}: can't set {setting} to {value}: {answer}", self.path.display()));
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
            Ask::History(_) | Ask::Purge | Ask::Clean | Ask::RoundEnds => Ok(()),
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

    /// What a daemon says of itself: the first time, who it is.
    fn status(&mut self, status: &Status, talk: &Conversation, shared: &mut Shared<'_>, out: &mut Outbox) {
        if self.identity.is_none() {
            let Some(config) = self.config.take() else { return };
            self.nameless = status.id == Some(0) && config.is_client();
            if self.nameless {
                return;
            }
            self.introduce(config, status, talk, shared, out);
        }
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
        if error.is_gone() && client {
            self.state("left", None, out);
        } else {
            self.state("down", Some(error.to_string()), out);
            if self.identity.is_some() || !error.is_gone() {
                out.warn(error.to_string());
            }
        }
        self.begin_anew();
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
        *self = Self { told, failures, ..Self::new(path) };
    }

    fn pause(&mut self) {
        self.failures += 1;
        let pause = Duration::from_secs(1 << self.failures.min(5)) - Duration::from_millis(1500);
        self.quiet_until = Instant::now() + pause.min(PAUSE);
    }

    /// Its socket is gone.
    pub fn gone(&mut self, out: &mut Outbox) {
        if self.identity.as_ref().is_some_and(|identity| identity.role == "client") {
            self.state("left", None, out);
        } else {
            self.state("down", Some(format!("its socket {} is gone", self.path.display())), out);
        }
    }
}

/// Whether a process is still the one behind a socket.
#[must_use]
pub fn runs(socket: &Path, id: i64) -> bool {
    match Conversation::ask(socket, &Command::new("version"), false, WITHIN) {
        // Of another namespace: nothing tells it from one that came after it.
        Ok(talk) => talk.pid().and_then(Process::of).is_none_or(|process| process.process == id),
        Err(_) => false,
    }
}
