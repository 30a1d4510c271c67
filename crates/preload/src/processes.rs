//! New processes and images: fork, vfork, exec, spawn, exit.
//!
//! A program that gives its child an environment of its own would end the recording there; the two
//! variables that carry it are put back. Programs that no preload can enter are named as unseen.

use core::arch::naked_asm;
use core::ffi::{c_char, c_int, c_void};
use core::mem::MaybeUninit;

use iotrail_format::call::{Call, WaitKind};
use iotrail_format::segment::{NONE, ProcessState};
use iotrail_sdk::sys::AT_FDCWD;
use iotrail_sdk::{attach, sys, thread};
use libc::pid_t;

use crate::real::{Real, interpose};
use crate::record::wait;
use crate::variadic::{Arguments, variadic};
use crate::{confinement, descriptors, lifecycle, unseen};

type Strings = *const *const c_char;

/// Most variables an environment may have to be completed; a larger one is passed on as it is.
const MAX_VARIABLES: usize = 2048;

/// Calls `run` with `environment`, completed by the recording's variables where they are missing.
#[inline(never)]
unsafe fn with_recording<R>(environment: Strings, run: impl FnOnce(Strings) -> R) -> R {
    // SAFETY: the program passed a NULL-terminated array of C strings.
    unsafe {
        let (preload, session) = lifecycle::variables();
        if attach::off() || preload.is_null() {
            return run(environment);
        }
        // clearenv leaves null, which execve takes for an empty list.
        let none = [core::ptr::null()];
        let environment = if environment.is_null() { none.as_ptr() } else { environment };
        let (mut count, mut has_session, mut preload_at) = (0, false, None);
        while !(*environment.add(count)).is_null() {
            let variable = *environment.add(count);
            has_session |= starts_with(variable, b"IOTRAIL_SESSION=");
            if starts_with(variable, b"LD_PRELOAD=") {
                preload_at = Some(count);
            }
            count += 1;
        }
        let preloaded = preload_at.is_some_and(|at| contains(*environment.add(at), b"libiotrail_preload"));
        if !unseen::has_library() {
            return without_library(environment, count, preload_at.filter(|_| preloaded), run);
        }
        if (has_session && preloaded) || count + 3 > MAX_VARIABLES {
            return run(environment);
        }
        let mut list = MaybeUninit::<[*const c_char; MAX_VARIABLES]>::uninit();
        let list = list.as_mut_ptr().cast::<*const c_char>();
        core::ptr::copy_nonoverlapping(environment, list, count);
        let mut joined = [0u8; 8192];
        if !preloaded {
            match preload_at {
                // Its own preload libraries stay, after ours.
                Some(at) => {
                    let own = core::ffi::CStr::from_ptr(*environment.add(at)).to_bytes();
                    let ours = core::ffi::CStr::from_ptr(preload).to_bytes();
                    let rest = own.get(b"LD_PRELOAD=".len()..).unwrap_or(b"");
                    if ours.len() + rest.len() + 2 > joined.len() {
                        return run(environment);
                    }
                    joined[..ours.len()].copy_from_slice(ours);
                    if !rest.is_empty() {
                        joined[ours.len()] = b':';
                        joined[ours.len() + 1..ours.len() + 1 + rest.len()].copy_from_slice(rest);
                    }
                    *list.add(at) = joined.as_ptr().cast();
                }
                None => {
                    *list.add(count) = preload;
                    count += 1;
                }
            }
        }
        if !has_session {
            *list.add(count) = session;
            count += 1;
        }
        *list.add(count) = core::ptr::null();
        run(list.cast_const())
    }
}

/// Calls `run` with `environment` less the recorder's library, which can't be opened where the program will run (another
/// root directory): its loader would complain on the program's stderr.
unsafe fn without_library<R>(
    environment: Strings,
    count: usize,
    preload_at: Option<usize>,
    run: impl FnOnce(Strings) -> R,
) -> R {
    const NAME: &[u8] = b"LD_PRELOAD=";
    // SAFETY: as in `with_recording`: `count` C strings and a null.
    unsafe {
        let Some(at) = preload_at.filter(|_| count < MAX_VARIABLES) else { return run(environment) };
        let mut list = MaybeUninit::<[*const c_char; MAX_VARIABLES]>::uninit();
        let list = list.as_mut_ptr().cast::<*const c_char>();
        core::ptr::copy_nonoverlapping(environment, list, count + 1);
        let mut others = [0u8; 8192];
        let value = &core::ffi::CStr::from_ptr(*environment.add(at)).to_bytes()[NAME.len()..];
        if value.len() + NAME.len() >= others.len() {
            return run(environment);
        }
        others[..NAME.len()].copy_from_slice(NAME);
        let mut length = NAME.len();
        for entry in value.split(|&byte| byte == b':' || byte == b' ') {
            if entry.is_empty() || entry.windows(18).any(|part| part == b"libiotrail_preload") {
                continue;
            }
            if length > NAME.len() {
                others[length] = b':';
                length += 1;
            }
            others[length..length + entry.len()].copy_from_slice(entry);
            length += entry.len();
        }
        *list.add(at) = others.as_ptr().cast();
        run(list.cast_const())
    }
}

fn starts_with(text: *const c_char, prefix: &[u8]) -> bool {
    // SAFETY: a C string; the comparison stops at its end.
    unsafe { libc::strncmp(text, prefix.as_ptr().cast(), prefix.len()) == 0 }
}

fn contains(text: *const c_char, part: &[u8]) -> bool {
    // SAFETY: a C string.
    let text = unsafe { core::ffi::CStr::from_ptr(text) }.to_bytes();
    text.windows(part.len()).any(|window| window == part)
}

/// An exec: the image ends with it, unless it fails.
#[inline(never)]
unsafe fn exec(run: impl FnOnce() -> c_int) -> c_int {
    if attach::off() || attach::in_vfork_child() {
        return run();
    }
    if thread::is_confined() {
        confinement::say();
    }
    attach::image_ends(ProcessState::Exec, -1);
    let result = run();
    attach::image_goes_on();
    result
}

unsafe extern "C" {
    static environ: Strings;
}

interpose! {
    execve => fn(path: *const c_char, arguments: Strings, environment: Strings) -> c_int, |real| {
        unseen::look_at(AT_FDCWD, path, false);
        with_recording(environment, |environment| exec(|| real(path, arguments, environment)))
    }
    // The program may have emptied its environment (`env -i`), so these are completed too.
    execv => fn(path: *const c_char, arguments: Strings) -> c_int, |_real| {
        execve(path, arguments, environ)
    }
    execvp => fn(file: *const c_char, arguments: Strings) -> c_int, |_real| {
        execvpe(file, arguments, environ)
    }
    execvpe => fn(file: *const c_char, arguments: Strings, environment: Strings) -> c_int, |real| {
        unseen::look_at(AT_FDCWD, file, true);
        with_recording(environment, |environment| exec(|| real(file, arguments, environment)))
    }
    fexecve => fn(fd: c_int, arguments: Strings, environment: Strings) -> c_int, |real| {
        with_recording(environment, |environment| exec(|| real(fd, arguments, environment)))
    }
    execveat =>
    fn(directory: c_int, path: *const c_char, arguments: Strings, environment: Strings, flags: c_int) -> c_int, |real| {
        unseen::look_at(directory, path, false);
        with_recording(environment, |environment| exec(|| real(directory, path, arguments, environment, flags)))
    }
    posix_spawn =>
    fn(pid: *mut pid_t, path: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Strings, environment: Strings) -> c_int, |real| {
        spawning(path, false);
        with_recording(if environment.is_null() { environ } else { environment },
            |environment| real(pid, path, actions, attributes, arguments, environment))
    }
    posix_spawnp =>
    fn(pid: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: Strings, environment: Strings) -> c_int, |real| {
        spawning(file, true);
        with_recording(if environment.is_null() { environ } else { environment },
            |environment| real(pid, file, actions, attributes, arguments, environment))
    }
    system => fn(command: *const c_char) -> c_int, |real| {
        if !attach::off() {
            descriptors::share_all();
        }
        wait(Call::Wait, WaitKind::Process, 0, NONE, NONE, || real(command))
    }
    exit => fn(status: c_int), |real| {
        lifecycle::exiting(status);
        real(status);
    }
    _exit, _Exit => fn(status: c_int), |real| {
        if !attach::off() && !attach::in_vfork_child() {
            attach::image_ends(ProcessState::Exited, status & 0xff);
        }
        real(status);
    }
    quick_exit => fn(status: c_int), |real| {
        lifecycle::exiting(status);
        real(status);
    }
}

/// Calls `run` with the arguments of an `execl` as an array, and the environment that may follow.
#[inline(never)]
unsafe fn with_list(
    first: *const c_char,
    rest: *mut Arguments,
    has_environment: bool,
    run: impl FnOnce(Strings, Strings) -> c_int,
) -> c_int {
    // SAFETY: the program passed C strings up to a null pointer, then maybe an environment. A list
    // too long for the stack has a mapping, left to the process if exec fails.
    unsafe {
        let mut list = MaybeUninit::<[*const c_char; 256]>::uninit();
        let mut list: *mut *const c_char = list.as_mut_ptr().cast();
        let (mut count, mut room) = (0, 256);
        let mut argument = first;
        loop {
            if count == room {
                let bytes = room * 16;
                let kind = sys::MAP_PRIVATE | sys::MAP_ANONYMOUS;
                let larger = sys::mmap(0, bytes, sys::PROT_READ | sys::PROT_WRITE, kind, -1, 0);
                if sys::failed(larger) {
                    crate::real::set_errno(libc::ENOMEM);
                    return -1;
                }
                core::ptr::copy_nonoverlapping(list, larger as *mut _, count);
                list = larger as *mut _;
                room *= 2;
            }
            list.add(count).write(argument);
            count += 1;
            if argument.is_null() {
                break;
            }
            argument = (*rest).next() as *const c_char;
        }
        let environment = if has_environment { (*rest).next() as Strings } else { environ };
        run(list.cast_const(), environment)
    }
}

unsafe extern "C-unwind" fn exec_list(
    path: *const c_char,
    first: *const c_char,
    rest: *mut Arguments,
) -> c_int {
    // SAFETY: as the program passed them.
    unsafe { with_list(first, rest, false, |arguments, _| execv(path, arguments)) }
}

unsafe extern "C-unwind" fn exec_list_search(
    file: *const c_char,
    first: *const c_char,
    rest: *mut Arguments,
) -> c_int {
    // SAFETY: as the program passed them.
    unsafe { with_list(first, rest, false, |arguments, _| execvp(file, arguments)) }
}

unsafe extern "C-unwind" fn exec_list_environment(
    path: *const c_char,
    first: *const c_char,
    rest: *mut Arguments,
) -> c_int {
    // SAFETY: as the program passed them.
    unsafe { with_list(first, rest, true, |arguments, environment| execve(path, arguments, environment)) }
}

variadic! {
    execl => exec_list, "2", "rdx";
    execlp => exec_list_search, "2", "rdx";
    execle => exec_list_environment, "2", "rdx";
}

fn spawning(path: *const c_char, search: bool) {
    if !attach::off() {
        descriptors::share_all();
        unseen::look_at(AT_FDCWD, path, search);
    }
}

static VFORK: Real = Real::new(c"vfork");

/// Prepares for vfork; returns the real one.
extern "C" fn prepare_vfork() -> *const c_void {
    if !attach::off() {
        descriptors::share_all();
        attach::before_vfork();
    }
    VFORK.get()
}

/// vfork returns twice on the same stack, so it can only be entered by a jump: the frame of a
/// function that called it would be overwritten by the child before the parent returns through it.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vfork() -> pid_t {
    naked_asm!("sub rsp, 8", "call {prepare}", "add rsp, 8", "jmp rax", prepare = sym prepare_vfork)
}
