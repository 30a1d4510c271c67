//! The shapes that MPI's calls have where causality is recorded.
//!
//! Each gets a function that makes the program's call, once. A call inside another one is made and nothing else: the outermost has the
//! row. What needs a valid datatype is asked for after the call succeeded, so that a wrong one fails in the program's
//! call, as it does without a recorder.

use core::ffi::c_int;
use core::mem::MaybeUninit;
use core::ptr::with_exposed_provenance;

use iotrail_format::call::{Call, WaitKind};
use iotrail_format::segment::NONE;
use iotrail_sdk::clock;
use iotrail_sdk::post::{self, Draft, Pending};

use super::communicators::{self, Lineage, group_of, id_of_persistent};
use super::handles::{Group, Kept};
use super::implementation::Implementation;
use super::requests;
use crate::real::MpiReal;

/// [`WaitKind::Mpi`], as in a draft.
pub const MPI: u8 = WaitKind::Mpi as u8;

/// Whom a message is for or from.
#[derive(Clone, Copy)]
pub struct Envelope {
    /// The handle of the communicator.
    pub comm: usize,
    pub rank: c_int,
    pub tag: c_int,
}

/// Elements that a call moves.
#[derive(Clone, Copy)]
pub struct Moved {
    /// How many; [`NONE`] not known.
    pub count: i64,
    /// Of which type.
    pub datatype: usize,
    /// Whether as many go to each rank.
    pub to_each: bool,
}

impl Moved {
    /// Not known.
    pub const UNKNOWN: Self = Self { count: NONE, datatype: 0, to_each: false };

    /// Bytes; [`NONE`] not known. The datatype is valid.
    #[inline(always)]
    fn bytes(self) -> i64 {
        static SIZE: MpiReal = MpiReal::new();
        if self.count == NONE {
            return NONE;
        }
        let mut size: c_int = -1;
        // SAFETY: MPI_Type_size.
        unsafe {
            let ask: unsafe extern "C-unwind" fn(usize, *mut c_int) -> c_int =
                core::mem::transmute(SIZE.get(c"PMPI_Type_size"));
            ask(self.datatype, &raw mut size);
        }
        // MPI_UNDEFINED: more than an int can say.
        if size < 0 { NONE } else { self.count.saturating_mul(size.into()) }
    }
}

/// A draft of which nothing but the call is known.
#[inline(always)]
pub fn draft(call: Call) -> Draft {
    Draft { opcode: call as u16, kind: MPI, fd: -1, object: 0, pos: NONE, length: NONE, aux: NONE }
}

/// A draft of a message.
#[inline(always)]
fn message(mpi: &Implementation, call: Call, group: &Group, envelope: Envelope) -> Draft {
    let mut draft = draft(call);
    draft.object = group.id();
    draft.fd = envelope.tag;
    draft.aux = group.peer(mpi, envelope.rank);
    draft
}

/// Notes that a call returned; gives the ticks it took.
#[inline(always)]
pub fn finish(pending: Option<&Pending>, draft: &Draft, result: i64, error: c_int) -> u64 {
    pending.map_or(0, |pending| post::end(pending, draft, result, error.max(0) as u8))
}

/// As [`finish`], of a call that began a request; gives the counter at its end.
#[inline(always)]
fn finish_begun(pending: Option<&Pending>, draft: &Draft, request: usize, error: c_int) -> u64 {
    match pending {
        Some(pending) => {
            pending.start().wrapping_add(post::end(pending, draft, request as i64, error.max(0) as u8))
        }
        None => clock::ticks(),
    }
}

/// Makes a call that has no row; calls inside it know that they are.
fn run_inside(draft: &Draft, run: &mut dyn FnMut() -> c_int) -> c_int {
    let pending = post::begin(draft);
    let error = run();
    if let Some(pending) = pending {
        post::forget(&pending);
    }
    error
}

/// A status of ours, for where the program wants none.
type OwnStatus = MaybeUninit<[usize; 3]>;

// -- Messages.

/// A call that sends, and returns when the buffer is free.
#[inline(always)]
pub fn send(
    mpi: &Implementation,
    call: Call,
    to: Envelope,
    moved: Moved,
    run: impl FnOnce() -> c_int,
) -> c_int {
    if post::is_inside(MPI) {
        return run();
    }
    let mut draft = message(mpi, call, group_of(to.comm), to);
    let pending = post::begin(&draft);
    let error = run();
    if error == 0 && to.rank != mpi.proc_null {
        draft.length = moved.bytes();
    }
    finish(pending.as_ref(), &draft, error.into(), error);
    error
}

/// A call that begins to send.
#[inline(always)]
pub fn begin_send(
    mpi: &Implementation,
    call: Call,
    to: Envelope,
    moved: Moved,
    request: usize,
    run: impl FnOnce() -> c_int,
) -> c_int {
    if post::is_inside(MPI) {
        return run();
    }
    let mut draft = message(mpi, call, group_of(to.comm), to);
    let pending = post::begin(&draft);
    let error = run();
    let mut begun = 0;
    if error == 0 {
        // SAFETY: the call has just written it.
        begun = unsafe { mpi.handle_at(request, 0) };
        if to.rank != mpi.proc_null {
            draft.length = moved.bytes();
        }
    }
    let now = finish_begun(pending.as_ref(), &draft, begun, error);
    if error == 0 {
        requests::keep_other(begun, now);
    }
    error
}

/// Completes the draft of a receive by its status, where there was a sender.
#[inline(always)]
unsafe fn receive_as(mpi: &Implementation, draft: &mut Draft, group: &Group, status: usize) {
    // SAFETY: MPI has filled it.
    let status = unsafe { mpi.status(status) };
    draft.fd = status.tag;
    draft.aux = group.peer(mpi, status.source);
    if status.source != mpi.proc_null {
        draft.length = status.bytes;
    }
}

/// A call that receives. The program's call gets the status that is to be filled.
#[inline(always)]
pub fn receive(
    mpi: &Implementation,
    call: Call,
    from: Envelope,
    status: usize,
    run: impl FnOnce(usize) -> c_int,
) -> c_int {
    if post::is_inside(MPI) {
        return run(status);
    }
    let mut own = OwnStatus::uninit();
    let status = if status == mpi.ignore { own.as_mut_ptr().expose_provenance() } else { status };
    let group = group_of(from.comm);
    let mut draft = message(mpi, call, group, from);
    let pending = post::begin(&draft);
    let error = run(status);
    if error == 0 {
        // SAFETY: the call has just filled it.
        unsafe { receive_as(mpi, &mut draft, group, status) };
    }
    finish(pending.as_ref(), &draft, error.into(), error);
    error
}

/// A call that begins to receive.
#[inline(always)]
pub fn begin_receive(
    mpi: &Implementation,
    from: Envelope,
    moved: Moved,
    request: usize,
    run: impl FnOnce() -> c_int,
) -> c_int {
    if post::is_inside(MPI) {
        return run();
    }
    let group = group_of(from.comm);
    let mut draft = message(mpi, Call::MpiIrecv, group, from);
    let pending = post::begin(&draft);
    let error = run();
    if error != 0 {
        finish_begun(pending.as_ref(), &draft, 0, error);
        return error;
    }
    // SAFETY: the call has just written it.
    let begun = unsafe { mpi.handle_at(request, 0) };
    if from.rank != mpi.proc_null {
        draft.length = moved.bytes();
    }
    let now = finish_begun(pending.as_ref(), &draft, begun, error);
    requests::keep_receive(begun, group, draft.aux, now);
    error
}

/// Posts the send of a call that receives too, as begun at `start`.
fn post_sent(mpi: &Implementation, to: Envelope, moved: Moved, start: u64) {
    let mut sent = message(mpi, Call::MpiIsend, group_of(to.comm), to);
    if to.rank != mpi.proc_null {
        sent.length = moved.bytes();
    }
    post::interval(&sent, start, 0, 0, 0);
}

/// MPI_Sendrecv: a row of the send as if begun before, and its own, which is the receive.
#[inline(always)]
pub fn send_receive(
    mpi: &Implementation,
    to: Envelope,
    moved: Moved,
    from: Envelope,
    status: usize,
    run: impl FnOnce(usize) -> c_int,
) -> c_int {
    if post::is_inside(MPI) {
        return run(status);
    }
    let start = clock::ticks();
    let error = receive(mpi, Call::MpiSendrecv, from, status, run);
    if error == 0 {
        post_sent(mpi, to, moved, start);
    }
    error
}

/// MPI_Isendrecv, likewise.
pub fn begin_send_receive(
    mpi: &Implementation,
    to: Envelope,
    moved: Moved,
    from: Envelope,
    received: Moved,
    request: usize,
    run: impl FnOnce() -> c_int,
) -> c_int {
    if post::is_inside(MPI) {
        return run();
    }
    let start = clock::ticks();
    let error = begin_receive(mpi, from, received, request, run);
    if error == 0 {
        post_sent(mpi, to, moved, start);
    }
    error
}

/// Looks for a message: `flag` is where a call that doesn't wait says whether there is one, `taken` where MPI_Mprobe puts
/// it; both 0 if the call has none.
pub fn probe(
    mpi: &Implementation,
    from: Envelope,
    flag: usize,
    taken: usize,
    status: usize,
    run: &mut dyn FnMut(usize) -> c_int,
) -> c_int {
    if post::is_inside(MPI) {
        return run(status);
    }
    let mut own = OwnStatus::uninit();
    let status = if status == mpi.ignore { own.as_mut_ptr().expose_provenance() } else { status };
    let group = group_of(from.comm);
    let mut draft = message(mpi, if taken == 0 { Call::MpiProbe } else { Call::MpiMprobe }, group, from);
    let pending = post::begin(&draft);
    let error = run(status);
    // SAFETY: the program passed the address of an integer.
    if error == 0 && flag != 0 && unsafe { with_exposed_provenance::<c_int>(flag).read() } == 0 {
        if let Some(pending) = pending {
            post::forget(&pending);
        }
        return error;
    }
    let mut result = i64::from(error);
    let mut probed = 0;
    if error == 0 {
        // SAFETY: the call has just filled the status, and written the message.
        unsafe {
            receive_as(mpi, &mut draft, group, status);
            if taken != 0 {
                probed = mpi.handle_at(taken, 0);
                result = probed as i64;
            }
        }
    }
    finish(pending.as_ref(), &draft, result, error);
    if probed != 0 && draft.aux != NONE {
        requests::keep_message(probed, group, clock::ticks());
    }
    error
}

/// MPI_Mrecv.
pub fn receive_probed(
    mpi: &Implementation,
    probed: usize,
    status: usize,
    run: &mut dyn FnMut(usize) -> c_int,
) -> c_int {
    if post::is_inside(MPI) {
        return run(status);
    }
    let mut own = OwnStatus::uninit();
    let status = if status == mpi.ignore { own.as_mut_ptr().expose_provenance() } else { status };
    // SAFETY: the program passed the address of a message.
    let probed = unsafe { mpi.handle_at(probed, 0) };
    let group = requests::take_message(probed);
    let mut draft = draft(Call::MpiMrecv);
    draft.pos = probed as i64;
    draft.object = group.map_or(0, Group::id);
    let pending = post::begin(&draft);
    let error = run(status);
    if let Some(group) = group {
        if error == 0 {
            // SAFETY: the call has just filled it.
            unsafe { receive_as(mpi, &mut draft, group, status) };
        }
        Kept::FromAny(group).release();
    }
    finish(pending.as_ref(), &draft, error.into(), error);
    error
}

/// MPI_Imrecv.
pub fn begin_receive_probed(
    mpi: &Implementation,
    probed: usize,
    moved: Moved,
    request: usize,
    run: &mut dyn FnMut() -> c_int,
) -> c_int {
    if post::is_inside(MPI) {
        return run();
    }
    // SAFETY: the program passed the address of a message.
    let probed = unsafe { mpi.handle_at(probed, 0) };
    let group = requests::take_message(probed);
    let mut draft = draft(Call::MpiImrecv);
    draft.pos = probed as i64;
    draft.object = group.map_or(0, Group::id);
    let pending = post::begin(&draft);
    let error = run();
    let mut begun = 0;
    if error == 0 {
        // SAFETY: the call has just written it.
        begun = unsafe { mpi.handle_at(request, 0) };
        draft.length = moved.bytes();
    }
    let now = finish_begun(pending.as_ref(), &draft, begun, error);
    if let Some(group) = group {
        if error == 0 {
            requests::keep_receive(begun, group, -1, now);
        }
        Kept::FromAny(group).release();
    }
    error
}

/// MPI_Send_init and the like: no row, each start of the request has one as of `call`.
pub fn prepare_message(
    mpi: &Implementation,
    call: Call,
    envelope: Envelope,
    moved: Moved,
    request: usize,
    run: &mut dyn FnMut() -> c_int,
) -> c_int {
    if post::is_inside(MPI) {
        return run();
    }
    let group = group_of(envelope.comm);
    let mut draft = message(mpi, call, group, envelope);
    let error = run_inside(&draft, run);
    if error == 0 {
        if envelope.rank != mpi.proc_null {
            draft.length = moved.bytes();
        }
        // SAFETY: the call has just written it.
        requests::keep_persistent(unsafe { mpi.handle_at(request, 0) }, group, &draft);
    }
    error
}

// -- Collective calls.

/// A collective call on a communicator, window or file: its root, and what this process gives, of a scatter what it gets.
pub struct Collective {
    pub call: Call,
    /// The handle of what it is called on.
    pub on: usize,
    pub root: Option<c_int>,
    pub moved: Moved,
    /// Address of the request that it begins; 0 none.
    pub request: usize,
}

impl Collective {
    fn draft(&self, mpi: &Implementation, group: &Group) -> Draft {
        let mut draft = draft(self.call);
        draft.object = group.id();
        if let Some(root) = self.root {
            draft.aux = group.peer(mpi, root);
        }
        draft
    }

    /// Completes the draft of a call that succeeded; gives the request, 0 none.
    ///
    /// # Safety
    /// The call has written the request.
    unsafe fn complete(&self, mpi: &Implementation, group: &Group, draft: &mut Draft) -> usize {
        // Which arguments count depends on the side of an intercommunicator.
        if !group.is_inter() {
            draft.length = self.moved.bytes();
            if self.moved.to_each && draft.length != NONE {
                draft.length = draft.length.saturating_mul(group.size());
            }
        }
        // SAFETY: as the caller says.
        if self.request == 0 { 0 } else { unsafe { mpi.handle_at(self.request, 0) } }
    }
}

/// A collective call, or one that begins it.
pub fn collective(mpi: &Implementation, on: &Collective, run: &mut dyn FnMut() -> c_int) -> c_int {
    if post::is_inside(MPI) {
        return run();
    }
    let group = group_of(on.on);
    let mut draft = on.draft(mpi, group);
    draft.pos = group.take_number();
    let pending = post::begin(&draft);
    let error = run();
    // SAFETY: the call has just written its request.
    let request = if error == 0 { unsafe { on.complete(mpi, group, &mut draft) } } else { 0 };
    let result = if on.request == 0 { error.into() } else { request as i64 };
    finish(pending.as_ref(), &draft, result, error);
    if request != 0 {
        requests::keep_other(request, clock::ticks());
    }
    error
}

/// MPI_Barrier_init and the like (MPI 4.0, section 6.13): a collective call without a row. Each start of the request has one as
/// of the call; its object is the request's own, because starts may come in another order in each process.
pub fn prepare_collective(mpi: &Implementation, on: &Collective, run: &mut dyn FnMut() -> c_int) -> c_int {
    if post::is_inside(MPI) {
        return run();
    }
    let group = group_of(on.on);
    let mut draft = on.draft(mpi, group);
    let number = group.take_number();
    let error = run_inside(&draft, run);
    if error == 0 {
        // SAFETY: the call has just written its request.
        let request = unsafe { on.complete(mpi, group, &mut draft) };
        draft.object = id_of_persistent(group, number);
        draft.pos = if number == NONE { NONE } else { 0 };
        requests::keep_persistent(request, group, &draft);
    }
    error
}

/// A call that makes a communicator, window or file of a communicator.
pub struct Making {
    pub call: Call,
    /// The handle of the communicator.
    pub of: usize,
    pub root: Option<c_int>,
    /// Address of what it makes; 0 if that is of another MPI_COMM_WORLD.
    pub made: usize,
    pub lineage: Lineage,
    /// Address of the request that it begins; 0 none.
    pub request: usize,
}

/// A collective call that makes something. Called inside another one it has no row, but what it makes may be used by the
/// program.
pub fn make(mpi: &Implementation, on: &Making, run: &mut dyn FnMut() -> c_int) -> c_int {
    let group = group_of(on.of);
    // Only members call these, and so what they make counts them: see [`Lineage`].
    let by_members = matches!(on.lineage, Lineage::Group(_) | Lineage::Bridge(_));
    let is_inside = post::is_inside(MPI);
    let number = match (by_members, is_inside) {
        (true, _) => NONE,
        (false, true) => group.take_number_inside(),
        (false, false) => group.take_number(),
    };
    let mut draft = draft(on.call);
    if !by_members {
        draft.object = group.id();
    }
    draft.pos = number;
    draft.aux = on.root.map_or(NONE, |root| group.peer(mpi, root));
    let pending = if is_inside { None } else { post::begin(&draft) };
    let error = run();
    let mut result = i64::from(error);
    if error == 0 && on.made != 0 {
        // SAFETY: the call has just written what it made, and its request.
        unsafe {
            if on.request != 0 {
                let request = mpi.handle_at(on.request, 0);
                result = request as i64;
                requests::keep_other(request, clock::ticks());
            }
            // MPI_File is a pointer everywhere.
            let made = if on.lineage == Lineage::Bare {
                with_exposed_provenance::<usize>(on.made).read()
            } else {
                mpi.handle_at(on.made, 0)
            };
            if made != mpi.null_comm() {
                let id = communicators::name(made, group, number, on.lineage);
                if by_members && id != 0 {
                    draft.object = id;
                    draft.pos = group_of(made).take_number();
                }
            }
        }
    }
    finish(pending.as_ref(), &draft, result, error);
    error
}

/// A collective call that ends a communicator, window or file, of which `handle` is the address.
pub fn unmake(mpi: &Implementation, call: Call, handle: usize, run: &mut dyn FnMut() -> c_int) -> c_int {
    let on = if call == Call::MpiFile {
        // SAFETY: the program passed the address of a file, which is a pointer.
        unsafe { with_exposed_provenance::<usize>(handle).read() }
    } else {
        // SAFETY: the program passed the address of a handle.
        unsafe { mpi.handle_at(handle, 0) }
    };
    let group = group_of(on);
    let mut draft = draft(call);
    draft.object = group.id();
    draft.pos = group.take_number();
    // Afterwards another thread may have made one with this handle.
    communicators::forget(on);
    let pending = if post::is_inside(MPI) { None } else { post::begin(&draft) };
    let error = run();
    finish(pending.as_ref(), &draft, error.into(), error);
    error
}

// -- One-sided access.

/// A call on a window that isn't collective.
pub struct Synchronising {
    pub call: Call,
    /// The handle of the window.
    pub window: usize,
    /// Whose window; none: of all, or that of this process.
    pub rank: Option<c_int>,
    /// Of calls that lock or unlock the operation, as flock(2) has it; -1 none.
    pub operation: c_int,
}

/// A call that synchronises with other processes of a window, by itself.
pub fn synchronise(mpi: &Implementation, on: &Synchronising, run: &mut dyn FnMut() -> c_int) -> c_int {
    if post::is_inside(MPI) {
        return run();
    }
    let group = group_of(on.window);
    let mut draft = draft(on.call);
    draft.object = group.id();
    draft.fd = on.operation;
    draft.aux = on.rank.map_or(NONE, |rank| group.peer(mpi, rank));
    let pending = post::begin(&draft);
    let error = run();
    finish(pending.as_ref(), &draft, error.into(), error);
    error
}

/// A call that begins an epoch with the processes of a group: a row of each of them, at the time of the call.
pub fn begin_epoch(call: Call, window: usize, with: usize, run: &mut dyn FnMut() -> c_int) -> c_int {
    if post::is_inside(MPI) {
        return run();
    }
    let mut draft = draft(call);
    draft.object = group_of(window).id();
    let pending = post::begin(&draft);
    let error = run();
    finish(pending.as_ref(), &draft, error.into(), error);
    if let Some(pending) = pending
        && error == 0
        && draft.object != 0
    {
        draft.opcode = Call::MpiGroup as u16;
        // SAFETY: the call, which has just succeeded, got this group.
        unsafe {
            communicators::with_ranks(with, |ranks| {
                for rank in ranks {
                    draft.aux = i64::from(*rank);
                    post::interval(&draft, pending.start(), 0, 0, 0);
                }
                Some(())
            });
        }
    }
    error
}

/// MPI_Win_test: where the epoch has ended (`flag`) a row as of MPI_Win_wait.
pub fn test_epoch(window: usize, flag: usize, run: &mut dyn FnMut() -> c_int) -> c_int {
    if post::is_inside(MPI) {
        return run();
    }
    let mut draft = draft(Call::MpiWinWait);
    draft.object = group_of(window).id();
    let pending = post::begin(&draft);
    let error = run();
    // SAFETY: the program passed the address of an integer.
    if error == 0 && unsafe { with_exposed_provenance::<c_int>(flag).read() } == 0 {
        if let Some(pending) = pending {
            post::forget(&pending);
        }
        return error;
    }
    finish(pending.as_ref(), &draft, error.into(), error);
    error
}

// -- Start and end.

/// MPI_Init: the first collective call on MPI_COMM_WORLD.
pub fn initialise(mpi: &Implementation, run: &mut dyn FnMut() -> c_int) -> c_int {
    if post::is_inside(MPI) {
        return run();
    }
    let mut draft = draft(Call::MpiInit);
    let pending = post::begin(&draft);
    let error = run();
    if error == 0 {
        communicators::enter(mpi);
        draft.object = communicators::world().id();
        draft.pos = communicators::world().take_number();
    }
    finish(pending.as_ref(), &draft, error.into(), error);
    error
}

/// MPI_Finalize: the last one.
pub fn finalise(run: &mut dyn FnMut() -> c_int) -> c_int {
    if post::is_inside(MPI) {
        return run();
    }
    let mut draft = draft(Call::MpiFinalize);
    draft.object = communicators::world().id();
    draft.pos = communicators::world().take_number();
    communicators::leave();
    let pending = post::begin(&draft);
    let error = run();
    finish(pending.as_ref(), &draft, error.into(), error);
    error
}
