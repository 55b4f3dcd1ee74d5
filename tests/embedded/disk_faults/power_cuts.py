"""Power cuts: cuts a recording of a store's disk in many places, and opens the files that a power cut could leave.

Like SQLite, this assumes that a disk writes a sector of 512 bytes whole, and that a reported sync is real.
"""

import random
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from mqflow.embedded.storage.folder import FolderError
from tests.embedded.disk_faults.disk import Disk, Kind, Recording, recorded
from tests.embedded.disk_faults.scenario import Stored, after, found_in, steps
from tests.embedded.storage.stored_messages import reopened

__all__ = ("recording", "violations")

STEPS: Final = 60


def recording(disk: Disk, folder: Path, seed: int, defect: str = "none") -> Recording:
    """Return the writes and marks of a life of a store."""
    log = folder / "recording"
    data = folder / "data"
    data.mkdir(mode=0o700)
    ended = disk.run("tests.embedded.disk_faults.scenario", str(seed), str(STEPS), "4", defect, folder=data, log=log)
    assert (0, "") == (ended.returncode, ended.stderr)
    return recorded(log)


def violations(recording: Recording, folder: Path, seed: int, states: int) -> Iterator[str]:
    """Cut the recording in so many places. Yield a sentence for each power cut with a wrong result."""
    chance = random.Random(seed)  # noqa: S311 - the same cuts for the same seed
    life = steps(seed, STEPS)
    models = [after(life[:number]) for number in range(STEPS + 1)]
    events = recording.events
    started = next(index for index, event in enumerate(events) if event.kind == Kind.MARK)
    for state in range(states):
        cut = chance.randrange(started + 1, len(events) + 1)
        marks = [event.offset for event in events[:cut] if event.kind == Kind.MARK]
        answered, asked = max(marks), -min(marks)
        where = folder / f"state-{state}"
        where.mkdir(mode=0o700)
        for name, content in recording.files_after_power_cut(cut, chance).items():
            (where / name).write_bytes(content)
        yield from (
            f"state {state}, cut at {cut}: {wrong}" for wrong in _wrong(where, models[answered : max(asked, answered) + 1])
        )
        shutil.rmtree(where)


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
