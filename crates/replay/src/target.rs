//! Where a replay happens, and whether it may.

use std::fs;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::plan::Plan;
use crate::{Error, MARKER};
use iotrail_format::call::CallKind;

/// Where operations go.
#[derive(Clone, Debug)]
pub enum Place {
    /// All recorded paths lie under this directory.
    Root(PathBuf),
    /// All operations go to this file or block device.
    Target {
        /// The file or device.
        path: PathBuf,
        /// Its size in bytes.
        size: u64,
    },
}

impl Place {
    /// A directory: one that doesn't exist yet, is empty, or is that of an earlier replay.
    ///
    /// # Errors
    /// [`Error::Place`] if it holds anything else.
    pub fn root(path: &Path) -> Result<Self, Error> {
        match fs::read_dir(path) {
            Ok(mut entries) => {
                if !path.join(MARKER).exists() && entries.next().is_some() {
                    return Err(Error::place(
                        format!("{} is not empty and not the directory of an earlier replay", path.display()),
                        "name an empty directory, or one that does not exist yet",
                    ));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("open", path)(error)),
        }
        Ok(Self::Root(path.to_owned()))
    }

    /// A file or block device that `plan` fits into. With `fold`, offsets beyond its end wrap around.
    /// `overwrite` says that its content may be lost.
    ///
    /// # Errors
    /// [`Error::Place`] if it is in use, too small, or would lose data.
    pub fn target(path: &Path, plan: &Plan, fold: bool, overwrite: bool) -> Result<Self, Error> {
        if !plan.is_block {
            return Err(Error::place(
                "the trail is of several files, and a target is one",
                "--root DIR replays it in a directory",
            ));
        }
        let found = fs::metadata(path).map_err(Error::io("look at", path))?;
        let size = if found.file_type().is_block_device() {
            let name = path.canonicalize().map_err(Error::io("look at", path))?;
            if let Some(mounted) = mounted(&name, found.rdev())? {
                return Err(Error::place(
                    format!("{} is mounted on {mounted}", path.display()),
                    "unmount it first",
                ));
            }
            refuse_held(path)?;
            block_size(path)?
        } else if found.is_file() {
            found.len()
        } else {
            return Err(Error::place(
                format!("{} is neither a file nor a block device", path.display()),
                None,
            ));
        };
        let writes =
            plan.threads.iter().flat_map(|thread| &thread.ops).any(|op| op.call.kind() == CallKind::Write);
        if writes && !overwrite && size != 0 && !is_blank(path, size)? {
            return Err(Error::place(
                format!("{} holds data, which the writes of the trail would replace", path.display()),
                "--overwrite says that it may be lost",
            ));
        }
        if size == 0 || (!fold && plan.reach as u64 > size) {
            return Err(Error::place(
                format!("{} has {size} bytes, the trail reaches up to byte {}", path.display(), plan.reach),
                "--fold wraps offsets at its end; truncate -s makes a larger file",
            ));
        }
        Ok(Self::Target { path: path.to_owned(), size })
    }

    /// Where all of it lies, absolute, and whether that is one file for all paths.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no current directory.
    pub fn whole(&self) -> Result<(PathBuf, bool), Error> {
        let (path, one) = match self {
            Self::Root(path) => (path, false),
            Self::Target { path, .. } => (path, true),
        };
        Ok((std::path::absolute(path).map_err(Error::io("find", path))?, one))
    }

    /// Where a recorded path lies.
    #[must_use]
    pub fn path_of(&self, recorded: &str) -> PathBuf {
        match self {
            Self::Root(root) => {
                let mut path = root.clone();
                // A plan's paths are made by the recorder or an importer: of neither is `..` expected.
                path.extend(Path::new(recorded).components().filter_map(|part| match part {
                    std::path::Component::Normal(name) => Some(name),
                    _ => None,
                }));
                path
            }
            Self::Target { path, .. } => path.clone(),
        }
    }
}

/// Whether there is nothing but zeros at 128 places over a file's or device's size, its ends included. That finds
/// any file system or database; a lone block elsewhere needs luck.
fn is_blank(path: &Path, size: u64) -> Result<bool, Error> {
    const PLACES: u64 = 128;
    const AT_EACH: usize = 256 << 10;
    let file = fs::File::open(path).map_err(Error::io("open", path))?;
    let mut found = vec![0; AT_EACH];
    let last = size.saturating_sub(AT_EACH as u64);
    for place in 0..PLACES {
        let at = (u128::from(last) * u128::from(place) / u128::from(PLACES - 1)) as u64;
        let count = file.read_at(&mut found, at).map_err(Error::io("read", path))?;
        if found[..count].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        if last == 0 {
            break;
        }
    }
    Ok(true)
}

/// Refuses a device that something else holds: swap, RAID, a volume manager, a file system of another namespace.
fn refuse_held(path: &Path) -> Result<(), Error> {
    match fs::OpenOptions::new().read(true).custom_flags(libc::O_EXCL).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.raw_os_error() == Some(libc::EBUSY) => Err(Error::place(
            format!("{} is in use by the system", path.display()),
            "lsblk shows what uses it",
        )),
        Err(error) => Err(Error::io("open", path)(error)),
    }
}

/// Where a device or one of its partitions is mounted.
fn mounted(device: &Path, number: u64) -> Result<Option<String>, Error> {
    let mounts = fs::read_to_string("/proc/self/mounts").map_err(Error::io("read", "/proc/self/mounts"))?;
    let name = device.to_string_lossy();
    for line in mounts.lines() {
        let mut words = line.split(' ');
        let (Some(source), Some(on)) = (words.next(), words.next()) else { continue };
        if source.starts_with(&*name)
            || fs::metadata(source).is_ok_and(|found| found.rdev() == number && number != 0)
        {
            return Ok(Some(on.to_owned()));
        }
    }
    Ok(None)
}

fn block_size(path: &Path) -> Result<u64, Error> {
    use std::io::{Seek as _, SeekFrom};
    let mut file = fs::File::open(path).map_err(Error::io("open", path))?;
    file.seek(SeekFrom::End(0)).map_err(Error::io("find the size of", path))
}
