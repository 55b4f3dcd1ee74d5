"""DEFINE, ALTER, DELETE and DISPLAY of TOPIC and SUB, CLEAR TOPICSTR.

This file knows the words of these commands. The queue manager decides about publications.
Source: IBM, DEFINE TOPIC, DEFINE SUB, DISPLAY TOPIC and SUB, CLEAR TOPICSTR (Multiplatforms).
"""

from collections.abc import Callable, Mapping
from typing import Final, assert_never

from msgspec.structs import asdict

from mqflow.embedded.administration.interface import TopicAdministration
from mqflow.embedded.mqsc.clauses import Clause, Parameters, bare, choice, name_of, pattern_of, single
from mqflow.embedded.mqsc.commands import (
    ClearTopic,
    DefineOfTopics,
    DeleteOfTopics,
    DisplayOfTopics,
    Selection,
    TopicAct,
    TopicNoun,
    Value,
)
from mqflow.embedded.mqsc.display import Record, laid_out, matches
from mqflow.embedded.mqsc.lexer import RefusedError
from mqflow.embedded.mqsc.vocabulary import Attributes, keyword_table
from mqflow.mqi.attributes.queue import AttributeSpec
from mqflow.mqi.attributes.subscription import SUBSCRIPTION_ATTRIBUTES, row_of
from mqflow.mqi.attributes.topic import TOPIC_ATTRIBUTES, TopicAttributes
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import PRIORITY_AS_PUBLISHED, SubscriptionAttributes

__all__ = (
    "CLEARING",
    "DEFINING",
    "DELETING",
    "NOUNS",
    "SHOWING",
    "UNSUPPORTED",
    "build_clear",
    "build_define",
    "build_delete",
    "build_display",
    "change_topics",
    "like_subscription",
    "show_topics",
)

Select = Callable[..., Selection]

_TYPE: Final = AttributeSpec("type", "TYPE", 0, chars=8, read_only=True)
NOUNS: Final[dict[TopicNoun, Attributes]] = {
    "TOPIC": keyword_table((*TOPIC_ATTRIBUTES, _TYPE)),
    "SUB": keyword_table(SUBSCRIPTION_ATTRIBUTES),
}
"""The attributes that DISPLAY takes, by noun."""
UNSUPPORTED: Final = frozenset(
    ("MCAST", "COMMINFO", "CLROUTE", "CAPEXPRY", "CMDSCOPE", "QSGDISP", "OTELTRAC", "OTELPCTL", "PSPROP", "PUBACCT", "CLUSINFO")
)
DEFINING: Final = {"REPLACE": "REPLACE", "NOREPLACE": "REPLACE", "LIKE": "LIKE", "TYPE": "TYPE"}
DELETING: Final = {"IGNSTATE": "IGNSTATE"}
SHOWING: Final = {word: word for word in ("ALL", "WHERE")}
CLEARING: Final = {"CLRTYPE": "CLRTYPE", "SCOPE": "SCOPE"}
# DEFINE SUB REPLACE resets these attributes if it does not name them. It must name all other attributes, or cannot alter them.
_REPLACED: Final = {
    "user_data": "",
    "priority": PRIORITY_AS_PUBLISHED,
    "expiry_tenths": -1,
    "application_identity_data": "",
    "user_may_vary": 1,
    "correlation_id": "",
}
_HEADINGS: Final[dict[TopicNoun, str]] = {
    "TOPIC": "AMQ8633: Topic details.",
    "SUB": "AMQ8096: Subscription details.",
}


def build_define(verb: str, noun: TopicNoun, subject: Clause, parameters: Parameters) -> DefineOfTopics:
    """Return the action of a DEFINE or ALTER command for a topic or subscription."""
    options = parameters.options
    for word in options.keys() - {"LIKE", "TYPE"}:
        bare(options[word])
    if "TYPE" in options:
        choice(options, "TYPE", ("LOCAL",))
    name = name_of(subject) if noun == "TOPIC" else single(subject).folded
    like = single(options["LIKE"]).folded if "LIKE" in options else ""
    return DefineOfTopics(noun, name, parameters.values, like, "REPLACE" in options, alters=verb == "ALTER")


def build_delete(noun: TopicNoun, subject: Clause, parameters: Parameters) -> DeleteOfTopics:
    """Return the action of a DELETE command for a topic or subscription."""
    name = name_of(subject) if noun == "TOPIC" else single(subject).folded
    return DeleteOfTopics(noun, name, choice(parameters.options, "IGNSTATE", ("NO", "YES")) == "YES")


def build_clear(_noun: str, subject: Clause, parameters: Parameters) -> ClearTopic:
    """Return the action of a CLEAR TOPICSTR command."""
    if "CLRTYPE" not in parameters.options:
        raise RefusedError(subject.keyword, "CLEAR TOPICSTR needs CLRTYPE(RETAINED).")
    choice(parameters.options, "CLRTYPE", ("RETAINED",))
    choice(parameters.options, "SCOPE", ("LOCAL", "ALL"))
    return ClearTopic(single(subject).folded)


def build_display(select: Select, noun: TopicNoun, subject: Clause, parameters: Parameters) -> DisplayOfTopics:
    """Return the action of a DISPLAY command."""
    pattern = pattern_of(subject) if noun == "TOPIC" else single(subject).folded
    return DisplayOfTopics(noun, pattern, select(parameters, NOUNS[noun], everything=not pattern.endswith(("*", "#"))))


def change_topics(action: TopicAct, topics: TopicAdministration) -> str:
    """Carry the action out, and return the sentence that confirms it."""
    match action:
        case DefineOfTopics(noun="TOPIC"):
            return _define_topic(action, topics)
        case DefineOfTopics():
            return _define_subscription(action, topics)
        case DeleteOfTopics(noun, name, ignore_state):
            if ignore_state and name not in _names(noun, topics):
                return f"There is no {noun}({name}) to delete, which is no error with IGNSTATE(YES)."
            if noun == "TOPIC":
                topics.delete_topic(name)
                return f"AMQ8692: Topic {name} is deleted."
            topics.delete_subscription(name)
            return f"AMQ8095: Subscription {name} is deleted."
        case ClearTopic(topic_string):
            topics.clear_retained(topic_string)
            return f"AMQ8805: The retained publication on topic {topic_string} is cleared."
        case unknown:
            assert_never(unknown)


def show_topics(command: DisplayOfTopics, topics: TopicAdministration) -> tuple[Record, ...]:
    """Return the topics or subscriptions that the command asks for."""
    noun, pattern = command.noun, command.pattern
    match noun:
        case "TOPIC":
            rows = [asdict(found) | {"type": "LOCAL"} for found in topics.topics() if matches(pattern, found.name)]
            first = ("TOPIC", "TYPE")
        case "SUB":
            rows = [row_of(found.attributes) for found in topics.subscriptions() if matches(pattern, found.attributes.name)]
            first = ("SUB", "SUBID")
        case unknown:
            assert_never(unknown)
    return tuple(laid_out(_HEADINGS[noun], rows, NOUNS[noun], first, command.selection))


def _define_topic(action: DefineOfTopics, topics: TopicAdministration) -> str:
    if action.alters:
        topics.alter_topic(action.name, action.values)
        return f"AMQ8691: Topic {action.name} is changed."
    known = {found.name: found for found in topics.topics()}
    if action.like and action.like not in known:
        raise error_for(Reason.UNKNOWN_OBJECT_NAME, "DEFINE TOPIC LIKE", action.like)
    default = known.get(action.like or "SYSTEM.DEFAULT.TOPIC", TopicAttributes(name=""))
    # getattr: the table names the fields of the record.
    settings = {spec.field: getattr(default, spec.field) for spec in TOPIC_ATTRIBUTES if not spec.read_only}
    if action.replace and action.name in known:
        settings["topic_string"] = known[action.name].topic_string
    elif not action.like:
        settings["topic_string"] = ""
    topics.define_topic(TopicAttributes(name=action.name, **{**settings, **action.values}), replace=action.replace)
    return f"AMQ8690: Topic {action.name} is defined."


def _define_subscription(action: DefineOfTopics, topics: TopicAdministration) -> str:
    if action.alters:
        topics.alter_subscription(action.name, action.values)
        return f"AMQ8098: Subscription {action.name} is changed."
    values = {**_REPLACED, **action.values} if action.replace else dict(action.values)
    if action.like:
        known = {found.attributes.name: found.attributes for found in topics.subscriptions()}
        if action.like not in known:
            raise error_for(Reason.NO_SUBSCRIPTION, "DEFINE SUB LIKE", action.like)
        values = like_subscription(known[action.like], action.values)
    topics.define_subscription(action.name, values, replace=action.replace)
    return f"AMQ8094: Subscription {action.name} is defined."


def like_subscription(like: SubscriptionAttributes, given: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values of a new subscription: the `given` values, and the values of `like` for all other fields.

    The new subscription has the topic of `like`. It copies the whole topic string, and therefore no topic object.
    If `given` has a topic object, the new subscription copies no topic string either.
    """
    row = row_of(like)
    copied = {spec.field: row[spec.field] for spec in SUBSCRIPTION_ATTRIBUTES if not spec.read_only}
    copied["topic_object"] = ""
    if "topic_object" in given:
        copied["topic_string"] = ""
    return {**copied, **given}


def _names(noun: TopicNoun, topics: TopicAdministration) -> set[str]:
    if noun == "TOPIC":
        return {found.name for found in topics.topics()}
    return {found.attributes.name for found in topics.subscriptions()}
