"""A message is never moved back to its own queue. A queue with the same name on another queue manager is another queue.

MQOD.ResolvedQName and ResolvedQMgrName (from version 3) identify a queue. Without ResolvedQMgrName, the queue name decides.
"""

from typing import Any, cast

import anyio
import pytest
from msgspec import Struct

from mqflow import App, Reject
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import Disposed, Event
from mqflow.many_verbs import leads_back
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import OpenOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.actions import Redirect
from mqflow.runtime.connection.output_handles import OutputHandles
from mqflow.verbs import Connection, ObjectHandle


class Handle(Struct, frozen=True):
    """A handle as IBM MQ returns it: the handle names the queue and its queue manager."""

    resolved_queue: str
    resolved_queue_manager: str
    name: str = "Q"
    options: OpenOption = OpenOption.OUTPUT
    behind: Any = None


@pytest.mark.parametrize(
    ("target", "source", "same"),
    [
        (Handle("IN", "QM1"), Handle("IN", "QM1"), True),
        (Handle("IN", "QM2"), Handle("IN", "QM1"), False),
        (Handle("OUT", "QM1"), Handle("IN", "QM1"), False),
        (Handle("IN", ""), Handle("IN", "QM1"), True),  # without a queue manager name, the queue name decides
        (Handle("IN", ""), Handle("IN", ""), True),
    ],
)
def test_a_queue_is_the_same_by_name_and_queue_manager(target: Handle, source: Handle, *, same: bool) -> None:
    assert same is leads_back(target, source)


class WithRemoteQueue:
    """A connection to QM1, where FAR is a remote queue: the queue IN of the queue manager QM2."""

    def __init__(self, behind: Connection) -> None:
        self._behind = behind

    def __getattr__(self, name: str) -> Any:
        verb: Any = getattr(self._behind, name)
        if not callable(verb):
            return verb

        def call(*values: Any, **named: Any) -> Any:
            known = {key: _behind(value) for key, value in named.items()}
            done: Any = verb(*map(_behind, values), **known)
            if name != "open":
                return done
            resolved, manager = ("IN", "QM2") if done.name == "FAR" else (done.resolved_queue, "QM1")
            return Handle(resolved, manager, done.name, done.options, done)

        return call


def _behind(value: Any) -> Any:
    return value.behind if isinstance(value, Handle) else value


class QueueManager:
    """A queue manager with a remote queue, whose calls block."""

    name = "QM1"

    def __init__(self, backout_requeue_queue: str) -> None:
        self.behind = EmbeddedQueueManager("QM1")
        for queue in ("FAR", "IN"):
            attributes = QueueAttributes(name=queue, backout_threshold=1, backout_requeue_queue=backout_requeue_queue)
            self.behind.administration.define(attributes)

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        return cast("Connection", WithRemoteQueue(self.behind.connect(application_name=application_name, user=user)))


def test_a_backout_requeue_queue_elsewhere_with_the_name_of_this_one_takes_poison_messages() -> None:
    app, manager, moved = App(), QueueManager("FAR"), list[Disposed]()

    @app.listener("IN")
    async def handle(body: str) -> None:
        raise Reject("no")

    def note(event: Event) -> None:
        if isinstance(event, Disposed):
            moved.append(event)

    async def main() -> None:
        app.hooks.append(note)
        with anyio.fail_after(10):
            async with app.running(manager):
                await app.put("IN", "poison")
                while not moved:  # noqa: ASYNC110 - a thread changes `moved`
                    await anyio.sleep(0.005)

    anyio.run(main)

    assert [[0]] == [[attempt.reason for attempt in event.attempts] for event in moved]
    assert 1 == manager.behind.administration.queue_status("FAR").depth


def test_a_target_elsewhere_with_the_name_of_this_queue_is_another() -> None:
    connection = QueueManager("").connect()
    source: ObjectHandle = connection.open("IN", OpenOption.INPUT_SHARED | OpenOption.SAVE_ALL_CONTEXT)
    targets = OutputHandles(connection, source)

    assert "FAR" == targets._open(Redirect("FAR")).name
    with pytest.raises(MQIError, match=Reason.INVALID_DESTINATION.name):
        targets._open(Redirect("IN"))
