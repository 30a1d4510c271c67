"""Programs of these tests, built once, and recordings of them."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iotrail import native
from iotrail.trail import Trail

from ..sql.tiny import write_trail

HERE = Path(__file__).parent
IOTRAIL = [sys.executable, "-m", "iotrail"]


def ask(trail: Path, *words: str) -> dict[str, Any]:
    """The answer of `whatif run` as JSON."""
    command = [*IOTRAIL, "whatif", "run", trail, "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.fixture(scope="session")
def build() -> Callable[[str], Path]:
    """Compiles programs/NAME.c; kept until its source changes."""
    cache = HERE.parent.parent / ".cache" / "causal"
    cache.mkdir(parents=True, exist_ok=True)

    def build(name: str) -> Path:
        source = HERE / "programs" / f"{name}.c"
        read = source.read_bytes() + (HERE / "programs" / "log.h").read_bytes()
        target = cache / f"{name}-{hashlib.sha256(read).hexdigest()[:12]}"
        if not target.exists():
            made = target.with_suffix(f".{os.getpid()}")
            subprocess.run(["cc", "-O1", "-Wall", "-pthread", "-o", made, source], check=True)
            made.rename(target)
        return target

    return build


@pytest.fixture
def make_causal(tmp_path: Path) -> Path:
    """The trail of tests/sql/causal."""
    return write_trail(native.binary(), HERE.parent / "sql" / "causal", tmp_path)


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Trail]:
    """Records a command with its causality."""

    def record(*command: object) -> Trail:
        path = tmp_path / "x.trail"
        words = [*IOTRAIL, "record", "--causal", "-o", path, "--force", "--", *map(str, command)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return Trail(path)

    return record
