//! Calls that let others go on, with `record --causal`: semaphores, conditions, barriers, locks, signals, also those of alarms.
//!
//! They wait for nothing; without a wish for causality they cost a look at a flag.

use core::ffi::{c_int, c_uint, c_void};
use core::ptr;

use iotrail_format::call::{Call, WaitKind};
use iotrail_sdk::post::{self, Draft};
use iotrail_sdk::{attach, clock};
use libc::pid_t;

use crate::real::{Real, interpose};
use crate::record::{call, call_errno, draft};

fn on(kind: Call, what: WaitKind, object: *const c_void) -> Draft {
    Draft { kind: what as u8, object: object as i64, ..draft(kind) }
}

#[inline(always)]
fn is_wanted() -> bool {
    !attach::off() && attach::is_causal()
}

/// A call whose result is an error number.
#[inline(always)]
fn release(kind: Call, what: WaitKind, object: *const c_void, run: impl FnOnce() -> c_int) -> c_int {
    if is_wanted() { call_errno(on(kind, what, object), run) } else { run() }
}

/// Frees a lock. MPI's own are not posted, which it takes and frees while it looks for messages.
#[inline(always)]
fn unlock(kind: Call, object: *const c_void, run: impl FnOnce() -> c_int) -> c_int {
    if is_wanted() && !post::is_inside(WaitKind::Mpi as u8) {
        call_errno(on(kind, WaitKind::Lock, object), run)
    } else {
        run()
    }
}

fn signal_to(process: i64, thread: i64, signal: c_int) -> Draft {
    let to = Draft { kind: WaitKind::Signal as u8, object: thread, ..draft(Call::Kill) };
    Draft { pos: signal.into(), aux: process, ..to }
}

#[inline(always)]
fn send_signal(process: pid_t, signal: c_int, run: impl FnOnce() -> c_int) -> c_int {
    if !is_wanted() {
        return run();
    }
    call(signal_to(process.into(), 0, signal), run, |_, _| {})
}

/// An alarm of the process after `first`, and then each `interval`; times in ns.
fn alarm_after(first: i64, interval: i64) -> Draft {
    Draft { kind: WaitKind::Signal as u8, length: first, pos: interval, ..draft(Call::Setitimer) }
}

fn of_timeval(time: libc::timeval) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_usec.saturating_mul(1000))
}

interpose! {
    sem_init => fn(semaphore: *mut libc::sem_t, shared: c_int, value: c_uint) -> c_int, |real| {
        if !is_wanted() {
            return real(semaphore, shared, value);
        }
        let made = on(Call::SemInit, WaitKind::Semaphore, semaphore.cast());
        let made = Draft { length: value.into(), pos: (shared != 0).into(), ..made };
        call(made, || real(semaphore, shared, value), |_, _| {})
    }
    sem_post => fn(semaphore: *mut libc::sem_t) -> c_int, |real| {
        if !is_wanted() {
            return real(semaphore);
        }
        call(on(Call::SemPost, WaitKind::Semaphore, semaphore.cast()), || real(semaphore), |_, _| {})
    }
    // Who finds it free takes a post, too; who looks in vain leaves no row.
    sem_trywait => fn(semaphore: *mut libc::sem_t) -> c_int, |real| {
        let start = if is_wanted() { clock::ticks() } else { 0 };
        let taken = real(semaphore);
        if start != 0 && taken == 0 {
            let took = clock::ticks() - start;
            post::interval(&on(Call::SemWait, WaitKind::Semaphore, semaphore.cast()), start, took, 0, 0);
        }
        taken
    }
    pthread_barrier_init =>
    fn(barrier: *mut libc::pthread_barrier_t, attributes: *const c_void, count: c_uint) -> c_int, |real| {
        if !is_wanted() {
            return real(barrier, attributes, count);
        }
        let mut shared = libc::PTHREAD_PROCESS_PRIVATE;
        if !attributes.is_null() {
            libc::pthread_barrierattr_getpshared(attributes.cast(), &mut shared);
        }
        let made = on(Call::BarrierInit, WaitKind::Barrier, barrier.cast());
        let is_shared = shared == libc::PTHREAD_PROCESS_SHARED;
        let made = Draft { length: count.into(), pos: is_shared.into(), ..made };
        call_errno(made, || real(barrier, attributes, count))
    }
    kill => fn(process: pid_t, signal: c_int) -> c_int, |real| {
        send_signal(process, signal, || real(process, signal))
    }
    tgkill => fn(process: pid_t, thread: pid_t, signal: c_int) -> c_int, |real| {
        send_signal(process, signal, || real(process, thread, signal))
    }
    sigqueue => fn(process: pid_t, signal: c_int, value: libc::sigval) -> c_int, |real| {
        send_signal(process, signal, || real(process, signal, value))
    }
    pthread_kill => fn(thread: libc::pthread_t, signal: c_int) -> c_int, |real| {
        if !is_wanted() {
            return real(thread, signal);
        }
        call_errno(signal_to(attach::pid().into(), thread as i64, signal), || real(thread, signal))
    }
    setitimer =>
    fn(which: c_int, new: *const libc::itimerval, old: *mut libc::itimerval) -> c_int, |real| {
        if which != libc::ITIMER_REAL || new.is_null() || !is_wanted() {
            return real(which, new, old);
        }
        // the program may ask for the old one at the same place
        let libc::itimerval { it_value, it_interval } = ptr::read_unaligned(new);
        call(alarm_after(of_timeval(it_value), of_timeval(it_interval)), || real(which, new, old), |_, _| {})
    }
    alarm => fn(seconds: c_uint) -> c_uint, |real| {
        if !is_wanted() {
            return real(seconds);
        }
        let set = alarm_after(i64::from(seconds) * 1_000_000_000, 0);
        call(set, || i64::from(real(seconds)), |_, _| {}) as c_uint
    }
    ualarm => fn(first: libc::useconds_t, interval: libc::useconds_t) -> libc::useconds_t, |real| {
        if !is_wanted() {
            return real(first, interval);
        }
        let set = alarm_after(i64::from(first) * 1000, i64::from(interval) * 1000);
        // -1 of an unsigned type is failure
        call(set, || real(first, interval) as c_int, |_, _| {}) as libc::useconds_t
    }
    pthread_mutex_unlock => fn(mutex: *mut libc::pthread_mutex_t) -> c_int, |real| {
        unlock(Call::MutexUnlock, mutex.cast(), || real(mutex))
    }
    pthread_rwlock_unlock => fn(rwlock: *mut libc::pthread_rwlock_t) -> c_int, |real| {
        unlock(Call::RwlockUnlock, rwlock.cast(), || real(rwlock))
    }
    pthread_spin_unlock => fn(spin: *mut libc::pthread_spinlock_t) -> c_int, |real| {
        unlock(Call::SpinUnlock, spin.cast_const().cast(), || real(spin))
    }
}

/// Condition variables have two ABIs under one name; see [`Real::versioned`].
macro_rules! wakes {
    ($($name:ident $kind:ident;)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(condition: *mut libc::pthread_cond_t) -> c_int {
            static REAL: Real = Real::versioned(
                match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                }, c"GLIBC_2.3.2");
            // SAFETY: the C library's function of this name and version has this signature.
            unsafe {
                let real: unsafe extern "C-unwind" fn(*mut libc::pthread_cond_t) -> c_int =
                    core::mem::transmute(REAL.get());
                release(Call::$kind, WaitKind::Condition, condition.cast(), || real(condition))
            }
        }
    )*};
}

wakes! {
    pthread_cond_signal CondSignal;
    pthread_cond_broadcast CondBroadcast;
}
