"""Flips single bits in the file of a closed store, one after the other, and reads all messages after each flip."""

import random
import shutil
from collections import Counter
from pathlib import Path

from mqflow.embedded.storage.folder import DamagedFolderError
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
    file = "queue_manager.db"
    whole = (folder / "data" / file).read_bytes()
    used = len(whole.rstrip(b"\0"))
    for flip in range(flips):
        damaged = bytearray(whole)
        place, bit = chance.randrange(100, used), chance.randrange(8)
        damaged[place] ^= 1 << bit
        data = folder / str(flip)
        shutil.copytree(folder / "data", data)
        (data / file).write_bytes(damaged)
        try:
            outcome, said = _judged(reopened(data), put)
        except DamagedFolderError:
            outcome, said = "refused", ""
        outcomes[outcome] += 1
        wrong += [f"bit {bit} of byte {place}: {said}"] * bool(said)
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
