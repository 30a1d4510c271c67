#!/usr/bin/env python3
"""Build what the Python package carries but git doesn't, and put it where the package looks for it.

    build.py native     cargo: `iotrail-native`, `libiotrail_preload.so`, `libiotrail.so` and its header
                        -> python/iotrail/_native/
    build.py web        npm and vite: the page                             -> python/iotrail/_web/

Used by `make` (in a checkout) and by hatch_build.py (for a wheel), so that both carry the same files.
Standard library only: it runs before anything is installed. A second run builds only what changed.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "python" / "iotrail" / "_native"
HEADER = ROOT / "crates" / "capi" / "include" / "iotrail.h"
WEB_SOURCE = ROOT / "web"
WEB = ROOT / "python" / "iotrail" / "_web"

# Cargo target -> kind of file it must give.
PRODUCTS = {"iotrail-native": "bin", "iotrail_preload": "cdylib", "iotrail": "cdylib"}


class BuildError(Exception):
    """A tool is missing or failed; the message says which and what to do."""


def run(command: list[str], cwd: Path = ROOT, capture: bool = False) -> str:
    """Run a build tool; its own messages go to the terminal."""
    if shutil.which(command[0]) is None:
        raise BuildError(f"no {command[0]} on PATH\n  hint: iotrail builds with cargo, a C compiler and node")
    done = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE if capture else None, text=True, check=False
    )
    if done.returncode != 0:
        raise BuildError(f"`{' '.join(command)}` ended with status {done.returncode}; its messages are above")
    return done.stdout if capture else ""


def native(only_products: bool = False) -> None:
    """Build the binary and the preload library, optimised: tests, demo and bench use the same files."""
    # --examples (one small tool) makes cargo choose the features that tests need too, so that `make test`
    # finds all dependencies compiled. See docs/decisions/0002-tests-use-release-dependencies.md.
    # A wheel has no use for that.
    others = ["--exclude", "iotrail-store"] if only_products else ["--examples"]
    # faultfs is built by the tests that mount it.
    targets = ["--workspace", "--exclude", "iotrail-faultfs", "--bins", "--lib", *others]
    command = [
        "cargo",
        "build",
        "--release",
        "--locked",
        *targets,
        "--message-format=json-render-diagnostics",
    ]
    built: dict[str, Path] = {}
    for line in run(command, capture=True).splitlines():
        message = json.loads(line)
        if message.get("reason") != "compiler-artifact":
            continue
        target = message["target"]
        if PRODUCTS.get(target["name"]) in target["crate_types"]:
            built[target["name"]] = next(
                Path(name) for name in message["filenames"] if not name.endswith((".rlib", ".rmeta"))
            )
    missing = PRODUCTS.keys() - built.keys()
    if missing:
        raise BuildError(f"cargo built no {', '.join(sorted(missing))}")
    NATIVE.mkdir(exist_ok=True)
    for path in built.values():
        place(path, NATIVE / path.name)
    shutil.copy2(HEADER, NATIVE / HEADER.name)


def place(source: Path, target: Path) -> None:
    """Put a copy without debug information (nine tenths of the file) where the package looks for it.

    It keeps the time of what cargo built, so that a fresh one isn't copied again, and is replaced as a
    whole, because a recorded program may have it mapped.
    """
    if target.exists() and target.stat().st_mtime_ns == source.stat().st_mtime_ns:
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    run(["strip", "--strip-debug", "-o", str(temporary), str(source)])
    shutil.copystat(source, temporary)
    temporary.replace(target)


def web() -> None:
    """Build the page if a source is newer than it."""
    lock, installed = WEB_SOURCE / "package-lock.json", WEB_SOURCE / "node_modules" / ".package-lock.json"
    if (WEB_SOURCE / "node_modules").is_symlink():
        raise BuildError(
            "web/node_modules is a link, and npm would empty the folder it leads to\n  hint: remove the link"
        )
    if not installed.exists() or installed.stat().st_mtime < lock.stat().st_mtime:
        run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"], cwd=WEB_SOURCE)
        installed.touch()
    newest = max(path.stat().st_mtime for path in web_sources())
    built = [path.stat().st_mtime for path in WEB.rglob("*") if path.is_file()] if WEB.is_dir() else []
    if not built or min(built) < newest:
        run(["npm", "run", "--silent", "build", "--", "--logLevel=warn"], cwd=WEB_SOURCE)
    if not any(WEB.rglob("*.html")):
        raise BuildError(f"`npm run build` in web/ left no page in {WEB.relative_to(ROOT)}")


def web_sources() -> Iterator[Path]:
    """Every file the page is built from."""
    for folder, names, files in os.walk(WEB_SOURCE):
        names[:] = [name for name in names if name not in ("node_modules", "dist", "test-results")]
        yield from (Path(folder) / name for name in files)


def main(arguments: list[str]) -> int:
    """Build the parts named."""
    parts = {"native": native, "web": web}
    if not arguments or not set(arguments) <= parts.keys():
        print("usage: build.py native|web…", file=sys.stderr)
        return 2
    try:
        for part in arguments:
            parts[part]()
    except BuildError as error:
        print(f"build.py: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
