"""Waits for messages: an arriving message wakes one waiter that takes it, and every waiter that only browses.

Among the waiters that take messages, a waiter for exactly this message (by identifier) comes first. If a woken waiter withdraws
without its message, the message wakes another waiter. Only this file writes `LocalQueue.waiters` and `ObjectHandle.waiter`.
Source: IBM q096780 on MQGMO_WAIT.
"""

from collections.abc import Callable

from mqflow.embedded.calls.groups import arrives_whole
from mqflow.embedded.calls.message_selection import passes_over
from mqflow.embedded.rules.get_plan import GetPlan, matches
from mqflow.embedded.rules.group_order import is_part
from mqflow.embedded.state.backlog import QueuedMessage
from mqflow.embedded.state.objects import LocalQueue, ObjectHandle, Waiter
from mqflow.embedded.state.queue_manager_state import QueueManagerState

__all__ = (
    "announce",
    "interrupt",
    "notify",
    "stop_waiting",
    "wait",
    "wake_all",
    "wake_everybody",
    "wake_later",
    "watch",
    "withdraw",
)


def wait(handle: ObjectHandle, queue: LocalQueue, plan: GetPlan, wake: Callable[[], None]) -> Waiter:
    """Register the wait and return it. A handle has at most one wait: the new wait replaces an earlier one."""
    stop_waiting(handle)
    waiter = Waiter(queue, wake, handle, plan)
    queue.waiters.append(waiter)
    handle.waiter = waiter
    return waiter


def watch(queue: LocalQueue, wake: Callable[[], None]) -> Waiter:
    """Register an observer of the next available message, and return its wait."""
    waiter = Waiter(queue, wake)
    queue.waiters.append(waiter)
    return waiter


def wake_later(state: QueueManagerState, wake: Callable[[], None], at: float) -> Callable[[], None]:
    """Call `wake` at this monotonic time, on a thread of its own. Return a function that ends the thread without the call.

    The caller must hold the lock when it calls the returned function.
    """
    over = state.runner.event()

    def work() -> None:
        over.wait(max(0.0, at - state.clock.monotonic()))
        with state.lock:
            if not over.is_set():
                notify(wake)

    state.runner.start(work, f"mqflow wait {state.name}")
    return over.set


def stop_waiting(handle: ObjectHandle) -> None:
    """Withdraw the wait of a handle, if the handle has a wait."""
    if handle.waiter is not None:
        withdraw(handle.waiter)


def interrupt(handle: ObjectHandle) -> None:
    """Wake the get of a handle whose connection ends. The get raises the reason of the end; the close ends the wait."""
    waiter = handle.waiter
    if waiter is not None and waiter in waiter.queue.waiters:
        notify(waiter.wake)


def withdraw(waiter: Waiter) -> None:
    """End the wait. If the waiter was woken for a message that is still available, that message wakes another waiter."""
    queue = waiter.queue
    if waiter in queue.waiters:
        queue.waiters.remove(waiter)
    elif waiter.promised is not None:
        message = queue.at(waiter.promised)
        waiter.promised = None
        if message is not None:
            announce(queue, message)


def announce(queue: LocalQueue, message: QueuedMessage) -> None:
    """Wake the waiters for this message: one waiter that takes the message, and all waiters that only browse."""
    while queue.waiters:
        takes, looks = _chosen(queue, message)
        for waiter in looks:
            queue.waiters.remove(waiter)
            notify(waiter.wake)
        if takes is None:
            return
        queue.waiters.remove(takes)
        takes.promised = message.key
        if notify(takes.wake):
            return


def wake_all(queue: LocalQueue) -> None:
    """Wake every waiter of the queue, because its get may now be refused."""
    waiters, queue.waiters = queue.waiters, []
    for waiter in waiters:
        notify(waiter.wake)


def wake_everybody(state: QueueManagerState) -> None:
    """Wake every waiter of every queue, because their gets may now be refused."""
    for queue in state.queues.values():
        if isinstance(queue, LocalQueue):
            wake_all(queue)


def notify(wake: Callable[[], None]) -> bool:
    """Call `wake`, which signals the waiter. Return False if the waiter's event loop has ended.

    After the end of an event loop, asyncio and trio raise `RuntimeError`. This error must not break the caller's unit of work.
    """
    try:
        wake()
    except RuntimeError:
        return False
    return True


def _chosen(queue: LocalQueue, message: QueuedMessage) -> tuple[Waiter | None, list[Waiter]]:
    """Return the waiter that takes the message, or None, and all waiters that only browse."""
    takes: Waiter | None = None
    looks: list[Waiter] = []
    for waiter in queue.waiters:
        if waiter.plan is None or waiter.handle is None:
            looks.append(waiter)
            continue
        match = waiter.plan.match
        if not _may_return(waiter.plan, queue, message) or passes_over(waiter.handle, message):
            continue
        if waiter.plan.looks_only:
            looks.append(waiter)
        elif takes is None or (takes.plan is not None and takes.plan.match is None and match is not None):
            takes = waiter
    return takes, looks


def _may_return(plan: GetPlan, queue: LocalQueue, message: QueuedMessage) -> bool:
    """Return whether the arrival of this message lets the get return a message."""
    if plan.whole is not None and is_part(message.descriptor.message_flags, plan.whole):
        return arrives_whole(plan, queue, message)
    return plan.match is None or matches(plan.match, message.descriptor)
