"""Decides what becomes of a message that was backed out: deliver it again, or which destinations to try, in which order.

Knows descriptors, queue attributes and whose rules apply; knows no connection, clock or log. A decision is a plan, because a
put can be refused: whoever carries it out tries one disposition after the other until one holds, and `refused` says what is
left of it.
Source: IBM q032280, "Handling poison messages in IBM MQ classes for JMS" ("first seed" below); John Hawkins, "Understanding MQ
Backout Queues & Thresholds" with its readers' comments ("second seed"); IBM q032680, "Removing messages from the queue in ASF".
"""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Report
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Behaviour, DeadLetter, Deliver, Discard, Disposition, Requeue, Return

__all__ = ("BEHAVIOURS", "BehaviourRules", "Plan", "decide", "dispose", "effective", "is_poison", "refused")

Plan = tuple[Disposition, ...]
"""Dispositions in the order to try them. Never empty; the last needs no put."""


class BehaviourRules(Struct, frozen=True, kw_only=True):
    """What one behaviour does with poison messages."""

    #: What becomes of a message that neither the backout requeue queue nor the dead-letter queue took.
    unaccepted: Callable[[MessageDescriptor], Discard | Return]
    #: Whether the count is compared at all, or that is left to the application.
    automatic: bool = True
    #: The threshold that a BOTHRESH of 0 stands for; 0 means that no message is ever poison.
    threshold_when_zero: int = 0
    #: MQRO_DISCARD_MSG discards what the backout requeue queue did not take; else that option means nothing here.
    discards_on_request: bool = True
    #: A message that missed the backout requeue queue owes its sender the exception report it asked for.
    reports: bool = False


def _stays(_: MessageDescriptor) -> Return:
    return Return("neither the backout requeue queue nor the dead-letter queue took it")


def _stops_delivery(_: MessageDescriptor) -> Return:
    return Return("neither the backout requeue queue nor the dead-letter queue took it; delivery stops", stop_delivery=True)


def _lost_on_commit(_: MessageDescriptor) -> Discard:
    return Discard("the dead-letter queue did not take it; a JMS consumer loses it when its transaction commits")


def _lost(_: MessageDescriptor) -> Discard:
    return Discard("the dead-letter queue did not take it; a JMS consumer that is not transacted loses it")


def _lost_unless_persistent(descriptor: MessageDescriptor) -> Discard | Return:
    if descriptor.persistent:
        return _stops_delivery(descriptor)
    return Discard("not persistent, and neither the backout requeue queue nor the dead-letter queue took it")


BEHAVIOURS: Final[Mapping[Behaviour, BehaviourRules]] = {
    # First seed, asynchronous: "returns the message to the input queue", "outside of any unit of work".
    Behaviour.JMS_LISTENER: BehaviourRules(unaccepted=_stays),
    # First seed, synchronous: "within the unit of work that was active", "and the transaction is committed, ... discarded".
    Behaviour.JMS_CONSUMER: BehaviourRules(unaccepted=_lost_on_commit),
    # First seed, synchronous: "a non-transacted JMS context or session, the message is discarded".
    Behaviour.JMS_CONSUMER_NOT_TRANSACTED: BehaviourRules(unaccepted=_lost),
    # q032680; its last row (persistent messages stop delivery) is recalled, and the second seed's first comment agrees with it.
    Behaviour.CONNECTION_CONSUMER: BehaviourRules(unaccepted=_lost_unless_persistent, reports=True),
    # Second seed: an application server handles poison by the same two attributes. That it stops is recalled of listener ports.
    Behaviour.APPLICATION_SERVER: BehaviourRules(unaccepted=_stops_delivery, reports=True),
    # Second seed, last comment: tried once by default; backout queue, dead-letter queue, else it "continue[s] to retry".
    Behaviour.BROKER_INPUT_NODE: BehaviourRules(unaccepted=_stays, threshold_when_zero=1, discards_on_request=False),
    # Second seed: BOTHRESH is "just a hint", and it is the developer who puts the message onto one of the two queues.
    Behaviour.PLAIN_MQI: BehaviourRules(unaccepted=_stays, automatic=False, discards_on_request=False),
}
"""One row for each behaviour."""


def decide(
    descriptor: MessageDescriptor, queue_attributes: QueueAttributes, dead_letter_queue: str, behaviour: Behaviour
) -> Plan:
    """Return the dispositions to try, in order, for a message just got, or about to return to its queue once more.

    `(Deliver(),)` where it is not poison. `queue_attributes` are those of the local queue behind an alias, `dead_letter_queue`
    is the queue manager's DEADQ, empty for none. Never empty; the last needs no put.
    Source: first seed: "If the BackoutCount is less than the value of the BOTHRESH attribute, ... deliver it"; "greater than or
    equal to BOTHRESH ... poison"; "default value of 0, then poison message handling is disabled".
    """
    rules = BEHAVIOURS[behaviour]
    threshold = queue_attributes.backout_threshold or rules.threshold_when_zero
    if not rules.automatic or not is_poison(descriptor.backout_count, threshold):
        return (Deliver(),)
    return dispose(descriptor, queue_attributes, dead_letter_queue, behaviour)


def dispose(
    descriptor: MessageDescriptor,
    queue_attributes: QueueAttributes,
    dead_letter_queue: str,
    behaviour: Behaviour,
    *,
    reason: int = Reason.BACKOUT_THRESHOLD_REACHED,
) -> Plan:
    """Return the dispositions to try, in order, for a message that will not be delivered again, whatever its count.

    `reason` goes into the MQDLH. A queue is never its own destination: BOQNAME or DEADQ with the name of the input queue is
    skipped, since a message moved from a queue to itself would come back with a count of 0, for ever.
    Source: first seed: BOQNAME, else "either moved to the queue manager's dead letter queue or discarded, depending upon the
    report options of the message". MQRO_DEAD_LETTER_Q is 0, so of the two options only MQRO_DISCARD_MSG can be told.
    """
    rules = BEHAVIOURS[behaviour]
    here = ("", queue_attributes.name)
    plan: list[Disposition] = []
    if queue_attributes.backout_requeue_queue not in here:
        plan.append(Requeue(queue_attributes.backout_requeue_queue))
    if rules.discards_on_request and descriptor.report & Report.DISCARD_MSG:
        return (*plan, Discard("its sender asked for that: MQRO_DISCARD_MSG"))
    if dead_letter_queue not in here:
        plan.append(DeadLetter(dead_letter_queue, int(reason)))
    return (*plan, rules.unaccepted(descriptor))


def refused(plan: Plan, reason: int) -> Plan:
    """Return what is left to try after the put for the plan's first disposition was refused with this reason.

    A dead-letter queue that comes after it gets this reason. Which reason IBM MQ writes there, the put's or
    MQRC_BACKOUT_THRESHOLD_REACHED, could not be confirmed; the put's says more, and 2362 then means "no usable BOQNAME".
    """
    return tuple(replace(left, reason=int(reason)) if isinstance(left, DeadLetter) else left for left in plan[1:])


def is_poison(backout_count: int, threshold: int) -> bool:
    """Return whether the count reached the threshold; a threshold of 0 is never reached."""
    return 0 < threshold <= backout_count


def effective(
    queue_attributes: QueueAttributes, *, threshold: int | None = None, queue: str | None = None
) -> tuple[QueueAttributes, str, str]:
    """Return the attributes with a listener's own settings laid over them, and where threshold and queue came from, in words.

    None leaves what the queue says; an empty `queue` takes the backout requeue queue away.
    """
    threshold_source = f"BOTHRESH of {queue_attributes.name}" if threshold is None else "the listener"
    queue_source = f"BOQNAME of {queue_attributes.name}" if queue is None else "the listener"
    overridden = replace(
        queue_attributes,
        backout_threshold=queue_attributes.backout_threshold if threshold is None else threshold,
        backout_requeue_queue=queue_attributes.backout_requeue_queue if queue is None else queue,
    )
    return overridden, threshold_source, queue_source
