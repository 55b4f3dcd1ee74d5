"""How a listener treats messages that fail: the one-line override of what the queue itself says."""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from mqflow.policy.poison.disposition import Behaviour
from mqflow.policy.poison.redelivery_delay import REDELIVERY, Pace

__all__ = ("Backout", "Batch")


class Backout(Struct, frozen=True, kw_only=True):
    """When a message is poison, where it goes, and how calmly it is tried until then."""

    #: Deliveries that may be backed out before a message is poison: "queue" reads BOTHRESH, a number overrides it, 0 never.
    threshold: int | Literal["queue"] = "queue"
    #: The backout requeue queue: "queue" reads BOQNAME, a name overrides it, "" is none. (A queue named QUEUE is upper case.)
    queue: str = "queue"
    #: The pause before each redelivery.
    pace: Pace = REDELIVERY
    #: Exceptions that no redelivery can help: the message is disposed of at once.
    never_retry: tuple[type[BaseException], ...] = ()
    #: A body that does not decode is disposed of at once, or redelivered up to the threshold like a failure.
    undecodable: Literal["at-once", "redeliver"] = "at-once"
    #: Whose rules decide.
    behaviour: Behaviour = Behaviour.JMS_LISTENER

    def __post_init__(self) -> None:
        # Said here: a mistake that shows when the first message fails ends the application then, and at each start again.
        _check(
            self,
            threshold=(_is_threshold, "'queue' (BOTHRESH), 0 for never, or a number above"),
            queue=(_is_text, "'queue' (BOQNAME), the name of a queue, or '' for none"),
            pace=(_is_pace, "a Pace"),
            never_retry=(_are_exceptions, "a tuple of exception classes"),
            undecodable=(("at-once", "redeliver").__contains__, "'at-once' or 'redeliver'"),
            behaviour=(_is_behaviour, "a Behaviour"),
        )


class Batch(Struct, frozen=True, kw_only=True):
    """How many messages a `list[T]` handler gets at once, in one unit of work."""

    #: At the most.
    max: int = 200
    #: How long the first message waits for more, in milliseconds.
    wait_ms: int = 500

    def __post_init__(self) -> None:
        _check(
            self,
            max=(lambda value: _is_count(value, 1), "1 or more messages"),
            wait_ms=(lambda value: _is_count(value, 0), "0 or more milliseconds"),
        )


def _check(record: Struct, **wanted: tuple[Callable[[Any], bool], str]) -> None:
    """Raise `ValueError` for the first field that is not what it takes."""
    for field, (holds, takes) in wanted.items():
        value = getattr(record, field)
        if not holds(value):
            raise ValueError(f"{type(record).__name__}({field}={value!r}): it takes {takes}.")


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_threshold(value: object) -> bool:
    return value == "queue" or _is_count(value, 0)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_pace(value: object) -> bool:
    return isinstance(value, Pace)


def _is_behaviour(value: object) -> bool:
    return isinstance(value, Behaviour)


def _are_exceptions(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(each, type) and issubclass(each, BaseException) for each in value)
