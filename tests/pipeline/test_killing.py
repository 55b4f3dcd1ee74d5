"""kill -9 of Spark where it hurts: nothing lost and nothing twice by any design, but by what they would be without a marker.

One life and a last one, with a query for every design; ``python -m tests.pipeline.killing 40 --controls`` for more.
"""

import pytest

from tests.embedded.disk import memory_folder
from tests.pipeline.killing import AIMS, Killing, Plan, build_gate
from tests.pipeline.names import CONTROLS, DESIGNS

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
