"""The lexer cuts a script into commands. Each case names its source: a sentence of IBM's pages, or a file."""

import pytest

from mqflow.embedded.mqsc import Command, SyntaxProblem, parse
from mqflow.embedded.mqsc.lexer import LINE_CHARS_MAX, is_unfinished

COMMANDS = [
    pytest.param("PING QMGR", ["PING QMGR"], id="one line, one command"),
    pytest.param("PING QMGR\nEND", ["PING QMGR", "END"], id="q085110: each command must start on a new line"),
    pytest.param("PING QMGR\r\nEND\r\n", ["PING QMGR", "END"], id="lines that end as on Windows"),
    pytest.param("PING QMGR;END;", ["PING QMGR", "END"], id="q085110: a semicolon terminates a command"),
    pytest.param(";;PING QMGR;;\n;", ["PING QMGR"], id="nothing between semicolons is no command"),
    pytest.param("DIS QL(A);  +\n END", ["DIS QL(A)", "END"], id="q085110: a semicolon terminates even before a +"),
    pytest.param("PING +\n   QMGR", ["PING QMGR"], id="q085110: + continues from the first nonblank character"),
    pytest.param("PIN-\nG QMGR", ["PING QMGR"], id="q085110: - continues from the start of the next line"),
    pytest.param("PING -\n QMGR  ", ["PING  QMGR"], id="q085110: - keeps the blanks of the next line"),
    pytest.param("PING QM+  \n  GR", ["PING QMGR"], id="blanks after the continuation mark do not count"),
    pytest.param("* comment\nPING QMGR", ["PING QMGR"], id="q085110: an asterisk in the first position is a comment"),
    pytest.param("   * comment\nPING QMGR", ["PING QMGR"], id="a comment that is indented"),
    pytest.param("\n \n\tPING QMGR\n\n", ["PING QMGR"], id="q085110: blank lines are ignored"),
    pytest.param(
        "PING +\n* CRDATE(2017-05-09) +\n\n QMGR", ["PING QMGR"], id="dmpmqcfg: comments and blank lines in a command"
    ),
    pytest.param("* a comment +\nPING QMGR", ["PING QMGR"], id="a comment is not continued"),
    pytest.param("* " + "x" * LINE_CHARS_MAX + "\nPING QMGR", ["PING QMGR"], id="a comment may be long"),
    pytest.param("DIS Q( +\n *)", ["DIS Q( *)"], id="an asterisk further right inside a command is a name"),
    pytest.param("\ufeffPING QMGR", ["PING QMGR"], id="a file that an editor on Windows saved as UTF-8"),
    pytest.param("", [], id="nothing"),
]


@pytest.mark.parametrize(("script", "expected"), COMMANDS)
def test_a_script_is_cut_into_commands(script: str, expected: list[str]) -> None:
    assert expected == [command.text for command in parse(script) if isinstance(command, Command)]
    assert not any(isinstance(command, SyntaxProblem) for command in parse(script))


DESCRIPTIONS = [
    pytest.param("DESCR('Fr+\n   ed')", "Fred", id="q085110: + within a quoted string"),
    pytest.param("DESCR('Fr-\ned')", "Fred", id="q085110: - within a quoted string"),
    pytest.param("DESCR('it''s')", "it's", id="q085100: two quotation marks inside a string are one"),
    pytest.param("DESCR('''')", "'", id="a string of one quote"),
    pytest.param("DESCR('a; b, (c)')", "a; b, (c)", id="q085100: characters in quotes are left as they are"),
    pytest.param("DESCR('Mixed  Case')", "Mixed  Case", id="q085100: blanks in quotes are significant"),
    pytest.param("DESCR(small)", "SMALL", id="q085100: text without quotes is folded to capitals"),
    pytest.param("DESCR ( 'spaced' )", "spaced", id="q085100: any number of blanks between punctuation and values"),
    pytest.param(",,DESCR(,'x',),", "x", id="q085100: additional commas are blanks"),
    pytest.param("DESCR('trailing  ')", "trailing", id="an attribute is blank-padded, so blanks at its end do not count"),
    pytest.param("DESCR(' ')", "", id="a blank is nothing"),
    pytest.param("DESCR('')", "", id="scripts write an empty string for a blank"),
]


@pytest.mark.parametrize(("setting", "expected"), DESCRIPTIONS)
def test_a_value_is_the_text_in_its_quotes(setting: str, expected: str) -> None:
    [command] = parse(f"DEFINE QLOCAL(A) {setting}")

    assert isinstance(command, Command), command
    assert {"description": expected} == getattr(command.action, "values", None)


@pytest.mark.parametrize(
    ("script", "unfinished"),
    [("PING +", True), ("PING -\n* comment", True), ("PING +\n QMGR", False), ("PING QMGR", False), ("PING QMGR; +", True),
     ("* comment +", False), ("", False)],
)  # fmt: skip
def test_a_script_that_ends_in_a_continuation_is_unfinished(script: str, *, unfinished: bool) -> None:
    assert unfinished is is_unfinished(script)
