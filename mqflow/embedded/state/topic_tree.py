"""The tree of topics: a topic inherits attributes from the topic objects between its string and SYSTEM.BASE.TOPIC.

The code is pure, except that it remembers results. Source: IBM, DEFINE TOPIC (ASPARENT; WILDCARD).
"""

from collections.abc import Iterator, Mapping
from typing import Final, cast

from msgspec import Struct
from msgspec.structs import asdict, replace

from mqflow.embedded.catalogue.system_objects import BASE
from mqflow.mqi.attributes.topic import AS_PARENT, BASE_TOPIC, TopicAttributes

__all__ = ("TopicTree",)

_BLOCK: Final = 1
_REMEMBERED_MAX: Final = 10_000


class TopicTree:
    """Finds the topic objects and attributes of topic strings. `objects` is the queue manager's own dictionary."""

    __slots__ = ("_by_string", "_effective", "_objects")

    def __init__(self, objects: Mapping[str, Struct]) -> None:
        # The dictionary of kind `topic` has only this record type, but its declared type is the general `Struct`.
        self._objects = cast("Mapping[str, TopicAttributes]", objects)
        self._by_string: dict[str, TopicAttributes] = {}
        self._effective: dict[str, TopicAttributes] = {}
        self.changed()

    def changed(self) -> None:
        """Forget the results, because a topic object was defined, altered or deleted."""
        self._effective.clear()
        self._by_string = {found.topic_string: found for found in self._objects.values() if found.topic_string}

    def at(self, topic_string: str) -> TopicAttributes | None:
        """Return the topic object of exactly this topic string, or None."""
        return self._by_string.get(topic_string)

    def effective(self, topic_string: str) -> TopicAttributes:
        """Return the attributes of the topic with all ASPARENT values resolved. The name is that of the nearest object."""
        found = self._effective.get(topic_string)
        if found is None:
            if len(self._effective) >= _REMEMBERED_MAX:
                self._effective.clear()
            found = self._effective[topic_string] = self._resolved(topic_string)
        return found

    def names_above(self, topic_string: str) -> tuple[str, ...]:
        """Return the names of the topic objects from the topic up to SYSTEM.BASE.TOPIC."""
        return (*(found.name for found in self._path(topic_string)), BASE_TOPIC)

    def blocks_wildcards(self, topic_string: str, literal_levels: int) -> bool:
        """Return whether a topic object blocks this topic for a subscription with wildcards after `literal_levels` levels."""
        return any(
            found.wildcard == _BLOCK and len(found.topic_string.split("/")) > literal_levels
            for found in self._path(topic_string)
        )

    def _resolved(self, topic_string: str) -> TopicAttributes:
        path = [*self._path(topic_string), self._objects.get(BASE_TOPIC, BASE), BASE]
        records = [asdict(found) for found in path]
        inherited = {
            field: next(values[field] for values in records if values[field] != as_parent)
            for field, as_parent in AS_PARENT.items()
        }
        return replace(path[0], topic_string=topic_string, **inherited)

    def _path(self, topic_string: str) -> Iterator[TopicAttributes]:
        """Yield the topic objects from the topic string up to the first level."""
        while topic_string:
            if (found := self._by_string.get(topic_string)) is not None:
                yield found
            topic_string = topic_string.rpartition("/")[0]
