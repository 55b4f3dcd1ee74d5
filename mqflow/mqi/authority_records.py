"""Authority records: the authorities of users and groups by profile, and the authorities of one user on one object.

This module is pure. It knows no queue manager and no list of users or groups; the caller passes the groups of a user.
Source: IBM, "Using OAM generic profiles" and "Profile priorities" (which profile counts), "Principals and groups" (a user has
the union of the authorities of its groups; every user is in the group nobody), SET AUTHREC. The examples imply that the most
specific profile is chosen for each principal and group separately, before the union; no page states this rule.
"""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct

from mqflow.mqi.authorities import CLASS_PROFILE, Authority, AuthorityKind
from mqflow.mqi.names import is_object_name

__all__ = ("EVERYBODY", "AuthorityRecord", "applies", "best_record", "granted", "is_generic", "is_profile", "specificity")

EVERYBODY: Final = "nobody"
"""The group of all users."""
_ANY_QUALIFIERS: Final = "**"


class AuthorityRecord(Struct, frozen=True, kw_only=True):
    """The authorities of one user or one group on the objects of a profile."""

    kind: AuthorityKind
    #: The name of one object, or a generic name with ``?``, ``*`` or ``**``.
    profile: str
    entity: str
    #: True if the entity is a group; if not, it is a user (a principal).
    group: bool = False
    #: May be empty; an empty record still hides the more general profiles of this entity.
    authorities: frozenset[Authority] = frozenset()

    @property
    def key(self) -> tuple[AuthorityKind, str, bool, str]:
        """The unique key of the record."""
        return (self.kind, self.profile, self.group, self.entity)


def granted(
    records: Iterable[AuthorityRecord], kind: AuthorityKind, name: str, *, user: str, groups: Collection[str]
) -> frozenset[Authority]:
    """Return the authorities of the user on the object, from the records of the user and of its groups.

    For the user and for each group, only the most specific profile applies. The result is the union of their authorities.
    """
    of_groups = {*groups, EVERYBODY}
    best: dict[tuple[bool, str], AuthorityRecord] = {}
    for record in records:
        theirs = record.entity in of_groups if record.group else record.entity == user
        if not theirs or record.kind is not kind or not applies(record.profile, name):
            continue
        known = best.get((record.group, record.entity))
        if known is None or specificity(record.profile) < specificity(known.profile):
            best[record.group, record.entity] = record
    return frozenset[Authority]().union(*(record.authorities for record in best.values()))


def best_record(records: Iterable[AuthorityRecord], kind: AuthorityKind, name: str, user: str) -> AuthorityRecord | None:
    """Return the user's own most specific record for the object, or None if there is no such record."""
    own = (each for each in records if not each.group and each.entity == user and each.kind is kind)
    return min((each for each in own if applies(each.profile, name)), key=lambda each: specificity(each.profile), default=None)


def is_generic(profile: str) -> bool:
    """Return whether the profile can match more than one object."""
    return "*" in profile or "?" in profile


def is_profile(text: str) -> bool:
    """Return whether the text is a name, a generic name or `CLASS_PROFILE`. ``**`` may occur once, as a whole qualifier."""
    qualifiers = text.split(".")
    if any(_ANY_QUALIFIERS in each and each != _ANY_QUALIFIERS for each in qualifiers) or qualifiers.count(_ANY_QUALIFIERS) > 1:
        return False
    return text == CLASS_PROFILE or is_object_name(text.replace("*", "A").replace("?", "A"))


def applies(profile: str, name: str) -> bool:
    """Return whether the profile matches this object name.

    ``?`` stands for one character, ``*`` for any characters within a qualifier, ``**`` for any qualifiers.
    """
    if not is_generic(profile):
        return profile == name
    wanted, found = profile.split("."), name.split(".")
    if _ANY_QUALIFIERS not in wanted:
        return len(wanted) == len(found) and all(map(_qualifier_applies, wanted, found))
    at = wanted.index(_ANY_QUALIFIERS)
    before, after = wanted[:at], wanted[at + 1 :]
    if len(before) + len(after) > len(found):
        return False
    ends = found[len(found) - len(after) :]
    return all(map(_qualifier_applies, before, found)) and all(map(_qualifier_applies, after, ends))


def specificity(profile: str) -> tuple[int, ...]:
    """Return the key that sorts specific profiles first: names before patterns; a character before ``?``, ``*`` and ``**``."""
    ranks = (_RANKS.get(piece, 0) for piece in profile.replace(_ANY_QUALIFIERS, "\0"))
    return (int(is_generic(profile)), *ranks, _END)


_RANKS: Final = {"?": 1, "*": 2, "\0": 3}
_END: Final = 4


def _qualifier_applies(pattern: str, text: str) -> bool:
    return fnmatchcase(text, pattern)  # names have no brackets, which fnmatch would read as a set of characters
