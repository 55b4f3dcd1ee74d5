"""A quick form of the campaign of `tests.journal.damages`: every random damage of a journal is named, and nothing else."""

from pathlib import Path
from random import Random

from tests.embedded.disk_faults.disk import memory_folder
from tests.journal.damages import DAMAGES, OLD, SOUND, Template, Trial, campaign, named, seems_sound


def test_every_damage_of_a_short_campaign_is_named_and_no_sound_segment_is() -> None:
    with memory_folder() as folder:
        result = campaign(Template(folder), 60, seed=1)

    assert [] == result.wrong
    assert result.sound > 2
    assert result.unseen_by_control, "the control sees all: the damages are too easy"


def test_each_damage_is_named_in_each_lane(tmp_path: Path) -> None:
    template = Template(tmp_path)
    chance = Random(3)  # noqa: S311 - the same damages each time
    for name, damages in (("A", DAMAGES), ("B/2", DAMAGES), ("C", DAMAGES), ("OLD", OLD)):
        for damage in damages:
            expected = damage(Trial(template, name, chance))

            assert (damage.__name__, name, expected) == (damage.__name__, name, named(template.journal))
            template.restore()


def test_what_a_kill_or_an_erasure_leaves_is_no_damage(tmp_path: Path) -> None:
    template = Template(tmp_path)
    for change in SOUND:
        for seed in range(4):
            change(Trial(template, "B/2", Random(seed)))  # noqa: S311 - as above

            assert (change.__name__, set()) == (change.__name__, named(template.journal))
            template.restore()


def test_a_rewrite_without_its_receipt_is_named(tmp_path: Path) -> None:
    template = Template(tmp_path)
    trial = Trial(template, "A", Random(1))  # noqa: S311 - as above
    [change] = [each for each in SOUND if each.__name__ == "segment_is_rewritten"]
    before = (trial.folder / "lane.json").read_bytes()
    change(trial)
    (trial.folder / "lane.json").write_bytes(before)

    assert 1 == len(named(template.journal))
    assert seems_sound(template.journal)
