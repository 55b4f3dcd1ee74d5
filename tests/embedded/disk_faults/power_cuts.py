"""Power cuts: cuts a recording of a store's disk in many places, and opens the files that a power cut could leave.

Like SQLite, this assumes that a disk writes a sector of 512 bytes whole, and that a reported sync is real.
"""

import hashlib
import random
import shutil
from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Final

from mqflow.embedded.storage.folder import FolderError
from tests.embedded.disk_faults.disk import Disk, Kind, Recording, recorded
from tests.embedded.disk_faults.scenario import Stored, after, found_in, steps
from tests.embedded.storage.stored_messages import reopened

__all__ = ("Found", "recording", "violations")

STEPS: Final = 60

Found = Stored | str
"""The messages that a store finds in the files of a power cut; a sentence if it refuses the files, or finds damage."""


def recording(disk: Disk, folder: Path, seed: int, defect: str = "none") -> Recording:
    """Return the writes and marks of a life of a store."""
    log = folder / "recording"
    data = folder / "data"
    data.mkdir(mode=0o700)
    ended = disk.run("tests.embedded.disk_faults.scenario", str(seed), str(STEPS), "4", defect, folder=data, log=log)
    assert (0, "") == (ended.returncode, ended.stderr)
    return recorded(log)


def violations(recording: Recording, folder: Path, seed: int, states: int, opened: dict[bytes, Found]) -> Iterator[str]:
    """Cut the recording in so many places. Yield a sentence for each power cut with a wrong result.

    Several cuts can leave the same files. A store opens such files once, and the result is compared for each of these cuts.
    `opened` has the results, by a digest of the files.
    """
    chance = random.Random(seed)  # noqa: S311 - the same cuts for the same seed
    life = steps(seed, STEPS)
    models = [after(life[:number]) for number in range(STEPS + 1)]
    marks = [event.offset if event.kind == Kind.MARK else None for event in recording.events]
    answered = list(accumulate((0 if mark is None else mark for mark in marks), max, initial=0))
    asked = list(accumulate((0 if mark is None else -mark for mark in marks), max, initial=0))
    started = next(index for index, mark in enumerate(marks) if mark is not None)
    for state in range(states):
        cut = chance.randrange(started + 1, len(marks) + 1)
        files = recording.files_after_power_cut(cut, chance)
        same = _digest(files)
        if same not in opened:
            opened[same] = _found(files, folder / f"state-{state}")
        allowed = models[answered[cut] : max(asked[cut], answered[cut]) + 1]
        found = opened[same]
        if isinstance(found, str):
            yield f"state {state}, cut at {cut}: {found}"
        elif found not in allowed:
            yield (
                f"state {state}, cut at {cut}: {found} is no state between what was acknowledged ({allowed[0]}) and what was "
                f"asked for ({allowed[-1]})"
            )


def _digest(files: Mapping[str, bytes | bytearray]) -> bytes:
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name} {len(content)} ".encode())
        digest.update(content)
    return digest.digest()


def _found(files: Mapping[str, bytes | bytearray], folder: Path) -> Found:
    folder.mkdir(mode=0o700)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    try:
        snapshot = reopened(folder)
    except FolderError as error:
        return str(error)
    finally:
        shutil.rmtree(folder)
    return f"damaged: {snapshot.quarantined}" if snapshot.quarantined else found_in(snapshot)
