"""Retained publications: a commit keeps the last publication on each topic, and a new subscriber gets it.

A persistent retained publication survives a restart. CLEAR TOPICSTR is a commit too, so that memory and store process it and
publications in the same order. Only this file writes the objects of kind `retained`. Callers hold the
queue manager's lock.
"""

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from mqflow.embedded.state.objects import Subscription
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.stored_objects import defined, deleted
from mqflow.embedded.storage.store import Change
from mqflow.mqi.options import Persistence
from mqflow.mqi.subscription import RetainedPublication

__all__ = ("keep_retained", "retained_changes", "retained_for")

_Retained = Mapping[str, RetainedPublication | None]

_TENTHS: int = 10


def retained_changes(state: QueueManagerState, retained: _Retained, *, is_alone: bool) -> list[Change]:
    """Return the changes for the store. Forget the expired publications on these topics.

    With `is_alone`, the unit of work has no other changes for the store.
    """
    changes: list[Change] = []
    kept, now = _kept(state), state.clock.wall()
    for topic, publication in retained.items():
        before = kept.get(topic)
        if publication is not None and _persistent(publication):
            changes.append(defined(topic, publication))
        elif not is_alone or (before is not None and _persistent(before)):
            # Without this change, a restart would bring back an older publication. If the unit of work has other changes, its
            # commit takes effect after earlier commits, which can still store an older publication.
            changes.append(deleted(topic, RetainedPublication))
        if before is not None and before.expires_at is not None and before.expires_at <= now:
            # Otherwise a new subscription could find it before the store answers, and delete the publication stored after it.
            del kept[topic]
    return changes


def keep_retained(state: QueueManagerState, retained: _Retained) -> None:
    """Make these publications the retained publications of their topics. None removes the publication of a topic."""
    kept = _kept(state)
    for topic, publication in retained.items():
        if publication is None:
            kept.pop(topic, None)
        else:
            kept[topic] = publication


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
            del _kept(state)[topic]
            if _persistent(publication):
                state.store.write((deleted(topic, RetainedPublication),), None)


def _kept(state: QueueManagerState) -> dict[str, RetainedPublication]:
    return state.objects["retained"]  # type: ignore[return-value]  # this kind has only these records, as in `object_records.records`


def _persistent(publication: RetainedPublication) -> bool:
    return publication.descriptor.persistence == Persistence.PERSISTENT
