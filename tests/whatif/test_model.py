"""`iotrail whatif` of a model: what it says of the trail that the model draws."""

import functools
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from .. import command
from .conftest import MAP, UNBROKEN

iotrail = functools.partial(command.iotrail, env=UNBROKEN)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of 3,000 requests, some to places used before."""
    folder, random, used, lines = tmp_path_factory.mktemp("model"), Random(1), [0], []
    for number in range(3000):
        used.append(random.choice(used[-100:]) if random.random() < 0.5 else random.randrange(4096) * 8192)
        lines.append(f"{number * 5000},{used[-1]},8192,{random.choice('rrw')},1000\n")
    (folder / "app.csv").write_text("".join(lines))
    iotrail("import", "csv", folder / "app.csv", "--map", MAP, "-o", folder / "app.trail")
    iotrail("model", "fit", folder / "app.trail", "-o", folder / "app.json", "--levels", "2")
    return folder / "app.json"


@pytest.mark.parametrize(
    "words",
    [
        ("cache", "--policy", "lru,arc"),
        ("cache", "--on", "hdd-7200", "--cache-latency", "20us", "--size", "0,1M"),
        ("device", "--on", "hdd-7200", "--on", "hdd-10k"),
    ],
)
@pytest.mark.parametrize("seed", [None, 7])
def test_a_model_answers_as_the_trail_it_draws(
    model: Path, tmp_path: Path, words: tuple[str, ...], seed: int | None
) -> None:
    drawn = tmp_path / "drawn.trail"
    iotrail("generate", model, "-o", drawn, "--seed", seed or 1)
    verb, *options = words
    given = [] if seed is None else ["--seed", seed]
    found: dict[str, Any] = json.loads(iotrail("whatif", verb, model, *options, *given, "--json"))
    assert (found.pop("model"), found.pop("seed")) == (str(model), seed or 1)
    assert found == json.loads(iotrail("whatif", verb, drawn, *options, "--json"))


def test_the_answer_says_that_it_is_of_a_model(model: Path, tmp_path: Path) -> None:
    note = f"drawn from the model {model} with seed 1"
    assert note in iotrail("whatif", "device", model, "--on", "hdd-7200")
    html = tmp_path / "cache.html"
    assert note in iotrail("whatif", "cache", model, "--policy", "lru", "--html", html)
    assert note in html.read_text()


def test_what_a_model_has_no_answer_to_is_refused(model: Path, tmp_path: Path) -> None:
    for words, part in (
        (("defrag", model, "--on", "hdd-7200"), "which part of which file"),
        (("ram", model, "--size", "1M"), "requests of clients"),
        (("move", model, "--client", "a", "--to", "b"), "requests of clients"),
        (("merge", model, "--client", "a", "--with", "b"), "requests of clients"),
        (("encode", model, "--client", "a", "--copies", "2"), "requests of clients"),
        (("cache", model, "--of", "files"), "--of files can't be combined with a model"),
        (("cache", model, "--node", "n"), "--node can't be combined with a model"),
    ):
        said = iotrail("whatif", *words, fails=True)
        assert part in said and "hint:" in said and "Traceback" not in said, said
    broken = tmp_path / "b.json"
    broken.write_text("{}")
    assert "not a model" in iotrail("whatif", "device", broken, "--on", "hdd-7200", fails=True)
    drawn = tmp_path / "drawn.trail"
    iotrail("generate", model, "-o", drawn)
    said = iotrail("whatif", "device", drawn, "--on", "hdd-7200", "--seed", "2", fails=True)
    assert "--seed: expected a model" in said
