"""The upper limit for the rate of a served queue manager: the same frames between two processes, without a queue manager.

Sockets, frames, requests and replies are mqflow's. The server encodes each reply again, with the same content.
"""

import socket
import subprocess
import sys
import time

from benchmarks.orders import BODY
from benchmarks.samples import cpu_s, cpu_s_of
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import LENGTH_BYTES, Frames
from mqflow.embedded.wire.server.answer_parts import AnswerParts
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import ApplicationType, GetOption, Persistence
from mqflow.verbs import GetOptions, Got

__all__ = ("floor",)


def floor(messages: int, unit_of_work: int) -> tuple[float, float, float]:
    """Return the messages a second, and the processor time of each message on both sides, in microseconds."""
    own, other = socket.socketpair()
    request = requests.Exchange(1, GetOptions(options=GetOption.SYNCPOINT), commit=True, most=unit_of_work)
    asked, count = requests.encode(request), messages // unit_of_work
    words = [sys.executable, "-m", __name__, str(other.fileno())]
    process = subprocess.Popen(words, pass_fds=(other.fileno(),))
    with own:
        other.close()
        frames = Frames(own)
        _ask(frames, request, asked)  # the server is ready
        began, own_s, other_s = time.perf_counter(), cpu_s(), cpu_s_of(process.pid)
        for _ in range(count):
            _ask(frames, request, asked)
        taken_s = time.perf_counter() - began
        own_s, other_s = cpu_s() - own_s, cpu_s_of(process.pid) - other_s
    process.wait()
    return messages / taken_s, own_s / messages * 1e6, other_s / messages * 1e6


def _ask(frames: Frames, request: requests.Exchange, asked: bytes) -> None:
    answer: requests.Exchanged | None = requests.decode_reply(request, frames.exchange(asked)).value
    while answer is not None and answer.more:
        answer = requests.decode_reply(request, frames.answer()).value


def _answer(stream: socket.socket) -> None:
    frames, decoded, whole, parts = Frames(stream), requests.Decoded(), bytearray(LENGTH_BYTES), AnswerParts()

    def send(part: requests.Exchanged) -> int:
        requests.encode_into(requests.Reply(None, part), whole, LENGTH_BYTES)
        frames.send_filled(whole)
        return len(whole)

    while (frame := frames.receive()) is not None:
        request = decoded(frame)
        assert isinstance(request, requests.Exchange)
        unit = tuple(_got(number) for number in range(request.most))
        send(parts.send_all_but_last(unit, send))


def _got(number: int) -> Got:
    return Got(
        descriptor=_DESCRIPTOR,
        body=BODY,
        data_bytes=len(BODY),
        resolved_queue="ORDERS.IN",
        message_token=number.to_bytes(16, "big"),
    )


#: The values that a queue manager fills in.
_DESCRIPTOR = MessageDescriptor(
    persistence=Persistence.NOT_PERSISTENT,
    priority=0,
    message_id=b"AMQ QM1".ljust(24),
    ccsid=1208,
    user_identifier="somebody",
    put_application_type=ApplicationType.UNIX,
    put_application_name="python -m benchmarks.served",
    put_date="20261121",
    put_time="12000000",
)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as given:
        _answer(given)
