"""The calls that the holder of a subscription makes to its supervisor and its sessions."""

from types import SimpleNamespace
from typing import Any

import pytest

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.mode import ReconnectMode
from mqflow.runtime.listener.subscriber import Subscriber, TopicSubscription

pytestmark = pytest.mark.anyio

LOST = error_for(Reason.CONNECTION_BROKEN, "MQINQ")
GONE = error_for(Reason.UNKNOWN_OBJECT_NAME, "MQINQ")


class Bench:
    """A subscriber, and the calls that it makes. It is the supervisor, and all sessions are made of it."""

    mode, queue_manager_name = ReconnectMode.Q_MGR, "QM1"

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.errors: dict[str, MQIError] = {}
        self.sessions = 0
        itself: Any = self
        self.subscriber = Subscriber(TopicSubscription(topic="prices"), itself)

    def note(self, *call: Any) -> None:
        self.calls.append(call)
        error = self.errors.pop(str(call[0]), None)
        if error is not None:
            raise error

    def let_go_when_quiescing(self, let_go: Any) -> None:
        self.let_go = let_go

    async def connect_now(self, *, owner: str, before: Any) -> Any:
        self.note("connect", owner, before and before.number)
        self.sessions += 1
        number = self.sessions

        async def call(verb: Any, *given: Any) -> Any:
            return verb(*given)

        async def close() -> None:
            self.note("close", number)

        def inquire(queue: object, selectors: object) -> Any:
            self.note("inquire", number, queue, selectors)
            return SimpleNamespace(values={2016: "MANAGED.1   "})

        def subscribe(descriptor: Any) -> Any:
            self.note("subscribe", number, descriptor.object_string)
            return SimpleNamespace(queue="handle")

        return SimpleNamespace(
            number=number,
            call=call,
            close=close,
            connection=SimpleNamespace(inquire=inquire),
            open_objects=SimpleNamespace(subscribe=subscribe),
        )

    def expect(self, session: Any) -> None:
        self.note("expect", session.number)

    def release(self, session: Any) -> None:
        self.note("release", session and session.number)

    async def do(self, name: str) -> None:
        """Carry out one step: a call of the subscriber, or the name of a call that fails with LOST or GONE the next time."""
        match name.split():
            case ["queue"]:
                assert "MANAGED.1" == await self.subscriber.queue()
            case ["refused"]:
                with pytest.raises(MQIError):
                    await self.subscriber.queue()
            case ["suspect"]:
                self.subscriber.suspect()
            case ["close"]:
                await self.subscriber.close()
            case ["idle"]:
                await self.let_go()
            case [call, how]:
                self.errors[call] = LOST if how == "lost" else GONE


def made(number: int, before: int | None = None) -> list[tuple[Any, ...]]:
    asked = ("inquire", number, "handle", (2016,))
    return [("connect", "subscription to prices", before), ("subscribe", number, "prices"), asked]


def asked(number: int) -> tuple[Any, ...]:
    return "inquire", number, "handle", (2016,)


NONE = ("release", None)


@pytest.mark.parametrize(
    ("steps", "calls"),
    [
        ("queue", [*made(1), NONE]),
        ("queue, queue", [*made(1), NONE, asked(1), NONE]),
        ("suspect, queue", [*made(1), NONE]),
        ("queue, suspect, suspect, queue, queue",
         [*made(1), NONE, ("expect", 1), asked(1), ("release", 1), asked(1), NONE]),
        ("queue, suspect, queue, suspect, close",
         [*made(1), NONE, ("expect", 1), asked(1), ("release", 1), ("expect", 1), ("close", 1), ("release", 1)]),
        ("queue, suspect, inquire lost, queue, queue",
         [*made(1), NONE, ("expect", 1), asked(1), ("close", 1), *made(2, 1), ("release", 1), asked(2), NONE]),
        ("queue, inquire gone, queue", [*made(1), NONE, asked(1), ("close", 1), *made(2), NONE]),
        ("subscribe gone, refused, queue", [*made(1)[:2], ("close", 1), NONE, *made(2), NONE]),
        ("connect lost, refused, queue", [*made(1)[:1], NONE, *made(1), NONE]),
        ("queue, inquire lost, connect lost, refused, queue",
         [*made(1), NONE, asked(1), ("close", 1), *made(2, 1)[:1], NONE, *made(2, 1), NONE]),
        ("idle, queue, idle, idle, queue, idle, close",
         [*made(1), NONE, ("close", 1), *made(2, 1), NONE, ("close", 2), NONE]),
        ("close", [NONE]),
    ],
)  # fmt: skip
async def test_a_subscription_is_held_looked_at_and_made_again_on_a_new_session(
    steps: str, calls: list[tuple[Any, ...]]
) -> None:
    bench = Bench()
    for each in steps.split(", "):
        await bench.do(each)

    assert calls == bench.calls
