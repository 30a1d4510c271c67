//! The library's and the threads' beginning and end.

use core::ffi::{c_char, c_int, c_void};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering::*};

use iotrail_format::call::{Call, WaitKind};
use iotrail_format::ids::FileId;
use iotrail_format::segment::{NONE, ProcessState, SESSION_ENV, TextKind, UnseenKind};
use iotrail_sdk::context::Incoming;
use iotrail_sdk::post::{Draft, Pending};
use iotrail_sdk::{attach, clock, post, record, thread, throttle};
use libc::{pthread_attr_t, pthread_t};

use crate::real::interpose;
use crate::{confinement, descriptors, paths, stream, unseen};

/// Room for one environment variable with a path.
const VARIABLE: usize = 4352;
static mut PRELOAD_VARIABLE: [u8; VARIABLE] = [0; VARIABLE];
static mut SESSION_VARIABLE: [u8; 512] = [0; 512];
/// pthread key whose destructor tells a thread's end.
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);
/// Status given to exit; -1 none.
static STATUS: AtomicI32 = AtomicI32::new(-1);

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = begin;
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// glibc passes the environment to constructors; `environ` may not be set up yet by then.
extern "C" fn begin(_count: c_int, _arguments: *const *const c_char, environment: *const *const c_char) {
    let Some(session) = variable(environment, SESSION_ENV.as_bytes()) else { return };
    let preload = variable(environment, b"LD_PRELOAD").unwrap_or(b"");
    keep((&raw mut PRELOAD_VARIABLE).cast(), VARIABLE, b"LD_PRELOAD=", ours(preload));
    keep((&raw mut SESSION_VARIABLE).cast(), 512, b"IOTRAIL_SESSION=", session);
    if !attach::init(session) {
        return;
    }
    let rank = rank(environment);
    throttle::begin_image(rank);
    // SAFETY: registers functions that stay; this library is never unloaded.
    unsafe {
        libc::pthread_atfork(Some(before_fork), Some(forked_parent), Some(forked_child));
        on_exit(exited, core::ptr::null_mut());
        let mut key = 0;
        if libc::pthread_key_create(&raw mut key, Some(thread_ended)) == 0 {
            KEY.store(key, Relaxed);
        }
    }
    paths::read_cwd(FileId::NONE);
    describe();
    if unseen::is_go() {
        post::unseen(UnseenKind::Go, 0, 1);
    }
    if let Some(header) = attach::header() {
        header.rank.store(rank, Relaxed);
    }
    go_on_for(variable(environment, b"TRACEPARENT"), variable(environment, b"TRACESTATE"));
}

/// A program that was started for a request, as its environment says, works for it: its first thread's calls and CPU time
/// are the request's. What another tracing system says is for the program to read.
fn go_on_for(traceparent: Option<&[u8]>, tracestate: Option<&[u8]>) {
    if let (Some(parent), Some(state)) = (traceparent, tracestate)
        && let (Ok(parent), Ok(state)) = (core::str::from_utf8(parent), core::str::from_utf8(state))
        && let Ok(incoming) = Incoming::parse(parent, Some(state))
        && !incoming.foreign
    {
        record::set_crumb(incoming.serve().raw());
    }
}

/// The entry of LD_PRELOAD that names this library; others are the program's business.
fn ours(preload: &[u8]) -> &[u8] {
    preload
        .split(|&byte| byte == b':' || byte == b' ')
        .find(|path| path.windows(18).any(|part| part == b"libiotrail_preload"))
        .unwrap_or(b"")
}

/// The value of a variable.
fn variable<'a>(environment: *const *const c_char, name: &[u8]) -> Option<&'a [u8]> {
    if environment.is_null() {
        return None;
    }
    // SAFETY: a NULL-terminated array of C strings that lives as long as the program.
    unsafe {
        let mut at = environment;
        while !(*at).is_null() {
            let text = core::ffi::CStr::from_ptr(*at).to_bytes();
            if text.len() > name.len() && text.starts_with(name) && text[name.len()] == b'=' {
                return Some(&text[name.len() + 1..]);
            }
            at = at.add(1);
        }
    }
    None
}

fn keep(target: *mut u8, room: usize, name: &[u8], value: &[u8]) {
    if value.is_empty() || name.len() + value.len() + 1 > room {
        return;
    }
    // SAFETY: the constructor runs before other threads; the target holds `room` bytes.
    unsafe {
        core::ptr::copy_nonoverlapping(name.as_ptr(), target, name.len());
        core::ptr::copy_nonoverlapping(value.as_ptr(), target.add(name.len()), value.len());
        target.add(name.len() + value.len()).write(0);
    }
}

/// `LD_PRELOAD=…` and `IOTRAIL_SESSION=…` for environments that lack them; null before recording.
pub fn variables() -> (*const c_char, *const c_char) {
    // SAFETY: written once, by the constructor.
    unsafe {
        if PRELOAD_VARIABLE[0] == 0 {
            return (core::ptr::null(), core::ptr::null());
        }
        ((&raw const PRELOAD_VARIABLE).cast(), (&raw const SESSION_VARIABLE).cast())
    }
}

/// The MPI rank as launchers tell it: Open MPI, MPICH and Intel MPI, PMIx, Slurm.
fn rank(environment: *const *const c_char) -> c_int {
    for name in ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"] {
        if let Some(text) = variable(environment, name.as_bytes())
            && let Ok(text) = core::str::from_utf8(text)
            && let Ok(rank) = text.parse()
        {
            return rank;
        }
    }
    -1
}

/// Posts who this image is.
fn describe() {
    attach::describe();
    paths::with_cwd(|cwd| {
        post::text(TextKind::Cwd, 0, cwd);
    });
}

extern "C" fn end() {
    if attach::off() {
        return;
    }
    stream::flush_at_exit();
    unseen::post_counts();
    attach::image_ends(ProcessState::Exited, STATUS.load(Relaxed));
}

unsafe extern "C" {
    fn on_exit(run: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

/// Registered before all others, and so called after them, and after all destructors: the one place
/// that knows the status of a program whose `main` returned.
extern "C" fn exited(status: c_int, _argument: *mut c_void) {
    if !attach::off() {
        attach::image_ends(ProcessState::Exited, status & 0xff);
    }
}

/// The program calls exit.
pub fn exiting(status: c_int) {
    STATUS.store(status & 0xff, Relaxed);
}

extern "C" fn before_fork() {
    // A thread under a filter of SECCOMP_MODE_STRICT can't fork.
    if !attach::off() && attach::is_causal() {
        attach::before_fork();
    }
}

extern "C" fn forked_parent() {
    if !attach::off() {
        if thread::is_confined() {
            confinement::say();
        }
        descriptors::share_all();
    }
}

extern "C" fn forked_child() {
    STATUS.store(-1, Relaxed);
    descriptors::share_all();
    let (at, maker) = attach::forked();
    // The segment begins now, so that the process has its true start; exe and directory are its parent's.
    if !attach::off() {
        describe();
        throttle::begin_fork();
    }
    if maker != 0 && !attach::off() && attach::is_causal() {
        let kind = WaitKind::Process as u8;
        let fork = Draft { opcode: Call::Fork as u16, kind, aux: maker, ..CREATION };
        post::interval(&fork, at, clock::ticks().wrapping_sub(at), 0, 0);
    }
}

unsafe extern "C" fn thread_ended(_value: *mut c_void) {
    attach::thread_ends();
}

type Start = extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// What a new thread needs, from its creator.
struct Starting {
    taken: AtomicU32,
    /// Whether its creator is under a seccomp filter, which it inherits.
    confined: AtomicBool,
    /// Its lineage, where threads are followed.
    lineage: AtomicU64,
    start: core::cell::UnsafeCell<Option<Start>>,
    argument: core::cell::UnsafeCell<*mut c_void>,
}

// SAFETY: between taking a box and its thread's first step only these two touch it, in that order.
unsafe impl Sync for Starting {}

impl Starting {
    const fn new() -> Self {
        Self {
            taken: AtomicU32::new(0),
            confined: AtomicBool::new(false),
            lineage: AtomicU64::new(0),
            start: core::cell::UnsafeCell::new(None),
            argument: core::cell::UnsafeCell::new(core::ptr::null_mut()),
        }
    }
}

/// Threads that may be starting at the same moment; more are followed from their first call on.
const AT_ONCE: usize = 256;
static STARTING: [Starting; AT_ONCE] = [const { Starting::new() }; AT_ONCE];

extern "C-unwind" fn thread_begins(argument: *mut c_void) -> *mut c_void {
    // SAFETY: pthread_create below passed a taken box, filled before the thread was made.
    let (start, argument, lineage) = unsafe {
        let packed = &*argument.cast::<Starting>();
        let taken = (*packed.start.get(), *packed.argument.get(), packed.lineage.load(Relaxed));
        if packed.confined.load(Relaxed) {
            thread::confine(thread::Confinement::Filter, false);
        }
        packed.taken.store(0, Release);
        taken
    };
    let now = clock::ticks();
    attach::thread_began(now);
    throttle::begin_thread(lineage);
    if attach::is_causal() {
        // SAFETY: always succeeds.
        let own = unsafe { libc::pthread_self() } as i64;
        post::interval(&Draft { object: own, ..CREATION }, now, 0, 0, 0);
    }
    let key = KEY.load(Relaxed);
    if key != u32::MAX {
        // SAFETY: a key of ours; any value but null makes the destructor run.
        unsafe { libc::pthread_setspecific(key, core::ptr::dangling()) };
    }
    match start {
        Some(start) => start(argument),
        None => core::ptr::null_mut(),
    }
}

/// A thread is created, and says its own handle when it begins, with `record --causal`: threads don't begin in the order in which they
/// were created.
const CREATION: Draft = Draft {
    opcode: Call::PthreadCreate as u16,
    kind: WaitKind::Thread as u8,
    fd: -1,
    object: 0,
    pos: NONE,
    length: NONE,
    aux: NONE,
};

fn begin_creation() -> Option<Pending> {
    if attach::is_causal() { post::begin(&CREATION) } else { None }
}

interpose! {
    pthread_create =>
    fn(thread: *mut pthread_t, attributes: *const pthread_attr_t, start: Start, argument: *mut c_void) -> c_int, |real| {
        if attach::off() {
            return real(thread, attributes, start, argument);
        }
        let free = STARTING
            .iter()
            .find(|b| b.taken.load(Relaxed) == 0 && b.taken.compare_exchange(0, 1, Acquire, Relaxed).is_ok());
        let Some(free) = free else { return real(thread, attributes, start, argument) };
        *free.start.get() = Some(start);
        *free.argument.get() = argument;
        free.confined.store(thread::is_confined(), Relaxed);
        free.lineage.store(throttle::descendant(), Relaxed);
        let starting = (&raw const *free).cast_mut().cast();
        let pending = begin_creation();
        let result = real(thread, attributes, thread_begins, starting);
        if result != 0 {
            free.taken.store(0, Release);
        }
        if let Some(pending) = pending {
            let handle = if result == 0 { *thread as i64 } else { NONE };
            post::end(&pending, &Draft { aux: handle, ..CREATION }, result.into(), result as u8);
        }
        result
    }
    pthread_setname_np => fn(thread: pthread_t, name: *const c_char) -> c_int, |real| {
        let result = real(thread, name);
        if result == 0 && !attach::off() && thread == libc::pthread_self() {
            post::text(TextKind::ThreadName, 0, core::ffi::CStr::from_ptr(name).to_bytes());
        }
        result
    }
    prctl => fn(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int, |real| {
        let result = confinement::with_prctl(option, a, || real(option, a, b, c, d));
        if result == 0 && option == libc::PR_SET_NAME && !attach::off() {
            post::text(TextKind::ThreadName, 0, core::ffi::CStr::from_ptr(a as *const c_char).to_bytes());
        }
        result
    }
}
