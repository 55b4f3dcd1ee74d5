"""The state that the workers of one listener share: declaration, settings, notes about messages, and their common pause."""

from collections.abc import Container
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio

from mqflow.events import ListenerPaused, ListenerResumed, Warned
from mqflow.policy.poison import redelivery_delay
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.delay.long_retries import Retries
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.listener.backout_settings import SettingsCache
from mqflow.runtime.listener.delivery import Delivery, ListenerSpec
from mqflow.runtime.listener.subscriber import Subscriber
from mqflow.runtime.message_notes import MemoryNotes, MessageNotes
from mqflow.world import World

if TYPE_CHECKING:
    from mqflow.runtime.gate import Gate

__all__ = ("Call", "ListenerState")


class Call(NamedTuple):
    """A call of the queue manager that a worker waits for."""

    #: Whether the call is a get that waits for a message; otherwise it settles a unit of work.
    is_get: bool
    #: Monotonic seconds.
    since: float
    #: The longest wait of the get, in seconds.
    wait_s: float


class ListenerState:
    """Holds the state of one listener while it runs."""

    def __init__(
        self,
        spec: ListenerSpec,
        supervisor: Supervisor,
        *,
        broadcast: Broadcast,
        world: World,
        application_name: str,
        retries: Retries | None = None,
        disposition_queue: str = "",
        notes: MessageNotes | None = None,
    ) -> None:
        self.spec: Final = spec
        self.supervisor: Final = supervisor
        self.broadcast: Final = broadcast
        #: The numbers that the ordinary messages of this listener change.
        self.tallies: Final = broadcast.tallies(spec.queue)
        self.clock: Final = world.clock
        self.random: Final = world.random
        self.application_name: Final = application_name
        #: Stages a message if its handler asked for a long pause. With None, the worker waits instead.
        self.retries: Final = retries
        #: The queue for a record of each decision; empty for no records.
        self.disposition_queue: Final = disposition_queue
        self.settings: Final = SettingsCache(spec.threshold, spec.backout_queue, spec.behaviour, self._warn)
        self.notes: Final = notes if notes is not None else MemoryNotes()
        self.subscriber: Final = Subscriber(spec.subscription, supervisor) if spec.subscription else None
        #: The gate that a worker passes before each get; None without a rate limit and a circuit breaker.
        self.gate: Final = self._make_gate(spec) if spec.rate_limit or spec.breaker else None
        self.stopping: Final = anyio.Event()
        #: Whether `stopping` is set. Each worker asks before each message, and a plain value takes no call.
        self.is_stopping: bool = False
        #: By the worker's number: the message that the worker handles now, and the start of the handling in monotonic seconds.
        self.handling: Final[dict[int, tuple[Delivery, float]]] = {}
        #: The messages that no destination accepts, and when that was found last.
        self._stuck: Final[dict[bytes, float]] = {}
        #: By the key of the first message of a poison group: how many destinations refused a message of the group, and the last
        #: reason. The group then goes to the next destination.
        self.refused_groups: Final[dict[bytes, tuple[int, int]]] = {}
        #: With `watch`: by the worker's number, the call of the queue manager that it waits for now. None without `watch`.
        self.calls: dict[int, Call] | None = None
        #: The wanted number of workers; an operator can change it.
        self.concurrency: int = 1 if spec.strict_order else spec.concurrency
        #: Whether an operator has paused the listener.
        self.is_held: bool = False
        #: A worker goes on as long as this number is the one of its start: another number lets it end its unit and leave.
        self.term: int = 0
        self._ordered = anyio.Event()
        #: Why the last get, open or move was refused; empty after a success.
        self.why_refused: str = ""
        #: The commits in a row that the queue manager answered with 2003, of all workers.
        self.refused_commits = 0
        self._refusals = 0
        #: Whether the last refusal was that of a get, an open or a connection, and not that of a message.
        self._is_get_refused = False
        self._rest_until = 0.0

    async def queue(self) -> str:
        """Return the name of the queue to get from. Raises `MQIError` if the subscription cannot be made now."""
        return self.spec.queue if self.subscriber is None else await self.subscriber.queue()

    def stop(self) -> None:
        """Stop the workers of the listener, and end their pauses."""
        self.is_stopping = True
        self.stopping.set()
        if self.gate is not None:
            self.gate.stop()
        self.order()

    def watch(self) -> None:
        """Record from now on the call that each worker waits for. Before this call, the workers spend no time on such notes."""
        self.calls = {}

    def order(self, *, held: bool | None = None, concurrency: int | None = None) -> None:
        """Let all workers end their units and leave. Wanted workers start again; with `held`, when the listener resumes."""
        self.term += 1
        self.is_held = self.is_held if held is None else held
        self.concurrency = self.concurrency if concurrency is None else concurrency
        ordered, self._ordered = self._ordered, anyio.Event()
        ordered.set()

    def _make_gate(self, spec: ListenerSpec) -> "Gate":
        from mqflow.runtime.gate import Gate  # noqa: PLC0415 - few listeners have a gate

        return Gate(
            spec.rate_limit, spec.breaker, queue=spec.queue, listener=spec.name, clock=self.clock, notify=self.broadcast
        )

    def _warn(self, text: str) -> None:
        self.broadcast(Warned(text=f"{self.spec.name}: {text}", queue=self.spec.queue))

    @property
    def stuck(self) -> Container[bytes]:
        """The messages that no destination accepts. Workers get the other messages while the listener pauses."""
        return self._stuck

    def stays(self, key: bytes) -> None:
        """Record that no destination accepts this message."""
        self._stuck[key] = anyio.current_time()
        self.refused_groups.pop(key, None)

    def moved(self, key: bytes) -> None:
        """Record that a poison message has left its queue."""
        self.notes.forget(key)
        self._stuck.pop(key, None)
        self.refused_groups.pop(key, None)
        self.accept()

    async def pause(self, delay_s: float) -> None:
        """Wait for `delay_s` seconds, or until the listener stops."""
        with anyio.move_on_after(delay_s):
            await self.stopping.wait()

    async def rest(self) -> None:
        """Wait while an operator has paused the listener, and while it pauses after a refusal. An order ends that pause."""
        while self.is_held and not self.is_stopping:
            await self._ordered.wait()
        if not self.is_stopping:
            with anyio.move_on_after(self.rest_left_s):
                await self._ordered.wait()

    @property
    def rest_left_s(self) -> float:
        """The seconds until the pause of the listener ends; 0 or less if the listener does not pause."""
        return self._rest_until - anyio.current_time()

    @property
    def refused(self) -> bool:
        """Whether a get, an open or a move was refused, without a success since."""
        return self._refusals > 0

    @property
    def resting(self) -> bool:
        """Whether the listener pauses. In a pause it gets no message, because another message would be backed out too."""
        if not self._rest_until:  # every message comes here
            return False
        return self._rest_until > anyio.current_time()

    def refuse(self, why: str, reason: int, message_id: bytes = b"", *, stop_delivery: bool = False) -> None:
        """Pause all workers of the listener, and report the pause. Each refusal before a success makes the pause longer.

        With `stop_delivery`, even the first pause has the maximum length: the listener tries once a minute until an
        administrator removes the cause.
        """
        self._refusals += 1
        self._is_get_refused = not message_id
        self.why_refused = why
        delay_s = redelivery_delay.pause_s(redelivery_delay.REFUSED, self._refusals, self.random.random())
        if stop_delivery:
            delay_s = redelivery_delay.REFUSED.max_s
        self._rest_until = anyio.current_time() + delay_s
        spec = self.spec
        self.broadcast(
            ListenerPaused(queue=spec.queue, listener=spec.name, why=why, delay_s=delay_s, message_id=message_id, reason=reason)
        )

    def accept_get(self) -> None:
        """Record that a get was allowed again, also one that found no message. A refused move needs the success of a move."""
        if self._is_get_refused:
            self.accept()

    def accept(self) -> None:
        """Record a success. It ends the pauses, unless a message still stays that no destination accepts."""
        if self._refusals:
            # A message that stays on its queue, and was not tried again for two pauses, does not make the next pause longer.
            before = anyio.current_time() - 2 * redelivery_delay.REFUSED.max_s
            for key in [key for key, since in self._stuck.items() if since <= before]:
                del self._stuck[key]
            if self._stuck:
                return
            self._refusals = 0
            self.why_refused = ""
            self._rest_until = 0.0
            self.broadcast(ListenerResumed(queue=self.spec.queue, listener=self.spec.name))
