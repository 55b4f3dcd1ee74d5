"""What MQSC and PCF may ask about topics and subscriptions: records and a protocol, no rule."""

from collections.abc import Mapping
from typing import Any, Protocol

from msgspec import Struct

from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.subscription import SubscriptionAttributes

__all__ = ("SubscriptionStatus", "TopicAdministration", "TopicStatus")


class SubscriptionStatus(Struct, frozen=True, kw_only=True):
    """A subscription, and which connection holds it (DISPLAY SBSTATUS)."""

    attributes: SubscriptionAttributes
    #: 16 hexadecimal digits; empty where no application holds it.
    connection: str = ""


class TopicStatus(Struct, frozen=True, kw_only=True):
    """How a topic stands: what holds for it, nothing left to a parent (DISPLAY TPSTATUS)."""

    topic_string: str
    attributes: TopicAttributes
    #: Subscriptions to exactly this topic string.
    subscription_count: int
    retained: bool


class TopicAdministration(Protocol):
    """Topic objects, subscriptions and what is retained. Every refusal is an `MQIError` with MQ's reason."""

    def topics(self) -> tuple[TopicAttributes, ...]:
        """All topic objects, by name."""
        ...

    def define_topic(self, attributes: TopicAttributes, *, replace: bool = False) -> None:
        """Define a topic object; 2100 where the name is taken unless `replace`, 2425 where another has its topic string."""
        ...

    def alter_topic(self, name: str, changes: Mapping[str, Any]) -> None:
        """Change fields of a topic object; 2085 where there is none. Its topic string stays."""
        ...

    def delete_topic(self, name: str) -> None:
        """Delete a topic object; 2085 where there is none. Subscriptions to its topic stay."""
        ...

    def topic_statuses(self) -> tuple[TopicStatus, ...]:
        """How every topic stands that has an object, a subscription or something retained, by topic string."""
        ...

    def clear_retained(self, topic_string: str) -> None:
        """Forget what is retained on this topic (CLEAR TOPICSTR); 2085 where nothing is."""
        ...

    def subscriptions(self) -> tuple[SubscriptionStatus, ...]:
        """All subscriptions, by name."""
        ...

    def define_subscription(self, name: str, values: Mapping[str, Any], *, replace: bool = False) -> None:
        """Define an administrative subscription by values of the table; 2432 where the name is taken unless `replace`."""
        ...

    def alter_subscription(self, name: str, values: Mapping[str, Any]) -> None:
        """Change a subscription by values of the table; 2428 where there is none."""
        ...

    def delete_subscription(self, name: str) -> None:
        """Delete a subscription with its managed queue; 2428 where there is none, 2429 while an application holds it."""
        ...
