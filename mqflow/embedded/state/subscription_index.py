"""The subscriptions of a queue manager, by name, by identifier, and by the topics that they match.

This file only keeps the index. `calls/subscribe.py` decides when a subscription is added or removed.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from mqflow.embedded.state.objects import Subscription
from mqflow.mqi.subscription import SubscriptionAttributes

__all__ = ("Subscriptions",)

_REMEMBERED_MAX: Final = 10_000


class Subscriptions:
    """All subscriptions. The matches of a topic are remembered until any subscription is added or removed."""

    __slots__ = ("_by_identifier", "_by_name", "_of_topic")

    def __init__(self, known: Iterable[SubscriptionAttributes]) -> None:
        self._by_name = {attributes.name: Subscription(attributes) for attributes in known}
        self._by_identifier = {found.attributes.identifier: found for found in self._by_name.values()}
        self._of_topic: dict[str, tuple[Subscription, ...]] = {}

    def __iter__(self) -> Iterator[Subscription]:
        return iter(tuple(self._by_name.values()))

    def get(self, name: str) -> Subscription | None:
        """Return the subscription with this name, or None."""
        return self._by_name.get(name)

    def by_identifier(self, identifier: bytes) -> Subscription | None:
        """Return the subscription with this identifier (SUBID), or None."""
        return self._by_identifier.get(identifier)

    def add(self, subscription: Subscription) -> None:
        """Add the subscription, which then gets publications."""
        self._by_name[subscription.attributes.name] = subscription
        self._by_identifier[subscription.attributes.identifier] = subscription
        self._of_topic.clear()

    def discard(self, subscription: Subscription) -> None:
        """Remove the subscription if it is present."""
        if self._by_name.get(subscription.attributes.name) is subscription:
            del self._by_name[subscription.attributes.name]
            self._by_identifier.pop(subscription.attributes.identifier, None)
            self._of_topic.clear()

    def of_topic(self, topic: str) -> tuple[Subscription, ...]:
        """Return the subscriptions that match this topic, in the order of their creation."""
        found = self._of_topic.get(topic)
        if found is None:
            if len(self._of_topic) >= _REMEMBERED_MAX:
                self._of_topic.clear()
            found = tuple(subscription for subscription in self._by_name.values() if subscription.matches(topic))
            self._of_topic[topic] = found
        return found
