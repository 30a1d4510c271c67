"""What the cluster's page costs in the browser: script time a frame, animated, with everything shown.

That is the CPU time of a frame's callbacks, as Chromium's trace has it: drawing in software on few cores leaves few frames
a second, and the clock on the wall counts what others do. With few frames those that bring new values weigh more.
Beside the peer, the same marks one by one as pixi.js draws them when each is an object of its own, which it did for
1,000 nodes of four parts in 0.9 ms a frame, and pies redrawn as shapes in 16 ms (measured for DESIGN.md).
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from measure import ROOT, console, keep, scratch, table

sys.path.insert(0, str(ROOT))
from tests.serve import cluster_trail

SIZES = (100, 1_000, 10_000)
SECONDS = 15
SAME_FRAME_US = 500
# The bounds on the 95th percentile, in ms.
MOST = {1_000: 4.0, 10_000: 12.0}


def percentile(values: list[float], share: float) -> float:
    """The value below which that share lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def frames(browser: Browser, page: Page, seconds: float) -> list[float]:
    """Script times, in ms, of the frames of so many seconds."""
    browser.start_tracing(page=page, categories=["devtools.timeline"])
    time.sleep(seconds)
    events = json.loads(browser.stop_tracing())["traceEvents"]
    calls = sorted(
        (event["ts"], event["dur"], event["tdur"], event["tid"])
        for event in events
        if event["name"] == "FireAnimationFrame" and "tdur" in event
    )
    found: list[float] = []
    end = 0
    for ts, dur, cpu, _ in calls:
        # callbacks of one frame follow each other at once
        if found and ts - end < SAME_FRAME_US:
            found[-1] += cpu / 1000
        else:
            found.append(cpu / 1000)
        end = ts + dur
    return found


def measure(browser: Browser, page: Page, members: int, folder: Path) -> dict[str, float]:
    """Serve a trail of so many members, and look at it."""
    trail = cluster_trail.write(folder / f"{members}.trail", members, 60)
    served = subprocess.Popen(
        [sys.executable, "-m", "iotrail", "serve", str(trail), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT / "python")},
    )
    try:
        assert served.stdout is not None
        address = served.stdout.readline().split()[-1]
        start = cluster_trail.START // 1_000_000 + 10_000
        page.goto(f"{address}#t={start}&by=member")
        page.wait_for_function(
            f"() => Number(document.querySelector('[data-moment]')?.dataset.moment) > {start}",
            timeout=120_000,
        )
        found = frames(browser, page, SECONDS)
        page.goto("about:blank")
    finally:
        served.terminate()
        served.wait()
    return {
        "frames": len(found),
        "p50_ms": percentile(found, 0.5),
        "p95_ms": percentile(found, 0.95),
        "most_ms": max(found),
    }


def bench() -> None:
    """Measure and print."""
    shape = table(
        f"Script time a frame of the cluster's page, unaggregated, all toggles on, over {SECONDS} s",
        ["nodes", "frames", "p50, ms", "p95, ms", "largest, ms", "bound on p95, ms"],
    )
    kept = {}
    with scratch() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium",
            args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"],
        )
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        for members in SIZES:
            row = kept[members] = measure(browser, page, members, folder)
            shape.add_row(
                f"{members:,}",
                f"{row['frames']:,.0f}",
                f"{row['p50_ms']:.2f}",
                f"{row['p95_ms']:.2f}",
                f"{row['most_ms']:.1f}",
                f"{MOST[members]:.0f}" if members in MOST else "",
            )
        browser.close()
    console.print(shape)
    keep("page", seconds=SECONDS, nodes={str(members): row for members, row in kept.items()})
