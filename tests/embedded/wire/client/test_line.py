"""One call after the other over one stream: requests, replies, and the error of each way to lose the stream."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

from mqflow.embedded.wire.client.line import Line
from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.frames import made, time_limit
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason

COMMIT = requests.Commit()
DONE = made(requests.encode(requests.Reply(None)))


class Kit:
    """A line over a stream that gives replies in turn; it notes each call that ends something."""

    silence_s = 2.0

    def __init__(self, *gives: bytes | BaseException) -> None:
        self.gives, self.sent, self.said = list(gives), b"", list[object]()
        around: Any = self
        self.line = Line(around, "QM1", around, lambda line: self.said.append(("over", line is self.line)))
        self.frames = self.line._frames

    def recv(self, _most: int, _flags: int = 0, /) -> bytes:
        given = self.gives.pop(0)
        if isinstance(given, BaseException):
            raise given
        return given

    def send(self, data: bytes, _flags: int = 0, /) -> int:
        self.sent += data
        return len(data)

    def setsockopt(self, _level: int, option: int, value: bytes, /) -> None:
        self.said.append((option, value))

    def shutdown(self, how: int, /) -> None:
        self.said.append(("shutdown", how))
        raise OSError(107, "not connected")

    def close(self) -> None:
        self.said.append("close")

    @property
    def socket(self) -> "Kit":
        return self

    def add(self, frames: object) -> None:
        """Record the heartbeats of the line, which a `Kit` sends as well."""
        self.said.append(("add", type(frames).__name__))

    def remove(self, frames: object) -> None:
        self.said.append(("remove", frames is self.frames))

    def refused(self, call: Callable[[], object] | None = None, *, unknown: bool = False) -> str:
        with pytest.raises(MQIError) as raised:
            call() if call else self.line.call(COMMIT, "MQCMIT", "Q", unknown=unknown)
        return str(raised.value)


LIMIT = [(option, time_limit(2.0)) for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO)]
BEGUN = [*LIMIT, ("add", "Frames")]
ENDED = [("remove", True), ("shutdown", socket.SHUT_RDWR), "close", ("over", True)]


def test_a_call_sends_its_request_and_returns_the_value_of_the_reply() -> None:
    opened = requests.Opened(7, "Q", 16, "Q")
    kit = Kit(made(requests.encode(requests.Reply(None, opened))), DONE)
    request = requests.Open("Q", options=16)

    assert [opened, None] == [kit.line.call(request, "MQOPEN", "Q"), kit.line.call(COMMIT, "MQCMIT")]
    assert (made(requests.encode(request)) + made(requests.encode(COMMIT)), BEGUN) == (kit.sent, kit.said)


def test_a_refusal_of_the_owner_is_raised_and_the_next_call_goes_on() -> None:
    error = error_for(Reason.Q_FULL, "MQPUT", "Q", "QM1", "full")
    kit = Kit(made(requests.encode(requests.Reply(requests.failure_of(error)))), DONE)

    assert str(error) == kit.refused()
    assert kit.line.call(COMMIT, "MQCMIT") is None
    assert BEGUN == kit.said


@pytest.mark.parametrize(
    ("given", "detail"),
    [
        (ConnectionResetError(104, "reset"), "[Errno 104] reset"),
        (b"", "the peer ended the connection"),
        (made(b"?"), "a frame of 1 bytes cannot be decoded: ValidationError: Expected `array`, got `int`"),
    ],
)
@pytest.mark.parametrize(("unknown", "name"), [(False, "CONNECTION_BROKEN (2009)"), (True, "CALL_INTERRUPTED (2549)")])
def test_a_lost_stream_ends_the_line_and_the_call_is_2009_or_of_unknown_outcome(
    given: bytes | OSError, detail: str, *, unknown: bool, name: str
) -> None:
    kit = Kit(given)

    assert kit.refused(unknown=unknown).startswith(f"MQCMIT on Q (QM1) failed: MQRC_{name}. The owner is gone: {detail}.")
    assert [*BEGUN, *ENDED] == kit.said
    sent = kit.sent
    kit.line.close()
    assert kit.refused(unknown=True).startswith("MQCMIT on Q (QM1) failed: MQRC_CONNECTION_BROKEN (2009)")
    assert sent == kit.sent


def test_a_call_that_is_cut_off_ends_the_line_so_that_no_other_call_takes_its_reply() -> None:
    kit = Kit(KeyboardInterrupt(), DONE)

    with pytest.raises(KeyboardInterrupt):
        kit.line.call(COMMIT, "MQCMIT")

    assert [*BEGUN, *ENDED] == kit.said
    assert "MQRC_CONNECTION_BROKEN (2009)" in kit.refused()
    assert [DONE] == kit.gives


def test_a_request_longer_than_a_frame_is_not_sent_and_the_next_call_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    kit = Kit(DONE)
    give_back = requests.GiveBack(1)
    monkeypatch.setattr("mqflow.embedded.wire.client.line.FRAME_BYTES_MAX", len(requests.encode(give_back)))

    said = kit.refused(lambda: kit.line.call(requests.GiveBack(1_000), "MQBACK", "Q"))

    length = len(requests.encode(requests.GiveBack(1_000)))
    detail = f"{length} bytes do not fit into a frame of {len(requests.encode(give_back))}"
    assert said.startswith(f"MQBACK on Q (QM1) failed: MQRC_MSG_TOO_BIG_FOR_Q_MGR (2031). {detail}.")
    assert (None, made(requests.encode(give_back))) == (kit.line.call(give_back, "MQBACK"), kit.sent)


def test_a_line_frees_the_memory_of_a_long_reply() -> None:
    whole = made(requests.encode(requests.Reply(None, "x" * 100_000)))
    kit = Kit(whole[:60_000], whole[60_000:])
    hello = requests.Hello(7, "", "", "")
    assert "x" * 100_000 == kit.line.call(hello, "MQCONNX")
    kept = len(kit.frames._room)
    kit.line.let_go()

    assert (131_072, 0) == (kept, len(kit.frames._room))


def test_a_closed_line_is_2018() -> None:
    kit = Kit()
    kit.line.close()

    assert [*BEGUN, *ENDED] == kit.said
    assert kit.refused().startswith("MQCMIT on Q (QM1) failed: MQRC_HCONN_ERROR (2018)")


def test_a_line_takes_one_call_at_a_time() -> None:
    kit = Kit(DONE, DONE)
    kit.line.take("MQGET", "Q")

    said = "(QM1) failed: MQRC_CALL_IN_PROGRESS (2219)"
    assert kit.refused().startswith(f"MQCMIT on Q {said}")
    assert kit.refused(lambda: kit.line.take("MQGET", "Q2")).startswith(f"MQGET on Q2 {said}")
    assert kit.line.reply(COMMIT, None, "MQCMIT") is None
    assert b"" == kit.sent
    kit.line.give_back()
    assert kit.line.call(COMMIT, "MQCMIT") is None


def test_an_interrupt_goes_out_during_a_call_and_a_pulse_replaces_heartbeats_and_limits() -> None:
    kit = Kit()
    kit.line.take("MQGET", "Q")
    kit.line.interrupt()
    kit.line.rely_on_pulse()

    assert made(requests.encode(requests.Interrupt())) == kit.sent
    assert [*BEGUN, ("remove", True), (socket.SO_RCVTIMEO, time_limit(0))] == kit.said
    assert kit.frames.patient
