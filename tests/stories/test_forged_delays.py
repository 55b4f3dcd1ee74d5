"""Staged messages that users forge, and the users of rightful delayed messages and retries, over running applications.

`tests/conformance/test_forged_delays.py` has the single calls, over each queue manager.
Source: IBM, "JMS 2.0 delivery delay", "Authorization"; "When this queue is created, it must be secured".
"""

from contextlib import suppress
from typing import Literal

import anyio
import pytest

from mqflow import App, Backout, Message, MQIError, Pace, Retry
from mqflow.app.config.settings import Settings
from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import DelayedRefused, DelayProcessorStarted, DelayProcessorStopped, Event, WaitsOnQueue, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.delivery_delay import staged
from mqflow.policy.poison.disposition import DeadLetter
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE as OWN
from mqflow.runtime.delay.stage import STAGING_QUEUE, moment
from mqflow.testing.kit import QueueManagerKit
from tests.running import run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

DLQ = "SYSTEM.DEAD.LETTER.QUEUE"
NOT_AUTHORIZED = int(Reason.NOT_AUTHORIZED)


class Elsewhere:
    """A queue manager that neither stages nor delivers by itself, as IBM MQ seen through a client package."""

    inline: Literal[True] = True

    def __init__(self, inner: EmbeddedQueueManager, user: str, staging_queue: str = "") -> None:
        self._inner = inner
        self.staging_queue = staging_queue
        self._user = user

    @property
    def name(self) -> str:
        return self._inner.name

    @property
    def stopped(self) -> bool:
        return self._inner.stopped

    def connect(self, *, application_name: str = "", user: str = "") -> EmbeddedConnection:
        return self._inner.connect(application_name=application_name, user=user or self._user)


@pytest.fixture(autouse=True)
def queues(mq: QueueManagerKit) -> None:
    """Queues; the application `app` may do everything but put to VICTIM, and `attacker` may put on the staging queues only."""
    mq.mqsc(f"ALTER QMGR DEADQ({DLQ})", f"DEFINE QLOCAL('{STAGING_QUEUE}') MSGDLVSQ(FIFO)")
    mq.define("IN", bothresh=5)
    for name in ("LATER", "VICTIM"):
        mq.define(name)
    for user, queue, words in (
        ("attacker", "", "CONNECT"),
        ("attacker", OWN, "PUT"),
        ("attacker", STAGING_QUEUE, "PUT"),
        ("app", "", "CONNECT,INQ,ALTUSR"),
        ("app", "IN", "GET,INQ"),
        ("app", "LATER", "PUT,INQ,PASSALL"),
        ("app", "VICTIM", "PUT,PASSALL"),
        ("app", DLQ, "PUT,PASSALL"),
        ("app", STAGING_QUEUE, "GET,BROWSE,INQ,PUT,PASSALL"),
    ):
        allow(mq, user, queue, words)


def allow(mq: QueueManagerKit, user: str, queue: str, words: str, how: str = "AUTHADD") -> None:
    what = f"PROFILE('{queue}') OBJTYPE(QUEUE)" if queue else "OBJTYPE(QMGR)"
    mq.mqsc(f"SET AUTHREC {what} PRINCIPAL('{user}') {how}({words})")


def forge(mq: QueueManagerKit, staging_queue: str) -> None:
    """Put, as a user that may put on the staging queue only, a message that says it is staged for VICTIM."""
    connection = mq.queue_manager.connect(application_name="attack", user="attacker")
    with pytest.raises(MQIError, match="User attacker lacks PUT on queue VICTIM"):
        connection.put1("VICTIM", MessageDescriptor(), b"forged", PutOption.NO_SYNCPOINT)
    message = staged(MessageDescriptor(message_id=b"m" * 24), b"forged", target="VICTIM", delay_ms=0, now=moment(mq.clock))
    with suppress(MQIError):
        connection.put1(staging_queue, *message, PutOption.NEW_MSG_ID)
    connection.disconnect()


@pytest.mark.parametrize("staging_queue", [OWN, STAGING_QUEUE])
async def test_with_put_on_the_staging_queue_alone_no_message_reaches_another_queue(
    mq: QueueManagerKit, staging_queue: str
) -> None:
    async with mq.run(app := App(settings=Settings(delay_queue=staging_queue)), user="app"):
        forge(mq, staging_queue)
        await anyio.sleep(60)
        await app.put("LATER", b"rightful", delay=5)
        [found] = await mq.drain("LATER")

    assert (0, b"rightful") == (mq.depth("VICTIM"), found.data)
    assert [DeadLetter(DLQ, NOT_AUTHORIZED)] * (staging_queue != OWN) == [
        event.disposition for event in mq.told(DelayedRefused)
    ]
    assert [] == mq.told(Warned)


def processing(mq: QueueManagerKit, *, own_authority: bool = False) -> tuple[App, Elsewhere]:
    app = App(name="processing")
    app.delay_processor(own_authority=own_authority)

    def note(event: Event) -> None:
        mq.events.append(event)

    app.hooks.append(note)
    return app, Elsewhere(mq.queue_manager, "app")


async def test_elsewhere_a_forged_message_is_put_with_the_authority_of_its_user(mq: QueueManagerKit) -> None:
    app, elsewhere = processing(mq)
    async with app.running(elsewhere, clock=mq.clock, random=mq.random):
        forge(mq, STAGING_QUEUE)
        await app.put("LATER", b"rightful", delay=5)
        [found] = await mq.drain("LATER")

    [dead] = mq.browse(DLQ)
    assert (0, b"rightful") == (mq.depth("VICTIM"), found.data)
    assert (b"forged", NOT_AUTHORIZED, "VICTIM") == (dead.body, dead.why.reason, dead.why.queue)
    assert "User attacker lacks PUT on queue VICTIM" in mq.told(DelayedRefused)[0].detail


async def test_elsewhere_a_user_that_loses_its_authority_before_the_delivery_gets_a_dead_letter(mq: QueueManagerKit) -> None:
    """Different from IBM's own delay processor, which checks only the send."""
    app, elsewhere = processing(mq)
    async with app.running(elsewhere, clock=mq.clock, random=mq.random):
        await app.put("LATER", b"x", delay=5)
        allow(mq, "app", "LATER", "PUT", "AUTHRMV")
        await anyio.sleep(60)

    assert (0, NOT_AUTHORIZED) == (mq.depth("LATER"), mq.browse(DLQ)[0].why.reason)


async def test_without_alternate_user_authority_the_processor_moves_nothing_and_says_so_once(mq: QueueManagerKit) -> None:
    allow(mq, "app", "", "ALTUSR", "AUTHRMV")
    app, elsewhere = processing(mq)
    async with app.running(elsewhere, clock=mq.clock, random=mq.random):
        await app.put("LATER", b"x", delay=5)
        await anyio.sleep(600)
        assert (0, 0, 1) == (mq.depth("LATER"), mq.depth(DLQ), mq.depth(STAGING_QUEUE))
        [stopped] = mq.told(DelayProcessorStopped)
        assert [] == mq.told(DelayProcessorStarted)
        allow(mq, "app", "", "ALTUSR")
        [found] = await mq.drain("LATER")

    assert b"x" == found.data
    assert "User app lacks ALTUSR on the queue manager" in stopped.why
    assert "app.delay_processor(own_authority=True)" in stopped.why


async def test_a_full_staging_queue_does_not_keep_the_processor_from_emptying_it(mq: QueueManagerKit) -> None:
    app, elsewhere = processing(mq)
    async with app.running(elsewhere, clock=mq.clock, random=mq.random):
        await app.put("LATER", b"x", delay=5)
    mq.mqsc(f"ALTER QLOCAL('{STAGING_QUEUE}') MAXDEPTH(1)")
    mq.clock.advance(10)
    again, _ = processing(mq)
    async with again.running(elsewhere, clock=mq.clock, random=mq.random):
        [found] = await mq.drain("LATER")

    assert b"x" == found.data


async def test_a_processor_with_its_own_authority_warns_once_although_it_starts_again(mq: QueueManagerKit) -> None:
    allow(mq, "app", "", "ALTUSR", "AUTHRMV")
    app, elsewhere = processing(mq, own_authority=True)
    async with app.running(elsewhere, clock=mq.clock, random=mq.random):
        forge(mq, STAGING_QUEUE)
        await mq.drain("VICTIM")

        mq.mqsc(f"ALTER QLOCAL('{STAGING_QUEUE}') GET(DISABLED)")
        await anyio.sleep(10)
        mq.mqsc(f"ALTER QLOCAL('{STAGING_QUEUE}') GET(ENABLED)")
        await anyio.sleep(10)

    text = (
        f"The delay processor of {STAGING_QUEUE} puts with its own authority. "
        f"So each user with PUT on {STAGING_QUEUE} can reach every queue that the processor may put to."
    )
    assert [Warned(text=text, queue=STAGING_QUEUE)] == mq.told(Warned)
    assert 2 == len(mq.told(DelayProcessorStarted))


# -- retries


def asking_for_a_retry(app: App) -> list[int]:
    """Declare a listener whose handler asks for a later retry of each message, once; return the backout counts it sees."""
    counts: list[int] = []

    @app.listener("IN", backout=Backout(pace=Pace(first_s=0.0, max_s=0.0)))
    async def handle(message: Message) -> None:
        counts.append(message.backout_count)
        if not message.backout_count:
            raise Retry("not yet", after=60)

    return counts


def waits(mq: QueueManagerKit) -> list[str]:
    """Return the staging queues on which a message waits for its retry."""
    return [event.staging_queue for event in mq.told(WaitsOnQueue)]


@pytest.mark.parametrize("delay_queue", ["", STAGING_QUEUE])
async def test_a_retry_needs_authority_on_its_own_queue_only(mq: QueueManagerKit, delay_queue: str) -> None:
    allow(mq, "app", "IN", "PUT,PASSALL")
    allow(mq, "app", STAGING_QUEUE, "ALL", "AUTHRMV")
    app = App(settings=Settings(delay_queue=delay_queue))
    counts = asking_for_a_retry(app)
    async with mq.run(app, user="app"):
        await mq.put("IN", b"x")
        await anyio.sleep(30)
        assert [OWN] == waits(mq)
        assert 1 == mq.depth(OWN)
        await anyio.sleep(60)

    assert ([0, 1], 0) == (counts, mq.depth("IN"))
    assert [] == mq.told(Warned)


async def test_a_retry_waits_too_if_another_process_serves_the_queue_manager(mq: QueueManagerKit) -> None:
    """That process has the delay processor; this application has none."""
    allow(mq, "app", "IN", "PUT,PASSALL")
    app = App(name="served")
    asking_for_a_retry(app)
    served = Elsewhere(mq.queue_manager, "app", staging_queue=OWN)
    async with app.running(served, clock=mq.clock, random=mq.random):
        await mq.put("IN", b"x")
        await anyio.sleep(90)

    assert (1, 0) == (mq.depth(OWN), mq.depth("IN"))


@pytest.mark.parametrize("missing", ["PUT", "PASSALL"])
async def test_without_put_and_passall_on_its_queue_the_worker_waits_with_the_message(
    mq: QueueManagerKit, missing: str
) -> None:
    allow(mq, "app", "IN", "PUT,PASSALL")
    allow(mq, "app", "IN", missing, "AUTHRMV")
    app = App()
    counts = asking_for_a_retry(app)
    await run_for(mq, 90, app, b"x", user="app")

    assert ([0, 1], []) == (counts, waits(mq))
    assert f"User app lacks {missing} on queue IN" in mq.told(Warned)[0].text


@pytest.mark.parametrize(
    ("user", "revoked", "staging"), [("sender", "NONE", [STAGING_QUEUE]), ("sender", "PUT", []), ("app", "PASSALL", [])]
)
async def test_elsewhere_a_message_waits_on_the_staging_queue_only_if_its_user_may_put_to_its_queue(
    mq: QueueManagerKit, user: str, revoked: str, staging: list[str]
) -> None:
    """The processor puts it with the authority of that user. Otherwise the worker waits, and no message is dead-lettered."""
    allow(mq, "app", "IN", "PASSALL")
    allow(mq, "sender", "", "CONNECT")
    allow(mq, "sender", "IN", "PUT")
    sender = mq.queue_manager.connect(user="sender")
    sender.put1("IN", MessageDescriptor(), b"x", PutOption.NO_SYNCPOINT)
    sender.disconnect()
    allow(mq, user, "IN", revoked, "AUTHRMV")
    app, elsewhere = processing(mq)
    counts = asking_for_a_retry(app)
    async with app.running(elsewhere, clock=mq.clock, random=mq.random):
        await anyio.sleep(90)

    assert ([0, 1], staging, 0) == (counts, waits(mq), mq.depth(DLQ))
