"""Channel authentication records (SET CHLAUTH), and their decision about a connection of a client program.

This file is pure. It knows no socket and no list of users: the caller says whether a user administers the queue manager.
Source: IBM, q010250 (channel authentication records, their interaction), q086080 (generic IP addresses), SET CHLAUTH, q082010
(MCAUSER). UNCERTAIN: the pages do not say which of two matching patterns (of addresses or channel names) decides. Here the
pattern with more literal characters decides.
"""

import struct
from collections.abc import Callable, Iterable
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final

from msgspec import Struct, field

__all__ = (
    "ADMINISTRATORS_WORD",
    "Admission",
    "ChannelRule",
    "Connecting",
    "RuleType",
    "UserSource",
    "address_blocks",
    "admission",
    "is_address_pattern",
    "is_channel_pattern",
)

ADMINISTRATORS_WORD: Final = "*MQADMIN"
"""The word in USERLIST for all users who administer the queue manager."""
_OCTET_MAX: Final = 255
_PARTS: Final = {".": 4, ":": 8}


class RuleType(StrEnum):
    """The types of record (MQCAUT_*) that the embedded queue manager supports."""

    BLOCKUSER = "BLOCKUSER"
    BLOCKADDR = "BLOCKADDR"
    ADDRESSMAP = "ADDRESSMAP"
    USERMAP = "USERMAP"


_BLOCKS: Final = frozenset({RuleType.BLOCKUSER, RuleType.BLOCKADDR})


class UserSource(StrEnum):
    """USERSRC (MQUSRC_*)."""

    MAP = "MAP"
    NOACCESS = "NOACCESS"
    CHANNEL = "CHANNEL"


class ChannelRule(Struct, frozen=True, kw_only=True):
    """One channel authentication record."""

    #: A channel name, or a pattern of channel names with asterisks.
    profile: str
    type: RuleType
    #: ADDRESS: an IP address or a pattern; empty for any address. An ADDRESSMAP always has an address.
    address: str = ""
    #: CLNTUSER of a USERMAP.
    client_user: str = ""
    #: USERLIST of a BLOCKUSER; ADDRLIST of a BLOCKADDR.
    blocked: tuple[str, ...] = field(default=(), name="users")
    source: UserSource = UserSource.MAP
    mca_user: str = ""
    #: WARN(YES): if the record blocks a connection, log this, but accept the connection.
    warn: bool = False
    description: str = ""
    alteration_date: str = ""
    alteration_time: str = ""

    @property
    def key(self) -> str:
        """The unique key: a channel profile has one record of each blocking type, and one mapping for each partner."""
        return f"{self.type} {self.profile} {self.client_user} {self.address}".rstrip()

    @property
    def is_block(self) -> bool:
        """True if the record blocks users or addresses. All other records map a partner to a user."""
        return self.type in _BLOCKS

    @property
    def command(self) -> str:
        """The beginning of the command that sets the record, for the log."""
        words = [f"SET CHLAUTH('{self.profile}') TYPE({self.type})"]
        words += [f"CLNTUSER('{self.client_user}')"] if self.client_user else []
        words += [f"ADDRESS('{self.address}')"] if self.address else []
        if self.is_block:
            word = "USERLIST" if self.type is RuleType.BLOCKUSER else "ADDRLIST"
            words += [f"{word}(" + ",".join(f"'{each}'" for each in self.blocked) + ")"]
        else:
            words += [f"USERSRC({self.source})"]
        return " ".join(words)


class Connecting(Struct, frozen=True, kw_only=True):
    """A client program that connects."""

    channel: str
    address: str
    #: The logged-in user.
    user: str
    #: MCAUSER of the channel's definition.
    mca_user: str = ""


class Admission(Struct, frozen=True, kw_only=True):
    """The decision about a connection: accepted, with its user, or blocked."""

    #: The user of the connection.
    user: str
    #: The record that blocks the connection; None if the program can connect.
    blocked_by: ChannelRule | None = None
    #: The most specific mapping that matches, which decides the user; None if no mapping matches.
    mapping: ChannelRule | None = None
    #: The matching records that only warn instead of blocking, because of WARN(YES).
    warnings: tuple[ChannelRule, ...] = ()


def admission(rules: Iterable[ChannelRule], asking: Connecting, administers: Callable[[str], bool]) -> Admission:
    """Return whether the program can connect, and the user of the connection.

    The most specific mapping that matches decides the user. Without a matching mapping, the user is MCAUSER of the channel or,
    if MCAUSER is blank, the logged-in user. The BLOCKUSER records are checked last, because they apply to the resulting user.
    """
    matching = [rule for rule in rules if _matches(rule, asking)]
    mappings = [rule for rule in matching if not rule.is_block]
    mapping = min(mappings, key=_specificity, default=None)
    warnings: list[ChannelRule] = []
    user = asking.mca_user or asking.user
    if mapping is not None and mapping.source is UserSource.MAP:
        user = mapping.mca_user
    elif mapping is not None and mapping.source is UserSource.NOACCESS:
        if not mapping.warn:
            return Admission(user=user, blocked_by=mapping, mapping=mapping)
        warnings.append(mapping)
    blocking = [rule for rule in matching if rule.type is RuleType.BLOCKUSER]
    blocker = min(blocking, key=_specificity, default=None)
    if blocker is not None and (user in blocker.blocked or (ADMINISTRATORS_WORD in blocker.blocked and administers(user))):
        if not blocker.warn:
            return Admission(user=user, blocked_by=blocker, mapping=mapping, warnings=tuple(warnings))
        warnings.append(blocker)
    return Admission(user=user, mapping=mapping, warnings=tuple(warnings))


def address_blocks(rules: Iterable[ChannelRule], address: str) -> ChannelRule | None:
    """Return the BLOCKADDR record with this address, or None. Callers call this before they read a program's first byte."""
    lists = (rule for rule in rules if rule.type is RuleType.BLOCKADDR)
    return next((rule for rule in lists if any(_address_fits(pattern, address) for pattern in rule.blocked)), None)


def is_channel_pattern(text: str) -> bool:
    """Return whether the text is a channel name, possibly with asterisks."""
    return 0 < len(text) <= 20 and all(char.isascii() and (char.isalnum() or char in "._/%*") for char in text)  # noqa: PLR2004 - the length of CHANNEL


def is_address_pattern(text: str) -> bool:
    """Return whether the text is an IP address or a pattern of addresses: ``192.0.*``, ``192.0.2.1-8``, ``2001:*:1``, ``*``."""
    if text == "*":
        return True
    separator = ":" if ":" in text else "."
    if _parts_of(text, separator) is not None:
        return True
    parts = text.split(separator)
    return (
        len(parts) <= _PARTS[separator]
        and all(_is_part(part, separator) for part in parts)
        and ("*" in parts or len(parts) == _PARTS[separator])
    )


def _is_part(part: str, separator: str) -> bool:
    if part == "*":
        return True
    low, dash, high = part.partition("-")
    numbers = [_number(low, separator), *([_number(high, separator)] if dash else [])]
    return None not in numbers and sorted(numbers, key=lambda each: each or 0) == numbers


def _number(text: str, separator: str) -> int | None:
    """Return the number in one part of an address; None if the part has no valid number."""
    try:
        number = int(text, 16 if separator == ":" else 10)
    except ValueError:
        return None
    return number if 0 <= number <= (0xFFFF if separator == ":" else _OCTET_MAX) and text.isascii() and text.isalnum() else None


def _matches(rule: ChannelRule, asking: Connecting) -> bool:
    if not fnmatchcase(asking.channel, rule.profile):  # a profile has asterisks, but no other pattern character
        return False
    if rule.type is RuleType.USERMAP and rule.client_user != asking.user:
        return False
    return not rule.address or _address_fits(rule.address, asking.address)


def _specificity(rule: ChannelRule) -> tuple[object, ...]:
    """Return the sort key of a record: the most specific record comes first.

    A channel name comes before a pattern of names, and a user before an address (IBM q010250).
    """
    return (
        "*" in rule.profile,
        -len(rule.profile.replace("*", "")),
        rule.type is RuleType.ADDRESSMAP,
        not rule.address,
        "*" in rule.address,
        "-" in rule.address,
        -sum(char not in "*-" for char in rule.address),
        rule.key,
    )


def _address_fits(pattern: str, address: str) -> bool:
    """Return whether the address matches the pattern: an asterisk stands for one or more parts, a hyphen for a range.

    An IPv4 address in IPv6 notation counts as an IPv4 address, also as a pattern.
    """
    if pattern == "*":
        return True
    separator = "." if ":" not in pattern or _parts_of(pattern, ".") is not None else ":"
    found, exact = _parts_of(address, separator), _parts_of(pattern, separator)
    if found is None or exact is not None:
        return found is not None and found == exact
    return _parts_fit(pattern.split(separator), found, separator)


def _parts_of(address: str, separator: str) -> list[int] | None:
    """Return the numbers in the address; None if the text is not an address with this separator.

    With a dot as the separator, an IPv4 address in the notation of IPv6 counts too.
    """
    from ipaddress import AddressValueError, IPv4Address, IPv6Address  # noqa: PLC0415 - a queue manager without records needs none

    try:
        if ":" not in address:
            return list(IPv4Address(address).packed) if separator == "." else None
        whole = IPv6Address(address.partition("%")[0])
    except AddressValueError:
        return None
    if whole.ipv4_mapped is not None and separator == ".":
        return list(whole.ipv4_mapped.packed)
    return list(struct.unpack(">8H", whole.packed)) if separator == ":" else None


def _parts_fit(pattern: list[str], found: list[int], separator: str) -> bool:
    if not pattern:
        return not found
    if pattern[0] == "*":
        return any(_parts_fit(pattern[1:], found[taken:], separator) for taken in range(1, len(found) + 1))
    if not found:
        return False
    low, _, high = pattern[0].partition("-")
    bounds = _number(low, separator), _number(high or low, separator)
    if bounds[0] is None or bounds[1] is None or not bounds[0] <= found[0] <= bounds[1]:
        return False
    return _parts_fit(pattern[1:], found[1:], separator)
