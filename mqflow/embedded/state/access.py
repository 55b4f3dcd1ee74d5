"""Whether a user may: the authority records of this queue manager, asked before MQCONN, MQOPEN, MQPUT1 and MQCLOSE do anything.

Nothing is checked until there is a first record. Administrators, who may do everything, are the user that runs the queue
manager and the group mqm. Called under the machine's lock; which authorities a call needs, and what records come to, is in
`mqflow.mqi`. Source: IBM, "Authorizations for MQI calls", "Principals and groups"; rc2035.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.users import Users
from mqflow.mqi.authorities import ADMINISTRATION, MQI, QUEUE_MANAGER_PROFILE, Authority, Kind, Need
from mqflow.mqi.authority_records import AuthorityRecord, best_record, granted
from mqflow.mqi.reason_codes import Reason

__all__ = ("ADMINISTRATORS", "Authorities", "whole")

ADMINISTRATORS: Final = "mqm"
"""The group whose members may do everything; a user of that name is in it."""


#: Names come and go, those of dynamic queues for ever new ones.
_REMEMBERED_MAX: Final = 10_000


def whole(kind: Kind) -> frozenset[Authority]:
    """Return everything there is to allow on a kind of object."""
    return MQI[kind] | ADMINISTRATION[kind] | {Authority.CRT}


class Authorities:
    """Of one queue manager."""

    def __init__(self, records: Mapping[str, AuthorityRecord], users: Users) -> None:
        #: The stored records: whoever changes them calls `forget`.
        self._records = records
        self._users = users
        #: Temporary dynamic queues and who made them: they are theirs alone, and no record outlives them.
        self.creators: dict[str, str] = {}
        self._groups: dict[str, frozenset[str]] = {}
        self._held: dict[tuple[str, Kind, str], frozenset[Authority]] = {}

    @property
    def owner(self) -> str:
        """The user that runs the queue manager."""
        return self._users.owner

    @property
    def checked(self) -> bool:
        """Whether anything is checked at all: there is a record."""
        return bool(self._records)

    def check(self, user: str, needs: Iterable[Need], alternate_user: str | None = None) -> None:
        """Refuse with 2035 where the user, or the alternate user that the call names, lacks an authority.

        What is lacking is named, with the command that would give it.
        """
        if not self._records:
            return
        lacking: dict[tuple[str, Kind, str], list[Authority]] = {}
        for need in needs:
            asked = user if need.own or alternate_user is None else alternate_user
            name = need.name or QUEUE_MANAGER_PROFILE
            if need.authority not in self.held(asked, need.kind, name):
                lacking.setdefault((asked, need.kind, name), []).append(need.authority)
        if lacking:
            raise Refusal(Reason.NOT_AUTHORIZED, ". ".join(self._said(*where, words) for where, words in lacking.items()))

    def held(self, user: str, kind: Kind, name: str) -> frozenset[Authority]:
        """Return what the user may do with the object; everything for administrators and while nothing is checked."""
        key = (user, kind, name)
        found = self._held.get(key)
        if found is None:
            if len(self._held) >= _REMEMBERED_MAX:
                self._held.clear()
            found = self._held[key] = self._look_up(user, kind, name)
        if kind is Kind.QUEUE and self.creators.get(name) == user:
            return whole(kind)
        return found

    def administers(self, user: str) -> bool:
        """Return whether the user may do everything."""
        return not self._records or user in {self._users.owner, ADMINISTRATORS} or ADMINISTRATORS in self.groups_of(user)

    def groups_of(self, user: str) -> frozenset[str]:
        """Return the user's groups, as they are remembered until `refresh` at the latest."""
        found = self._groups.get(user)
        if found is None:
            if len(self._groups) >= _REMEMBERED_MAX:
                self._groups.clear()
            found = self._groups[user] = self._users.groups(user)
        return found

    def forget(self) -> None:
        """Look the records up again from now on."""
        self._held.clear()

    def refresh(self) -> None:
        """Ask again who is in which group (REFRESH SECURITY)."""
        self._groups.clear()
        self._held.clear()

    def _look_up(self, user: str, kind: Kind, name: str) -> frozenset[Authority]:
        if self.administers(user):
            return whole(kind)
        return granted(self._records.values(), kind, name, user=user, groups=self.groups_of(user))

    def _said(self, user: str, kind: Kind, name: str, lacking: list[Authority]) -> str:
        words = " and ".join(lacking)
        where = f"{kind.lower()} {name}" if kind is not Kind.QMGR else "the queue manager"
        if not user:
            return f"The call names no alternate user, and nobody in particular has {words} on {where}"
        # Not a record of the very name where a generic one counts: that would take away what the generic one gives.
        best = best_record(self._records.values(), kind, name, user)
        profile = best.profile if best else name
        of = "OBJTYPE(QMGR)" if kind is Kind.QMGR else f"PROFILE('{profile}') OBJTYPE({kind})"
        return f"User {user} lacks {words} on {where}: SET AUTHREC {of} PRINCIPAL('{user}') AUTHADD({','.join(lacking)})"
