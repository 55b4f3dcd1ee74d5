"""Decides whether an operator must know, at the start of a listener, what happens to the poison messages of its queue.

This module makes a text from the settings of the queue. It has no connection, and it reports nothing.
"""

from typing import Final

from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Persistence
from mqflow.policy.poison.backout import BEHAVIOURS, BehaviourRules
from mqflow.policy.poison.disposition import Behaviour, Discard

__all__ = ("queue_warning",)

_PERSISTENT: Final = MessageDescriptor(persistence=Persistence.PERSISTENT)
_NOT_PERSISTENT: Final = MessageDescriptor(persistence=Persistence.NOT_PERSISTENT)


def queue_warning(
    queue: str, queue_attributes: QueueAttributes, dead_letter_queue: str | None, behaviour: Behaviour, *, defined_as: str
) -> str:
    """Return the warning about this queue, with its cure; empty if poison messages are found and can be moved.

    `queue` is the name that the listener has, and `defined_as` is the object that an administrator must alter, in MQSC.
    `dead_letter_queue` is DEADQ of the queue manager: empty if it has none, and None if DEADQ is not known.
    """
    rules = BEHAVIOURS[behaviour]
    if not rules.automatic:
        return (
            f"With the behaviour {behaviour.value}, no message of {queue} is poison, whatever its backout count is. "
            "A message that always fails is redelivered for ever, unless its handler rejects it. "
            "Backout(behaviour=...) changes that."
        )
    if not (queue_attributes.backout_threshold or rules.threshold_when_zero):
        return (
            f"{queue} has no backout threshold, so a message that always fails is redelivered for ever. "
            f"ALTER {defined_as} BOTHRESH(3) BOQNAME('...') ends that, or Backout(threshold=3, queue=...)."
        )
    if queue_attributes.backout_requeue_queue == queue_attributes.name:
        return (
            f"BOQNAME of {queue} is {queue_attributes.name}, the queue itself, so it is not used: a moved message would "
            f"begin again with a backout count of 0. ALTER {defined_as} BOQNAME('...') changes that."
        )
    if queue_attributes.backout_requeue_queue or dead_letter_queue != "":
        return ""
    return (
        f"{queue} has no backout requeue queue, and the queue manager has no dead-letter queue. {_fate(rules)} "
        f"ALTER {defined_as} BOQNAME('...') changes that."
    )


def _fate(rules: BehaviourRules) -> str:
    """Return in words what becomes of a poison message that no queue accepts."""
    last, other = rules.unaccepted(_PERSISTENT), rules.unaccepted(_NOT_PERSISTENT)
    if isinstance(last, Discard):
        return "A poison message is discarded."
    end = "delivery stops" if last.stop_delivery else "the listener pauses"
    if isinstance(other, Discard):
        return f"A persistent poison message stays on its queue, and {end}. Any other poison message is discarded."
    return f"A poison message stays on its queue, and {end}."
