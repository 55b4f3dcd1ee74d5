"""The embedded queue manager: opens a store, accepts connections and administration, quiesces and stops.

This file connects the parts; the rules are in `rules` and `calls`. It implements `verbs.QueueManager`. It writes `quiescing`,
`stops_when_empty`, `when_staged`, `when_stopped`, and the first attributes and objects of a new queue manager.
"""

import sys
from collections.abc import Callable
from pathlib import PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from msgspec.structs import replace

from mqflow.embedded.administration.channels import RunningChannels
from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.administration.queues import Definitions
from mqflow.embedded.calls.event_messages import refusal_event, start_or_stop_event
from mqflow.embedded.calls.object_records import defined_objects, records
from mqflow.embedded.calls.open import MANAGED, PERMANENT_DYNAMIC, drop_managed
from mqflow.embedded.calls.settle import Answer, stop
from mqflow.embedded.calls.wait import notify, wake_everybody, watch, withdraw
from mqflow.embedded.calls.watch import QueueWatcher
from mqflow.embedded.catalogue import system_objects
from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.pcf.server import APPLICATION, CommandServer
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.identifiers import queue_manager_identifier
from mqflow.embedded.state.objects import LocalQueue, Subscription
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.steady_clock import CLOCK
from mqflow.embedded.state.stored_objects import defined
from mqflow.embedded.state.users import USER_CHARS, Groups, Users, login, system_groups
from mqflow.embedded.storage.store import Change, MemoryStore, QueueDefined, QueueManagerDefined, Store
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.authorities import TO_CONNECT
from mqflow.mqi.errors import error_for
from mqflow.mqi.names import is_object_name
from mqflow.mqi.options import ApplicationType
from mqflow.mqi.reason_codes import Reason
from mqflow.world import SYSTEM_WORLD, World

if TYPE_CHECKING:
    from mqflow.embedded.pcf.resources import ResourcePublisher

__all__ = ("EmbeddedQueueManager",)

_APPLICATION_CHARS: Final = 28


class EmbeddedQueueManager:
    """A queue manager in this process. Close it, or use it in a `with` statement.

    The constructor loads the contents of `store`. For an empty store it creates the SYSTEM.* objects, and `dead_letter_queue`
    becomes the DEADQ. Raises 2192 if the disk is too full for them, and releases the store. Refuses with 2058 a store that
    belongs to a queue manager with another name. `user` is the user of each connection that names no user. By default it is the
    user of the process, and this user administers the queue manager. `groups` returns the groups of a user.
    """

    inline: Final = True
    #: The queue of staged messages. It is the only queue whose messages are in the order of due times.
    staging_queue: Final = system_objects.STAGING_QUEUE

    def __init__(
        self,
        name: str,
        *,
        store: Store | None = None,
        world: World = SYSTEM_WORLD,
        dead_letter_queue: str = "",
        user: str = "",
        groups: Groups = system_groups,
    ) -> None:
        if not is_object_name(name):
            raise error_for(Reason.Q_MGR_NAME_ERROR, "Opening the queue manager", name, detail=f"{name!r} is not a name")
        store = MemoryStore() if store is None else store
        snapshot = store.load()
        known = snapshot.queue_manager
        if known is not None and known.name != name:
            store.close()  # lets a caller with the right name open the folder
            detail = f"The store belongs to queue manager {known.name}"
            raise error_for(Reason.Q_MGR_NAME_ERROR, "Opening the queue manager", name, detail=detail)
        attributes = known or QueueManagerAttributes(name=name, dead_letter_queue=dead_letter_queue)
        users = Users(login(), groups)
        try:
            self._state = QueueManagerState(attributes, store=store, world=world, snapshot=snapshot, users=users)
        except BaseException:
            store.close()  # lets an mqflow version that understands the content open the folder
            raise
        self._state.watcher = QueueWatcher(self._state)
        self._state.when_monitored = self._when_monitored
        self._publisher: ResourcePublisher | None = None
        #: The running channels and listeners of client programs. Each listener adds itself.
        self.channels: Final = RunningChannels(self._state)
        self._user = user or login()
        self._closed = False
        self._stop_said = False
        if known is None:
            self._create()
        self._create_topics()
        self._drop_orphaned_queues()
        store.write((defined(CLOCK, self._state.objects["clock"][CLOCK]),), None)
        self._command_server = CommandServer(
            self._state, self.administration_of, self._connection(APPLICATION, ""), world.runner
        )
        start_or_stop_event(self._state, Reason.Q_MGR_ACTIVE)
        self._command_server.start()
        for subscription in self._state.subscriptions:
            if subscription.attributes.topic_string.startswith(system_objects.RESOURCE_TOPICS):
                self._when_monitored(subscription)

    @property
    def name(self) -> str:
        """The name of the queue manager."""
        return self._state.name

    @property
    def stopped(self) -> bool:
        """True if the queue manager has stopped, by `stop`, `close` or a failure of its store."""
        return bool(self._state.stopped)

    @property
    def failure(self) -> str:
        """The failure of the store that stopped the queue manager, or an empty text."""
        return self._state.failure

    @property
    def owner(self) -> str:
        """The user that runs the queue manager and administers it."""
        return self._state.authorities.owner

    @property
    def administration(self) -> Administration:
        """The administration for MQSC. Raises 2035 if the queue manager was opened with a user who does not administer it."""
        return self.administration_of(self._user)

    def administration_of(self, user: str) -> Administration:
        """Return the administration for MQSC. Raises 2035 for a user who does not administer the queue manager."""
        if not self.administers(user):
            detail = f"User {user} does not administer it: the user that runs the queue manager does, and the group mqm"
            raise error_for(Reason.NOT_AUTHORIZED, "Administration", "", self._state.name, detail)
        return Definitions(self._state, self.channels, user)

    def administers(self, user: str) -> bool:
        """Return whether the user has every authority. While the authority checks are off, every user has every authority."""
        with self._state.lock:
            return self._state.authorities.administers(user[:USER_CHARS])

    def require_authorities(self, made_administrator: Callable[[str], bool]) -> None:
        """Turn the authority checks on, even if no authority record exists."""
        with self._state.lock:
            self._state.authorities.require(made_administrator)

    @property
    def quarantined(self) -> tuple[tuple[int, str], ...]:
        """The damaged messages in quarantine, each with its serial number and the cause."""
        return tuple(self._state.quarantined)

    def connect(
        self,
        *,
        application_name: str = "",
        application_type: int = ApplicationType.UNIX,
        user: str = "",
        process: int = 0,
        channel: str = "",
        address: str = "",
    ) -> EmbeddedConnection:
        """Return a new connection (MQCONNX). Raises 2161 while quiescing, 2059 after a stop, and 2035 without authority.

        The name and the type of the application become PutApplName and PutApplType of its messages. DISPLAY CONN shows the
        process, by default the present process, and the channel and the address of a client program.
        """
        state = self._state
        with state.lock:
            if state.stopped or state.quiescing:
                reason = Reason.Q_MGR_NOT_AVAILABLE if state.stopped else Reason.Q_MGR_QUIESCING
                raise error_for(reason, "MQCONNX", queue_manager=state.name)
            user = (user or self._user)[:USER_CHARS]
            try:
                state.authorities.check(user, (TO_CONNECT,))
            except Refusal as refusal:
                refusal_event(state, self._connection(application_name, user).state, "MQCONNX", "", refusal.reason)
                raise refusal.on("MQCONNX", "", state.name) from None
            connection = self._connection(application_name, user)
            connection.state.channel, connection.state.address = channel, address
            connection.state.application_type = application_type
            connection.state.process = process or connection.state.process
            state.connections.add(connection.state)
            state.connected += 1
            return connection

    def when_staged(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, from any thread, when the staging queue has a message. `wake` must only signal another thread."""
        state = self._state
        with state.lock:
            staged = state.queues.get(system_objects.STAGING_QUEUE)
            if isinstance(staged, LocalQueue) and staged.depth:
                notify(wake)
            else:
                state.when_staged.append(wake)

    def on_staged(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` once, from any thread, when the staging queue gets a message. Return a function that cancels the call."""
        state = self._state
        with state.lock:
            staged = state.queues.get(system_objects.STAGING_QUEUE)
            waiter = watch(staged, wake) if isinstance(staged, LocalQueue) else None

        def withdraw_observer() -> None:
            if waiter is not None:
                with state.lock:
                    withdraw(waiter)

        return withdraw_observer

    def when_stopped(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, from any thread, when the queue manager stops. `wake` must only signal another thread."""
        with self._state.lock:
            if self._state.stopped:
                notify(wake)
            else:
                self._state.when_stopped.append(wake)

    def quiesce(self) -> None:
        """Accept no new work: new verbs and waiting gets with FAIL_IF_QUIESCING raise 2161."""
        state = self._state
        with state.lock:
            state.quiescing = True
            wake_everybody(state)

    def stop(self, *, immediate: bool = True, reason: Reason = Reason.Q_MGR_STOPPING) -> None:
        """Stop now: end every connection and back out its unit of work. Later calls raise 2162, or `reason`.

        If `immediate` is false, quiesce, and stop after the last connection has ended. This method does not wait for that.
        """
        state = self._state
        with state.lock:
            if immediate or not state.connections:
                self._say_stop()
                stop(state, reason)
            else:
                state.stops_when_empty = True
                self._say_stop(quiesces=True)
                self.quiesce()

    def close(self) -> None:
        """Stop the queue manager. Close its store after all pending writes are durable. A second call does nothing."""
        with self._state.lock:
            already = self._closed
            self._closed = True
            self._say_stop()
            stop(self._state, Reason.Q_MGR_STOPPING)
        if not already:
            # Not under the lock, because the command server and the store's thread need the lock to finish.
            self._command_server.join()
            if self._publisher is not None:
                self._publisher.join()
            self._state.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _say_stop(self, *, quiesces: bool = False) -> None:
        """Put the event Queue Manager Not Active, but not again for a stop after a quiesce."""
        if not self._state.stopped and not self._stop_said:
            self._stop_said = True
            start_or_stop_event(self._state, Reason.Q_MGR_NOT_ACTIVE, quiesces=quiesces)

    def _when_monitored(self, subscription: Subscription) -> None:
        """Publish figures for this new subscription. The caller holds the queue manager's lock."""
        if self._publisher is None:
            from mqflow.embedded.pcf.resources import ResourcePublisher  # noqa: PLC0415 - most queue managers have no monitor

            self._publisher = ResourcePublisher(self._state, self._state.runner)
        self._publisher.begin(subscription)

    def _connection(self, application_name: str, user: str) -> EmbeddedConnection:
        return EmbeddedConnection(
            self._state,
            application_name=_text(application_name or _program())[:_APPLICATION_CHARS],
            user=_text(user or login()),
            number=self._state.identifiers.number(),
        )

    def _create(self) -> None:
        state = self._state
        now_s = state.clock.wall()
        date, time = state.as_text(now_s)
        state.attributes = replace(
            state.attributes,
            identifier=queue_manager_identifier(state.name, date, time, now_s),
            creation_date=date,
            creation_time=time,
            alteration_date=date,
            alteration_time=time,
        )
        changes: list[Change] = [QueueManagerDefined(state.attributes)]
        changes += [QueueDefined(state.define(state.dated(queue)).attributes) for queue in system_objects.SYSTEM_QUEUES]
        for default in system_objects.SYSTEM_OBJECTS:
            attributes = replace(default, values={**default.values, "alteration_date": date, "alteration_time": time})
            defined_objects(state, default.noun)[default.key] = attributes
            changes.append(defined(default.key, attributes))
        created = Answer(state.runner)
        state.store.write(changes, created)
        if (failure := created.wait()) is not None:
            state.store.close()
            raise failure

    def _create_topics(self) -> None:
        state = self._state
        topics = records(state, TopicAttributes)
        missing = [topic for topic in system_objects.SYSTEM_TOPICS if topic.name not in topics]
        if missing:
            topics.update({topic.name: topic for topic in missing})
            state.topics.changed()
            state.store.write([defined(topic.name, topic) for topic in missing], None)

    def _drop_orphaned_queues(self) -> None:
        """Delete managed queues without a subscription.

        A crash between the writes of queue and subscription leaves such a queue. Each crash leaves the queue of a non-durable
        subscription whose model makes permanent queues.
        """
        state = self._state
        held = {subscription.attributes.destination for subscription in state.subscriptions}
        for name, queue in tuple(state.queues.items()):
            managed = name.startswith(MANAGED) and queue.attributes.definition_type == PERMANENT_DYNAMIC
            if managed and name not in held:
                drop_managed(state, name)


def _text(name: str) -> str:
    """Return the name of a program or a user with a question mark for each character that cannot be encoded."""
    return name.encode("utf-8", "replace").decode()


def _program() -> str:
    return PurePath(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
