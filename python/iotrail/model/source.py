"""What a model is fitted to: requests of a trail's disks or of its files, and what the programs took besides."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iotrail.errors import ModelError, TrailError, UsageError
from iotrail.trail import Trail
from iotrail.whatif.device import requests as requests_of_disks

# `of` of a model.
DISKS, FILES = "disks", "files"
_ORDER = "r.ts, r.trace_row, r.device, r.pos"


@dataclass(frozen=True)
class File:
    """A file that counts as a device, and its reads, writes and flushes."""

    path: str
    requests: int


@dataclass(frozen=True)
class Source:
    """Requests of disks, or of the `files` most used files if that is not none; of all machines, or of one."""

    node: str | None = None
    files: int | None = None

    @property
    def of(self) -> str:
        """As a model has it."""
        return DISKS if self.files is None else FILES

    def query(self, trail: Trail) -> str:
        """A query for requests in their order, with the columns of `iotrail.whatif.device.requests`.

        Raises:
            TrailError: there are none, or none with a known time and place.
        """
        if self.files is None:
            return self._of_disks(trail)
        [[count, instants, untimed]] = trail.query(
            "SELECT COUNT(*), COUNT(DISTINCT r.ts), COUNT(*) FILTER (WHERE u.node IS NOT NULL) "
            "FROM file_request AS r LEFT JOIN "
            "(SELECT DISTINCT node FROM recording WHERE name = 'time_unit' AND value = 'none') AS u ON u.node = r.node"
        ).fetchall()
        if not count:
            raise TrailError(
                f"{trail.path}: no reads or writes of files at a known offset",
                "iotrail record PROGRAM records them; without --files requests of disks are fitted",
            )
        hint = "a trace without times says nothing of how requests follow each other"
        if untimed:
            raise TrailError(f"{trail.path}: the trace has no times", hint)
        if instants == 1 and count > 1:
            raise TrailError(f"{trail.path}: all {count:,} requests have the same time", hint)
        return (
            "SELECT r.ts, r.dur, r.device, r.op, r.pos, r.length, CAST(0 AS BIGINT) AS flags "
            f"FROM file_request AS r {self._chosen()} ORDER BY {_ORDER}"
        )

    def _of_disks(self, trail: Trail) -> str:
        try:
            return requests_of_disks(trail, self.node)[0]
        except TrailError as error:
            if trail.query(f"SELECT 1 FROM file_request AS r {self._of_node()} LIMIT 1").fetchall():
                hint = "it has reads and writes of files by programs: iotrail model fit --files N fits those"
                raise TrailError(error.message, hint) from error
            raise

    def files_of(self, trail: Trail) -> list[File]:
        """The files by the numbers of their devices, the order of their first requests."""
        if self.files is None:
            return []
        numbered = f"SELECT r.device, r.path, ROW_NUMBER() OVER (ORDER BY {_ORDER}) AS number FROM file_request AS r {self._chosen()}"
        rows = trail.query(
            f"SELECT path, COUNT(*) AS n FROM ({numbered}) GROUP BY device, path ORDER BY MIN(number)"
        ).fetchall()
        return [File(path, n) for path, n in rows]

    def left_out(self, trail: Trail) -> int:
        """How many requests are not in the query: of disks those without a known place, of files those of others."""
        if self.files is None:
            return requests_of_disks(trail, self.node)[1]
        [[count]] = trail.query(f"SELECT COUNT(*) FROM file_request AS r {self._of_node()}").fetchall()
        return int(count) - sum(file.requests for file in self.files_of(trail))

    def _of_node(self) -> str:
        return "" if self.node is None else "WHERE r.node = '" + self.node.replace("'", "''") + "'"

    def _chosen(self) -> str:
        most_used = (
            f"SELECT r.device FROM file_request AS r {self._of_node()} "
            f"GROUP BY r.device ORDER BY COUNT(*) DESC, r.device LIMIT {self.files}"
        )
        return f"WHERE r.device IN ({most_used})"

    def load(self, trail: Trail) -> dict[str, int] | None:
        """`load` of a model: what is known of CPU time and network traffic from the first request to the end of the last; of several
        machines only what is known of all."""
        query = self.query(trail)
        [[first, last]] = trail.query(f"SELECT MIN(ts), MAX(ts + COALESCE(dur, 0)) FROM ({query})").fetchall()
        # of its own: the caller's later queries keep their parameters
        trail = Trail(trail.path, {"load_from_ns": first, "load_until_ns": last})
        where = "" if self.node is None else "WHERE node = $node"
        known = ", ".join(
            f"CASE WHEN COUNT(*) = COUNT({column}) THEN CAST(SUM({column}) AS BIGINT) END AS {name}"
            for name, column in (("cpu_ns", "cpu_ns"), ("sent_bytes", "sent"), ("received_bytes", "received"))
        )
        [row] = trail.rows_of(
            f"SELECT {known} FROM program_load {where}", {} if self.node is None else {"node": self.node}
        )
        return {name: amount for name, amount in row.items() if amount is not None} or None


# Requests of disks of all machines.
OF_DISKS = Source()


def source_of(model: dict[str, Any], node: str | None) -> Source:
    """What the requests of a model are to be compared with."""
    return Source(node, len(model["devices"]) if model["of"] == FILES else None)


def expect_disks(model: dict[str, Any], option: str) -> None:
    """Refuse a model of files where requests go to a simulated disk.

    Raises:
        UsageError: it is one.
    """
    if model["of"] == FILES:
        raise UsageError(
            f"{option}: expected a model of requests to disks, found one of requests to files",
            "a disk gets what the page cache leaves: fit a model to a trail of iotrail record --kernel, without --files",
        )


def expect_alike(models: Sequence[dict[str, Any]]) -> None:
    """Refuse models of disks together with models of files.

    Raises:
        ModelError: they are.
    """
    if len({model["of"] for model in models}) > 1:
        raise ModelError(
            "expected models of disks, or models of files, found both: "
            + ", ".join(model["of"] for model in models),
            "fit all of them with --files, or none",
        )
