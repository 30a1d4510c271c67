"""What a recorder adds to one cached 4 KiB pread, at the median and among the slowest."""

import json

from measure import ROUNDS, Spread, compile_c, console, interleave, keep, run, scratch, table
from recorders import recorders

THREADS = (1, 2)
CALLS = 300_000
FIGURES = ("p50", "p99", "p99.9", "p99.99")


def bench() -> None:
    """Measure and print."""
    present, absent = recorders()
    kept: dict[str, object] = {}
    with scratch() as folder:
        program = compile_c(folder, "call.c", "-pthread")
        usage = compile_c(folder, "usage.c")
        data = folder / "data"
        data.write_bytes(bytes(range(256)) * 16 * 1024)
        data.read_bytes()
        for threads in THREADS:
            seen = interleave(
                present,
                ROUNDS,
                lambda recorder, threads=threads: json.loads(
                    run(
                        [str(program), str(data), "4096", str(threads), str(int(CALLS * recorder.share))],
                        recorder,
                        usage,
                    ).output
                ),
            )
            plain = seen["unrecorded"]
            shape = table(
                f"A cached 4 KiB pread, {threads} thread{'s' * (threads > 1)}: nanoseconds (p99.99: µs), "
                f"median of {ROUNDS} rounds (least–most)",
                ["recorder", "p50", "added at p50", "p99", "p99.9", "p99.99", "times"],
            )
            for recorder in present:
                rounds = seen[recorder.name]
                figures = {f: Spread.of([r[f] for r in rounds]) for f in FIGURES}
                added = Spread.of([r["p50"] - p["p50"] for r, p in zip(rounds, plain, strict=True)])
                ratio = Spread.of([r["p99.99"] / p["p99.99"] for r, p in zip(rounds, plain, strict=True)])
                shape.add_row(
                    recorder.name,
                    figures["p50"].text(",.0f"),
                    "" if rounds is plain else added.text(",.0f"),
                    f"{figures['p99'].median:,.0f}",
                    f"{figures['p99.9'].median:,.0f}",
                    Spread.of([r["p99.99"] / 1000 for r in rounds]).text(",.1f"),
                    "" if rounds is plain else f"{ratio.median:.2f}",
                )
            console.print(shape)
            kept[f"threads_{threads}"] = seen
    for recorder in absent:
        console.print(f"[dim]{recorder.name} is left out: {recorder.missing}[/]")
    keep("call", calls=CALLS, rounds=kept)
