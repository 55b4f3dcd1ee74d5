"""The answers of the desk behind the pages: groups, messages, searches and stories, with their limits."""

import re
from contextlib import nullcontext

import pytest

from mqflow.cli.console import desk
from mqflow.cli.console.desk import Found, MissingMessageError
from mqflow.cli.messages.poison import HEADERS_BYTES_MAX
from mqflow.cli.watching.control import QueueFigures
from mqflow.cli.watching.status_report import StatusReport, report
from mqflow.embedded import mqsc
from mqflow.events import Delivered
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import PutOption
from mqflow.policy.health.records import ApplicationStatus, ListenerStatus, ProcessStatus
from tests.cli.console.conftest import FAILED, TEXT, UNDECODABLE, Bench

BOQ = "ORDERS.BOQ"


def counted(process: int, delivered: int, queue: str = "ORDERS.IN") -> StatusReport:
    """Return the report of an application that has got so many messages from the queue."""
    listener = ListenerStatus(name="book", queue=queue, concurrency=1)
    counts = {"messages_delivered": (((queue, "book"), float(delivered)),)}
    status = ProcessStatus(process=process, taken_at=0.0, ready=True, listeners=(listener,), counts=counts)
    application = ApplicationStatus(application="orders", process=process, processes=(status,))
    return report(application, (QueueFigures(queue=queue, depth=0),))


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

    assert ([limit], limit, cut) == ([group.messages for group in page.groups], page.looked_at, page.is_cut)
    assert (limit, (BOQ,) * cut, ()) == (found.looked_at, found.cut, found.found)


def test_a_search_looks_at_queues_of_failed_messages_only(bench: Bench) -> None:
    bench.connection.put1("ORDERS.IN", TEXT, b"the price", PutOption.NO_SYNCPOINT)
    first, _, third = (bench.fail(body) for body in (b"the price", b"no", b"a price"))

    everywhere, there = bench.desk.search("price"), bench.desk.search("the price", "ORDERS.IN")

    expected = tuple(Found(queue=BOQ, message_id=each, places=("property mqflow.text", "body")) for each in (first, third))
    assert ((BOQ,), 3, ()) == (everywhere.queues, everywhere.looked_at, everywhere.cut)
    assert [expected[0].places, ("property mqflow.text",), expected[1].places] == [each.places for each in everywhere.found]
    assert (first, third) == (everywhere.found[0].message_id, everywhere.found[2].message_id)
    assert "ValueError: no price" == everywhere.found[0].why
    assert (("ORDERS.IN",), 1, ("body",)) == (there.queues, there.looked_at, there.found[0].places)


def test_a_search_ends_after_its_last_shown_message(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for body in (b"one", b"two", b"three"):
        bench.fail(body)
    monkeypatch.setattr(desk, "_SHOWN_MAX", 2)

    page = bench.desk.search("price")

    assert (2, 2, (BOQ,)) == (len(page.found), page.looked_at, page.cut)


def test_a_search_shows_no_more_messages_on_further_queues_and_says_which_it_has_not_read(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for queue in ("DEAD.LETTERS", BOQ, BOQ):
        bench.fail(b"order", queue=queue)
    script = "DEFINE QLOCAL(OTHER.IN) BOTHRESH(1) BOQNAME(NOWHERE)"
    assert 0 == mqsc.run(script, bench.queue_manager.administration).exit_code()
    monkeypatch.setattr(desk, "_SHOWN_MAX", 1)

    page = bench.desk.search("price")

    assert (1, 1, {"NOWHERE", BOQ}) == (len(page.found), page.looked_at, set(page.cut))


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


def test_an_overview_notes_the_counts_of_the_applications_and_leaves_no_connection(bench: Bench) -> None:
    before = bench.queue_manager.administration.objects.connections()
    for delivered in (3, 13):
        bench.reports[:] = [counted(7, delivered)]
        bench.desk.overview()
        bench.clock.advance(5)

    assert (2.0,) == bench.desk.rates(tuple(bench.reports), "ORDERS.IN")
    assert [each.identifier for each in before] == [
        each.identifier for each in bench.queue_manager.administration.objects.connections()
    ]


def test_two_browsers_that_look_at_the_same_time_are_one_look_for_the_plots(bench: Bench) -> None:
    for number in range(6):
        bench.reports[:] = [counted(7, 10 * number)]
        bench.desk.overview()
        bench.clock.advance(2.0 if number % 2 else 0.001)

    assert (3, 2) == (len(bench.desk.history.depths(0, BOQ)), len(bench.desk.rates(tuple(bench.reports), "ORDERS.IN")))


def test_a_condition_on_the_body_reads_it_to_its_end(bench: Bench) -> None:
    bench.fail(b"x" * HEADERS_BYTES_MAX + b"the end")

    assert [1, 0] == [bench.desk.groups(BOQ, where=("body", pattern)).looked_at for pattern in ("*the end", "*the end?")]


def test_the_overview_has_each_queue_with_its_role(bench: Bench) -> None:
    bench.fail(b"one")

    page = bench.desk.overview()

    assert ("QM1", "", ()) == (page.queue_manager, page.problem, page.applications)
    assert [
        (BOQ, "backout queue of ORDERS.IN", 1, "failed"),
        ("DEAD.LETTERS", "dead-letter queue", 0, "ok"),
        ("ORDERS.IN", "", 0, "ok"),
    ] == [(row.name, row.role, row.depth, row.state) for row in page.queues]


def test_a_group_shows_its_first_three_messages(bench: Bench) -> None:
    sent = [bench.fail(b"order %d" % number) for number in range(4)]

    [group] = bench.desk.groups(BOQ).groups

    assert (4, sent[:3]) == (group.messages, [sample.message_id for sample in group.samples])


@pytest.mark.anyio
async def test_a_page_shows_the_largest_groups_and_the_number_of_all(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any program that may put to the queue can write another exception into each message."""
    monkeypatch.setattr(desk, "_SHOWN_MAX", 1)
    for why in (UNDECODABLE, FAILED, FAILED):
        bench.fail(b"order", why)

    page, shown = bench.desk.groups(BOQ), (await (await bench.browser().log_in()).get(f"/queue?queue={BOQ}")).text

    assert (["ValueError"], 2) == ([group.exception for group in page.groups], page.group_count)
    assert "3 messages in 2 groups. The largest group is shown." in re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", shown))


def test_a_queue_that_only_an_application_or_an_option_names_is_in_the_overview(bench: Bench) -> None:
    assert 0 == mqsc.run("DEFINE QALIAS(SHORT) TARGET(ORDERS.IN)", bench.queue_manager.administration).exit_code()
    bench.reports.append(counted(7, 0, queue="SHORT"))
    extra = desk.Desk(
        lambda: nullcontext(bench.queue_manager), bench.settings, lambda: bench.reports, bench.clock, queues=("NOWHERE",)
    )

    page = extra.overview()

    shown = {row.name: (row.threshold, row.backout_queue, row.depth) for row in page.queues}
    assert {"SHORT": (1, BOQ, 0), "NOWHERE": (0, "", None)} == {name: shown[name] for name in ("SHORT", "NOWHERE")}


@pytest.mark.parametrize(
    ("counts", "rates"),
    [
        pytest.param([], (), id="no application"),
        pytest.param([(3,)], (), id="one look"),
        pytest.param([(3, 13, 13)], (2.0, 0.0), id="ten messages in five seconds, then none"),
        pytest.param([(0, 10, 20), (0, 5, 5)], (3.0, 2.0), id="the sum of two applications"),
        pytest.param([(0, 10, 30), (0, 5)], (5.0,), id="the last looks of both"),
        pytest.param([(0, 10, 30), (0,)], (2.0, 4.0), id="an application with one look is not counted yet"),
    ],
)
def test_the_rate_of_a_queue_is_the_sum_of_its_applications(
    bench: Bench, counts: list[tuple[int, ...]], rates: tuple[float, ...]
) -> None:
    for process, totals in enumerate(counts, start=7):
        for look, total in enumerate(totals):
            bench.desk.history.note(counted(process, total), 5.0 * look)

    assert rates == bench.desk.rates(tuple(counted(process, 0) for process in range(7, 7 + len(counts))), "ORDERS.IN")


@pytest.mark.parametrize(("messages", "looked_at", "is_cut"), [(1, 1, False), (2, 2, False), (3, 2, True), (4, 2, True)])
def test_a_page_of_groups_looks_at_a_largest_number_of_messages(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, messages: int, looked_at: int, *, is_cut: bool
) -> None:
    monkeypatch.setattr("mqflow.cli.console.desk.LOOKED_AT_MAX", 2)
    for number in range(messages):
        bench.fail(b"order %d" % number)

    page = bench.desk.groups("ORDERS.BOQ")

    assert (looked_at, is_cut, looked_at) == (page.looked_at, page.is_cut, sum(each.messages for each in page.groups))
