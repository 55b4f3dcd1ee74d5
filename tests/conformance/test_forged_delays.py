"""Forged messages on a staging queue: with PUT on the staging queue alone, no user has a message put to another queue.

The embedded queue manager stages by itself, and refuses staged messages from users. On any other staging queue, the processor
puts with the authority of the user that put the message there.
Source: IBM, "JMS 2.0 delivery delay", "Authorization"; "Alternate-user authority": MQPMO_ALTERNATE_USER_AUTHORITY.
"""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from mqflow.embedded.mqsc import Verdict, run
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, ObjectType, OpenOption, Persistence, PutOption, Report, SubscribeOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.policy.delivery_delay import staged
from mqflow.policy.poison.disposition import DeadLetter, Return
from mqflow.runtime.connection.open_objects import INPUT
from mqflow.runtime.delay.delayed_move import DelayedMove, DelayedResult, check_alternate_user
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, STAGING_QUEUE, Stager, moment
from mqflow.testing.virtual_clock import SeededRandom
from mqflow.verbs import ObjectDescriptor
from mqflow.world import World
from tests.conformance.programs import Program
from tests.conformance.test_delayed import in_real_time, is_embedded
from tests.conformance.under_test import UnderTest, refused

VICTIM, MINE, DLQ = "VICTIM", "MINE", "SYSTEM.DEAD.LETTER.QUEUE"
PLAIN = MessageDescriptor(persistence=Persistence.PERSISTENT, priority=0, message_id=b"m" * 24)
Allow = Callable[..., None]


@pytest.fixture
def allow(queue_manager: UnderTest) -> Allow:
    """Grant authorities on a queue, or on the queue manager if the name is empty; by default to the attacker."""

    def give(name: str, words: str, *, to: str = "attacker", how: str = "AUTHADD") -> None:
        what = f"PROFILE('{name}') OBJTYPE(QUEUE)" if name else "OBJTYPE(QMGR)"
        [response] = run(f"SET AUTHREC {what} PRINCIPAL('{to}') {how}({words})", queue_manager.administration).responses
        assert response.verdict is Verdict.DONE, response.text

    return give


@pytest.fixture(autouse=True)
def queues(queue_manager: UnderTest, allow: Allow) -> None:
    """Queues, and an attacker that may connect and put on the staging queues, and on its own queue."""
    in_real_time(queue_manager)
    queue_manager.define(STAGING_QUEUE, default_persistence=1, message_delivery_sequence=1)
    for name in (VICTIM, MINE):
        queue_manager.define(name)
    run(f"ALTER QMGR DEADQ({DLQ})", queue_manager.administration)
    for name, words in (("", "CONNECT"), (STAGING_QUEUE, "PUT"), (EMBEDDED_STAGING_QUEUE, "PUT"), (MINE, "PUT,INQ")):
        allow(name, words)


@pytest.fixture
def attacker(queue_manager: UnderTest) -> Program:
    return Program(queue_manager, application_name="attacker", user="attacker")


def forged(queue_manager: UnderTest, target: str = VICTIM, **fields: object) -> tuple[MessageDescriptor, bytes]:
    """Return a message that says it is staged for the target, and is due now."""
    assert queue_manager.clock is not None
    plain = replace(PLAIN, format="MQSTR", **fields)
    return staged(plain, b"forged", target=target, delay_ms=0, now=moment(queue_manager.clock))


def only_embedded(queue_manager: UnderTest) -> None:
    if not is_embedded(queue_manager):
        pytest.skip("the staging queue of IBM MQ belongs to its own processor")


def delivered(queue_manager: UnderTest, processor: Program, queue: str, *, as_sender: bool) -> list[DelayedResult | None]:
    """Deliver each message of the staging queue, as a processor does, and return the results."""
    assert queue_manager.clock is not None
    move = DelayedMove(
        processor.connection, processor.open(queue, INPUT), queue, queue_manager.clock, "processor", as_sender=as_sender
    )
    browse, results = processor.open(queue, OpenOption.BROWSE), []
    while (seen := processor.browse(browse)) is not None:
        results.append(move.deliver(seen.descriptor.message_id))
        processor.connection.commit()
    return results


# -- the staging queue of the embedded queue manager


def test_no_user_puts_a_staged_message_on_the_queue_managers_staging_queue(queue_manager: UnderTest, attacker: Program) -> None:
    only_embedded(queue_manager)
    with refused(Reason.NOT_AUTHORIZED) as direct:
        attacker.open(VICTIM, OpenOption.OUTPUT)
    assert "User attacker lacks PUT on queue VICTIM" in direct.value.detail

    with refused(Reason.NOT_AUTHORIZED) as raised:
        attacker.connection.put1(EMBEDDED_STAGING_QUEUE, *forged(queue_manager), PutOption.NEW_MSG_ID)

    assert "put them to their target, with a delay" in raised.value.detail
    assert 0 == queue_manager.depth(EMBEDDED_STAGING_QUEUE)


def test_an_alias_of_the_staging_queue_is_no_way_around(queue_manager: UnderTest, attacker: Program, allow: Allow) -> None:
    only_embedded(queue_manager)
    queue_manager.define_alias("HARMLESS", EMBEDDED_STAGING_QUEUE)
    allow("HARMLESS", "PUT")

    with refused(Reason.NOT_AUTHORIZED):
        attacker.connection.put1("HARMLESS", *forged(queue_manager), PutOption.NEW_MSG_ID)


def test_a_report_of_the_queue_manager_is_no_way_around(queue_manager: UnderTest, attacker: Program) -> None:
    """A COA report with full data has the data and the format of its message. The queue manager puts it by itself."""
    only_embedded(queue_manager)
    descriptor, body = forged(queue_manager)
    asking = replace(descriptor, report=int(Report.COA_WITH_FULL_DATA), reply_to_queue=EMBEDDED_STAGING_QUEUE)

    attacker.connection.put1(MINE, asking, body, PutOption.NO_SYNCPOINT)

    assert 0 == queue_manager.depth(EMBEDDED_STAGING_QUEUE)
    assert 1 == queue_manager.depth(DLQ)


def test_a_publication_is_no_way_around(queue_manager: UnderTest, attacker: Program) -> None:
    """Each copy has the data of the publisher, mostly behind an MQRFH2. The subscriber names the queue of its copies."""
    only_embedded(queue_manager)
    response, *_ = run(
        "SET AUTHREC PROFILE('SYSTEM.BASE.TOPIC') OBJTYPE(TOPIC) PRINCIPAL('attacker') AUTHADD(PUB,SUB)",
        queue_manager.administration,
    ).responses
    assert response.verdict is Verdict.DONE
    handle = attacker.open(EMBEDDED_STAGING_QUEUE, OpenOption.OUTPUT)
    options = SubscribeOption.CREATE
    attacker.connection.subscribe(SubscriptionDescriptor(object_string="a/#", options=options), handle)

    for string in ("a/b", "a/\x01"):  # an MQRFH2 cannot hold the second topic string
        topic = ObjectDescriptor(object_type=ObjectType.TOPIC, object_string=string)
        attacker.connection.put1(topic, *forged(queue_manager), PutOption.NO_SYNCPOINT)

    owner = Program(queue_manager, application_name="processor")
    found, browse = [], owner.open(EMBEDDED_STAGING_QUEUE, OpenOption.BROWSE)
    while (got := owner.browse(browse, GetOption.BROWSE_NEXT | GetOption.PROPERTIES_FORCE_MQRFH2)) is not None:
        found.append(got.descriptor.format)
    assert {"MQHRF2"} >= set(found)  # a processor leaves any message with another format than MFLDELAY


def test_a_staged_message_inside_a_delayed_message_is_no_way_around(
    queue_manager: UnderTest, attacker: Program, allow: Allow
) -> None:
    """The processor puts the inner message with the authority of the queue manager."""
    only_embedded(queue_manager)
    stager = Stager(EMBEDDED_STAGING_QUEUE, World(queue_manager.clock, SeededRandom(1)))  # type: ignore[arg-type]
    allow(EMBEDDED_STAGING_QUEUE, "PUT,INQ")

    for target in (EMBEDDED_STAGING_QUEUE, MINE):
        with refused(Reason.OPTIONS_ERROR):
            stager.put_on(attacker.connection, target, *forged(queue_manager), 1_000)
    with refused(Reason.OPTIONS_ERROR):
        stager.put_on(attacker.connection, EMBEDDED_STAGING_QUEUE, PLAIN, b"x", 1_000)


def test_a_user_with_put_on_the_target_can_delay_without_other_authorities(queue_manager: UnderTest, allow: Allow) -> None:
    """IBM: "carries out authorization checks on the original target destination when the application sends a message"."""
    only_embedded(queue_manager)
    allow("", "CONNECT", to="sender")
    allow(VICTIM, "PUT", to="sender")
    sender = Program(queue_manager, application_name="sender", user="sender")
    stager = Stager(EMBEDDED_STAGING_QUEUE, World(queue_manager.clock, SeededRandom(1)))  # type: ignore[arg-type]
    put = stager.put_on(sender.connection, VICTIM, MessageDescriptor(), b"x", 1_000)
    sender.connection.commit()
    allow(VICTIM, "PUT", to="sender", how="AUTHRMV")
    queue_manager.advance(2)

    owner = Program(queue_manager, application_name="processor")
    [moved] = delivered(queue_manager, owner, EMBEDDED_STAGING_QUEUE, as_sender=False)

    assert moved is not None
    got = owner.got(VICTIM)
    assert (put.descriptor.message_id, b"x", "sender") == (got.descriptor.message_id, got.body, got.descriptor.user_identifier)


def test_the_put_of_a_delayed_message_is_refused_like_the_put_to_its_target(
    queue_manager: UnderTest, attacker: Program
) -> None:
    only_embedded(queue_manager)
    stager = Stager(EMBEDDED_STAGING_QUEUE, World(queue_manager.clock, SeededRandom(1)))  # type: ignore[arg-type]

    with refused(Reason.NOT_AUTHORIZED) as raised:
        stager.put_on(attacker.connection, VICTIM, PLAIN, b"x", 1_000)

    assert "User attacker lacks PUT on queue VICTIM: SET AUTHREC PROFILE('VICTIM')" in raised.value.detail
    assert 0 == queue_manager.depth(EMBEDDED_STAGING_QUEUE)


# -- any other staging queue


def test_a_processor_delivers_with_the_authority_of_the_user_that_staged_the_message(
    queue_manager: UnderTest, attacker: Program, allow: Allow
) -> None:
    attacker.connection.put1(STAGING_QUEUE, *forged(queue_manager), PutOption.NEW_MSG_ID)
    attacker.connection.put1(STAGING_QUEUE, *forged(queue_manager, MINE), PutOption.NEW_MSG_ID)
    processor = Program(queue_manager, application_name="processor")

    first, second = delivered(queue_manager, processor, STAGING_QUEUE, as_sender=True)

    assert first is not None
    assert second is not None
    assert (Reason.NOT_AUTHORIZED, Reason.NONE) == (first.reason or first.events[0].reason, second.reason)  # type: ignore[union-attr]
    assert [DeadLetter(DLQ, Reason.NOT_AUTHORIZED)] == [event.disposition for event in first.events]  # type: ignore[union-attr]
    assert (0, 1, 1) == (queue_manager.depth(VICTIM), queue_manager.depth(MINE), queue_manager.depth(DLQ))


def test_a_report_goes_only_to_a_queue_of_the_user_that_staged_the_message(queue_manager: UnderTest, attacker: Program) -> None:
    """A message without a reply queue of its own would have its data put on any queue by an expiration report."""
    fields = {"expiry_tenths": 1, "report": int(Report.EXPIRATION_WITH_FULL_DATA), "reply_to_queue": VICTIM}
    attacker.connection.put1(STAGING_QUEUE, *forged(queue_manager, MINE, **fields), PutOption.NEW_MSG_ID)
    queue_manager.advance(10)

    delivered(queue_manager, Program(queue_manager, application_name="processor"), STAGING_QUEUE, as_sender=True)

    assert (0, 0, 1) == (queue_manager.depth(VICTIM), queue_manager.depth(MINE), queue_manager.depth(DLQ))


def test_a_message_that_no_queue_takes_keeps_the_user_that_staged_it(queue_manager: UnderTest, attacker: Program) -> None:
    run("ALTER QMGR DEADQ(' ')", queue_manager.administration)
    attacker.connection.put1(STAGING_QUEUE, *forged(queue_manager), PutOption.NEW_MSG_ID)
    processor = Program(queue_manager, application_name="processor")
    assert queue_manager.clock is not None
    handle = processor.open(STAGING_QUEUE, INPUT)
    move = DelayedMove(processor.connection, handle, STAGING_QUEUE, queue_manager.clock, "processor", as_sender=True)
    for _ in range(3):
        seen = processor.browse(processor.open(STAGING_QUEUE, OpenOption.BROWSE))
        assert seen is not None
        assert "attacker" == seen.descriptor.user_identifier
        result = move.deliver(seen.descriptor.message_id)
        assert result is not None
        assert [Return] == [type(event.disposition) for event in result.events]  # type: ignore[union-attr]
        processor.connection.backout()
        move.postpone(seen.descriptor.message_id)
        processor.connection.commit()

    assert 0 == queue_manager.depth(VICTIM)


@pytest.mark.parametrize(("words", "missing"), [("CONNECT,ALTUSR", ""), ("CONNECT", "ALTUSR")], ids=["with ALTUSR", "without"])
def test_a_processor_without_alternate_user_authority_learns_it_before_it_moves_a_message(
    queue_manager: UnderTest, allow: Allow, words: str, missing: str
) -> None:
    allow("", words, to="moves")
    allow(STAGING_QUEUE, "GET,BROWSE,INQ,PUT,PASSALL", to="moves")
    processor = Program(queue_manager, application_name="processor", user="moves")
    if not missing:
        check_alternate_user(processor.connection, STAGING_QUEUE)
        assert 0 == queue_manager.depth(STAGING_QUEUE)
        return

    with refused(Reason.NOT_AUTHORIZED) as raised:
        check_alternate_user(processor.connection, STAGING_QUEUE)

    assert "app.delay_processor(own_authority=True)" in raised.value.detail
    assert 0 == queue_manager.depth(STAGING_QUEUE)
