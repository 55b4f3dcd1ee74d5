"""kill -9 of Spark at the worst points: no design loses or doubles a message, but each control does.

One life and a last one, with a query for every design; ``python -m tests.pipeline.killing.campaign 40 --controls`` for more.
"""

import pytest

from tests.embedded.storage.disk import memory_folder
from tests.pipeline.killing.aims import AIMS, CHANCES, LANDINGS, Plan, plans
from tests.pipeline.killing.campaign import Killing
from tests.pipeline.killing.names import CONTROLS, DESIGNS, NOT_EXACT
from tests.pipeline.sources.gates import build_gate

WORST = Plan(
    name="a commit that nobody knows of, in each way there is",
    gates=AIMS["after the sink, before the commit log"]
    | {"delta": "after:/delta/delta/_delta_log/", "sink": "after:mqflow sink"},
)


@pytest.mark.timeout(1_200)
@pytest.mark.xdist_group("long on spark")
def test_however_spark_is_killed_every_message_comes_through_once_and_without_markers_it_does_not() -> None:
    with memory_folder() as base:
        try:
            gate = build_gate(base)
        except RuntimeError as error:
            pytest.skip(str(error))
        killing = Killing(base, (*DESIGNS, *CONTROLS), gate=gate)
        try:
            stood = killing.live(WORST)
            verdicts = {verdict.design: verdict for verdict in killing.judge()}
        finally:
            killing.close()

    assert len(WORST.gates) == stood, "not every query was killed where it was aimed"
    exact = {name: verdict for name, verdict in verdicts.items() if name.split()[0] not in CONTROLS}
    assert {"lander", "journal", "delta", "drain", "sink queue"} == set(exact)
    assert dict.fromkeys(exact, (0, 0)) == {name: (verdict.lost, verdict.doubled) for name, verdict in exact.items()}
    assert 3 == sum(bool(verdict.doubled) for name, verdict in verdicts.items() if name.startswith("careless")), verdicts
    assert verdicts["naive"].lost or verdicts["naive"].doubled, verdicts


def test_a_campaign_aims_everywhere_and_at_every_control_and_one_seed_is_one_campaign() -> None:
    designs = ("lander", *DESIGNS, "redrive", *NOT_EXACT)
    lives = list(plans(2 * len(AIMS), designs, seed=1))

    assert lives == list(plans(2 * len(AIMS), designs, seed=1))
    assert {*AIMS, *(f"chance: {whom}" for whom in CHANCES)} < {plan.name for plan in lives}
    assert set(designs) == {design for plan in lives for design in plan.gates}
    assert all(plan.skip for plan in lives if plan.name in LANDINGS), "a lander's first commit only claims its lane"


def test_whom_a_campaign_is_not_about_it_does_not_aim_at() -> None:
    assert {"lander", "sink"} == {design for plan in plans(40, ("lander", "sink"), seed=1) for design in plan.gates}
