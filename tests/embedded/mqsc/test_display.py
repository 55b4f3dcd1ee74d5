"""DISPLAY: the objects and attributes that it selects, and their layout."""

from typing import Any

import pytest

from mqflow.embedded.administration.interface import HandleStatus, QueueStatus
from mqflow.embedded.mqsc import Verdict, run
from mqflow.embedded.mqsc.display import Cell, Record, as_json, as_text
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.options import QueueType
from tests.embedded.mqsc.definitions import Definitions


def shown(script: str, administration: Definitions) -> list[dict[str, Any]]:
    [response] = run(script, administration).responses
    assert response.verdict is not Verdict.SYNTAX_ERROR, response.text
    return [as_json(record) for record in response.records]


@pytest.fixture
def shop(administration: Definitions) -> Definitions:
    """Definitions of three local queues, an alias and a model queue."""
    for queue in (
        QueueAttributes(name="ORDERS.IN", backout_threshold=3, backout_requeue_queue="ORDERS.BOQ", depth=2, shareable=False),
        QueueAttributes(name="ORDERS.BOQ", depth=7, description="poison"),
        QueueAttributes(name="PRICES", usage=1, cap_expiry_tenths=600),
        QueueAttributes(name="ORDERS", kind=QueueType.ALIAS, target="ORDERS.IN"),
        QueueAttributes(name="REPLIES", kind=QueueType.MODEL, definition_type=3),
    ):
        administration.define(queue)
    return administration


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("DIS Q(*)", ["ORDERS", "ORDERS.BOQ", "ORDERS.IN", "PRICES", "REPLIES"]),
        ("DIS Q(ORDERS.*)", ["ORDERS.BOQ", "ORDERS.IN"]),
        ("DIS Q(ORDERS)", ["ORDERS"]),
        ("DIS Q('orders')", []),
        ("DIS QL(*)", ["ORDERS.BOQ", "ORDERS.IN", "PRICES"]),
        ("DIS QA(*)", ["ORDERS"]),
        ("DIS QM(*)", ["REPLIES"]),
        ("DIS Q(*) TYPE(QALIAS)", ["ORDERS"]),
        ("DIS Q(*) TYPE(ALL)", ["ORDERS", "ORDERS.BOQ", "ORDERS.IN", "PRICES", "REPLIES"]),
        ("DIS Q(*) WHERE(CURDEPTH GT 2)", ["ORDERS.BOQ"]),
        ("DIS Q(*) WHERE(CURDEPTH GE 2)", ["ORDERS.BOQ", "ORDERS.IN"]),
        ("DIS Q(*) WHERE(CURDEPTH LT 2)", ["PRICES"]),
        ("DIS Q(*) WHERE(CURDEPTH LE 2)", ["ORDERS.IN", "PRICES"]),
        ("DIS Q(*) WHERE(CURDEPTH EQ 2)", ["ORDERS.IN"]),
        ("DIS Q(*) WHERE(CURDEPTH NE 2)", ["ORDERS.BOQ", "PRICES"]),
        ("DIS Q(*) WHERE(USAGE EQ XMITQ)", ["PRICES"]),
        ("DIS Q(*) WHERE(SHARE EQ NO)", ["ORDERS.IN"]),
        ("DIS Q(*) WHERE(BOQNAME EQ ORDERS.BOQ)", ["ORDERS.IN"]),
        ("DIS Q(*) WHERE(BOQNAME LK 'ORDERS*')", ["ORDERS.IN"]),
        ("DIS QL(*) WHERE(BOQNAME NL 'ORDERS*')", ["ORDERS.BOQ", "PRICES"]),
        ("DIS Q(*) WHERE(TARGET EQ ORDERS.IN)", ["ORDERS"]),
        ("DIS Q(*) WHERE(CAPEXPRY EQ NOLIMIT)", ["ORDERS", "ORDERS.BOQ", "ORDERS.IN", "REPLIES"]),
    ],
)
def test_the_queues_shown_are(command: str, names: list[str], shop: Definitions) -> None:
    assert names == [record["QUEUE"] for record in shown(command, shop)]


def test_a_generic_name_shows_names_and_types_only(shop: Definitions) -> None:
    assert [{"QUEUE": "PRICES", "TYPE": "QLOCAL"}] == shown("DIS Q(PRI*)", shop)


def test_attributes_asked_for_are_shown_after_name_and_type(shop: Definitions) -> None:
    [record] = shown("DIS QL(ORDERS.IN) SHARE CURDEPTH BOQNAME", shop)

    assert {"QUEUE": "ORDERS.IN", "TYPE": "QLOCAL", "BOQNAME": "ORDERS.BOQ", "CURDEPTH": 2, "SHARE": False} == record
    assert ["QUEUE", "TYPE", "BOQNAME", "CURDEPTH", "SHARE"] == list(record)


def test_an_attribute_filtered_by_is_shown(shop: Definitions) -> None:
    assert [{"QUEUE": "ORDERS.BOQ", "TYPE": "QLOCAL", "CURDEPTH": 7}] == shown("DIS Q(*) WHERE(CURDEPTH GT 2)", shop)


def test_an_attribute_that_a_kind_of_queue_does_not_have_is_not_shown_for_it(shop: Definitions) -> None:
    assert [{"QUEUE": "ORDERS", "TYPE": "QALIAS", "TARGET": "ORDERS.IN"}] == shown("DIS Q(ORDERS) TARGET CURDEPTH", shop)


@pytest.mark.parametrize(("name", "has", "has_not"), [("ORDERS", "TARGET", "CURDEPTH"), ("PRICES", "CURDEPTH", "TARGET")])
def test_all_shows_the_attributes_of_the_kind_of_queue(name: str, has: str, has_not: str, shop: Definitions) -> None:
    [record] = shown(f"DIS Q({name})", shop)

    assert has in record
    assert has_not not in record


def test_words_are_shown_for_numbers_that_have_one(shop: Definitions) -> None:
    assert [{"QUEUE": "PRICES", "TYPE": "QLOCAL", "CAPEXPRY": 600, "USAGE": "XMITQ"}] == shown(
        "DIS Q(PRICES) USAGE CAPEXPRY", shop
    )
    assert [{"QUEUE": "ORDERS", "TYPE": "QALIAS", "CAPEXPRY": "NOLIMIT"}] == shown("DIS Q(ORDERS) USAGE CAPEXPRY", shop)


def test_the_queue_manager_is_shown_whole_by_default(administration: Definitions) -> None:
    [whole] = shown("DIS QMGR", administration)
    [less] = shown("DIS QMGR MAXHANDS", administration)

    assert {"QMNAME": "QM1", "MAXHANDS": 256} == less
    assert ("QMNAME", "UNIX", 10_000) == (next(iter(whole)), whole["PLATFORM"], whole["MAXUMSGS"])


def handle(application: str, *, output: bool) -> HandleStatus:
    return HandleStatus(
        application=application, user="anna", connection="c1", input_mode="NO" if output else "SHARED", browse=False,
        inquire=False, output=output, set=False,
    )  # fmt: skip


@pytest.fixture
def open_queue(administration: Definitions) -> Definitions:
    """A queue that two applications have open, and an alias to it."""
    administration.define(QueueAttributes(name="A"))
    administration.define(QueueAttributes(name="B", kind=QueueType.ALIAS, target="A"))
    administration.statuses["A"] = QueueStatus(
        name="A", depth=5, open_input_count=1, open_output_count=1, uncommitted=2, oldest_message_age_s=None,
        last_put_date="2026-11-21",
        handles=(handle("reader", output=False), handle("writer", output=True)),
    )  # fmt: skip
    return administration


def test_the_status_of_a_queue_says_how_it_stands(open_queue: Definitions) -> None:
    assert [
        {"QUEUE": "A", "TYPE": "QUEUE", "CURDEPTH": 5, "IPPROCS": 1, "LGETDATE": "", "LGETTIME": "", "LPUTDATE": "2026-11-21",
         "LPUTTIME": "", "MSGAGE": "", "OPPROCS": 1, "UNCOM": 2},
    ] == shown("DIS QSTATUS(A)", open_queue)  # fmt: skip


def test_the_status_is_that_of_local_queues_only(open_queue: Definitions) -> None:
    assert [{"QUEUE": "A", "TYPE": "QUEUE"}] == shown("DIS QSTATUS(*)", open_queue)


def test_the_handles_of_a_queue_are_shown_one_by_one(open_queue: Definitions) -> None:
    assert [
        {"QUEUE": "A", "TYPE": "HANDLE", "APPLTAG": "reader", "INPUT": "SHARED", "OUTPUT": "NO"},
        {"QUEUE": "A", "TYPE": "HANDLE", "APPLTAG": "writer", "INPUT": "NO", "OUTPUT": "YES"},
    ] == shown("DIS QS(A) TYPE(HANDLE) APPLTAG INPUT OUTPUT", open_queue)


def test_a_queue_without_open_handles_has_no_handle_status_but_exists(open_queue: Definitions) -> None:
    [response] = run("DIS QS(A) TYPE(HANDLE) WHERE(APPLTAG EQ NOBODY)", open_queue).responses

    assert Verdict.FAILED is response.verdict
    assert "MQRCCF_Q_STATUS_NOT_FOUND (4091)" in response.text


def test_handles_are_filtered_one_by_one(open_queue: Definitions) -> None:
    [record] = shown("DIS QS(*) TYPE(HANDLE) WHERE(OUTPUT EQ YES) APPLTAG", open_queue)

    assert "writer" == record["APPLTAG"]


def test_status_that_is_not_there_meets_no_filter(open_queue: Definitions) -> None:
    assert [] == shown("DIS QS(*) WHERE(MSGAGE LT 100)", open_queue)


def test_records_are_laid_out_in_two_columns_of_keyword_and_value(shop: Definitions) -> None:
    [response] = run("DIS QL(ORDERS.IN) BOQNAME SHARE DESCR", shop).responses

    assert (
        "AMQ8409: Queue details.\n"
        "   QUEUE(ORDERS.IN)                        TYPE(QLOCAL)\n"
        "   BOQNAME(ORDERS.BOQ)                     DESCR( )\n"
        "   NOSHARE"
    ) == as_text(response.records[0])


def test_a_value_too_wide_for_the_first_column_has_the_line_to_itself() -> None:
    wide = "x" * 34
    cells = (Cell("DESCR", wide, wide), Cell("GET", "ENABLED", "ENABLED"), Cell("PUT", "ENABLED", "ENABLED"))

    assert f"H\n   DESCR({wide})\n   {'GET(ENABLED)':<40}PUT(ENABLED)" == as_text(Record("H", cells))


def test_control_characters_of_data_are_not_printed() -> None:
    text = as_text(Record("H", (Cell("DESCR", "a\x1b[31m\nb\u202e", "a"),)))

    assert "H\n   DESCR(a [31m b )" == text
