"""A message of the outbox is on its queue exactly once for each row that was committed, whatever fails."""

import re
from collections.abc import AsyncIterator, Collection, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable

from mqflow import App, Codec, ConfigurationError, Message, MQIError
from mqflow.app.config.settings import load
from mqflow.app.handlers.outgoing_message import outgoing
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import Found, QueueManagerKit
from mqflow_outbox import Outbox, relayed
from tests.postgresql import own_server

MARKER = "OUTBOX.MARKER"


@pytest.fixture
def outbox() -> Outbox:
    return Outbox()


@pytest.fixture
def engine(tmp_path: Path, outbox: Outbox) -> Iterator[Engine]:
    made = create_engine(f"sqlite:///{tmp_path}/o.db")
    event.listen(made, "connect", lambda raw, _: raw.execute("PRAGMA synchronous=OFF"))  # no test cuts the power
    with made.begin() as db:
        outbox.create(db)
    yield made
    made.dispose()


@pytest.fixture
def mq(mq: QueueManagerKit) -> QueueManagerKit:
    for queue in ("OUT", "OTHER"):
        mq.define(queue)
    mq.mqsc(f"DEFINE QLOCAL({MARKER}) NOSHARE")
    return mq


def application(engine: Engine, outbox: Outbox, codec: Codec | None = None, **options: int) -> App:
    @asynccontextmanager
    async def lifespan(app: App) -> AsyncIterator[None]:
        async with relayed(app, engine, outbox, MARKER, **options):
            yield

    return App(lifespan=lifespan, codec=codec)


def put(engine: Engine, outbox: Outbox, *payloads: object, queue: str = "OUT") -> list[bytes]:
    with engine.begin() as db:
        return [outbox.put(db, queue, payload) for payload in payloads]


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    with own_server() as url:
        yield url


async def put_by(mq: QueueManagerKit, app: App, messages: int) -> list[Found]:
    """Run an application until its relay has put the messages, and a minute longer. Return the messages."""
    async with mq.run(app):
        found = await mq.drain("OUT", at_least=messages)
        await anyio.sleep(60)
    return found


def rows(engine: Engine, outbox: Outbox) -> int:
    with engine.begin() as db:
        return len(outbox.waiting(db, 1_000))


# -- the table


def test_a_message_of_a_transaction_that_is_rolled_back_was_never_put(engine: Engine, outbox: Outbox) -> None:
    with suppress(ZeroDivisionError), engine.begin() as db:
        outbox.put(db, "OUT", "lost")
        raise ZeroDivisionError

    assert 0 == rows(engine, outbox)


@pytest.mark.parametrize(
    ("queue", "options", "said"),
    [
        ("", {}, "1 to 48 characters"),
        ("Q" * 49, {}, "1 to 48 characters"),
        ("OUT", {"reply_to": "Q" * 49}, "1 to 48 characters"),
        ("OUT", {"correlation_id": b"short"}, "a CorrelId has 24 bytes, not 5"),
        ("OUT", {"priority": 10}, "a priority is 0 to 9, not 10"),
        ("ÖRDERS", {}, "A-Z a-z 0-9 . _ / %"),
        ("A B", {}, "A-Z a-z 0-9 . _ / %"),
        ("OUT", {"reply_to": "A B"}, "A-Z a-z 0-9 . _ / %"),
        ("OUT", {"properties": {"a b": 1}}, "'a b' is not a name of an element"),
        ("OUT", {"properties": {"a": 2**70}}, "The value of a, of the class int, does not fit its type i8"),
        ("OUT", {"properties": {"a": "\0"}}, "A control character"),
        ("OUT", {"properties": {"a": "\ud800"}}, "half of a surrogate pair"),
        ("OUT", {"properties": {"a": float("nan")}}, "property 'a' is nan, and JSON has no such number"),
    ],
)
def test_what_no_message_can_have_is_refused_in_the_transaction(
    engine: Engine, outbox: Outbox, queue: str, options: dict[str, str], said: str
) -> None:
    with engine.begin() as db, pytest.raises(ValueError, match=re.escape(said)):
        outbox.put(db, queue, "x", **options)  # type: ignore[arg-type]  # each row has one option

    assert 0 == rows(engine, outbox)


@pytest.mark.parametrize("value", [b"abc", [1], 1j])
def test_a_property_of_another_type_is_refused(engine: Engine, outbox: Outbox, value: Any) -> None:
    with engine.begin() as db, pytest.raises(TypeError, match="it takes str, int, float"):
        outbox.put(db, "OUT", "x", properties={"a": value})


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_json_does_not_have_is_refused(engine: Engine, outbox: Outbox, number: float) -> None:
    with engine.begin() as db, pytest.raises(ValueError, match=f"total is {number}, and JSON has no such number"):
        outbox.put(db, "OUT", {"total": number})


@pytest.mark.parametrize("payload", [b"abc", bytearray(b"abc"), memoryview(b"abc"), "abc", {"a": 1}, None])
def test_a_payload_becomes_the_body_of_an_ordinary_put(engine: Engine, outbox: Outbox, payload: object) -> None:
    ordinary = outgoing("OUT", payload)
    with engine.begin() as db:
        outbox.put(db, "OUT", payload)
        [found] = outbox.waiting(db, 1)

    assert (ordinary.body, ordinary.descriptor.format) == (found.body, found.format)


def test_the_table_can_be_created_on_postgresql(outbox: Outbox) -> None:
    created = str(CreateTable(outbox.table).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]  # SQLAlchemy's

    assert "number BIGSERIAL NOT NULL" in created
    assert "body BYTEA NOT NULL" in created


# -- the relay


@pytest.mark.mq_backend("asyncio", "trio")
async def test_each_committed_message_is_put_once_in_order_with_its_msgid(
    mq: QueueManagerKit, engine: Engine, outbox: Outbox
) -> None:
    early = put(engine, outbox, *({"number": number} for number in range(5)))
    async with mq.run(application(engine, outbox, batch_max=2, poll_s=20)):
        found = await mq.drain("OUT", at_least=5)
        late = put(engine, outbox, "late")
        [last] = await mq.drain("OUT")
        await anyio.sleep(60)

    assert [{"number": number} for number in range(5)] == [each.json() for each in found]
    assert [*early, *late] == [each.message_id for each in (*found, last)]
    assert "late" == last.text()
    assert 0 == rows(engine, outbox)
    assert 1 == mq.depth(MARKER)


@pytest.mark.mq_backend("asyncio")
async def test_a_message_has_the_fields_that_its_put_gave(mq: QueueManagerKit, engine: Engine, outbox: Outbox) -> None:
    with engine.begin() as db:
        outbox.put(
            db, "OUT", b"\x00\xff", correlation_id=b"c" * 24, reply_to="OTHER", priority=7, persistent=False,
            properties={"kind": "bytes", "lines": 3},
        )  # fmt: skip
    async with mq.run(application(engine, outbox)):
        [found] = await mq.drain("OUT")

    descriptor = found.descriptor
    assert (b"c" * 24, "OTHER", 7, 0) == (
        descriptor.correlation_id, descriptor.reply_to_queue, descriptor.priority, descriptor.persistence,
    )  # fmt: skip
    assert found.data.endswith(b"\x00\xff")
    assert {"kind": "bytes", "lines": 3} == dict(Message(found.descriptor, found.data, "OUT").properties)


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("nth", range(3, 15))
@pytest.mark.mq_backend("asyncio")
async def test_a_connection_that_is_lost_at_any_call_loses_and_doubles_no_message(
    mq: QueueManagerKit, engine: Engine, outbox: Outbox, nth: int, moment: Moment
) -> None:
    identifiers = put(engine, outbox, *range(5))
    mq.faults.add(Fault(nth=nth, moment=moment, reason=Reason.CONNECTION_BROKEN))
    with suppress(MQIError):
        async with mq.run(application(engine, outbox, batch_max=2, poll_s=20)):
            await anyio.sleep(100)
    found = await put_by(mq, application(engine, outbox, batch_max=2, poll_s=20), 5)

    assert identifiers == [each.message_id for each in found]
    assert (0, 1) == (rows(engine, outbox), mq.depth(MARKER))


class Killed(BaseException):
    """The process of the relay ends here."""


class Mortal(Outbox):
    """An outbox whose relay ends at one of its steps in the database, before or after the step."""

    def __init__(self, step: int, *, after: bool) -> None:
        super().__init__()
        self.left, self.after = step, after

    def _step(self, *, is_over: bool) -> None:
        self.left -= is_over == self.after
        if self.left == 0 and is_over == self.after:
            raise Killed

    def waiting(self, connection: Connection, most: int, *, without: Collection[str] = ()) -> list:  # type: ignore[type-arg]  # as the base
        self._step(is_over=False)
        found = super().waiting(connection, most, without=without)
        self._step(is_over=True)
        return list(found)

    def remove(self, connection: Connection, message_ids: Collection[bytes]) -> None:
        self._step(is_over=False)
        super().remove(connection, message_ids)
        connection.commit()
        self._step(is_over=True)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", range(1, 9))
@pytest.mark.mq_backend("asyncio")
async def test_a_relay_that_is_killed_at_any_step_loses_and_doubles_no_message(
    mq: QueueManagerKit, engine: Engine, outbox: Outbox, step: int, *, after: bool
) -> None:
    identifiers = put(engine, outbox, *range(5))
    mortal = Mortal(step, after=after)
    with pytest.raises(Killed):
        async with mq.run(application(engine, mortal, batch_max=2, poll_s=20)):
            await anyio.sleep(100)
    found = await put_by(mq, application(engine, outbox, batch_max=2, poll_s=20), 5)

    assert identifiers == [each.message_id for each in found]
    assert (0, 1) == (rows(engine, outbox), mq.depth(MARKER))


@pytest.mark.mq_backend("asyncio")
async def test_a_relay_whose_marker_is_gone_puts_the_last_batch_again(
    mq: QueueManagerKit, engine: Engine, outbox: Outbox
) -> None:
    put(engine, outbox, 1, 2)
    with pytest.raises(Killed):
        async with mq.run(
            application(engine, Mortal(3, after=False), poll_s=20)
        ):  # after the commit, before the rows are removed
            await anyio.sleep(100)
    mq.mqsc(f"CLEAR QLOCAL({MARKER})")
    async with mq.run(application(engine, outbox)):
        found = await mq.drain("OUT", at_least=4)

    assert 2 == len({each.message_id for each in found})


@pytest.mark.mq_backend("asyncio", "trio")
async def test_a_queue_that_refuses_delays_only_its_own_messages(mq: QueueManagerKit, engine: Engine, outbox: Outbox) -> None:
    mq.mqsc("ALTER QLOCAL(OTHER) PUT(DISABLED)")
    for number in range(3):
        put(engine, outbox, number)
        put(engine, outbox, f"other {number}", queue="OTHER")
    async with mq.run(application(engine, outbox)):
        found = await mq.drain("OUT", at_least=3)
        assert 3 == rows(engine, outbox)
        mq.mqsc("ALTER QLOCAL(OTHER) PUT(ENABLED)")
        others = await mq.drain("OTHER", at_least=3)
        await anyio.sleep(60)

    assert [0, 1, 2] == [each.json() for each in found]
    assert ["other 0", "other 1", "other 2"] == [each.text() for each in others]


@pytest.mark.mq_backend("asyncio", "trio")
async def test_a_lost_connection_is_no_refusal_by_a_queue(
    mq: QueueManagerKit, engine: Engine, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    put(engine, outbox, 0, 1)
    mq.faults.add(Fault(verb="MQPUT", nth=2, moment=Moment.BEFORE, reason=Reason.CONNECTION_BROKEN))
    found = await put_by(mq, application(engine, outbox), 2)

    assert [0, 1] == [each.json() for each in found]
    assert "The relay of the outbox tries again in 1 s." in caplog.text
    assert "refused a message" not in caplog.text


@pytest.mark.parametrize("operations_max", [3, 4, 7])
@pytest.mark.mq_backend("asyncio", "trio")
async def test_a_batch_is_made_smaller_until_the_unit_of_work_has_room(
    mq: QueueManagerKit, engine: Engine, outbox: Outbox, caplog: pytest.LogCaptureFixture, operations_max: int
) -> None:
    mq.mqsc(f"ALTER QMGR MAXUMSGS({operations_max})")
    identifiers = put(engine, outbox, *range(9))
    found = await put_by(mq, application(engine, outbox), 9)

    assert identifiers == [each.message_id for each in found]
    assert (0, 1) == (rows(engine, outbox), mq.depth(MARKER))
    assert not caplog.text


@pytest.mark.mq_backend("asyncio")
async def test_a_unit_of_work_without_room_for_one_message_is_logged_and_tried_again(
    mq: QueueManagerKit, engine: Engine, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    mq.mqsc("ALTER QMGR MAXUMSGS(1)")
    identifiers = put(engine, outbox, 0, 1)
    async with mq.run(application(engine, outbox)):
        await anyio.sleep(10)
        assert "MQRC_SYNCPOINT_LIMIT_REACHED (2024)" in caplog.text
        assert "refused a message" not in caplog.text
        mq.mqsc("ALTER QMGR MAXUMSGS(10)")
        found = await mq.drain("OUT", at_least=2)

    assert identifiers == [each.message_id for each in found]


@pytest.mark.mq_backend("asyncio")
async def test_a_batch_without_messages_is_refused(mq: QueueManagerKit, engine: Engine, outbox: Outbox) -> None:
    with pytest.raises(ConfigurationError, match="batch_max=0: a batch of the outbox has at least 1 message"):
        async with mq.run(application(engine, outbox, batch_max=0)):
            pass


@pytest.mark.parametrize("mode", ["ANY", "ASDEF"])
def test_a_reconnection_to_another_queue_manager_is_refused(engine: Engine, outbox: Outbox, tmp_path: Path, mode: str) -> None:
    app = App(settings=load(environment={"MQFLOW_RECONNECT_MODE": mode}, folder=tmp_path))

    async def run() -> None:
        async with relayed(app, engine, outbox, MARKER):
            pass

    with pytest.raises(
        ConfigurationError, match=re.escape(f'reconnect.mode is "{mode}", and another queue manager has no marker')
    ):
        anyio.run(run)


class Upper:
    """A codec of an application, which no message of the outbox needs."""

    def decode(self, message: Message, payload_type: Any) -> Any:
        raise NotImplementedError

    def encode(self, payload: Any) -> tuple[bytes, str, int]:
        return str(payload).upper().encode(), "", 0


@pytest.mark.mq_backend("asyncio")
async def test_the_codec_of_the_application_does_not_change_a_message(
    mq: QueueManagerKit, engine: Engine, outbox: Outbox
) -> None:
    app = application(engine, outbox, codec=Upper())
    identifiers = put(engine, outbox, "one", "two")
    found = await put_by(mq, app, 2)

    assert identifiers == [each.message_id for each in found]
    assert ["one", "two"] == [each.text() for each in found]


@pytest.mark.mq_backend("asyncio")
async def test_a_second_relay_waits_until_the_first_ends(mq: QueueManagerKit, engine: Engine, outbox: Outbox) -> None:
    second = application(engine, outbox)
    async with mq.run(application(engine, outbox)), second.running(mq.queue_manager, clock=mq.clock):
        identifiers = put(engine, outbox, *range(3))
        found = await mq.drain("OUT", at_least=3)
        await anyio.sleep(60)

    assert identifiers == [each.message_id for each in found]


@pytest.mark.mq_backend("asyncio")
async def test_a_marker_queue_that_is_shared_is_refused(mq: QueueManagerKit, engine: Engine, outbox: Outbox) -> None:
    mq.mqsc(f"ALTER QLOCAL({MARKER}) SHARE")

    with pytest.raises(ConfigurationError, match=rf"ALTER QLOCAL\('{MARKER}'\) NOSHARE"):
        async with mq.run(application(engine, outbox)):
            await anyio.sleep(60)


@pytest.mark.mq_backend("asyncio")
async def test_an_error_of_the_database_is_logged_and_tried_again(
    mq: QueueManagerKit, engine: Engine, outbox: Outbox, caplog: pytest.LogCaptureFixture
) -> None:
    with engine.begin() as db:
        outbox.table.drop(db)
    async with mq.run(application(engine, outbox)):
        await anyio.sleep(10)
        assert "no such table" in caplog.text
        with engine.begin() as db:
            outbox.create(db)
        identifiers = put(engine, outbox, "x")
        [found] = await mq.drain("OUT")

    assert identifiers == [found.message_id]


@pytest.mark.xdist_group("postgresql")
@pytest.mark.mq_backend("asyncio")
async def test_on_postgresql_a_message_that_is_committed_after_a_later_one_is_put_too(
    mq: QueueManagerKit, server: str, outbox: Outbox
) -> None:
    engine = create_engine(server)
    with engine.begin() as db:
        outbox.create(db)
    with engine.connect() as slow:
        first = outbox.put(slow, "OUT", "first", properties={"kind": "slow"})
        second = put(engine, outbox, "second")
        async with mq.run(application(engine, outbox)):
            [early] = await mq.drain("OUT")
            slow.commit()
            [late] = await mq.drain("OUT")
            await anyio.sleep(10)
    left = rows(engine, outbox)
    engine.dispose()

    assert [*second, first] == [early.message_id, late.message_id]
    assert 0 == left
