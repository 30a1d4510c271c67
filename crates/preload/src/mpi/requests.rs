//! Requests: what one call begins and another one completes.
//!
//! Of a receive it is kept whom it is from until it is complete: a status names a rank, but not of which communicator.
//! A persistent request keeps what each of its starts begins.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr::with_exposed_provenance;
use core::sync::atomic::Ordering::*;

use iotrail_format::call::Call;
use iotrail_format::segment::NONE;
use iotrail_sdk::post::{self, Draft};
use iotrail_sdk::{clock, sys};

use super::calls::{self, MPI, finish};
use super::handles::{self, Group, Kept};
use super::implementation::{Implementation, Status, UNDEFINED};

/// A receive from `peer`, or from any rank of the communicator if that is -1.
fn receive_from(group: &'static Group, peer: i64) -> Kept {
    if peer == -1 {
        group.hold();
        Kept::FromAny(group)
    } else {
        Kept::From(peer)
    }
}

/// Keeps whom a receive is from, as of counter `now`.
#[inline]
pub fn keep_receive(request: usize, group: &'static Group, peer: i64, now: u64) {
    // From MPI_PROC_NULL, or of a communicator without an id, there is nothing to say.
    handles::keep(request, if peer == NONE { Kept::Other } else { receive_from(group, peer) }, now);
}

/// Keeps that a request is no receive, as of counter `now`.
#[inline]
pub fn keep_other(request: usize, now: u64) {
    handles::keep(request, Kept::Other, now);
}

/// Rank in MPI_COMM_WORLD of who sent what was received.
fn sender(kept: Kept, status: &Status) -> i64 {
    match kept {
        Kept::From(peer) => peer,
        Kept::FromAny(group) => group.world_rank(status.source),
        Kept::Group(_) | Kept::Other | Kept::Persistent(_) => NONE,
    }
}

// -- Messages that were probed for (MPI_Mprobe).

/// Keeps of which communicator a message is, as of counter `now`.
pub fn keep_message(message: usize, group: &'static Group, now: u64) {
    keep_receive(message, group, -1, now);
}

/// The communicator of a message, which is not kept any more; its holder gives it back.
pub fn take_message(message: usize) -> Option<&'static Group> {
    match handles::take(message, clock::ticks())? {
        Kept::FromAny(group) => Some(group),
        other => {
            other.release();
            None
        }
    }
}

// -- Persistent requests.

/// Keeps what each start of a request begins: as `draft` says, which for collective calls counts them.
pub fn keep_persistent(request: usize, group: &'static Group, draft: &Draft) {
    let Some(kept) = handles::new_persistent() else { return };
    kept.active.store(0, Relaxed);
    kept.call.store(u64::from(draft.opcode) | u64::from(draft.fd as u32) << 32, Relaxed);
    kept.object.store(draft.object, Relaxed);
    kept.peer.store(draft.aux, Relaxed);
    kept.length.store(draft.length, Relaxed);
    kept.starts.store(draft.pos, Relaxed);
    let receives = draft.opcode == Call::MpiIrecv as u16 && draft.aux != NONE;
    kept.receives.store(if receives { receive_from(group, draft.aux).encode() } else { 0 }, Relaxed);
    handles::keep(request, Kept::Persistent(kept), clock::ticks());
}

/// The handle stands for nothing more.
pub fn forget(request: usize) {
    if let Some(kept) = handles::take(request, u64::MAX) {
        kept.release();
    }
}

/// MPI_Start and MPI_Startall: a row for each request, in order, each with its share of the time.
pub fn start(mpi: &Implementation, count: usize, requests: usize, run: &mut dyn FnMut() -> c_int) -> c_int {
    if post::is_inside(MPI) {
        return run();
    }
    let pending = post::begin(&calls::draft(Call::MpiIsend));
    let error = run();
    let Some(pending) = pending else { return error };
    post::forget(&pending);
    let share = clock::ticks().wrapping_sub(pending.start()) / count.max(1) as u64;
    for index in 0..if error == 0 { count } else { 0 } {
        // SAFETY: the program passed that many requests.
        let request = unsafe { mpi.handle_at(requests, index) };
        let Some(Kept::Persistent(kept)) = handles::look_up(request, u64::MAX) else { continue };
        let call = kept.call.load(Relaxed);
        let number = kept.starts.load(Relaxed);
        if number != NONE {
            kept.starts.store(number + 1, Relaxed);
        }
        let draft = Draft {
            opcode: call as u16,
            kind: MPI,
            fd: (call >> 32) as i32,
            object: kept.object.load(Relaxed),
            pos: number,
            length: kept.length.load(Relaxed),
            aux: kept.peer.load(Relaxed),
        };
        kept.active.store(1, Relaxed);
        post::interval(&draft, pending.start() + share * index as u64, share, request as i64, 0);
    }
    error
}

// -- Completion.

/// Which of its requests a call completed.
#[derive(Clone, Copy)]
pub enum Done {
    /// All.
    All,
    /// None.
    Nothing,
    /// One of them.
    One(usize),
    /// Those of these indices, as many.
    Several(usize, usize),
}

impl Done {
    /// As MPI_Waitany says.
    ///
    /// # Safety
    /// The address of an integer.
    pub unsafe fn one(index: usize) -> Self {
        // SAFETY: as the caller says.
        match unsafe { with_exposed_provenance::<c_int>(index).read() } {
            UNDEFINED => Self::Nothing,
            index => Self::One(index as usize),
        }
    }

    /// As MPI_Waitsome says.
    ///
    /// # Safety
    /// The address of an integer, and that of as many as it says.
    pub unsafe fn several(count: usize, indices: usize) -> Self {
        // SAFETY: as the caller says.
        match unsafe { with_exposed_provenance::<c_int>(count).read() } {
            UNDEFINED => Self::Nothing,
            count => Self::Several(indices, count as usize),
        }
    }

    /// For each request completed its index and that of its status.
    ///
    /// # Safety
    /// Of [`Done::Several`] the indices are still there.
    unsafe fn each(self, count: usize, mut see: impl FnMut(usize, usize)) {
        match self {
            Self::Nothing => {}
            Self::All => (0..count).for_each(|index| see(index, index)),
            Self::One(index) => see(index, 0),
            Self::Several(indices, count) => {
                for place in 0..count {
                    // SAFETY: as the caller says.
                    see(
                        unsafe { with_exposed_provenance::<c_int>(indices).add(place).read() } as usize,
                        place,
                    );
                }
            }
        }
    }
}

/// Requests as a call gets them.
pub struct Requests {
    /// How many.
    pub count: usize,
    /// Their address.
    pub address: usize,
    /// Where the program wants statuses.
    pub statuses: usize,
    /// How many statuses that are.
    pub status_count: usize,
}

/// Words that need no memory beyond the stack: 64 requests, and a status each.
const HERE: usize = 256;
/// Words of a status of ours.
const STATUS: usize = 3;

/// Runs with room for words, uninitialised; gives `None` where there is none.
fn with_room<R>(words: usize, run: impl FnOnce(*mut usize) -> R) -> Option<R> {
    if words <= HERE {
        let mut here = MaybeUninit::<[usize; HERE]>::uninit();
        return Some(run(here.as_mut_ptr().cast()));
    }
    let (access, kind) = (sys::PROT_READ | sys::PROT_WRITE, sys::MAP_PRIVATE | sys::MAP_ANONYMOUS);
    // SAFETY: a fresh anonymous mapping.
    let mapped = unsafe { sys::mmap(0, words * size_of::<usize>(), access, kind, -1, 0) };
    if sys::failed(mapped) {
        return None;
    }
    let result = run(mapped as *mut usize);
    // SAFETY: the mapping just made.
    unsafe { sys::munmap(mapped as usize, words * size_of::<usize>()) };
    Some(result)
}

/// A call that completes requests: its row, of a test only if one was completed, and one for each of those.
pub fn complete(
    mpi: &Implementation,
    call: Call,
    on: &Requests,
    run: &mut dyn FnMut(usize) -> c_int,
    done: &dyn Fn() -> Done,
) -> c_int {
    if post::is_inside(MPI) {
        return run(on.statuses);
    }
    let recorded = with_room(on.count + STATUS * on.status_count, |room| {
        // SAFETY: the program passed that many requests, and there is room for them and for statuses after them.
        let statuses = unsafe {
            for index in 0..on.count {
                room.add(index).write(mpi.handle_at(on.address, index));
            }
            if on.statuses == mpi.ignore { room.add(on.count).expose_provenance() } else { on.statuses }
        };
        let draft = calls::draft(call);
        let pending = post::begin(&draft);
        let error = run(statuses);
        // SAFETY: written above.
        let requests = unsafe { core::slice::from_raw_parts(room, on.count) };
        let done = if error == 0 { done() } else { Done::Nothing };
        let mut any = call != Call::MpiTest || error != 0;
        // SAFETY: the call has just written the indices.
        unsafe { done.each(on.count, |index, _| any |= is_active(mpi, requests[index])) };
        let began = match &pending {
            Some(pending) if !any => {
                post::forget(pending);
                return error;
            }
            Some(pending) => pending.start(),
            None => clock::ticks(),
        };
        let took = finish(pending.as_ref(), &draft, error.into(), error);
        // SAFETY: as above, and the statuses.
        unsafe {
            done.each(on.count, |index, place| {
                let status = mpi.status(statuses + place * mpi.status_bytes);
                post_status(mpi, requests[index], &status, began, took);
            });
            // What failed, and what was completed all the same.
            for (index, request) in requests.iter().enumerate().take(if error == 0 { 0 } else { on.count }) {
                if mpi.handle_at(on.address, index) == mpi.null_request()
                    && let Some(kept) = handles::take(*request, began)
                {
                    kept.release();
                }
            }
        }
        error
    });
    recorded.unwrap_or_else(|| {
        let draft = calls::draft(call);
        let pending = post::begin(&draft);
        let error = run(on.statuses);
        finish(pending.as_ref(), &draft, error.into(), error);
        error
    })
}

/// Whether there is something to complete.
fn is_active(mpi: &Implementation, request: usize) -> bool {
    request != mpi.null_request()
        && match handles::look_up(request, u64::MAX) {
            Some(Kept::Persistent(kept)) => kept.active.load(Relaxed) != 0,
            _ => true,
        }
}

/// Posts that a request is complete, by a call that began at `began` and took `took` ticks.
fn post_status(mpi: &Implementation, request: usize, status: &Status, began: u64, took: u64) {
    if request == mpi.null_request() {
        return;
    }
    let (receive, taken) = match handles::look_up(request, began) {
        Some(Kept::Persistent(kept)) => {
            if kept.active.swap(0, Relaxed) == 0 {
                return;
            }
            let receives = kept.receives.load(Relaxed);
            (if receives == 0 { None } else { Some(Kept::decode(receives)) }, None)
        }
        Some(Kept::From(_) | Kept::FromAny(_)) => {
            let taken = handles::take(request, began);
            (taken, taken)
        }
        Some(Kept::Other) => (None, handles::take(request, began)),
        Some(Kept::Group(_)) | None => (None, None),
    };
    // Only of a receive: Open MPI's MPI-IO leaves the field of its requests as it was (4.1), and to cancel a send is
    // deprecated (MPI 4.0, section 3.8.4).
    if receive.is_none() || !status.is_cancelled {
        let mut draft = calls::draft(Call::MpiStatus);
        draft.pos = request as i64;
        if let Some(kept) = receive {
            draft.aux = sender(kept, status);
            draft.fd = status.tag;
            draft.length = status.bytes;
        }
        post::interval(&draft, began, took, 0, 0);
    }
    if let Some(kept) = taken {
        kept.release();
    }
}
