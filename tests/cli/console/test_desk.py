"""The answers of the desk behind the pages: groups, messages, searches and stories, with their limits."""

import pytest

from mqflow.cli.console import desk
from mqflow.cli.console.desk import Found, MissingMessageError
from mqflow.events import Delivered
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import PutOption
from tests.cli.console.conftest import TEXT, UNDECODABLE, Bench

BOQ = "ORDERS.BOQ"


def test_a_group_has_its_messages_and_no_other_group_has_them(bench: Bench) -> None:
    first, second = bench.fail(b"one"), bench.fail(b"two")
    other = bench.fail(b"three", UNDECODABLE)

    whole = bench.desk.groups(BOQ)
    names = [group.name for group in whole.groups]  # the largest first
    failed, undecodable = (bench.desk.groups(BOQ, name) for name in names)
    unknown = bench.desk.groups(BOQ, "nobody")
    met = bench.desk.groups(BOQ, where=("error", "DecodeError"))

    assert (BOQ, 2, 3, (), None, False) == (
        whole.queue, len(whole.groups), whole.looked_at, whole.messages, whole.group, whole.is_cut
    )  # fmt: skip
    assert [first, second] == [message.message_id for message in failed.messages]
    assert [other] == [message.message_id for message in undecodable.messages]
    assert names == [page.group.name for page in (failed, undecodable) if page.group]
    assert ((), None, 3) == (unknown.messages, unknown.group, unknown.looked_at)
    assert ([1], 1) == ([group.messages for group in met.groups], met.looked_at)


@pytest.mark.parametrize(("limit", "cut"), [(2, True), (3, False)])
def test_a_long_queue_is_read_up_to_a_limit_and_the_page_says_so(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, limit: int, *, cut: bool
) -> None:
    for body in (b"one", b"two", b"three"):
        bench.fail(body)
    monkeypatch.setattr(desk, "LOOKED_AT_MAX", limit)

    page, found = bench.desk.groups(BOQ), bench.desk.search("nothing")

    assert (limit, cut) == (page.looked_at, page.is_cut)
    assert (limit, (BOQ,) * cut, ()) == (found.looked_at, found.cut, found.found)


def test_a_search_looks_at_queues_of_failed_messages_only(bench: Bench) -> None:
    bench.connection.put1("ORDERS.IN", TEXT, b"the price", PutOption.NO_SYNCPOINT)
    first, _, third = (bench.fail(body) for body in (b"the price", b"no", b"a price"))

    everywhere, there = bench.desk.search("price"), bench.desk.search("the price", "ORDERS.IN")

    expected = tuple(Found(queue=BOQ, message_id=each, places=("property mqflow.text", "body")) for each in (first, third))
    assert ((BOQ,), 3, ()) == (everywhere.queues, everywhere.looked_at, everywhere.cut)
    assert [expected[0].places, ("property mqflow.text",), expected[1].places] == [each.places for each in everywhere.found]
    assert (first, third) == (everywhere.found[0].message_id, everywhere.found[2].message_id)
    assert (("ORDERS.IN",), 1, ("body",)) == (there.queues, there.looked_at, there.found[0].places)


def test_a_search_ends_after_its_last_shown_message(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for body in (b"one", b"two", b"three"):
        bench.fail(body)
    monkeypatch.setattr(desk, "_SHOWN_MAX", 2)

    page = bench.desk.search("price")

    assert (2, 2, (BOQ,)) == (len(page.found), page.looked_at, page.cut)


def test_a_message_has_its_text_its_origin_and_its_story(bench: Bench) -> None:
    twin = MessageDescriptor(format="MQSTR", ccsid=1208, message_id=b"\xab" * 24)
    bench.fail(b"one", descriptor=twin)
    bench.fail(b"two", descriptor=twin)
    before = bench.desk.message(BOQ, twin.message_id)
    bench.record(Delivered(queue="ORDERS.IN", message_id=twin.message_id, listener="book", backout_count=0, body_bytes=3))

    page = bench.desk.message(BOQ, twin.message_id)

    assert ((), True) == (before.story, bool(before.no_story))
    assert ("Delivery 1: book got it from ORDERS.IN (3 bytes).",) == page.story[0][1]
    assert (1, "", 2, True, "ORDERS.IN", False) == (
        len(page.story), page.no_story, page.same_id, page.is_text, page.origin, page.is_cut
    )  # fmt: skip
    assert (("one",), ("00000000  6f6e65                               one",)) == (page.shown.body, page.hex_lines)
    other = bench.fail(b"\xff\x00")
    assert ("The decision ledger has no entry for this message.", False) == (
        bench.desk.message(BOQ, other).no_story, bench.desk.message(BOQ, other).is_text
    )  # fmt: skip


def test_a_message_that_has_left_the_queue_is_missing(bench: Bench) -> None:
    with pytest.raises(MissingMessageError) as missing:
        bench.desk.message(BOQ, b"\xab" * 24)

    assert f"No message on {BOQ} has the MsgId {'ab' * 24}: it has left the queue." == str(missing.value)


def test_the_overview_has_each_queue_with_its_role(bench: Bench) -> None:
    bench.fail(b"one")

    page = bench.desk.overview()

    assert ("QM1", "", ()) == (page.queue_manager, page.problem, page.applications)
    assert [
        (BOQ, "backout queue of ORDERS.IN", 1, "failed"),
        ("DEAD.LETTERS", "dead-letter queue", 0, "ok"),
        ("ORDERS.IN", "", 0, "ok"),
    ] == [(row.name, row.role, row.depth, row.state) for row in page.queues]
