//! The SDK for C: `include/iotrail.h` documents each function. Everything is handed to [`iotrail_sdk`].
//!
//! Constraints: no function panics, whatever it is given; pointers are valid or null, as the header says.

use core::ffi::{CStr, c_char, c_int};

use iotrail_format::record::{
    BUFFER, DISK, MAX_DECLARED_COLUMNS, MAX_NAMES, NETWORK, SERVICE, STITCHED, WORDS,
};
use iotrail_format::segment::NONE;
use iotrail_sdk::context::{Incoming, TraceId, traceparent, tracestate};
use iotrail_sdk::record::{Record, instant};
use iotrail_sdk::request::Crumb;
use iotrail_sdk::{api, clock};

/// # Safety
/// A C string, or null, which is the empty one.
unsafe fn text<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

fn pair(low: u32, high: u32) -> u32 {
    let short = |number: u32| if number < MAX_NAMES { number } else { 0 };
    short(low) | short(high) << 16
}

#[unsafe(no_mangle)]
pub extern "C" fn iotrail_init() -> c_int {
    c_int::from(api::init())
}

/// # Safety
/// A C string or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotrail_symbol(name: *const c_char) -> u32 {
    // SAFETY: the caller's promise.
    match unsafe { text(name) } {
        [] => 0,
        name => api::symbol(name),
    }
}

/// # Safety
/// A C string or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotrail_role(name: *const c_char) {
    // SAFETY: the caller's promise.
    api::role(&String::from_utf8_lossy(unsafe { text(name) }));
}

/// # Safety
/// A C string or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotrail_file(path: *const c_char) -> i64 {
    // SAFETY: the caller's promise.
    api::file(unsafe { text(path) })
}

#[unsafe(no_mangle)]
pub extern "C" fn iotrail_crumb_new() -> i64 {
    api::new_crumb()
}

#[unsafe(no_mangle)]
pub extern "C" fn iotrail_crumb_get() -> i64 {
    api::crumb()
}

#[unsafe(no_mangle)]
pub extern "C" fn iotrail_crumb_set(crumb: i64) -> i64 {
    api::set_crumb(crumb)
}

#[unsafe(no_mangle)]
pub extern "C" fn iotrail_crumb_take(crumb: i64) -> i64 {
    api::take_crumb(crumb)
}

#[unsafe(no_mangle)]
pub extern "C" fn iotrail_stitch(node: u32, parent: i64, child: i64, kind: c_int, weight: i64) {
    if !api::on(u16::from(STITCHED)) || parent == 0 || child == 0 {
        return;
    }
    let mut record = instant(u16::from(STITCHED), kind.clamp(0, 2) as u8, child);
    record.small = node;
    record.words[..2].copy_from_slice(&[parent, weight]);
    api::post(&record, &[]);
}

#[unsafe(no_mangle)]
pub extern "C" fn iotrail_split(parent: i64) -> i64 {
    Crumb::from_raw(parent).split().raw()
}

#[unsafe(no_mangle)]
pub extern "C" fn iotrail_serving(node: u32, parent: i64) -> i64 {
    let child = api::new_crumb();
    iotrail_stitch(node, parent, child, 0, 1);
    child
}

/// Copies a text and its NUL, cut to fit.
///
/// # Safety
/// Room for `room` bytes, or null.
unsafe fn copy(from: &str, to: *mut c_char, room: usize) {
    if to.is_null() {
        return;
    }
    let length = from.len().min(room - 1);
    // SAFETY: the caller's promise.
    unsafe {
        core::ptr::copy_nonoverlapping(from.as_ptr().cast(), to, length);
        to.add(length).write(0);
    }
}

/// # Safety
/// Room as the header says, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotrail_inject(
    request: i64,
    crumb: i64,
    parent: *mut c_char,
    state: *mut c_char,
) -> c_int {
    let header = traceparent(TraceId::of(Crumb::from_raw(request)), Crumb::from_raw(crumb));
    // SAFETY: the caller's promise; the rooms are those of the header.
    unsafe {
        copy(header.as_deref().unwrap_or(""), parent, 56);
        let beside = header.as_ref().map_or(String::new(), |_| tracestate(None, Crumb::from_raw(crumb)));
        copy(&beside, state, 800);
    }
    c_int::from(header.is_some())
}

/// # Safety
/// C strings or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotrail_extract(parent: *const c_char, state: *const c_char) -> i64 {
    // SAFETY: the caller's promise.
    let (parent, state) = unsafe { (text(parent), text(state)) };
    let incoming = core::str::from_utf8(parent)
        .ok()
        .and_then(|parent| Incoming::parse(parent, core::str::from_utf8(state).ok()).ok());
    incoming.map_or_else(Crumb::fresh, |incoming| incoming.serve()).raw()
}

#[unsafe(no_mangle)]
pub extern "C" fn iotrail_service_begin(kind: c_int, component: u32, op: u32, crumb: i64) -> Record {
    begun(u16::from(SERVICE), kind.clamp(0, 2) as u8, pair(component, op), crumb)
}

/// A record that is begun; what isn't wanted begins at 0, for which not even the counter is read.
fn begun(number: u16, kind: u8, small: u32, crumb: i64) -> Record {
    let start = if api::on(number) { clock::ticks() } else { 0 };
    Record { number, kind, extra: 0, small, start, dur: 0, crumb, words: [NONE; WORDS.0] }
}

/// # Safety
/// A record from [`iotrail_service_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotrail_service_about(service: &mut Record, file: i64, pos: i64, length: i64) {
    service.words[1..].copy_from_slice(&[file, pos, length]);
}

/// # Safety
/// A record from [`iotrail_service_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotrail_service_end(service: &mut Record, client: u32, status: c_int) {
    if service.start != 0 && api::on(u16::from(SERVICE)) {
        service.dur = clock::ticks().wrapping_sub(service.start);
        service.words[0] = (i64::from(status) << 32) | i64::from(client);
        api::post(service, &[]);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn iotrail_buffer(
    component: u32,
    cache: u32,
    kind: c_int,
    crumb: i64,
    file: i64,
    pos: i64,
    length: i64,
) {
    if api::on(u16::from(BUFFER)) {
        let mut record = instant(u16::from(BUFFER), kind.clamp(0, 5) as u8, crumb);
        record.small = pair(component, cache);
        record.words[..3].copy_from_slice(&[file, pos, length]);
        api::post(&record, &[]);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn iotrail_transmit(sender: u32, receiver: u32, crumb: i64, length: i64) {
    if api::on(u16::from(NETWORK)) {
        let mut record = instant(u16::from(NETWORK), 0, crumb);
        record.small = pair(sender, receiver);
        record.words[0] = length;
        api::post(&record, &[]);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn iotrail_disk_begin(dev: u32, op: u32, crumb: i64, pos: i64, length: i64) -> Record {
    let mut record = begun(u16::from(DISK), 0, pair(dev, op), crumb);
    record.words = [pos, length, NONE, NONE];
    record
}

/// # Safety
/// A record from [`iotrail_disk_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotrail_disk_issued(disk: &mut Record) {
    disk.words[2] = clock::ticks() as i64;
}

/// # Safety
/// A record from [`iotrail_disk_begin`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotrail_disk_end(disk: &mut Record) {
    if disk.start != 0 && api::on(u16::from(DISK)) {
        disk.dur = clock::ticks().wrapping_sub(disk.start);
        api::post(disk, &[]);
    }
}

/// # Safety
/// A C string or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotrail_declare(description: *const c_char) -> c_int {
    use iotrail_sdk::names::Refused;
    // SAFETY: the caller's promise.
    let Ok(description) = core::str::from_utf8(unsafe { text(description) }) else { return -1 };
    match api::declare(description) {
        Ok(number) => c_int::from(number),
        Err(Refused::Description(_)) => -1,
        Err(Refused::Differs) => -2,
        Err(Refused::TooMany) => -3,
        Err(Refused::NoRoom) => -4,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn iotrail_on(number: c_int) -> c_int {
    u16::try_from(number).map_or(0, |number| c_int::from(api::on(number)))
}

#[unsafe(no_mangle)]
pub extern "C" fn iotrail_ticks() -> u64 {
    clock::ticks()
}

/// # Safety
/// `count` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotrail_post(number: c_int, crumb: i64, values: *const i64, count: usize) {
    // SAFETY: the caller's promise.
    unsafe { iotrail_post_since(0, number, crumb, values, count) };
}

/// # Safety
/// `count` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iotrail_post_since(
    start: u64,
    number: c_int,
    crumb: i64,
    values: *const i64,
    count: usize,
) {
    let Ok(number) = u16::try_from(number) else { return };
    if !api::on(number) || values.is_null() {
        return;
    }
    // SAFETY: the caller's promise.
    let values = unsafe { core::slice::from_raw_parts(values, count.min(MAX_DECLARED_COLUMNS)) };
    let mut record = instant(number, 0, crumb);
    if start != 0 {
        (record.start, record.dur) = (start, record.start.wrapping_sub(start));
    }
    let first = values.len().min(WORDS.0);
    record.words[..first].copy_from_slice(&values[..first]);
    api::post(&record, &values[first..]);
}
