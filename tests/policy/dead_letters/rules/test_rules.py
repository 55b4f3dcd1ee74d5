"""The parser of rules tables: the documented examples and conventions, every error with its place, and any text.

Ids name the sentence: `conventions` is IBM q005690, `control` q005670, `patterns` q005680, `actions` q005590, and
`seed` "Processing the rules table". `from memory` marks a rule that was not read again, `ours` a rule without a
source.
"""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from mqflow.mqi.reason_codes import Reason
from mqflow.policy.dead_letters.rules import (
    Action,
    Condition,
    Control,
    Problem,
    PutAuthority,
    Rule,
    RulesError,
    RulesTable,
    parse,
    printed,
)
from mqflow.policy.dead_letters.rules.lexer import LINE_CHARS_PORTABLE
from mqflow.policy.dead_letters.rules.vocabulary import INTEGER_MAX, PATTERNS, Field, symbols_of


def read(text: str) -> RulesTable:
    table = parse(text)
    assert isinstance(table, RulesTable), [str(problem) for problem in table]
    return table


def rules(text: str) -> tuple[Rule, ...]:
    """Return the rules of a table, without their line numbers."""
    return tuple(replace(rule, line=0) for rule in read(text).rules)


def problems(text: str) -> tuple[Problem, ...]:
    found = parse(text)
    assert not isinstance(found, RulesTable)
    return found


def only_condition(text: str) -> Condition:
    [rule] = rules(f"{text} ACTION(IGNORE)")
    [condition] = rule.conditions
    return condition


# -- tables

SAMPLE = """\
* control data
INPUTQ(' ') INPUTQM(' ') RETRYINT(30) WAIT(YES)
* transient conditions: five tries, 30 s apart
REASON(MQRC_Q_FULL)       ACTION(RETRY) RETRY(5)
REASON(MQRC_PUT_INHIBITED) ACTION(RETRY) RETRY(5)
* requests of one partner go to that partner's own DLQ
MSGTYPE(MQMT_REQUEST) REPLYQM('PART.*') +
   ACTION(FWD) FWDQ(DEADQ) FWDQM(&REPLYQM)
* non-persistent is not worth keeping
PERSIST(MQPER_NOT_PERSISTENT) ACTION(DISCARD)
* catch-all: never leave anything on the DLQ
ACTION(FWD) FWDQ(REALLY.DEAD) HEADER(YES)
"""


def test_a_table_of_the_usual_shape_is_read() -> None:
    requests = (Condition(Field.MSGTYPE, 1), Condition(Field.REPLYQM, "PART.*"))
    expected = (
        Rule(conditions=(Condition(Field.REASON, 2053),), action=Action.RETRY, attempts_max=5, line=4),
        Rule(conditions=(Condition(Field.REASON, 2051),), action=Action.RETRY, attempts_max=5, line=5),
        Rule(conditions=requests, action=Action.FWD, forward_queue="DEADQ", forward_queue_manager="&REPLYQM", line=7),
        Rule(conditions=(Condition(Field.PERSIST, 0),), action=Action.DISCARD, line=10),
        Rule(action=Action.FWD, forward_queue="REALLY.DEAD", line=12),
    )

    assert RulesTable(expected, Control(retry_interval_s=30)) == read(SAMPLE)


CONTROLS = [
    pytest.param("", Control(), id="control: the entry is optional; RETRYINT 60, WAIT YES"),
    pytest.param("WAIT(YES)", Control(wait_s=None), id="control: WAIT(YES) waits for ever"),
    pytest.param("WAIT(NO)", Control(wait_s=0), id="control: WAIT(NO) does not wait"),
    pytest.param("WAIT(120)", Control(wait_s=120), id="control: WAIT(nnn) waits so many seconds"),
    pytest.param("RETRYINT(5)", Control(retry_interval_s=5), id="control: RETRYINT in seconds"),
    pytest.param("INPUTQ(A.DLQ)", Control(input_queue="A.DLQ"), id="control: INPUTQ names the queue"),
    pytest.param("INPUTQ(' ')", Control(), id="control: a blank INPUTQ is the dead-letter queue"),
    pytest.param("INPUTQ(' X')", Control(), id="amqsdlq: one that begins with a blank means the same"),
    pytest.param("inputqm(qm1)", Control(input_queue_manager="QM1"), id="conventions: case does not matter unless quoted"),
    pytest.param("INPUTQM('qm1')", Control(input_queue_manager="qm1"), id="conventions: in quotes it does"),
]


@pytest.mark.parametrize(("entry", "expected"), CONTROLS)
def test_control_data(entry: str, expected: Control) -> None:
    assert expected == read(f"{entry}\nACTION(RETRY)").control


RULES = [
    pytest.param("ACTION(RETRY)", Rule(action=Action.RETRY), id="seed: a rule can consist of an action only"),
    pytest.param("ACTION(DISCARD)", Rule(action=Action.DISCARD), id="actions: DISCARD"),
    pytest.param("ACTION(IGNORE)", Rule(action=Action.IGNORE), id="actions: IGNORE"),
    pytest.param("ACTION(RETRY) RETRY(3)", Rule(action=Action.RETRY, attempts_max=3), id="actions: RETRY(n) attempts"),
    pytest.param("ACTION(FWD) FWDQ(A.B) FWDQM(QM2)", Rule(action=Action.FWD, forward_queue="A.B", forward_queue_manager="QM2"),
        id="actions: FWD to a queue of a queue manager"),
    pytest.param("ACTION(FWD) FWDQ(A) FWDQM(' ')", Rule(action=Action.FWD, forward_queue="A"),
        id="actions: a blank FWDQM is local"),
    pytest.param("ACTION(FWD) FWDQ(&DESTQ) FWDQM(&DESTQM)",
        Rule(action=Action.FWD, forward_queue="&DESTQ", forward_queue_manager="&DESTQM"),
        id="actions: to where the MQDLH says"),
    pytest.param("ACTION(FWD) FWDQ(&REPLYQ) FWDQM(&REPLYQM)",
        Rule(action=Action.FWD, forward_queue="&REPLYQ", forward_queue_manager="&REPLYQM"), id="actions: to where replies go"),
    pytest.param("ACTION(FWD) FWDQ(A) HEADER(NO)", Rule(action=Action.FWD, forward_queue="A", keep_header=False),
        id="actions: HEADER(NO) takes the MQDLH off"),
    pytest.param("ACTION(RETRY) PUTAUT(CTX)", Rule(action=Action.RETRY, put_authority=PutAuthority.CTX),
        id="actions: PUTAUT(CTX)"),
    pytest.param("action ( retry ) , retry ( 2 )", Rule(action=Action.RETRY, attempts_max=2), id="conventions: blanks, commas"),
    pytest.param(",\nACTION(RETRY)\n , ,\n", Rule(action=Action.RETRY), id="ours: a line of commas alone is no rule"),
    pytest.param("RETRY(2),ACTION(RETRY)", Rule(action=Action.RETRY, attempts_max=2), id="conventions: in any order"),
    pytest.param("RETRY(2)ACTION(RETRY)", Rule(action=Action.RETRY, attempts_max=2), id="ours: brackets separate enough"),
    pytest.param("ACT+\n   ION(RETRY)", Rule(action=Action.RETRY), id="conventions: + within a keyword"),
    pytest.param("ACTION(RE-\nTRY)", Rule(action=Action.RETRY), id="conventions: - within a value"),
    pytest.param("ACTION(RETRY) +\n* no\n\n RETRY(2)", Rule(action=Action.RETRY, attempts_max=2), id="conventions: comments"),
    pytest.param("\ufeffACTION(RETRY)\r\n", Rule(action=Action.RETRY), id="a file that an editor on Windows saved"),
    pytest.param("DESTQ(*) FORMAT('**') REASON(*) ACTION(RETRY)", Rule(action=Action.RETRY),
        id="patterns: an asterisk is the default"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), RULES)
def test_rules(text: str, expected: Rule) -> None:
    assert (expected,) == rules(text)


CONDITIONS = [
    pytest.param("APPLIDAT('ABC ')", Condition(Field.APPLIDAT, "ABC"), id="conventions: trailing blanks do not count"),
    pytest.param("APPLNAME(' A  B')", Condition(Field.APPLNAME, " A  B"), id="conventions: leading and inner ones do"),
    pytest.param("FORMAT(' ')", Condition(Field.FORMAT, ""), id="conventions: FORMAT(' ') is one blank"),
    pytest.param("USERID('it''s')", Condition(Field.USERID, "it's"), id="from memory: two quotes are one"),
    pytest.param("DESTQ('ABC+\n  D')", Condition(Field.DESTQ, "ABCD"), id="conventions: 'ABC+ goes on at the first non-blank"),
    pytest.param("DESTQ('ABC-\n  D')", Condition(Field.DESTQ, "ABC  D"), id="conventions: 'ABC- goes on in column 1"),
    pytest.param("FORMAT('ABCDEFGH')", Condition(Field.FORMAT, "ABCDEFGH"), id="conventions: as long as the field"),
    pytest.param("FORMAT('A*C*E*G*I')", Condition(Field.FORMAT, "A*C*E*G*I"), id="conventions: 5, asterisks not counted"),
    pytest.param(
        "FORMAT('*A*C*E*G*I*K*M*O*')", Condition(Field.FORMAT, "*A*C*E*G*I*K*M*O*"), id="conventions: 8, not counted either"
    ),
    pytest.param("DESTQ(abc*)", Condition(Field.DESTQ, "ABC*"), id="from memory: unquoted lower case is folded"),
    pytest.param("REASON(2053)", Condition(Field.REASON, 2053), id="patterns: a number"),
    pytest.param("REASON('2053')", Condition(Field.REASON, 2053), id="ours: quotes are not significant"),
    pytest.param("REASON(MQRC_Q_FULL)", Condition(Field.REASON, 2053), id="patterns: a symbolic name"),
    pytest.param("REASON(MQFB_TM_ERROR)", Condition(Field.REASON, 266), id="amqsdlq: a feedback can be the reason too"),
    pytest.param("REASON(MQRC_PAGESET_FULL)", Condition(Field.REASON, 2192), id="patterns: the other name of a reason"),
    pytest.param("REASON(MQRC_APPL_FIRST)", Condition(Field.REASON, 900), id="patterns: a reason of applications' own"),
    pytest.param("FEEDBACK(MQFB_COA)", Condition(Field.FEEDBACK, 259), id="patterns: FEEDBACK"),
    pytest.param("APPLTYPE(MQAT_UNKNOWN)", Condition(Field.APPLTYPE, -1), id="patterns: APPLTYPE, by name below 0 too"),
    pytest.param("APPLTYPE(MQAT_DEFAULT)", Condition(Field.APPLTYPE, 6), id="patterns: APPLTYPE, the platform's own"),
    pytest.param("MSGTYPE(mqmt_request)", Condition(Field.MSGTYPE, 1), id="conventions: case of a symbol"),
    pytest.param("PERSIST(MQPER_PERSISTENT)", Condition(Field.PERSIST, 1), id="patterns: PERSIST"),
    pytest.param(f"REASON('{'0' * 16}2053')", Condition(Field.REASON, 2053), id="ours: a number has at most 20 digits"),
    pytest.param(
        f"MSGTYPE({INTEGER_MAX})", Condition(Field.MSGTYPE, INTEGER_MAX), id="from memory: up to 999 999 999, meant or not"
    ),
]


@pytest.mark.parametrize(("text", "expected"), CONDITIONS)
def test_conditions(text: str, expected: Condition) -> None:
    assert expected == only_condition(text)


# -- errors: the place, the accepted values, IBM's number if it is known

ERRORS = [
    pytest.param("", ["1:1 AMQ8750 at least one"], id="conventions: there is at least one rule"),
    pytest.param("* only\n* comments", ["2:1 AMQ8750 at least one"], id="conventions: comments are no rule"),
    pytest.param(",", ["1:1 AMQ8750 at least one"], id="ours: nor are commas"),
    pytest.param("WAIT(NO)", ["1:1 at least one"], id="conventions: control data is no rule"),
    pytest.param("FORMAT('') ACTION(RETRY)", ["1:8 at least one character"], id="conventions: FORMAT('') is invalid"),
    pytest.param("FORMAT( ) ACTION(RETRY)", ["1:7 at least one character"], id="conventions: FORMAT( ) is invalid"),
    pytest.param("FORMAT() ACTION(RETRY)", ["1:7 at least one character"], id="conventions: FORMAT() is invalid"),
    pytest.param("FORMAT ACTION(RETRY)", ["1:1 FORMAT(...)"], id="conventions: FORMAT is invalid"),
    pytest.param("FORMAT('ABCDEFGHI') ACTION(RETRY)", ["1:8 AMQ8752 8 characters"], id="conventions: longer than the field"),
    pytest.param("FORMAT('A?C?E?G?I') ACTION(RETRY)", ["1:8 AMQ8752 8 characters"], id="conventions: ? counts"),
    pytest.param("DESTQ(a b) ACTION(RETRY)", ["1:9 quotes"], id="from memory: blanks stand in quotes"),
    pytest.param("DESTQ(a$b) ACTION(RETRY)", ["1:7 must be in quotes"], id="from memory: specials stand in quotes"),
    pytest.param("REASON(1) REASON(2) ACTION(RETRY)", ["1:11 AMQ8753 once"], id="conventions: each keyword once"),
    pytest.param("REASON(2*) ACTION(RETRY)", ["1:8 AMQ8747 MQRC_*"], id="from memory: an asterisk is a whole number or none"),
    pytest.param("REASON(?) ACTION(RETRY)", ["1:8 AMQ8747 0 to 999999999"], id="from memory: no question marks in numbers"),
    pytest.param("REASON(1000000000) ACTION(RETRY)", ["1:8 AMQ8757 999999999"], id="from memory: the range of numbers"),
    pytest.param(f"REASON('{'0' * 17}2053') ACTION(RETRY)", ["1:8 AMQ8757 999999999"], id="ours: 21 digits are too many"),
    pytest.param("REASON(-1) ACTION(RETRY)", ["1:8 AMQ8747 0 to 999999999"], id="from memory: no negative numbers"),
    pytest.param("ACTION(RETRY) RETRY(-1)", ["1:21 AMQ8747 1 to 999999999"], id="ours: quotes do not help a number"),
    pytest.param("ACTION(RE-TRY)", ["1:8 AMQ8747 DISCARD, IGNORE, RETRY, FWD"], id="ours: nor a word"),
    pytest.param("ACTION(FWD) FWDQ(A-B)", ["1:18 AMQ8747 a name"], id="ours: nor a name"),
    pytest.param("REASON('-1') ACTION(RETRY)", ["1:8 AMQ8747 0 to 999999999"], id="from memory: not in quotes either"),
    pytest.param("REASON(\u0661) ACTION(RETRY)", ["1:8 AMQ8747 0 to 999999999"], id="ours: digits are 0 to 9"),
    pytest.param("REASON(MQRC_Q_FUL) ACTION(RETRY)", ["1:8 AMQ8747 MQRC_Q_FULL"], id="patterns: an unknown symbol"),
    pytest.param("MSGTYPE(MQRC_Q_FULL) ACTION(RETRY)", ["1:9 AMQ8747 MQMT_*"], id="patterns: a symbol of something else"),
    pytest.param("REASON(1)", ["1:1 ACTION(DISCARD), ACTION(IGNORE)"], id="actions: ACTION is required"),
    pytest.param("ACTION(FORWARD)", ["1:8 AMQ8747 DISCARD, IGNORE, RETRY, FWD"], id="actions: four values"),
    pytest.param("ACTION(R*)", ["1:8 AMQ8747 DISCARD, IGNORE, RETRY, FWD"], id="from memory: no wildcards in ACTION"),
    pytest.param("ACTION(FWD)", ["1:1 AMQ8759 FWDQ"], id="actions: FWD requires FWDQ"),
    pytest.param("FWDQ(A) ACTION(RETRY)", ["1:1 AMQ8759 ACTION(FWD) only"], id="actions: FWDQ goes with FWD only"),
    pytest.param("ACTION(DISCARD) FWDQM(A) HEADER(NO)", ["1:17 AMQ8759 ACTION(FWD) only", "1:26 AMQ8759 ACTION(FWD) only"],
        id="actions: so do FWDQM and HEADER"),
    pytest.param("ACTION(FWD) FWDQ(' ')", ["1:18 AMQ8747 &DESTQ, &REPLYQ"], id="actions: FWDQ(' ') is invalid"),
    pytest.param("ACTION(FWD) FWDQ(A*)", ["1:18 AMQ8747 &DESTQ, &REPLYQ"], id="from memory: no wildcards in FWDQ"),
    pytest.param("ACTION(FWD) FWDQ(&X)", ["1:18 AMQ8747 &DESTQ, &REPLYQ"], id="actions: references are these two"),
    pytest.param("ACTION(FWD) FWDQ(A) FWDQM(&DESTQ)", ["1:27 AMQ8747 &DESTQM, &REPLYQM"], id="actions: FWDQM has its own"),
    pytest.param(f"ACTION(FWD) FWDQ({'A' * 49})", ["1:18 AMQ8752 48 characters"], id="names are 48 characters at most"),
    pytest.param(f"ACTION(FWD) FWDQ({'A' * 47}*)", ["1:18 AMQ8747 &DESTQ, &REPLYQ"],
        id="from memory: a name of 48, with an asterisk"),
    pytest.param("ACTION(RETRY) RETRY(0)", ["1:21 AMQ8757 1 to 999999999"], id="from memory: RETRY from 1"),
    pytest.param("ACTION(RETRY) RETRY(MANY)", ["1:21 AMQ8747 1 to 999999999"], id="actions: RETRY is a number"),
    pytest.param("ACTION(RETRY) PUTAUT(ME)", ["1:22 AMQ8747 DEF, CTX"], id="actions: PUTAUT DEF or CTX"),
    pytest.param("WAIT(SOME)\nACTION(RETRY)", ["1:6 AMQ8747 YES, NO, a whole number from 0 to"], id="control: WAIT"),
    pytest.param("RETRYINT(0)\nACTION(RETRY)", ["1:10 AMQ8757 1 to 999999999"], id="ours: no time between retries would spin"),
    pytest.param("ACTION(RETRY)\nWAIT(NO)", ["2:1 first entry"], id="control: it must be the first entry"),
    pytest.param("ACTION(RETRY)\nWAIT(SOME)", ["2:1 first entry", "2:6 AMQ8747 YES, NO"],
        id="ours: and its values are checked"),
    pytest.param("WAIT ACTION(RETRY)", ["1:1 same entry", "1:1 WAIT(...)"],
        id="ours: a keyword without a bracket makes no control data"),
    pytest.param("FORMAT", ["1:1 FORMAT(...)"], id="ours: the value could be an ACTION, so none is missed"),
    pytest.param("FORMAT ACTION(RETRY) FORMAT(A)", ["1:1 FORMAT(...)", "1:22 AMQ8753 once"],
        id="ours: it counts without its value too"),
    pytest.param("ACTION(RETRY)\n * no comment", ["2:2 A keyword with a value"],
        id="conventions: a comment begins in column 1"),
    pytest.param("WAIT(NO) ACTION(RETRY)", ["1:10 same entry", "1:1 at least one"], id="ours: control data is its own entry"),
    pytest.param("ACTION(RETRY) WAIT(NO)", ["1:15 same entry"], id="ours: and so is a rule"),
    pytest.param("ACTON(RETRY)", ["1:1 Did you mean ACTION?"], id="ours: an unknown keyword, with the nearest known"),
    pytest.param("ACTıON(RETRY)", ["1:1 Did you mean ACTION?"], id="ours: a keyword has ASCII letters only"),  # noqa: RUF001
    pytest.param("'ACTION'(RETRY)", ["1:1 A keyword with a value"], id="ours: a keyword stands in no quotes"),
    pytest.param("ACTION(RETRY) )", ["1:15 A keyword with a value"], id="ours: a bracket too many"),
    pytest.param("DESTQ((A)) ACTION(RETRY)", ["1:6 never closed"], id="ours: brackets in brackets"),
    pytest.param("DESTQ(A ACTION(RETRY)", ["1:6 never closed"], id="ours: an open bracket, and then the next keyword"),
    pytest.param("DESTQ(A ACTION(X)", ["1:6 never closed", "1:16 AMQ8747"], id="ours: whose value is read"),
    pytest.param("ACTION(RETRY)(X)", ["1:14 A keyword with a value"], id="ours: a bracket without a keyword"),
    pytest.param("ACTION(X) ) RETRY(A)", ["1:8 AMQ8747", "1:11 A keyword", "1:19 AMQ8747"],
        id="ours: after a mistake, the next keyword"),
    pytest.param("ACTION(X) ) RETRY RETRY(A)", ["1:8 AMQ8747", "1:11 A keyword", "1:25 AMQ8747"],
        id="ours: which has a bracket"),
    pytest.param("ACTION(RETRY) ) 'A", ["1:15 A keyword", "1:17 never closed"], id="ours: after a mistake, an open quote"),
    pytest.param("ACTION(RETRY) DESTQ('A +", ["1:21 never closed"], id="ours: an open quote before a continuation"),
    pytest.param("ACTION(RETRY", ["1:7 never closed"], id="ours: an open bracket at the end"),
    pytest.param("DESTQ('A ACTION(RETRY)", ["1:7 never closed"], id="ours: an open quote"),
    pytest.param("ACTION(RETRY) +\n* end", ["1:15 after '+', which continues"], id="ours: nothing follows a continuation"),
    pytest.param("ACTION(RETRY)\nACTION(DISCARD) +\n   RETRY(A+\nB)", ["3:10 AMQ8747 RETRY"], id="places on continued lines"),
    pytest.param("ACTION(X)\nREASON(A)\nDESTQ('A' B) ACTION(FWD)\n",
        ["1:8 AMQ8747", "2:1 The rule has no ACTION", "2:8 AMQ8747", "3:1 AMQ8759 FWDQ", "3:11 one value"],
        id="seed: every error is reported, in order"),
]  # fmt: skip


def place(wanted: str) -> tuple[int, ...]:
    return tuple(int(number) for number in wanted.split(maxsplit=1)[0].split(":"))


@pytest.mark.parametrize(("text", "expected"), ERRORS)
def test_errors_name_the_place_and_the_accepted_values(text: str, expected: list[str]) -> None:
    found = problems(text)

    for problem, wanted in zip(found, sorted(expected, key=place), strict=True):
        match = re.fullmatch(r"(\d+):(\d+)(?: AMQ(\d+))?(.*)", wanted)
        assert match is not None
        assert (int(match[1]), int(match[2]), int(match[3] or 0)) == (problem.line, problem.column, problem.number)
        assert match[4].strip() in problem.text


def test_a_problem_shows_its_line() -> None:
    [problem] = problems("* one\n  ACTION(X)")

    assert "  ACTION(X)" == problem.source
    assert "line 2, column 10: AMQ8747: ACTION does not take 'X'. It takes DISCARD, IGNORE, RETRY, FWD." == str(problem)


RULE_KEYWORDS = ", ".join([*(field.value for field in PATTERNS), "ACTION", "FWDQ", "FWDQM", "HEADER", "PUTAUT", "RETRY"])
WHOLE = [
    pytest.param(
        "ACTION(RETRY) WAIT(NO)",
        f"line 1, column 15: WAIT cannot be in the same entry as a rule. A rule has {RULE_KEYWORDS}.",
        id="control data in a rule",
    ),
    pytest.param(
        "WAIT(NO) RETRY(1)\nACTION(RETRY)",
        "line 1, column 10: RETRY cannot be in the same entry as control data. "
        "Control data has INPUTQ, INPUTQM, RETRYINT, WAIT.",
        id="a keyword of rules in control data",
    ),
    pytest.param(
        "ACTION(RETRY) FORMATT(A)",
        f"line 1, column 15: There is no keyword 'FORMATT'. Did you mean FORMAT? The keywords are {RULE_KEYWORDS}.",
        id="no such keyword",
    ),
    pytest.param(
        "ACTION(RETRY) FORMATT",
        "line 1, column 15: A keyword with a value in brackets is expected here, not 'FORMATT'. Did you mean FORMAT?",
        id="a misspelt keyword without a bracket",
    ),
    pytest.param(
        "ACTION(RETRY) 'FORMATT'",
        "line 1, column 15: A keyword with a value in brackets is expected here, not 'FORMATT'.",
        id="a quoted text is no misspelt keyword",
    ),
    pytest.param(
        f"ACTION({'X' * 60})",
        f"line 1, column 8: AMQ8747: ACTION does not take '{'X' * 60}'. It takes DISCARD, IGNORE, RETRY, FWD.",
        id="a value of 60 characters is shown whole",
    ),
    pytest.param(
        f"ACTION({'X' * 61})",
        f"line 1, column 8: AMQ8747: ACTION does not take '{'X' * 60}...'. It takes DISCARD, IGNORE, RETRY, FWD.",
        id="a longer value is cut",
    ),
]


@pytest.mark.parametrize(("text", "expected"), WHOLE)
def test_a_problem_is_a_whole_sentence(text: str, expected: str) -> None:
    assert [expected] == [str(problem) for problem in problems(text)]


def test_the_first_20_mistakes_have_a_hint() -> None:
    found = problems("ACTON(RETRY)\n" * 21)

    assert [True] * 20 + [False] == [
        "Did you mean ACTION?" in problem.text for problem in found if "no keyword" in problem.text
    ]


# -- printed

PRINTED = [
    pytest.param("ACTION(RETRY) RETRY(1)", "ACTION(RETRY)\n", id="a default is not written"),
    pytest.param("RETRY(2) ACTION(RETRY)", "ACTION(RETRY) RETRY(2)\n", id="in the order of the documentation"),
    pytest.param("DESTQ('it''s') ACTION(RETRY)", "DESTQ('it''s') ACTION(RETRY)\n", id="a quote is doubled"),
    pytest.param("DESTQ('AB') ACTION(RETRY)", "DESTQ(AB) ACTION(RETRY)\n", id="quotes only if the value needs them"),
    pytest.param(f"APPLNAME({'*' * 46}) DESTQ({'*' * 9}A) ACTION(RETRY)", f"DESTQ({'*' * 9}A) ACTION(RETRY)\n",
        id="asterisks alone are no condition"),
    pytest.param(f"DESTQ({'*' * 48}A) ACTION(RETRY) RETRY(5)", f"DESTQ({'*' * 48}A) ACTION(RETRY) +\n  RETRY(5)\n",
        id="a line of 72 characters with its mark is full"),
    pytest.param(f"DESTQ({'*' * 49}A) ACTION(RETRY) RETRY(5)", f"DESTQ({'*' * 49}A) +\n  ACTION(RETRY) RETRY(5)\n",
        id="one more character begins a line"),
    pytest.param(f"DESTQ({'*' * 60}A) DESTQM({'*' * 60}A) REASON(2053) ACTION(FWD) FWDQ(A)",
        f"DESTQ({'*' * 60}A) +\n  DESTQM({'*' * 60}A) +\n  REASON(MQRC_Q_FULL) ACTION(FWD) FWDQ(A)\n", id="three lines"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), PRINTED)
def test_a_rule_is_printed(text: str, expected: str) -> None:
    assert expected == printed(read(text))


# -- for all

PIECES = [
    *(f"{word}(" for word in ("ACTION", "FWDQ", "FWDQM", "INPUTQ", "RETRY", "WAIT", "REASON", "DESTQ", "action")),
    *("RETRY", "FWD", "MQRC_Q_FULL", "'", "''", "(", ")", ",", " ", "\n", "\r\n", "+\n", "-\n", "*", "\n*", "&DESTQ", "2053",
      "A.B"),
]  # fmt: skip
any_text = st.text() | st.lists(st.sampled_from(PIECES) | st.text(max_size=2), max_size=40).map("".join)


@given(any_text)
def test_any_text_gives_a_table_or_errors_in_it(text: str) -> None:
    found = parse(text)

    if isinstance(found, RulesTable):
        assert found.rules
        return
    assert found
    lines = text.removeprefix("\ufeff").split("\n")
    for problem in found:
        line = lines[problem.line - 1]
        assert line.removesuffix("\r") == problem.source
        assert 1 <= problem.column <= len(line) + 1
        assert problem.text.endswith((".", "?", "'it''s'."))


def texts(chars_max: int) -> st.SearchStrategy[str]:
    """Return values for a text field: a line end cannot be written, and asterisks alone are not a condition."""
    letters = st.characters(exclude_categories=["Cs"], exclude_characters="\r\n")
    return (
        st.text(letters, max_size=chars_max).map(lambda text: text.rstrip(" ")).filter(lambda text: not text or text.strip("*"))
    )


def conditions(field: Field) -> st.SearchStrategy[Condition]:
    pattern = PATTERNS[field]
    if pattern.chars_max:
        return texts(pattern.chars_max).map(lambda text: Condition(field, text))
    named = st.sampled_from(sorted({number for prefix in pattern.prefixes for number in symbols_of(prefix).values()}))
    return (st.integers(0, INTEGER_MAX) | named).map(lambda number: Condition(field, number))


names = st.text("ABCXYZabcxyz019./_%", min_size=1, max_size=48)


@st.composite
def any_rule(draw: st.DrawFn) -> Rule:
    fields = draw(st.sets(st.sampled_from(Field)))
    rule = Rule(
        conditions=tuple(draw(conditions(field)) for field in Field if field in fields),
        action=draw(st.sampled_from(Action)),
        put_authority=draw(st.sampled_from(PutAuthority)),
        attempts_max=draw(st.integers(1, INTEGER_MAX)),
    )
    if rule.action is not Action.FWD:
        return rule
    return replace(
        rule,
        forward_queue=draw(names | st.sampled_from(["&DESTQ", "&REPLYQ"])),
        forward_queue_manager=draw(names | st.sampled_from(["", "&DESTQM", "&REPLYQM"])),
        keep_header=draw(st.booleans()),
    )


controls = st.builds(
    Control,
    input_queue=names | st.just(""),
    input_queue_manager=names | st.just(""),
    retry_interval_s=st.integers(1, INTEGER_MAX),
    wait_s=st.none() | st.integers(0, INTEGER_MAX),
)
tables = st.builds(RulesTable, st.lists(any_rule(), min_size=1, max_size=4).map(tuple), controls | st.just(Control()))


@given(tables)
def test_a_printed_table_is_read_as_the_same_table(table: RulesTable) -> None:
    found = read(printed(table))

    assert table == replace(found, rules=tuple(replace(rule, line=0) for rule in found.rules))
    assert printed(table) == printed(found)


def test_a_printed_table_keeps_to_portable_lines() -> None:
    assert all(len(line) <= LINE_CHARS_PORTABLE for line in printed(read(SAMPLE)).splitlines())


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "piece",
    ["A(", "'", "''", "ACTION(RETRY)\n", "REASON(MQRC_Q_FUL)\n", "+\n", "A+\n", "A-\n ", "(", ")", "X ", "DESTQ(", "*\n"],
)
def test_time_is_linear_in_the_text(piece: str) -> None:
    # With quadratic time one of these exceeds the time limit of the test.
    assert parse(piece * (300_000 // len(piece)))


def test_every_reason_code_has_its_name() -> None:
    assert {reason.mq_name: reason for reason in Reason}.items() <= symbols_of("MQRC_").items()


@pytest.mark.parametrize(("text", "said"), [("ACTION(x)", "There is 1 error"), ("ACTION(x)\nACTION(y)", "There are 2 errors")])
def test_an_error_counts_the_mistakes_and_says_that_no_message_was_touched(text: str, said: str) -> None:
    with pytest.raises(RulesError) as caught:
        raise RulesError(problems(text))

    assert f"{said} in the rules table, and no message was touched." == str(caught.value).splitlines()[0]
    assert [str(problem) for problem in caught.value.problems] == str(caught.value).splitlines()[1:]
