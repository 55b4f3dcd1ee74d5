"""Whether mqflow reconnects, and to which queue manager: by settings, mqclient.ini and the channel together.

Source: IBM q108390, and "Automatic JMS client reconnection with CCDTs", table 1; the rows of the table itself are in
tests/policy/reconnect/test_mode.py.
"""

from collections.abc import Iterator

import anyio
import pytest

from mqflow import App, ConfigurationError, MQIError
from mqflow.app.channels.reconnect_settings import reconnection
from mqflow.app.config.settings import ReconnectSettings, Settings, SettingsError, load
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import Reconnecting
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.channels.client_ini import ClientConfiguration
from mqflow.policy.reconnect.delays import LADDER
from mqflow.policy.reconnect.mode import DefaultReconnect, ReconnectMode
from mqflow.runtime.connection.supervisor import Reconnection, Supervisor
from mqflow.runtime.hooks import Broadcast
from mqflow.testing.faults import CONNECT, Fault, Faults
from mqflow.testing.kit import QueueManagerKit
from mqflow.testing.virtual_clock import VirtualClock
from mqflow.verbs import Connection
from mqflow.world import SYSTEM_WORLD, World
from tests.conformance.under_test import refused

NO, ANY, Q_MGR = ReconnectMode.NO, ReconnectMode.ANY, ReconnectMode.Q_MGR
LOST = error_for(Reason.CONNECTION_BROKEN, "MQGET")


class Named:
    """A remote queue manager: its name, and the DEFRECON of its channel."""

    def __init__(self, name: str = "QM1", default: DefaultReconnect = DefaultReconnect.NO) -> None:
        self.name = name
        self.default_reconnect = default

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        raise error_for(Reason.Q_MGR_NOT_AVAILABLE, "MQCONNX", application_name, user)


@pytest.mark.parametrize(
    ("mode", "name", "ini", "channel", "expected"),
    [
        ("QMGR", "QM1", None, DefaultReconnect.NO, Q_MGR),  # the default of mqflow
        ("QMGR", "QM1", DefaultReconnect.DISABLED, DefaultReconnect.YES, NO),  # an administrator can forbid to reconnect
        ("ASDEF", "QM1", None, DefaultReconnect.NO, NO),
        ("ASDEF", "QM1", None, DefaultReconnect.Q_MGR, Q_MGR),
        ("ASDEF", "QM1", None, DefaultReconnect.YES, ANY),
        ("ASDEF", "QM1", DefaultReconnect.NO, DefaultReconnect.YES, NO),  # DefRecon overrides the channel
        ("ANY", "*GRP", None, DefaultReconnect.NO, ANY),
        ("ANY", "", None, DefaultReconnect.NO, ANY),
        ("DISABLED", "QM1", DefaultReconnect.YES, DefaultReconnect.YES, NO),
    ],
)
def test_the_mode_decides_the_reaction_to_a_lost_connection(
    mode: str, name: str, ini: DefaultReconnect | None, channel: DefaultReconnect, expected: ReconnectMode
) -> None:
    settings = load({"reconnect": {"mode": mode}}, environment={}).reconnect

    found = reconnection(settings, Named(name, channel), ClientConfiguration(default_reconnect=ini))

    assert expected is found.mode()


def test_any_needs_a_group_and_says_so() -> None:
    with pytest.raises(ConfigurationError, match=r"reconnect\.mode: ANY may lead to any queue manager .* 'QM1' names one"):
        reconnection(ReconnectSettings(mode="ANY"), Named("QM1"), ClientConfiguration())


def test_another_word_is_refused_with_those_that_are_accepted() -> None:
    with pytest.raises(SettingsError, match=r'reconnect\.mode .*it takes "ANY" or "ASDEF" or "DISABLED" or "QMGR"'):
        load({"reconnect": {"mode": "SOMETIMES"}}, environment={})


def test_mqclient_ini_gives_the_values_that_the_settings_leave_open() -> None:
    ini = ClientConfiguration(delays=((3.0, 0.0),), reconnect_limit_s=60)

    by_ini = reconnection(ReconnectSettings(), Named(), ini)
    by_settings = reconnection(ReconnectSettings(delays="(5000)", limit_s=9), Named(), ini)
    by_nobody = reconnection(ReconnectSettings(), Named(), ClientConfiguration())

    assert (((3.0, 0.0),), 60) == (by_ini.delays, by_ini.limit_s)
    assert (((5.0, 0.0),), 9) == (by_settings.delays, by_settings.limit_s)
    assert (LADDER, None) == (by_nobody.delays, by_nobody.limit_s)


@pytest.mark.mq_backend("asyncio", "trio")
async def test_where_reconnecting_is_switched_off_an_outage_ends_the_application_with_its_reason(mq: QueueManagerKit) -> None:
    mq.define("IN", bothresh=3)
    app = App(settings=Settings(reconnect=ReconnectSettings(mode="DISABLED")))

    @app.listener("IN", concurrency=3)
    async def handle(body: str) -> None:
        raise AssertionError(body)

    async def run() -> None:
        async with mq.run(app):
            await anyio.sleep(1)
            mq.faults.break_connections()
            await anyio.sleep(3_600)

    before = mq.clock.monotonic()
    with refused(Reason.CONNECTION_BROKEN, match="forbids reconnecting"):
        await run()

    assert mq.clock.monotonic() - before < 10
    assert [] == mq.told(Reconnecting)  # the event would be wrong, because mqflow does not reconnect


class Elsewhere:
    """A queue manager that seems to be in another process. At each connect, another queue manager can answer."""

    name = "QM1"

    def __init__(self, *answering: EmbeddedQueueManager) -> None:
        self.answering = list(answering)
        self.faults = Faults()

    def connect(self, *, application_name: str = "", user: str = "") -> Connection:
        found = self.answering.pop(0) if len(self.answering) > 1 else self.answering[0]
        return self.faults.wrap(found).connect(application_name=application_name, user=user)


@pytest.fixture
def two() -> Iterator[tuple[EmbeddedQueueManager, EmbeddedQueueManager]]:
    with EmbeddedQueueManager("QM1") as one, EmbeddedQueueManager("QM1", world=World(VirtualClock())) as created_anew:
        yield one, created_anew


def supervisor(queue_manager: Elsewhere, mode: ReconnectMode) -> Supervisor:
    return Supervisor(
        queue_manager,
        broadcast=Broadcast(()),
        world=SYSTEM_WORLD,
        reconnection=Reconnection(delays=((0.001, 0.0),), mode=lambda: mode),
    )


@pytest.mark.anyio
async def test_one_that_was_created_again_under_the_old_name_is_refused_by_its_qmid(
    two: tuple[EmbeddedQueueManager, EmbeddedQueueManager],
) -> None:
    there = Elsewhere(*two)
    connecting = supervisor(there, Q_MGR)
    session = await connecting.connect()
    there.faults.break_connections()
    connecting.lost(LOST, session)

    with refused(Reason.RECONNECT_QMID_MISMATCH) as caught:
        await connecting.connect(before=session)
    await session.close()

    assert "QMID" in str(caught.value)


@pytest.mark.anyio
async def test_where_any_will_do_another_queue_manager_is_taken(two: tuple[EmbeddedQueueManager, EmbeddedQueueManager]) -> None:
    there = Elsewhere(*two)
    connecting = supervisor(there, ANY)
    session = await connecting.connect()
    there.faults.break_connections()
    connecting.lost(LOST, session)

    again = await connecting.connect(before=session)

    assert 1 == connecting.generation == again.generation
    await again.close()
    await session.close()


@pytest.mark.anyio
async def test_a_first_connection_that_breaks_at_the_inquiry_of_the_qmid_is_made_again(
    two: tuple[EmbeddedQueueManager, EmbeddedQueueManager],
) -> None:
    there = Elsewhere(two[0])
    there.faults.add(Fault(verb="MQINQ", reason=Reason.CONNECTION_BROKEN))
    connecting = supervisor(there, Q_MGR)

    session = await connecting.connect()

    assert 1 == session.generation
    assert "QM1" == session.connection.queue_manager_name
    await session.close()


@pytest.mark.anyio
async def test_an_application_that_never_reached_its_queue_manager_ends(
    two: tuple[EmbeddedQueueManager, EmbeddedQueueManager],
) -> None:
    there = Elsewhere(two[0])
    there.faults.add(Fault(verb=CONNECT, reason=Reason.Q_MGR_NOT_AVAILABLE))

    with pytest.raises(MQIError, match="2059"):
        await supervisor(there, Q_MGR).connect()
