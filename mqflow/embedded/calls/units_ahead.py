"""Several units of work of one connection: one call gets all of them, and the connection settles them in order.

An application that processes many small units of work commits each of them alone. The first unit is the open unit of work; all
later units are ahead of the application. A unit ahead has plain messages only (`get_many`). If a unit is given back, its
messages were not handled, so no BackoutCount increases. Callers hold the queue manager's lock. This file writes
`ConnectionState.ahead` and, with it, `ConnectionState.unit_of_work`.
"""

from typing import Final

from mqflow.embedded.calls.get_many import SAVE_ALL_CONTEXT, get_plain
from mqflow.embedded.calls.pending_answer import Pending
from mqflow.embedded.calls.settle import back_out
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.objects import ConnectionState, ObjectHandle, UnitAhead, UnitOfWork
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.verbs import GetOptions, Got

__all__ = ("begin_next_unit", "give_back", "take_ahead")

#: The most units of work that a connection can have ahead. Without this limit, one application could take all messages.
_UNITS_MAX: Final = 256


def take_ahead(
    state: QueueManagerState, handle: ObjectHandle, options: GetOptions, most: int, units: int, bytes_max: int
) -> Pending[list[list[Got]]]:
    """Take up to `units` units of work of up to `most` plain messages each, together up to `bytes_max` bytes.

    If the connection has no open unit of work, the first unit becomes the connection's unit of work. If a get is refused,
    return the units taken so far.
    """
    connection, taken = handle.connection, list[list[Got]]()
    own, context = connection.unit_of_work, handle.saved_context
    try:
        while (room := min(units - len(taken), _UNITS_MAX - len(connection.ahead))) > 0:
            connection.unit_of_work = all_units = UnitOfWork()
            got = get_plain(state, handle, options, room * most, bytes_max).value
            if not got:
                break
            for start in range(0, len(got), most):
                messages = got[start : start + most]
                saved = messages[-1].descriptor if handle.bits & SAVE_ALL_CONTEXT else context
                if own.operations or connection.ahead:
                    unit = UnitOfWork()
                    connection.ahead.append(UnitAhead(unit, handle, saved))
                else:
                    unit, context = own, saved
                unit.take_gets(all_units, len(messages))
                taken.append(messages)
            bytes_max -= sum([len(each.body) for each in got])
    except Refusal:
        pass  # the next get of the application reports the refusal
    finally:
        connection.unit_of_work, handle.saved_context = own, context
    return Pending(taken)


def begin_next_unit(connection: ConnectionState) -> None:
    """Give the connection its next unit of work: the first unit ahead, or a new one."""
    if not connection.ahead:
        connection.unit_of_work = UnitOfWork()
        return
    following = connection.ahead.popleft()
    connection.unit_of_work, following.handle.saved_context = following.unit, following.saved_context


def give_back(state: QueueManagerState, connection: ConnectionState, count: int) -> Pending[None]:
    """Return the messages of the last `count` units to their places: the units ahead first, then the open unit of work."""
    for _ in range(min(count, len(connection.ahead))):
        _undo(state, connection.ahead.pop().unit)
        count -= 1
    if count:
        _undo(state, connection.unit_of_work)
    return Pending(None)


def _undo(state: QueueManagerState, unit: UnitOfWork) -> None:
    """Put the messages back on their queues. The application never handled them, so they do not count as gets."""
    for queue, message in unit.gets:
        queue.statistics.give_back(len(message.body))
    back_out(state, unit, count=False)
