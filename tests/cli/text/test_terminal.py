"""How commands print for people."""

from itertools import pairwise

import pytest

from mqflow.cli.text.message_view import view
from mqflow.cli.text.terminal import show_message
from mqflow.mqi.descriptor import MessageDescriptor


def test_each_part_of_a_message_stands_after_an_empty_line(capsys: pytest.CaptureFixture[str]) -> None:
    shown = view("ORDERS.IN", MessageDescriptor(format="MQSTR", ccsid=1208), b"hello")

    show_message(shown, 7)

    lines = capsys.readouterr().out.splitlines()
    titles = [*(section.title for section in shown.sections), f"Body ({shown.body_title})"]
    assert "== Message 7 on ORDERS.IN" == lines[0]
    assert titles == [line for before, line in pairwise(lines) if not before and line]
