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
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import error_for
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


def test_a_look_at_a_served_queue_manager_leaves_no_connection_behind(tmp_path: Path) -> None:
    with EmbeddedQueueManager("QM1") as own:
        own.administration.define(QueueAttributes(name="IN"))
        with closing(serve(own, tmp_path / "s")) as server, closing(ServedQueueManager(server.path, name="QM1")) as served:
            assert (QueueFigures(queue="IN", depth=0),) == figures(served, ["IN"])

            while server.connection_count:  # the server notices the end of a connection a moment later; the test has a limit
                os.sched_yield()
