//! Asynchronous I/O: POSIX AIO (aio(7)), whose threads are inside the C library, and the kernel's own through
//! `io_submit` (libaio, or `syscall`).
//!
//! A request has one row, from its submission until the program learned that it is complete, posted by the thread that
//! learned it. What a request asks for is kept here meanwhile: the program may reuse its control block.

use core::ffi::{c_int, c_long, c_void};
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use iotrail_format::call::Call;
use iotrail_format::segment::{NONE, UnseenKind};
use iotrail_sdk::post::{self, Draft};
use iotrail_sdk::{attach, clock};
use libc::{aiocb, iovec, ssize_t, timespec};

use crate::real::{Real, interpose};
use crate::{descriptors, files};

/// Requests followed at once; of those beyond it is said that they were not seen.
const MAX: usize = 4096;
/// Entries looked at for one request.
const PROBES: usize = 64;

/// A request under way.
struct Request {
    /// Address of its control block; 0 free, 1 being filled.
    key: AtomicUsize,
    start: AtomicU64,
    /// Call number, and the descriptor above it.
    what: AtomicU64,
    object: AtomicI64,
    pos: AtomicI64,
    length: AtomicI64,
}

static REQUESTS: [Request; MAX] = [const {
    Request {
        key: AtomicUsize::new(0),
        start: AtomicU64::new(0),
        what: AtomicU64::new(0),
        object: AtomicI64::new(0),
        pos: AtomicI64::new(0),
        length: AtomicI64::new(0),
    }
}; MAX];
/// Requests under way; without any, nothing is looked for.
static PENDING: AtomicU32 = AtomicU32::new(0);

fn places(key: usize) -> impl Iterator<Item = &'static Request> {
    let first = (key >> 6).wrapping_mul(0x9e37_79b9) % MAX;
    (0..PROBES).map(move |probe| &REQUESTS[(first + probe) % MAX])
}

/// Keeps a request that is about to be submitted.
fn begin(key: usize, call: Call, fd: c_int, pos: i64, length: i64) {
    let object = descriptors::known(fd);
    for request in places(key) {
        if request.key.load(Relaxed) != 0 || request.key.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            continue;
        }
        request.what.store(call as u64 | u64::from(fd as u32) << 32, Relaxed);
        request.object.store(object, Relaxed);
        request.pos.store(pos, Relaxed);
        request.length.store(length, Relaxed);
        request.start.store(clock::ticks(), Relaxed);
        PENDING.fetch_add(1, Relaxed);
        request.key.store(key, Release);
        return;
    }
    post::unseen(UnseenKind::NativeAio, object, 1);
}

/// Takes a request off: it ended with `result`, a negative error number where it failed, or with `None` never began.
fn end(key: usize, result: Option<i64>) {
    if PENDING.load(Relaxed) == 0 {
        return;
    }
    for request in places(key) {
        if request.key.load(Acquire) != key {
            continue;
        }
        let what = request.what.load(Relaxed);
        let draft = Draft {
            opcode: what as u16,
            kind: 0,
            fd: (what >> 32) as c_int,
            object: request.object.load(Relaxed),
            pos: request.pos.load(Relaxed),
            length: request.length.load(Relaxed),
            aux: NONE,
        };
        let start = request.start.load(Relaxed);
        // Another thread may have learned of it at the same time.
        if request.key.compare_exchange(key, 0, AcqRel, Relaxed).is_err() {
            return;
        }
        PENDING.fetch_sub(1, Relaxed);
        if let Some(result) = result {
            let error = if result < 0 { (-result) as u8 } else { 0 };
            post::completed(&draft, start, if result < 0 { -1 } else { result }, error);
        }
        return;
    }
}

// -- POSIX AIO

static ERROR: Real = Real::new(c"aio_error");
/// Where glibc keeps what a request returned (`struct aiocb`, rt/aio.h: `__return_value`).
const RETURNED: usize = 120;

/// Posts the row of a request that is complete by now.
unsafe fn look_at(control: *const aiocb) {
    if PENDING.load(Relaxed) == 0 || control.is_null() {
        return;
    }
    // SAFETY: the program passed a control block; `aio_error` only reads it.
    unsafe {
        let error: unsafe extern "C-unwind" fn(*const aiocb) -> c_int = core::mem::transmute(ERROR.get());
        let code = error(control);
        if code != libc::EINPROGRESS {
            let returned = control.cast::<u8>().add(RETURNED).cast::<isize>().read() as i64;
            end(control as usize, Some(if code == 0 { returned } else { -i64::from(code) }));
        }
    }
}

unsafe fn submit(call: Call, control: *mut aiocb, run: impl FnOnce() -> c_int) -> c_int {
    if attach::off() || control.is_null() {
        return run();
    }
    // SAFETY: the program passed a control block.
    unsafe { keep(call, control) };
    let result = run();
    if result != 0 {
        end(control as usize, None);
    }
    result
}

unsafe fn keep(call: Call, control: *const aiocb) {
    // SAFETY: as the caller says.
    let control = unsafe { &*control };
    let places = call != Call::AioFsync;
    let (pos, length) = if places { (control.aio_offset, control.aio_nbytes as i64) } else { (NONE, NONE) };
    begin(core::ptr::from_ref(control) as usize, call, control.aio_fildes, pos, length);
}

interpose! {
    aio_read, aio_read64 => fn(control: *mut aiocb) -> c_int, |real| {
        submit(Call::AioRead, control, || real(control))
    }
    aio_write, aio_write64 => fn(control: *mut aiocb) -> c_int, |real| {
        submit(Call::AioWrite, control, || real(control))
    }
    aio_fsync, aio_fsync64 => fn(operation: c_int, control: *mut aiocb) -> c_int, |real| {
        submit(Call::AioFsync, control, || real(operation, control))
    }
    lio_listio, lio_listio64 =>
    fn(mode: c_int, list: *const *mut aiocb, count: c_int, event: *mut c_void) -> c_int, |real| {
        if attach::off() || list.is_null() {
            return real(mode, list, count, event);
        }
        let controls = core::slice::from_raw_parts(list, count.max(0) as usize);
        for control in controls.iter().filter(|control| !control.is_null()) {
            match (**control).aio_lio_opcode {
                libc::LIO_READ => keep(Call::AioRead, *control),
                libc::LIO_WRITE => keep(Call::AioWrite, *control),
                _ => {}
            }
        }
        let result = real(mode, list, count, event);
        if mode == libc::LIO_WAIT {
            controls.iter().for_each(|control| look_at(*control));
        }
        result
    }
    aio_error, aio_error64 => fn(control: *const aiocb) -> c_int, |real| {
        let result = real(control);
        if result != libc::EINPROGRESS {
            look_at(control);
        }
        result
    }
    aio_return, aio_return64 => fn(control: *mut aiocb) -> ssize_t, |real| {
        look_at(control);
        real(control)
    }
    aio_suspend, aio_suspend64 =>
    fn(list: *const *const aiocb, count: c_int, timeout: *const timespec) -> c_int, |real| {
        let result = real(list, count, timeout);
        if !list.is_null() {
            core::slice::from_raw_parts(list, count.max(0) as usize).iter().for_each(|control| look_at(*control));
        }
        result
    }
}

// -- the kernel's

/// `struct iocb` (linux/aio_abi.h).
#[repr(C)]
pub struct Iocb {
    data: u64,
    key: u32,
    flags: u32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
}

/// `struct io_event`.
#[repr(C)]
pub struct IoEvent {
    data: u64,
    object: u64,
    result: i64,
    second: i64,
}

/// Submits `count` requests; the result is how many the kernel took, or negative.
pub unsafe fn submitting(count: c_long, list: *const *const Iocb, run: impl FnOnce() -> c_long) -> c_long {
    // More than the table holds is no list that a program passes.
    if attach::off() || list.is_null() || !(0..=65_536).contains(&count) {
        return run();
    }
    // SAFETY: the program passed `count` control blocks.
    let controls = unsafe { core::slice::from_raw_parts(list, count as usize) };
    for control in controls {
        // SAFETY: as above.
        let Some(asked) = (unsafe { control.as_ref() }) else { break };
        let bytes = asked.bytes as i64;
        let vectors = || files::total(asked.buffer as *const iovec, bytes.clamp(0, 1025) as c_int);
        let (call, length) = match asked.opcode {
            0 => (Call::AioRead, bytes),
            1 => (Call::AioWrite, bytes),
            2 | 3 => (Call::AioFsync, NONE),
            7 => (Call::AioRead, vectors()),
            8 => (Call::AioWrite, vectors()),
            // Polls move nothing.
            _ => continue,
        };
        let pos = if call == Call::AioFsync { NONE } else { asked.offset };
        begin(*control as usize, call, asked.fd as c_int, pos, length);
    }
    let taken = run();
    for control in &controls[taken.clamp(0, count) as usize..] {
        end(*control as usize, None);
    }
    taken
}

/// Takes completed requests; the result is how many.
pub unsafe fn getting(events: *const IoEvent, run: impl FnOnce() -> c_long) -> c_long {
    let count = run();
    if count > 0 && !attach::off() && !events.is_null() {
        // SAFETY: the kernel filled so many.
        for event in unsafe { core::slice::from_raw_parts(events, count as usize) } {
            end(event.object as usize, Some(event.result));
        }
    }
    count
}

interpose! {
    io_submit => fn(context: *mut c_void, count: c_long, list: *const *const Iocb) -> c_int, |real| {
        submitting(count, list, || real(context, count, list).into()) as c_int
    }
    io_getevents =>
    fn(context: *mut c_void, least: c_long, most: c_long, events: *mut IoEvent, timeout: *mut timespec) -> c_int, |real| {
        getting(events, || real(context, least, most, events, timeout).into()) as c_int
    }
    io_pgetevents =>
    fn(context: *mut c_void, least: c_long, most: c_long, events: *mut IoEvent, timeout: *mut timespec, mask: *mut c_void) -> c_int, |real| {
        getting(events, || real(context, least, most, events, timeout, mask).into()) as c_int
    }
}
