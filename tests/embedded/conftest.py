"""The fixtures of the embedded queue manager's tests: a folder with a short path, queue managers, and a sender of PCF commands.

A file with another queue manager has a fixture `queue_manager` of its own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from tests.doubles import queue_manager_with
from tests.embedded.administration.commanding import Commander
from tests.embedded.disk_faults.disk import memory_folder


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in memory if possible. Its path is short enough for the name of a socket."""
    with memory_folder() as made:
        yield made


owner = queue_manager_with("DEFINE QLOCAL(ORDERS.IN)")
queue_manager = queue_manager_with("DEFINE QLOCAL(Q)")


@pytest.fixture
def commander(queue_manager: EmbeddedQueueManager) -> Iterator[Commander]:
    """A program that sends PCF commands to the queue manager and reads the responses."""
    with Commander(queue_manager) as made:
        yield made
