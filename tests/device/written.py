"""Files as `device fit` and `device measure` wrote them, which crates/sim/tests/schema.rs holds to the JSON Schema."""

import json
import subprocess
from pathlib import Path

from iotrail import native

FILES = Path(__file__).resolve().parents[2] / "crates/sim/tests/files"


def units(path: Path) -> dict[str, str | None]:
    """The unit of each value of a device file, by key."""
    command = [native.binary(), "device", "show", path]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    return {each["key"]: each["unit"] for each in json.loads(shown.stdout)["values"]}


def is_judged(path: Path, name: str) -> bool:
    """Whether a file has no value or unit that the kept one doesn't have: what was said of that one holds for it."""
    return units(path).items() <= units(FILES / name).items()
