"""The declarations of an application, and the errors about declarations that make no sense."""

import functools
import math
from collections.abc import Callable, Hashable
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from mqflow import App, Backout, Batch, ConfigurationError, Context, Message, Reject, Retry
from mqflow.app.channels.location import locate
from mqflow.testing.kit import QueueManagerKit


async def plain(order: bytes) -> None:
    """Handle nothing."""


def declare(handler: Callable[..., Any], **options: Any) -> App:
    app = App()
    app.listener("IN", **options)(handler)
    return app


async def two_payloads(first: bytes, second: str) -> None:
    """Take two payloads."""


async def no_annotation(order) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001 - the tested mistake
    """Take a parameter without annotation."""


async def starred(*orders: bytes) -> None:
    """Take any number of arguments."""


async def unreadable(order: "Nowhere") -> None:  # type: ignore[name-defined]  # noqa: F821 - the tested mistake
    """Take a parameter with an unknown annotation."""


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (two_payloads, "both 'first' and 'second' would be the payload; a handler takes one"),
        (no_annotation, "parameter 'order' has no annotation. Annotate the payload"),
        (starred, "a handler's parameters are plain names"),
        (unreadable, "an annotation cannot be read: name 'Nowhere' is not defined"),
    ],
)
def test_a_signature_that_cannot_be_filled_is_refused_by_the_handlers_name(handler: Callable[..., Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        declare(handler)

    assert handler.__qualname__ in str(refused.value)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": 0}, "concurrency=0: it must be a number, 1 or more"),
        ({"unit_of_work": -1}, "unit_of_work=-1: it must be a number, 1 or more"),
        ({"time_limit_s": 0}, "time_limit_s=0: it must be more than 0 seconds"),
        ({"time_limit_s": math.nan}, "time_limit_s=nan: it must be more than 0 seconds"),
        ({"stuck_after_s": math.nan}, "stuck_after_s=nan: it must be a number of seconds"),
        ({"backout": 3}, "backout=3: it must be a Backout, backout=Backout(...)"),
        ({"batch": 10}, "batch=10: it must be a Batch, batch=Batch(...)"),
        ({"concurrency": "4"}, "concurrency='4': it must be a number, 1 or more"),
        ({"strict_order": True, "concurrency": 2}, "strict_order allows one message in flight"),
    ],
)
def test_the_error_for_an_invalid_option_lists_the_accepted_values(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        declare(plain, **options)

    assert said in str(refused.value)
    assert "IN" in str(refused.value)


def test_a_handler_behind_one_that_takes_everything_is_refused() -> None:
    app = declare(plain)

    with pytest.raises(ConfigurationError, match="takes every message of IN"):
        app.listener("IN", where=lambda _: True)(plain)


def test_two_handlers_of_one_queue_agree_on_its_options() -> None:
    app = declare(plain, where=lambda _: True, concurrency=2)

    with pytest.raises(ConfigurationError, match="gives other options for IN"):
        app.listener("IN", concurrency=3)(plain)
    app.listener("IN")(plain)

    [listener] = app.listeners
    assert (2, 2) == (listener.options.concurrency, len(listener.handlers))


def test_a_batch_handler_is_alone_on_its_queue() -> None:
    async def batch(orders: list[bytes]) -> None:
        """Handle nothing."""

    app = declare(batch)

    with pytest.raises(ConfigurationError, match="must be the only handler of its queue"):
        app.listener("IN")(plain)


def test_a_batch_is_not_filtered_message_by_message() -> None:
    async def batch(orders: list[bytes]) -> None:
        """Handle nothing."""

    with pytest.raises(ConfigurationError, match="but this handler takes batches"):
        declare(batch, where=lambda _: True)


def mistaken(make: Callable[..., object], **values: object) -> Callable[[], object]:
    """Return a function that makes the record with these values, without the help of a type checker."""
    return functools.partial(make, **values)


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (mistaken(Backout, threshold=-1), "'queue' (BOTHRESH), 0 for never, or a number above"),
        (mistaken(Backout, threshold="3"), "threshold='3'): it takes 'queue' (BOTHRESH)"),
        (mistaken(Backout, queue=None), "the name of a queue, or '' for none"),
        (mistaken(Backout, pace=5), "pace=5): it takes a Pace"),
        (mistaken(Backout, never_retry=[KeyError]), "it takes a tuple of exception classes"),
        (mistaken(Backout, never_retry=KeyError), "it takes a tuple of exception classes"),
        (mistaken(Backout, never_retry=(KeyError(),)), "it takes a tuple of exception classes"),
        (mistaken(Backout, undecodable="requeue"), "it takes 'at-once' or 'redeliver'"),
        (mistaken(Backout, behaviour="jms-listener"), "it takes a Behaviour"),
        (mistaken(Batch, max=0), "max=0): it takes 1 or more messages"),
        (mistaken(Batch, max="9"), "max='9'): it takes 1 or more messages"),
        (mistaken(Batch, wait_ms=-1), "it takes 0 or more milliseconds"),
        (mistaken(Retry, after=-1), "a timedelta or seconds, from 0 to 3162240000 (a century)"),
        (mistaken(Retry, after=1e18), "Retry(after=1e+18): the pause is a timedelta or seconds, from 0 to"),
        (mistaken(Retry, after=float("nan")), "a timedelta or seconds, from 0 to 3162240000 (a century)"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_where_it_is_made(build: Callable[[], object], said: str) -> None:
    with pytest.raises(ValueError) as refused:  # noqa: PT011 - the test compares the text
        build()

    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("kafka://somewhere", "is not the URL of a queue manager. A URL is embedded:FOLDER"),
        ("ibmmq://host:1414/QM1", "a host needs a channel"),
        ("embedded:./data?qmgr=no%20name", "cannot be the name of a queue manager"),
        ("embedded:./data?queue=QM1", "queue is not known in a URL; only qmgr=NAME is"),
        ("", "is not the URL of a queue manager"),
        ("embedded:?qmgr=QM1", "embedded::memory:?qmgr=NAME (in memory)"),
    ],
)
def test_a_url_that_leads_nowhere_says_which_ones_lead_somewhere(url: str, said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        locate(url)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("url", "kind", "path", "name"),
    [
        ("embedded:./data?qmgr=QM7", "embedded", "data", "QM7"),
        ("embedded:/var/lib/qm", "embedded", "/var/lib/qm", "QM1"),
        ("embedded::memory:?qmgr=T", "memory", None, "T"),
        ("embedded+unix:/run/qm.sock?qmgr=QM1", "served", "/run/qm.sock", "QM1"),
    ],
)
def test_a_url_names_the_kind_the_place_and_the_name_of_a_queue_manager(
    url: str, kind: str, path: str | None, name: str
) -> None:
    found = locate(url)

    assert (kind, path, name) == (found.kind, None if found.path is None else str(found.path), found.queue_manager)


@pytest.mark.parametrize(
    "url",
    [
        "mq://app:hunter2@mq.example/QM1",
        "embedded:./data?password=hunter2",
        "embedded+tls://mq.example:1414/QM1?user=app&token=hunter2",
        "ibmmq:///QM1?ccdt=https://app:hunter2@mq.example/ccdt.json&chanel=X",
        "ibmmq:///QM1?ccdt=https://app:hunter2@mq.example/ccdt.json&channel=X",
    ],
)
def test_a_url_that_is_refused_shows_no_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        locate(url)

    assert "hunter2" not in str(refused.value)


async def test_an_application_runs_once_at_a_time_and_again_afterwards(mq: QueueManagerKit) -> None:
    mq.define("IN")
    app = declare(plain)

    async with mq.run(app):
        with pytest.raises(ConfigurationError, match="is running already"):
            async with mq.run(app):
                pass
    async with mq.run(app):
        assert 1 == len(app.listeners)


@pytest.mark.anyio
async def test_a_decorator_returns_the_function_unchanged() -> None:
    app = App()

    @app.listener("IN")
    @app.publisher("OUT")
    async def handler(order: bytes, message: Message, ctx: Context) -> bytes:
        raise Reject("called by hand")

    unused: Any = None
    with pytest.raises(Reject, match="called by hand"):
        await handler(b"", unused, unused)


@pytest.mark.parametrize("payload_type", [object, Any, dict, list[int], int | None, datetime, UUID, Decimal, Hashable])
def test_a_type_that_json_can_become_is_a_payload(payload_type: Any) -> None:
    def handle(payload: Any) -> None: ...

    handle.__annotations__["payload"] = payload_type

    App().listener("IN")(handle)
