"""Make a trail as the agents of a Ceph cluster would leave it: for tests of the page and its benchmark.

Clients, MDSs, OSDs, monitors and their machines, in hosts and racks, each sampled once a second. Everything is
drawn from hashes of names and seconds, so that a trail of the same size is the same each time. Its story, in shares
of its length: from 0.3 on a client that joins then writes much to the OSDs of one machine, which get hot, and the
first of them slow; at 0.6 an OSD fails, at 0.75 it is back; from 0.5 to 0.65 a crowd opens files at one MDS.

    python -m tests.serve.cluster_trail 1000 120 out.trail
"""

import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa

from iotrail import native
from tests.report.database_trail import streams

START = 1_760_000_000_000_000_000
SECOND = 1_000_000_000

_HELPERS = """
CREATE MACRO u(a, b, c) AS (hash(a || ':' || b || ':' || c) % 1048573) / 1048573.0;
-- slow noise between 0 and 1: two draws, 10 s apart, and the way between them
CREATE MACRO wave(who, salt, t) AS
    u(who, salt, t // 10) * (1 - t % 10 / 10.0) + u(who, salt, t // 10 + 1) * (t % 10 / 10.0);
"""


def composition(members: int) -> dict[str, int]:
    """How many of each role make a cluster of so many members, machines included."""
    if members < 8:
        return {"client": 1, "mds": 1, "osd": max(1, members - 2), "mon": 0, "host": 0}
    mds = max(1, min(16, members // 60 + 2))
    mon = 1 if members < 20 else 3
    host = max(2, members // 14)
    osd = (members - mds - mon - host) * 3 // 5
    return {"client": members - mds - mon - host - osd, "mds": mds, "osd": osd, "mon": mon, "host": host}


def tables(members: int = 30, seconds: int = 120) -> dict[str, pa.Table]:
    """The tables of a trail of a cluster of so many members, over so many seconds."""
    counts = composition(members)
    db = duckdb.connect(config={"memory_limit": "4GB"})
    db.execute(_HELPERS)
    hosts = max(1, counts["host"])
    values = ", ".join(f"('{role}', {n})" for role, n in counts.items())
    db.execute(f"""
        CREATE TABLE unit AS
        SELECT role, i,
            CASE role WHEN 'host' THEN 'node' || lpad((i + 1)::VARCHAR, 2, '0')
                WHEN 'client' THEN 'client.' || (4100 + i) WHEN 'mon' THEN 'mon.' || chr(CAST(97 + i AS INTEGER))
                WHEN 'mds' THEN 'mds.m' || (i + 1) ELSE role || '.' || i END AS member,
            CASE role WHEN 'client' THEN 'compute' || (i // 40) ELSE 'r' || (h // 10 + 1) END AS rack,
            CASE role WHEN 'client' THEN 'c' || lpad((i // 8 + 1)::VARCHAR, 2, '0')
                ELSE 'node' || lpad((h + 1)::VARCHAR, 2, '0') END AS host, h
        FROM (
            SELECT role, CAST(i AS BIGINT) AS i,
                -- OSDs stand together, ten or so a machine; the others are spread
                CASE WHEN role = 'osd' THEN CAST(i * {hosts} // greatest({counts["osd"]}, 1) AS BIGINT)
                    ELSE i % {hosts} END AS h
            FROM (VALUES {values}) AS c(role, n), range(c.n) AS r(i)
        )""")
    joins, fails, back = 3 * seconds // 10, 6 * seconds // 10, 75 * seconds // 100
    failing, late = counts["osd"] - 1, counts["client"] - 1
    member = db.sql(f"""
        SELECT {START} + CASE WHEN role = 'client' AND i = {late} AND {members} >= 8 THEN {joins} ELSE 0 END * {SECOND}::BIGINT AS ts,
            'boot-' || host AS node, member, role, rack || '/' || host AS place,
            CASE WHEN role = 'mds' AND {counts["mds"]} > 1 AND i = {counts["mds"] - 1} THEN 'standby' ELSE 'up' END AS state,
            CAST(NULL AS VARCHAR) AS detail
        FROM unit
        UNION ALL
        SELECT {START} + c.late_s * {SECOND}::BIGINT, 'boot-' || host, member, role, rack || '/' || host, c.state, c.detail
        FROM unit, (VALUES ({fails - 2}, 'down', 'doesn''t answer since 2 s'), ({fails}, 'failed', 'no heartbeat: marked down by the monitors'),
            ({back}, 'up', NULL)) AS c(late_s, state, detail)
        WHERE role = 'osd' AND i = {failing} AND {counts["osd"]} > 1
        ORDER BY ts, role, member
    """).to_arrow_table()
    # What each member does in a second, from which its metrics follow: `w` is how busy it is, 0 to 1.
    db.execute(f"""
        CREATE TABLE doing AS
        SELECT *,
            CASE WHEN hot THEN 0.85 + 0.14 * wave(member, 'h', t)
                ELSE 0.08 + 0.45 * wave(member, 'w', t) * (0.4 + u(member, 'base', '')) END AS w
        FROM (
            SELECT *, t >= {joins} AND (
                    (role = 'osd' AND host = first_host) OR (role = 'host' AND member = first_host)
                    OR (role = 'client' AND i = {late}))
                OR (role = 'mds' AND i = 0 AND t BETWEEN {seconds // 2} AND {65 * seconds // 100}) AS hot
            FROM unit, range({seconds}) AS s(t), (SELECT min(host) FILTER (WHERE role = 'osd') AS first_host FROM unit)
            WHERE NOT (role = 'osd' AND i = {failing} AND {counts["osd"]} > 1 AND t >= {fails} - 2 AND t < {back})
                AND NOT (role = 'client' AND i = {late} AND {members} >= 8 AND t < {joins})
                AND NOT (role = 'mds' AND {counts["mds"]} > 1 AND i = {counts["mds"] - 1})
        )""")
    sizes = ", ".join(f"({least}, {least / 4096.0})" for least in (512, 4096, 16384, 65536, 262144, 1048576))
    sample = db.sql(f"""
        WITH rate AS (
            SELECT *, CASE role WHEN 'osd' THEN 900 WHEN 'mds' THEN 2500 ELSE 400 END * w AS ops,
                -- response time grows as a queue does
                CASE role WHEN 'osd' THEN 900e3 WHEN 'mds' THEN 250e3 ELSE 1800e3 END
                    / greatest(0.04, 1.02 - w) * CASE WHEN hot AND i = 0 THEN 4 ELSE 1 END AS rt,
                CASE WHEN hot AND role <> 'mds' THEN 300e3 ELSE 30e3 END AS size
            FROM doing
        ),
        metric AS (
            SELECT member, host, t, unnest([
                {{'m': 'daemon_cpu', 'n': NULL, 'l': NULL, 'v': w * 0.95e9, 'level': false}},
                {{'m': 'daemon_memory', 'n': NULL, 'l': NULL, 'v': 4e8 + 2e9 * u(member, 'mem', ''), 'level': true}},
                {{'m': 'message_in', 'n': NULL, 'l': NULL, 'v': ops * CASE role WHEN 'client' THEN 0.6 WHEN 'mds' THEN 0.02 ELSE 0.8 END * size, 'level': false}},
                {{'m': 'message_out', 'n': NULL, 'l': NULL, 'v': ops * CASE role WHEN 'client' THEN 0.5 WHEN 'mds' THEN 0.05 ELSE 0.7 END * size, 'level': false}},
                {{'m': 'op_active', 'n': NULL, 'l': NULL, 'v': round(ops * rt / 1e9), 'level': true}}
            ], recursive := true) FROM rate WHERE role <> 'host'
            UNION ALL
            SELECT member, host, t, unnest([
                {{'m': 'op', 'n': 'read', 'l': NULL, 'v': ops * 0.45, 'level': false}},
                {{'m': 'op', 'n': 'write', 'l': NULL, 'v': ops * 0.55, 'level': false}},
                {{'m': 'op_time', 'n': 'read', 'l': NULL, 'v': ops * 0.45 * rt * 0.6, 'level': false}},
                {{'m': 'op_time', 'n': 'write', 'l': NULL, 'v': ops * 0.55 * rt * 1.3, 'level': false}},
                {{'m': 'op_bytes', 'n': 'read', 'l': NULL, 'v': ops * 0.45 * size, 'level': false}},
                {{'m': 'op_bytes', 'n': 'write', 'l': NULL, 'v': ops * 0.55 * size, 'level': false}}
            ], recursive := true) FROM rate WHERE role IN ('osd', 'client')
            UNION ALL
            SELECT member, host, t, unnest([
                {{'m': 'replica_in', 'n': NULL, 'l': NULL, 'v': ops * 0.5 * size, 'level': false}},
                {{'m': 'replica_out', 'n': NULL, 'l': NULL, 'v': ops * 0.55 * size * 2, 'level': false}},
                {{'m': 'replica_op', 'n': NULL, 'l': NULL, 'v': ops, 'level': false}},
                {{'m': 'replica_time', 'n': NULL, 'l': NULL, 'v': ops * rt * 0.8, 'level': false}},
                {{'m': 'write', 'n': 'small', 'l': NULL, 'v': ops * 0.2, 'level': false}},
                {{'m': 'write', 'n': 'large', 'l': NULL, 'v': ops * 0.35, 'level': false}},
                {{'m': 'write_time', 'n': 'small', 'l': NULL, 'v': ops * 0.2 * rt * 0.7, 'level': false}},
                {{'m': 'write_time', 'n': 'large', 'l': NULL, 'v': ops * 0.35 * rt * 1.6, 'level': false}},
                {{'m': 'disk_busy', 'n': NULL, 'l': NULL, 'v': least(1, w * 1.04) * 1e9, 'level': false}},
                {{'m': 'space_size', 'n': NULL, 'l': NULL, 'v': 4e12, 'level': true}},
                {{'m': 'space_used', 'n': NULL, 'l': NULL, 'v': 4e12 * (0.35 + 0.55 * u(member, 'space', '') + t * 1e-4), 'level': true}}
            ], recursive := true) FROM rate WHERE role = 'osd'
            UNION ALL
            SELECT member, host, t, 'io_size', k.kind, z.least,
                ops * k.share * exp(-pow(ln(size / 4096) - ln(z.pages), 2) / 3) / 2.2, false
            FROM rate, (VALUES {sizes}) AS z(least, pages), (VALUES ('read', 0.45), ('write', 0.55)) AS k(kind, share)
            WHERE role = 'osd'
            UNION ALL
            SELECT member, host, t, 'op', o.op, NULL, ops * o.share * (0.5 + wave(member, o.op, t)) * CASE WHEN hot AND o.op = 'open' THEN 6 ELSE 1 END, false
            FROM rate, (VALUES ('open', 0.3), ('lookup', 0.25), ('getattr', 0.2), ('readdir', 0.1), ('create', 0.1), ('unlink', 0.05)) AS o(op, share)
            WHERE role = 'mds'
            UNION ALL
            SELECT member, host, t, 'op_time', o.op, NULL, ops * o.share * rt, false
            FROM rate, (VALUES ('open', 0.5), ('lookup', 0.2), ('create', 0.3)) AS o(op, share) WHERE role = 'mds'
            UNION ALL
            SELECT member, host, t, unnest([
                {{'m': 'journal_flush', 'n': NULL, 'l': NULL, 'v': ops * 0.12, 'level': false}},
                {{'m': 'journal_time', 'n': NULL, 'l': NULL, 'v': ops * 0.12 * rt * 9, 'level': false}},
                {{'m': 'export', 'n': 'out', 'l': NULL, 'v': CASE WHEN hot AND t % 4 = 0 THEN 2 ELSE 0 END, 'level': false}},
                {{'m': 'forward', 'n': NULL, 'l': NULL, 'v': ops * 0.02, 'level': false}},
                {{'m': 'inodes', 'n': NULL, 'l': NULL, 'v': 2e4 + 9e4 * w, 'level': true}},
                {{'m': 'sessions', 'n': NULL, 'l': NULL, 'v': {counts["client"]}, 'level': true}}
            ], recursive := true) FROM rate WHERE role = 'mds'
            UNION ALL
            SELECT member, host, t, unnest([
                {{'m': 'cache_hit', 'n': NULL, 'l': NULL, 'v': ops * (1.5 + u(member, 'hit', '')), 'level': false}},
                {{'m': 'cache_miss', 'n': NULL, 'l': NULL, 'v': ops * 0.45, 'level': false}},
                {{'m': 'cache_dirty', 'n': NULL, 'l': NULL, 'v': w * 6e7, 'level': true}}
            ], recursive := true) FROM rate WHERE role = 'client'
            UNION ALL
            SELECT member, host, t, unnest([
                {{'m': 'cpus', 'n': NULL, 'l': NULL, 'v': 16, 'level': true}},
                {{'m': 'load', 'n': NULL, 'l': NULL, 'v': 16 * w, 'level': true}},
                {{'m': 'cpu', 'n': 'user', 'l': NULL, 'v': 16e9 * w * 0.7, 'level': false}},
                {{'m': 'cpu', 'n': 'system', 'l': NULL, 'v': 16e9 * w * 0.25, 'level': false}},
                {{'m': 'cpu', 'n': 'iowait', 'l': NULL, 'v': 16e9 * w * 0.04, 'level': false}},
                {{'m': 'memory_size', 'n': NULL, 'l': NULL, 'v': 137e9, 'level': true}},
                {{'m': 'memory_used', 'n': NULL, 'l': NULL, 'v': 137e9 * (0.3 + w / 2), 'level': true}},
                {{'m': 'network_in', 'n': 'eth0', 'l': NULL, 'v': w * 900e6, 'level': false}},
                {{'m': 'network_out', 'n': 'eth0', 'l': NULL, 'v': w * 700e6, 'level': false}}
            ], recursive := true) FROM rate WHERE role = 'host'
        )
        SELECT
            -- a sum's stretch begins a second before the moment of a level
            {START} + CAST(t + CASE WHEN level THEN 1 ELSE 0 END AS BIGINT) * {SECOND}::BIGINT AS ts,
            CAST(CASE WHEN level THEN 0 ELSE {SECOND} END AS BIGINT) AS dur,
            'boot-' || host AS node, member, m AS metric, CAST(n AS VARCHAR) AS name, CAST(l AS BIGINT) AS least,
            CAST(v AS DOUBLE) AS value
        FROM metric
        ORDER BY ts
    """).to_arrow_table()
    return {"member": member, "node_sample": sample}


def write(trail: Path, members: int = 30, seconds: int = 120) -> Path:
    """Write such a trail with the one trail writer."""
    arguments = streams(tables(members, seconds), trail.parent / f"{trail.stem}-streams")
    subprocess.run([native.binary(), "ingest", "-o", trail, "--force", *arguments], check=True)
    return trail


if __name__ == "__main__":
    write(Path(sys.argv[3]), int(sys.argv[1]), int(sys.argv[2]))
