//! Children that wait for a word before they work, so that they are recorded from the start.

use std::io::{self, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, RawFd};

/// A child that was forked and waits.
pub struct Child {
    pub pid: u32,
    tell: PipeWriter,
}

impl Child {
    pub fn fork(work: impl FnOnce()) -> Child {
        let (mut go, tell) = io::pipe().unwrap();
        // SAFETY: the child uses no lock of this process's but malloc's, which glibc makes usable after a fork.
        let pid = unsafe { libc::fork() };
        assert!(pid >= 0, "{}", io::Error::last_os_error());
        if pid > 0 {
            let child = Child { pid: pid as u32, tell };
            child.until_reading(go.as_raw_fd());
            return child;
        }
        // Of both ends of the pipe: without a parent the child ends.
        drop(tell);
        let told = go.read_exact(&mut [0]).is_ok();
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| told.then(work)));
        // SAFETY: ends the child at once: what the test process would clean up isn't the child's.
        unsafe { libc::_exit(i32::from(!matches!(done, Ok(Some(()))))) }
    }

    /// Waits until it is in the system call read on a descriptor: once it is a target, its calls are those it
    /// makes thereafter, and the end of this one isn't.
    pub fn until_reading(&self, fd: RawFd) {
        // The call's number and its arguments: proc(5).
        let inside = format!("{} {fd:#x} ", libc::SYS_read);
        while !std::fs::read_to_string(format!("/proc/{}/syscall", self.pid)).unwrap().starts_with(&inside) {
            std::thread::yield_now();
        }
    }

    pub fn go(&self) {
        (&self.tell).write_all(b".").unwrap();
    }

    pub fn kill(&self) {
        // SAFETY: a signal to our own child, which wasn't reaped.
        unsafe { libc::kill(self.pid as i32, libc::SIGKILL) };
    }

    /// Its CPU time in ns, if it has ended; panics if it failed.
    pub fn ended(&self) -> Option<u64> {
        self.reap(libc::WNOHANG).map(|(status, cpu_ns)| {
            assert_eq!(status, 0, "the child's work failed; its message is above");
            cpu_ns
        })
    }

    /// Its status, once it has ended.
    pub fn wait(&self) -> i32 {
        self.reap(0).unwrap().0
    }

    fn reap(&self, flags: i32) -> Option<(i32, u64)> {
        let mut status = 0;
        // SAFETY: all zeroes is a valid rusage.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: waits for our own child; both places live until the call returns.
        let pid = unsafe { libc::wait4(self.pid as i32, &mut status, flags, &mut usage) };
        assert!(pid >= 0, "{}", io::Error::last_os_error());
        let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
        (pid > 0).then(|| (status, ns(usage.ru_utime) + ns(usage.ru_stime)))
    }
}
