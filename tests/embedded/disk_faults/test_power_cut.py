"""After a power cut, unsynced writes can be lost, complete or torn. No acknowledged step is lost, and no step is halved.

A real store runs on a recorded disk; the test cuts the recording at random, and a new store opens the files that a power
cut could leave. Like SQLite, the test assumes that a disk writes a sector of 512 bytes whole, and that a reported sync is real.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from mqflow.embedded.storage.folder import FolderError
from tests.embedded.disk_faults.disk import Disk, Event, Kind, build_disk, files_after_power_cut, memory_folder, recorded
from tests.embedded.disk_faults.scenario import Stored, after, found_in, steps
from tests.embedded.storage.stored_messages import reopened

STEPS = 60
STATES = 250


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as made:
        yield made


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Disk:
    return build_disk(tmp_path_factory.mktemp("disk"))


def _recording(disk: Disk, folder: Path, seed: int, defect: str = "none") -> list[Event]:
    log = folder / "recording"
    data = folder / "data"
    data.mkdir(mode=0o700)
    ended = disk.run("tests.embedded.disk_faults.scenario", str(seed), str(STEPS), "4", defect, folder=data, log=log)
    assert (0, "") == (ended.returncode, ended.stderr)
    return recorded(log)


def _violations(events: Sequence[Event], folder: Path, seed: int) -> Iterator[str]:
    """Yield a sentence for each power cut with a wrong result."""
    chance = random.Random(seed)  # noqa: S311 - the same cuts for the same seed
    life = steps(seed, STEPS)
    models = [after(life[:number]) for number in range(STEPS + 1)]
    started = next(index for index, event in enumerate(events) if event.kind == Kind.MARK)
    for state in range(STATES):
        cut = chance.randrange(started + 1, len(events) + 1)
        marks = [event.offset for event in events[:cut] if event.kind == Kind.MARK]
        answered, asked = max(marks), -min(marks)
        where = folder / f"state-{state}"
        where.mkdir(mode=0o700)
        for name, content in files_after_power_cut(events[:cut], chance).items():
            (where / name).write_bytes(content)
        yield from (
            f"state {state}, cut at {cut}: {wrong}" for wrong in _wrong(where, models[answered : max(asked, answered) + 1])
        )


def _wrong(folder: Path, allowed: Sequence[Stored]) -> Iterator[str]:
    try:
        snapshot = reopened(folder)
    except FolderError as error:
        yield str(error)
        return
    found = found_in(snapshot)
    if snapshot.quarantined:
        yield f"damaged: {snapshot.quarantined}"
    if found not in allowed:
        yield f"{found} is no state between what was acknowledged ({allowed[0]}) and what was asked for ({allowed[-1]})"


@pytest.mark.parametrize("seed", [1, 2])
def test_nothing_acknowledged_is_lost_and_no_unit_of_work_is_halved(disk: Disk, folder: Path, seed: int) -> None:
    events = _recording(disk, folder, seed)

    assert any(event.file == 4 for event in events), "no note was recorded"
    assert [] == list(_violations(events, folder, seed))


@pytest.mark.parametrize("defect", ["answers before the sync", "moves in two units of work"])
def test_the_power_cut_notices_a_store_that(disk: Disk, folder: Path, defect: str) -> None:
    events = _recording(disk, folder, 1, defect)

    assert next(_violations(events, folder, 1), None) is not None
