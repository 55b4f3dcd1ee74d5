"""Writes down, as MQSC, what an application needs: DEFINE and SET AUTHREC for whoever administers its queue manager.

What it writes, `mqflow mqsc` and runmqsc carry out. Knows requirements and the words of MQSC; connects to nothing.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from mqflow.app.requirements import Requirements
from mqflow.embedded.mqsc.values import quoted
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.topic import BASE_TOPIC
from mqflow.mqi.authorities import Kind

__all__ = ("Whom", "script_of")

_HEAD: Final = (
    "* What {target} needs to run as {whom}, and nothing more. An administrator carries it out:",
    "*    mqflow mqsc FILE      or      runmqsc {queue_manager} < FILE",
)
_UNSEEN: Final = (
    "* Not to be seen in the declarations, and to be said by options: the queues of app.put and ctx.put (--put), the",
    "* topics of app.publish and ctx.publish (--publish), the queues of app.consumer (--get), app.request (--request), and",
    "* delays (--delay). Replies and exception reports need PUT on the queue that the message names, and a DLQ handler PUT",
    "* and PASSALL on the queues it returns messages to. app.unsubscribe needs RESUME on the topic.",
)
_EVERY_TOPIC: Final = (
    f"* {BASE_TOPIC} stands above every topic, so this is given on all. Less: DEFINE TOPIC('...') TOPICSTR('...') for those",
    "* of the application first, and look with --url.",
)
_NO_DEAD_LETTER_QUEUE: Final = (
    "* The dead-letter queue is not known, so nothing is given on it: --dead-letter-queue NAME, or --url to look."
)


class Whom(Struct, frozen=True):
    """The user, or the group, that is to be allowed."""

    entity: str
    group: bool = False

    def __str__(self) -> str:
        return f"{'GROUP' if self.group else 'PRINCIPAL'}({quoted(self.entity)})"


def script_of(needed: Requirements, whom: Whom, *, target: str, queue_manager: str, dead_letter_queue: str) -> Iterator[str]:
    """Yield the lines of the script. Queues are defined before anything is allowed on them."""
    for line in _HEAD:
        yield line.format(target=target, whom=whom, queue_manager=queue_manager)
    for queue in needed.queues:
        yield _definition(queue)
    for (kind, name), authorities in needed.authorities.items():
        what = "" if kind is Kind.QMGR else f"PROFILE({quoted(name)}) "
        yield f"SET AUTHREC {what}OBJTYPE({kind}) {whom} AUTHADD({','.join(sorted(authorities))})"
    if (Kind.TOPIC, BASE_TOPIC) in needed.authorities:
        yield from _EVERY_TOPIC
    if not dead_letter_queue:
        yield _NO_DEAD_LETTER_QUEUE
    yield from _UNSEEN


def _definition(queue: QueueAttributes) -> str:
    threshold = f" BOTHRESH({queue.backout_threshold})" if queue.backout_threshold else ""
    backout_queue = f" BOQNAME({quoted(queue.backout_requeue_queue)})" if queue.backout_requeue_queue else ""
    in_order = " MSGDLVSQ(FIFO)" if queue.message_delivery_sequence else ""
    return f"DEFINE QLOCAL({quoted(queue.name)}){threshold}{backout_queue}{in_order}"
