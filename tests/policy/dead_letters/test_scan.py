"""The path through a dead-letter queue: the next place, the wait there, and the end. Source: q005670; IBM's sample amqsdlq."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqflow.policy.dead_letters.scan import RESCAN_RETRY_INTERVALS, History, Look, Scan

A, B = b"A" * 48, b"B" * 48


def the_end_of_the_queue(scan: Scan, now: float) -> None:
    scan.next(now)
    scan.found_nothing(now)


def test_it_begins_at_the_head_and_goes_on() -> None:
    scan = Scan(60, None, now=0)

    first = scan.next(0)
    scan.found()
    second = scan.next(0)

    assert first is not None
    assert second is not None
    assert [True, False] == [first.from_head, second.from_head]


def test_after_the_retry_interval_it_goes_back_to_the_first_failure_and_on_from_there() -> None:
    scan = Scan(60, None, now=0)
    scan.next(0)
    scan.found()
    scan.failed(A, now=1)
    scan.next(1)
    scan.found()
    scan.failed(B, now=2)
    the_end_of_the_queue(scan, 2)

    assert Look(wait_s=1) == scan.next(60)
    assert Look(from_head=True, identity=A) == scan.next(61)
    scan.found()
    assert Look(wait_s=RESCAN_RETRY_INTERVALS * 60 - 61) == scan.next(61)


def test_where_the_first_failure_is_gone_it_starts_at_the_head_at_once() -> None:
    scan = Scan(60, None, now=0)
    scan.next(0)
    scan.found()
    scan.failed(A, now=0)
    the_end_of_the_queue(scan, 0)
    scan.next(60)
    scan.found_nothing(60)

    look = scan.next(60)
    assert look is not None
    assert (True, b"") == (look.from_head, look.identity)


def test_a_scan_from_the_head_attempts_all_failures_so_none_is_due_before_the_next() -> None:
    scan = Scan(60, None, now=0)
    scan.next(0)
    scan.found()
    scan.failed(A, now=1)

    assert Look(from_head=True, wait_s=600) == scan.next(600)


def test_every_ten_retry_intervals_it_starts_at_the_head() -> None:
    scan = Scan(5, None, now=0)
    the_end_of_the_queue(scan, 0)

    looks = [scan.next(49), scan.next(50)]

    assert [False, True] == [look is not None and look.from_head for look in looks]


@pytest.mark.parametrize(("wait_s", "ends_at"), [(0, 0), (7, 7)])
def test_it_ends_after_one_more_look_around(wait_s: int, ends_at: int) -> None:
    scan = Scan(60, wait_s, now=0)
    the_end_of_the_queue(scan, ends_at)

    assert Look(from_head=True, new_only=True) == scan.next(ends_at)
    scan.found_nothing(ends_at)
    assert scan.next(ends_at) is None


def test_new_work_in_the_last_look_around_puts_the_end_off() -> None:
    scan = Scan(60, 7, now=0)
    the_end_of_the_queue(scan, 7)
    scan.next(7)
    scan.found()
    scan.worked(7)
    the_end_of_the_queue(scan, 7)

    assert Look(wait_s=7) == scan.next(7)


# -- whatever happens

happenings = st.lists(st.sampled_from(["found", "failed A", "failed B", "worked", "nothing", "nothing"]), max_size=60)


@given(happenings, st.integers(1, 100), st.none() | st.integers(0, 300))
def test_it_never_looks_again_and_again_without_waiting(happened: list[str], interval_s: int, wait_s: int | None) -> None:
    scan, now, in_vain = Scan(interval_s, wait_s, now=0), 0.0, 0
    for what in happened + ["nothing"] * 10:
        look = scan.next(now)
        if look is None:
            assert wait_s is not None
            return
        if what == "nothing":
            now += look.wait_s
            in_vain = 0 if look.wait_s else in_vain + 1
            scan.found_nothing(now)
            assert in_vain < 4
            continue
        in_vain = 0
        scan.found()
        steps: dict[str, Callable[[], None]] = {
            "found": lambda: None,
            "failed A": lambda now=now: scan.failed(A, now),  # type: ignore[misc]  # mypy cannot infer the default
            "failed B": lambda now=now: scan.failed(B, now),  # type: ignore[misc]  # as above
            "worked": lambda now=now: scan.worked(now),  # type: ignore[misc]  # as above
        }
        steps[what]()


identities = st.integers(0, 20).map(lambda number: bytes([number]) * 48)


@given(
    st.lists(st.tuples(st.sampled_from(["keep", "forget", "look", "scanned"]), identities, st.integers(0, 5))),
    st.integers(1, 8),
)
def test_the_history_is_bounded_and_never_says_too_much(steps: list[tuple[str, bytes, int]], most: int) -> None:
    history, kept = History(most), dict[bytes, int]()
    for what, identity, attempts in steps:
        match what:
            case "keep":
                if history.keep(identity, attempts):
                    kept[identity] = attempts
                else:
                    assert history.overflowed
            case "forget":
                history.forget(identity)
                kept.pop(identity, None)
            case "look":
                assert history.attempts(identity) in {0, kept.get(identity, 0)}
            case _:
                history.scanned()
        assert len(history) <= most


def test_a_message_that_is_seen_in_every_round_is_never_forgotten() -> None:
    history = History()
    history.keep(A, 3)
    history.keep(B, 2)

    for _ in range(5):
        assert 3 == history.attempts(A)
        history.scanned()

    assert (A in history, B in history) == (True, False)


def test_a_full_history_leaves_a_message_out_and_says_so() -> None:
    history = History(most=1)

    assert [True, False, True] == [history.keep(identity, 1) for identity in (A, B, A)]
    assert (history.overflowed, history.attempts(A), history.attempts(B)) == (True, 1, 0)


def test_a_scan_is_in_a_round_until_it_has_seen_the_end_of_the_queue() -> None:
    scan = Scan(60, None, now=0)
    began = scan.in_round
    the_end_of_the_queue(scan, now=0)

    assert (True, False) == (began, scan.in_round)


def test_a_scan_that_goes_back_to_a_failure_is_in_no_round_and_completes_none() -> None:
    scan = Scan(60, None, now=0)
    scan.next(0)
    scan.found()
    scan.failed(A, now=0)
    scan.next(60)
    scan.found()
    began = scan.in_round
    the_end_of_the_queue(scan, now=60)

    assert (False, 0) == (began, scan.rounds)


def test_each_scan_from_the_head_to_the_end_is_counted() -> None:
    scan = Scan(5, None, now=0)
    counts = []
    for now in (0, 1, 50, 51, 100):
        the_end_of_the_queue(scan, now)
        counts.append(scan.rounds)

    assert [1, 1, 2, 2, 3] == counts


def test_a_message_is_counted_once_and_forgotten_wherever_the_last_scan_left_it() -> None:
    history = History()
    history.keep(A, 1)
    history.scanned()
    history.keep(A, 2)
    history.keep(B, 1)
    history.scanned()
    lengths = [len(history)]
    history.forget(A)
    lengths.append(len(history))

    assert ([2, 1], False, 0) == (lengths, A in history, history.attempts(A))
