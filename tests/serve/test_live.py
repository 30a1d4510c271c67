"""The page over a real collector and agent: what happens now, a stream that is lost, time before the last seal."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from websockets.sync.client import connect

from iotrail import native
from iotrail.serve.relay import Collector
from iotrail.trail import Trail
from tests.collector.conftest import certified

from .conftest import PATIENCE, Served, serving
from .test_page import number, pixels, until
from .test_server import ask, refused

MEMBER = "here"
LIVE = re.compile(r"live · \d+\.\d s behind")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, Path]]:
    """`iotrail serve` with a collector and an agent of this machine, and their trail."""
    folder = tmp_path_factory.mktemp("live")
    trail = folder / "live.trail"
    agent = ["--node", MEMBER, "--state", str(folder / "agent"), "--ceph", str(folder / "no-ceph")]
    with serving("-o", trail, *(f"--agent={word}" for word in agent)) as served:
        yield served, trail


def child(served: Served, verb: str) -> int | None:
    """The process that runs a verb for the server; None there is none."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rsplit(")", 1)[1].split()[1])
            words = (status.parent / "cmdline").read_bytes().split(b"\0")
        except (OSError, IndexError):
            continue
        if parent == served.process.pid and words[1:2] == [verb.encode()]:
            return int(status.parent.name)
    return None


def moment(page: Page) -> int:
    """The moment shown, in ms since the epoch."""
    return int(page.locator("[data-moment]").get_attribute("data-moment") or 0)


def settled(page: Page) -> int:
    """The moment at which it stopped: its address has it too, and has had it for some frames, which may be slow ones."""
    end = time.monotonic() + PATIENCE / 1000
    before = -1
    while (now := moment(page)) != before or f"t={now}&play=0" not in page.evaluate("() => location.hash"):
        assert time.monotonic() < end, f"it never stops: {page.url}"
        before = now
        time.sleep(3)
    return now


def recorded_cpu(trail: Path, ms: int) -> float:
    """Percent of the machine's CPUs in use in the last second until then of which the trail has a sample."""
    rows = Trail(trail, {"every_ns": 1_000_000_000}).rows_of(
        """SELECT metric, SUM(value) AS value FROM sample
        WHERE member = $member AND metric IN ('cpu', 'cpus') AND name IS DISTINCT FROM 'iowait'
            AND ts = (SELECT MAX(ts) FROM sample WHERE member = $member AND metric = 'cpu' AND ts <= $ts)
        GROUP BY metric""",
        {"member": MEMBER, "ts": ms * 1_000_000},
    )
    value = {row["metric"]: row["value"] for row in rows}
    # the kernel's ticks may come to more than the time between two samples
    return float(min(100, value["cpu"] / 1e7 / value["cpus"]))


def test_live_killed_and_back(page: Page, here: tuple[Served, Path]) -> None:
    """Live it moves; a killed collector is said, started again, and the page goes on by itself."""
    served, _ = here
    page.goto(f"{served.address}#select={MEMBER}")
    fresh = page.locator(".freshness")
    expect(fresh).to_have_text(LIVE, timeout=PATIENCE)
    page.locator(f"[data-owner='{MEMBER}'] .numbers dd").first.wait_for()
    before, at = pixels(page), moment(page)
    until(page, f"() => Number(document.querySelector('[data-moment]').dataset.moment) > {at + 3000}")
    assert (pixels(page) != before).any()

    killed = child(served, "collect")
    assert killed is not None
    os.kill(killed, signal.SIGKILL)
    expect(fresh).to_have_text(re.compile(r"stream lost, retrying in \d+ s"), timeout=PATIENCE)
    lost = moment(page)
    expect(fresh).to_have_text(LIVE, timeout=2 * PATIENCE)
    again = child(served, "collect")
    assert again not in (None, killed)
    until(page, f"() => Number(document.querySelector('[data-moment]').dataset.moment) > {lost + 5000}")
    # values of before the loss are forgotten by now: the agent is heard again
    page.locator(f"[data-owner='{MEMBER}'] .numbers dd").first.wait_for()


def test_scrub_back_to_what_just_was(page: Page, here: tuple[Served, Path]) -> None:
    """A second ago can be looked at, played, and linked to, though nothing sealed it yet."""
    served, trail = here
    page.goto(f"{served.address}#select={MEMBER}")
    expect(page.locator(".freshness")).to_have_text(LIVE, timeout=PATIENCE)
    page.locator(f"[data-owner='{MEMBER}'] .numbers dd").first.wait_for()
    # long enough that there is something to go back to
    until(
        page, f"() => Number(document.querySelector('[data-moment]').dataset.moment) > {moment(page) + 6000}"
    )
    page.keyboard.press("Space")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    stopped = settled(page)
    assert time.time() * 1000 - stopped < 15_000
    # what is shown was recorded: nothing of it is left from the stream
    other = page.context.new_page()
    other.goto(page.url)
    other.locator(f"[data-owner='{MEMBER}'] .numbers dd").first.wait_for()
    assert moment(other) == stopped
    seen = number(other, MEMBER, "CPU")
    assert seen == number(page, MEMBER, "CPU")
    # shown without decimals
    assert abs(float(seen.removesuffix(" %")) - recorded_cpu(trail, stopped // 1000 * 1000)) <= 0.51
    page.keyboard.press("Space")
    until(page, f"() => Number(document.querySelector('[data-moment]').dataset.moment) > {stopped + 1000}")


def test_what_just_was_is_sealed_when_asked_for(here: tuple[Served, Path]) -> None:
    """Of each moment, not only after the collector's own seals, some seconds apart."""
    served, _ = here

    def newest() -> int:
        now = round(time.time() * 1000)
        span = f"start_ms={now - 10_000}&end_ms={now + 1000}&metrics=load"
        _, found, _ = ask(served.address, f"api/frames?{span}")
        return found["frames"][-1]["ts_ms"] - now if found["frames"] else -10_000

    end = time.monotonic() + PATIENCE / 1000
    while newest() == -10_000:
        assert time.monotonic() < end, "the agent is never heard"
        time.sleep(0.5)
    for _ in range(5):
        time.sleep(1.2)
        assert newest() > -3000


@contextlib.contextmanager
def collecting(trail: Path, *options: str | Path, within: Sequence[str | Path] = ()) -> Iterator[str]:
    """A collector that was started by itself, and where it listens."""
    command = [*within, native.binary(), "collect", "-o", trail, "--listen", "127.0.0.1:0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_a_collector_that_runs_already(page: Page, tmp_path: Path) -> None:
    """Its stream is shown, and its trail found; it wants a token and TLS, and what is wrong with those is said."""
    trail, (cert, key) = tmp_path / "x.trail", certified(tmp_path)
    secret, wrong = tmp_path / "secret", tmp_path / "wrong"
    secret.write_text("0123456789abcdef-right")
    wrong.write_text("0123456789abcdef-wrong")
    secret.chmod(0o600)
    wrong.chmod(0o600)
    with collecting(trail) as plain, serving("--collector", plain) as served:
        assert ask(served.address, "api/info")[1]["trail"] == str(trail)
    guards = ["--token-file", secret, "--tls-cert", cert, "--tls-key", key]
    with collecting(trail, *guards) as address:
        assert "one speaks TLS, the other doesn't" in refused("--collector", address)
        https = ["--collector", f"https://{address}", "--collector-token-file", secret]
        assert "--collector-tls-ca F" in refused(*https)
        assert f"{key}: the certificates can't be read" in refused(*https, "--collector-tls-ca", key)
        assert "none: the certificates can't" in refused(*https, "--collector-tls-ca", tmp_path / "none")
        known = ["--collector", address, "--collector-tls-ca", cert, "--collector-token-file"]
        assert "the token is not this collector's" in refused(*known, wrong)
        agent = ["--collector", address, "--tls-ca", cert, "--token-file", secret, "--node", MEMBER]
        agent += ["--state", tmp_path / "agent", "--ceph", tmp_path / "no-ceph"]
        with serving(*known, secret) as served:
            sampling = subprocess.Popen([native.binary(), "agent", *agent])
            try:
                assert ask(served.address, "api/info")[1]["trail"] == str(trail)
                page.goto(f"{served.address}#select={MEMBER}")
                expect(page.locator(".freshness")).to_have_text(LIVE, timeout=PATIENCE)
                page.locator(f"[data-owner='{MEMBER}'] .numbers dd").first.wait_for()
            finally:
                sampling.terminate()
                sampling.wait(20)


def test_hosts_and_racks_are_the_same_live_and_recorded(page: Page, tmp_path: Path) -> None:
    """Who says a place stands there; a host in no rack is one by itself. What the page asks for by it finds."""
    trail = tmp_path / "x.trail"
    places = {"m1": "room/rack1/a", "m2": "rack1/b", "m3": "c", "m4": None}
    here = Path("/proc/sys/kernel/hostname").read_text().strip()
    expected = {"host": {"a", "b", "c", here}, "rack": {"rack1", "c", here}}
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(collecting(trail))
        for node, place in places.items():
            words = [
                "--collector",
                address,
                "--node",
                node,
                "--state",
                tmp_path / node,
                "--ceph",
                tmp_path / "none",
            ]
            process = subprocess.Popen(
                [native.binary(), "agent", *words, *(["--place", place] if place else [])]
            )
            stack.callback(process.wait, 20)
            stack.callback(process.terminate)
        served = stack.enter_context(serving("--collector", address))
        for by, groups in expected.items():
            live: set[str] = set()
            with connect(served.address.replace("http", "ws") + "live") as viewer:
                see = {"members": None, "metrics": ["load"], "by": by, "every_ms": 1000}
                viewer.send(json.dumps({"see": see}))
                while live != groups:
                    live |= {
                        series[1] for series in json.loads(viewer.recv(20)).get("frame", {}).get("series", ())
                    }
                    assert live <= groups
            now = round(time.time() * 1000)
            span = f"start_ms={now - 10_000}&end_ms={now + 1000}&metrics=load&by={by}"
            _, found, _ = ask(served.address, f"api/frames?{span}")
            assert {series[1] for series in found["series"]} == groups
            page.goto(f"{served.address}#by={by}")
            page.reload()
            expect(page.locator(".freshness")).to_have_text(LIVE, timeout=PATIENCE)
            rows = page.locator("[data-ranking] li span")
            expect(rows).to_have_count(len(groups), timeout=PATIENCE)
            assert set(rows.all_inner_texts()) == groups


@pytest.mark.skipif(os.geteuid() != 0, reason="a file system of its own needs root")
def test_another_trail_of_the_same_name_is_not_taken(tmp_path: Path) -> None:
    """As of a collector on another machine, which is reached by a forwarded port."""
    trail = tmp_path / "x.trail"
    trail.mkdir()
    elsewhere = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"', tmp_path]
    with collecting(trail, within=elsewhere) as address:
        assert Collector.parse(address).trail() is None
    assert not any(trail.iterdir())


def test_what_is_killed_at_once_is_started_again(tmp_path: Path) -> None:
    """It was killed, so nothing was wrong with how it was started."""
    with serving("-o", tmp_path / "x.trail", f"--agent=--state={tmp_path / 'agent'}") as served:
        for verb in ("collect", "agent"):
            killed = child(served, verb)
            assert killed is not None
            os.kill(killed, signal.SIGKILL)
            end = time.monotonic() + PATIENCE / 1000
            while child(served, verb) in (None, killed):
                assert served.process.poll() is None
                assert time.monotonic() < end, f"{verb} isn't started again"
                time.sleep(0.2)


def test_an_agent_that_can_not_begin_is_said(tmp_path: Path) -> None:
    """It isn't started again and again."""
    words = [sys.executable, "-m", "iotrail", "serve", "--port", "0", "-o", str(tmp_path / "x.trail")]
    ended = subprocess.run([*words, "--agent=--nonsense"], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert "iotrail agent ended with status 2: " in ended.stderr
    assert "--nonsense" in ended.stderr
