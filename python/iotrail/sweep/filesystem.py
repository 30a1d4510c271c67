"""A file system on a swept device: ext4 with one file, which has nearly all of its blocks and is read instead of the device."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from iotrail.errors import SweepError
from iotrail.sweep.spec import Control

NONE, EXT4 = "none", "ext4"
# What is read of it.
FILE = "streams"
# How a device is known that a sweep before has made: it holds nothing that anybody wants.
_LABEL = "iotrail-sweep"
# Bytes at the begin and end of a device that are zero if nobody has it for something.
_BLANK = 16 << 20
# mke2fs makes one file of all blocks, without writing them (mke2fs.conf(5), hugefiles).
_CONF = f"""
[defaults]
base_features = sparse_super,large_file,filetype,dir_index,ext_attr
blocksize = 4096
inode_size = 256
[fs_types]
ext4 = {{
    features = has_journal,extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize
    inode_ratio = 67108864
    make_hugefiles = true
    hugefiles_dir = /
    hugefiles_name = {FILE}
    hugefiles_digits = 0
    hugefiles_size = 0
    hugefiles_slack = 16M
    num_hugefiles = 1
    zero_hugefiles = false
}}
"""


def control(device: Path, mounted: Path) -> Control:
    """How it is mounted on a folder, to be read only, and unmounted."""
    point, path = shlex.quote(str(mounted)), shlex.quote(str(device))
    return Control(
        f"umount -q {point}; test {{value}} = {NONE} || mount -t {EXT4} -o ro,noload,noatime {path} {point}",
        f"findmnt -n -o FSTYPE --mountpoint {point} || echo {NONE}",
    )


def _is_made(device: Path) -> bool:
    return _run("blkid", "-p", "-o", "value", "-s", "LABEL", device).stdout.strip() == _LABEL


def check(device: Path) -> None:
    """Refuses a device that holds data, but for a file system that a sweep before has made.

    Raises:
        SweepError: it does.
    """
    if not _is_made(device) and (_run("blkid", "-p", device).returncode == 0 or not _is_blank(device)):
        raise SweepError(
            f"{device} holds data, which a file system would replace",
            f"take {EXT4} out of filesystem, or if nobody wants the data: wipefs -a {device}, and blkdiscard or zeros on its first "
            "and last 16 MiB",
        )


def make(device: Path) -> None:
    """Makes the file system, if it isn't there from a sweep before; what the device holds is lost.

    Raises:
        SweepError: it can't be made.
    """
    if _is_made(device):
        return
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        conf.write(_CONF)
        conf.flush()
        options = (
            "-q",
            "-F",
            "-t",
            EXT4,
            "-L",
            _LABEL,
            "-E",
            "lazy_itable_init=1,lazy_journal_init=1,nodiscard",
        )
        made = _run("mke2fs", *options, device, MKE2FS_CONFIG=conf.name)
    if made.returncode:
        raise SweepError(f"{device}: cannot make {EXT4}: {' '.join(made.stderr.split())[-200:]}")


def _run(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
    try:
        return subprocess.run(
            words,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PATH": path, **environment},
        )
    except FileNotFoundError:
        raise SweepError(f"no command {words[0]}", "Debian: apt install e2fsprogs util-linux") from None


def _is_blank(device: Path) -> bool:
    with device.open("rb", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        for begin in {0, max(0, size - _BLANK)}:
            file.seek(begin)
            left = min(_BLANK, size)
            while left > 0 and (read := file.read(min(left, 1 << 20))):
                if read.count(0) != len(read):
                    return False
                left -= len(read)
    return True
