"""`iotrail serve`: what it answers, to whom, and how it refuses."""

import asyncio
import contextlib
import html
import itertools
import json
import re
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from iotrail.errors import QueryError
from iotrail.serve.readers import Readers
from iotrail.trail import Trail
from tests.collector.conftest import certified

from . import cluster_trail
from .conftest import Cluster, Served, free_port, peer, serving

Serve = Callable[..., Served]
START = cluster_trail.START // 1_000_000


def ask(address: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, Any, Any]:
    """Status, body as JSON (or text) and headers of an answer."""
    request = urllib.request.Request(address + path, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, body, given = answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        status, body, given = error.code, error.read(), error.headers
    try:
        return status, json.loads(body), given
    except ValueError:
        return status, body.decode(), given


def test_frames_are_the_modules_numbers(cluster: Cluster, serve: Serve) -> None:
    """Each value of an answer is that of module `sample`, and none is missing."""
    trail = cluster(30)
    served = serve(trail)
    span = f"start_ms={START + 40_000}&end_ms={START + 45_000}&every_ms=1000"
    status, found, _ = ask(served.address, f"api/frames?{span}")
    assert status == 200
    expected = Trail(trail, {"every_ns": 1_000_000_000}).rows_of(
        "SELECT ts, member, metric, name, least, value FROM sample WHERE ts > $start AND ts <= $end",
        {"start": (START + 40_000) * 1_000_000, "end": (START + 45_000) * 1_000_000},
    )
    wanted = {
        (row["ts"] // 1_000_000, row["member"], row["metric"], row["name"], row["least"]): row["value"]
        for row in expected
    }
    series = {number: tuple(rest) for number, *rest in found["series"]}
    got = {
        (frame["ts_ms"], *series[number]): value
        for frame in found["frames"]
        for number, value in zip(frame["values"][::2], frame["values"][1::2], strict=True)
    }
    assert got.keys() == wanted.keys()
    assert len(got) > 5 * 30 * 5
    for key, value in got.items():
        assert value == pytest.approx(wanted[key], rel=1e-5), key
    assert [frame["ts_ms"] for frame in found["frames"]] == [START + 41_000 + i * 1000 for i in range(5)]
    assert len(found["members"]) == 30


def test_groups_sum_sums_and_average_levels(cluster: Cluster, serve: Serve) -> None:
    """By host: requests of its OSDs together, the mean of how full they are."""
    served = serve(cluster(30))
    span = f"start_ms={START + 40_000}&end_ms={START + 41_000}&every_ms=1000&metrics=op,space_used"
    _, members, _ = ask(served.address, f"api/frames?{span}")
    _, hosts, _ = ask(served.address, f"api/frames?{span}&by=host")
    place = {member["member"]: member["host"] for member in members["members"]}
    sums: dict[tuple[str, str, str | None], list[float]] = {}
    values = dict(zip(members["frames"][0]["values"][::2], members["frames"][0]["values"][1::2], strict=True))
    for number, member, metric, name, _ in members["series"]:
        sums.setdefault((place[member], metric, name), []).append(values[number])
    got = dict(zip(hosts["frames"][0]["values"][::2], hosts["frames"][0]["values"][1::2], strict=True))
    assert {(owner, metric, name) for _, owner, metric, name, _ in hosts["series"]} == sums.keys()
    for number, owner, metric, name, _ in hosts["series"]:
        parts = sums[owner, metric, name]
        expected = sum(parts) / (len(parts) if metric == "space_used" else 1)
        assert got[number] == pytest.approx(expected, rel=1e-4), (owner, metric, name)


def test_only_what_is_asked_for(cluster: Cluster, serve: Serve) -> None:
    """Members and metrics narrow an answer; a span before the trail is empty."""
    served = serve(cluster(30))
    _, found, _ = ask(
        served.address,
        f"api/frames?start_ms={START}&end_ms={START + 3000}&members=osd.1,osd.2&metrics=op,disk_busy",
    )
    assert {series[1] for series in found["series"]} == {"osd.1", "osd.2"}
    assert {series[2] for series in found["series"]} == {"op", "disk_busy"}
    _, nothing, _ = ask(served.address, "api/frames?start_ms=1000&end_ms=9000")
    assert nothing == {"members": [], "series": [], "frames": []}


def test_members_and_span(cluster: Cluster, serve: Serve) -> None:
    """An OSD that fails is down, failed and up again; the span is the trail's."""
    served = serve(cluster(30))
    _, span, _ = ask(served.address, "api/span")
    assert (span["start_ms"], span["end_ms"]) == (START, START + 120_000)
    _, found, _ = ask(served.address, "api/members")
    states = [
        (row["since_ms"] - START, row["state"]) for row in found["members"] if row["member"] == "osd.12"
    ]
    assert states == [(0, "up"), (70_000, "down"), (72_000, "failed"), (90_000, "up")]
    _, later, _ = ask(served.address, f"api/members?at_ms={START + 80_000}")
    assert [row["state"] for row in later["members"] if row["member"] == "osd.12"] == ["failed", "up"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "start_ms"),
        ("start_ms=1&end_ms=x", "end_ms"),
        ("start_ms=-1&end_ms=5", "start_ms"),
        ("start_ms=9&end_ms=5", "the start first"),
        ("start_ms=1&end_ms=5&every_ms=0", "every_ms"),
        ("start_ms=1&end_ms=5&by=planet", "member, host, rack, role"),
        ("start_ms=0&end_ms=99999999&every_ms=1", "3,600 frames"),
        ("start_ms=1&end_ms=99999999999999999999999", "end_ms"),
    ],
)
def test_bad_questions(cluster: Cluster, serve: Serve, query: str, words: str) -> None:
    """Refused with what was expected."""
    status, found, _ = ask(serve(cluster(3)).address, f"api/frames?{query}")
    assert status == 400
    assert words in found["error"]


def test_names_are_not_sql(cluster: Cluster, serve: Serve) -> None:
    """A member's name with quotes is only a name."""
    name = urllib.parse.quote("osd.0') OR (1=1")
    _, found, _ = ask(
        serve(cluster(3)).address, f"api/frames?start_ms={START}&end_ms={START + 3000}&members={name}"
    )
    assert found["series"] == []


def test_the_page_and_its_policy(cluster: Cluster, serve: Serve) -> None:
    """The page is there, loads nothing from elsewhere, and what isn't there is a 404."""
    served = serve(cluster(3))
    status, page, headers = ask(served.address, "")
    assert status == 200 and "<title>iotrail</title>" in page
    assert "default-src 'none'" in headers["content-security-policy"]
    assert ask(served.address, "assets/../serve.html")[0] == 404
    assert ask(served.address, "assets/%2e%2e/report.html")[0] == 404
    assert ask(served.address, "nothing")[0] == 404


def test_another_name_is_refused(cluster: Cluster, serve: Serve) -> None:
    """A name that was made to resolve to 127.0.0.1 gets nothing."""
    served = serve(cluster(3))
    status, found, _ = ask(served.address, "api/info", {"Host": "evil.example"})
    assert (status, found["error"]) == (421, "this page is served to this machine only, not as evil.example")
    assert ask(served.address, "api/info", {"Host": "localhost:1"})[0] == 200


def post(served: Served, parts: Iterable[bytes], length: int, **headers: str) -> tuple[int, Any]:
    """Status and body of the answer to a question in SQL."""
    connection = HTTPConnection(served.address.split("/")[2], timeout=60)
    try:
        connection.putrequest("POST", "/api/sql")
        for name, value in {"Content-Length": str(length), **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        # it may answer, and close, before all was sent
        with contextlib.suppress(ConnectionError):
            for part in parts:
                connection.send(part)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_another_page_is_refused(cluster: Cluster, serve: Serve) -> None:
    """A browser would send its questions, though not show it the answers."""
    served, sql = serve(cluster(3)), b"SELECT 7 AS n"
    own = served.address.rstrip("/")
    assert post(served, [sql], len(sql), Origin=own)[1]["rows"] == [[7]]
    assert post(served, [sql], len(sql))[1]["rows"] == [[7]]
    for other in ("http://elsewhere.example", "null", own + "0"):
        status, found = post(served, [sql], len(sql), Origin=other)
        assert (status, found["error"]) == (403, f"a page of {other} may not look in here")


def test_a_question_of_a_gibibyte(cluster: Cluster, serve: Serve) -> None:
    """Refused before it is there, and what serves doesn't grow."""
    served = serve(cluster(3))
    part = b"SELECT 1," + b"1," * 500_000
    status, found = post(served, itertools.repeat(part, 1 + (1 << 30) // len(part)), 1 << 30)
    assert (status, found["error"]) == (400, "expected at most 100,000 bytes of SQL, found more")
    text = Path(f"/proc/{served.process.pid}/status").read_text()
    peak = next(int(line.split()[1]) for line in text.splitlines() if line.startswith("VmHWM:"))
    assert peak < 512 << 10
    assert ask(served.address, "api/info")[0] == 200


def test_the_browser_gets_the_token_in_a_private_file(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All users of a machine see the arguments of programs."""
    secret, browser, opened = tmp_path / "token", tmp_path / "browser", tmp_path / "opened"
    secret.write_text("0123456789abcdef&123\n")
    secret.chmod(0o600)
    browser.write_text(f'#!/bin/sh\necho "$@" > {opened}.new\nmv {opened}.new {opened}\n')
    browser.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{browser} %s")

    def arguments() -> str:
        until = time.monotonic() + 20
        while not opened.exists() and time.monotonic() < until:
            time.sleep(0.05)
        text = opened.read_text().strip()
        opened.unlink()
        return text

    with serving(cluster(3), "--open") as served:
        assert arguments() == served.address
    with serving(cluster(3), "--token-file", secret, "--open") as served:
        url = arguments()
        assert url.startswith("file:///") and "0123456789abcdef" not in url
        page = Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path))
        assert page.stat().st_mode & 0o777 == 0o600 and page.parent.stat().st_mode & 0o777 == 0o700
        found = re.search(r'url=([^"]+)"', page.read_text())
        assert found
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(html.unescape(found[1])) as answer:
            assert answer.url == served.address
        with opener.open(f"{served.address}api/info") as info:
            assert json.load(info)["trail"]
    assert not page.parent.exists()


def test_token(cluster: Cluster, tmp_path: Path) -> None:
    """With a token nothing is answered without; in the address it becomes a cookie."""
    secret = tmp_path / "token"
    secret.write_text("0123456789abcdef0123\n")
    secret.chmod(0o600)
    with serving(cluster(3), "--token-file", secret, "--host", "0.0.0.0", "--insecure") as served:
        address = served.address.replace("0.0.0.0", "127.0.0.1")
        assert ask(address, "")[0] == 401
        assert ask(address, "api/info", {"Authorization": "Bearer 0123456789abcdef0124"})[0] == 401
        assert ask(address, "api/info", {"Authorization": "Bearer 0123456789abcdef0123"})[0] == 200
        assert ask(address, "?token=wrong")[0] == 401
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(f"{address}?token=0123456789abcdef0123&x=1") as page:
            assert page.url == f"{address}?x=1"
        with opener.open(f"{address}api/info") as info:
            assert json.load(info)["trail"]
        with pytest.raises((InvalidStatus, ConnectionClosed)):
            connect(address.replace("http", "ws") + "live").recv()


def refused(*options: str | Path) -> str:
    """What `iotrail serve` says when it refuses to start."""
    command = [sys.executable, "-m", "iotrail", "serve", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    return done.stderr


def test_refusals(cluster: Cluster, tmp_path: Path) -> None:
    """What can't be served is said at once, and what to do."""
    trail = cluster(3)
    assert "--token-file" in refused(trail, "--host", "0.0.0.0")
    short = tmp_path / "short"
    short.write_text("secret")
    short.chmod(0o640)
    assert "16 or more" in refused(trail, "--token-file", short)
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef0123")
    secret.chmod(0o604)
    assert f"chmod o= {secret}" in refused(trail, "--token-file", secret)
    secret.chmod(0o600)
    assert "--insecure" in refused(trail, "--token-file", secret, "--host", "0.0.0.0")
    assert "--insecure" in refused("--collector", "192.0.2.1:4317", "--collector-token-file", secret)
    assert "go together" in refused(trail, "--tls-cert", secret)
    assert "none: can't be read" in refused(trail, "--tls-cert", tmp_path / "none", "--tls-key", secret)
    assert "expected a certificate chain" in refused(trail, "--tls-cert", secret, "--tls-key", secret)
    assert "the token can't be read" in refused(trail, "--token-file", tmp_path / "none")
    assert "no such trail" in refused(tmp_path / "none.trail")
    assert "expected HOST:PORT" in refused("--collector", "nowhere")
    port = free_port()
    assert f"no answer from http://127.0.0.1:{port}/info" in refused("--collector", f"127.0.0.1:{port}")
    with serving(trail) as served:
        taken = served.address.rstrip("/").rsplit(":", 1)[1]
        assert "--port 0 takes a free one" in refused(trail, "--port", taken)


def half(served: Served, sent: bytes) -> socket.socket:
    """A connection that has said so much."""
    port = int(served.address.rstrip("/").rsplit(":", 1)[1])
    connection = socket.create_connection(("127.0.0.1", port))
    connection.sendall(sent)
    return connection


def test_connections_that_ask_nothing(cluster: Cluster) -> None:
    """More than the server can hold keep nobody out, log nothing, and are ended."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        served = stack.enter_context(serving(cluster(3), descriptors=500))
        heads = [b"", b"GET / HTTP/1.1\r\nHost: local", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "]
        for number in range(1500):
            with suppress(OSError):
                stack.enter_context(half(served, heads[number % 3]))
            if number % 100 == 99:
                assert ask(served.address, "api/info")[0] == 200, number
        late = stack.enter_context(half(served, heads[1]))
        late.settimeout(30)
        said = b"POST /api/sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nSEL"
        slow = stack.enter_context(half(served, said))
        slow.settimeout(30)
        # the server's end, in ten seconds, and not an answer
        with suppress(ConnectionResetError):
            assert late.recv(1) == b""
        # nor may SQL whose end doesn't come hold one
        assert b" 400 " in slow.recv(100)
        assert ask(served.address, "api/info")[0] == 200
        served.process.terminate()
        _, errors = served.process.communicate(timeout=20)
        assert errors == ""


def test_an_answer_that_nobody_reads(cluster: Cluster, serve: Serve) -> None:
    """It is given up after ten seconds; one that is read slowly is not."""
    served = serve(cluster(3))
    port = int(served.address.rstrip("/").rsplit(":", 1)[1])
    # 10 MB, of which the sockets' buffers hold less than half
    sql = b"SELECT repeat('x', 2000) AS x FROM range(5000)"
    question = b"POST /api/sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(sql) + sql

    def asking() -> socket.socket:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        connection.connect(("127.0.0.1", port))
        connection.settimeout(30)
        connection.sendall(question)
        return connection

    with asking() as ignored, asking() as slow:
        assert slow.recv(15) == b"HTTP/1.1 200 OK"
        assert served_connections(port) == 2
        got, began = 15, time.monotonic()
        while served_connections(port) == 2:
            got += len(slow.recv(100_000))
            assert time.monotonic() - began < 60
            time.sleep(0.1)
        # the one that read went on
        while part := slow.recv(1 << 20):
            got += len(part)
            if got > 10_000_000:
                break
        assert got > 10_000_000
        # what the kernel had of the other
        left = 0
        with suppress(ConnectionResetError):
            while part := ignored.recv(1 << 20):
                left += len(part)
        assert left < 10_000_000


def served_connections(port: int) -> int:
    """Connections that a server on this port has, of /proc/net/tcp."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


@pytest.mark.parametrize("host", ["[::1", "[", "a]b", "localhost:notaport", "\x80"])
def test_a_host_that_is_no_name(cluster: Cluster, serve: Serve, host: str) -> None:
    """An answer that says so, and no failure of the server."""
    served = serve(cluster(3))
    with half(served, f"GET /api/info HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1")) as connection:
        status = int(connection.recv(100).split()[1])
    assert status in (200, 400, 421)
    origin = f"http://{host}".encode("latin-1").decode("latin-1")
    assert ask(served.address, "api/info", {"Origin": origin})[0] == 403


def test_the_page_by_tls(cluster: Cluster, tmp_path: Path) -> None:
    """With a certificate the token goes nowhere unencrypted, and the cookie is for TLS alone."""
    secret, (cert, key) = tmp_path / "token", certified(tmp_path)
    secret.write_text("0123456789abcdef0123")
    secret.chmod(0o600)
    tls = ("--tls-cert", cert, "--tls-key", key)
    with serving(cluster(3), "--token-file", secret, "--host", "0.0.0.0", *tls) as served:
        port = int(served.address.rstrip("/").rsplit(":", 1)[1])
        trusted = ssl.create_default_context(cafile=str(cert))
        connection = HTTPSConnection("127.0.0.1", port, context=trusted, timeout=20)
        connection.request("GET", "/?token=0123456789abcdef0123")
        answer = connection.getresponse()
        assert answer.status == 303 and "; Secure" in answer.headers["set-cookie"]


def test_connections_that_never_speak_tls(cluster: Cluster, tmp_path: Path) -> None:
    """More than the server can hold, silent or half a greeting, keep nobody out, log nothing, and are ended."""
    cert, key = certified(tmp_path)
    trusted = ssl.create_default_context(cafile=str(cert))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4096)), hard))
    with ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        tls = ("--tls-cert", cert, "--tls-key", key)
        served = stack.enter_context(serving(cluster(3), *tls, descriptors=500))
        port = int(served.address.rstrip("/").rsplit(":", 1)[1])

        def answers() -> None:
            connection = HTTPSConnection("127.0.0.1", port, context=trusted, timeout=20)
            connection.request("GET", "/api/info")
            assert connection.getresponse().status == 200
            connection.close()

        for number in range(1000):
            with suppress(OSError):
                stack.enter_context(
                    half(served, [b"", b"\x16\x03\x01\x02", b"GET / HTTP/1.1\r\n"][number % 3])
                )
            if number % 100 == 99:
                answers()
        late = stack.enter_context(half(served, b""))
        late.settimeout(30)
        with suppress(ConnectionResetError):
            assert late.recv(1) == b""
        answers()
        served.process.terminate()
        _, errors = served.process.communicate(timeout=20)
        assert errors == ""


def test_a_trail_that_grows(tmp_path: Path, cluster: Cluster) -> None:
    """A newer snapshot is seen by the next question."""
    folder = tmp_path / "grows.trail"
    shutil.copytree(cluster(3), folder)
    with serving(folder) as served:
        _, before, _ = ask(served.address, "api/span")
        # as the collector's next seal: a further snapshot, here of the same files
        newest = sorted((folder / "snapshots").iterdir())[-1]
        number = int(newest.stem) + 1
        text = json.loads(newest.read_text()) | {"snapshot": number, "parent": number - 1}
        (folder / "snapshots" / f"{number:08}.json").write_text(json.dumps(text))
        _, after, _ = ask(served.address, "api/span")
    assert after["snapshot"] == before["snapshot"] + 1 == number


def test_a_question_without_end_is_stopped(cluster: Cluster) -> None:
    """After its time a query is interrupted and the reader serves the next; so it is when its asker leaves."""
    endless = "SELECT count(*) FROM range(100000000000) AS a(i) WHERE hash(i) = 1"

    async def forever() -> None:
        await asyncio.Event().wait()

    async def soon() -> None:
        await asyncio.sleep(0.1)

    async def both() -> None:
        readers = Readers(cluster(3), count=1, seconds=0.5)
        with pytest.raises(QueryError, match=r"no answer within 0.5 s"):
            await readers.ask(lambda trail: trail.rows_of(endless), forever)
        with pytest.raises(QueryError, match="interrupted"):
            await readers.ask(lambda trail: trail.rows_of(endless), soon)
        assert await readers.ask(lambda trail: trail.rows_of("SELECT 7 AS n"), forever) == [{"n": 7}]
        readers.close()

    asyncio.run(both())


def test_one_viewer_leaves_a_reader_for_others(cluster: Cluster) -> None:
    """However many questions without end one asks, another's is answered before the first of them ends."""
    endless = "SELECT count(*) FROM range(100000000000) AS a(i) WHERE hash(i) = 1"

    async def both() -> None:
        readers = Readers(cluster(3))
        hostile = [
            asyncio.ensure_future(
                readers.ask(lambda trail: trail.rows_of(endless), asyncio.Event().wait, viewer="192.0.2.1")
            )
            for _ in range(10)
        ]
        await asyncio.sleep(0.3)
        asked = readers.ask(
            lambda trail: trail.rows_of("SELECT 7 AS n"), asyncio.Event().wait, viewer="192.0.2.2"
        )
        assert await asked == [{"n": 7}]
        assert not any(question.done() for question in hostile)
        for question in hostile:
            question.cancel()
        await asyncio.wait(hostile)
        readers.close()

    asyncio.run(asyncio.wait_for(both(), 25))


def test_stream_is_relayed(cluster: Cluster) -> None:
    """What the collector sends reaches the viewer as it is, and what the viewer says the collector."""
    port = free_port()
    trail = cluster(3)
    with peer(trail, port), serving("--collector", f"127.0.0.1:{port}") as served:
        assert ask(served.address, "api/info")[1]["trail"] == str(trail)
        url = served.address.replace("http", "ws") + "live"
        with connect(url) as viewer:
            assert json.loads(viewer.recv(10))["hello"]["version"] == 1
            see = {"members": None, "metrics": ["op"], "by": "member", "every_ms": 1000}
            viewer.send(json.dumps({"see": see}))
            hello = json.loads(viewer.recv(10))["hello"]
            assert {member["member"] for member in hello["members"]} == {"client.4100", "mds.m1", "osd.0"}
            frame = json.loads(viewer.recv(10))["frame"]
            assert {series[2] for series in frame["series"]} == {"op"}
        with pytest.raises(InvalidStatus), connect(url, origin="http://evil.example"):  # type: ignore[arg-type]
            pass


def test_no_stream_is_said(cluster: Cluster, serve: Serve) -> None:
    """A trail alone has none, and a viewer needn't come again."""
    with connect(serve(cluster(3)).address.replace("http", "ws") + "live") as viewer:
        with pytest.raises(ConnectionClosed) as closed:
            viewer.recv(10)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 4404
