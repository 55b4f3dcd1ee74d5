"""The requirements of an application: the queues that must exist, and the authorities that its user must have.

This file reads declarations, settings and known definitions; it makes no connection. A handler can use other objects when it
runs (the queue of a `put`, the topic of a `publish`, a ReplyToQ). The caller names these objects in `Use`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from mqflow.app.application import App
from mqflow.app.config.settings import ListenerSettings, Settings, load
from mqflow.app.handlers.dead_letter_declaration import DeadLetterRules
from mqflow.app.handlers.listener_declaration import Listener
from mqflow.embedded.state.topic_tree import TopicTree
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.authorities import Authority, AuthorityKind
from mqflow.mqi.options import QueueType
from mqflow.policy.dead_letters.rules import PutAuthority
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE
from mqflow.runtime.listener.subscriber import TopicSubscription

__all__ = ("Known", "Requirements", "Use", "requirements")

_COMMANDS: Final = "SYSTEM.ADMIN.COMMAND.QUEUE"
_MODEL: Final = "SYSTEM.DEFAULT.MODEL.QUEUE"
_SYSTEM: Final = "SYSTEM."
"""The prefix of queues that every queue manager has from the beginning."""
_NAMED_BY_MESSAGE: Final = "&"
_PUT: Final = (Authority.PUT,)
_MOVE: Final = (Authority.PUT, Authority.PASSALL)
_NO_TOPIC_OBJECTS: Final = TopicTree({})


class Use(Struct, frozen=True, kw_only=True):
    """The objects that an application uses without a declaration."""

    #: The queues of `App.consumer`.
    consumed: tuple[str, ...] = ()
    #: The queues of `App.put` and `Context.put`.
    put: tuple[str, ...] = ()
    #: The topic strings of `App.publish` and `Context.publish`.
    published: tuple[str, ...] = ()
    #: True if the application calls `App.request`.
    requests: bool = False
    #: True if the puts to the queues in `put` have a delay.
    delays: bool = False
    #: The staging queue, where messages with a delay wait.
    staging_queue: str


class Known(Struct, frozen=True, kw_only=True):
    """The definitions of the queue manager that the caller knows; none by default."""

    #: Returns the definition of a queue; None if it is not known.
    queue: Callable[[str], QueueAttributes | None] = lambda _: None
    #: Returns the attributes for a topic string, from the nearest topic object above it. SYSTEM.BASE.TOPIC is above all others.
    topic: Callable[[str], TopicAttributes] = _NO_TOPIC_OBJECTS.effective
    #: The DEADQ of the queue manager.
    dead_letter_queue: str = ""


class Requirements(Struct, frozen=True):
    """The objects that an administrator must define, and the authorities to grant, before the application runs."""

    #: The queues that must be defined.
    queues: tuple[QueueAttributes, ...]
    #: The authorities by kind and name of the object, in the order of their need. The queue manager itself has the name "".
    authorities: Mapping[tuple[AuthorityKind, str], frozenset[Authority]]


class _Collected:
    """Collects requirements, each queue and each authority once."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self.queues: dict[str, QueueAttributes] = {}
        self.authorities: dict[tuple[AuthorityKind, str], frozenset[Authority]] = {}

    def need(self, name: str, authorities: Iterable[Authority], kind: AuthorityKind = AuthorityKind.QUEUE) -> None:
        """Add authorities for an object."""
        self.authorities[kind, name] = self.authorities.get((kind, name), frozenset()) | frozenset(authorities)

    def have(self, name: str, *, threshold: int = 0, backout_queue: str = "", in_order: bool = False) -> QueueAttributes:
        """Add a queue and return its definition: the known one, or a new one. Only the first call for a queue adds it."""
        known = self._known.queue(name)
        if known is not None or name.startswith(_SYSTEM):
            return known or QueueAttributes(name=name)
        declared = QueueAttributes(
            name=name, backout_threshold=threshold, backout_requeue_queue=backout_queue, message_delivery_sequence=int(in_order)
        )
        before = self.queues.get(name, declared)
        self.queues[name] = declared if (threshold or backout_queue) and not before.backout_threshold else before
        return self.queues[name]

    def base_of(self, queue: QueueAttributes) -> QueueAttributes:
        """Return the queue itself, or the local queue behind an alias."""
        return self.have(queue.target) if queue.kind is QueueType.ALIAS else queue


def requirements(app: App, use: Use, known: Known, *, settings: Settings | None = None, prefix: str = "") -> Requirements:
    """Return the queues and authorities that the application needs on its queue manager, and no others.

    For an included application, `settings` are its settings, and `prefix` is the text before the names of its listeners. If a
    listener reads BOTHRESH or BOQNAME from an unknown queue, this function assumes that it has no backout requeue queue.
    """
    settings, found = settings or app.settings or load(), _Collected(known)
    found.need("", (Authority.CONNECT,), AuthorityKind.QMGR)
    for listener in app.listeners:
        threshold, backout_queue = _declared(listener, settings.listener(prefix + listener.name, prefix + listener.queue))
        if listener.subscription is None:
            _consume(found, known, listener.queue, threshold, backout_queue)
        else:
            _subscribe(found, known, listener.subscription, backout_queue)
    for name in use.consumed:
        _consume(found, known, name, "queue", "queue")
    for rules in app.dead_letter_handlers:
        _handle_dead_letters(found, known, rules)
    _fire(found, app)
    puts = [(publisher.queue, bool(publisher.delay)) for publisher in app.publishers]
    puts += [(name, use.delays) for name in use.put]
    for name, _ in puts:
        found.have(name)
        found.need(name, _PUT)
    if use.staging_queue != EMBEDDED_STAGING_QUEUE:  # an embedded queue manager stages and delivers itself
        _delay(found, app, use.staging_queue, [name for name, delayed in puts if delayed])
    for topic_string in use.published:
        found.need(known.topic(topic_string).name, (Authority.PUB,), AuthorityKind.TOPIC)
    records = app.listeners or use.consumed or app.dead_letter_handlers or app.delay_processors
    if settings.disposition_queue and records:
        found.have(settings.disposition_queue)
        found.need(settings.disposition_queue, _PUT)
    _ask(found, app, settings)
    if use.requests:
        found.need(_MODEL, (Authority.GET,))
    return Requirements(tuple(found.queues.values()), found.authorities)


def _handle_dead_letters(found: _Collected, known: Known, rules: DeadLetterRules) -> None:
    """Add the queue of a DLQ handler, and the queues that its rules name. Its messages can name further queues."""
    queue = rules.queue or known.dead_letter_queue
    if not rules.queue:
        found.need("", (Authority.INQ,), AuthorityKind.QMGR)
    if queue:
        found.have(queue)
        found.need(queue, (Authority.BROWSE, Authority.GET))
    for rule in (matcher.rule for matcher in rules.rules().matchers):
        if rule.put_authority is PutAuthority.CTX:
            found.need("", (Authority.ALTUSR,), AuthorityKind.QMGR)
        if rule.forward_queue and not rule.forward_queue.startswith(_NAMED_BY_MESSAGE):
            found.have(rule.forward_queue)
            found.need(rule.forward_queue, _MOVE)


def _ask(found: _Collected, app: App, settings: Settings) -> None:
    """Add the requirements of the commands that ask for the status of queues, if the settings ask for it."""
    if settings.queue_status:
        found.need(_COMMANDS, _PUT)
        found.need(_MODEL, (Authority.GET,))
        for listener in app.listeners:
            if listener.subscription is None:
                found.need(found.base_of(found.have(listener.queue)).name, (Authority.DSP,))


def _fire(found: _Collected, app: App) -> None:
    """Add the queues of the schedules, and the queues of their state messages."""
    for schedule in app.schedules:
        for name in (schedule.queue, schedule.state_queue):
            found.have(name)
            found.need(name, _PUT)
        found.need(schedule.state_queue, (Authority.BROWSE, Authority.GET))


def _delay(found: _Collected, app: App, staging_queue: str, targets: Sequence[str]) -> None:
    """Add the requirements of delayed puts and of the delay processor. Messages of other applications can need more targets."""
    if targets or app.delay_processors:
        found.have(staging_queue, in_order=True)
        found.need(staging_queue, _PUT)
    for name in targets:
        found.need(name, (Authority.INQ,))
    if not app.delay_processors:
        return
    found.need("", (Authority.INQ,), AuthorityKind.QMGR)
    if not app.delay_processors_have_own_authority:
        found.need("", (Authority.ALTUSR,), AuthorityKind.QMGR)
    found.need(staging_queue, (Authority.BROWSE, Authority.GET, Authority.INQ, *_MOVE))
    for name in targets:
        found.need(name, _MOVE)


def _declared(listener: Listener, own: ListenerSettings) -> tuple[int | str, str]:
    """Return the threshold and the backout requeue queue. Settings replace the declaration.

    The value "queue" means that the attribute of the queue decides: BOTHRESH or BOQNAME.
    """
    backout = listener.options.backout
    threshold = backout.threshold if own.backout_threshold is None else own.backout_threshold
    return threshold, backout.queue if own.backout_requeue_queue is None else own.backout_requeue_queue


def _consume(found: _Collected, known: Known, name: str, threshold: int | str, backout_queue: str) -> None:
    named = "" if backout_queue == "queue" else backout_queue
    queue = found.have(name, threshold=threshold if isinstance(threshold, int) else 0, backout_queue=named)
    base = found.base_of(queue)
    found.need("", (Authority.INQ,), AuthorityKind.QMGR)  # to inquire DEADQ
    found.need(name, (Authority.GET,))
    if "queue" in {threshold, backout_queue}:
        found.need(base.name, (Authority.INQ,))
    _move(found, known, base, backout_queue)


def _subscribe(found: _Collected, known: Known, wanted: TopicSubscription, backout_queue: str) -> None:
    """Add the requirements of a listener on a topic.

    MQSUB makes the managed queue from the model queue of the topic. The application's user owns this queue, and so needs no
    authority for it.
    """
    topic = known.topic(wanted.topic)
    found.need("", (Authority.INQ,), AuthorityKind.QMGR)
    # The first start makes a durable subscription. Every later start resumes it.
    found.need(topic.name, (Authority.SUB, Authority.RESUME) if wanted.durable else (Authority.SUB,), AuthorityKind.TOPIC)
    model = topic.durable_model if wanted.durable else topic.nondurable_model
    _move(found, known, known.queue(model) or QueueAttributes(name=model), backout_queue)


def _move(found: _Collected, known: Known, source: QueueAttributes, backout_queue: str) -> None:
    """Add the destinations of a poison message: the backout requeue queue and the dead-letter queue."""
    target = source.backout_requeue_queue if backout_queue == "queue" else backout_queue
    if target:
        found.have(target)
    for destination in (target, known.dead_letter_queue):
        if destination not in {"", source.name}:  # no message is moved to its own queue
            found.need(destination, _MOVE)
