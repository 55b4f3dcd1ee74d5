"""A durable store that has loaded an empty folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.embedded.storage.decisions.scripted_medium import Kit


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[Kit]:
    made = Kit(tmp_path / "data")
    made.store.load()
    yield made
    made.store.close()
