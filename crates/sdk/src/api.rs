//! Which recorder a program posts through: its own copy of this crate, or the preloaded library's.
//!
//! Under `iotrail record` the preload library is in the program already, follows its threads and forks and
//! has its segment. A second one would take the process apart into two, so the program's copy of this crate
//! hands everything to the preloaded one, through the table of functions that it exports as
//! [`EXPORTED`].

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::*};

use iotrail_format::segment::{ProcessState, SESSION_ENV};

use crate::names::{self, Refused};
use crate::record::{self, Record};
use crate::{attach, session, sys};

/// Name under which a preloaded recorder exports a function that returns its [`Api`].
pub const EXPORTED: &core::ffi::CStr = c"iotrail_api_2";

/// The functions of a recorder. Its layout is part of [`EXPORTED`]'s version.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Api {
    /// [`record::on`].
    pub on: extern "C" fn(number: u16) -> bool,
    /// [`record::post`]; the second and third argument are the words that follow.
    pub post: unsafe extern "C" fn(record: &Record, more: *const i64, count: usize),
    /// [`record::crumb`].
    pub crumb: extern "C" fn() -> i64,
    /// [`record::set_crumb`].
    pub set_crumb: extern "C" fn(crumb: i64) -> i64,
    /// [`record::take_crumb`].
    pub take_crumb: extern "C" fn(crumb: i64) -> i64,
    /// [`record::new_crumb`].
    pub new_crumb: extern "C" fn() -> i64,
    /// [`names::symbol`].
    pub symbol: unsafe extern "C" fn(text: *const u8, length: usize) -> u32,
    /// [`names::declare`]: the number, or less than 0 (see [`refused`]).
    pub declare: unsafe extern "C" fn(text: *const u8, length: usize) -> i32,
    /// [`names::role`].
    pub role: unsafe extern "C" fn(text: *const u8, length: usize),
    /// Posts a path and returns its id.
    pub file: unsafe extern "C" fn(path: *const u8, length: usize) -> i64,
    /// The name of the node; null if nothing is recorded.
    pub node: unsafe extern "C" fn(length: &mut usize) -> *const u8,
}

/// This copy's functions.
pub static LOCAL: Api = Api {
    on: local_on,
    post: local_post,
    crumb: local_crumb,
    set_crumb: local_set_crumb,
    take_crumb: local_take_crumb,
    new_crumb: local_new_crumb,
    symbol: local_symbol,
    declare: local_declare,
    role: local_role,
    file: local_file,
    node: local_node,
};

extern "C" fn local_on(number: u16) -> bool {
    record::on(number)
}
unsafe extern "C" fn local_post(record: &Record, more: *const i64, count: usize) {
    // SAFETY: the caller's promise: `count` words, or null and 0.
    record::post(record, unsafe { slice(more, count) });
}
extern "C" fn local_crumb() -> i64 {
    record::crumb()
}
extern "C" fn local_set_crumb(crumb: i64) -> i64 {
    record::set_crumb(crumb)
}
extern "C" fn local_take_crumb(crumb: i64) -> i64 {
    record::take_crumb(crumb)
}
extern "C" fn local_new_crumb() -> i64 {
    record::new_crumb()
}
unsafe extern "C" fn local_symbol(text: *const u8, length: usize) -> u32 {
    // SAFETY: the caller's promise: `length` bytes.
    names::symbol(unsafe { slice(text, length) })
}
unsafe extern "C" fn local_declare(text: *const u8, length: usize) -> i32 {
    // SAFETY: as above.
    let text = unsafe { slice(text, length) };
    let declared = core::str::from_utf8(text)
        .map_err(|_| Refused::Description("a description is UTF-8"))
        .and_then(names::declare);
    match declared {
        Ok(number) => i32::from(number),
        Err(Refused::Description(_)) => -1,
        Err(Refused::Differs) => -2,
        Err(Refused::TooMany) => -3,
        Err(Refused::NoRoom) => -4,
    }
}
unsafe extern "C" fn local_role(text: *const u8, length: usize) {
    // SAFETY: as above.
    names::role(unsafe { slice(text, length) });
}
unsafe extern "C" fn local_file(path: *const u8, length: usize) -> i64 {
    // SAFETY: as above.
    let path = unsafe { slice(path, length) };
    let id = iotrail_format::ids::FileId::of_path(path).0;
    crate::post::text(iotrail_format::segment::TextKind::Path, id, path);
    id
}
unsafe extern "C" fn local_node(length: &mut usize) -> *const u8 {
    let Some(control) = session::control() else {
        *length = 0;
        return core::ptr::null();
    };
    *length = (control.node_length as usize).min(control.node.len());
    control.node.as_ptr()
}

/// # Safety
/// `count` values at `from`, or null.
unsafe fn slice<'a, T>(from: *const T, count: usize) -> &'a [T] {
    if from.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(from, count) }
}

/// The preloaded recorder's functions; null if there is none.
static FOREIGN: AtomicPtr<Api> = AtomicPtr::new(core::ptr::null_mut());

#[inline(always)]
fn foreign() -> Option<&'static Api> {
    // SAFETY: null or the table of a library that stays loaded.
    unsafe { FOREIGN.load(Relaxed).as_ref() }
}

const FRESH: u32 = 0;
const BUSY: u32 = 1;
const DONE: u32 = 2;
static STATE: AtomicU32 = AtomicU32::new(FRESH);

/// Joins the recording that this program runs in, if it runs in one: `iotrail record -- CMD` says so in the
/// environment. Everything that needs a name calls it; a program with nothing to name calls it first.
/// Returns whether the program is being recorded.
pub fn init() -> bool {
    if STATE.load(Acquire) != DONE {
        begin();
    }
    on(0) || !attach::off()
}

#[cold]
fn begin() {
    if STATE.compare_exchange(FRESH, BUSY, AcqRel, Acquire).is_err() {
        while STATE.load(Acquire) != DONE {
            // SAFETY: no arguments.
            unsafe { sys::sched_yield() };
        }
        return;
    }
    // SAFETY: a NUL-terminated name; the function found is of the type that EXPORTED stands for.
    unsafe {
        let exported = libc::dlsym(libc::RTLD_DEFAULT, EXPORTED.as_ptr());
        if !exported.is_null() {
            let table = core::mem::transmute::<*mut libc::c_void, extern "C" fn() -> *const Api>(exported);
            FOREIGN.store(table().cast_mut(), Release);
        }
    }
    if foreign().is_none()
        && let Some(session) = std::env::var_os(SESSION_ENV)
        && attach::init(session.as_encoded_bytes())
    {
        attach::describe();
        // SAFETY: a function that stays.
        unsafe { libc::atexit(ended) };
    }
    STATE.store(DONE, Release);
}

extern "C" fn ended() {
    if !attach::off() {
        attach::image_ends(ProcessState::Exited, -1);
    }
}

/// See [`record::on`].
#[inline(always)]
#[must_use]
pub fn on(number: u16) -> bool {
    match foreign() {
        None => record::on(number),
        Some(api) => (api.on)(number),
    }
}

/// See [`record::post`].
#[inline(always)]
pub fn post(record: &Record, more: &[i64]) {
    match foreign() {
        None => record::post(record, more),
        // SAFETY: as many words as said.
        Some(api) => unsafe { (api.post)(record, more.as_ptr(), more.len()) },
    }
}

/// See [`record::crumb`].
#[inline(always)]
#[must_use]
pub fn crumb() -> i64 {
    match foreign() {
        None => record::crumb(),
        Some(api) => (api.crumb)(),
    }
}

/// See [`record::set_crumb`].
#[inline(always)]
pub fn set_crumb(crumb: i64) -> i64 {
    match foreign() {
        None => record::set_crumb(crumb),
        Some(api) => (api.set_crumb)(crumb),
    }
}

/// See [`record::take_crumb`].
#[inline(always)]
pub fn take_crumb(crumb: i64) -> i64 {
    match foreign() {
        None => record::take_crumb(crumb),
        Some(api) => (api.take_crumb)(crumb),
    }
}

/// See [`record::new_crumb`].
#[inline(always)]
#[must_use]
pub fn new_crumb() -> i64 {
    match foreign() {
        None => record::new_crumb(),
        Some(api) => (api.new_crumb)(),
    }
}

fn table() -> &'static Api {
    init();
    foreign().unwrap_or(&LOCAL)
}

/// See [`names::symbol`].
#[must_use]
pub fn symbol(text: &[u8]) -> u32 {
    // SAFETY: as many bytes as said.
    unsafe { (table().symbol)(text.as_ptr(), text.len()) }
}

/// See [`names::declare`].
///
/// # Errors
/// [`Refused`].
pub fn declare(description: &str) -> Result<u16, Refused> {
    // SAFETY: as many bytes as said.
    let number = unsafe { (table().declare)(description.as_ptr(), description.len()) };
    u16::try_from(number).map_err(|_| match number {
        // What exactly is wrong, the reader of the description says.
        -1 => iotrail_format::record::Declaration::parse(description)
            .err()
            .map_or(Refused::Description("its description can't be read"), |bad| Refused::Description(bad.0)),
        -2 => Refused::Differs,
        -3 => Refused::TooMany,
        _ => Refused::NoRoom,
    })
}

/// See [`names::role`].
pub fn role(name: &str) {
    // SAFETY: as many bytes as said.
    unsafe { (table().role)(name.as_ptr(), name.len()) }
}

/// Names the file of an absolute path and returns its id, by which records name it.
#[must_use]
pub fn file(path: &[u8]) -> i64 {
    // SAFETY: as many bytes as said.
    unsafe { (table().file)(path.as_ptr(), path.len()) }
}

/// The name of this node, for messages to others; empty if nothing is recorded.
#[must_use]
pub fn node() -> &'static str {
    let mut length = 0;
    // SAFETY: the table's own text, which stays.
    let bytes = unsafe { slice((table().node)(&mut length), length) };
    core::str::from_utf8(bytes).unwrap_or("")
}
