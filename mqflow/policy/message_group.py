"""Decides about message groups: which message ends a group, and where the messages of a poison group go.

The first message of a group decides for the whole group, because a get of a group always begins with it. This module reads only
descriptors and dispositions.
Source: IBM, "Logical and physical ordering" (q026270). If a group is poison, IBM's classes move only one of its messages.
mqflow has its own rule.
"""

from typing import Final, assert_never

from mqflow.mqi.options import MessageFlag
from mqflow.policy.poison.disposition import DeadLetter, Deliver, Discard, Disposition, Failed, Requeue, Return

__all__ = ("ends_group", "follows_first", "too_large")

_SEGMENT: Final = int(MessageFlag.SEGMENT)
_LAST_SEGMENT: Final = int(MessageFlag.LAST_SEGMENT)
_IN_GROUP: Final = int(MessageFlag.MSG_IN_GROUP)
_LAST_IN_GROUP: Final = int(MessageFlag.LAST_MSG_IN_GROUP)


def ends_group(message_flags: int) -> bool:
    """Return whether a message with these MQMD.MsgFlags is the last of its group, in logical order.

    A message that is in no group counts as a group of one message. A segmented message ends with its last segment.
    """
    if message_flags & _SEGMENT and not message_flags & _LAST_SEGMENT:
        return False
    return not message_flags & _IN_GROUP or bool(message_flags & _LAST_IN_GROUP)


def follows_first(first: Disposition, last_resort: Disposition) -> Disposition:
    """Return the disposition of a further message of a poison group. `Return` means that the whole group stays on its queue.

    `first` is the disposition of the group's first message. `last_resort` is the last disposition of this message's own plan.
    All messages of a group go to the same queue. If the first message is discarded, this message is discarded only if its own
    plan allows that.
    """
    match first:
        case Requeue() | DeadLetter() | Return():
            return first
        case Discard():
            kept = Return("the first message of its group was to be discarded, and this message must be kept")
            return last_resort if isinstance(last_resort, Discard) else kept
        case Deliver():
            raise ValueError("A group whose first message is delivered is not poison.")
        case _:
            assert_never(first)


def too_large(messages_max: int) -> Failed:
    """Return the failure of a group with more than `messages_max` messages. It is final, because a redelivery cannot help."""
    text = f"the group has more than {messages_max} messages; group_messages_max of the listener allows no more"
    return Failed("GroupTooLarge", text, final=True)
