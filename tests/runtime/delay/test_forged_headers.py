"""Any bytes on a staging queue: no message that a user writes there ends the processor or is lost without a word."""

import struct

from hypothesis import given
from hypothesis import strategies as st

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import HeaderError, MQIError
from mqflow.mqi.headers.delay import DELAY_HEADER_BYTES, FORMAT, parse
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.policy.delivery_delay import due_in_ms
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection.open_objects import INPUT
from mqflow.runtime.decision_records import ConnectionRecorder
from mqflow.runtime.delay.delayed_move import DelayedMove
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, STAGING_QUEUE, moment
from mqflow.testing.virtual_clock import SeededRandom, VirtualClock
from mqflow.verbs import GetOptions
from mqflow.world import World

longs = st.one_of(st.integers(-(2**31), 2**31 - 1), st.sampled_from((0, 1, 2, 8)))
moments = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**53), st.just(0))
names = st.one_of(st.binary(max_size=48), st.sampled_from((b"LATER", b"NOWHERE", b"RECORDS", b"TO.ITSELF")))
headers = st.builds(
    struct.Struct(">4siiiii8siii48s48s24s24sqqqq16sii12x").pack, st.just(b"MFD "), st.just(1), st.just(DELAY_HEADER_BYTES),
    longs, longs, longs,
    st.one_of(st.binary(max_size=8), st.sampled_from((b"MQHRF2", b"MQDEAD", b"MFLDELAY"))),
    longs, longs, longs, names, st.one_of(st.just(b""), st.binary(max_size=48)),
    st.one_of(st.just(bytes(24)), st.binary(max_size=24)), st.binary(max_size=24), moments, moments, moments, moments,
    st.one_of(st.just(bytes(16)), st.binary(max_size=16)), longs, longs,
)  # fmt: skip


@given(
    headers,
    st.binary(max_size=40),
    st.sampled_from((STAGING_QUEUE, EMBEDDED_STAGING_QUEUE)),
    st.sampled_from(("SYSTEM.DEAD.LETTER.QUEUE", "")),
)
def test_a_message_with_any_header_is_moved_or_stays(data: bytes, body: bytes, queue: str, dead_letter_queue: str) -> None:
    clock = VirtualClock()
    with EmbeddedQueueManager("QM1", world=World(clock), dead_letter_queue=dead_letter_queue) as queue_manager:
        for name in ("LATER", "RECORDS", STAGING_QUEUE):
            queue_manager.administration.define(QueueAttributes(name=name))
        connection = queue_manager.connect()
        described = MessageDescriptor(format=FORMAT, reply_to_queue="LATER", message_id=b"m" * 24)
        try:
            connection.put1(queue, described, data + body, PutOption.NO_SYNCPOINT)
            header = parse(data + body)
        except HeaderError:
            return  # the processor leaves the message where it is
        except MQIError:
            return
        assert isinstance(due_in_ms(header, moment(clock)), int)
        records = ConnectionRecorder("RECORDS", consumer="processor", world=World(clock, SeededRandom(1)))
        move = DelayedMove(
            connection, connection.open(queue, INPUT), queue, clock, "processor", records, as_sender=queue == STAGING_QUEUE
        )
        try:
            moved = move.deliver(b"m" * 24)
            assert moved is not None
            if moved.record is not None:
                records.put_all(connection, [moved.record])
            if moved.settlement is Settlement.COMMIT:
                connection.commit()
                return
            connection.backout()
            assert move.postpone(b"m" * 24, reason=moved.reason)
            connection.commit()
        except MQIError:  # the processor says it, and skips the message
            connection.backout()

        browse = connection.open(queue, OpenOption.BROWSE)
        assert connection.get(browse, GetOptions(options=GetOption.BROWSE_NEXT | GetOption.NO_SYNCPOINT)) is not None
