"""kill -9 of Spark at the worst points: no design loses or doubles a message, but each control does.

One life and a last one; `MQFLOW_LONG=1` asks for every design, and ``python -m tests.pipeline.killing.campaign 40 --controls``
for more lives.
"""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.server.listener import serve
from mqflow.mqi.errors import MQIError
from mqflow.pipeline.connections import WorkerConnection
from tests.embedded.disk_faults.disk import memory_folder
from tests.long import usually
from tests.pipeline.killing.aims import AIMS, CHANCES, LANDINGS, Plan, plans
from tests.pipeline.killing.campaign import Killing
from tests.pipeline.killing.names import CONTROLS, DESIGNS, NOT_EXACT
from tests.pipeline.killing.processes import kill_session, standing, wait_for
from tests.pipeline.sources.gates import Gated, Gates, Identified, build_gate

DESIGNS_HERE = usually(("drain", "sink", "careless"), long=(*DESIGNS, *CONTROLS))
"""The designs of this run: the two that keep a marker at the queue manager, and a control without one."""
_GATES: dict[str, str] = AIMS["after the sink, before the commit log"] | {
    "delta": "after:/delta/delta/_delta_log/",
    "sink": "after:mqflow sink",
}
WORST = Plan(
    name="a commit that nobody knows of, in each way there is",
    gates={design: gate for design, gate in _GATES.items() if design in DESIGNS_HERE},
)


@pytest.mark.timeout(1_200)
@pytest.mark.xdist_group("long on spark")
def test_however_spark_is_killed_every_message_comes_through_once_and_without_markers_it_does_not() -> None:
    with memory_folder() as base:
        try:
            gate = build_gate(base)
        except RuntimeError as error:
            pytest.skip(str(error))
        killing = Killing(base, DESIGNS_HERE, gate=gate)
        try:
            stood = killing.live(WORST)
            verdicts = {verdict.design: verdict for verdict in killing.judge()}
        finally:
            killing.close()

    assert len(WORST.gates) == stood, "not every query was killed where it was aimed"
    exact = {name: verdict for name, verdict in verdicts.items() if name.split()[0] not in CONTROLS}
    assert {"lander", *(usually(("drain", "sink queue"), long=("journal", "delta", "drain", "sink queue")))} == set(exact)
    assert dict.fromkeys(exact, (0, 0)) == {name: (verdict.lost, verdict.doubled) for name, verdict in exact.items()}
    assert 3 == sum(bool(verdict.doubled) for name, verdict in verdicts.items() if name.startswith("careless")), verdicts
    assert all(not verdict.exact for name, verdict in verdicts.items() if name == "naive"), verdicts


def test_a_campaign_aims_everywhere_and_at_every_control_and_one_seed_is_one_campaign() -> None:
    designs = ("lander", *DESIGNS, "redrive", *NOT_EXACT)
    lives = list(plans(2 * len(AIMS), designs, seed=1))

    assert lives == list(plans(2 * len(AIMS), designs, seed=1))
    assert {*AIMS, *(f"chance: {whom}" for whom in CHANCES)} < {plan.name for plan in lives}
    assert set(designs) == {design for plan in lives for design in plan.gates}
    assert all(plan.skip for plan in lives if plan.name in LANDINGS), "a lander's first commit only claims its lane"


def test_whom_a_campaign_is_not_about_it_does_not_aim_at() -> None:
    assert {"lander", "sink"} == {design for plan in plans(40, ("lander", "sink"), seed=1) for design in plan.gates}


def at_the_gate(gate: Path, marks: Path, folder: Path) -> subprocess.Popen[bytes]:
    """A process that stands just before it gives a file its final name."""
    program = (
        f"import os; open({str(folder / 'new')!r}, 'w').close(); os.rename({str(folder / 'new')!r}, {str(folder / '1')!r})"
    )
    preloaded = os.environ | {"LD_PRELOAD": str(gate), "GATE_AT": f"before:{folder}/", "GATE_MARKS": str(marks)}
    return subprocess.Popen([sys.executable, "-c", program], env=preloaded, start_new_session=True)


def test_only_a_process_that_lives_and_waits_at_its_gate_stands_there(tmp_path: Path) -> None:
    """A mark stays when its process has ended by itself: to kill the others then proves nothing about that point."""
    marks, folder = tmp_path / "marks", tmp_path / "names"
    marks.mkdir()
    folder.mkdir()
    try:
        gate = build_gate(tmp_path)
    except RuntimeError as error:
        pytest.skip(str(error))
    victim = at_the_gate(gate, marks, folder)
    try:
        wait_for(lambda: bool(standing(marks, victim.pid, ())), 60.0)
        assert {"0": victim.pid} == standing(marks, victim.pid, ())
        assert {} == standing(marks, os.getpid(), ()), "it is of another session"
    finally:
        kill_session(victim)

    assert 1 == len(list(marks.iterdir()))
    assert {} == standing(marks, victim.pid, ())


def test_a_process_at_a_gate_of_the_queue_manager_is_known_by_its_socket(tmp_path: Path) -> None:
    gates = Gates(tmp_path, patience_s=60.0)
    with memory_folder() as folder, EmbeddedQueueManager("QM1") as owner:
        gated: Any = Gated(owner, gates)  # Any: it passes on the attributes that it does not have
        server = serve(gated, folder / "qm")
        server._login = Identified()
        gates.arm({"before:here": 1})
        here = WorkerConnection(f"embedded+unix:{folder / 'qm'}?qmgr=QM1", "here")
        here.connection.commit()  # the gate lets the first pass

        def commit() -> None:
            with pytest.raises(MQIError, match="2009"):
                here.connection.commit()

        held = threading.Thread(target=commit)
        held.start()

        wait_for(lambda: bool(gates.held), 60.0)
        assert {"before:here": os.getpid()} == standing(tmp_path, os.getsid(0), gates.held)
        gates.open()
        held.join()
        assert {} == standing(tmp_path, os.getsid(0), gates.held)
        server.close()
