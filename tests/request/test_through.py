"""`--through NAME`: only requests in which a machine, or a member of a cluster, had a part."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from iotrail.cli import app
from iotrail.errors import UnknownNameError

from .conftest import MakeTrail


def ask(*words: object) -> str:
    """What iotrail prints; its error is raised."""
    result = CliRunner().invoke(app, [*map(str, words)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


@pytest.fixture
def cluster(make: MakeTrail) -> Path:
    """Two daemons of one machine serve a request each, and osd.2 on another one a part of the second."""
    served = {"component": "osd", "op": "write", "node": "n", "dur": 100}
    return make(
        {
            "service_op": [
                {**served, "ts": 1000, "crumb": 1, "thread": 10},
                {**served, "ts": 2000, "crumb": 2, "thread": 11, "dur": 200},
                {**served, "ts": 2010, "crumb": 3, "thread": 11, "kind": "client", "op": "repop"},
                {**served, "ts": 2020, "crumb": 4, "thread": 20, "node": "m", "op": "repop", "dur": 50},
            ],
            "stitch": [
                {"ts": 2010, "node": "n", "crumb": 3, "parent_node": "n", "parent_crumb": 2, "kind": "split"},
                {"ts": 2020, "node": "m", "crumb": 4, "parent_node": "n", "parent_crumb": 3, "kind": "rpc"},
            ],
            "thread": [
                {
                    "node": node,
                    "thread": thread,
                    "process": thread,
                    "pid": thread,
                    "tid": thread,
                    "start_ts": 1,
                }
                for node, thread in (("n", 10), ("n", 11), ("m", 20))
            ],
            "process": [
                {"node": "n", "process": 10, "pid": 10, "name": "osd.0", "start_ts": 1, "ended": "running"},
                {
                    "node": "n",
                    "process": 11,
                    "pid": 11,
                    "name": "ceph-osd",
                    "start_ts": 1,
                    "ended": "running",
                },
                {
                    "node": "m",
                    "process": 20,
                    "pid": 20,
                    "name": "ceph-osd",
                    "start_ts": 1,
                    "ended": "running",
                },
            ],
            "member": [
                {"ts": 1, "node": node, "process": process, "member": member, "role": "osd", "state": "up"}
                for node, process, member in (("n", 11, "osd.1"), ("m", 20, "osd.2"))
            ],
        }
    )


@pytest.mark.parametrize(
    ("name", "durations"),
    [("osd.0", [100]), ("osd.1", [200]), ("osd.2", [200]), ("m", [200]), ("n", [200, 100])],
)
def test_paths_of_requests_that_went_through(cluster: Path, name: str, durations: list[int]) -> None:
    """A member is known by its process's name or by table member; a machine by its own."""
    found = json.loads(ask("path", cluster, "--slowest", 9, "--through", name, "--json"))
    assert [path["crumbs"][0]["records"][0]["dur"] for path in found] == durations


def test_graph_of_requests_that_went_through(cluster: Path) -> None:
    """The whole of each request is drawn, not only what it did there."""
    graph = json.loads(ask("graph", cluster, "--through", "osd.2", "--json"))
    assert (graph["requests"], graph["total_ns"]) == (1, 200)
    assert len(graph["edges"]) == 5
    alone = json.loads(ask("graph", cluster, "--through", "osd.0", "--json"))
    assert (alone["requests"], alone["total_ns"], len(alone["edges"])) == (1, 100, 1)


def test_unknown_name(cluster: Path) -> None:
    """What is known is said."""
    with pytest.raises(UnknownNameError, match=r"osd\.7") as error:
        ask("graph", cluster, "--through", "osd.7")
    assert "osd.1" in str(error.value.hint) or "osd.1" in error.value.message
