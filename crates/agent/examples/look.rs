//! Runs the Ceph source without a collector for some seconds and writes what it says as a trail:
//! `look SOCKETS TRAIL SECONDS [STATE]`. With a folder for the state requests are told, and daemons' settings changed
//! and put back; with `keep` behind it they are not put back, as when an agent is killed.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use iotrail_agent::outbox::Outbox;
use iotrail_agent::source::{Source, Tick};
use iotrail_agent::sources::ceph::{Ceph, Options};
use iotrail_trail::TrailWriter;
use iotrail_trail::seal::clock::clock_ns;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [sockets, trail, seconds, more @ ..] = arguments.as_slice() else {
        return Err("usage: look SOCKETS TRAIL SECONDS [STATE [keep]]".into());
    };
    let state = more.first().map(PathBuf::from);
    if let Some(state) = &state {
        std::fs::create_dir_all(state)?;
    }
    let mut source = Ceph::new(Options { sockets: vec![sockets.clone()], state, place: None })?;
    let mut trail = TrailWriter::create(Path::new(trail), true)?;
    let mut out = Outbox::new("here");
    let (mut before, mut due) = (None, Instant::now());
    for _ in 0..=seconds.parse::<u64>()? {
        let now = clock_ns(libc::CLOCK_REALTIME) as i64;
        let tick = Tick { now, before, from_wall: 0 };
        before = Some(now);
        out.begin(tick);
        source.poll(tick, &mut out);
        out.take_warnings().iter().for_each(|warning| eprintln!("{warning}"));
        let dropped = out.take_dropped();
        if dropped > 0 {
            eprintln!("{dropped} records dropped");
        }
        for (table, batch) in out.take() {
            trail.append(table, &batch)?;
        }
        due += Duration::from_secs(1);
        sleep(due.saturating_duration_since(Instant::now()));
    }
    if more.len() < 2 {
        source.leave();
    }
    trail.publish()?;
    Ok(())
}
