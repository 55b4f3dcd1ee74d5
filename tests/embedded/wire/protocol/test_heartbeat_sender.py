"""The sockets that get a heartbeat, and the times: the test makes the thread, its waits and the sockets."""

from collections.abc import Callable
from typing import Any

import pytest

from mqflow.embedded.wire.protocol.heartbeat_sender import HeartbeatSender
from mqflow.world import THREADS


class Script:
    """A runner with one thread and one event. Each wait of the thread carries out the next step of the test."""

    lock = staticmethod(THREADS.lock)

    def __init__(self) -> None:
        self.said: list[object] = []
        self.steps: list[Callable[[], object]] = []
        self.fails: list[RuntimeError] = []

    def event(self) -> "Script":
        return self

    def start(self, target: Callable[[], None], name: str) -> None:
        if self.fails:
            raise self.fails.pop()
        self.said.append(name)
        self.run = target

    def wait(self, wait_s: float) -> None:
        self.said.append(wait_s)
        self.steps.pop(0)()

    def set(self) -> None:
        self.said.append("wake")

    def clear(self) -> None:
        self.said.append("clear")

    def ran(self, *steps: Callable[[], object]) -> list[object]:
        """Return what the thread does until it ends."""
        self.said.clear()
        self.steps = list(steps)
        self.run()
        return self.said.copy()


class Socket:
    """Frames that note each heartbeat under their name."""

    def __init__(self, script: Script, name: object) -> None:
        self.script, self.name = script, name

    def beat(self) -> None:
        self.script.said.append(self.name)


class Kit:
    """A sender, and numbered sockets to add and to remove."""

    def __init__(self, sockets: int) -> None:
        script: Any = Script()
        self.script: Script = script
        self.sender = HeartbeatSender(script, silence_s=4.0)
        self.sockets: list[Any] = [Socket(self.script, f"beat {number}") for number in range(sockets)]

    def add(self, *numbers: int) -> None:
        for number in numbers:
            self.sender.add(self.sockets[number])

    def remove(self, *numbers: int) -> Callable[[], None]:
        def now() -> None:
            for number in numbers:
                self.sender.remove(self.sockets[number])

        return now


def nothing() -> None:
    """Let the time of the wait run out."""


def test_each_socket_gets_four_heartbeats_in_a_silence_and_the_thread_ends_with_the_last_socket() -> None:
    kit = Kit(2)
    kit.add(0, 1)
    assert ["clear", "mqflow-heart"] == kit.script.said

    each = [1.0, "clear", "beat 0", "beat 1"]
    last = [1.0, "clear", "beat 1", 1.0, "wake"]
    assert [*each, *each, *last] == kit.script.ran(nothing, nothing, kit.remove(0), kit.remove(1))
    kit.script.said.clear()
    kit.add(0)
    assert ["clear", "mqflow-heart"] == kit.script.said


def test_the_next_socket_starts_the_thread_that_the_system_refused_before() -> None:
    kit = Kit(2)
    kit.script.fails.append(RuntimeError("can't start new thread"))
    with pytest.raises(RuntimeError):
        kit.add(0)

    kit.add(1)

    assert [1.0, "clear", "beat 1", 1.0, "wake"] == kit.script.ran(nothing, kit.remove(1))


def test_the_thread_lives_on_if_a_socket_comes_before_it_has_noticed_the_end_of_the_last() -> None:
    kit = Kit(2)
    kit.add(0)

    def exchange() -> None:
        kit.remove(0)()
        kit.add(1)

    assert [1.0, "wake", "clear", "beat 1", 1.0, "wake"] == kit.script.ran(exchange, kit.remove(1))


@pytest.mark.parametrize(("sockets", "shares"), [(16, [16]), (17, [16, 1]), (32, [16, 16]), (33, [16, 16, 1])])
def test_many_sockets_beat_in_shares_of_sixteen_within_the_time_of_a_heartbeat(sockets: int, shares: list[int]) -> None:
    kit = Kit(sockets)
    kit.add(*range(sockets))

    ran = kit.script.ran(*[nothing] * len(shares), kit.remove(*range(sockets)))

    pause_s = 1.0 / len(shares)
    waits = [wait for wait in ran if isinstance(wait, float)]
    assert [1.0, *[pause_s] * len(shares)] == waits
    assert [f"beat {number}" for number in range(sockets)] == [each for each in ran if str(each).startswith("beat")]
    starts = [ran.index(f"beat {sum(shares[:at])}") for at in range(len(shares))]
    assert all(["clear"] == ran[start - 1 : start] for start in starts)


def test_a_socket_that_goes_before_its_share_gets_no_heartbeat_and_a_new_one_waits_for_the_next_round() -> None:
    kit = Kit(18)
    kit.add(*range(17))

    def change() -> None:
        kit.remove(16)()
        kit.add(17)

    ran = kit.script.ran(nothing, change, nothing, nothing, kit.remove(*range(16), 17))

    sixteen = [f"beat {number}" for number in range(16)]
    assert [1.0, "clear", *sixteen, 0.5, "clear", 0.5, "clear", *sixteen, 0.5, "clear", "beat 17", 0.5, "wake"] == ran
