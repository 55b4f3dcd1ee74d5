"""The supervisor over a channel table: after an outage it finds the queue manager at the address in the table."""

import json
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from mqflow.app.channels.source_reader import Tables
from mqflow.app.channels.table_queue_manager import TableQueueManager
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import Event, Reconnected, Reconnecting
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError, error_for
from mqflow.mqi.options import GetOption, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.channels.candidates import Candidate
from mqflow.policy.channels.sources import Origin, TableAt
from mqflow.policy.poison.disposition import Settlement
from mqflow.runtime.connection.session import Session
from mqflow.runtime.connection.supervisor import Reconnection, Supervisor
from mqflow.runtime.hooks import Broadcast
from mqflow.testing.faults import Fault, Faults
from mqflow.verbs import Connection, GetOptions, QueueManager
from mqflow.world import SYSTEM_RANDOM, SYSTEM_WORLD

pytestmark = pytest.mark.anyio

LOST = error_for(Reason.CONNECTION_BROKEN, "MQGET")
SYNCPOINT = GetOptions(options=GetOption.SYNCPOINT)


class World:
    """Hosts that can answer, the channel table that names some of these hosts, and the events of the application."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "ccdt.json"
        self.hosts: dict[str, QueueManager] = {}
        self.dialled: list[str] = []
        self.told: list[Event] = []
        #: After this number of dials, the table names this host.
        self.then: dict[int, str] = {}
        #: After this number of dials, only these hosts answer.
        self.answers_after: tuple[int, dict[str, QueueManager]] | None = None

    def says(self, *hosts: str) -> None:
        """Write a table that names these hosts."""
        connection = [{"host": host} for host in hosts]
        channel = {
            "name": "A",
            "type": "clientConnection",
            "clientConnection": {"queueManager": "GRP", "connection": connection},
        }
        self.file.write_text(json.dumps({"channel": [channel]}))

    def dial(self, attempt: Candidate, *, application_name: str, user: str) -> Connection:
        self.dialled.append(attempt.address.host)
        if len(self.dialled) in self.then:
            self.says(self.then[len(self.dialled)])
        if self.answers_after is not None and len(self.dialled) > self.answers_after[0]:
            self.hosts = self.answers_after[1]
        if attempt.address.host not in self.hosts:
            raise error_for(Reason.HOST_NOT_AVAILABLE, "MQCONNX")
        return self.hosts[attempt.address.host].connect(application_name=application_name, user=user)

    def hear(self, event: Event) -> None:
        self.told.append(event)

    def supervisor(self, *, limit_s: float | None = None) -> Supervisor:
        tables = Tables(TableAt(str(self.file), Origin.URL))
        return Supervisor(
            TableQueueManager("*GRP", tables, self.dial, random=SYSTEM_RANDOM, host="host1"),
            broadcast=Broadcast((self.hear,)),
            world=SYSTEM_WORLD,
            reconnection=Reconnection(delays=((0.001, 0.0),), limit_s=limit_s),
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def behind() -> Iterator[EmbeddedQueueManager]:
    with EmbeddedQueueManager("QM1") as queue_manager:
        queue_manager.administration.define(QueueAttributes(name="Q"))
        yield queue_manager


async def body_of_next(session: Session) -> bytes | None:
    handle = await session.call(session.connection.open, "Q", OpenOption.INPUT_SHARED)
    got = await session.call(session.connection.get, handle, SYNCPOINT)
    return got.body if got else None


async def test_a_queue_manager_that_moved_is_found_at_its_new_address_and_has_the_message_again(
    world: World, behind: EmbeddedQueueManager
) -> None:
    active, standby = Faults(), Faults()
    world.hosts = {"active": active.wrap(behind)}
    world.says("active", "standby")
    supervisor = world.supervisor()
    session = await supervisor.connect()
    await session.call(session.connection.put1, "Q", MessageDescriptor(), b"order", PutOption.NO_SYNCPOINT)
    assert b"order" == await body_of_next(session)

    # The queue manager dies while the message is in a unit of work, and another one takes over at another address.
    active.break_connections()
    world.hosts = {"standby": standby.wrap(behind)}
    with pytest.raises(MQIError) as broken:
        await session.settle(Settlement.COMMIT)
    supervisor.lost(broken.value)
    again = await supervisor.connect()

    assert b"order" == await body_of_next(again)
    assert ["active", "active", "standby"] == world.dialled
    assert [1] == [event.generation for event in world.told if isinstance(event, Reconnected)]
    await again.close()
    await session.close()


async def test_the_table_is_read_before_each_pass_of_an_outage(world: World, behind: EmbeddedQueueManager) -> None:
    faults = Faults()
    world.hosts = {"old": faults.wrap(behind)}
    world.says("old")
    supervisor = world.supervisor()
    session = await supervisor.connect()
    faults.break_connections()
    world.hosts = {"new": behind}
    supervisor.lost(LOST)

    world.then = {4: "new"}
    again = await supervisor.connect()

    assert ["old", "old", "old", "old", "new"] == world.dialled
    assert [0, 1, 2, 3] == [event.attempt for event in world.told if isinstance(event, Reconnecting)]
    await again.close()
    await session.close()


async def test_there_is_a_wait_before_each_pass_and_none_between_its_entries(
    world: World, behind: EmbeddedQueueManager
) -> None:
    """When all suitable entries have been tried, they wait for a period of time before trying to reconnect again."""
    faults = Faults()
    world.hosts = {"third": faults.wrap(behind)}
    world.says("first", "second", "third")
    supervisor = world.supervisor()
    session = await supervisor.connect()
    faults.break_connections()
    world.hosts = {}
    world.dialled.clear()
    world.answers_after = (7, {"second": behind})
    supervisor.lost(LOST)

    again = await supervisor.connect()

    assert ["first", "second", "third", "first", "second", "third", "first", "second"] == world.dialled
    tried = [event for event in world.told if isinstance(event, Reconnecting)]
    assert [0, 1, 2] == [event.attempt for event in tried]  # one wait for each pass
    await again.close()
    await session.close()


async def test_all_waiting_callers_get_sessions_and_one_of_them_tries_the_table(
    world: World, behind: EmbeddedQueueManager
) -> None:
    faults = Faults()
    world.hosts = {"one": faults.wrap(behind)}
    world.says("gone", "one")
    supervisor = world.supervisor()
    sessions = [await supervisor.connect()]
    world.dialled.clear()
    for _ in range(3):
        supervisor.lost(LOST)

    async def connect() -> None:
        sessions.append(await supervisor.connect())

    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(connect)

    assert ["gone", "one"] * 3 == world.dialled  # no pass runs during another
    assert 1 == len([event for event in world.told if isinstance(event, Reconnected)])
    for session in sessions:
        await session.close()


async def test_another_queue_manager_of_the_group_is_not_taken_for_the_one_that_was_lost(
    world: World, behind: EmbeddedQueueManager
) -> None:
    world.says("one", "two")
    with EmbeddedQueueManager("QM2") as other:
        world.hosts = {"one": behind, "two": other}
        supervisor = world.supervisor(limit_s=0.02)
        session = await supervisor.connect()
        world.hosts = {"two": other}
        supervisor.lost(LOST)

        with pytest.raises(MQIError) as caught:
            await supervisor.connect()

    assert Reason.RECONNECT_TIMED_OUT == caught.value.reason
    assert "two" in world.dialled
    await session.close()


async def test_a_first_connection_that_breaks_at_the_question_for_the_qmid_is_got_again(
    world: World, behind: EmbeddedQueueManager
) -> None:
    faults = Faults(Fault(verb="MQINQ", reason=Reason.CONNECTION_BROKEN))
    world.hosts = {"one": faults.wrap(behind)}
    world.says("one")
    supervisor = world.supervisor()

    session = await supervisor.connect()

    assert ["one", "one"] == world.dialled
    assert 1 == session.generation
    await session.close()


async def test_an_application_without_an_answering_entry_ends(world: World) -> None:
    world.says("gone", "gone-too")

    with pytest.raises(MQIError, match="2538"):
        await world.supervisor().connect()

    assert ["gone", "gone-too"] == world.dialled
