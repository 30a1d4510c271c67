"""`make demo-anomaly`: where a simulated storage stack with four faults falls short of its design, and that it doesn't without them.

Sweeps 400 of 12,096 settings of the stack, prints the clusters of settings that are slower than designed, and in which layer,
and writes the page. Then mends a fault and sweeps again, as the paper did with the kernel's (Shen, Zhong and Li, FAST 2005,
section 5), until nothing falls short. Trails and pages stay in demo/.
"""

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
OUTPUT = Path("demo")
IOTRAIL = [sys.executable, "-m", "iotrail"]
# In the order in which the paper mended them.
FAULTS = {
    "cancel": "while the queue is congested, read-ahead that a handler waits for is given up, too",
    "distance": "waiting for a handler ends for any request that is closer than its own, whatever a seek costs",
    "reset": "where nothing is queued above the last request, the search for the next one starts from the first sector",
    "timer": "the time to wait for a handler begins when the first piece of its request is done, not the last",
}


def run(*words: object) -> str:
    """What a verb of iotrail prints."""
    done = subprocess.run([*IOTRAIL, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"demo: error: iotrail {' '.join(map(str, words))}:\n{done.stderr or done.stdout}")
    return done.stdout


def sweep(faults: list[str]) -> Path:
    """Sweeps the stack with these faults: the trail."""
    text = (HERE / "stack.toml").read_text()
    before = next(line for line in text.splitlines() if line.startswith("faults"))
    after = f"faults = [{', '.join(f'{fault!r}' for fault in faults)}]"
    specification = OUTPUT / "anomaly.toml"
    specification.write_text(text.replace(before, after))
    trail = OUTPUT / f"anomaly-{len(faults)}.trail"
    run("sweep", specification, "-o", trail, "--force")
    return trail


def main() -> None:
    """All four faults, then one fewer each time; the next sweep runs while the page of the one before is written."""
    OUTPUT.mkdir(exist_ok=True)
    began = time.monotonic()
    faults = list(FAULTS)
    with ThreadPoolExecutor(1) as ahead:
        sweeps = [ahead.submit(sweep, faults[mended:]) for mended in range(len(faults) + 1)]
        for mended, swept in enumerate(sweeps):
            print(f"Faults of the stack: {', '.join(faults[mended:]) or 'none'}", flush=True)
            trail = swept.result()
            print(run("anomalies", trail, "--html", trail.with_suffix(".html")), flush=True)
            if mended < len(faults):
                print(f"Mended: {faults[mended]}: {FAULTS[faults[mended]]}.\n", flush=True)
    print(f"Pages: {OUTPUT}/anomaly-4.html to anomaly-0.html; {time.monotonic() - began:.0f} s in all.")


if __name__ == "__main__":
    main()
