"""The parser turns the words of a script into commands, and answers each mistake with its place."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mqflow.embedded.mqsc import Command, SyntaxProblem, parse
from mqflow.embedded.mqsc.commands import (
    Action,
    AlterCommand,
    AlterQueueManagerCommand,
    ClearCommand,
    DefineCommand,
    DeleteCommand,
    DisplayCommand,
    DisplayConnections,
    DisplayStatus,
    DisplayStatusOf,
    EndCommand,
    Operator,
    OrderByName,
    Ping,
    RefreshSecurity,
    RemoveChannelRules,
    Selection,
    SetChannelRule,
    StopChannel,
    Unsupported,
    Where,
)
from mqflow.embedded.mqsc.lexer import LINE_CHARS_MAX
from mqflow.embedded.mqsc.vocabulary import VERBS
from mqflow.embedded.rules.channel_authentication import ChannelRule, RuleType, UserSource
from mqflow.mqi.options import QueueType

LOCAL, ALIAS, MODEL = QueueType.LOCAL, QueueType.ALIAS, QueueType.MODEL
EVERYTHING = Selection(everything=True)
NAMES_ONLY = Selection(everything=False)


def only(script: str) -> Command | SyntaxProblem:
    [command] = parse(script)
    return command


ACTIONS: list[tuple[str, Action]] = [
    ("DEFINE QLOCAL(ORDERS.IN)", DefineCommand("QLOCAL", "ORDERS.IN", {})),
    ("define qlocal(orders.in)", DefineCommand("QLOCAL", "ORDERS.IN", {})),
    ("DEF QL('orders.in')", DefineCommand("QLOCAL", "orders.in", {})),
    ("DEF QL(A) BOTHRESH(3), BOQNAME(B)", DefineCommand("QLOCAL", "A", {"backout_threshold": 3, "backout_requeue_queue": "B"})),
    ("DEF QL(A) PUT(DISABLED) GET(enabled)", DefineCommand("QLOCAL", "A", {"put_inhibited": True, "get_inhibited": False})),
    ("DEF QL(A) DEFPSIST(YES) DEFSOPT(EXCL)",
     DefineCommand("QLOCAL", "A", {"default_persistence": 1, "default_input_open_option": 4})),
    ("DEF QL(A) NOSHARE HARDENBO", DefineCommand("QLOCAL", "A", {"shareable": False, "harden_get_backout": True})),
    ("DEF QL(A) CAPEXPRY(600)", DefineCommand("QLOCAL", "A", {"cap_expiry_tenths": 600})),
    ("DEF QL(A) CAPEXPRY(NOLIMIT)", DefineCommand("QLOCAL", "A", {"cap_expiry_tenths": -1})),
    ("DEF QL(A) TRIGGER TRIGTYPE(DEPTH) PROCESS(P)",
     DefineCommand("QLOCAL", "A", {"trigger": True, "trigger_type": 3, "process": "P"})),
    ("DEF QL(A) LIKE(B) REPLACE", DefineCommand("QLOCAL", "A", {}, like="B", replace=True)),
    ("DEF QL(A) NOREPLACE", DefineCommand("QLOCAL", "A", {})),
    ("DEF QA(A) TARGET(B)", DefineCommand("QALIAS", "A", {"target": "B"})),
    ("DEF QA(A) TARGQ('b')", DefineCommand("QALIAS", "A", {"target": "b"})),
    ("DEF QM(A) DEFTYPE(PERMDYN)", DefineCommand("QMODEL", "A", {"definition_type": 2})),
    ("ALT QL(A) MAXDEPTH(10)", AlterCommand("QLOCAL", "A", {"max_depth": 10})),
    ("ALTER QA(A) TARGET(B) FORCE", AlterCommand("QALIAS", "A", {"target": "B"}, force=True)),
    ("ALTER QMODEL(A) NOFORCE", AlterCommand("QMODEL", "A", {})),
    ("ALTER QMGR DEADQ(DLQ) MAXHANDS(10)", AlterQueueManagerCommand({"dead_letter_queue": "DLQ", "max_handles": 10})),
    ("ALTER QMGR DEADQ('')", AlterQueueManagerCommand({"dead_letter_queue": ""})),
    ("DELETE QLOCAL(A)", DeleteCommand("QLOCAL", "A")),
    ("DELETE QL(A) PURGE", DeleteCommand("QLOCAL", "A", purge=True)),
    ("DELETE QL(A) NOPURGE IGNSTATE(YES)", DeleteCommand("QLOCAL", "A", ignore_state=True)),
    ("CLEAR QL(A)", ClearCommand("A")),
    ("DISPLAY QUEUE(*)", DisplayCommand("QUEUE", "*", 0, NAMES_ONLY)),
    ("DIS Q(A)", DisplayCommand("QUEUE", "A", 0, EVERYTHING)),
    ("DIS Q(A*) ALL", DisplayCommand("QUEUE", "A*", 0, EVERYTHING)),
    ("DIS QL(A*) CURDEPTH",
     DisplayCommand("QLOCAL", "A*", LOCAL, Selection(everything=False, keywords=frozenset({"CURDEPTH"})))),
    ("DIS QA(A)", DisplayCommand("QALIAS", "A", ALIAS, EVERYTHING)),
    ("DIS QM(A)", DisplayCommand("QMODEL", "A", MODEL, EVERYTHING)),
    ("DIS Q(*) TYPE(QALIAS)", DisplayCommand("QUEUE", "*", ALIAS, NAMES_ONLY)),
    ("DIS Q(A) CURDEPTH NOSHARE",
     DisplayCommand("QUEUE", "A", 0, Selection(everything=False, keywords=frozenset({"CURDEPTH", "SHARE"})))),
    ("DIS QMGR", DisplayStatusOf("QMGR", "", EVERYTHING)),
    ("DIS QMGR DEADQ", DisplayStatusOf("QMGR", "", Selection(everything=False, keywords=frozenset({"DEADQ"})))),
    ("DIS QS(*)", DisplayStatus("*", handles=False, selection=NAMES_ONLY)),
    ("DIS QSTATUS(A) TYPE(HANDLE)", DisplayStatus("A", handles=True, selection=EVERYTHING)),
    ("DIS QS(A) UNCOM",
     DisplayStatus("A", handles=False, selection=Selection(everything=False, keywords=frozenset({"UNCOM"})))),
    ("PING QMGR", Ping()),
    ("END", EndCommand()),
    ("quit", EndCommand()),
    ("exit", EndCommand()),
    ("DEFINE CHANNEL(A) CHLTYPE(SVRCONN)", DefineCommand("CHANNEL", "A", {}, 7)),
    ("DEF CHL(A) CHLTYPE(SDR) CONNAME('h(1)')", DefineCommand("CHANNEL", "A", {"connection_name": "h(1)"}, 1)),
    ("ALTER CHL(A) MAXINST(5)", AlterCommand("CHANNEL", "A", {"instances_max": 5})),
    ("DELETE CHL(A) CHLTABLE(CLNTTAB)", DeleteCommand("CHANNEL", "A", client=True)),
    ("DELETE CHL(A)", DeleteCommand("CHANNEL", "A")),
    ("DEF NL(A) NAMES(B, C)", DefineCommand("NAMELIST", "A", {"names": ("B", "C")})),
    ("DEF NL(A) NAMES(' ') REPLACE", DefineCommand("NAMELIST", "A", {"names": ()}, replace=True)),
    ("DIS CHL(*) TYPE(RCVR)", DisplayCommand("CHANNEL", "*", 3, Selection(everything=False))),
    ("DIS CONN(*) TYPE(HANDLE)", DisplayConnections("*", handles=True, selection=Selection(everything=False))),
    ("DIS CHS(A)", DisplayStatusOf("CHSTATUS", "A", Selection(everything=True))),
    ("DIS CHLAUTH(*) TYPE(USERMAP)",
     DisplayStatusOf("CHLAUTH", "*", Selection(everything=False, type=Where("TYPE", Operator.EQ, 5)))),
    ("DEFINE COMMINFO(A) COMMEV(B)", Unsupported("DEFINE COMMINFO")),
    ("SET CHLAUTH('*') TYPE(BLOCKUSER) USERLIST('*MQADMIN', fred)",
     SetChannelRule(ChannelRule(profile="*", type=RuleType.BLOCKUSER, blocked=("*MQADMIN", "FRED")))),
    ("SET CHLAUTH(A) TYPE(USERMAP) CLNTUSER('x') ADDRESS('10.*') USERSRC(NOACCESS) WARN(YES) ACTION(REPLACE)",
     SetChannelRule(ChannelRule(profile="A", type=RuleType.USERMAP, client_user="x", address="10.*", source=UserSource.NOACCESS,
                     warn=True), replace=True)),
    ("SET CHLAUTH(A) TYPE(ADDRESSMAP) ADDRESS('*') ACTION(REMOVE)",
     SetChannelRule(ChannelRule(profile="A", type=RuleType.ADDRESSMAP, address="*"), removes=True)),
    ("SET CHLAUTH(A) TYPE(USERMAP) ACTION(REMOVEALL)", RemoveChannelRules("A", RuleType.USERMAP)),
    ("SET CHLAUTH(A) TYPE(SSLPEERMAP) SSLPEER('CN=X')", Unsupported("SET CHLAUTH TYPE(SSLPEERMAP)")),
    ("START CHANNEL(A)", OrderByName("START CHANNEL", "A")),
    ("STOP CHL(A) MODE(FORCE)", StopChannel("A")),
    ("STOP CHL(A) STATUS(INACTIVE)", StopChannel("A", stays_stopped=False)),
    ("STOP CHL(A) CONNAME('10.0.0.1')", StopChannel("A", "10.0.0.1", stays_stopped=False)),
    ("STA LSTR(A)", OrderByName("START LISTENER", "A")),
    ("STOP LISTENER(A)", OrderByName("STOP LISTENER", "A")),
    ("REFRESH SECURITY TYPE(CONNAUTH)", RefreshSecurity("CONNAUTH")),
]  # fmt: skip


@pytest.mark.parametrize(("script", "expected"), ACTIONS, ids=[script for script, _ in ACTIONS])
def test_a_command_means(script: str, expected: Action) -> None:
    command = only(script)

    assert isinstance(command, Command), command
    assert expected == command.action


CONDITIONS = [
    ("CURDEPTH GT 0", Where("CURDEPTH", Operator.GT, 0)),
    ("curdepth le 10", Where("CURDEPTH", Operator.LE, 10)),
    ("BOQNAME EQ ' '", Where("BOQNAME", Operator.EQ, "")),
    ("BOQNAME LK 'ORDERS*'", Where("BOQNAME", Operator.LK, "ORDERS*")),
    ("DESCR NL x*", Where("DESCR", Operator.NL, "X*")),
    ("USAGE NE XMITQ", Where("USAGE", Operator.NE, 1)),
    ("SHARE EQ NO", Where("SHARE", Operator.EQ, False)),
    ("CAPEXPRY GE 600", Where("CAPEXPRY", Operator.GE, 600)),
    ("TYPE EQ QALIAS", Where("TYPE", Operator.EQ, 3)),
]


@pytest.mark.parametrize(("condition", "expected"), CONDITIONS, ids=[condition for condition, _ in CONDITIONS])
def test_a_filter_means(condition: str, expected: Where) -> None:
    command = only(f"DISPLAY QUEUE(*) WHERE({condition})")

    assert isinstance(command, Command), command
    assert DisplayCommand("QUEUE", "*", 0, Selection(everything=False, where=expected)) == command.action


# The column, and words that the answer must have.
PROBLEMS = [
    ("DEFINE QLOCAL(A) BOTHRESH(-1)", 27, "BOTHRESH takes a number from 0 to 999999999"),
    ("DEFINE QLOCAL(A) BOTHRESH(three)", 27, "BOTHRESH(THREE) is not valid"),
    ("DEFINE QLOCAL(A) BOTHRESH(99999999999999999999)", 27, "not valid"),
    ("DEFINE QLOCAL(A) BOTHRESH(٣)", 27, "not valid"),
    ("DEFINE QLOCAL(A) DEFPRTY(10)", 26, "DEFPRTY takes a number from 0 to 9"),
    ("DEFINE QLOCAL(A) PUT(MAYBE)", 22, "PUT takes ENABLED or DISABLED"),
    ("DEFINE QLOCAL(A) CAPEXPRY(0)", 27, "NOLIMIT, or a number from 1"),
    ("DEFINE QLOCAL(A) BOQNAME('A B')", 26, "is not a name"),
    ("DEFINE QLOCAL(A) DESCR('" + "x" * 65 + "')", 24, "65 characters long"),
    ("DEFINE QLOCAL(A) DESCR(two words)", 28, "put text with blanks in quotes"),
    ("DEFINE QLOCAL(A) DESCR", 18, "needs a value in brackets"),
    ("DEFINE QLOCAL(A) DESCR()", 24, "write ' ' for a blank"),
    ("DEFINE QLOCAL(A) DESCR((x))", 24, "cannot hold brackets"),
    ("DEFINE QLOCAL(A) DESCR(x", 23, "never closed"),
    ("DEFINE QLOCAL(A) DESCR('x)", 24, "quote is never closed"),
    ("DEFINE QLOCAL(A) DESCR('x'')", 24, "quote is never closed"),
    ("DEFINE QLOCAL(A) SHARE(YES)", 24, "SHARE takes no brackets"),
    ("DEFINE QLOCAL(A) SHARE NOSHARE", 24, "twice in the command, or contradicts"),
    ("DEFINE QLOCAL(A) REPLACE NOREPLACE", 26, "twice in the command, or contradicts"),
    ("DEFINE QLOCAL(A) MAXDEPTH(1) MAXDEPTH(2)", 30, "is twice"),
    ("DEFINE QLOCAL(A) CURDEPTH(1)", 18, "cannot be set"),
    ("DEFINE QLOCAL(A) DEFTYPE(PERMDYN)", 18, "cannot be set"),
    ("DEFINE QMODEL(A) DEFTYPE(PREDEFINED)", 26, "PERMDYN or TEMPDYN"),
    ("DEFINE QLOCAL(A) TARGET(B)", 18, "does not take 'TARGET'"),
    ("DEFINE QLOCAL(A) MAXDEPHT(1)", 18, "Did you mean MAXDEPTH?"),
    ("DEFINE QLOCAL(A) 'quoted'", 18, "A keyword is expected"),
    ("DEFINE QLOCAL(A) (x)", 18, "A keyword is expected"),
    ("DEFINE QLOCAL", 8, "QLOCAL needs a value in brackets"),
    ("DEFINE QLOCAL(A*)", 15, "is not a name"),
    ("DEFINE QLOCAL('')", 15, "is not a name"),
    ("DEFINE QLOCAL(" + "A" * 49 + ")", 15, "1 to 48"),
    ("DEFINE QMGR", 8, "There is no DEFINE QMGR"),
    ("DEFINE", 1, "DEFINE what?"),
    ("DEFI QLOCAL(A)", 1, "Did you mean DEFINE?"),
    ("'DEFINE' QLOCAL(A)", 1, "is not an MQSC command"),
    ("DEFINE 'QLOCAL'(A)", 8, "There is no DEFINE"),
    ("ALTER QMGR(QM1) DEADQ(A)", 12, "takes no brackets"),
    ("ALTER QMGR MAXPRTY(3)", 12, "cannot be set"),
    ("DELETE QLOCAL(A) IGNSTATE(PERHAPS)", 27, "IGNSTATE takes NO, YES"),
    ("DISPLAY QUEUE", 9, "needs a value in brackets"),
    ("DISPLAY QUEUE(*A)", 15, "is not a name"),
    ("DISPLAY QUEUE(A) CURDEPTH(3)", 27, "takes no brackets"),
    ("DISPLAY QUEUE(A) TYPE(QCLUSTER)", 23, "TYPE takes ALL, QLOCAL, QALIAS, QMODEL, QREMOTE"),
    ("DISPLAY QUEUE(A) WHERE(CURDEPTH)", 18, "WHERE takes three words"),
    ("DISPLAY QUEUE(A) WHERE(DEPTH GT 0)", 24, "WHERE does not know 'DEPTH'"),
    ("DISPLAY QUEUE(A) WHERE(USAGE GT NORMAL)", 30, "compared by EQ, NE"),
    ("DISPLAY QUEUE(A) WHERE(CURDEPTH LK 3)", 33, "compared by EQ, NE, LT, GT, LE, GE"),
    ("DISPLAY QUEUE(A) WHERE(SHARE EQ SHARE)", 33, "NO or YES"),
    ("DISPLAY QSTATUS(A) WHERE(INPUT EQ SHARED)", 26, "WHERE does not know 'INPUT'"),
    ("END NOW", 5, "Nothing may follow END"),
    ("PING QMGR NOW", 11, "It takes nothing"),
    ("(", 1, "is not an MQSC command"),
    ("PING +", 6, "The script ends, but '+'"),
    ("PING QMGR" + " " * LINE_CHARS_MAX, LINE_CHARS_MAX + 1, "longer than 2048"),
    ("DIS QL(A) DESCR \0", 17, "does not take"),
    # Letters whose capitals are in ASCII.
    ("DıSPLAY QUEUE(A)", 1, "is not an MQSC command. Did you mean DISPLAY?"),  # noqa: RUF001
    ("DISPLAY ſUB(A)", 9, "There is no DISPLAY"),  # noqa: RUF001
    ("DEFINE QLOCAL(A) uſage(XMITQ)", 18, "does not take"),  # noqa: RUF001
    ("DEFINE QLOCAL(A) USAGE('xmıtq')", 24, "is not valid"),  # noqa: RUF001
]


@pytest.mark.parametrize(("script", "column", "words"), PROBLEMS, ids=[script[:60].strip() for script, _, _ in PROBLEMS])
def test_a_mistake_is_answered_with_its_place_and_the_accepted_words(script: str, column: int, words: str) -> None:
    problem = only(f"\n{script}")

    assert isinstance(problem, SyntaxProblem), problem
    assert words in problem.message
    assert (2, column) == (problem.line, problem.column)


def test_a_mistake_in_a_continued_command_is_placed_on_its_own_line() -> None:
    problem = only("DEFINE QLOCAL(A) +\n* a comment\n   MAXDEPTH(1) +\n   BOTHRESH(x)")

    assert isinstance(problem, SyntaxProblem)
    assert (4, 13, "   BOTHRESH(x)") == (problem.line, problem.column, problem.source)


def test_a_mistake_does_not_hide_the_commands_after_it() -> None:
    first, second = parse("DEFINE QLOCAL(A) DESCR('never closed\nDEFINE QLOCAL(B)")

    assert isinstance(first, SyntaxProblem)
    assert isinstance(second, Command)


def test_an_attribute_that_only_a_real_queue_manager_has_is_left_out_by_name() -> None:
    command = only("DEFINE QLOCAL(A) INDXTYPE(NONE) TPIPE('B') MAXDEPTH(1)")

    assert isinstance(command, Command)
    assert ("INDXTYPE", "TPIPE") == command.ignored
    assert DefineCommand("QLOCAL", "A", {"max_depth": 1}) == command.action


def test_a_display_of_ignored_attributes_only_does_not_show_everything() -> None:
    command = only("DISPLAY QLOCAL(A) INDXTYPE")

    assert isinstance(command, Command)
    assert DisplayCommand("QLOCAL", "A", LOCAL, NAMES_ONLY) == command.action


#: Known words, so that random scripts contain commands and not only noise.
PIECES = [
    *("DEFINE", "DEF", "ALTER", "DISPLAY", "DELETE", "CLEAR", "END", "PING", "SET", "CHANNEL", "QLOCAL", "QL", "QMGR", "QUEUE"),
    *("(", ")", "'", "''", ";", ",", " ", "\n", "\r\n", "+\n", "-\n", "*", "* c\n", "A", "ORDERS.IN", "a*", "BOTHRESH", "3",
      "-1"),
    *("DESCR", "'x'", "WHERE", "CURDEPTH", "GT", "0", "SHARE", "NOSHARE", "REPLACE", "LIKE", "TYPE", "ALL", "\0", "\x85", "é",
      "\ud800"),
]  # fmt: skip


@settings(max_examples=500)
@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=40).map("".join)))
def test_any_text_gives_commands_and_problems_in_order(text: str) -> None:
    found = parse(text)

    assert [command.line for command in found] == sorted(command.line for command in found)
    for problem in found:
        if isinstance(problem, SyntaxProblem):
            assert problem.source == text.removeprefix("\ufeff").split("\n")[problem.line - 1].removesuffix("\r")
            assert 1 <= problem.column <= max(len(problem.source), LINE_CHARS_MAX) + 1


@pytest.mark.parametrize(
    "text",
    [
        "DEFINE QLOCAL(A) +\n" * 50_000 + "REPLACE",
        "DEFINE QLOCAL(A) DESCR('" + "''+\n" * 200_000 + "'",
        "PING QMGR;" * 20_000,
        "A" * 2_000_000,
        "(" * 2_000 + "\n" + ")" * 2_000,
        "DEFINE QLOCAL(A) DESCR(" + "x +\n" * 200_000 + ")",
        "'" * 2_000 + "\n",
        "\n" * 500_000,
    ],
    ids=["many lines", "many quotes", "many commands", "one long line", "brackets", "many words", "quotes", "blank lines"],
)
def test_a_hostile_script_is_read_in_time_that_grows_with_its_length(text: str) -> None:
    # Quadratic time would exceed the time limit of every test here.
    assert parse(text) is not None


def test_the_commands_of_ibm_mq_that_are_refused_by_name_are_ten() -> None:
    refused = {f"{verb} {noun}" for verb, nouns in VERBS.items() for noun in nouns}

    assert {
        *("ALTER COMMINFO", "DEFINE COMMINFO", "DELETE COMMINFO"),
        *("DELETE POLICY", "SET POLICY", "SET LOG", "SET SYSTEM"),
        *("DISPLAY AUTHSERV", "RESET QMGR", "START CHINIT"),
    } == refused
