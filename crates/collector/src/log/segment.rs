//! The files of the log: numbered segments, each begun with the numbers that were taken before it.

use std::fs::{self, File, Permissions};
use std::io::{BufReader, ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use iotrail_trail::private::writing;

use super::record::{self, Kind, Next, Numbers};
use crate::error::{Error, IoContext as _};

/// What a segment begins with; then the version, 4 bytes.
const MAGIC: [u8; 12] = *b"iotrail-log\n";
const VERSION: u32 = 1;

/// The folder of a log, which one collector has.
pub struct Folder {
    path: PathBuf,
    /// Locked as long as it is open.
    _lock: File,
}

impl Folder {
    /// Opens a log, or begins one.
    ///
    /// # Errors
    /// [`Error::InUse`], [`Error::Io`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        // What peers sent is nobody else's to read; an earlier version left it to the umask.
        fs::create_dir_all(path).at("make directory", path)?;
        fs::set_permissions(path, Permissions::from_mode(0o700)).at("set the permissions of", path)?;
        let lock = path.join("lock");
        let file = writing().create(true).append(true).open(&lock).at("open", &lock)?;
        // SAFETY: the descriptor is open.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            let error = std::io::Error::last_os_error();
            return Err(match error.kind() {
                ErrorKind::WouldBlock => Error::InUse { path: path.to_owned() },
                _ => Error::Io { action: "lock", path: lock, source: error },
            });
        }
        // What names it must survive as what is in it does.
        let parent = path.join("..");
        File::open(&parent).and_then(|parent| parent.sync_all()).at("make durable", &parent)?;
        Ok(Self { path: path.to_owned(), _lock: file })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn segment(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:012}.log"))
    }

    /// Numbers of its segments, ascending.
    pub fn segments(&self) -> Result<Vec<u64>, Error> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.path).at("list", &self.path)? {
            let name = entry.at("list", &self.path)?.file_name();
            let number: Option<u64> = name.to_str().and_then(|name| name.strip_suffix(".log")?.parse().ok());
            numbers.extend(number);
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Deletes segments up to one. What can't be deleted is tried again with the next.
    pub fn delete(&self, through: u64) -> Result<(), Error> {
        for number in self.segments()?.into_iter().filter(|number| *number <= through) {
            let path = self.segment(number);
            fs::remove_file(&path).at("delete", &path)?;
        }
        Ok(())
    }

    /// Bytes that can still be written to its file system.
    pub fn free(&self) -> Result<u64, Error> {
        let path =
            std::ffi::CString::new(self.path.as_os_str().as_bytes()).expect("an opened path has no NUL");
        let mut stat = std::mem::MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: the path ends in NUL, and the buffer is of the size the call expects.
        if unsafe { libc::statvfs(path.as_ptr(), stat.as_mut_ptr()) } != 0 {
            return Err(std::io::Error::last_os_error()).at("look at the space of", &self.path);
        }
        // SAFETY: the call succeeded and filled it.
        let stat = unsafe { stat.assume_init() };
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Begins a segment, durably.
    pub fn create(&self, number: u64, numbers: &Numbers) -> Result<Segment, Error> {
        let path = self.segment(number);
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        record::append(&mut bytes, Kind::Numbers, numbers, &[]);
        let created = writing()
            .create_new(true)
            .open(&path)
            .and_then(|mut file| {
                file.write_all(&bytes)?;
                file.sync_all()?;
                File::open(&self.path)?.sync_all()?;
                Ok(file)
            })
            .at("begin", &path);
        if created.is_err() {
            let _ = fs::remove_file(&path);
        }
        Ok(Segment { number, file: created?, path, length: bytes.len() as u64 })
    }

    /// Reads a segment: each sound record goes to `take`. Returns how many records could not be read.
    ///
    /// # Errors
    /// [`Error::LogVersion`], [`Error::Io`], and those of `take`.
    pub fn read(
        &self,
        number: u64,
        mut take: impl FnMut(Kind, bytes::Bytes, bytes::Bytes) -> Result<(), Error>,
    ) -> Result<Unread, Error> {
        let path = self.segment(number);
        let file = File::open(&path).at("read", &path)?;
        let mut unread = Unread { bytes: file.metadata().at("read", &path)?.len(), ..Unread::default() };
        let mut from = BufReader::with_capacity(1 << 20, file);
        let mut head = [0; 16];
        // A segment cut in its head was never written to: nothing was acknowledged of it.
        if unread.bytes < 16 {
            return Ok(unread);
        }
        from.read_exact(&mut head).at("read", &path)?;
        let version = u32::from_le_bytes(head[12..].try_into().expect("4 bytes"));
        if head[..12] == MAGIC && version > VERSION {
            return Err(Error::LogVersion { path, found: version, expected: VERSION });
        }
        let mut left = unread.bytes - 16;
        loop {
            match record::next(&mut from, &mut left).at("read", &path)? {
                Next::Record(kind, about, ipc) => take(kind, about, ipc)?,
                Next::Damaged => unread.damaged += 1,
                Next::Torn(bytes) => unread.torn += bytes,
                Next::End => return Ok(unread),
            }
        }
    }
}

/// What of a segment could not be read.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unread {
    /// Its size.
    pub bytes: u64,
    /// Damaged records.
    pub damaged: u64,
    /// Bytes after the last record.
    pub torn: u64,
}

/// The segment that is written to.
pub struct Segment {
    /// Its number.
    pub number: u64,
    /// Bytes that are durable.
    pub length: u64,
    file: File,
    path: PathBuf,
}

impl Segment {
    /// Adds bytes and waits until they are durable. After an error it is as before, if the system lets it be.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = self
            .file
            .write_all_at(bytes, self.length)
            .and_then(|()| self.file.sync_data())
            .at("write", &self.path);
        match written {
            Ok(()) => self.length += bytes.len() as u64,
            // What stays behind is read after a crash like any record, and known by its number.
            Err(_) => drop(self.file.set_len(self.length)),
        }
        written
    }
}
