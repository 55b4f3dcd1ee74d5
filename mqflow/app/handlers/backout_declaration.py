"""The options of a listener for messages that fail. They replace the attributes of the queue. Records only."""

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from mqflow.policy.poison.disposition import Behaviour
from mqflow.policy.poison.redelivery_delay import REDELIVERY, Pace

__all__ = ("Backout", "Batch")


class Backout(Struct, frozen=True, kw_only=True):
    """The rules for poison messages: the threshold, the backout requeue queue, and the pause between deliveries."""

    #: The backout count at which a message is poison. "queue" means BOTHRESH; a number replaces it; 0 means never.
    threshold: int | Literal["queue"] = "queue"
    #: The backout requeue queue. "queue" means BOQNAME; a name replaces it; "" means no queue. (For a queue whose name is
    #: QUEUE, write the name in upper case.)
    queue: str = "queue"
    #: The pauses before redeliveries.
    pace: Pace = REDELIVERY
    #: Exceptions after which a redelivery cannot help: the message is poison after its first failure.
    never_retry: tuple[type[BaseException], ...] = ()
    #: For a message whose body cannot be decoded. "at-once": the message is poison after its first failure. "redeliver": it is
    #: delivered again up to the threshold.
    undecodable: Literal["at-once", "redeliver"] = "at-once"
    #: The kind of consumer whose rules the listener follows.
    behaviour: Behaviour = Behaviour.JMS_LISTENER
    #: True if the sender of a request gets an exception report as its answer when the request is moved or discarded.
    answer_requests: bool = True

    def __post_init__(self) -> None:
        # Without this check, the first message that fails would end the application, and again after each restart.
        _check(
            self,
            threshold=(
                lambda value: value == "queue" or _is_count(value, 0),
                "'queue' (BOTHRESH), 0 for never, or a number above 0",
            ),
            queue=(lambda value: isinstance(value, str), "'queue' (BOQNAME), the name of a queue, or '' for none"),
            pace=(lambda value: isinstance(value, Pace), "a Pace"),
            never_retry=(_are_exceptions, "a tuple of exception classes"),
            undecodable=(("at-once", "redeliver").__contains__, "'at-once' or 'redeliver'"),
            behaviour=(lambda value: isinstance(value, Behaviour), "a Behaviour"),
            answer_requests=((True, False).__contains__, "True or False"),
        )


class Batch(Struct, frozen=True, kw_only=True):
    """The size of a batch. A handler of `list[T]` receives the messages of a batch together, in one unit of work."""

    #: The largest number of messages in a batch.
    max: int = 200
    #: The milliseconds that the first message waits for further messages.
    wait_ms: int = 500

    def __post_init__(self) -> None:
        _check(
            self,
            max=(lambda value: _is_count(value, 1), "1 or more messages"),
            wait_ms=(lambda value: _is_count(value, 0), "0 or more milliseconds"),
        )


def _check(record: Struct, **wanted: tuple[Callable[[Any], bool], str]) -> None:
    """Raise `ValueError` for the first field whose value is not accepted."""
    for field, (holds, takes) in wanted.items():
        value = getattr(record, field)  # a field of the record, by its name
        if not holds(value):
            raise ValueError(f"{type(record).__name__}({field}={value!r}): it takes {takes}.")


def _is_count(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _are_exceptions(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(each, type) and issubclass(each, BaseException) for each in value)
