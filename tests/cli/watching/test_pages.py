"""The HTTP pages of a running application, called as an ASGI application: no port is opened."""

from contextlib import nullcontext

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mqflow.cli.watching.control import Order, QueueFigures
from mqflow.cli.watching.figures import within
from mqflow.cli.watching.pages import pages
from mqflow.policy.health.records import ApplicationStatus, Doing, ListenerStatus, ProcessStatus, SilentProcess, WorkerStatus
from mqflow.world import World

pytestmark = pytest.mark.anyio

NOW = 500.0
STACK = 'File "app.py", line 7, in book\n    sell()\n'


def worker(number: int, doing: Doing = Doing.IDLE, for_s: float = 1.0) -> WorkerStatus:
    stack = STACK if doing is Doing.HANDLING else ""
    return WorkerStatus(number=number, doing=doing, since=NOW - for_s, wait_s=5.0, stack=stack)


def process(number: int, *workers: WorkerStatus, delivered: float = 0.0) -> ProcessStatus:
    listener = ListenerStatus(name="orders", queue="ORDERS.IN", concurrency=len(workers), workers=workers)
    topic = ListenerStatus(name="prices", queue="Prices/#", is_topic=True, concurrency=0)
    return ProcessStatus(
        process=100 + number, number=number, taken_at=NOW, ready=True, listeners=(listener, topic),
        counts={"messages_delivered": ((("ORDERS.IN",), delivered),)},
    )  # fmt: skip


class Fixed:
    """A source with a state that the test sets."""

    def __init__(self, *processes: ProcessStatus, expected: int = 1, silent_for_s: float | None = None) -> None:
        silent = () if silent_for_s is None else (SilentProcess(process=9, number=9, for_s=silent_for_s),)
        self.now = ApplicationStatus(application="a", process=1, expected=expected, processes=processes, silent=silent)

    def status(self) -> ApplicationStatus:
        return self.now

    def order(self, order: Order) -> None:  # noqa: ARG002 - the signature of a source
        raise AssertionError("a page changes nothing")


async def get(source: Fixed, path: str, *, depth: int | None = 7, refused: str = "") -> httpx.Response:
    def figures(queues: object, /) -> tuple[QueueFigures, ...]:
        assert ("ORDERS.IN",) == queues
        return (QueueFigures(queue="ORDERS.IN", depth=depth, oldest_message_age_s=90, refused=refused),)

    transport = httpx.ASGITransport(app=pages(source, figures))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        return await client.get(path)


def values(text: str) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text.replace("# EOF\n", ""))
        for sample in family.samples
    }


async def test_each_process_has_its_own_counts() -> None:
    source = Fixed(process(1, worker(0), delivered=5), process(2, worker(0), delivered=8), expected=2)

    found = values((await get(source, "/metrics")).text)

    assert 5 == found["mqflow_messages_delivered_total[('process', '1'), ('queue', 'ORDERS.IN')]"]
    assert 8 == found["mqflow_messages_delivered_total[('process', '2'), ('queue', 'ORDERS.IN')]"]


async def test_the_metrics_say_what_the_workers_do_and_how_deep_the_queues_are() -> None:
    source = Fixed(process(0, worker(0), worker(1, Doing.HANDLING, 61.0)))

    found = values((await get(source, "/metrics")).text)

    of = "('listener', 'orders'), ('queue', 'ORDERS.IN')"
    assert 1 == found[f"mqflow_workers[('doing', 'in handler'), {of}]"]
    assert 1 == found[f"mqflow_in_flight[{of}]"]
    assert 1 == found["mqflow_workers_stuck[('listener', 'orders')]"]
    assert 7 == found["mqflow_queue_depth[('queue', 'ORDERS.IN')]"]
    assert 90 == found["mqflow_oldest_message_age_seconds[('queue', 'ORDERS.IN')]"]
    assert (0, 1) == (found["mqflow_ready[]"], found["mqflow_live[]"])


async def test_metrics_without_a_depth_have_no_false_depth() -> None:
    assert "mqflow_queue_depth{" not in (await get(Fixed(process(0, worker(0))), "/metrics", depth=None)).text


async def test_no_page_takes_another_method() -> None:
    transport = httpx.ASGITransport(app=pages(Fixed(process(0)), lambda _: ()))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        assert 405 == (await client.post("/status")).status_code


async def test_a_queue_manager_that_does_not_answer_delays_a_page_only_so_long() -> None:
    asked: list[object] = []

    class Stuck:
        """Threads that never run, and events that nobody sets."""

        def start(self, target: object, name: str) -> None:  # noqa: ARG002 - the signature of a runner
            asked.append(target)

        def event(self) -> "Stuck":
            return self

        def lock(self) -> nullcontext[None]:
            return nullcontext()

        def wait(self, timeout: float) -> bool:  # noqa: ARG002 - as above
            return False

    limited = within(3.0, lambda _: (), World(runner=Stuck()))  # type: ignore[arg-type]  # the part of a runner that is used

    for _ in range(2):
        [found] = limited(["ORDERS.IN"])
        assert "The queue manager has not answered within 3 s." == found.refused
    assert 1 == len(asked)
