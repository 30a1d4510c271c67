"""Write docs/findings.md from the headers of sql/finding/*.sql; with --check only compare.

A test runs it with --check, so that the page can't fall behind the modules.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "python"))

from iotrail import modules  # noqa: E402  (the package may not be installed where this runs)

PAGE = ROOT / "docs" / "findings.md"

OPENING = """\
# Findings

<!-- Written by scripts/document_findings.py from sql/finding/*.sql: change those, then run it. -->

A finding is a named I/O problem that `iotrail summary` and `iotrail report` look for. Each is an SQL module; `iotrail sql X.trail
'SELECT * FROM finding_small_reads'` asks one alone, `--param min_ops=100` changes a threshold. A finding
says how bad it is (by the share of the *working time* it accounts for: what threads had less what they waited
for something that is not a file, see module `effort`), what it was found from, and what to do.

A row is about one program (all its processes) unless said otherwise. Reported is what costs 1 % of the working
time (`min_share`) or more; from 5 % on it is medium (`medium_share`), from 20 % on high (`high_share`).
Several findings may describe the same calls from different sides, so their costs don't add up.

`iotrail summary` and the report show *cards*: findings over the same calls are one, led by the one that names the cause
best, with where it is, what to do (for PostgreSQL, MariaDB, SQLite, Redis, RocksDB, Java, Python, Node.js, shells, nginx and
MPI programs in their own settings), and the time of the run that mending it saves. The gain is an estimate by the rules of
module `cause`; severity follows from it: high saves 20 % of the run and 0.4 s or more, medium 5 % and 0.1 s. Lost data and
exhausted descriptors come first, whatever they cost. `iotrail sql X.trail 'FROM diagnosis'` gives the cards,
`diagnosis_finding` what stands behind each. `make bench NAME=diagnosis` holds them to programs with known causes
([examples/diagnosis](../examples/diagnosis/README.md)).

Thresholds come from [Drishti](https://github.com/hpc-io/drishti-io) where it has one (its trigger's code is
named), else from the source the module names.
"""


def page() -> str:
    """The text of the page."""
    found = [module for name, module in modules.load().items() if name.startswith("finding_")]
    lines = [OPENING, f"## The {len(found)} findings\n", "| finding | what it is |", "|---|---|"]
    for module in found:
        name = module.name.removeprefix("finding_")
        sentence = re.split(r"(?<=\.)\s", " ".join(module.doc.split()), maxsplit=1)[0]
        lines.append(f"| [{name}](#{name}) | {sentence} |")
    for module in found:
        lines += ["", f"## {module.name.removeprefix('finding_')}", "", module.doc, ""]
        own = [
            param for param in module.params if param.name not in ("min_share", "medium_share", "high_share")
        ]
        if own:
            lines += ["| parameter | default | meaning |", "|---|---|---|"]
            lines += [
                f"| `{p.name}` | {p.default}{' ' + p.unit if p.unit else ''} | {p.meaning} |" for p in own
            ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write or check the page."""
    text = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            print(f"{PAGE} is not what its sources say: run scripts/document_findings.py", file=sys.stderr)
            return 1
        return 0
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
