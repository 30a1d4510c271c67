"""Records the programs of this folder and says what was found: the judge of the diagnosis.

    judge.py [--held | --all] [NAME…]        the table; without --held, programs marked `held` are left out

A program is one file of `planted/` (it has one known bottleneck) or `healthy/`. The comment lines at its top say
what it does and, as `key: value`, how it is judged:

    cause: NAME, NAME    findings that name the bottleneck, any of which is right (planted programs)
    where: WORD          what the card has to name: part of a path, call, program or mount
    advice: A|B          a word of which the advice has at least one: it fits the program
    prepare: yes         is run once with the argument `prepare`, not recorded
    cold: yes            its files are dropped from the page cache before it is recorded
    user: NAME           can't run as root: runs as this user, if it exists
    needs: slowfs        a helper of this folder, compiled and put on PATH
    options: -pthread    options of the C compiler
    held: yes            was kept out while thresholds and rules were chosen
"""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
IOTRAIL = Path(sys.executable).with_name("iotrail")
PRELOAD = HERE.parents[1] / "python/iotrail/_native/libiotrail_preload.so"
# What runs a file, by the end of its name.
INTERPRETERS = {".py": "python3", ".sh": "sh", ".js": "node", ".java": "java", ".c": "gcc"}
KEYS = ("cause", "where", "advice", "prepare", "cold", "user", "needs", "options", "held")
# A recording longer than this hangs.
LONGEST_SECONDS = 120


class CannotRun(Exception):
    """A program can't be judged on this machine; the message says why."""


@dataclass(frozen=True)
class Program:
    """One file of `planted/` or `healthy/`."""

    path: Path
    what: str
    keys: dict[str, str]

    @property
    def name(self) -> str:
        """Its name in tables."""
        return self.path.stem

    @property
    def is_planted(self) -> bool:
        """Whether it has a bottleneck."""
        return self.path.parent.name == "planted"

    @property
    def is_held(self) -> bool:
        """Whether it was kept out while rules were chosen."""
        return self.keys.get("held") == "yes"

    @property
    def causes(self) -> list[str]:
        """Findings that name its bottleneck."""
        return [cause.strip() for cause in self.keys.get("cause", "").split(",") if cause.strip()]


@dataclass(frozen=True)
class Verdict:
    """What was shown for a program and whether it is right."""

    program: Program
    cards: list[dict[str, Any]] = field(default_factory=list)
    # What is wrong with the first card of a planted program; empty if it is right.
    wrong: str = ""
    # Why it could not be judged; empty if it was.
    skipped: str = ""

    @property
    def grave(self) -> list[dict[str, Any]]:
        """Cards of medium or high severity."""
        return [card for card in self.cards if card["severity"] in ("high", "medium")]

    @property
    def is_right(self) -> bool:
        """The first card names the cause; of a healthy program, no card is medium or high."""
        return not self.skipped and (not self.wrong if self.program.is_planted else not self.grave)


def programs(kind: str) -> list[Program]:
    """The programs of `planted` or `healthy`, by name."""
    found = []
    for path in sorted((HERE / kind).iterdir()):
        if path.suffix not in INTERPRETERS:
            continue
        keys: dict[str, str] = {}
        what: list[str] = []
        for line in path.read_text(encoding="utf-8").splitlines():
            if not line.startswith(("#", "//")) or line.startswith("#include"):
                break
            text = line.lstrip("#/ ")
            key, colon, value = text.partition(": ")
            if colon and key in KEYS:
                keys[key] = value.strip()
            else:
                what.append(text)
        found.append(Program(path, " ".join(what), keys))
    return found


def _command(program: Program, folder: Path) -> list[str]:
    interpreter = INTERPRETERS[program.path.suffix]
    if shutil.which(interpreter) is None:
        raise CannotRun(f"{interpreter} is not installed")
    if program.path.suffix != ".c":
        return [interpreter, str(program.path)]
    binary = folder / "bin" / program.name
    _compile(program.path, binary, program.keys.get("options", "").split())
    return [str(binary)]


def _compile(source: Path, binary: Path, options: Sequence[str]) -> None:
    binary.parent.mkdir(exist_ok=True)
    done = subprocess.run(
        ["gcc", "-O2", "-o", str(binary), str(source), *options], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CannotRun(f"{source.name} doesn't compile: {done.stderr.strip().splitlines()[-1]}")


def _as_user(program: Program, folder: Path) -> list[str]:
    """What runs a command as the user the program asks for; empty if it asks for none or is not root."""
    name = program.keys.get("user")
    if name is None or os.geteuid() != 0:
        return []
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        raise CannotRun(f"there is no user {name}, and it can't run as root") from None
    uid, gid = str(user.pw_uid), str(user.pw_gid)
    namespace = ["unshare", "--user", f"--map-user={uid}", f"--map-group={gid}", "--"]
    drop = ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups", "--"]
    for prefix, owner in ((namespace, 0), (drop, user.pw_uid)):
        os.chown(folder, owner, -1)
        works = 'test "$(id -u)" != 0 && test -r "$0" && test -r "$1" && test -w .'
        check = [*prefix, "sh", "-c", works, str(PRELOAD), str(program.path)]
        if subprocess.run(check, cwd=folder, stderr=subprocess.DEVNULL, check=False).returncode == 0:
            return prefix
    raise CannotRun(f"nothing but root can run {program.path} here")


def _drop_caches(folder: Path) -> None:
    """Let the kernel forget what it has cached of the folder's files."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


# Folder it may write to and a program's command -> the words to run instead.
Wrapper = Callable[[Path, Sequence[str]], Sequence[str]]


@contextmanager
def ran(program: Program, wrap: Wrapper) -> Iterator[Path]:
    """Run a program as `wrap` says; the folder it may write to, which is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="iotrail-judge-") as name:
        top = Path(name)
        top.chmod(0o755)
        folder = top / "work"
        folder.mkdir()
        # A version manager's shim of python3 would be recorded too.
        paths = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = dict(os.environ, LC_ALL="C.UTF-8", PATH=paths)
        needs = program.keys.get("needs")
        try:
            if needs is not None:
                flags = subprocess.run(
                    ["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, check=False
                )
                if flags.returncode != 0 or not os.access("/dev/fuse", os.W_OK):
                    raise CannotRun("libfuse3-dev is not installed, or there is no /dev/fuse")
                _compile(HERE / f"{needs}.c", top / "bin" / needs, flags.stdout.split())
                environment["PATH"] = f"{top / 'bin'}:{environment['PATH']}"
            command = _command(program, top)
            prefix = _as_user(program, folder)
            if program.keys.get("prepare") == "yes":
                _run([*prefix, *command, "prepare"], folder, environment, top / "prepare.log")
            if program.keys.get("cold") == "yes":
                _drop_caches(folder)
            _run(wrap(top, [*prefix, *command]), folder, environment, top / "record.log")
            yield top
        finally:
            for path in folder.iterdir():
                if path.is_mount():
                    subprocess.run(["fusermount3", "-uz", str(path)], check=False)


@contextmanager
def recorded(program: Program) -> Iterator[Path]:
    """The trail of a run of the program, in a folder that is removed afterwards."""
    trail = f"{program.name}.trail"
    with ran(
        program, lambda folder, command: [str(IOTRAIL), "record", "-o", str(folder / trail), "--", *command]
    ) as folder:
        yield folder / trail


def _run(command: Sequence[str], folder: Path, environment: dict[str, str], log: Path) -> None:
    with log.open("w") as output:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            timeout=LONGEST_SECONDS,
            check=False,
        )
    if done.returncode != 0:
        last = (log.read_text(errors="replace").strip().splitlines() or ["(no output)"])[-1]
        raise CannotRun(f"{command[0]} ended with status {done.returncode}: {last}")


def diagnose(trail: Path) -> list[dict[str, Any]]:
    """The cards that `iotrail summary` shows of a trail, best first."""
    done = subprocess.run(
        [str(IOTRAIL), "summary", "--json", str(trail)], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise CannotRun(f"iotrail summary: {done.stderr.strip()}")
    cards: list[dict[str, Any]] = json.loads(done.stdout)["diagnosis"]
    return cards


def judge(program: Program) -> Verdict:
    """Record a program and hold what is shown to what it does."""
    try:
        with recorded(program) as trail:
            cards = diagnose(trail)
    except (CannotRun, subprocess.TimeoutExpired) as error:
        return Verdict(program, skipped=str(error))
    return Verdict(program, cards, wrong=_what_is_wrong(program, cards) if program.is_planted else "")


def _what_is_wrong(program: Program, cards: list[dict[str, Any]]) -> str:
    if not cards:
        return "no card"
    first = cards[0]
    if first["cause"] not in program.causes:
        return f"expected {' or '.join(program.causes)}"
    text = " ".join(str(first[key]) for key in ("title", "evidence", "location"))
    if (where := program.keys.get("where")) and where not in text:
        return f"doesn't name {where}"
    words = program.keys.get("advice")
    if words and not any(word.lower() in first["advice"].lower() for word in words.split("|")):
        return f"advises nothing of {words}"
    return ""


def main(arguments: list[str]) -> int:
    """Print a line a program."""
    names = [argument for argument in arguments if not argument.startswith("--")]
    right = count = 0
    for kind in ("planted", "healthy"):
        for program in programs(kind):
            if names and program.name not in names:
                continue
            if not names and "--all" not in arguments and program.is_held != ("--held" in arguments):
                continue
            verdict = judge(program)
            count += 1
            right += verdict.is_right
            print(
                f"{'ok ' if verdict.is_right else 'BAD'} {program.name}: {verdict.skipped or verdict.wrong}"
            )
            for card in verdict.cards[:6]:
                gain = card.get("gain_ns")
                share = card.get("gain_share")
                print(
                    f"      {card['severity']:6} {card['cause']:18} {card['title']}"
                    f" [gain {gain and gain / 1e9} s, {share and round(share * 100)} %]"
                )
    print(f"{right} of {count} right")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
