"""A file system whose calls fail when they are asked to, and that loses what was not synced: tests/faultfs, mounted."""

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build_faultfs() -> Path:
    """The program; what it consists of was compiled for the product, but for itself."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "iotrail/build"
    environment = dict(os.environ)
    if cache.is_dir():
        environment.setdefault("CARGO_BUILD_BUILD_DIR", str(cache))
    # All of the workspace, so that cargo chooses the features that `make native` chose.
    command = [
        "cargo",
        "build",
        "--release",
        "--locked",
        "--quiet",
        "--workspace",
        "--bins",
        "--lib",
        "--examples",
    ]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return ROOT / "target/release/faultfs"


class Storage:
    """The file system, mounted at `path`."""

    def __init__(self, program: Path, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.process = subprocess.Popen(
            [program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None and self.process.stderr is not None
        if self.process.stdout.readline() != "mounted\n":
            pytest.skip(f"FUSE can't be mounted here: {self.process.stderr.read()}")

    def ask(self, line: str) -> str:
        """The answer to a line; see tests/faultfs/src/lib.rs."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        assert answer != "not understood", line
        return answer

    def counts(self) -> Counter[str]:
        """Calls since the last fault or `clear`, by kind."""
        pairs = (word.split("=") for word in self.ask("count").split())
        return Counter({kind: int(calls) for kind, calls in pairs})

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(10)
        finally:
            self.process.kill()
            subprocess.run(["umount", "--lazy", self.path], check=False, capture_output=True)
