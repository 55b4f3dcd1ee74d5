"""The lists of the console: events, delayed messages, connections, and rules tables with their messages. Read only."""

from collections import Counter
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.app.channels.client_urls import where_to
from mqflow.app.channels.location import locate
from mqflow.app.config.settings import Settings
from mqflow.app.run.decision_ledger import LedgerError, entries_after, last_entries, ledger_file
from mqflow.cli.connection_options import administered
from mqflow.cli.console.desk import LOOKED_AT_MAX, Desk
from mqflow.cli.dead_letters.check import Tallies, Tally, tallied, target_check
from mqflow.cli.messages.browse import browse
from mqflow.cli.messages.delay import DelayedMessage, delayed_messages
from mqflow.cli.queue_managers.ccdt import explained, explained_rows
from mqflow.cli.text.story import entry_lines
from mqflow.cli.text.terminal import read_text
from mqflow.embedded.administration.interface import ConnectionStatus
from mqflow.events import DeadLetterActed
from mqflow.mqi.errors import MQIError
from mqflow.policy.channels.client_ini import ClientConfigurationError
from mqflow.policy.channels.table import ChannelTableError
from mqflow.policy.dead_letters.actions import matchers
from mqflow.policy.dead_letters.lint import lint
from mqflow.policy.dead_letters.rules import RulesTable, parse
from mqflow.policy.dead_letters.rules.printer import printed_rule
from mqflow.policy.health.records import ProcessStatus
from mqflow.runtime.delay.stage import staging_queue_for
from mqflow.verbs import Connection

__all__ = (
    "ChannelsPage",
    "ConnectionsPage",
    "DecisionsPage",
    "DelayedPage",
    "HappenedRow",
    "ProcessRow",
    "RuleRow",
    "RulesPage",
    "connections",
    "decisions",
    "delayed",
    "rules",
)

_EVENTS_MAX: Final = 100
_DELAYED_MAX: Final = 200
_NO_LEDGER: Final = "The data of this queue manager is not in a local folder, so there is no ledger beside it."


class HappenedRow(Struct, frozen=True):
    """An event of a message."""

    at: str
    message_id: bytes
    #: A sentence about the event, then its details. The details of a decision are the steps of the plan that were tried.
    lines: tuple[str, ...]


class DecisionsPage(Struct, frozen=True, kw_only=True):
    """The newest entries of the decision ledger, which records what mqflow did with each message."""

    rows: tuple[HappenedRow, ...] = ()
    problem: str = ""


class DelayedPage(Struct, frozen=True, kw_only=True):
    """The first messages on the staging queue."""

    queue: str
    rows: tuple[DelayedMessage, ...]
    is_cut: bool


class ProcessRow(Struct, frozen=True, kw_only=True):
    """The outages of one process of an application since the start of that process."""

    application: str
    process: int
    reconnections: int
    failed_attempts: int
    #: Seconds of all outages that have ended.
    outages_s: float
    #: Seconds without connection, at the latest attempt; 0 if the process is connected, None if it does not count outages.
    away_s: float | None
    in_doubt: int


class ChannelsPage(Struct, frozen=True, kw_only=True):
    """The channel table of the applications: the channels that a connection tries, in which order, and why."""

    #: The path or the URL of the table, and the setting that names the table.
    source: str = ""
    rows: tuple[tuple[str, ...], ...] = ()
    #: The reason why the table cannot be used; empty if it can be used.
    problem: str = ""


class ConnectionsPage(Struct, frozen=True, kw_only=True):
    """The connections of the queue manager, and the outages of the applications."""

    rows: tuple[ConnectionStatus, ...] = ()
    processes: tuple[ProcessRow, ...] = ()
    #: The reason why the applications are not known; empty if they are known.
    applications_problem: str = ""
    #: None if the URL does not name a channel table.
    channels: ChannelsPage | None = None
    #: The reason why the connections are not known; empty if they are known.
    problem: str = ""


class RuleRow(Struct, frozen=True, kw_only=True):
    """A rule of a rules table."""

    name: str
    text: str
    #: The number of messages that the rule has handled, from the ledger; None if there is no ledger.
    matched: int | None
    #: The number of messages on the queue that the rule would handle now.
    would_match: int
    first_action: str


class RulesPage(Struct, frozen=True, kw_only=True):
    """A rules table, and the queue to which it applies."""

    file: Path
    queue: str = ""
    rows: tuple[RuleRow, ...] = ()
    #: The number of messages that no rule matches, and of messages without an MQDLH.
    unmatched: int = 0
    strays: int = 0
    #: Errors and warnings of the table, and targets that would refuse messages.
    problems: tuple[str, ...] = ()
    is_cut: bool = False


def decisions(desk: Desk) -> DecisionsPage:
    """Return the last events of the ledger."""
    path = ledger_file(desk.settings.url, desk.settings.ledger)
    if path is None:
        return DecisionsPage(problem=_NO_LEDGER)
    try:
        entries = last_entries(path, _EVENTS_MAX)
    except LedgerError as error:
        return DecisionsPage(problem=str(error))
    return DecisionsPage(
        rows=tuple(HappenedRow(at, each.message_id, lines) for each in entries for at, lines in [entry_lines(each)])
    )


def delayed(desk: Desk) -> DelayedPage:
    """Return the delayed messages in the order of the staging queue. Raises `MQIError`; 2085 if the queue does not exist."""
    embedded = locate(desk.settings.url).kind in {"embedded", "memory", "served"}
    queue = staging_queue_for(desk.settings.delay_queue, embedded=embedded)
    with desk.connected() as connection:
        found = tuple(islice(delayed_messages(connection, queue, desk.clock), _DELAYED_MAX + 1))
    return DelayedPage(queue=queue, rows=found[:_DELAYED_MAX], is_cut=len(found) > _DELAYED_MAX)


def connections(desk: Desk) -> ConnectionsPage:
    """Return the connections to an embedded queue manager, and the outages that the applications have counted."""
    reports, applications_problem = desk.reports()
    processes = tuple(_process_row(each.status.application, process) for each in reports for process in each.status.processes)
    page = ConnectionsPage(processes=processes, channels=_channels(desk.settings), applications_problem=applications_problem)
    try:
        with desk.opened() as queue_manager, administered(queue_manager) as administration:
            if administration is None:
                problem = "The queue manager does not list its connections here: on IBM MQ, use DISPLAY CONN of runmqsc."
                return replace(page, problem=problem)
            found = administration.objects.connections()
    except MQIError as error:
        return replace(page, problem=str(error))
    rows = (each for each in found if not each.system)
    return replace(page, rows=tuple(sorted(rows, key=lambda row: (row.application, row.identifier))))


def _channels(settings: Settings) -> ChannelsPage | None:
    """Return the channel table that the URL, the environment or mqclient.ini names. None if the URL itself has the address."""
    if locate(settings.url).kind != "client":
        return None
    url = where_to(settings.url)
    if url.hosts or url.binding == "local":
        return None
    try:
        found = explained(url.ccdt_url, url.queue_manager, http_allowed=settings.ccdt_over_http)
    except (ChannelTableError, ClientConfigurationError) as error:
        return ChannelsPage(problem=str(error))
    return ChannelsPage(source=found.source, rows=tuple(explained_rows(found, url.queue_manager)))


def rules(desk: Desk) -> tuple[RulesPage, ...]:
    """Return each rules table, with the messages that its rules have handled, or would handle now. No message is moved."""
    with desk.connected() as connection:
        return tuple(_rules_page(desk, connection, file) for file in desk.rules)


def _process_row(application: str, status: ProcessStatus) -> ProcessRow:
    def total(name: str) -> float:
        return sum(number for _, number in status.counts.get(name, ()))

    return ProcessRow(
        application=application,
        process=status.process,
        reconnections=int(total("reconnections")),
        failed_attempts=int(total("reconnect_attempts")),
        outages_s=total("outages_seconds"),
        away_s=total("away_seconds") if status.counts else None,
        in_doubt=int(total("commits_in_doubt")),
    )


def _rules_page(desk: Desk, connection: Connection, file: Path) -> RulesPage:
    text = read_text(file)
    table = parse(text)
    if not isinstance(table, RulesTable):
        return RulesPage(file=file, problems=tuple(map(str, table)))
    queue = table.control.input_queue or desk.dead_letter_queue(connection)
    matched = _matched(desk, queue)
    problems = list(map(str, lint(table, text, queue=queue)))
    tallies, is_cut = Tallies({}), False
    try:
        messages = ((got.descriptor, got.body) for got in browse(connection, queue))
        tallies = tallied(table, islice(messages, LOOKED_AT_MAX), target_check(connection, queue))
        is_cut = next(messages, None) is not None
    except MQIError as error:
        problems.append(str(error))
    rows = []
    for matcher in matchers(table.rules):
        tally = tallies.rules.get(matcher.name, Tally())
        rows.append(
            RuleRow(
                name=matcher.name,
                text=printed_rule(matcher.rule),
                matched=None if matched is None else matched.get(matcher.name, 0),
                would_match=tally.messages,
                first_action=tally.shown if tally.messages else "",
            )
        )
    problems += (f"{target}: {problem}" for target, problem in tallies.problems.items())
    return RulesPage(
        file=file,
        queue=queue,
        rows=tuple(rows),
        unmatched=tallies.rules.get("no rule", Tally()).messages,
        strays=tallies.strays,
        problems=tuple(problems),
        is_cut=is_cut,
    )


def _matched(desk: Desk, queue: str) -> Mapping[str, int] | None:
    """Return the number of messages of the queue that each rule has handled, from the ledger; None if there is no ledger."""
    path = ledger_file(desk.settings.url, desk.settings.ledger)
    if path is None:
        return None
    try:
        events = [each.event for _, each in entries_after(path, 0)]
    except LedgerError:
        return None
    return Counter(
        event.rule for event in events if isinstance(event, DeadLetterActed) and event.queue == queue and not event.reason
    )
