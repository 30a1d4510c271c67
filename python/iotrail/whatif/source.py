"""What `iotrail whatif` asks about: the requests of a trail, or those drawn from a workload model.

A model is drawn as `iotrail generate` does, into a trail that is removed afterwards: the answer is the same as for the trail
that `iotrail generate MODEL --seed N -o Y.trail` writes.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from iotrail.errors import UsageError
from iotrail.terminal import Console, Text
from iotrail.trail import Trail

# Of what `iotrail model` writes and reads.
_SUFFIXES = (".json", ".toml")
_SEED = 1


@dataclass(frozen=True)
class Source:
    """A trail, and how it is shown."""

    trail: Trail
    # the path that was given
    name: str
    # a sentence on what the answer rests on; empty for a trail
    note: str = ""
    # what JSON says of it; empty for a trail
    facts: dict[str, Any] = field(default_factory=dict)

    def show_note(self) -> None:
        """Print the sentence, if there is one."""
        if self.note:
            Console(piped=120).print(Text(self.note))


def is_model(path: Path) -> bool:
    """Whether a path is that of a model file; a trail is a folder."""
    return path.suffix.lower() in _SUFFIXES and not path.is_dir()


def refuse_model(path: Path, needed: str) -> None:
    """Refuse a model where a verb needs more than requests of disks.

    Raises:
        UsageError: it is one.
    """
    if is_model(path):
        raise UsageError(
            f"{path}: expected a trail, found a model: it doesn't hold {needed}",
            "name the trail that the model was fitted to",
        )


@contextmanager
def open_source(path: Path, seed: int | None, *, of_recording: str | None = None) -> Iterator[Source]:
    """A trail, or one of the requests that a model draws with a seed.

    `of_recording` is an option that was given and that only a recording has an answer to.

    Raises:
        UsageError: a seed for a trail, or such an option for a model, or a model of files.
        ModelError: the model can't be read, or draws nothing.
        TrailError: the trail can't be opened.
    """
    if not is_model(path):
        if seed is not None:
            raise UsageError(
                f"--seed: expected a model, found {path}",
                "a trail's requests are not drawn: leave --seed out",
            )
        yield Source(Trail(path), str(path))
        return
    if of_recording is not None:
        raise UsageError(
            f"{of_recording} can't be combined with a model: {path} holds requests of disks, without files and machines",
            f"leave {of_recording.split()[0]} out, or name the trail that the model was fitted to",
        )
    from iotrail.model.fit import load
    from iotrail.model.generate import generate
    from iotrail.model.source import expect_disks

    expect_disks(load(path), str(path))
    seed = _SEED if seed is None else seed
    with tempfile.TemporaryDirectory(prefix="iotrail-whatif-") as folder:
        drawn = Path(folder, f"{path.stem}.trail")
        generate(path, drawn, seed=seed, intensity=1.0, force=False)
        yield Source(
            Trail(drawn),
            str(path),
            f"The requests are drawn from the model {path} with seed {seed}: none of them was recorded. "
            "How close they are to those of its trail, iotrail model check says.",
            {"model": str(path), "seed": seed},
        )
