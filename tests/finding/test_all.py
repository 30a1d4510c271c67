"""What holds for all findings: a healthy program has none, an empty trail has none, each has its tests and
its place in the documentation."""

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

from iotrail import modules

from .scene import Scene
from .test_spared import SPARED

ROOT = Path(__file__).parents[2]
FINDINGS = sorted(name for name in modules.load() if name.startswith("finding_"))
TESTS = {
    name
    for path in Path(__file__).parent.glob("test_*.py")
    for name in vars(importlib.import_module(f"{__package__}.{path.stem}"))
    if name.startswith("test_")
} | {f"test_{name}_spares_{what}" for name, what, _ in SPARED}

MIB, US, MS = 1024 * 1024, 1_000, 1_000_000


def ask_all(scene, tmp_path, native):
    trail = scene.write(tmp_path, native)
    return [row for name in FINDINGS for row in trail.rows_of(f"SELECT * FROM {name}")]


def test_a_healthy_program_has_no_finding(scene, tmp_path, native):
    """Four ranks that read their part of a file in large pieces, compute, and write results of their own."""
    for rank in range(4):
        main = scene.process("solver", rank=rank, major_faults=3).main
        main.call("stat", "/data/in").open("/data/in", ns=5 * US)
        main.read("/data/in", 500, MIB, lambda i, rank=rank: (500 * rank + i) * MIB, ns=200 * US)
        main.close("/data/in").compute(100 * MS)
        main.wait("MPI_Barrier", "mpi", ns=3 * MS)
        main.open(f"/data/out.{rank}", 577, ns=8 * US).write(f"/data/out.{rank}", 100, MIB, ns=400 * US)
        main.call("fsync", f"/data/out.{rank}", ns=5 * MS).close(f"/data/out.{rank}")
    assert ask_all(scene, tmp_path, native) == []


@pytest.mark.parametrize("process", [False, True])
def test_nothing_has_no_finding(process, tmp_path, native):
    scene = Scene()
    if process:
        scene.process("true").main.compute(MS)
    assert ask_all(scene, tmp_path, native) == []


@pytest.mark.parametrize("name", [name.removeprefix("finding_") for name in FINDINGS])
def test_each_finding_has_a_scene_that_fires_it_and_one_that_does_not(name):
    assert f"test_{name}_fires" in TESTS
    assert [test for test in TESTS if test.startswith(f"test_{name}_spares_")]


@pytest.mark.parametrize("name", FINDINGS)
def test_each_finding_is_documented(name):
    """More than a sentence, and every parameter is used by the SQL that declares it."""
    module = modules.load()[name]
    assert len(module.doc) > 150
    for param in module.params:
        assert re.search(rf"\b(p|k)\.{param.name}\b|\(SELECT {param.name} FROM params\)", module.sql), (
            param.name
        )


def test_the_documentation_is_current():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/document_findings.py", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
