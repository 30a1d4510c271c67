//! Opening files where other programs can put theirs.
//!
//! A folder that programs may write to can hold anything under any name: links to files of others, pipes that block
//! whoever opens them, devices that do things when they are opened. So a name is first resolved to what it names
//! without opening it (`O_PATH | O_NOFOLLOW`, open(2)), that is looked at, and only then is the very same file opened.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Why a file was not opened.
#[derive(Debug)]
pub enum NotOpened {
    /// It is not what it is taken for; what was found instead.
    Refused(&'static str),
    /// The system's answer.
    Io(io::Error),
}

impl From<io::Error> for NotOpened {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<NotOpened> for io::Error {
    fn from(why: NotOpened) -> Self {
        match why {
            NotOpened::Refused(found) => Self::other(format!("expected a regular file, found {found}")),
            NotOpened::Io(error) => error,
        }
    }
}

/// What may be done with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Read it.
    Read,
    /// Read and write it.
    ReadWrite,
}

/// Opens a regular file that has one name (or, in the moment it is removed, none), is at most `most` bytes long and
/// passes `check`, which says what is wrong with it. Never waits, and never opens anything else.
///
/// # Errors
/// [`NotOpened`].
pub fn open_plain(
    path: &Path,
    access: Access,
    most: u64,
    check: impl FnOnce(&Metadata) -> Result<(), &'static str>,
) -> Result<(File, Metadata), NotOpened> {
    let named = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)?;
    let meta = named.metadata()?;
    let found = meta.file_type();
    let refused = if found.is_symlink() {
        Some("a symbolic link")
    } else if !found.is_file() {
        Some("a folder, pipe, socket or device")
    } else if meta.nlink() > 1 {
        Some("a file that has another name, too")
    } else if meta.len() > most {
        Some("a file that is too large")
    } else {
        check(&meta).err()
    };
    if let Some(found) = refused {
        return Err(NotOpened::Refused(found));
    }
    let file = OpenOptions::new()
        .read(true)
        .write(access == Access::ReadWrite)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(format!("/proc/self/fd/{}", named.as_raw_fd()))?;
    Ok((file, meta))
}

/// Reads a regular file of at most `most` bytes, through links or not. Never waits: a pipe under its name is refused.
///
/// # Errors
/// Those of opening and reading it, and what was found instead.
pub fn read_regular(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    Ok(read_with_mode(path, most)?.0)
}

/// Reads a secret, as text without space at its ends.
///
/// # Errors
/// Those of reading it; every user of the machine can read it or put another one there.
pub fn read_secret(path: &Path) -> io::Result<String> {
    let (content, mode) = read_with_mode(path, 1 << 16)?;
    if mode & 0o007 != 0 {
        let why =
            format!("every user of this machine can read the secret in it: chmod o= {}", path.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let text = str::from_utf8(&content);
    let text = text.map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "expected text"))?;
    Ok(text.trim().to_owned())
}

fn read_with_mode(path: &Path, most: u64) -> io::Result<(Vec<u8>, u32)> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let meta = file.metadata()?;
    if !meta.is_file() {
        return Err(io::Error::other("expected a regular file, found a folder, pipe or device"));
    }
    if meta.len() > most {
        return Err(io::Error::other(format!("expected at most {most} bytes, found {}", meta.len())));
    }
    let mut content = Vec::with_capacity(meta.len() as usize);
    Read::take(&mut file, most).read_to_end(&mut content)?;
    Ok((content, meta.mode()))
}

/// Whether a file is this user's.
///
/// # Errors
/// What it is instead.
pub fn is_own(meta: &Metadata) -> Result<(), &'static str> {
    if meta.uid() == effective_user() { Ok(()) } else { Err("a file of another user") }
}

/// The user as whom this process acts.
#[must_use]
pub fn effective_user() -> u32 {
    // SAFETY: no arguments, never fails.
    unsafe { libc::geteuid() }
}

/// Whether process `pid` can have made a file: it acts, or acted, as the file's owner, or the owner may write
/// anywhere; or it is gone, and nobody can tell any more.
///
/// # Errors
/// What it is instead.
pub fn is_of_process(meta: &Metadata, pid: u32) -> Result<(), &'static str> {
    let (owner, own) = (meta.uid(), effective_user());
    if owner == own {
        return Ok(());
    }
    // A folder of another user's than root is open to that one alone.
    if own != 0 {
        return Err("a file of another user");
    }
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else { return Ok(()) };
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap_or_default();
    let acts_as = users.split_ascii_whitespace().any(|user| user.parse() == Ok(owner));
    if acts_as { Ok(()) } else { Err("a file of another user than the process it names") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::fs::symlink;

    fn refusal(path: &Path) -> &'static str {
        match open_plain(path, Access::ReadWrite, 10, is_own) {
            Err(NotOpened::Refused(found)) => found,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_a_plain_file_of_ones_own_is_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("plain"), "0123456789").unwrap();
        assert_eq!(open_plain(&at("plain"), Access::Read, 10, is_own).unwrap().1.len(), 10);
        std::fs::write(at("long"), "0123456789a").unwrap();
        assert_eq!(refusal(&at("long")), "a file that is too large");
        symlink(at("plain"), at("link")).unwrap();
        assert_eq!(refusal(&at("link")), "a symbolic link");
        // Opening it for writing, or for reading, would wait for the other side.
        let fifo = std::ffi::CString::new(at("fifo").as_os_str().as_encoded_bytes()).unwrap();
        // SAFETY: a NUL-terminated path.
        assert_eq!(unsafe { libc::mkfifo(fifo.as_ptr(), 0o600) }, 0);
        assert_eq!(refusal(&at("fifo")), "a folder, pipe, socket or device");
        assert_eq!(refusal(Path::new("/dev/null")), "a folder, pipe, socket or device");
        std::fs::hard_link(at("plain"), at("second")).unwrap();
        assert_eq!(refusal(&at("plain")), "a file that has another name, too");
        assert!(matches!(open_plain(&at("none"), Access::Read, 10, is_own), Err(NotOpened::Io(_))));
    }

    #[test]
    fn a_process_makes_files_of_its_users_only() {
        let meta = std::fs::metadata("/proc/self").unwrap();
        assert!(is_of_process(&meta, std::process::id()).is_ok());
        if effective_user() == 0 {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("of-nobody");
            std::fs::write(&path, "").unwrap();
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            let meta = std::fs::metadata(&path).unwrap();
            assert!(is_of_process(&meta, std::process::id()).is_err());
            assert!(is_of_process(&meta, crate::seal::producer::NOBODY).is_ok());
            assert!(is_own(&meta).is_err());
        }
    }

    #[test]
    fn a_secret_is_of_few_people_and_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, " secret\n").unwrap();
        for (mode, is_read) in [(0o600, true), (0o640, true), (0o644, false), (0o602, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_secret(&path).ok().as_deref(), is_read.then_some("secret"), "{mode:o}");
        }
        let refused = read_regular(Path::new("/dev/zero"), 10).unwrap_err().to_string();
        assert!(refused.contains("expected a regular file"), "{refused}");
        assert!(read_regular(&path, 3).unwrap_err().to_string().contains("at most 3 bytes, found 8"));
    }
}
