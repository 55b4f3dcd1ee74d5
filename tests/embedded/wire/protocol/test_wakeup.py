"""A signal of another thread beside a stream: what a wait says, without a thread."""

import socket
from collections.abc import Iterator

import pytest

from mqflow.embedded.wire.protocol.wakeup import SocketSignal, Waited


@pytest.fixture
def signal() -> Iterator[SocketSignal]:
    made = SocketSignal()
    yield made
    made.close()


def test_a_signal_lasts_until_a_thread_clears_it_however_often_it_was_set(signal: SocketSignal) -> None:
    heard = [signal.heard_within(0)]
    for times in (1, 2, 1_000):  # more often than a socket has room for
        for _ in range(times):
            signal.set()
        heard += [signal.heard_within(60), signal.heard_within(60)]
        signal.clear()
        heard.append(signal.heard_within(0))
    signal.clear()

    assert [False, *[True, True, False] * 3] == heard


@pytest.mark.parametrize("wait_s", [None, 60.0])
def test_a_wait_beside_a_stream_ends_with_the_signal_with_bytes_or_with_the_end_of_the_stream(
    signal: SocketSignal, wait_s: float | None
) -> None:
    here, there = socket.socketpair()
    with here, there:
        found = [signal.heard_beside(here, 0.0)]
        signal.set()
        found.append(signal.heard_beside(here, wait_s))
        there.send(b"!")
        found.append(signal.heard_beside(here, wait_s))
        signal.clear()
        found.append(signal.heard_beside(here, wait_s))
        here.recv(1)
        there.close()
        found.append(signal.heard_beside(here, wait_s))

    assert [(False, False), (False, True), (True, True), (True, False), (True, False)] == [
        (each.readable, each.signalled) for each in found
    ]
    assert Waited(readable=True, signalled=False) == found[-1]


def test_a_closed_signal_has_no_open_socket() -> None:
    closed = SocketSignal()
    closed.close()

    assert [-1, -1] == [closed.fileno(), closed._said.fileno()]
