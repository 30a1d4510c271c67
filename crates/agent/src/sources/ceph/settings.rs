//! Daemons' settings that are changed so that they keep what is to be collected, and put back.
//!
//! `config set` on an admin socket overrides all else (ceph/src/common/config.h, `CONF_OVERRIDE`) until the daemon
//! ends. What was overridden before is written to a file before anything is changed, so that an agent that was
//! killed and started again still knows it, and puts that back when it leaves.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::membership::Status;
use super::socket::{Command, Conversation, Progress, wait};

/// Time that all daemons together have to take their settings back.
const LEAVE: Duration = Duration::from_secs(5);

/// Which requests are collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collected {
    /// A second of each minute, bursts, and the slow ones: see `super::sample`.
    #[default]
    Sampled,
    /// All.
    All,
}

/// What history is to be like: settings and values, by role.
#[must_use]
pub fn wanted(role: &str, collected: Collected) -> &'static [(&'static str, &'static str)] {
    match (role, collected) {
        ("osd", Collected::Sampled) => &[
            (OSD_SIZE, SIZE),
            (OSD_DURATION, KEPT),
            (SLOW_SIZE, SLOW),
            ("osd_op_history_slow_op_threshold", SLOW_FROM),
        ],
        ("mds", Collected::Sampled) => &[(MDS_SIZE, SIZE), ("mds_op_history_duration", KEPT)],
        ("osd", Collected::All) => &[
            (OSD_SIZE, SIZE),
            (OSD_DURATION, DURATION),
            (SLOW_SIZE, SLOW),
            ("osd_op_history_slow_op_threshold", SLOW_FROM),
        ],
        ("mds", Collected::All) => &[(MDS_SIZE, SIZE), ("mds_op_history_duration", MDS_DURATION)],
        _ => &[],
    }
}

/// Requests a daemon keeps, at 2.5 KB: as many as come in some 20 s, and what an agent leaves unread when it is away.
pub const SIZE: &str = "40000";
/// Most of them, when they come faster than that.
pub const MOST: u64 = 160_000;
/// Seconds for which an OSD keeps them: how long an agent may be away.
pub const DURATION: &str = "60";
/// Seconds for which an OSD keeps them that isn't purged: each dump prints them all.
pub const UNPURGED: &str = "15";
/// Seconds for which daemons keep them where a sample is collected: a dump prints all that is kept.
pub const KEPT_SECONDS: i64 = 6;
const KEPT: &str = "6";
/// Seconds from which on a request is slow.
pub const SLOW_FROM: &str = "1";
/// Time until a request that ended is in a daemon's lists (`OpHistoryServiceThread::entry`, ceph/src/common/TrackedOp.cc:
/// it sleeps 1, 4, 16, 64, then 256 ms), and what a busy machine adds.
pub const INSERTED: Duration = Duration::from_millis(400);
/// Slow requests it keeps.
pub const SLOW: &str = "2000";
/// Seconds for which an MDS keeps requests. It has no list of slow ones (Pacific), and is not purged.
const MDS_DURATION: &str = "15";
/// Settings of the number of requests.
pub const OSD_SIZE: &str = "osd_op_history_size";
const MDS_SIZE: &str = "mds_op_history_size";
/// Setting of an OSD's duration.
pub const OSD_DURATION: &str = "osd_op_history_duration";
/// Setting of an OSD's number of slow requests.
pub const SLOW_SIZE: &str = "osd_op_history_slow_op_size";

/// The shorter of two times in seconds.
#[must_use]
pub fn least<'a>(one: &'a str, other: &'a str) -> &'a str {
    let seconds = |text: &str| text.parse().unwrap_or(u64::MAX);
    if seconds(other) < seconds(one) { other } else { one }
}

/// What one daemon's settings were overridden by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Saved {
    /// Process: another one has its own settings.
    process: i64,
    /// Values; none was not overridden.
    settings: BTreeMap<String, Option<String>>,
}

/// The file of what was before.
#[derive(Debug)]
pub struct Settings {
    path: PathBuf,
    collected: Collected,
    kept: Kept,
}

/// What the file holds.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kept {
    /// When the daemons that were found first all kept all of their history, ns since the epoch on the trail's clock.
    began: Option<i64>,
    daemons: BTreeMap<PathBuf, Saved>,
}

impl Settings {
    /// Those of an agent whose folder this is.
    pub fn open(folder: &Path, collected: Collected) -> io::Result<Self> {
        let path = folder.join("ceph.json");
        let kept = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kept::default(),
            Err(error) => return Err(error),
        };
        Ok(Self { path, collected, kept })
    }

    /// Which requests are collected.
    #[must_use]
    pub fn collected(&self) -> Collected {
        self.collected
    }

    /// What a daemon's history is to be like.
    #[must_use]
    pub fn wanted(&self, role: &str) -> &'static [(&'static str, &'static str)] {
        wanted(role, self.collected)
    }

    /// What a setting of a process behind a socket was overridden by before; none: by nothing, or that isn't known.
    #[must_use]
    pub fn before(&self, socket: &Path, setting: &str) -> Option<&str> {
        self.kept.daemons.get(socket)?.settings.get(setting)?.as_deref()
    }

    /// Since when requests are told, if an agent before began.
    #[must_use]
    pub fn began(&self) -> Option<i64> {
        self.kept.began
    }

    /// Keeps since when requests are told, where settings are changed.
    pub fn begin(&mut self, began: i64) -> io::Result<()> {
        self.kept.began = Some(began);
        if self.kept.daemons.is_empty() { Ok(()) } else { self.write() }
    }

    /// Whether what a process behind a socket had is known.
    #[must_use]
    pub fn knows(&self, socket: &Path, process: i64) -> bool {
        self.kept.daemons.get(socket).is_some_and(|saved| saved.process == process)
    }

    /// Keeps what a process behind a socket has, as `config diff` answers. Only when that is durable it may be changed.
    pub fn keep(&mut self, socket: &Path, process: i64, role: &str, diff: &[u8]) -> io::Result<()> {
        #[derive(Deserialize)]
        struct Diff {
            diff: BTreeMap<String, Levels>,
        }
        #[derive(Deserialize)]
        struct Levels {
            #[serde(rename = "override")]
            by: Option<Value>,
        }
        let diff: Diff = serde_json::from_slice(diff)?;
        let settings = self
            .wanted(role)
            .iter()
            .map(|(name, _)| {
                let by = diff.diff.get(*name).and_then(|levels| levels.by.as_ref());
                let value = by.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
                ((*name).to_owned(), value)
            })
            .collect();
        self.kept.daemons.insert(socket.to_owned(), Saved { process, settings });
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let beside = self.path.with_extension("new");
        let mut file = File::create(&beside)?;
        file.write_all(&serde_json::to_vec_pretty(&self.kept)?)?;
        file.sync_all()?;
        fs::rename(&beside, &self.path)?;
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
    }

    /// Puts everything back at processes that still run. What couldn't be is kept, for the next agent.
    pub fn put_back(&mut self, runs: impl Fn(&Path, i64) -> bool) {
        let until = Instant::now() + LEAVE;
        self.kept.began = None;
        self.kept.daemons.retain(|socket, saved| {
            // At a daemon that isn't ready `config set` may wait for ever, and it with it: see `super::daemon`.
            runs(socket, saved.process)
                && !(is_ready(socket, until)
                    && saved.settings.iter().all(|(name, value)| {
                        let command = match value {
                            Some(value) => Command { value: Some([value]), ..Command::new("config set") },
                            None => Command::new("config unset"),
                        };
                        ask(socket, &Command { setting: Some(name), ..command }, until).is_ok()
                    }))
        });
        if self.kept.daemons.is_empty() {
            let _ = fs::remove_file(&self.path);
        } else {
            // What the file says is still true otherwise.
            let _ = self.write();
        }
    }
}

/// Whether a daemon says that it is.
fn is_ready(socket: &Path, until: Instant) -> bool {
    ask(socket, &Command::new("status"), until)
        .is_ok_and(|body| serde_json::from_slice(&body).is_ok_and(|status: Status| status.is_ready()))
}

/// Asks and waits for the answer.
fn ask(socket: &Path, command: &Command<'_>, until: Instant) -> Result<Vec<u8>, super::socket::SocketError> {
    let within = until.saturating_duration_since(Instant::now());
    let mut talk = Conversation::ask(socket, command, false, within)?;
    loop {
        match talk.advance()? {
            Progress::Waits => wait(std::iter::once(&talk), Duration::from_millis(100)),
            Progress::More => {}
            Progress::Done => return Ok(talk.body),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_before_is_kept_by_process() {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = Path::new("/run/osd.0.asok");
        let diff = br#"{"diff":{"osd_op_history_size":{"default":20,"override":77,"final":77},
                        "osd_op_history_duration":{"default":600,"file":"60","final":60}}}"#;
        let mut settings = Settings::open(folder.path(), Collected::All).expect("none yet");
        assert!(!settings.knows(socket, 7));
        settings.keep(socket, 7, "osd", diff).expect("kept");
        let settings = Settings::open(folder.path(), Collected::All).expect("kept");
        assert!(settings.knows(socket, 7) && !settings.knows(socket, 8));
        let saved = &settings.kept.daemons[socket].settings;
        assert_eq!(saved["osd_op_history_size"], Some("77".to_owned()));
        assert_eq!(saved["osd_op_history_duration"], None);
        assert_eq!(saved.len(), 4);
    }

    #[test]
    fn a_spoiled_file_is_no_license_to_forget() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("ceph.json"), "{").expect("written");
        assert!(Settings::open(folder.path(), Collected::All).is_err());
    }
}
