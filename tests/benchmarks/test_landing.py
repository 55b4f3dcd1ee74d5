"""The benchmark of the lander works at a small size; its figures do not matter here."""

import pytest

from benchmarks.landing import main


def test_each_ratio_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == main(["--messages", "40", "--rounds", "1", "--call-us", "1"])

    assert 5 == capsys.readouterr().out.count(" a second = ")
