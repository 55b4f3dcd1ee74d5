"""The active queue manager is killed in the midst of the work: no order is lost, and none is taken twice."""

import pytest

from examples.failover.demo import main


def test_the_standby_goes_on_with_every_order(capsys: pytest.CaptureFixture[str]) -> None:
    code = main(orders=90)

    said = capsys.readouterr().out
    assert code == 0, said
    assert "90 orders put, 90 taken; 0 lost, 0 twice." in said
    assert "Reconnected after" in said
