"""Reads the data of the console's pages from the queue manager: figures, failure groups, one message, a search.

Each call opens a connection, and blocks. No call removes a message. The same rules as in `mqflow status`, `poison` and `why`
apply.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct

from mqflow.app.application import App
from mqflow.app.config.settings import Settings
from mqflow.app.errors import ConfigurationError
from mqflow.app.run.decision_ledger import LedgerError, ledger_file, story
from mqflow.cli.connection_options import administered, connection_to
from mqflow.cli.console.handler_payload import HandlerPayload, handler_payload
from mqflow.cli.console.message_search import found_in
from mqflow.cli.console.queue_rows import QueueRow, queue_rows, roles_of
from mqflow.cli.messages.browse import browse
from mqflow.cli.messages.poison import HEADERS_BYTES_MAX, LastDisposal, disposals, with_failure
from mqflow.cli.messages.redrive import is_wanted
from mqflow.cli.text.message_view import MessageView, hex_dump, own_data, reason_words, view
from mqflow.cli.text.story import entry_lines
from mqflow.cli.watching.figures import OldestAges, figures
from mqflow.cli.watching.status_report import History, StatusReport, report
from mqflow.many_verbs import inquire_base_queue, inquire_dead_letter_queue
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import QueueType
from mqflow.policy.dead_letters.edited_message import body_text
from mqflow.policy.dead_letters.original_message import restored
from mqflow.policy.health.records import ApplicationStatus
from mqflow.policy.poison.failure_groups import FailedMessage, FailureGroup, failed_message, failure_groups, group_name
from mqflow.verbs import Connection, Got, QueueManager
from mqflow.world import Clock

__all__ = (
    "LOOKED_AT_MAX",
    "Desk",
    "Found",
    "GroupsPage",
    "MessagePage",
    "MissingMessageError",
    "Overview",
    "SearchPage",
    "Where",
)

LOOKED_AT_MAX: Final = 20_000
"""The largest number of messages of a queue that a page reads. If there are more, the page says so."""

_NAME: Final = "mqflow console"
_NOTE_S: Final = 1.0
_SHOWN_MAX: Final = 200
_BYTES_MAX: Final = 1_048_576
_HEX_MAX: Final = 4_096


Where = tuple[str, str]
"""A condition, as in the option `--where`: a name and a pattern."""


class MissingMessageError(Exception):
    """A message is no longer on its queue."""


class Overview(Struct, frozen=True, kw_only=True):
    """The data of the first page: the queues of the queue manager, and the running applications."""

    queue_manager: str
    queues: tuple[QueueRow, ...]
    applications: tuple[StatusReport, ...]
    #: The reason why the running applications are not known; empty if they are known.
    applications_problem: str = ""
    #: The reason why DEADQ is not known; empty if it is known.
    problem: str = ""


class GroupsPage(Struct, frozen=True, kw_only=True):
    """The failure groups of a queue, or the messages of one group."""

    queue: str
    #: The largest groups, largest first.
    groups: tuple[FailureGroup, ...]
    #: The number of all groups.
    group_count: int
    #: The messages of the chosen group, in the order of the queue; empty if no group was chosen.
    messages: tuple[FailedMessage, ...] = ()
    group: FailureGroup | None = None
    looked_at: int
    is_cut: bool = False


class MessagePage(Struct, frozen=True, kw_only=True):
    """The data of the page of one message: its content, and its story in the decision ledger."""

    shown: MessageView
    hex_lines: tuple[str, ...]
    #: For each entry of the ledger: its time, and its sentences.
    story: tuple[tuple[str, tuple[str, ...]], ...]
    #: The reason why there is no story; empty if there is one.
    no_story: str
    #: The number of messages on the queue that have this MsgId. The page shows the first one.
    same_id: int
    is_text: bool
    origin: str
    #: The body as its handler receives it. None if the console knows no handler with a codec of its own for the message.
    payload: HandlerPayload | None
    data_bytes: int
    is_cut: bool


class Found(Struct, frozen=True, kw_only=True):
    """A message that contains the text of the search, and the parts of the message that contain it."""

    queue: str
    message_id: bytes
    places: tuple[str, ...]
    #: Why the message failed, in one line; empty if neither the message nor the ledger says it.
    why: str = ""


class SearchPage(Struct, frozen=True, kw_only=True):
    """The result of a search for a text in the messages of these queues."""

    text: str
    queues: tuple[str, ...]
    found: tuple[Found, ...]
    looked_at: int
    #: The queues that were not read to their end: they have too many messages, or their depth is not known.
    cut: tuple[str, ...] = ()


class Desk:
    """Returns the data of the pages about one queue manager. Any thread may call it."""

    def __init__(
        self,
        opened: Callable[[], AbstractContextManager[QueueManager]],
        settings: Settings,
        reports: Callable[[], list[StatusReport]],
        clock: Clock,
        *,
        queues: tuple[str, ...] = (),
        rules: tuple[Path, ...] = (),
        app: App | None = None,
        place: str = "",
    ) -> None:
        """Take the functions that open the queue manager and report on applications, and the settings.

        `place` is the name of the included application that uses this queue manager. The reports have this name before the
        names of the queues, as in `archive:IN`.

        `queues` are further queues, which no application and no list names. `rules` are files of rules tables. The handlers of
        `app` decode the bodies of messages.
        """
        self.opened: Final = opened
        self.settings: Final = settings
        self.clock: Final = clock
        self.history: Final = History()
        self._noted_at = -math.inf
        self._reports: Final = reports
        self.rules: Final = rules
        self._app: Final = app
        self._prefix: Final = f"{place}:" if place else ""
        self._queues: Final = queues
        self._ages: Final = OldestAges() if settings.queue_status else None

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """Yield a connection. At the end, an open unit of work is backed out."""
        with self.opened() as queue_manager, connection_to(queue_manager, _NAME) as connection:
            yield connection

    def dead_letter_queue(self, connection: Connection) -> str:
        """Return DEADQ; empty if there is no dead-letter queue, or if it cannot be inquired."""
        return inquire_dead_letter_queue(connection)[0]

    def reports(self) -> tuple[tuple[StatusReport, ...], str]:
        """Return the reports of the running applications; or none, and why they are not known."""
        try:
            return tuple(self._reports()), ""
        except ConfigurationError as error:  # a folder with control sockets cannot be read
            return (), str(error)

    def now(self) -> datetime:
        """Return the present time (UTC)."""
        return datetime.fromtimestamp(self.clock.wall(), UTC)

    def overview(self) -> Overview:
        """Return the present state of the queues and applications. Add it to the history, at most once in a second.

        Several browsers can look at the same time, and a rate over a moment tells nothing.
        """
        applications, applications_problem = self.reports()
        with self.opened() as queue_manager:
            with connection_to(queue_manager, _NAME) as connection:
                name = connection.queue_manager_name
                attributes, dead_letters, problem = self._attributes(queue_manager, connection, applications)
            roles = roles_of(attributes.values(), dead_letters)
            names = sorted({*attributes, *roles, *self._queues})
            found = figures(queue_manager, names, self._ages)
        moment = self.clock.monotonic()
        if moment - self._noted_at >= _NOTE_S:
            self._noted_at = moment
            self.history.note(report(ApplicationStatus(application="", process=0), found), moment)
            for each in applications:
                self.history.note(each, moment)
        rows = queue_rows(attributes, roles, found)
        return Overview(
            queue_manager=name,
            queues=rows,
            applications=applications,
            applications_problem=applications_problem,
            problem=problem,
        )

    def rates(self, applications: tuple[StatusReport, ...], queue: str) -> tuple[float, ...]:
        """Return the last rates of the queue in messages per second, the newest last.

        A rate is the sum for all applications that count their messages.
        """
        every = [self.history.rates(each.status.process, self._prefix + queue) for each in applications]
        shortest = min((len(rates) for rates in every if rates), default=0)
        return tuple(sum(rates[place - shortest] for rates in every if rates) for place in range(shortest))

    def groups(self, queue: str, group: str = "", where: Where | None = None) -> GroupsPage:
        """Return the failure groups of the queue, and the messages in the group with the name `group`.

        With `where`, only messages that meet this condition count.
        """
        with self.connected() as connection:
            messages = list(islice(self.failed(connection, queue, where), LOOKED_AT_MAX + 1))
        is_cut = len(messages) > LOOKED_AT_MAX
        messages = messages[:LOOKED_AT_MAX]
        now = self.now()
        groups = failure_groups(messages, now=now, samples_max=3)
        chosen = next((each for each in groups if each.name == group), None)
        of_group = (message for message in messages if group_name(message, now=now) == group)
        return GroupsPage(
            queue=queue,
            groups=groups[:_SHOWN_MAX],
            group_count=len(groups),
            messages=tuple(islice(of_group, _SHOWN_MAX)) if chosen else (),
            group=chosen,
            looked_at=len(messages),
            is_cut=is_cut,
        )

    def failed(self, connection: Connection, queue: str, where: Where | None = None) -> Iterator[FailedMessage]:
        """Yield the messages of the queue that meet the condition, each with the reason of its failure."""
        with disposals(self.settings) as last_disposal:
            for got in browse(connection, queue, bytes_max=_BYTES_MAX if where else HEADERS_BYTES_MAX):
                if where and not is_wanted(queue, got, [where]):
                    continue
                yield with_failure(failed_message(got.descriptor, got.body), last_disposal)

    def message(self, queue: str, message_id: bytes) -> MessagePage:
        """Return the page of the message. Raises `MissingMessageError`."""
        with self.connected() as connection:
            got, same_id = first_with(connection, queue, message_id, bytes_max=_BYTES_MAX)
        before = restored(got.descriptor, got.body)
        is_cut = len(got.body) < got.data_bytes
        entries, no_story = self.story(message_id)
        return MessagePage(
            shown=view(queue, got.descriptor, got.body),
            hex_lines=tuple(hex_dump(own_data(got.descriptor, got.body)[:_HEX_MAX], got.descriptor.ccsid)),
            story=entries,
            no_story=no_story,
            same_id=same_id,
            is_text=not is_cut and body_text(before.descriptor, before.data) is not None,
            origin=before.origin_queue,
            payload=None if self._app is None or is_cut else handler_payload(self._app, before.origin_queue or queue, before),
            data_bytes=got.data_bytes,
            is_cut=is_cut,
        )

    def search(self, text: str, queue: str = "") -> SearchPage:
        """Return the messages that contain the text: on this queue, or on all queues with failed messages."""
        cut: list[str] = []
        if queue:
            queues: tuple[str, ...] = (queue,)
        else:
            failed = [row for row in self.overview().queues if row.role]
            queues = tuple(row.name for row in failed if row.depth)
            cut += (row.name for row in failed if row.depth is None)
        found: list[Found] = []
        looked_at = 0
        with self.opened() as queue_manager, disposals(self.settings) as last_disposal:
            for name in queues:
                with connection_to(queue_manager, _NAME) as connection:
                    messages = browse(connection, name, bytes_max=_BYTES_MAX)
                    for got in islice(messages, LOOKED_AT_MAX if len(found) < _SHOWN_MAX else 0):
                        looked_at += 1
                        found += _found(name, got, text, last_disposal)
                        if len(found) == _SHOWN_MAX:
                            break
                    if next(messages, None) is not None:
                        cut.append(name)
        return SearchPage(text=text, queues=queues, found=tuple(found), looked_at=looked_at, cut=tuple(cut))

    def story(self, message_id: bytes) -> tuple[tuple[tuple[str, tuple[str, ...]], ...], str]:
        """Return the time and the sentences of each ledger entry about the message; or why the ledger has no story of it."""
        path = ledger_file(self.settings.url, self.settings.ledger)
        if path is None:
            return (), "The data of this queue manager is not in a local folder, so there is no ledger beside it."
        try:
            entries = story(path, message_id)
        except LedgerError as error:
            return (), str(error)
        return tuple(map(entry_lines, entries)), "" if entries else "The decision ledger has no entry for this message."

    def _attributes(
        self, queue_manager: QueueManager, connection: Connection, applications: tuple[StatusReport, ...]
    ) -> tuple[dict[str, QueueAttributes], str, str]:
        """Return the attributes of all known queues, by name; DEADQ; and the reason if DEADQ is not known."""
        found = {each.name: each for each in _listed(queue_manager)}
        of_applications = (queue.rpartition(":") for each in applications for queue in each.status.queues)
        here = (queue for of, separator, queue in of_applications if of + separator == self._prefix)
        named = dict.fromkeys((*self._queues, *here))
        for name in named:
            if name not in found:
                try:
                    found[name] = inquire_base_queue(connection, name)
                except MQIError:
                    found[name] = QueueAttributes(name=name)  # the row of the queue says why it cannot be inquired
        dead_letters, refused = inquire_dead_letter_queue(connection)
        return found, dead_letters, str(refused) if refused else ""


def _found(queue: str, got: Got, text: str, last_disposal: LastDisposal) -> Iterator[Found]:
    places = tuple(found_in(view(queue, got.descriptor, got.body, shown_max=0).facts, text))
    if places:
        failed = with_failure(failed_message(got.descriptor, got.body), last_disposal).why
        why = ": ".join(part for part in (failed.error, failed.text) if part) or (
            reason_words(failed.reason) if failed.reason else ""
        )
        yield Found(queue=queue, message_id=got.descriptor.message_id, places=places, why=" ".join(why.split()))


def first_with(connection: Connection, queue: str, message_id: bytes, *, bytes_max: int | None = None) -> tuple[Got, int]:
    """Return the first message with this MsgId, and the number of messages with this MsgId. Raises `MissingMessageError`."""
    found = browse(connection, queue, bytes_max=bytes_max, message_id=message_id)
    first = next(found, None)
    if first is None:
        raise MissingMessageError(f"No message on {queue} has the MsgId {message_id.hex()}: it has left the queue.")
    return first, 1 + sum(1 for _ in found)


def _listed(queue_manager: QueueManager) -> tuple[QueueAttributes, ...]:
    """Return the local queues of an embedded queue manager, except those whose names begin with SYSTEM; empty for IBM MQ."""
    with administered(queue_manager) as administration:
        try:
            queues = () if administration is None else administration.queues()
        except MQIError:
            return ()
    return tuple(each for each in queues if each.kind == QueueType.LOCAL and not each.name.startswith("SYSTEM."))
