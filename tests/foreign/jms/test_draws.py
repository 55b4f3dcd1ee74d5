"""IBM's JMS classes and mqflow choose entries of the same channel table: the weights are compared over many draws.

The addresses are sockets that close each connection at once. So a program tries all entries of its table, and each attempt
leaves its place in a list.
"""

import json
from collections import Counter
from itertools import permutations
from pathlib import Path
from random import Random
from typing import Final

import pytest

from mqflow.policy.channels.candidates import Preference, candidates
from mqflow.policy.channels.table_json import parse
from tests.foreign.jms.closing import closing_sockets
from tests.foreign.jms.program import Program
from tests.long import usually

pytestmark = pytest.mark.xdist_group("jms")  # one worker fetches, compiles and starts the program

DRAWS: Final = usually(600, long=10_000)
#: The share of a first place may be wrong by five standard deviations.
TOLERANCE: Final = 5 * 0.5 / DRAWS**0.5
#: See `chi_square`.
CHI_SQUARE_MAX: Final = 30.0
AT_ONCE: Final = 1_000


def table(ports: list[int], weights: list[int], affinity: str) -> str:
    """Return a JSON table: entries with these weights, for the group QMS. Their names are in the reverse order."""
    return json.dumps({
        "channel": [
            {
                "name": f"CHANNEL.{9 - place}",
                "type": "clientConnection",
                "clientConnection": {"queueManager": "QMS", "connection": [{"host": "127.0.0.1", "port": port}]},
                "connectionManagement": {"clientWeight": weight, "affinity": affinity},
            }
            for place, (port, weight) in enumerate(zip(ports, weights, strict=True))
        ]
    })  # fmt: skip


def theirs(java: Program, path: Path, weights: list[int], affinity: str, draws: int) -> list[int]:
    """Return the entries that IBM's classes try in so many connects, one behind the other."""
    with closing_sockets(*(0 for _ in weights)) as closing:
        path.write_text(table(closing.ports, weights, affinity))
        for begin in range(0, draws, AT_ONCE):
            count = min(AT_ONCE, draws - begin)
            assert ["[2009]", "end"] == java.run(1, "app", "secret", f"draws:{count}:*QMS:{path.as_uri()}")
    return [place for place, _ in closing.tried]


def ours(weights: list[int], affinity: str, draws: int) -> list[int]:
    """Return the entries that mqflow tries in so many connects."""
    read = parse(table(list(range(1, len(weights) + 1)), weights, affinity).encode(), "ccdt.json")
    start, random = Preference(table=read), Random(18)  # noqa: S311 - the draws of a test
    connects = (candidates(start, "*QMS", random=random.random, host="here") for _ in range(draws))
    return [each.channel.position for connect in connects for each in connect]


def shares(tried: list[int], length: int) -> dict[tuple[int, ...], float]:
    """Return the share of each order among the connects, which have this number of attempts each."""
    assert 0 == len(tried) % length
    orders = Counter(tuple(tried[at : at + length]) for at in range(0, len(tried), length))
    return {order: count * length / len(tried) for order, count in orders.items()}


def chi_square(found: dict[tuple[int, ...], float], weights: list[int]) -> float:
    """Return how far the orders are from the weights. By chance alone, it is above 30 in one of 60,000 tests of six orders."""
    distance = 0.0
    for order in permutations(range(len(weights))):
        left, expected = sum(weights), 1.0
        for place in order:
            expected *= weights[place] / left
            left -= weights[place]
        distance += DRAWS * (found.get(order, 0) - expected) ** 2 / expected
    return distance


def test_with_affinity_none_both_draw_by_weight(java: Program, tmp_path: Path) -> None:
    """The entries are first in 10, 20 and 70 of 100 draws, and the weights of the others decide about the second place."""
    weights = [2, 4, 14]
    found = shares(theirs(java, tmp_path / "ccdt.json", weights, "none", DRAWS), 3)
    made = shares(ours(weights, "none", DRAWS), 3)

    for whose, drawn in (("IBM's classes", found), ("mqflow", made)):
        counts = {order: round(share * DRAWS) for order, share in drawn.items()}
        print(whose, chi_square(drawn, weights), counts)  # noqa: T201 - for the page of differences
        assert chi_square(drawn, weights) < CHI_SQUARE_MAX


def test_entries_of_weight_0_come_first_by_name_and_ibms_classes_try_them_again(java: Program, tmp_path: Path) -> None:
    """The difference: with AFFINITY(NONE), IBM's classes try the entries of weight 0 again before each further entry."""
    weights = [0, 3, 0, 1]
    found = shares(theirs(java, tmp_path / "ccdt.json", weights, "none", DRAWS), 8)
    made = shares(ours(weights, "none", DRAWS), 4)

    assert {(2, 0, 1, 2, 0, 3, 2, 0), (2, 0, 3, 2, 0, 1, 2, 0)} == found.keys()
    assert {(2, 0, 1, 3), (2, 0, 3, 1)} == made.keys()
    for share in (found[2, 0, 1, 2, 0, 3, 2, 0], made[2, 0, 1, 3]):
        assert share == pytest.approx(0.75, abs=TOLERANCE)


def test_with_affinity_preferred_each_connect_has_the_same_order(java: Program, tmp_path: Path) -> None:
    for weights in ([2, 4, 14], [0, 3, 0, 1]):
        found = shares(theirs(java, tmp_path / "ccdt.json", weights, "preferred", 20), len(weights))
        assert 1 == len(found) == len(shares(ours(weights, "preferred", 20), len(weights)))
