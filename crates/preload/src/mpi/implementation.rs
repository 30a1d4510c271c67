//! What differs between implementations of MPI: handles, constants, statuses.
//!
//! There are two binary interfaces: Open MPI's (mpi.h of 1.7 to 5.0), and that of the MPICH ABI Compatibility Initiative
//! (mpi.h of MPICH 3.1 and newer, and so MVAPICH, Intel's and Cray's MPI). Which one a process has is told by a symbol
//! that mpi.h makes programs refer to. Of other implementations, and of stubs for one process, only what needs no
//! knowledge of them is recorded.

use core::ffi::c_int;
use core::ptr::{null_mut, with_exposed_provenance};
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};

use crate::real::find_of_mpi;

/// An implementation's binary interface.
pub struct Implementation {
    /// Bytes of a handle in memory; of MPI_File they are those of a pointer.
    handle_bytes: usize,
    /// Bytes of an MPI_Status.
    pub status_bytes: usize,
    source_at: usize,
    tag_at: usize,
    /// MPI_STATUS_IGNORE and MPI_STATUSES_IGNORE.
    pub ignore: usize,
    /// MPI_IN_PLACE.
    pub in_place: usize,
    /// MPI_ANY_SOURCE.
    pub any_source: c_int,
    /// MPI_PROC_NULL.
    pub proc_null: c_int,
    /// MPI_ROOT.
    pub root: c_int,
    /// MPI_LOCK_SHARED.
    pub lock_shared: c_int,
    world: AtomicUsize,
    own: AtomicUsize,
    null_comm: AtomicUsize,
    null_request: AtomicUsize,
}

/// MPI_UNDEFINED, in both.
pub const UNDEFINED: c_int = -32766;

static OPEN_MPI: Implementation = Implementation {
    handle_bytes: 8,
    status_bytes: 24,
    source_at: 0,
    tag_at: 4,
    ignore: 0,
    in_place: 1,
    any_source: -1,
    proc_null: -2,
    root: -4,
    lock_shared: 2,
    // Addresses of variables: see `look_up`.
    world: AtomicUsize::new(0),
    own: AtomicUsize::new(0),
    null_comm: AtomicUsize::new(0),
    null_request: AtomicUsize::new(0),
};

static MPICH: Implementation = Implementation {
    handle_bytes: 4,
    status_bytes: 20,
    source_at: 8,
    tag_at: 12,
    ignore: 1,
    in_place: usize::MAX,
    any_source: -2,
    proc_null: -1,
    root: -3,
    lock_shared: 235,
    world: AtomicUsize::new(0x4400_0000),
    own: AtomicUsize::new(0x4400_0001),
    null_comm: AtomicUsize::new(0x0400_0000),
    null_request: AtomicUsize::new(0x2c00_0000),
};

static FOUND: AtomicPtr<Implementation> = AtomicPtr::new(null_mut());

/// What a status says.
pub struct Status {
    /// Rank in the communicator.
    pub source: c_int,
    /// Tag.
    pub tag: c_int,
    /// Bytes that came.
    pub bytes: i64,
    /// Whether the request was cancelled instead.
    pub is_cancelled: bool,
}

/// The process's implementation, if it is one of those known here.
#[inline(always)]
pub fn implementation() -> Option<&'static Implementation> {
    let found = FOUND.load(Acquire);
    // SAFETY: null or one of the statics above.
    if found.is_null() { look_up() } else { Some(unsafe { &*found }) }
}

#[cold]
#[inline(never)]
fn look_up() -> Option<&'static Implementation> {
    let world = find_of_mpi(c"ompi_mpi_comm_world") as usize;
    let found = if world != 0 {
        // mpi.h: each predefined handle is the address of a variable.
        OPEN_MPI.world.store(world, Relaxed);
        OPEN_MPI.own.store(find_of_mpi(c"ompi_mpi_comm_self") as usize, Relaxed);
        OPEN_MPI.null_comm.store(find_of_mpi(c"ompi_mpi_comm_null") as usize, Relaxed);
        OPEN_MPI.null_request.store(find_of_mpi(c"ompi_request_null") as usize, Relaxed);
        &OPEN_MPI
    } else if !find_of_mpi(c"MPIR_Dup_fn").is_null() {
        &MPICH
    } else {
        return None;
    };
    FOUND.store(core::ptr::from_ref(found).cast_mut(), Release);
    Some(found)
}

impl Implementation {
    /// The handle that an argument is.
    #[inline(always)]
    pub fn handle(&self, argument: usize) -> usize {
        if self.handle_bytes == 4 { argument as u32 as usize } else { argument }
    }

    /// The handle at a place of an array that the program passed.
    ///
    /// # Safety
    /// `array` is the address of handles, more than `index`.
    #[inline(always)]
    pub unsafe fn handle_at(&self, array: usize, index: usize) -> usize {
        let array = with_exposed_provenance::<u8>(array);
        // SAFETY: as the caller says; each has its alignment.
        unsafe {
            if self.handle_bytes == 4 {
                array.cast::<u32>().add(index).read() as usize
            } else {
                array.cast::<usize>().add(index).read()
            }
        }
    }

    /// What a status says.
    ///
    /// # Safety
    /// `status` is the address of one that MPI filled.
    #[inline(always)]
    pub unsafe fn status(&self, status: usize) -> Status {
        let at = |offset: usize| {
            // SAFETY: a status consists of integers.
            unsafe { with_exposed_provenance::<c_int>(status + offset).read() }
        };
        // Open MPI: `_cancelled`, and `_ucount` as size_t. MPICH: `count_lo`, and `count_hi_and_cancelled`, whose lowest
        // bit says cancelled.
        let (bytes, is_cancelled) = if self.status_bytes == 24 {
            // SAFETY: as above; it is aligned as size_t.
            (unsafe { with_exposed_provenance::<usize>(status + 16).read() } as i64, at(12) != 0)
        } else {
            (i64::from(at(4) >> 1) << 32 | i64::from(at(0) as u32), at(4) & 1 != 0)
        };
        Status { source: at(self.source_at), tag: at(self.tag_at), bytes, is_cancelled }
    }

    /// MPI_COMM_WORLD.
    pub fn world(&self) -> usize {
        self.world.load(Relaxed)
    }

    /// MPI_COMM_SELF.
    pub fn own(&self) -> usize {
        self.own.load(Relaxed)
    }

    /// MPI_COMM_NULL.
    pub fn null_comm(&self) -> usize {
        self.null_comm.load(Relaxed)
    }

    /// MPI_REQUEST_NULL.
    #[inline(always)]
    pub fn null_request(&self) -> usize {
        self.null_request.load(Relaxed)
    }
}
