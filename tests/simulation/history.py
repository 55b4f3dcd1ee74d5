"""The history of a world and its defects: the invariants I1 to I10, most of them checked at every write.

The history sees the disk (the changes of each unit of work), the answers to producers, and the events of the application. It
knows what the application of the scenario does, and decides nothing.

I1 no acknowledged persistent message is lost. I2 no message is in two committed units of work. I3 no message appears that was
never put, or whose put was backed out. I4 a unit of work happens wholly or not at all. I5 a poison message is on one queue.
I6 BackoutCount is the number of deliveries backed out. I7 messages keep their order. I8 if faults stop, every message is
handled. I9 an answer of success is durable, and "backed out" is certain. I10 memory, handles, threads and logs are bounded.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Final, Protocol

from msgspec import Struct

from mqflow.embedded.storage.store import BackoutCounted, Change, MessageAdded, MessageRemoved
from mqflow.events import ConsumerFailed, Disposed, Event, InDoubt, ListenerPaused, Reconnected, Reconnecting, Settled
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.disposition import Settlement
from tests.finding import findings

__all__ = ("BAD", "BETTER", "DONE", "IN", "NEXT", "THRESHOLDS", "TICKS", "Disk", "History", "is_poison")

IN, NEXT, DONE, BAD, BETTER, TICKS = "IN", "NEXT", "DONE", "BAD", "BETTER", "TICKS"
THRESHOLDS: Final = {IN: 3, NEXT: 4}
ATTEMPTS_AN_OUTAGE_MAX: Final = 120
_NAME: Final = re.compile(rb"m\d+(?:>\w+)*\Z")
_POISON_EVERY: Final = 5
_OF_ANOTHER: Final = frozenset({Reason.HCONN_ERROR, Reason.HOBJ_ERROR})


class Disk(Protocol):
    """Receives the events of the disk."""

    def written(self, changes: Sequence[Change]) -> None:
        """The disk has one whole unit of work: it is durable now."""
        ...

    def visible(self, changes: Sequence[Change]) -> None:
        """The queue manager has answered the commit: other programs see the unit of work from now on."""
        ...

    def delivered(self, serial: int, backout_count: int) -> None:
        """A message was got under syncpoint."""
        ...

    def given_back(self, serial: int) -> None:
        """A message returned to its place, and no backout was counted: no handler has seen it."""
        ...


class _Stored(Struct, frozen=True):
    queue: str
    name: str
    message_id: bytes


def is_poison(name: str) -> bool:
    """Return whether the handler of the application always fails with this message."""
    return int(_origin(name)[1:]) % _POISON_EVERY == 0


def _origin(name: str) -> str:
    return name.split(">", maxsplit=1)[0]


class History:
    """The history of one run. A defect is raised as `FindingError` at the moment it is seen."""

    def __init__(self) -> None:
        #: The messages on the disk, by serial, and the number of each message that was put.
        self.there: dict[int, _Stored] = {}
        #: The messages on the queue `TICKS`, by serial. Their handler puts nothing.
        self.ticks: dict[int, bytes] = {}
        self._of_origin: Counter[str] = Counter()
        #: Every name that was ever written, and whether the last component of such a name was written.
        self._ever: set[str] = set()
        self._tags_written: set[str] = set()
        self._deliveries: Counter[int] = Counter()
        self._counts: dict[int, int] = {}
        self._asked: dict[str, bool | None] = {}
        #: The message of each handling; and for each message, the events about its units of work.
        self._message_of: dict[str, bytes] = {}
        self._verdicts: dict[bytes, set[str]] = {}
        #: The queue to which no poison message may go after the attributes of the input queue were altered.
        self.forsaken = ""
        self._removed_ids: set[bytes] = set()
        #: When a message could be got, and when a message was last got, counted in events of the disk.
        self._visible_at: dict[int, int] = {}
        self._got_at: dict[int, int] = {}
        self._happened = 0
        self._taken_off: set[int] = set()
        self._names: dict[int, str] = {}
        #: How often a handler was called with each message.
        self._handled: Counter[str] = Counter()
        self._disposed: list[int] = []
        self.events: Counter[str] = Counter()
        self._attempts_of_outage = 0

    # -- the disk

    @findings()
    def written(self, changes: Sequence[Change]) -> None:
        """Record one durable unit of work, and check that I1 to I6 hold for it."""
        removed: Counter[str] = Counter()
        added: Counter[str] = Counter()
        for change in changes:
            match change:
                case MessageRemoved(serial):
                    removed += self._removed(serial)
                case MessageAdded():
                    added += self._added(change)
                case BackoutCounted(serial, count):
                    assert serial in self.there or serial in self.ticks, f"I3: a backout of {serial} is counted, which is gone"
                    assert count > self._counts.get(serial, 0), (
                        f"I6: serial {serial} was backed out {count} times, and once more"
                    )
                    self._counts[serial] = count
                case _:
                    pass
        if removed:
            assert removed == added, f"I4: a unit of work took {dict(removed)} off and put {dict(added)}"
        for origin, count in added.items():
            assert self._of_origin[origin] == 1, f"I2: {origin} is there {self._of_origin[origin]} times, {count} new"

    def visible(self, changes: Sequence[Change]) -> None:
        """Record the messages that can be got from now on."""
        self._happened += 1
        for change in changes:
            if isinstance(change, MessageAdded):
                self._visible_at[change.message.serial] = self._happened

    @findings()
    def delivered(self, serial: int, backout_count: int) -> None:
        """Record a get under syncpoint: BackoutCount must be the number of earlier gets of the message (I6)."""
        expected = self._deliveries[serial]
        assert backout_count == expected, (
            f"I6: serial {serial} was delivered {expected} times; its BackoutCount is {backout_count}"
        )
        self._deliveries[serial] += 1
        self._happened += 1
        self._got_at[serial] = self._happened

    @findings()
    def given_back(self, serial: int) -> None:
        """Record that a get under syncpoint counts for nothing: only a worker with messages ahead may do that."""
        assert serial in self.ticks, f"I6: serial {serial} returned to its place, and no backout is counted"
        self._deliveries[serial] -= 1
        self.events["given back"] += 1

    def _removed(self, serial: int) -> Counter[str]:
        if serial in self.ticks:
            self._removed_ids.add(self.ticks.pop(serial))
            return Counter()
        stored = self.there.pop(serial, None)
        assert stored is not None or serial not in self._deliveries, f"I2: serial {serial} is taken off a second time"
        if stored is None:
            return Counter()
        self._removed_ids.add(stored.message_id)
        if stored.queue == IN:
            self._taken_off.add(serial)
        self._of_origin[_origin(stored.name)] -= 1
        return Counter([_origin(stored.name)])

    def _added(self, change: MessageAdded) -> Counter[str]:
        message = change.message
        if message.queue == TICKS:
            self.ticks[message.serial] = message.descriptor.message_id
            return Counter()
        found = _NAME.search(message.body or b"")
        if found is None:
            return Counter()
        name = found.group().decode()
        assert message.queue != self.forsaken, f"{name} went to {self.forsaken}: what an earlier generation inquired was kept"
        assert not message.descriptor.backout_count, f"I6: {name} was put with BackoutCount {message.descriptor.backout_count}"
        self._names[message.serial] = name
        self.there[message.serial] = _Stored(message.queue, name, message.descriptor.message_id)
        self._of_origin[_origin(name)] += 1
        self._ever.add(name)
        self._tags_written.update(name.split(">")[1:])
        return Counter([_origin(name)])

    # -- the producers

    def asks(self, names: Iterable[str]) -> None:
        """Record that a producer puts these messages."""
        self._asked.update(dict.fromkeys(names))

    @findings()
    def answered(self, names: Iterable[str], *, done: bool | None) -> None:
        """Record the answer: done, certainly not done, or (None) in doubt."""
        for name in names:
            assert not done or name in self._ever, f"I9: the answer was that {name} is durable, and it is not on the disk"
            assert done is not False or name not in self._ever, (
                f"I9: the answer was that {name} is refused, and it is on the disk"
            )
            if done is not None:
                self._asked[name] = done

    # -- the application

    def handles(self, name: str, message_id: bytes, tag: str) -> None:
        """Record that a handler begins with a message; its puts carry the tag."""
        self._handled[name] += 1
        self._message_of[tag] = message_id

    @findings()
    def told(self, event: Event) -> None:
        """Record an event of the application."""
        self.events[type(event).__name__] += 1
        match event:
            case Settled(settlement=Settlement.COMMIT, message_ids=ids):
                self._verdict(ids, "committed")
                for each in ids:
                    assert each in self._removed_ids, f"I9: a commit was reported, and {each.hex()} is still there"
            case Settled(settlement=Settlement.BACKOUT, message_ids=ids):
                self._verdict(ids, "backed out")
            case InDoubt(message_ids=ids):
                self._verdict(ids, "in doubt")
            case ListenerPaused(reason=reason):
                assert reason not in _OF_ANOTHER, f"a handle of another connection was used: {event.why}"
            case ConsumerFailed():
                raise AssertionError(f"{event.consumer} ended although nothing stopped it.\n{event.traceback}")
            case Disposed(backout_count=count):
                self._disposed.append(count)
            case Reconnecting():
                self._attempts_of_outage += 1
                assert self._attempts_of_outage <= ATTEMPTS_AN_OUTAGE_MAX, "I10: too many attempts to connect in one outage"
            case Reconnected():
                self._attempts_of_outage = 0
            case _:
                pass

    def _verdict(self, ids: Iterable[bytes], verdict: str) -> None:
        for each in ids:
            self._verdicts.setdefault(each, set()).add(verdict)

    # -- the end

    @findings()
    def check_calls(self, *, alone: bool) -> None:
        """Check that no message was handled beyond the threshold of its queue.

        If the application handles several messages in a unit of work (not `alone`), only the bad messages have this bound.
        A backout because of another message does not count for a good message.
        """
        for name, times in self._handled.items():
            most = THRESHOLDS[NEXT if ">" in name else IN]
            if alone or is_poison(name):
                assert times <= most, f"I5: {name} was handled {times} times, beyond its threshold of {most}"

    @findings()
    def check_calm(self, attempts: int, *, alone: bool) -> None:
        """Check that each bad message was handled `attempts` times, if nothing broke in this run.

        If each message has a unit of work of its own (`alone`), nobody else got a bad message before it was moved.
        """
        bad = {name for name in self._asked if is_poison(name)}
        assert dict.fromkeys(bad, attempts) == {name: self._handled[name] for name in bad}
        assert [attempts] * len(bad) == self._disposed, "Disposed does not count what was handled"
        if alone:
            delivered = {self._names[serial]: times for serial, times in self._deliveries.items() if serial in self._names}
            assert dict.fromkeys(bad, attempts) == {name: delivered[name] for name in bad}, "a moved message was got again"

    @findings()
    def check_end(self, *, in_order: bool) -> None:
        """Check the remaining invariants after the last event."""
        origins = Counter(_origin(each.name) for each in self.there.values())
        put = {name for name, done in self._asked.items() if done}
        assert not put - set(origins), f"I1: lost: {sorted(put - set(origins))}"
        refused = {name for name, done in self._asked.items() if done is False}
        assert not refused & self._ever, f"I3: refused, and there: {sorted(refused & self._ever)}"
        assert not set(origins) - set(self._asked), f"I3: never put: {sorted(set(origins) - set(self._asked))}"
        for stored in self.there.values():
            wanted = {BAD, BETTER} if is_poison(stored.name) else {DONE, BAD, BETTER}
            assert stored.queue in wanted, f"I5/I8: {stored.name} ended on {stored.queue}"
        for tag in self._tags_written:
            verdicts = self._verdicts.get(self._message_of[tag], set())
            assert verdicts & {"committed", "in doubt"}, f"I9: the puts of {tag} are there; its units of work were: {verdicts}"
        if in_order:
            sound = sorted(serial for serial in self._taken_off if self._deliveries[serial] == 1)
            for first, second in combinations(sound, 2):  # an earlier put can be in a unit of work that ends later
                passed = (
                    self._got_at[second] < self._got_at[first]
                    and self._visible_at.get(first, self._happened) < self._got_at[second]
                )
                assert not passed, f"I7: {second} was got before {first}, which was there"
