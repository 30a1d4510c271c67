//! Ceph, by the admin sockets of its daemons and clients on this machine: no change to Ceph, no plugin, no log.
//!
//! Which sockets there are is looked up each tick, who is behind one is asked. One thread talks to all of them at
//! once and waits for none longer than a tick: what isn't answered by then is taken up in the next.
//! docs/ceph.md says what is read and what each row means.

pub mod counters;
pub mod daemon;
pub mod history;
pub mod membership;
pub mod process;
pub mod requests;
pub mod sample;
pub mod settings;
pub mod socket;
pub mod split;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use procfs::Current as _;

use crate::outbox::Outbox;
use crate::source::{Source, Tick};
use daemon::{Daemon, Shared};
use sample::Schedule;
use settings::{Collected, Settings};

/// Where Ceph puts its sockets unless told otherwise.
pub const SOCKETS: &str = "/var/run/ceph";

/// Time in which a tick's answers are waited for.
const TICK: Duration = Duration::from_millis(800);

/// Time in which what happened since the last tick is read when the agent leaves.
const LAST_LOOK: Duration = Duration::from_secs(3);

/// What to look at.
#[derive(Clone, Debug)]
pub struct Options {
    /// Folders of sockets, or patterns of their names.
    pub sockets: Vec<String>,
    /// Folder in which daemons' own settings are kept while they are changed; none: nothing is changed, and requests
    /// are not told.
    pub state: Option<PathBuf>,
    /// Which requests are collected.
    pub collected: Collected,
    /// Set by whoever wants all requests of the next seconds; taken by the source.
    pub burst: Arc<AtomicBool>,
    /// Where daemons stand that don't say it: where the machine does.
    pub place: String,
}

/// Samples, members and requests of Ceph.
pub struct Ceph {
    patterns: Vec<String>,
    settings: Option<Settings>,
    place: String,
    daemons: BTreeMap<PathBuf, Daemon>,
    /// Since when requests are told, ns since the epoch on the trail's clock: once all daemons that were found first keep
    /// all of their history. What little they kept before would be requests with holes.
    began: Option<i64>,
    /// When this agent, or the first of those that were killed, saw daemons first.
    started: Option<i64>,
    schedule: Schedule,
    burst: Arc<AtomicBool>,
    spare: Vec<Vec<u8>>,
}

/// Why it can't begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A pattern.
    #[error("{pattern}: no pattern of names of sockets: {source}")]
    Pattern {
        /// It.
        pattern: String,
        /// Why.
        source: glob::PatternError,
    },
    /// The file of settings.
    #[error("{}: what daemons' settings were before an agent changed them can't be read: {source}; put them back \
             by hand (docs/ceph.md) and remove the file", path.display())]
    State {
        /// It.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl Ceph {
    /// With options.
    pub fn new(options: Options) -> Result<Self, Error> {
        let patterns: Vec<String> = options
            .sockets
            .into_iter()
            .map(|path| {
                if Path::new(&path).is_dir() || !path.contains(['*', '?', '[']) && !path.ends_with(".asok") {
                    format!("{}/*.asok", glob::Pattern::escape(path.trim_end_matches('/')))
                } else {
                    path
                }
            })
            .collect();
        for pattern in &patterns {
            glob::Pattern::new(pattern)
                .map_err(|source| Error::Pattern { pattern: pattern.clone(), source })?;
        }
        let settings = options
            .state
            .map(|folder| {
                Settings::open(&folder, options.collected)
                    .map_err(|source| Error::State { path: folder.join("ceph.json"), source })
            })
            .transpose()?;
        let began = settings.as_ref().and_then(Settings::began);
        Ok(Self {
            patterns,
            settings,
            place: options.place,
            daemons: BTreeMap::new(),
            began,
            started: began,
            schedule: Schedule::default(),
            burst: options.burst,
            spare: Vec::new(),
        })
    }

    /// Looks for new sockets and for those that are gone.
    fn look(&mut self, out: &mut Outbox) {
        let mut there = BTreeSet::new();
        for pattern in &self.patterns {
            // A folder that can't be read yet, or any more, has no sockets.
            there.extend(glob::glob(pattern).into_iter().flatten().flatten());
        }
        self.daemons.retain(|path, daemon| {
            let stays = there.contains(path);
            if !stays {
                daemon.gone(out);
            }
            stays
        });
        for path in there {
            self.daemons.entry(path.clone()).or_insert_with(|| Daemon::new(path));
        }
    }

    fn is_sampled(&self) -> bool {
        self.settings.as_ref().is_some_and(|of| of.collected() == Collected::Sampled)
    }

    /// From now on requests are told.
    fn begin(&mut self, now: i64, out: &mut Outbox) {
        self.began = Some(now);
        if let Some(Err(error)) = self.settings.as_mut().map(|settings| settings.begin(now)) {
            out.warn(format!("an agent after this one may tell requests of before: {error}"));
        }
    }

    /// Asks all daemons what there is to ask, and takes their answers.
    fn ask(&mut self, tick: Tick, leaves: bool, out: &mut Outbox) {
        let since = Instant::now();
        self.look(out);
        // A time to come is of the clock before the machine was started anew.
        self.began = self.began.filter(|began| *began <= tick.now);
        self.started = self.started.filter(|started| *started <= tick.now).or(Some(tick.now));
        let wall = tick.now - tick.from_wall;
        if self.began.is_none() && self.daemons.values().all(Daemon::is_set) {
            self.begin(tick.now, out);
            // So that there is something to look at, once for as long as agents follow each other.
            self.schedule.burst(wall);
        }
        let sampled = self.is_sampled();
        if sampled {
            if self.burst.swap(false, Ordering::Relaxed) {
                self.schedule.burst(wall);
            }
            let mut due = self.schedule.take_due(wall);
            if leaves {
                due.extend(self.schedule.take_begun(wall));
            }
            self.daemons.values_mut().for_each(|daemon| daemon.take(&due));
        }
        let near: BTreeSet<String> =
            self.daemons.values().filter_map(|daemon| daemon.member().map(str::to_owned)).collect();
        let mut sharing = BTreeMap::new();
        for process in self.daemons.values().filter_map(Daemon::process) {
            *sharing.entry(process).or_insert(0) += 1;
        }
        let disks = procfs::DiskStats::current().map(|disks| disks.0).unwrap_or_default();
        let mut shared = Shared {
            tick,
            since,
            leaves,
            began: self.began,
            started: self.started.unwrap_or(tick.now),
            sample: sampled.then_some(&self.schedule),
            place: &self.place,
            settings: self.settings.as_mut(),
            near: &near,
            sharing: &sharing,
            disks: &disks,
            spare: &mut self.spare,
        };
        let until = Instant::now() + if leaves { LAST_LOOK } else { TICK };
        self.daemons.values_mut().for_each(|daemon| daemon.plan(&shared, out));
        loop {
            let mut waits = false;
            for daemon in self.daemons.values_mut() {
                waits |= daemon.advance(&mut shared, out);
            }
            let left = until.saturating_duration_since(Instant::now());
            if !waits || left.is_zero() {
                break;
            }
            socket::wait(self.daemons.values().filter_map(Daemon::talk), left);
        }
        for daemon in self.daemons.values_mut() {
            let Some(notice) = daemon.take_notice() else { continue };
            if self.schedule.notice(wall) {
                out.warn(format!("{notice}: all requests on this machine are collected for 10 s"));
            }
        }
    }
}

impl Source for Ceph {
    fn name(&self) -> &'static str {
        "ceph"
    }

    fn repeats(&self) -> bool {
        true
    }

    /// A sample is read before daemons forget it.
    fn every(&self, wished: Duration) -> Duration {
        if self.is_sampled() { wished.min(Duration::from_secs(1)) } else { wished }
    }

    fn poll(&mut self, tick: Tick, out: &mut Outbox) {
        self.ask(tick, false, out);
    }

    fn leave(&mut self, tick: Tick, out: &mut Outbox) {
        // What ended just now isn't in a history yet.
        if !self.daemons.is_empty() {
            thread::sleep(settings::INSERTED);
        }
        self.ask(tick, true, out);
        // No daemon has a question on its way when it gets the next.
        self.daemons.clear();
        if let Some(settings) = &mut self.settings {
            settings.put_back(daemon::runs);
        }
    }
}
