"""The state that the workers of one listener share: declaration, settings, requeuer, and a memory of recent messages.

The memory is bounded and ends with the process; correctness does not depend on it. It notes which message of a unit caused a
backout, so that only this message comes closer to its threshold. It also lets all workers of a listener pause together.
"""

from collections import OrderedDict
from typing import Final, TypeVar

import anyio

from mqflow.events import ListenerPaused, ListenerResumed, Warned
from mqflow.policy.poison import redelivery_delay
from mqflow.policy.poison.disposition import Outcome
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.runtime.hooks import Broadcast
from mqflow.runtime.listener.backout_settings import SettingsCache
from mqflow.runtime.listener.delivery import Delivery, ListenerSpec
from mqflow.runtime.listener.long_retries import Retries
from mqflow.runtime.listener.requeuer import Requeuer
from mqflow.runtime.listener.subscriber import Subscriber
from mqflow.world import World

__all__ = ("ListenerState",)

T = TypeVar("T")

_REMEMBERED_MAX: Final = 10_000


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
    ) -> None:
        self.spec: Final = spec
        self.supervisor: Final = supervisor
        self.broadcast: Final = broadcast
        self.clock: Final = world.clock
        self.random: Final = world.random
        self.application_name: Final = application_name
        #: Stages a message if its handler asked for a long pause. With None, the worker waits instead.
        self.retries: Final = retries
        #: The queue for a record of each decision; empty for no records.
        self.disposition_queue: Final = disposition_queue
        self.settings: Final = SettingsCache(spec.threshold, spec.backout_queue, self._warn)
        self.requeuer: Final = Requeuer(
            spec.queue, supervisor, behaviour=spec.behaviour, application_name=application_name, clock=world.clock
        )
        self.subscriber: Final = Subscriber(spec.subscription, supervisor) if spec.subscription else None
        self.stopping: Final = anyio.Event()
        #: By the worker's number: the message that the worker handles now, and the start of the handling in monotonic seconds.
        self.handling: Final[dict[int, tuple[Delivery, float]]] = {}
        self._forgiven: OrderedDict[bytes, int] = OrderedDict()
        self._failures: OrderedDict[bytes, Outcome] = OrderedDict()
        self._refusals = 0
        self._rest_until = 0.0

    async def queue(self) -> str:
        """Return the name of the queue to get from. Raises `MQIError` if the subscription cannot be made now."""
        if self.subscriber is None:
            return self.spec.queue
        name = await self.subscriber.queue()
        if name != self.requeuer.queue:
            self.requeuer.queue = name
            await self.requeuer.close()
        return name

    def _warn(self, text: str) -> None:
        self.broadcast(Warned(text=f"{self.spec.name}: {text}", queue=self.spec.queue))

    def forgive(self, message_id: bytes) -> None:
        """Note a backout that this message did not cause: another message of the unit failed, or the worker was cancelled."""
        _remember(self._forgiven, message_id, self._forgiven.get(message_id, 0) + 1)

    def blamed(self, message_id: bytes, backout_count: int) -> int:
        """Return the number of backouts that the message itself caused, as far as this process knows."""
        return max(backout_count - self._forgiven.get(message_id, 0), 0) if self._forgiven else backout_count

    def note_failure(self, message_id: bytes, outcome: Outcome) -> None:
        """Remember how the message failed: the worker that later finds the message poison reports this."""
        _remember(self._failures, message_id, outcome)

    def last_failure(self, message_id: bytes) -> Outcome | None:
        """Return the last failure of the message in this process; None if it did not fail."""
        return self._failures.get(message_id)

    def forget(self, message_id: bytes) -> None:
        """Forget a message that is gone."""
        self._forgiven.pop(message_id, None)
        self._failures.pop(message_id, None)

    async def pause(self, delay_s: float) -> None:
        """Wait for `delay_s` seconds, or until the listener stops."""
        with anyio.move_on_after(delay_s):
            await self.stopping.wait()

    async def rest(self) -> None:
        """Wait while the listener pauses after a refusal."""
        left_s = self._rest_until - anyio.current_time()
        if left_s > 0:
            await self.pause(left_s)

    @property
    def refused(self) -> bool:
        """Whether a get, an open or a move was refused, without a success since."""
        return self._refusals > 0

    @property
    def resting(self) -> bool:
        """Whether the listener pauses. In a pause it gets no message, because another message would be backed out too."""
        return self._rest_until > 0 and self._rest_until > anyio.current_time()

    def refuse(self, why: str, reason: int, message_id: bytes = b"", *, stop_delivery: bool = False) -> None:
        """Pause all workers of the listener, and report the pause. Each refusal before a success makes the pause longer.

        With `stop_delivery`, even the first pause has the maximum length: the listener tries once a minute until an
        administrator removes the cause.
        """
        self._refusals += 1
        delay_s = redelivery_delay.pause_s(redelivery_delay.REFUSED, self._refusals, self.random.random())
        if stop_delivery:
            delay_s = redelivery_delay.REFUSED.max_s
        self._rest_until = anyio.current_time() + delay_s
        spec = self.spec
        self.broadcast(
            ListenerPaused(queue=spec.queue, listener=spec.name, why=why, delay_s=delay_s, message_id=message_id, reason=reason)
        )

    def accept(self) -> None:
        """Note a success, which ends the pauses."""
        if self._refusals:
            self._refusals = 0
            self._rest_until = 0.0
            self.broadcast(ListenerResumed(queue=self.spec.queue, listener=self.spec.name))


def _remember(memory: OrderedDict[bytes, T], key: bytes, value: T) -> None:
    memory[key] = value
    memory.move_to_end(key)
    if len(memory) > _REMEMBERED_MAX:
        memory.popitem(last=False)
