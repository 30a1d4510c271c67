//! Which process a thread belongs to: events name threads only.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

/// Processes by thread. What isn't known is looked up in what the kernel noted at switches and forks
/// (saved_tgids, with the option record-tgid), also of threads that are gone.
pub struct Processes {
    saved: PathBuf,
    known: HashMap<u32, u32>,
}

impl Processes {
    pub fn new(saved: PathBuf) -> Processes {
        Processes { saved, known: HashMap::new() }
    }

    /// The process; the thread itself where nothing is known of it.
    pub fn of(&mut self, tid: u32) -> u32 {
        if let Some(&pid) = self.known.get(&tid) {
            return pid;
        }
        let saved = fs::read_to_string(&self.saved).unwrap_or_default();
        let pairs = saved.lines().filter_map(|line| line.trim().split_once(' '));
        let found = pairs.filter_map(|(tid, pid)| Some((tid.trim().parse().ok()?, pid.trim().parse().ok()?)));
        for (tid, pid) in found {
            self.known.entry(tid).or_insert(pid);
        }
        *self.known.entry(tid).or_insert_with(|| running(tid).unwrap_or(tid))
    }

    /// The number is given out again.
    pub fn forget(&mut self, tid: u32) {
        self.known.remove(&tid);
    }
}

fn running(tid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}
