"""An application that several processes run at the same time. Its handler follows the scripts of the file `RUN_FILE`.

The handler's own log is a file for each message in `CALLS_FOLDER`. Each span appends a line to `SPANS_FILE`, and each
event an entry to the decision ledger `LEDGER_FILE`. `BATCHES_FILE` has the sizes of the batches of several messages.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec
import pytest
from msgspec.structs import replace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from mqflow import App, Backout, Batch, Context, Pace, Retry
from mqflow.app.config.settings import LedgerSettings, Settings
from mqflow.events import Disposed, Event, Settled
from mqflow.otel import OpenTelemetry
from mqflow.policy.poison.disposition import Completed
from mqflow.policy.poison.disposition_record import DISPOSITION_QUEUE
from mqflow.runtime.listener.delivery import Delivery
from mqflow.runtime.listener.disposer import Disposer
from mqflow.runtime.listener.subscriber import TopicSubscription
from mqflow.runtime.listener.unit import BackOut, DeliveryDone, Unit
from tests.stories.counting import ACTS, THRESHOLD, NeverRetryError, Order, Script

COMPLETES: Final = "completes"
IN_A_BATCH: Final = "in a batch that failed"
ENDED: Final = "ended\n"
FROM_STAGING_QUEUE: Final = "retry from the staging queue"
RUN_FILE: Final = Path("run.json")
CALLS_FOLDER: Final = Path("calls")
SPANS_FILE: Final = Path("spans")
BATCHES_FILE: Final = Path("batches")
LEDGER_FILE: Final = Path("ledger.db")
SUBSCRIBED_QUEUE: Final = "a queue with a subscription"
DURABLE_SUBSCRIPTION: Final = "a durable subscription"
SUBSCRIPTION: Final = TopicSubscription(topic="Orders/#", durable="counted")
RETRY_IN_WORKER_S: Final = 0.02


class Run(msgspec.Struct):
    """The scripts by number of the message, the options of the listener, and the form of its handlers."""

    scripts: list[Script]
    options: dict[str, Any]
    #: A key of `FORMS` or `TOPIC_FORMS`.
    form: str = "one handler"
    #: Whether the application has the defect of `move_at_the_next_delivery`.
    has_defect: bool = False


def move_at_the_next_delivery() -> None:
    """Plant a defect: a worker backs out first, the next worker moves the message, and processes share no notes."""
    move = Disposer._move

    async def back_out(
        disposer: Disposer, unit: Unit, delivery: Delivery, *given: Any, was_handled: bool
    ) -> DeliveryDone | BackOut:
        if was_handled:
            *_, outcome = given
            return BackOut((delivery,), outcome)
        return await move(disposer, unit, delivery, *given, was_handled=was_handled)

    pytest.MonkeyPatch().setattr(Disposer, "_move", back_out)  # to the end of the process
    os.environ.pop("MQFLOW_NOTES_FILE", None)


def _retry_from_the_staging_queue() -> None:
    raise Retry("later", after=2 * RETRY_IN_WORKER_S)


REAL_TIME_ACTS: Final[dict[str, Callable[[], None]]] = {
    **{name: act for name, act in ACTS.items() if name != "retry after a minute"},
    FROM_STAGING_QUEUE: _retry_from_the_staging_queue,
}


def append(path: Path, line: str) -> None:
    """Append a line in one write, so that lines of several processes do not mix."""
    descriptor = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


class SpanFile(SpanProcessor):
    def on_end(self, span: ReadableSpan) -> None:
        append(SPANS_FILE, span.name)


def say_ends(event: Event) -> None:
    """Print a line for each message that is handled or moved."""
    match event:
        case Settled(outcome=Completed()):
            os.write(1, ENDED.encode() * len(event.message_ids))
        case Disposed():
            os.write(1, ENDED.encode())
        case _:
            return


def make_app(run: Run) -> App:
    if run.has_defect:
        move_at_the_next_delivery()
    provider = TracerProvider()
    provider.add_span_processor(SpanFile())
    app = App(
        name="counted",
        settings=Settings(
            disposition_queue=DISPOSITION_QUEUE,
            retry_in_worker_s=RETRY_IN_WORKER_S,
            ledger=LedgerSettings(record="all", file=str(LEDGER_FILE)),
        ),
        middleware=[OpenTelemetry(tracer_provider=provider, meter_provider=MeterProvider())],
        hooks=[say_ends],
    )
    backout = Backout(pace=Pace(first_s=0.01, max_s=0.1), never_retry=(NeverRetryError,))

    (FORMS | TOPIC_FORMS)[run.form](app, Handlers(run.scripts), {"backout": backout, **run.options})
    return app


class Handlers:
    """Handlers that follow the scripts, and that keep the log of their calls."""

    def __init__(self, scripts: list[Script]) -> None:
        self.scripts: Final = scripts

    async def handle(self, order: Order, ctx: Context) -> None:
        acts, puts = self.scripts[order.number]
        log = CALLS_FOLDER / str(order.number)
        if puts:
            await ctx.put("OUT", order)
        await anyio.sleep(0.001)
        failed = sum(word != IN_A_BATCH for word in log.read_text().splitlines()) if log.exists() else 0
        if failed < len(acts):
            append(log, acts[failed])
            REAL_TIME_ACTS[acts[failed]]()
            await anyio.sleep(0.001)  # here a cancellation of the task is raised
        append(log, COMPLETES)

    async def handle_batch(self, orders: list[Order], ctx: Context) -> None:
        if len(orders) == 1:
            await self.handle(orders[0], ctx)
            return
        append(BATCHES_FILE, str(len(orders)))
        fails = any(self.scripts[order.number][0] for order in orders)
        for order in orders:
            if self.scripts[order.number][1]:
                await ctx.put("OUT", order)
            append(CALLS_FOLDER / str(order.number), IN_A_BATCH if fails else COMPLETES)
        if fails:
            raise ValueError("a message of this batch is bad")


def one_handler(app: App, handlers: Handlers, options: dict[str, Any]) -> None:
    app.listener("IN", **options)(handlers.handle)


def two_handlers(app: App, handlers: Handlers, options: dict[str, Any]) -> None:
    @app.listener("IN", where=lambda message: message.body[-1] % 2 == 0, **options)
    async def handle_some(order: Order, ctx: Context) -> None:
        await handlers.handle(order, ctx)

    app.listener("IN")(handlers.handle)


def strict_order(app: App, handlers: Handlers, options: dict[str, Any]) -> None:
    one_handler(app, handlers, {"backout": options["backout"], "strict_order": True})


def batches(app: App, handlers: Handlers, options: dict[str, Any]) -> None:
    batch = Batch(max=options["unit_of_work"] + 1, wait_ms=5)
    app.listener("IN", backout=options["backout"], concurrency=options["concurrency"], batch=batch)(handlers.handle_batch)


def durable_subscription(app: App, handlers: Handlers, options: dict[str, Any]) -> None:
    backout = replace(options["backout"], threshold=THRESHOLD, queue="BOQ")
    listen = app.listener(topic=SUBSCRIPTION.topic, durable=SUBSCRIPTION.durable, **{**options, "backout": backout})
    listen(handlers.handle)


FORMS: Final = {"one handler": one_handler, "two handlers": two_handlers, "strict order": strict_order, "batches": batches}
#: The messages of these forms are publications. The subscription has the queue IN of the first form, or a managed queue.
TOPIC_FORMS: Final = {SUBSCRIBED_QUEUE: one_handler, DURABLE_SUBSCRIPTION: durable_subscription}


app = make_app(msgspec.json.decode(RUN_FILE.read_bytes(), type=Run)) if RUN_FILE.exists() else App()
