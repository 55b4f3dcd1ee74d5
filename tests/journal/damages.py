"""Damages a journal at random, and checks that `verify_journal` names every damage, and no sound segment.

`python -m tests.campaign journals` makes thousands of trials. Each trial damages one to three lanes; some trials
change nothing, or only leave what a kill leaves. As a control, a check by names and checksums alone judges the same journals.
"""

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from msgspec.structs import asdict

from mqflow.journal import Consumers, Journal, JournalError, Kind, Lane
from mqflow.journal.heads import Head, write_head
from mqflow.journal.segment_chain import Rewrite
from mqflow.journal.segment_data import checksum, encode, inspect
from mqflow.journal.segments import read_table
from mqflow.journal.verification import verify_journal
from mqflow.testing.journals import add_segment, generate_journal, invented
from tests.journal.files import path_of
from tests.journal.old_segments import add_old_segment

__all__ = ("DAMAGES", "SOUND", "Template", "campaign")

LANES = ("A", "B/2", "C")
Named = set[tuple[str, int]]
"""Lanes and segments; segment 0 stands for the lane as a whole."""


class Template:
    """A sound journal, and segments that do not belong to it: of another journal, and of another history of this one."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal"
        for name, segments in zip(LANES, (6, 7, 2), strict=True):
            generate_journal(self.path, Kind.PAYLOAD, segments=segments, rows=3, lane=name)
        self.journal = Journal.open(self.path)
        old = self.journal.add_lane("OLD", Kind.PAYLOAD, queue="OLD", queue_manager="QM1")
        for seed in (1, 2, 3):
            add_old_segment(old, invented(Kind.PAYLOAD, 3, seed=seed))
        add_segment(old, invented(Kind.PAYLOAD, 3, seed=4))
        Consumers(self.journal).commit("reader", {"B/2": 3})
        Consumers(self.journal).trim()
        self.foreign = {name: generate_journal(folder / "other", Kind.PAYLOAD, segments=7, rows=3, lane=name) for name in LANES}
        shutil.copytree(self.path, folder / "fork")
        self.fork: dict[str, Lane] = {}
        for name in LANES:
            lane = self.fork[name] = Journal.open(folder / "fork").lane(name)
            for segment in lane.all_segments()[1:]:
                path_of(segment).unlink()
            (folder / "fork" / "heads" / f"{lane.folder.uri.rpartition('/')[2]}.json").unlink()
            for number in range(8):
                add_segment(lane, invented(Kind.PAYLOAD, 3, seed=100 + number))
        self._files = {path: path.read_bytes() for path in self.path.rglob("*") if path.is_file()}

    def restore(self) -> None:
        """Make the journal sound again."""
        for path in sorted(self.path.rglob("*"), reverse=True):
            if path.is_file() and path not in self._files:
                path.unlink()
            elif path.is_dir() and path.parent.name == "lanes" and not any(path in each.parents for each in self._files):
                path.rmdir()
        for path, data in self._files.items():
            if not path.exists() or path.read_bytes() != data:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)


class Trial:
    """One lane, and a seed for its damage."""

    def __init__(self, template: Template, name: str, chance: Random) -> None:
        self.template = template
        self.chance = chance
        self.lane = template.journal.lane(name)
        self.name = name
        self.segments = list(self.lane.all_segments())

    @property
    def folder(self) -> Path:
        return path_of(self.lane)

    @property
    def head(self) -> Path:
        return self.template.path / "heads" / f"{self.folder.name}.json"

    def one(self) -> tuple[Path, int]:
        """Return the file and the number of a segment."""
        segment = self.chance.choice(self.segments)
        return path_of(segment), segment.number

    def two(self) -> tuple[tuple[Path, int], tuple[Path, int]]:
        one, two = self.chance.sample(self.segments, 2)
        return (path_of(one), one.number), (path_of(two), two.number)

    def named(self, *numbers: int) -> Named:
        return {(self.name, number) for number in numbers}


def turn_bit(trial: Trial) -> Named:
    path, number = trial.one()
    data = bytearray(path.read_bytes())
    data[trial.chance.randrange(len(data))] ^= 1 << trial.chance.randrange(8)
    path.write_bytes(data)
    return trial.named(number)


def cut(trial: Trial) -> Named:
    path, number = trial.one()
    path.write_bytes(path.read_bytes()[: trial.chance.randrange(path.stat().st_size)])
    return trial.named(number)


def zero(trial: Trial) -> Named:
    """A block that the disk returns as zeros."""
    path, number = trial.one()
    data = bytearray(path.read_bytes())
    at = trial.chance.randrange(len(data) - 64)
    data[at : at + 64] = bytes(64)
    if data == path.read_bytes():
        return set()
    path.write_bytes(data)
    return trial.named(number)


def append(trial: Trial) -> Named:
    path, number = trial.one()
    path.write_bytes(path.read_bytes() + trial.chance.randbytes(trial.chance.randint(1, 99)))
    return trial.named(number)


def delete(trial: Trial) -> Named:
    path, number = trial.one()
    path.unlink()
    return trial.named(number)


def delete_tail(trial: Trial) -> Named:
    lost = trial.segments[trial.chance.randrange(len(trial.segments)) :]
    for segment in lost:
        path_of(segment).unlink()
    return trial.named(*(segment.number for segment in lost))


def delete_several(trial: Trial) -> Named:
    lost = trial.chance.sample(trial.segments, min(len(trial.segments), trial.chance.randint(2, 3)))
    for segment in lost:
        path_of(segment).unlink()
    return trial.named(*(segment.number for segment in lost))


def swap_names(trial: Trial) -> Named:
    """Exchange the numbers in the names of two segments."""
    (one, first), (two, second) = trial.two()
    data_one, data_two = one.read_bytes(), two.read_bytes()
    one.unlink()
    two.unlink()
    _renumbered(one, second).write_bytes(data_one)
    _renumbered(two, first).write_bytes(data_two)
    return trial.named(first, second)


def swap_contents(trial: Trial) -> Named:
    (one, first), (two, second) = trial.two()
    data_one, data_two = one.read_bytes(), two.read_bytes()
    one.write_bytes(data_two)
    two.write_bytes(data_one)
    return trial.named(first, second)


def overwrite_with_copy(trial: Trial) -> Named:
    """One segment counts twice: its copy has the number of another segment, which is gone."""
    (one, _), (two, second) = trial.two()
    two.unlink()
    _renumbered(one, second).write_bytes(one.read_bytes())
    return trial.named(second)


def copy_beside(trial: Trial) -> Named:
    """One segment counts twice: its copy has a new number."""
    path, _ = trial.one()
    number = trial.segments[-1].number + trial.chance.randint(1, 3)
    _renumbered(path, number).write_bytes(path.read_bytes())
    return trial.named(number)


def move_to_the_end(trial: Trial) -> Named:
    path, number = trial.one()
    beyond = trial.segments[-1].number + trial.chance.randint(1, 10_000)
    path.rename(_renumbered(path, beyond))
    return trial.named(number, beyond)


def move_away(trial: Trial) -> Named:
    path, number = trial.one()
    path.rename(path.with_name(trial.chance.choice(("x.parquet", f"{path.name}.bak", f".{path.name}"))))
    return trial.named(number)


def rename_rows(trial: Trial) -> Named:
    path, number = trial.one()
    first, _, rest = path.name.split("-")
    path.rename(path.with_name(f"{first}-{trial.chance.randint(4, 99)}-{rest}"))
    return trial.named(number)


def rename_checksum(trial: Trial) -> Named:
    path, number = trial.one()
    first, rows, _ = path.name.split("-")
    path.rename(path.with_name(f"{first}-{rows}-{trial.chance.randrange(2**32):08x}{path.suffix}"))
    return trial.named(number)


def replace_by_foreign(trial: Trial) -> Named:
    """The segment of this lane and number of another journal, under its own name."""
    return _replaced(trial, trial.template.foreign)


def replace_by_fork(trial: Trial) -> Named:
    """The segment of this journal, lane and number from another history: a restored copy that went on by itself."""
    return _replaced(trial, trial.template.fork)


def double_by_fork(trial: Trial) -> Named:
    """The same, beside the right one."""
    return _replaced(trial, trial.template.fork, keep=True)


def replace_by_neighbour(trial: Trial) -> Named:
    """The segment of this number of another lane."""
    path, number = trial.one()
    other = trial.template.foreign["C" if trial.name != "C" else "A"].segments(after=number - 1, through=number)
    path.unlink()
    path.with_name(other[0].name).write_bytes(path_of(other[0]).read_bytes())
    return trial.named(number)


def lose_lane(trial: Trial) -> Named:
    shutil.rmtree(trial.folder)
    return trial.named(*range(1, trial.segments[-1].number + 1))


def rename_lane(trial: Trial) -> Named:
    other = f"{trial.folder.name}.old"
    trial.folder.rename(trial.folder.with_name(other))
    return trial.named(*range(1, trial.segments[-1].number + 1)) | {(other.replace("%2F", "/"), 0)}


def copy_lane(trial: Trial) -> Named:
    other = f"{trial.folder.name}.bak"
    shutil.copytree(trial.folder, trial.folder.with_name(other))
    return {(other.replace("%2F", "/"), 0)}


def lose_lane_file(trial: Trial) -> Named:
    (trial.folder / "lane.json").unlink()
    return trial.named(*range(1, trial.segments[-1].number + 1))


def garble_lane_file(trial: Trial) -> Named:
    (trial.folder / "lane.json").write_bytes(trial.chance.choice((b"", b"{", b"\xff")))
    return trial.named(*range(1, trial.segments[-1].number + 1))


def lose_head(trial: Trial) -> Named:
    trial.head.unlink()
    return trial.named(0)


def garble_head(trial: Trial) -> Named:
    trial.head.write_bytes(trial.chance.choice((b"", b"{", b"\xff")))
    return trial.named(0)


DAMAGES: Sequence[Callable[[Trial], Named]] = (
    turn_bit, cut, zero, append, delete, delete_tail, delete_several, swap_names, swap_contents, overwrite_with_copy,
    copy_beside, move_to_the_end, move_away, rename_rows, rename_checksum, replace_by_foreign, replace_by_fork, double_by_fork,
    replace_by_neighbour, lose_lane, rename_lane, copy_lane, lose_lane_file, garble_lane_file, lose_head, garble_head,
)  # fmt: skip

OLD: Sequence[Callable[[Trial], Named]] = (
    turn_bit, cut, append, delete, delete_tail, swap_names, overwrite_with_copy, copy_beside,
)  # fmt: skip
"""The damages of a lane with segments of an older mqflow, which name no other segment."""


def nothing(_: Trial) -> None:
    """The control of the controls."""


def head_is_older(trial: Trial) -> None:
    """A kill after a publication, before its record; or a power cut."""
    older = trial.chance.choice([None, *trial.segments[:-1]])
    head = Head(lane=trial.name) if older is None else Head(lane=trial.name, **asdict(older.tip))
    write_head(trial.template.journal.folder, trial.folder.name, head)


def pending_is_left(trial: Trial) -> None:
    (trial.folder / f"{trial.segments[-1].number + 1:012d}-3.pend").write_bytes(b"torn")


def trimmed_file_is_left(trial: Trial) -> None:
    """A killed trim has recorded the trim, and deleted only some of the files."""
    trial.lane.note(trimmed=trial.segments[trial.chance.randrange(len(trial.segments) - 1)])


def segment_is_rewritten(trial: Trial) -> None:
    """The rewrite in place, with a receipt, that an erasure of one person's messages makes."""
    segment = trial.chance.choice(trial.segments)
    link = inspect(path_of(segment).read_bytes(), Kind.PAYLOAD, where=segment.uri).link
    if link is None:
        return
    made = {name: column[1:] for name, column in read_table(segment, Kind.PAYLOAD).to_pydict().items()}
    encoded = encode(Kind.PAYLOAD, made, link)
    trial.lane.note(
        rewrite=Rewrite(
            number=segment.number,
            rows_before=segment.rows,
            crc_before=segment.crc,
            rows=encoded.rows,
            crc=checksum(encoded.data),
        )
    )
    trial.lane.folder.write(f"{segment.number:012d}-{encoded.rows}-{encoded.crc:08x}.parquet", encoded.data)
    path_of(segment).unlink()


SOUND: Sequence[Callable[[Trial], None]] = (
    nothing, head_is_older, pending_is_left, trimmed_file_is_left, segment_is_rewritten,
)  # fmt: skip


def _renumbered(path: Path, number: int) -> Path:
    return path.with_name(f"{number:012d}{path.name[12:]}")


def _replaced(trial: Trial, source: dict[str, Lane], *, keep: bool = False) -> Named:
    """Replace a segment that has a link by the one of this number from the source."""
    path, number = trial.one()
    other = [segment for segment in source[trial.name].all_segments() if segment.number == number]
    if not other or other[0].name == path.name:
        return set()  # both histories begin with the same segment
    if not keep:
        path.unlink()
    path.with_name(other[0].name).write_bytes(path_of(other[0]).read_bytes())
    return trial.named(number)


def named(journal: Journal) -> Named:
    """Return the lanes and segments that the verification names."""
    found = [finding for lane in verify_journal(journal) for finding in lane.findings]
    return {(finding.lane, number) for finding in found for number in range(finding.first, finding.last + 1)}


def seems_sound(journal: Journal) -> bool:
    """The control: every lane that is there has segments in a row, whose bytes fit their names."""
    try:
        for lane in journal.lanes():
            numbers = sorted(int(path.name[:12]) for path in path_of(lane).glob("0*-*-*"))
            numbers = [number for number in numbers if number > lane.trimmed]
            for path in path_of(lane).glob("0*-*-*.*"):
                if int(path.name[:12]) > lane.trimmed and path.stem.split("-")[2] != f"{checksum(path.read_bytes()):08x}":
                    return False
            if numbers != list(range(lane.trimmed + 1, lane.trimmed + 1 + len(numbers))):
                return False
    except JournalError:
        return False
    return True


class Result:
    """The figures of a campaign."""

    def __init__(self) -> None:
        self.damages: Counter[str] = Counter()
        self.unseen_by_control: Counter[str] = Counter()
        self.sound = 0
        self.wrong: list[str] = []


def campaign(template: Template, count: int, seed: int) -> Result:
    """Return the figures of `count` trials. A trial without damage counts as sound."""
    chance = Random(seed)  # noqa: S311 - the same damages for the same seed
    result = Result()
    for number in range(count):
        expected: Named = set()
        done: list[str] = []
        sound = chance.random() < 0.1
        for name in chance.sample((*LANES, "OLD"), chance.randint(1, 3)):
            trial = Trial(template, name, chance)
            if sound:
                change = chance.choice(SOUND)
                change(trial)
                done.append(f"{change.__name__} {name}")
                continue
            damage = chance.choice(OLD if name == "OLD" else DAMAGES)
            hit = damage(trial)
            if hit:
                expected |= hit
                done.append(f"{damage.__name__} {name}")
        found = named(template.journal)
        if found != expected:
            unnamed, wrongly = sorted(expected - found), sorted(found - expected)
            result.wrong.append(f"trial {number}: {', '.join(done)}: not named {unnamed}, wrongly named {wrongly}")
        result.damages.update(each.partition(" ")[0] for each in done if expected)
        result.sound += not expected
        if len(done) == 1 and expected and seems_sound(template.journal):
            result.unseen_by_control[done[0].partition(" ")[0]] += 1
        template.restore()
    return result
