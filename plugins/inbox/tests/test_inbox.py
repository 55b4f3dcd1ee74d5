"""A handler with an inbox does its work once for any number of deliveries: inbox and work share a transaction."""

import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import anyio
import pytest
from sqlalchemy import Column, Connection, Engine, Integer, MetaData, String, Table, create_engine, func, insert, select

from mqflow import App, Message
from mqflow.events import InDoubt
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.faults import Fault, Moment
from mqflow.testing.kit import QueueManagerKit
from mqflow_inbox import Inbox
from tests.postgresql import own_server

POSTGRESQL = os.environ.get("MQFLOW_INBOX_POSTGRESQL", "")
ORDERS = Table("orders", MetaData(), Column("id", Integer, primary_key=True), Column("body", String(20)))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """The URL of the server in the environment, or of a server that these tests start."""
    if POSTGRESQL:
        yield POSTGRESQL
        return
    with own_server() as url:
        yield url


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.xdist_group("postgresql"))])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    postgresql = request.param == "postgresql"
    engine = create_engine(request.getfixturevalue("postgresql") if postgresql else f"sqlite:///{tmp_path}/orders.db")
    inbox = Inbox("any")
    with engine.begin() as db:
        inbox.table.drop(db, checkfirst=True)
        ORDERS.drop(db, checkfirst=True)
        ORDERS.create(db)
        inbox.create(db)
        inbox.create(db)
    yield engine
    engine.dispose()


def message(number: int = 1) -> Message:
    return Message(MessageDescriptor(message_id=number.to_bytes(24)), b"", "ORDERS.IN")


def booked(engine: Engine) -> int:
    with engine.connect() as db:
        return db.execute(select(func.count()).select_from(ORDERS)).scalar_one()


def test_a_message_is_new_once(engine: Engine) -> None:
    inbox = Inbox("book")

    found = []
    for number in (1, 1, 2):
        with engine.begin() as db:
            found.append(inbox.first_time(db, message(number)))

    assert [True, False, True] == found


def test_a_message_that_was_rolled_back_was_not_handled(engine: Engine) -> None:
    inbox = Inbox("book")

    with engine.connect() as db:
        assert inbox.first_time(db, message())
        db.rollback()
    with engine.begin() as db:
        assert inbox.first_time(db, message())


def test_two_consumers_of_a_publication_each_handle_it(engine: Engine) -> None:
    with engine.begin() as db:
        assert [True, True] == [Inbox(name).first_time(db, message()) for name in ("book", "bill")]


def test_old_entries_are_forgotten_and_new_entries_stay(engine: Engine) -> None:
    inbox, now = Inbox("book"), datetime(2026, 1, 2, tzinfo=UTC)
    with engine.begin() as db:
        inbox.first_time(db, message(1), now=now - timedelta(days=2))
        inbox.first_time(db, message(2), now=now)

        assert 1 == inbox.forget(db, now - timedelta(days=1))
        assert [True, False] == [inbox.first_time(db, message(number)) for number in (1, 2)]


@pytest.mark.parametrize("hours", [9, -5])
def test_a_time_of_any_zone_forgets_only_older_entries(engine: Engine, hours: int) -> None:
    inbox, now = Inbox("book"), datetime(2026, 1, 2, tzinfo=UTC)
    here = now.astimezone(timezone(timedelta(hours=hours)))
    with engine.begin() as db:
        inbox.first_time(db, message(1), now=now)
        inbox.first_time(db, message(2), now=here)

        assert 0 == inbox.forget(db, here - timedelta(hours=1))
        assert 0 == inbox.forget(db, now - timedelta(hours=1))
        assert 2 == inbox.forget(db, here + timedelta(hours=1))


def test_a_time_without_a_zone_is_refused(engine: Engine) -> None:
    inbox, naive = Inbox("book"), datetime(2026, 1, 2)  # noqa: DTZ001 - refused for it
    with engine.begin() as db:
        with pytest.raises(ValueError, match="has no time zone"):
            inbox.forget(db, naive)
        with pytest.raises(ValueError, match="has no time zone"):
            inbox.first_time(db, message(), now=naive)


def test_a_second_delivery_that_runs_at_the_same_time_waits_for_the_first(engine: Engine) -> None:
    if engine.dialect.name == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    inbox, found = Inbox("book"), []

    def second() -> None:
        with engine.begin() as db:
            found.append(inbox.first_time(db, message()))

    thread = threading.Thread(target=second)
    with engine.begin() as db:
        assert inbox.first_time(db, message())
        thread.start()
    thread.join()

    assert [False] == found


def test_another_database_is_refused() -> None:
    class Elsewhere:
        class dialect:  # noqa: N801 - the name in SQLAlchemy
            name = "oracle"

    with pytest.raises(NotImplementedError, match="not on oracle"):
        Inbox("book").first_time(Elsewhere(), message())  # type: ignore[arg-type]  # the inbox reads only the dialect of it


@pytest.mark.parametrize("consumer", ["", "x" * 201])
def test_a_name_that_does_not_fit_is_refused(consumer: str) -> None:
    with pytest.raises(ValueError, match="1 to 200"):
        Inbox(consumer)


async def book_over_a_commit_in_doubt(mq: QueueManagerKit, engine: Engine, inbox: Inbox | None) -> None:
    """Handle an order whose commit gets no answer and has no effect, so that the order is redelivered."""
    app = App()

    @app.listener("ORDERS.IN")
    async def book(body: str, message: Message) -> None:
        with engine.begin() as db:
            if inbox is None or inbox.first_time(db, message):
                work(db, body)

    mq.define("ORDERS.IN", bothresh=5)
    async with mq.run(app):
        mq.faults.add(Fault(verb="MQCMIT", reason=Reason.CONNECTION_BROKEN, moment=Moment.BEFORE))
        await mq.put("ORDERS.IN", "order")
        await anyio.sleep(60)
    assert 1 == len(mq.told(InDoubt))
    assert 0 == mq.depth("ORDERS.IN")


def work(db: Connection, body: str) -> None:
    db.execute(insert(ORDERS).values(body=body))


@pytest.mark.mq_backend("asyncio", "trio")
async def test_an_order_whose_commit_was_in_doubt_is_booked_once(mq: QueueManagerKit, engine: Engine) -> None:
    await book_over_a_commit_in_doubt(mq, engine, Inbox("book"))

    assert 1 == booked(engine)


@pytest.mark.mq_backend("asyncio")
async def test_without_the_inbox_it_is_booked_twice(mq: QueueManagerKit, engine: Engine) -> None:
    await book_over_a_commit_in_doubt(mq, engine, None)

    assert 2 == booked(engine)
