"""Makes the subscription of a listener for all its workers, on its own session, and subscribes again after an outage.

All workers open the managed queue of the subscription by its name, so each publication is handled once, by any number of
workers. A durable subscription keeps its publications while the application does not run. While another process uses the
subscription (2429), the listener waits.
"""

from typing import Final

import anyio
from msgspec import Struct

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import CloseOption, SubscribeOption
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.policy.reconnect.ledger import unreplayable
from mqflow.policy.reconnect.reason_classes import needs_reconnect
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Supervisor
from mqflow.verbs import Connection, Subscribed

__all__ = ("Subscriber", "TopicSubscription", "end_subscription", "queue_of", "subscribe")

_QUEUE_NAME: Final = 2016  # MQCA_Q_NAME


class TopicSubscription(Struct, frozen=True, kw_only=True):
    """The topic that a listener subscribes to, and the options of the subscription."""

    topic: str
    #: SubName of a durable subscription; empty for a subscription that ends with the listener.
    durable: str = ""
    #: A selection string for publications; empty for all publications.
    selector: str = ""
    #: True if wildcards stand for characters (`*`, `?`); false if they stand for topic levels (`#`, `+`).
    character_wildcards: bool = False

    def descriptor(self) -> SubscriptionDescriptor:
        """Return the subscription descriptor (MQSD) for MQSUB."""
        options = SubscribeOption.CREATE | SubscribeOption.MANAGED | SubscribeOption.FAIL_IF_QUIESCING
        options |= SubscribeOption.WILDCARD_CHAR if self.character_wildcards else SubscribeOption.WILDCARD_TOPIC
        if self.durable:
            options |= SubscribeOption.DURABLE | SubscribeOption.RESUME
        return SubscriptionDescriptor(object_string=self.topic, name=self.durable, selection=self.selector, options=options)


class Subscriber:
    """Keeps the subscription of one listener."""

    def __init__(self, wanted: TopicSubscription, supervisor: Supervisor) -> None:
        self._wanted: Final = wanted
        self._supervisor: Final = supervisor
        self._turn = anyio.Lock()
        self._session: Session | None = None
        #: The lost session. The next session takes over its open objects.
        self._lost: Session | None = None
        self._subscribed: Subscribed | None = None
        #: The current session, if it may be lost because a worker has lost its connection.
        self._suspected: Session | None = None
        supervisor.let_go_when_quiescing(self._close_idle)

    def suspect(self) -> None:
        """Record that a worker has lost its connection. This session may be lost too; the outage lasts until that is known."""
        if self._session is not None and self._suspected is None:
            self._suspected = self._session
            self._supervisor.expect(self._session)

    async def queue(self) -> str:
        """Return the name of the queue that receives the publications. Subscribe if there is no subscription.

        Raises the `MQIError` of MQSUB: 2429 if another process uses the durable subscription, 2555 if a reconnection can lead
        to another queue manager.
        """
        async with self._turn:
            try:
                return await self._queue()
            finally:
                self.end_suspicion()

    async def _queue(self) -> str:
        if self._session is not None and self._subscribed is not None:
            try:
                # This session can be lost although the sessions of the workers are not. Then the subscription or its queue is
                # gone.
                return await queue_of(self._session, self._subscribed)
            except MQIError as error:
                lost = self._session if needs_reconnect(error) else None
                await self._let_go()
                self._lost = lost
        owner = f"subscription to {self._wanted.topic}"
        self._session = await self._supervisor.connect_now(owner=owner, before=self._lost)
        self._lost = None
        try:
            self._subscribed = await subscribe(self._wanted, self._session, self._supervisor)
            return await queue_of(self._session, self._subscribed)
        except BaseException:
            await self._let_go()
            raise

    async def close(self) -> None:
        """Close the subscription. A durable subscription continues without its application; any other subscription ends."""
        async with self._turn:
            await self._let_go()
            self.end_suspicion()

    async def _close_idle(self) -> None:
        """Close the session. It is connected again when the subscription is needed."""
        if not self._turn.locked():
            async with self._turn:
                session = self._session
                await self._let_go()
                self._lost = session or self._lost

    def end_suspicion(self) -> None:
        """Let an outage end, although nobody knows whether this session is lost. The next `queue` finds out."""
        suspected, self._suspected = self._suspected, None
        self._supervisor.release(suspected)

    async def _let_go(self) -> None:
        session, self._session, self._subscribed = self._session, None, None
        if session is not None:
            await session.close()


async def subscribe(wanted: TopicSubscription, session: Session, supervisor: Supervisor) -> Subscribed:
    """Return the subscription of this session. Subscribe if the session has none.

    Raises the `MQIError` of MQSUB. Raises 2555 if a reconnection can lead to another queue manager, because that queue manager
    does not have the subscription.
    """
    descriptor = wanted.descriptor()
    reason = unreplayable(supervisor.mode, descriptor.options)
    if reason:
        detail = "reconnect.mode lets any queue manager answer, and a subscription and its queue belong to one: set QMGR"
        raise error_for(reason, "MQSUB", wanted.durable or wanted.topic, supervisor.queue_manager_name, detail=detail)
    return await session.call(session.open_objects.subscribe, descriptor)


async def queue_of(session: Session, subscribed: Subscribed) -> str:
    """Return the name of the queue that receives the publications. Raises the `MQIError` of MQINQ."""
    answer = await session.call(session.connection.inquire, subscribed.queue, (_QUEUE_NAME,))
    return str(answer.values[_QUEUE_NAME]).rstrip()


def end_subscription(connection: Connection, durable: str) -> None:
    """End a durable subscription permanently, and delete the messages on its managed queue.

    Raises `MQIError`: 2428 if there is no such subscription, 2429 if an application uses it. Raises 2434 if the subscription
    belongs to another user, and 2035 without the authority RESUME.
    """
    subscribed = connection.subscribe(SubscriptionDescriptor(name=durable, options=SubscribeOption.RESUME))
    connection.close(subscribed.queue)
    connection.close(subscribed.handle, CloseOption.REMOVE_SUB)
