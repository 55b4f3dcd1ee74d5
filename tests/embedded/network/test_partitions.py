"""A sample of the partitions between network namespaces. Calls notice each partition with the right reason; no handle is left.

`python -m tests.embedded.network.partitions` prints the times. They depend on the length of a silence (see test_dead_peers).
"""

import pytest

from tests.embedded.network.cable import Cable, Fault, why_none
from tests.embedded.network.partitions import break_all_calls, expected

MISSING = why_none()
pytestmark = pytest.mark.skipif(bool(MISSING), reason=MISSING or "never")


@pytest.mark.parametrize(
    ("fault", "silence_s"),
    [(Fault.PARTITION, 0.4), (Fault.BACK_ONLY, 0.4), (Fault.THERE_ONLY, 0.4), (Fault.LOSS, 20.0)],  # TCP sends again for long
    ids=lambda each: each.name.lower() if isinstance(each, Fault) else "",
)
def test_every_call_gets_a_true_answer_when_the_cable_fails(fault: Fault, silence_s: float) -> None:
    noticed, let_go = break_all_calls(fault, silence_s)

    assert expected(fault) == noticed.reasons
    assert let_go


def test_a_cable_loses_the_data_of_its_fault() -> None:
    cable = Cable()
    arrived = {}
    for cable.fault in Fault:
        arrived[cable.fault] = sum(cable._arrives(end) for end in (0, 1) * 500)

    assert (1000, 0, 500, 500) == tuple(arrived[fault] for fault in Fault if fault is not Fault.LOSS)
    assert 800 == arrived[Fault.LOSS]
