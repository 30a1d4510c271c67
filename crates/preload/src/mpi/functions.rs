//! MPI's functions, each by the shape of its calls (MPI 4.0, appendix A.3; Open MPI's `MPIX_…_init` are those of
//! MPI 4.0 before their time).

use core::ffi::c_int;

use iotrail_format::call::Call;
use iotrail_format::segment::NONE;
use libc::{LOCK_EX, LOCK_SH, LOCK_UN};

use super::calls::{
    Collective, Envelope, Making, Moved, Synchronising, begin_epoch, begin_receive, begin_receive_probed,
    begin_send, begin_send_receive, collective, finalise, initialise, make, prepare_collective,
    prepare_message, probe, receive, receive_probed, send, send_receive, synchronise, test_epoch, unmake,
};
use super::communicators::{Lineage, forget};
use super::implementation::Implementation;
use super::requests::{self, Done, Requests, complete};
use super::{causal, int, wait};
use crate::real::MpiReal;

/// Defines functions under both their names:
///
/// ```text
/// MPI_Send / MPI_Send_c (buffer, count, datatype, dest, tag, comm) [MpiSend, dest] => |mpi, real, n| …;
/// ```
///
/// One of the same arguments with large counts may stand after `/`. In brackets, its row where causality is not recorded,
/// with the rank that it waits for, if any; without, it has none then. `n` makes an integer of a count.
macro_rules! mpi {
    ($($($name:ident $(/ $large:ident)?),+ ($($arg:ident),*) $([$plain:ident $(, $rank:ident)?])? =>
        |$mpi:ident, $real:ident, $n:ident| $body:expr;)*) => {$(
        mpi!(@each [$($name $(/ $large)?),+] ($($arg),*) [$([$plain $($rank)?])?] $mpi $real $n $body);
    )*};
    (@each [$($name:ident $(/ $large:ident)?),+] $args:tt $plain:tt $mpi:ident $real:ident $n:ident $body:expr) => {$(
        mpi!(@both $name count_of_int $args $plain $mpi $real $n $body);
        $(mpi!(@both $large count_of_large $args [] $mpi $real $n $body);)?
    )+};
    (@both $name:ident $count:ident $args:tt $plain:tt $mpi:ident $real:ident $n:ident $body:expr) => {
        mpi!(@one "" $name $count $args $plain $mpi $real $n $body);
        mpi!(@one "P" $name $count $args [] $mpi $real $n $body);
    };
    (@one $prefix:literal $name:ident $count:ident ($($arg:ident),*) $plain:tt $mpi:ident $real:ident $n:ident
        $body:expr) => {
        const _: () = {
            #[unsafe(export_name = concat!($prefix, stringify!($name)))]
            unsafe extern "C-unwind" fn ours($($arg: usize),*) -> c_int {
                static REAL: MpiReal = MpiReal::new();
                const NAME: &core::ffi::CStr = match core::ffi::CStr::from_bytes_with_nul(
                    concat!($prefix, stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => c"",
                };
                let $real: unsafe extern "C-unwind" fn($($arg: usize),*) -> c_int =
                    // SAFETY: MPI's function of this name has this signature.
                    unsafe { core::mem::transmute(REAL.get(NAME)) };
                #[allow(unused_variables, reason = "not all need all")]
                let ($mpi, $n) = match causal() {
                    Some(mpi) => (mpi, $count as fn(usize) -> i64),
                    None => return mpi!(@plain $plain ($real($($arg),*))),
                };
                #[allow(unused_unsafe, reason = "some bodies only call safe code")]
                // SAFETY: as above; addresses are what MPI says of its arguments.
                unsafe { $body }
            }
        };
    };
    (@plain [] $call:tt) => {
        // SAFETY: it gets what the caller gave.
        unsafe { $call }
    };
    (@plain [[$plain:ident]] $call:tt) => {
        // SAFETY: as above.
        wait(Call::$plain, NONE, || unsafe { $call })
    };
    (@plain [[$plain:ident $rank:ident]] $call:tt) => {
        // SAFETY: as above.
        wait(Call::$plain, int($rank).into(), || unsafe { $call })
    };
}

fn count_of_int(argument: usize) -> i64 {
    int(argument).into()
}

fn count_of_large(argument: usize) -> i64 {
    argument as i64
}

fn envelope(mpi: &Implementation, comm: usize, rank: usize, tag: usize) -> Envelope {
    Envelope { comm: mpi.handle(comm), rank: int(rank), tag: int(tag) }
}

fn moved(count: i64, datatype: usize) -> Moved {
    Moved { count, datatype, to_each: false }
}

/// What a collective call moves out of a buffer, or into it: where that is MPI_IN_PLACE, the rest means nothing.
fn of(mpi: &Implementation, buffer: usize, count: i64, datatype: usize) -> Moved {
    if buffer == mpi.in_place { Moved::UNKNOWN } else { moved(count, datatype) }
}

/// As [`of`], as many to each rank.
fn to_each(mpi: &Implementation, buffer: usize, count: i64, datatype: usize) -> Moved {
    Moved { to_each: true, ..of(mpi, buffer, count, datatype) }
}

/// How many an int says, of a call that will fail if it is negative.
fn count_of(argument: usize) -> usize {
    int(argument).max(0) as usize
}

/// The integer at an address.
unsafe fn at(address: usize) -> c_int {
    // SAFETY: the program passed the address of an integer.
    unsafe { core::ptr::with_exposed_provenance::<c_int>(address).read() }
}

// -- Start and end.

mpi! {
    MPI_Init (argc, argv) [MpiInit] => |mpi, real, n| initialise(mpi, &mut || real(argc, argv));
    MPI_Init_thread (argc, argv, required, provided) [MpiInit] =>
        |mpi, real, n| initialise(mpi, &mut || real(argc, argv, required, provided));
    MPI_Finalize () [MpiFinalize] => |mpi, real, n| finalise(&mut || real());
}

// -- Messages.

mpi! {
    MPI_Send / MPI_Send_c, MPI_Bsend / MPI_Bsend_c, MPI_Rsend / MPI_Rsend_c (buffer, count, datatype, dest, tag, comm) [MpiSend, dest] =>
        |mpi, real, n| send(mpi, Call::MpiSend, envelope(mpi, comm, dest, tag), moved(n(count), datatype), || real(buffer, count, datatype, dest, tag, comm));
    MPI_Ssend / MPI_Ssend_c (buffer, count, datatype, dest, tag, comm) [MpiSend, dest] =>
        |mpi, real, n| send(mpi, Call::MpiSsend, envelope(mpi, comm, dest, tag), moved(n(count), datatype), || real(buffer, count, datatype, dest, tag, comm));
    MPI_Recv / MPI_Recv_c (buffer, count, datatype, source, tag, comm, status) [MpiRecv, source] =>
        |mpi, real, n| receive(mpi, Call::MpiRecv, envelope(mpi, comm, source, tag), status, |status| real(buffer, count, datatype, source, tag, comm, status));
    MPI_Sendrecv / MPI_Sendrecv_c (sent, sent_count, sent_type, dest, sent_tag, received, count, datatype, source, tag, comm, status) [MpiSendrecv, source] =>
        |mpi, real, n| send_receive(mpi, envelope(mpi, comm, dest, sent_tag), moved(n(sent_count), sent_type), envelope(mpi, comm, source, tag), status, |status| real(sent, sent_count, sent_type, dest, sent_tag, received, count, datatype, source, tag, comm, status));
    MPI_Sendrecv_replace / MPI_Sendrecv_replace_c (buffer, count, datatype, dest, sent_tag, source, tag, comm, status) [MpiSendrecv, source] =>
        |mpi, real, n| send_receive(mpi, envelope(mpi, comm, dest, sent_tag), moved(n(count), datatype), envelope(mpi, comm, source, tag), status, |status| real(buffer, count, datatype, dest, sent_tag, source, tag, comm, status));
    MPI_Probe (source, tag, comm, status) [MpiProbe, source] =>
        |mpi, real, n| probe(mpi, envelope(mpi, comm, source, tag), 0, 0, status, &mut |status| real(source, tag, comm, status));
    MPI_Iprobe (source, tag, comm, flag, status) =>
        |mpi, real, n| probe(mpi, envelope(mpi, comm, source, tag), flag, 0, status, &mut |status| real(source, tag, comm, flag, status));
    MPI_Mprobe (source, tag, comm, message, status) =>
        |mpi, real, n| probe(mpi, envelope(mpi, comm, source, tag), 0, message, status, &mut |status| real(source, tag, comm, message, status));
    MPI_Improbe (source, tag, comm, flag, message, status) =>
        |mpi, real, n| probe(mpi, envelope(mpi, comm, source, tag), flag, message, status, &mut |status| real(source, tag, comm, flag, message, status));
    MPI_Mrecv / MPI_Mrecv_c (buffer, count, datatype, message, status) =>
        |mpi, real, n| receive_probed(mpi, message, status, &mut |status| real(buffer, count, datatype, message, status));
    MPI_Imrecv / MPI_Imrecv_c (buffer, count, datatype, message, request) =>
        |mpi, real, n| begin_receive_probed(mpi, message, moved(n(count), datatype), request, &mut || real(buffer, count, datatype, message, request));
    MPI_Isend / MPI_Isend_c, MPI_Ibsend / MPI_Ibsend_c, MPI_Irsend / MPI_Irsend_c (buffer, count, datatype, dest, tag, comm, request) =>
        |mpi, real, n| begin_send(mpi, Call::MpiIsend, envelope(mpi, comm, dest, tag), moved(n(count), datatype), request, || real(buffer, count, datatype, dest, tag, comm, request));
    MPI_Issend / MPI_Issend_c (buffer, count, datatype, dest, tag, comm, request) =>
        |mpi, real, n| begin_send(mpi, Call::MpiIssend, envelope(mpi, comm, dest, tag), moved(n(count), datatype), request, || real(buffer, count, datatype, dest, tag, comm, request));
    MPI_Irecv / MPI_Irecv_c (buffer, count, datatype, source, tag, comm, request) =>
        |mpi, real, n| begin_receive(mpi, envelope(mpi, comm, source, tag), moved(n(count), datatype), request, || real(buffer, count, datatype, source, tag, comm, request));
    MPI_Isendrecv / MPI_Isendrecv_c (sent, sent_count, sent_type, dest, sent_tag, received, count, datatype, source, tag, comm, request) =>
        |mpi, real, n| begin_send_receive(mpi, envelope(mpi, comm, dest, sent_tag), moved(n(sent_count), sent_type), envelope(mpi, comm, source, tag), moved(n(count), datatype), request, || real(sent, sent_count, sent_type, dest, sent_tag, received, count, datatype, source, tag, comm, request));
    MPI_Isendrecv_replace / MPI_Isendrecv_replace_c (buffer, count, datatype, dest, sent_tag, source, tag, comm, request) =>
        |mpi, real, n| begin_send_receive(mpi, envelope(mpi, comm, dest, sent_tag), moved(n(count), datatype), envelope(mpi, comm, source, tag), moved(n(count), datatype), request, || real(buffer, count, datatype, dest, sent_tag, source, tag, comm, request));
    MPI_Send_init / MPI_Send_init_c, MPI_Bsend_init / MPI_Bsend_init_c, MPI_Rsend_init / MPI_Rsend_init_c (buffer, count, datatype, dest, tag, comm, request) =>
        |mpi, real, n| prepare_message(mpi, Call::MpiIsend, envelope(mpi, comm, dest, tag), moved(n(count), datatype), request, &mut || real(buffer, count, datatype, dest, tag, comm, request));
    MPI_Ssend_init / MPI_Ssend_init_c (buffer, count, datatype, dest, tag, comm, request) =>
        |mpi, real, n| prepare_message(mpi, Call::MpiIssend, envelope(mpi, comm, dest, tag), moved(n(count), datatype), request, &mut || real(buffer, count, datatype, dest, tag, comm, request));
    MPI_Recv_init / MPI_Recv_init_c (buffer, count, datatype, source, tag, comm, request) =>
        |mpi, real, n| prepare_message(mpi, Call::MpiIrecv, envelope(mpi, comm, source, tag), moved(n(count), datatype), request, &mut || real(buffer, count, datatype, source, tag, comm, request));
}

// -- Requests.

mpi! {
    MPI_Start (request) => |mpi, real, n| requests::start(mpi, 1, request, &mut || real(request));
    MPI_Startall (count, all) => |mpi, real, n| requests::start(mpi, count_of(count), all, &mut || real(count, all));
    MPI_Request_free (request) => |mpi, real, n| {
        requests::forget(mpi.handle_at(request, 0));
        real(request)
    };
    MPI_Wait (request, status) [MpiWait] => |mpi, real, n| complete(
        mpi,
        Call::MpiWait,
        &Requests { count: 1, address: request, statuses: status, status_count: 1 },
        &mut |status| real(request, status),
        &|| Done::All,
    );
    MPI_Waitall (count, all, statuses) [MpiWait] => |mpi, real, n| complete(
        mpi,
        Call::MpiWait,
        &Requests { count: count_of(count), address: all, statuses, status_count: count_of(count) },
        &mut |statuses| real(count, all, statuses),
        &|| Done::All,
    );
    MPI_Waitany (count, all, index, status) [MpiWait] => |mpi, real, n| complete(
        mpi,
        Call::MpiWait,
        &Requests { count: count_of(count), address: all, statuses: status, status_count: 1 },
        &mut |status| real(count, all, index, status),
        &|| Done::one(index),
    );
    MPI_Waitsome (count, all, done, indices, statuses) [MpiWait] => |mpi, real, n| complete(
        mpi,
        Call::MpiWait,
        &Requests { count: count_of(count), address: all, statuses, status_count: count_of(count) },
        &mut |statuses| real(count, all, done, indices, statuses),
        &|| Done::several(done, indices),
    );
    MPI_Test (request, flag, status) => |mpi, real, n| complete(
        mpi,
        Call::MpiTest,
        &Requests { count: 1, address: request, statuses: status, status_count: 1 },
        &mut |status| real(request, flag, status),
        &|| if at(flag) == 0 { Done::Nothing } else { Done::All },
    );
    MPI_Testall (count, all, flag, statuses) => |mpi, real, n| complete(
        mpi,
        Call::MpiTest,
        &Requests { count: count_of(count), address: all, statuses, status_count: count_of(count) },
        &mut |statuses| real(count, all, flag, statuses),
        &|| if at(flag) == 0 { Done::Nothing } else { Done::All },
    );
    MPI_Testany (count, all, index, flag, status) => |mpi, real, n| complete(
        mpi,
        Call::MpiTest,
        &Requests { count: count_of(count), address: all, statuses: status, status_count: 1 },
        &mut |status| real(count, all, index, flag, status),
        &|| if at(flag) == 0 { Done::Nothing } else { Done::one(index) },
    );
    MPI_Testsome (count, all, done, indices, statuses) => |mpi, real, n| complete(
        mpi,
        Call::MpiTest,
        &Requests { count: count_of(count), address: all, statuses, status_count: count_of(count) },
        &mut |statuses| real(count, all, done, indices, statuses),
        &|| Done::several(done, indices),
    );
}

// -- Collective calls.

/// Defines a collective call, its form that begins a request, and that which prepares one, by all their names:
/// `{MPI_Bcast, MPI_Ibcast, MPI_Bcast_init, …}`, each of which takes the arguments given and, but for the first, a request after
/// them (a persistent one an info too).
macro_rules! collectives {
    ($({$($name:ident $(/ $large:ident)?),+; $($begin:ident $(/ $begin_large:ident)?),+; $($init:ident $(/ $init_large:ident)?),+}
        ($($arg:ident),*) $([$plain:ident $(, $rank:ident)?])?
        => $call:ident, $begins:ident, $comm:ident $(root $root:ident)?, |$mpi:ident, $n:ident| $moved:expr;)*) => {$(
        mpi! {
            $($name $(/ $large)?),+ ($($arg),*) $([$plain $(, $rank)?])? => |$mpi, real, $n| collective(
                $mpi,
                &Collective {
                    call: Call::$call,
                    on: $mpi.handle($comm),
                    root: collectives!(@root $($root)?),
                    moved: $moved,
                    request: 0,
                },
                &mut || real($($arg),*),
            );
            $($begin $(/ $begin_large)?),+ ($($arg,)* request) => |$mpi, real, $n| collective(
                $mpi,
                &Collective {
                    call: Call::$begins,
                    on: $mpi.handle($comm),
                    root: collectives!(@root $($root)?),
                    moved: $moved,
                    request,
                },
                &mut || real($($arg,)* request),
            );
            $($init $(/ $init_large)?),+ ($($arg,)* info, request) => |$mpi, real, $n| prepare_collective(
                $mpi,
                &Collective {
                    call: Call::$begins,
                    on: $mpi.handle($comm),
                    root: collectives!(@root $($root)?),
                    moved: $moved,
                    request,
                },
                &mut || real($($arg,)* info, request),
            );
        }
    )*};
    (@root) => { None };
    (@root $root:ident) => { Some(int($root)) };
}

collectives! {
    {MPI_Barrier; MPI_Ibarrier; MPI_Barrier_init, MPIX_Barrier_init}
        (comm) [MpiBarrier]
        => MpiBarrier, MpiIbarrier, comm, |mpi, n| Moved::UNKNOWN;
    {MPI_Bcast / MPI_Bcast_c; MPI_Ibcast / MPI_Ibcast_c; MPI_Bcast_init / MPI_Bcast_init_c, MPIX_Bcast_init}
        (buffer, count, datatype, root, comm) [MpiBcast, root]
        => MpiBcast, MpiIbcast, comm root root, |mpi, n| moved(n(count), datatype);
    {MPI_Reduce / MPI_Reduce_c; MPI_Ireduce / MPI_Ireduce_c; MPI_Reduce_init / MPI_Reduce_init_c, MPIX_Reduce_init}
        (sent, received, count, datatype, op, root, comm) [MpiReduce, root]
        => MpiReduce, MpiIreduce, comm root root, |mpi, n| moved(n(count), datatype);
    {MPI_Allreduce / MPI_Allreduce_c; MPI_Iallreduce / MPI_Iallreduce_c; MPI_Allreduce_init / MPI_Allreduce_init_c, MPIX_Allreduce_init}
        (sent, received, count, datatype, op, comm) [MpiAllreduce]
        => MpiAllreduce, MpiIallreduce, comm, |mpi, n| moved(n(count), datatype);
    {MPI_Gather / MPI_Gather_c; MPI_Igather / MPI_Igather_c; MPI_Gather_init / MPI_Gather_init_c, MPIX_Gather_init}
        (sent, count, datatype, received, received_count, received_type, root, comm) [MpiGather, root]
        => MpiGather, MpiIgather, comm root root, |mpi, n| of(mpi, sent, n(count), datatype);
    {MPI_Gatherv / MPI_Gatherv_c; MPI_Igatherv / MPI_Igatherv_c; MPI_Gatherv_init / MPI_Gatherv_init_c, MPIX_Gatherv_init}
        (sent, count, datatype, received, received_counts, places, received_type, root, comm) [MpiGather, root]
        => MpiGather, MpiIgather, comm root root, |mpi, n| of(mpi, sent, n(count), datatype);
    {MPI_Scatter / MPI_Scatter_c; MPI_Iscatter / MPI_Iscatter_c; MPI_Scatter_init / MPI_Scatter_init_c, MPIX_Scatter_init}
        (sent, sent_count, sent_type, received, count, datatype, root, comm) [MpiScatter, root]
        => MpiScatter, MpiIscatter, comm root root, |mpi, n| of(mpi, received, n(count), datatype);
    {MPI_Scatterv / MPI_Scatterv_c; MPI_Iscatterv / MPI_Iscatterv_c; MPI_Scatterv_init / MPI_Scatterv_init_c, MPIX_Scatterv_init}
        (sent, sent_counts, places, sent_type, received, count, datatype, root, comm) [MpiScatter, root]
        => MpiScatter, MpiIscatter, comm root root, |mpi, n| of(mpi, received, n(count), datatype);
    {MPI_Allgather / MPI_Allgather_c; MPI_Iallgather / MPI_Iallgather_c; MPI_Allgather_init / MPI_Allgather_init_c, MPIX_Allgather_init}
        (sent, count, datatype, received, received_count, received_type, comm) [MpiAllgather]
        => MpiAllgather, MpiIallgather, comm, |mpi, n| of(mpi, sent, n(count), datatype);
    {MPI_Allgatherv / MPI_Allgatherv_c; MPI_Iallgatherv / MPI_Iallgatherv_c; MPI_Allgatherv_init / MPI_Allgatherv_init_c, MPIX_Allgatherv_init}
        (sent, count, datatype, received, received_counts, places, received_type, comm) [MpiAllgather]
        => MpiAllgather, MpiIallgather, comm, |mpi, n| of(mpi, sent, n(count), datatype);
    {MPI_Alltoall / MPI_Alltoall_c; MPI_Ialltoall / MPI_Ialltoall_c; MPI_Alltoall_init / MPI_Alltoall_init_c, MPIX_Alltoall_init}
        (sent, count, datatype, received, received_count, received_type, comm) [MpiAlltoall]
        => MpiAlltoall, MpiIalltoall, comm, |mpi, n| to_each(mpi, sent, n(count), datatype);
    {MPI_Alltoallv / MPI_Alltoallv_c; MPI_Ialltoallv / MPI_Ialltoallv_c; MPI_Alltoallv_init / MPI_Alltoallv_init_c, MPIX_Alltoallv_init}
        (sent, sent_counts, sent_places, sent_types, received, received_counts, received_places, received_types, comm) [MpiAlltoall]
        => MpiAlltoall, MpiIalltoall, comm, |mpi, n| Moved::UNKNOWN;
    {MPI_Alltoallw / MPI_Alltoallw_c; MPI_Ialltoallw / MPI_Ialltoallw_c; MPI_Alltoallw_init / MPI_Alltoallw_init_c, MPIX_Alltoallw_init}
        (sent, sent_counts, sent_places, sent_types, received, received_counts, received_places, received_types, comm)
        => MpiAlltoall, MpiIalltoall, comm, |mpi, n| Moved::UNKNOWN;
    {MPI_Scan / MPI_Scan_c, MPI_Exscan / MPI_Exscan_c; MPI_Iscan / MPI_Iscan_c, MPI_Iexscan / MPI_Iexscan_c; MPI_Scan_init / MPI_Scan_init_c, MPI_Exscan_init / MPI_Exscan_init_c, MPIX_Scan_init, MPIX_Exscan_init}
        (sent, received, count, datatype, op, comm) [MpiScan]
        => MpiScan, MpiIscan, comm, |mpi, n| moved(n(count), datatype);
    {MPI_Reduce_scatter / MPI_Reduce_scatter_c; MPI_Ireduce_scatter / MPI_Ireduce_scatter_c; MPI_Reduce_scatter_init / MPI_Reduce_scatter_init_c, MPIX_Reduce_scatter_init}
        (sent, received, received_counts, datatype, op, comm) [MpiScan]
        => MpiScan, MpiIscan, comm, |mpi, n| Moved::UNKNOWN;
    {MPI_Reduce_scatter_block / MPI_Reduce_scatter_block_c; MPI_Ireduce_scatter_block / MPI_Ireduce_scatter_block_c; MPI_Reduce_scatter_block_init / MPI_Reduce_scatter_block_init_c, MPIX_Reduce_scatter_block_init}
        (sent, received, count, datatype, op, comm) [MpiScan]
        => MpiScan, MpiIscan, comm, |mpi, n| to_each(mpi, sent, n(count), datatype);
    {MPI_Neighbor_allgather / MPI_Neighbor_allgather_c, MPI_Neighbor_alltoall / MPI_Neighbor_alltoall_c; MPI_Ineighbor_allgather / MPI_Ineighbor_allgather_c, MPI_Ineighbor_alltoall / MPI_Ineighbor_alltoall_c; MPI_Neighbor_allgather_init / MPI_Neighbor_allgather_init_c, MPI_Neighbor_alltoall_init / MPI_Neighbor_alltoall_init_c, MPIX_Neighbor_allgather_init, MPIX_Neighbor_alltoall_init}
        (sent, count, datatype, received, received_count, received_type, comm)
        => MpiNeighbor, MpiIneighbor, comm, |mpi, n| of(mpi, sent, n(count), datatype);
    {MPI_Neighbor_allgatherv / MPI_Neighbor_allgatherv_c; MPI_Ineighbor_allgatherv / MPI_Ineighbor_allgatherv_c; MPI_Neighbor_allgatherv_init / MPI_Neighbor_allgatherv_init_c, MPIX_Neighbor_allgatherv_init}
        (sent, count, datatype, received, received_counts, places, received_type, comm)
        => MpiNeighbor, MpiIneighbor, comm, |mpi, n| of(mpi, sent, n(count), datatype);
    {MPI_Neighbor_alltoallv / MPI_Neighbor_alltoallv_c, MPI_Neighbor_alltoallw / MPI_Neighbor_alltoallw_c; MPI_Ineighbor_alltoallv / MPI_Ineighbor_alltoallv_c, MPI_Ineighbor_alltoallw / MPI_Ineighbor_alltoallw_c; MPI_Neighbor_alltoallv_init / MPI_Neighbor_alltoallv_init_c, MPI_Neighbor_alltoallw_init / MPI_Neighbor_alltoallw_init_c, MPIX_Neighbor_alltoallv_init, MPIX_Neighbor_alltoallw_init}
        (sent, sent_counts, sent_places, sent_types, received, received_counts, received_places, received_types, comm)
        => MpiNeighbor, MpiIneighbor, comm, |mpi, n| Moved::UNKNOWN;
}

// -- Communicators.

/// Defines calls that make something of a communicator: `in` which of the arguments that is, `gives` where they put it.
macro_rules! makers {
    ($($($name:ident $(/ $large:ident)?),+ ($($arg:ident),*) => $call:ident, $lineage:expr, in $comm:ident
        $(root $root:ident)? $(gives $made:ident)? $(request $request:ident)?;)*) => {$(
        mpi! {
            $($name $(/ $large)?),+ ($($arg),*) => |mpi, real, n| make(
                mpi,
                &Making {
                    call: Call::$call,
                    of: mpi.handle($comm),
                    root: makers!(@root $($root)?),
                    made: makers!(@address $($made)?),
                    lineage: $lineage,
                    request: makers!(@address $($request)?),
                },
                &mut || real($($arg),*),
            );
        }
    )*};
    (@root) => { None };
    (@root $root:ident) => { Some(int($root)) };
    (@address) => { 0 };
    (@address $address:ident) => { $address };
}

makers! {
    MPI_Comm_dup (comm, made) => MpiComm, Lineage::Copy, in comm gives made;
    MPI_Comm_dup_with_info (comm, info, made) => MpiComm, Lineage::Copy, in comm gives made;
    MPI_Comm_idup (comm, made, request) => MpiIcomm, Lineage::Copy, in comm gives made request request;
    MPI_Comm_idup_with_info (comm, info, made, request) =>
        MpiIcomm, Lineage::Copy, in comm gives made request request;
    MPI_Comm_split (comm, color, key, made) => MpiComm, Lineage::Part, in comm gives made;
    MPI_Comm_split_type (comm, kind, key, info, made) => MpiComm, Lineage::Part, in comm gives made;
    MPI_Comm_create (comm, group, made) => MpiComm, Lineage::Part, in comm gives made;
    MPI_Comm_create_group (comm, group, tag, made) => MpiComm, Lineage::Group(int(tag)), in comm gives made;
    MPI_Cart_create (comm, dimensions, sizes, periods, reorder, made) => MpiComm, Lineage::Part, in comm gives made;
    MPI_Cart_sub (comm, remain, made) => MpiComm, Lineage::Part, in comm gives made;
    MPI_Graph_create (comm, nodes, index, edges, reorder, made) => MpiComm, Lineage::Part, in comm gives made;
    MPI_Dist_graph_create (comm, count, sources, degrees, destinations, weights, info, reorder, made) =>
        MpiComm, Lineage::Part, in comm gives made;
    MPI_Dist_graph_create_adjacent
        (comm, indegree, sources, source_weights, outdegree, destinations, weights, info, reorder, made) =>
        MpiComm, Lineage::Part, in comm gives made;
    MPI_Intercomm_create (comm, leader, peer_comm, remote_leader, tag, made) =>
        MpiComm, Lineage::Bridge(int(tag)), in comm gives made;
    MPI_Intercomm_merge (comm, high, made) => MpiComm, Lineage::Merge, in comm gives made;
    // What these make has processes of another MPI_COMM_WORLD.
    MPI_Comm_spawn (command, argv, count, info, root, comm, made, errors) => MpiComm, Lineage::Bare, in comm root root;
    MPI_Comm_spawn_multiple (count, commands, argvs, counts, infos, root, comm, made, errors) =>
        MpiComm, Lineage::Bare, in comm root root;
    MPI_Comm_accept, MPI_Comm_connect (port, info, root, comm, made) => MpiComm, Lineage::Bare, in comm root root;
}

mpi! {
    MPI_Comm_disconnect (comm) => |mpi, real, n| unmake(mpi, Call::MpiComm, comm, &mut || real(comm));
    MPI_Comm_free (comm) => |mpi, real, n| {
        // Afterwards another thread may have made one with this handle.
        forget(mpi.handle_at(comm, 0));
        real(comm)
    };
}

// -- One-sided access.

makers! {
    MPI_Win_create / MPI_Win_create_c (base, size, unit, info, comm, made) => MpiWin, Lineage::Copy, in comm gives made;
    MPI_Win_allocate / MPI_Win_allocate_c, MPI_Win_allocate_shared / MPI_Win_allocate_shared_c
        (size, unit, info, comm, base, made) => MpiWin, Lineage::Copy, in comm gives made;
    MPI_Win_create_dynamic (info, comm, made) => MpiWin, Lineage::Copy, in comm gives made;
}

/// A call on a window that isn't collective, and neither locks nor unlocks.
fn by_itself(call: Call, window: usize, rank: Option<c_int>) -> Synchronising {
    Synchronising { call, window, rank, operation: -1 }
}

/// A collective call on a window or file, of the handle given.
fn on(call: Call, handle: usize, moved: Moved, request: usize) -> Collective {
    Collective { call, on: handle, root: None, moved, request }
}

mpi! {
    MPI_Win_free (window) => |mpi, real, n| unmake(mpi, Call::MpiWin, window, &mut || real(window));
    MPI_Win_fence (assert, window) => |mpi, real, n| collective(
        mpi, &on(Call::MpiWin, mpi.handle(window), Moved::UNKNOWN, 0), &mut || real(assert, window));
    MPI_Win_post (group, assert, window) => |mpi, real, n|
        begin_epoch(Call::MpiWinPost, mpi.handle(window), mpi.handle(group), &mut || real(group, assert, window));
    MPI_Win_start (group, assert, window) => |mpi, real, n|
        begin_epoch(Call::MpiWinStart, mpi.handle(window), mpi.handle(group), &mut || real(group, assert, window));
    MPI_Win_complete (window) => |mpi, real, n|
        synchronise(mpi, &by_itself(Call::MpiWinComplete, mpi.handle(window), None), &mut || real(window));
    MPI_Win_wait (window) => |mpi, real, n|
        synchronise(mpi, &by_itself(Call::MpiWinWait, mpi.handle(window), None), &mut || real(window));
    MPI_Win_test (window, flag) => |mpi, real, n|
        test_epoch(mpi.handle(window), flag, &mut || real(window, flag));
    MPI_Win_lock (kind, rank, assert, window) => |mpi, real, n| synchronise(
        mpi,
        &Synchronising {
            operation: if int(kind) == mpi.lock_shared { LOCK_SH } else { LOCK_EX },
            ..by_itself(Call::MpiWinLock, mpi.handle(window), Some(int(rank)))
        },
        &mut || real(kind, rank, assert, window),
    );
    MPI_Win_lock_all (assert, window) => |mpi, real, n| synchronise(
        mpi,
        &Synchronising { operation: LOCK_SH, ..by_itself(Call::MpiWinLock, mpi.handle(window), None) },
        &mut || real(assert, window),
    );
    MPI_Win_unlock (rank, window) => |mpi, real, n| synchronise(
        mpi,
        &Synchronising { operation: LOCK_UN, ..by_itself(Call::MpiWinUnlock, mpi.handle(window), Some(int(rank))) },
        &mut || real(rank, window),
    );
    MPI_Win_unlock_all (window) => |mpi, real, n| synchronise(
        mpi,
        &Synchronising { operation: LOCK_UN, ..by_itself(Call::MpiWinUnlock, mpi.handle(window), None) },
        &mut || real(window),
    );
    MPI_Win_flush, MPI_Win_flush_local (rank, window) => |mpi, real, n|
        synchronise(mpi, &by_itself(Call::MpiWinFlush, mpi.handle(window), Some(int(rank))), &mut || real(rank, window));
    MPI_Win_flush_all, MPI_Win_flush_local_all (window) => |mpi, real, n|
        synchronise(mpi, &by_itself(Call::MpiWinFlush, mpi.handle(window), None), &mut || real(window));
}

// -- Files. What they read and write has rows of its own, inside.

makers! {
    MPI_File_open (comm, path, mode, info, made) => MpiFile, Lineage::Bare, in comm gives made;
}

/// Defines collective calls on a file, their first argument.
macro_rules! files {
    ($($($name:ident $(/ $large:ident)?),+ (file $(, $arg:ident)*) $(moves $count:ident $datatype:ident)?
        $(request $request:ident)? => $call:ident;)*) => {$(
        mpi! {
            $($name $(/ $large)?),+ (file $(, $arg)*) => |mpi, real, n| collective(
                mpi,
                &on(Call::$call, file, files!(@moved n $($count $datatype)?), files!(@request $($request)?)),
                &mut || real(file $(, $arg)*),
            );
        }
    )*};
    (@moved $n:ident) => { Moved::UNKNOWN };
    (@moved $n:ident $count:ident $datatype:ident) => { moved($n($count), $datatype) };
    (@request) => { 0 };
    (@request $request:ident) => { $request };
}

files! {
    MPI_File_set_size, MPI_File_preallocate (file, size) => MpiFile;
    MPI_File_set_view (file, place, element, view, representation, info) => MpiFile;
    MPI_File_set_info (file, info) => MpiFile;
    MPI_File_set_atomicity (file, flag) => MpiFile;
    MPI_File_seek_shared (file, offset, whence) => MpiFile;
    MPI_File_sync (file) => MpiFile;
    MPI_File_read_all / MPI_File_read_all_c, MPI_File_write_all / MPI_File_write_all_c,
    MPI_File_read_ordered / MPI_File_read_ordered_c, MPI_File_write_ordered / MPI_File_write_ordered_c
        (file, buffer, count, datatype, status) moves count datatype => MpiFile;
    MPI_File_read_at_all / MPI_File_read_at_all_c, MPI_File_write_at_all / MPI_File_write_at_all_c
        (file, offset, buffer, count, datatype, status) moves count datatype => MpiFile;
    MPI_File_read_all_begin / MPI_File_read_all_begin_c, MPI_File_write_all_begin / MPI_File_write_all_begin_c,
    MPI_File_read_ordered_begin / MPI_File_read_ordered_begin_c,
    MPI_File_write_ordered_begin / MPI_File_write_ordered_begin_c
        (file, buffer, count, datatype) moves count datatype => MpiFile;
    MPI_File_read_at_all_begin / MPI_File_read_at_all_begin_c,
    MPI_File_write_at_all_begin / MPI_File_write_at_all_begin_c
        (file, offset, buffer, count, datatype) moves count datatype => MpiFile;
    MPI_File_read_all_end, MPI_File_write_all_end, MPI_File_read_at_all_end, MPI_File_write_at_all_end,
    MPI_File_read_ordered_end, MPI_File_write_ordered_end (file, buffer, status) => MpiFile;
    MPI_File_iread_all / MPI_File_iread_all_c, MPI_File_iwrite_all / MPI_File_iwrite_all_c
        (file, buffer, count, datatype, request) moves count datatype request request => MpiIfile;
    MPI_File_iread_at_all / MPI_File_iread_at_all_c, MPI_File_iwrite_at_all / MPI_File_iwrite_at_all_c
        (file, offset, buffer, count, datatype, request) moves count datatype request request => MpiIfile;
}

mpi! {
    MPI_File_close (file) => |mpi, real, n| unmake(mpi, Call::MpiFile, file, &mut || real(file));
}
