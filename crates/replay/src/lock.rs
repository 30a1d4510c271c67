//! Locks that threads of a replay contend for.

use std::cell::UnsafeCell;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use iotrail_causal::{Pauses, Scripts, Step};

use crate::run::{is_stopped, now, until};

/// A lock, as the recorded program's: who gets it first of those that wait differs between kinds, and with it how long all take.
pub(crate) struct Lock {
    kind: Kind,
    /// How long threads sleep between tries; none where they wait for it.
    pauses: Option<Pauses>,
}

enum Kind {
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
        let lock = |(is_shared, number)| Self {
            kind: if is_shared { Kind::ReadWrite(ReadWrite::new()) } else { Kind::Mutex(Mutex::new(())) },
            pauses: scripts.tried.get(&number).cloned(),
        };
        are_shared.into_iter().zip(0..).map(lock).collect()
    }

    /// Has it, alone or with others. Sleeps between tries take so many times as long as recorded. None if the replay was stopped meanwhile.
    pub(crate) fn take(&self, shares: bool, scale: f64) -> Option<Having<'_>> {
        let Some(pauses) = &self.pauses else { return Some(self.wait(shares)) };
        for number in 0.. {
            if let Some(having) = self.try_once(shares) {
                return Some(having);
            }
            if is_stopped() {
                break;
            }
            until(now() + (pauses.at(number) as f64 * scale) as i64);
        }
        None
    }

    fn wait(&self, shares: bool) -> Having<'_> {
        match &self.kind {
            Kind::Mutex(mutex) => Having::Mutex(mutex.lock().unwrap_or_else(PoisonError::into_inner)),
            Kind::ReadWrite(lock) if shares => Having::ReadWrite(lock.read()),
            Kind::ReadWrite(lock) => Having::ReadWrite(lock.write()),
        }
    }

    fn try_once(&self, shares: bool) -> Option<Having<'_>> {
        match &self.kind {
            Kind::Mutex(mutex) => match mutex.try_lock() {
                Ok(guard) => Some(Having::Mutex(guard)),
                Err(TryLockError::Poisoned(poisoned)) => Some(Having::Mutex(poisoned.into_inner())),
                Err(TryLockError::WouldBlock) => None,
            },
            Kind::ReadWrite(lock) => lock.try_once(shares).map(Having::ReadWrite),
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

    fn try_once(&self, shares: bool) -> Option<HavingReadWrite<'_>> {
        let lock = self.0.get();
        // SAFETY: it is initialised.
        let status = unsafe {
            if shares { libc::pthread_rwlock_tryrdlock(lock) } else { libc::pthread_rwlock_trywrlock(lock) }
        };
        (status == 0).then(|| HavingReadWrite(&self.0))
    }
}

impl Drop for HavingReadWrite<'_> {
    fn drop(&mut self) {
        // SAFETY: the thread has it.
        unsafe { libc::pthread_rwlock_unlock(self.0.get()) };
    }
}

#[cfg(test)]
mod tests {
    use iotrail_causal::Script;

    use super::*;

    #[test]
    fn who_tries_in_vain_has_nothing_to_give_back() {
        let steps = vec![Step::Share(0), Step::Lock(1)];
        let tried = [0, 1].map(|lock| (lock, Pauses::new(vec![1]).expect("a pause"))).into();
        let scripts = Scripts { threads: vec![Script { steps }], locks: 2, tried, ..Scripts::default() };
        for (lock, is_shared) in Lock::all(&scripts).iter().zip([true, false]) {
            let mine = lock.take(false, 1.0);
            assert!(mine.is_some());
            for shares in [false, true] {
                assert!(lock.try_once(shares).is_none(), "another one has it");
                assert!(lock.try_once(shares).is_none(), "still");
            }
            drop(mine);
            let shared = lock.take(true, 1.0);
            assert!(lock.try_once(false).is_none());
            assert_eq!(lock.try_once(true).is_some(), is_shared);
            drop(shared);
            assert!(lock.try_once(false).is_some());
        }
    }
}
