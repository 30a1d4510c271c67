"""Where DuckDB spills what doesn't fit into memory: a folder that nobody else can guess, and that is gone afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SPILLS = """
import json, os
from iotrail.trail import _open_duckdb
db = _open_duckdb()
(folder,) = db.execute("SELECT current_setting('temp_directory')").fetchone()
db.execute("SET memory_limit = '40MB'; SET threads = 1")
db.execute("CREATE TABLE t AS SELECT hash(range) AS n, range::VARCHAR || repeat('x', 40) AS text FROM range(1_500_000)")
home = os.path.dirname(folder)
about = os.lstat(home)
spilled = len(os.listdir(folder))
print(json.dumps({"home": home, "mode": about.st_mode & 0o7777, "uid": about.st_uid, "spilled": spilled}))
"""


def test_duckdb_spills_into_a_private_folder(tmp_path):
    """Not into one whose name another user can take first; and it is removed when the process ends."""
    (tmp_path / f"iotrail-duckdb-{os.getuid()}").symlink_to("/nowhere")
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    homes = set()
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", SPILLS], env=environment, capture_output=True, text=True, check=True
        )
        said = json.loads(done.stdout)
        assert Path(said["home"]).parent == tmp_path
        assert (said["mode"], said["uid"]) == (0o700, os.getuid())
        assert said["spilled"] > 0
        assert not Path(said["home"]).exists()
        homes.add(said["home"])
    assert len(homes) == 2
    assert [path.name for path in tmp_path.iterdir()] == [f"iotrail-duckdb-{os.getuid()}"]
