"""The subscriptions of a queue manager, by name and by what they match; and the handles that hold them.

State and look-ups only; the steps that change it are in `subscribing` and `publishing`.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from mqflow.mqi.options import SubscribeOption
from mqflow.mqi.selectors.selector import Selector, compile_selector
from mqflow.mqi.subscription import SubscriptionAttributes
from mqflow.mqi.topic_strings import Scheme, has_wildcards, matches

if TYPE_CHECKING:  # a handle remembers them; what they are is not its business
    from mqflow.embedded.connection import EmbeddedConnection
    from mqflow.embedded.state.handle import EmbeddedHandle

__all__ = ("EmbeddedSubscriptionHandle", "Subscription", "Subscriptions")

_REMEMBERED_MAX: Final = 10_000


class Subscription:
    """One subscription, durable or not. `attributes` changes when it is altered."""

    __slots__ = ("attributes", "holder", "scheme", "selector", "wild")

    def __init__(self, attributes: SubscriptionAttributes) -> None:
        self.attributes = attributes
        self.scheme = Scheme.CHARACTER if attributes.options & SubscribeOption.WILDCARD_CHAR else Scheme.TOPIC
        self.wild = has_wildcards(attributes.topic_string, self.scheme)
        self.selector: Selector | None = compile_selector(attributes.selection) if attributes.selection else None
        #: The handle by which an application holds it; None for one that waits for its application.
        self.holder: EmbeddedSubscriptionHandle | None = None

    def matches(self, topic: str) -> bool:
        """Return whether a publication on this topic is for it."""
        return matches(self.attributes.topic_string, self.scheme, topic)


class EmbeddedSubscriptionHandle:
    """Hsub. `queue` is the handle MQSUB opened on a managed queue."""

    __slots__ = ("connection", "open", "queue", "subscription")

    def __init__(self, connection: "EmbeddedConnection", subscription: Subscription) -> None:
        self.connection = connection
        self.subscription = subscription
        self.open = True
        self.queue: EmbeddedHandle | None = None

    @property
    def name(self) -> str:
        """SubName, or the identifier of one without."""
        return self.subscription.attributes.name


class Subscriptions:
    """All of them. Which ones a topic has is remembered until one comes, changes or goes."""

    __slots__ = ("_by_identifier", "_by_name", "_of_topic")

    def __init__(self, known: Iterable[SubscriptionAttributes]) -> None:
        self._by_name = {attributes.name: Subscription(attributes) for attributes in known}
        self._by_identifier = {found.attributes.identifier: found for found in self._by_name.values()}
        self._of_topic: dict[str, tuple[Subscription, ...]] = {}

    def __iter__(self) -> Iterator[Subscription]:
        return iter(tuple(self._by_name.values()))

    def get(self, name: str) -> Subscription | None:
        """Return the subscription of that name, or None."""
        return self._by_name.get(name)

    def by_identifier(self, identifier: bytes) -> Subscription | None:
        """Return the subscription with that identifier (SUBID), or None."""
        return self._by_identifier.get(identifier)

    def add(self, subscription: Subscription) -> None:
        """Enter it; from now on publications are for it."""
        self._by_name[subscription.attributes.name] = subscription
        self._by_identifier[subscription.attributes.identifier] = subscription
        self._of_topic.clear()

    def discard(self, subscription: Subscription) -> None:
        """Take it out, where it is in."""
        if self._by_name.get(subscription.attributes.name) is subscription:
            del self._by_name[subscription.attributes.name]
            self._by_identifier.pop(subscription.attributes.identifier, None)
            self._of_topic.clear()

    def of_topic(self, topic: str) -> tuple[Subscription, ...]:
        """Return those that publications on this topic are for, in the order in which they were made."""
        found = self._of_topic.get(topic)
        if found is None:
            if len(self._of_topic) >= _REMEMBERED_MAX:
                self._of_topic.clear()
            found = tuple(subscription for subscription in self._by_name.values() if subscription.matches(topic))
            self._of_topic[topic] = found
        return found
