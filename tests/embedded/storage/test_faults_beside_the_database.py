"""Damage to the files beside the database: the in-flight marks and the lock. No message is lost or altered by it."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mqflow.embedded.storage.folder import UnusableFileError
from tests.embedded.storage.stored_messages import added, defined, opened, reopened, serials, write

HELD = 3


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Return the folder of an owner that was killed while a unit of work held one of three messages."""
    with defined(tmp_path / "running") as store:
        write(store, added(1, 2, HELD))
        store.mark_in_flight(HELD, 0, harden=False)
        shutil.copytree(tmp_path / "running", tmp_path / "killed")
    return tmp_path / "killed"


def _counts(folder: Path) -> dict[int, int]:
    return {each.serial: each.descriptor.backout_count for each in reopened(folder).messages}


def test_without_damage_the_held_message_is_counted_once(killed: Path) -> None:
    assert {1: 0, 2: 0, HELD: 1} == _counts(killed)


def test_a_flipped_bit_in_the_marks_forgets_at_most_the_delivery_of_its_message(killed: Path, tmp_path: Path) -> None:
    """The CRC of a mark keeps a flipped bit from counting the delivery of another message, or another count."""
    found: list[int] = []
    for bit in range(16 * 8):  # the one mark that is in use
        folder = tmp_path / str(bit)
        shutil.copytree(killed, folder)
        data = bytearray((folder / "in_flight").read_bytes())
        data[bit // 8] ^= 1 << bit % 8
        (folder / "in_flight").write_bytes(data)
        counts = _counts(folder)
        found.append(counts.pop(HELD))
        assert {1: 0, 2: 0} == counts
        shutil.rmtree(folder)

    assert [0] * 128 == found


@pytest.mark.parametrize(
    "damage",
    [
        lambda marks: marks.unlink(),
        lambda marks: marks.write_bytes(b""),
        lambda marks: marks.write_bytes(b"\xff" * 100),
        lambda marks: marks.write_bytes(random.Random(1).randbytes(262_144)),  # noqa: S311 - the same bytes every time
        lambda marks: marks.write_bytes(marks.read_bytes()[:5_000]),
    ],
    ids=["deleted", "emptied", "short", "random", "cut"],
)
def test_damaged_marks_lose_no_message_and_the_next_owner_marks_again(killed: Path, damage: Callable[[Path], object]) -> None:
    damage(killed / "in_flight")
    before = _counts(killed)
    with opened(killed) as (store, _):
        store.mark_in_flight(1, 0, harden=True)
    after = _counts(killed)

    assert [{1: 0, 2: 0}, {1: 1, 2: 0}] == [{serial: counts[serial] for serial in (1, 2)} for counts in (before, after)]
    assert before[HELD] == after[HELD]


@pytest.mark.parametrize("content", [b"", b"\0" * 40, b"not a number at all\n" * 9, b"99999999999999999999"])
def test_any_content_of_the_lock_file_lets_the_next_owner_in(killed: Path, content: bytes) -> None:
    (killed / "owner.lock").write_bytes(content)

    assert [1, 2, HELD] == serials(reopened(killed))


def test_a_lock_that_is_a_link_is_refused_and_what_it_names_is_not_changed(killed: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"another file")
    (killed / "owner.lock").unlink()
    (killed / "owner.lock").symlink_to(other)

    with pytest.raises(UnusableFileError, match=r"owner\.lock cannot be opened: .*symbolic links"):
        reopened(killed)
    assert b"another file" == other.read_bytes()
