"""`iotrail trail prune`: the same answers from sums as from raw records, and a clear word where there can't be one."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from iotrail.cli import app
from iotrail.errors import IotrailError, PrunedError, TrailError, UsageError
from iotrail.pruned import RAW
from iotrail.requests import prune_verb
from iotrail.requests.find import Chosen
from iotrail.requests.graph import collect
from iotrail.requests.prune import Done, prune
from iotrail.trail import Trail
from tests.sql.tiny import ingest

from .conftest import MakeTrail
from .test_graph import Clockwork

MS = 10**6
EVERY = 10 * MS
BOTH = frozenset({"demand", "graphs"})


class Story(Clockwork):
    """Random requests that also share work: flushes of what several of them left, with CPU, disks and messages."""

    def __init__(self, seed: int, requests: int = 24) -> None:
        super().__init__(seed)
        for table in ("cpu_slice", "disk_op", "network_transmit"):
            self.rows[table] = []
        for number in range(requests):
            node, client = self.random.choice("abc"), f"c{number % 3}"
            before = self.next
            self.serve(node, MS * number, 3, client=client)
            self.use(node, range(before + 1, self.next + 1), MS * number)
            if number % 3 == 2:
                self.flush(node, MS * number + 10_000)
        self.use("a", [0, 0, 0], 5 * MS)

    def use(self, node: str, crumbs: Sequence[int], ts: int) -> None:
        """Records of resources on one machine, whoever's breadcrumbs those are."""
        for crumb in crumbs:
            some = self.random.randrange
            kernel = {"kind": self.random.choice(["kernel", "user"]), "thread": some(4)}
            self.post("cpu_slice", node, crumb, ts + some(1000), some(1, 10**5), **kernel)
            self.post("network_transmit", node, crumb, ts + some(1000), 0, sender="head", length=some(9999))
            if some(3) == 0:
                disk = {
                    "kind": self.random.choice(["kernel", "program"]),
                    "dev": f"sd{some(2)}",
                    "length": 4096,
                }
                self.post("disk_op", node, crumb, ts + some(1000), some(1, 10**4), **disk)

    def flush(self, node: str, ts: int) -> None:
        """One piece of work for several requests of any age."""
        here = [row["crumb"] for row in self.rows["service_op"] if row["node"] == node]
        crumb, _ = self.serve(node, ts, 1, kind="internal")
        for parent in self.random.sample(here, min(len(here), 3)):
            if parent != crumb:
                self.stitch(node, crumb, ts, node, parent, "coalesce")
                self.rows["stitch"][-1]["weight"] = self.random.randrange(1, 9999)


def graph(path: Path, chosen: Chosen) -> Any:
    """A latency graph, its steps in an order of their own."""
    try:
        found = dataclasses.asdict(collect(Trail(path), chosen))
    except IotrailError as error:
        return str(error)
    return {**found, "edges": sorted(found["edges"], key=str)}


def answers(path: Path, every: int = EVERY, graphs: bool = True, demand: bool = True) -> dict[str, Any]:
    """What a trail says of requests by stretches of time."""
    trail = Trail(path)
    at = f"ts - ts % {every} AS ts"
    said: dict[str, Any] = {}
    if demand:
        sums = "CAST(SUM(n) AS BIGINT), CAST(SUM(bytes) AS BIGINT)"
        said["demand"] = trail.query(
            f"SELECT {at}, client, resource, node, component, place, name, {sums}, CAST(SUM(time_ns) AS BIGINT), "
            "CAST(SUM(hits) AS BIGINT) FROM demand GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        said["served"] = trail.query(
            f"SELECT {at}, node, component, op, client, {sums}, CAST(SUM(errors) AS BIGINT), "
            "CAST(SUM(time_ns) AS BIGINT) FROM served GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        said["message"] = trail.query(
            f"SELECT {at}, node, sender, receiver, {sums} FROM message GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        said["cache"] = trail.query(
            f"SELECT {at}, node, component, cache, {sums}, CAST(SUM(hits) AS BIGINT) FROM cache_access "
            "GROUP BY ALL ORDER BY ALL"
        ).fetchall()
    said["span"] = trail.query("FROM trail_span").fetchall()
    if graphs:
        said["requests"] = trail.query(
            f"SELECT {at}, node, client, component, op, status, least, CAST(SUM(n) AS BIGINT), "
            "CAST(SUM(time_ns) AS BIGINT) FROM request_count GROUP BY ALL ORDER BY ALL"
        ).fetchall()
        start = said["span"][0][0]
        cut = start - start % every + 10**13 // 2 // every * every
        for chosen in (Chosen(), Chosen(client="c2", op="server3", start_ts=cut)):
            said[str(chosen)] = graph(path, chosen)
    return said


def middle(path: Path) -> int:
    """A moment on the clock of machine a, in the middle of its requests: others' are hours apart."""
    rows = Trail(path).rows_of("SELECT MEDIAN(ts) AS ts FROM service_op WHERE node = 'a'")
    return int(rows[0]["ts"])


def copy(path: Path, name: str) -> Path:
    """A trail of the same files."""
    return Path(shutil.copytree(path, path.with_name(name)))


def left(path: Path) -> dict[str, int]:
    """Raw records that a trail still holds."""
    return {table: Trail(path).rows[table] for table in RAW if Trail(path).rows[table]}


@pytest.mark.parametrize("seed", range(2))
def test_same_answers(make: MakeTrail, seed: int) -> None:
    """Of all pruned, of a part, of the rest later, over longer times: what was asked before is answered alike."""
    path = make(Story(seed).rows)
    before = answers(path)
    assert all(before.values())
    assert isinstance(before[str(Chosen())], dict)
    whole = copy(path, "whole.trail")
    prune(whole, every_ns=EVERY, keep=BOTH)
    assert left(whole) == {}
    assert answers(whole) == before
    prune(path, every_ns=EVERY, keep=BOTH, before_ts=middle(path))
    some = left(path)
    assert 0 < some["service_op"] < len(Story(seed).rows["service_op"])
    assert answers(path) == before
    prune(path, every_ns=EVERY, keep=BOTH)
    assert left(path) == {}
    assert answers(path) == before
    wide = answers(path, 3 * EVERY)
    prune(path, every_ns=3 * EVERY, keep=BOTH)
    assert answers(path, 3 * EVERY) == wide
    assert Trail(path).rows["step_rollup"] < Trail(whole).rows["step_rollup"]
    assert not prune(path, every_ns=3 * EVERY, keep=BOTH).after


def test_story(store: Path, tmp_path: Path) -> None:
    """The small store, with a failed flush, a node that stopped and clocks hours apart."""
    path = Path(shutil.copytree(store, tmp_path / "store.trail"))
    asked = [["demand"], ["demand", "--by", "client,resource,node,component"], ["graph"]]
    asked += [["graph", "--client", "alice"], ["graph", "--op", "read", "--json"]]

    def said() -> list[str]:
        return [CliRunner().invoke(app, [words[0], str(path), *words[1:]]).output for words in asked]

    before = said()
    assert all(len(text.splitlines()) > 5 for text in before)
    result = CliRunner().invoke(prune_verb.app, [str(path), "--every", "60s"])
    assert result.exit_code == 0, result.output
    assert "service_op" in result.output and "from 55 rows" in result.output
    assert left(path) == {}
    assert said() == before
    assert "nothing to prune" in CliRunner().invoke(prune_verb.app, [str(path), "--every", "60s"]).output


@pytest.mark.parametrize("keep", ["demand", "graphs"])
def test_keep_one(make: MakeTrail, keep: str) -> None:
    """Only one kind of sums: it answers its questions, the other's are refused."""
    path = make(Story(5).rows)
    asked = {"graphs": keep == "graphs", "demand": keep == "demand"}
    before = answers(path, **asked)
    both = copy(path, "both.trail")
    prune(path, every_ns=EVERY, keep=frozenset({keep}))
    assert answers(path, **asked) == before
    question = {"demand": ["graph"], "graphs": ["demand"]}[keep]
    with pytest.raises(PrunedError, match="were not kept when it was pruned"):
        invoke(*question, path)
    # what was kept may be given up later
    prune(both, every_ns=EVERY, keep=BOTH)
    prune(both, every_ns=EVERY, keep=frozenset({keep}))
    assert answers(both, **asked) == before
    with pytest.raises(PrunedError, match="were not kept"):
        invoke(*question, both)


def invoke(*words: object) -> str:
    """What a command prints; its error is raised."""
    verb = prune_verb.app if words[0] == "prune" else app
    result = CliRunner().invoke(verb, list(map(str, words[1:] if words[0] == "prune" else words)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def test_keep_tables(make: MakeTrail) -> None:
    """Accesses to caches and disk requests that stay whole are not counted twice, and may be given up later."""
    path = make(Story(6).rows)
    before = answers(path)
    tables = {name: Trail(path).rows[name] for name in ("buffer_op", "disk_op")}
    assert all(tables.values())
    prune(path, every_ns=EVERY, keep=BOTH | {"buffer", "disk"}, before_ts=middle(path))
    prune(path, every_ns=EVERY, keep=BOTH | {"buffer", "disk"})
    assert left(path) == tables
    assert answers(path) == before
    [kept] = Trail(path).rows_of("SELECT node, crumb FROM buffer_op LIMIT 1")
    with pytest.raises(
        PrunedError, match=f"what breadcrumb {kept['crumb']} on {kept['node']} did was pruned"
    ):
        invoke("path", path, "--crumb", kept["crumb"], "--node", kept["node"])
    prune(path, every_ns=EVERY, keep=BOTH | {"disk"})
    assert left(path) == {"disk_op": tables["disk_op"]}
    prune(path, every_ns=EVERY, keep=BOTH)
    assert left(path) == {}
    assert answers(path) == before


def test_kernel_is_kept_in_mind(make: MakeTrail) -> None:
    """What a program posted of a thread or disk doesn't count once the kernel did, also when that record is gone."""
    rows = {
        "service_op": [{"crumb": c, "ts": c * MS, "dur": 9, "client": "a"} for c in (1, 2)],
        "cpu_slice": [
            {"crumb": 1, "ts": MS, "dur": 5, "kind": "kernel"},
            {"crumb": 2, "ts": 2 * MS, "dur": 7, "kind": "user"},
        ],
        "disk_op": [
            {"crumb": 1, "ts": MS, "dur": 5, "kind": "kernel"},
            {"crumb": 2, "ts": 2 * MS, "dur": 7, "kind": "program"},
        ],
    }
    path = make(rows)
    before = answers(path)
    prune(path, every_ns=EVERY, keep=BOTH, before_ts=2 * MS)
    assert left(path)["cpu_slice"] == 1
    assert answers(path) == before


def test_in_flight(make: MakeTrail) -> None:
    """A flush for an old and a young write keeps both until all of it has ended."""
    path = make(
        {
            "service_op": [
                {"crumb": 1, "ts": 10, "dur": 5, "client": "a"},
                {"crumb": 2, "ts": 100, "dur": 5, "client": "b"},
                {"crumb": 3, "ts": 120, "dur": 50, "kind": "internal"},
                {"crumb": 4, "ts": 11, "dur": 5, "client": "a"},
            ],
            "stitch": [
                {"crumb": 3, "ts": 120, "parent_crumb": parent, "kind": "coalesce"} for parent in (1, 2)
            ],
        }
    )
    prune(path, every_ns=EVERY, keep=BOTH, before_ts=170)
    assert Trail(path).rows["service_op"] == 3
    prune(path, every_ns=EVERY, keep=BOTH, before_ts=171)
    assert left(path) == {}


def test_part_of_a_system(make: MakeTrail) -> None:
    """A storage node's own trail: for whom it worked its callers' trail knows, so that waits for their merger."""
    path = make(
        {
            "service_op": [{"crumb": 1, "ts": 10, "dur": 5}, {"crumb": 2, "ts": 11, "dur": 5}],
            "stitch": [{"crumb": 1, "ts": 10, "parent_node": "head", "parent_crumb": 7, "kind": "rpc"}],
        }
    )
    prune(path, every_ns=EVERY, keep=BOTH)
    assert left(path) == {"service_op": 1, "stitch": 1}


def test_refused(make: MakeTrail, tmp_path: Path) -> None:
    """What was expected and found, and how to ask instead."""
    row = {"dur": 5, "client": "a"}
    path = make(
        {
            "service_op": [{"crumb": c, "ts": c * 4 * MS, **row} for c in range(1, 9)],
            "network_transmit": [{"crumb": c, "ts": c * 4 * MS, "length": 9} for c in range(1, 9)],
        }
    )
    for words, said in (
        (["--keep", "demand,all"], "--keep: expected demand, graphs, buffer, disk, found 'all'"),
        (["--keep", "buffer"], "no answer"),
        (["--every", "0"], "--every: expected a time, found '0'"),
        (["--every", "0s"], "--every: expected a time, found '0s'"),
        (["--grace", "soon"], "--grace: expected a time"),
        (["--older", "soon"], "--older: expected a time"),
        (["--before", "+1s", "--older", "1s"], "--before and --older"),
    ):
        with pytest.raises(UsageError, match=said):
            invoke("prune", path, *words)
    with pytest.raises(TrailError, match="no such trail"):
        invoke("prune", tmp_path / "none.trail")
    prune(path, every_ns=EVERY, keep=BOTH, before_ts=30 * MS)
    with pytest.raises(PrunedError, match="into sums of 10ms, which can't be cut"):
        prune(path, every_ns=15 * MS, keep=BOTH)
    with pytest.raises(UsageError, match="only sums of 10ms are left"):
        invoke("demand", path, "--every", "4ms")
    with pytest.raises(UsageError, match=r"--from .*\.005.* falls inside a pruned 10ms bucket") as refused:
        invoke("graph", path, "--from", "1970-01-01T00:00:00.005Z")
    assert "+0000 or --from 1970-01-01T00:00:00.01" in str(refused.value.hint)
    with pytest.raises(PrunedError, match="times between arrivals need raw records, and those of 7"):
        invoke("arrivals", path)
    with pytest.raises(PrunedError, match="request flows need raw records"):
        invoke("diff", "--requests", path, path)
    with pytest.raises(PrunedError, match="steps by machine need raw records"):
        invoke("graph", path, "--by", "node")
    with pytest.raises(PrunedError, match="the causes of a complaint need raw records"):
        invoke("explain", path, "--client", "a")
    with pytest.raises(IotrailError, match="no breadcrumb 3") as unknown:
        invoke("path", path, "--crumb", 3)
    assert "were pruned on" in str(unknown.value.hint)
    assert "7 more of these requests were pruned" in invoke("path", path, "--slowest", 3)
    result = CliRunner().invoke(app, ["sql", str(path), "request"])
    assert "note: request: only what is left; raw records of 1970-01-01T00:00:00.004" in result.stderr
    assert "note" not in CliRunner().invoke(app, ["sql", str(path), "demand"]).stderr


def test_no_requests(make: MakeTrail) -> None:
    """Nothing to prune, and no word of requests."""
    with pytest.raises(TrailError, match="no requests in this trail"):
        prune(make({}), every_ns=EVERY, keep=BOTH)


def test_dry_run(make: MakeTrail) -> None:
    """It says what would be, byte by byte, and changes nothing."""
    path = make(Story(7).rows)
    files = sorted(path.rglob("*"))
    would = json.loads(invoke("prune", path, "--every", "10ms", "--dry-run", "--json"))
    assert sorted(path.rglob("*")) == files
    assert would["dry_run"] is True
    done = prune(path, every_ns=EVERY, keep=BOTH)
    assert {name: dataclasses.asdict(size) for name, size in done.before.items()} == would["before"]
    # when it was done is in it, which may take a byte more
    assert {n: s.rows for n, s in done.after.items()} == {n: s["rows"] for n, s in would["after"].items()}
    rest = done.after.keys() - {"pruned"}
    assert {n: done.after[n].bytes for n in rest} == {n: would["after"][n]["bytes"] for n in rest}
    assert done.whole_after.rows == sum(Trail(path).rows.values())


def test_reader_keeps_its_snapshot(make: MakeTrail) -> None:
    """Who opened the trail before reads on."""
    path = make(Story(8).rows)
    reader, before = Trail(path), Trail(path).rows["service_op"]
    prune(path, every_ns=EVERY, keep=BOTH)
    assert reader.rows_of("SELECT COUNT(*) AS n FROM service_op")[0]["n"] == before


def test_two_at_once(make: MakeTrail) -> None:
    """Both end well, and nothing is summed twice."""
    path = make(Story(9).rows)
    before = answers(path)

    def run(_: int) -> Done:
        return prune(path, every_ns=EVERY, keep=BOTH)

    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(run, range(2)))
    assert left(path) == {}
    assert answers(path) == before
    assert any(each.after for each in done)


def test_compaction_in_between(make: MakeTrail, native: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that another writer replaced meanwhile: it begins anew."""
    from iotrail.requests import prune as module

    path = make(Story(10, 12).rows)
    twice = make_twice(native, path)
    before = answers(twice)
    publish, tries = module._Change.publish, []

    def late(change: Any, grace: str) -> bool:
        if not tries:
            subprocess.run([native, "trail", "compact", twice], check=True, stdout=subprocess.DEVNULL)
        tries.append(publish(change, grace))
        return tries[-1]

    monkeypatch.setattr(module._Change, "publish", late)
    prune(twice, every_ns=EVERY, keep=BOTH)
    assert tries == [False, True]
    assert answers(twice) == before


def make_twice(native: Path, path: Path) -> Path:
    """A trail and its like on other machines, merged: tables of two files. The other one is other.trail."""
    other, merged = path.with_name("other.trail"), path.with_name("merged.trail")
    trail, tables = Trail(path), {}
    for table in RAW:
        names = ["node", "parent_node"] if table == "stitch" else ["node"]
        moved = ", ".join(f"concat('z', {name}) AS {name}" for name in names)
        tables[table] = trail.query(f"SELECT * REPLACE ({moved}) FROM {table}").to_arrow_table()
    ingest(native, tables, other)
    subprocess.run(
        [native, "trail", "merge", path, other, "-o", merged], check=True, stdout=subprocess.DEVNULL
    )
    return merged


def test_merge(make: MakeTrail, native: Path) -> None:
    """A pruned trail and one that isn't, merged, compacted and checked, say what they said together."""
    path = make(Story(11).rows)
    both = make_twice(native, path)
    before = answers(both)
    prune(path, every_ns=EVERY, keep=BOTH)
    other, merged = path.with_name("other.trail"), path.with_name("again.trail")
    subprocess.run(
        [native, "trail", "merge", path, other, "-o", merged], check=True, stdout=subprocess.DEVNULL
    )
    assert answers(merged) == before
    subprocess.run(
        [native, "trail", "compact", "--grace", "0s", merged], check=True, stdout=subprocess.DEVNULL
    )
    checked = subprocess.run(
        [native, "trail", "check", merged], check=True, capture_output=True, text=True
    ).stdout
    assert "all can be read" in checked
    assert answers(merged) == before
    said = subprocess.run(
        [native, "trail", "info", merged], check=True, capture_output=True, text=True
    ).stdout
    assert "every 10ms, kept demand,graphs" in said


def test_killed(make: MakeTrail, tmp_path: Path) -> None:
    """Killed at whatever moment: the old trail or the new one, which both answer alike."""
    path = make(Story(12).rows)
    before, states = answers(path), set()
    words = [sys.executable, "-m", "iotrail", "trail", "prune", str(path), "--every", "10ms"]
    # what a killed process leaves there
    beside = {**os.environ, "TMPDIR": str(tmp_path)}
    began = time.monotonic()
    subprocess.run([*words, "--dry-run"], check=True, stdout=subprocess.DEVNULL, env=beside)
    took = time.monotonic() - began
    for moment in (0.3, 0.6, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1):
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL, start_new_session=True, env=beside)
        time.sleep(took * moment)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        states.add(bool(left(path)))
        assert answers(path) == before
        if not left(path):
            break
    assert True in states


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small file system")
def test_no_space(make: MakeTrail, tmp_path: Path) -> None:
    """A full file system: the old trail stays, nothing is left behind, and it is said."""
    path, small = make(Story(13).rows), tmp_path / "small"
    small.mkdir()
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) // 1024 + 80
    script = f"""
        mount -t tmpfs -o size={size}k none {small} && cp -r {path} {small}/a.trail &&
        find {small} -type f | sort > {tmp_path}/before
        dd if=/dev/zero of={small}/full bs=1k status=none 2> /dev/null
        {sys.executable} -m iotrail trail prune {small}/a.trail --every 10ms 2> {tmp_path}/said
        echo $? > {tmp_path}/status
        rm {small}/full; find {small} -type f | sort > {tmp_path}/after
    """
    subprocess.run(["unshare", "--mount", "sh", "-c", script], check=True)
    assert (tmp_path / "status").read_text() == "1\n"
    assert "No space left on device" in (tmp_path / "said").read_text()
    assert "what was published before is intact" in (tmp_path / "said").read_text()
    assert (tmp_path / "before").read_text() == (tmp_path / "after").read_text()


def test_read_only(make: MakeTrail) -> None:
    """A trail that can't be written: said with its path, and all as before."""
    path = make(Story(14, 6).rows)
    before = left(path)
    script = f'mount --bind {path} {path} && mount -o remount,ro,bind {path} && exec "$@"'
    done = subprocess.run(
        [
            "unshare",
            "--mount",
            "sh",
            "-c",
            script,
            "sh",
            sys.executable,
            "-m",
            "iotrail",
            "trail",
            "prune",
            path,
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("needs root to mount a directory read-only")
    assert done.returncode == 1
    assert "Read-only file system" in done.stderr
    assert left(path) == before
