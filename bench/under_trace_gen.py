"""Generates traces of pages with 2DIO's trace_gen, in whose virtual environment it runs: `under_trace_gen.py PAGES SEED SHARES FOLDER`.

PAGES is an .npy file of a trace's pages as numbers from 0 on, SHARES a JSON array of shares of independent references. For each trace
it writes an .npy file into FOLDER and prints a line of JSON: how it was generated, its file, the seconds to fit and to generate.
"""

import json
import random
import sys
import time

import numpy as np
import trace_gen


def main() -> None:
    """Fit once, then generate in each way."""
    pages, seed, folder = np.load(sys.argv[1]), int(sys.argv[2]), sys.argv[4]
    began = time.monotonic()
    fitted = trace_gen.TraceReconstructor(pages)
    _, distances, once = fitted.dump_param()
    took = time.monotonic() - began
    generator = trace_gen.TraceGenerator(fitted.M, len(pages))

    def by_parameters(share: float, new: float) -> np.ndarray:
        generator.set_p_single(new)
        return generator.gen_from_pdf(distances, share)

    ways = {"all distances": lambda: fitted.gen_from_ird(len(pages))}
    ways[f"its own share, {once:.3f}"] = lambda: by_parameters(once, 0.0)
    for share in json.loads(sys.argv[3]):
        ways[f"share {share:g}"] = lambda share=share: by_parameters(share, once)
    for number, (name, generate) in enumerate(ways.items()):
        random.seed(seed)
        np.random.seed(seed)
        began = time.monotonic()
        path = f"{folder}/{number}.npy"
        np.save(path, generate())
        print(json.dumps([name, path, took + time.monotonic() - began]), flush=True)


if __name__ == "__main__":
    main()
