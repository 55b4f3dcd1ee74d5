"""The administration of authority records: SET AUTHREC, DELETE AUTHREC and the commands that show records.

Source: IBM, SET AUTHREC, DELETE AUTHREC, DISPLAY ENTAUTH; Set Authority Record ("if you specify an explicit profile name, the
object must exist").
"""

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from mqflow.embedded.calls.authority_records import change_authorities, stored_name
from mqflow.embedded.calls.object_records import records
from mqflow.embedded.calls.pending_answer import Pending, carry_out
from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.access import ADMINISTRATORS, whole
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.embedded.state.users import USER_CHARS
from mqflow.mqi.attributes.topic import TopicAttributes
from mqflow.mqi.authorities import ADMINISTRATION, CLASS_PROFILE, MQI, QUEUE_MANAGER_PROFILE, Authority, AuthorityKind
from mqflow.mqi.authority_records import AuthorityRecord, granted, is_generic, is_profile
from mqflow.mqi.reason_codes import Reason

__all__ = ("AuthorityDefinitions",)

_GROUP_CHARS: Final = 64
_THE_ADMINISTRATORS: Final = AuthorityRecord(
    kind=AuthorityKind.QMGR,
    profile=QUEUE_MANAGER_PROFILE,
    entity=ADMINISTRATORS,
    group=True,
    authorities=MQI[AuthorityKind.QMGR] | ADMINISTRATION[AuthorityKind.QMGR],
)


class AuthorityDefinitions:
    """`AuthorityAdministration` of one queue manager."""

    def __init__(self, state: QueueManagerState) -> None:
        self._state = state

    def records(self) -> tuple[AuthorityRecord, ...]:
        """Return all records, sorted by kind of object, profile and entity."""
        with self._state.lock:
            return tuple(sorted(records(self._state, AuthorityRecord).values(), key=lambda record: record.key))

    def held(self, kind: AuthorityKind, name: str, entity: str, *, group: bool) -> frozenset[Authority]:
        """Return the authorities on an object: those of a user and its groups or, with `group`, those of one group."""
        state = self._state
        with state.lock:
            if not group:
                return state.authorities.held(entity, kind, name)
            if entity == ADMINISTRATORS or not state.authorities.checked:
                return whole(kind)
            own = [each for each in records(state, AuthorityRecord).values() if each.group and each.entity == entity]
            return granted(own, kind, name, user="", groups=(entity,))

    def set(
        self,
        kind: AuthorityKind,
        profile: str,
        entity: str,
        *,
        group: bool,
        add: Iterable[Authority],
        remove: Iterable[Authority],
    ) -> None:
        """Add the authorities `add` to a record, then remove the authorities `remove`. Create the record if none exists.

        Raises 2085 if the profile is a name that no object has. The first record of a queue manager turns the authority checks
        on, and the queue manager then also adds the record of the administrators.
        """
        wanted = AuthorityRecord(kind=kind, profile=profile, entity=entity, group=group)
        carry_out(self._state, "SET AUTHREC", profile, lambda: self._set(wanted, frozenset(add), frozenset(remove)))

    def delete(self, kind: AuthorityKind, profile: str, entity: str, *, group: bool) -> None:
        """Delete a record. Raises 2085 if there is no such record."""
        unwanted = AuthorityRecord(kind=kind, profile=profile, entity=entity, group=group)
        carry_out(self._state, "DELETE AUTHREC", profile, lambda: self._delete(unwanted))

    def refresh(self) -> None:
        """Forget the groups of all users: the next authority check of a user asks the operating system for its groups."""
        with self._state.lock:
            self._state.authorities.refresh()

    def _set(self, wanted: AuthorityRecord, add: frozenset[Authority], remove: frozenset[Authority]) -> Pending[None]:
        state = self._state
        wanted = _checked(state, wanted, add)
        kept = records(state, AuthorityRecord)
        before = kept.get(stored_name(wanted), wanted)
        changed: dict[str, AuthorityRecord | None] = {}
        if not kept:
            changed[stored_name(_THE_ADMINISTRATORS)] = _THE_ADMINISTRATORS
        changed[stored_name(wanted)] = replace(before, authorities=(before.authorities | add) - remove)
        return change_authorities(state, changed)

    def _delete(self, unwanted: AuthorityRecord) -> Pending[None]:
        unwanted = _named(self._state, unwanted)
        if stored_name(unwanted) not in records(self._state, AuthorityRecord):
            raise Refusal(Reason.UNKNOWN_OBJECT_NAME, f"There is no authority record {stored_name(unwanted)}")
        return change_authorities(self._state, {stored_name(unwanted): None})


def _named(state: QueueManagerState, record: AuthorityRecord) -> AuthorityRecord:
    if record.kind is not AuthorityKind.QMGR:
        return record
    if record.profile not in {"", QUEUE_MANAGER_PROFILE, state.name}:
        raise Refusal(Reason.UNKNOWN_OBJECT_NAME, f"This queue manager is {state.name}; leave PROFILE out with OBJTYPE(QMGR)")
    return replace(record, profile=QUEUE_MANAGER_PROFILE)


def _checked(state: QueueManagerState, record: AuthorityRecord, add: frozenset[Authority]) -> AuthorityRecord:
    """Return the record with its stored profile.

    Refuses a wrong profile with 2085 or 2152, a wrong entity with 2292, and a wrong use of CRT with 2046.
    """
    record = _named(state, record)
    kind, profile = record.kind, record.profile
    longest = _GROUP_CHARS if record.group else USER_CHARS
    if not 0 < len(record.entity) <= longest:
        entity = "group" if record.group else "user (a principal)"
        raise Refusal(Reason.UNKNOWN_ENTITY, f"{record.entity!r}: a {entity} has 1 to {longest} characters")
    if not is_profile(profile):
        raise Refusal(Reason.OBJECT_NAME_ERROR, f"{profile!r} is neither a name nor a generic name")
    if add - {Authority.CRT} if profile == CLASS_PROFILE else Authority.CRT in add:
        raise Refusal(Reason.OPTIONS_ERROR, f"CRT, and nothing else, is given on PROFILE('{CLASS_PROFILE}')")
    named = None if is_generic(profile) or profile == CLASS_PROFILE else profile
    if named is not None and not _exists(state, kind, named):
        raise Refusal(
            Reason.UNKNOWN_OBJECT_NAME,
            f"There is no {kind.lower()} {named} yet: only a generic profile can apply to later objects",
        )
    return record


def _exists(state: QueueManagerState, kind: AuthorityKind, name: str) -> bool:
    """True if the object exists. Only queues and topics are looked up; an object of another kind counts as existing."""
    if kind is AuthorityKind.QUEUE:
        return name in state.queues
    return name in records(state, TopicAttributes) if kind is AuthorityKind.TOPIC else True
