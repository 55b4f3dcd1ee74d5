"""Flips single bits in the files of a store, one after the other, and reads all messages after each flip.

The files are the database of a closed store, and the log that a killed owner leaves behind.
"""

import random
import shutil
from collections import Counter
from pathlib import Path

from mqflow.embedded.storage.folder import DamagedFolderError, DamagedLogError
from mqflow.embedded.storage.store import MessageAdded, MessageRemoved, StoredMessage
from tests.embedded.storage.stored_messages import Contents, defined, message, reopened, write

__all__ = ("flip_bits",)


def flip_bits(folder: Path, seed: int, flips: int) -> tuple[Counter[str], list[str]]:
    """Flip so many bits. Return how the flips ended, and a sentence for each wrong result.

    A flip must be harmless, or cost one message that the store names, or make the start fail.
    """
    chance = random.Random(seed)  # noqa: S311 - the same flips for the same seed
    put = {serial: message(serial, chance.randbytes(chance.choice([30, 700, 6000]))) for serial in range(1, 41)}
    outcomes: Counter[str] = Counter()
    wrong: list[str] = []
    with defined(folder / "data") as store:
        write(store, [MessageAdded(message(serial, bytes(3000))) for serial in range(51, 61)])
        write(store, [MessageRemoved(serial) for serial in range(51, 61)])
        write(store, [MessageAdded(each) for each in put.values()])
        shutil.copytree(folder / "data", folder / "killed")
    files = [(folder / "data", "queue_manager.db", 100), (folder / "killed", "queue_manager.db-wal", 0)]
    wholes = [(of, file, first, (of / file).read_bytes()) for of, file, first in files]
    for flip in range(flips):
        of, file, first, whole = chance.choice(wholes)
        damaged = bytearray(whole)
        place, bit = chance.randrange(first, len(whole.rstrip(b"\0"))), chance.randrange(8)
        damaged[place] ^= 1 << bit
        data = folder / str(flip)
        shutil.copytree(of, data)
        (data / file).write_bytes(damaged)
        try:
            outcome, said = _judged(reopened(data), put)
        except (DamagedFolderError, DamagedLogError):
            outcome, said = "refused", ""
        outcomes[outcome] += 1
        wrong += [f"bit {bit} of byte {place} of {file}: {said}"] * bool(said)
        shutil.rmtree(data)
    return outcomes, wrong


def _judged(contents: Contents, put: dict[int, StoredMessage]) -> tuple[str, str]:
    """Return how the flip ended, and what is wrong."""
    lost = put.keys() - {each.serial for each in contents.messages}
    outcome = "set aside" if lost else "harmless"
    altered = [each.serial for each in contents.messages if put.get(each.serial) != each]
    if altered:
        return outcome, f"the messages {altered} are altered"
    if len(lost) != len(contents.quarantined) or len(lost) > 1:
        return outcome, f"the messages {sorted(lost)} are lost, and {contents.quarantined} are set aside"
    return outcome, ""
