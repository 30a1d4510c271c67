//! What has to be there before a replay: files of the sizes the trace reads, and directories.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use iotrail_format::call::Call;

use crate::Error;
use crate::plan::{NONE, Need, Plan};
use crate::target::Place;

/// Stands in a directory that a replay may empty.
pub const MARKER: &str = ".iotrail-replay";

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
/// replay made it. `sparse` gives files their size without blocks. `progress` is told bytes done and in all.
///
/// # Errors
/// [`Error::Place`] if there is not enough room, [`Error::Io`] if the system refuses.
pub fn prepare(
    plan: &Plan,
    place: &Place,
    sparse: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Error> {
    let Place::Root(root) = place else { return Ok(()) };
    if root.join(MARKER).exists() {
        fs::remove_dir_all(root).map_err(Error::io("empty", root))?;
    }
    fs::create_dir_all(root).map_err(Error::io("make", root))?;
    let marker = root.join(MARKER);
    File::create(&marker).map_err(Error::io("make", &marker))?;

    let total: u64 = plan
        .needs
        .values()
        .map(|need| match need {
            Need::File(size) => *size,
            Need::Directory | Need::Link(_) => 0,
        })
        .sum();
    let wanted = plan.grows + if sparse { 0 } else { total };
    let free = free_space(root)?;
    if wanted > free {
        return Err(Error::place(
            format!(
                "{} has room for {free} bytes; the trail's files take {total}, and it writes {} more",
                root.display(),
                plan.grows
            ),
            "name a directory on a larger file system, or --sparse to make files without blocks",
        ));
    }

    let (directories, made_by_trace) = directories(plan);
    for path in &directories {
        let path = place.path_of(path);
        fs::create_dir_all(&path).map_err(Error::io("make", &path))?;
    }
    let noise = noise((1 << 20) + (64 << 10));
    let mut done = 0;
    for (path, need) in &plan.needs {
        let recorded = &plan.paths[*path as usize];
        let inside = Path::new(recorded).ancestors().skip(1);
        let later = inside.filter_map(Path::to_str).any(|parent| made_by_trace.contains(parent));
        let path = place.path_of(recorded);
        if later || directories.contains(recorded.as_str()) {
            continue;
        }
        match need {
            Need::File(size) => {
                make_file(&path, *size, sparse, &noise)?;
                done += size;
                progress(done, total);
            }
            // It leads nowhere: the trail keeps the length of its text only.
            Need::Link(length) => {
                let text = "x".repeat((*length).clamp(1, 4095));
                std::os::unix::fs::symlink(text, &path).map_err(Error::io("make", &path))?;
            }
            Need::Directory => {}
        }
    }
    Ok(())
}

fn make_file(path: &PathBuf, size: u64, sparse: bool, noise: &[u8]) -> Result<(), Error> {
    let mut file = File::create(path).map_err(Error::io("make", path))?;
    if sparse {
        return file.set_len(size).map_err(Error::io("set the size of", path));
    }
    let mut left = size;
    let mut shift = 0;
    while left > 0 {
        let part = &noise[shift..shift + left.min(1 << 20) as usize];
        file.write_all(part).map_err(Error::io("write", path))?;
        left -= part.len() as u64;
        shift = (shift + 4093) % (64 << 10);
    }
    // The replay is to measure its own writes, not these.
    file.sync_data().map_err(Error::io("write", path))
}

/// The directories to make, and those that the trace makes itself.
fn directories(plan: &Plan) -> (BTreeSet<&str>, BTreeSet<&str>) {
    let mut made_by_trace = BTreeSet::new();
    let mut present = BTreeSet::new();
    for op in plan.threads.iter().flat_map(|thread| &thread.ops) {
        let works = op.errno == 0 && op.result >= 0;
        if !works || op.path == NONE {
            continue;
        }
        let path = plan.paths[op.path as usize].as_str();
        if op.call == Call::Mkdir {
            made_by_trace.insert(path);
        }
        present.insert(path);
        if op.path2 != NONE {
            present.insert(plan.paths[op.path2 as usize].as_str());
        }
    }
    let mut directories: BTreeSet<&str> = plan
        .needs
        .iter()
        .filter(|(_, need)| **need == Need::Directory)
        .map(|(path, _)| plan.paths[*path as usize].as_str())
        .collect();
    let needed = plan.needs.keys().map(|path| plan.paths[*path as usize].as_str());
    for path in present.into_iter().chain(needed) {
        directories.extend(Path::new(path).ancestors().skip(1).filter_map(Path::to_str));
    }
    // What the trace makes, and what lies in it, can't be there before.
    directories.retain(|path| {
        !Path::new(path).ancestors().filter_map(Path::to_str).any(|part| made_by_trace.contains(part))
    });
    (directories, made_by_trace)
}

fn free_space(path: &Path) -> Result<u64, Error> {
    use std::os::unix::ffi::OsStrExt as _;
    let name = std::ffi::CString::new(path.as_os_str().as_bytes())
        .map_err(|error| Error::io("look at", path)(error.into()))?;
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
