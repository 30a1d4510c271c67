//! Records of many machines into one trail, and to those who watch.
//!
//! The visualization server of Leung et al., UCSC-SSRC-07-05 (2007), section 4.2, and the collector of iotrail's
//! requests. A message's way: a listener ([`server`], [`router`]) hands it to [`flight`] or [`otlp`], which make
//! [`rows`] of it; [`intake`] gives those to the [`log`], whose thread makes them durable, answers, and sends them on to
//! the [`keeper`] (rows not sealed yet, [`once`] each, [`join`]ed, then written to the trail) and to the [`live`] stream.
//!
//! Constraints: an answer means durable; a row is in the trail once, whatever was killed when; memory is bounded,
//! whatever is sent; no viewer and no peer holds up another.

pub mod aside;
mod clock;
pub mod connections;
pub mod error;
pub mod flight;
pub mod intake;
pub mod join;
pub mod keeper;
pub mod live;
pub mod log;
pub mod metrics;
pub mod once;
pub mod options;
pub mod otlp;
pub mod receiving;
pub mod router;
pub mod rows;
pub mod server;
pub mod tail;

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use iotrail_format::schema::MEMBER;
use iotrail_trail::say;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};

pub use error::Error;
pub use options::Options;

use crate::aside::Aside;
use crate::connections::Connections;
use crate::error::IoContext as _;
use crate::intake::Intake;
use crate::keeper::{Keeper, SealNow, ToKeeper, open_trail};
use crate::live::{Feed, Live};
use crate::log::Log;
use crate::log::segment::Folder;
use crate::log::state::State;
use crate::metrics::Metrics;
use crate::receiving::Receiving;
use crate::router::{Shared, router};

/// Bytes of a name (of a machine, a member, a metric) at most that is shown live or looked up. Rows with longer ones are
/// written as they are.
const LONGEST_NAME: usize = 512;
/// How often small files of the trail are merged.
const COMPACT: Duration = Duration::from_secs(60);

/// Runs a collector until `until` resolves; then seals what it has. `ready` is told where it listens.
///
/// # Errors
/// Those of starting, and of the last seal: what could not be sealed stays in the log.
pub fn run(
    options: &Options,
    until: impl FnOnce() -> std::io::Result<std::pin::Pin<Box<dyn Future<Output = ()>>>>,
    ready: impl FnOnce(&[SocketAddr]),
) -> Result<(), Error> {
    let runtime = match options.cores {
        0 | 1 => tokio::runtime::Builder::new_current_thread().enable_all().build(),
        cores => tokio::runtime::Builder::new_multi_thread().worker_threads(cores).enable_all().build(),
    };
    let runtime = runtime.at("start threads for", &options.trail)?;
    let ending = watch::Sender::new(false);
    let collector = runtime.block_on(async {
        let collector = start(options, &ending).await?;
        let until = until().at("watch signals for", &options.trail)?;
        ready(&collector.addresses);
        until.await;
        let _ = ending.send(true);
        for server in collector.servers {
            let _ = server.await;
        }
        Ok::<_, Error>(collector.threads)
    })?;
    // What connections are still open end with it.
    runtime.shutdown_timeout(Duration::from_secs(3));
    collector.end()
}

/// What runs.
struct Collector {
    addresses: Vec<SocketAddr>,
    servers: Vec<tokio::task::JoinHandle<()>>,
    threads: Threads,
}

struct Threads {
    keeper: Sender<ToKeeper>,
    folder: std::path::PathBuf,
    log: JoinHandle<()>,
    sealer: JoinHandle<()>,
    compactor: (Sender<()>, JoinHandle<()>),
}

impl Threads {
    /// Seals all that was acknowledged.
    fn end(self) -> Result<(), Error> {
        let (done, sealed) = oneshot::channel();
        let _ = self.keeper.send(ToKeeper::Seal(SealNow { all: true, done }));
        let sealed = sealed.blocking_recv().unwrap_or_else(|_| Err("its thread ended".to_owned()));
        let _ = self.keeper.send(ToKeeper::End);
        drop(self.compactor.0);
        for thread in [self.compactor.1, self.log, self.sealer] {
            let _ = thread.join();
        }
        sealed.map(drop).map_err(|why| Error::Options {
            what: format!("what was acknowledged last is not in the trail yet: {why}"),
            hint: format!(
                "it is in {}; start the collector again to have it in the trail",
                self.folder.display()
            ),
        })
    }
}

async fn start(options: &Options, ending: &watch::Sender<bool>) -> Result<Collector, Error> {
    options.check()?;
    rows::quiet_decoder();
    let (token, tls) = (options.token()?, options.acceptor()?);
    let metrics = Arc::new(Metrics::default());

    let folder = Folder::open(&options.log())?;
    open_trail(&options.trail)?;
    let state = State::settle(folder.path(), &options.trail)?;
    folder.delete(state.sealed)?;
    let sealed = state.sealed;
    let mut live = Live::open(&options.trail, options.window, metrics.clone())?;
    let mut keeper = Keeper::open(&options.trail, folder.path(), state, metrics.clone())?;
    let aside = Aside::of(folder.path());
    // What a collector accepted that allowed more is sealed, if there is memory for it.
    let most = options.most_decoded().max(options.memory as u64);
    let replayed = log::replay(&folder, sealed, most, &aside, |rows| {
        if rows.table.name == MEMBER.name {
            live.take(rows.table, &rows.batch);
        }
        keeper.take(rows);
        Ok(())
    })?;
    if replayed.rows > 0 {
        say!(
            "iotrail: {} rows were acknowledged before and not sealed: they are taken from the log",
            replayed.rows
        );
    }
    metrics.set_aside.inc_by(replayed.set_aside);
    if replayed.damaged > 0 || replayed.torn > 0 {
        metrics.log_damaged.inc_by(replayed.damaged + u64::from(replayed.torn > 0));
        say!(
            "iotrail: the log was cut off by {} bytes and has {} damaged records: what was not acknowledged is sent \
             again by agents, damaged records are lost",
            replayed.torn,
            replayed.damaged
        );
    }

    let mut listeners = Vec::new();
    for address in &options.listen {
        let listen = |source| Error::Listen { address: *address, source };
        listeners.push(TcpListener::bind(address).await.map_err(listen)?);
    }
    let addresses: Vec<SocketAddr> = listeners.iter().filter_map(|l| l.local_addr().ok()).collect();

    let (to_log, commands) = channel();
    let (to_keeper, told) = channel();
    let (feed, fed) = Feed::new(metrics.clone());
    let log = Log::begin(folder, replayed, to_keeper.clone(), feed, metrics.clone())?;
    let log = thread("iotrail-log", move || log.run(&commands));
    let (of_keeper, every) = (to_log.clone(), options.seal);
    let sealer = thread("iotrail-seal", move || keeper.run(&told, of_keeper, every));
    let (end, ended) = channel::<()>();
    let trail = options.trail.clone();
    let compactor = thread("iotrail-compact", move || {
        while ended.recv_timeout(COMPACT) == Err(RecvTimeoutError::Timeout) {
            compact(&trail);
        }
    });

    let intake = Intake::new(to_log, options.memory, options.most_decoded(), metrics.clone());
    let (to_live, told) = mpsc::channel(64);
    tokio::spawn(live.run(fed, told));
    let shared = Shared {
        trail: options.trail.canonicalize().at("find", &options.trail)?.into(),
        aside,
        intake,
        live: to_live,
        keeper: to_keeper.clone(),
        metrics: metrics.clone(),
        token,
        receiving: Receiving::new(options.memory, options.largest),
        largest: options.largest,
    };
    let router = router(shared);
    let connections = Connections::new(metrics).at("raise the limit of descriptors for", &options.trail)?;
    let servers = listeners.into_iter().map(|listener| {
        let (tls, router, connections) = (tls.clone(), router.clone(), connections.clone());
        tokio::spawn(server::serve(listener, tls, router, connections, ending.subscribe()))
    });
    let servers = servers.collect();
    let threads =
        Threads { keeper: to_keeper, folder: options.log(), log, sealer, compactor: (end, compactor) };
    Ok(Collector { addresses, servers, threads })
}

fn thread(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(body).expect("a thread can be started")
}

fn compact(trail: &Path) {
    match iotrail_trail::compact_grown(trail, iotrail_trail::GRACE) {
        // Somebody else compacts it.
        Ok(_) | Err(iotrail_trail::Error::Conflict { .. }) => {}
        Err(e) => say!("iotrail: cannot compact the trail, and tries again: {e}"),
    }
}
