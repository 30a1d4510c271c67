"""The collector among peers that misbehave: strangers, floods, wrong clocks, viewers that stop; and agents it refuses."""

import contextlib
import http.client
import json
import os
import re
import time
import urllib.error
from pathlib import Path
from socket import create_connection
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest
from websockets.sync.client import ClientConnection, connect

from iotrail.trail import Trail

from .conftest import Agent, Collector, until

TOKEN = "0123456789abcdef-secret"
DAY = 86_400 * 10**9


class Sender:
    """One that isn't iotrail's agent: Arrow's own client of Flight."""

    def __init__(self, collector: Collector, name: str, **headers: str) -> None:
        self.client = flight.connect(f"grpc://{collector.address}")
        about = {"iotrail-wire": "1", "iotrail-agent": name, "iotrail-node": name}
        about |= {key.replace("_", "-"): value for key, value in headers.items()}
        self.options = flight.FlightCallOptions(
            30, headers=[(k.encode(), v.encode()) for k, v in about.items()]
        )
        self.name, self.number = name, 0

    def put(self, table: str, columns: dict[str, Any]) -> None:
        """One message; returns when it is durable."""
        batch = pa.table(columns).combine_chunks().to_batches()[0]
        descriptor = flight.FlightDescriptor.for_path(table)
        writer, answers = self.client.do_put(descriptor, batch.schema, self.options)
        self.number += 1
        with writer:
            writer.write_with_metadata(batch, pa.py_buffer(self.number.to_bytes(8, "little")))
            writer.done_writing()
            answer = answers.read()
        assert answer is not None and answer.to_pybytes() == self.number.to_bytes(8, "little")

    def samples(self, ts: int, metrics: list[str], value: float) -> None:
        """Levels of this sender's machine."""
        n = len(metrics)
        names = {"node": [self.name] * n, "member": [self.name] * n, "metric": metrics}
        self.put("node_sample", {"ts": [ts] * n, "dur": [0] * n, **names, "value": [value] * n})


class Viewer:
    """One who watches everything."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.keys: dict[int, tuple[str, str]] = {}
        self.values: dict[tuple[str, str], float] = {}
        socket.send(json.dumps({"see": {"members": None, "metrics": None, "by": "member", "every_ms": 0}}))

    def next(self, timeout: float = 10) -> dict[str, Any] | None:
        """A frame; none if something else came."""
        said = json.loads(self.socket.recv(timeout))
        frame: dict[str, Any] | None = said.get("frame")
        if frame is not None:
            self.keys |= {series[0]: (series[1], series[2]) for series in frame.get("series", [])}
            pairs = frame.get("values", [])
            for number, value in zip(pairs[::2], pairs[1::2], strict=True):
                self.values[self.keys[number]] = value
        return frame


def test_a_stranger_is_told_what_is_expected(collector: Collector, tmp_path: Path) -> None:
    """What isn't an agent, or not of this version, or has no token, is refused in words; others go on."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    collector.start("--token-file", tmp_path / "token")
    authorization = f"Bearer {TOKEN}"
    samples = {"ts": [1], "node": ["n"], "member": ["n"], "metric": ["load"], "value": [1.0]}
    for headers, table, columns, words in [
        ({}, "node_sample", samples, "token"),
        ({"authorization": "Bearer wrong"}, "node_sample", samples, "token"),
        ({"authorization": authorization, "iotrail_wire": "0"}, "node_sample", samples, "speaks version 0"),
        ({"authorization": authorization}, "node_samples", samples, "there is no such table"),
        ({"authorization": authorization}, "node_sample", {"ts": ["now"]}, "ts"),
        ({"authorization": authorization}, "node_sample", {"ts": [1]}, "is missing"),
    ]:
        stranger = Sender(collector, "stranger", **headers)
        with pytest.raises(pa.ArrowException) as refused:
            stranger.put(table, columns)
        assert words in str(refused.value), refused.value
    client = Sender(collector, "reader", authorization=authorization)
    for ask in (
        lambda: list(client.client.list_flights(options=client.options)),
        lambda: client.client.get_flight_info(flight.FlightDescriptor.for_path("file_op"), client.options),
        lambda: client.client.do_get(flight.Ticket(b"file_op"), client.options).read_all(),
    ):
        with pytest.raises(NotImplementedError, match="takes DoPut only"):
            ask()
    client.put("node_sample", samples)
    assert json.loads(collector.ask("/seal", b"", authorization=authorization))["snapshot"] > 0


def test_strangers_that_hold_connections_keep_nobody_out(
    collector: Collector, agent: Agent, tmp_path: Path
) -> None:
    """They ask for nothing, or have no token, on more connections than there may be: others go on, and come."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    # 64 connections.
    collector.start("--token-file", tmp_path / "token", descriptors=320)
    authorization = {"authorization": f"Bearer {TOKEN}"}
    agent.start("--token-file", tmp_path / "token")
    url = f"ws://{collector.address}/live"
    place = collector.address.rsplit(":", 1)
    with (
        contextlib.ExitStack() as held,
        connect(url, additional_headers=authorization, close_timeout=1) as socket,
    ):
        viewer = Viewer(socket)
        until("the agent's samples are shown", lambda: viewer.next() and viewer.values)
        for number in range(500):
            source = (f"127.0.0.{2 + number % 10}", 0)
            stranger = create_connection((place[0], int(place[1])), 10, source)
            held.enter_context(stranger)
            if number % 3 == 0:
                with contextlib.suppress(OSError):
                    stranger.sendall(b"GET /info HTTP/1.1\r\nhost: x\r\n\r\n")
        newcomer = Sender(collector, "newcomer", **authorization)
        newcomer.samples(time.time_ns(), ["load"], 23.0)
        began = time.time_ns()
        until("the new one is shown", lambda: viewer.next() and ("newcomer", "load") in viewer.values)
        time.sleep(0.5)
        assert json.loads(collector.ask("/seal?all=true", b"", **authorization))["waiting"] == 0
        metrics = collector.ask("/metrics", None, **authorization).decode()
    closed = re.search(r'refused_total\{reason="connections"\} (\d+)', metrics)
    assert closed is not None and int(closed[1]) >= 400
    connections = re.search(r"^iotrail_collector_connections (\d+)$", metrics, re.M)
    assert connections is not None and int(connections[1]) <= 64
    (row,) = Trail(collector.trail).rows_of(
        f"SELECT COUNT(*) AS n FROM node_sample WHERE node = 'here' AND metric = 'load' AND ts > {began}"
    )
    assert row["n"] > 0


def test_what_peers_sent_is_only_the_users_to_read(
    collector: Collector, agent: Agent, tmp_path: Path
) -> None:
    """The log and the agent's state, whatever the umask, also in folders that were there."""
    log = tmp_path / "x.trail.log"
    for folder in (log, agent.state):
        folder.mkdir(mode=0o755)
    before = os.umask(0)
    try:
        collector.start()
        agent.start()
        until("it ships", lambda: collector.metric("iotrail_collector_rows_total"))
        agent.end()
        collector.end()
    finally:
        os.umask(before)
    made = [path for folder in (log, agent.state) for path in (folder, *folder.rglob("*"))]
    assert any(path.suffix == ".log" for path in made) and agent.state / "spool" in made
    assert [(path, oct(path.stat().st_mode)) for path in made if path.stat().st_mode & 0o077] == []


def test_an_agent_that_is_refused_keeps_what_it_has(
    collector: Collector, agent: Agent, tmp_path: Path
) -> None:
    """It says once why; with the right token all of it arrives."""
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "wrong").write_text(TOKEN + "!")
    (tmp_path / "wrong").chmod(0o600)
    collector.start("--token-file", tmp_path / "token")
    agent.start("--token-file", tmp_path / "wrong")
    until("it says so", lambda: "the collector refuses this agent" in agent.said.read_text())
    time.sleep(1)
    agent.end()
    assert len(agent.said.read_text().splitlines()) == 1
    began = time.time_ns()
    agent.start("--token-file", tmp_path / "token")
    time.sleep(1)
    agent.end()
    collector.end()
    collector.start()
    (row,) = collector.sealed().rows_of(
        f"SELECT COUNT(*) FILTER (WHERE ts < {began}) AS old, COUNT(*) AS n FROM node_sample WHERE metric = 'load'"
    )
    assert row["old"] >= 5 and row["n"] > row["old"]


def peak(collector: Collector) -> int:
    """Most memory that it ever had, bytes."""
    assert collector.process is not None
    status = Path(f"/proc/{collector.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) << 10


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "chunked"])
def test_a_gibibyte_is_refused_without_memory_for_it(collector: Collector, announced: bool) -> None:
    collector.start()
    Sender(collector, "first").samples(time.time_ns(), ["load"], 1.0)
    before = peak(collector)
    host, port = collector.address.rsplit(":", 1)
    flood = http.client.HTTPConnection(host, int(port), timeout=30)
    flood.putrequest("POST", "/v1/traces")
    flood.putheader("content-type", "application/x-protobuf")
    if announced:
        flood.putheader("content-length", str(1 << 30))
    else:
        flood.putheader("transfer-encoding", "chunked")
    flood.endheaders()
    block = bytes(1 << 20)
    # It needn't read all to refuse it.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for _ in range(1 << 10):
            flood.send(block if announced else b"100000\r\n" + block + b"\r\n")
        if not announced:
            flood.send(b"0\r\n\r\n")
    # Nor wait for a sender that doesn't look for an answer.
    with contextlib.suppress(ConnectionResetError):
        assert flood.getresponse().status == 413
    flood.close()
    assert peak(collector) - before < 64 << 20
    Sender(collector, "second").samples(time.time_ns(), ["load"], 1.0)
    assert collector.metric("iotrail_collector_refused_total") == 1


def spans_of(service: str, count: int, **more: Any) -> bytes:
    """A message of OpenTelemetry with so many spans of a service."""
    span = {"traceId": "1" * 32, "name": "x", "startTimeUnixNano": "1000", "endTimeUnixNano": "2000", **more}
    spans = [span | {"spanId": f"{number:016x}"} for number in range(1, count + 1)]
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}).encode()


@pytest.mark.parametrize("kind", ["spans", "events"])
def test_spans_that_stand_for_much_are_refused_without_memory_for_it(collector: Collector, kind: str) -> None:
    """The name of their service, which the message has once, is in each row: 250 KB stand for 150 MB."""
    collector.start()
    json_type = {"content_type": "application/json"}
    collector.ask("/v1/traces", spans_of("first", 10), **json_type)
    before = peak(collector)
    events = {"events": [{"timeUnixNano": "1000", "name": "e"}] * 1499}
    message = spans_of("x" * 100_000, 1500) if kind == "spans" else spans_of("x" * 100_000, 1, **events)
    with pytest.raises(urllib.error.HTTPError) as refused:
        collector.ask("/v1/traces", message, **json_type)
    assert refused.value.code == 413 and "send fewer at once" in refused.value.read().decode()
    assert peak(collector) - before < 64 << 20
    assert collector.ask("/v1/traces", spans_of("second", 10), **json_type) == b"{}"


def test_clocks_a_day_off_move_nobody_elses_time(collector: Collector) -> None:
    """Rows keep their time; the live view stays at now and shows them by arrival; their members say by how much."""
    collector.start()
    machines = {"right": 0, "ahead": DAY, "behind": -DAY}
    senders = {name: Sender(collector, name) for name in machines}
    for name, sender in senders.items():
        known = {"node": [name], "member": [name], "role": ["host"], "state": ["up"]}
        sender.put("member", {"ts": [time.time_ns() + machines[name]], **known})
    with connect(f"ws://{collector.address}/live", close_timeout=1) as socket:
        viewer = Viewer(socket)
        sent = 0
        shown: set[tuple[str, float]] = set()
        moments = []
        details: dict[str, str | None] = {}
        begun = time.monotonic()
        # One that is behind is known after five seconds: until then it may have had a spool.
        while time.monotonic() - begun < 8:
            sent += 1
            for name, sender in senders.items():
                sender.samples(time.time_ns() + machines[name], ["load"], float(sent))
            pause = time.monotonic() + 0.1
            while (left := pause - time.monotonic()) > 0:
                with contextlib.suppress(TimeoutError):
                    frame = viewer.next(left)
                    if frame is None:
                        continue
                    moments.append(abs(frame["ts_ms"] - time.time() * 1000))
                    changed = frame.get("members") or []
                    details |= {member["member"]: member.get("detail") for member in changed}
                    shown |= {(member, value) for (member, _), value in viewer.values.items()}
    assert moments and max(moments) < 2_000
    assert collector.metric("iotrail_collector_clocks_off") == 2
    for name in ("right", "ahead"):
        assert len([value for member, value in shown if member == name]) > sent / 2, name
    assert any(member == "behind" for member, _ in shown)
    for name in ("ahead", "behind"):
        assert "clock" in (details.get(name) or "") and "1day" in (details[name] or ""), details
    offsets = collector.sealed().rows_of(
        "SELECT node, COUNT(*) AS n, MIN(ts) AS first, MAX(ts) AS last FROM node_sample GROUP BY ALL"
    )
    now = time.time_ns()
    for row in offsets:
        assert row["n"] == sent
        assert (
            now - 20 * 10**9
            < row["first"] - machines[row["node"]]
            <= row["last"] - machines[row["node"]]
            < now
        )


def test_a_viewer_that_stopped_reading_sees_the_newest_when_it_goes_on(collector: Collector) -> None:
    """Ten seconds of frames that don't fit its buffers are skipped, not queued."""
    collector.start()
    sender = Sender(collector, "machine")
    metrics = [f"metric-{n}" for n in range(3_000)]
    # What the client keeps for itself is one frame.
    with connect(f"ws://{collector.address}/live", max_queue=1, close_timeout=1) as socket:
        viewer = Viewer(socket)
        sent = 0
        begun = time.monotonic()
        while time.monotonic() - begun < 10:
            sent += 1
            sender.samples(time.time_ns(), metrics, sent * 1.234_567)
            time.sleep(0.01)
        skipped = collector.metric("iotrail_collector_skipped_frames_total")
        assert skipped > 0
        assert collector.metric("iotrail_collector_closed_viewers_total") == 0
        last = ("machine", "metric-2999")
        begun = time.monotonic()
        frames = 0
        while viewer.values.get(last, 0) < sent * 1.234_567 - 1e-3:
            frames += viewer.next() is not None
        assert time.monotonic() - begun < 5
        assert frames < sent - skipped / 2


def test_it_goes_on_where_nothing_can_be_said(collector: Collector) -> None:
    """Its log is on a disk that is full, and sealing fails for a while."""
    collector.said = Path("/dev/full")
    collector.start()
    sender = Sender(collector, "here")
    sender.samples(time.time_ns(), ["load"], 1.0)
    aside = collector.trail.with_suffix(".aside")
    collector.trail.rename(aside)
    with pytest.raises(urllib.error.HTTPError):
        collector.ask("/seal", b"")
    aside.rename(collector.trail)
    assert json.loads(collector.ask("/seal", b""))["snapshot"] > 0
    assert Trail(collector.trail).rows_of("SELECT COUNT(*) AS n FROM node_sample") == [{"n": 1}]
