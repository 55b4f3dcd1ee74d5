"""Retained publications: a commit keeps the last publication on each topic, and a new subscriber gets it.

A persistent retained publication survives a restart. Only this file writes the objects of kind `retained`. Callers hold the
queue manager's lock.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from mqflow.embedded.state.objects import Subscription
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.stored_objects import defined, deleted
from mqflow.embedded.storage.store import Change
from mqflow.mqi.options import Persistence
from mqflow.mqi.subscription import RetainedPublication

__all__ = ("clear_retained", "keep_retained", "retained_changes", "retained_for")

_TENTHS: int = 10


def retained_changes(state: QueueManagerState, publications: Sequence[RetainedPublication]) -> list[Change]:
    """Return the changes for the store: the last publication on each topic. Forget the expired publications on these topics."""
    changes: list[Change] = []
    kept, now = _kept(state), state.clock.wall()
    for topic, publication in {publication.topic_string: publication for publication in publications}.items():
        before = kept.get(topic)
        if _persistent(publication):
            changes.append(defined(topic, publication))
        elif before is not None and _persistent(before):
            # Without this change, a restart would bring back the older publication.
            changes.append(deleted(topic, RetainedPublication))
        if before is not None and before.expires_at is not None and before.expires_at <= now:
            # Otherwise a new subscription could find it before the store answers, and delete the publication stored after it.
            del kept[topic]
    return changes


def keep_retained(state: QueueManagerState, publications: Sequence[RetainedPublication]) -> None:
    """Make these publications the retained publications of their topics."""
    kept = _kept(state)
    for publication in publications:
        kept[publication.topic_string] = publication


def clear_retained(state: QueueManagerState, topic: str) -> list[Change]:
    """Remove the retained publication of the topic, in memory. Return the changes for the store."""
    before = _kept(state).pop(topic, None)
    return [deleted(topic, RetainedPublication)] if before is not None and _persistent(before) else []


def retained_for(state: QueueManagerState, subscription: Subscription) -> Iterator[RetainedPublication]:
    """Yield the retained publications on the topics of the subscription, with their remaining expiry."""
    now = state.clock.wall()
    for topic, publication in tuple(_kept(state).items()):
        if not subscription.matches(topic):
            continue
        if publication.expires_at is None:
            yield publication
        elif publication.expires_at > now:
            left = max(1, int((publication.expires_at - now) * _TENTHS))
            yield replace(publication, descriptor=replace(publication.descriptor, expiry_tenths=left))
        else:
            state.store.write(clear_retained(state, topic), None)


def _kept(state: QueueManagerState) -> dict[str, RetainedPublication]:
    return state.objects["retained"]  # type: ignore[return-value]  # this kind has only these records, as in `object_records.records`


def _persistent(publication: RetainedPublication) -> bool:
    return publication.descriptor.persistence == Persistence.PERSISTENT
