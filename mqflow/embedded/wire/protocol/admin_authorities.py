"""Both ends of the administration of authorities over a socket. This file knows `requests_admin`, but no rule of MQ."""

from collections.abc import Iterable
from typing import Any, Protocol, assert_never

from mqflow.embedded.administration.interface import AuthorityAdministration
from mqflow.embedded.wire.protocol import requests, requests_admin
from mqflow.mqi.authorities import Authority, Kind
from mqflow.mqi.authority_records import AuthorityRecord

__all__ = ("Call", "ServedAuthorities", "ask_authorities", "order_authorities")


class Call(Protocol):
    """Sends a request, and returns the value of the reply or raises its error."""

    # Any: the answer has the type that `requests` decodes for the request.
    def __call__(self, request: requests.Request, verb: str, object_name: str = "", *, unknown: bool = False) -> Any:
        """Send the request. With `unknown`, a lost answer raises 2549: nobody knows whether the request took effect."""
        ...


class ServedAuthorities:
    """Offers the `AuthorityAdministration` of another process."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def records(self) -> tuple[AuthorityRecord, ...]:
        """Return all authority records."""
        answer: tuple[AuthorityRecord, ...] = self._call(requests_admin.ReadAuthorities(), "DISPLAY AUTHREC")
        return answer

    def held(self, kind: Kind, name: str, entity: str, *, group: bool) -> frozenset[Authority]:
        """Return the authorities of a user or a group on an object."""
        answer: frozenset[Authority] = self._call(requests_admin.ReadHeld(kind, name, entity, group), "DISPLAY ENTAUTH", name)
        return answer

    def set(
        self, kind: Kind, profile: str, entity: str, *, group: bool, add: Iterable[Authority], remove: Iterable[Authority]
    ) -> None:
        """Add the authorities in `add` to a record, and then remove the authorities in `remove`."""
        request = requests_admin.SetAuthority(kind, profile, entity, group, frozenset(add), frozenset(remove))
        self._call(request, "SET AUTHREC", profile, unknown=True)

    def delete(self, kind: Kind, profile: str, entity: str, *, group: bool) -> None:
        """Delete a record."""
        self._call(requests_admin.DeleteAuthority(kind, profile, entity, group), "DELETE AUTHREC", profile, unknown=True)

    def refresh(self) -> None:
        """Ask the system again for the members of the groups."""
        self._call(requests_admin.RefreshAuthorities(), "REFRESH SECURITY")


def ask_authorities(authorities: AuthorityAdministration, request: requests_admin.AuthorityQuestion) -> object:
    """Return the answer to the question of another process."""
    match request:
        case requests_admin.ReadAuthorities():
            return authorities.records()
        case requests_admin.ReadHeld(kind, name, entity, group):
            return authorities.held(kind, name, entity, group=group)
        case _:
            assert_never(request)


def order_authorities(authorities: AuthorityAdministration, request: requests_admin.AuthorityOrder) -> None:
    """Carry out the order of another process."""
    match request:
        case requests_admin.SetAuthority(kind, profile, entity, group, add, remove):
            authorities.set(kind, profile, entity, group=group, add=add, remove=remove)
        case requests_admin.DeleteAuthority(kind, profile, entity, group):
            authorities.delete(kind, profile, entity, group=group)
        case requests_admin.RefreshAuthorities():
            authorities.refresh()
        case _:
            assert_never(request)
