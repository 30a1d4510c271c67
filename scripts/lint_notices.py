#!/usr/bin/env python3
"""Check that notices/ names each crate and each npm package in the wheel, at the version that is locked, and no other.

`make notices` writes them.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def crates() -> set[str]:
    """What the binary and the libraries are built from: the command line's dependencies include all."""
    command = ["cargo", "tree", "--locked", "--package=iotrail-cli", "--edges=normal", "--prefix=none"]
    command += ["--target=x86_64-unknown-linux-gnu", "--format={p}"]
    lines = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout
    return {f"{name} {version}" for name, version in re.findall(r"^(\S+) v(\S+)", lines, re.M)}


def packages() -> set[str]:
    """What the pages are built from."""
    locked = json.loads((ROOT / "web" / "package-lock.json").read_text())["packages"]
    return {
        f"{path.rpartition('node_modules/')[2]} {package['version']}"
        for path, package in locked.items()
        if path and not package.get("dev")
    }


def main() -> int:
    """Print what differs."""
    wrong = 0
    for name, line, expected in (
        ("crates.txt", r"^    (\S+) (\d\S*)(?: https?:\S+)?$", crates()),
        ("npm.txt", r"^ - (\S+)@(\d\S*)$", packages()),
    ):
        text = (ROOT / "notices" / name).read_text()
        found = {f"{package} {version}" for package, version in re.findall(line, text, re.M)}
        for package in sorted(expected ^ found):
            what = "is missing" if package in expected else "is not in the wheel"
            print(f"notices/{name}: error: {package} {what}\n  hint: make notices", file=sys.stderr)
            wrong += 1
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
