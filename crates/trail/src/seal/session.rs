//! The session: the directory on tmpfs where a recording's programs and its sealer meet.
//!
//! ```text
//! /dev/shm/iotrail-XXXXXX/   0700; 01733 for root, whose programs may drop their privileges
//!     control                clock pairs, budget, closed? (iotrail_format::segment::Control)
//!     seg-PID-START          one a program image, made by it
//!     journal-0, journal-1   drained and not yet in Parquet
//!     carry                  what their rows still need
//! ```
//!
//! While it lives, `session.json` in the trail says where it is, so that `trail check` finds it
//! after the recorder was killed.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use iotrail_format::segment::{
    CLOCK_PAIRS, CONTROL_MAGIC, CONTROL_NAME, Control, NODE_BYTES, PAGE, SEGMENT_VERSION,
};
use serde::{Deserialize, Serialize};

use super::clock::{self, Clock, Pair};
use super::map::Mapping;
use crate::error::{Error, IoContext as _};

/// Least memory a recording can do with: two journals and a few segments.
pub const LEAST_MEMORY: u64 = 16 << 20;
/// File in a trail that says where its session is.
pub const SESSION_FILE: &str = "session.json";
/// Value of `Control::closed` after [`Session::stop`].
const STOPPED: u32 = 2;
/// Longest path of a session's directory that the recorder in the program takes.
const LONGEST_DIR: usize = 200;

/// What memory is spent on.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Bytes that segments may populate.
    pub segments: u64,
    /// Slots of one of the two journals.
    pub journal_units: usize,
}

impl Budget {
    /// Divides `memory`: an eighth for each journal, a quarter for the rows being written (a row
    /// takes about twice a slot while it is encoded), the rest for segments. Beyond half a million
    /// rows a journal's file gets no better.
    #[must_use]
    pub fn of(memory: u64) -> Self {
        let memory = memory.max(LEAST_MEMORY);
        let journal = (memory / 8).min(32 << 20);
        Self { segments: memory - 4 * journal, journal_units: (journal / 64) as usize - PAGE / 64 }
    }
}

/// A session.
pub struct Session {
    dir: PathBuf,
    control: Mapping,
    live: bool,
    /// Why it isn't on tmpfs, if it isn't.
    slow: Option<String>,
}

impl Session {
    /// Makes a session of this machine whose segments may populate `budget` bytes.
    ///
    /// # Errors
    /// As [`Self::create_on`].
    pub fn create(budget: u64) -> Result<Self, Error> {
        Self::create_on(&node(), budget)
    }

    /// Makes a session whose rows are those of `node`.
    ///
    /// # Errors
    /// [`Error::Io`] if no directory can be made, or if the processor's counter is no clock.
    pub fn create_on(node: &str, budget: u64) -> Result<Self, Error> {
        Clock::check_counter().at("take times from", Path::new("/proc/cpuinfo"))?;
        let shm = PathBuf::from("/dev/shm");
        let others = [std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from), Some("/tmp".into())];
        let mut refused = None;
        for place in std::iter::once(shm).chain(others.into_iter().flatten()) {
            match Self::create_in(&place, node, budget) {
                Ok(mut session) => {
                    if !on_tmpfs(&place) {
                        session.slow = Some(match &refused {
                            Some(error) => format!("{error}; {} is no tmpfs", place.display()),
                            None => format!("{} is no tmpfs", place.display()),
                        });
                    }
                    return Ok(session);
                }
                Err(error) => refused = refused.or(Some(error)),
            }
        }
        Err(refused.unwrap_or_else(|| Error::Io {
            action: "make a session in",
            path: "/dev/shm".into(),
            source: io::ErrorKind::NotFound.into(),
        }))
    }

    fn create_in(place: &Path, node: &str, budget: u64) -> Result<Self, Error> {
        let dir = unique_dir(place)?;
        let made = Self::furnish(&dir, node, budget);
        if made.is_err() {
            let _ = fs::remove_dir_all(&dir);
        }
        made
    }

    fn furnish(dir: &Path, node: &str, budget: u64) -> Result<Self, Error> {
        // SAFETY: no arguments.
        let root = unsafe { libc::geteuid() } == 0;
        if root {
            // Sticky and not listable: others can add their segment, and see or remove none.
            fs::set_permissions(dir, Permissions::from_mode(0o1733)).at("set the permissions of", dir)?;
        }
        let path = dir.join(CONTROL_NAME);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .at("make", &path)?;
        // Written, not truncated to size: on a full tmpfs this is an error instead of SIGBUS later.
        (&file).write_all(&[0; PAGE]).at("write", &path)?;
        if root {
            fs::set_permissions(&path, Permissions::from_mode(0o666)).at("set the permissions of", &path)?;
        }
        let map = Mapping::shared(&file, PAGE).at("map", &path)?;
        let control = map.words().as_ptr().cast::<Control>().cast_mut();
        // SAFETY: the page is zeroed, large enough and ours: no program knows the session yet.
        unsafe {
            (*control).version = SEGMENT_VERSION;
            (*control).sealer_pid = std::process::id();
            (*control).budget = budget;
            (*control).epoch_offset = epoch_offset();
            let length = node.len().min(NODE_BYTES);
            (&mut (*control).node)[..length].copy_from_slice(&node.as_bytes()[..length]);
            (*control).node_length = length as u32;
            (*control).magic = CONTROL_MAGIC;
        }
        let session = Self { dir: dir.to_owned(), control: map, live: true, slow: None };
        session.keep_pair(Pair::now());
        Ok(session)
    }

    /// Opens the session of a recorder that is gone.
    ///
    /// # Errors
    /// [`Error::Io`] if its control file is missing or not one of this version.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(CONTROL_NAME);
        let file = OpenOptions::new().read(true).write(true).open(&path).at("open", &path)?;
        let length = file.metadata().at("look at", &path)?.len();
        let odd = |why: String| Error::Io {
            action: "use the control file",
            path: path.clone(),
            source: io::Error::other(why),
        };
        if length < PAGE as u64 {
            return Err(odd(format!("expected {PAGE} bytes, found {length}")));
        }
        let session = Self {
            dir: dir.to_owned(),
            control: Mapping::shared(&file, PAGE).at("map", &path)?,
            live: false,
            slow: None,
        };
        let control = session.control();
        if control.magic != CONTROL_MAGIC || control.version != SEGMENT_VERSION {
            return Err(odd(format!(
                "expected a session of version {SEGMENT_VERSION}, found {}",
                control.version
            )));
        }
        Ok(session)
    }

    /// The node whose rows these are.
    #[must_use]
    pub fn node(&self) -> String {
        let control = self.control();
        let length = (control.node_length as usize).min(control.node.len());
        String::from_utf8_lossy(&control.node[..length]).into_owned()
    }

    /// The directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Whether its recorder is this process.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Why recording disturbs more than it should, if the session isn't on tmpfs.
    #[must_use]
    pub fn slow(&self) -> Option<&str> {
        self.slow.as_deref()
    }

    /// The control page.
    #[must_use]
    pub fn control(&self) -> &Control {
        // SAFETY: the mapping is a page that lives as long as `self`; any bytes are a valid Control,
        // and what isn't atomic in it is only written before the session is known to anybody.
        unsafe { &*self.control.words().as_ptr().cast::<Control>() }
    }

    /// The clock of this session, with the pairs that the control page still holds.
    #[must_use]
    pub fn clock(&self) -> Clock {
        let control = self.control();
        let mut pairs: Vec<Pair> = control
            .pairs
            .iter()
            .map(|pair| Pair {
                ticks: pair.ticks.load(Ordering::Relaxed),
                mono: pair.mono.load(Ordering::Relaxed),
            })
            .filter(|pair| pair.ticks != 0)
            .collect();
        pairs.sort_unstable_by_key(|pair| pair.ticks);
        let mut clock = Clock::new(control.epoch_offset);
        pairs.into_iter().for_each(|pair| clock.push(pair));
        clock
    }

    /// Keeps a pair for whoever reads the session after a crash.
    pub fn keep_pair(&self, pair: Pair) {
        let control = self.control();
        let count = control.pair_count.load(Ordering::Relaxed);
        let entry = &control.pairs[(count % CLOCK_PAIRS as u64) as usize];
        entry.ticks.store(pair.ticks, Ordering::Relaxed);
        entry.mono.store(pair.mono, Ordering::Relaxed);
        control.pair_count.store(count.wrapping_add(1), Ordering::Release);
    }

    /// Returns a segment's share of the budget.
    pub fn give_back(&self, bytes: u64) {
        self.control().used.fetch_sub(bytes as i64, Ordering::Relaxed);
    }

    /// Tells the programs that nobody listens any more.
    pub fn close(&self) {
        // What was stopped stays so.
        let _ = self.control().closed.compare_exchange(0, 1, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// As [`Self::close`], because the trail can't be written.
    pub fn stop(&self) {
        self.control().closed.store(STOPPED, Ordering::Release);
    }

    /// Whether [`Self::stop`] ended it.
    #[must_use]
    pub fn was_stopped(&self) -> bool {
        self.control().closed.load(Ordering::Acquire) == STOPPED
    }

    /// Removes the directory and all in it.
    pub fn remove(self) {
        // Programs that outlive the recording keep their mappings; nothing is left to tell them.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

fn unique_dir(place: &Path) -> Result<PathBuf, Error> {
    loop {
        let mut random = [0; 6];
        File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut random))
            .at("read", Path::new("/dev/urandom"))?;
        let name: String = random.iter().map(|byte| char::from(b'a' + byte % 26)).collect();
        let dir = place.join(format!("iotrail-{name}"));
        if dir.as_os_str().len() > LONGEST_DIR {
            let source = io::Error::from(io::ErrorKind::InvalidFilename);
            return Err(Error::Io { action: "make a session in", path: place.to_owned(), source });
        }
        match fs::DirBuilder::new().mode(0o700).create(&dir) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => {
                return Err(Error::Io { action: "make a session in", path: place.to_owned(), source });
            }
            Ok(()) => return Ok(dir),
        }
    }
}

fn on_tmpfs(place: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(place.as_os_str().as_bytes()) else { return false };
    let mut info = std::mem::MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: a NUL-terminated path and a buffer of the right type, zeroed before.
    let info = unsafe {
        if libc::statfs(path.as_ptr(), info.as_mut_ptr()) != 0 {
            return false;
        }
        info.assume_init()
    };
    info.f_type == libc::TMPFS_MAGIC
}

/// This boot's id.
#[must_use]
pub fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// This machine's node: host name and boot, since a clock lasts as long as a boot.
#[must_use]
pub fn node() -> String {
    let boot: String = boot_id().chars().filter(char::is_ascii_hexdigit).take(8).collect();
    format!("{}-{boot}", host())
}

/// This machine's host name.
#[must_use]
pub fn host() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Wall clock minus CLOCK_MONOTONIC, nanoseconds: the value that the boot's first recording took,
/// so that all of them agree. It lies in a file that is published only if absent (link(2)).
fn epoch_offset() -> i64 {
    let wall = clock::clock_ns(libc::CLOCK_REALTIME) as i64;
    let own = wall.wrapping_sub(clock::clock_ns(libc::CLOCK_MONOTONIC) as i64);
    let path = PathBuf::from(format!("/dev/shm/iotrail-epoch-{}", boot_id()));
    let read = || fs::read_to_string(&path).ok()?.trim().parse().ok();
    if let Some(agreed) = read() {
        return agreed;
    }
    let temporary = path.with_extension(std::process::id().to_string());
    let published = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o644)
        .open(&temporary)
        .and_then(|mut file| write!(file, "{own}"))
        .and_then(|()| fs::hard_link(&temporary, &path));
    let _ = fs::remove_file(&temporary);
    match published {
        Ok(()) => own,
        // Another recording was first, or nobody can write there: then it is this recording's own.
        Err(_) => read().unwrap_or(own),
    }
}

/// Now on the clock of this machine's trails, ns since the epoch: CLOCK_MONOTONIC and one constant per boot.
#[must_use]
pub fn now() -> i64 {
    (clock::clock_ns(libc::CLOCK_MONOTONIC) as i64).wrapping_add(epoch_offset())
}

/// `session.json` of a trail that is being recorded.
#[derive(Debug, Serialize, Deserialize)]
pub struct SessionFile {
    /// The session's directory.
    pub session_dir: PathBuf,
    /// Pid of the recorder.
    pub pid: u32,
    /// Its start, in the kernel's ticks since boot: tells it from a later process of that pid.
    pub start: u64,
    /// The boot in which that holds.
    pub boot_id: String,
    /// The node whose rows these are.
    pub node: String,
    /// While the session is being recovered: the snapshot that is to hold the rest of the recording
    /// at the earliest, 0 none.
    #[serde(default)]
    pub publishes: u64,
    /// The hash of the path of one of the files that it will list.
    #[serde(default)]
    pub file: i64,
}

impl SessionFile {
    /// That of a session whose recorder is this process.
    #[must_use]
    pub fn of(session: &Session) -> Self {
        let pid = std::process::id();
        let start = start_of(pid).unwrap_or(0);
        Self {
            session_dir: session.dir.clone(),
            pid,
            start,
            boot_id: boot_id(),
            node: session.node(),
            publishes: 0,
            file: 0,
        }
    }

    /// Writes it into a trail.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn write(&self, trail: &Path) -> Result<(), Error> {
        let path = trail.join(SESSION_FILE);
        let text = serde_json::to_vec(self).map_err(io::Error::other).at("write", &path)?;
        fs::write(&path, text).at("write", &path)
    }

    /// Reads that of a trail; none if it isn't being recorded.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read(trail: &Path) -> Result<Option<Self>, Error> {
        let path = trail.join(SESSION_FILE);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            read => {
                let text = read.at("read", &path)?;
                serde_json::from_slice(&text).map_err(io::Error::other).at("read", &path).map(Some)
            }
        }
    }

    /// Takes it out of a trail.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn remove(trail: &Path) -> Result<(), Error> {
        let path = trail.join(SESSION_FILE);
        fs::remove_file(&path).at("remove", &path)
    }

    /// Whether its recorder still runs.
    #[must_use]
    pub fn recorder_runs(&self) -> bool {
        self.boot_id == boot_id() && start_of(self.pid) == Some(self.start)
    }
}

/// Start of a process in the kernel's ticks since boot (proc(5), field 22 of stat), none if it is
/// gone or a zombie.
fn start_of(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, field 2, may hold spaces and parentheses.
    let mut fields = stat.rsplit_once(") ")?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let start = fields.nth(18)?.parse().ok()?;
    (!matches!(state, "Z" | "X")).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_a_control_file_and_leaves_nothing() {
        let session = Session::create(1 << 20).unwrap();
        let dir = session.dir().to_owned();
        assert_eq!(session.control().budget, 1 << 20);
        assert_eq!(session.clock().pairs().len(), 1);
        let again = Session::open(&dir).unwrap();
        assert!(!again.is_live());
        session.remove();
        assert!(!dir.exists());
        assert!(Session::open(&dir).is_err());
    }

    #[test]
    fn recordings_of_one_boot_agree_on_the_epoch() {
        assert_eq!(epoch_offset(), epoch_offset());
        assert!(node().contains('-'));
    }

    #[test]
    fn a_recorder_is_known_by_pid_and_start() {
        let session = Session::create(1 << 20).unwrap();
        let mut file = SessionFile::of(&session);
        assert!(file.recorder_runs());
        file.start += 1;
        assert!(!file.recorder_runs());
        session.remove();
    }

    #[test]
    fn a_budget_is_never_exceeded_by_its_parts() {
        for memory in [0, 16 << 20, 64 << 20, 256 << 20, 4 << 30] {
            let budget = Budget::of(memory);
            let whole = budget.segments + 4 * 64 * budget.journal_units as u64;
            assert!(whole <= memory.max(LEAST_MEMORY) && budget.segments >= LEAST_MEMORY / 4);
        }
    }
}
