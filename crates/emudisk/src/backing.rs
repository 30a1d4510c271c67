//! Where the data is: a sparse file in the directory that the emulation is mounted over.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::NAME;
use crate::error::Error;

/// The data.
pub struct Backing {
    file: File,
    size: u64,
}

impl Backing {
    /// Opens the data of an earlier emulation, or makes it: all zeros, without blocks.
    pub fn open(directory: &Path, size: u64) -> Result<Self, Error> {
        let refuse = |why: String| Error::Directory { directory: directory.to_owned(), why };
        match DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(refuse(error.to_string()));
            }
            _ => {}
        }
        let entries = std::fs::read_dir(directory).map_err(|error| refuse(error.to_string()))?;
        for entry in entries {
            let name = entry.map_err(|error| refuse(error.to_string()))?.file_name();
            if name != NAME {
                let name = name.display();
                return Err(refuse(format!("expected an empty directory, found {name:?} in it")));
            }
        }
        if crate::is_mount_point(&directory.canonicalize().map_err(|error| refuse(error.to_string()))?) {
            return Err(refuse("something is mounted there: another emulation?".into()));
        }
        let path = directory.join(NAME);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path)
            .map_err(|error| refuse(format!("its file {NAME}: {error}")))?;
        let about = |source| Error::Io { what: "look at", path: path.clone(), source };
        let meta = file.metadata().map_err(about)?;
        if !meta.is_file() {
            return Err(refuse(format!("expected {NAME} to be a regular file")));
        }
        // SAFETY: a descriptor of ours.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
            return Err(refuse(format!("{NAME} is in use by another emulation")));
        }
        match meta.size() {
            0 => file.set_len(size).map_err(|source| Error::Io { what: "extend", path, source })?,
            found if found == size => {}
            found => {
                return Err(refuse(format!("expected {size} bytes of data, found {found}: --size {found}")));
            }
        }
        Ok(Self { file, size })
    }

    /// Reads; what lies beyond the end is left out.
    pub fn read(&self, pos: u64, length: u64) -> io::Result<Vec<u8>> {
        let length = length.min(self.size.saturating_sub(pos));
        let mut data = vec![0; length as usize];
        self.file.read_exact_at(&mut data, pos)?;
        Ok(data)
    }

    /// Writes.
    pub fn write(&self, pos: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_all_at(data, pos)
    }

    /// Gives blocks back: they read as zeros.
    pub fn punch(&self, pos: u64, length: u64) -> io::Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (Ok(pos), Ok(length)) = (i64::try_from(pos), i64::try_from(length)) else {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        };
        // SAFETY: a descriptor of ours, no pointers.
        if unsafe { libc::fallocate(self.file.as_raw_fd(), mode, pos, length) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}
