//! The session: the directory on tmpfs where a recording's programs and its sealer meet.
//!
//! ```text
//! /dev/shm/iotrail-XXXXXX/   0700; 0711 for root
//!     journal-0, journal-1   drained and not yet in Parquet
//!     carry                  what their rows still need
//!     XXXXXXXXXXXXXXXX/      where programs record into: 0700; 01733 for root, whose programs may drop their privileges
//!         control            clock pairs, budget, closed? (iotrail_format::segment::Control)
//!         seg-PID-START      one a program image, made by it
//! ```
//!
//! Programs are told the inner folder. Where it is root's, its name is all that keeps other users out: nobody can list
//! either folder, and only programs of the recording have the name in their environment. Those that dropped their
//! privileges can make files there, but neither see nor remove those of others; what the sealer opens there, it opens
//! by [`super::plain`].
//!
//! While it lives, `session.json` in the trail says where it is, so that `trail check` finds it
//! after the recorder was killed.

use std::ffi::{CString, OsStr};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use iotrail_format::seccomp::parse_filters;
use iotrail_format::segment::{
    CLOCK_PAIRS, CONTROL_MAGIC, CONTROL_NAME, Control, NODE_BYTES, PAGE, REFUSED_PREFIX, REFUSED_WANT,
    SEGMENT_SPAN, SEGMENT_VERSION, SMALLEST_SPAN,
};
use iotrail_format::throttle::{FOLLOWED, UNRECORDED};
use serde::{Deserialize, Serialize};

use super::clock::{self, Clock, Pair};
use super::map::Mapping;
use super::plain::{Access, effective_user, is_own, open_plain, read_regular};
use crate::error::{Error, IoContext as _};
use crate::private::writing;

/// Least memory a recording can do with: two journals and a few segments.
pub const LEAST_MEMORY: u64 = 8 << 20;
/// File in a trail that says where its session is.
pub const SESSION_FILE: &str = "session.json";
/// Bytes that it has at most: a few paths and numbers.
const LARGEST_FILE: u64 = 1 << 16;
/// Begin of the name of a session's folder.
const PREFIX: &str = "iotrail-";
/// Random letters that follow.
const LETTERS: usize = 6;
/// Letters of the name of the folder in it, which programs know.
const SECRET_LETTERS: usize = 16;
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
    /// Its home, locked as long as somebody drains or removes what is in it.
    _lock: File,
    /// Why it isn't on tmpfs, if it isn't.
    slow: Option<String>,
}

/// Seccomp filters that this process runs under, 0 where that can't be read.
fn count_filters() -> u32 {
    fs::read("/proc/self/status").ok().and_then(|status| parse_filters(&status)).unwrap_or(0)
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
        let mut refused = None;
        for place in places() {
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
        let home = unique_dir(place, PREFIX, LETTERS)?;
        let made =
            unique_dir(&home, "", SECRET_LETTERS).and_then(|dir| Self::furnish(&dir, &home, node, budget));
        if made.is_err() {
            let _ = fs::remove_dir_all(&home);
        }
        made
    }

    fn furnish(dir: &Path, home: &Path, node: &str, budget: u64) -> Result<Self, Error> {
        let root = effective_user() == 0;
        if root {
            // Sticky and not listable: others can add their segment, and see or remove none.
            for (folder, mode) in [(dir, 0o1733), (home, 0o711)] {
                fs::set_permissions(folder, Permissions::from_mode(mode))
                    .at("set the permissions of", folder)?;
            }
        }
        let lock = lock(home).at("lock", home)?;
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
            // Who may write it may truncate it, and end all who have it mapped.
            fs::set_permissions(&path, Permissions::from_mode(0o644)).at("set the permissions of", &path)?;
        }
        let map = Mapping::guarded(&file, PAGE).at("map", &path)?;
        let control = map.words().as_ptr().cast::<Control>().cast_mut();
        // SAFETY: the page is zeroed, large enough and ours: no program knows the session yet.
        unsafe {
            (*control).version = SEGMENT_VERSION;
            (*control).sealer_pid = std::process::id();
            (*control).budget = budget;
            (*control).span = span_of(address_space()) as u64;
            (*control).epoch_offset = epoch_offset();
            let length = node.len().min(NODE_BYTES);
            (&mut (*control).node)[..length].copy_from_slice(&node.as_bytes()[..length]);
            (*control).node_length = length as u32;
            (*control).filters = count_filters();
            (*control).magic = CONTROL_MAGIC;
        }
        let session = Self { dir: dir.to_owned(), control: map, live: true, _lock: lock, slow: None };
        session.keep_pair(Pair::now());
        Ok(session)
    }

    /// From now on programs post what lets others go on, too. To be called before any program knows the session.
    pub fn record_causality(&self) {
        self.control().causal.fetch_or(1, Ordering::Relaxed);
    }

    /// From now on programs say how far their threads come, too (see [`iotrail_format::throttle`]), by a page that has to be there. To be
    /// called before any program knows the session.
    pub fn follow(&self) {
        self.control().causal.fetch_or(FOLLOWED, Ordering::Relaxed);
    }

    /// As [`Self::follow`], and nothing is recorded.
    pub fn follow_only(&self) {
        self.control().causal.fetch_or(FOLLOWED | UNRECORDED, Ordering::Relaxed);
    }

    /// Opens the session of a recorder that is gone.
    ///
    /// # Errors
    /// [`Error::Io`] if its control file is missing or not one of this version.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let path = dir.join(CONTROL_NAME);
        let odd = |why: String| Error::Io {
            action: "use the control file",
            path: path.clone(),
            source: io::Error::other(why),
        };
        // It is removed in the end: nothing else may be taken for it.
        let home = home_of(dir);
        let is_named = is_made_name(home, PREFIX, LETTERS) && is_made_name(dir, "", SECRET_LETTERS);
        if !is_named || !places().any(|place| home.parent() == Some(&place)) {
            return Err(odd("expected a folder that a recorder made for a session".into()));
        }
        for folder in [home, dir] {
            let meta = fs::symlink_metadata(folder).at("look at", folder)?;
            if !meta.is_dir() || meta.uid() != effective_user() {
                let expected = format!("expected a session of user {}", effective_user());
                return Err(odd(format!("{expected}, found one of user {}", meta.uid())));
            }
        }
        let lock = lock(home).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => {
                odd("expected one that nobody uses, found one that is being recorded into or recovered"
                    .into())
            }
            _ => odd(error.to_string()),
        })?;
        let opened = open_plain(&path, Access::ReadWrite, PAGE as u64, is_own);
        let (file, meta) = opened.map_err(io::Error::from).at("open", &path)?;
        if meta.len() < PAGE as u64 {
            return Err(odd(format!("expected {PAGE} bytes, found {}", meta.len())));
        }
        let session = Self {
            dir: dir.to_owned(),
            control: Mapping::guarded(&file, PAGE).at("map", &path)?,
            live: false,
            _lock: lock,
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

    /// The directory that programs record into.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory around it, which is the recorder's alone.
    #[must_use]
    pub fn home(&self) -> &Path {
        home_of(&self.dir)
    }

    /// Pid of the recorder: the only one that posts what the kernel saw.
    #[must_use]
    pub fn recorder_pid(&self) -> u32 {
        if self.live { std::process::id() } else { self.control().sealer_pid }
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

    /// Takes a segment's share of the budget whose process can't.
    pub fn charge(&self, bytes: u64) {
        self.control().used.fetch_add(bytes as i64, Ordering::Relaxed);
    }

    /// How many processes got no segment and could say so only by a file, and what they wanted ([`Want`]).
    ///
    /// [`Want`]: iotrail_format::segment::Want
    #[must_use]
    pub fn refused_elsewhere(&self) -> (u64, u32) {
        let of = |name: &OsStr| {
            let (begin, rest) = name.as_encoded_bytes().split_at_checked(REFUSED_WANT)?;
            let wanted = rest.first()?.wrapping_sub(b'0');
            (begin == &REFUSED_PREFIX[..REFUSED_WANT]).then_some(u32::from(wanted))
        };
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let refused = entries.filter_map(|entry| of(&entry.file_name()));
        refused.fold((0, 0), |(count, all), wanted| (count + 1, all | wanted))
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
        let _ = fs::remove_dir_all(self.home());
    }
}

/// Where sessions are made, the first that can be used.
fn places() -> impl Iterator<Item = PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    [Some("/dev/shm".into()), runtime, Some("/tmp".into())].into_iter().flatten()
}

/// Folders of all sessions that this user may list, into which programs record.
pub fn session_dirs() -> impl Iterator<Item = PathBuf> {
    let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let named = |entry: &fs::DirEntry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
    let homes = places().flat_map(entries).filter(named);
    // Neither of other users nor through links.
    let own = |path: &PathBuf| {
        fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir() && meta.uid() == effective_user())
    };
    let homes = homes.map(|entry| entry.path()).filter(own);
    homes.flat_map(entries).map(|entry| entry.path()).filter(own)
}

/// The recorder's own directory of a session that programs know as `dir`.
fn home_of(dir: &Path) -> &Path {
    dir.parent().unwrap_or(dir)
}

/// This process's limit of address space (RLIMIT_AS), bytes.
fn address_space() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: u64::MAX, rlim_max: u64::MAX };
    // SAFETY: a place for the limit.
    unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    limit.rlim_cur
}

/// Address space of a segment where the sealer, which maps each, has so much: a hundred processes at once find room.
fn span_of(address_space: u64) -> usize {
    let share = usize::try_from(address_space / 128).unwrap_or(usize::MAX);
    share.clamp(SMALLEST_SPAN, SEGMENT_SPAN) / PAGE * PAGE
}

/// So many random letters.
fn random_name(letters: usize) -> io::Result<String> {
    let mut random = vec![0; letters];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random.iter().map(|byte| char::from(b'a' + byte % 26)).collect())
}

/// Whether a folder has a name that [`unique_dir`] gives.
fn is_made_name(dir: &Path, prefix: &str, letters: usize) -> bool {
    let name = dir.file_name().unwrap_or_default().as_encoded_bytes();
    let random = name.strip_prefix(prefix.as_bytes()).unwrap_or_default();
    random.len() == letters && random.iter().all(u8::is_ascii_lowercase)
}

/// Takes a session for this process alone, until it ends or drops the file (flock(2)).
fn lock(home: &Path) -> io::Result<File> {
    let folder = File::open(home)?;
    // SAFETY: a descriptor of ours.
    if unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(folder)
}

fn unique_dir(place: &Path, prefix: &str, letters: usize) -> Result<PathBuf, Error> {
    loop {
        let name = random_name(letters).at("read", Path::new("/dev/urandom"))?;
        let dir = place.join(format!("{prefix}{name}"));
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
/// so that all of them agree. It lies in a file that is published only if absent. Anybody can make a file
/// of that name: only root's and the user's own are believed, and where another's is in the way, the user has one of
/// their own.
#[must_use]
pub fn epoch_offset() -> i64 {
    let wall = clock::clock_ns(libc::CLOCK_REALTIME) as i64;
    let own = wall.wrapping_sub(clock::clock_ns(libc::CLOCK_MONOTONIC) as i64);
    agreed_offset(Path::new("/dev/shm"), own)
}

fn agreed_offset(place: &Path, own: i64) -> i64 {
    let common = format!("iotrail-epoch-{}", boot_id());
    for path in [place.join(&common), place.join(format!("{common}-{}", effective_user()))] {
        if let Some(agreed) = read_offset(&path).or_else(|| publish_offset(&path, own)) {
            return agreed;
        }
    }
    // Nobody can write there: then it is this recording's own.
    own
}

fn read_offset(path: &Path) -> Option<i64> {
    /// More than any number has.
    const MOST: u64 = 32;
    let by_root = |meta: &fs::Metadata| if meta.uid() == 0 { Ok(()) } else { is_own(meta) };
    let (mut file, _) = open_plain(path, Access::Read, MOST, by_root).ok()?;
    let mut text = String::new();
    (&mut file).take(MOST).read_to_string(&mut text).ok()?;
    // A time before 1970 or after 2200 is no time.
    let now = |offset: &i64| offset.checked_add(clock::clock_ns(libc::CLOCK_MONOTONIC) as i64);
    text.trim().parse().ok().filter(|offset| now(offset).is_some_and(|now| (0..1 << 62).contains(&now)))
}

/// Publishes the offset if nobody did before; then it is that one's.
fn publish_offset(path: &Path, own: i64) -> Option<i64> {
    let temporary = path.with_extension(random_name(16).ok()?);
    let published = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        // All users' recorders read it, whatever the umask of the first.
        .and_then(|file| file.set_permissions(Permissions::from_mode(0o644)).map(|()| file))
        .and_then(|mut file| write!(file, "{own}"))
        .and_then(|()| rename_if_absent(&temporary, path));
    if published.is_ok() {
        return Some(own);
    }
    let _ = fs::remove_file(&temporary);
    read_offset(path)
}

/// Renames a file to a name that nothing has (renameat2(2)): at no time has it two, as with link(2).
fn rename_if_absent(from: &Path, to: &Path) -> io::Result<()> {
    let [from, to] = [from, to].map(|path| CString::new(path.as_os_str().as_encoded_bytes()));
    let (from, to) = (from?, to?);
    // SAFETY: two NUL-terminated paths.
    let failed = unsafe {
        libc::renameat2(libc::AT_FDCWD, from.as_ptr(), libc::AT_FDCWD, to.as_ptr(), libc::RENAME_NOREPLACE)
    };
    if failed == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
        let file = writing().create(true).truncate(true).open(&path);
        file.and_then(|mut file| file.write_all(&text)).at("write", &path)
    }

    /// Reads that of a trail; none if it isn't being recorded.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn read(trail: &Path) -> Result<Option<Self>, Error> {
        let path = trail.join(SESSION_FILE);
        match read_regular(&path, LARGEST_FILE) {
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

    /// Where the session's journals and carry are.
    #[must_use]
    pub fn home(&self) -> &Path {
        home_of(&self.session_dir)
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
        let home = session.home().to_owned();
        let used = Session::open(&dir).err().unwrap().to_string();
        assert!(used.contains("is being recorded into"), "{used}");
        drop(session);
        let again = Session::open(&dir).unwrap();
        assert!(!again.is_live());
        again.remove();
        assert!(!dir.exists() && !home.exists());
        assert!(Session::open(&dir).is_err());
    }

    #[test]
    fn recordings_of_one_boot_agree_on_the_epoch() {
        assert_eq!(epoch_offset(), epoch_offset());
        assert!(node().contains('-'));
    }

    /// What another user put under the name is neither believed nor waited for.
    #[test]
    fn an_offset_of_another_user_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(format!("iotrail-epoch-{}", boot_id()));
        let own = 1_700_000_000_000_000_000;
        assert_eq!(agreed_offset(folder.path(), own), own);
        assert_eq!(agreed_offset(folder.path(), own + 1), own, "the first one's is kept");
        for wrong in ["9223372036854775807", "-9223372036854775808", "", "x", &"1".repeat(40)] {
            fs::write(&path, wrong).unwrap();
            assert_eq!(agreed_offset(folder.path(), own), own, "{wrong:?}");
        }
        fs::remove_file(&path).unwrap();
        let fifo = std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: a NUL-terminated path.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o666) }, 0);
        assert_eq!(agreed_offset(folder.path(), own), own);
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
        assert_eq!(agreed_offset(folder.path(), own), own);
        fs::remove_file(&path).unwrap();
        if effective_user() == 0 {
            fs::write(&path, "1000000000000000000").unwrap();
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            assert_eq!(agreed_offset(folder.path(), own), own);
        }
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
