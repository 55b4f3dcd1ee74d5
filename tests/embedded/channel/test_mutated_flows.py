"""Mutated flows harm nobody: each is answered, refused or ends its own socket, and other programs go on."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

from mqflow.embedded.mqsc import run
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.fap.fields import FlowError, Writer
from mqflow.fap.spi import SpiVerb
from mqflow.fap.transmission_segments import SegmentType
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import PutOption, SubscribeOption
from tests.embedded.channel.memory_program import Program
from tests.embedded.channel.test_publications import (
    MANAGED,
    UNANSWERED,
    opened,
    put_body,
    spi_put_body,
    spi_subscribe_body,
    subscribe_body,
    wanted,
    with_delay,
)
from tests.fap.client_half import ORDER, Golden, flow_of

#: All flows of all parts.
FLOWS = 10_000
RECORDED = Path(__file__).parent / "flows.json"
OF_A_CONVERSATION = frozenset({SegmentType.REQUEST_MESSAGES, SegmentType.NOTIFICATION})
EXTREMES = (0, 1, -1, 2**31 - 1, -(2**31), 0x4D44_2020, 65_536)


def sound_flows() -> list[tuple[SegmentType, bytes]]:
    """Return flows that a client sends behind MQCONN: recorded ones, and one of each verb that the records do not have."""
    recorded = map(flow_of, msgspec.json.decode(RECORDED.read_bytes(), type=tuple[Golden, ...]))
    kept = [
        (SegmentType(flow.header.kind), flow.body)
        for flow in recorded
        if (flow.header.kind > SegmentType.MQDISC or flow.header.kind in OF_A_CONVERSATION)
    ]
    front = bytes(12) + (1).to_bytes(4)
    durable = wanted(MANAGED | SubscribeOption.ALTER | SubscribeOption.DURABLE, "kept")
    reserve = Writer(ORDER).number(SpiVerb.RESERVE, 1, 44).raw(b"SPRU").number(1, 12).raw(b"SPRI").number(1, 20, 24, 9).done()
    verbs = [
        (SegmentType.MQSUB, subscribe_body(wanted())),
        (SegmentType.SPI, spi_subscribe_body(durable)),
        (SegmentType.SPI, spi_put_body(*with_delay("60000", 1_200))),
        (SegmentType.SPI, spi_put_body(MessageDescriptor(), b"plain")),
        (SegmentType.SPI, reserve),
        (SegmentType.MQSUBRQ, Writer(ORDER).number(1).raw(b"SRO ").number(1, 0, 0).done()),
        (SegmentType.MQSTAT, Writer(ORDER).number(0).raw(b"STAT").number(1).raw(bytes(216)).done()),
        (SegmentType.MQPUT, put_body(b"quick", UNANSWERED)),
        (SegmentType.MQPUT, put_body(b"kept", PutOption.NO_SYNCPOINT)),
    ]
    return [*kept, *((kind, front + body) for kind, body in verbs)]


def flip(random: Random, body: bytearray) -> None:
    body[random.randrange(len(body))] ^= 1 << random.randrange(8)


def cut(random: Random, body: bytearray) -> None:
    del body[random.randrange(len(body)) :]


def grow(random: Random, body: bytearray) -> None:
    body += random.randbytes(random.randrange(1, 64))


def overwrite(random: Random, body: bytearray) -> None:
    place = random.randrange(len(body)) & ~3
    body[place : place + 4] = random.choice(EXTREMES).to_bytes(4, signed=True)


MUTATIONS: tuple[Callable[[Random, bytearray], None], ...] = (flip, cut, grow, overwrite, overwrite)


def mutated(random: Random, body: bytes) -> bytes:
    changed = bytearray(body)
    for _ in range(random.randrange(1, 5)):
        if changed:
            random.choice(MUTATIONS)(random, changed)
    return bytes(changed)


@pytest.mark.parametrize("part", range(4))
def test_a_mutated_flow_is_answered_refused_or_ends_its_own_socket(part: int) -> None:
    random, flows = Random(part), sound_flows()  # noqa: S311 - a seed that repeats
    with EmbeddedQueueManager("QM1") as queue_manager:
        assert 0 == run("DEFINE QLOCAL(Q1)", queue_manager.administration).exit_code()
        program, other = Program(queue_manager), Program(queue_manager)
        for _ in range(FLOWS // 4):
            kind, body = random.choice(flows)
            try:
                program.receive(kind, mutated(random, body))
            except FlowError:
                program.conversation.abandon()
            if not program.conversation.connected:
                program = Program(queue_manager)
            program.line.taken()

        assert (0, 0) == other.call(SegmentType.MQPUT, put_body(b"still here", PutOption.NO_SYNCPOINT), opened(other, "Q1"))[:2]


def test_every_sound_flow_is_read() -> None:
    with EmbeddedQueueManager("QM1") as queue_manager:
        assert 0 == run("DEFINE QLOCAL(Q1)", queue_manager.administration).exit_code()
        program = Program(queue_manager)
        for kind, body in sound_flows():
            program.receive(kind, body)  # raises FlowError for a flow that is not understood
