"""Decides about a message that was backed out: deliver it again, or which destinations to try, in which order.

This module has no connection, clock or log. A decision is a plan of several dispositions, because a queue manager can refuse
a put. The runtime tries one disposition after the other until one succeeds; `refused` returns the rest of the plan.
Source: IBM q032280, "Handling poison messages in IBM MQ classes for JMS"; John Hawkins, "Understanding MQ Backout Queues &
Thresholds", with the comments of its readers; IBM q032680, "Removing messages from the queue in ASF".
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

__all__ = (
    "BEHAVIOURS",
    "BehaviourRules",
    "Plan",
    "decide",
    "dispose",
    "effective",
    "is_poison",
    "is_poison_at_first",
    "keeping",
    "refused",
)

Plan = tuple[Disposition, ...]
"""Dispositions in the order to try them. Never empty; the last one needs no put, so it cannot be refused."""


class BehaviourRules(Struct, frozen=True, kw_only=True):
    """The rules of one behaviour (see `Behaviour`) for poison messages."""

    #: Decides about a message that neither the backout requeue queue nor the dead-letter queue accepted.
    unaccepted: Callable[[MessageDescriptor], Discard | Return]
    #: True if mqflow compares the count with the threshold; false if the application must compare them.
    automatic: bool = True
    #: The threshold if BOTHRESH is 0. A threshold of 0 means that no message is ever poison.
    threshold_when_zero: int = 0
    #: True if MQRO_DISCARD_MSG discards a message that the backout requeue queue did not accept; false to ignore that option.
    discards_on_request: bool = True
    #: True if the sender gets its requested exception report when the message did not go to the backout requeue queue.
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
    # q032280, asynchronous: "returns the message to the input queue", "outside of any unit of work".
    # The page does not mention reports. IBM's classes send them for every kind of consumer (tests/foreign/jms).
    Behaviour.JMS_LISTENER: BehaviourRules(unaccepted=_stays, reports=True),
    # q032280, synchronous: "within the unit of work that was active", "and the transaction is committed, ... discarded".
    Behaviour.JMS_CONSUMER: BehaviourRules(unaccepted=_lost_on_commit, reports=True),
    # q032280, synchronous: "a non-transacted JMS context or session, the message is discarded".
    Behaviour.JMS_CONSUMER_NOT_TRANSACTED: BehaviourRules(unaccepted=_lost, reports=True),
    # q032680. From memory: persistent messages stop the delivery (its last row). The first comment on Hawkins' text agrees.
    Behaviour.CONNECTION_CONSUMER: BehaviourRules(unaccepted=_lost_unless_persistent, reports=True),
    # Hawkins: an application server reads the same two attributes. From memory: a listener port stops.
    Behaviour.APPLICATION_SERVER: BehaviourRules(unaccepted=_stops_delivery, reports=True),
    # Last comment on Hawkins' text: one attempt, then backout queue, then dead-letter queue; else it "continue[s] to retry".
    Behaviour.BROKER_INPUT_NODE: BehaviourRules(unaccepted=_stays, threshold_when_zero=1, discards_on_request=False),
    # Hawkins: BOTHRESH is "just a hint", and the developer puts the message onto one of the two queues.
    Behaviour.PLAIN_MQI: BehaviourRules(unaccepted=_stays, automatic=False, discards_on_request=False),
}
"""The rules of each behaviour."""


def decide(
    descriptor: MessageDescriptor, queue_attributes: QueueAttributes, dead_letter_queue: str, behaviour: Behaviour
) -> Plan:
    """Return the dispositions to try, in order, for a message that was just got, or is just about to be backed out.

    The plan is `(Deliver(),)` if the message is not poison. If the queue is an alias, `queue_attributes` are the attributes of
    its local queue. `dead_letter_queue` is the queue manager's DEADQ, or empty. The plan is never empty; its last disposition
    needs no put.
    Source: q032280: "If the BackoutCount is less than the value of the BOTHRESH attribute, ... deliver it"; "greater than or
    equal to BOTHRESH ... poison"; "default value of 0, then poison message handling is disabled".
    """
    if not _is_poison(descriptor.backout_count, queue_attributes, behaviour):
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
    """Return the dispositions to try, in order, for a message that must not be delivered again, at any backout count.

    `reason` goes into the MQDLH. If BOQNAME or DEADQ names the input queue, the plan skips that queue. A move to the input
    queue would bring the message back with a count of 0, again and again.
    Source: q032280: BOQNAME, else "either moved to the queue manager's dead letter queue or discarded, depending upon the
    report options of the message". MQRO_DEAD_LETTER_Q is 0, so only MQRO_DISCARD_MSG of the two options can be recognised.
    """
    rules = BEHAVIOURS[behaviour]
    here = ("", queue_attributes.name)
    plan: list[Disposition] = []
    if queue_attributes.backout_requeue_queue not in here:
        plan.append(Requeue(queue_attributes.backout_requeue_queue))
    if rules.discards_on_request and descriptor.report & Report.DISCARD_MSG:
        return (*plan, Discard("its sender asked for it: MQRO_DISCARD_MSG"))
    if dead_letter_queue not in here:
        plan.append(DeadLetter(dead_letter_queue, int(reason)))
    last = rules.unaccepted(descriptor)
    if isinstance(last, Return) and queue_attributes.name in {queue_attributes.backout_requeue_queue, dead_letter_queue}:
        last = replace(last, why=f"{last.why}. {_circular(queue_attributes, dead_letter_queue)}")
    return (*plan, last)


def _circular(queue_attributes: QueueAttributes, dead_letter_queue: str) -> str:
    """Return a sentence that says why the plan skips BOQNAME or DEADQ: it names the input queue. Empty if neither does."""
    name = queue_attributes.name
    skipped = "BOQNAME" if queue_attributes.backout_requeue_queue == name else "DEADQ"
    if queue_attributes.backout_requeue_queue == dead_letter_queue:
        skipped = "BOQNAME, like DEADQ,"
    cure = f"ALTER QLOCAL('{name}') BOQNAME('...') names another queue"
    return f"{skipped} is {name}, the queue itself, where the message would begin again with a backout count of 0. {cure}"


def refused(plan: Plan, reason: int) -> Plan:
    """Return the rest of the plan after the queue manager refused the put of its first disposition with this reason.

    A dead-letter disposition in the rest gets this reason, because it says more than MQRC_BACKOUT_THRESHOLD_REACHED (2362). So
    2362 in an MQDLH means that BOQNAME named no usable queue. It could not be confirmed which of the two reasons IBM MQ writes.
    """
    return tuple(replace(left, reason=int(reason)) if isinstance(left, DeadLetter) else left for left in plan[1:])


def keeping(plan: Plan, descriptor: MessageDescriptor, behaviour: Behaviour) -> Plan:
    """Return the plan for a queue manager whose dead-letter queue mqflow cannot find out: such a queue may exist.

    If the plan discards the message only because no queue accepted it, the message returns to its queue instead.
    """
    if isinstance(plan[-1], Discard) and plan[-1] == BEHAVIOURS[behaviour].unaccepted(descriptor):
        return (*plan[:-1], Return("the backout requeue queue did not take it, and the dead-letter queue is not known"))
    return plan


def is_poison(backout_count: int, threshold: int) -> bool:
    """Return whether the backout count has reached the threshold. With a threshold of 0 this is never true."""
    return 0 < threshold <= backout_count


def is_poison_at_first(queue_attributes: QueueAttributes, behaviour: Behaviour) -> bool:
    """Return whether a message of this queue is poison after its first backout."""
    return _is_poison(1, queue_attributes, behaviour)


def _is_poison(backout_count: int, queue_attributes: QueueAttributes, behaviour: Behaviour) -> bool:
    rules = BEHAVIOURS[behaviour]
    return rules.automatic and is_poison(backout_count, queue_attributes.backout_threshold or rules.threshold_when_zero)


def effective(
    queue_attributes: QueueAttributes, *, threshold: int | None = None, queue: str | None = None
) -> tuple[QueueAttributes, str, str]:
    """Return the attributes with a listener's settings in them, and in words the sources of the threshold and of the queue.

    If `threshold` or `queue` is None, the queue's own value stays. An empty `queue` means no backout requeue queue.
    """
    threshold_source = f"BOTHRESH of {queue_attributes.name}" if threshold is None else "the listener"
    queue_source = f"BOQNAME of {queue_attributes.name}" if queue is None else "the listener"
    overridden = replace(
        queue_attributes,
        backout_threshold=queue_attributes.backout_threshold if threshold is None else threshold,
        backout_requeue_queue=queue_attributes.backout_requeue_queue if queue is None else queue,
    )
    return overridden, threshold_source, queue_source
