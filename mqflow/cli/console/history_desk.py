"""Reads the data of the history pages from the tables: failures by week, and the messages among them that are still on a queue.

Each call reads the tables again, and blocks. This file is imported only with the option `--tables`, because it needs pyarrow
and deltalake.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import MAXYEAR, UTC, datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import Struct

from mqflow.app.errors import ConfigurationError
from mqflow.cli.console.desk import Desk
from mqflow.cli.dead_letters.check import intent_text
from mqflow.cli.messages.browse import still_there
from mqflow.cli.text.terminal import read_text
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.headers.dead_letter import DeadLetterHeader
from mqflow.pipeline.errors import PipelineError
from mqflow.pipeline.history.history_tables import HistoryTables, LetterKind, Letters, TableMessage
from mqflow.pipeline.history.time_axis import Axis, Bar, axis, bars
from mqflow.pipeline.history.weekly_groups import (
    WEEK,
    WEEKS_MAX,
    AttemptsOf,
    Counted,
    FailedIn,
    Failure,
    RetryStep,
    Selection,
    Span,
    Unended,
    UnendedOf,
    WeeklyGroup,
    owner_of,
    weekly_groups,
)
from mqflow.policy.dead_letters.actions import DeadLetter, choose, matchers
from mqflow.policy.dead_letters.rules import RulesTable, parse

__all__ = ("HistoryDesk", "HistoryMessages", "HistoryPage", "RuleAnswers", "rule_answers")

_DESCRIPTOR: Final = {
    "msg_type": "message_type",
    "persistence": "persistence",
    "put_appl_name": "put_application_name",
    "put_appl_type": "put_application_type",
    "user_id": "user_identifier",
    "reply_q": "reply_to_queue",
    "reply_qm": "reply_to_queue_manager",
    "feedback": "feedback",
    "appl_identity_data": "application_identity_data",
}
_HEADER: Final = {
    "dlh_reason": "reason",
    "dlh_dest_q": "destination_queue",
    "dlh_dest_qm": "destination_queue_manager",
    "dlh_format": "format",
}
"""By column of the tables, the field of a descriptor and of an MQDLH."""
_WEEKS: Final = 8
_SHOWN_MAX: Final = 200
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_CHARS: Final = len("2026-01-31")


class RuleAnswers(Struct, frozen=True):
    """The first actions of a rules table on the dead letters of one failure group."""

    file: str
    #: The rule and its action in words, and the number of dead letters; the largest number first.
    actions: tuple[tuple[str, int], ...]


class HistoryPage(Struct, frozen=True, kw_only=True):
    """The failures of some weeks."""

    #: The weeks, from the first event on. None if the tables have no event in the weeks that were requested.
    span: Span | None
    #: The number of weeks that were requested.
    weeks: int
    groups: tuple[WeeklyGroup, ...] = ()
    letters: tuple[WeeklyGroup, ...] = ()
    answers: Mapping[Failure, tuple[RuleAnswers, ...]] = {}
    retries: tuple[RetryStep, ...] = ()
    #: The messages that have no end yet, each with the owner of its queue.
    unended: tuple[tuple[Unended, str], ...] = ()
    axis: Axis | None = None
    bars: tuple[Bar, ...] = ()
    owners: tuple[str, ...] = ()
    #: Why there is no answer of a rules table, and what was not counted.
    problems: tuple[str, ...] = ()


class HistoryMessage(Struct, frozen=True):
    """A message that is counted by a number on the history page."""

    known: TableMessage
    #: The queue that the message was moved to, if the message is still there; otherwise empty.
    queue: str


class HistoryMessages(Struct, frozen=True, kw_only=True):
    """The messages that are counted by a number on the history page."""

    selection: Selection
    #: The number of all these messages. `rows` has only the newest of them.
    number: int
    rows: tuple[HistoryMessage, ...]
    #: The queues that some of the rows are on.
    queues: tuple[str, ...]
    problems: tuple[str, ...]


class HistoryDesk:
    """Returns the data of the history pages. Any thread may call it."""

    def __init__(self, tables: HistoryTables, desk: Desk, owners: Mapping[str, str]) -> None:
        """Take the tables, the desk of the queue manager that has the messages, and the owner of each queue prefix."""
        self._tables: Final = tables
        self._desk: Final = desk
        self._owners: Final = owners

    def page(self, until: str = "", weeks: str = "", owner: str = "") -> HistoryPage:
        """Return the failures of the weeks that end at `until`: a date, which means the end of that day (UTC), or a time.

        Without `until`, the weeks end at the last event of the tables with a possible time. With `owner`, only groups of this
        owner are returned. Raises `ConfigurationError` for a text that is no date or time, and for tables that cannot be read.
        """
        number = _weeks(weeks)
        with _sentences():
            end, impossible = (_time(until), 0) if until else self._tables.last_event()
            problems: tuple[str, ...] = (_impossible_sentence(impossible),) if impossible else ()
            if end is None:
                return HistoryPage(span=None, weeks=number, problems=problems)
            asked = _span(end, number)
            failures, letters = self._tables.failures(asked), self._tables.letters(asked)
            waiting = [(each, owner_of(each.what.queue, self._owners)) for each in self._tables.unended(asked)]
        counted = (*failures.counted, *letters.counted)
        starts = [each.first_at for each in counted] + ([failures.first_at] if failures.first_at else [])
        if not starts:
            return HistoryPage(span=None, weeks=number, problems=problems)
        first = min(starts)
        span = Span(end, asked.week_of(first) + 1)
        answers, unanswered = self._answers(letters)
        problems += unanswered
        if failures.is_cut or letters.is_cut:
            problems += ("There are too many failures in these weeks: some are not counted. Choose fewer weeks.",)
        along = axis(first, end)

        def groups(of: Iterable[Counted]) -> tuple[WeeklyGroup, ...]:
            return weekly_groups(of, span, self._owners, failures.aside)

        every, lettered = groups(failures.counted), groups(letters.counted)
        return HistoryPage(
            span=span,
            weeks=number,
            groups=tuple(each for each in every if owner in {"", each.owner}),
            letters=tuple(each for each in lettered if owner in {"", each.owner}),
            answers=answers,
            retries=tuple(each for each in failures.retries if owner in {"", owner_of(each.queue, self._owners)}),
            unended=tuple((each, its) for each, its in waiting if owner in {"", its}),
            axis=along,
            bars=bars(along, failures.steps, failures.every_s),
            owners=tuple(sorted({*(each.owner for each in (*every, *lettered)), *(its for _, its in waiting)} - {""})),
            problems=problems,
        )

    @staticmethod
    def number(
        what: Failure | RetryStep | Bar | UnendedOf,
        span: Span,
        *,
        week: int | None = None,
        is_aside: bool = False,
        has_succeeded: bool = False,
    ) -> str:
        """Return the name for a number on the history page. Addresses and forms contain this name."""
        chosen: Failure | AttemptsOf | FailedIn | UnendedOf
        match what:
            case Failure() | UnendedOf():
                chosen = what
            case Bar(start=start, end=end):
                chosen = FailedIn(start - timedelta(microseconds=1), end)
            case RetryStep(queue=queue, handler=handler, attempt_no=attempt_no):
                chosen = AttemptsOf(queue=queue, handler=handler, attempt_no=attempt_no, has_succeeded=has_succeeded)
        return msgspec.json.encode(Selection(what=chosen, span=span, week=week, is_aside=is_aside)).decode()

    def messages(self, selection: str) -> HistoryMessages:
        """Return the messages that are counted by the number with this name. Raises the errors of `page`."""
        chosen = _selection_of(selection)
        with _sentences():
            found, number = self._tables.messages(chosen, _SHOWN_MAX)
        is_waiting = isinstance(chosen.what, UnendedOf)  # such a message is on its own queue, so it cannot be redriven
        stays = is_waiting or (isinstance(chosen.what, Failure) and chosen.what.is_dead_letter)
        where = {each.target_queue or (each.queue if stays else "") for each in found} - {""}
        there: dict[str, frozenset[bytes]] = {}
        problems: list[str] = []
        for queue in sorted(where):
            try:
                with self._desk.connected() as connection:
                    there[queue] = still_there(connection, queue, {each.message_id for each in found})
            except MQIError as error:
                problems.append(str(error))
        rows = tuple(
            HistoryMessage(each, next((queue for queue, those in there.items() if each.message_id in those), ""))
            for each in found
        )
        return HistoryMessages(
            selection=chosen,
            number=number,
            rows=rows,
            queues=() if is_waiting else tuple(sorted({row.queue for row in rows} - {""})),
            problems=tuple(problems),
        )

    def identifiers(self, selection: str) -> frozenset[bytes]:
        """Return the MsgIds of all messages that are counted by the number with this name. Raises the errors of `page`."""
        with _sentences():
            return self._tables.identifiers(_selection_of(selection))

    def _answers(self, letters: Letters) -> tuple[dict[Failure, tuple[RuleAnswers, ...]], tuple[str, ...]]:
        answers: dict[Failure, list[RuleAnswers]] = {}
        problems: list[str] = []
        for file in self._desk.rules:
            table = parse(read_text(file))
            if not isinstance(table, RulesTable):
                problems += (f"{file}: {each}" for each in table)
                continue
            try:
                queue = table.control.input_queue or self._dead_letter_queue()
            except MQIError as error:
                problems.append(str(error))
                continue
            of_queue = [kind for kind in letters.kinds if kind.failure.queue == queue]
            for failure, actions in rule_answers(table, of_queue).items():
                answers.setdefault(failure, []).append(RuleAnswers(file.name, tuple(actions.most_common())))
        return {failure: tuple(those) for failure, those in answers.items()}, tuple(problems)

    def _dead_letter_queue(self) -> str:
        with self._desk.connected() as connection:
            return self._desk.dead_letter_queue(connection)


def _selection_of(text: str) -> Selection:
    """Return the number on the history page that this text names. Raises `ConfigurationError` for any other text."""
    try:
        chosen = msgspec.json.decode(text, type=Selection)
        _ = chosen.span.since, chosen.bounds  # raises for a span that begins before the first year
    except (msgspec.DecodeError, OverflowError, RecursionError) as error:
        raise ConfigurationError("The address does not name a number of the page History. Choose one on that page.") from error
    return chosen


def _weeks(text: str) -> int:
    if not text:
        return _WEEKS
    if text not in {str(number) for number in range(1, WEEKS_MAX + 1)}:
        raise ConfigurationError(f"{text!r} is no number of weeks: give 1 to {WEEKS_MAX}.")
    return int(text)


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(f"{text!r} is no time: give a date (2026-01-31) or a time (2026-01-31T06:00).") from error
    if found.year == MAXYEAR:
        raise ConfigurationError(f"{text} is too late.")
    if len(text) == _DAY_CHARS:
        found += timedelta(days=1)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _impossible_sentence(count: int) -> str:
    events = "1 delivery or dead letter has" if count == 1 else f"{count:,} deliveries and dead letters have"
    return (
        f"{events} a time of the future, because a clock was wrong. These weeks leave them out: type a later time to see them."
    )


def _span(until: datetime, weeks: int) -> Span:
    """Return these weeks. Raises `ConfigurationError` if they begin before 1970."""
    if until - _FIRST < weeks * WEEK:
        raise ConfigurationError(f"{until:%Y-%m-%d} is too early for {weeks} weeks.")
    return Span(until, weeks)


@contextmanager
def _sentences() -> Iterator[None]:
    """Turn an error of the tables into an error whose text the pages can show."""
    try:
        yield
    except PipelineError as error:
        raise ConfigurationError(str(error)) from error


def rule_answers(table: RulesTable, kinds: Iterable[LetterKind]) -> dict[Failure, Counter[str]]:
    """Return for each failure group the first actions on its dead letters, in words, each with the number of dead letters."""
    rules = matchers(table.rules)
    answers: dict[Failure, Counter[str]] = {}
    for kind in kinds:
        chosen = choose(rules, _letter(kind), 0)
        name = chosen.matcher.name if chosen.matcher else "no rule"
        answers.setdefault(kind.failure, Counter())[f"{name}: {intent_text(chosen.intent)}"] += kind.messages
    return answers


def _letter(kind: LetterKind) -> DeadLetter:
    return DeadLetter(MessageDescriptor(**_fields(kind, _DESCRIPTOR)), DeadLetterHeader(**_fields(kind, _HEADER)), b"")


def _fields(kind: LetterKind, names: dict[str, str]) -> dict[str, Any]:  # Any: texts and numbers
    return {field: kind.fields[column] for column, field in names.items() if column in kind.fields}
