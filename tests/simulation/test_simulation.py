"""The whole served queue manager with a standby, under an application, in virtual time, against I1 to I10. Docs: reliability.

More: `python -m tests.simulation 10000`. A seed that finds something says how to run it again.
"""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqflow.testing.virtual_time import Backend
from tests.embedded.disk import memory_folder
from tests.simulation.defects import DEFECTS
from tests.simulation.scenario import simulate

SEEDS = int(os.environ.get("MQFLOW_SIMULATED_SERVERS", "50"))
"""Of each event loop."""

FOUND = {
    "two_sessions_reconnect_at_once": 2,
}
"""The first seed on asyncio that finds a defect: `python -m tests.simulation 500 --backend asyncio --defect NAME` says."""

both = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@pytest.fixture
def root() -> Iterator[Path]:
    with memory_folder() as made:
        yield made


@both
@pytest.mark.timeout(0 if SEEDS > 200 else 120)
def test_the_invariants_hold_whatever_happens_to_whom(backend: Backend, root: Path) -> None:
    happened: Counter[str] = Counter()
    for seed in range(SEEDS):
        report = simulate(seed, backend, root)
        happened += report.events + Counter(takeovers=report.owners - 2, unknown_puts=report.unknown_puts)

    tame = {"Reconnected", "InDoubt", "Disposed", "DelayedDelivered", "takeovers", "unknown_puts"} - set(+happened)
    assert not tame, f"in {SEEDS} runs there was none of {tame}: too tame to prove anything"


@both
def test_the_same_seed_is_the_same_run_to_the_byte(backend: Backend, root: Path) -> None:
    first = simulate(15, backend, root)
    simulate(14, backend, root)

    assert first == simulate(15, backend, root)


@pytest.mark.parametrize("defect", sorted(FOUND))
def test_a_planted_defect_is_found(defect: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    DEFECTS[defect](monkeypatch)

    with pytest.raises((AssertionError, TimeoutError, ExceptionGroup)):
        simulate(FOUND[defect], "asyncio", root)


def test_every_defect_has_a_seed_that_finds_it() -> None:
    assert set(FOUND) <= set(DEFECTS)
