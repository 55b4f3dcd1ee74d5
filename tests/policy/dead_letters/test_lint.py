"""The findings of `lint`, and tables without findings."""

import pytest

from mqflow.policy.dead_letters.lint import lint
from mqflow.policy.dead_letters.rules import RulesTable, parse

CATCH_ALL = "ACTION(FWD) FWDQ(REALLY.DEAD)"

FINDINGS = [
    pytest.param(f"REASON(1) ACTION(RETRY)\n{CATCH_ALL}", [], id="a table as IBM advises"),
    pytest.param("ACTION(DISCARD)", [], id="no message is left"),
    pytest.param("REASON(1) ACTION(RETRY)",
        ["line 1: No last rule forwards the rest of the messages: a message that matches no rule"],
        id="a message without a matching rule stays"),
    pytest.param("FORMAT(*) ACTION(RETRY)",
        ["line 1: No last rule forwards the rest of the messages: a message on which this rule has used up"],
        id="a message with used-up attempts stays"),
    pytest.param("ACTION(IGNORE)", ["line 1: No last rule forwards the rest of the messages: a message that this rule matches"],
        id="an ignored message stays"),
    pytest.param("FORMAT(*) ACTION(DISCARD)", [], id="an asterisk is no condition"),
    pytest.param(f"DESTQ(A*) ACTION(IGNORE)\nDESTQ(AB) REASON(1) ACTION(RETRY)\n{CATCH_ALL}",
        ["line 2: It is never reached: line 1"], id="by a pattern"),
    pytest.param(f"DESTQ(A*) ACTION(IGNORE)\nDESTQ(A?) ACTION(RETRY)\n{CATCH_ALL}", [],
        id="patterns are compared only where they are equal"),
    pytest.param(f"DESTQ(A*) ACTION(IGNORE)\nDESTQ(A*) ACTION(RETRY)\n{CATCH_ALL}",
        ["line 2: It is never reached: line 1 (IGNORE)"], id="the same pattern"),
    pytest.param(f"REASON(1) ACTION(DISCARD)\nREASON(1) DESTQ(A) ACTION(RETRY)\n{CATCH_ALL}",
        ["line 2: It is never reached: line 1 (DISCARD)"], id="the same number"),
    pytest.param(f"REASON(1) ACTION(DISCARD)\nREASON(2) ACTION(RETRY)\n{CATCH_ALL}", [], id="another value"),
    pytest.param(f"REASON(1) DESTQ(A) ACTION(DISCARD)\nREASON(1) ACTION(RETRY)\n{CATCH_ALL}", [], id="a narrower rule before"),
    pytest.param(f"REASON(1) ACTION(RETRY)\nREASON(1) ACTION(DISCARD)\n{CATCH_ALL}", [], id="after RETRY, as intended"),
    pytest.param(f"{CATCH_ALL}\nREASON(1) ACTION(RETRY)\n{CATCH_ALL}",
        ["line 2: Only messages that line 1 failed", "line 3: Only"], id="after FWD"),
    pytest.param("ACTION(FWD) FWDQ(DEAD)", ["line 1: It forwards to DEAD, the queue of the messages"], id="in a circle"),
    pytest.param("ACTION(FWD) FWDQ(DEAD) FWDQM(QM2)", [], id="the same name elsewhere"),
    pytest.param(f"DESTQ(A) REASON(2362) ACTION(RETRY) RETRY(3)\n{CATCH_ALL}",
        ["line 1: It puts poison messages back on the queue of the application that failed"], id="a poison circle"),
    pytest.param(f"REASON(2364) ACTION(FWD) FWDQ(&DESTQ)\n{CATCH_ALL}",
        ["line 1: It puts poison messages back"], id="a message that cannot be decoded in a circle"),
    pytest.param(f"REASON(2362) ACTION(FWD) FWDQ(REPAIR)\n{CATCH_ALL}", [], id="poison messages elsewhere"),
    pytest.param(f"ACTION(FWD) FWDQ(&REPLYQ)\n{CATCH_ALL}",
        ["line 1: It also matches messages without a ReplyToQ", "line 2: Only"], id="&REPLYQ"),
    pytest.param(f"REPLYQ(?*) ACTION(FWD) FWDQ(&REPLYQ)\n{CATCH_ALL}", [], id="&REPLYQ, as IBM advises"),
    pytest.param(f"DESTQ({'*' * 70}A) ACTION(RETRY)\n{CATCH_ALL}", ["line 1: It is longer than 72"], id="not portable"),
    pytest.param(f"DESTQ({'*' * 50}A) ACTION(RETRY)\n{CATCH_ALL}", [], id="72 characters are portable"),
    pytest.param(f"DESTQ({'*' * 51}A) ACTION(RETRY)\n{CATCH_ALL}", ["line 1: It is longer than 72"], id="73 are not"),
    pytest.param(f"* {'long ' * 20}\n{CATCH_ALL}", [], id="a comment may be long"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FINDINGS)
def test_findings(text: str, expected: list[str]) -> None:
    table = parse(text)
    assert isinstance(table, RulesTable)

    found = [str(finding) for finding in lint(table, text, queue="DEAD")]

    assert len(expected) == len(found), found
    assert all(said.startswith(wanted) for said, wanted in zip(found, expected, strict=True)), found
