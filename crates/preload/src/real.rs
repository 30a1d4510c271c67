//! The functions that stand behind ours, and the macro that puts ours before them.

use core::ffi::{CStr, c_char, c_void};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// A function of the next library in the search order, looked up at its first use.
pub struct Real {
    pointer: AtomicPtr<c_void>,
    name: &'static CStr,
    /// Version to ask for where an unversioned look-up gives a function of another ABI; empty: none.
    version: &'static CStr,
}

impl Real {
    pub const fn new(name: &'static CStr) -> Self {
        Self { pointer: AtomicPtr::new(null_mut()), name, version: c"" }
    }

    /// With a symbol version: `dlsym` would give `pthread_cond_wait` of GLIBC_2.2.5, whose condition
    /// variables are of another layout than those of programs linked since 2.3.2.
    pub const fn versioned(name: &'static CStr, version: &'static CStr) -> Self {
        Self { pointer: AtomicPtr::new(null_mut()), name, version }
    }

    /// Looks the function up now, if a library has it.
    pub fn resolve(&self) {
        // MPI's are looked for in libraries that may have to be opened.
        if self.pointer.load(Relaxed).is_null() && !is_of_mpi(self.name) {
            self.look_up();
        }
    }

    /// The function, or one that fails with ENOSYS where no library has it.
    #[inline(always)]
    pub fn get(&self) -> *const c_void {
        let pointer = self.pointer.load(Relaxed);
        if pointer.is_null() { self.look_up() } else { pointer }
    }

    #[cold]
    #[inline(never)]
    fn look_up(&self) -> *const c_void {
        let saved = errno();
        // SAFETY: NUL-terminated names.
        let mut found = unsafe {
            if self.version.is_empty() {
                libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr())
            } else {
                libc::dlvsym(libc::RTLD_NEXT, self.name.as_ptr(), self.version.as_ptr())
            }
        };
        if found.is_null() && is_of_mpi(self.name) {
            found = find_in_loaded_mpi(self.name);
        }
        if found.is_null() {
            found = missing as *mut c_void;
        } else {
            self.pointer.store(found, Relaxed);
        }
        set_errno(saved);
        found
    }
}

/// A function of MPI: as [`Real`], but without its name, so that there is nothing to relocate for each of hundreds where
/// no program uses them.
pub struct MpiReal(AtomicPtr<c_void>);

impl MpiReal {
    pub const fn new() -> Self {
        Self(AtomicPtr::new(null_mut()))
    }

    /// The function of this name, always the same one, or one that fails where no library has it.
    #[inline(always)]
    pub fn get(&self, name: &'static CStr) -> *const c_void {
        let pointer = self.0.load(Relaxed);
        if pointer.is_null() { self.look_up(name) } else { pointer }
    }

    #[cold]
    #[inline(never)]
    fn look_up(&self, name: &'static CStr) -> *const c_void {
        let real = Real::new(name);
        let found = real.look_up();
        self.0.store(real.pointer.into_inner(), Relaxed);
        found
    }
}

/// A variable or function that the process's MPI library has under this name; null none.
pub fn find_of_mpi(name: &CStr) -> *mut c_void {
    let saved = errno();
    // SAFETY: a NUL-terminated name.
    let mut found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() {
        found = find_in_loaded_mpi(name);
    }
    set_errno(saved);
    found
}

fn is_of_mpi(name: &CStr) -> bool {
    let name = name.to_bytes();
    name.starts_with(b"MPI") || name.starts_with(b"PMPI_") || name.starts_with(b"mpi_")
}

/// A program that loaded MPI with `dlopen` (mpi4py) has it outside the search order.
fn find_in_loaded_mpi(name: &CStr) -> *mut c_void {
    for library in [c"libmpi.so.40", c"libmpi.so.12", c"libmpich.so.12", c"libmpi.so", c"libmpi_mpifh.so.40"]
    {
        // SAFETY: NOLOAD only looks for what is loaded already; the handle stays open on purpose.
        unsafe {
            let handle = libc::dlopen(library.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY);
            if !handle.is_null() {
                let found = libc::dlsym(handle, name.as_ptr());
                if !found.is_null() {
                    return found;
                }
            }
        }
    }
    null_mut()
}

unsafe extern "C" {
    /// First and last of the section that [`interpose!`] fills, by the linker.
    #[link_name = "__start_iotrail_real"]
    static FIRST_REAL: [usize; 0];
    #[link_name = "__stop_iotrail_real"]
    static LAST_REAL: [usize; 0];
}

/// Looks up all functions that stand behind ours: afterwards no call of the program makes the loader do so.
pub fn resolve_all() {
    // SAFETY: the linker puts the section's pointers between the two; they name statics.
    let all = unsafe {
        let first = FIRST_REAL.as_ptr().cast::<&'static Real>();
        let last = LAST_REAL.as_ptr().cast::<&'static Real>();
        core::slice::from_raw_parts(first, last.offset_from(first) as usize)
    };
    all.iter().for_each(|real| real.resolve());
}

unsafe extern "C" fn missing() -> isize {
    set_errno(libc::ENOSYS);
    -1
}

/// The calling thread's errno.
#[inline(always)]
pub fn errno() -> i32 {
    // SAFETY: glibc gives the address of the thread's own errno.
    unsafe { *libc::__errno_location() }
}

/// Sets it.
#[inline(always)]
pub fn set_errno(value: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value };
}

/// Length of a C string, 0 for null.
#[inline]
pub fn c_length(text: *const c_char) -> usize {
    // SAFETY: the caller of the interposed function passed a C string.
    if text.is_null() { 0 } else { unsafe { libc::strlen(text) } }
}

/// Defines exported functions of the C library's names around the real ones:
///
/// ```text
/// interpose! {
///     pread, pread64 => fn(fd: c_int, buffer: *mut c_void, length: usize, pos: i64) -> isize, |real| { … real(fd, buffer, length, pos) … }
/// }
/// ```
macro_rules! interpose {
    ($($($name:ident),+ => fn($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)?, |$real:ident| $body:block)*) => {
        $($crate::real::interpose!(@each [$($name),+] ($($arg: $ty),*) ($($ret)?) $real $body);)*
    };
    (@each [$($name:ident),+] $args:tt $ret:tt $real:ident $body:block) => {
        $($crate::real::interpose!(@one $name $args $ret $real $body);)+
    };
    (@one $name:ident ($($arg:ident: $ty:ty),*) ($($ret:ty)?) $real:ident $body:block) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $ty),*) $(-> $ret)? {
            static REAL: $crate::real::Real = $crate::real::Real::new(
                match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                });
            #[used]
            #[unsafe(link_section = "iotrail_real")]
            static LISTED: &$crate::real::Real = &REAL;
            let $real: unsafe extern "C-unwind" fn($($ty),*) $(-> $ret)? =
                // SAFETY: the C library's function of this name has this signature.
                unsafe { core::mem::transmute(REAL.get()) };
            #[allow(unused_unsafe, reason = "some bodies only call safe code")]
            // SAFETY: the real function gets what the caller gave.
            unsafe { $body }
        }
    };
}
pub(crate) use interpose;
