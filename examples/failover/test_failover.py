"""If the active queue manager is killed during the work, no order is lost and no order is taken twice."""

import pytest

from examples.failover.demo import main


def test_the_standby_continues_with_every_order(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(orders=90)

    output = capsys.readouterr().out
    assert code == 0, output
    assert "90 orders put, 90 taken; 0 lost, 0 twice." in output
    assert "Reconnected after" in output
