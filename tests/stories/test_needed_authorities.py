"""The table of docs/authorities.md: with exactly its authorities a poison message is moved, and each of them is needed.

Source: IBM q032280: the user "must have inquire access on the local queue", and "put and passall authorities" on the backout
requeue queue and the dead-letter queue. Each test grants the rows of the table for what its application does, and no others.
"""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from msgspec import Struct

from mqflow import App, Backout, MQIError, Pace
from mqflow.events import Decided, Disposed, ListenerPaused, ListenerResumed, ReportSent, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import NotAuthorizedError
from mqflow.mqi.options import ObjectType, OpenOption, PutOption, Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Behaviour, DeadLetter, Discard, Requeue, Return
from mqflow.testing.kit import QueueManagerKit
from mqflow.verbs import ObjectDescriptor
from tests.running import run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

PAGE = Path(__file__).parents[2] / "docs" / "authorities.md"
DLQ = "SYSTEM.DEAD.LETTER.QUEUE"
CALM = Backout(pace=Pace(first_s=1, factor=1, max_s=1, jitter=0))
QUARTER_S = 900
NOT_AUTHORIZED = int(Reason.NOT_AUTHORIZED)
THRESHOLD = 2


class Row(Struct, frozen=True):
    """One row of the table."""

    role: str
    on: str
    words: tuple[str, ...]


class Given(Struct, frozen=True):
    """One authority that a story needs."""

    kind: str
    name: str
    word: str

    def grant(self, mq: QueueManagerKit, how: str = "AUTHADD") -> None:
        profile = f"PROFILE('{self.name}') " if self.name else ""
        mq.mqsc(f"SET AUTHREC {profile}OBJTYPE({self.kind}) PRINCIPAL('app') {how}({self.word})")

    def take_away(self, mq: QueueManagerKit) -> None:
        self.grant(mq, "AUTHRMV")


def rows() -> Sequence[Row]:
    """Return the rows of the table on the page; an empty first cell repeats the role above it."""
    lines = PAGE.read_text().partition("| what the application does |")[2].splitlines()[2:]
    found: list[Row] = []
    for line in lines[: lines.index("")]:
        role, on, words, _ = (cell.strip() for cell in line.strip("|").split("|"))
        found.append(Row(role or found[-1].role, on, tuple(words.split(", "))))
    return found


#: The objects of these stories, by the words of the table.
OBJECTS = {
    "the queue manager": ("QMGR", ""), "the queue": ("QUEUE", "IN"), "the alias": ("QUEUE", "ALIAS"),
    "the local queue behind the alias": ("QUEUE", "IN"), "the nearest topic object above the topic": ("TOPIC", "PRICES"),
    "the same topic object, for a `durable` subscription": ("TOPIC", "PRICES"), "the backout requeue queue": ("QUEUE", "BOQ"),
    "the dead-letter queue": ("QUEUE", DLQ), "the ReplyToQ": ("QUEUE", "REPORTS"),
}  # fmt: skip
MOVES = ("connects", "moves poison messages")
LOCAL, ALIAS, TOPIC = "gets from a local queue", "gets from an alias", "listens to a topic"


def needed(*roles: str) -> Sequence[Given]:
    """Return the authorities of the roles, as the table says."""
    chosen = [row for row in rows() if row.role in roles]
    assert set(roles) == {row.role for row in chosen}
    return [Given(*OBJECTS[row.on], word) for row in chosen for word in row.words]


@pytest.fixture(autouse=True)
def objects(mq: QueueManagerKit) -> None:
    mq.mqsc(f"ALTER QMGR DEADQ({DLQ})")
    for name in ("BOQ", "REPORTS"):
        mq.define(name)
    mq.define("IN", bothresh=THRESHOLD, boqname="BOQ")
    mq.define("ALIAS", kind="QALIAS", target="IN")
    for model in ("DURABLE", "NDURABLE"):
        mq.mqsc(f"ALTER QMODEL(SYSTEM.{model}.MODEL.QUEUE) BOTHRESH({THRESHOLD}) BOQNAME(BOQ)")
    mq.mqsc("DEFINE TOPIC(PRICES) TOPICSTR('Prices')")


class Story(Struct, frozen=True):
    """A listener whose handler fails on every message, and the queue or topic that its message goes to."""

    role: str
    queue: str = ""
    durable: str = ""
    backout: Backout = CALM
    concurrency: int = 1

    def app(self, calls: list[bytes]) -> App:
        app = App(name="failing")
        topic = "" if self.queue else "Prices/Oil"

        async def handle(body: bytes) -> None:
            calls.append(body)
            if body == b"slow":
                await anyio.sleep(30)
            if body.startswith(b"poison"):
                raise ValueError("bad data")

        app.listener(self.queue, topic=topic, durable=self.durable, backout=self.backout, concurrency=self.concurrency)(handle)
        return app

    async def send(self, mq: QueueManagerKit, body: bytes = b"poison") -> None:
        if self.queue:
            await mq.put("IN", body)
            return
        connection = mq.queue_manager.connect()
        topic = connection.open(ObjectDescriptor(object_type=ObjectType.TOPIC, object_string="Prices/Oil"), OpenOption.OUTPUT)
        connection.put(topic, MessageDescriptor(), body, PutOption.NO_SYNCPOINT)
        connection.disconnect()

    async def run(self, mq: QueueManagerKit, seconds: float = QUARTER_S) -> list[bytes]:
        """Run the application for a quarter of an hour on one message; return the bodies that its handler received."""
        calls: list[bytes] = []
        async with mq.run(self.app(calls), user="app"):
            await self.send(mq)
            await anyio.sleep(seconds)
        return calls


STORIES = {
    "local queue": Story(LOCAL, "IN"),
    "alias": Story(ALIAS, "ALIAS"),
    "subscription": Story(TOPIC),
    "durable subscription": Story(TOPIC, durable="desk-1"),
}
QUEUES = {name: story for name, story in STORIES.items() if story.queue}


def grant(mq: QueueManagerKit, *roles: str) -> None:
    for each in needed(*roles):
        each.grant(mq)


def tried(mq: QueueManagerKit) -> list[tuple[type, int]]:
    [disposed] = mq.told(Disposed)
    return [(type(attempt.disposition), attempt.reason) for attempt in disposed.attempts]


@pytest.fixture(params=STORIES)
def story(request: pytest.FixtureRequest) -> Story:
    return STORIES[request.param]


@pytest.fixture(params=QUEUES)
def on_queue(request: pytest.FixtureRequest) -> Story:
    return QUEUES[request.param]


# -- listeners


async def test_with_the_rows_of_the_table_a_poison_message_is_moved(mq: QueueManagerKit, story: Story) -> None:
    grant(mq, story.role, *MOVES)

    assert [b"poison"] * THRESHOLD == await story.run(mq)
    assert [(Requeue, 0)] == tried(mq)
    assert (0, 1, 0) == (mq.depth("IN"), mq.depth("BOQ"), mq.depth(DLQ))
    assert [] == mq.told(Warned)


async def test_they_are_enough_for_the_dead_letter_queue_too(mq: QueueManagerKit, story: Story) -> None:
    grant(mq, story.role, *MOVES)
    mq.mqsc("ALTER QLOCAL(BOQ) PUT(DISABLED)")

    assert [b"poison"] * THRESHOLD == await story.run(mq)
    assert [(Requeue, int(Reason.PUT_INHIBITED)), (DeadLetter, 0)] == tried(mq)
    assert (0, 0, 1) == (mq.depth("IN"), mq.depth("BOQ"), mq.depth(DLQ))
    assert [] == mq.told(Warned)


async def test_without_one_of_the_first_authorities_it_does_not_start(mq: QueueManagerKit, story: Story) -> None:
    for missing in ("CONNECT", "SUB" if story.role == TOPIC else "GET"):
        grant(mq, story.role, *MOVES)
        [taken] = [each for each in needed(story.role, *MOVES) if each.word == missing]
        taken.take_away(mq)

        with pytest.raises(NotAuthorizedError, match=f"User app lacks {missing}"):
            await story.run(mq)


async def test_without_resume_a_durable_subscription_does_not_start_again(mq: QueueManagerKit) -> None:
    story = STORIES["durable subscription"]
    grant(mq, story.role, *MOVES)
    await story.run(mq)
    Given("TOPIC", "PRICES", "RESUME").take_away(mq)

    with pytest.raises(NotAuthorizedError, match="User app lacks RESUME"):
        await story.run(mq)


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_without_inquire_on_the_local_queue_one_failure_stops_delivery_loudly(
    mq: QueueManagerKit, on_queue: Story, concurrency: int
) -> None:
    """A message is handled once, and not again and again; other messages wait behind it."""
    story = Story(on_queue.role, on_queue.queue, concurrency=concurrency)
    grant(mq, story.role, *MOVES)
    Given("QUEUE", "IN", "INQ").take_away(mq)
    calls: list[bytes] = []
    async with mq.run(story.app(calls), user="app"):
        await story.send(mq, b"good")
        await story.send(mq)
        await anyio.sleep(QUARTER_S)
        await story.send(mq, b"later")
        await anyio.sleep(QUARTER_S)
        assert [b"good", b"poison"] == calls
        assert 2 == mq.depth("IN")
        assert [] == mq.told(Decided)
        [found, _] = mq.browse("IN")
        assert 1 <= found.backout_count <= concurrency  # the pauses got no message
        Given("QUEUE", "IN", "INQ").grant(mq)
        await anyio.sleep(200)

    assert ([b"good"] + [b"poison"] * THRESHOLD + [b"later"]) == sorted(calls, key=[b"good", b"poison", b"later"].index)
    assert (0, 1) == (mq.depth("IN"), mq.depth("BOQ"))
    [warned] = mq.told(Warned)
    assert "User app lacks INQ on queue IN" in warned.text
    paused = mq.told(ListenerPaused)
    assert {NOT_AUTHORIZED} == {event.reason for event in paused}
    assert all("without BOTHRESH and BOQNAME nobody knows whether" in event.why for event in paused)
    assert "SET AUTHREC PROFILE('IN') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(INQ)" in paused[-1].why
    assert paused[-1].delay_s > 40  # up to a minute
    assert mq.told(ListenerResumed)


async def test_another_worker_that_ends_its_message_gets_no_further_message(mq: QueueManagerKit) -> None:
    """A success ends the pauses of a listener, but this listener still cannot decide about a failed message."""
    story, calls = Story(LOCAL, "IN", concurrency=2), list[bytes]()
    grant(mq, story.role, *MOVES)
    Given("QUEUE", "IN", "INQ").take_away(mq)
    async with mq.run(story.app(calls), user="app"):
        await story.send(mq, b"slow")
        await story.send(mq)
        await anyio.sleep(20)
        await story.send(mq, b"later")
        await anyio.sleep(QUARTER_S)

    assert [b"slow", b"poison"] == calls
    assert [1, 0] == [found.backout_count for found in mq.browse("IN")]


@pytest.mark.parametrize("concurrency", [1, 4])
async def test_a_message_that_was_backed_out_before_stops_it_without_a_call_of_the_handler(
    mq: QueueManagerKit, concurrency: int
) -> None:
    """The listener starts nevertheless: the authority can be granted while it runs."""
    story = Story(LOCAL, "IN", concurrency=concurrency)
    grant(mq, story.role, *MOVES)
    Given("QUEUE", "IN", "INQ").take_away(mq)
    await mq.put("IN", b"poison")
    calls: list[bytes] = []
    for start in (1, 2):
        await run_for(mq, QUARTER_S, story.app(calls), user="app")
        [found] = mq.browse("IN")
        assert start <= found.backout_count <= start * concurrency  # one delivery for each worker and start, at the most

    assert [b"poison"] == calls


async def test_settings_in_the_code_need_no_inquire_on_the_queue(mq: QueueManagerKit, on_queue: Story) -> None:
    named = Story(on_queue.role, on_queue.queue, backout=Backout(threshold=3, queue="BOQ", pace=CALM.pace))
    grant(mq, named.role, *MOVES)
    Given("QUEUE", "IN", "INQ").take_away(mq)

    assert [b"poison"] * 3 == await named.run(mq)
    assert [(Requeue, 0)] == tried(mq)
    assert [] == mq.told(Warned)


@pytest.mark.parametrize("named", [Backout(threshold=3, pace=CALM.pace), Backout(queue="BOQ", pace=CALM.pace)])
async def test_naming_one_of_the_two_is_not_enough(mq: QueueManagerKit, named: Backout) -> None:
    grant(mq, LOCAL, *MOVES)
    Given("QUEUE", "IN", "INQ").take_away(mq)

    assert [b"poison"] == await Story(LOCAL, "IN", backout=named).run(mq)
    assert (1, 0) == (mq.depth("IN"), mq.depth("BOQ"))


async def test_inquire_on_the_alias_itself_does_not_replace_inquire_on_its_queue(mq: QueueManagerKit) -> None:
    """The user "must have inquire access on the local queue": an alias has no BOTHRESH (rc2068)."""
    grant(mq, ALIAS, *MOVES)
    Given("QUEUE", "IN", "INQ").take_away(mq)
    Given("QUEUE", "ALIAS", "INQ").grant(mq)

    assert [b"poison"] == await STORIES["alias"].run(mq)


async def test_an_alias_with_another_target_has_the_attributes_of_that_target(mq: QueueManagerKit) -> None:
    mq.define("OTHER", bothresh=1, boqname="BOQ")
    grant(mq, ALIAS, *MOVES)
    Given("QUEUE", "OTHER", "INQ").grant(mq)
    story, calls = STORIES["alias"], list[bytes]()
    async with mq.run(story.app(calls), user="app"):
        await mq.put("IN", b"poison")
        await anyio.sleep(QUARTER_S)
        mq.mqsc("ALTER QALIAS(ALIAS) TARGET(OTHER) FORCE")
        await mq.put("OTHER", b"poison too")
        await anyio.sleep(QUARTER_S)

    assert [b"poison", b"poison", b"poison too"] == calls
    assert ["BOTHRESH of IN", "BOTHRESH of OTHER"] == list(dict.fromkeys(event.threshold_source for event in mq.told(Decided)))
    assert 2 == mq.depth("BOQ")


# -- the queue manager


async def test_without_inquire_on_the_queue_manager_the_threshold_holds(mq: QueueManagerKit, story: Story) -> None:
    grant(mq, story.role, *MOVES)
    Given("QMGR", "", "INQ").take_away(mq)

    assert [b"poison"] * THRESHOLD == await story.run(mq)
    assert [(Requeue, 0)] == tried(mq)
    [warned] = mq.told(Warned)
    assert "the name of the dead-letter queue cannot be inquired" in warned.text
    assert "User app lacks INQ on the queue manager" in warned.text


@pytest.mark.sampled(3)
async def test_a_refused_poison_message_stays_until_the_dead_letter_queue_is_known(mq: QueueManagerKit, story: Story) -> None:
    grant(mq, story.role, *MOVES)
    Given("QMGR", "", "INQ").take_away(mq)
    mq.mqsc("ALTER QLOCAL(BOQ) PUT(DISABLED)")
    calls: list[bytes] = []
    async with mq.run(story.app(calls), user="app"):
        await story.send(mq)
        await anyio.sleep(QUARTER_S)
        assert (0, 0) == (mq.depth("BOQ"), mq.depth(DLQ))
        Given("QMGR", "", "INQ").grant(mq)
        await anyio.sleep(200)

    assert [b"poison"] * THRESHOLD == calls
    assert {Return} == {type(event.disposition) for event in mq.told(Disposed)[:-1]}
    assert isinstance(mq.told(Disposed)[-1].disposition, DeadLetter)
    assert 1 == mq.depth(DLQ)
    # Each warning comes once, and not for each decision. The managed queue of a subscription can be browsed.
    expected = ["the name of the dead-letter queue", *(["the queue cannot be browsed"] if story.queue else [])]
    texts = [event.text for event in mq.told(Warned)]
    assert [True] * len(expected) == [words in text for words, text in zip(expected, texts, strict=True)]
    assert NOT_AUTHORIZED not in {event.reason for event in mq.told(ListenerPaused)}


@pytest.mark.parametrize("behaviour", [Behaviour.CONNECTION_CONSUMER, Behaviour.APPLICATION_SERVER])
async def test_a_dead_letter_queue_that_is_not_known_loses_no_message(mq: QueueManagerKit, behaviour: Behaviour) -> None:
    """A connection consumer discards a message that is not persistent if the dead-letter queue does not take it."""
    grant(mq, LOCAL, *MOVES)
    Given("QMGR", "", "INQ").take_away(mq)
    mq.mqsc("ALTER QLOCAL(BOQ) PUT(DISABLED)")

    calls = await Story(LOCAL, "IN", backout=Backout(behaviour=behaviour, pace=CALM.pace)).run(mq)

    assert [b"poison"] * THRESHOLD == calls
    assert 1 == mq.depth("IN")
    assert Discard not in {type(event.disposition) for event in mq.told(Disposed)}


# -- destinations


@pytest.mark.sampled(5)
@pytest.mark.parametrize("missing", ["PUT", "PASSALL"])
async def test_without_put_or_passall_on_both_destinations_it_is_handled_no_more(
    mq: QueueManagerKit, story: Story, missing: str
) -> None:
    grant(mq, story.role, *MOVES)
    for name in ("BOQ", DLQ):
        Given("QUEUE", name, missing).take_away(mq)

    assert [b"poison"] * THRESHOLD == await story.run(mq)
    assert {Return} == {type(event.disposition) for event in mq.told(Disposed)}
    assert (0, 0) == (mq.depth("BOQ"), mq.depth(DLQ))
    assert {NOT_AUTHORIZED} == {event.reason for event in mq.told(ListenerPaused)}


REPORTING = Backout(behaviour=Behaviour.CONNECTION_CONSUMER, pace=CALM.pace)


async def reported(mq: QueueManagerKit, *taken: Given) -> ReportSent:
    """Run a message that asks for an exception report and misses the backout requeue queue; return what became of it."""
    grant(mq, LOCAL, "sends exception reports", *MOVES)
    for each in taken:
        each.take_away(mq)
    mq.mqsc("ALTER QLOCAL(IN) BOQNAME(' ')")
    report = int(Report.EXCEPTION | Report.DISCARD_MSG)
    async with mq.run(Story(LOCAL, "IN", backout=REPORTING).app([]), user="app"):
        await mq.put("IN", b"poison", report=report, reply_to_queue="REPORTS", message_type=8)
        await anyio.sleep(60)
    [sent] = mq.told(ReportSent)
    return sent


async def test_a_report_needs_put_on_the_reply_queue(mq: QueueManagerKit) -> None:
    assert 0 == (await reported(mq)).reason
    assert (1, 0) == (mq.depth("REPORTS"), mq.depth(DLQ))


async def test_without_it_the_report_goes_to_the_dead_letter_queue(mq: QueueManagerKit) -> None:
    assert NOT_AUTHORIZED == (await reported(mq, Given("QUEUE", "REPORTS", "PUT"))).reason
    assert (0, 1) == (mq.depth("REPORTS"), mq.depth(DLQ))


async def test_without_inquire_on_the_queue_manager_the_report_is_lost_and_the_loss_is_an_event(mq: QueueManagerKit) -> None:
    taken = Given("QUEUE", "REPORTS", "PUT"), Given("QMGR", "", "INQ")

    assert NOT_AUTHORIZED == (await reported(mq, *taken)).reason
    assert (0, 0, 0) == (mq.depth("REPORTS"), mq.depth(DLQ), mq.depth("IN"))


# -- consumers


async def received(mq: QueueManagerKit, queue: str, times: int) -> tuple[list[bytes], list[str]]:
    """Receive and back out; return the bodies, and the errors of `receive`."""
    bodies: list[bytes] = []
    errors: list[str] = []
    async with mq.run(app := App(name="consuming"), user="app"), app.consumer(queue) as consumer:
        await mq.put("IN", b"poison")
        for _ in range(times):
            try:
                message = await consumer.receive(wait_ms=10)
            except MQIError as error:
                errors.append(str(error))
                with suppress(MQIError):
                    await consumer.commit()  # 2003 once: the unit of work is backed out
                continue
            if message is None:
                await consumer.commit()
            else:
                bodies.append(message.body)
                await consumer.backout()
    return bodies, errors


async def test_a_consumer_needs_the_same_rows(mq: QueueManagerKit, on_queue: Story) -> None:
    grant(mq, on_queue.role, *MOVES)

    assert ([b"poison"] * THRESHOLD, []) == await received(mq, on_queue.queue, 5)
    assert [(Requeue, 0)] == tried(mq)
    assert (0, 1) == (mq.depth("IN"), mq.depth("BOQ"))
    assert [] == mq.told(Warned)


@pytest.mark.parametrize("missing", ["CONNECT", "GET"])
async def test_a_consumer_does_not_open_without_them(mq: QueueManagerKit, on_queue: Story, missing: str) -> None:
    grant(mq, on_queue.role, *MOVES)
    [taken] = [each for each in needed(on_queue.role, *MOVES) if each.word == missing]
    taken.take_away(mq)

    with pytest.raises(NotAuthorizedError, match=f"User app lacks {missing}"):
        await received(mq, on_queue.queue, 1)


async def test_without_inquire_a_consumer_raises_and_gets_no_message_again_and_again(
    mq: QueueManagerKit, on_queue: Story
) -> None:
    grant(mq, on_queue.role, *MOVES)
    Given("QUEUE", "IN", "INQ").take_away(mq)

    bodies, errors = await received(mq, on_queue.queue, 50)

    assert [b"poison"] == bodies
    assert 49 == len(errors)
    assert all("User app lacks INQ on queue IN" in error for error in errors)
    assert [2] == [found.backout_count for found in mq.browse("IN")]  # one delivery, and one that found no settings


async def test_without_inquire_on_the_queue_manager_a_consumer_moves_poison(mq: QueueManagerKit, on_queue: Story) -> None:
    grant(mq, on_queue.role, *MOVES)
    Given("QMGR", "", "INQ").take_away(mq)

    assert ([b"poison"] * THRESHOLD, []) == await received(mq, on_queue.queue, 5)
    assert 1 == mq.depth("BOQ")
    [warned] = mq.told(Warned)
    assert "User app lacks INQ on the queue manager" in warned.text


async def test_a_consumer_delivers_again_a_message_that_it_cannot_move(mq: QueueManagerKit, on_queue: Story) -> None:
    """A JMS consumer discards the message if the dead-letter queue does not take it; here that queue is not known."""
    grant(mq, on_queue.role, *MOVES)
    Given("QMGR", "", "INQ").take_away(mq)
    mq.mqsc("ALTER QLOCAL(BOQ) PUT(DISABLED)")

    assert ([b"poison"] * 5, []) == await received(mq, on_queue.queue, 5)
    assert 1 == mq.depth("IN")
    assert {Return} == {type(event.disposition) for event in mq.told(Disposed)}


# -- the table


def test_every_row_of_the_table_is_about_something_that_an_application_does() -> None:
    elsewhere = {"puts a message", "puts a message with a delay", "retries after a long pause (`Retry`)", "publishes"}
    records = {"puts [records of decisions](landing.md#decisions)"}
    # The embedded command server serves administrators only, so no story here can show what an IBM MQ asks for.
    ages = {"shows the [age of the oldest message](metrics.md#the-age-of-the-oldest-message) on IBM MQ"}

    assert {LOCAL, ALIAS, TOPIC, "sends exception reports", *MOVES} | elsewhere | records | ages == {row.role for row in rows()}
    assert set(OBJECTS) <= {row.on for row in rows()}
