//! Loop devices and mounts: made by loop(4), attached by losetup(8), found in /proc/self/mountinfo and /sys/block, also
//! those that a killed emulation left.

use std::ffi::OsString;
use std::os::fd::AsRawFd as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::{NAME, SOURCE};

/// How long a mounted directory may take to answer before it is left alone.
const ANSWER: Duration = Duration::from_secs(2);
/// How long a loop device may take to go after it was detached.
const DETACH: Duration = Duration::from_secs(10);

// Linux, include/uapi/linux/loop.h.
const LOOP_CTL_ADD: libc::c_ulong = 0x4C80;
const LOOP_CTL_REMOVE: libc::c_ulong = 0x4C81;

/// A line of /proc/self/mountinfo.
pub struct Mount {
    /// Major and minor number of its device, as `7:0`.
    pub device: String,
    /// Mount point.
    pub at: PathBuf,
    /// What is mounted.
    pub source: String,
}

/// Everything that is mounted, the newest last (proc(5), mountinfo).
pub fn mount_table() -> Vec<Mount> {
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let lines = text.split(|byte| *byte == b'\n');
    lines
        .filter_map(|line| {
            let fields: Vec<_> = line.split(|byte| *byte == b' ').collect();
            let dash = fields.iter().position(|field| *field == b"-")?;
            Some(Mount {
                device: String::from_utf8_lossy(fields.get(2)?).into_owned(),
                at: unescape(fields.get(4)?),
                source: unescape(fields.get(dash + 2)?).display().to_string(),
            })
        })
        .collect()
}

/// A path of mountinfo: space, tab, newline and backslash are three octal digits there.
fn unescape(text: &[u8]) -> PathBuf {
    let mut path = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        let digits = text.get(at + 1..at + 4).filter(|_| text[at] == b'\\');
        let code = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        path.push(code.unwrap_or(text[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    PathBuf::from(OsString::from_vec(path))
}

/// Adds the loop device of a number, or of the lowest one that is free (-1), or removes one that is detached: the number
/// (loop(4), /dev/loop-control).
fn control(request: libc::c_ulong, number: libc::c_long) -> std::io::Result<libc::c_int> {
    let file = std::fs::OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
    // SAFETY: an open file, and requests whose argument is a number.
    let answer = unsafe { libc::ioctl(file.as_raw_fd(), request, number) };
    if answer < 0 { Err(std::io::Error::last_os_error()) } else { Ok(answer) }
}

/// A loop device over an emulated disk. Detached and removed when dropped.
pub struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    /// Attaches a new one, with direct I/O, so that nothing between it and the emulation caches. One that was there would
    /// have the scheduler, read-ahead and other settings that its last user gave it.
    pub fn attach(file: &Path, rotational: bool) -> Result<Self, Error> {
        let refuse = |why: String| Error::Attach { path: file.to_owned(), why };
        let number =
            control(LOOP_CTL_ADD, -1).map_err(|error| refuse(format!("/dev/loop-control: {error}")))?;
        let device = Self { path: PathBuf::from(format!("/dev/loop{number}")) };
        let done = Command::new("losetup")
            .args(["--direct-io=on", "--sector-size", "512"])
            .args([device.path.as_path(), file])
            .output()
            .map_err(|error| refuse(format!("losetup: {error}")))?;
        if !done.status.success() {
            return Err(refuse(String::from_utf8_lossy(&done.stderr).trim().to_owned()));
        }
        let direct = device.attribute("loop/dio").unwrap_or_default();
        if direct != "1" {
            return Err(refuse("the kernel refuses direct I/O for it".into()));
        }
        // Schedulers and file systems ask it (block/queue-sysfs).
        let flag = if rotational { "1" } else { "0" };
        let _ = std::fs::write(device.sys().join("queue/rotational"), flag);
        Ok(device)
    }

    /// Its path, as /dev/loop0.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn number(&self) -> Option<libc::c_long> {
        self.path.file_name()?.to_str()?.strip_prefix("loop")?.parse().ok()
    }

    fn sys(&self) -> PathBuf {
        Path::new("/sys/block").join(self.path.file_name().unwrap_or_default())
    }

    fn attribute(&self, name: &str) -> Option<String> {
        Some(std::fs::read_to_string(self.sys().join(name)).ok()?.trim().to_owned())
    }

    /// Where it is mounted.
    pub fn mounts(&self) -> Vec<PathBuf> {
        let Some(number) = self.attribute("dev") else { return Vec::new() };
        mount_table().into_iter().filter(|mount| mount.device == number).map(|mount| mount.at).collect()
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        for mount in self.mounts().iter().rev() {
            detach_mount(mount);
        }
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).output();
        let Some(number) = self.number() else { return };
        // It goes once its last user has closed it; until then it needs answers.
        let start = Instant::now();
        while control(LOOP_CTL_REMOVE, number).is_err_and(|error| error.raw_os_error() == Some(libc::EBUSY))
            && start.elapsed() < DETACH
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Detaches what is mounted at a path, if something is: at once for new users, for others when they are done.
pub fn detach_mount(at: &Path) {
    let Ok(path) = std::ffi::CString::new(at.as_os_str().as_bytes()) else { return };
    // SAFETY: a NUL-terminated path.
    if unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH | libc::UMOUNT_NOFOLLOW) } != 0
        && mount_table().iter().any(|mount| mount.at == at && mount.source == SOURCE)
    {
        // Not root: the helper that has mounted it.
        let _ = Command::new("fusermount3").args(["-u", "-z", "--"]).arg(at).output();
    }
}

/// Detaches the mounts and loop devices of emulations that were killed.
pub fn clean_up_dead() {
    for mount in mount_table().into_iter().rev().filter(|mount| mount.source == SOURCE) {
        if !is_dead(&mount.at) {
            continue;
        }
        let served = mount.at.join(NAME);
        for entry in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
            let device = LoopDevice { path: Path::new("/dev").join(entry.file_name()) };
            let backing = device.attribute("loop/backing_file");
            if backing.is_some_and(|backing| Path::new(&backing) == served) {
                drop(device);
            } else {
                std::mem::forget(device);
            }
        }
        detach_mount(&mount.at);
    }
}

/// Whether nobody serves a mounted directory any more.
fn is_dead(directory: &Path) -> bool {
    let (sender, answer) = channel();
    let directory = directory.to_owned();
    // A process that was stopped doesn't answer: then this thread waits for it, and nobody for the thread.
    std::thread::spawn(move || {
        let opened = std::fs::read_dir(directory);
        let _ = sender.send(opened.is_err_and(|error| error.raw_os_error() == Some(libc::ENOTCONN)));
    });
    answer.recv_timeout(ANSWER).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_mountinfo_are_unescaped() {
        assert_eq!(unescape(br"/a\040b\134c"), Path::new(r"/a b\c"));
        assert_eq!(unescape(br"/a\9zz"), Path::new(r"/a\9zz"));
        assert_eq!(unescape(br"/a\04"), Path::new(r"/a\04"));
    }

    #[test]
    fn the_root_is_mounted() {
        assert!(mount_table().iter().any(|mount| mount.at == Path::new("/")));
    }
}
