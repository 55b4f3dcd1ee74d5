"""The texts of addresses, and the requests that have no length of their own."""

from pathlib import Path
from typing import Any

import pytest

from mqflow.embedded.wire.protocol import requests
from mqflow.embedded.wire.protocol.addresses import AddressError, TcpAddress, UnixAddress, is_loopback, parse_address
from mqflow.embedded.wire.protocol.frames import UndecodableError
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import CompletionCode, Reason
from mqflow.verbs import UNIT_BYTES_MAX, GetOptions


@pytest.mark.parametrize(
    ("text", "address", "said"),
    [
        ("unix:/run/qm.sock", UnixAddress(Path("/run/qm.sock")), "/run/qm.sock"),
        ("unix:a:b", UnixAddress(Path("a:b")), "a:b"),
        ("mq.example", TcpAddress("mq.example", 1414), "mq.example:1414"),
        ("mq.example:", TcpAddress("mq.example", 1414), "mq.example:1414"),
        ("mq.example:0", TcpAddress("mq.example", 0), "mq.example:0"),
        ("mq.example:65535", TcpAddress("mq.example", 65_535), "mq.example:65535"),
        ("[::1]:1415", TcpAddress("::1", 1415), "[::1]:1415"),
        ("[::1]", TcpAddress("::1", 1414), "[::1]:1414"),
        ("::1:1415", TcpAddress("::1", 1415), "[::1]:1415"),
    ],
)
def test_a_text_names_a_socket_or_a_port(text: str, address: UnixAddress | TcpAddress, said: str) -> None:
    assert (address, said) == (parse_address(text), str(address))


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":1414",
        "[]:1414",
        "mq.example:65536",
        pytest.param(f"mq.example:{'9' * 5_000}", id="5000 digits"),
        "mq.example:-1",
        "mq.example:x",
        "mq.example:١",  # noqa: RUF001 - a digit that is not ASCII
        "a b",
        "a/b:1",
        "a\t:1",
        "::1",
        "2001:db8::5",
        "fe80::",
        "a:b:1",
        "[::1",
        "::1]",
        "[::1:1414",
        "mq..example:1414",
        f"{'x' * 64}:1414",
    ],
)
def test_any_other_text_is_no_address(text: str) -> None:
    with pytest.raises(AddressError) as raised:
        parse_address(text)

    assert f"{text!r} is not an address; an address is unix:PATH, HOST:PORT or [IPV6]:PORT." == str(raised.value)


def test_a_unix_address_names_a_socket() -> None:
    with pytest.raises(AddressError, match=r"^'unix:' names no socket; an address is unix:PATH, HOST:PORT or"):
        parse_address("unix:")


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("127.0.0.9", True), ("::1", True), ("10.0.0.1", False), ("mq.example", False), ("0.0.0.0", False)],  # noqa: S104 - not bound
)
def test_only_this_machine_reaches_a_loopback_address(host: str, *, expected: bool) -> None:
    assert expected == is_loopback(host)


def messages(*lengths: int) -> list[tuple[MessageDescriptor, bytes]]:
    return [(MessageDescriptor(), bytes(length)) for length in lengths]


HALF = UNIT_BYTES_MAX // 2 - 1_024


@pytest.mark.parametrize(
    ("lengths", "parts"),
    [
        ((), []),
        ((5,), [1]),
        ((HALF, HALF), [2]),
        ((HALF, HALF + 1), [1, 1]),
        ((HALF, HALF, 0), [2, 1]),
        ((3 * UNIT_BYTES_MAX, 1, 1), [1, 2]),
        ((1, 3 * UNIT_BYTES_MAX), [1, 1]),
    ],
)
def test_messages_go_in_parts_that_fit_into_a_frame(lengths: tuple[int, ...], parts: list[int]) -> None:
    """A descriptor counts as 1,024 bytes. A longer message is a part of its own."""
    sent = messages(*lengths)

    found = list(requests.in_frames(sent))

    assert (parts, sent) == ([len(part) for part in found], [message for part in found for message in part])


def test_consecutive_messages_share_their_descriptor() -> None:
    first, second = MessageDescriptor(), MessageDescriptor()

    runs = requests.in_runs([(first, b"1"), (first, b"2"), (second, b"3"), (first, b"4")])

    assert [(first, (b"1", b"2")), (second, (b"3",)), (first, (b"4",))] == list(runs)
    assert [True, False, True] == [descriptor is first for descriptor, _ in runs]
    assert () == requests.in_runs([])


def test_an_error_comes_back_from_its_failure() -> None:
    error = error_for(Reason.Q_FULL, "MQPUT", "ORDERS", "QM1", "a detail")
    error.completion = CompletionCode.WARNING

    failure = requests.failure_of(error)

    assert requests.Failure(2053, "MQPUT", "ORDERS", "QM1", "a detail", 1) == failure
    again = requests.error_of(failure)
    assert (type(error), str(error), CompletionCode.WARNING) == (type(again), str(again), again.completion)


def encoded(request: requests.Request) -> bytes:
    return requests.encode(request)


def test_a_short_request_is_decoded_once() -> None:
    decoded = requests.Decoded()
    same = encoded(requests.Get(1, GetOptions()))

    assert decoded(same) is decoded(bytes(bytearray(same)))
    assert decoded(memoryview(same)) == decoded(same)
    assert decoded(memoryview(same)) is not decoded(same)
    put = encoded(requests.Put(1, MessageDescriptor(), b"", 0, None))
    assert decoded(put) is not decoded(put)


@pytest.mark.parametrize(("size_bytes", "kept"), [(512, True), (513, False)])
def test_a_long_request_is_decoded_each_time(size_bytes: int, *, kept: bool) -> None:
    decoded = requests.Decoded()
    shortest = len(encoded(requests.Get(1, GetOptions(message_id=bytes(256)))))
    data = encoded(requests.Get(1, GetOptions(message_id=bytes(256 + size_bytes - shortest))))

    assert size_bytes == len(data)
    assert kept == (decoded(data) is decoded(data))


def test_sixteen_requests_are_kept_and_the_next_one_begins_again() -> None:
    decoded = requests.Decoded()
    frames = [encoded(requests.Get(number, GetOptions())) for number in range(17)]
    first = [decoded(frame) for frame in frames[:16]]

    assert all(decoded(frame) is known for frame, known in zip(frames[:16], first, strict=True))
    decoded(frames[16])
    assert decoded(frames[0]) is not first[0]


def test_bytes_that_are_no_request_and_no_reply_say_their_length() -> None:
    calls: list[Any] = [
        requests.decode_request,
        lambda data: requests.decode_reply(requests.Commit(), data),
        requests.Decoded(),
    ]
    for call in calls:
        with pytest.raises(UndecodableError, match="a frame of 3 bytes cannot be decoded: "):
            call(b"\xc1\xc1\xc1")


def test_a_hello_shows_no_password() -> None:
    hello = requests.Hello(7, "QM1", "orders", "app", password="hunter2")  # noqa: S106 - of a test

    assert "Hello(7, 'QM1', 'orders', 'app')" == repr(hello)
