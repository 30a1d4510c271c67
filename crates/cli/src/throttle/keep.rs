//! Runs that are done are kept beside the trail until all are, so that a failure costs one.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use iotrail_causal::Style;
use iotrail_causal::throttle::{Doing, Run, Snapshot, State};
use serde::{Deserialize, Serialize};

use super::free::Counted;

/// What is being done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The command, as its bytes.
    pub command: Vec<Vec<u8>>,
    /// Which nodes are held (see [`super::Which`]), as text.
    pub which: String,
    /// Sampling period.
    pub period: u32,
    /// Of the random choices.
    pub seed: u64,
    /// Name of the machine.
    pub machine: String,
    /// How long the program ran without pauses, ns.
    pub took: u64,
    /// How that run ended, as a status of wait(2).
    pub status: i32,
    /// Its threads.
    pub counted: Vec<Counted>,
}

/// Nodes of a snapshot as numbers: operations done, and what it does, a letter each.
#[derive(Serialize, Deserialize)]
struct KeptSnapshot {
    done: Vec<u32>,
    doing: String,
    settled: bool,
    released: Option<u32>,
}

#[derive(Serialize, Deserialize)]
struct KeptRun {
    held: Vec<u32>,
    late: u64,
    strayed: Vec<bool>,
    snapshots: Vec<KeptSnapshot>,
}

const LETTERS: [(Doing, char); 8] = [
    (Doing::Absent, 'a'),
    (Doing::Stuck(Style::Sleep), 's'),
    (Doing::Stuck(Style::Yield), 'y'),
    (Doing::Stuck(Style::Spin), 'x'),
    (Doing::Contending, 'c'),
    (Doing::Paused, 'p'),
    (Doing::Ended, 'e'),
    (Doing::Busy, 'b'),
];

/// The folder beside a trail.
pub struct Kept {
    folder: PathBuf,
}

impl Kept {
    /// That of a trail, whether or not it is there.
    pub fn of(trail: &Path) -> Self {
        let mut name = trail.file_name().unwrap_or_default().to_owned();
        name.push(".throttle");
        Self { folder: trail.with_file_name(name) }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The job that was not finished; none if there is none, or it can't be read.
    pub fn job(&self) -> Option<Job> {
        serde_json::from_slice(&fs::read(self.folder.join("job.json")).ok()?).ok()
    }

    /// Begins a job.
    pub fn begin(&self, job: &Job) -> io::Result<()> {
        self.remove()?;
        fs::create_dir(&self.folder)?;
        write(&self.folder.join("job.json"), &serde_json::to_vec(job)?)
    }

    /// A run that is done, if it held these nodes.
    pub fn run(&self, number: usize, held: &[u32], period: u32) -> Option<Run> {
        let kept: KeptRun = serde_json::from_slice(&fs::read(self.path(number)).ok()?).ok()?;
        let state = |(done, letter): (&u32, char)| {
            let doing = LETTERS.iter().find(|one| one.1 == letter)?.0;
            Some(State { done: *done, doing })
        };
        let snapshot = |kept: &KeptSnapshot| {
            let nodes: Option<Vec<State>> = kept.done.iter().zip(kept.doing.chars()).map(state).collect();
            Some(Snapshot { nodes: nodes?, is_settled: kept.settled, released: kept.released })
        };
        let snapshots: Option<Vec<Snapshot>> = kept.snapshots.iter().map(snapshot).collect();
        (kept.held == held).then_some(Run {
            period,
            snapshots: snapshots?,
            late: kept.late,
            strayed: kept.strayed,
        })
    }

    /// Keeps a run.
    pub fn keep(&self, number: usize, held: &[u32], run: &Run) -> io::Result<()> {
        let letter = |doing: Doing| LETTERS.iter().find(|one| one.0 == doing).map_or('b', |one| one.1);
        let snapshot = |one: &Snapshot| KeptSnapshot {
            done: one.nodes.iter().map(|state| state.done).collect(),
            doing: one.nodes.iter().map(|state| letter(state.doing)).collect(),
            settled: one.is_settled,
            released: one.released,
        };
        let kept = KeptRun {
            held: held.to_vec(),
            late: run.late,
            strayed: run.strayed.clone(),
            snapshots: run.snapshots.iter().map(snapshot).collect(),
        };
        write(&self.path(number), &serde_json::to_vec(&kept)?)
    }

    /// Notes the session of the run that begins: a recorder that is killed leaves it.
    pub fn note_session(&self, session: &Path) -> io::Result<()> {
        write(&self.folder.join("session"), session.as_os_str().as_bytes())
    }

    /// The session of the last run.
    pub fn session(&self) -> Option<PathBuf> {
        Some(PathBuf::from(OsString::from_vec(fs::read(self.folder.join("session")).ok()?)))
    }

    /// Removes all.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_dir_all(&self.folder) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    fn path(&self, number: usize) -> PathBuf {
        self.folder.join(format!("run-{number}.json"))
    }
}

/// Whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, bytes)?;
    fs::rename(new, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again() {
        let place = tempfile::tempdir().unwrap();
        let kept = Kept::of(&place.path().join("x.trail"));
        assert_eq!(kept.job(), None);
        let counted = Counted { lineage: u64::MAX, thread: -7, done: 3, signature: 1 << 63 };
        let job = Job {
            command: vec![b"x\xff".to_vec()],
            which: "groups".into(),
            period: 2,
            seed: 9,
            machine: "here".into(),
            took: 10,
            status: 256,
            counted: vec![counted],
        };
        kept.begin(&job).unwrap();
        assert_eq!(kept.job(), Some(job));
        let nodes = LETTERS.iter().map(|(doing, _)| State { done: 4, doing: *doing }).collect();
        let run = Run {
            period: 2,
            snapshots: vec![Snapshot { nodes, is_settled: true, released: Some(5) }],
            late: 1,
            strayed: vec![false, true],
        };
        kept.keep(0, &[5], &run).unwrap();
        assert_eq!(kept.run(0, &[5], 2), Some(run));
        assert_eq!(kept.run(0, &[4], 2), None);
        assert_eq!(kept.run(1, &[5], 2), None);
        std::fs::write(kept.path(0), "{").unwrap();
        assert_eq!(kept.run(0, &[5], 2), None);
        kept.remove().unwrap();
        kept.remove().unwrap();
        assert!(!kept.folder().exists());
    }
}
