"""A test of ours notices, through the real package, each defect that no public suite of the packages notices.

Source: runs of those suites on a queue manager with one defect at a time.
"""

from pathlib import Path

import pytest

from tests.standin.harness import ENDED, Child, Plant
from tests.standin.planted import NOTICED

pytestmark = pytest.mark.xdist_group("standin")

TESTS = Path(__file__).with_name("test_packages.py")


@pytest.mark.parametrize(("plant", "test"), NOTICED, ids=[f"{plant.__name__}-{test}" for plant, test in NOTICED])
def test_a_planted_defect_is_noticed(package: Child, plant: Plant, test: str) -> None:
    failure = package.failure_of(TESTS, test, plant)

    assert failure, f"{test} passes with this defect: {plant.__name__}"
    assert ENDED not in failure, "the defect could not be planted, or ended the process"
