"""Decides which entries of a channel table are tried for a name, in which order, and says why each is where it is.

Knows tables, names and numbers; connects to nothing. Chance comes in as a function, the host's name as text.
Source: IBM on queue manager groups (q027490), AFFINITY (q081810), CLNTWGHT (q081750). Where the entries of a group differ in
AFFINITY nothing is documented: here one that says "none" makes the whole group be drawn for each connection.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.channels.table import Address, Channel, ChannelTable

__all__ = (
    "Candidate",
    "ConnectName",
    "Preference",
    "after_failure",
    "after_reading",
    "candidates",
    "connect_name",
    "nothing_matches",
    "table_of",
)


class ConnectName(Struct, frozen=True):
    """What a name in a connect asks for."""

    #: What QMNAME of an entry has to be.
    queue_manager: str
    #: Whether the queue manager that is reached must have that name: it must, unless an asterisk or a blank was given.
    name_checked: bool

    def refuses(self, reached: str) -> bool:
        """Return whether the queue manager reached is the wrong one: then this entry failed (2058), and the next is tried."""
        return self.name_checked and reached.rstrip() != self.queue_manager


class Candidate(Struct, frozen=True, kw_only=True):
    """One address to try."""

    channel: Channel
    address: Address
    #: Why it is where it is, in a sentence.
    why: str


class Preference(Struct, frozen=True, kw_only=True):
    """What a process remembers between its connects: the table it read, and which weighted entries failed since, in order."""

    table: ChannelTable
    failed: tuple[Channel, ...] = ()


def connect_name(name: str) -> ConnectName:
    """Return what the name asks for: "QM1" one queue manager, "*GROUP" any of a group, "*" or blank entries without a name."""
    text = name.rstrip()
    return ConnectName(text[1:], name_checked=False) if text.startswith("*") else ConnectName(text, name_checked=bool(text))


def candidates(preference: Preference, name: str, *, random: Callable[[], float], host: str = "") -> tuple[Candidate, ...]:
    """Return what to try for the name, in order; nothing where no entry matches.

    Entries of weight 0 come first, by name, then in the order of the file. Then those with a weight, drawn in proportion to it:
    by AFFINITY(PREFERRED) the same for every process of a host, with what failed at the end; by AFFINITY(NONE) anew at each
    call, by `random`, which gives numbers in [0, 1). All addresses of an entry are tried before the next entry.
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
    """Return the preference with an entry, none of whose addresses could be had, at its end; one of weight 0 stays first."""
    others = tuple(each for each in preference.failed if each != channel)
    return replace(preference, failed=(*others, channel))


def after_reading(preference: Preference, table: ChannelTable) -> Preference:
    """Return the preference after the table was read again: as it was where nothing changed, else made anew."""
    return preference if table.channels == preference.table.channels else Preference(table=table)


def table_of(channel: Channel, name: str, source: str) -> ChannelTable:
    """Return the table of one channel that was defined outright (MQSERVER): it matches the name, whatever that is."""
    return ChannelTable(channels=(replace(channel, queue_manager=connect_name(name).queue_manager),), source=source)


def nothing_matches(table: ChannelTable, name: str) -> MQIError:
    """Return the error for a name that no entry of the table matches: 2058, with what was looked for and what is there."""
    group = connect_name(name).queue_manager
    there = sorted({each.queue_manager or "(blank)" for each in table.channels if not each.unusable})
    looked_for = (
        f"whose queue manager is {group}" if group else "without a queue manager's name ('*' and blank match only those)"
    )
    detail = f"{table.source} has no usable entry {looked_for}; its entries have {', '.join(there[:20]) or 'none'}"
    if group in there and not name.startswith("*"):
        detail += f"; '*{group}' would take any of that group"
    return error_for(Reason.Q_MGR_NAME_ERROR, "MQCONNX", queue_manager=name.strip(), detail=detail)


def _attempts(channel: Channel, why: str) -> Iterator[Candidate]:
    for at, address in enumerate(channel.addresses):
        nth = f" Address {at + 1} of {len(channel.addresses)} of the entry." if len(channel.addresses) > 1 else ""
        yield Candidate(channel=channel, address=address, why=why + nth)


def _drawn(weighted: Sequence[Channel], random: Callable[[], float]) -> list[Channel]:
    # Whoever waits the least for an event that comes at a rate of its weight: the same as drawing one after the other without
    # putting back (Efraimidis and Spirakis, 2006), and each entry has a number of its own.
    waits = {each.position: -math.log1p(-random()) / each.client_weight for each in weighted}
    return sorted(weighted, key=lambda each: waits[each.position])


def _preferred(weighted: Sequence[Channel], failed: Sequence[Channel], host: str) -> Iterator[tuple[Channel, str]]:
    """Yield the entries as this host prefers them, then those that failed, longest ago first."""
    numbers = iter([_number_of(host, each) for each in weighted])
    order = _drawn(weighted, lambda: next(numbers))
    yield from ((each, "in the order of this host") for each in order if each not in failed)
    yield from ((each, "failed before, so after the others") for each in failed if each in order)


def _number_of(host: str, channel: Channel) -> float:
    """Return a number in [0, 1) that is always the same for this host and entry: an added entry leaves the others in order."""
    said = "\0".join((host, channel.queue_manager, channel.name, channel.connection_name, str(channel.client_weight)))
    return int.from_bytes(hashlib.sha256(said.encode()).digest()[:6]) / 2**48
