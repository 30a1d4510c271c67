"""The two-part system of examples/sdk, built and recorded once."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
EXAMPLE = ROOT / "examples" / "sdk"
IOTRAIL = [sys.executable, "-m", "iotrail"]
PUTS = 101


@pytest.fixture(scope="session")
def back(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The storage end, compiled as its first lines say."""
    flags = subprocess.run(
        [*IOTRAIL, "sdk", "--cflags", "--libs"], check=True, capture_output=True, text=True
    )
    program = tmp_path_factory.mktemp("sdk") / "back"
    warnings = ["-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        ["cc", "-O2", *warnings, "-o", program, EXAMPLE / "back.c", *flags.stdout.split()], check=True
    )
    return program


@pytest.fixture(scope="session")
def recorded(back: Path) -> Path:
    """The trail of `PUTS` puts."""
    trail = back.with_name("sdk.trail")
    front = [sys.executable, EXAMPLE / "front.py", back, back.with_name("data"), str(PUTS)]
    subprocess.run([*IOTRAIL, "record", "--node", "here", "-o", trail, "--", *front], check=True)
    return trail
