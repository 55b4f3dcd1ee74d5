"""After a power cut, unsynced writes can be lost, complete or torn. No acknowledged step is lost, and no step is halved.

A real store runs on a recorded disk. The test cuts the recording at random, and a new store opens the files that a power
cut could leave.
"""

from pathlib import Path

import pytest

from tests.embedded.disk_faults.disk import Disk, build_disk
from tests.embedded.disk_faults.power_cuts import recording, violations

STATES = 250


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Disk:
    return build_disk(tmp_path_factory.mktemp("disk"))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_acknowledged_is_lost_and_no_unit_of_work_is_halved(disk: Disk, folder: Path, seed: int) -> None:
    life = recording(disk, folder, seed)

    assert any(event.file == 4 for event in life.events), "no note was recorded"
    assert [] == list(violations(life, folder, seed, STATES, {}))


@pytest.mark.parametrize("defect", ["answers before the sync", "moves in two units of work"])
def test_the_power_cut_notices_a_store_that(disk: Disk, folder: Path, defect: str) -> None:
    life = recording(disk, folder, 1, defect)

    assert next(violations(life, folder, 1, STATES, {}), None) is not None
