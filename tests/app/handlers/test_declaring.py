"""The declarations of an application, and the errors about declarations that make no sense."""

import functools
import math
from collections.abc import Callable, Hashable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import anyio
import anyio.to_thread
import pytest

from mqflow import App, Backout, Batch, ConfigurationError, Context, Message, Property, Reject, Retry, Router, Settings
from mqflow.app.channels.location import locate
from mqflow.app.config.settings import ListenerSettings
from mqflow.testing.kit import QueueManagerKit


async def plain(order: bytes) -> None:
    """Handle nothing."""


async def many(orders: list[bytes]) -> None:
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


async def by_position(message: Message, /) -> None:
    """Take a message that no name can give."""


async def starred_messages(*messages: Message) -> None:
    """Take any number of messages."""


async def property_by_position(tenant: Annotated[str, Property()], /) -> None:
    """Take a property that no name can give."""


async def message_or_none(message: Message | None) -> None:
    """Take a message, with a type that is no message."""


async def nothing(order: None) -> None:
    """Take nothing."""


@pytest.mark.parametrize(
    ("handler", "said"),
    [
        (two_payloads, "both 'first' and 'second' would be the payload; a handler takes one"),
        (no_annotation, "parameter 'order' has no annotation. Annotate the payload"),
        (starred, "a handler's parameters are plain names"),
        (unreadable, "an annotation cannot be read: name 'Nowhere' is not defined"),
        (by_position, "message: mqflow.app.handlers.message.Message cannot be filled"),
        (starred_messages, "*messages: mqflow.app.handlers.message.Message cannot be filled"),
        (property_by_position, "cannot be filled: a handler's parameters are plain names"),
        (message_or_none, "JSON cannot be decoded to Message"),
        (nothing, "None cannot be a payload. For a payload of any type, write Any"),
    ],
)
def test_a_signature_that_cannot_be_filled_is_refused_by_the_handlers_name(handler: Callable[..., Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        declare(handler)

    assert handler.__qualname__ in str(refused.value)
    assert said in str(refused.value)


def test_the_error_for_a_pydantic_model_inside_another_type_names_the_remedy() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Line", number=(int, ...))

    async def handle(order: Any) -> None: ...

    handle.__annotations__["order"] = model | None
    with pytest.raises(ConfigurationError, match=r"Line can be the whole payload, but no part .* Take a pydantic\.RootModel"):
        declare(handle)

    handle.__annotations__["order"] = pydantic.RootModel[model | None]
    assert declare(handle).listeners[0].handlers


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
        ({"strict_order": "no"}, "strict_order='no': it must be True or False"),
        ({"strict_order": True, "concurrency": 2}, "strict_order allows one message in flight"),
    ],
)
def test_the_error_for_an_invalid_option_lists_the_accepted_values(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        declare(plain, **options)

    assert said in str(refused.value)
    assert "IN" in str(refused.value)


def test_an_annotated_message_and_context_are_what_they_annotate() -> None:
    async def handle(message: Annotated[Message, "the message"], ctx: Annotated[Context, "puts"]) -> None: ...

    [handler] = declare(handle).listeners[0].handlers

    assert (None, True) == (handler.payload_type, handler.wants_context)


def test_the_metadata_of_an_annotated_payload_need_not_be_hashable() -> None:
    async def handle(order: Annotated[list[Annotated[int, {"unit": "EUR"}]], "amounts"]) -> None: ...

    [handler] = declare(handle).listeners[0].handlers

    assert handler.takes_batch is False


class AsyncDecode:
    async def decode(self, message: Message, payload_type: Any) -> Any:
        """Return what is never awaited."""

    def encode(self, payload: Any) -> tuple[bytes, str, int]:
        return bytes(payload), "", 0


class Counter:
    def __init__(self, event: object = None) -> None:
        """Take anything."""

    def __call__(self, event: object) -> None:
        """Count the event."""


def generator(*_: object) -> Iterator[None]:
    yield


async def coroutine(*_: object) -> None:
    """Do nothing."""


def including_itself() -> None:
    outer, inner = Router("A."), Router("B.")
    outer.include_router(inner)
    inner.include_router(outer)


class OtherName:
    async def publish(self, message: object, send: object) -> None:
        """Name the second parameter otherwise."""


class NoMethod:
    consume = 5
    publish = coroutine


def in_a_thread() -> None:
    async def run() -> None:
        await anyio.to_thread.run_sync(lambda: App().run())

    anyio.run(run)


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "codec": (lambda: App(codec=AsyncDecode()), "decode is async, but is called as a plain function"),
    "decide": (lambda: App(decide=mistake(coroutine)), "App(decide=...) is async"),
    "hook class": (lambda: App(hooks=[mistake(Counter)]), "Hook Counter is a class. Give an instance: Counter()"),
    "no hook": (lambda: App(hooks=[mistake(5)]), "Hook 5 cannot be called. A hook is a function of one event"),
    "hook generator": (lambda: App(hooks=[mistake(generator)]), "is a generator, so its body would never run"),
    "on_start": (lambda: App().on_start(mistake(generator)), "With a `yield` it is a lifespan: App(lifespan=...)"),
    "name": (lambda: App().listener("IN", name=mistake(5)), "listener(name=5): it takes a text"),
    "durable": (lambda: App().listener(topic="a", durable=mistake(5)), "listener(durable=5): it takes a text"),
    "wildcards": (lambda: App().consumer(topic="a", character_wildcards=mistake("no")),
        "consumer(character_wildcards='no'): it takes True or False"),
    "authority": (lambda: App().delay_processor(own_authority=mistake("no")),
        "delay_processor(own_authority='no'): it takes True or False"),
    "rules table": (lambda: App().dead_letter_handler(mistake(5)), "it takes the path of a rules table, or None"),
    "reload": (lambda: App().dead_letter_handler(reload=mistake("no")), "dead_letter_handler(reload='no'): it takes True"),
    "publisher": (lambda: App().publisher("OUT")(Counter), "it belongs above a handler"),
    "publisher of a builtin": (lambda: App().publisher("OUT")(print), "it belongs above a handler"),
    "one name": (lambda: App().listen_only("book"), "it takes a list. Write listen_only(names=[...])"),
    "middleware": (lambda: App(middleware=[OtherName()]), "Write async def publish(self, ..., call_next)"),
    "middleware without a method": (lambda: App(middleware=[NoMethod()]), "Write async def consume(self, ..., call_next)"),
    "thread": (in_a_thread, "App.run() handles signals, so only the main thread can call it"),
    "router": (including_itself, "a router cannot include itself, not even through another router"),
    "backend": (lambda: App().run(backend="curio"), "App.run(backend='curio'): it takes 'asyncio' or 'trio'"),
}  # fmt: skip


def mistake(value: Any) -> Any:
    """Return the value, which has a type that the call does not take."""
    return value


@pytest.mark.parametrize(("build", "said"), MISTAKES.values(), ids=MISTAKES)
def test_an_argument_of_a_wrong_kind_is_refused_with_what_to_write(build: Callable[[], object], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        build()

    assert said in str(refused.value)


DECLARATIONS: dict[str, Callable[[App], object]] = {
    "listener": lambda app: app.listener("IN")(plain),
    "include_router": lambda app: app.include_router(Router()),
    "include_app": lambda app: app.include_app(App(name="archive")),
    "schedule": lambda app: app.schedule(60, "IN"),
    "dead_letter_handler": lambda app: app.dead_letter_handler(),
    "delay_processor": lambda app: app.delay_processor(),
    "on_start": lambda app: app.on_start(lambda: None),
    "on_stop": lambda app: app.on_stop(lambda: None),
    "listen_only": lambda app: app.listen_only([]),
}


@pytest.mark.parametrize("call", DECLARATIONS)
async def test_a_declaration_that_a_running_application_does_not_see_is_refused(mq: QueueManagerKit, call: str) -> None:
    async with mq.run(app := App()):
        with pytest.raises(ConfigurationError, match=f"{call}: this application is running already"):
            DECLARATIONS[call](app)


async def test_a_function_of_on_start_may_return_anything(mq: QueueManagerKit) -> None:
    app, started = App(), list[int]()

    def start() -> bool:
        started.append(1)
        return True

    app.on_start(mistake(start))

    async with mq.run(app):
        assert [1] == started


@pytest.mark.parametrize(
    ("options", "settings", "said"),
    [
        ({"strict_order": True}, ListenerSettings(concurrency=5), "strict_order, which allows one message in flight"),
        ({"strict_order": True}, ListenerSettings(unit_of_work=5), "Remove concurrency and unit_of_work from the settings"),
        ({"groups": True}, ListenerSettings(unit_of_work=2), "groups, so each message group is a unit of work"),
    ],
)
async def test_settings_that_contradict_the_source_code_stop_the_start(
    mq: QueueManagerKit, options: dict[str, Any], settings: ListenerSettings, said: str
) -> None:
    mq.define("IN")
    app = App(settings=Settings(listeners={"IN": settings}))
    app.listener("IN", **options)(many if options.get("groups") else plain)

    with pytest.raises(ConfigurationError, match=said):
        async with mq.run(app):
            pass


def test_a_handler_of_many_messages_takes_no_unit_of_work() -> None:
    with pytest.raises(ConfigurationError, match=r"Write batch=Batch\(max=\.\.\.\)"):
        declare(many, unit_of_work=3)


async def test_a_subscription_to_end_is_a_text(mq: QueueManagerKit) -> None:
    async with mq.run(app := App()):
        with pytest.raises(ConfigurationError, match=r"unsubscribe\(durable=5\): it takes a text"):
            await app.unsubscribe(mistake(5))


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
        (mistaken(Backout, threshold=-1), "'queue' (BOTHRESH), 0 for never, or a number above 0"),
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
