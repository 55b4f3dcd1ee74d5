"""Carries commands out on a queue manager's `Administration`, and returns a response to each command.

After a failed command the next command runs, as in runmqsc. This module knows no file and no terminal.
Source: IBM q020770 (DEFINE REPLACE sets every attribute, ALTER only the given attributes), q085100.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from enum import Enum, auto
from itertools import takewhile
from typing import Final, assert_never

from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.administration.not_running import Asked, answer
from mqflow.embedded.catalogue.system_objects import SYSTEM_QUEUES
from mqflow.embedded.mqsc import commands
from mqflow.embedded.mqsc.authorities import change_authorities, show_authorities, show_entity
from mqflow.embedded.mqsc.connections import change_channels, show_connections
from mqflow.embedded.mqsc.display import Record, show_queues, show_status
from mqflow.embedded.mqsc.lexer import LINE_CHARS_MAX
from mqflow.embedded.mqsc.objects import alter_object, define_object, delete_object, object_names, show_objects
from mqflow.embedded.mqsc.parser import parse
from mqflow.embedded.mqsc.status import of_local_queues, show_deciding_rule, show_status_of
from mqflow.embedded.mqsc.topics import define_subscription, define_topic, show_subscriptions, show_topics
from mqflow.embedded.mqsc.values import without_secrets
from mqflow.embedded.mqsc.vocabulary import KINDS, OBJECT_KINDS, QUEUE_TYPES
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES, QueueAttributes
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import QueueType
from mqflow.mqi.pcf.codes import PCFReason
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.reconnect.reason_classes import connection_gone

__all__ = ("EXIT_FAILED", "Response", "Results", "Verdict", "carry_out", "execute", "is_end", "loses_connection", "run")

EXIT_FAILED: Final = 10
"""The exit code of runmqsc for a script in which a command failed."""

_NOUNS: Final = {kind: noun for noun, kind in KINDS.items()}
_DEFAULTS: Final = {
    kind: queue for kind in QueueType for queue in SYSTEM_QUEUES if queue.name == f"SYSTEM.DEFAULT.{kind.name}.QUEUE"
}
"""The original default queues. DEFINE uses them if the administrator has deleted the defaults of the queue manager."""

_DEFINABLE: Final = frozenset({*QUEUE_TYPES, "QUEUE", "QSTATUS", "TOPIC"})
"""If a DISPLAY of these nouns finds nothing, the general advice of the reason code is right: DEFINE the queue or the topic."""

_NUMBERS: Final[dict[int, str]] = {
    Reason.OBJECT_IN_USE: "AMQ8148",
    Reason.Q_NOT_EMPTY: "AMQ8143",
    Reason.UNKNOWN_OBJECT_NAME: "AMQ8147",
    Reason.OBJECT_ALREADY_EXISTS: "AMQ8150",
    PCFReason.CHL_STATUS_NOT_FOUND: "AMQ8420",
    PCFReason.CHANNEL_NOT_FOUND: "AMQ8147",
    PCFReason.CHLAUTH_NOT_FOUND: "AMQ8884",
    PCFReason.CONNECTION_ID_ERROR: "AMQ8456",
}
"""The numbers of runmqsc messages that scripts look for."""


class Verdict(Enum):
    """The ways in which a command can end."""

    DONE = auto()
    FAILED = auto()
    SYNTAX_ERROR = auto()
    UNSUPPORTED = auto()


class Response(Struct, frozen=True, kw_only=True):
    """The response to one command."""

    verdict: Verdict
    command: commands.Command | commands.SyntaxProblem
    #: A sentence. It begins with the number of runmqsc's message if scripts look for that number.
    text: str = ""
    records: tuple[Record, ...] = ()
    #: The reason code of a failure; 0 for a success.
    reason: int = 0


class Results(Struct, frozen=True):
    """The responses to the commands of a script, in order."""

    responses: tuple[Response, ...]
    #: The number of commands that did not run, because the connection to the queue manager was lost.
    not_run: int = 0

    def count(self, verdict: Verdict) -> int:
        """Return how many commands ended with this verdict."""
        return sum(response.verdict is verdict for response in self.responses)

    @property
    def ignored(self) -> int:
        """The number of unsupported attributes in commands that ran without them."""
        return sum(
            len(response.command.ignored) for response in self.responses if isinstance(response.command, commands.Command)
        )

    def exit_code(self, *, strict: bool = False) -> int:
        """Return 0 if every command succeeded, otherwise 10. With `strict`, unsupported commands or attributes are failures."""
        failed = self.count(Verdict.FAILED) + self.count(Verdict.SYNTAX_ERROR)
        unsupported = self.count(Verdict.UNSUPPORTED) + self.ignored
        return EXIT_FAILED if failed or (strict and unsupported) else 0


def run(text: str, administration: Administration, *, line_chars_max: int = LINE_CHARS_MAX) -> Results:
    """Carry out the commands of a script up to its END. After a failed command the next command runs.

    If the connection to the queue manager is lost, the remaining commands do not run: each would fail for the same reason. A
    command with a line longer than `line_chars_max` characters is refused, as in a script for IBM MQ.
    """
    responses: list[Response] = []
    remaining = iter(parse(text, line_chars_max=line_chars_max))
    for command in remaining:
        responses.append(execute(command, administration))
        if is_end(command):
            return Results(tuple(responses))
        if loses_connection(responses[-1]):
            break
    return Results(tuple(responses), sum(1 for _ in takewhile(lambda each: not is_end(each), remaining)))


def is_end(command: commands.Command | commands.SyntaxProblem) -> bool:
    """Return whether the command is END, which ends a script or a prompt."""
    return isinstance(command, commands.Command) and isinstance(command.action, commands.EndCommand)


def loses_connection(response: Response) -> bool:
    """Return whether the command has failed because the connection to the queue manager is lost."""
    return connection_gone(response.reason) or response.reason == Reason.CALL_INTERRUPTED


def execute(command: commands.Command | commands.SyntaxProblem, administration: Administration) -> Response:
    """Carry out one command, and return the response. A refused command raises no error: the response has the refusal."""
    if isinstance(command, commands.SyntaxProblem):
        text = f"AMQ8405: Syntax error in line {command.line}, column {command.column}: {command.message}"
        return Response(verdict=Verdict.SYNTAX_ERROR, command=command, text=text)
    action = command.action
    if isinstance(action, commands.Unsupported):
        text = f"{action.what} is a known MQSC command, not supported by the embedded queue manager yet: it is left out."
        return Response(verdict=Verdict.UNSUPPORTED, command=command, text=text)
    try:
        if isinstance(action, commands.Display):
            response = Response(verdict=Verdict.DONE, command=command, records=_display(action, administration))
        else:
            response = Response(verdict=Verdict.DONE, command=command, text=carry_out(action, administration))
    except MQIError as error:
        number = _NUMBERS.get(error.reason, "")
        text = f"{number}: {error}" if number else str(error)
        return Response(verdict=Verdict.FAILED, command=command, text=text, reason=int(error.reason))
    if not is_end(command):
        # The command has succeeded, even if its event cannot be put. Programs can read events, so they have no passwords.
        with suppress(MQIError):
            administration.report_command(without_secrets(command.text), shows=isinstance(action, commands.Display))
    return response


def carry_out(action: commands.Act, administration: Administration) -> str:
    """Carry the action out, and return a confirmation."""
    if isinstance(action, commands.ChannelAct):
        return change_channels(action, administration.channels)
    if isinstance(action, Asked):
        return answer(action, administration)
    if isinstance(action, commands.ObjectCommand):
        return _carry_out_on_object(action, administration)
    if isinstance(action, commands.AuthorityAct):
        return change_authorities(action, administration.authorities)
    return _carry_out_on_queue_manager(action, administration)


def _carry_out_on_queue_manager(action: commands.OwnAct, administration: Administration) -> str:
    match action:
        case commands.AlterQueueManagerCommand():
            administration.alter_queue_manager(action.values)
            said = f"AMQ8005: Queue manager {administration.queue_manager.name} is changed."
        case commands.ClearCommand():
            _require(administration, QueueType.LOCAL, action.name, "CLEAR")
            administration.clear(action.name)
            said = f"AMQ8022: QLOCAL({action.name}) is cleared."
        case commands.ClearTopic(topic_string):
            administration.publishing.clear_retained(topic_string)
            said = f"AMQ8805: The retained publication on topic {topic_string} is cleared."
        case commands.StopConnection(identifier):
            administration.objects.stop_connection(identifier)
            said = f"AMQ8457: Connection {identifier} is stopped."
        case commands.Ping():
            said = f"AMQ8415: Queue manager {administration.queue_manager.name} answers."
        case commands.EndCommand():
            said = ""
        case unknown:
            assert_never(unknown)
    return said


def _carry_out_on_object(action: commands.ObjectCommand, administration: Administration) -> str:
    family = _FAMILIES[action.noun]
    shown = f"{family.shown} {action.name}" if family.shown else f"{action.noun}({action.name})"
    defined, changed, deleted = (number and f"{number}: " for number in family.numbers)
    match action:
        case commands.DefineCommand():
            family.define(action, administration)
            return f"{defined}{shown} is defined."
        case commands.AlterCommand():
            family.alter(action, administration)
            return f"{changed}{shown} is changed."
        case commands.DeleteCommand():
            if action.ignore_state and action.name not in family.names(action, administration):
                return f"There is no {action.noun}({action.name}) to delete, which is no error with IGNSTATE(YES)."
            family.delete(action, administration)
            return f"{deleted}{shown} is deleted."
        case unknown:
            assert_never(unknown)


def _define_queue(action: commands.DefineCommand, administration: Administration) -> None:
    kind = QUEUE_TYPES[action.noun]
    base = _DEFAULTS[kind]
    if action.like:
        base = _require(administration, kind, action.like, "DEFINE LIKE")
    else:
        base = administration.queue(base.name) or base
    # The new queue does not inherit read-only attributes (creation date, depth). getattr: the fields come from the table.
    settings = {spec.field: getattr(base, spec.field) for spec in QUEUE_ATTRIBUTES if kind in spec.kinds and not spec.read_only}
    attributes = QueueAttributes(name=action.name, kind=kind, **{**settings, **action.values})
    administration.define(attributes, replace=action.replace)


def _alter_queue(action: commands.AlterCommand, administration: Administration) -> None:
    _require(administration, QUEUE_TYPES[action.noun], action.name, "ALTER")
    administration.alter(action.name, action.values, force=action.force)


def _delete_queue(action: commands.DeleteCommand, administration: Administration) -> None:
    _require(administration, QUEUE_TYPES[action.noun], action.name, "DELETE")
    administration.delete(action.name, purge=action.purge, keep_authorities=action.keep_authorities)


def _display(action: commands.Display, administration: Administration) -> tuple[Record, ...]:
    match action:
        case commands.DisplayCommand(noun, subject, _, selection):
            return _some(_FAMILIES[noun].show(action, administration), noun, subject, selection.where, administration)
        case commands.DisplayAuthorities(subject):
            records = show_authorities(administration.authorities.records(), administration.queue_manager.name, action)
            return _some(records, "AUTHREC", subject, None, administration)
        case commands.DisplayEntity():
            return show_entity(administration.authorities, action)
        case (
            commands.DisplayStatus()
            | commands.DisplayConnections()
            | commands.DisplayDecidingRule()
            | commands.DisplayStatusOf()
        ):
            return _display_status_of(action, administration)
        case unknown:
            assert_never(unknown)


def _display_status_of(
    action: commands.DisplayStatus | commands.DisplayConnections | commands.DisplayDecidingRule | commands.DisplayStatusOf,
    administration: Administration,
) -> tuple[Record, ...]:
    match action:
        case commands.DisplayStatus():
            return _display_queue_status(action, administration)
        case commands.DisplayConnections(subject, _, selection):
            records = show_connections(administration.objects.connections(), administration.queue_manager.name, action)
            return _some(records, "CONN", subject, selection.where, administration)
        case commands.DisplayStatusOf(noun, subject, selection):
            where = selection.where or selection.type
            return _some(show_status_of(action, administration), noun, subject, where, administration)
        case commands.DisplayDecidingRule():
            return show_deciding_rule(action, administration)
        case unknown:
            assert_never(unknown)


def _display_queue_status(action: commands.DisplayStatus, administration: Administration) -> tuple[Record, ...]:
    subject = action.pattern
    statuses = of_local_queues(administration, subject, administration.queue_status)
    if not statuses and not subject.endswith("*"):
        _require(administration, QueueType.LOCAL, subject, "DISPLAY QSTATUS")
    records = show_status(statuses, action)
    if statuses and not records:
        detail = f"No handle of {subject} is open" if action.handles else "No queue passes the filter"
        name = administration.queue_manager.name
        raise error_for(PCFReason.Q_STATUS_NOT_FOUND, "DISPLAY QSTATUS", subject, name, detail)
    return _some(records, "QSTATUS", subject, None, administration)


def _some(
    records: tuple[Record, ...], noun: str, subject: str, where: commands.Where | None, administration: Administration
) -> tuple[Record, ...]:
    """Return the records of a DISPLAY. Raises 2085 if the DISPLAY found nothing."""
    if not records:
        detail = "" if noun in _DEFINABLE else "Nothing matches the command"
        if where:
            detail = "Nothing of this name passes the filter"
        raise error_for(Reason.UNKNOWN_OBJECT_NAME, f"DISPLAY {noun}", subject, administration.queue_manager.name, detail)
    return records


def _require(administration: Administration, kind: QueueType, name: str, verb: str) -> QueueAttributes:
    queue = administration.queue(name)
    if queue is None:
        raise error_for(Reason.UNKNOWN_OBJECT_NAME, verb, name, administration.queue_manager.name)
    if queue.kind != kind:
        detail = f"It is a {_NOUNS[queue.kind]}, not a {_NOUNS[kind]}"
        raise error_for(Reason.OBJECT_TYPE_ERROR, verb, name, administration.queue_manager.name, detail)
    return queue


class _Family(Struct, frozen=True):
    """The functions for the commands about one family of objects, and the words for these objects."""

    define: Callable[[commands.DefineCommand, Administration], None]
    alter: Callable[[commands.AlterCommand, Administration], None]
    delete: Callable[[commands.DeleteCommand, Administration], None]
    show: Callable[[commands.DisplayCommand, Administration], tuple[Record, ...]]
    #: Returns the names of all objects of the command's noun.
    names: Callable[[commands.DeleteCommand, Administration], Collection[str]]
    #: The numbers of the runmqsc messages (defined, changed, deleted). Empty if scripts look for no number.
    numbers: tuple[str, str, str] = ("", "", "")
    #: The word for the object in a sentence. If it is empty, the sentence has the noun with the name in brackets.
    shown: str = ""


_QUEUES: Final = _Family(
    _define_queue,
    _alter_queue,
    _delete_queue,
    show=lambda command, on: show_queues(on.queues(), command),
    names=lambda _, on: {queue.name for queue in on.queues()},
    numbers=("AMQ8006", "AMQ8008", "AMQ8007"),
)
_OBJECTS: Final = _Family(define_object, alter_object, delete_object, show=show_objects, names=object_names)
_FAMILIES: Final[Mapping[str, _Family]] = {
    **dict.fromkeys(("QUEUE", *KINDS), _QUEUES),
    "TOPIC": _Family(
        define_topic,
        lambda action, on: on.publishing.alter_topic(action.name, action.values),
        lambda action, on: on.publishing.delete_topic(action.name),
        show=show_topics,
        names=lambda _, on: {found.name for found in on.publishing.topics()},
        numbers=("AMQ8690", "AMQ8691", "AMQ8692"),
        shown="Topic",
    ),
    "SUB": _Family(
        define_subscription,
        lambda action, on: on.publishing.alter_subscription(action.name, action.values),
        lambda action, on: on.publishing.delete_subscription(action.name),
        show=show_subscriptions,
        names=lambda _, on: {found.attributes.name for found in on.publishing.subscriptions()},
        numbers=("AMQ8094", "AMQ8098", "AMQ8095"),
        shown="Subscription",
    ),
    **dict.fromkeys(OBJECT_KINDS, _OBJECTS),
    "CHANNEL": replace(_OBJECTS, numbers=("AMQ8014", "AMQ8016", "AMQ8015")),
}
"""The family of objects of each noun."""
