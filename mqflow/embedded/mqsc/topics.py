"""DEFINE, ALTER, DELETE and DISPLAY of TOPIC and SUB, and CLEAR TOPICSTR.

This file knows the words of these commands. The queue manager decides about publications.
Source: IBM, DEFINE TOPIC, DEFINE SUB, DISPLAY TOPIC and SUB, CLEAR TOPICSTR (Multiplatforms).
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import asdict

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.mqsc.clauses import Clause, Parameters, choice, single
from mqflow.embedded.mqsc.commands import ClearTopic, DefineCommand, DisplayCommand, Value
from mqflow.embedded.mqsc.display import Record, laid_out, matches
from mqflow.embedded.mqsc.lexer import RefusedError
from mqflow.embedded.mqsc.vocabulary import SUBSCRIPTIONS, TOPICS
from mqflow.mqi.attributes.subscription import SUBSCRIPTION_ATTRIBUTES, row_of
from mqflow.mqi.attributes.topic import TOPIC_ATTRIBUTES, TopicAttributes
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.subscription import PRIORITY_AS_PUBLISHED, SubscriptionAttributes

__all__ = ("build_clear", "define_subscription", "define_topic", "show_subscriptions", "show_topics")

# DEFINE SUB REPLACE resets these attributes if the command leaves them out. It does not reset any other attribute.
_REPLACED: Final = {
    "user_data": "",
    "priority": PRIORITY_AS_PUBLISHED,
    "expiry_tenths": -1,
    "application_identity_data": "",
    "user_may_vary": 1,
    "correlation_id": "",
}


def build_clear(subject: Clause, parameters: Parameters) -> ClearTopic:
    """Return the action of a CLEAR TOPICSTR command."""
    if "CLRTYPE" not in parameters.options:
        raise RefusedError(subject.keyword, "CLEAR TOPICSTR needs CLRTYPE(RETAINED).")
    choice(parameters.options, "CLRTYPE", ("RETAINED",))
    choice(parameters.options, "SCOPE", ("LOCAL", "ALL"))
    return ClearTopic(single(subject).folded)


def define_topic(action: DefineCommand, administration: Administration) -> None:
    """Carry out DEFINE TOPIC."""
    topics = administration.publishing
    known = {found.name: found for found in topics.topics()}
    if action.like and action.like not in known:
        raise error_for(Reason.UNKNOWN_OBJECT_NAME, "DEFINE TOPIC LIKE", action.like)
    default = known.get(action.like or "SYSTEM.DEFAULT.TOPIC", TopicAttributes(name=""))
    # getattr: the field names come from the table.
    settings = {spec.field: getattr(default, spec.field) for spec in TOPIC_ATTRIBUTES if not spec.read_only}
    if action.replace and action.name in known:
        settings["topic_string"] = known[action.name].topic_string
    elif not action.like:
        settings["topic_string"] = ""
    topics.define_topic(TopicAttributes(name=action.name, **{**settings, **action.values}), replace=action.replace)


def show_topics(command: DisplayCommand, administration: Administration) -> tuple[Record, ...]:
    """Return the topic objects that the command selects."""
    topics = administration.publishing.topics()
    rows = [asdict(found) | {"type": "LOCAL"} for found in topics if matches(command.pattern, found.name)]
    return tuple(laid_out("AMQ8633: Topic details.", rows, TOPICS, ("TOPIC", "TYPE"), command.selection))


def define_subscription(action: DefineCommand, administration: Administration) -> None:
    """Carry out DEFINE SUB."""
    values = {**_REPLACED, **action.values} if action.replace else action.values
    if action.like:
        known = {found.attributes.name: found.attributes for found in administration.publishing.subscriptions()}
        if action.like not in known:
            raise error_for(Reason.NO_SUBSCRIPTION, "DEFINE SUB LIKE", action.like)
        values = _like(known[action.like], action.values)
    administration.publishing.define_subscription(action.name, values, replace=action.replace)


def show_subscriptions(command: DisplayCommand, administration: Administration) -> tuple[Record, ...]:
    """Return the subscriptions that the command selects."""
    found = (status.attributes for status in administration.publishing.subscriptions())
    rows = [row_of(attributes) for attributes in found if matches(command.pattern, attributes.name)]
    return tuple(laid_out("AMQ8096: Subscription details.", rows, SUBSCRIPTIONS, ("SUB", "SUBID"), command.selection))


def _like(like: SubscriptionAttributes, given: Mapping[str, Value]) -> dict[str, Value]:
    """Return the values of a new subscription: the `given` values, and the values of `like` for all other fields.

    The new subscription copies the full topic string of `like`, and therefore no topic object. If `given` has a topic object,
    the new subscription does not copy the topic string either.
    """
    row = row_of(like)
    copied = {spec.field: row[spec.field] for spec in SUBSCRIPTION_ATTRIBUTES if not spec.read_only}
    copied["topic_object"] = ""
    if "topic_object" in given:
        copied["topic_string"] = ""
    if like.managed:  # each managed subscription has a queue of its own
        del copied["destination"]
    return {**copied, **given}
