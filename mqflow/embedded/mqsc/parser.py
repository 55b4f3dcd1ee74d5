"""Turns a script into commands, and checks each command against the table of attributes before any command runs.

This module is pure. Any text gives commands and problems in order, and never an exception. The parser knows verbs and nouns,
but only the queue manager knows whether a queue exists. Source: IBM q085100, q085110, and the reference page of each command.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.catalogue.kinds import DEFINED_KINDS, DefinedKind
from mqflow.embedded.mqsc import authorities, commands, connections, vocabulary
from mqflow.embedded.mqsc.clauses import Clause, Parameters, bare, choice, clauses_of, name_of, pattern_of, single, sort
from mqflow.embedded.mqsc.connections import CONNECTION, CONNECTION_HANDLE
from mqflow.embedded.mqsc.lexer import LINE_CHARS_MAX, RefusedError, Sentence, sentences
from mqflow.embedded.mqsc.status import STATUSES
from mqflow.embedded.mqsc.topics import build_clear
from mqflow.embedded.mqsc.values import read_value
from mqflow.mqi.lexer import Token, TokenKind, source_lines
from mqflow.policy.did_you_mean import hint

__all__ = ("parse",)

Build = Callable[[Clause, Parameters], commands.Action]


class _Form(Struct, frozen=True):
    """The form of a command: the clauses that it accepts, and the function that builds its action."""

    build: Build
    attributes: vocabulary.Attributes
    #: Maps each option word to the choice that it makes (NOREPLACE: REPLACE).
    options: Mapping[str, str]
    unsupported: frozenset[str]
    asking: bool = False


def parse(text: str, *, line_chars_max: int = LINE_CHARS_MAX) -> tuple[commands.Command | commands.SyntaxProblem, ...]:
    """Return the commands of a script in order, with a `SyntaxProblem` in the place of each invalid command.

    The result includes commands after END; `interpreter.run` stops at END.
    """
    lines = source_lines(text)
    return tuple(_read(found, lines) for found in sentences(lines, line_chars_max))


def _read(found: Sentence | RefusedError, lines: Sequence[str]) -> commands.Command | commands.SyntaxProblem:
    if isinstance(found, RefusedError):
        return _problem(found, lines, "")
    try:
        return _command(found)
    except RefusedError as refused:
        return _problem(refused, lines, found.text)


def _problem(refused: RefusedError, lines: Sequence[str], text: str) -> commands.SyntaxProblem:
    at = refused.token
    source = lines[at.line - 1]
    return commands.SyntaxProblem(refused.message, text or source.strip(), at.line, at.column, source)


def _command(sentence: Sentence) -> commands.Command:
    first, *rest = sentence.tokens
    verb = _word(first)
    if verb not in vocabulary.VERBS:
        known = ", ".join(sorted({*vocabulary.VERBS, "EXIT", "QUIT"}))
        raise RefusedError(
            first, f"'{first.text}' is not an MQSC command.{hint(first.text, vocabulary.VERBS)} The commands are {known}."
        )
    if verb == "END":
        if rest:
            raise RefusedError(rest[0], f"Nothing may follow {first.text.upper()}.")
        return commands.Command(commands.EndCommand(), sentence.text, first.line)
    noun = _noun(verb, sentence.tokens)
    form = _FORMS.get((verb, noun))
    if form is None:
        return commands.Command(commands.Unsupported(f"{verb} {noun}"), sentence.text, first.line)
    subject, *clauses = clauses_of(rest)
    parameters = sort(clauses, form.attributes, form.options, form.unsupported, asking=form.asking)
    return commands.Command(form.build(subject, parameters), sentence.text, first.line, tuple(parameters.ignored))


def _word(token: Token) -> str:
    """Return the word in capitals, and the full word for a synonym. Return an empty text for a string or a bracket."""
    if token.kind is not TokenKind.WORD:
        return ""
    return vocabulary.SYNONYMS.get(token.folded, token.folded)


def _noun(verb: str, tokens: Sequence[Token]) -> str:
    known = {*vocabulary.VERBS[verb], *(noun for other, noun in _FORMS if other == verb)}
    taken = f"{verb} takes {', '.join(sorted(known))}."
    if len(tokens) == 1:
        raise RefusedError(tokens[0], f"{verb} what? {taken}")
    noun = _word(tokens[1])
    if noun not in known:
        raise RefusedError(tokens[1], f"There is no {verb} {tokens[1].text.upper()}.{hint(tokens[1].text, known)} {taken}")
    return noun


def _define(noun: commands.ObjectNoun, subject: Clause, parameters: Parameters) -> commands.DefineCommand:
    options, values = parameters.options, parameters.values
    for word in options.keys() - {"LIKE", "TYPE"}:
        bare(options[word])
    choice(options, "TYPE", ("LOCAL",))
    like = _name(noun, options["LIKE"]) if "LIKE" in options else ""
    kind = _type_to_define(vocabulary.OBJECT_KINDS[noun], subject, values) if noun in vocabulary.OBJECT_KINDS else 0
    return commands.DefineCommand(noun, _name(noun, subject), values, kind, like, "REPLACE" in options)


def _type_to_define(kind: DefinedKind, subject: Clause, values: dict[str, commands.Value]) -> int:
    """Remove the type of a new object from `values`, and return it. Refuses an attribute that this type does not have."""
    if kind.type_spec is not None and "kind" not in values:
        words = ", ".join(kind.type_spec.words or ())
        raise RefusedError(subject.keyword, f"DEFINE {kind.noun} needs {kind.type_spec.keyword}: one of {words}.")
    number = _pop_type(values)
    strangers = set(values) - {spec.field for spec in kind.applicable(number)}
    if strangers:
        keywords = ", ".join(spec.keyword for spec in kind.specs if spec.field in strangers)
        raise RefusedError(subject.keyword, f"{keywords}: not an attribute of this type of {kind.noun}.")
    return number


def _alter(noun: commands.ObjectNoun, subject: Clause, parameters: Parameters) -> commands.AlterCommand:
    options = parameters.options
    for word in options.keys() - {"TYPE"}:
        bare(options[word])
    choice(options, "TYPE", ("LOCAL",))
    kind = _pop_type(parameters.values) if noun in vocabulary.OBJECT_KINDS else 0
    return commands.AlterCommand(noun, _name(noun, subject), parameters.values, kind, "FORCE" in options)


def _delete(noun: commands.ObjectNoun, subject: Clause, parameters: Parameters) -> commands.DeleteCommand:
    options = parameters.options
    for word in options.keys() - {"IGNSTATE", "AUTHREC", "CHLTABLE"}:
        bare(options[word])
    return commands.DeleteCommand(
        noun,
        _name(noun, subject),
        purge="PURGE" in options,
        ignore_state=choice(options, "IGNSTATE", ("NO", "YES")) == "YES",
        keep_authorities=choice(options, "AUTHREC", ("YES", "NO")) == "NO",
        client=choice(options, "CHLTABLE", ("QMGRTBL", "CLNTTAB")) == "CLNTTAB" if "CHLTABLE" in options else None,
    )


def _display(noun: commands.ObjectNoun | Literal["QUEUE"], subject: Clause, parameters: Parameters) -> commands.DisplayCommand:
    pattern = single(subject).folded if noun == "SUB" else pattern_of(subject)
    types: dict[str, int] = {"ALL": 0}
    if noun in vocabulary.OBJECT_KINDS:
        spec = vocabulary.OBJECT_KINDS[noun].type_spec
        types |= (spec and spec.words) or {}
    else:
        types |= vocabulary.QUEUE_TYPES
    kind = types[choice(parameters.options, "TYPE", tuple(types))] or types.get(noun, 0)
    selection = _selection(parameters, _SHOWN[noun], everything=not pattern.endswith(("*", "#")))
    return commands.DisplayCommand(noun, pattern, kind, selection)


def _name(noun: commands.ObjectNoun, clause: Clause) -> str:
    if noun == "SUB":
        return single(clause).folded
    name = name_of(clause)
    if noun in vocabulary.OBJECT_KINDS and len(name) > (chars_max := vocabulary.OBJECT_KINDS[noun].name_spec.chars):
        raise RefusedError(clause.keyword, f"'{name}' is longer than the {chars_max} characters of such a name.")
    return name


def _pop_type(values: dict[str, commands.Value]) -> int:
    kind = values.pop("kind", 0)
    return kind if isinstance(kind, int) else 0


def _alter_queue_manager(subject: Clause, parameters: Parameters) -> commands.AlterQueueManagerCommand:
    for clause in (subject, *parameters.options.values()):
        bare(clause)
    return commands.AlterQueueManagerCommand(parameters.values)


def _ping(subject: Clause, _parameters: Parameters) -> commands.Ping:
    bare(subject)
    return commands.Ping()


def _refresh_security(subject: Clause, parameters: Parameters) -> commands.RefreshSecurity:
    if subject.arguments is not None and single(subject).folded != "*":
        raise RefusedError(single(subject), "REFRESH SECURITY takes no class here, or (*).")
    return commands.RefreshSecurity(choice(parameters.options, "TYPE", ("AUTHSERV", "CONNAUTH", "SSL")))


def _display_status(subject: Clause, parameters: Parameters) -> commands.DisplayStatus:
    pattern = pattern_of(subject)
    handles = choice(parameters.options, "TYPE", ("QUEUE", "HANDLE")) == "HANDLE"
    attributes = vocabulary.HANDLE_STATUS if handles else vocabulary.QUEUE_STATUS
    return commands.DisplayStatus(pattern, handles, _selection(parameters, attributes, everything=not pattern.endswith("*")))


def _display_connections(subject: Clause, parameters: Parameters) -> commands.DisplayConnections:
    pattern = pattern_of(subject)
    handles = {"CONN": False, "HANDLE": True}.get(choice(parameters.options, "TYPE", ("CONN", "HANDLE", "ALL", "*")))
    attributes = _ANY_CONNECTION if handles is None else CONNECTION_HANDLE if handles else CONNECTION
    return commands.DisplayConnections(
        pattern, handles, _selection(parameters, attributes, everything=not pattern.endswith("*"))
    )


def _display_status_of(noun: commands.StatusNoun, subject: Clause, parameters: Parameters) -> commands.DisplayStatusOf:
    kind = STATUSES[noun]
    if kind.named:
        pattern = single(subject).folded
    else:
        bare(subject)
        pattern = ""
    selection = _selection(parameters, vocabulary.keyword_table(kind.specs), everything=not pattern.endswith(("*", "#")))
    return commands.DisplayStatusOf(noun, pattern, selection)


def _display_application_status(subject: Clause, parameters: Parameters) -> commands.DisplayStatusOf:
    choice(parameters.options, "TYPE", ("APPL",))
    return _display_status_of("APSTATUS", subject, parameters)


def _display_channel_rules(subject: Clause, parameters: Parameters) -> commands.DisplayStatusOf | commands.DisplayDecidingRule:
    options, keywords = parameters.options, parameters.keywords
    keywords.update(word for word in connections.ASKING if word in options and options[word].arguments is None)
    shown = _display_status_of("CHLAUTH", subject, parameters)
    if choice(options, "MATCH", ("GENERIC", "RUNCHECK")) == "RUNCHECK":
        address, user = (connections.asked(options, word, subject) for word in connections.ASKING)
        return commands.DisplayDecidingRule(shown.pattern, address, user, shown.selection)
    if "TYPE" not in options:
        return shown
    spec = vocabulary.keyword_table(STATUSES["CHLAUTH"].specs)["TYPE"]
    wanted = commands.Where("TYPE", commands.Operator.EQ, read_value(spec, single(options["TYPE"])))
    return replace(shown, selection=replace(shown.selection, type=wanted))


def _display_topic_status(subject: Clause, parameters: Parameters) -> commands.DisplayStatusOf:
    nouns: dict[str, commands.StatusNoun] = {"TOPIC": "TPSTATUS", "SUB": "TPSTATUS SUB", "PUB": "TPSTATUS PUB"}
    return _display_status_of(nouns[choice(parameters.options, "TYPE", tuple(nouns))], subject, parameters)


def _selection(parameters: Parameters, attributes: vocabulary.Attributes, *, everything: bool) -> commands.Selection:
    if "ALL" in parameters.options:
        bare(parameters.options["ALL"])
    where = _where(parameters.options["WHERE"], attributes) if "WHERE" in parameters.options else None
    asked_for = bool(parameters.keywords or parameters.ignored or where)
    return commands.Selection(
        "ALL" in parameters.options or (everything and not asked_for), frozenset(parameters.keywords), where
    )


def _where(clause: Clause, attributes: vocabulary.Attributes) -> commands.Where:
    match clause.arguments:
        case (keyword, operator, operand):
            return _condition(keyword, operator, operand, attributes)
        case _:
            raise RefusedError(clause.keyword, "WHERE takes three words: WHERE(CURDEPTH GT 0).")


def _condition(keyword: Token, operator: Token, operand: Token, attributes: vocabulary.Attributes) -> commands.Where:
    spec = attributes.get(keyword.folded)
    if spec is None:
        raise RefusedError(keyword, f"WHERE does not know '{keyword.text}'. It knows {', '.join(sorted(attributes))}.")
    if spec.items_max:
        raise RefusedError(keyword, f"{spec.keyword} is a list, and lists are not compared here.")
    how = _operator(operator, ordered=spec.words is None or spec.low < spec.high, text=bool(spec.chars))
    if how in {commands.Operator.LK, commands.Operator.NL}:
        return commands.Where(spec.keyword, how, operand.folded)
    # Source: DISPLAY QUEUE, filter-value: "use either EQ YES or EQ NO" for HARDENBO, SHARE and TRIGGER.
    return commands.Where(
        spec.keyword, how, read_value(replace(spec, words={"NO": 0, "YES": 1}) if spec.flag else spec, operand)
    )


def _operator(token: Token, *, ordered: bool, text: bool) -> commands.Operator:
    """Return the operator. Attributes with words as values accept only EQ and NE. Only text attributes accept LK and NL."""
    taken = [commands.Operator.EQ, commands.Operator.NE]
    if ordered:
        taken += [commands.Operator.LT, commands.Operator.GT, commands.Operator.LE, commands.Operator.GE]
    if text:
        taken += [commands.Operator.LK, commands.Operator.NL]
    for operator in taken:
        if token.folded == operator:
            return operator
    raise RefusedError(token, f"'{token.text}' cannot be used here. This attribute is compared by {', '.join(taken)}.")


_ANY_CONNECTION: Final[vocabulary.Attributes] = {**CONNECTION, **CONNECTION_HANDLE}
_ANY_STATUS: Final[vocabulary.Attributes] = {**vocabulary.QUEUE_STATUS, **vocabulary.HANDLE_STATUS}
_ANY_QUEUE: Final[vocabulary.Attributes] = {word: spec for table in vocabulary.QUEUES.values() for word, spec in table.items()}
_SHOWN: Final[Mapping[commands.ObjectNoun | Literal["QUEUE"], vocabulary.Attributes]] = {
    **dict.fromkeys(("QUEUE", *vocabulary.KINDS), _ANY_QUEUE),
    "TOPIC": vocabulary.TOPICS,
    "SUB": vocabulary.SUBSCRIPTIONS,
    **{kind.noun: vocabulary.keyword_table(kind.specs) for kind in DEFINED_KINDS.values()},
}
"""The attributes that a DISPLAY of each noun can show."""
_SERVICE: Final = frozenset({"SERVCOMP"})
_SHOWING: Final = {word: word for word in ("ALL", "TYPE", "WHERE")}


_DEFINING: Final = {"REPLACE": "REPLACE", "NOREPLACE": "REPLACE", "LIKE": "LIKE"}
_IGNORING: Final = {"IGNSTATE": "IGNSTATE"}


class _Options(NamedTuple):
    """The option words of the commands about one family of objects. Each mapping is an `_Form.options`."""

    defining: Mapping[str, str] = _DEFINING
    altering: Mapping[str, str] = MappingProxyType({})
    deleting: Mapping[str, str] = _IGNORING
    showing: Mapping[str, str] = _SHOWING
    #: Words of DELETE that are accepted without an effect.
    kept: frozenset[str] = frozenset()


_OF_QUEUES: Final = _Options(
    altering={"FORCE": "FORCE", "NOFORCE": "FORCE"},
    deleting=_IGNORING | {"PURGE": "PURGE", "NOPURGE": "PURGE", "AUTHREC": "AUTHREC"},
)
_OF_TOPICS: Final = _Options(
    defining=_DEFINING | {"TYPE": "TYPE"},
    altering={"TYPE": "TYPE"},
    showing={"ALL": "ALL", "WHERE": "WHERE"},
    kept=frozenset({"AUTHREC"}),
)
_OPTIONS: Final[Mapping[str, _Options]] = {
    **dict.fromkeys(vocabulary.KINDS, _OF_QUEUES),
    "TOPIC": _OF_TOPICS,
    "SUB": _OF_TOPICS,
    **dict.fromkeys(vocabulary.OBJECT_KINDS, _Options()),
    "CHANNEL": _Options(deleting=_IGNORING | {"CHLTABLE": "CHLTABLE"}),
}


_BY_NAME: Final[Mapping[tuple[str, str], tuple[Callable[..., commands.Action], str, str]]] = {
    # verb and noun: the function that builds its action, the options, and the words that are accepted without an effect
    ("START", "CHANNEL"): (connections.order_by_name, "", "CHLDISP CMDSCOPE IGNSTATE"),
    ("START", "LISTENER"): (connections.order_by_name, "", "CMDSCOPE IGNSTATE"),
    ("STOP", "LISTENER"): (connections.order_by_name, "", "CMDSCOPE IGNSTATE"),
    ("PING", "CHANNEL"): (connections.about_channel, "", "CHLDISP CMDSCOPE DATALEN"),
    ("PURGE", "CHANNEL"): (connections.about_channel, "", "CHLTYPE CLIENTID"),
    ("RESOLVE", "CHANNEL"): (connections.about_channel, "ACTION", "CHLDISP CMDSCOPE"),
    ("START", "SERVICE"): (connections.about_service, "", "CMDSCOPE IGNSTATE"),
    ("STOP", "SERVICE"): (connections.about_service, "", "CMDSCOPE IGNSTATE"),
    ("REFRESH", "CLUSTER"): (connections.about_cluster, "", "CMDSCOPE REPOS"),
    ("RESET", "CLUSTER"): (connections.about_cluster, "ACTION", "CMDSCOPE QMID QMNAME QUEUES"),
    ("RESUME", "QMGR"): (connections.about_cluster, "CLUSTER CLUSNL", "CMDSCOPE"),
    ("SUSPEND", "QMGR"): (connections.about_cluster, "CLUSTER CLUSNL MODE", "CMDSCOPE"),
}
"""The commands whose action has only their verb and a name."""


def _object_forms(noun: commands.ObjectNoun) -> dict[tuple[str, str], _Form]:
    options, shown = _OPTIONS[noun], _SHOWN[noun]
    settable = {word: spec for word, spec in shown.items() if word not in options.altering}
    if noun in vocabulary.QUEUE_TYPES:
        settable = {**vocabulary.QUEUES[vocabulary.QUEUE_TYPES[noun]]}
    unsupported = vocabulary.UNSUPPORTED_ATTRIBUTES["QUEUE" if noun in vocabulary.QUEUE_TYPES else noun]
    return {
        ("DEFINE", noun): _Form(partial(_define, noun), settable, options.defining, unsupported),
        ("ALTER", noun): _Form(partial(_alter, noun), settable, options.altering, unsupported),
        ("DELETE", noun): _Form(partial(_delete, noun), {}, options.deleting, unsupported | options.kept),
        ("DISPLAY", noun): _Form(partial(_display, noun), shown, options.showing, unsupported, asking=True),
    }


def _forms() -> dict[tuple[str, str], _Form]:
    of = vocabulary.UNSUPPORTED_ATTRIBUTES
    forms = {
        ("CLEAR", "QLOCAL"): _Form(lambda subject, _: commands.ClearCommand(name_of(subject)), {}, {}, of["QUEUE"]),
        ("CLEAR", "TOPICSTR"): _Form(build_clear, {}, {"CLRTYPE": "CLRTYPE", "SCOPE": "SCOPE"}, of["TOPIC"]),
        ("PING", "QMGR"): _Form(_ping, {}, {}, frozenset()),
        ("ALTER", "QMGR"): _Form(_alter_queue_manager, vocabulary.QUEUE_MANAGER, {"FORCE": "FORCE"}, of["QMGR"]),
        ("DISPLAY", "QMGR"): _Form(
            partial(_display_status_of, "QMGR"), vocabulary.QUEUE_MANAGER, {"ALL": "ALL"}, of["QMGR"], asking=True
        ),
        ("DISPLAY", "QSTATUS"): _Form(_display_status, _ANY_STATUS, _SHOWING, of["QSTATUS"], asking=True),
        ("DISPLAY", "QUEUE"): _Form(partial(_display, "QUEUE"), _ANY_QUEUE, _SHOWING, of["QUEUE"], asking=True),
        ("DISPLAY", "CONN"): _Form(_display_connections, _ANY_CONNECTION, _SHOWING, of["CONN"], asking=True),
        ("SET", "CHLAUTH"): _Form(connections.build_channel_rule, {}, connections.RULE_WORDS, connections.RULE_IGNORED),
        ("STOP", "CHANNEL"): _Form(connections.build_stop_channel, {}, connections.STOPPING, frozenset({"CMDSCOPE"})),
        ("RESET", "CHANNEL"): _Form(
            partial(connections.about_channel, "RESET CHANNEL"), connections.RESETTING, {}, frozenset({"CHLDISP", "CMDSCOPE"})
        ),
        ("REFRESH", "QMGR"): _Form(
            connections.build_refresh, {}, {"TYPE": "TYPE"}, frozenset({"CMDSCOPE", "INCLINT", "NAME", "OBJECT"})
        ),
        **{
            (verb, noun): _Form(
                partial(build, f"{verb} {noun}"), {}, {word: word for word in options.split()}, frozenset(ignored.split())
            )
            for (verb, noun), (build, options, ignored) in _BY_NAME.items()
        },
        ("SET", "AUTHREC"): _Form(authorities.build_set, {}, authorities.SETTING, _SERVICE),
        ("DELETE", "AUTHREC"): _Form(authorities.build_delete, {}, authorities.DELETING, _SERVICE),
        ("DISPLAY", "AUTHREC"): _Form(authorities.build_display, {}, authorities.SHOWING, _SERVICE),
        ("DISPLAY", "ENTAUTH"): _Form(authorities.build_display_entity, {}, authorities.SHOWING_ENTITY, _SERVICE),
        ("REFRESH", "SECURITY"): _Form(_refresh_security, {}, {"TYPE": "TYPE"}, frozenset()),
        **_status_forms(),
    }
    for noun in _SHOWN:
        if noun != "QUEUE":
            forms |= _object_forms(noun)
    return forms


def _status_forms() -> dict[tuple[str, str], _Form]:
    every = vocabulary.keyword_table(
        spec for noun in ("TPSTATUS", "TPSTATUS SUB", "TPSTATUS PUB") for spec in STATUSES[noun].specs
    )
    shown: tuple[commands.StatusNoun, ...] = (
        *("QMSTATUS", "PUBSUB", "LSSTATUS", "CHSTATUS", "SVSTATUS", "SBSTATUS"),
        *("CLUSQMGR", "QCLUSTER", "TCLUSTER", "COMMINFO", "POLICY"),
    )
    return {
        ("DISPLAY", "TPSTATUS"): _Form(
            _display_topic_status, every, _SHOWING, vocabulary.UNSUPPORTED_ATTRIBUTES["TPSTATUS"], asking=True
        ),
        ("DISPLAY", "APSTATUS"): _status_form("APSTATUS", _display_application_status),
        ("DISPLAY", "CHLAUTH"): _status_form("CHLAUTH", _display_channel_rules, "MATCH", *connections.ASKING),
        ("RESET", "QSTATS"): _Form(
            lambda subject, _: commands.DisplayStatusOf("QSTATS", pattern_of(subject), commands.Selection(everything=True)),
            {},
            {},
            frozenset({"CMDSCOPE"}),
        ),
        ("STOP", "CONN"): _Form(
            lambda subject, _: commands.StopConnection(single(subject).folded), {}, {}, frozenset({"EXTCONN"})
        ),
        **{("DISPLAY", noun): _status_form(noun, partial(_display_status_of, noun)) for noun in shown},
    }


def _status_form(noun: commands.StatusNoun, build: Build, *options: str) -> _Form:
    taken = _SHOWING | {word: word for word in options}
    unsupported = vocabulary.UNSUPPORTED_ATTRIBUTES.get(noun, frozenset())
    return _Form(build, vocabulary.keyword_table(STATUSES[noun].specs), taken, unsupported, asking=True)


_FORMS: Final = _forms()
