"""What must hold after failovers, given what everybody said and what lies on the queues in the end. Pure.

A total-queue checker (Jepsen's word), and stricter: a message that was moved twice is wrong too, and so is what was refused and
took effect all the same.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct, field

__all__ = ("Said", "violations")


class Said(Struct):
    """What everybody said, sorted."""

    put: set[str] = field(default_factory=set)
    put_unknown: set[str] = field(default_factory=set)
    moved: set[str] = field(default_factory=set)
    not_moved: set[str] = field(default_factory=set)
    collected: Counter[str] = field(default_factory=Counter)
    perhaps_collected: set[str] = field(default_factory=set)
    unknown: int = 0


def violations(lines: Iterable[str], left: Sequence[str], done: Sequence[str]) -> tuple[Said, list[str]]:
    """Return what is wrong, given what was said and what lies on both queues in the end. A queue is its messages' names.

    What was answered "done" happened once; what was answered "not" never; what is unknown at most once; nothing else did.
    """
    said = _read(lines)
    came_out = said.collected + Counter(done)
    outcome = Counter(name.split(">")[0] for name in came_out.elements())
    settled = outcome + Counter(left)
    in_doubt = {name.split(">")[0] for name in said.perhaps_collected}
    wrong = [f"{name} is lost" for name in said.put if not settled[name] and name not in in_doubt]
    wrong += [f"{name} is there {count} times" for name, count in settled.items() if count > 1]
    wrong += [f"{name} was never put" for name in settled if name not in said.put and name not in said.put_unknown]
    wrong += [f"{move} was committed and is not there" for move in said.moved - set(came_out) - said.perhaps_collected]
    wrong += [f"{move} was refused and is there" for move in said.not_moved & set(came_out)]
    return said, wrong


def _read(lines: Iterable[str]) -> Said:
    said = Said()
    open_puts: dict[str, str] = {}
    open_collects: dict[str, list[str]] = {}
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
    said.put_unknown.update(open_puts.values())  # killed before it could say
    said.perhaps_collected.update(name for names in open_collects.values() for name in names)
    return said
