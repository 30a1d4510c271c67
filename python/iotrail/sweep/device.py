"""A block device as a target: handlers read streams of it, through the kernel's read-ahead and I/O scheduler.

The device is one of this machine, or an emulated one, which is served while the sweep runs. Each measurement is recorded: what
layers did is from the requests that the kernel saw.
"""

import contextlib
import errno
import json
import os
import select
import shlex
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iotrail import native
from iotrail.anomaly.space import Value
from iotrail.errors import SweepError, UsageError
from iotrail.expected import linux
from iotrail.sweep import filesystem, shell
from iotrail.sweep.shell import Running
from iotrail.sweep.spec import Control, Spec, Target
from iotrail.sweep.targets import Measured

if TYPE_CHECKING:
    import duckdb

# Dimensions of the reads, with the option of `iotrail-native streams` for each, and those of the kernel.
READS = {name: f"--{name}" for name in ("concurrency", "stream", "run", "think", "span", "read")}
IO = "io"
FILESYSTEM = "filesystem"
SYSTEM = ("tags", "scheduler", "readahead", FILESYSTEM)
DIMENSIONS = (*READS, IO, *SYSTEM)
BUFFERED, DIRECT = "buffered", "direct"
# Seconds until an emulated device is there, or gone.
_START_S = 60.0
# Requests in flight, as a multiple of those that the driver takes, above which it takes more. 5 of 4 were counted once, where
# nothing was wrong that is known of.
_TOLERATED = 1.5
# How a measurement is recorded; a trail and a command follow.
RECORD = ("record", "--kernel=disk", "--kernel-via=tracefs", "--no-calls", "-o")
# The least that a driver's requests can be set to (BLKDEV_MIN_RQ).
LEAST_TAGS = 4

_QUEUE = "/sys/block/{device}/queue"
_SCHEDULER = rf"sed 's/.*\[//; s/\].*//' {_QUEUE}/scheduler"
# How the kernel's settings are made. The driver's requests are only changed without a scheduler, and only by another number
# than the file has, which after a change of the scheduler has one that isn't in effect. With a scheduler the file has that one's
# number: what is put back then is the most that the driver takes.
_CONTROLS = {
    "scheduler": Control(f"echo {{value}} > {_QUEUE}/scheduler", _SCHEDULER),
    "readahead": Control(
        f"echo $(({{value}} / 1024)) > {_QUEUE}/read_ahead_kb",
        f"echo $(($(cat {_QUEUE}/read_ahead_kb) * 1024))",
    ),
    "tags": Control(
        f"was=$({_SCHEDULER}) && echo none > {_QUEUE}/scheduler && echo $(({{value}} + 1)) > {_QUEUE}/nr_requests 2> /dev/null "
        f"|| echo $(({{value}} - 1)) > {_QUEUE}/nr_requests; "
        f"echo {{value}} > {_QUEUE}/nr_requests && test $(cat {_QUEUE}/nr_requests) = {{value}} && echo $was > {_QUEUE}/scheduler",
        f"test $({_SCHEDULER}) = none && cat {_QUEUE}/nr_requests || cat /sys/block/{{device}}/mq/0/nr_tags",
        is_read_back=False,
    ),
}


@dataclass(frozen=True)
class Work:
    """What one measurement's requests were like: a row of module `disk_work`."""

    requests: int
    bytes: int
    asked_bytes: float
    request_bytes: float
    seek_bytes: float | None
    service_ns: float
    idle_ns: float
    cut_into: float
    most_in_flight: int | None
    # Time with a request at the device, over what the device file takes for the same requests.
    # None of an SSD: filling the simulated one would take longer than the measurement.
    service_ratio: float | None


def check(spec: Spec) -> None:
    """Refuses dimensions that no block device has, and values that it can't be set to."""
    for dimension in spec.dimensions:
        control = spec.controls[dimension.name]
        if dimension.name not in DIMENSIONS and control.set is None:
            raise UsageError(
                f"{spec.path}: {dimension.name}: nothing uses it",
                f"a device has {', '.join(DIMENSIONS)}; or set it by a command of its own (set = …)",
            )
        values = dimension.values
        if dimension.name == IO and not set(values) <= {BUFFERED, DIRECT}:
            raise UsageError(f"{spec.path}: io: expected {BUFFERED} or {DIRECT}, found {list(values)!r}")
        known = {filesystem.NONE, filesystem.EXT4}
        if dimension.name == FILESYSTEM and control.set is None and not set(values) <= known:
            expected = f"{filesystem.NONE} or {filesystem.EXT4}"
            raise UsageError(f"{spec.path}: {FILESYSTEM}: expected {expected}, found {list(values)!r}")
        if dimension.name == "tags" and min(map(float, values)) < LEAST_TAGS:
            raise UsageError(f"{spec.path}: tags: expected at least {LEAST_TAGS}, found {min(values)}")


def has_filesystem(spec: Spec) -> bool:
    """Whether a file system is to be made on the device, and read."""
    return any(
        one.name == FILESYSTEM and filesystem.EXT4 in one.values and spec.controls[one.name].set is None
        for one in spec.dimensions
    )


def controls(spec: Spec, path: Path, mounted: Path) -> dict[str, Control]:
    """How the settings of a device are made, of which a file system is `mounted` on a folder. A specification's own commands come
    first; they know the device by its name in /sys/block."""
    known = {**_CONTROLS, FILESYSTEM: filesystem.control(path, mounted)}
    made = {}
    # in this order: the driver's requests before the scheduler that has them
    for dimension in sorted(spec.dimensions, key=lambda one: one.name != "tags"):
        own = spec.controls[dimension.name]
        control = own if own.set is not None else known.get(dimension.name, own)
        made[dimension.name] = replace(
            control,
            set=control.set and shell.fill(control.set, {"device": path.name}),
            get=control.get and shell.fill(control.get, {"device": path.name}),
        )
    return made


def is_emulated(target: Target) -> bool:
    """Whether the device is described by a file, and not one of this machine."""
    return not (target.device or "").startswith("/dev/")


def model_of(spec: Spec) -> str:
    """The device file that says what is expected of the target, or the name of one that comes with iotrail; an emulated device's
    own, if the specification names no other.

    Raises `UsageError` if a device of this machine has none.
    """
    target = spec.target
    given = target.model or (target.device if is_emulated(target) else None)
    if given is None:
        raise UsageError(
            f"{spec.path}: target.model: expected a device file that describes {target.device}",
            f'iotrail device measure {target.device} -o disk.toml, then model = "disk.toml"',
        )
    return _beside(spec, given)


def _beside(spec: Spec, given: str) -> str:
    """A file beside the specification, or what was given if there is none."""
    beside = Path(spec.path).parent / given
    return str(beside) if beside.is_file() else given


@contextlib.contextmanager
def opened(spec: Spec, serving: Running, records: Path) -> Iterator[Path]:
    """The device while it is measured: an emulated one is served until the end, in a folder below `records`; `serving` makes a context
    for the process that does.

    Raises:
        SweepError: it can't be served.
    """
    if not is_emulated(spec.target):
        yield Path(spec.target.device or "")
        return
    with tempfile.TemporaryDirectory(prefix="emulated-", dir=records) as folder:
        served = _beside(spec, spec.target.device or "")
        command: list[str | Path] = [native.binary(), "emudisk", served, folder, "--loop", "--json"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        assert process.stdout is not None
        with serving(process.pid):
            try:
                said = (
                    process.stdout.readline() if select.select([process.stdout], [], [], _START_S)[0] else ""
                )
                if not said:
                    shell.end(process)
                    assert process.stderr is not None
                    raise SweepError(f"cannot emulate {served}: {process.stderr.read().strip()}")
                yield Path(json.loads(said)["target"])
            finally:
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.communicate(timeout=_START_S)
                shell.end(process)


def check_ready(spec: Spec) -> None:
    """Refuses a device that can't be measured now.

    Raises:
        SweepError: it is in use, no whole device, or holds data that a file system would replace; not root.
    """
    target = spec.target
    if os.geteuid() != 0:
        raise SweepError("a device's settings need root", "run it as root, for instance with sudo")
    if is_emulated(target):
        return
    path = Path(target.device or "")
    try:
        is_device = stat.S_ISBLK(path.stat().st_mode)
        # refused by the kernel where somebody has mounted it, or a part of it
        os.close(os.open(path, os.O_RDONLY | os.O_EXCL))
    except OSError as error:
        why = "mounted or in use" if error.errno == errno.EBUSY else error.strerror
        raise SweepError(f"{path}: {why}", "only a device that nobody uses is measured") from error
    if not is_device or not Path("/sys/block", path.resolve().name, "queue").is_dir():
        raise SweepError(f"{path}: expected a whole block device", "a partition has no settings of its own")
    if has_filesystem(spec):
        filesystem.check(path)


@dataclass(frozen=True)
class Reading:
    """Measures settings of a device that is open."""

    spec: Spec
    path: Path
    running: Running
    # Where the file system is mounted.
    mounted: Path
    # What is expected of the device.
    model: str
    # Where recordings are kept, one for each measurement, by its time; and the clock of trails.
    records: Path
    offset: int

    @cached_property
    def _work_sql(self) -> str:
        from iotrail import modules

        return modules.load()["disk_work"].sql

    @cached_property
    def _values(self) -> dict[str, Any]:
        return linux.device_values(self.model)

    @property
    def _is_quick(self) -> bool:
        return linux.is_quick(self._values)

    def __call__(self, setting: Mapping[str, Value], seed: int) -> Measured:
        """The throughput in bytes/s, and what layers showed.

        Raises:
            SweepError: more requests were in flight than the setting permits: the kernel didn't take it.
        """
        target = self.spec.target
        is_file = has_filesystem(self.spec) and setting[FILESYSTEM] == filesystem.EXT4
        read_from = self.mounted / filesystem.FILE if is_file else self.path
        words = [
            f"--seconds={target.seconds}",
            f"--warm-up={target.seconds * linux.WARM_UP}",
            f"--seed={seed}",
        ]
        words += [f"{option}={setting[name]}" for name, option in READS.items() if name in setting]
        if setting.get(IO) == DIRECT:
            words.append("--direct")
        with tempfile.TemporaryDirectory(dir=self.records) as folder:
            trail = Path(folder) / "m.trail"
            command = [native.binary(), *RECORD, trail, "--", native.binary(), "streams", read_from, *words]
            said = shell.run(shlex.join(map(str, command)), target.timeout_s, self.running)
            if said.status != 0:
                return Measured(None, said.why(target.timeout_s))
            read = json.loads(said.out)
            work = self._work(trail, read)
        if work is None:
            return Measured(None, "the kernel saw no request of it")
        tags = setting.get("tags")
        if tags is not None and (work.most_in_flight or 0) > _TOLERATED * int(tags):
            raise SweepError(
                f"tags: set to {tags}, but {work.most_in_flight} requests were in flight at a time",
                "the driver takes more requests than it was told",
            )
        layers = {
            ("readahead", "request_bytes"): work.asked_bytes,
            ("readahead", "useful_share"): read["read_bytes"] / work.bytes,
            ("scheduler", "request_bytes"): work.request_bytes,
            ("scheduler", "cut_into"): work.cut_into,
            ("device", "service_ns"): work.service_ns,
            ("device", "idle_ns"): work.idle_ns,
        }
        if work.most_in_flight is not None:
            layers["device", "most_in_flight"] = float(work.most_in_flight)
        throughput = read["read_bytes"] / read["measured_ns"] * 1e9
        if work.service_ratio is not None:
            layers["device", "service_ratio"] = work.service_ratio
        if throughput > 0 and self._is_quick and all(name in setting for name in linux.NEEDED):
            asked = linux.expect_asked(setting, self.model, target.seconds, throughput)
            if asked is not None:
                layers["readahead", "asked_ratio"] = work.asked_bytes / asked
        if work.seek_bytes is not None:
            layers["scheduler", "seek_distance"] = work.seek_bytes / _size(self.path)
        if read["cached_share"] is not None:
            layers["readahead", "cached_share"] = read["cached_share"]
        return Measured(throughput, layers=layers)

    def _work(self, trail: Path, read: Mapping[str, Any]) -> Work | None:
        """What the kernel saw of the reads while they were measured; the recording's rows of it are kept."""
        import duckdb

        files = sorted((trail / "data" / "disk_op").glob("*.parquet"))
        if not files:
            return None
        begin = read["since_ns"] + self.offset
        end = begin + read["measured_ns"]
        with duckdb.connect() as db:
            names = ", ".join(_quoted(str(file)) for file in files)
            db.execute(
                f"CREATE VIEW recorded AS SELECT * FROM read_parquet([{names}]) WHERE dev = {_quoted(self.path.name)}"
            )
            # What was done meanwhile: of what was under way at the begin the part from then on.
            db.execute(f"CREATE VIEW done AS FROM recorded WHERE ts + dur BETWEEN {begin} AND {end}")
            db.execute(
                f"CREATE VIEW disk_op AS SELECT * REPLACE (greatest(issued, {begin}) AS issued) FROM done"
            )
            kept = self.records / f"{begin}.parquet"
            db.execute(f"COPY (SELECT * FROM recorded ORDER BY ts) TO {_quoted(str(kept))} (FORMAT parquet)")
            rows = db.execute(self._work_sql).fetchall()
            if not rows:
                return None
            [row] = rows
            requests, service_ns = row[2], row[7]
            ratio = requests * service_ns / self._modelled_ns(db, begin) if self._is_quick else None
            return Work(*(*row[2:], ratio))

    def _modelled_ns(self, db: "duckdb.DuckDBPyConnection", begin: int) -> float:
        """How long the device file's device is busy with the same requests, each as long after the completion before it, in ns."""
        from iotrail.whatif import simulator

        is_serial = linux.queue_depth(self._values) == 1
        rows = db.sql(_ISSUED.format(is_serial=is_serial, begin=begin)).to_arrow_reader()
        # --fold: a device file needn't have all of a device's bytes
        found = simulator.ask_of(rows, ["simulate", "device", "--fold", "--on", self.model])
        outcome = found["simulated"][0]["arrivals_after_completions"]
        return float(outcome["utilisation"] * outcome["elapsed_ns"])


# Requests of a view `done` as the device got them, as `simulate device` takes them: those that joined one are a part of it, and
# one that was cut is several of the same length. A device that works on one at a time took them in the order in which they were
# done, which needn't be that in which they were issued.
_ISSUED = """
    WITH request AS (
        SELECT issued, max(ts + dur) AS ended, min(pos) AS pos, CAST(sum(length) AS BIGINT) AS length,
            CAST(greatest(sum(coalesce(requests, 1 - merged)), 1) AS BIGINT) AS parts
        FROM done WHERE kind = 'kernel' AND length > 0 AND issued IS NOT NULL GROUP BY issued
    ), served AS (
        SELECT * REPLACE (
            greatest(issued, {begin}, CASE WHEN {is_serial} THEN lag(ended) OVER (ORDER BY ended, issued) END) AS issued
        ) FROM request
    ), part AS (
        SELECT *, CAST(ceil(length / (parts * 512)) * 512 AS BIGINT) AS most, unnest(range(parts)) AS number FROM served
    )
    SELECT issued AS ts, CAST(ended - issued AS BIGINT) AS dur, CAST(0 AS BIGINT) AS device, CAST(0 AS BIGINT) AS op,
        pos + number * most AS pos, least(most, length - number * most) AS length, CAST(0 AS BIGINT) AS flags
    FROM part WHERE number * most < length ORDER BY issued, pos
"""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _size(path: Path) -> int:
    with path.open("rb") as file:
        return file.seek(0, os.SEEK_END)
