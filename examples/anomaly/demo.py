"""`make demo-anomaly`: where a simulated storage stack with four faults falls short of its design, and that it doesn't without them.

Sweeps 400 of 12,096 settings of the stack, prints the clusters of settings that are slower than designed, and in which layer,
and writes the page. Then mends a fault and sweeps again, as the paper did with the kernel's (Shen, Zhong and Li, FAST 2005,
section 5), until nothing falls short. Trails and pages stay in demo/.
"""

import subprocess
import sys
import time
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


def sweep(faults: list[str]) -> str:
    """Sweeps the stack with these faults, and returns what is said of it."""
    text = (HERE / "stack.toml").read_text()
    before = next(line for line in text.splitlines() if line.startswith("faults"))
    after = f"faults = [{', '.join(f'{fault!r}' for fault in faults)}]"
    specification = OUTPUT / "anomaly.toml"
    specification.write_text(text.replace(before, after))
    trail, page = OUTPUT / f"anomaly-{len(faults)}.trail", OUTPUT / f"anomaly-{len(faults)}.html"
    run("sweep", specification, "-o", trail, "--force")
    return run("anomalies", trail, "--html", page)


def main() -> None:
    """All four faults, then one fewer each time."""
    OUTPUT.mkdir(exist_ok=True)
    began = time.monotonic()
    faults = list(FAULTS)
    while True:
        named = ", ".join(faults) or "none"
        print(f"Faults of the stack: {named}", flush=True)
        print(sweep(faults), flush=True)
        if not faults:
            break
        print(f"Mended: {faults[0]}: {FAULTS[faults[0]]}.\n", flush=True)
        del faults[0]
    print(f"Pages: {OUTPUT}/anomaly-4.html to anomaly-0.html; {time.monotonic() - began:.0f} s in all.")


if __name__ == "__main__":
    main()
