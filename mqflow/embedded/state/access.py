"""The authority check of this queue manager. MQCONN, MQOPEN, MQPUT1 and MQCLOSE run it before any other step.

The check is off until a first authority record exists, or until the queue manager is served over TCP. Administrators have every
authority. Administrators are the user that runs the queue manager (the owner), and the members of the group mqm. The owner can
also make a user with a password an administrator. Callers hold the queue manager's lock. `mqflow.mqi` knows the authorities
that a call needs, and the authorities that records grant. `calls/authority_records.py` writes the records; `open` writes
`creators`.
Source: IBM, "Authorizations for MQI calls", "Principals and groups"; rc2035.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from mqflow.embedded.rules.refusal import Refusal
from mqflow.embedded.state.users import Users
from mqflow.mqi.authorities import ADMINISTRATION, MQI, QUEUE_MANAGER_PROFILE, Authority, AuthorityKind, Need
from mqflow.mqi.authority_records import AuthorityRecord, best_record, granted
from mqflow.mqi.reason_codes import Reason

__all__ = ("ADMINISTRATORS", "Authorities", "whole")

ADMINISTRATORS: Final = "mqm"
"""The group whose members have every authority. A user with this name has every authority too."""


#: Dynamic queues always have new names, so the number of remembered answers needs a limit.
_REMEMBERED_MAX: Final = 10_000


def whole(kind: AuthorityKind) -> frozenset[Authority]:
    """Return every authority that exists on a kind of object."""
    return MQI[kind] | ADMINISTRATION[kind] | {Authority.CRT}


class Authorities:
    """Returns the authorities of users on one queue manager, and remembers its answers."""

    def __init__(self, records: Mapping[str, AuthorityRecord], users: Users) -> None:
        #: The stored records. After a change of a record, its writer must call `forget`.
        self._records = records
        self._users = users
        #: The creators of temporary dynamic queues. Only the creator has authority on such a queue, and needs no record.
        self.creators: dict[str, str] = {}
        self._groups: dict[str, frozenset[str]] = {}
        self._held: dict[tuple[str, AuthorityKind, str], frozenset[Authority]] = {}
        #: Returns whether the owner made a user an administrator; None while only this machine can connect.
        self._made_administrator: Callable[[str], bool] | None = None

    @property
    def owner(self) -> str:
        """The user that runs the queue manager."""
        return self._users.owner

    @property
    def checked(self) -> bool:
        """True if the authority checks are on: there is an authority record, or other machines can connect."""
        return self._made_administrator is not None or bool(self._records)

    def require(self, made_administrator: Callable[[str], bool]) -> None:
        """Turn the authority checks on, even while there is no record."""
        self._made_administrator = made_administrator
        self.forget()

    def check(self, user: str, needs: Iterable[Need], alternate_user: str | None = None) -> None:
        """Refuse with 2035 if a user lacks an authority: the user itself, or the alternate user if the call names one."""
        if not self.checked:
            return
        lacking: dict[tuple[str, AuthorityKind, str], list[Authority]] = {}
        for need in needs:
            asked = user if need.own or alternate_user is None else alternate_user
            name = need.name or QUEUE_MANAGER_PROFILE
            if need.authority not in self.held(asked, need.kind, name):
                lacking.setdefault((asked, need.kind, name), []).append(need.authority)
        if lacking:
            raise Refusal(Reason.NOT_AUTHORIZED, ". ".join(self._sentence(*place, words) for place, words in lacking.items()))

    def held(self, user: str, kind: AuthorityKind, name: str) -> frozenset[Authority]:
        """Return the user's authorities on the object. Administrators have all of them; without checks, every user has all."""
        key = (user, kind, name)
        found = self._held.get(key)
        if found is None:
            if self.administers(user):  # not remembered, because the owner can make the user an ordinary user again
                return whole(kind)
            if len(self._held) >= _REMEMBERED_MAX:
                self._held.clear()
            granting = self._records.values()
            found = self._held[key] = granted(granting, kind, name, user=user, groups=self.groups_of(user))
        if kind is AuthorityKind.QUEUE and self.creators.get(name) == user:
            return whole(kind)
        return found

    def administers(self, user: str) -> bool:
        """Return whether the user has every authority. While the authority checks are off, every user has every authority."""
        if not self.checked or user in {self._users.owner, ADMINISTRATORS} or ADMINISTRATORS in self.groups_of(user):
            return True
        return self._made_administrator is not None and self._made_administrator(user)

    def groups_of(self, user: str) -> frozenset[str]:
        """Return the user's groups, which stay remembered until `refresh`."""
        found = self._groups.get(user)
        if found is None:
            if len(self._groups) >= _REMEMBERED_MAX:
                self._groups.clear()
            found = self._groups[user] = self._users.groups(user)
        return found

    def forget(self) -> None:
        """Forget the remembered answers, because the records have changed."""
        self._held.clear()

    def refresh(self) -> None:
        """Forget the answers and the groups of all users: the next check asks the system again (REFRESH SECURITY)."""
        self._groups.clear()
        self._held.clear()

    def _sentence(self, user: str, kind: AuthorityKind, name: str, lacking: list[Authority]) -> str:
        words = " and ".join(lacking)
        place = f"{kind.lower()} {name}" if kind is not AuthorityKind.QMGR else "the queue manager"
        if not user:
            return f"The call names no alternate user, and a call without a user has no {words} on {place}"
        # If a generic record applies, the command must change this record: a new record for the exact name would hide it.
        best = best_record(self._records.values(), kind, name, user)
        profile = best.profile if best else name
        of = "OBJTYPE(QMGR)" if kind is AuthorityKind.QMGR else f"PROFILE('{profile}') OBJTYPE({kind})"
        principal = user.replace("'", "''")
        return f"User {user} lacks {words} on {place}: SET AUTHREC {of} PRINCIPAL('{principal}') AUTHADD({','.join(lacking)})"
