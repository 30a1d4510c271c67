//! What the scheduler says of recorded threads, sampled beside them.
//!
//! A thread reads its own CPU clock only where its calls begin and end. One that computes for a minute says so after
//! that minute, one that is killed never, and none can read how long it waited for a CPU. The kernel keeps both for
//! each thread in `/proc/PID/task/TID/schedstat` (Documentation/scheduler/sched-stats.rst, the last section): time
//! on a CPU, time runnable without one, in nanoseconds.
//!
//! A thread that sleeps costs a reading and no row; while it does nothing one row grows. The pause between two passes
//! is at least [`SHARE`] times what the last one cost.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, Once};
use std::thread::JoinHandle;
use std::time::Duration;

use iotrail_format::segment::{NONE, OP_SAMPLE, SEGMENT_PREFIX};
use iotrail_sdk::post::{self, Draft};
use iotrail_trail::seal::clock::clock_ns;

/// Pause at the beginning and later: a twentieth of the recording's age so far, so that a short program has samples
/// too.
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(100));
/// A pass of so much CPU time is followed by a pause of so many times that: 0.4 % of a CPU.
const SHARE: u32 = 250;
/// Most threads that one pass reads; of more, others have their turn in the next one.
const MOST_THREADS: usize = 4096;
/// A row covers at least this much, unless its thread ended.
const ROW: u64 = 90_000_000;

/// Puts this process into the session, so that its threads may post into it. Once, whoever asks first.
pub fn join_session(session: &Path) {
    static JOINED: Once = Once::new();
    JOINED.call_once(|| {
        iotrail_sdk::attach::init_recorder(session.as_os_str().as_bytes());
    });
}

/// A thread as of its last sample.
struct Seen {
    /// CLOCK_MONOTONIC of the last row's end and of the last sample.
    since: u64,
    last: u64,
    /// CPU time and time without a CPU: at the last row's end, at the last sample.
    posted: (u64, u64),
    now: (u64, u64),
}

/// The thread that samples.
pub struct Sampler {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: JoinHandle<()>,
}

impl Sampler {
    /// Begins to sample the processes of a session; `child` is the program. None where the kernel doesn't keep these
    /// times, or where no thread can be started: they are then unknown.
    pub fn start(session: &Path, child: u32) -> Option<Self> {
        read_times(Path::new("/proc/self/schedstat"))?;
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (stopped, session) = (stop.clone(), session.to_owned());
        let thread = std::thread::Builder::new()
            .name("iotrail-sample".into())
            .spawn(move || sample(&session, child, &stopped))
            .ok()?;
        Some(Self { stop, thread })
    }

    /// Ends it; what was sampled is posted.
    pub fn finish(self) {
        if let Ok(mut stop) = self.stop.0.lock() {
            *stop = true;
        }
        self.stop.1.notify_all();
        let _ = self.thread.join();
    }
}

fn sample(session: &Path, child: u32, stop: &(Mutex<bool>, Condvar)) {
    let began = clock_ns(libc::CLOCK_MONOTONIC);
    let mut threads: HashMap<(u32, u32), Seen> = HashMap::new();
    let mut turn = 0;
    loop {
        let cpu = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        turn = pass(session, child, &mut threads, turn);
        let cost = Duration::from_nanos(clock_ns(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(cpu));
        let age = Duration::from_nanos(clock_ns(libc::CLOCK_MONOTONIC).saturating_sub(began));
        let pause = (age / 20).clamp(PAUSE.0, PAUSE.1).max(cost * SHARE);
        let Ok(stopped) = stop.0.lock() else { return };
        if *stopped {
            break;
        }
        match stop.1.wait_timeout(stopped, pause) {
            Ok((stopped, _)) if *stopped => break,
            Ok(_) => {}
            Err(_) => return,
        }
    }
    for ((pid, tid), seen) in &mut threads {
        post(session, (*pid, *tid), seen);
    }
}

/// Reads each thread once. Returns where the next pass begins, where one can't read all.
fn pass(session: &Path, child: u32, threads: &mut HashMap<(u32, u32), Seen>, turn: usize) -> usize {
    let mut all = Vec::new();
    for pid in processes(session, child) {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        let tids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        all.extend(tids.map(|tid: u32| (pid, tid)));
    }
    let alive: HashSet<(u32, u32)> = all.iter().copied().collect();
    threads.retain(|(pid, tid), seen| {
        let lives = alive.contains(&(*pid, *tid));
        if !lives {
            post(session, (*pid, *tid), seen);
        }
        lives
    });
    let first = if all.len() > MOST_THREADS { turn % all.len() } else { 0 };
    for at in (first..all.len()).chain(0..first).take(MOST_THREADS) {
        let (pid, tid) = all[at];
        let path = PathBuf::from(format!("/proc/{pid}/task/{tid}/schedstat"));
        let Some(times) = read_times(&path) else { continue };
        let now = clock_ns(libc::CLOCK_MONOTONIC);
        match threads.get_mut(&(pid, tid)) {
            None => {
                threads.insert((pid, tid), Seen { since: now, last: now, posted: times, now: times });
            }
            Some(seen) => see(session, (pid, tid), seen, times, now),
        }
    }
    first + MOST_THREADS
}

/// Takes in a sample. A stretch in which nothing happened ends where something does.
fn see(session: &Path, thread: (u32, u32), seen: &mut Seen, times: (u64, u64), now: u64) {
    if seen.now == seen.posted && times != seen.now && seen.last - seen.since >= ROW {
        post(session, thread, seen);
    }
    (seen.last, seen.now) = (now, times);
    if seen.now != seen.posted && seen.last - seen.since >= ROW {
        post(session, thread, seen);
    }
}

/// Posts what happened since the last row.
fn post(session: &Path, (pid, tid): (u32, u32), seen: &mut Seen) {
    if seen.last == seen.since {
        return;
    }
    // Not before there is something to post: a short program needs no segment of the recorder's.
    join_session(session);
    let draft = Draft {
        opcode: OP_SAMPLE,
        kind: 0,
        fd: tid as i32,
        object: i64::from(pid),
        pos: seen.now.0.saturating_sub(seen.posted.0) as i64,
        length: seen.now.1.saturating_sub(seen.posted.1) as i64,
        aux: NONE,
    };
    if post::interval_if_room(&draft, seen.since, seen.last - seen.since) {
        (seen.since, seen.posted) = (seen.last, seen.now);
    }
}

/// The program and its descendants, and all processes that have a segment in the session.
fn processes(session: &Path, child: u32) -> Vec<u32> {
    let mut found = vec![child];
    let mut known = HashSet::from([child]);
    if let Ok(entries) = std::fs::read_dir(session) {
        for entry in entries.flatten() {
            let name = entry.file_name();
            let pid = name.to_str().and_then(|name| name.strip_prefix(SEGMENT_PREFIX)?.split('-').next());
            let pid = pid.and_then(|pid| u32::from_str_radix(pid, 16).ok());
            if let Some(pid) = pid.filter(|pid| *pid != std::process::id() && known.insert(*pid)) {
                found.push(pid);
            }
        }
    }
    // Those that no recorder is in. A process's children are listed with the thread that made them; nearly always
    // that is the first one.
    let mut at = 0;
    while let Some(pid) = found.get(at) {
        at += 1;
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        for child in children.iter().flat_map(|text| text.split_ascii_whitespace()) {
            if let Some(pid) = child.parse().ok().filter(|pid| known.insert(*pid)) {
                found.push(pid);
            }
        }
    }
    found
}

/// Time on a CPU and time without one, of a schedstat file.
pub fn read_times(path: &Path) -> Option<(u64, u64)> {
    let text = std::fs::read_to_string(path).ok()?;
    let mut fields = text.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_by_its_segment_and_its_children_by_their_parent() {
        let dir = std::env::temp_dir().join(format!("iotrail-sampler-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join(format!("{SEGMENT_PREFIX}{:08x}-{:016x}", 0xabcd, 5)), "").unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let found = processes(&dir, std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
        assert!(found.contains(&0xabcd), "{found:?}");
        assert_eq!(found[0], std::process::id());
    }

    #[test]
    fn times_of_the_scheduler_are_read() {
        assert!(read_times(Path::new("/proc/self/schedstat")).is_some());
        assert_eq!(read_times(Path::new("/proc/self/comm")), None);
        assert_eq!(read_times(Path::new("/nowhere")), None);
    }
}
