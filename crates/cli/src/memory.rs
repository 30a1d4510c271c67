//! How much memory a recording may take. Where nobody says: a part of what is left, for it is there for the program.

use std::fs;
use std::path::{Path, PathBuf};

use iotrail_format::segment::PAGE;
use iotrail_trail::seal::session::LEAST_MEMORY;

use crate::arguments::size;

/// What a recording takes where memory is plenty.
const PLENTY: u64 = 256 << 20;
/// Share of what is free that a recording takes at most.
const SHARE: u64 = 4;
/// Where control groups are mounted (cgroups(7)).
const GROUPS: &str = "/sys/fs/cgroup";

/// The argument of `--memory`.
pub fn parse(text: &str) -> Result<u64, String> {
    let bytes = size(text)?;
    if bytes < LEAST_MEMORY {
        return Err(format!("recording needs at least {}M", LEAST_MEMORY >> 20));
    }
    Ok(bytes)
}

/// Memory of a recording without `--memory`: [`PLENTY`], or a quarter of what its control group, its address space
/// (`ulimit -v`) and the machine have left if that is less, but never less than a recording can do with. Its larger part is on the tmpfs of sessions, of
/// which it fills two thirds at most.
pub fn default() -> u64 {
    let left = [
        of_groups(Path::new(GROUPS), &read("/proc/self/cgroup")),
        of_address_space(&read("/proc/self/statm")),
        of_machine(&read("/proc/meminfo")),
    ];
    let left = left.into_iter().flatten().map(|bytes| bytes / SHARE);
    left.chain(of_tmpfs(c"/dev/shm")).fold(PLENTY, u64::min).max(LEAST_MEMORY)
}

/// What a recording of `memory` may do to its program: none where it leaves half of what its control group has left.
pub fn warning(memory: u64) -> Option<String> {
    let left = of_groups(Path::new(GROUPS), &read("/proc/self/cgroup"))?;
    (memory > left / 2).then(|| {
        format!(
            "--memory takes {} MiB of {} MiB that this control group has left: the program may be killed for want of it",
            memory >> 20,
            left >> 20
        )
    })
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// Bytes that the control groups of this process have left: of the group of version 1 or 2 that /proc/self/cgroup
/// (`own`) names below `mounted`, and of all above it. None without a limit.
fn of_groups(mounted: &Path, own: &str) -> Option<u64> {
    own.lines().filter_map(|line| left_in_line(mounted, line)).min()
}

/// As [`of_groups`], of one line of the file.
fn left_in_line(mounted: &Path, line: &str) -> Option<u64> {
    // hierarchy:controllers:path
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (root, files) = match controllers {
        "" => (mounted.to_owned(), ("memory.max", "memory.current")),
        _ if controllers.split(',').any(|name| name == "memory") => {
            (mounted.join("memory"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
        }
        _ => return None,
    };
    let own = root.join(path.trim_start_matches('/'));
    // A container sees its own group as the root, whatever the host calls it.
    let own = if own.is_dir() { own } else { root.clone() };
    own.ancestors()
        .take_while(|group| group.starts_with(&root))
        .filter_map(|group| left_in(group, files))
        .min()
}

/// Limit of a group less what it uses and can't give back.
fn left_in(group: &Path, (limit, usage): (&str, &str)) -> Option<u64> {
    let number = |file: PathBuf| read(file).trim().parse::<u64>().ok();
    // "max", or in version 1 a number beyond all memory.
    let limit = number(group.join(limit)).filter(|limit| *limit < 1 << 60)?;
    let stat = read(group.join("memory.stat"));
    // Of version 1, with the groups below it; of version 2 all are.
    let cached =
        |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    let cached: u64 = cached("total_inactive_file").or_else(|| cached("inactive_file")).unwrap_or(0);
    let used = number(group.join(usage)).unwrap_or(0).saturating_sub(cached);
    Some(limit.saturating_sub(used))
}

/// Bytes that this process may still map, which has mapped what /proc/self/statm says; none without a limit.
fn of_address_space(statm: &str) -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a buffer of the right type.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) } == 0;
    let pages: u64 = statm.split(' ').next()?.parse().ok()?;
    let left = limit.rlim_cur.saturating_sub(pages * PAGE as u64);
    (known && limit.rlim_cur != libc::RLIM_INFINITY).then_some(left)
}

/// Bytes that the machine has left, of /proc/meminfo.
fn of_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? << 10)
}

/// Two thirds of what a file system has left; none if it isn't there.
fn of_tmpfs(path: &std::ffi::CStr) -> Option<u64> {
    let mut info = std::mem::MaybeUninit::<libc::statvfs>::zeroed();
    // SAFETY: a NUL-terminated path and a buffer of the right type, zeroed before.
    let info = unsafe { (libc::statvfs(path.as_ptr(), info.as_mut_ptr()) == 0).then(|| info.assume_init()) }?;
    Some(info.f_bavail.saturating_mul(info.f_frsize) / 3 * 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_enough_for_a_recording() {
        assert_eq!(parse("256M"), Ok(256 << 20));
        assert!(parse("1M").is_err());
    }

    #[test]
    fn the_tightest_group_counts_without_what_it_can_give_back() {
        let mounted = tempfile::tempdir().unwrap();
        let group = |path: &str, files: &[(&str, &str)]| {
            let group = mounted.path().join(path);
            fs::create_dir_all(&group).unwrap();
            files.iter().for_each(|(name, text)| fs::write(group.join(name), text).unwrap());
        };
        let left = |own: &str| of_groups(mounted.path(), own);
        group("a/b", &[("memory.max", "max\n"), ("memory.current", "5\n")]);
        group(
            "a",
            &[("memory.max", "1000\n"), ("memory.current", "700\n"), ("memory.stat", "inactive_file 200\n")],
        );
        assert_eq!(left("0::/a/b\n"), Some(500));
        assert_eq!(left("0::/\n"), None);
        // Version 1, by the name that a host has for a container's group.
        group("memory", &[("memory.limit_in_bytes", "4096"), ("memory.usage_in_bytes", "96")]);
        assert_eq!(left("5:cpu,cpuacct:/x\n4:memory:/docker/1f2e\n0::/a/b\n"), Some(500));
        assert_eq!(left("4:memory:/docker/1f2e\n"), Some(4000));
        group("memory", &[("memory.limit_in_bytes", "9223372036854771712")]);
        assert_eq!(left("4:memory:/docker/1f2e\n"), None);
        assert_eq!(left(""), None);
    }

    #[test]
    fn the_machine_tells_in_kibibytes() {
        assert_eq!(of_machine("MemTotal: 9 kB\nMemAvailable:   24000000 kB\n"), Some(24_000_000 << 10));
        assert_eq!(of_machine("MemTotal: 9 kB\n"), None);
    }
}
