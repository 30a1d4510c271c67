#!/usr/bin/env python3
"""A Ceph cluster on one machine, of plain processes: for the demo, the case studies and the tests.

    cluster.py up DIR [--osds 3] [--mdss 3] [--active 3] [--store memstore|bluestore] [--net 127.0.9]
    cluster.py down DIR

Each daemon has a loopback address of its own and stands on a host of its own in the CRUSH map, so that one machine
looks like a cluster: OSDs at NET.1 and on, MDSs from NET.101, the monitor at NET.201, the manager at NET.202. There is
no authentication, so the addresses must be loopback. With bluestore each OSD has a loop device, and so a disk of its
own in /proc/diskstats (root only). Daemons and file system follow the manual deployment of docs.ceph.com (Pacific).
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

DAEMONS = ("ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds")
CLIENTS = ("ceph", "rados", "ceph-fuse", "monmaptool")
PATIENCE = 90
POOL = "bench"

# An OSD in memory that ends fast forgets its objects; one of this size need not spare its disks when it recovers.
CONFIGURATION = """\
[global]
fsid = {fsid}
mon_host = [v2:{net}.201:3300,v1:{net}.201:6789]
mon_initial_members = a
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
auth_allow_insecure_global_id_reclaim = false
run_dir = {folder}/run
admin_socket = {folder}/run/$name.asok
log_file = {folder}/log/$name.log
pid_file = {folder}/run/$name.pid
crash_dir = {folder}/crash
osd_pool_default_size = {replicas}
osd_pool_default_min_size = 1
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_allow_pool_delete = true
mon_warn_on_pool_no_redundancy = false
mon_data_avail_warn = 2
mon_data_avail_crit = 1
mon_max_pg_per_osd = 1000
mgr_stats_period = 1
[mon]
mon_data = {folder}/mon/$id
public_addr = {net}.201
[mgr]
mgr_data = {folder}/mgr/$id
public_addr = {net}.202
[osd]
osd_data = {folder}/osd/$id
osd_objectstore = {store}
osd_memory_target = 939524096
osd_fast_shutdown = false
osd_recovery_sleep_hdd = 0
bluestore_block_size = {size}
memstore_device_bytes = {size}
{sections}
[client]
log_file = {folder}/log/$name.$pid.log
admin_socket = {folder}/run/$name.$pid.asok
"""


class ClusterError(Exception):
    """The cluster did not come up; the message says what was waited for and where the logs are."""


class Cluster:
    """A cluster in a folder. As a context it is up inside, and gone with all its files after."""

    def __init__(
        self,
        folder: Path,
        *,
        osds: int = 3,
        mdss: int = 1,
        active: int = 1,
        store: str = "memstore",
        replicas: int = 3,
        net: str = "127.0.9",
        gigabytes: int = 4,
    ) -> None:
        """Describe the cluster; nothing is started yet."""
        self.folder = folder.resolve()
        self.osds, self.mdss, self.active = osds, mdss, active
        self.store, self.replicas, self.net = store, replicas, net
        self.bytes = gigabytes << 30
        self.conf = self.folder / "ceph.conf"
        self.sockets = self.folder / "run"

    def __enter__(self) -> "Cluster":
        """Start it."""
        self._check()
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self.down()

    @property
    def environment(self) -> dict[str, str]:
        """For programs that use it."""
        return {**os.environ, "CEPH_CONF": str(self.conf)}

    def ceph(self, *words: str) -> str:
        """Run the `ceph` command, once more if it isn't answered, as was seen once."""
        command = ["ceph", "-c", str(self.conf), "--connect-timeout", "10", *words]
        for last in (False, True):
            with contextlib.suppress(subprocess.TimeoutExpired):
                done = subprocess.run(
                    command,
                    check=False,
                    capture_output=True,
                    text=True,
                    env=self.environment,
                    timeout=PATIENCE / 3,
                )
                break
            if last:
                raise ClusterError(
                    f"`ceph {' '.join(words)}` isn't answered; the logs are in {self.folder}/log"
                )
        if done.returncode != 0:
            raise ClusterError(f"`ceph {' '.join(words)}` failed: {done.stderr.strip()}")
        return done.stdout

    def up(self) -> None:
        """Start all daemons, make a pool and a file system, and wait until all is clean."""
        self._check()
        for name in ("run", "log", "crash", "mon", "mgr/x", "osd", "mds"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self._configure()
        self._monitor()
        self.start("mgr.x")
        for number in range(self.osds):
            self._make_osd(number)
            self.start(f"osd.{number}")
        for number in range(self.mdss):
            (self.folder / "mds" / f"m{number}").mkdir()
            self.start(f"mds.m{number}")
        self.ceph("osd", "pool", "create", POOL, "32")
        self.ceph("osd", "pool", "application", "enable", POOL, "rados")
        if self.mdss:
            self.ceph("osd", "pool", "create", "metadata", "16")
            self.ceph("osd", "pool", "create", "data", "32")
            self.ceph("fs", "new", "files", "metadata", "data")
            self.ceph("fs", "set", "files", "standby_count_wanted", "0")
            self.ceph("fs", "set", "files", "max_mds", str(self.active))
        self.wait_healthy()

    def _check(self) -> None:
        missing = [name for name in (*DAEMONS, *CLIENTS) if shutil.which(name) is None]
        if missing:
            raise ClusterError(f"not installed: {', '.join(missing)}; see the packages of `make demo-ceph`")
        # A Unix socket's path has room for 107 bytes (unix(7)).
        if len(str(self.sockets / "client.admin.1234567.asok")) > 107:
            raise ClusterError(f"{self.folder}: too long a path for sockets; take a shorter one")
        if (self.folder / "pids").exists():
            raise ClusterError(f"{self.folder}: a cluster is there already; end it with `down`")

    def wait_healthy(self) -> None:
        """Wait until all placement groups are clean and all MDSs active."""
        self._wait("health", self._healthy)

    def _configure(self) -> None:
        sections = [
            f"[osd.{number}]\npublic_addr = {self.net}.{number + 1}\ncluster_addr = {self.net}.{number + 1}\n"
            f"crush_location = root=default rack=rack{number // 2 + 1} host=node{number + 1}"
            for number in range(self.osds)
        ]
        sections += [
            f"[mds.m{number}]\npublic_addr = {self.net}.{number + 101}" for number in range(self.mdss)
        ]
        self.conf.write_text(
            CONFIGURATION.format(
                fsid=uuid.uuid4(),
                net=self.net,
                folder=self.folder,
                replicas=min(self.replicas, self.osds),
                store=self.store,
                size=self.bytes,
                sections="\n".join(sections),
            )
        )

    def _monitor(self) -> None:
        fsid = self.conf.read_text().split("fsid = ")[1].split()[0]
        addresses = f"[v2:{self.net}.201:3300,v1:{self.net}.201:6789]"
        monmap = self.folder / "monmap"
        self._run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", addresses, str(monmap))
        self._run("ceph-mon", "-c", str(self.conf), "-i", "a", "--mkfs", "--monmap", str(monmap))
        self.start("mon.a")
        self._wait("the monitor", lambda: bool(self.ceph("-s")))

    def _make_osd(self, number: int) -> None:
        data = self.folder / "osd" / str(number)
        data.mkdir()
        if self.store == "bluestore":
            image = self.folder / "osd" / f"disk{number}"
            with image.open("wb") as file:
                file.truncate(self.bytes)
            device = self._run("losetup", "--show", "--find", str(image)).strip()
            with (self.folder / "loops").open("a") as file:
                file.write(f"{device}\n")
            (data / "block").symlink_to(device)
        identity = str(uuid.uuid4())
        self.ceph("osd", "new", identity, str(number))
        self._run("ceph-osd", "-c", str(self.conf), "-i", str(number), "--mkfs", "--osd-uuid", identity)

    def start(self, name: str) -> int:
        """Start a daemon (osd.0, mds.m1, …); returns its pid."""
        kind, identity = name.split(".", 1)
        with (self.folder / "log" / f"{name}.out").open("ab") as out:
            daemon = subprocess.Popen(
                [f"ceph-{kind}", "-c", str(self.conf), "-i", identity, "-f"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                # Not ended by the terminal's Ctrl-C before those who watch it.
                start_new_session=True,
            )
        self._started(daemon.pid, name)
        return daemon.pid

    def _started(self, pid: int, name: str) -> None:
        with (self.folder / "pids").open("a") as file:
            file.write(f"{pid} {name}\n")

    def pid(self, name: str) -> int:
        """The pid of a daemon, as it was last started."""
        return next(pid for pid, started in reversed(list(self._pids())) if started == name)

    def stop(self, name: str, how: signal.Signals = signal.SIGTERM) -> None:
        """End a daemon and wait until it has."""
        pid = self.pid(name)
        _end([pid], self.conf, how)

    def _pids(self) -> Iterator[tuple[int, str]]:
        with contextlib.suppress(FileNotFoundError):
            for line in (self.folder / "pids").read_text().splitlines():
                pid, name = line.split()
                yield int(pid), name

    def down(self) -> None:
        """End what this folder's cluster started, and remove its files."""
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in mounts:
            if mount.startswith(f"{self.folder}/"):
                subprocess.run(["fusermount3", "-uz", mount], check=False, capture_output=True)
        pids = [pid for pid, _ in self._pids()]
        _end(list(reversed(pids)), self.conf, signal.SIGKILL)
        with contextlib.suppress(FileNotFoundError):
            for device in (self.folder / "loops").read_text().split():
                subprocess.run(["losetup", "--detach", device], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _healthy(self) -> bool:
        status: dict[str, Any] = json.loads(self.ceph("-s", "--format", "json"))
        groups = status["pgmap"]
        clean = sum(s["count"] for s in groups.get("pgs_by_state", []) if s["state_name"] == "active+clean")
        ready = status["osdmap"]["num_up_osds"] == self.osds and clean == groups["num_pgs"] > 0
        serving = sum(1 for mds in status["fsmap"].get("by_rank", []) if mds["status"] == "up:active")
        return (
            ready and status["health"]["status"] == "HEALTH_OK" and (not self.mdss or serving == self.active)
        )

    def _wait(self, what: str, there: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(ClusterError):
                if there():
                    return
            if time.monotonic() > end:
                raise ClusterError(f"waited {PATIENCE} s for {what}; the logs are in {self.folder}/log")
            time.sleep(0.2)

    def _run(self, *command: str) -> str:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise ClusterError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")
        return done.stdout

    def mount(self, name: str = "mnt") -> Path:
        """Mount the file system with ceph-fuse; `down` unmounts it."""
        place = self.folder / name
        place.mkdir(exist_ok=True)
        self._run("ceph-fuse", "-c", str(self.conf), str(place))
        # It went to the background, and wouldn't end by itself once the daemons have.
        for process in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                if str(place).encode() in process.read_bytes().split(b"\0"):
                    self._started(int(process.parent.name), name)
        return place


def _end(pids: list[int], conf: Path, how: signal.Signals) -> None:
    """End processes of this cluster (a pid may be another program's by now), the stubborn ones by SIGKILL."""

    def ours(pid: int) -> bool:
        with contextlib.suppress(OSError):
            return str(conf).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        return False

    for kind, patience in ((how, 10.0), (signal.SIGKILL, 5.0)):
        left = [pid for pid in pids if ours(pid)]
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, kind)
        end = time.monotonic() + patience
        while left and time.monotonic() < end:
            time.sleep(0.05)
            for pid in left:
                # Those this process started leave a zombie until they are waited for.
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            left = [pid for pid in left if ours(pid)]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("verb", choices=("up", "down"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--osds", type=int, default=3)
    parser.add_argument("--mdss", type=int, default=3)
    parser.add_argument("--active", type=int, default=3)
    parser.add_argument("--store", choices=("memstore", "bluestore"), default="memstore")
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--net", default="127.0.9", help="three numbers of a loopback network")
    options = vars(parser.parse_args())
    verb, folder = options.pop("verb"), options.pop("folder")
    try:
        cluster = Cluster(folder, **options)
        if verb == "up":
            cluster.up()
            print(f"CEPH_CONF={cluster.conf}")
        else:
            cluster.down()
    except ClusterError as error:
        print(f"cluster: error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
