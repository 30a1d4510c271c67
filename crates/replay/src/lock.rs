//! Locks that threads of a replay contend for.

use std::cell::UnsafeCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

use iotrail_causal::{Scripts, Step};

/// A lock, as the recorded program's: who gets it first of those that wait differs between kinds, and with it how long all take.
pub(crate) enum Lock {
    Mutex(Mutex<()>),
    ReadWrite(ReadWrite),
}

/// A lock that a thread has, until it is dropped.
#[expect(dead_code, reason = "what counts is that it is there")]
pub(crate) enum Having<'a> {
    Mutex(MutexGuard<'a, ()>),
    ReadWrite(HavingReadWrite<'a>),
}

impl Lock {
    /// All locks of scripts: those that are shared anywhere are read-write locks.
    pub(crate) fn all(scripts: &Scripts) -> Vec<Self> {
        let mut are_shared = vec![false; scripts.locks as usize];
        for step in scripts.threads.iter().flat_map(|script| &script.steps) {
            if let Step::Share(lock) = step {
                are_shared[*lock as usize] = true;
            }
        }
        let lock = |is_shared| match is_shared {
            true => Self::ReadWrite(ReadWrite::new()),
            false => Self::Mutex(Mutex::new(())),
        };
        are_shared.into_iter().map(lock).collect()
    }

    /// Has it alone.
    pub(crate) fn take(&self) -> Having<'_> {
        match self {
            Self::Mutex(mutex) => Having::Mutex(mutex.lock().unwrap_or_else(PoisonError::into_inner)),
            Self::ReadWrite(lock) => Having::ReadWrite(lock.write()),
        }
    }

    /// Has it with others.
    pub(crate) fn share(&self) -> Having<'_> {
        match self {
            Self::Mutex(_) => self.take(),
            Self::ReadWrite(lock) => Having::ReadWrite(lock.read()),
        }
    }
}

/// The C library's, which has rules of its own for whom it lets in (pthread_rwlockattr_setkind_np(3)).
pub(crate) struct ReadWrite(Box<UnsafeCell<libc::pthread_rwlock_t>>);

// SAFETY: it is made for several threads, and stays where it is.
unsafe impl Send for ReadWrite {}
// SAFETY: as above.
unsafe impl Sync for ReadWrite {}

/// Stays with its thread, as what it refers to can't be used by several.
pub(crate) struct HavingReadWrite<'a>(&'a UnsafeCell<libc::pthread_rwlock_t>);

impl ReadWrite {
    fn new() -> Self {
        Self(Box::new(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER)))
    }

    fn write(&self) -> HavingReadWrite<'_> {
        // SAFETY: it is initialised.
        let status = unsafe { libc::pthread_rwlock_wrlock(self.0.get()) };
        assert_eq!(status, 0, "a script takes a lock that its thread has");
        HavingReadWrite(&self.0)
    }

    fn read(&self) -> HavingReadWrite<'_> {
        // SAFETY: it is initialised.
        let status = unsafe { libc::pthread_rwlock_rdlock(self.0.get()) };
        assert_eq!(status, 0, "a script shares a lock that its thread has");
        HavingReadWrite(&self.0)
    }
}

impl Drop for HavingReadWrite<'_> {
    fn drop(&mut self) {
        // SAFETY: the thread has it.
        unsafe { libc::pthread_rwlock_unlock(self.0.get()) };
    }
}
