"""A message that is moved or staged keeps its own context: the user, the program and the time of its put.

Source: IBM q032280: the fields of a moved message; q097680: MQPMO_PASS_ALL_CONTEXT passes the context of the last MQGET.
"""

from datetime import timedelta

import anyio
import pytest

from mqflow import App, Batch, Message, Reject, Retry
from mqflow.events import Delivered, Warned
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.testing.faults import Fault
from mqflow.testing.kit import QueueManagerKit
from tests.running import defining, run_for

pytestmark = pytest.mark.mq_backend("asyncio", "trio")

USERS = {b'"bad"': "alice", b"2": "bob", b'"bad too"': "carol", b"4": "dave"}
queues = defining("BOQ", "DLQ", dead_letter_queue="DLQ", bothresh=3, boqname="BOQ")


def put(mq: QueueManagerKit, *bodies: bytes) -> None:
    """Put these messages, each with the context of another user."""
    connection = mq.queue_manager.connect()
    handle = connection.open("IN", OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT)
    for body in bodies:
        user = USERS.get(body, "erin")
        descriptor = MessageDescriptor(
            format="MQSTR", user_identifier=user, accounting_token=user.encode().ljust(32, b"\0"),
            application_identity_data=user, put_application_type=11, put_application_name=user, put_date="20200102",
            put_time="03040506", application_origin_data=user[:4],
        )  # fmt: skip
        connection.put(handle, descriptor, body, PutOption.NO_SYNCPOINT | PutOption.SET_ALL_CONTEXT)
    connection.disconnect()


def contexts(mq: QueueManagerKit, queue: str) -> dict[str, set[str]]:
    """Return the names of the user in the context of each message on this queue, by the text of the message."""
    found = {}
    for message in mq.browse(queue):
        md = message.descriptor
        token = md.accounting_token.rstrip(b"\0").decode()
        found[message.text()] = {md.user_identifier, token, md.application_identity_data, md.put_application_name}
        assert ("20200102", md.user_identifier[:4]) == (md.put_date, md.application_origin_data)
    return found


def application(kind: str) -> App:
    app = App()
    if kind == "batch":

        @app.listener("IN", batch=Batch(max=9, wait_ms=0))
        async def take(numbers: list[int]) -> None:
            pass
    else:

        @app.listener("IN", unit_of_work=9)
        async def handle(body: str) -> None:
            if "bad" in body:
                raise Reject("never")

    return app


@pytest.mark.parametrize("kind", ["unit", "batch"])
async def test_a_message_that_is_moved_out_of_a_unit_of_several_keeps_its_own_context(mq: QueueManagerKit, kind: str) -> None:
    put(mq, *USERS)
    await run_for(mq, 10, application(kind))

    assert {'"bad"': {"alice"}, '"bad too"': {"carol"}} == contexts(mq, "BOQ")
    assert len(USERS) == len(mq.told(Delivered))


@pytest.mark.parametrize("kind", ["unit", "batch"])
async def test_if_the_user_may_not_set_a_context_the_message_is_moved_at_its_next_delivery_when_it_is_alone(
    mq: QueueManagerKit, kind: str
) -> None:
    mq.faults.add(Fault(verb="MQOPEN", object_name="BOQ", reason=Reason.NOT_AUTHORIZED))
    put(mq, *USERS)
    await run_for(mq, 10, application(kind))

    assert {'"bad"': {"alice"}, '"bad too"': {"carol"}} == contexts(mq, "BOQ")
    assert (0, 0) == (mq.depth("DLQ"), mq.depth("IN"))


@pytest.mark.parametrize("may_set", [True, False])
async def test_a_message_that_is_staged_for_its_pause_keeps_its_own_context(mq: QueueManagerKit, *, may_set: bool) -> None:
    if not may_set:
        mq.faults.add(Fault(verb="MQPUT1", object_name="IN", reason=Reason.NOT_AUTHORIZED))
    app, users, began = App(), dict[bytes, set[str]](), mq.clock.monotonic()

    @app.listener("IN", unit_of_work=9)
    async def handle(message: Message) -> None:
        if b"bad" in message.body and mq.clock.monotonic() < began + 300:
            raise Retry("later", after=timedelta(minutes=10))
        users[message.body] = {message.descriptor.user_identifier, message.descriptor.put_application_name}

    put(mq, *USERS)
    await run_for(mq, 900, app)

    assert {body: {user} for body, user in USERS.items()} == users
    assert [] == [event for event in mq.told(Warned) if "cannot be staged" in event.text]


async def test_a_message_that_is_moved_while_another_stays_keeps_its_own_context(mq: QueueManagerKit) -> None:
    mq.mqsc("ALTER QMGR DEADQ('')", "ALTER QLOCAL(BOQ) MAXMSGL(50)")
    put(mq, b"bad " * 3 + b"x" * 60)
    async with mq.run(application("unit")):
        await anyio.sleep(10)
        put(mq, b'"bad"')
        await anyio.sleep(20)

    assert 1 == mq.depth("IN")
    assert {'"bad"': {"alice"}} == contexts(mq, "BOQ")


@pytest.mark.parametrize("may_set", [True, False])
async def test_with_the_authority_to_set_a_context_no_other_message_of_the_unit_is_delivered_again(
    mq: QueueManagerKit, *, may_set: bool
) -> None:
    context = "PASSALL,SETALL" if may_set else "PASSALL"
    for what in (
        f"OBJTYPE(QMGR) PRINCIPAL('app') AUTHADD(CONNECT,INQ{',SETALL' if may_set else ''})",
        "PROFILE('IN') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(GET,INQ)",
        f"PROFILE('BOQ') OBJTYPE(QUEUE) PRINCIPAL('app') AUTHADD(PUT,{context})",
    ):
        mq.mqsc(f"SET AUTHREC {what}")
    put(mq, *USERS)
    await run_for(mq, 10, application("unit"), user="app")

    assert {'"bad"': {"alice"}, '"bad too"': {"carol"}} == contexts(mq, "BOQ")
    assert (may_set, 0, 0) == (len(USERS) == len(mq.told(Delivered)), mq.depth("DLQ"), mq.depth("IN"))
