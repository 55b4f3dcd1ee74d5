"""The embedded queue manager: opened on a store, connected to, administered, quiesced and stopped.

Puts the parts together; the rules are in the modules of the steps. Offers `verbs.QueueManager`.
"""

import sys
from collections.abc import Callable
from pathlib import PurePath
from types import TracebackType
from typing import Final, Self

from msgspec.structs import replace

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.administration.queues import Definitions
from mqflow.embedded.calls.object_records import defined_objects, records
from mqflow.embedded.calls.open import MANAGED_DURABLE, PERMANENT_DYNAMIC, drop_managed
from mqflow.embedded.calls.settle import stop
from mqflow.embedded.calls.wait import told, watch, withdraw
from mqflow.embedded.catalogue.kinds import defined_object
from mqflow.embedded.catalogue.system_definitions import SYSTEM_OBJECTS
from mqflow.embedded.catalogue.system_objects import SYSTEM_QUEUES, SYSTEM_TOPICS
from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.pcf.server import APPLICATION, CommandServer
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.backlog import LocalQueue
from mqflow.embedded.state.identifiers import queue_manager_identifier
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.staging_order import STAGING_QUEUE
from mqflow.embedded.state.steady_clock import CLOCK
from mqflow.embedded.state.stored_objects import defined
from mqflow.embedded.state.users import USER_CHARS, Groups, Users, login, system_groups
from mqflow.embedded.storage.store import Change, MemoryStore, QueueDefined, QueueManagerDefined, Store
from mqflow.mqi.attributes.queue import QueueManagerAttributes
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.authorities import TO_CONNECT
from mqflow.mqi.errors import error_for
from mqflow.mqi.names import is_object_name
from mqflow.mqi.reason_codes import Reason
from mqflow.world import SYSTEM_CLOCK, THREADS, Clock, Runner

__all__ = ("EmbeddedQueueManager",)

_APPLICATION_CHARS: Final = 28


class EmbeddedQueueManager:
    """A queue manager in this process. Close it, or use it in a `with` statement.

    What `store` holds is there again; a new one is created with the SYSTEM.* queues and `dead_letter_queue` as its DEADQ. A
    store that belongs to a queue manager of another name is refused with 2058. `user` is who connects where a connection names
    nobody: the user of this process if left out, who administers it. `groups` says which groups a user is in.
    """

    inline: Final = True
    #: Where delayed messages wait: the one queue that is kept in the order of due times.
    staging_queue: Final = STAGING_QUEUE

    def __init__(
        self,
        name: str,
        *,
        store: Store | None = None,
        clock: Clock = SYSTEM_CLOCK,
        dead_letter_queue: str = "",
        runner: Runner = THREADS,
        user: str = "",
        groups: Groups = system_groups,
    ) -> None:
        if not is_object_name(name):
            raise error_for(Reason.Q_MGR_NAME_ERROR, "Opening the queue manager", name, detail=f"{name!r} is no name")
        store = MemoryStore() if store is None else store
        snapshot = store.load()
        known = snapshot.queue_manager
        if known is not None and known.name != name:
            store.close()  # its folder is free for who asks for the right name
            detail = f"The store belongs to queue manager {known.name}"
            raise error_for(Reason.Q_MGR_NAME_ERROR, "Opening the queue manager", name, detail=detail)
        attributes = known or QueueManagerAttributes(name=name, dead_letter_queue=dead_letter_queue)
        users = Users(login(), groups)
        try:
            self._state = QueueManagerState(attributes, store=store, clock=clock, snapshot=snapshot, users=users, runner=runner)
        except BaseException:
            store.close()  # its folder is free for the mqflow that knows what is in it
            raise
        self._definitions = Definitions(self._state)
        self._user = user or login()
        self._closed = False
        if known is None:
            self._create()
        self._create_topics()
        self._drop_what_no_subscription_has()
        store.write((defined(CLOCK, self._state.objects["clock"][CLOCK]),), None)
        self._command_server = CommandServer(self._state, self.administration_of, self._connection(APPLICATION, ""), runner)
        self._command_server.start()

    @property
    def name(self) -> str:
        """Its name."""
        return self._state.name

    @property
    def stopped(self) -> bool:
        """Whether it has ended, by `stop`, `close` or a store that failed."""
        return bool(self._state.stopped)

    @property
    def failure(self) -> str:
        """What its store said when it failed, where that has stopped it; empty otherwise."""
        return self._state.failure

    @property
    def owner(self) -> str:
        """The user that runs it, and administers it."""
        return self._state.authorities.owner

    @property
    def administration(self) -> Administration:
        """What MQSC works on. Raises 2035 where this queue manager was opened as a user that does not administer it."""
        return self.administration_of(self._user)

    def administration_of(self, user: str) -> Administration:
        """Return what MQSC works on. Raises 2035 for a user that does not administer the queue manager."""
        with self._state.lock:
            administers = self._state.authorities.administers(user[:USER_CHARS])
        if not administers:
            detail = f"User {user} does not administer it: the user that runs the queue manager does, and the group mqm"
            raise error_for(Reason.NOT_AUTHORIZED, "Administration", "", self._state.name, detail)
        return self._definitions

    @property
    def quarantined(self) -> tuple[tuple[int, str], ...]:
        """Messages that were found damaged and set aside: serial and why."""
        return tuple(self._state.quarantined)

    def connect(self, *, application_name: str = "", user: str = "") -> EmbeddedConnection:
        """Return a new connection (MQCONNX). Raises 2161 while it is quiescing, 2059 once it stopped, 2035 for who may not."""
        state = self._state
        with state.lock:
            if state.stopped or state.quiescing:
                reason = Reason.Q_MGR_NOT_AVAILABLE if state.stopped else Reason.Q_MGR_QUIESCING
                raise error_for(reason, "MQCONNX", queue_manager=state.name)
            user = (user or self._user)[:USER_CHARS]
            try:
                state.authorities.check(user, (TO_CONNECT,))
            except Refusal as refusal:
                raise refusal.on("MQCONNX", "", state.name) from None
            connection = self._connection(application_name, user)
            state.connections.add(connection)
            return connection

    def when_staged(self, wake: Callable[[], None]) -> None:
        """Call `wake` once, from any thread, when there is a delayed message to deliver; it must only hand over."""
        state = self._state
        with state.lock:
            staged = state.queues.get(STAGING_QUEUE)
            if isinstance(staged, LocalQueue) and staged.depth:
                told(wake)
            else:
                state.when_staged.append(wake)

    def on_staged(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` once, from any thread, when a message comes to the staging queue; return what withdraws that."""
        state = self._state
        with state.lock:
            staged = state.queues.get(STAGING_QUEUE)
            waiter = watch(staged, wake) if isinstance(staged, LocalQueue) else None

        def withdraw_it() -> None:
            if waiter is not None:
                with state.lock:
                    withdraw(waiter)

        return withdraw_it

    def quiesce(self) -> None:
        """Accept no new work: verbs with FAIL_IF_QUIESCING, and the waits of such gets, end with 2161."""
        state = self._state
        with state.lock:
            state.quiescing = True
            state.wake_everybody()

    def stop(self, *, immediate: bool = True, reason: Reason = Reason.Q_MGR_STOPPING) -> None:
        """Stop at once: every connection is lost, its unit of work backed out; verbs raise 2162, or `reason`, from now on.

        Not `immediate`: quiesce, and stop when the last connection has ended. This call does not wait for that.
        """
        state = self._state
        with state.lock:
            if immediate or not state.connections:
                stop(state, reason)
            else:
                state.stops_when_empty = True
                self.quiesce()

    def close(self) -> None:
        """Stop, and close the store when what is under way there is durable. Nothing is left to do the second time."""
        with self._state.lock:
            already = self._closed
            self._closed = True
            stop(self._state, Reason.Q_MGR_STOPPING)
        if not already:
            # Without the lock: the command server and the store's thread take it to finish what is under way.
            self._command_server.join()
            self._state.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

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
        changes += [QueueDefined(state.define(state.dated(queue)).attributes) for queue in SYSTEM_QUEUES]
        for made in SYSTEM_OBJECTS:
            attributes = defined_object(made.noun, {**made.values, "alteration_date": date, "alteration_time": time})
            defined_objects(state, made.noun)[made.key] = attributes
            changes.append(defined(made.key, attributes))
        state.store.write(changes, None)

    def _create_topics(self) -> None:
        state = self._state
        topics = records(state, TopicAttributes)
        missing = [topic for topic in SYSTEM_TOPICS if topic.name not in topics]
        if missing:
            topics.update({topic.name: topic for topic in missing})
            state.topics.changed()
            state.store.write([defined(topic.name, topic) for topic in missing], None)

    def _drop_what_no_subscription_has(self) -> None:
        """Delete the managed queues whose subscription was ended, or not yet made, when a crash came between the two."""
        state = self._state
        held = {subscription.attributes.destination for subscription in state.subscriptions}
        for name, queue in tuple(state.queues.items()):
            managed = name.startswith(MANAGED_DURABLE) and queue.attributes.definition_type == PERMANENT_DYNAMIC
            if managed and name not in held:
                drop_managed(state, name)


def _text(said: str) -> str:
    """What the system has undecoded (the name of a program, of a user) as text: it goes into every descriptor."""
    return said.encode("utf-8", "replace").decode()


def _program() -> str:
    return PurePath(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
