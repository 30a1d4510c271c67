"""Writes Recorder's traces for the tests, after include/recorder-logger.h and lib/recorder-cst-cfg.c of 2.3 to 3.0."""

import itertools
import struct
import zlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

FUNCTIONS = [
    "creat", "creat64", "open", "open64", "close", "write", "read", "lseek", "lseek64", "pread", "pread64",
    "pwrite", "pwrite64", "readv", "writev", "fopen", "fclose", "fwrite", "fread", "ftell", "fseek", "fsync",
    "__xstat", "mkdir", "rename", "unlink", "dup", "access", "ftruncate", "MPI_File_open",
    "MPI_File_write_at", "MPI_Barrier", "H5Fcreate",
]  # fmt: skip
TICK = 1e-7
START = 1_700_000_000.25
Rules = dict[int, list[tuple[int, int]]]


class Call(NamedTuple):
    """A call: what it was given, when it began and ended in ticks since the start."""

    function: str
    arguments: tuple[object, ...]
    begin: int
    end: int
    thread: int = 0
    depth: int = 0


def signature(call: Call, wide: bool) -> bytes:
    """The key of a signature; `wide` has the function in 4 bytes."""
    number = FUNCTIONS.index(call.function) if call.function in FUNCTIONS else 255
    words = "".join(f"{argument} " for argument in call.arguments).encode()
    head = struct.pack(
        "<QiBBi" if wide else "<QBBBi", call.thread, number, call.depth, len(call.arguments), len(words)
    )
    return head + words


def rules(numbers: Sequence[int]) -> Rules:
    """A grammar of a sequence: runs as repeated symbols, and pairs that occur twice as rules."""
    whole: list[tuple[int, int]] = []
    for number in numbers:
        if whole and whole[-1][0] == number:
            whole[-1] = number, whole[-1][1] + 1
        else:
            whole.append((number, 1))
    made: Rules = {}
    while True:
        pairs = Counter(itertools.pairwise(whole))
        pair, count = max(pairs.items(), key=lambda item: item[1], default=(None, 0))
        if pair is None or count < 2:
            return {-1: whole, **made}
        rule = -2 - len(made)
        short: list[tuple[int, int]] = []
        at = 0
        while at < len(whole):
            found = tuple(whole[at : at + 2]) == pair
            if found and short and short[-1][0] == rule:
                short[-1] = rule, short[-1][1] + 1
            else:
                short.append((rule, 1) if found else whole[at])
            at += 2 if found else 1
        made[rule] = list(pair)
        whole = short


def grammar(made: Rules) -> bytes:
    """Rules as they lie in a file."""
    numbers = [len(made)]
    for rule, body in made.items():
        numbers += [rule, len(body), *(number for symbol in body for number in symbol)]
    return struct.pack(f"<{len(numbers)}i", *numbers)


def zipped(data: bytes) -> bytes:
    """zlib's data behind its sizes."""
    packed = zlib.compress(data)
    return struct.pack("<QQ", len(packed), len(data)) + packed


def table(keys: Sequence[bytes], version: tuple[int, int]) -> bytes:
    """Signatures by number."""
    out = [struct.pack("<i", len(keys))]
    # in any order
    for number in reversed(range(len(keys))):
        between = () if version == (2, 3) else (0,)
        behind = () if version == (2, 3) else (1,)
        fields = (number, *between, len(keys[number]), *behind)
        out.append(struct.pack(f"<{len(fields)}i", *fields) + keys[number])
    return b"".join(out)


def steps(calls: Sequence[Call]) -> bytes:
    """Times: each from the begin of the call before, in 32 bits."""
    out, last = [], 0
    for call in calls:
        out += [(call.begin - last) & 0xFFFFFFFF, (call.end - last) & 0xFFFFFFFF]
        last = call.begin
    return struct.pack(f"<{len(out)}I", *out)


def trace(
    ranks: Sequence[Sequence[Call]], version: tuple[int, int] = (3, 0), *, merged: bool = False, zip_times: bool = True,
    steps_of_offsets: bool = False, start: float = START, made: Rules | None = None,
) -> dict[str, bytes]:  # fmt: skip
    """The files of a trace; `made` is every rank's grammar instead of that of its calls."""
    new, wide = version >= (2, 5), version >= (3, 0)
    pack = zipped if new else bytes
    if version == (2, 3):
        head = struct.pack("<i4xddii", len(ranks), start, TICK, 1 << 18, 0)
    elif version == (2, 4):
        head = struct.pack("<i4xddiii4x", len(ranks), start, TICK, 1 << 18, 0, merged)
    else:
        flags = (zip_times, merged, False, steps_of_offsets)
        head = struct.pack("<i8?4xddi4?", len(ranks), *[True] * 8, start, TICK, 1 << 20, *flags)
    names = "".join(f"{name}\n" for name in FUNCTIONS).encode()
    files = {
        "VERSION": b"%d.%d.0" % version,
        "recorder.mt": head.ljust(1024 if wide else len(head), b"\0") + names,
    }
    keys = [[signature(call, wide) for call in calls] for calls in ranks]
    tables = [list(dict.fromkeys(part)) for part in keys]
    if merged:
        tables = [list(dict.fromkeys(key for part in keys for key in part))] * len(ranks)
        files["recorder.cst" if new else "0.cst"] = pack(table(tables[0], version))
    else:
        files |= {f"{rank}.cst": pack(table(part, version)) for rank, part in enumerate(tables)}
    grammars = [
        grammar(made or rules([part.index(key) for key in mine]))
        for mine, part in zip(keys, tables, strict=True)
    ]
    if merged:
        unique = list(dict.fromkeys(grammars))
        numbers = [unique.index(part) for part in grammars]
        files["ug.mt"] = struct.pack(f"<{len(numbers) + 1}i", *numbers, len(unique))
        if new:
            files["ug.cfg"] = b"".join(map(zipped, unique))
            grammars = []
        else:
            grammars = unique
    files |= {f"{number}.cfg": pack(part) for number, part in enumerate(grammars)}
    times = [steps(calls) for calls in ranks]
    if new:
        parts = [zipped(part) if zip_times and part else part for part in times]
        files["recorder.ts"] = struct.pack(f"<{len(parts)}Q", *map(len, parts)) + b"".join(parts)
    else:
        files |= {f"{rank}.ts": part for rank, part in enumerate(times)}
    return files


def write(folder: Path, files: dict[str, bytes]) -> Path:
    """A folder of these files."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


_BEGIN = b"\n== "


def joined(files: dict[str, bytes]) -> bytes:
    """Files as one input of a fuzzer."""
    return b"".join(_BEGIN + name.encode() + b"\n" + data for name, data in files.items())


def parted(data: bytes, folder: Path) -> list[Path]:
    """The files of such an input, whatever it is; recorder.mt first, as an import finds them."""
    files: dict[str, bytes] = {"recorder.mt": b""}
    for part in data.split(_BEGIN)[1:]:
        name, _, rest = part.partition(b"\n")
        text = name[:40].decode("ascii", "replace")
        if text.replace(".", "").isalnum():
            files[text] = rest
    write(folder, files)
    return [folder / name for name in files]
