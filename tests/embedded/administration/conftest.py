"""The fixtures of the command server's tests. A file with another queue manager has a fixture `queue_manager` of its own."""

from collections.abc import Iterator

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from tests.embedded.administration.commanding import Commander


@pytest.fixture
def queue_manager() -> Iterator[EmbeddedQueueManager]:
    """A queue manager with the queue Q."""
    with EmbeddedQueueManager("QM1") as made:
        made.administration.define(QueueAttributes(name="Q"))
        yield made


@pytest.fixture
def commander(queue_manager: EmbeddedQueueManager) -> Iterator[Commander]:
    """A program that sends PCF commands to the queue manager and reads the responses."""
    with Commander(queue_manager) as made:
        yield made
