"""Perfetto: processes and threads with a slice a call, counters of throughput and queue depth.

TracePackets of track events (protos/perfetto/trace/track_event/track_event.proto), one after the other as the repeated
field 1 of Trace. Slices carry path, pos, length, result and errno as debug annotations. Times are those of the trail,
ns since the epoch.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from iotrail.trail import Trail

# One writer: tracks, names and states belong to a sequence.
SEQUENCE = 1
ARGUMENTS = ("path", "pos", "length", "result", "errno")
# (name, unit, query) of the counters; a bucket without a row is 0.
COUNTERS = (
    ("read throughput", "B/s", "SELECT b.ts, COALESCE(SUM(t.bytes_per_s) FILTER (WHERE t.kind = 'read'), 0) FROM time_bucket AS b LEFT JOIN throughput AS t ON t.ts = b.ts GROUP BY b.ts ORDER BY b.ts"),
    ("write throughput", "B/s", "SELECT b.ts, COALESCE(SUM(t.bytes_per_s) FILTER (WHERE t.kind = 'write'), 0) FROM time_bucket AS b LEFT JOIN throughput AS t ON t.ts = b.ts GROUP BY b.ts ORDER BY b.ts"),
    ("queue depth", "operations", "SELECT ts, mean FROM queue_depth ORDER BY ts"),
)  # fmt: skip


def write(trail: Trail, output: Path, **_: object) -> None:
    """Write the trace."""
    with output.open("wb") as file:
        first = protos.TracePacket()
        first.sequence_flags = protos.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        _put(file, first)
        _tracks(trail, file)
        for columns in _rows(trail):
            _slices(file, columns)
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


def _tracks(trail: Trail, file: BinaryIO) -> None:
    """A track a process and thread, by their ids in the trail; those of the system are shown."""
    for row in trail.rows_of("SELECT process, pid, name, cmd FROM process ORDER BY start_ts, process"):
        packet = protos.TracePacket()
        packet.track_descriptor.uuid = row["process"]
        packet.track_descriptor.process.pid = row["pid"]
        packet.track_descriptor.process.process_name = row["name"]
        if row["cmd"]:
            packet.track_descriptor.process.cmdline.append(row["cmd"])
        _put(file, packet)
    known = trail.rows_of("""
        SELECT u.thread, t.process, COALESCE(t.pid, 1) AS pid, COALESCE(t.tid, 0) AS tid,
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
        packet.track_descriptor.uuid = row["thread"]
        if row["tid"]:
            packet.track_descriptor.thread.pid = row["pid"]
            packet.track_descriptor.thread.tid = row["tid"]
            packet.track_descriptor.thread.thread_name = row["name"]
        else:
            # a trail without threads (an imported one) has tracks without a system's ids
            packet.track_descriptor.name = row["name"]
        _put(file, packet)


def _rows(trail: Trail) -> Iterator[dict[str, list[Any]]]:
    """All calls, in order of time, the outer of two that begin together first."""
    query = """
        SELECT ts, dur, thread, call, kind, path, pos, length, result, errno FROM (
            SELECT ts, dur, thread, call, kind, path, pos, length, result, errno FROM op
            UNION ALL
            SELECT ts, dur, thread, call, 'wait', NULL, NULL, length, result, errno FROM sync_op
        ) ORDER BY thread, ts, dur DESC NULLS FIRST"""
    relation = trail.query(query)
    with trail.errors(query):
        for batch in relation.to_arrow_reader(1 << 16):
            yield batch.to_pydict()


def _slices(file: BinaryIO, columns: dict[str, list[Any]]) -> None:
    for ts, dur, thread, call, kind, *arguments in zip(*columns.values(), strict=True):
        packet = protos.TracePacket()
        packet.timestamp = ts
        event = packet.track_event
        event.type = protos.TrackEvent.TYPE_SLICE_BEGIN
        event.track_uuid = thread
        event.name = call
        event.categories.append(kind)
        for name, value in zip(ARGUMENTS, arguments, strict=True):
            if value is None or (name == "errno" and not value):
                continue
            annotation = event.debug_annotations.add()
            annotation.name = name
            if isinstance(value, str):
                annotation.string_value = value
            else:
                annotation.int_value = value
        _put(file, packet)
        # a call that never returned has no end: Perfetto shows it so
        if dur is not None:
            end = protos.TracePacket()
            end.timestamp = ts + dur
            end.track_event.type = protos.TrackEvent.TYPE_SLICE_END
            end.track_event.track_uuid = thread
            _put(file, end)


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
        packet.timestamp = ts
        packet.track_event.type = protos.TrackEvent.TYPE_COUNTER
        packet.track_event.track_uuid = uuid
        packet.track_event.double_counter_value = value
        _put(file, packet)
