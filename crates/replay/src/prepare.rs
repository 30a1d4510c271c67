//! What has to be there before a replay: files of the sizes the trace reads, and directories.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::Error;
use crate::plan::{Need, Plan};
use crate::target::Place;

/// Stands in a directory that a replay may empty.
pub const MARKER: &str = ".iotrail-replay";

/// Gives a root that was prepared a mark, by which other parts of the replay know whether they share it.
///
/// # Errors
/// [`Error::Io`] if the system refuses.
pub fn mark(place: &Place, mark: u64) -> Result<(), Error> {
    let Place::Root(root) = place else { return Ok(()) };
    let marker = root.join(MARKER);
    let file = fs::write(&marker, format!("{mark:016x}\n")).and_then(|()| File::open(&marker)?.sync_all());
    file.map_err(Error::io("write", marker))
}

/// Whether the root has that mark.
#[must_use]
pub fn has_mark(place: &Place, mark: u64) -> bool {
    let Place::Root(root) = place else { return false };
    fs::read_to_string(root.join(MARKER)).is_ok_and(|text| text.trim() == format!("{mark:016x}"))
}

/// Bytes of noise that files are filled with and writes are made of: no store compresses or deduplicates it
/// away within a file's block, since each block begins elsewhere in it.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut made = Vec::with_capacity(bytes + 8);
    while made.len() < bytes {
        // xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators", 2016)
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        made.extend_from_slice(&state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
    }
    made.truncate(bytes);
    made
}

/// Makes the files and directories that the plan needs, under a root that it empties first if an earlier
/// replay made it. `sparse` gives files their size without blocks. `progress` is given bytes done and in all, and
/// says whether to go on.
///
/// # Errors
/// [`Error::Place`] if there is not enough room: nothing is changed then. [`Error::Interrupted`] if `progress` says so,
/// [`Error::Io`] if the system refuses.
pub fn prepare(
    plan: &Plan,
    place: &Place,
    sparse: bool,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<(), Error> {
    let Place::Root(root) = place else { return Ok(()) };
    let total: u64 = plan
        .needs
        .values()
        .map(|need| match need {
            Need::File(size) => *size,
            Need::Directory | Need::Link(_) => 0,
        })
        .sum();
    let wanted = plan.grows + if sparse { 0 } else { total };
    let free = free_space(root)? + if root.join(MARKER).exists() { blocks_below(root) } else { 0 };
    if wanted > free {
        return Err(Error::place(
            format!(
                "{} has room for {free} bytes; the trail's files take {total}, and it writes {} more",
                root.display(),
                plan.grows
            ),
            "name a directory on a larger file system, or use --sparse, which makes files without blocks",
        ));
    }
    if root.join(MARKER).exists() {
        fs::remove_dir_all(root).map_err(Error::io("empty", root))?;
    }
    fs::create_dir_all(root).map_err(Error::io("make", root))?;
    let marker = root.join(MARKER);
    File::create(&marker).map_err(Error::io("make", &marker))?;

    let noise = noise((1 << 20) + (64 << 10));
    let together = syncs_together(root)?;
    let mut done = 0;
    // Directories first; a path comes after those it lies in, by length.
    let mut needs: Vec<(&str, u32, &Need)> =
        plan.needs.iter().map(|(path, need)| (plan.paths[*path as usize].as_str(), *path, need)).collect();
    needs.sort_unstable_by_key(|(path, _, need)| (**need != Need::Directory, path.len(), *path));
    for (recorded, number, need) in needs {
        let path = place.path_of(number, recorded);
        match need {
            Need::Directory => fs::create_dir_all(&path).map_err(Error::io("make", &path))?,
            Need::File(size) => {
                let file =
                    make_file(&path, *size, sparse, &noise, &mut |bytes| progress(done + bytes, total))?;
                if !together {
                    file.sync_data().map_err(Error::io("write", &path))?;
                }
                done += size;
            }
            // It leads nowhere: the trail keeps the length of its text only.
            Need::Link(length) => {
                let text = "x".repeat((*length).clamp(1, 4095));
                std::os::unix::fs::symlink(text, &path).map_err(Error::io("make", &path))?;
            }
        }
    }
    // The replay is to measure its own writes, not these.
    if together { sync_file_system(root) } else { Ok(()) }
}

/// Whether syncfs(2) writes all files back: of a FUSE file system it does not reach what its server caches
/// (`fuse_sync_fs` in Linux 6.18 asks servers of virtiofs alone).
fn syncs_together(root: &Path) -> Result<bool, Error> {
    // SAFETY: a NUL-terminated path and a struct of the right type, which is plain memory.
    let (status, found) = unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        (libc::statfs(c_path(root)?.as_ptr(), &raw mut found), found)
    };
    if status != 0 {
        return Err(Error::io("look at", root)(std::io::Error::last_os_error()));
    }
    Ok(found.f_type != libc::FUSE_SUPER_MAGIC)
}

/// Writes back what a file system has in memory: a hundred small files take one journal commit, and not one each.
fn sync_file_system(root: &Path) -> Result<(), Error> {
    let folder = File::open(root).map_err(Error::io("open", root))?;
    // SAFETY: an open descriptor.
    if unsafe { libc::syncfs(folder.as_raw_fd()) } != 0 {
        return Err(Error::io("write", root)(std::io::Error::last_os_error()));
    }
    Ok(())
}

/// Makes a file of so many bytes; `progress` says after each part whether to go on.
fn make_file(
    path: &Path,
    size: u64,
    sparse: bool,
    noise: &[u8],
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<File, Error> {
    let mut file = File::create(path).map_err(Error::io("make", path))?;
    if sparse {
        file.set_len(size).map_err(Error::io("set the size of", path))?;
        return Ok(file);
    }
    let mut left = size;
    let mut shift = 0;
    while left > 0 {
        let part = &noise[shift..shift + left.min(1 << 20) as usize];
        file.write_all(part).map_err(Error::io("write", path))?;
        left -= part.len() as u64;
        shift = (shift + 4093) % (64 << 10);
        if !progress(size - left) {
            return Err(Error::Interrupted);
        }
    }
    Ok(file)
}

/// Bytes that the files below a directory occupy.
fn blocks_below(path: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.path(), entry.metadata().ok()?)))
        .map(|(path, found)| if found.is_dir() { blocks_below(&path) } else { found.blocks() * 512 })
        .sum()
}

fn c_path(path: &Path) -> Result<CString, Error> {
    CString::new(path.as_os_str().as_bytes()).map_err(|error| Error::io("look at", path)(error.into()))
}

/// Free bytes of the file system that holds a path, or will.
fn free_space(path: &Path) -> Result<u64, Error> {
    let path = path.ancestors().find(|path| path.exists()).unwrap_or(path);
    let name = c_path(path)?;
    // SAFETY: a NUL-terminated path and a struct of the right type, which is plain memory.
    let (status, found) = unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        (libc::statvfs(name.as_ptr(), &raw mut found), found)
    };
    if status != 0 {
        return Err(Error::io("find the free space of", path)(std::io::Error::last_os_error()));
    }
    Ok(found.f_bavail * found.f_frsize)
}
