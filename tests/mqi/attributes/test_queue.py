"""The table and the records agree about every attribute."""

from collections import Counter
from itertools import chain

import pytest
from msgspec.structs import fields

from mqflow.mqi.attributes.queue import NOT_APPLICABLE, QUEUE_ATTRIBUTES, AttributeSpec, QueueAttributes, queue_attributes_from
from mqflow.mqi.attributes.queue_manager import QUEUE_MANAGER_ATTRIBUTES, QueueManagerAttributes, queue_manager_attributes_from
from mqflow.mqi.names import is_object_name
from mqflow.mqi.options import QueueType

#: MQIA_* and MQCA_* numbers of IBM's constants.
SELECTORS = {
    "backout_threshold": 22, "backout_requeue_queue": 2019, "harden_get_backout": 8, "depth": 3, "max_depth": 15,
    "get_inhibited": 9, "put_inhibited": 10, "target": 2002,
}  # fmt: skip
KINDS = tuple(QueueType)

queue_rows = pytest.mark.parametrize("spec", QUEUE_ATTRIBUTES, ids=lambda spec: f"{spec.keyword}")
ROWS = (
    *((spec, QueueAttributes(name="Q")) for spec in QUEUE_ATTRIBUTES),
    *((spec, QueueManagerAttributes(name="QM1")) for spec in QUEUE_MANAGER_ATTRIBUTES),
)


def called(value: AttributeSpec | QueueAttributes | QueueManagerAttributes) -> str:
    return value.keyword if isinstance(value, AttributeSpec) else type(value).__name__


rows = pytest.mark.parametrize(("spec", "record"), ROWS, ids=called)
#: The record has the defaults of a local queue; an attribute that only models have is another row of the same field.
rows_with_default = pytest.mark.parametrize(
    ("spec", "record"), [row for row in ROWS if row[0].kinds != {QueueType.MODEL}], ids=called
)


@rows
def test_every_row_of_the_table_is_a_field_of_the_record(
    spec: AttributeSpec, record: QueueAttributes | QueueManagerAttributes
) -> None:
    assert spec.field in {field.name for field in fields(record)}


@pytest.mark.parametrize(
    ("record", "table"), [(QueueAttributes, QUEUE_ATTRIBUTES), (QueueManagerAttributes, QUEUE_MANAGER_ATTRIBUTES)]
)
def test_every_field_of_the_record_is_a_row_of_the_table(record: type, table: tuple[AttributeSpec, ...]) -> None:
    assert {field.name for field in fields(record)} == {spec.field for spec in table}


@rows_with_default
def test_a_default_is_a_value_that_the_table_accepts(
    spec: AttributeSpec, record: QueueAttributes | QueueManagerAttributes
) -> None:
    value = getattr(record, spec.field)

    if spec.chars:
        assert isinstance(value, str)
        assert len(value) <= spec.chars
        assert not spec.object_name or value == "" or is_object_name(value)
    elif spec.words and not spec.high:
        assert int(value) in spec.words.values()
    else:
        assert spec.low <= value <= spec.high or value in (spec.words or {}).values()


@pytest.mark.parametrize("kind", [*KINDS, None], ids=["local", "model", "alias", "remote", "queue manager"])
def test_a_selector_and_a_keyword_name_one_attribute_of_a_kind(kind: QueueType | None) -> None:
    table = QUEUE_MANAGER_ATTRIBUTES if kind is None else [spec for spec in QUEUE_ATTRIBUTES if kind in spec.kinds]

    selectors = Counter(spec.selector for spec in table if spec.selector)
    keywords = Counter(chain.from_iterable(words(spec) for spec in table))

    assert [] == [name for name, count in (selectors + keywords).items() if count > 1]


def words(spec: AttributeSpec) -> list[str]:
    """Return the words for the attribute in a command."""
    return [*(spec.words or ()), *spec.aliases] if spec.flag else [spec.keyword, *spec.aliases]


@rows
def test_numbers_and_characters_have_selectors_of_their_own_ranges(
    spec: AttributeSpec, record: QueueAttributes | QueueManagerAttributes
) -> None:
    assert spec.selector == 0 or (spec.selector > 2000) == (spec.chars > 0)


@queue_rows
def test_every_attribute_of_a_queue_belongs_to_a_kind_of_queue(spec: AttributeSpec) -> None:
    assert spec.kinds <= set(KINDS)
    assert spec.kinds


@pytest.mark.parametrize(("field", "selector"), SELECTORS.items())
def test_an_attribute_has_ibms_selector(field: str, selector: int) -> None:
    assert {selector} == {spec.selector for spec in QUEUE_ATTRIBUTES if spec.field == field}


def test_an_alias_has_no_backout_attributes() -> None:
    #: IBM, MQINQ on an alias: 2068 for attributes of its base queue.
    assert not {"backout_threshold", "backout_requeue_queue"} & {
        spec.field for spec in QUEUE_ATTRIBUTES if QueueType.ALIAS in spec.kinds
    }


def test_the_answers_of_mqinq_give_a_record() -> None:
    answered: dict[int, int | str] = {20: 1, 22: 3, 2019: "ORDERS.BOQ".ljust(48), 9: 1, 23: 0, 276: -1}

    assert QueueAttributes(
        name="ORDERS.IN", kind=QueueType.LOCAL, backout_threshold=3, backout_requeue_queue="ORDERS.BOQ", get_inhibited=True,
        shareable=False, cap_expiry_tenths=-1,
    ) == queue_attributes_from("ORDERS.IN", answered)  # fmt: skip


def test_an_attribute_that_does_not_apply_keeps_its_default() -> None:
    answered: dict[int, int | str] = {22: NOT_APPLICABLE, 2019: "*" * 48, 9_999: 7}

    assert QueueAttributes(name="ORDERS.ALIAS") == queue_attributes_from("ORDERS.ALIAS", answered)


def test_a_text_that_begins_with_an_asterisk_applies() -> None:
    assert "* urgent" == queue_attributes_from("ORDERS.IN", {2013: "* urgent".ljust(64)}).description


def test_the_answers_of_mqinq_about_the_queue_manager_give_a_record() -> None:
    answered: dict[int, int | str] = {2006: "DEAD.LETTERS".ljust(48), 2: 819, 68: -1}

    assert QueueManagerAttributes(
        name="QM1", dead_letter_queue="DEAD.LETTERS", ccsid=819, mark_browse_interval_ms=-1
    ) == queue_manager_attributes_from("QM1", answered)
