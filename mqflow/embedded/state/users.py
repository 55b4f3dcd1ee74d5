"""Who users are: as whom this process runs, and which groups a user is in. Asks the system; knows no authority."""

import getpass
from collections.abc import Callable
from typing import Final

from msgspec import Struct

__all__ = ("THIS_USER_ONLY", "USER_CHARS", "Groups", "Users", "login", "system_groups")

USER_CHARS: Final = 12
"""MQ's user identifiers are that long; what is longer is cut."""

Groups = Callable[[str], frozenset[str]]
"""Which groups a user is in."""


def login() -> str:
    """Return the user as whom this process runs."""
    try:
        return getpass.getuser()[:USER_CHARS]
    except (KeyError, OSError):  # a container may run under a number that has no name
        return "unknown"


def system_groups(user: str) -> frozenset[str]:
    """Return the groups the system has the user in; none for a user it does not know."""
    try:
        import grp  # noqa: PLC0415 - not on Windows
        import pwd  # noqa: PLC0415 - as above
        from os import getgrouplist  # noqa: PLC0415 - as above
    except ImportError:
        return frozenset()
    found: set[str] = set()
    try:
        entry = pwd.getpwnam(user)
        numbers = getgrouplist(user, entry.pw_gid)
    except (KeyError, OSError, ValueError):  # unknown, or no text that a user could be called
        return frozenset()
    for number in numbers:
        try:
            found.add(grp.getgrgid(number).gr_name)
        except KeyError:  # a group of which only the number is known
            continue
    return frozenset(found)


class Users(Struct, frozen=True):
    """Whom the queue manager takes for whom."""

    #: The user that runs the queue manager: its administrator.
    owner: str
    groups: Groups = system_groups


THIS_USER_ONLY: Final = Users(owner="")
"""No user administers but the group mqm."""
