//! One per machine: samples it, asks its storage systems, and ships what they say to a collector.
//!
//! The visualization client of Leung et al., UCSC-SSRC-07-05 (2007), section 4.1: node-agnostic metrics from /proc,
//! node-specific ones from a source a storage system ([`source`]). Constraints: at most 30 MiB and half a per cent of
//! a core; no source waits for the network or for another source; the host's own traffic goes first.

mod message;
pub mod outbox;
mod queue;
mod ship;
pub mod source;
pub mod sources;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc as channel;
use std::thread;
use std::time::{Duration, Instant};

use iotrail_format::ids::hash63;
use iotrail_trail::say;
use iotrail_trail::seal::clock::clock_ns;
use iotrail_trail::seal::session;
use rustix::fs::FlockOperation;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::LocalSet;

use crate::message::{Message, ROWS};
use crate::outbox::{Batches, Outbox};
use crate::queue::Queue;
use crate::ship::Shipper;
use crate::source::{Source, Tick};

pub use crate::ship::Destination;

/// Reports of all sources, of 6 MB at most, that may wait to be put into the queue before the sources wait.
const REPORTS: usize = 8;

/// What an agent is told to do.
pub struct Config {
    /// This machine's name.
    pub node: String,
    /// Where to send to.
    pub destination: Destination,
    /// Time between two ticks.
    pub every: Duration,
    /// Folder for what waits while the collector is away, and for what sources must know after a restart. One agent
    /// at a time has it.
    pub state: PathBuf,
    /// Bytes that may wait there.
    pub spool: u64,
    /// What to ask.
    pub sources: Vec<Box<dyn Source>>,
    /// What the agent counts of itself; the machine's source samples it.
    pub totals: Arc<Totals>,
    /// Set when all requests of the next seconds are asked for (SIGUSR1).
    pub burst: Arc<AtomicBool>,
}

/// What an agent counts of itself.
#[derive(Debug, Default)]
pub struct Totals {
    shipped: AtomicU64,
    dropped: AtomicU64,
    spooled: AtomicU64,
}

impl Totals {
    fn shipped(&self, rows: u64) {
        self.shipped.fetch_add(rows, Ordering::Relaxed);
    }

    fn dropped(&self, rows: u64) {
        self.dropped.fetch_add(rows, Ordering::Relaxed);
    }
}

/// How an agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was told to leave (SIGTERM, SIGINT): what sources had changed is as before.
    Left,
    /// It was told to begin anew (SIGHUP): what sources had changed is as it was, for the next one to go on with.
    Restart,
}

/// Why an agent can't begin.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its folder.
    #[error("cannot use {path}: {source}")]
    State {
        /// The folder, or a file in it.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its folder is another agent's.
    #[error("another agent runs with {path}")]
    Taken {
        /// The folder.
        path: PathBuf,
    },
    /// The system has no threads, timers or signals left.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// What a source said in a tick.
struct Report {
    source: &'static str,
    repeats: bool,
    batches: Batches,
    settled: Arc<AtomicU64>,
    dropped: u64,
}

/// Runs until it is told to end by a signal.
///
/// # Errors
/// Only before it has begun; later everything is tried again, and said on stderr.
pub fn run(config: Config) -> Result<End, Error> {
    let state = |source| Error::State { path: config.state.clone(), source };
    // SAFETY: it changes nothing but the mode of files that are made from now on. All of the agent's are its own, the
    // spool's library knows no mode, and what they hold is nobody else's to read.
    unsafe { libc::umask(0o077) };
    fs::create_dir_all(&config.state).map_err(state)?;
    fs::set_permissions(&config.state, Permissions::from_mode(0o700)).map_err(state)?;
    let lock = File::create(config.state.join("lock")).map_err(state)?;
    match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => return Err(Error::Taken { path: config.state }),
        result => result.map_err(|e| state(e.into()))?,
    }
    let spool = config.state.join("spool");
    let queue =
        Queue::open(&spool, config.spool).map_err(|source| Error::State { path: spool.clone(), source })?;

    let (reports, incoming) = mpsc::channel(REPORTS);
    let mut threads = Vec::new();
    for source in config.sources {
        let (reports, node, every) = (reports.clone(), config.node.clone(), config.every);
        let (stop, stopped) = channel::channel();
        let name = source.name();
        let run = move || sample(source, &node, every, &stopped, &reports);
        threads.push((stop, thread::Builder::new().name(name.to_owned()).spawn(run)?));
    }
    drop(reports);

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = LocalSet::new();
    let (queue, filled) = (Rc::new(RefCell::new(queue)), Rc::new(Notify::new()));
    let shipper = Shipper {
        destination: config.destination,
        node: config.node.clone(),
        queue: queue.clone(),
        filled: filled.clone(),
        totals: config.totals.clone(),
        say,
    };
    let (stop_shipping, shipping_stopped) = watch::channel(false);
    tasks.block_on(&runtime, async move {
        let signals = end_by_signal()?;
        let mut burst_signal = signal(SignalKind::user_defined1())?;
        tokio::task::spawn_local(async move {
            while burst_signal.recv().await.is_some() {
                config.burst.store(true, Ordering::Relaxed);
            }
        });
        let filling = tokio::task::spawn_local(fill(incoming, config.node, queue, filled, config.totals));
        let shipping = tokio::task::spawn_local(async move { shipper.run(shipping_stopped).await });
        let how = signals.await;
        // Sources end first, so that their last words are sent.
        for (stop, thread) in threads {
            let _ = stop.send(how);
            let _ = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        let _ = filling.await;
        stop_shipping.send_replace(true);
        let _ = shipping.await;
        Ok(how)
    })
}

/// The signal that ends the agent, once it comes.
fn end_by_signal() -> io::Result<impl Future<Output = End>> {
    let (mut terminate, mut interrupt, mut hang_up) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => End::Left,
            _ = interrupt.recv() => End::Left,
            _ = hang_up.recv() => End::Restart,
        }
    })
}

/// Says something on stderr.
fn say(message: &str) {
    say!("iotrail agent: {message}");
}

/// Asks a source each tick, until told to stop.
fn sample(
    mut source: Box<dyn Source>,
    node: &str,
    every: Duration,
    stop: &channel::Receiver<End>,
    reports: &mpsc::Sender<Report>,
) {
    let every = source.every(every);
    let settled = Arc::<AtomicU64>::default();
    let report = {
        let (name, repeats, settled) = (source.name(), source.repeats(), settled.clone());
        move |batches, dropped| Report { source: name, repeats, batches, settled: settled.clone(), dropped }
    };
    let mut out = Outbox::with_hand_over(node, {
        let (report, reports) = (report.clone(), reports.clone());
        // Nobody listens when the agent ends in disorder.
        move |batches| drop(reports.blocking_send(report(batches, 0)))
    });
    let mut said = BTreeSet::new();
    // Agents of many machines tick at different moments.
    let phase = Duration::from_nanos(hash63(node.as_bytes()) as u64 % every.as_nanos() as u64);
    let mut due = Instant::now() + phase.min(Duration::from_secs(1));
    let mut before = None;
    loop {
        let leaves = match stop.recv_timeout(due.saturating_duration_since(Instant::now())) {
            Err(channel::RecvTimeoutError::Timeout) => false,
            Ok(End::Left) => true,
            Ok(End::Restart) | Err(channel::RecvTimeoutError::Disconnected) => return,
        };
        let now = session::now();
        let from_wall = now - clock_ns(libc::CLOCK_REALTIME) as i64;
        let tick = Tick { now, before, from_wall, settled: settled.load(Ordering::Relaxed) };
        before = Some(now);
        out.begin(tick);
        if leaves {
            source.leave(tick, &mut out);
        } else {
            source.poll(tick, &mut out);
        }
        let warnings = out.take_warnings();
        warnings.difference(&said).for_each(|warning| say(&format!("{}: {warning}", source.name())));
        said = warnings;
        if reports.blocking_send(report(out.take(), out.take_dropped())).is_err() || leaves {
            return;
        }
        due += every;
        if due < Instant::now() {
            // A source slower than its ticks misses some.
            due = Instant::now() + every;
        }
    }
}

/// Puts what sources said into the queue, numbered, until all of them have ended.
async fn fill(
    mut incoming: mpsc::Receiver<Report>,
    node: String,
    queue: Rc<RefCell<Queue>>,
    filled: Rc<Notify>,
    totals: Arc<Totals>,
) {
    let began = session::now();
    // By source and table: each source has a numbering of its own, see `wire::HEADER_AGENT`.
    let mut numbers: HashMap<(&'static str, &'static str), u64> = HashMap::new();
    let mut agents: HashMap<&'static str, Arc<str>> = HashMap::new();
    let mut said = None;
    while let Some(report) = incoming.recv().await {
        let agent = agents
            .entry(report.source)
            .or_insert_with(|| format!("{node}/{}/{began:x}", report.source).into())
            .clone();
        let mut queue = queue.borrow_mut();
        for (table, batch) in report.batches {
            let number = numbers.entry((report.source, table.name)).or_default();
            for start in (0..batch.num_rows()).step_by(ROWS) {
                *number += 1;
                let rows = batch.slice(start, ROWS.min(batch.num_rows() - start));
                queue.push(Message::new(
                    &agent,
                    table,
                    report.repeats,
                    *number,
                    &rows,
                    report.settled.clone(),
                ));
            }
        }
        let (dropped, failure) = queue.take_dropped();
        totals.dropped(dropped + report.dropped);
        totals.spooled.store(queue.spooled(), Ordering::Relaxed);
        if failure.is_some() && failure != said {
            let why = failure.as_deref().unwrap_or_default();
            say(&format!("cannot keep records while the collector is away, they are dropped: {why}"));
            said = failure;
        }
        filled.notify_one();
    }
}
