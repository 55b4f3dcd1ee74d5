"""Routers: prefix, middleware, defaults and codec of the place where an application includes them."""

from collections.abc import Callable
from typing import Any

import pytest

from mqflow import App, Backout, Codec, ConfigurationError, Context, Event, Incoming, Message, Outcome, Outgoing, Router
from mqflow.app.handlers.middleware import Call
from mqflow.app.handlers.outgoing_message import Send
from mqflow.events import Delivered
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import Put
from tests.running import moved, run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")


class Named:
    """Middleware that notes its name at each delivery and each put."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name, self.seen = name, seen

    async def consume(self, delivery: Incoming, call_next: Call) -> Outcome:
        self.seen.append(f"{self.name} {delivery.queue}")
        return await call_next(delivery)

    async def publish(self, message: Outgoing, call_next: Send) -> Put:
        self.seen.append(f"{self.name} to {message.queue}")
        return await call_next(message)


class Upper:
    def decode(self, message: Message, payload_type: Any) -> Any:  # noqa: ARG002 - as the protocol has it
        return message.text().upper()

    def encode(self, payload: Any) -> tuple[bytes, str, int]:
        return str(payload).upper().encode(), "MQSTR", 1208


def echo(router: Router, queue: str = "IN", **options: Any) -> None:
    publisher = router.publisher("OUT")

    @router.listener(queue, **options)
    @publisher
    async def handle(body: str) -> str:
        return body


async def test_the_queues_of_listeners_and_publishers_get_every_prefix_on_the_way(mq: QueueManagerKit) -> None:
    for queue in ("EU.ORDERS.IN", "EU.ORDERS.OUT", "US.ORDERS.IN", "US.ORDERS.OUT"):
        mq.define(queue)
    app, region, orders = App(), Router(), Router("ORDERS.")
    echo(orders)
    region.include_router(orders)
    app.include_router(region, prefix="EU.")
    app.include_router(region, prefix="US.")

    async with mq.run(app):
        await mq.put("EU.ORDERS.IN", "from Europe")
        await mq.put("US.ORDERS.IN", "from America")
        [europe], [america] = await mq.drain("EU.ORDERS.OUT"), await mq.drain("US.ORDERS.OUT")

    assert ("from Europe", "from America") == (europe.text(), america.text())
    assert ["EU.ORDERS.OUT", "US.ORDERS.OUT"] == [publisher.queue for publisher in app.publishers]


async def test_the_middleware_of_a_router_runs_inside_that_of_the_application_and_around_its_handlers_only(
    mq: QueueManagerKit,
) -> None:
    seen: list[str] = []
    for queue in ("IN", "OUT", "OTHER"):
        mq.define(queue)
    app, outer = App(middleware=[Named("app", seen)]), Router(middleware=[Named("outer", seen)])
    inner = Router(middleware=[Named("inner", seen)])
    echo(inner)
    outer.include_router(inner, middleware=[Named("between", seen)])
    app.include_router(outer, middleware=[Named("first", seen)])
    app.listener("OTHER")(no_payload)

    async with mq.run(app):
        await mq.put("IN", "x")
        await mq.drain("OUT")
        routed, seen[:] = list(seen), []
        await mq.put("OTHER", "x")
        await mq.drain("OUT", at_least=0)

    names = ["app", "first", "outer", "between", "inner"]
    assert [*(f"{name} IN" for name in names), *(f"{name} to OUT" for name in names)] == routed
    assert ["app OTHER"] == seen


async def no_payload(message: Message) -> None:
    """Handle nothing."""


def test_the_options_of_a_listener_win_over_its_router_and_the_router_over_its_inclusion() -> None:
    app, router = App(), Router(concurrency=2, unit_of_work=3)
    router.listener("PLAIN")(no_payload)
    router.listener("OWN", concurrency=9)(no_payload)
    app.include_router(router, unit_of_work=7, stuck_after_s=5.0)

    plain, own = (listener.options for listener in app.listeners)
    assert (2, 3, 5.0) == (plain.concurrency, plain.unit_of_work, plain.stuck_after_s)
    assert (9, 3, 5.0) == (own.concurrency, own.unit_of_work, own.stuck_after_s)


def test_one_of_two_handlers_of_a_queue_gives_options_beside_the_defaults() -> None:
    app, router = App(), Router(stuck_after_s=5.0)
    router.listener("IN", where=lambda _: True)(no_payload)
    router.listener("IN", backout=Backout(threshold=2))(no_payload)
    app.include_router(router)

    [listener] = app.listeners
    assert (5.0, 2, 2) == (listener.options.stuck_after_s, listener.options.backout.threshold, len(listener.handlers))


async def test_the_codec_of_a_router_is_that_of_its_listeners_and_publishers(mq: QueueManagerKit) -> None:
    mq.define("IN")
    mq.define("OUT")
    seen: list[str] = []
    app, router = App(), Router(codec=Upper())

    @router.listener("IN")
    @router.publisher("OUT")
    async def handle(body: str) -> str:
        seen.append(body)
        return body.lower()

    app.include_router(router)
    out = await moved(mq, app, "loud", "OUT")

    assert (["LOUD"], "LOUD") == (seen, out.text())


@pytest.mark.parametrize(
    ("of_app", "of_router"), [(Upper(), None), (None, Upper())], ids=["of the application", "of the router"]
)
async def test_a_publisher_of_a_router_puts_outside_of_deliveries_with_the_codec_of_its_results(
    mq: QueueManagerKit, of_app: Codec | None, of_router: Codec | None
) -> None:
    mq.define("OUT")
    app, router = App(codec=of_app), Router(codec=of_router)
    publisher = router.publisher("OUT")
    app.include_router(router)

    async with mq.run(app):
        await publisher.put("quiet")
        await publisher.put_many(["still"])

    assert ["QUIET", "STILL"] == [each.text() for each in mq.browse("OUT")]


async def test_a_topic_keeps_its_name(mq: QueueManagerKit) -> None:
    seen: list[str] = []
    app, router = App(), Router("ORDERS.")

    @router.listener(topic="prices/gold")
    async def handle(body: str) -> None:
        seen.append(body)

    app.include_router(router)
    async with mq.run(app):
        await app.publish("prices/gold", "7")
        await mq.drain("SYSTEM.DEAD.LETTER.QUEUE", at_least=0)

    assert ["7"] == seen


async def test_a_publisher_of_a_router_puts_outside_of_deliveries_when_one_application_includes_it_once(
    mq: QueueManagerKit,
) -> None:
    mq.define("EU.OUT")
    app, router = App(), Router("EU.")
    publisher = router.publisher("OUT", priority=7)
    with pytest.raises(ConfigurationError, match="no application includes it"):
        await publisher.put("early")
    app.include_router(router)

    async with mq.run(app):
        await publisher.put("x")
        await publisher.put_many(["y"])
        found = await mq.drain("EU.OUT", at_least=2)

    assert [("x", 7), ("y", 7)] == [(each.text(), each.descriptor.priority) for each in found]
    app.include_router(router, prefix="US.")
    with pytest.raises(ConfigurationError, match="it is included 2 times"):
        await publisher.put("late")


async def test_a_middleware_of_a_router_that_wants_events_receives_them(mq: QueueManagerKit) -> None:
    class Watching(Named):
        wants = (Delivered,)

        def __call__(self, event: Event) -> None:
            self.seen.append(type(event).__name__)

    seen: list[str] = []
    mq.define("IN")
    app, router = App(), Router(middleware=[Watching("router", seen)])
    router.listener("IN")(no_payload)
    app.include_router(router)

    await run_for(mq, 1, app, "x")

    assert ["Delivered", "router IN"] == seen


def a_router_that_is_included() -> Router:
    router = Router()
    App().include_router(router)
    return router


def another_publisher() -> None:
    async def handler(message: Message) -> None: ...  # a publisher marks its handler permanently

    app, router = App(), Router("ORDERS.")
    app.listener("IN")(router.publisher("OUT")(handler))
    [listener] = app.listeners
    from mqflow.app.handlers.listener_declaration import publishers_of  # noqa: PLC0415 - used by this mistake alone

    publishers_of(listener.handlers[0])


def two_middlewares() -> None:
    app, router = App(), Router(middleware=[Named("router", [])])
    app.listener("IN", where=lambda _: True)(no_payload)
    router.listener("IN")(no_payload)
    app.include_router(router)


def twice() -> None:
    app, router = App(), Router()
    router.listener("IN")(no_payload)
    app.include_router(router)
    app.include_router(router)


@pytest.mark.parametrize(
    ("declare", "said"),
    [
        (lambda: a_router_that_is_included().listener("IN"), "has included this router already, and does not see later"),
        (lambda: a_router_that_is_included().publisher("OUT"), "Call app.include_router(router) after the last declaration"),
        (lambda: a_router_that_is_included().include_router(Router()), "has included this router already"),
        (lambda: App().include_router(Router), "include_router(Router): it takes a Router"),  # type: ignore[arg-type]
        (lambda: Router(7), "Router(prefix=7): the prefix is a text"),  # type: ignore[arg-type]
        (lambda: Router(concurrency=0), "The defaults of Router: concurrency=0: it must be a number, 1 or more"),
        (lambda: Router(middleware="audit"), "Router(middleware='audit'): it takes a list"),
        (lambda: Router().listener(), "neither a queue nor a topic"),
        (another_publisher, "belongs to a router that does not declare this handler"),
        (two_middlewares, "their routers have other middleware"),
        (twice, "would never get a message"),
    ],
)
def test_a_mistake_with_a_router_is_refused_where_it_is_made(declare: Callable[[], object], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        declare()

    assert said in str(refused.value)


async def test_the_context_of_a_handler_names_whole_queues(mq: QueueManagerKit) -> None:
    mq.define("EU.IN")
    mq.define("AUDIT")
    app, router = App(), Router("EU.")

    @router.listener("IN")
    async def handle(body: str, ctx: Context) -> None:
        await ctx.put("AUDIT", body)

    app.include_router(router)
    audit = await moved(mq, app, "x", "AUDIT", queue="EU.IN")

    assert "x" == audit.text()
