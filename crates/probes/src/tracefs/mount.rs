//! Where tracefs is, and a private instance in it (Documentation/trace/ftrace.rst, "Instances").

use std::ffi::{CStr, c_long};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Instances are named so, with the recorder's pid.
const PREFIX: &str = "iotrail-";

/// The root of tracefs.
pub struct Root {
    pub path: PathBuf,
    /// A mount of our own that nobody else sees, where there is none; it ends with this.
    _mount: Option<OwnedFd>,
}

impl Root {
    pub fn find() -> io::Result<Root> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let mounted = mounts.lines().find_map(|line| {
            let mut words = line.split(' ').skip(1);
            words.next().filter(|_| words.next() == Some("tracefs"))
        });
        if let Some(path) = mounted {
            return Ok(Root { path: path.into(), _mount: None });
        }
        let mount = mount_unseen(c"tracefs")?;
        Ok(Root { path: format!("/proc/self/fd/{}", mount.as_raw_fd()).into(), _mount: Some(mount) })
    }
}

/// A mount that is in no directory (fsopen(2), fsmount(2)).
fn mount_unseen(kind: &CStr) -> io::Result<OwnedFd> {
    const FSOPEN_CLOEXEC: c_long = 1; // linux/mount.h, as those below
    const FSCONFIG_CMD_CREATE: c_long = 6;
    const FSMOUNT_CLOEXEC: c_long = 1;
    let none: c_long = 0;
    // SAFETY: `kind` ends with 0; the others take numbers, and null pointers where this command has no key.
    unsafe {
        let context = opened(libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC))?;
        let fd = c_long::from(context.as_raw_fd());
        if libc::syscall(libc::SYS_fsconfig, fd, FSCONFIG_CMD_CREATE, none, none, none) < 0 {
            return Err(io::Error::last_os_error());
        }
        opened(libc::syscall(libc::SYS_fsmount, fd, FSMOUNT_CLOEXEC, none))
    }
}

fn opened(result: c_long) -> io::Result<OwnedFd> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the system call just opened it for us.
    Ok(unsafe { OwnedFd::from_raw_fd(result as i32) })
}

/// Buffers and settings of our own beside those of other tracers; removed when dropped.
pub struct Instance {
    pub path: PathBuf,
}

impl Instance {
    pub fn create(root: &Root) -> io::Result<Instance> {
        let instances = root.path.join("instances");
        remove_stale(&instances)?;
        // A process may record twice at once.
        for number in 0.. {
            let path = instances.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => (),
                done => return done.map(|()| Instance { path }),
            }
        }
        unreachable!("numbers don't end")
    }

    pub fn write(&self, file: &str, text: &str) -> io::Result<()> {
        fs::write(self.path.join(file), text)
            .map_err(|error| io::Error::new(error.kind(), format!("writing {text:?} to its {file}: {error}")))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        _ = fs::remove_dir(&self.path);
    }
}

/// Removes what recorders left that were killed.
fn remove_stale(instances: &Path) -> io::Result<()> {
    for entry in fs::read_dir(instances)? {
        let entry = entry?;
        let name = entry.file_name();
        let pid =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            _ = fs::remove_dir(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_go_with_their_recorder() {
        let Ok(root) = Root::find() else {
            return eprintln!("skipped: tracefs takes root");
        };
        let instances = root.path.join("instances");
        // No pid is as large (/proc/sys/kernel/pid_max is at most 2^22).
        let stale = instances.join(format!("{PREFIX}999999999-0"));
        if fs::create_dir(&stale).is_err() {
            return eprintln!("skipped: tracefs takes root");
        }
        let first = Instance::create(&root).unwrap();
        let second = Instance::create(&root).unwrap();
        assert!(!stale.exists(), "it was left by a recorder that is gone");
        assert!(first.path.exists() && second.path.exists() && first.path != second.path);
        let path = first.path.clone();
        drop(first);
        assert!(!path.exists() && second.path.exists());
    }

    #[test]
    fn a_setting_it_does_not_have_is_named() {
        let Ok(instance) = Root::find().and_then(|root| Instance::create(&root)) else {
            return eprintln!("skipped: tracefs takes root");
        };
        let error = instance.write("trace_clock", "sundial").unwrap_err().to_string();
        assert!(error.contains("sundial") && error.contains("trace_clock"), "{error}");
    }
}
