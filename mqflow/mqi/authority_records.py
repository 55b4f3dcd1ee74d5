"""Who holds which authorities: records of profiles, and what they come to for one user and one object.

Pure. Knows no queue manager and no list of users or groups; whoever asks says which groups a user is in.
Source: IBM, "Using OAM generic profiles" and "Profile priorities" (which profile counts), "Principals and groups" (a user has
the aggregate of what its groups have; everybody is in the group nobody), SET AUTHREC. That the most specific profile is chosen
for each principal and group by itself, before they are added up, is how the examples read; no page says it in so many words.
"""

from collections.abc import Collection, Iterable
from typing import Final

from msgspec import Struct

from mqflow.mqi.authorities import CLASS_PROFILE, Authority, Kind
from mqflow.mqi.names import is_object_name

__all__ = ("EVERYBODY", "AuthorityRecord", "applies", "best_record", "granted", "is_generic", "is_profile", "specificity")

EVERYBODY: Final = "nobody"
"""The group that every user is in."""
_ANY_QUALIFIERS: Final = "**"


class AuthorityRecord(Struct, frozen=True, kw_only=True):
    """What one user or one group may do with the objects of a profile."""

    kind: Kind
    #: The name of one object, or a generic one with ``?``, ``*`` or ``**``.
    profile: str
    entity: str
    #: Whether the entity is a group; else it is a user (a principal).
    group: bool = False
    #: May be empty: then the more general profiles do not count for this entity.
    authorities: frozenset[Authority] = frozenset()

    @property
    def key(self) -> tuple[Kind, str, bool, str]:
        """What there is one record for."""
        return (self.kind, self.profile, self.group, self.entity)


def granted(
    records: Iterable[AuthorityRecord], kind: Kind, name: str, *, user: str, groups: Collection[str]
) -> frozenset[Authority]:
    """Return what the user may do with the object, by the records of its own and of its groups.

    For each of them the most specific profile alone counts; what they have is added up.
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


def best_record(records: Iterable[AuthorityRecord], kind: Kind, name: str, user: str) -> AuthorityRecord | None:
    """Return the user's own record that counts for the object, its most specific; None where it has none."""
    own = (each for each in records if not each.group and each.entity == user and each.kind is kind)
    return min((each for each in own if applies(each.profile, name)), key=lambda each: specificity(each.profile), default=None)


def is_generic(profile: str) -> bool:
    """Return whether the profile stands for more than the one object of its name."""
    return "*" in profile or "?" in profile


def is_profile(text: str) -> bool:
    """Return whether the text is a name, a generic one, or the one for creating. ``**`` stands once, as a whole qualifier."""
    qualifiers = text.split(".")
    if any(_ANY_QUALIFIERS in each and each != _ANY_QUALIFIERS for each in qualifiers) or qualifiers.count(_ANY_QUALIFIERS) > 1:
        return False
    return text == CLASS_PROFILE or is_object_name(text.replace("*", "A").replace("?", "A"))


def applies(profile: str, name: str) -> bool:
    """Return whether the profile is one of this object: ``?`` a character, ``*`` within a qualifier, ``**`` any qualifiers."""
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
    """Return what orders profiles, the most specific first: a name, then by a character before ``?``, ``*`` and ``**``."""
    ranks = (_RANKS.get(piece, 0) for piece in profile.replace(_ANY_QUALIFIERS, "\0"))
    return (int(is_generic(profile)), *ranks, _END)


_RANKS: Final = {"?": 1, "*": 2, "\0": 3}
_END: Final = 4


def _qualifier_applies(pattern: str, text: str) -> bool:
    """Match piece by piece, each as far left as it goes: never more work than the product of both lengths."""
    first, *rest = pattern.split("*")
    if not rest:
        return _same(first, text)
    *middle, last = rest
    position, end = len(first), len(text) - len(last)
    if position > end or not _same(first, text[:position]) or not _same(last, text[end:]):
        return False
    for piece in middle:
        while position + len(piece) <= end and not _same(piece, text[position : position + len(piece)]):
            position += 1
        position += len(piece)
        if position > end:
            return False
    return True


def _same(pattern: str, text: str) -> bool:
    return len(pattern) == len(text) and all(wanted in {"?", found} for wanted, found in zip(pattern, text, strict=True))
