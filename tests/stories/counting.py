"""Counts failures: scripts of handlers, and the comparison of the handlers' own log with all that mqflow says.

A script names, for one message, the failures of its handler in order, and whether the handler puts a message.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

import msgspec

from mqflow import Reject, Retry
from mqflow.events import ConsumerFailed, Decided, Delivered, Disposed, Settled
from mqflow.policy.poison.disposition import Completed, Deliver
from mqflow.policy.poison.disposition_record import DISPOSITION_QUEUE, DispositionRecord, RecordOutcome, many_from_bytes
from mqflow.testing.kit import Found

__all__ = (
    "ACTS", "THRESHOLD", "Evidence", "NeverRetryError", "Order", "Script", "check", "check_spans", "completes", "failures",
    "is_moved",
)  # fmt: skip

THRESHOLD: Final = 3
Script = tuple[list[str], bool]
E = TypeVar("E")


class Evidence(Protocol):
    """The messages on the queues after a run, and the events of the run."""

    def browse(self, queue: str) -> Sequence[Found]: ...

    def told(self, kind: type[E]) -> Sequence[E]: ...


class Order(msgspec.Struct):
    number: int


class NeverRetryError(Exception):
    """An error that this listener never retries."""


def _raise(error: BaseException) -> None:
    raise error


def _cancel_its_own_task() -> None:
    """Cancel the task of the handler, as a library's timeout does that went wrong. Trio has no such function."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        raise ValueError("bad") from None
    assert task is not None
    task.cancel()


#: What the handler does with a message, by name.
ACTS: Final[dict[str, Callable[[], None]]] = {
    "cancel": _cancel_its_own_task,
    "fail": lambda: _raise(ValueError("bad")),
    "retry": lambda: _raise(Retry("later", after=0.01)),
    "retry after a minute": lambda: _raise(Retry("later", after=60)),
    "group": lambda: _raise(ExceptionGroup("several", [ValueError("bad"), Reject("no")])),
    "reject": lambda: _raise(Reject("no")),
    "never retry": lambda: _raise(NeverRetryError("no")),
    "rejecting group": lambda: _raise(ExceptionGroup("several", [Reject("no"), Reject("never")])),
}
FINAL = {"reject", "never retry", "rejecting group"}


def failures(script: Script) -> int:
    """Return how often the handling of this message fails until the message is moved or handled."""
    for number, act in enumerate(script[0][:THRESHOLD], start=1):
        if act in FINAL or act == "undecodable":
            return number
    return min(len(script[0]), THRESHOLD)


def is_moved(script: Script) -> bool:
    """Return whether the message ends on the backout queue."""
    failed = failures(script)
    return failed == THRESHOLD or (failed > 0 and (script[0][failed - 1] in FINAL or script[0] == ["undecodable"]))


def completes(evidence: Evidence) -> int:
    return sum(len(event.message_ids) for event in evidence.told(Settled) if isinstance(event.outcome, Completed))


def check(
    evidence: Evidence,
    scripts: Sequence[Script],
    failed: Counter[int],
    completed: Counter[int],
    options: dict[str, Any],
    in_failed_batches: Counter[int] | None = None,
) -> None:
    """Assert that the handlers' own log, the queues, the events and the records agree with the scripts.

    `failed` and `completed` are the calls with this message; `in_failed_batches` are the calls with a batch of several messages
    that failed. Such a call counts for no message, and each message has at most one.
    """
    assert [] == evidence.told(ConsumerFailed)
    in_batches = Counter[int]() if in_failed_batches is None else in_failed_batches
    assert set(in_batches.values()) <= {1}
    decodable = {number for number, (acts, _) in enumerate(scripts) if acts != ["undecodable"]}
    assert {number: failures(scripts[number]) for number in decodable if scripts[number][0]} == failed
    good = {number for number, script in enumerate(scripts) if not is_moved(script)}
    assert good == completed.keys()
    if options.get("unit_of_work", 1) == 1 and "batch" not in options:
        assert dict.fromkeys(good, 1) == completed
    assert sorted(number for number in good if scripts[number][1]) == sorted(
        found.json()["number"] for found in evidence.browse("OUT")
    )

    moved = {number_of(found): found for found in evidence.browse("BOQ")}
    assert len(moved) == len(evidence.browse("BOQ"))
    assert set(range(len(scripts))) - good == moved.keys()
    for number, found in moved.items():
        assert (failures(scripts[number]), number) == (found.why.count, number)
        assert found.why.error
        assert found.why.outcome in {"failed", "undecodable"}

    disposed = Counter(event.message_id for event in evidence.told(Disposed))
    assert {found.message_id: 1 for found in moved.values()} == disposed
    assert all(
        found.why.count == event.backout_count
        for found in moved.values()
        for event in evidence.told(Disposed)
        if event.message_id == found.message_id
    )
    failing = sum(map(failures, scripts))
    assert failing == sum(event.outcome is not None for event in evidence.told(Decided))
    delivered = Counter(event.message_id for event in evidence.told(Delivered))
    ended = Counter(each for event in evidence.told(Settled) for each in (*event.message_ids, *event.others))
    assert delivered == ended

    records = [each for found in evidence.browse(DISPOSITION_QUEUE) for each in records_of(found)]
    handled = failed.total() + completed.total() + in_batches.total() + len(scripts) - len(decodable)
    assert handled == sum(map(was_handled, records))
    assert delivered == Counter(each.msg_id for each in records)
    assert failing + in_batches.total() == sum(was_handled(each) and each.exc_class is not None for each in records)
    last = Counter(each.msg_id for each in records if each.outcome in {RecordOutcome.COMMITTED, RecordOutcome.BACKED_OUT})
    assert set(last.values()) == {1}
    assert len(scripts) == len(last)


def number_of(found: Found) -> int:
    text = found.text()
    return int(text.removeprefix("broken ")) if text.startswith("broken") else int(msgspec.json.decode(text)["number"])


def records_of(found: Found) -> list[DispositionRecord]:
    return [each for each in many_from_bytes(found.data) if each.handler and each.outcome is not RecordOutcome.HEARTBEAT]


def was_handled(record: DispositionRecord) -> bool:
    return record.done_ts is not None


def check_spans(evidence: Evidence, names: Sequence[str], in_the_span_of_another: int = 0) -> None:
    """Assert that each call of the handler has a "process" span, and each decision a "settle" span.

    `in_the_span_of_another` is the number of handled messages of batches, without the first of each batch.
    """
    spans = Counter(name.partition(" ")[0] for name in names)
    handled = sum(was_handled(each) for found in evidence.browse(DISPOSITION_QUEUE) for each in records_of(found))
    assert handled - in_the_span_of_another == spans["process"]
    assert spans["settle"] == sum(event.plan == (Deliver(),) for event in evidence.told(Decided)) + len(evidence.told(Disposed))
