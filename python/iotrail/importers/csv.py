"""Block traces in columns of text, whatever the columns are: a map says which column is what.

A map is a comma-separated list of `key=value`, perhaps after a preset's name: `ts=1,unit=ms,dev=2,pos=3,
length=4,op=5,read=1,write=0,sep=space`. Columns are numbers from 1 or names of the header. Presets are
maps too: the formats that simulators and trace archives use. Without a map the header's names tell.

A block of whole lines is read at once by Arrow's CSV reader with the types expected. Only where that
fails (a garbage number) are the block's columns read as text to find which lines are to blame.
"""

import functools
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from iotrail.errors import TraceError, UsageError
from iotrail.importers.base import (
    DISCARD,
    FLUSH,
    READ,
    RELATIVE_START,
    TOP_TIME,
    WRITE,
    Actor,
    BlockRows,
    Ints,
    Job,
    Parts,
    running,
)
from iotrail.importers.source import Source

Bools = npt.NDArray[np.bool_]

_NUMERIC = ("ts", "gap", "dur", "end", "pos", "length", "file_pos")
_WORDS = ("op", "flush", "dev", "minor", "who", "pid", "tid", "file", "inode")
# Numbers that may be empty: not known.
_OPTIONAL = ("dur", "end", "file_pos")
_ROLES = {
    "ts": "when the request was issued",
    "gap": "time to the next request, instead of ts",
    "dur": "response time",
    "end": "when it was done, instead of dur",
    "dev": "device",
    "minor": "second number of the device",
    "who": "host or program that issued it",
    "pid": "process that issued it",
    "tid": "thread that issued it",
    "file": "file, instead of a device",
    "inode": "file that the part of the device belongs to",
    "file_pos": "offset in that file",
    "pos": "offset on the device",
    "length": "size of the request",
    "op": "read, write, flush or discard",
    "flush": "true for a flush",
}
_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "100ns": 100, "ns": 1, "filetime": 100}
_SIZES = {"bytes": 1, "b": 1, "kib": 1024, "sectors": 512, "blocks": 512}
_SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "space": " "}
# Words for operations that need no explanation. Numbers do: traces disagree whether 1 is a read.
_OPS = {
    READ: "r read reads rd rs ra get read_10 0x28 0x88",
    WRITE: "w write writes wr ws put write_10 0x2a 0x8a",
    FLUSH: "f flush fsync fdatasync sync syncfs",
    DISCARD: "d discard trim unmap t",
}
_OP_NAMES = {"read": READ, "write": WRITE, "flush": FLUSH, "discard": DISCARD}
# Columns that name the file and who uses it.
_NAMES_OF = ("dev", "minor", "who", "pid", "tid", "file", "inode")
_DAY = 86_400 * 10**9
_YEAR = 365 * _DAY
_TRUE = ("1", "true", "yes", "t")
# 1601 to 1970 in units of 100 ns: the offset between the epochs of Windows' FILETIME and Unix.
_FILETIME_1970 = 116_444_736_000_000_000
# Times between 2001 and 2096, in ns: what a wall clock shows and a counter from 0 doesn't.
_WALL = (10**18, 4 * 10**18)
# Numbers from here on are garbage, whatever they count: two of them still add up to less than 63 bits hold.
_TOP = TOP_TIME
_TAB, _NEWLINE, _RETURN, _SPACE = np.frombuffer(b"\t\n\r ", np.uint8)
# Cut into columns at a time: a block of lines of 32 bytes.
_MOST_LINES = 1 << 18
_BLANKS = bytes.maketrans(b"\t", b" ")
# A column's name with its unit: `t_ns`, `size (KiB)`. The name may have such separators in it, the unit not: for long
# names that would take their length squared.
_NAME_UNIT = re.compile(r"(.*?)[_ (\[]+([a-zµ]+)[)\]]?")
_LONGEST_NAME = 100
# No table of requests has more columns.
_WIDEST = 10_000


@dataclass(frozen=True)
class Map:
    """Which column is what, in which unit."""

    columns: dict[str, int | str]
    # Empty: told from the first line.
    sep: str = ""
    header: bool | None = None
    unit: str = "s"
    dur_unit: str | None = None
    pos_unit: int = 1
    length_unit: int = 1
    file_pos_unit: int = 1
    epoch: str = "auto"
    ops: dict[str, int] = field(default_factory=dict)
    # How a device is called: of {dev}, {minor} and {who}.
    device: str = "{dev}"


# Preset -> its map and what it is. Field order and units are those of the readers named.
PRESETS = {
    "msr": (
        "ts=1,unit=filetime,who=2,dev=3,op=4,pos=5,length=6,dur=7,dur_unit=100ns,device={who}_{dev}",
        "MSR Cambridge: Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime (SNIA IOTTA 388)",
    ),
    "msr-cut": (
        "ts=1,unit=ms,dev=2,pos=3,length=4,op=5,read=1,write=0,sep=space",
        "windows cut from MSR Cambridge volumes: ms device offset size 1=read, in bytes",
    ),
    "spc": (
        "dev=1,pos=2,pos_unit=sectors,length=3,op=4,ts=5,unit=s,device=asu{dev}",
        "Storage Performance Council: ASU,LBA,Size,Opcode,Timestamp (SPC trace format 1.0.1)",
    ),
    "disksim": (
        "ts=1,unit=ms,dev=2,pos=3,pos_unit=sectors,length=4,length_unit=sectors,op=5,read=1,write=0,sep=space",
        "DiskSim ASCII: ms device block blocks flags, bit 0 of flags a read (DiskSim 4.0, iotrace_ascii)",
    ),
    "disksim-validate": (
        "op=1,pos=3,pos_unit=sectors,length=4,length_unit=sectors,dur=5,dur_unit=us,gap=6,unit=us,sep=space",
        "DiskSim's validation traces: R/W Hit/Miss block blocks service_us time_to_next_us",
    ),
    "mqsim": (
        "ts=1,unit=ns,dev=2,pos=3,pos_unit=sectors,length=4,length_unit=sectors,op=5,read=1,write=0,sep=space",
        "MQSim: ns device LBA sectors 1=read",
    ),
    "opencas": (
        "ts=header.timestamp,unit=ns,dev=device.name,pos=io.lba,pos_unit=sectors,length=io.len,"
        "length_unit=sectors,op=io.operation,flush=io.flush,dur=io.latency,dur_unit=ns,inode=file.id?,file_pos=file.offset?,"
        "file_pos_unit=sectors",
        "Open CAS iotrace --format csv: the columns header.timestamp, io.lba, io.len, io.operation …",
    ),
    "alibaba": (
        "dev=1,op=2,pos=3,length=4,ts=5,unit=us,epoch=unix,header=no,sep=comma",
        "Alibaba cloud block traces: device_id,opcode,offset,length,timestamp, in bytes and µs since 1970 (2020)",
    ),
    "tencent": (
        "ts=1,unit=s,epoch=unix,pos=2,pos_unit=sectors,length=3,length_unit=sectors,op=4,read=0,write=1,dev=5,sep=comma",
        "Tencent CBS: Timestamp,Offset,Size,IOType,VolumeID, in seconds and sectors, 0=read (SNIA IOTTA 27917)",
    ),
    "systor17": (
        "ts=1,unit=s,epoch=unix,dur=2,op=3,dev=4,pos=5,length=6,device=lun{dev},sep=comma",
        "SYSTOR '17 (Fujitsu VDI): Timestamp,Response,IOType,LUN,Offset,Size, in seconds and bytes (SNIA IOTTA 4964)",
    ),
    "fiu": (
        "ts=1,unit=ns,pid=2,who=3,pos=4,pos_unit=sectors,length=5,length_unit=sectors,op=6,dev=7,minor=8,"
        "device=block/{dev}:{minor},sep=space",
        "FIU (I/O deduplication, SRCMap): ns pid process sector sectors R/W major minor md5 (SNIA IOTTA 390)",
    ),
    "thesios": (
        "file=filename,pos=file_offset,who=application,op=op_type,length=request_io_size_bytes,ts=start_time,unit=s,"
        "epoch=unix,dur=simulated_latency",
        "Thesios (Google): filename,file_offset,application,…,op_type,…,start_time,…,simulated_latency, in s and bytes",
    ),
}

# Header name (lower case, unit taken off) -> role.
_NAMES = {
    "ts": "t ts time timestamp arrival start issue issued begin datetime header.timestamp",
    "end": "end stop complete completed completion finish",
    "dur": "dur duration latency lat response responsetime service servicetime elapsed io.latency",
    "dev": "dev device disk disknumber volume lun asu drive device_id volumeid device.name",
    "who": "who host hostname process comm program vm",
    "pid": "pid",
    "tid": "tid thread",
    "file": "file filename path",
    "inode": "inode ino",
    "file_pos": "file_pos",
    "pos": "pos offset off lba lbn sector address addr block blkno io.lba",
    "length": "length len size bytes nbytes count sectors blocks io.len",
    "op": "op operation type rw opcode opc io.operation action cmd command iotype",
    "flush": "flush io.flush",
}
_ROLE_OF = {name: role for role, names in _NAMES.items() for name in names.split()}
_UNIT_OF = {
    **dict.fromkeys(("ns", "nsec"), "ns"),
    **dict.fromkeys(("us", "µs", "usec"), "us"),
    **dict.fromkeys(("ms", "msec"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "seconds"), "s"),
    **dict.fromkeys(("b", "byte", "bytes"), "bytes"),
    **dict.fromkeys(("kb", "kib"), "kib"),
    **dict.fromkeys(("sector", "sectors", "blocks", "lba"), "sectors"),
}


def parse_map(text: str) -> Map:
    """A map as the user wrote it."""
    given: dict[str, str] = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        key, found, value = item.partition("=")
        if not found and key in PRESETS:
            given |= dict(part.split("=", 1) for part in PRESETS[key][0].split(","))
        elif not found or not value:
            raise UsageError(
                f"--map: {item!r} is neither key=value nor a preset", f"presets are {', '.join(PRESETS)}"
            )
        else:
            given[key] = value
    columns: dict[str, int | str] = {}
    ops: dict[str, int] = {}
    settings: dict[str, Any] = {}
    for key, value in given.items():
        if key in _ROLES:
            number = _number(value)
            if number is not None and not 1 <= number <= _WIDEST:
                raise UsageError(f"--map: {key}={value}: columns are counted from 1 to {_WIDEST:,}")
            columns[key] = value if number is None else number - 1
        elif key in _OP_NAMES:
            ops |= dict.fromkeys(value.lower().split("|"), _OP_NAMES[key])
        elif key in ("unit", "dur_unit"):
            settings[key] = _one_of(key, value, _UNITS) and value
        elif key in ("pos_unit", "length_unit", "file_pos_unit"):
            settings[key] = _number(value) or _one_of(key, value, _SIZES)
        elif key == "sep":
            settings[key] = _one_of(key, value, _SEPARATORS)
        elif key == "epoch":
            settings[key] = _one_of(key, value, {name: name for name in ("auto", "unix", "none")})
        elif key == "header":
            settings[key] = _one_of(key, value, {"yes": 1, "no": 0}) == 1
        elif key == "device":
            settings[key] = value
        else:
            keys = [
                *_ROLES,
                *_OP_NAMES,
                "unit",
                "dur_unit",
                "pos_unit",
                "length_unit",
                "file_pos_unit",
                "sep",
                "epoch",
                "header",
                "device",
            ]
            raise UsageError(f"--map: there is no key {key!r}", f"keys are {', '.join(keys)}")
    return Map(columns, ops=ops, **settings)


def _number(text: str) -> int | None:
    """A number a map may have, up to a GiB; None if it is none."""
    return int(text) if re.fullmatch(r"[0-9]{1,10}", text) and int(text) <= 1 << 30 else None


def _one_of(key: str, value: str, known: dict[str, Any]) -> Any:
    if value not in known:
        raise UsageError(f"--map: {key}={value}: expected one of {', '.join(known)}")
    return known[value]


def map_of_header(names: list[str], sep: str) -> Map | None:
    """What the names of a header tell; None if they name no time, offset, size and operation."""
    columns: dict[str, int | str] = {}
    settings: dict[str, Any] = {}
    for name in names:
        plain = name.strip().strip('"').lower()
        role = _ROLE_OF.get(plain)
        unit = "sectors" if plain in ("lba", "lbn", "sector", "sectors", "io.lba", "io.len") else None
        if role is None and len(plain) <= _LONGEST_NAME and (match := _NAME_UNIT.fullmatch(plain)):
            role, unit = _ROLE_OF.get(match[1]), _UNIT_OF.get(match[2])
            if unit is None:
                role = None
        if role is None or role in columns:
            continue
        columns[role] = name
        if unit is not None and role in ("ts", "dur") and unit in _UNITS:
            settings["unit" if role == "ts" else "dur_unit"] = unit
        elif unit is not None and role in ("pos", "length") and unit in _SIZES:
            settings[f"{role}_unit"] = _SIZES[unit]
    if not {"ts", "pos", "length", "op"} <= columns.keys():
        return None
    if "io.lba" in names:
        return parse_map("opencas")
    return Map(columns, sep=sep, header=True, **settings)


def separator(line: str) -> str:
    """What separates the columns of a line."""
    counts = {sep: line.count(sep) for sep in (",", ";", "\t", "|")}
    best = max(counts, key=lambda sep: counts[sep])
    return best if counts[best] else " "


def looks_like(head: bytes) -> bool:
    """Whether these bytes begin with a header that names what is needed."""
    line = head.partition(b"\n")[0].decode("utf-8", "replace").strip()
    sep = separator(line)
    names = [name for name in line.split(sep) if name]
    return "io.lba" not in names and not _SHAPES["systor17"](head) and map_of_header(names, sep) is not None


def preset_looks_like(name: str) -> Callable[[bytes], bool]:
    """Whether the first lines have the shape of a preset's."""
    return _SHAPES[name]


def _all_match(
    pattern: bytes, says: Callable[[list[tuple[bytes, ...]]], bool] = lambda _: True
) -> Callable[[bytes], bool]:
    """Whether nearly all of the first lines match, and their groups say so too."""
    compiled = re.compile(pattern)

    def look(head: bytes) -> bool:
        lines = [line for line in head.split(b"\n")[:-1][:1000] if line.strip()] or [head.strip()]
        found = [match.groups() for line in lines if (match := compiled.fullmatch(line.strip()))]
        return len(found) * 10 >= len(lines) * 9 and says(found)

    return look


_N = rb"[ \t]+"
_FIVE = rb"(\d+(?:\.\d+)?)" + _N + rb"(\d+)" + _N + rb"(\d+)" + _N + rb"(\d+)" + _N + rb"([01])"


def _in_bytes(lines: list[tuple[bytes, ...]]) -> bool:
    """Sectors come in any number, sizes in bytes in multiples of 512."""
    return all(int(line[2]) % 512 == 0 and int(line[3]) % 512 == 0 for line in lines)


def _whole(lines: list[tuple[bytes, ...]]) -> bool:
    return all(b"." not in line[0] for line in lines)


def _far_apart(lines: list[tuple[bytes, ...]]) -> bool:
    """Times that must be ns: were they ms, 10 s and more would lie between requests."""
    return len(lines) > 1 and abs(int(lines[-1][0]) - int(lines[0][0])) > 10_000 * (len(lines) - 1)


_SHAPES: dict[str, Callable[[bytes], bool]] = {
    "msr": _all_match(rb"\d{17,18},[^,]+,\d+,(?:Read|Write),\d+,\d+,\d+"),
    "msr-cut": _all_match(_FIVE, lambda lines: not _whole(lines) and _in_bytes(lines)),
    "spc": _all_match(rb"\d+,\d+,\d+,[rRwW],\d+\.\d+(?:,.*)?"),
    "disksim": _all_match(
        _FIVE, lambda lines: not _in_bytes(lines) and not (_whole(lines) and _far_apart(lines))
    ),
    "disksim-validate": _all_match(rb"[RW]" + _N + rb"(?:Hit|Miss|[A-Z][a-z]+)" + (_N + rb"[\d.]+") * 4),
    "mqsim": _all_match(_FIVE, lambda lines: _whole(lines) and not _in_bytes(lines)),
    "opencas": lambda head: b"header.timestamp" in head[:400] and b"io.lba" in head[:400],
    "alibaba": _all_match(rb"\d{1,9},[RWrw],\d{1,18},\d{1,10},1[5-9]\d{14}"),
    "tencent": _all_match(rb"1[4-9]\d{8},\d{1,18},\d{1,9},[01],\d{1,9}"),
    "systor17": lambda head: head.startswith(b"Timestamp,Response,IOType,LUN,Offset,Size"),
    "fiu": _all_match(
        rb"\d{1,19}"
        + _N
        + rb"\d{1,9}"
        + _N
        + rb"[^ \t]{1,64}"
        + (_N + rb"\d{1,18}") * 2
        + _N
        + rb"[RW]"
        + (_N + rb"\d{1,9}") * 2
        + _N
        + rb"[0-9a-fA-F]{1,64}"
    ),
    "thesios": lambda head: head.startswith(b"filename,file_offset,application,"),
}


@functools.lru_cache(64)
def _width(expected: int, found: int) -> str:
    """Why a line is left out: one text for all of a width, of which there may be millions."""
    return f"expected {expected} columns, found {found}"


def _parts(block: bytes) -> Iterator[tuple[int, bytes]]:
    """A block by at most so many lines, each part with the number of its first from 0: short lines take much memory."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)[_MOST_LINES - 1 :: _MOST_LINES] + 1
    begins = [0, *(int(end) for end in ends if end < len(block))]
    for number, (begin, end) in enumerate(zip(begins, [*begins[1:], len(block)], strict=True)):
        yield number * _MOST_LINES, block[begin:end]


def reader(preset: str | None) -> Callable[[Job], None]:
    """The importer of a preset, or of any CSV."""

    def read(job: Job) -> None:
        _read(job, preset)

    return read


def _read(job: Job, preset: str | None) -> None:
    text = ",".join(part for part in (preset, job.options.map) if part)
    given = parse_map(text) if text else None
    rows = BlockRows(job)
    state = _State(job, rows)
    for source in job.sources:
        state.begin(source)
        for number, block in job.lines(source):
            if number == 1:
                block = block.removeprefix(b"\xef\xbb\xbf")
                this, block, number = _settle(given, source, block)
                table = _Table(this, source, job, block)
                state.use(this)
            for columns in table.read(block, number):
                state.add(columns)
    job.read += job.long_lines
    state.hint_unit()
    rows.finish(state.actors.values())


def _settle(given: Map | None, source: Source, block: bytes) -> tuple[Map, bytes, int]:
    """The map with columns as numbers; the block without its header; the number of its first line."""
    first, _, rest = block.partition(b"\n")
    line = first.decode("utf-8", "replace").strip()
    sep = (given.sep if given else "") or separator(line)
    if given is None:
        names = [name.strip().strip('"') for name in line.split(sep)]
        given = map_of_header(names, sep)
        if given is None:
            raise TraceError(
                f"{source.path}:1: no header that names time, offset, size and operation: {line[:80]!r}",
                "say which column is what: --map ts=1,unit=ms,pos=3,length=4,op=5,read=R,write=W\n"
                f"or name a preset: {', '.join(PRESETS)}",
            )
    given = replace(given, sep=sep)
    for needed in ("ts", "pos", "length", "op"):
        if needed not in given.columns and not (needed == "ts" and "gap" in given.columns):
            raise UsageError(f"--map: no column for {needed}: {_ROLES[needed]}")
    names = [
        name.strip().strip('"') for name in (line.split() if given.sep == " " else line.split(given.sep))
    ]
    # one that a header may lack ends in ?
    given = replace(
        given,
        columns={
            role: name.removesuffix("?") if isinstance(name, str) else name
            for role, name in given.columns.items()
            if not (isinstance(name, str) and name.endswith("?") and name[:-1] not in names)
        },
    )
    if "file_pos" in given.columns and "inode" not in given.columns:
        raise UsageError(f"--map: file_pos needs a column for inode: {_ROLES['inode']}")
    by_name = {role: name for role, name in given.columns.items() if isinstance(name, str)}
    for role, name in by_name.items():
        if name not in names:
            raise TraceError(
                f"{source.path}:1: no column {name!r} for {role}; found {', '.join(names)[:200]}",
                "columns can be given by number too, from 1",
            )
    columns: dict[str, int | str] = {
        role: names.index(column) if isinstance(column, str) else column
        for role, column in given.columns.items()
    }
    taken: dict[int, str] = {}
    for role, column in columns.items():
        other = taken.setdefault(int(column), role)
        if other != role and not {role, other} <= set(_WORDS):
            raise UsageError(f"--map: {other} and {role} are both column {int(column) + 1}")
    header = given.header
    if header is None:
        # a line of numbers where numbers must be isn't a header
        at = [int(columns[role]) for role in _NUMERIC if role in columns]
        words = [names[i] for i in at if i < len(names)]
        header = bool(by_name) or (bool(words) and not any(re.match(r"[-+.\d]", word) for word in words))
    return replace(given, columns=columns), rest if header else block, 2 if header else 1


class _Table:
    """The lines of one file as typed columns."""

    def __init__(self, map: Map, source: Source, job: Job, sample: bytes) -> None:
        self.map = map
        self.source = source
        self.job = job
        self.at: dict[str, int] = {role: int(column) for role, column in map.columns.items()}
        lines = self._tidy(sample[:65536]).split(b"\n", 200)[:200]
        widths = [line.count(map.sep.encode()) + 1 for line in lines if line]
        needed = max(self.at.values()) + 1
        # most lines are right; lines that are too short can't be
        enough = [width for width in widths if width >= needed]
        self.width = max(set(enough), key=enough.count) if enough else needed
        if widths and not enough:
            role = max(self.at, key=lambda role: self.at[role])
            raise TraceError(
                f"{source.path}:1: lines have {widths[0]} columns, but {role} would be column {self.at[role] + 1}",
                "is it another format? iotrail import --list shows them; sep=… says what separates columns",
            )
        self.types = {f"c{at}": self._type(role, at, lines) for role, at in self.at.items()}

    def _type(self, role: str, at: int, lines: list[bytes]) -> pa.DataType:
        if role in _WORDS:
            return pa.dictionary(pa.int32(), pa.string())
        fields = [line.split(self.map.sep.encode()) for line in lines]
        values = [f[at] for f in fields if len(f) == self.width]
        decimals = max((len(value.strip().partition(b".")[2]) for value in values), default=0)
        if decimals == 0:
            return pa.int64()
        scale = self._scale(role)
        return pa.decimal128(38, scale) if decimals <= scale else pa.float64()

    def _scale(self, role: str) -> int:
        """Digits behind the point of a time that are exact: without its point it is the time in ns.

        A double isn't exact for times since the epoch. It rounds what has more digits.
        """
        return (
            0
            if role in ("pos", "length", "file_pos")
            else {"s": 9, "ms": 6, "us": 3}.get(self._unit(role), 0)
        )

    def _unit(self, role: str) -> str:
        return (self.map.dur_unit or self.map.unit) if role == "dur" else self.map.unit

    def _tidy(self, block: bytes) -> bytes:
        """Columns that are padded with spaces to columns with one separator between them."""
        if b"\r" in block:
            # Arrow would end a line at a carriage return within it
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b" ")
        if self.map.sep != " ":
            return block
        text = np.frombuffer(block, np.uint8)
        blank = (text == _SPACE) | (text == _TAB)
        newline = text == _NEWLINE
        extra = blank.copy()
        # of blanks in a row the first stays, but at a line's ends
        extra[1:] &= blank[:-1] | newline[:-1]
        ends = blank[:-1] & newline[1:]
        if extra.any() or ends.any() or b"\t" in block:
            # there are no carriage returns any more: one marks what goes
            marked = text.copy()
            marked[extra] = _RETURN
            block = marked.tobytes().translate(_BLANKS, b"\r").replace(b" \n", b"\n")
        return block.removesuffix(b" ")

    def read(self, block: bytes, first: int) -> Iterator[dict[str, Any]]:
        """Columns by role; lines that don't parse are counted and left out."""
        block = self._tidy(block)
        if not block:
            return
        if not block.isascii():
            # Arrow shows bad lines as text: bytes that are none would break that
            block = block.decode("utf-8", "replace").encode()
        for at, part in _parts(block):
            yield from self._read_part(part, first + at)

    def _read_part(self, block: bytes, first: int) -> Iterator[dict[str, Any]]:
        count = block.count(b"\n") + (not block.endswith(b"\n"))
        self.job.read += count
        broken: dict[int, str] = {}
        found = self._columns(block, broken)
        if found is None or len(found[1].code) + len(broken) != count:
            # a quote that isn't closed takes the lines behind it for one value
            whole, opened = self._without_open_quotes(block)
            broken.clear()
            found = self._columns(whole, broken)
            broken |= dict.fromkeys(opened, "a quote isn't closed")
        if found is None:
            raise TraceError(
                f"{self.source.path}: lines {first:,} to {first + count - 1:,} can't be read as columns"
            )
        columns, why = found
        keep = why.code == 0
        if not keep.all() or broken:
            self._report(block, first, broken, why)
        if not keep.all():
            columns = {
                role: column.filter(pa.array(keep)) if isinstance(column, pa.Array) else column[keep]
                for role, column in columns.items()
            }
        if keep.any():
            yield columns

    def _columns(self, block: bytes, broken: dict[int, str]) -> tuple[dict[str, Any], "_Why"] | None:
        """The columns of a block; None if it can't be cut into lines and columns."""
        table = self._arrow(block, self.types, broken)
        if table is not None:
            return self._from_typed(table)
        broken.clear()
        table = self._arrow(block, {name: pa.string() for name in self.types}, broken)
        return None if table is None else self._from_texts(table)

    def _without_open_quotes(self, block: bytes) -> tuple[bytes, set[int]]:
        """The block with a column too many in place of lines that leave a quote open, and their numbers from 0."""
        sep = self.map.sep.encode()
        closed = re.compile(rb'(^|%s)"(?:[^"]|"")*+"' % re.escape(sep))
        opens = re.compile(rb'(?:^|%s)"' % re.escape(sep))
        lines = block.split(b"\n")
        opened = {
            at for at, line in enumerate(lines) if b'"' in line and opens.search(closed.sub(rb"\1.", line))
        }
        refused = sep * self.width
        return b"\n".join(refused if at in opened else line for at, line in enumerate(lines)), opened

    def _arrow(self, block: bytes, types: dict[str, pa.DataType], broken: dict[int, str]) -> Any:
        """The columns wanted, or None if one can't be converted. Lines of another width are noted from 0."""

        def note(row: csv.InvalidRow) -> Literal["skip"]:
            # rows are counted from 1
            broken[(row.number or 1) - 1] = _width(row.expected_columns, row.actual_columns)
            return "skip"

        try:
            return csv.read_csv(
                cast(Any, pa.py_buffer(block)),
                # one thread, for only so are rows numbered; ingest takes the other core
                csv.ReadOptions(
                    use_threads=False,
                    column_names=[f"c{i}" for i in range(self.width)],
                    block_size=len(block) + 1,
                ),
                csv.ParseOptions(delimiter=self.map.sep, ignore_empty_lines=False, invalid_row_handler=note),
                csv.ConvertOptions(
                    column_types=types, include_columns=list(types), strings_can_be_null=False, null_values=[]
                ),
            ).combine_chunks()
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return pa.table({name: pa.array([], kind) for name, kind in types.items()})
            return None

    def _column(self, table: Any, role: str) -> Any:
        column = table.column(f"c{self.at[role]}")
        return column.chunk(0) if column.num_chunks else pa.array([], column.type)

    def _from_typed(self, table: Any) -> tuple[dict[str, Any], "_Why"]:
        columns: dict[str, Any] = {}
        why = _Why(table.num_rows)
        for role in self.at:
            column = self._column(table, role)
            if role in _WORDS:
                columns[role] = column
            elif pa.types.is_decimal(column.type):
                columns[role] = self._unscaled(role, column, why)
            else:
                columns[role] = self._scaled(role, column.to_numpy(), why)
        self._check(columns, why)
        return columns, why

    def _from_texts(self, table: Any) -> tuple[dict[str, Any], "_Why"]:
        """The same from text, one bad value at a time: what is good has the value it has in good company."""
        columns: dict[str, Any] = {}
        why = _Why(table.num_rows)
        for role in self.at:
            texts = pc.utf8_trim_whitespace(self._column(table, role))
            if role in _WORDS:
                columns[role] = texts.dictionary_encode()
                continue
            scale = self._scale(role)
            if role in _OPTIONAL:
                # an empty one is not known
                empty = pc.equal(texts, pa.scalar(""))
                unknown = why.no_file_pos if role == "file_pos" else why.no_dur
                unknown |= empty.to_numpy(zero_copy_only=False)
                texts = pc.if_else(empty, "0", texts)
            number = pc.match_substring_regex(texts, r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$")
            exact = pc.match_substring_regex(texts, rf"^[-+]?[0-9]{{1,20}}(\.[0-9]{{0,{scale}}})?$")
            # as Arrow reads it
            hexadecimal = pc.match_substring_regex(texts, r"^0[xX][0-9a-fA-F]{1,15}$")
            is_exact, is_hexadecimal = (
                which.to_numpy(zero_copy_only=False) for which in (exact, hexadecimal)
            )
            why.blame(~(number.to_numpy(zero_copy_only=False) | is_hexadecimal), f"{role} is no number")
            decimals = pc.if_else(exact, texts, "0").cast(pa.decimal128(38, scale))
            rounded = pc.if_else(pc.and_not(number, exact), texts, "0").cast(pa.float64())
            integers = pc.if_else(hexadecimal, texts, "0").cast(pa.int64())
            columns[role] = np.select(
                [is_exact, is_hexadecimal],
                [self._unscaled(role, decimals, why), self._scaled(role, integers.to_numpy(), why)],
                self._scaled(role, rounded.to_numpy(), why),
            )
        columns["no_dur"] = why.no_dur
        if "file_pos" in columns:
            columns["no_file_pos"] = why.no_file_pos
        self._check(columns, why)
        return columns, why

    def _unscaled(self, role: str, column: Any, why: "_Why") -> Any:
        """Decimals as ns or bytes: those of a scale are the number wanted, without their point."""
        # little-endian 128-bit numbers, of which those in range fill the lower half
        halves = np.frombuffer(column.buffers()[1], np.int64)[2 * column.offset :][: 2 * len(column)]
        low, high = halves[0::2], halves[1::2]
        self._refuse_beyond(role, high != low >> 63, why)
        if column.type.scale == 0:
            return self._scaled(role, np.array(low), why)
        self._refuse_beyond(role, (low >= _TOP) | (low <= -_TOP), why)
        return np.array(low)

    def _scaled(self, role: str, values: Any, why: "_Why") -> Any:
        """Numbers in their unit as ns or bytes."""
        map = self.map
        sizes = {"pos": map.pos_unit, "length": map.length_unit, "file_pos": map.file_pos_unit}
        factor = sizes.get(role) or _UNITS[self._unit(role)]
        if role in ("ts", "end") and self.map.unit == "filetime":
            # in ns they would be beyond 63 bits
            values = values - _FILETIME_1970
        # nan is within nothing
        beyond = ~((values < _TOP // factor) & (values > -(_TOP // factor)))
        if beyond.any():
            self._refuse_beyond(role, beyond, why)
            values = np.where(beyond, 0, values)
        if values.dtype.kind == "f":
            return np.rint(values * factor).astype(np.int64)
        return values * factor if factor != 1 else values

    @staticmethod
    def _refuse_beyond(role: str, beyond: Bools, why: "_Why") -> None:
        hint = ": is its unit right? --map …,unit=us" if role in ("ts", "end", "gap", "dur") else ""
        why.blame(beyond, f"{role} is out of range{hint}")

    def _check(self, columns: dict[str, Any], why: "_Why") -> None:
        for role in ("pos", "length", "dur", "gap", "file_pos"):
            if role in columns:
                why.blame(columns[role] < 0, f"{role} is negative")
        ops = columns["op"]
        words = [word.strip().lower() for word in ops.dictionary.to_pylist()]
        known = np.array([self._op(word) for word in words], np.int64)
        codes = known[ops.indices.to_numpy()] if len(words) else np.zeros(len(ops), np.int64)
        if "flush" in columns:
            flags = columns.pop("flush")
            true = np.array([w.strip().lower() in _TRUE for w in flags.dictionary.to_pylist()], bool)
            # A flush may carry data: then it is the write that counts.
            if len(true):
                codes = np.where(true[flags.indices.to_numpy()] & (columns["length"] == 0), FLUSH, codes)
        why.blame(codes < 0, "op is none of the words known; say which: --map …,read=WORD,write=WORD")
        columns["op"] = codes.astype(np.int8)

    def _op(self, word: str) -> int:
        if word in self.map.ops:
            return self.map.ops[word]
        return next((op for op, words in _OPS.items() if word in words.split()), -1)

    def _report(self, block: bytes, first: int, broken: dict[int, str], why: "_Why") -> None:
        """Count bad lines in the order of the file, with the numbers of their lines."""
        rows = np.setdiff1d(
            np.arange(len(why.code) + len(broken)), np.array(sorted(broken), np.int64), assume_unique=True
        )
        bad = broken | {int(rows[at]): why.reasons[why.code[at]] for at in np.flatnonzero(why.code).tolist()}
        lines = block.split(b"\n")
        for line, reason in sorted(bad.items()):
            if lines[line].strip():
                self.job.skipped.line(self.source, first + line, lines[line], reason)
            else:
                self.job.read -= 1  # an empty line is none


class _Why:
    """Why lines of a block are left out: for each the number of its first reason, 0 if there is none."""

    def __init__(self, rows: int) -> None:
        self.code = np.zeros(rows, np.int8)
        self.no_dur = np.zeros(rows, bool)
        self.no_file_pos = np.zeros(rows, bool)
        self.reasons = [""]

    def blame(self, bad: Bools, reason: str) -> None:
        """Leave these out."""
        if bad.any():
            self.code[bad & (self.code == 0)] = len(self.reasons)
            self.reasons.append(reason)


class _State:
    """What lasts from block to block: devices, who issued, where times begin."""

    def __init__(self, job: Job, rows: BlockRows) -> None:
        self.job = job
        self.rows = rows
        self.base: int | None = None
        self.clock = 0
        self.actors: dict[tuple[str, int, int], Actor] = {}
        self.source: Source | None = None

    def begin(self, source: Source) -> None:
        """A new file."""
        self.source = source
        self.clock = 0

    def use(self, map: Map) -> None:
        """A new file's map."""
        self.map = map

    def _start(self, ts: Ints) -> int:
        """What is added to the trace's times; settled by the first."""
        if self.base is None:
            map, job = self.map, self.job
            epoch = map.epoch
            if epoch == "auto":
                first = int(ts[0])
                epoch = "unix" if map.unit == "filetime" or _WALL[0] < first < _WALL[1] else "none"
            if epoch == "none":
                job.relative(map.unit)
            else:
                job.absolute("100 ns since 1601" if map.unit == "filetime" else f"{map.unit} since 1970")
            self.base = RELATIVE_START if epoch == "none" else 0
        return self.base

    def add(self, columns: dict[str, Any]) -> None:
        """Add the requests of a block."""
        rows = len(columns["op"])
        if "ts" in columns:
            ts = columns["ts"]
        else:
            # the gap of a line is the time to the next
            ts, self.clock = running(self.clock, columns["gap"])
        base = self._start(ts)
        dur = columns.get("dur")
        if "end" in columns:
            dur = np.maximum(columns["end"] - ts, 0)
        no_dur = columns.get("no_dur")
        if dur is None:
            self.job.facts["dur"] = "unknown: the trace has no response times"
        file, who, part_of = self._devices(columns, rows)
        self.rows.add(
            ts=ts + base,
            dur=dur,
            no_dur=no_dur if dur is not None else None,
            op=columns["op"],
            pos=columns["pos"],
            length=columns["length"],
            file=file,
            who=who,
            thread={actor.code: actor.thread for actor in self.actors.values()},
            parts=Parts(part_of, columns.get("file_pos"), columns.get("no_file_pos"))
            if part_of is not None
            else None,
        )

    def _devices(self, columns: dict[str, Any], rows: int) -> tuple[Ints, Ints, Ints | None]:
        """The file and the thread of each request; the file whose part it is for, 0 unknown, if the trace tells."""
        named = [role for role in _NAMES_OF if role in columns]
        # which of the few combinations of names each request has
        code = np.zeros(rows, np.int64)
        for role in named:
            code = code * max(len(columns[role].dictionary), 1) + columns[role].indices.to_numpy()
            # numbered anew, so that numbers stay small
            code = pa.array(code).dictionary_encode().indices.to_numpy().astype(np.int64)
        used, first = np.unique(code, return_index=True)
        file_of, who_of, part_of = (np.zeros(len(used), np.int64) for _ in range(3))
        words = {role: columns[role].take(pa.array(first)).to_pylist() for role in named}
        for number in range(len(used)):
            names = {role: str(words[role][number]).strip() for role in named}
            device = self._device(names)
            file_of[number] = self.rows.file(device)
            who_of[number] = self._actor(names, device)
            if inode := names.get("inode"):
                part_of[number] = self.rows.file(f"[{device} inode {inode}]")
        return file_of[code], who_of[code], part_of[code] if "inode" in columns else None

    def _device(self, names: dict[str, str]) -> str:
        assert self.source is not None
        if "file" in names:
            return names["file"]
        if "dev" in names:
            name = self.map.device
            for role in _NAMES_OF:
                name = name.replace(f"{{{role}}}", names.get(role, ""))
            if name.isdigit():
                name = f"disk{name}"
        elif self.job.options.device:
            name = self.job.options.device
        else:
            name = self.source.path.name.partition(".")[0]
        return name if name.startswith("/") else f"/dev/{name}"

    def _actor(self, names: dict[str, str], device: str) -> int:
        """The thread that a request names, else one for each host, else for each device."""
        who, pid, tid = names.get("who", ""), _id(names.get("pid", "")), _id(names.get("tid", ""))
        name = who or (f"pid {pid}" if pid else "" if tid else device)
        key = (name, pid, tid)
        if key not in self.actors:
            number = len(self.actors)
            self.actors[key] = Actor.of(self.job, number, name or f"thread {tid}", pid, tid or pid or None)
        return self.actors[key].code

    def hint_unit(self) -> None:
        """Say where times are such as none can be: another unit is likely then."""
        first, last = self.job.first_ts, self.job.last_ts
        if first is None or last is None or self.base is None:
            return
        now = time.time_ns()
        span = last - first
        if self.base == 0 and last > now + _DAY:
            odd = f"times lie in the future, up to {_date(last)}"
        elif span > 20 * _YEAR:
            odd = f"the trace lasts {span // _YEAR:,} years"
        elif span and self.rows.rows > max(span, 1000):
            odd = f"{self.rows.rows:,} requests began within {span:,} ns"
        else:
            return
        hint = f"{odd}: is {self.map.unit} the unit of its times? "
        begin, count = first - self.base, _UNITS[self.map.unit]
        for unit in ("s", "ms", "us", "ns"):
            start, length = begin * _UNITS[unit] // count, span * _UNITS[unit] // count
            if unit != self.map.unit and 30 * _YEAR < start < now + _DAY and length < 20 * _YEAR:
                self.job.note(f"{hint}In {unit} it begins on {_date(start)}: --map …,unit={unit}")
                return
        self.job.note(f"{hint}--map …,unit=us says another")


def _id(text: str) -> int:
    """A pid or tid; 0 if it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _date(ts: int) -> str:
    """A moment as a date."""
    try:
        return f"{datetime.fromtimestamp(ts // 10**9, UTC):%Y-%m-%d}"
    except (OverflowError, ValueError, OSError):
        return f"year {1970 + ts // _YEAR:,}"
