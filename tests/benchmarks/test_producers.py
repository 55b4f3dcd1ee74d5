"""The benchmark of producers works at a small size. The tests check only that there are figures, not their values."""

from pathlib import Path

import pytest

from benchmarks.effort import Effort
from benchmarks.producers import PRODUCING, Producing, publish, put_in_a_loop, tables


@pytest.mark.parametrize("producing", PRODUCING, ids=lambda producing: producing.name)
def test_publishers_and_loop_put_every_message(producing: Producing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    messages = 2 * producing.publishers

    samples = [how(producing.make, messages, producing.publishers) for how in (publish, put_in_a_loop)]

    assert [messages, messages] == [sample.messages for sample in samples]
    assert all(sample.wall_s > 0 for sample in samples)


@pytest.mark.rare
def test_each_number_of_publishers_has_a_row_and_so_has_their_gain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    costs, gain = tables(Effort(pairs=1, share=0.001, patience_s=0))

    assert [producing.name for producing in PRODUCING] == [row.name for row in costs.rows]
    assert 1 == len(gain.rows)
    assert all(row.figure > 0 for table in (costs, gain) for row in table.rows)
