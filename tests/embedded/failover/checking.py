"""Checks the history of failovers against the messages on the queues at the end. The functions are pure.

This is a total-queue checker (Jepsen's word), but stricter. It also reports a message that moved twice, and a refused call
that took effect. And it reports a BackoutCount that is not the number of backed-out deliveries, and a first delivery out of
order.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

__all__ = ("Lying", "Said", "violations")

Lying = tuple[str, int]
"""A message that is on a queue at the end: its name and its BackoutCount."""


class Said(Struct):
    """The lines of all processes, sorted by kind."""

    put: set[str] = field(default_factory=set)
    put_unknown: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    not_moved: set[str] = field(default_factory=set)
    collected: Counter[str] = field(default_factory=Counter)
    perhaps_collected: set[str] = field(default_factory=set)
    unknown: int = 0
    #: For each message the BackoutCounts of its deliveries, one for each delivery.
    shown: dict[str, list[int]] = field(default_factory=dict)
    #: The largest number of messages that gets without an answer can have delivered.
    perhaps_delivered: int = 0
    #: Deliveries that no process saw, but that BackoutCounts include.
    unseen: int = 0
    #: First deliveries that came after the first delivery of a later message of the same putter.
    out_of_turn: list[str] = field(default_factory=list)

    @property
    def delivered(self) -> int:
        """The number of deliveries that a process saw."""
        return sum(map(len, self.shown.values()))

    @property
    def redelivered(self) -> int:
        """The number of these deliveries that were not the first delivery of their message."""
        return sum(count > 0 for counts in self.shown.values() for count in counts)


def violations(lines: Iterable[str], left: Sequence[Lying], done: Sequence[Lying]) -> tuple[Said, list[str]]:
    """Return the errors of this history, with these messages on both queues at the end.

    A call with the answer "done" took effect once, a call with "not" never, and a call with an unknown outcome at most once.
    Every other effect is an error.
    """
    said = _read(lines)
    came_out = said.collected + Counter(name for name, _ in done)
    outcome = Counter(name.split(">")[0] for name in came_out.elements())
    settled = outcome + Counter(name for name, _ in left)
    in_doubt = {name.split(">")[0] for name in said.perhaps_collected}
    wrong = [f"{name} is lost" for name in said.put if not settled[name] and name not in in_doubt]
    wrong += [f"{name} is there {count} times" for name, count in settled.items() if count > 1]
    wrong += [f"{name} was never put" for name in settled if name not in said.put and name not in said.put_unknown]
    wrong += [f"{move} was committed and is not there" for move in said.moved - set(came_out) - said.perhaps_collected]
    wrong += [f"{move} was refused and is there" for move in said.not_moved & set(came_out)]
    wrong += [f"{name} was delivered for the first time out of turn" for name in said.out_of_turn]
    return said, wrong + _miscounted(said, dict((*left, *done)))


def _miscounted(said: Said, left: Mapping[str, int]) -> list[str]:
    """Return which BackoutCounts are wrong: a right count is the number of earlier deliveries, which were all backed out.

    A delivery whose answer was lost is counted but not seen. Only so many deliveries can be missing in the history.
    """
    wrong = []
    for name in said.shown.keys() | left.keys():
        shown = said.shown.get(name, [])
        twice = [count for count, times in Counter(shown).items() if times > 1]
        wrong += [f"{name} was delivered with BackoutCount {count} more than once" for count in twice]
        last = left.get(name, max(shown, default=0))
        backed_out = len(shown) - (name not in left)
        if last < backed_out or (name in left and last <= max(shown, default=-1)):
            wrong.append(f"{name} has BackoutCount {last}, and was backed out {backed_out} times at least")
        said.unseen += max(0, last - backed_out)
    if said.unseen > said.perhaps_delivered:
        wrong.append(f"{said.unseen} backouts were counted that nobody saw, and {said.perhaps_delivered} gets had no answer")
    return wrong


def _read(lines: Iterable[str]) -> Said:
    said = Said()
    open_puts: dict[str, str] = {}
    open_collects: dict[str, list[str]] = {}
    open_gets: dict[str, int] = {}
    latest: dict[tuple[str, str], int] = {}
    for line in lines:
        who, what, *names = line.split()
        said.unknown += what.endswith("-unknown")
        match what:
            case "put":
                open_puts[who] = names[0]
            case "put-done":
                said.put.add(open_puts.pop(who))
            case "put-unknown":
                said.put_unknown.add(open_puts.pop(who))
            case "put-not":
                del open_puts[who]
            case "get":
                open_gets[who] = int(names[0])
            case "got":
                del open_gets[who]
                _take_in(said, who, names, latest)
            case "got-lost":
                said.perhaps_delivered += open_gets.pop(who)
            case "got-not":
                del open_gets[who]
            case "move-done":
                said.moved.update(names)
            case "move-not":
                said.not_moved.update(names)
            case "collect":
                open_collects[who] = names
            case "collect-done":
                said.collected.update(open_collects.pop(who))
            case "collect-unknown":
                said.perhaps_collected.update(open_collects.pop(who))
            case "collect-not":
                del open_collects[who]
            case _:
                pass
    said.put_unknown.update(open_puts.values())  # the process was killed before it could print the answer
    said.perhaps_collected.update(name for names in open_collects.values() for name in names)
    said.perhaps_delivered += sum(open_gets.values())
    return said


def _take_in(said: Said, who: str, messages: Iterable[str], latest: dict[tuple[str, str], int]) -> None:
    """Note deliveries. `latest` is, by getter and putter, the last message that the getter was the first to get."""
    for each in messages:
        name, _, count = each.partition("=")
        said.shown.setdefault(name, []).append(int(count))
        putter, _, number = name.partition(".")
        if count == "0" and number.isdecimal():  # several clients put moved messages at the same time
            if int(number) < latest.get((who, putter), 0):
                said.out_of_turn.append(name)
            latest[who, putter] = int(number)
