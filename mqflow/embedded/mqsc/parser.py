"""Turns a script into commands, and checks each command against the table of attributes before any command runs.

This module is pure. Any text gives commands and problems in order; no text raises an exception. The parser knows verbs and
nouns. Only the queue manager knows whether a queue exists. Source: IBM q085100, q085110, and the reference page of each
command.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.catalogue.kinds import Noun
from mqflow.embedded.mqsc import topics
from mqflow.embedded.mqsc.authorities import (
    DELETING,
    SETTING,
    SHOWING,
    SHOWING_ENTITY,
    build_delete,
    build_display,
    build_display_entity,
    build_set,
)
from mqflow.embedded.mqsc.clauses import Clause, Parameters, bare, choice, clauses_of, name_of, pattern_of, single, sort
from mqflow.embedded.mqsc.commands import (
    Action,
    AlterCommand,
    AlterQueueManagerCommand,
    ClearCommand,
    Command,
    DefineCommand,
    DeleteCommand,
    DisplayChannelStatus,
    DisplayConnections,
    DisplayObjects,
    DisplayQueueManager,
    DisplayQueues,
    DisplayStatus,
    DisplayStatusOf,
    EndCommand,
    Operator,
    Ping,
    RefreshSecurity,
    Selection,
    StatusNoun,
    StopConnection,
    SyntaxProblem,
    TopicNoun,
    Unsupported,
    Where,
)
from mqflow.embedded.mqsc.connections import CONNECTION, CONNECTION_HANDLE
from mqflow.embedded.mqsc.lexer import RefusedError, Sentence, sentences
from mqflow.embedded.mqsc.objects import (
    DEFINING_OBJECTS,
    DELETING_OBJECTS,
    OBJECTS,
    build_alter_object,
    build_define_object,
    build_delete_object,
    kind_asked_for,
)
from mqflow.embedded.mqsc.status import STATUSES
from mqflow.embedded.mqsc.values import read_value
from mqflow.embedded.mqsc.vocabulary import (
    HANDLE_STATUS,
    KINDS,
    QUEUE_MANAGER,
    QUEUE_STATUS,
    QUEUES,
    SYNONYMS,
    UNSUPPORTED_ATTRIBUTES,
    VERBS,
    Attributes,
    keyword_table,
)
from mqflow.mqi.lexer import Token, TokenKind, source_lines
from mqflow.policy.did_you_mean import hint

__all__ = ("parse",)

_Noun = TypeVar("_Noun")


class _Form(Struct, frozen=True):
    """The form of a command: its words, and the function that builds its action."""

    build: Callable[[str, Clause, Parameters], Action]
    attributes: Attributes
    #: Maps each option word to its choice (NOREPLACE: REPLACE).
    options: Mapping[str, str]
    unsupported: frozenset[str]
    asking: bool = False


def parse(text: str) -> tuple[Command | SyntaxProblem, ...]:
    """Return the commands of a script in order. A `SyntaxProblem` stands for an invalid command.

    This function also reads the commands after END; `interpreter.run` stops at END.
    """
    lines = source_lines(text)
    return tuple(_read(found, lines) for found in sentences(lines))


def _read(found: Sentence | RefusedError, lines: Sequence[str]) -> Command | SyntaxProblem:
    if isinstance(found, RefusedError):
        return _problem(found, lines, "")
    try:
        return _command(found)
    except RefusedError as refused:
        return _problem(refused, lines, found.text)


def _problem(refused: RefusedError, lines: Sequence[str], text: str) -> SyntaxProblem:
    at = refused.token
    source = lines[at.line - 1]
    return SyntaxProblem(refused.message, text or source.strip(), at.line, at.column, source)


def _command(sentence: Sentence) -> Command:
    first, *rest = sentence.tokens
    verb = _word(first)
    if verb not in VERBS:
        known = ", ".join(sorted({*VERBS, "EXIT", "QUIT"}))
        raise RefusedError(first, f"'{first.text}' is not an MQSC command.{hint(first.text, VERBS)} The commands are {known}.")
    if verb == "END":
        if rest:
            raise RefusedError(rest[0], f"Nothing may follow {first.text.upper()}.")
        return Command(EndCommand(), sentence.text, first.line)
    noun = _noun(verb, sentence.tokens)
    form = _FORMS.get((verb, noun))
    if form is None:
        return Command(Unsupported(f"{verb} {noun}"), sentence.text, first.line)
    subject, *clauses = clauses_of(rest)
    parameters = sort(clauses, form.attributes, form.options, form.unsupported, asking=form.asking)
    return Command(form.build(noun, subject, parameters), sentence.text, first.line, tuple(parameters.ignored))


def _word(token: Token) -> str:
    """Return the word in capitals, with a synonym replaced by its full word; an empty text for a string or a bracket."""
    if token.kind is not TokenKind.WORD:
        return ""
    return SYNONYMS.get(token.text.upper(), token.text.upper())


def _noun(verb: str, tokens: Sequence[Token]) -> str:
    known = {*VERBS[verb], *(noun for other, noun in _FORMS if other == verb)}
    taken = f"{verb} takes {', '.join(sorted(known))}."
    if len(tokens) == 1:
        raise RefusedError(tokens[0], f"{verb} what? {taken}")
    noun = _word(tokens[1])
    if noun not in known:
        raise RefusedError(tokens[1], f"There is no {verb} {tokens[1].text.upper()}.{hint(tokens[1].text, known)} {taken}")
    return noun


def _define(noun: str, subject: Clause, parameters: Parameters) -> DefineCommand:
    options = parameters.options
    for word in options.keys() - {"LIKE"}:
        bare(options[word])
    like = name_of(options["LIKE"]) if "LIKE" in options else ""
    return DefineCommand(KINDS[noun], name_of(subject), parameters.values, like, "REPLACE" in options)


def _alter(noun: str, subject: Clause, parameters: Parameters) -> AlterCommand:
    for clause in parameters.options.values():
        bare(clause)
    return AlterCommand(KINDS[noun], name_of(subject), parameters.values, "FORCE" in parameters.options)


def _alter_queue_manager(_noun: str, subject: Clause, parameters: Parameters) -> AlterQueueManagerCommand:
    for clause in (subject, *parameters.options.values()):
        bare(clause)
    return AlterQueueManagerCommand(parameters.values)


def _delete(noun: str, subject: Clause, parameters: Parameters) -> DeleteCommand:
    options = parameters.options
    for word in options.keys() - {"IGNSTATE", "AUTHREC"}:
        bare(options[word])
    ignore_state = choice(options, "IGNSTATE", ("NO", "YES")) == "YES"
    keep_authorities = choice(options, "AUTHREC", ("YES", "NO")) == "NO"
    return DeleteCommand(KINDS[noun], name_of(subject), "PURGE" in options, ignore_state, keep_authorities)


def _clear(_noun: str, subject: Clause, _parameters: Parameters) -> ClearCommand:
    return ClearCommand(name_of(subject))


def _ping(_noun: str, subject: Clause, _parameters: Parameters) -> Ping:
    bare(subject)
    return Ping()


def _refresh_security(_noun: str, subject: Clause, parameters: Parameters) -> RefreshSecurity:
    if subject.arguments is not None and single(subject).folded != "*":
        raise RefusedError(single(subject), "REFRESH SECURITY takes no class here, or (*).")
    return RefreshSecurity(choice(parameters.options, "TYPE", ("AUTHSERV", "CONNAUTH", "SSL")))


def _display_queues(noun: str, subject: Clause, parameters: Parameters) -> DisplayQueues:
    pattern = pattern_of(subject)
    kind = KINDS.get(choice(parameters.options, "TYPE", ("ALL", *KINDS)), KINDS.get(noun))
    return DisplayQueues(pattern, kind, _selection(parameters, _ANY_QUEUE, everything=not pattern.endswith("*")))


def _display_status(_noun: str, subject: Clause, parameters: Parameters) -> DisplayStatus:
    pattern = pattern_of(subject)
    handles = choice(parameters.options, "TYPE", ("QUEUE", "HANDLE")) == "HANDLE"
    attributes = HANDLE_STATUS if handles else QUEUE_STATUS
    return DisplayStatus(pattern, handles, _selection(parameters, attributes, everything=not pattern.endswith("*")))


def _display_queue_manager(_noun: str, subject: Clause, parameters: Parameters) -> DisplayQueueManager:
    bare(subject)
    return DisplayQueueManager(_selection(parameters, QUEUE_MANAGER, everything=True))


def _display_objects(noun: Noun, subject: Clause, parameters: Parameters) -> DisplayObjects:
    pattern = pattern_of(subject)
    selection = _selection(parameters, OBJECTS[noun], everything=not pattern.endswith("*"))
    return DisplayObjects(noun, pattern, kind_asked_for(noun, parameters), selection)


def _display_connections(_noun: str, subject: Clause, parameters: Parameters) -> DisplayConnections:
    pattern = pattern_of(subject)
    handles = {"CONN": False, "HANDLE": True}.get(choice(parameters.options, "TYPE", ("CONN", "HANDLE", "ALL", "*")))
    attributes = _ANY_CONNECTION if handles is None else CONNECTION_HANDLE if handles else CONNECTION
    return DisplayConnections(pattern, handles, _selection(parameters, attributes, everything=not pattern.endswith("*")))


def _display_status_of(noun: StatusNoun, subject: Clause, parameters: Parameters) -> DisplayStatusOf:
    kind = STATUSES[noun]
    if kind.named:
        pattern = single(subject).folded
    else:
        bare(subject)
        pattern = ""
    selection = _selection(parameters, keyword_table(kind.specs), everything=not pattern.endswith(("*", "#")))
    return DisplayStatusOf(noun, pattern, selection)


def _display_topic_status(_noun: str, subject: Clause, parameters: Parameters) -> DisplayStatusOf:
    nouns: dict[str, StatusNoun] = {"TOPIC": "TPSTATUS", "SUB": "TPSTATUS SUB", "PUB": "TPSTATUS PUB"}
    return _display_status_of(nouns[choice(parameters.options, "TYPE", tuple(nouns))], subject, parameters)


def _reset_statistics(_noun: str, subject: Clause, _parameters: Parameters) -> DisplayStatusOf:
    return DisplayStatusOf("QSTATS", pattern_of(subject), Selection(everything=True))


def _stop_connection(_noun: str, subject: Clause, _parameters: Parameters) -> StopConnection:
    return StopConnection(single(subject).folded)


def _display_channel_status(_noun: str, subject: Clause, _parameters: Parameters) -> DisplayChannelStatus:
    return DisplayChannelStatus(pattern_of(subject))


def _selection(parameters: Parameters, attributes: Attributes, *, everything: bool) -> Selection:
    """Return the attributes to show. If the command names none, `everything` decides whether to show all."""
    if "ALL" in parameters.options:
        bare(parameters.options["ALL"])
    where = _where(parameters.options["WHERE"], attributes) if "WHERE" in parameters.options else None
    asked_for = bool(parameters.keywords or parameters.ignored or where)
    return Selection("ALL" in parameters.options or (everything and not asked_for), frozenset(parameters.keywords), where)


def _where(clause: Clause, attributes: Attributes) -> Where:
    match clause.arguments:
        case (keyword, operator, operand):
            return _condition(keyword, operator, operand, attributes)
        case _:
            raise RefusedError(clause.keyword, "WHERE takes three words: WHERE(CURDEPTH GT 0).")


def _condition(keyword: Token, operator: Token, operand: Token, attributes: Attributes) -> Where:
    spec = attributes.get(keyword.folded)
    if spec is None:
        raise RefusedError(keyword, f"WHERE does not know '{keyword.text}'. It knows {', '.join(sorted(attributes))}.")
    if spec.items_max:
        raise RefusedError(keyword, f"{spec.keyword} is a list, and lists are not compared here.")
    how = _operator(operator, ordered=spec.words is None or spec.low < spec.high, text=bool(spec.chars))
    if how in {Operator.LK, Operator.NL}:
        return Where(spec.keyword, how, operand.folded)
    # Source: DISPLAY QUEUE, filter-value: "use either EQ YES or EQ NO" for HARDENBO, SHARE and TRIGGER.
    return Where(spec.keyword, how, read_value(replace(spec, words={"NO": 0, "YES": 1}) if spec.flag else spec, operand))


def _operator(token: Token, *, ordered: bool, text: bool) -> Operator:
    """Return the operator. An attribute with words as values takes EQ and NE only. Only a text attribute takes LK and NL."""
    taken = [Operator.EQ, Operator.NE]
    if ordered:
        taken += [Operator.LT, Operator.GT, Operator.LE, Operator.GE]
    if text:
        taken += [Operator.LK, Operator.NL]
    for operator in taken:
        if token.folded == operator:
            return operator
    raise RefusedError(token, f"'{token.text}' cannot be used here. This attribute is compared by {', '.join(taken)}.")


_ANY_QUEUE: Final[Attributes] = {word: spec for table in QUEUES.values() for word, spec in table.items()}
_ANY_CONNECTION: Final[Attributes] = {**CONNECTION, **CONNECTION_HANDLE}
_ANY_STATUS: Final[Attributes] = {**QUEUE_STATUS, **HANDLE_STATUS}
_OF_QUEUES: Final = UNSUPPORTED_ATTRIBUTES["QUEUE"]
_DEFINING: Final = {"REPLACE": "REPLACE", "NOREPLACE": "REPLACE", "LIKE": "LIKE"}
_ALTERING: Final = {"FORCE": "FORCE", "NOFORCE": "FORCE"}
_DELETING: Final = {"PURGE": "PURGE", "NOPURGE": "PURGE", "IGNSTATE": "IGNSTATE", "AUTHREC": "AUTHREC"}
_SERVICE: Final = frozenset({"SERVCOMP"})
_SHOWING: Final = {word: word for word in ("ALL", "TYPE", "WHERE")}


def _object_forms(noun: Noun) -> dict[tuple[str, str], _Form]:
    """Return the forms of DEFINE, ALTER, DELETE and DISPLAY for one kind of object."""
    attributes, unsupported = OBJECTS[noun], UNSUPPORTED_ATTRIBUTES.get(noun, frozenset())
    return {
        ("DEFINE", noun): _Form(_of(build_define_object, noun), attributes, DEFINING_OBJECTS, unsupported),
        ("ALTER", noun): _Form(_of(build_alter_object, noun), attributes, {}, unsupported),
        ("DELETE", noun): _Form(_of(build_delete_object, noun), {}, DELETING_OBJECTS, unsupported),
        ("DISPLAY", noun): _Form(_of(_display_objects, noun), attributes, _SHOWING, unsupported, asking=True),
    }


def _forms() -> dict[tuple[str, str], _Form]:
    forms = {
        ("CLEAR", "QLOCAL"): _Form(_clear, {}, {}, _OF_QUEUES),
        ("PING", "QMGR"): _Form(_ping, {}, {}, frozenset()),
        ("ALTER", "QMGR"): _Form(_alter_queue_manager, QUEUE_MANAGER, {"FORCE": "FORCE"}, UNSUPPORTED_ATTRIBUTES["QMGR"]),
        ("DISPLAY", "QMGR"): _Form(
            _display_queue_manager, QUEUE_MANAGER, {"ALL": "ALL"}, UNSUPPORTED_ATTRIBUTES["QMGR"], asking=True
        ),
        ("DISPLAY", "QSTATUS"): _Form(_display_status, _ANY_STATUS, _SHOWING, UNSUPPORTED_ATTRIBUTES["QSTATUS"], asking=True),
        ("DISPLAY", "QUEUE"): _Form(_display_queues, _ANY_QUEUE, _SHOWING, _OF_QUEUES, asking=True),
    }
    forms["SET", "AUTHREC"] = _Form(build_set, {}, SETTING, _SERVICE)
    forms["DELETE", "AUTHREC"] = _Form(build_delete, {}, DELETING, _SERVICE)
    forms["DISPLAY", "AUTHREC"] = _Form(build_display, {}, SHOWING, _SERVICE)
    forms["DISPLAY", "ENTAUTH"] = _Form(build_display_entity, {}, SHOWING_ENTITY, _SERVICE)
    forms["REFRESH", "SECURITY"] = _Form(_refresh_security, {}, {"TYPE": "TYPE"}, frozenset())
    forms["CLEAR", "TOPICSTR"] = _Form(topics.build_clear, {}, topics.CLEARING, topics.UNSUPPORTED)
    forms |= _topic_forms()
    forms["DISPLAY", "CONN"] = _Form(
        _display_connections, _ANY_CONNECTION, _SHOWING, UNSUPPORTED_ATTRIBUTES["CONN"], asking=True
    )
    forms |= _status_forms()
    forms["DISPLAY", "CHSTATUS"] = _Form(_display_channel_status, {}, _SHOWING, UNSUPPORTED_ATTRIBUTES["CHSTATUS"], asking=True)
    for each in OBJECTS:
        forms |= _object_forms(each)
    for noun, kind in KINDS.items():
        forms["DEFINE", noun] = _Form(_define, QUEUES[kind], _DEFINING, _OF_QUEUES)
        forms["ALTER", noun] = _Form(_alter, QUEUES[kind], _ALTERING, _OF_QUEUES)
        forms["DELETE", noun] = _Form(_delete, {}, _DELETING, _OF_QUEUES)
        forms["DISPLAY", noun] = forms["DISPLAY", "QUEUE"]
    return forms


def _status_forms() -> dict[tuple[str, str], _Form]:
    every = keyword_table(spec for noun in ("TPSTATUS", "TPSTATUS SUB", "TPSTATUS PUB") for spec in STATUSES[noun].specs)
    shown: tuple[StatusNoun, ...] = (
        *("QMSTATUS", "PUBSUB", "LSSTATUS", "SVSTATUS", "SBSTATUS"),
        *("CHLAUTH", "CLUSQMGR", "QCLUSTER", "TCLUSTER", "COMMINFO", "POLICY"),
    )
    return {
        ("DISPLAY", "TPSTATUS"): _Form(_display_topic_status, every, _SHOWING, topics.UNSUPPORTED, asking=True),
        ("RESET", "QSTATS"): _Form(_reset_statistics, {}, {}, frozenset({"CMDSCOPE"})),
        ("STOP", "CONN"): _Form(_stop_connection, {}, {}, frozenset({"EXTCONN"})),
        **{
            ("DISPLAY", noun): _Form(
                _of(_display_status_of, noun),
                keyword_table(STATUSES[noun].specs),
                _SHOWING,
                UNSUPPORTED_ATTRIBUTES.get(noun, frozenset()),
                asking=True,
            )
            for noun in shown
        },
    }


def _topic_forms() -> dict[tuple[str, str], _Form]:
    forms: dict[tuple[str, str], _Form] = {}
    for noun, attributes in topics.NOUNS.items():
        display = _of(partial(topics.build_display, _selection), noun)
        forms["DISPLAY", noun] = _Form(display, attributes, topics.SHOWING, topics.UNSUPPORTED, asking=True)
    definable: tuple[TopicNoun, ...] = ("TOPIC", "SUB")
    for noun in definable:
        attributes = {word: spec for word, spec in topics.NOUNS[noun].items() if word != "TYPE"}
        for verb in ("DEFINE", "ALTER"):
            build = _of(partial(topics.build_define, verb), noun)
            options = topics.DEFINING if verb == "DEFINE" else {"TYPE": "TYPE"}
            forms[verb, noun] = _Form(build, attributes, options, topics.UNSUPPORTED)
        forms["DELETE", noun] = _Form(_of(topics.build_delete, noun), {}, topics.DELETING, frozenset({"AUTHREC"}))
    return forms


def _of(build: Callable[[_Noun, Clause, Parameters], Action], noun: _Noun) -> Callable[[str, Clause, Parameters], Action]:
    """Return `build` for this noun. The returned function ignores the noun of the command."""
    return lambda _, subject, parameters: build(noun, subject, parameters)


_FORMS: Final = _forms()
