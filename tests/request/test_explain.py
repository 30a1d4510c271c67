"""`iotrail explain`: seeded complaints, each with what it must be blamed on, and what must not be."""

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from iotrail.errors import UsageError
from iotrail.requests.explain import command, resources
from iotrail.requests.explain.command import Explanation
from iotrail.requests.explain.show import link_speed
from iotrail.requests.find import Chosen
from iotrail.trail import Trail
from tests.command import run

from .conftest import MakeTrail

MS = 1_000_000
SECOND = 1_000 * MS
START = 1_700_000_000 * SECOND
HALF = START + 4 * SECOND
# s1's clock is an hour ahead of the head's.
AHEAD = 3600 * SECOND


class Store:
    """A head and a storage node with one disk, which serves one request after the other. alice reads 4 KiB in
    0.2 ms of head, 1 ms of disk and what she waits for it, fifty times a second for 8 s."""

    def __init__(self) -> None:
        self.rows: dict[str, list[dict[str, Any]]] = {
            name: []
            for name in ("service_op", "stitch", "disk_op", "network_transmit", "cpu_slice", "recording")
        }
        self.rows["recording"] = [{"node": node, "name": "cpus", "value": "1"} for node in ("head", "s1")]
        self.crumb = 0
        self.disk_free = 0
        self.chance = random.Random(1)

    def read(
        self, client: str, ts: int, *, service: int = MS, slow: int = 0, op: str = "read", **about: int
    ) -> None:
        """A request that goes to the disk; call in order of time."""
        here = ts + 100_000 + self.chance.randrange(10_000) + slow
        queued = here + 50_000
        issued = max(queued, self.disk_free)
        done = self.disk_free = issued + service
        back = done + 50_000
        crumb, call, remote = (self.crumb + n for n in (1, 2, 3))
        self.crumb += 3
        about = {"file": 1, "pos": 4096 * self.chance.randrange(10**6), "length": 4096, **about}
        head = {"node": "head", "thread": 1, "component": "head"}
        there = {"node": "s1", "thread": 2, "component": "storage"}
        rows = self.rows
        rows["service_op"] += [
            {
                **head,
                "crumb": crumb,
                "ts": ts,
                "dur": back + 50_000 - ts,
                "op": op,
                "client": client,
                **about,
            },
            {**head, "crumb": call, "ts": here, "dur": back - here, "kind": "client", "op": op},
            {
                **there,
                "crumb": remote,
                "ts": AHEAD + here + 20_000,
                "dur": back - 20_000 - here - 20_000,
                "op": op,
            },
        ]
        rows["stitch"] += [
            {
                "node": "head",
                "thread": 1,
                "crumb": call,
                "ts": here,
                "parent_node": "head",
                "parent_crumb": crumb,
                "kind": "split",
            },
            {
                "node": "s1",
                "thread": 2,
                "crumb": remote,
                "ts": AHEAD + here + 20_000,
                "parent_node": "head",
                "parent_crumb": call,
                "kind": "rpc",
            },
        ]
        rows["disk_op"].append(
            {"node": "s1", "thread": 2, "crumb": remote, "ts": AHEAD + queued, "dur": done - queued, "kind": "program",
             "op": "read", "pos": about["pos"], "length": about["length"], "issued": AHEAD + issued}
        )  # fmt: skip
        rows["cpu_slice"].append(
            {"node": "head", "thread": 1, "crumb": crumb, "ts": ts, "dur": 100_000, "kind": "kernel"}
        )

    def hit(self, client: str, ts: int, op: str, **about: int) -> None:
        """A request that the head serves alone, in 40 µs."""
        self.crumb += 1
        took = 40_000 + self.chance.randrange(4_000)
        row = {"node": "head", "thread": 1, "crumb": self.crumb, "ts": ts, "component": "head"}
        self.rows["service_op"].append({**row, "dur": took, "op": op, "client": client, **about})
        self.rows["cpu_slice"].append({**row, "dur": 20_000, "kind": "kernel"})

    def work(self, *requests: tuple[int, str, dict[str, Any]]) -> "Store":
        """Requests to the disk in order of time."""
        for ts, client, about in sorted(requests, key=lambda request: request[:2]):
            self.read(client, ts, **about)
        return self


def every(
    step: int, *, start: int = START, count: int, client: str, **about: Any
) -> list[tuple[int, str, dict[str, Any]]]:
    return [(start + n * step, client, about) for n in range(count)]


def alice(**about: Any) -> list[tuple[int, str, dict[str, Any]]]:
    return every(20 * MS, count=400, client="alice", **about)


def explained(make: MakeTrail, store: Store, **chosen: Any) -> Explanation:
    return command.explain(make(store.rows), Chosen(client="alice", **chosen))


def causes(found: Explanation) -> list[str]:
    return [said.about for said in found.verdict.sentences if said.cause]


def test_a_neighbour_that_keeps_the_disk_busy_is_named(make: MakeTrail) -> None:
    """bob comes in the second half and leaves the disk a twentieth of the time, in bursts of 19 ms."""
    store = Store().work(
        *alice(), *every(20 * MS, start=HALF + 10 * MS, count=200, client="bob", service=19 * MS)
    )
    found = explained(make, store, start_ts=HALF)
    first = found.verdict.sentences[0]
    assert (first.about, first.certainty) == ("resources", "measured")
    assert first.text == "disk sda of s1 was saturated, 95% of it by bob, while alice's requests waited"
    assert found.verdict.text == "D" + first.text[1:]
    disk = next(r for r in found.resources if r.resource == "disk")
    # its 1 ms and bob's 19 of each 20
    assert disk.p50 == pytest.approx(1.0, abs=0.01)
    assert disk.part("bob") == pytest.approx(0.95, abs=0.001)
    # and the step that waits for it is the slower one, against alice before
    slower = [d for d in found.usual.slower if d.metric == "step"]
    assert slower[0].part == "s1: disk sda read queued → s1: disk sda read issued"
    assert found.usual.whose == "alice at other times"
    assert causes(found)[0] == "resources"


def test_her_own_load_is_called_hers(make: MakeTrail) -> None:
    store = Store().work(
        *alice(service=18 * MS), *every(20 * MS, start=START + MS, count=400, client="bob", service=MS)
    )
    found = explained(make, store)
    assert found.verdict.sentences[0].text == "disk sda of s1 was saturated, 95% of it by alice itself"


def test_several_neighbours_are_named_where_none_alone_makes_half(make: MakeTrail) -> None:
    """bob and carol have the disk for 8 ms of 20 each, dave for 2, alice for 1."""
    others = [
        request
        for client, service, at in (
            ("bob", 8 * MS, 12 * MS),
            ("carol", 8 * MS, 13 * MS),
            ("dave", 2 * MS, 14 * MS),
        )
        for request in every(20 * MS, start=HALF + at, count=200, client=client, service=service)
    ]
    found = explained(make, Store().work(*alice(), *others), start_ts=HALF)
    text = found.verdict.sentences[0].text
    assert text.startswith("disk sda of s1 was saturated, 42% of it by bob, 42% of it by carol")
    assert found.verdict.sentences[0].advice is not None
    assert found.verdict.sentences[0].advice.startswith("give bob and carol a limit")


def test_a_slower_step_is_found_where_no_resource_is_saturated(make: MakeTrail) -> None:
    """5 ms more in the head before it calls, in the second half."""
    requests = [(ts, client, {**about, "slow": 5 * MS if ts >= HALF else 0}) for ts, client, about in alice()]
    found = explained(make, Store().work(*requests), start_ts=HALF)
    assert causes(found) == ["latency"]
    [first] = [d for d in found.usual.slower if d.metric == "step"]
    assert first.part == "head: head read arrival → head: head read call"
    assert first.each_ns == pytest.approx(5 * MS, rel=0.01)
    assert [said.certainty for said in found.verdict.sentences if said.cause] == ["sure"]
    assert found.verdict.sentences[0].text == "no resource that alice's requests use was saturated"


def busy_head(store: Store, *, since: int) -> None:
    """bob computes on the head's only CPU all the time, in slices that leave alice's 0.1 ms of each of her requests."""
    for n in range(400):
        ts = START + n * 20 * MS
        if ts >= since:
            row = {"node": "head", "thread": 7, "crumb": 0, "kind": "kernel"}
            store.rows["cpu_slice"].append(
                {**row, "ts": ts + 200_000, "dur": 19 * MS + 700_000, "state": "sleep"}
            )


@pytest.mark.parametrize("seed", range(2))
def test_who_was_busy_before_is_not_blamed(make: MakeTrail, seed: int) -> None:
    """bob keeps the head's CPU busy before and during; what is slower is the head's own 5 ms, in which alice sleeps."""
    requests = [(ts, client, {**about, "slow": 5 * MS if ts >= HALF else 0}) for ts, client, about in alice()]
    store = Store()
    store.chance.seed(seed)
    store.work(*requests)
    busy_head(store, since=START)
    found = explained(make, store, start_ts=HALF)
    assert causes(found) == ["latency"]
    assert "head: head read arrival → head: head read call" in found.verdict.text


@pytest.mark.parametrize("seed", range(2))
def test_who_is_busy_where_nobody_waits_is_not_blamed(make: MakeTrail, seed: int) -> None:
    """bob comes with the complaint and takes the whole CPU, but alice's threads run as soon as they can."""
    store = Store()
    store.chance.seed(seed)
    store.work(*alice())
    busy_head(store, since=HALF)
    found = explained(make, store, start_ts=HALF)
    assert causes(found) == []
    said = found.verdict.sentences[0]
    assert "cpu of head was saturated" in said.text and said.text.endswith(
        "alice's requests hardly waited there"
    )


def test_who_takes_the_cpu_that_is_waited_for_is_blamed(make: MakeTrail) -> None:
    """bob takes the CPU from alice's thread in the middle of each of her requests, for 4 ms."""
    requests = [(ts, client, {**about, "slow": 4 * MS if ts >= HALF else 0}) for ts, client, about in alice()]
    store = Store().work(*requests)
    busy_head(store, since=HALF)
    for slice in list(store.rows["cpu_slice"]):
        if slice["crumb"] and slice["ts"] >= HALF:
            slice["state"] = "runnable"
            store.rows["cpu_slice"].append(
                {**slice, "ts": slice["ts"] + 4 * MS, "dur": 10_000, "state": "sleep"}
            )
    found = explained(make, store, start_ts=HALF)
    first = found.verdict.sentences[0]
    assert first.cause and first.certainty == "measured"
    assert first.text.startswith("cpu of head was saturated") and first.text.endswith(
        "while alice's requests waited"
    )


def test_a_neighbour_on_another_disk_is_not_blamed(make: MakeTrail) -> None:
    """bob saturates sdb of the same machine; alice has a queue of her own making on sda, and waits at sda only."""
    store = Store()
    for n in range(400):
        ts = START + n * 20 * MS
        for part in range(3 if ts >= HALF else 1):
            store.read("alice", ts + part * 1000, service=2 * MS)
    for n in range(200):
        ts = AHEAD + HALF + n * 20 * MS
        crumb = 1_000_000 + n
        row = {"node": "s1", "thread": 9, "crumb": crumb, "ts": ts, "dur": 19 * MS + 500_000}
        store.rows["service_op"].append({**row, "component": "storage", "client": "bob", "op": "scan"})
        store.rows["disk_op"].append(
            {**row, "kind": "program", "dev": "sdb", "op": "read", "pos": 0, "length": 4096, "issued": ts}
        )
    # one read of alice's that went to sdb: it is a resource she uses
    store.rows["disk_op"].append(
        {"node": "s1", "thread": 2, "crumb": 3, "ts": AHEAD + HALF, "dur": 1000, "kind": "program", "dev": "sdb",
         "op": "read", "pos": 0, "length": 4096, "issued": AHEAD + HALF}
    )  # fmt: skip
    found = explained(make, store, start_ts=HALF)
    blamed = [said.text for said in found.verdict.sentences if said.cause]
    assert not any("sdb" in text or "bob" in text for text in blamed), blamed


@pytest.mark.parametrize("seed", range(2))
def test_the_slow_machine_of_three_is_named(make: MakeTrail, seed: int) -> None:
    """One of three storage nodes takes 4 ms longer in the second half: the verdict names it."""
    rows = replicated(seed)
    path = make(rows)
    found = command.explain(path, Chosen(client="a", start_ts=START + 6 * SECOND))
    assert found.verdict.text.startswith("Head read: n2: storage read arrival → n2: storage read reply: +")
    quiet = command.explain(path, Chosen(client="a", start_ts=START + 3 * SECOND, end_ts=START + 6 * SECOND))
    assert causes(quiet) == []


def replicated(seed: int) -> dict[str, list[dict[str, Any]]]:
    """Reads, each served by one of three storage nodes; from the seventh second on n2 takes 4 ms longer."""
    chance = random.Random(seed)
    rows: dict[str, list[dict[str, Any]]] = {"service_op": [], "stitch": []}
    for number in range(600):
        ts, crumb, node = START + number * 20 * MS, 10 * number + 1, f"n{chance.randrange(3)}"
        slow = node == "n2" and number >= 300
        took = int(MS * chance.uniform(1, 2)) + (4 * MS if slow else 0)
        head = {"node": "head", "thread": 1, "component": "head", "op": "read"}
        rows["service_op"] += [
            {**head, "crumb": crumb, "ts": ts, "dur": took + 3000, "client": "a"},
            {**head, "crumb": crumb + 1, "ts": ts + 1000, "dur": took + 1000, "kind": "client"},
            {
                "node": node,
                "thread": 2,
                "component": "storage",
                "op": "read",
                "crumb": crumb + 2,
                "ts": ts + 1500,
                "dur": took,
            },
        ]
        stitch = {"thread": 1, "parent_node": "head"}
        rows["stitch"] += [
            {
                **stitch,
                "node": "head",
                "crumb": crumb + 1,
                "ts": ts + 1000,
                "parent_crumb": crumb,
                "kind": "split",
            },
            {
                **stitch,
                "node": node,
                "crumb": crumb + 2,
                "ts": ts + 1500,
                "parent_crumb": crumb + 1,
                "kind": "rpc",
            },
        ]
    return rows


def tiny(make: MakeTrail) -> Explanation:
    """alice writes 60 bytes at a time, one after another; bob 8 KiB now and then, no faster."""
    store = Store()
    for n in range(4000):
        store.hit("alice", START + n * 2 * MS, "write", file=1, pos=60 * n, length=60)
    for n in range(400):
        store.hit("bob", START + n * 20 * MS + MS, "write", file=2, pos=8192 * n, length=8192)
    return explained(make, store)


def test_tiny_requests_get_a_cache_once_all_else_is_cleared(make: MakeTrail) -> None:
    found = tiny(make)
    assert causes(found) == ["pattern"]
    assert found.verdict.text == (
        "Nothing is known to be saturated; nothing is slower than usual; alice sends 4,000 requests of 60 bytes that a "
        "client cache would absorb, all but 2"
    )
    said = found.verdict.sentences[-1]
    assert said.advice is not None and "cache" in said.advice
    assert found.pattern is not None
    # 4000 * 60 bytes are 59 pages, written back at 5 s and at the end
    assert (found.pattern.sent, found.pattern.small, found.pattern.sequential) == (2, 4000, 3999)
    assert sum(cell.n for cell in found.pattern.cells) == 4000


def test_what_nothing_explains_is_said_so_with_where_the_time_goes(make: MakeTrail) -> None:
    found = explained(make, Store().work(*alice()), start_ts=HALF)
    assert causes(found) == []
    assert found.verdict.text.endswith("what was recorded doesn't explain the complaint")
    last = found.verdict.sentences[-1]
    assert last.about == "time"
    assert last.evidence[0].startswith("disk sda read issued → disk sda read done: ")


@pytest.mark.parametrize("seed", range(6))
def test_quiet_times_are_never_blamed(make: MakeTrail, seed: int) -> None:
    """Quiet stores of other chances: no cause, though a fourth of each is compared with the rest."""
    store = Store()
    store.chance.seed(seed)
    found = explained(make, store.work(*alice()), start_ts=HALF, end_ts=HALF + 2 * SECOND)
    assert causes(found) == []


def test_utilization_of_a_machine_whose_clock_is_an_hour_ahead(make: MakeTrail) -> None:
    """The window is the head's; what the disk did then is found under its own hour."""
    store = Store().work(*alice(), *every(20 * MS, start=HALF, count=200, client="bob", service=9 * MS))
    trail = Trail(make(store.rows))
    shares = {}
    for name, start in (("before", START), ("after", HALF)):
        window = resources.Window("head", start, start + 4 * SECOND - MS)
        [disk] = [r for r in resources.collect(trail, window) if r.resource == "disk"]
        shares[name] = float(disk.series.mean())
    assert shares["before"] == pytest.approx(1 / 20, abs=0.01)
    assert shares["after"] == pytest.approx(10 / 20, abs=0.01)


def test_a_clock_that_no_reply_tells_exactly(store: Path) -> None:
    """s3 never answered: its clock is placed by the call's beginning, and the others by theirs."""
    [unsure] = Trail(store).rows_of("SELECT callee_node FROM clock_offset WHERE error_ns IS NULL")
    assert unsure["callee_node"] == "s3"
    assert command.explain(store, Chosen(client="bob")).window.node == "head"


@pytest.mark.parametrize(
    ("text", "bytes_s"),
    [(None, 0), ("10Gbit/s", 1_250_000_000), ("100 Mbit", 12_500_000), ("1.5GB/s", 1_500_000_000)],
)
def test_link_speeds(text: str | None, bytes_s: int) -> None:
    assert link_speed(text) == bytes_s


@pytest.mark.parametrize("text", ["fast", "10", "0Gbit/s", "-1Mbit/s"])
def test_other_link_speeds_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--link: expected a speed"):
        link_speed(text)


def asked(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return run("explain", *words)


def test_the_command_prints_the_verdict_first_and_json_has_it_all(make: MakeTrail) -> None:
    store = Store().work(
        *alice(), *every(20 * MS, start=HALF + 10 * MS, count=200, client="bob", service=19 * MS)
    )
    trail = make(store.rows)
    done = asked(trail, "--client", "alice", "--from", "+4s")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Disk sda of s1 was saturated, 95% of it by bob")
    found = json.loads(asked(trail, "--client", "alice", "--from", "+4s", "--json").stdout)
    assert found["verdict"]["sentences"][0]["cause"] is True
    assert {"resources", "requests", "comparison", "pattern", "graph", "window"} <= found.keys()
    assert found["requests"][0]["n"] == 200


def test_who_complains_must_be_clear(make: MakeTrail) -> None:
    trail = make(
        Store()
        .work(
            *every(20 * MS, count=3, client="alice"), *every(20 * MS, start=START + MS, count=3, client="bob")
        )
        .rows
    )
    nobody = asked(trail)
    assert nobody.returncode == 2
    assert "who complains?" in nobody.stderr and "alice, bob" in nobody.stderr
    other = asked(trail, "--client", "alicia")
    assert other.returncode != 0 and "did you mean alice?" in other.stderr
    late = asked(trail, "--client", "bob", "--from", "+5h")
    assert late.returncode != 0 and "no request is of all of these" in late.stderr


def test_a_trail_without_requests_is_refused(make: MakeTrail) -> None:
    done = asked(make({"cpu_slice": [{"node": "n", "ts": 1, "dur": 1, "crumb": 0, "kind": "kernel"}]}))
    assert done.returncode != 0
    assert "no requests in this trail" in done.stderr


def test_unnamed_clients_are_said(make: MakeTrail) -> None:
    done = asked(make({"service_op": [{"node": "n", "ts": 1, "dur": 1, "crumb": 1}]}))
    assert done.returncode != 0
    assert "no request names its client" in done.stderr
