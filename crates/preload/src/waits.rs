//! Calls a program waits in: sockets, polls, locks, conditions, processes, sleep, signals.
//!
//! Locks are tried first, as the C library would find them; only those that have to wait are timed
//! and have a row, so that an uncontended lock stays a few nanoseconds.

use core::ffi::{c_int, c_long, c_uint, c_void};

use iotrail_format::call::{Call, WaitKind};
use iotrail_format::segment::NONE;
use iotrail_sdk::attach;
use iotrail_sdk::post::{self, Draft};
use libc::{pid_t, size_t, ssize_t, timespec};

use crate::real::interpose;
use crate::record::{self, Outcome, call, call_errno, draft, wait_errno};
use crate::{connections, descriptors};

/// A call on a socket; `length` bytes asked for.
#[inline(always)]
fn on_socket<R: Outcome>(kind: Call, fd: c_int, length: i64, run: impl FnOnce() -> R) -> R {
    on_socket_then(kind, fd, length, run, |_, _| {})
}

/// As [`on_socket`]; `after` completes the draft where causality is recorded.
#[inline(always)]
fn on_socket_then<R: Outcome>(
    kind: Call,
    fd: c_int,
    length: i64,
    run: impl FnOnce() -> R,
    after: impl FnOnce(&mut Draft, R),
) -> R {
    if attach::off() {
        return run();
    }
    let target = descriptors::target(fd);
    let mut on = draft(kind);
    on.kind = WaitKind::Socket as u8;
    on.fd = fd;
    on.object = target.object;
    on.aux = target.other_end();
    on.length = length;
    call(on, run, |draft, result| {
        if attach::is_causal() {
            after(draft, result);
        }
    })
}

/// Receives; what is only looked at (MSG_PEEK) is there for the next call, too, and so counts for none.
#[inline(always)]
fn receive(fd: c_int, length: i64, flags: c_int, run: impl FnOnce() -> ssize_t) -> ssize_t {
    on_socket_then(Call::Recv, fd, length, run, |draft, _| {
        if flags & libc::MSG_PEEK != 0 {
            (draft.object, draft.aux) = (0, NONE);
        }
    })
}

/// Sends or receives several messages, whose bytes are not known.
#[inline(always)]
fn several(kind: Call, fd: c_int, run: impl FnOnce() -> c_int) -> c_int {
    on_socket_then(kind, fd, NONE, run, |draft, _| (draft.object, draft.aux) = (0, NONE))
}

/// Waits for a connection.
#[inline(always)]
fn accept_on(fd: c_int, run: impl FnOnce() -> c_int) -> c_int {
    let run = || {
        let made = run();
        if !attach::off() {
            descriptors::forget(made);
        }
        made
    };
    on_socket_then(Call::Accept, fd, NONE, run, |draft, made| {
        if made >= 0 {
            connections::accepted(draft, made);
        }
    })
}

/// Descriptors that came with a message stand for something unknown.
unsafe fn forget_received(message: *const libc::msghdr, result: ssize_t) {
    if result < 0 || message.is_null() || attach::off() {
        return;
    }
    // SAFETY: the call filled the message; the macros walk its control part.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(message);
        while !control.is_null() {
            if (*control).cmsg_level == libc::SOL_SOCKET && (*control).cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(control).cast::<c_int>();
                let bytes = ((*control).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                for i in 0..bytes / size_of::<c_int>() {
                    descriptors::forget(data.add(i).read_unaligned());
                }
            }
            control = libc::CMSG_NXTHDR(message, control);
        }
    }
}

unsafe fn vectors_length(message: *const libc::msghdr) -> i64 {
    // SAFETY: the program passed a message header with its vectors.
    unsafe {
        if message.is_null() || (*message).msg_iov.is_null() || (*message).msg_iovlen > 1024 {
            return NONE;
        }
        let vectors = core::slice::from_raw_parts((*message).msg_iov, (*message).msg_iovlen);
        vectors.iter().fold(0i64, |sum, vector| sum.saturating_add(vector.iov_len as i64))
    }
}

fn nanoseconds(time: *const timespec) -> i64 {
    if time.is_null() {
        return NONE;
    }
    // SAFETY: the program passed a timespec.
    let time = unsafe { &*time };
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// Tries first; waits, and posts, only if that says busy. Where causality is recorded each is posted, but for MPI's own.
#[inline(always)]
fn lock(
    kind: Call,
    what: WaitKind,
    object: *const c_void,
    try_first: impl FnOnce() -> c_int,
    run: impl FnOnce() -> c_int,
) -> c_int {
    if attach::off() {
        return run();
    }
    if !attach::is_causal() || post::is_inside(WaitKind::Mpi as u8) {
        let tried = try_first();
        if tried != libc::EBUSY {
            return tried;
        }
    }
    wait_errno(kind, what, object as i64, NONE, run)
}

/// Waits until one of several descriptors is ready; `ready` says which, where causality is recorded.
#[inline(always)]
fn poll_for(kind: Call, run: impl FnOnce() -> c_int, ready: impl FnOnce() -> Option<c_int>) -> c_int {
    if attach::off() {
        return run();
    }
    let on = Draft { kind: WaitKind::Poll as u8, ..draft(kind) };
    call(on, run, |draft, count| {
        if count > 0
            && attach::is_causal()
            && let Some(fd) = ready()
        {
            draft.fd = fd;
            draft.object = descriptors::known(fd);
        }
    })
}

/// The first from which something can be read, or which has come to its end.
unsafe fn ready_of_poll(fds: *const c_void, count: libc::nfds_t) -> Option<c_int> {
    if fds.is_null() {
        return None;
    }
    // SAFETY: the program passed that many, which the call has filled.
    let fds = unsafe { core::slice::from_raw_parts(fds.cast::<libc::pollfd>(), count as usize) };
    let wanted = libc::POLLIN | libc::POLLRDNORM | libc::POLLHUP | libc::POLLERR;
    fds.iter().find(|one| one.revents & wanted != 0).map(|one| one.fd)
}

/// The first from which something can be read.
unsafe fn ready_of_select(count: c_int, read: *const c_void) -> Option<c_int> {
    if read.is_null() {
        return None;
    }
    (0..count).find(|fd| {
        // SAFETY: the program passed a set for so many descriptors: a bit each, in words of this machine.
        unsafe { *read.cast::<u64>().add(*fd as usize / 64) >> (fd % 64) & 1 != 0 }
    })
}

interpose! {
    accept => fn(fd: c_int, address: *mut c_void, size: *mut c_uint) -> c_int, |real| {
        accept_on(fd, || real(fd, address, size))
    }
    accept4 => fn(fd: c_int, address: *mut c_void, size: *mut c_uint, flags: c_int) -> c_int, |real| {
        accept_on(fd, || real(fd, address, size, flags))
    }
    connect => fn(fd: c_int, address: *const c_void, size: c_uint) -> c_int, |real| {
        on_socket_then(Call::Connect, fd, NONE, || real(fd, address, size), |draft, _| connections::connected(draft, fd))
    }
    send => fn(fd: c_int, data: *const c_void, length: size_t, flags: c_int) -> ssize_t, |real| {
        on_socket(Call::Send, fd, length as i64, || real(fd, data, length, flags))
    }
    sendto =>
    fn(fd: c_int, data: *const c_void, length: size_t, flags: c_int, address: *const c_void, size: c_uint) -> ssize_t, |real| {
        on_socket(Call::Send, fd, length as i64, || real(fd, data, length, flags, address, size))
    }
    sendmsg => fn(fd: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t, |real| {
        on_socket(Call::Send, fd, vectors_length(message), || real(fd, message, flags))
    }
    sendmmsg => fn(fd: c_int, messages: *mut c_void, count: c_uint, flags: c_int) -> c_int, |real| {
        several(Call::Send, fd, || real(fd, messages, count, flags))
    }
    recv => fn(fd: c_int, data: *mut c_void, length: size_t, flags: c_int) -> ssize_t, |real| {
        receive(fd, length as i64, flags, || real(fd, data, length, flags))
    }
    __recv_chk => fn(fd: c_int, data: *mut c_void, length: size_t, room: size_t, flags: c_int) -> ssize_t, |real| {
        receive(fd, length as i64, flags, || real(fd, data, length, room, flags))
    }
    recvfrom =>
    fn(fd: c_int, data: *mut c_void, length: size_t, flags: c_int, address: *mut c_void, size: *mut c_uint) -> ssize_t, |real| {
        receive(fd, length as i64, flags, || real(fd, data, length, flags, address, size))
    }
    // Seven arguments: the last stands on the stack.
    __recvfrom_chk =>
    fn(fd: c_int, data: *mut c_void, length: size_t, room: size_t, flags: c_int, address: *mut c_void, size: *mut c_uint) -> ssize_t, |real| {
        receive(fd, length as i64, flags, || real(fd, data, length, room, flags, address, size))
    }
    recvmsg => fn(fd: c_int, message: *mut libc::msghdr, flags: c_int) -> ssize_t, |real| {
        let result = receive(fd, vectors_length(message), flags, || real(fd, message, flags));
        forget_received(message, result);
        result
    }
    recvmmsg => fn(fd: c_int, messages: *mut c_void, count: c_uint, flags: c_int, timeout: *mut timespec) -> c_int, |real| {
        several(Call::Recv, fd, || real(fd, messages, count, flags, timeout))
    }

    poll => fn(fds: *mut c_void, count: libc::nfds_t, timeout: c_int) -> c_int, |real| {
        poll_for(Call::Poll, || real(fds, count, timeout), || ready_of_poll(fds, count))
    }
    __poll_chk => fn(fds: *mut c_void, count: libc::nfds_t, timeout: c_int, room: size_t) -> c_int, |real| {
        poll_for(Call::Poll, || real(fds, count, timeout, room), || ready_of_poll(fds, count))
    }
    ppoll => fn(fds: *mut c_void, count: libc::nfds_t, timeout: *const timespec, mask: *const c_void) -> c_int, |real| {
        poll_for(Call::Poll, || real(fds, count, timeout, mask), || ready_of_poll(fds, count))
    }
    select => fn(count: c_int, read: *mut c_void, write: *mut c_void, except: *mut c_void, timeout: *mut c_void) -> c_int, |real| {
        poll_for(Call::Select, || real(count, read, write, except, timeout), || ready_of_select(count, read))
    }
    pselect =>
    fn(count: c_int, read: *mut c_void, write: *mut c_void, except: *mut c_void, timeout: *const timespec, mask: *const c_void) -> c_int, |real| {
        poll_for(Call::Select, || real(count, read, write, except, timeout, mask), || ready_of_select(count, read))
    }
    epoll_wait => fn(fd: c_int, events: *mut c_void, count: c_int, timeout: c_int) -> c_int, |real| {
        record::wait(Call::EpollWait, WaitKind::Poll, descriptor(fd), NONE, NONE, || real(fd, events, count, timeout))
    }
    epoll_pwait => fn(fd: c_int, events: *mut c_void, count: c_int, timeout: c_int, mask: *const c_void) -> c_int, |real| {
        record::wait(Call::EpollWait, WaitKind::Poll, descriptor(fd), NONE, NONE, || real(fd, events, count, timeout, mask))
    }
    epoll_pwait2 =>
    fn(fd: c_int, events: *mut c_void, count: c_int, timeout: *const timespec, mask: *const c_void) -> c_int, |real| {
        record::wait(Call::EpollWait, WaitKind::Poll, descriptor(fd), NONE, NONE, || real(fd, events, count, timeout, mask))
    }

    pthread_mutex_lock => fn(mutex: *mut libc::pthread_mutex_t) -> c_int, |real| {
        lock(Call::MutexLock, WaitKind::Lock, mutex.cast(), || libc::pthread_mutex_trylock(mutex), || real(mutex))
    }
    pthread_mutex_timedlock => fn(mutex: *mut libc::pthread_mutex_t, until: *const timespec) -> c_int, |real| {
        lock(Call::MutexLock, WaitKind::Lock, mutex.cast(), || libc::pthread_mutex_trylock(mutex), || real(mutex, until))
    }
    pthread_mutex_clocklock => fn(mutex: *mut libc::pthread_mutex_t, clock: c_int, until: *const timespec) -> c_int, |real| {
        lock(Call::MutexLock, WaitKind::Lock, mutex.cast(), || libc::pthread_mutex_trylock(mutex), || real(mutex, clock, until))
    }
    pthread_rwlock_rdlock => fn(rwlock: *mut libc::pthread_rwlock_t) -> c_int, |real| {
        lock(Call::RwlockRdlock, WaitKind::Lock, rwlock.cast(), || libc::pthread_rwlock_tryrdlock(rwlock), || real(rwlock))
    }
    pthread_rwlock_wrlock => fn(rwlock: *mut libc::pthread_rwlock_t) -> c_int, |real| {
        lock(Call::RwlockWrlock, WaitKind::Lock, rwlock.cast(), || libc::pthread_rwlock_trywrlock(rwlock), || real(rwlock))
    }
    pthread_rwlock_timedrdlock => fn(rwlock: *mut libc::pthread_rwlock_t, until: *const timespec) -> c_int, |real| {
        lock(Call::RwlockRdlock, WaitKind::Lock, rwlock.cast(), || libc::pthread_rwlock_tryrdlock(rwlock), || real(rwlock, until))
    }
    pthread_rwlock_timedwrlock => fn(rwlock: *mut libc::pthread_rwlock_t, until: *const timespec) -> c_int, |real| {
        lock(Call::RwlockWrlock, WaitKind::Lock, rwlock.cast(), || libc::pthread_rwlock_trywrlock(rwlock), || real(rwlock, until))
    }
    pthread_spin_lock => fn(spin: *mut libc::pthread_spinlock_t) -> c_int, |real| {
        lock(Call::SpinLock, WaitKind::Lock, spin.cast_const().cast(), || libc::pthread_spin_trylock(spin), || real(spin))
    }
    pthread_barrier_wait => fn(barrier: *mut libc::pthread_barrier_t) -> c_int, |real| {
        wait_errno(Call::BarrierWait, WaitKind::Barrier, barrier as i64, NONE, || real(barrier))
    }
    pthread_join => fn(thread: libc::pthread_t, value: *mut *mut c_void) -> c_int, |real| {
        wait_errno(Call::PthreadJoin, WaitKind::Thread, 0, thread as i64, || real(thread, value))
    }
    pthread_timedjoin_np => fn(thread: libc::pthread_t, value: *mut *mut c_void, until: *const timespec) -> c_int, |real| {
        wait_errno(Call::PthreadJoin, WaitKind::Thread, 0, thread as i64, || real(thread, value, until))
    }
    sem_wait => fn(semaphore: *mut libc::sem_t) -> c_int, |real| {
        wait_semaphore(semaphore, || real(semaphore))
    }
    sem_timedwait => fn(semaphore: *mut libc::sem_t, until: *const timespec) -> c_int, |real| {
        wait_semaphore(semaphore, || real(semaphore, until))
    }
    sem_clockwait => fn(semaphore: *mut libc::sem_t, clock: c_int, until: *const timespec) -> c_int, |real| {
        wait_semaphore(semaphore, || real(semaphore, clock, until))
    }
    semop => fn(set: c_int, operations: *mut c_void, count: size_t) -> c_int, |real| {
        record::wait(Call::Semop, WaitKind::Semaphore, set.into(), NONE, NONE, || real(set, operations, count))
    }
    semtimedop => fn(set: c_int, operations: *mut c_void, count: size_t, timeout: *const timespec) -> c_int, |real| {
        record::wait(Call::Semop, WaitKind::Semaphore, set.into(), NONE, NONE, || real(set, operations, count, timeout))
    }
    msgsnd => fn(queue: c_int, message: *const c_void, size: size_t, flags: c_int) -> c_int, |real| {
        record::wait(Call::Message, WaitKind::Queue, queue.into(), NONE, size as i64, || real(queue, message, size, flags))
    }
    msgrcv => fn(queue: c_int, message: *mut c_void, size: size_t, kind: c_long, flags: c_int) -> ssize_t, |real| {
        record::wait(Call::Message, WaitKind::Queue, queue.into(), NONE, size as i64, || real(queue, message, size, kind, flags))
    }
    mq_send => fn(queue: c_int, message: *const c_void, size: size_t, priority: c_uint) -> c_int, |real| {
        record::wait(Call::Message, WaitKind::Queue, queue.into(), NONE, size as i64, || real(queue, message, size, priority))
    }
    mq_receive => fn(queue: c_int, message: *mut c_void, size: size_t, priority: *mut c_uint) -> ssize_t, |real| {
        record::wait(Call::Message, WaitKind::Queue, queue.into(), NONE, size as i64, || real(queue, message, size, priority))
    }

    wait => fn(status: *mut c_int) -> pid_t, |real| {
        wait_child(-1, || real(status))
    }
    waitpid => fn(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t, |real| {
        wait_child(pid, || real(pid, status, options))
    }
    wait3 => fn(status: *mut c_int, options: c_int, usage: *mut c_void) -> pid_t, |real| {
        wait_child(-1, || real(status, options, usage))
    }
    wait4 => fn(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut c_void) -> pid_t, |real| {
        wait_child(pid, || real(pid, status, options, usage))
    }
    waitid => fn(kind: c_uint, id: c_uint, information: *mut libc::siginfo_t, options: c_int) -> c_int, |real| {
        wait_any_child(kind, id, information, || real(kind, id, information, options))
    }

    sleep => fn(seconds: c_uint) -> c_uint, |real| {
        let left = record::wait(Call::Sleep, WaitKind::Sleep, 0, NONE, i64::from(seconds) * 1_000_000_000,
            || i64::from(real(seconds)));
        left as c_uint
    }
    usleep => fn(microseconds: c_uint) -> c_int, |real| {
        record::wait(Call::Sleep, WaitKind::Sleep, 0, NONE, i64::from(microseconds) * 1000, || real(microseconds))
    }
    nanosleep => fn(time: *const timespec, left: *mut timespec) -> c_int, |real| {
        record::wait(Call::Sleep, WaitKind::Sleep, 0, NONE, nanoseconds(time), || real(time, left))
    }
    clock_nanosleep => fn(clock: c_int, flags: c_int, time: *const timespec, left: *mut timespec) -> c_int, |real| {
        if attach::off() {
            return real(clock, flags, time, left);
        }
        let mut on = draft(Call::Sleep);
        on.kind = WaitKind::Sleep as u8;
        // With TIMER_ABSTIME the time is a moment, not a length.
        if flags & libc::TIMER_ABSTIME == 0 {
            on.length = nanoseconds(time);
        }
        call_errno(on, || real(clock, flags, time, left))
    }
    pause => fn() -> c_int, |real| {
        record::wait(Call::Pause, WaitKind::Signal, 0, NONE, NONE, || real())
    }
    sigsuspend => fn(mask: *const c_void) -> c_int, |real| {
        record::wait(Call::Pause, WaitKind::Signal, 0, NONE, NONE, || real(mask))
    }
    sigwait => fn(set: *const c_void, signal: *mut c_int) -> c_int, |real| {
        if attach::off() {
            return real(set, signal);
        }
        let on = Draft { kind: WaitKind::Signal as u8, ..draft(Call::Pause) };
        record::call_errno_then(on, || real(set, signal), |draft| {
            if attach::is_causal() && !signal.is_null() {
                draft.pos = (*signal).into();
            }
        })
    }
    sigwaitinfo => fn(set: *const c_void, information: *mut libc::siginfo_t) -> c_int, |real| {
        wait_signal(information, || real(set, information))
    }
    sigtimedwait => fn(set: *const c_void, information: *mut libc::siginfo_t, timeout: *const timespec) -> c_int, |real| {
        wait_signal(information, || real(set, information, timeout))
    }
}

/// Waits for a signal, which the call returns; where the program asks, it says from whom it came.
#[inline(always)]
fn wait_signal(information: *const libc::siginfo_t, run: impl FnOnce() -> c_int) -> c_int {
    if attach::off() {
        return run();
    }
    let on = Draft { kind: WaitKind::Signal as u8, ..draft(Call::Pause) };
    call(on, run, |draft, signal| {
        if signal > 0 && attach::is_causal() {
            draft.pos = signal.into();
            if !information.is_null() {
                // SAFETY: the call filled it; who sent it is there if a process did.
                draft.aux = unsafe { sender((*information).si_code, (*information).si_pid()) };
            }
        }
    })
}

/// The process that sent a signal, if one did (sigaction(2), "The si_code field").
pub fn sender(code: c_int, pid: pid_t) -> i64 {
    if matches!(code, libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL) { pid.into() } else { NONE }
}

fn descriptor(fd: c_int) -> i64 {
    if attach::off() { 0 } else { descriptors::known(fd) }
}

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

#[inline(always)]
fn wait_semaphore(semaphore: *mut libc::sem_t, run: impl FnOnce() -> c_int) -> c_int {
    if attach::off() {
        return run();
    }
    let wait = |run| record::wait(Call::SemWait, WaitKind::Semaphore, semaphore as i64, NONE, NONE, run);
    if attach::is_causal() {
        return wait(run);
    }
    let saved = crate::real::errno();
    // SAFETY: the program passed a semaphore. A thread may be cancelled here even if the semaphore is
    // free (pthreads(7)), but not in sem_trywait.
    unsafe {
        pthread_testcancel();
        if libc::sem_trywait(semaphore) == 0 {
            return 0;
        }
    }
    crate::real::set_errno(saved);
    wait(run)
}

#[inline(always)]
fn wait_child(pid: pid_t, run: impl FnOnce() -> pid_t) -> pid_t {
    if attach::off() {
        return run();
    }
    let mut on = draft(Call::Wait);
    on.kind = WaitKind::Process as u8;
    on.aux = if pid > 0 { pid.into() } else { NONE };
    // 0 says that none had ended
    call(on, run, |draft, child| {
        if child >= 0 {
            draft.aux = child.into();
        }
    })
}

/// As [`wait_child`]; which child it was is in the information, if the program asks for that.
#[inline(always)]
fn wait_any_child(
    kind: c_uint,
    id: c_uint,
    information: *const libc::siginfo_t,
    run: impl FnOnce() -> c_int,
) -> c_int {
    if attach::off() {
        return run();
    }
    let asked = if kind == libc::P_PID { id.into() } else { NONE };
    let on = Draft { kind: WaitKind::Process as u8, aux: asked, ..draft(Call::Wait) };
    call(on, run, |draft, result| {
        if result == 0 && !information.is_null() {
            // SAFETY: the call filled it; 0 says that none had ended.
            draft.aux = unsafe { (*information).si_pid() }.into();
        }
    })
}

/// Condition variables have two ABIs under one name; see [`crate::real::Real::versioned`].
macro_rules! conditions {
    ($($name:ident $version:literal ($($arg:ident: $ty:ty),*);)*) => {$(
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            condition: *mut libc::pthread_cond_t, mutex: *mut libc::pthread_mutex_t, $($arg: $ty),*
        ) -> c_int {
            static REAL: crate::real::Real = crate::real::Real::versioned(
                match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                }, $version);
            // SAFETY: the C library's function of this name and version has this signature.
            unsafe {
                let real: unsafe extern "C-unwind" fn(
                    *mut libc::pthread_cond_t, *mut libc::pthread_mutex_t, $($ty),*) -> c_int =
                    core::mem::transmute(REAL.get());
                wait_errno(Call::CondWait, WaitKind::Condition, condition as i64, mutex as i64, || real(condition, mutex, $($arg),*))
            }
        }
    )*};
}

conditions! {
    pthread_cond_wait c"GLIBC_2.3.2" ();
    pthread_cond_timedwait c"GLIBC_2.3.2" (until: *const timespec);
    pthread_cond_clockwait c"" (clock: c_int, until: *const timespec);
}
