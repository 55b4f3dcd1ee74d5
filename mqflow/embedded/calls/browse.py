"""Browse cursors, the browse lock and the marks of cooperating browsers.

Callers hold the queue manager's lock. Only this file writes `locks`, `co_op_marks`, `marking` and `ObjectHandle.locked`.
`LocalQueue.take` and `clear` remove the browse lock and the marks of each message that they remove.
Source: IBM, "browse-cursor"; MQGMO_LOCK, MQGMO_UNLOCK, MQGMO_MARK_*; rc2034, rc2200, rc2209.
"""

from typing import assert_never

from mqflow.embedded.calls.wait import announce
from mqflow.embedded.rules.get_plan import Mark
from mqflow.embedded.state.backlog import QueuedMessage
from mqflow.embedded.state.objects import LocalQueue, ObjectHandle
from mqflow.mqi.options import OpenOption

__all__ = ("apply_mark", "forget", "hidden_by_mark", "lock", "locked_by_other", "next_lapse", "unlock")


def locked_by_other(queue: LocalQueue, message: QueuedMessage, handle: ObjectHandle) -> bool:
    """True if another handle has locked the message, so that this handle cannot find it."""
    return queue.locks.get(message.key, handle) is not handle


def lock(queue: LocalQueue, message: QueuedMessage, handle: ObjectHandle) -> None:
    """Lock the message for this handle: no other handle finds it. A handle has at most one lock."""
    queue.locks[message.key] = handle
    handle.locked = message.key


def unlock(queue: LocalQueue, handle: ObjectHandle) -> bool:
    """Release the handle's lock, so that other handles find the message. Return False if the handle has no lock."""
    key, handle.locked = handle.locked, None
    if key is None or queue.locks.pop(key, None) is None:
        return False
    message = queue.at(key)
    if message is not None:
        announce(queue, message)
    return True


def hidden_by_mark(queue: LocalQueue, message: QueuedMessage, handle: ObjectHandle, now_s: float) -> bool:
    """True if a mark hides the message from a browse with MQGMO_UNMARKED_BROWSE_MSG."""
    if message.key in handle.marks:
        return True
    return bool(handle.bits & OpenOption.CO_OP) and _co_op_marked(queue, message.key, now_s)


def apply_mark(queue: LocalQueue, message: QueuedMessage, handle: ObjectHandle, mark: Mark, lapses_at: float | None) -> None:
    """Set or remove a mark on the message, according to `mark`."""
    match mark:
        case Mark.HANDLE:
            handle.marks.add(message.key)
            if handle not in queue.marking:
                queue.marking.append(handle)
        case Mark.CO_OP:
            queue.co_op_marks[message.key] = (handle, lapses_at)
        case Mark.UNMARK_HANDLE:
            handle.marks.discard(message.key)
        case Mark.UNMARK_CO_OP:
            if queue.co_op_marks.pop(message.key, None) is not None:
                announce(queue, message)
        case _:
            assert_never(mark)


def next_lapse(queue: LocalQueue, handle: ObjectHandle, now_s: float) -> float | None:
    """Return the earliest monotonic time at which a cooperative mark that hides a message from this handle ends, or None."""
    if not handle.bits & OpenOption.CO_OP:
        return None
    ends = [lapses_at for _, lapses_at in queue.co_op_marks.values() if lapses_at is not None]
    return min((at for at in ends if at > now_s), default=None)


def forget(handle: ObjectHandle, queue: LocalQueue) -> None:
    """Remove the lock and the marks of a closing handle. Wake the waiters for the messages that were locked or marked CO_OP."""
    if handle in queue.marking:
        queue.marking.remove(handle)
    unlock(queue, handle)
    unmarked = [key for key, (owner, _) in queue.co_op_marks.items() if owner is handle]
    for key in unmarked:
        del queue.co_op_marks[key]
    for key in unmarked if queue.waiters else ():
        message = queue.at(key)
        if message is not None:
            announce(queue, message)


def _co_op_marked(queue: LocalQueue, key: int, now_s: float) -> bool:
    mark = queue.co_op_marks.get(key)
    if mark is None:
        return False
    lapses_at = mark[1]
    if lapses_at is not None and lapses_at <= now_s:
        del queue.co_op_marks[key]
        return False
    return True
