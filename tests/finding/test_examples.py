"""Some of examples/diagnosis, recorded and judged: the whole way from a program to its first card."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "diagnosis"))

import judge

# Short ones, of different kinds of cause: calls, waits, locks, computing.
PLANTED = ("flush_per_record", "reopened_log", "failing_xattrs", "held_lock", "slow_pipe", "cpu_bound")
HEALTHY = ("find_tree", "sort_file", "python_import")
PROGRAMS = {program.name: program for kind in ("planted", "healthy") for program in judge.programs(kind)}


@pytest.mark.parametrize("name", PLANTED)
def test_the_first_card_names_the_planted_cause(name):
    program = PROGRAMS[name]
    if shutil.which(judge.INTERPRETERS[program.path.suffix]) is None:
        pytest.skip(f"{judge.INTERPRETERS[program.path.suffix]} is not installed")
    verdict = judge.judge(program)
    assert not verdict.skipped
    assert verdict.is_right, (verdict.wrong, [(card["cause"], card["title"]) for card in verdict.cards])


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_program_has_no_grave_card(name):
    verdict = judge.judge(PROGRAMS[name])
    assert not verdict.skipped
    assert [(card["cause"], card["title"]) for card in verdict.grave] == []


def test_there_are_enough_programs():
    planted, healthy = judge.programs("planted"), judge.programs("healthy")
    assert len(planted) >= 30
    assert len(healthy) >= 20
    assert all(program.causes for program in planted)
    assert not any(program.causes for program in healthy)
    held = [program for program in (*planted, *healthy) if program.is_held]
    assert 3.5 * len(held) >= len(planted) + len(healthy)
