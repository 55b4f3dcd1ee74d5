"""The figures of queues: inquire authority is enough for the depth; the command server of IBM MQ tells the age on request."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mqflow import ConfigurationError
from mqflow.app.config.settings import Settings
from mqflow.bindings.connect_options import ClientPackageError
from mqflow.cli.connection_options import administered
from mqflow.cli.watching import endpoints
from mqflow.cli.watching.control import QueueFigures
from mqflow.cli.watching.figures import OldestAges, _depth, figures
from mqflow.embedded import mqsc
from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.client.queue_manager import ServedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.pcf.queue_status import number_in
from mqflow.mqi.pcf.structures import CFH, CFIN, CFST, PCFMessage
from mqflow.mqi.reason_codes import Reason
from mqflow.verbs import GetOptions, QueueManager
from mqflow.world import World
from tests.client_packages import PACKAGES
from tests.conformance.through_packages import through
from tests.conformance.under_test import ManualClock, UnderTest

COMMANDS = "SYSTEM.ADMIN.COMMAND.QUEUE"


def grants(**authorities: str) -> str:
    """Return the commands that give the user orders CONNECT, and these authorities on queues."""
    profiles = {"COMMANDS": COMMANDS, "MODEL": "SYSTEM.DEFAULT.MODEL.QUEUE"}
    connect = "SET AUTHREC OBJTYPE(QMGR) PRINCIPAL('orders') AUTHADD(CONNECT)\n"
    return connect + "".join(
        f"SET AUTHREC PROFILE('{profiles.get(name, name)}') OBJTYPE(QUEUE) PRINCIPAL('orders') AUTHADD({authority})\n"
        for name, authority in authorities.items()
    )


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


@contextmanager
def ibm_mq(package: str) -> Iterator[tuple[EmbeddedQueueManager, QueueManager]]:
    """Give a queue manager with 2 messages on IN, and the same queue manager as a package of IBM MQ reaches it."""
    clock = ManualClock()
    with EmbeddedQueueManager("QM1", world=World(clock)) as own:
        for queue in ("IN", "EMPTY"):
            own.administration.define(QueueAttributes(name=queue))
        connection = own.connect()
        for _ in range(2):
            connection.put1("IN", MessageDescriptor(), b"order", PutOption.NO_SYNCPOINT)
            clock.advance(5)
        if package == "the seam":
            yield own, refusing(ClientPackageError("IBM MQ has its own tools"), own)
            return
        under_test = UnderTest(own, own.administration, kill=lambda _: None, quiesce=own.quiesce, stop=own.stop)
        with contextmanager(through)(package, under_test) as reached:
            yield own, reached.queue_manager


@pytest.mark.parametrize("package", ["the seam", *PACKAGES])
def test_the_command_server_tells_the_ages_if_the_settings_ask_for_them(package: str) -> None:
    with ibm_mq(package) as (own, there):
        assert 0 == mqsc.run("DEFINE QALIAS(SHORT) TARGET(IN)", own.administration).exit_code()
        asked, not_asked = figures(there, ["IN", "EMPTY", "SHORT"], OldestAges()), figures(there, ["IN"])

    full = QueueFigures(queue="IN", depth=2, oldest_message_age_s=10)
    assert (full, QueueFigures(queue="EMPTY", depth=0), replace(full, queue="SHORT")) == asked
    assert (QueueFigures(queue="IN", depth=2),) == not_asked


@pytest.mark.parametrize(("queue_status", "age_s"), [(True, 10), (False, None)])
def test_an_application_asks_for_the_ages_if_its_settings_say_so(age_s: int | None, *, queue_status: bool) -> None:
    with ibm_mq("the seam") as (_, there):
        inquire = endpoints._figures_of(("",), lambda _: nullcontext(there), Settings(queue_status=queue_status))

        assert (QueueFigures(queue="IN", depth=2, oldest_message_age_s=age_s),) == inquire(["IN"])


@pytest.mark.parametrize(
    ("script", "queue", "wait_s", "asks"),
    [
        pytest.param(f"ALTER QLOCAL({COMMANDS}) PUT(DISABLED)", "IN", 20, 3, id="a refusal that can pass: again"),
        pytest.param(f"ALTER QLOCAL({COMMANDS}) GET(DISABLED)", "IN", 0, 3, id="no answer: again"),
        pytest.param("DEFINE QALIAS(A) TARGET(IN)", "A", 20, 1, id="no status of an alias: not for it again"),
        pytest.param(grants(MODEL="GET"), "IN", 20, 1, id="no PUT: never again"),
        pytest.param(grants(MODEL="GET", COMMANDS="PUT"), "IN", 20, 1, id="a refused command: not for this queue again"),
    ],
)
def test_an_age_that_is_not_told_is_unknown_and_a_refusal_is_final(
    script: str, queue: str, wait_s: float, asks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    put1, sent = EmbeddedConnection.put1, Counter[str]()

    def noting(connection: EmbeddedConnection, target: str, *given: Any, **named: Any) -> Any:
        sent[target] += 1
        return put1(connection, target, *given, **named)

    monkeypatch.setattr(EmbeddedConnection, "put1", noting)
    with ibm_mq("the seam") as (own, there):
        assert 0 == mqsc.run(script, own.administration).exit_code()
        asking, connection = OldestAges(wait_s=wait_s), there.connect(user="orders")

        assert [{}] * 3 == [asking(connection, [queue]) for _ in range(3)]
    assert asks == sent[COMMANDS]


@pytest.mark.parametrize(
    ("value", "age_s"), [(0, 0), (7, 7), (-1, None)], ids=["younger than a second", "seconds", "MONQ(OFF)"]
)
def test_a_queue_that_is_not_monitored_has_no_age(value: int, age_s: int | None) -> None:
    assert age_s == number_in(PCFMessage(CFH(), (CFST(2016, "IN"), CFIN(1227, value))), 1227)
    assert number_in(PCFMessage(CFH(), (CFIN(3, value),)), 1227) is None


@pytest.mark.parametrize(
    ("depth", "age_s", "uncommitted", "text"),
    [(0, None, None, ""), (3, None, None, "unknown"), (3, None, 2, "unknown"), (3, None, 3, "in flight"),
     (None, None, None, ""), (3, 0, 1, "0 s"), (3, 7_200, None, "7,200 s")],
)  # fmt: skip
def test_an_unknown_age_is_no_zero(depth: int | None, age_s: int | None, uncommitted: int | None, text: str) -> None:
    found = QueueFigures(queue="IN", depth=depth, oldest_message_age_s=age_s, uncommitted=uncommitted)

    assert text == found.oldest


def test_messages_in_units_of_work_are_in_flight_and_not_of_unknown_age() -> None:
    with EmbeddedQueueManager("QM1") as own:
        own.administration.define(QueueAttributes(name="IN"))
        connection = own.connect()
        connection.put1("IN", MessageDescriptor(), b"x", PutOption.NO_SYNCPOINT)
        connection.get(connection.open("IN", OpenOption.INPUT_SHARED), GetOptions(options=GetOption.SYNCPOINT))

        [found] = figures(own, ["IN"])

    assert (1, 1, "in flight") == (found.depth, found.uncommitted, found.oldest)


def test_a_look_at_a_served_queue_manager_leaves_no_connection_behind(tmp_path: Path) -> None:
    with EmbeddedQueueManager("QM1") as own:
        own.administration.define(QueueAttributes(name="IN"))
        with closing(serve(own, tmp_path / "s")) as server, closing(ServedQueueManager(server.path, name="QM1")) as served:
            assert (QueueFigures(queue="IN", depth=0, uncommitted=0),) == figures(served, ["IN"])

            while server.connection_count:  # the server notices the end of a connection a moment later; the test has a limit
                os.sched_yield()


def test_a_depth_that_is_refused_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a queue without messages of its own has no depth."""

    def refused(*_: object) -> None:
        raise error_for(Reason.NOT_AUTHORIZED, "MQINQ", "IN", "QM1")

    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="IN"))
        connection = queue_manager.connect()
        monkeypatch.setattr(EmbeddedConnection, "inquire", refused)

        with pytest.raises(MQIError, match="MQRC_NOT_AUTHORIZED"):
            _depth(connection, "IN")
