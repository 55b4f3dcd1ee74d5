"""Carries commands out on a queue manager's `Administration`, and returns a response to each command.

A command that fails does not stop the script: the next command runs, as in runmqsc. This module knows no file and no terminal.
Source: IBM q020770 (DEFINE REPLACE sets every attribute, ALTER the given ones), q085100.
"""

from enum import Enum, auto
from typing import Final, assert_never

from msgspec import Struct

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.catalogue.system_objects import SYSTEM_QUEUES
from mqflow.embedded.mqsc.authorities import change_authorities, show_authorities, show_entity
from mqflow.embedded.mqsc.commands import (
    Act,
    AlterCommand,
    AlterQueueManagerCommand,
    AuthorityAct,
    ClearCommand,
    Command,
    DefineCommand,
    DeleteCommand,
    Display,
    DisplayAuthorities,
    DisplayChannelStatus,
    DisplayConnections,
    DisplayEntity,
    DisplayObjects,
    DisplayOfTopics,
    DisplayQueueManager,
    DisplayQueues,
    DisplayStatus,
    DisplayStatusOf,
    EndCommand,
    ObjectAct,
    Ping,
    StopConnection,
    SyntaxProblem,
    TopicAct,
    Unsupported,
)
from mqflow.embedded.mqsc.connections import show_connections
from mqflow.embedded.mqsc.display import Record, matches, show_queue_manager, show_queues, show_status
from mqflow.embedded.mqsc.objects import change_objects, no_channel_status, show_objects
from mqflow.embedded.mqsc.parser import parse
from mqflow.embedded.mqsc.status import show_status_of
from mqflow.embedded.mqsc.topics import change_topics, show_topics
from mqflow.embedded.mqsc.vocabulary import KINDS
from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES, QueueAttributes
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import QueueType
from mqflow.mqi.pcf.codes import PCFReason
from mqflow.mqi.reason_codes import Reason

__all__ = ("EXIT_FAILED", "Response", "Results", "Verdict", "carry_out", "execute", "run")

EXIT_FAILED: Final = 10
"""The exit code of runmqsc for a script with a failed command."""

_NOUNS: Final = {kind: noun for noun, kind in KINDS.items()}
_DEFAULTS: Final = {
    kind: queue for kind in QueueType for queue in SYSTEM_QUEUES if queue.name == f"SYSTEM.DEFAULT.{kind.name}.QUEUE"
}
"""The default queues as they were created, for a DEFINE on a queue manager whose administrator deleted them."""

_NUMBERS: Final[dict[int, str]] = {
    Reason.OBJECT_IN_USE: "AMQ8148",
    Reason.Q_NOT_EMPTY: "AMQ8143",
    Reason.UNKNOWN_OBJECT_NAME: "AMQ8147",
    Reason.OBJECT_ALREADY_EXISTS: "AMQ8150",
    PCFReason.CHL_STATUS_NOT_FOUND: "AMQ8420",
    PCFReason.CONNECTION_ID_ERROR: "AMQ8456",
}
"""The numbers of runmqsc messages that scripts search for."""


class Verdict(Enum):
    """The ways in which a command can end."""

    DONE = auto()
    FAILED = auto()
    SYNTAX_ERROR = auto()
    UNSUPPORTED = auto()


class Response(Struct, frozen=True, kw_only=True):
    """The answer to one command."""

    verdict: Verdict
    command: Command | SyntaxProblem
    #: A sentence. It starts with the number of runmqsc's message if scripts search for that number.
    text: str = ""
    records: tuple[Record, ...] = ()
    #: The reason code of a failure; 0 for a success.
    reason: int = 0


class Results(Struct, frozen=True):
    """The responses to the commands of a script, in order."""

    responses: tuple[Response, ...]

    def count(self, verdict: Verdict) -> int:
        """Return how many commands ended with this verdict."""
        return sum(response.verdict is verdict for response in self.responses)

    @property
    def ignored(self) -> int:
        """The number of attributes that were left out of commands that ran."""
        return sum(len(response.command.ignored) for response in self.responses if isinstance(response.command, Command))

    def exit_code(self, *, strict: bool = False) -> int:
        """Return 0 if every command succeeded, otherwise 10. If `strict`, an unsupported command or attribute is a failure."""
        failed = self.count(Verdict.FAILED) + self.count(Verdict.SYNTAX_ERROR)
        unsupported = self.count(Verdict.UNSUPPORTED) + self.ignored
        return EXIT_FAILED if failed or (strict and unsupported) else 0


def run(text: str, administration: Administration) -> Results:
    """Carry out the commands of a script up to its END. A command that fails does not stop the next."""
    responses: list[Response] = []
    for command in parse(text):
        response = execute(command, administration)
        responses.append(response)
        if isinstance(command, Command) and isinstance(command.action, EndCommand):
            break
    return Results(tuple(responses))


def execute(command: Command | SyntaxProblem, administration: Administration) -> Response:
    """Carry out one command. If the queue manager refuses the command, return a response with the refusal; raise no error."""
    if isinstance(command, SyntaxProblem):
        text = f"AMQ8405: Syntax error in line {command.line}, column {command.column}: {command.message}"
        return Response(verdict=Verdict.SYNTAX_ERROR, command=command, text=text)
    action = command.action
    if isinstance(action, Unsupported):
        text = f"{action.what} is a known MQSC command, not supported by the embedded queue manager yet: it is left out."
        return Response(verdict=Verdict.UNSUPPORTED, command=command, text=text)
    try:
        if isinstance(action, Display):
            response = Response(verdict=Verdict.DONE, command=command, records=_display(action, administration))
        else:
            response = Response(verdict=Verdict.DONE, command=command, text=carry_out(action, administration))
        if not isinstance(action, EndCommand):
            administration.report_command(command.text, shows=isinstance(action, Display))
    except MQIError as error:
        number = _NUMBERS.get(error.reason, "")
        text = f"{number}: {error}" if number else str(error)
        return Response(verdict=Verdict.FAILED, command=command, text=text, reason=int(error.reason))
    return response


def carry_out(action: Act, administration: Administration) -> str:
    """Carry the action out, and return the sentence that confirms it."""
    if isinstance(action, AuthorityAct | TopicAct | ObjectAct):
        return _carry_out_beside_queues(action, administration)
    match action:
        case DefineCommand():
            _define(action, administration)
            said = f"AMQ8006: {_NOUNS[action.kind]}({action.name}) is defined."
        case AlterCommand():
            _require(administration, action.kind, action.name, "ALTER")
            administration.alter(action.name, action.values, force=action.force)
            said = f"AMQ8008: {_NOUNS[action.kind]}({action.name}) is changed."
        case AlterQueueManagerCommand():
            administration.alter_queue_manager(action.values)
            said = f"AMQ8005: Queue manager {administration.queue_manager.name} is changed."
        case DeleteCommand():
            said = _delete(action, administration)
        case ClearCommand():
            _require(administration, QueueType.LOCAL, action.name, "CLEAR")
            administration.clear(action.name)
            said = f"AMQ8022: QLOCAL({action.name}) is cleared."
        case StopConnection(identifier):
            administration.objects.stop_connection(identifier)
            said = f"AMQ8457: Connection {identifier} is stopped."
        case Ping():
            said = f"AMQ8415: Queue manager {administration.queue_manager.name} answers."
        case EndCommand():
            said = ""
        case unknown:
            assert_never(unknown)
    return said


def _carry_out_beside_queues(action: AuthorityAct | TopicAct | ObjectAct, administration: Administration) -> str:
    if isinstance(action, AuthorityAct):
        return change_authorities(action, administration.authorities)
    if isinstance(action, TopicAct):
        return change_topics(action, administration.publishing)
    return change_objects(action, administration.objects)


def _define(action: DefineCommand, administration: Administration) -> None:
    base = _DEFAULTS[action.kind]
    if action.like:
        base = _require(administration, action.kind, action.like, "DEFINE LIKE")
    else:
        base = administration.queue(base.name) or base
    # Read-only attributes (creation date, depth) belong to the other queue only. getattr: the table names the fields.
    settings = {
        spec.field: getattr(base, spec.field) for spec in QUEUE_ATTRIBUTES if action.kind in spec.kinds and not spec.read_only
    }
    attributes = QueueAttributes(name=action.name, kind=action.kind, **{**settings, **action.values})
    administration.define(attributes, replace=action.replace)


def _delete(action: DeleteCommand, administration: Administration) -> str:
    if action.ignore_state and administration.queue(action.name) is None:
        return f"There is no {_NOUNS[action.kind]}({action.name}) to delete, which is no error with IGNSTATE(YES)."
    _require(administration, action.kind, action.name, "DELETE")
    administration.delete(action.name, purge=action.purge, keep_authorities=action.keep_authorities)
    return f"AMQ8007: {_NOUNS[action.kind]}({action.name}) is deleted."


def _display(action: Display, administration: Administration) -> tuple[Record, ...]:
    match action:
        case DisplayQueues():
            records = show_queues(administration.queues(), action)
            subject = action.pattern
        case DisplayStatus():
            local = (queue.name for queue in administration.queues() if queue.kind is QueueType.LOCAL)
            names = [name for name in local if matches(action.pattern, name)]
            records = show_status((administration.queue_status(name) for name in names), action)
            subject = action.pattern
            if names and not records:
                detail = f"No handle of {subject} is open" if action.handles else "No queue passes the filter"
                name = administration.queue_manager.name
                raise error_for(PCFReason.Q_STATUS_NOT_FOUND, "DISPLAY QSTATUS", subject, name, detail)
        case DisplayAuthorities():
            records = show_authorities(administration.authorities.records(), action)
            subject = action.profile
        case DisplayEntity():
            return show_entity(administration.authorities, action)
        case DisplayOfTopics():
            records = show_topics(action, administration.publishing)
            subject = action.pattern
        case DisplayQueueManager():
            return show_queue_manager(administration.queue_manager, action)
        case DisplayObjects() | DisplayConnections() | DisplayChannelStatus() | DisplayStatusOf():
            records = _display_objects(action, administration)
            subject = action.pattern
        case unknown:
            assert_never(unknown)
    if not records:
        raise error_for(Reason.UNKNOWN_OBJECT_NAME, "DISPLAY", subject, administration.queue_manager.name)
    return records


def _display_objects(
    action: DisplayObjects | DisplayConnections | DisplayChannelStatus | DisplayStatusOf, administration: Administration
) -> tuple[Record, ...]:
    match action:
        case DisplayObjects():
            return show_objects(action, administration.objects)
        case DisplayConnections():
            return show_connections(administration.objects.connections(), administration.queue_manager.name, action)
        case DisplayStatusOf():
            return show_status_of(action, administration)
        case DisplayChannelStatus():
            raise no_channel_status(action, administration.queue_manager.name)
        case unknown:
            assert_never(unknown)


def _require(administration: Administration, kind: QueueType, name: str, verb: str) -> QueueAttributes:
    """Return the queue. Refuses an unknown name, and the name of a queue of another kind."""
    queue = administration.queue(name)
    if queue is None:
        raise error_for(Reason.UNKNOWN_OBJECT_NAME, verb, name, administration.queue_manager.name)
    if queue.kind != kind:
        detail = f"It is a {_NOUNS[queue.kind]}, not a {_NOUNS[kind]}"
        raise error_for(Reason.OBJECT_TYPE_ERROR, verb, name, administration.queue_manager.name, detail)
    return queue
