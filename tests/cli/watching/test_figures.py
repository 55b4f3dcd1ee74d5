"""The figures of queues need inquire authority alone: a queue manager without administration tells the depth too."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mqflow import ConfigurationError
from mqflow.bindings.connect_options import ClientPackageError
from mqflow.cli.connection_options import administered
from mqflow.cli.watching.figures import QueueFigures, figures
from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.options import PutOption
from mqflow.mqi.reason_codes import Reason


def refusing(error: Exception, queue_manager: EmbeddedQueueManager) -> Any:
    """Return a queue manager whose administration raises this error."""

    class Refusing:
        connect = queue_manager.connect

        @property
        def administration(self) -> None:
            raise error

    return Refusing()


@pytest.mark.parametrize(
    "made",
    [
        lambda: ClientPackageError("IBM MQ has its own tools"),
        lambda: ConfigurationError("a channel table"),
        lambda: error_for(Reason.NOT_AUTHORIZED, "Administration", "", "QM1"),
    ],
    ids=["IBM MQ", "a channel table", "another user"],
)
def test_a_queue_manager_without_administration_tells_the_depth_and_no_age(made: Callable[[], Exception]) -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="IN"))
        other = refusing(made(), queue_manager)

        assert (QueueFigures(queue="IN", depth=0),) == figures(other, ["IN"])
        with administered(other) as administration:
            assert administration is None


class WithWarningsAsErrors:
    """A queue manager whose connections raise a warning of an inquiry about one attribute, as the clients of IBM MQ do."""

    def __init__(self, queue_manager: EmbeddedQueueManager) -> None:
        self._queue_manager = queue_manager

    def connect(self, **options: Any) -> Any:
        connection: Any = self._queue_manager.connect(**options)
        inquire = connection.inquire

        def inquire_or_raise(handle: Any, selectors: Any) -> Any:
            found = inquire(handle, selectors)
            if found.reason and len(selectors) == 1:
                raise error_for(found.reason, "MQINQ", "SHORT", "QM1")
            return found

        connection.inquire = inquire_or_raise
        return connection


@pytest.mark.parametrize("made", [lambda each: each, WithWarningsAsErrors])
def test_an_alias_has_the_figures_of_its_target(made: Callable[[EmbeddedQueueManager], Any]) -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        script = "DEFINE QLOCAL(IN)\nDEFINE QALIAS(SHORT) TARGET(IN)\nDEFINE QREMOTE(FAR) RNAME(X) RQMNAME(QM2)"
        assert 0 == mqsc.run(script, queue_manager.administration).exit_code()
        queue_manager.connect().put1("IN", MessageDescriptor(), b"x", PutOption.NO_SYNCPOINT)

        far, nowhere, own, short = figures(made(queue_manager), ["FAR", "NOWHERE", "IN", "SHORT"])

    assert QueueFigures(queue="FAR", refused="FAR is not a local queue, so it has no depth.") == far
    assert (None, True) == (nowhere.depth, "MQRC_UNKNOWN_OBJECT_NAME (2085)" in nowhere.refused)
    assert (1, 1, own.oldest_message_age_s) == (own.depth, short.depth, short.oldest_message_age_s)


def test_a_look_at_a_served_queue_manager_leaves_no_connection_behind(tmp_path: Path) -> None:
    with EmbeddedQueueManager("QM1") as own:
        own.administration.define(QueueAttributes(name="IN"))
        with closing(serve(own, tmp_path / "s")) as server, closing(ServedQueueManager(server.path, name="QM1")) as served:
            assert (QueueFigures(queue="IN", depth=0),) == figures(served, ["IN"])

            while server.connection_count:  # the server notices the end of a connection a moment later; the test has a limit
                os.sched_yield()
