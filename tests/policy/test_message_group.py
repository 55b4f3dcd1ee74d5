"""Decisions about message groups. Source of the ends: IBM, "Logical and physical ordering" (q026270)."""

import pytest

from mqflow.mqi.options import MessageFlag
from mqflow.policy.message_group import ends_group, follows_first, too_large
from mqflow.policy.poison.disposition import DeadLetter, Deliver, Discard, Disposition, Requeue, Return

IN_GROUP, LAST = MessageFlag.MSG_IN_GROUP, MessageFlag.LAST_MSG_IN_GROUP
SEGMENT, LAST_SEGMENT = MessageFlag.SEGMENT, MessageFlag.LAST_SEGMENT
STAYS = Return("nothing took it")
LOST = Discard("nothing took it")


@pytest.mark.parametrize(
    ("flags", "ends"),
    [
        pytest.param(0, True, id="a message without a group"),
        pytest.param(MessageFlag.SEGMENTATION_ALLOWED, True, id="a message that may be segmented"),
        pytest.param(IN_GROUP, False, id="a message of a group"),
        pytest.param(IN_GROUP | LAST, True, id="the last message of a group"),
        pytest.param(LAST, True, id="the last message: the flag implies the group"),
        pytest.param(SEGMENT, False, id="a segment"),
        pytest.param(SEGMENT | LAST_SEGMENT, True, id="the last segment"),
        pytest.param(LAST_SEGMENT, True, id="the last segment: the flag implies a segment"),
        pytest.param(IN_GROUP | LAST | SEGMENT, False, id="a segment of the last message"),
        pytest.param(IN_GROUP | SEGMENT | LAST_SEGMENT, False, id="the last segment of a message"),
        pytest.param(IN_GROUP | LAST | SEGMENT | LAST_SEGMENT, True, id="the last segment of the last message"),
    ],
)
def test_the_flags_of_a_message_say_whether_it_ends_its_group(flags: int, *, ends: bool) -> None:
    assert ends is ends_group(int(flags))


@pytest.mark.parametrize(
    ("first", "last_resort", "expected"),
    [
        pytest.param(Requeue("BOQ"), STAYS, Requeue("BOQ"), id="the backout requeue queue"),
        pytest.param(Requeue("BOQ"), LOST, Requeue("BOQ"), id="the backout requeue queue, for a message that may be lost"),
        pytest.param(DeadLetter("DLQ", 2362), LOST, DeadLetter("DLQ", 2362), id="the dead-letter queue"),
        pytest.param(LOST, Discard("its sender asked"), Discard("its sender asked"), id="both may be lost"),
        pytest.param(STAYS, LOST, STAYS, id="the first message stays"),
    ],
)
def test_the_messages_of_a_poison_group_follow_the_first(
    first: Disposition, last_resort: Disposition, expected: Disposition
) -> None:
    assert expected == follows_first(first, last_resort)


def test_a_message_that_must_be_kept_is_not_discarded_with_the_first() -> None:
    assert isinstance(follows_first(LOST, STAYS), Return)


def test_a_group_whose_first_message_is_delivered_is_not_poison() -> None:
    with pytest.raises(ValueError, match="not poison"):
        follows_first(Deliver(), STAYS)


def test_a_group_that_is_too_large_fails_permanently_and_names_the_setting() -> None:
    failed = too_large(10)

    assert (True, "GroupTooLarge") == (failed.final, failed.error)
    assert "more than 10 messages" in failed.text
    assert "group_messages_max" in failed.text
