"""The complaints of examples/complaints, seeded in a store of their own: what `iotrail explain` says of each."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent


def explained(name: str, tmp_path: Path) -> dict[str, Any]:
    """Records a complaint for six seconds; what the command that it prints says as JSON."""
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("mounting the store needs root and /dev/fuse")
    done = subprocess.run(
        [sys.executable, ROOT / "examples/complaints/complaint.py", name, tmp_path / "c.trail"],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "COMPLAINT_SECONDS": "6"},
    )
    assert done.returncode == 0, done.stderr
    asked = next(line for line in done.stdout.splitlines() if line.startswith("$") and " explain " in line)
    again = subprocess.run(
        [*shlex.split(asked[2:]), "--json"], check=True, capture_output=True, text=True, cwd=ROOT
    )
    found: dict[str, Any] = json.loads(again.stdout)
    # what it printed begins with the same verdict
    assert found["verdict"]["text"] in done.stdout
    return found


def causes(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [said for said in found["verdict"]["sentences"] if said["cause"]]


def test_the_noisy_neighbour_is_named_with_its_resource(tmp_path: Path) -> None:
    found = explained("noisy", tmp_path)
    first = causes(found)[0]
    assert first["about"] == "resources"
    assert (
        first["text"].startswith("disk of node-")
        and "% of it by games, while daemon's requests waited" in first["text"]
    )
    assert found["verdict"]["text"].lower() == first["text"].lower()
    # and it is that queue in which requests take longer than before
    slower = [each["part"] for each in found["comparison"]["found"] if each["metric"] == "step"]
    assert any(
        "disk disk read queued → " in part and part.endswith("disk disk read issued") for part in slower
    )


def test_tiny_requests_are_advised_a_cache_when_all_else_is_cleared(tmp_path: Path) -> None:
    found = explained("tiny", tmp_path)
    assert [said["about"] for said in causes(found)] == ["pattern"]
    text = found["verdict"]["text"]
    assert text.startswith("Nothing is saturated; nothing is slower than usual; daemon sends ")
    assert "requests of 48–92 bytes that a client cache would absorb" in text
    assert "cache" in causes(found)[0]["advice"]
    # CPU was recorded, and charged
    [head] = [each for each in found["resources"] if (each["resource"], each["node"]) == ("cpu", "head")]
    unattributed = sum(user["share"] for user in head["users"] if user["client"] is None)
    assert unattributed <= 0.02 and head["users"][0]["client"] == "daemon"
