"""The pure parts of the console as tables: states and roles of queues, plots, places of a text, and texts of forms."""

import pytest

from mqflow.cli.console.message_search import found_in, is_editable, text_from_form
from mqflow.cli.console.queue_rows import QueueRow, plot_points, queue_rows, roles_of
from mqflow.cli.watching.control import QueueFigures
from mqflow.mqi.attributes.queue import QueueAttributes


@pytest.mark.parametrize(
    ("role", "depth", "depth_max", "state"),
    [
        pytest.param("", 0, 100, "ok", id="an empty queue"),
        pytest.param("", 79, 100, "ok", id="below 80 percent"),
        pytest.param("", 80, 100, "full", id="80 percent, as QDEPTHHI has it by default"),
        pytest.param("", 7_999, 10_000, "ok", id="one message below 80 percent"),
        pytest.param("", 80, 0, "ok", id="MAXDEPTH is not known"),
        pytest.param("dead-letter queue", 0, 100, "ok", id="an empty dead-letter queue"),
        pytest.param("dead-letter queue", 1, 100, "failed", id="one message failed"),
        pytest.param("dead-letter queue", None, 100, "unknown", id="the inquiry was refused"),
    ],
)
def test_the_state_of_a_queue_is_one_word(role: str, depth: int | None, depth_max: int, state: str) -> None:
    assert state == QueueRow(name="Q", role=role, depth=depth, depth_max=depth_max).state


def test_a_queue_has_every_role_that_other_objects_give_it() -> None:
    attributes = [QueueAttributes(name=name, backout_requeue_queue="BAD") for name in ("B", "A")]

    assert {"BAD": "dead-letter queue, backout queue of A, B"} == roles_of(attributes, "BAD")
    assert {"BAD": "backout queue of A, B", "DLQ": "dead-letter queue"} == roles_of(attributes, "DLQ")
    assert {} == roles_of([QueueAttributes(name="A")], "")


def test_red_queues_come_first_and_a_refusal_is_part_of_its_row() -> None:
    figures = [
        QueueFigures(queue="A.FINE", depth=0),
        QueueFigures(queue="B.SECRET", refused="2035"),
        QueueFigures(queue="C.FULL", depth=9),
        QueueFigures(queue="D.BAD", depth=1),
    ]
    attributes = {"C.FULL": QueueAttributes(name="C.FULL", max_depth=10, backout_threshold=3, backout_requeue_queue="D.BAD")}

    rows = queue_rows(attributes, {"D.BAD": "backout queue of C.FULL"}, figures)

    assert ["failed", "full", "unknown", "ok"] == [row.state for row in rows]
    assert (
        QueueRow(name="D.BAD", role="backout queue of C.FULL", depth=1, oldest="unknown"),
        QueueRow(name="C.FULL", depth=9, oldest="unknown", depth_max=10, threshold=3, backout_queue="D.BAD"),
        QueueRow(name="B.SECRET", refused="2035"),
        QueueRow(name="A.FINE", depth=0),
    ) == rows


@pytest.mark.parametrize(
    ("numbers", "points"),
    [
        pytest.param((), "", id="nothing"),
        pytest.param((5.0,), "0.0,1.0", id="one look"),
        pytest.param((0.0, 0.0), "0.0,27.0 120.0,27.0", id="zeros are a line at the bottom"),
        pytest.param((0.0, 10.0, 5.0), "0.0,27.0 60.0,1.0 120.0,14.0", id="the greatest number is at the top"),
    ],
)
def test_a_plot_begins_at_zero_and_ends_at_its_greatest_number(numbers: tuple[float, ...], points: str) -> None:
    assert points == plot_points(numbers)


FACTS = {
    "descriptor": {"message_id": "ab" * 24, "correlation_id": "cd" * 20 + "12345678"},
    "properties": {"usr.customer": "Amelie", "usr.lines": 7},
    "body": "7 lines for Amelie",
}


@pytest.mark.parametrize(
    ("text", "places"),
    [
        pytest.param("abababab", ["MsgId"], id="8 digits of the MsgId"),
        pytest.param("ABABABAB", ["MsgId"], id="in capitals"),
        pytest.param("..abababab", ["MsgId"], id="as the log cuts it"),
        pytest.param("bababab", [], id="7 digits are too few"),
        pytest.param("12345678", ["CorrelId"], id="the end of the CorrelId"),
        pytest.param("Amelie", ["property usr.customer", "body"], id="a text in two places"),
        pytest.param("amelie", [], id="another case"),
        pytest.param("7", ["property usr.lines", "body"], id="a number"),
    ],
)
def test_a_search_names_the_places_of_the_text(text: str, places: list[str]) -> None:
    assert places == list(found_in(FACTS, text))


def test_a_search_for_zeros_does_not_find_each_message_without_a_correlation_id() -> None:
    assert [] == list(
        found_in({"descriptor": {"message_id": "ab" * 24, "correlation_id": "00" * 24}, "properties": {}, "body": ""}, "0" * 8)
    )


@pytest.mark.parametrize("text", ["one line", "two\nlines\n", "dos\r\nlines\r\n", "tab\tä€", ""])
def test_a_text_that_is_editable_comes_back_from_a_form_as_it_was(text: str) -> None:
    sent = text.replace("\r\n", "\n").replace("\n", "\r\n")  # as browsers send it

    assert is_editable(text)
    assert text == text_from_form(text, sent)


@pytest.mark.parametrize("text", ["mixed\r\nends\n", "old mac\r", "bell\x07", "zero\x00", "back\u202ewards"])
def test_a_text_that_a_form_would_change_is_not_editable(text: str) -> None:
    assert not is_editable(text)
