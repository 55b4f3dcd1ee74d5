"""`test_puts_again` on sessions with threads: a served queue manager, pymqi and ibmmq. Source: as there."""

import logging

import pytest

from mqflow import MQIError
from mqflow.events import InDoubt
from mqflow.runtime.connection import threaded_session
from mqflow.testing.faults import Moment
from mqflow.verbs import QueueManager
from tests.runtime.connection.breaking import WAYS, Behind, Hearing, application, fixtures

CALLS_MAX = 20
pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("way", WAYS), pytest.mark.sampled(2)]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the waits for messages."""
    monkeypatch.setattr(threaded_session, "_THREADED_WAIT_MS", 20)
    logging.getLogger("mqflow").setLevel(logging.CRITICAL)


behind, reached = fixtures("DEFINE QLOCAL(OUT)", "DEFINE QLOCAL(ASKED)")


async def test_the_first_put_after_an_idle_outage_is_put_once(behind: Behind, reached: QueueManager) -> None:
    app = application("idle")
    async with app.running(reached, listen=False):
        await app.put("OUT", "1")
        behind.break_all()
        await app.put("OUT", "2")

    assert ["1", "2"] == behind.bodies("OUT")


async def test_a_request_whose_connection_breaks_before_its_commit_is_asked_once(behind: Behind, reached: QueueManager) -> None:
    app = application("request")

    @app.listener("ASKED")
    async def answer(body: str) -> str:
        behind.put("OUT", body)
        return body.upper()

    async with app.running(reached) as running:
        await running.wait_ready()
        behind.break_at_put_on("ASKED")
        assert "HELLO" == await app.request("ASKED", "hello", reply=str, timeout_s=30)

    assert ["hello"] == behind.bodies("OUT")


async def test_wherever_the_connection_breaks_a_put_is_there_once_unless_it_is_in_doubt(
    behind: Behind, reached: QueueManager
) -> None:
    app = application("every call")
    hearing = Hearing(app)
    expected, doubtful = list[str](), dict[str, MQIError]()

    async def put(body: str) -> None:
        try:
            await app.put("OUT", body)
        except MQIError as error:
            doubtful[body] = error
        else:
            expected.append(body)

    async with app.running(reached, listen=False):
        for call in range(1, CALLS_MAX):
            for moment in Moment:
                behind.break_at(0, moment)
                await put(f"{call}, before {moment.name}")  # makes the connection
                behind.break_at(call, moment)
                await put(f"{call}, {moment.name}")
            if behind.calls < call:
                break

    found = behind.bodies("OUT")
    assert expected == [body for body in found if body not in doubtful]
    assert len(found) == len(set(found))
    assert {"MQCMIT"} == {error.verb for error in doubtful.values()}
    assert {"BEFORE", "AFTER"} == {body.rpartition(" ")[2] for body in doubtful}
    assert len(doubtful) == len(hearing.told(InDoubt))
