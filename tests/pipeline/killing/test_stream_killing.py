"""kill -9 of a stream that runs: the driver between its commit and its answer. The kill needs `MQFLOW_LONG=1`.

``python -m tests.pipeline.killing.stream_campaign 60 --controls`` makes more kills, and runs the controls that lose and double.
"""

from collections import Counter

import pytest

from tests.embedded.disk_faults.disk import memory_folder
from tests.long import LONG
from tests.pipeline.killing.stream_campaign import AIMS, QUICK, campaign, plans


@LONG
@pytest.mark.timeout(2_400)
@pytest.mark.xdist_group("long on spark")
def test_however_a_stream_is_killed_bronze_silver_and_gold_have_every_row_once() -> None:
    with memory_folder() as base:
        try:
            streaming = campaign(base, [[aim] for aim in QUICK])
        except RuntimeError as error:
            pytest.skip(str(error))
        verdicts = streaming.judge()

    assert [(aim, True) for aim in QUICK] == streaming.kills, "a kill did not hit where it was aimed"
    assert dict.fromkeys(("bronze.disposition", "silver.message", "gold.poison_rate"), (streaming.produced, 0, 0)) == {
        each.table: (each.found, each.lost, each.doubled) for each in verdicts
    }


def test_a_campaign_of_sixty_kills_has_every_aim_and_one_seed_is_one_campaign() -> None:
    lives = list(plans(60, seed=1))

    assert 60 == sum(map(len, lives))
    assert {aim.name for aim in AIMS} == set(Counter(aim.name for life in lives for aim in life))
    assert lives == list(plans(60, seed=1))
    assert all(life == [life[0]] * len(life) for life in lives), "a life has one gate"
