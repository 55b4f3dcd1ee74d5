"""The action of a rules table on one dead letter. Rows name their sentence; `seed` is IBM "Processing the rules table"."""

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.mqi.descriptor import CCSID_INHERIT, MessageDescriptor
from mqflow.mqi.headers.dead_letter import DeadLetterHeader, to_bytes
from mqflow.mqi.options import Encoding, Persistence
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.actions import (
    DeadLetter,
    Discard,
    Ignore,
    Intent,
    Redirect,
    UnjudgedError,
    choose,
    dead_letter,
    field_of,
    like,
    matcher,
    matchers,
    redirected,
    takes_everything,
    without_header,
)
from mqflow.policy.dead_letters.rules import Rule, RulesTable, parse
from mqflow.policy.dead_letters.rules.vocabulary import Field
from tests.mqi.strategies import dead_letter_headers, encodings, field_ccsids

HEADER = DeadLetterHeader(
    reason=Reason.Q_FULL, destination_queue="ORDERS.IN", destination_queue_manager="QM1", format="MQSTR", ccsid=CCSID_INHERIT
)
DESCRIPTOR = MessageDescriptor(
    format="MQDEAD", ccsid=1208, reply_to_queue="ORDERS.REPLY", reply_to_queue_manager="QM2", user_identifier="amelie",
    put_application_name="booking", put_application_type=6, application_identity_data="north",
    persistence=Persistence.PERSISTENT, message_type=1, feedback=260,
)  # fmt: skip


def letter(descriptor: MessageDescriptor = DESCRIPTOR, header: DeadLetterHeader = HEADER, body: bytes = b"body") -> DeadLetter:
    return DeadLetter(descriptor, header, to_bytes(header, encoding=descriptor.encoding, ccsid=descriptor.ccsid) + body)


def rules(text: str) -> tuple[Rule, ...]:
    table = parse(text)
    assert isinstance(table, RulesTable), table
    return table.rules


def intent(text: str, which: DeadLetter, attempts: int = 0) -> Intent:
    return choose(matchers(rules(text)), which, attempts).intent


MATCHES = [
    pytest.param("DESTQ(ORDERS.IN)", True, id="seed: a matching pattern"),
    pytest.param("DESTQ(ORDERS.OUT)", False, id="seed: no matching pattern"),
    pytest.param("DESTQ(orders.in)", True, id="conventions: folded before it is compared"),
    pytest.param("DESTQ('orders.in')", False, id="amqsdlq: matching minds the case"),
    pytest.param("DESTQM(QM1)", True, id="patterns: DESTQM is the MQDLH's"),
    pytest.param("FORMAT(MQSTR)", True, id="amqsdlq: FORMAT is the MQDLH's, not the descriptor's"),
    pytest.param("FORMAT(MQDEAD)", False, id="amqsdlq: the descriptor's is not asked"),
    pytest.param("REASON(MQRC_Q_FULL)", True, id="patterns: REASON is the MQDLH's"),
    pytest.param("APPLNAME(BOOKING)", False, id="amqsdlq: APPLNAME is the descriptor's"),
    pytest.param("APPLNAME('booking')", True, id="amqsdlq: in its own case"),
    pytest.param("APPLTYPE(MQAT_UNIX)", True, id="patterns: APPLTYPE is the descriptor's"),
    pytest.param("APPLIDAT('nor*')", True, id="patterns: APPLIDAT"),
    pytest.param("FEEDBACK(MQFB_COD)", True, id="amqsdlq: FEEDBACK is compared for every message"),
    pytest.param("MSGTYPE(MQMT_REQUEST)", True, id="patterns: MSGTYPE"),
    pytest.param("PERSIST(MQPER_NOT_PERSISTENT)", False, id="patterns: PERSIST"),
    pytest.param("REPLYQ(?*) REPLYQM(QM2)", True, id="actions: REPLYQ(?*) is any that is not blank"),
    pytest.param("REPLYQ(' ')", False, id="conventions: a blank matches a blank field only"),
    pytest.param("USERID('am??ie')", True, id="conventions: ? is one character"),
    pytest.param("USERID('amelie?')", False, id="conventions: but not a trailing blank"),
    pytest.param("DESTQ(ORDERS.IN) REASON(1)", False, id="seed: every keyword of the pattern"),
    pytest.param("", True, id="seed: action-only rules are applied to all messages"),
]


@pytest.mark.parametrize(("pattern", "expected"), MATCHES)
def test_a_rule_matches(pattern: str, expected: object) -> None:
    assert expected == (intent(f"{pattern} ACTION(DISCARD)", letter()) == Discard())


INTENTS = [
    pytest.param("ACTION(RETRY)", Redirect("ORDERS.IN", "QM1"), id="actions: RETRY goes where the MQDLH says, without it"),
    pytest.param("ACTION(DISCARD)", Discard(), id="actions: DISCARD"),
    pytest.param("ACTION(IGNORE)", Ignore(), id="actions: IGNORE"),
    pytest.param("ACTION(FWD) FWDQ(A)", Redirect("A", "", keep_header=True), id="actions: FWD, HEADER(YES), local"),
    pytest.param("ACTION(FWD) FWDQ(A) FWDQM(B)", Redirect("A", "B", keep_header=True), id="actions: FWDQM"),
    pytest.param("ACTION(FWD) FWDQ(A) HEADER(NO)", Redirect("A"), id="actions: HEADER(NO)"),
    pytest.param("ACTION(FWD) FWDQ(&DESTQ) FWDQM(&DESTQM) HEADER(NO)", Redirect("ORDERS.IN", "QM1"), id="actions: &DESTQ"),
    pytest.param("ACTION(FWD) FWDQ(&REPLYQ) FWDQM(&REPLYQM)", Redirect("ORDERS.REPLY", "QM2", keep_header=True), id="&REPLYQ"),
    pytest.param("ACTION(RETRY) PUTAUT(CTX)", Redirect("ORDERS.IN", "QM1", alternate_user="amelie"), id="actions: PUTAUT(CTX)"),
]


@pytest.mark.parametrize(("rule", "expected"), INTENTS)
def test_an_action_gives_this_intent(rule: str, expected: Intent) -> None:
    assert expected == intent(rule, letter())


LADDER = """\
REASON(MQRC_Q_FULL) ACTION(RETRY) RETRY(2)
DESTQ(NOT.THIS) ACTION(DISCARD) RETRY(100)
DESTQ(ORDERS.*) ACTION(FWD) FWDQ(SECOND) RETRY(3)
"""


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        (0, "line 1"),
        (1, "line 1"),
        pytest.param(2, "line 3", id="seed: if all attempts fail, the next matching rule"),
        (4, "line 3"),
        pytest.param(5, None, id="seed: when each was attempted as often as it says, IGNORE is assumed"),
        (1_000, None),
    ],
)
def test_attempts_count_over_retry_and_over_rules(attempts: int, expected: str | None) -> None:
    chosen = choose(matchers(rules(LADDER)), letter(), attempts)

    assert expected == (chosen.matcher.name if chosen.matcher else None)


def test_ignore_is_assumed_where_no_rule_matches() -> None:
    assert Ignore() == intent("DESTQ(X) ACTION(DISCARD)", letter())


def test_an_ignore_rule_ends_the_search_however_often_it_was_met() -> None:
    assert Ignore() == intent("ACTION(IGNORE)\nACTION(DISCARD)", letter(), attempts=99)


def test_a_python_predicate_narrows_a_rule() -> None:
    [rule] = rules("ACTION(DISCARD)")
    small = matcher(rule, lambda dead: len(dead.data) < 200, "small ones")

    assert Discard() == choose([small], letter(body=b""), 0).intent
    assert Ignore() == choose([small], letter(body=bytes(100)), 0).intent


# -- the message that is put


def test_a_forwarded_message_keeps_every_byte() -> None:
    dead = letter()

    assert (DESCRIPTOR, dead.data) == redirected(dead, Redirect("A", keep_header=True))


def test_without_the_header_the_descriptor_has_the_fields_of_the_header() -> None:
    header = replace(HEADER, encoding=Encoding.NORMAL, ccsid=500, format="MQHRF2")

    expected = replace(DESCRIPTOR, format="MQHRF2", encoding=Encoding.NORMAL, ccsid=500)
    assert (expected, b"body") == without_header(letter(header=header))


def test_an_inherited_character_set_is_that_of_the_descriptor() -> None:
    assert 1208 == without_header(letter())[0].ccsid


@given(dead_letter_headers, encodings, field_ccsids, st.binary(max_size=40))
def test_only_the_header_is_removed_from_any_dead_letter(
    header: DeadLetterHeader, encoding: int, ccsid: int, body: bytes
) -> None:
    descriptor = replace(DESCRIPTOR, encoding=encoding, ccsid=ccsid)
    dead = dead_letter(descriptor, letter(descriptor, header, body).data)

    assert dead is not None
    described, data = without_header(dead)
    assert body == data
    same = replace(described, format=descriptor.format, encoding=descriptor.encoding, ccsid=descriptor.ccsid)
    assert descriptor == same
    assert (header.format, header.encoding) == (described.format, described.encoding)


NOT_DEAD = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"DLH \x01\0\0\0", id="shorter than an MQDLH"),
    pytest.param(b"hello" * 100, id="something else"),
    pytest.param(b"DLH \x02\0\0\0" + bytes(200), id="a version that is not 1"),
    pytest.param(b"DLH \0\0\0\x01" + bytes(200), id="the other byte order than the descriptor says"),
]


@pytest.mark.parametrize("data", NOT_DEAD)
def test_a_message_that_does_not_begin_with_an_mqdlh_is_no_dead_letter(data: bytes) -> None:
    assert dead_letter(DESCRIPTOR, data) is None


@given(st.binary(max_size=300), st.integers(-5, 70_000))
def test_any_bytes_are_a_dead_letter_or_not(data: bytes, ccsid: int) -> None:
    found = dead_letter(replace(DESCRIPTOR, ccsid=ccsid), data)

    assert found is None or found.data == data


# -- wildcards

letters = st.text("AB*? .[]\\", max_size=8)


@given(letters, st.text("AB .[]\\\n", max_size=8))
def test_wildcards_match_as_in_fnmatch(pattern: str, value: str) -> None:
    plain = pattern.rstrip(" ").replace("[", "[[]")  # fnmatch writes a literal bracket this way

    assert fnmatch.fnmatchcase(value.rstrip(" "), plain) == like(pattern)(value)


def test_many_asterisks_take_no_time() -> None:
    # A search that tries every way to share out the letters exceeds the time limit of the test.
    assert not like("A*" * 10_000 + "B")("A" * 20_000)


def test_a_python_predicate_that_raises_leaves_the_rule_unjudged_and_is_named() -> None:
    def small(dead: DeadLetter) -> bool:
        raise LookupError(len(dead.data))

    with pytest.raises(UnjudgedError, match="small ones raised LookupError: ") as caught:
        choose([matcher(rules("ACTION(DISCARD)")[0], small, "small ones")], letter(), 0)

    assert "small ones" == caught.value.rule


def test_a_predicate_is_not_asked_about_a_message_that_the_conditions_exclude() -> None:
    asked: list[DeadLetter] = []
    [rule] = rules("FORMAT(OTHER) PERSIST(MQPER_PERSISTENT) ACTION(DISCARD)")

    def note(dead: DeadLetter) -> bool:
        asked.append(dead)
        return True

    assert Ignore() == choose([matcher(rule, note)], letter(), 0).intent
    assert [] == asked


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("ACTION(DISCARD)", True),
        ("FORMAT(A) ACTION(DISCARD)\nACTION(RETRY)", True),
        ("FORMAT(A) ACTION(DISCARD)", False),
        ("FORMAT(A) ACTION(IGNORE)\nACTION(DISCARD)", False),
        ("ACTION(IGNORE)", False),
    ],
)
def test_a_table_takes_everything_if_a_rule_without_conditions_comes_before_any_ignore(table: str, *, expected: bool) -> None:
    assert expected is takes_everything(matchers(rules(table)))


def test_a_message_forwarded_without_its_header_is_the_message_before_it_was_dead_lettered() -> None:
    dead = letter()

    assert without_header(dead) == redirected(dead, Redirect("A", keep_header=False))


@pytest.mark.parametrize(
    ("field", "expected"),
    [(Field.FORMAT, HEADER.format), (Field.PERSIST, DESCRIPTOR.persistence), (Field.REASON, HEADER.reason)],
)
def test_a_field_is_the_one_that_a_pattern_keyword_compares(field: Field, expected: object) -> None:
    assert expected == field_of(field, letter())
