"""Translates calls to the queue manager, and the answers, so that they can be compared with the model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from mqflow.mqi.descriptor import NO_ID
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import GetOption, MatchOption
from mqflow.mqi.reason_codes import reason_name
from mqflow.verbs import GetOptions, Got
from tests.model.model import ANY, Handle, Match, Message, RefusedError

__all__ = ("Waiter", "attempt", "get_options", "refused_alike", "seen_in_model", "seen_in_queue_manager")

R = TypeVar("R")


@dataclass(eq=False)
class Waiter:
    """A registered wait that is not over."""

    handle: Handle
    match: Match
    woken: bool = False
    withdraw: Callable[[], None] = lambda: None

    def wake(self) -> None:
        assert not self.woken, "a waiter was woken twice"
        self.woken = True


def get_options(options: GetOption, match: Match = ANY) -> GetOptions:
    wanted = MatchOption.NONE
    if match.message_id:
        wanted |= MatchOption.MSG_ID
    if match.correlation_id:
        wanted |= MatchOption.CORREL_ID
    return GetOptions(
        options=options, match=wanted, message_id=match.message_id or NO_ID, correlation_id=match.correlation_id or NO_ID
    )


def seen_in_model(message: Message) -> tuple[object, ...]:
    return (
        message.body, message.backout_count, message.message_id, message.correlation_id, message.stated_priority,
        message.persistent,
    )  # fmt: skip


def seen_in_queue_manager(got: Got) -> tuple[object, ...]:
    descriptor = got.descriptor
    return (
        got.body, descriptor.backout_count, descriptor.message_id, descriptor.correlation_id, descriptor.priority,
        descriptor.persistent,
    )  # fmt: skip


def attempt(call: Callable[[], R]) -> tuple[int, tuple[R, ...]]:
    """Return the reason of the refusal, or 0 and the result."""
    try:
        return 0, (call(),)
    except MQIError as error:
        return int(error.reason), ()


def refused_alike(refused: RefusedError, reason: int, answers: tuple[object, ...]) -> None:
    """Assert that the queue manager refused for a reason of the model, or found nothing if the model allows that."""
    wanted = " or ".join(each.name for each in refused.reasons)
    if reason:
        assert reason in refused.reasons, f"{reason_name(reason)} where the model says {wanted}"
    else:
        assert refused.or_nothing, f"it did what the model refuses with {wanted}"
        assert answers == (None,), f"it found something where the model says {wanted}"
