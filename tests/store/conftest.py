"""Stores on this machine."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from .cluster import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A store that isn't started yet."""
    if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
        pytest.skip("mounting the store needs root and /dev/fuse")
    store = Store(tmp_path / "store")
    yield store
    store.clean()
