"""`mqflow tail`: earlier events, then each event as it comes; filters; and identifiers in hexadecimal digits."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from mqflow.app.run.decision_ledger import LEDGER_FILE, DecisionLedger
from mqflow.cli.messages import tail as module
from mqflow.cli.messages.tail import entries_as_they_come
from mqflow.events import Attempt, Decided, Disposed, Edited
from mqflow.policy.poison.disposition import Deliver, Failed, Requeue
from mqflow.policy.poison.failure_origin import Raised
from tests.cli.conftest import Run

FAILED = Failed("KeyError", "'apple'", raised=Raised("shop.py:9 in book"))


class EnoughError(Exception):
    """The test has seen enough."""


def disposed(number: int, queue: str = "ORDERS.IN") -> Disposed:
    attempts = (Attempt(Requeue("ORDERS.BOQ")),)
    message_id = bytes([number]) * 24
    return Disposed(queue=queue, message_id=message_id, listener="book", backout_count=1, attempts=attempts, outcome=FAILED)


def tell(path: Path, *events: Disposed | Decided | Edited) -> None:
    ledger = DecisionLedger(path)
    for event in events:
        ledger(event)
    ledger.close()


def numbers(path: Path, *steps: Callable[[], None], last: int = 10, begin: float | None = None) -> list[int]:
    """Follow the ledger while these steps happen, one at each pause; return the first byte of each message."""
    left = iter(steps)

    def pause() -> None:
        step = next(left, None)
        if step is None:
            raise EnoughError
        step()

    seen: list[int] = []
    entries = entries_as_they_come(path, lambda entry: entry.message_id[0] < 100, last=last, begin=begin, pause=pause)
    with pytest.raises(EnoughError):
        seen.extend(entry.message_id[0] for entry in entries)
    return seen


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / LEDGER_FILE


def test_each_new_event_is_shown_once_after_the_last_events(ledger: Path) -> None:
    tell(ledger, disposed(1), disposed(2), disposed(3), disposed(100))

    assert [2, 3, 4, 5, 6] == numbers(
        ledger,
        lambda: None,
        lambda: tell(ledger, disposed(4), disposed(101), disposed(5)),
        lambda: tell(ledger, disposed(6)),
        last=2,
    )


def test_a_ledger_that_appears_later_is_shown_whole(ledger: Path) -> None:
    assert [1, 2] == numbers(ledger, lambda: None, lambda: tell(ledger, disposed(1), disposed(2)), last=0)


def test_a_ledger_that_was_made_again_is_shown_from_its_first_event(ledger: Path) -> None:
    tell(ledger, disposed(1), disposed(2))

    def renew() -> None:
        ledger.unlink()
        tell(ledger, disposed(3))

    assert [1, 2, 3] == numbers(ledger, renew)


def test_since_begins_with_the_events_after_that_time(ledger: Path) -> None:
    tell(ledger, disposed(1))

    assert [[1], []] == [numbers(ledger, begin=begin, last=0) for begin in (0.0, 1e12)]


def records(run: Run, *arguments: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in run("tail", "--once", "--json", *arguments).stdout.splitlines()]


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("queue=OTHER*", [2]),
        ("event=Decided", [3]),
        ("outcome=Failed", [1, 2, 3]),
        ("error=Key*", [1, 2, 3]),
        ("frame=shop.py:9 *", [1, 2, 3]),
        ("by=amelie*", [4]),
        ("message_id=0202*", [2]),
        ("outcome=", [4]),
    ],
)
def test_where_finds_events_by_their_fields(run: Run, ledger: Path, where: str, found: list[int]) -> None:
    message_id = bytes([3]) * 24
    decided = Decided(
        queue="ORDERS.IN", message_id=message_id, listener="book", backout_count=1, threshold=3, backout_requeue_queue="",
        threshold_source="", queue_source="", plan=(Deliver(),), outcome=FAILED,
    )  # fmt: skip
    edited = Edited(
        queue="BOQ", message_id=bytes([4]) * 24, target="Q", by="amelie@host", sha256_before="a", sha256="b",
        body_bytes_before=1, body_bytes=2,
    )  # fmt: skip
    tell(ledger, disposed(1), disposed(2, "OTHER.IN"), decided, edited)

    assert found == [bytes.fromhex(str(record["message_id"]))[0] for record in records(run, "--where", where)]


def test_tail_and_why_print_the_same_record_with_hexadecimal_identifiers(run: Run, ledger: Path) -> None:
    tell(ledger, disposed(1))

    [record] = records(run)

    assert record == json.loads(run("why", "01" * 24, "--json").stdout)
    assert ("01" * 24, "01" * 24) == (record["message_id"], record["event"]["message_id"])  # type: ignore[index]  # a dictionary


OUTCOME = "The outcome of its handling: failed with KeyError: 'apple' (shop.py:9 in book)."
STORY = f"""\
2026-11-23 19:00:00.000  Disposed of at count 1: move it to ORDERS.BOQ. {OUTCOME}
{"":23}    move it to ORDERS.BOQ: done.
"""


@pytest.mark.parametrize(
    ("digits", "code", "said", "noted"),
    [
        ("0", 3, "".join(f"{number:02x}" * 24 + "\n" for number in range(1, 11)), "At least 10 messages have 0:\n"),
        ("0c", 3, "", "data/decisions.db has no entry for 0c: it succeeded, or was never delivered, or is too old.\n"),
        ("..0a0a0a0a", 0, STORY, ""),
    ],
)
def test_why_prints_the_story_of_the_only_message_with_these_digits(
    run: Run, ledger: Path, digits: str, code: int, said: str, noted: str
) -> None:
    tell(ledger, *map(disposed, range(1, 12)))

    shown = run("why", digits)

    printed = re.sub(r"^2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", "2026-11-23 19:00:00.000", shown.stdout)
    assert (code, said, noted) == (shown.exit_code, printed, shown.stderr)


def test_why_wants_hexadecimal_digits(run: Run, ledger: Path) -> None:
    refused = run("why", "0g")

    assert 2 == refused.exit_code
    expected = "'0g' is not a part of a message identifier: give hexadecimal digits, as `mqflow browse` prints them."
    assert expected in " ".join(refused.stderr.split())


def test_a_name_that_no_event_has_is_wrong_usage(run: Run, ledger: Path) -> None:
    refused = run("tail", "--once", "--where", "quue=IN")

    assert (2, True) == (refused.exit_code, "Did you mean queue?" in refused.stderr)


def test_a_missing_ledger_is_an_error_if_nobody_waits_for_it(run: Run) -> None:
    result = run("tail", "--once")

    assert (1, True) == (result.exit_code, "There is no decision ledger at " in result.stderr)


def test_tail_prints_a_line_for_an_event_and_one_for_each_detail(run: Run, ledger: Path) -> None:
    tell(ledger, disposed(1))

    shown = run("tail", "--once")

    printed = re.sub(r"^\d\d:\d\d:\d\d\.\d{3}", "19:00:00.000", shown.stdout)
    assert (
        f"19:00:00.000  ..{'01' * 6}  Disposed of at count 1: move it to ORDERS.BOQ. {OUTCOME}\n"
        f"{'':14}move it to ORDERS.BOQ: done.\n"
    ) == printed


@pytest.mark.parametrize("is_there", [True, False])
def test_tail_says_that_it_waits_only_for_a_missing_ledger(
    run: Run, ledger: Path, monkeypatch: pytest.MonkeyPatch, *, is_there: bool
) -> None:
    def pause() -> None:
        raise EnoughError

    monkeypatch.setattr("mqflow.cli.messages.tail._pause", pause)
    if is_there:
        tell(ledger, disposed(1))

    shown = run("--debug", "tail", "--json")

    said = "Waiting for data/decisions.db: no application has had an event for it yet.\n"
    assert ("" if is_there else said, int(is_there)) == (shown.stderr, len(shown.stdout.splitlines()))
    assert isinstance(shown.exception, EnoughError)


def test_tail_names_the_folder_if_it_is_missing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def pause() -> None:
        raise EnoughError

    monkeypatch.setattr("mqflow.cli.messages.tail._pause", pause)

    said = run("--debug", "tail", "--url", "embedded:./dta").stderr

    assert "Waiting for dta/decisions.db: there is no folder dta yet.\n" == said


def test_tail_looks_again_after_its_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(module, "Event", lambda: SimpleNamespace(wait=waits.append))

    module._pause()

    assert [module._LOOK_EVERY_S] == waits


def test_a_queue_manager_without_a_ledger_is_named_without_its_secret(run: Run) -> None:
    refused = run("tail", "--url", "ibmmq:///QM1?ccdt=https://app:hunter2@mq.example/t.json")

    assert "has no data folder on this machine" in refused.stderr
    assert "hunter2" not in refused.output
