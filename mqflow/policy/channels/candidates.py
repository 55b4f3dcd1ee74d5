"""Decides which entries of a channel table are tried for a queue manager name, in which order, and why in this order.

If every candidate was tried and no connection was made, this module also decides which error to raise.
This module connects to nothing. The caller passes the random numbers and the name of the host.
Source: IBM on queue manager groups (q027490), AFFINITY (q081810), CLNTWGHT (q081750). IBM does not document a group whose
entries differ in AFFINITY. Here, if one entry has "none", the order of the whole group is drawn again for each connection.
From memory: if every attempt failed, MQCONNX returns 2059, or the last specific code.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason, reason_name
from mqflow.policy.channels.table import Address, Channel, ChannelTable
from mqflow.policy.reconnect.reason_classes import Class, classify

__all__ = (
    "Candidate",
    "ConnectFailed",
    "ConnectName",
    "Preference",
    "after_failure",
    "after_pass",
    "after_reading",
    "candidates",
    "connect_name",
    "nothing_matches",
    "table_of",
)

_LISTED_MAX: Final = 10


class ConnectName(Struct, frozen=True):
    """The queue manager name that an application passes to connect, and its meaning."""

    #: The QMNAME that an entry must have to match.
    queue_manager: str
    #: True if the connection must reach a queue manager of exactly this name. False for a blank name, and after an asterisk.
    name_checked: bool

    def refuses(self, reached: str) -> bool:
        """Return whether the reached queue manager has a wrong name. If so, the entry counts as failed (2058)."""
        return self.name_checked and reached.rstrip() != self.queue_manager


class Candidate(Struct, frozen=True, kw_only=True):
    """One address of a channel, to be tried."""

    channel: Channel
    address: Address
    #: The reason for the place of this address in the order, as a sentence.
    why: str


class Preference(Struct, frozen=True, kw_only=True):
    """The state that a process keeps between two MQCONNX: the table, and its entries with a weight that failed, in order."""

    table: ChannelTable
    failed: tuple[Channel, ...] = ()


def connect_name(name: str) -> ConnectName:
    """Return the meaning of a name. "QM1": one queue manager; "*GROUP": any of a group; "*" or "": entries without QMNAME."""
    text = name.rstrip()
    return ConnectName(text[1:], name_checked=False) if text.startswith("*") else ConnectName(text, name_checked=bool(text))


def candidates(preference: Preference, name: str, *, random: Callable[[], float], host: str = "") -> tuple[Candidate, ...]:
    """Return the addresses to try for the name, in order; empty if no entry matches.

    Entries of weight 0 come first, sorted by channel name, then in the order of the file. Entries with a weight follow in a
    random order: a higher weight makes an early place more likely. With AFFINITY(PREFERRED), every process of a host has the
    same order, and entries that have failed go to the end. With AFFINITY(NONE), each call draws a new order with `random`,
    which returns numbers in [0, 1). All addresses of an entry come before the next entry.
    """
    group = connect_name(name).queue_manager
    matching = [each for each in preference.table.channels if each.queue_manager == group and not each.unusable]
    first = sorted((each for each in matching if not each.client_weight), key=lambda each: (each.name, each.position))
    weighted = [each for each in matching if each.client_weight]
    total = sum(each.client_weight for each in weighted)
    if any(each.affinity == "none" for each in weighted):
        drawn = [
            (each, f"Weight {each.client_weight} of {total}, drawn for this connection.") for each in _drawn(weighted, random)
        ]
    else:
        drawn = [
            (each, f"Weight {each.client_weight} of {total}, {state} (AFFINITY(PREFERRED)).")
            for each, state in _preferred(weighted, preference.failed, host)
        ]
    ordered = [*((each, "Weight 0: before all others, by name, then in the order of the file.") for each in first), *drawn]
    return tuple(attempt for channel, why in ordered for attempt in _attempts(channel, why))


def after_failure(preference: Preference, channel: Channel) -> Preference:
    """Return the preference after all addresses of an entry failed: the entry moves to the end, unless its weight is 0."""
    others = tuple(each for each in preference.failed if each != channel)
    return replace(preference, failed=(*others, channel))


def after_reading(preference: Preference, table: ChannelTable) -> Preference:
    """Return the preference after the table was read again. If the table has changed, failed entries are forgotten."""
    return preference if table.channels == preference.table.channels else Preference(table=table)


def table_of(channel: Channel, name: str, source: str) -> ChannelTable:
    """Return a table with one channel that was defined directly, for example by MQSERVER. The table matches any name."""
    return ChannelTable(channels=(replace(channel, queue_manager=connect_name(name).queue_manager),), source=source)


def nothing_matches(table: ChannelTable, name: str) -> MQIError:
    """Return the error for a name that no entry of the table matches: 2058, with the name and the names in the table."""
    group = connect_name(name).queue_manager
    there = sorted({each.queue_manager or "(blank)" for each in table.channels if not each.unusable})
    searched = f"for queue manager {group}" if group else "without a QMNAME ('*' and a blank name match no other entries)"
    detail = f"{table.source} has no usable entry {searched}; it has entries for {', '.join(there[:20]) or 'no queue manager'}"
    if group in there and not name.startswith("*"):
        detail += f"; '*{group}' would take any of that group"
    return error_for(Reason.Q_MGR_NAME_ERROR, "MQCONNX", queue_manager=name.strip(), detail=detail)


class ConnectFailed(Struct, frozen=True):
    """A candidate that could not be connected, and its error."""

    attempt: Candidate
    error: MQIError


def after_pass(name: str, failed: Sequence[ConnectFailed]) -> MQIError:
    """Return the error to raise after all candidates have failed. Its text lists each attempt with its reason.

    If another pass over the candidates may succeed, the reason is 2059, or the reason that all such attempts have in common. If
    no candidate can succeed before a person changes something, the error has the reason of the last attempt, or 2059 if the
    reasons differ. `failed` is not empty.
    """
    later = [each for each in failed if classify(int(each.error.reason)) is not Class.CONFIGURATION]
    reasons = {int(each.error.reason) for each in later} or {int(failed[-1].error.reason)}
    [reason] = reasons if len(reasons) == 1 else {int(Reason.Q_MGR_NOT_AVAILABLE)}
    if later and classify(reason) is not Class.RECONNECT:
        reason = Reason.Q_MGR_NOT_AVAILABLE  # makes the caller try again; the common reason does not
    tried = "; ".join(_described(each) for each in failed[:_LISTED_MAX])
    more = f"; and {len(failed) - _LISTED_MAX} more" if len(failed) > _LISTED_MAX else ""
    return error_for(reason, "MQCONNX", queue_manager=name.strip(), detail=f"Tried {tried}{more}")


def _described(failed: ConnectFailed) -> str:
    attempt = failed.attempt
    detail = f", {failed.error.detail.rstrip('.')}" if failed.error.detail else ""
    return f"{attempt.channel.name} at {attempt.address}: {reason_name(int(failed.error.reason))}{detail}"


def _attempts(channel: Channel, why: str) -> Iterator[Candidate]:
    for at, address in enumerate(channel.addresses):
        nth = f" Address {at + 1} of {len(channel.addresses)} of the entry." if len(channel.addresses) > 1 else ""
        yield Candidate(channel=channel, address=address, why=why + nth)


def _drawn(weighted: Sequence[Channel], random: Callable[[], float]) -> list[Channel]:
    # Each entry gets an exponentially distributed time, with its weight as the rate; the shortest time comes first. This gives
    # the same order as drawing the entries one by one without replacement (Efraimidis and Spirakis, 2006).
    waits = {each.position: -math.log1p(-random()) / each.client_weight for each in weighted}
    return sorted(weighted, key=lambda each: waits[each.position])


def _preferred(weighted: Sequence[Channel], failed: Sequence[Channel], host: str) -> Iterator[tuple[Channel, str]]:
    """Yield the entries in the order of this host, then the failed entries, the earliest failure first."""
    numbers = iter([_number_of(host, each) for each in weighted])
    order = _drawn(weighted, lambda: next(numbers))
    yield from ((each, "in the order of this host") for each in order if each not in failed)
    yield from ((each, "failed before, so after the others") for each in failed if each in order)


def _number_of(host: str, channel: Channel) -> float:
    """Return a constant number in [0, 1) for this host and entry. A new entry does not change the numbers of other entries."""
    text = "\0".join((host, channel.queue_manager, channel.name, channel.connection_name, str(channel.client_weight)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6]) / 2**48
