//! The live stream: samples and members to those who watch, each what it looks at, at the grain it looks at it.
//!
//! One task has all state. Durable rows come in by the [`Feed`]; every quarter of the window the samples whose time has come go
//! to the viewers in order (Leung et al., section 4.2). Viewers are tasks of their own that only write to their socket.

mod clocks;
mod grain;
mod members;
mod series;
pub mod socket;
pub mod viewer;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
use iotrail_format::schema::{MEMBER, NODE_SAMPLE, Table};
use iotrail_trail::TrailReader;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval};

use self::clocks::Clocks;
use self::grain::Grain;
use self::members::{By, Members};
use self::series::Samples;
use self::viewer::{See, Viewer};
use crate::clock::now_ns;
use crate::error::Error;
use crate::metrics::Metrics;

/// Batches that wait for the live stream at most.
const WAITING: usize = 16_384;
/// Version of what viewers and collector say.
const VERSION: u32 = 1;

/// What is shown live goes in here.
#[derive(Clone)]
pub struct Feed {
    to: mpsc::Sender<(&'static Table, RecordBatch)>,
    metrics: Arc<Metrics>,
}

impl Feed {
    /// A feed, and its other end.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> (Self, Fed) {
        let (to, fed) = mpsc::channel(WAITING);
        (Self { to, metrics }, fed)
    }

    /// Offers durable rows. Never waits: what there is no time for is left out, and counted.
    pub fn offer(&self, table: &'static Table, batch: &RecordBatch) {
        let is_shown = [NODE_SAMPLE.name, MEMBER.name].contains(&table.name);
        if is_shown && self.to.try_send((table, batch.clone())).is_err() {
            self.metrics.live_dropped.inc();
        }
    }
}

/// The other end of a [`Feed`].
pub type Fed = mpsc::Receiver<(&'static Table, RecordBatch)>;

/// What a viewer's socket tells.
pub enum Told {
    /// It is there; texts for it go into the channel, in which there is room for one.
    Came(u64, mpsc::Sender<String>),
    /// It wants to see something.
    Sees(u64, See),
    /// It is gone.
    Went(u64),
}

/// A viewer, and the way to it.
struct Watching {
    to: mpsc::Sender<String>,
    viewer: Option<Viewer>,
    /// What it is to be told as soon as there is room: about everything, then what it wants to see.
    hello: Option<Option<See>>,
}

/// All state of the live stream.
pub struct Live {
    window: Duration,
    members: Members,
    samples: Samples,
    clocks: Clocks,
    grains: HashMap<By, Grain>,
    watching: HashMap<u64, Watching>,
    metrics: Arc<Metrics>,
    until: i64,
}

impl Live {
    /// Begins with what a trail knows of members.
    ///
    /// # Errors
    /// Those of reading the trail.
    pub fn open(trail: &std::path::Path, window: Duration, metrics: Arc<Metrics>) -> Result<Self, Error> {
        let mut live = Self {
            window: window.clamp(Duration::from_millis(10), Duration::from_secs(60)),
            members: Members::default(),
            samples: Samples::default(),
            clocks: Clocks::default(),
            grains: HashMap::new(),
            watching: HashMap::new(),
            metrics,
            until: 0,
        };
        let reader = TrailReader::open(trail)?;
        let mut files: Vec<_> = reader.snapshot().files(MEMBER.name).iter().collect();
        files.sort_by_key(|file| (file.max_ts, &file.path));
        for entry in files {
            for batch in reader.file(&MEMBER, entry)? {
                live.take(&MEMBER, &batch?);
            }
        }
        Ok(live)
    }

    /// Takes rows that are durable.
    pub fn take(&mut self, table: &'static Table, batch: &RecordBatch) {
        let now = now_ns();
        if table.name == MEMBER.name {
            self.members.take(batch, now, &self.clocks);
        } else if table.name == NODE_SAMPLE.name {
            for node in self.samples.take(batch, now, &mut self.clocks) {
                self.members.touch(&node);
                self.metrics.clocks_off.set(self.clocks.off() as i64);
            }
        }
    }

    /// Runs until nobody can feed it any more.
    pub async fn run(mut self, mut fed: Fed, mut told: mpsc::Receiver<Told>) {
        let mut ticks = interval(self.window / 4);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                rows = fed.recv() => match rows {
                    Some((table, batch)) => self.take(table, &batch),
                    None => return,
                },
                Some(told) = told.recv() => self.told(told),
                _ = ticks.tick() => self.tick(),
            }
        }
    }

    fn told(&mut self, told: Told) {
        match told {
            Told::Came(id, to) => {
                self.watching.insert(id, Watching { to, viewer: None, hello: Some(None) });
            }
            Told::Sees(id, see) => {
                if let Some(watching) = self.watching.get_mut(&id) {
                    // What it saw before is over: numbers begin anew after the next hello.
                    watching.viewer = None;
                    watching.hello = Some(Some(see));
                }
            }
            Told::Went(id) => drop(self.watching.remove(&id)),
        }
        self.metrics.viewers.set(self.watching.len() as i64);
        self.greet();
    }

    /// Tells viewers about everything that wait for that.
    fn greet(&mut self) {
        for watching in self.watching.values_mut() {
            let Some(hello) = watching.hello.take() else { continue };
            let Ok(room) = watching.to.try_reserve() else {
                watching.hello = Some(hello);
                continue;
            };
            let members: Vec<_> = self.members.since(0, &self.clocks).collect();
            let hello_text = json!({"hello": {
                "version": VERSION,
                "now_ms": now_ns() / 1_000_000,
                "window_ms": self.window.as_millis() as u64,
                "members": members,
            }});
            room.send(hello_text.to_string());
            if let Some(see) = hello {
                let mut viewer = Viewer::new(see, self.window, self.members.changes());
                let grain = self.grains.entry(viewer.by()).or_insert_with(|| Grain::new(viewer.by()));
                grain.renew(&mut self.samples, &self.members);
                viewer.begin(&self.samples, grain, self.until);
                watching.viewer = Some(viewer);
            }
        }
    }

    fn tick(&mut self) {
        let now = now_ns();
        self.until = now - i64::try_from(self.window.as_nanos()).unwrap_or(i64::MAX);
        if self.samples.make_room(now) {
            self.clocks.keep(|node| self.samples.knows(node));
            self.grains.clear();
            for watching in self.watching.values_mut() {
                if let Some(viewer) = watching.viewer.take() {
                    watching.hello = Some(Some(viewer.see()));
                }
            }
        }
        let due = self.samples.due(self.until);
        let late = std::mem::take(&mut self.samples.late);
        self.metrics.late.inc_by(late);
        self.metrics.not_shown.inc_by(std::mem::take(&mut self.samples.left_out));
        self.metrics.not_shown.inc_by(std::mem::take(&mut self.members.left_out));
        self.greet();
        for grain in self.grains.values_mut() {
            grain.renew(&mut self.samples, &self.members);
        }
        let instant = Instant::now();
        let mut sent = false;
        for watching in self.watching.values_mut() {
            let Some(viewer) = &mut watching.viewer else { continue };
            let grain = &self.grains[&viewer.by()];
            viewer.add(&due, late, &self.samples, grain);
            if !viewer.is_due(instant) {
                continue;
            }
            let Ok(room) = watching.to.try_reserve() else {
                viewer.skip(instant);
                self.metrics.skipped_frames.inc();
                continue;
            };
            let moment = (self.until, now);
            room.send(viewer.frame(&self.samples, &self.members, &self.clocks, grain, moment));
            self.metrics.frames.inc();
            sent = true;
        }
        if sent {
            for sample in &due {
                self.metrics.sample_seconds.observe((now - sample.end).max(0) as f64 / 1e9);
            }
        }
    }
}
