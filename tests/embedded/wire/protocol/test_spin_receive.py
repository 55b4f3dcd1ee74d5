"""A receive polls before it sleeps. The tests check when it starts and stops to poll, and that it loses no data in between."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.embedded.wire.protocol.spin_receive import LOOK_S, SpinReceive

SHORT_S, LONG_S = LOOK_S / 4, LOOK_S * 4


class Peer:
    """Sends numbered words, each after some time from the start of the receive. A poll takes a tenth of the polling time."""

    def __init__(self, *waits_s: float, way_s: float = LOOK_S / 10) -> None:
        self.now = 0.0
        self.way_s = way_s
        self.asleep = 0
        self.looks = 0
        self._waits_s = list(waits_s)
        self._sent = 0
        self._ready_at: float | None = None
        self.spinning = SpinReceive(self._recv, lambda: self.now, self._give_way)

    def hear(self, count: int) -> list[bytes]:
        return [self.spinning.recv(1) for _ in range(count)]

    def _recv(self, most: int, flags: int) -> bytes:
        assert most == 1
        if self._ready_at is None:
            self._ready_at = self.now + self._waits_s.pop(0)
        if flags & socket.MSG_DONTWAIT:
            self.looks += 1
            if self.now < self._ready_at:
                raise BlockingIOError
        else:
            self.asleep += 1
            self.now = max(self.now, self._ready_at)
        self._ready_at = None
        self._sent += 1
        return bytes([self._sent])

    def _give_way(self) -> None:
        if self._ready_at is None:
            self._ready_at = self.now + self._waits_s.pop(0)
        self.now += self.way_s


def test_a_peer_that_was_quick_eight_times_is_polled() -> None:
    peer = Peer(*[SHORT_S] * 20)
    peer.hear(20)

    assert 8 == peer.asleep


def test_a_slow_peer_is_never_polled() -> None:
    peer = Peer(*[LONG_S, SHORT_S, SHORT_S] * 20)
    peer.hear(60)

    assert (60, 0) == (peer.asleep, peer.looks)


def test_a_look_in_vain_is_followed_by_eight_times_as_much_distrust_each_time() -> None:
    peer = Peer(*[SHORT_S] * 8, LONG_S, *[SHORT_S] * 8, LONG_S, *[SHORT_S] * 64, SHORT_S)
    slept: list[int] = []
    for _ in range(8 + 1 + 8 + 1 + 64 + 1):
        before = peer.asleep
        peer.hear(1)
        slept.append(peer.asleep - before)

    assert [1] * (8 + 1 + 8 + 1 + 64) + [0] == slept


@pytest.mark.parametrize(("looks", "asleep"), [(0, 64), (1, 32), (2, 16), (3, 8), (4, 8)])
def test_distrust_is_halved_by_each_look_that_was_not_in_vain(looks: int, asleep: int) -> None:
    peer = Peer(*[SHORT_S] * 8, LONG_S, *[SHORT_S] * 8, *[SHORT_S] * looks, LONG_S, *[SHORT_S] * 70)
    peer.hear(8 + 1 + 8 + looks + 1)
    before = peer.asleep
    peer.hear(70)

    assert asleep == peer.asleep - before


def test_a_look_lasts_no_longer_than_it_is_worth() -> None:
    peer = Peer(*[SHORT_S] * 8, LONG_S)
    peer.hear(9)

    assert 10 <= peer.looks <= 11


def test_where_others_keep_the_processor_it_sleeps_again() -> None:
    peer = Peer(*[SHORT_S] * 20, way_s=LONG_S)
    peer.hear(20)

    assert (18, 2) == (peer.asleep, peer.looks)


def test_a_timeout_of_the_socket_is_raised_unchanged() -> None:
    def silent(_most: int, _flags: int) -> bytes:
        raise BlockingIOError

    with pytest.raises(BlockingIOError):
        SpinReceive(silent, lambda: 0.0, lambda: None).recv(1)


@given(st.lists(st.sampled_from([0.0, SHORT_S, LOOK_S, LONG_S]), max_size=60), st.sampled_from([0.0, LOOK_S / 10, LONG_S]))
def test_each_byte_is_received_once_and_in_order(waits_s: list[float], way_s: float) -> None:
    peer = Peer(*waits_s, way_s=way_s or LOOK_S / 100)

    assert [bytes([number + 1]) for number in range(len(waits_s))] == peer.hear(len(waits_s))
