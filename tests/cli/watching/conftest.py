"""A short folder for control sockets: the path of a Unix socket has at most 107 bytes."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of all control sockets, for this process and its children."""
    with tempfile.TemporaryDirectory(prefix="mqf-") as short:
        monkeypatch.setenv("MQFLOW_CONTROL_FOLDER", short)
        yield Path(short)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Close the servers of the test at its end."""
    with ExitStack() as opened:
        yield opened
