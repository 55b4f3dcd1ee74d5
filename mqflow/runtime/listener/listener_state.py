"""The state that the workers of one listener share: its declaration and settings, facts about messages, and its pauses."""

from collections.abc import Container
from typing import TYPE_CHECKING, Final

import anyio
from msgspec import Struct

from mqflow.events import ListenerPaused, ListenerResumed, Warned
from mqflow.mqi.errors import MQIError
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

__all__ = ("ListenerState", "OpenCall")


class OpenCall(Struct, frozen=True, gc=False):
    """A call of the queue manager whose answer a worker waits for. It is a struct, which is made faster than a named tuple."""

    #: True if the call is a get that waits for a message; false if it settles a unit of work.
    is_get: bool
    #: The time when the call began, in monotonic seconds.
    since: float
    #: The longest wait of the get, in seconds.
    wait_s: float


class ListenerState:
    """The state of one listener while it runs."""

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
        #: Stages a message if its handler asked for a long pause; None if the worker waits instead.
        self.retries: Final = retries
        #: The queue that gets a record of each decision; empty for no records.
        self.disposition_queue: Final = disposition_queue
        self.settings: Final = SettingsCache(spec.threshold, spec.backout_queue, spec.behaviour, self._warn)
        self.notes: Final = notes if notes is not None else MemoryNotes()
        self.subscriber: Final = Subscriber(spec.subscription, supervisor) if spec.subscription else None
        #: The gate that a worker passes before each get; None if there is no rate limit and no circuit breaker.
        self.gate: Final = self._make_gate(spec) if spec.rate_limit or spec.breaker else None
        self.stopping: Final = anyio.Event()
        #: True if `stopping` is set. Each worker reads this before each message, because it is faster than a call.
        self.is_stopping: bool = False
        #: For each worker, by number: the message that it handles now, and the start of the handling in monotonic seconds.
        self.handling: Final[dict[int, tuple[Delivery, float]]] = {}
        #: The messages that no destination accepts, and the time when this was last found out.
        self._stuck: Final[dict[bytes, float]] = {}
        #: The destinations of a poison group that have refused one of its messages: their number, and the last reason. The next
        #: destination is tried then. The key is that of the group's first message.
        self.refused_groups: Final[dict[bytes, tuple[int, int]]] = {}
        #: For each worker, by number: the call that it waits for now. None until `watch` is called.
        self.calls: dict[int, OpenCall] | None = None
        #: The number of workers that should run. An operator can change it.
        self.concurrency: int = 1 if spec.strict_order else spec.concurrency
        #: True if an operator has paused the listener.
        self.is_held: bool = False
        #: The number of orders so far. A worker that started before the last order finishes its unit of work and ends.
        self.term: int = 0
        self._ordered = anyio.Event()
        #: The reason why the last get, open or move was refused; empty after a success.
        self.why_refused: str = ""
        #: The number of commits in a row, of all workers, that the queue manager answered with 2003.
        self.refused_commits = 0
        self._refusals = 0
        #: True if the last refusal concerned a get, an open or a connection; false if it concerned a message.
        self._is_get_refused = False
        self._rest_until = 0.0
        #: The reason code of the last refused browse that only an administrator can allow; None if there was no such refusal.
        self._browse_refused: int | None = None

    @property
    def why_paused(self) -> str:
        """The reason why the listener pauses; empty if it does not pause."""
        if self.is_held:
            return "an operator has paused it"
        return self.why_refused or (self.gate.why_open if self.gate is not None else "")

    async def queue(self) -> str:
        """Return the name of the queue to get from. Raises `MQIError` if its subscription cannot be made now."""
        return self.spec.queue if self.subscriber is None else await self.subscriber.queue()

    def stop(self) -> None:
        """Stop the workers of the listener, and end their pauses."""
        self.is_stopping = True
        self.stopping.set()
        if self.gate is not None:
            self.gate.stop()
        self.order()

    def watch(self) -> None:
        """From now on, record the call that each worker waits for. Without this, no worker spends time on such records."""
        self.calls = {}

    def order(self, *, held: bool | None = None, concurrency: int | None = None) -> None:
        """Pause or resume the listener (`held`), or change the number of workers. All workers end their units of work first."""
        self.term += 1
        self.is_held = self.is_held if held is None else held
        self.concurrency = self.concurrency if concurrency is None else concurrency
        ordered, self._ordered = self._ordered, anyio.Event()
        ordered.set()
        if self.gate is not None:
            self.gate.wake()

    def _make_gate(self, spec: ListenerSpec) -> "Gate":
        from mqflow.runtime.gate import Gate  # noqa: PLC0415 - few listeners have a gate

        return Gate(
            spec.rate_limit, spec.breaker, queue=spec.queue, listener=spec.name, clock=self.clock, notify=self.broadcast
        )

    def _warn(self, text: str) -> None:
        self.broadcast(Warned(text=f"{self.spec.name}: {text}", queue=self.spec.queue))

    @property
    def stuck(self) -> Container[bytes]:
        """The messages that no destination accepts. While the listener pauses because of them, workers get other messages."""
        return self._stuck

    def stays(self, key: bytes) -> None:
        """Record that no destination accepts this message."""
        self._stuck[key] = anyio.current_time()
        self.refused_groups.pop(key, None)

    def cannot_browse(self, error: MQIError) -> None:
        """Warn once that a message that stays holds up the other messages, because the queue cannot be browsed."""
        if self._browse_refused != error.reason:
            self._browse_refused = int(error.reason)
            self._warn(
                "the queue cannot be browsed, so while a message stays that no destination accepts, the listener handles no "
                f"other message. {error}"
            )

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
        """Wait while the listener is paused by an operator or after a refusal. An order ends a pause after a refusal."""
        while self.is_held and not self.is_stopping:
            await self._ordered.wait()
        if not self.is_stopping:
            with anyio.move_on_after(self.rest_left_s):
                await self._ordered.wait()

    @property
    def rest_left_s(self) -> float:
        """The seconds until the pause of the listener ends; 0 or less if it does not pause."""
        return self._rest_until - anyio.current_time()

    @property
    def refused(self) -> bool:
        """True if the last get, open or move was refused."""
        return self._refusals > 0

    @property
    def resting(self) -> bool:
        """True if the listener pauses. It gets no message then, because that message would be backed out too."""
        if not self._rest_until:  # the quick test first, because this runs for every message
            return False
        return self._rest_until > anyio.current_time()

    def refuse(self, why: str, reason: int, message_id: bytes = b"", *, stop_delivery: bool = False) -> None:
        """Pause all workers of the listener, and report the pause. Each further refusal in a row makes the pause longer.

        With `stop_delivery`, even the first pause has the maximum length: the listener tries again once a minute, until an
        administrator has removed the cause.
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
        """Record that a get was allowed, even if it found no message. After a refused move, only a successful move counts."""
        if self._is_get_refused:
            self.accept()

    def accept(self) -> None:
        """Record a success, which ends the pauses. They do not end while a message stays that no destination accepts."""
        if self._refusals:
            # A message that was not tried again for the length of two pauses does not make the next pause longer.
            before = anyio.current_time() - 2 * redelivery_delay.REFUSED.max_s
            for key in [key for key, since in self._stuck.items() if since <= before]:
                del self._stuck[key]
            if self._stuck:
                return
            self._refusals = 0
            self.why_refused = ""
            self._rest_until = 0.0
            self.broadcast(ListenerResumed(queue=self.spec.queue, listener=self.spec.name))
