"""IBM's JMS classes use queues of the embedded queue manager over the network, and their decisions are compared with ours."""

from collections.abc import Mapping

import anyio
import anyio.to_thread
import pytest

from mqflow import App, Backout, Context, Message, Pace
from mqflow.app.handlers.message import PropertyValue
from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.headers import rfh2
from mqflow.testing.kit import QueueManagerKit
from tests.foreign.jms.program import MQSC, Scenario
from tests.queue_contents import browsed, put

pytestmark = pytest.mark.xdist_group("jms")  # one worker fetches, compiles and starts the program

CALM = Backout(pace=Pace(first_s=1, factor=1, max_s=1, jitter=0))


PROPERTIES = "name=b\u00fccher count=7 urgent=true rate=1.5 number=12345678901 deliveries=1"


EVERY_TYPE = (
    f"text gr\u00fc\u00dfe {PROPERTIES}",
    f"bytes [0, 1, -1] {PROPERTIES}",
    f"map Z\u00fcrich 8001 {PROPERTIES}",
    f"object [1, 2, 3] {PROPERTIES}",
    f"stream one 2 {PROPERTIES}",
)
TYPES = len(EVERY_TYPE)
CLIENTS = pytest.mark.parametrize("client", ["", "jakarta:"], ids=["javax.jms", "jakarta.jms"])


@CLIENTS
def test_every_type_of_message_and_property_goes_through_the_queue_manager(jms: Scenario, client: str) -> None:
    assert [*EVERY_TYPE, "empty none", "end"] == jms(f"{client}types")


@pytest.mark.anyio
async def test_an_application_between_two_jms_programs_hands_on_each_type_of_message(
    jms: Scenario, queue_manager: EmbeddedQueueManager
) -> None:
    """The handler gets the properties with their types. The application's own messages have the same properties in JMS."""
    app, seen, all_seen = App(name="between"), list[Mapping[str, PropertyValue]](), anyio.Event()

    @app.listener("Q1")
    async def hand_on(message: Message, context: Context) -> None:
        seen.append(message.properties)
        await context.put("OUT", message.data, descriptor=message.descriptor)
        if len(seen) == TYPES:
            all_seen.set()

    await anyio.to_thread.run_sync(jms, "send")
    with anyio.fail_after(10):
        async with app.running(queue_manager):
            await all_seen.wait()
            await app.put("OUT", "of mqflow", properties=seen[0])
            await app.put("OUT", b"\x05\xfe", properties=seen[0])

    assert TYPES * [{"name": "b\u00fccher", "count": 7, "urgent": True, "rate": 1.5, "number": 12345678901}] == seen
    assert [
        *EVERY_TYPE,
        f"text of mqflow {PROPERTIES}",
        f"bytes [5, -2] {PROPERTIES}",
        "empty none",
        "end",
    ] == await anyio.to_thread.run_sync(jms, "receive-out")


@CLIENTS
def test_a_rollback_returns_the_message_and_counts_the_delivery(jms: Scenario, client: str) -> None:
    assert ["text kept deliveries=1", "text kept deliveries=2", "none", "end"] == jms(f"{client}rollback")


@CLIENTS
def test_a_message_listener_hears_each_message_once(jms: Scenario, client: str) -> None:
    heard = [f"heard text message {number} deliveries=1" for number in (1, 2, 3)]

    assert [*heard, "all true", "end"] == jms(f"{client}listener")


def test_a_message_listener_goes_on_when_gets_are_allowed_again(jms: Scenario, queue_manager: EmbeddedQueueManager) -> None:
    steps = iter(["GET(DISABLED)", "GET(ENABLED)"])

    def stop() -> None:
        run(f"ALTER QLOCAL(Q1) {next(steps)}", queue_manager.administration)
        put(queue_manager, "Q1", b"late", descriptor=MessageDescriptor(format="MQSTR", ccsid=1208))

    said = jms("paused-listener", stop=stop)

    assert ["stop", "stop", "heard text late deliveries=1", "heard text late deliveries=1", "all true", "end"] == said


def test_a_selector_passes_over_the_other_messages(jms: Scenario) -> None:
    assert [
        "text number 2 count=2 deliveries=1",
        "none",
        "text number 1 count=1 deliveries=1",
        "text number 3 count=3 deliveries=1",
        "end",
    ] == jms("selector")


def test_a_browser_sees_the_messages_and_leaves_them(jms: Scenario) -> None:
    texts = ["text one deliveries=1", "text two deliveries=1"]

    assert [*(f"browsed {text}" for text in texts), *texts, "end"] == jms("browse")


def test_messages_of_three_megabytes_go_in_segments(jms: Scenario) -> None:
    assert [*(f"length {length}" for length in (0, 4000, 10_000, 40_000, 3_000_000)), "end"] == jms("long")


def test_a_temporary_queue_is_made_for_a_reply(jms: Scenario) -> None:
    assert ["text reply deliveries=1", "end"] == jms("temporary")


def test_puts_that_the_client_does_not_wait_for_are_committed_together_or_not_at_all(
    jms: Scenario, queue_manager: EmbeddedQueueManager
) -> None:
    assert ["in order 300, identifiers 300", "commit 2003", "end"] == jms("async")

    assert [] == browsed(queue_manager, "ONE")


def test_a_consumer_that_reads_ahead_has_more_messages_than_the_program_and_loses_them_at_its_end(
    jms: Scenario, queue_manager: EmbeddedQueueManager
) -> None:
    """The messages are not persistent. The program receives 40 of 60. The client decides when it asks for the last ones."""
    left: list[int] = []

    said = jms("read-ahead", stop=lambda: left.append(len(browsed(queue_manager, "Q1"))))

    assert ["in order 40", "stop", "end"] == said
    assert left[0] < 20, "the client has messages that the program has not received"
    rest = browsed(queue_manager, "Q1")
    assert len(rest) <= left[0], "the messages of the client do not come back"
    assert all(got.body.endswith(str(number).encode()) for number, got in enumerate(rest, 61 - len(rest)))


def test_no_message_is_lost_if_a_wait_ends_while_its_message_arrives(jms: Scenario) -> None:
    assert ["300 of 300", "end"] == jms("short-waits")


def test_mqstat_tells_of_a_failed_put_that_the_client_did_not_wait_for(jms: Scenario) -> None:
    assert ["put", "status 2 2051 300 1 CLOSED", "end"] == jms("base-status")


def test_the_classes_see_the_reasons_of_refusals(jms: Scenario) -> None:
    assert ["receive 2016", "send 2051", "open 2085", "end"] == jms("inhibited")


def test_a_wrong_password_is_refused_with_2035(jms: Scenario) -> None:
    assert ["refused 2035", "end"] == jms("types", "wrong")


def moved_by_mqflow(queue: str) -> App:
    app = App(name="failing")

    @app.listener(queue, backout=CALM)
    async def handle(body: bytes) -> None:
        raise ValueError("cannot be handled")

    return app


def test_ibms_classes_put_a_header_before_a_poison_message_that_has_none(
    jms: Scenario, queue_manager: EmbeddedQueueManager
) -> None:
    """The difference: the header of IBM's classes has the folder jms, and mqflow's has a folder that says why."""
    plain = MessageDescriptor(format="MQSTR", ccsid=1208, persistence=1, message_id=b"M" * 24, correlation_id=b"C" * 24)
    put(queue_manager, "POISON", b"bad", descriptor=plain)

    jms("poison")

    [moved] = browsed(queue_manager, "BOQ")
    header, end = rfh2.parse(moved.body, encoding=moved.descriptor.encoding, ccsid=moved.descriptor.ccsid)
    assert ("MQHRF2", "MQSTR", b"bad") == (moved.descriptor.format, header.format, moved.body[end:])
    assert {"Msd": "jms_text"} == rfh2.properties(header, "mcd")
    added = rfh2.properties(header, "jms")
    assert ("queue:///BOQ", f"ID:{moved.descriptor.correlation_id.hex()}") == (added["Dst"], added["Cid"])
    assert {"Dst", "Tms", "Cid", "Pri", "Dlv"} == added.keys()
    assert 2 == len(header.folders)


@pytest.mark.mq_backend("asyncio")
async def test_ibms_classes_and_mqflow_move_a_poison_jms_message_with_the_same_properties(
    jms: Scenario, queue_manager: EmbeddedQueueManager, mq: QueueManagerKit
) -> None:
    jms("bad")
    [sent] = browsed(queue_manager, "POISON")
    mq.mqsc(MQSC)
    put(mq.queue_manager, "POISON", sent.body, descriptor=sent.descriptor)

    jms("poison")
    async with mq.run(moved_by_mqflow("POISON")):
        await anyio.sleep(30)  # of virtual time
        [ours] = browsed(mq.queue_manager, "BOQ")

    [theirs] = browsed(queue_manager, "BOQ")
    assert sent.body == theirs.body == ours.body
