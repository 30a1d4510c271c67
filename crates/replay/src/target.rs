//! Where a replay happens, and whether it may: everything is checked before anything is changed.
//!
//! | place | allowed |
//! |---|---|
//! | a root | a directory that does not exist yet, is empty, or was made by an earlier replay; not a mount point, nor what holds one; not `/`, a home directory or the working directory; nothing that holds the trail or the output |
//! | a file | a regular file that is large enough, is not the disk of a loop device or a swap file, and holds zeros only |
//! | a device | a block device that is large enough, writable, not mounted, held by nothing else, without a signature that blkid knows, and holds zeros only |
//!
//! Content matters only if the trail writes; then `--overwrite` says that it may be lost.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Seek as _, SeekFrom};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::plan::{Device, Plan, Workload};
use crate::{Error, MARKER};

/// Where operations go.
#[derive(Clone, Debug)]
pub enum Place {
    /// All recorded paths lie under this directory.
    Root(PathBuf),
    /// The operations on each device of the trail go to a file or block device: by the number of the path.
    Targets(HashMap<u32, Target>),
}

/// A file or block device that stands for a recorded one.
#[derive(Clone, Debug)]
pub struct Target {
    /// The recorded device.
    pub device: Device,
    /// The file or device.
    pub path: PathBuf,
    /// Its size in bytes.
    pub size: u64,
}

/// A recorded device and what stands for it, as somebody typed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its recorded path, or machine, colon and path; none for the only device.
    pub device: Option<String>,
    /// The file or device.
    pub target: PathBuf,
}

/// What may happen to a target.
#[derive(Clone, Copy, Debug)]
pub struct Allowed {
    /// Offsets beyond the end wrap around.
    pub fold: bool,
    /// Its data may be lost.
    pub overwrite: bool,
}

/// How much of a target is read to find that it holds no data. It takes 20 s at 3 GB/s.
const MOST_READ: u64 = 64 << 30;

impl Place {
    /// A directory that may be filled, and emptied if an earlier replay filled it. `others` are trails that it must not
    /// hold.
    ///
    /// # Errors
    /// [`Error::Place`] if it may not.
    pub fn root(path: &Path, others: &[&Path]) -> Result<Self, Error> {
        let shown = path.display();
        let real = resolved(path)?;
        let protected =
            |message: String| Error::place(message, "name a directory of its own: --root DIR/replay");
        if real.parent().is_none() {
            return Err(protected(format!("{shown} is the root of the file system")));
        }
        if is_home(&real) {
            return Err(protected(format!("{shown} is a home directory")));
        }
        if std::env::current_dir().is_ok_and(|current| current.starts_with(&real)) {
            return Err(protected(format!("{shown} holds the working directory")));
        }
        for mount in mount_points()? {
            if mount == real {
                return Err(protected(format!("{shown} is a mount point")));
            }
            if mount.starts_with(&real) {
                return Err(protected(format!("{shown} holds a mount point, {}", mount.display())));
            }
        }
        for other in others {
            if resolved(other)?.starts_with(&real) {
                return Err(protected(format!("{shown} holds {}, and a replay empties it", other.display())));
            }
        }
        match fs::metadata(path) {
            Ok(found) if !found.is_dir() => {
                return Err(Error::place(
                    format!("{shown} is not a directory"),
                    "name an empty directory, or one that does not exist yet; --target replays on a file",
                ));
            }
            Ok(_) => {
                let mut entries = fs::read_dir(path).map_err(Error::io("open", path))?;
                if !path.join(MARKER).exists() && entries.next().is_some() {
                    return Err(Error::place(
                        format!("{shown} is not empty and was not made by an earlier replay"),
                        "name an empty directory, or one that does not exist yet",
                    ));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("open", path)(error)),
        }
        Ok(Self::Root(real))
    }

    /// Files or block devices, one for each device of the plan.
    ///
    /// # Errors
    /// [`Error::Place`] if a device has no target, or a target is in use, too small, read-only, or would lose data.
    pub fn targets(mappings: &[Mapping], plan: &Plan, allowed: Allowed) -> Result<Self, Error> {
        if plan.devices.is_empty() {
            return Err(Error::place(
                "the trail holds calls on files, not only requests to devices; a target stands for a device",
                "--root DIR replays it in a directory",
            ));
        }
        let mut targets: HashMap<u32, Target> = HashMap::new();
        for mapping in mappings {
            let device = find(plan, mapping.device.as_deref())?;
            if targets.contains_key(&device.path) {
                return Err(Error::place(
                    format!("{} has two targets", shown(plan, device)),
                    match plan.workload {
                        Workload::Trail => "give each device one --map",
                        Workload::Model | Workload::Benchmark => "give each device one --target",
                    },
                ));
            }
            let size = check_target(&mapping.target, device, plan.workload.name(), allowed)?;
            let real = resolved(&mapping.target)?;
            if let Some(other) = targets.values().find(|other| other.path == real) {
                return Err(Error::place(
                    format!(
                        "{} is the target of two devices, {} and {}",
                        mapping.target.display(),
                        shown(plan, &other.device),
                        shown(plan, device)
                    ),
                    "give each device a target of its own",
                ));
            }
            targets.insert(device.path, Target { device: device.clone(), path: real, size });
        }
        let missing: Vec<String> = plan
            .devices
            .iter()
            .filter(|device| !targets.contains_key(&device.path))
            .map(|device| shown(plan, device))
            .collect();
        if !missing.is_empty() {
            return Err(Error::Place {
                message: format!("no target for {}", listed(&missing)),
                hint: Some(format!("add {} {}=FILE", plan.workload.option(), missing[0])),
            });
        }
        Ok(Self::Targets(targets))
    }

    /// Where a recorded path lies.
    #[must_use]
    pub fn path_of(&self, number: u32, recorded: &str) -> PathBuf {
        match self {
            Self::Root(root) => {
                let mut path = root.clone();
                // A plan's paths are made by the recorder or an importer: of neither is `..` expected.
                path.extend(Path::new(recorded).components().filter_map(|part| match part {
                    Component::Normal(name) => Some(name),
                    _ => None,
                }));
                path
            }
            Self::Targets(targets) => {
                targets.get(&number).map_or_else(|| recorded.into(), |target| target.path.clone())
            }
        }
    }

    /// The size at which offsets in a recorded path wrap around; 0 if they don't.
    #[must_use]
    pub fn size_of(&self, number: u32) -> i64 {
        match self {
            Self::Root(_) => 0,
            Self::Targets(targets) => targets.get(&number).map_or(0, |target| target.size as i64),
        }
    }
}

/// A device by its path, or by machine and path.
fn find<'a>(plan: &'a Plan, wanted: Option<&str>) -> Result<&'a Device, Error> {
    let path = |device: &Device| plan.paths[device.path as usize].as_str();
    let named: Vec<&Device> = plan
        .devices
        .iter()
        .filter(|device| match wanted {
            None => true,
            Some(wanted) => {
                wanted == path(device)
                    || wanted.strip_suffix(path(device)).and_then(|rest| rest.strip_suffix(':'))
                        == Some(device.node.as_str())
            }
        })
        .collect();
    let all: Vec<String> = plan.devices.iter().map(|device| shown(plan, device)).collect();
    let (whose, option) = (plan.workload.name(), plan.workload.option());
    match (named.as_slice(), wanted) {
        ([device], _) => Ok(device),
        ([], wanted) => Err(Error::Place {
            message: format!("{whose} has no device {}", wanted.unwrap_or_default()),
            hint: Some(format!("it has {}", listed(&all))),
        }),
        (_, None) => Err(Error::Place {
            message: format!("{whose} is of {} devices, and --target is one", all.len()),
            hint: Some(format!("{option} {}=FILE for each of {}", all[0], listed(&all))),
        }),
        (_, Some(wanted)) => Err(Error::Place {
            message: format!("{} machines have a device {wanted}", named.len()),
            hint: Some(format!("name it with its machine: {option} {}=FILE", shown(plan, named[0]))),
        }),
    }
}

/// A device as `--map` takes it.
fn shown(plan: &Plan, device: &Device) -> String {
    let path = &plan.paths[device.path as usize];
    let alike = plan.devices.iter().filter(|other| plan.paths[other.path as usize] == *path).count();
    if alike > 1 { format!("{}:{path}", device.node) } else { path.clone() }
}

fn listed(names: &[String]) -> String {
    const MOST: usize = 8;
    let first = names.iter().take(MOST).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > MOST { format!("{first} and {} more", names.len() - MOST) } else { first }
}

/// An absolute path without links, of what need not exist yet.
fn resolved(path: &Path) -> Result<PathBuf, Error> {
    let absolute = std::path::absolute(path).map_err(Error::io("find", path))?;
    let mut missing = Vec::new();
    let mut existing = absolute.as_path();
    loop {
        match existing.canonicalize() {
            Ok(mut real) => {
                real.extend(missing.into_iter().rev());
                return Ok(real);
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("find", path)(error)),
        }
        let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else {
            return Ok(absolute);
        };
        missing.push(name.to_owned());
        existing = parent;
    }
}

/// Whether a directory is somebody's home, by the environment or passwd(5).
fn is_home(path: &Path) -> bool {
    let is_same =
        |home: &str| home.len() > 1 && Path::new(home).canonicalize().is_ok_and(|home| home == path);
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    std::env::var("HOME").is_ok_and(|home| is_same(&home))
        || users.lines().filter_map(|line| line.split(':').nth(5)).any(is_same)
}

/// All mount points that this process sees: field 5 of proc_pid_mountinfo(5), in which four characters are octal.
fn mount_points() -> Result<Vec<PathBuf>, Error> {
    Ok(mounts()?.into_iter().map(|(_, point)| point).collect())
}

/// Device number and mount point of each mount.
fn mounts() -> Result<Vec<(String, PathBuf)>, Error> {
    const FILE: &str = "/proc/self/mountinfo";
    let text = fs::read_to_string(FILE).map_err(Error::io("read", FILE))?;
    let found = text.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(2);
        let (number, _, point) = (fields.next()?, fields.next()?, fields.next()?);
        let point = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
            .iter()
            .fold(point.to_owned(), |text, (octal, plain)| text.replace(octal, plain));
        Some((number.to_owned(), point.into()))
    });
    Ok(found.collect())
}

/// Whether a target may be used for a device; its size.
fn check_target(path: &Path, device: &Device, whose: &str, allowed: Allowed) -> Result<u64, Error> {
    let (shown, reach) = (path.display(), device.reach);
    if fs::metadata(path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Err(Error::Place {
            message: format!("cannot look at {shown}: No such file or directory"),
            hint: Some(format!("name a block device or a file; truncate -s {reach} {shown} makes a file")),
        });
    }
    let is_device = check_unused(path)?;
    let file = File::open(path).map_err(Error::io("open", path))?;
    if device.writes {
        refuse_read_only(path, &file, is_device, whose)?;
    }
    let size = (&file).seek(SeekFrom::End(0)).map_err(Error::io("find the size of", path))?;
    if size == 0 || !allowed.fold && reach > size {
        return Err(Error::place(
            format!("{shown} has {size} bytes, {whose} reaches up to byte {reach}"),
            if size == 0 {
                "truncate -s makes a larger file"
            } else {
                "--fold wraps offsets at its end; truncate -s makes a larger file"
            },
        ));
    }
    if device.writes && !allowed.overwrite {
        refuse_content(path, &file, is_device, size, whose)?;
    }
    Ok(size)
}

/// Places that [`check_writable`] looks at between the ends of a target, and how much it reads at each and at the ends.
const SAMPLES: u64 = 256;
const SAMPLE: u64 = 4096;
const END: u64 = 1 << 20;

/// Whether `writer`, such as "the measurement", may write to a file or block device: it is not mounted, not in use and not
/// read-only; and unless `overwrite` says that data may be lost, it has no signature that blkid knows and reads as zeros at both ends
/// and at 256 places between. Nothing is written. That the rest holds zeros is left to [`check_zeros`].
///
/// # Errors
/// [`Error::Place`] if it may not.
pub fn check_writable(path: &Path, writer: &str, overwrite: bool) -> Result<(), Error> {
    let is_device = check_unused(path)?;
    let file = File::open(path).map_err(Error::io("open", path))?;
    refuse_read_only(path, &file, is_device, writer)?;
    if overwrite {
        return Ok(());
    }
    let size = (&file).seek(SeekFrom::End(0)).map_err(Error::io("find the size of", path))?;
    refuse_signature(path, is_device, writer)?;
    let mut buffer = vec![0; END as usize];
    let mut look = |from: u64, length: u64| {
        let place = Stretch { from, to: from.saturating_add(length).min(size) };
        check_zeros(path, &file, place, &mut buffer, writer)
    };
    look(0, END)?;
    look(size.saturating_sub(END), END)?;
    (1..SAMPLES).try_for_each(|at| look(size / SAMPLES * at, SAMPLE))
}

/// Bytes of a file or device: the first, and the one after the last.
#[derive(Clone, Copy, Debug)]
pub struct Stretch {
    /// The first byte.
    pub from: u64,
    /// The byte after the last.
    pub to: u64,
}

/// Refuses a stretch of a file or block device in which a byte is not zero: writes of `writer` would replace it. It is read in pieces as
/// long as `buffer`.
///
/// # Errors
/// [`Error::Place`] if it holds data, [`Error::Io`] if it can't be read.
pub fn check_zeros(
    path: &Path,
    file: &File,
    stretch: Stretch,
    buffer: &mut [u8],
    writer: &str,
) -> Result<(), Error> {
    let Stretch { mut from, to } = stretch;
    while from < to {
        let wanted = (to - from).min(buffer.len() as u64) as usize;
        let count = file.read_at(&mut buffer[..wanted], from).map_err(Error::io("read", path))?;
        if count == 0 {
            break;
        }
        if let Some(byte) = buffer[..count].iter().position(|byte| *byte != 0) {
            let byte = from + byte as u64;
            return Err(Error::place(
                format!(
                    "{} holds data (at byte {byte}), which the writes of {writer} would replace",
                    path.display()
                ),
                "--overwrite says that it may be lost",
            ));
        }
        from += count as u64;
    }
    Ok(())
}

/// Whether a path is a block device, not a file. Neither must be mounted or in use.
fn check_unused(path: &Path) -> Result<bool, Error> {
    let shown = path.display();
    let found = fs::metadata(path).map_err(Error::io("look at", path))?;
    let is_device = found.file_type().is_block_device();
    if is_device {
        if let Some(point) = mounted(found.rdev())? {
            return Err(Error::place(
                format!("{shown} is mounted on {}", point.display()),
                "unmount it first",
            ));
        }
        refuse_held(path)?;
    } else if !found.is_file() {
        return Err(Error::place(format!("{shown} is neither a file nor a block device"), None));
    } else if let Some(user) = user_of(path)? {
        return Err(Error::Place {
            message: format!("{shown} is in use: {user}"),
            hint: Some("name a file that nothing else uses".into()),
        });
    }
    Ok(is_device)
}

fn refuse_read_only(path: &Path, file: &File, is_device: bool, writer: &str) -> Result<(), Error> {
    if !is_read_only(path, file, is_device) {
        return Ok(());
    }
    Err(Error::place(
        format!("{} is read-only, and {writer} writes", path.display()),
        if is_device { "blockdev --setrw makes a device writable" } else { "chmod, or name another file" },
    ))
}

/// Refuses a file or device whose content would be lost.
fn refuse_content(path: &Path, file: &File, is_device: bool, size: u64, writer: &str) -> Result<(), Error> {
    refuse_signature(path, is_device, writer)?;
    refuse_data(path, file, size, writer)
}

fn refuse_signature(path: &Path, is_device: bool, writer: &str) -> Result<(), Error> {
    let Some(kind) = is_device.then(|| signature(path)).flatten() else { return Ok(()) };
    Err(Error::place(
        format!("{} holds data ({kind}), which the writes of {writer} would replace", path.display()),
        "--overwrite says that it may be lost",
    ))
}

/// Refuses a file or device with a byte that is not zero. What lies in holes is not read.
fn refuse_data(path: &Path, file: &File, size: u64, writer: &str) -> Result<(), Error> {
    let shown = path.display();
    let mut buffer = vec![0; 1 << 20];
    let (mut at, mut read) = (0, 0);
    while at < size {
        // SAFETY: lseek(2) on an open file.
        let data = unsafe { libc::lseek(file.as_raw_fd(), at as i64, libc::SEEK_DATA) };
        match data {
            // ENXIO: nothing but a hole is left. What knows no holes says EINVAL, and is read.
            ..0 if std::io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO) => return Ok(()),
            ..0 => {}
            _ => at = data as u64,
        }
        // SAFETY: as above.
        let hole = unsafe { libc::lseek(file.as_raw_fd(), at as i64, libc::SEEK_HOLE) };
        let end = if hole > at as i64 { hole as u64 } else { size };
        let end = end.min(at + (MOST_READ - read));
        check_zeros(path, file, Stretch { from: at, to: end }, &mut buffer, writer)?;
        read += end - at;
        at = end;
        if read == MOST_READ && at < size {
            return Err(Error::place(
                format!("{shown} may hold data: only its first {at} bytes were looked at"),
                "--overwrite says that it may be lost; blkdiscard makes a device blank, truncate a file",
            ));
        }
    }
    Ok(())
}

/// What blkid(8) finds on a device: a file system, a partition table, a member of RAID or LVM. None if it finds nothing
/// or isn't there; the content is read anyhow.
fn signature(path: &Path) -> Option<String> {
    let probe = ["blkid", "/sbin/blkid", "/usr/sbin/blkid"].into_iter().find_map(|program| {
        Command::new(program).args(["--probe", "--output", "export", "--"]).arg(path).output().ok()
    })?;
    let text = String::from_utf8_lossy(&probe.stdout).into_owned();
    let of = |key: &str| {
        text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('=')).map(str::to_owned)
    };
    of("TYPE").or_else(|| of("PTTYPE").map(|kind| format!("a {kind} partition table")))
}

/// Whether a write is sure to fail.
fn is_read_only(path: &Path, file: &File, is_device: bool) -> bool {
    // linux/fs.h: #define BLKROGET _IO(0x12, 94)
    const BLKROGET: libc::c_ulong = 0x125e;
    let mut is_set: libc::c_int = 0;
    // SAFETY: the request stores an int.
    if is_device && unsafe { libc::ioctl(file.as_raw_fd(), BLKROGET, &raw mut is_set) } == 0 && is_set != 0 {
        return true;
    }
    fs::OpenOptions::new().write(true).open(path).is_err()
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

/// Who uses a file as its disk or swap space.
fn user_of(path: &Path) -> Result<Option<String>, Error> {
    let real = path.canonicalize().map_err(Error::io("find", path))?;
    for entry in fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let backing = fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if !backing.is_empty() && Path::new(backing.trim_end_matches('\n')) == real {
            return Ok(Some(format!("it is the disk of /dev/{}", entry.file_name().to_string_lossy())));
        }
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let is_swap = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    Ok(is_swap.map(Path::new).any(|swap| swap == real).then(|| "it is swap space".into()))
}

/// Where a device or one of its partitions is mounted.
fn mounted(number: u64) -> Result<Option<PathBuf>, Error> {
    let of = |number: u64| format!("{}:{}", libc::major(number), libc::minor(number));
    let mut numbers = vec![of(number)];
    // Partitions are folders of their disk that have a device number.
    for entry in fs::read_dir(format!("/sys/dev/block/{}", numbers[0])).into_iter().flatten().flatten() {
        if let Ok(text) = fs::read_to_string(entry.path().join("dev")) {
            numbers.push(text.trim().to_owned());
        }
    }
    Ok(mounts()?.into_iter().find(|(device, _)| numbers.contains(device)).map(|(_, point)| point))
}
