"""Decides about message groups: which message ends a group, and where the messages of a poison group go.

The first message of a group decides for the group: it is the only message with which a get of a group begins. This module knows
descriptors and dispositions; it knows no queue and no connection.
Source: IBM, "Logical and physical ordering" (q026270). IBM's classes move one message of a poison
group. mqflow has its own rule for such a group.
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

    A message without a group is a group of one. A segmented message ends with its last segment.
    """
    if message_flags & _SEGMENT and not message_flags & _LAST_SEGMENT:
        return False
    return not message_flags & _IN_GROUP or bool(message_flags & _LAST_IN_GROUP)


def follows_first(first: Disposition, last_resort: Disposition) -> Disposition:
    """Return the disposition of a further message of a poison group. A `Return` means that the whole group returns.

    `first` is the disposition of the first message, and `last_resort` the last disposition of the message's own plan. The
    messages of a group go to one queue. A message is discarded with the first only if its own plan allows it.
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
    """Return the failure of a group with more than `messages_max` messages. It is final: a redelivery changes nothing."""
    text = f"the group has more than {messages_max} messages; group_messages_max of the listener allows no more"
    return Failed("GroupTooLarge", text, final=True)
