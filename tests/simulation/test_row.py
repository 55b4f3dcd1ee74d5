"""The progress of a long simulation: one row of a terminal, or a log line from time to time."""

import io

import pytest

from tests.simulation.__main__ import Row


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("to", "written"),
    [(Terminal(), "\r0.2 \r10.4 \r10.7 \r10.8 "), (io.StringIO(), "10.4\n10.8\n")],
    ids=["terminal", "log"],
)
def test_a_terminal_has_one_row_and_a_log_has_no_carriage_return(to: io.StringIO, written: str) -> None:
    row = Row(to)

    for took_s in (0.1, 0.2, 0.3, 10.4, 10.5, 10.7):
        row.reached(f"{took_s}", took_s, last=False)
    row.reached("10.8", 10.8, last=True)

    assert written == to.getvalue()
