"""What every capture test needs: the recorder, the test programs built once, and a way to run them."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from .recording import Recording, new_book

# A shell's background jobs ignore SIGINT, and what they start inherits that.
signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).parent
REPOSITORY = HERE.parent.parent
PROGRAMS = HERE / "programs"
# Ways to build a program: what a distribution does (checks), what old sources ask for (64-bit offsets).
VARIANTS = {
    "plain": ["-O1"],
    "fortified": ["-O2", "-D_FORTIFY_SOURCE=2"],
    "large": ["-O1", "-D_FILE_OFFSET_BITS=64"],
    "static": ["-O1", "-static"],
}


@pytest.fixture(scope="session")
def native() -> Path:
    """The recorder's binary, with the preload library beside it."""
    chosen = os.environ.get("IOTRAIL_NATIVE")
    binary = Path(chosen) if chosen else REPOSITORY / "python/iotrail/_native/iotrail-native"
    if not chosen and not binary.exists():
        subprocess.run(["make", "-s", "native"], cwd=REPOSITORY, check=True)
    assert binary.exists(), f"no recorder at {binary}; run make"
    return binary


@pytest.fixture(scope="session")
def build() -> Callable[..., Path]:
    """Compile programs/NAME.c (or .cc) and return the executable; kept until its source changes."""
    cache = REPOSITORY / ".cache" / "capture"
    cache.mkdir(parents=True, exist_ok=True)

    def build(source: str, variant: str = "plain", *extra: str) -> Path:
        path = PROGRAMS / source
        compiler = {".c": "cc", ".cc": "c++", ".f90": "gfortran"}[path.suffix]
        if extra and extra[0].startswith("mpi"):
            compiler, extra = {"mpi": "mpicc"}.get(extra[0], extra[0]), extra[1:]
        flags = [*VARIANTS[variant], "-Wall", "-pthread", *extra]
        if path.suffix == ".f90":
            # mpif.h declares no interfaces, so that a buffer is of any type.
            flags += ["-fallow-argument-mismatch", "-Wno-all"]
        included = [part.read_bytes() for part in (PROGRAMS / "witness.h", PROGRAMS / "causal_body.inc")]
        content = b"".join([path.read_bytes(), *included, repr((compiler, flags)).encode()])
        name = f"{path.stem}-{variant}-{hashlib.sha256(content).hexdigest()[:12]}"
        target = cache / (name + ".so" if "-shared" in extra else name)
        if not target.exists():
            made = target.with_suffix(f".{os.getpid()}")
            subprocess.run([compiler, *flags, "-o", made, path, "-ldl"], check=True)
            made.rename(target)
        return target

    return build


@pytest.fixture
def work() -> Iterator[Path]:
    """A directory on tmpfs for the files of a test program: its calls are what is tested, not the disk."""
    import tempfile

    path = Path(tempfile.mkdtemp(prefix="capture-", dir="/dev/shm"))
    path.chmod(0o777)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def record(native: Path, tmp_path: Path) -> Callable[..., Recording]:
    """Record a command and return what became of it.

    `notes` is the room of the witness's book; `during` is called with the running recorder.
    """
    runs = 0

    def record(
        command: Sequence[str | Path],
        *options: str,
        notes: int = 200_000,
        env: dict[str, str] | None = None,
        out: Path | None = None,
        during: Callable[[subprocess.Popen], None] | None = None,
        **popen: object,
    ) -> Recording:
        nonlocal runs
        runs += 1
        book = tmp_path / f"{runs}.book"
        new_book(book, notes)
        trail = out or tmp_path / f"{runs}.trail"
        process = subprocess.Popen(
            [native, "record", "-o", trail, *options, "--", *command],
            env={**os.environ, "WITNESS": str(book), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            **popen,
        )
        try:
            if during:
                during(process)
            stdout, stderr = process.communicate(timeout=120)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # the session this test started, nothing else
            process.communicate()
            raise
        return Recording(trail, process.returncode, stdout, stderr, book)

    return record
