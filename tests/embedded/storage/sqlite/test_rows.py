"""Changes as SQL statements, and rows as records. No database runs: the statements and rows are compared whole."""

from typing import Any

import msgspec
import pytest

from mqflow.embedded.storage.sqlite import rows
from mqflow.embedded.storage.sqlite.rows import SERIALS_RESERVED, Catalogue, DamagedRowError
from mqflow.embedded.storage.store import (
    BackoutCounted,
    Change,
    MessageAdded,
    MessageRemoved,
    ObjectDefined,
    ObjectDeleted,
    QueueCleared,
    QueueDefined,
    QueueDeleted,
    QueueManagerDefined,
    StoredIdentifiers,
)
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.attributes.queue_manager import QueueManagerAttributes
from tests.embedded.storage.stored_messages import OTHER_QUEUE, QUEUE, message

ADD, COUNT, REMOVE, FORGET, DEFINE, CLEAR, CLEAR_DAMAGED, DELETE, STATE, OBJECT, NO_OBJECT = (
    "INSERT INTO message", "INSERT INTO backout", "DELETE FROM message WHERE serial = ?", "DELETE FROM backout",
    "INSERT OR REPLACE INTO queue", "DELETE FROM message WHERE queue = ?", "DELETE FROM message WHERE serial IN",
    "DELETE FROM queue", "INSERT OR REPLACE INTO state", "INSERT INTO object", "DELETE FROM object",
)  # fmt: skip


def catalogue() -> Catalogue:
    return Catalogue({QUEUE: 4, OTHER_QUEUE: 7}, {2}, 100)


def begins(made: Catalogue, *changes: Change) -> list[tuple[str, list[object]]]:
    """Return for each statement how it begins, and the first column of each of its rows."""
    known = (ADD, COUNT, REMOVE, FORGET, DEFINE, CLEAR_DAMAGED, CLEAR, DELETE, STATE, OBJECT, NO_OBJECT)
    return [
        (next(each for each in known if sql.startswith(each)), [row[0] for row in parameters])
        for sql, parameters in made.statements(changes)
    ]


def added(serial: int) -> Change:
    return MessageAdded(message(serial))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [((), []),
     ((MessageRemoved(2), added(5), BackoutCounted(5, 1), MessageRemoved(3), added(6)),
      [(ADD, [5, 6]), (COUNT, [5]), (REMOVE, [2, 3]), (FORGET, [2])]),
     ((BackoutCounted(3, 1), MessageRemoved(3), MessageRemoved(3)), [(COUNT, [3]), (REMOVE, [3, 3]), (FORGET, [3])]),
     ((added(5), QueueCleared(QUEUE), added(6), QueueCleared(OTHER_QUEUE, (8, 9))),
      [(ADD, [5]), (CLEAR, [4]), (ADD, [6]), (REMOVE, [8, 9]), (CLEAR_DAMAGED, [7])]),
     ((QueueCleared(QUEUE, ()),), [(CLEAR_DAMAGED, [4])]),
     ((QueueDeleted(QUEUE, (5,)),), [(REMOVE, [5]), (CLEAR_DAMAGED, [4]), (DELETE, [4])]),
     ((QueueDeleted(QUEUE),), [(CLEAR, [4]), (DELETE, [4])]),
     ((QueueDeleted("TEMPORARY", (5,)), QueueCleared("TEMPORARY", (5,)), QueueDeleted("TEMPORARY")), []),
     ((QueueDefined(QueueAttributes(name=QUEUE)), QueueDefined(QueueAttributes(name="NEW"))), [(DEFINE, [4]), (DEFINE, [8])]),
     ((QueueDeleted(OTHER_QUEUE), QueueDefined(QueueAttributes(name="NEW"))), [(CLEAR, [7]), (DELETE, [7]), (DEFINE, [5])]),
     ((ObjectDefined("topic", "PRICES", b"x"), ObjectDeleted("topic", "PRICES")),
      [(OBJECT, ["topic"]), (NO_OBJECT, ["topic"])]),
     ((QueueManagerDefined(QueueManagerAttributes(name="QM1")),), [(STATE, ["queue_manager"])])],
)  # fmt: skip
def test_changes_are_made_in_an_order_with_the_same_result(changes: tuple[Change, ...], expected: object) -> None:
    """Changes to messages are grouped, and a change of another kind ends the group."""
    assert expected == begins(catalogue(), *changes)


def test_the_first_queue_has_the_number_1() -> None:
    assert [(DEFINE, [1])] == begins(Catalogue({}, set(), 0), QueueDefined(QueueAttributes(name=QUEUE)))


def test_a_count_is_forgotten_once() -> None:
    made = catalogue()

    assert [(REMOVE, [2]), (FORGET, [2])] == begins(made, MessageRemoved(2))
    assert [(REMOVE, [2])] == begins(made, MessageRemoved(2))
    assert [(COUNT, [2])] == begins(made, BackoutCounted(2, 1))
    assert [(REMOVE, [2]), (FORGET, [2])] == begins(made, MessageRemoved(2))


def test_serials_are_reserved_many_at_a_time() -> None:
    """The first serial that is not reserved yet reserves the next ones, before its message is added."""
    made = catalogue()

    assert [(ADD, [99])] == begins(made, added(99))
    assert [(STATE, ["next_serial"]), (ADD, [100, 101])] == begins(made, added(100), added(101))
    assert (1_048_576, 100 + SERIALS_RESERVED) == (SERIALS_RESERVED, made.serials_noted)
    assert [(ADD, [99 + SERIALS_RESERVED])] == begins(made, added(99 + SERIALS_RESERVED))
    [(_, [row]), _] = made.statements([added(100 + SERIALS_RESERVED)])
    assert rows.state_row("next_serial", 100 + 2 * SERIALS_RESERVED) == row


def stored(serial: int = 5, **descriptor: Any) -> tuple[Any, ...]:
    """Return the row of `MESSAGE` for a message that was added."""
    [(_, [row])] = catalogue().statements([MessageAdded(message(serial, b"body", **descriptor))])
    number, queue, priority, expires_at, put_at, crc, body_crc, encoded, body = row
    return number, queue, priority, expires_at, put_at, crc, body_crc, encoded, len(body), body, None, None


def damaged(row: tuple[Any, ...] | None) -> str:
    with pytest.raises(DamagedRowError) as raised:
        rows.message_of(row, {4: QUEUE})
    return str(raised.value)


def test_a_message_comes_back_from_its_row() -> None:
    whole = message(5, b"body", correlation_id=b"C" * 24, group_id=b"G" * 24)
    row = stored(correlation_id=b"C" * 24, group_id=b"G" * 24)

    assert whole == rows.message_of(row, {4: QUEUE})
    identifiers = StoredIdentifiers(5, (5).to_bytes(24), b"C" * 24, b"G" * 24)
    assert identifiers == rows.identifiers_of(row[:9])


@pytest.mark.parametrize(("expires_at", "priority"), [(None, 0), (0.0, 9), (12.5, -3)])
def test_an_expiry_and_a_priority_come_back_from_their_row(expires_at: float | None, priority: int) -> None:
    put = msgspec.structs.replace(message(5), expires_at=expires_at, order_priority=priority, put_at=7.25)
    [(_, [row])] = catalogue().statements([MessageAdded(put)])

    assert put == rows.message_of((*row[:8], len(row[8]), row[8], None, None), {4: QUEUE})


def test_no_expiry_is_not_an_expiry_at_the_beginning_of_time() -> None:
    row = stored()

    assert "its descriptor is damaged" == damaged((*row[:3], 0.0, *row[4:]))


@pytest.mark.parametrize(("count", "expected"), [(0, 2), (2, 2), (3, 3)])
def test_the_higher_of_two_backout_counts_counts(count: int, expected: int) -> None:
    row = stored(backout_count=2)

    found = rows.message_of((*row[:10], count, rows.count_row(5, count)[2]), {4: QUEUE})

    assert expected == found.descriptor.backout_count


CHANGED: list[tuple[int, object, str]] = [
    *((column, 6, "its descriptor is damaged") for column in (0, 1, 2, 5, 6, 8)),
    *((column, 1.5, "its descriptor is damaged") for column in (3, 4)),
    *((column, "text", "its descriptor is damaged") for column in (0, 1, 2, 3, 4, 6, 7)),
    (7, b"\x80", "its descriptor is damaged"),
    (9, b"BODY", "its body is damaged"),
    (9, "body", "its body is damaged"),
    (9, None, "its body is damaged"),
    (10, 1, "its backout count is damaged"),
]


@pytest.mark.parametrize(("column", "value", "said"), CHANGED)
def test_a_changed_column_is_damage(column: int, value: object, said: str) -> None:
    row = list(stored())
    row[column] = value

    assert said == damaged(tuple(row))


def test_a_message_without_its_row_or_its_queue_is_damage() -> None:
    with pytest.raises(DamagedRowError, match=r"^it is gone$"):
        rows.identifiers_of(None)
    with pytest.raises(DamagedRowError, match=r"^its queue \(number 4\) is gone$"):
        rows.message_of(stored(), {5: QUEUE})
    assert "it is gone" == damaged(None)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_changed_count_is_damage(place: int) -> None:
    row = list(rows.count_row(5, 2))
    assert 2 == rows.count_of((row[0], row[1], row[2]))
    row[place] += 1

    with pytest.raises(DamagedRowError, match="its backout count is damaged"):
        rows.count_of((row[0], row[1], row[2]))


def test_the_facts_of_a_store_come_back_from_their_rows() -> None:
    made = [rows.state_row("next_serial", 7), rows.state_row("epoch", 2)]
    read = [(key.encode(), value, crc) for key, value, crc in made]

    assert {"next_serial": b"\x07", "epoch": b"\x02"} == rows.state_of(read)
    for changed in ((b"epocH", *read[1][1:]), (read[1][0], b"\x03", read[1][2]), (*read[1][:2], 0)):
        with pytest.raises(DamagedRowError, match="the attributes of the queue manager are damaged"):
            rows.state_of([read[0], changed])


def test_a_queue_and_an_object_come_back_from_their_rows() -> None:
    attributes = QueueAttributes(name=QUEUE, max_depth=3)
    [(_, [queue])] = catalogue().statements([QueueDefined(attributes)])
    [(_, [made])] = catalogue().statements([ObjectDefined("topic", "PRICES", b"x")])
    kind, name, value, crc = made

    assert (4, attributes) == rows.queue_of((queue[0], queue[2], queue[3]))
    assert (4, QUEUE) == (queue[0], queue[1])
    for wrong in ((5, queue[2], queue[3]), (4, queue[2] + b"x", queue[3]), (4, queue[2], queue[3] + 1)):
        with pytest.raises(DamagedRowError, match="the definition of a queue is damaged"):
            rows.queue_of(wrong)
    assert ObjectDefined("topic", "PRICES", b"x") == rows.object_of((kind.encode(), name.encode(), value, crc))
    for damaged_kind, damaged_name, damaged_value in (
        (b"topicP", b"RICES", value),
        (b"tobic", b"PRICES", value),
        (b"topic", b"PRICEZ", value),
        (b"topic", b"PRICES", b"y"),
    ):
        with pytest.raises(DamagedRowError, match="the definition of an object is damaged"):
            rows.object_of((damaged_kind, damaged_name, damaged_value, crc))


def test_an_object_is_defined_and_deleted_by_kind_and_name() -> None:
    statements = list(catalogue().statements([ObjectDefined("topic", "PRICES", b"x"), ObjectDeleted("topic", "PRICES")]))

    assert [("topic", "PRICES", b"x"), ("topic", "PRICES")] == [parameters[0][:3] for _, parameters in statements]


PINNED = (374297151, 4118528295, 3685223346, 3569848638, 2060963114, 2515699240)


def test_rows_have_the_checksums_that_earlier_releases_wrote() -> None:
    """A folder outlives the release that wrote it: another checksum would set each of its messages aside."""
    put = msgspec.structs.replace(message(5, b"body"), order_priority=-2, expires_at=12.5, put_at=7.25)
    [(_, [row])] = catalogue().statements([MessageAdded(put)])
    [(_, [made])] = catalogue().statements([ObjectDefined("topic", "PRICES", b"x")])
    head = rows._head_crc(5, 4, -2, 12.5, 7.25, 4, 9, b"encoded"), rows._head_crc(5, 4, -2, None, 7.25, 4, 9, b"encoded")

    assert PINNED == (*head, row[6], rows.count_row(5, 2)[2], rows.state_row("epoch", 2)[2], made[3])
