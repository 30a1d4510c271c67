"""Perfetto: processes and threads with a slice a call, counters of throughput and queue depth.

TracePackets of track events (protos/perfetto/trace/track_event/track_event.proto), one after the other as the repeated
field 1 of Trace. Slices carry path, pos, length, result and errno as debug annotations. Times are those of the trail,
ns since the epoch. Slices of a track must nest: a thread that has several requests at a time (one of a block trace) has
a track for each that is in flight. A call of which only the start is known is an instant.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from google.protobuf.internal import encoder
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from iotrail import schema
from iotrail.exporters.messages import Part, encode, length_of
from iotrail.importers.ids import hash63
from iotrail.trail import Trail

Ints = npt.NDArray[np.int64]
# Later than any end.
TOP = (1 << 63) - 1
PACKET, EVENT, ANNOTATION = protos.TracePacket, protos.TrackEvent, protos.DebugAnnotation
# One writer: tracks, names and states belong to a sequence.
SEQUENCE = 1
KINDS = (*dict.fromkeys(call.kind for call in schema.load().calls), "wait")
ARGUMENTS = ("path", "pos", "length", "result", "errno")
# (name, unit, query) of the counters; a bucket without a row is 0.
COUNTERS = (
    ("read throughput", "B/s", "SELECT b.ts, COALESCE(SUM(t.bytes_per_s) FILTER (WHERE t.kind = 'read'), 0) FROM time_bucket AS b LEFT JOIN throughput AS t ON t.ts = b.ts GROUP BY b.ts ORDER BY b.ts"),
    ("write throughput", "B/s", "SELECT b.ts, COALESCE(SUM(t.bytes_per_s) FILTER (WHERE t.kind = 'write'), 0) FROM time_bucket AS b LEFT JOIN throughput AS t ON t.ts = b.ts GROUP BY b.ts ORDER BY b.ts"),
    ("queue depth", "operations", "SELECT ts, mean FROM queue_depth WHERE mean IS NOT NULL ORDER BY ts"),
)  # fmt: skip


def write(trail: Trail, output: Path, **_: object) -> None:
    """Write the trace."""
    with output.open("wb") as file:
        calls = _call_names(trail)
        _interned(trail, file, calls)
        _tracks(trail, file)
        overlapping = _overlapping(trail)
        for columns in _rows(trail, f"o.thread NOT IN ({overlapping or '0'})"):
            _slices(file, columns, calls)
        for thread in map(int, filter(None, overlapping.split(", "))):
            _in_flight(trail, file, thread, calls)
        for number, (name, unit, query) in enumerate(COUNTERS, 1):
            _counter(trail, file, number, name, unit, query)


def _put(file: BinaryIO, packet: Any) -> None:
    """Append a packet as Trace.packet."""
    packet.trusted_packet_sequence_id = SEQUENCE
    content = packet.SerializeToString()
    size = len(content)
    head = bytearray([0x0A])
    while size >= 0x80:
        head.append(size & 0x7F | 0x80)
        size >>= 7
    head.append(size)
    file.write(head + content)


def _unsigned(number: int) -> int:
    """A number as `_numbers` has it."""
    return number & ((1 << 64) - 1)


def _tracks(trail: Trail, file: BinaryIO) -> None:
    """A track a process and thread, by their ids in the trail; those of the system are shown, 0 where no system has
    such a one."""
    processes = trail.rows_of("""
        SELECT process, COALESCE(TRY_CAST(pid AS INTEGER), 0) AS pid, name, cmd
        FROM process ORDER BY start_ts, process""")
    for row in processes:
        packet = protos.TracePacket()
        packet.track_descriptor.uuid = _unsigned(row["process"])
        packet.track_descriptor.process.pid = row["pid"]
        packet.track_descriptor.process.process_name = row["name"]
        if row["cmd"]:
            packet.track_descriptor.process.cmdline.append(row["cmd"])
        _put(file, packet)
    known = trail.rows_of("""
        SELECT u.thread, t.process, COALESCE(TRY_CAST(t.pid AS INTEGER), 1) AS pid,
            COALESCE(TRY_CAST(t.tid AS INTEGER), 0) AS tid,
            COALESCE(t.thread_name, t.process_name, 'thread ' || u.thread) AS name
        FROM (SELECT thread FROM file_op UNION SELECT thread FROM sync_op) AS u
        LEFT JOIN (
            SELECT thread, MAX(process) AS process, MAX(pid) AS pid, MAX(tid) AS tid, MAX(thread_name) AS thread_name,
                MAX(process_name) AS process_name
            FROM thread_life GROUP BY thread
        ) AS t ON t.thread = u.thread
        ORDER BY u.thread""")
    for row in known:
        packet = protos.TracePacket()
        packet.track_descriptor.uuid = _unsigned(row["thread"])
        if row["tid"]:
            packet.track_descriptor.thread.pid = row["pid"]
            packet.track_descriptor.thread.tid = row["tid"]
            packet.track_descriptor.thread.thread_name = row["name"]
        else:
            # a trail without threads (an imported one) has tracks without a system's ids
            packet.track_descriptor.name = row["name"]
        _put(file, packet)


def _call_names(trail: Trail) -> list[str]:
    """The calls that the trail has; those of a later version are not in table call."""
    rows = trail.rows_of("SELECT call FROM op UNION SELECT call FROM sync_op ORDER BY call")
    return [row["call"] for row in rows]


def _interned(trail: Trail, file: BinaryIO, calls: Sequence[str]) -> None:
    """Texts that come again and again, by number: calls, kinds, names of arguments, and paths by the rank of their id."""
    packet = protos.TracePacket()
    packet.sequence_flags = protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    data = packet.interned_data
    for number, call in enumerate(calls, 1):
        data.event_names.add(iid=number, name=call)
    for number, kind in enumerate(KINDS, 1):
        data.event_categories.add(iid=number, name=kind)
    for number, name in enumerate(ARGUMENTS, 1):
        data.debug_annotation_names.add(iid=number, name=name)
    # Small messages of their own: a file may have a path of thousands of bytes, a trail hundreds of thousands.
    _put(file, packet)
    trail.prepare("file")
    trail.connection.execute("""
        CREATE OR REPLACE TEMP TABLE _perfetto_path AS
        SELECT node, file, path, ROW_NUMBER() OVER (ORDER BY node, file) AS number FROM file WHERE path IS NOT NULL""")
    paths = trail.connection.execute("SELECT number, path FROM _perfetto_path ORDER BY number")
    while rows := paths.fetchmany(1000):
        packet = protos.TracePacket()
        packet.sequence_flags = protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        for number, path in rows:
            packet.interned_data.debug_annotation_string_values.add(iid=number, str=path.encode())
        _put(file, packet)


def _overlapping(trail: Trail) -> str:
    """The threads of which a call ends after one that began before it and hadn't ended: their calls don't nest."""
    rows = trail.rows_of("""
        SELECT DISTINCT thread FROM (
            SELECT thread, ts, ts + dur AS end_ts, MAX(ts + dur) OVER (
                PARTITION BY thread ORDER BY ts, dur DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS reached
            FROM file_op WHERE dur > 0
        ) WHERE reached > ts AND end_ts > reached ORDER BY thread""")
    return ", ".join(str(row["thread"]) for row in rows)


def _in_flight(trail: Trail, file: BinaryIO, thread: int, calls: Sequence[str]) -> None:
    """A thread's calls on as many tracks as are in flight at once, the first on its own."""
    parts = list(_rows(trail, f"o.thread = {thread}"))
    columns = {name: pa.chunked_array([part[name] for part in parts]).combine_chunks() for name in parts[0]}
    lane = lanes(columns["ts"].to_numpy(), columns["until"].fill_null(pa.scalar(TOP, pa.int64())).to_numpy())
    tracks = np.array(
        [thread, *(hash63(f"in flight {thread} {n}".encode()) for n in range(1, int(lane.max()) + 1))],
        np.int64,
    )
    for number, track in enumerate(tracks[1:].tolist(), 2):
        packet = protos.TracePacket()
        packet.track_descriptor.uuid = track
        packet.track_descriptor.parent_uuid = _unsigned(thread)
        packet.track_descriptor.name = f"in flight {number}"
        _put(file, packet)
    columns["thread"] = pa.array(tracks[lane])
    for begin in range(0, len(lane), 1 << 18):
        _slices(file, {name: column.slice(begin, 1 << 18) for name, column in columns.items()}, calls)


def lanes(begins: Ints, ends: Ints) -> Ints:
    """Numbers from 0 for intervals, in order of their begins, so that those of one number don't overlap.

    A number that is free again is taken by the next that needs one, the longest free first. So the nth interval to
    take a free one follows the interval of the nth end: no interval waits for another to be numbered. As many numbers
    are used as intervals overlap at most.
    """
    # one without length takes a moment: it hasn't ended before itself
    ends = np.maximum(ends, begins + 1)
    by_end = np.argsort(ends, kind="stable")
    # how many have ended before each begins, and how many numbers were taken again until then
    ended = np.searchsorted(ends[by_end], begins, side="right")
    turn = np.arange(len(begins))
    again = turn + np.minimum.accumulate(ended - turn)
    taken = np.diff(again, prepend=0) > 0
    # whom each follows; itself if it has a new number
    root = np.where(taken, by_end[np.maximum(again - 1, 0)], turn)
    while True:
        further = root[root]
        if np.array_equal(further, root):
            break
        root = further
    fresh = np.cumsum(~taken) - 1
    return fresh[root]


def _rows(trail: Trail, condition: str) -> Iterator[dict[str, Any]]:
    """Calls as Arrow columns, thread by thread in order of time, the outer of two that begin together first."""
    query = f"""
        SELECT o.ts, o.ts + o.dur AS until, o.thread, o.call, o.kind, p.number AS path, o.pos, o.length, o.result,
            NULLIF(o.errno, 0) AS errno, o.dur IS NULL AND o.result IS NOT NULL AS instant
        FROM (
            SELECT ts, dur, node, thread, call, kind, file, pos, length, result, errno FROM op
            UNION ALL
            SELECT ts, dur, node, thread, call, 'wait', NULL, NULL, length, result, errno FROM sync_op
        ) AS o
        LEFT JOIN _perfetto_path AS p ON p.node = o.node AND p.file = o.file
        WHERE {condition}
        ORDER BY o.thread, o.ts, o.dur DESC NULLS FIRST"""
    relation = trail.query(query)
    with trail.errors(query):
        for batch in relation.to_arrow_reader(1 << 18):
            yield {name: batch.column(name) for name in batch.schema.names}


def _numbers(column: Any) -> tuple[Any, Any]:
    """A column as unsigned numbers (a negative one as its two's complement, as int64 is written), and where it has one."""
    return column.fill_null(0).to_numpy(zero_copy_only=False).view("uint64"), column.is_valid().to_numpy(
        zero_copy_only=False
    )


def _codes(column: Any, names: Sequence[str]) -> Any:
    """The interned numbers of names."""
    return (pc.index_in(column, value_set=pa.array(names, column.type)).to_numpy().astype("uint64")) + 1


def _slices(file: BinaryIO, columns: dict[str, Any], calls: Sequence[str]) -> None:
    """A packet where each call begins and one where it ends; one that never returned has no end: so it is shown."""
    rows = len(columns["ts"])
    track = Part(_tag(EVENT, "track_uuid"), _numbers(columns["thread"])[0])
    instant = columns["instant"].to_numpy(zero_copy_only=False)
    begin = [
        Part(_tag(EVENT, "type") + bytes([protos.TrackEvent.TYPE_SLICE_BEGIN]), None, ~instant),
        Part(_tag(EVENT, "type") + bytes([protos.TrackEvent.TYPE_INSTANT]), None, instant),
        track,
        Part(_tag(EVENT, "category_iids"), _codes(columns["kind"], KINDS)),
        Part(_tag(EVENT, "name_iid"), _codes(columns["call"], calls)),
    ]
    for number, name in enumerate(ARGUMENTS, 1):
        values, there = _numbers(columns[name])
        of = "string_value_iid" if name == "path" else "int_value"
        inner = [
            Part(_tag(ANNOTATION, "name_iid") + bytes([number]), None, there),
            Part(_tag(ANNOTATION, of), values, there),
        ]
        begin += [Part(_tag(EVENT, "debug_annotations"), length_of(inner, rows), there), *inner]
    until, ended = _numbers(columns["until"])
    end = [
        Part(_tag(EVENT, "type") + bytes([protos.TrackEvent.TYPE_SLICE_END]), None, ended),
        Part(track.constant, track.numbers, ended),
    ]
    begins = _packet(_numbers(columns["ts"])[0], begin, None, rows)
    file.write(encode([*begins, *_packet(until, end, ended, rows)], rows))


def _packet(ts: Any, event: list[Part], there: Any, rows: int) -> list[Part]:
    """Parts of a TracePacket with a track event, as Trace.packet."""
    head = [
        Part(_tag(PACKET, "timestamp"), ts, there),
        Part(_tag(PACKET, "trusted_packet_sequence_id") + bytes([SEQUENCE]), None, there),
        Part(
            _tag(PACKET, "sequence_flags") + bytes([protos.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE]),
            None,
            there,
        ),
        Part(_tag(PACKET, "track_event"), length_of(event, rows), there),
        *event,
    ]
    return [Part(_tag(protos.Trace, "packet"), length_of(head, rows), there), *head]


def _tag(message: Any, field: str) -> bytes:
    """The bytes before a field's value: its number and wire type."""
    of = message.DESCRIPTOR.fields_by_name[field]
    delimited = of.type in (of.TYPE_MESSAGE, of.TYPE_STRING, of.TYPE_BYTES)
    tag: bytes = encoder.TagBytes(of.number, 2 if delimited else 0)
    return tag


def _counter(trail: Trail, file: BinaryIO, uuid: int, name: str, unit: str, query: str) -> None:
    packet = protos.TracePacket()
    packet.track_descriptor.uuid = uuid
    packet.track_descriptor.name = name
    packet.track_descriptor.counter.unit_name = unit
    _put(file, packet)
    relation = trail.query(query)
    with trail.errors(query):
        rows = relation.fetchall()
    for ts, value in rows:
        packet = protos.TracePacket()
        packet.timestamp = _unsigned(ts)
        packet.track_event.type = protos.TrackEvent.TYPE_COUNTER
        packet.track_event.track_uuid = uuid
        packet.track_event.double_counter_value = value
        _put(file, packet)
