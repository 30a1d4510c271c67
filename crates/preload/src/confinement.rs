//! seccomp(2): a filter may kill the program for a system call that is the recorder's and not its own.
//!
//! What the recorder needs is done ahead of the call that installs a filter; from then on the thread posts into
//! memory that is there already and makes no system call of its own ([`iotrail_sdk::sys::syscall`] refuses them).
//! Calls that would need one are dropped and counted. A forked child has no memory to post into, and an image that
//! `exec` makes under a filter doesn't attach ([`iotrail_sdk::seccomp`]): both are said by the process they come
//! from.

use core::ffi::{c_int, c_long};

use iotrail_format::segment::UnseenKind;
use iotrail_sdk::thread::{self, Confinement};
use iotrail_sdk::{attach, post};

use crate::{descriptors, real};

// Operations and flags of seccomp(2) (linux/seccomp.h).
const SECCOMP_SET_MODE_STRICT: usize = 0;
const SECCOMP_SET_MODE_FILTER: usize = 1;
const SECCOMP_FILTER_FLAG_TSYNC: usize = 1;

/// A filter about to be installed.
struct Filter {
    how: Confinement,
    all_threads: bool,
}

/// Makes a prctl that may install a filter.
pub fn with_prctl(option: c_int, mode: usize, run: impl FnOnce() -> c_int) -> c_int {
    let how = match (option, mode as u32) {
        (libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_STRICT) => Confinement::Strict,
        (libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER) => Confinement::Filter,
        _ => return run(),
    };
    install(&Filter { how, all_threads: false }, || c_long::from(run())) as c_int
}

/// Makes a `syscall(SYS_seccomp, operation, flags, …)`.
pub fn with_seccomp(operation: usize, flags: usize, run: impl FnOnce() -> c_long) -> c_long {
    let how = match operation {
        SECCOMP_SET_MODE_STRICT => Confinement::Strict,
        SECCOMP_SET_MODE_FILTER => Confinement::Filter,
        _ => return run(),
    };
    install(&Filter { how, all_threads: flags & SECCOMP_FILTER_FLAG_TSYNC != 0 }, run)
}

fn install(filter: &Filter, run: impl FnOnce() -> c_long) -> c_long {
    if attach::off() {
        return run();
    }
    let first = !thread::is_confined();
    if first {
        descriptors::classify_all();
        real::resolve_all();
        attach::prepare_confinement();
    }
    let strict = filter.how == Confinement::Strict;
    if first && strict {
        // Nothing can be posted afterwards.
        say();
    }
    let result = run();
    // With TSYNC the result may be a thread that can't follow, and SECCOMP_FILTER_FLAG_NEW_LISTENER gives a
    // descriptor: only what is negative surely installed nothing.
    if result >= 0 {
        attach::confine(filter.how, filter.all_threads);
        if first && !strict {
            say();
        }
    }
    result
}

/// Posts that calls of a process under a filter are missing: of this one, or of one that it is about to make.
pub fn say() {
    post::unseen(UnseenKind::Seccomp, 0, 1);
}
