"""Spring's listener container and Camel's JMS component use the queue manager with IBM's connection factory.

Each copies its messages to OUT in a transaction, and fails after the copy of a message with "bad" in its text.
"""

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from tests.foreign.jms.program import Scenario
from tests.queue_contents import browsed

pytestmark = pytest.mark.xdist_group("jms")  # one worker fetches, compiles and starts the program

FRAMEWORKS = pytest.mark.parametrize("framework", ["spring", "camel"])


def bodies(queue_manager: EmbeddedQueueManager, queue: str) -> list[str]:
    """Return the texts at the end of the committed messages on a queue."""
    return [got.body.rpartition(b">")[2].strip().decode() for got in browsed(queue_manager, queue)]


def depth(queue_manager: EmbeddedQueueManager, queue: str) -> int:
    """Return the CURDEPTH of a queue, which counts messages that are not committed too."""
    found = queue_manager.administration.queue(queue)
    return 0 if found is None else found.depth


@FRAMEWORKS
def test_a_framework_consumes_in_transactions(jms: Scenario, queue_manager: EmbeddedQueueManager, framework: str) -> None:
    assert ["one 1", "two 1", "three 1", "end"] == jms(f"{framework}:Q1:one,two,three")

    assert [] == bodies(queue_manager, "Q1")
    assert ["one", "two", "three"] == bodies(queue_manager, "OUT")


@FRAMEWORKS
def test_the_poison_message_of_a_framework_ends_on_the_backout_queue(
    jms: Scenario, queue_manager: EmbeddedQueueManager, framework: str
) -> None:
    """The copies of the failed deliveries are backed out."""
    assert ["bad 1", "bad 2", "good 1", "end"] == jms(f"{framework}:POISON:bad,good")

    assert {"POISON": [], "BOQ": ["bad"], "OUT": ["good"]} == {
        queue: bodies(queue_manager, queue) for queue in ("POISON", "BOQ", "OUT")
    }


@FRAMEWORKS
def test_the_move_of_a_framework_is_committed_before_its_next_message(
    jms: Scenario, queue_manager: EmbeddedQueueManager, framework: str
) -> None:
    """The defect of spring-framework#27987 does not show with these classes of IBM.

    The container polls, so the next receive moves the poison message in its transaction, and returns the next message. If that
    message fails, a rollback would undo the move. But the classes commit the move themselves if the transaction is empty.
    """
    seen: list[tuple[int, list[str]]] = []

    def look() -> None:
        seen.append((depth(queue_manager, "BOQ"), bodies(queue_manager, "BOQ")))

    said = jms(f"{framework}:POISON:bad-first,bad-look", stop=look)

    assert ["bad-first 1", "bad-first 2", "bad-look 1", "stop", "bad-look 2", "end"] == said
    assert [(1, ["bad-first"])] == seen
    assert ["bad-first", "bad-look"] == bodies(queue_manager, "BOQ")
