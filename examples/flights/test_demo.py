"""The check of the demo finds a lost message and a doubled message."""

from collections import Counter

from examples.flights.demo import Counted

ONE, TWO, THREE = b"1", b"2", b"3"


def counted(*, booked: list[bytes], poison: list[bytes]) -> Counted:
    return Counted(Counter([ONE, TWO, THREE]), Counter(booked), Counter(poison), Counter())


def test_if_every_message_is_there_once_no_message_is_lost_or_twice() -> None:
    result = counted(booked=[ONE, TWO], poison=[THREE])

    assert (result.lost, result.twice) == (0, 0)


def test_a_message_on_no_queue_is_lost() -> None:
    assert counted(booked=[ONE], poison=[THREE]).lost == 1


def test_a_message_that_was_booked_twice_is_there_twice() -> None:
    assert counted(booked=[ONE, TWO, TWO], poison=[THREE]).twice == 1


def test_a_message_that_was_booked_and_is_poison_is_there_twice() -> None:
    assert counted(booked=[ONE, TWO, THREE], poison=[THREE]).twice == 1


def test_a_booking_of_a_message_that_was_never_put_does_not_hide_a_loss() -> None:
    result = counted(booked=[ONE, TWO, b"?"], poison=[])

    assert (result.lost, result.twice) == (1, 1)
