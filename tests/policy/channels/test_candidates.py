"""The entries of a channel table that are tried for a name, their order, and the error after a pass without a connection."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.channels.candidates import (
    Candidate,
    ConnectFailed,
    Preference,
    after_failure,
    after_pass,
    after_reading,
    candidates,
    connect_name,
    nothing_matches,
    table_of,
)
from mqflow.policy.channels.table import Address, Channel, ChannelTable
from mqflow.policy.reconnect.reason_classes import Class, classify


def chance(seed: int) -> Callable[[], float]:
    return Random(seed).random  # noqa: S311 - chance, not a secret


def channel(name: str, queue_manager: str = "GRP", weight: int = 0, *, at: int = 0, affinity: str = "preferred") -> Channel:
    assert affinity in {"preferred", "none"}
    return Channel(
        name=name, queue_manager=queue_manager, client_weight=weight, affinity="none" if affinity == "none" else "preferred",
        addresses=(Address(f"{name.lower()}{at}.example"),), position=at,
    )  # fmt: skip


def preference(*channels: Channel) -> Preference:
    return Preference(table=ChannelTable(channels=tuple(replace(each, position=at) for at, each in enumerate(channels))))


def names(of: Preference, name: str, seed: int = 0, host: str = "host1") -> list[str]:
    return [attempt.channel.name for attempt in candidates(of, name, random=chance(seed), host=host)]


MIXED = preference(channel("NAMED", "QM1"), channel("GROUPED", "GRP"), channel("BLANK", ""), channel("OTHER", "QM2"))


@pytest.mark.parametrize(
    ("name", "matching", "checked"),
    [("QM1", ["NAMED"], True), ("QM1   ", ["NAMED"], True), ("*QM1", ["NAMED"], False), ("GRP", ["GROUPED"], True),
     ("*GRP", ["GROUPED"], False), ("*", ["BLANK"], False), ("", ["BLANK"], False), ("    ", ["BLANK"], False),
     ("QM9", [], True), ("*QM9", [], False), ("qm1", [], True)],
    ids=lambda value: f"q027490: {value}",
)  # fmt: skip
def test_a_name_matches_entries_and_may_have_to_be_that_of_the_queue_manager_reached(
    name: str, matching: list[str], checked: object
) -> None:
    assert matching == names(MIXED, name)
    assert checked is connect_name(name).name_checked


def test_a_queue_manager_of_another_name_is_refused_unless_the_name_began_with_an_asterisk() -> None:
    assert [True, False, False, False] == [
        connect_name(name).refuses(reached) for name, reached in (("QM1", "QM2"), ("QM1", "QM1"), ("*QM1", "QM2"), ("", "QM2"))
    ]


def test_entries_of_weight_0_come_first_by_name_then_in_the_order_of_the_file() -> None:
    one = preference(channel("W", weight=50), channel("B", at=1), channel("A", at=9), channel("A", at=3))

    tried = candidates(one, "*GRP", random=chance(0))

    assert ["a9.example", "a3.example", "b1.example", "w0.example"] == [attempt.address.host for attempt in tried]


def test_all_addresses_of_an_entry_are_tried_in_their_order_before_the_next_entry() -> None:
    two = replace(channel("A"), addresses=(Address("z"), Address("y", 1515)))

    tried = candidates(preference(two, channel("B")), "*GRP", random=chance(0))

    assert ["z(1414)", "y(1515)", "b0.example(1414)"] == [str(attempt.address) for attempt in tried]


def test_each_candidate_has_the_reason_for_its_place() -> None:
    two = replace(channel("A"), addresses=(Address("z"), Address("y")))
    start = preference(two, channel("W", weight=3), channel("X", weight=1))
    failed = after_failure(start, start.table.channels[1])

    assert [
        "Weight 0: before all others, by name, then in the order of the file. Address 1 of 2 of the entry.",
        "Weight 0: before all others, by name, then in the order of the file. Address 2 of 2 of the entry.",
        "Weight 1 of 4, in the order of this host (AFFINITY(PREFERRED)).",
        "Weight 3 of 4, failed before, so after the others (AFFINITY(PREFERRED)).",
    ] == [attempt.why for attempt in candidates(failed, "*GRP", random=chance(0))]


def test_entries_that_cannot_be_used_are_not_tried() -> None:
    assert [] == names(preference(replace(channel("A"), names_exits=True), replace(channel("B"), addresses=())), "*GRP")


WEIGHTED = preference(*(channel(f"W{weight}", weight=weight, affinity="none") for weight in (2, 4, 14)))


def shares(of: Preference, *, hosts: bool) -> dict[str, float]:
    random, drawn = chance(20), 4_000
    counted = Counter(
        candidates(of, "*GRP", random=random, host=f"host{n}" if hosts else "")[0].channel.name for n in range(drawn)
    )
    return {name: count / drawn for name, count in sorted(counted.items())}


EXPECTED_SHARES = {"W14": 0.7, "W2": 0.1, "W4": 0.2}


def test_weights_of_2_4_and_14_are_first_in_10_20_and_70_of_100_draws() -> None:
    assert pytest.approx(EXPECTED_SHARES, abs=0.03) == shares(WEIGHTED, hosts=False)


def test_with_affinity_hosts_are_spread_as_the_weights_say() -> None:
    kept = preference(*(replace(each, affinity="preferred") for each in WEIGHTED.table.channels))

    assert pytest.approx(EXPECTED_SHARES, abs=0.03) == shares(kept, hosts=True)


def test_the_second_place_is_drawn_in_proportion_among_the_other_entries() -> None:
    random = chance(20)
    orders = [candidates(WEIGHTED, "*GRP", random=random) for _ in range(8_000)]
    seconds = Counter(order[1].channel.name for order in orders if order[0].channel.name == "W14")

    assert pytest.approx(2 / 3, abs=0.03) == seconds["W4"] / seconds.total()


groups = st.lists(
    st.tuples(st.sampled_from("ABCD"), st.sampled_from(["GRP", "QM1", ""]), st.sampled_from([0, 0, 1, 5, 99])), max_size=12
).map(lambda rows: preference(*(channel(name, group, weight, at=at) for at, (name, group, weight) in enumerate(rows))))
asked = st.sampled_from(["*GRP", "QM1", "*", ""])


@given(groups, asked, st.integers(0, 2**32), st.sampled_from(["preferred", "none"]))
def test_each_matching_entry_is_tried_once_and_weight_0_comes_first(
    one: Preference, name: str, seed: int, affinity: str
) -> None:
    one = preference(*(replace(each, affinity="none" if affinity == "none" else "preferred") for each in one.table.channels))

    tried = [attempt.channel for attempt in candidates(one, name, random=chance(seed))]

    matching = [each for each in one.table.channels if each.queue_manager == connect_name(name).queue_manager]
    assert matching == sorted(tried, key=lambda each: each.position)
    weights = [bool(each.client_weight) for each in tried]
    assert sorted(weights) == weights


@given(groups, asked, st.integers(0, 2**32), st.integers(0, 2**32))
def test_with_affinity_every_connect_of_a_host_has_the_same_order(one: Preference, name: str, seed: int, other: int) -> None:
    assert names(one, name, seed) == names(one, name, other)


def test_with_affinity_hosts_differ() -> None:
    kept = preference(*(channel(name, weight=10) for name in "ABCDEFGH"))

    assert 1 < len({tuple(names(kept, "*GRP", host=f"host{n}")) for n in range(10)})


def test_without_affinity_connects_of_a_host_differ() -> None:
    drawn = preference(*(channel(name, weight=10, affinity="none") for name in "ABCDEFGH"))

    assert 1 < len({tuple(names(drawn, "*GRP", seed)) for seed in range(10)})


def test_one_entry_without_affinity_makes_its_group_be_drawn_for_each_connect() -> None:
    drawn = preference(*(channel(name, weight=10, affinity="none" if name == "A" else "preferred") for name in "ABCDEFGH"))

    assert 1 < len({tuple(names(drawn, "*GRP", seed)) for seed in range(10)})


@given(groups, asked)
def test_an_added_entry_leaves_the_others_in_their_order(one: Preference, name: str) -> None:
    group = connect_name(name).queue_manager
    more = preference(*one.table.channels, channel("NEW", group, 50))

    assert names(one, name) == [each for each in names(more, name) if each != "NEW"]


@given(groups, st.integers(0, 11))
def test_with_affinity_an_entry_that_failed_is_last_and_one_of_weight_0_stays(one: Preference, at: int) -> None:
    before = [attempt.channel for attempt in candidates(one, "*GRP", random=chance(0))]
    if not before:
        return
    gone = before[at % len(before)]

    after = [attempt.channel for attempt in candidates(after_failure(one, gone), "*GRP", random=chance(0))]

    assert after == (before if not gone.client_weight else [each for each in before if each != gone] + [gone])


def test_entries_that_failed_are_in_the_order_of_their_last_failure() -> None:
    start = preference(*(channel(name, weight=10) for name in "ABC"))
    first, second, _ = start.table.channels
    for gone in (first, second, first):
        start = after_failure(start, gone)

    assert ["C", "B", "A"] == names(start, "*GRP")
    assert (second, first) == start.failed


def test_a_table_that_changed_forgets_failures_and_one_that_did_not_keeps_them() -> None:
    start = preference(channel("A", weight=10), channel("B", weight=10))
    failed = after_failure(start, start.table.channels[0])

    assert failed == after_reading(failed, replace(start.table, source="read again"))
    assert () == after_reading(failed, preference(channel("A", weight=11)).table).failed


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("QM9", "no usable entry for queue manager QM9; it has entries for (blank), GRP, QM1, QM2"),
        ("*QM9", "no usable entry for queue manager QM9"),
        ("QM1", "'*QM1' would take any of that group"),
    ],
)
def test_the_error_2058_for_an_unknown_name_lists_the_names_of_the_table(name: str, said: str) -> None:
    error = nothing_matches(MIXED.table, name)

    assert Reason.Q_MGR_NAME_ERROR == error.reason
    assert said in str(error)


@pytest.mark.parametrize("name", ["QM9", "*QM9", "*QM1"])
def test_the_error_2058_recommends_an_asterisk_only_for_a_name_of_the_table_without_one(name: str) -> None:
    assert "would take any of that group" not in str(nothing_matches(MIXED.table, name))


def test_blank_is_not_all_entries_and_its_error_says_so() -> None:
    assert "'*' and a blank name match no other entries" in str(nothing_matches(preference(channel("A")).table, "*"))


def test_the_channel_of_mqserver_is_taken_for_any_name() -> None:
    """Source: MQSERVER names no queue manager, so the name at MQCONNX chooses no entry."""
    for name in ("QM1", "*QM1", "*", ""):
        assert ["DEFINED"] == names(Preference(table=table_of(channel("DEFINED", ""), name, "MQSERVER")), name)


def failed(*reasons: int) -> list[ConnectFailed]:
    attempt = Candidate(channel=Channel(name="ORDERS"), address=Address("mq1"), why="")
    return [ConnectFailed(attempt, error_for(reason, "MQCONNX")) for reason in reasons]


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        ((2538,), Reason.HOST_NOT_AVAILABLE),
        ((2538, 2538), Reason.HOST_NOT_AVAILABLE),
        ((2538, 2543), Reason.Q_MGR_NOT_AVAILABLE),
        ((2538, 2035), Reason.HOST_NOT_AVAILABLE),  # an attempt may succeed later: another pass follows
        ((2035, 2538), Reason.HOST_NOT_AVAILABLE),
        ((2540, 2035), Reason.NOT_AUTHORIZED),  # no attempt can succeed: the end, with the last reason
        ((2058,), Reason.Q_MGR_NAME_ERROR),
        ((2546, 2546), Reason.RECONNECT_QMID_MISMATCH),
        ((2546, 2538), Reason.HOST_NOT_AVAILABLE),
        ((2071,), Reason.Q_MGR_NOT_AVAILABLE),  # elsewhere this reason waits; here no connection was made
    ],
)
def test_the_error_of_a_pass_says_whether_another_pass_follows(reasons: tuple[int, ...], expected: Reason) -> None:
    assert expected == after_pass("*GRP", failed(*reasons)).reason


def test_the_passes_end_only_if_no_attempt_can_succeed_later() -> None:
    over = {reason for reason in Reason if classify(int(after_pass("*GRP", failed(reason)).reason)) is not Class.RECONNECT}

    assert {reason for reason in Reason if classify(reason) is Class.CONFIGURATION} == over


def test_the_error_lists_up_to_ten_attempts_with_their_reasons() -> None:
    few, ten, eleven, many = (str(after_pass("*GRP ", failed(*[2538] * count))) for count in (2, 10, 11, 12))

    assert few.count("ORDERS at mq1(1414): MQRC_HOST_NOT_AVAILABLE (2538)") == 2
    assert "MQCONNX (*GRP) failed" in few
    assert "and 2 more" in many
    assert ("more" in ten, "and 1 more" in eleven) == (False, True)
    assert [2, 10, 10, 10] == [text.count("ORDERS at mq1(1414)") for text in (few, ten, eleven, many)]


def test_the_detail_of_an_error_is_in_the_list() -> None:
    [one] = failed(2058)
    named = ConnectFailed(one.attempt, MQIError(2058, "MQCONNX", detail="The queue manager there is called QM2."))

    assert "(2058), The queue manager there is called QM2." in str(after_pass("QM1", [named]))
