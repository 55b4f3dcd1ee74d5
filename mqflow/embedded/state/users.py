"""The user of this process, and the groups of a user. This file asks the operating system, and knows no authority."""

import getpass
from collections.abc import Callable
from typing import Final

from msgspec import Struct

__all__ = ("THIS_USER_ONLY", "USER_CHARS", "Groups", "Users", "login", "system_groups")

USER_CHARS: Final = 12
"""The length of MQ's user identifiers. A longer name is cut."""

Groups = Callable[[str], frozenset[str]]
"""Returns the groups of a user."""


def login() -> str:
    """Return the user of this process."""
    try:
        return getpass.getuser()[:USER_CHARS]
    except (KeyError, OSError):  # a container can run under a user number without a name
        return "unknown"


def system_groups(user: str) -> frozenset[str]:
    """Return the groups of the user on this system. An unknown user has no groups."""
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
    except (KeyError, OSError, ValueError):  # an unknown user, or a text that cannot be a user name
        return frozenset()
    for number in numbers:
        try:
            found.add(grp.getgrgid(number).gr_name)
        except KeyError:  # a group without a name
            continue
    return frozenset(found)


class Users(Struct, frozen=True):
    """The owner of the queue manager, and a function that finds the groups of a user."""

    #: The user that runs the queue manager, and so its administrator.
    owner: str
    groups: Groups = system_groups


THIS_USER_ONLY: Final = Users(owner="")
"""Users without an owner: only members of the group mqm administer the queue manager."""
