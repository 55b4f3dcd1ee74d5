"""The resource topics of IBM MQ: what a monitor finds in the metadata, and the figures that it then gets every ten seconds.

Source: "Metrics published on the system topics", amqsrua.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mqflow.embedded import mqsc
from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.pcf.resources import INTERVAL_S
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import Store
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import GetOption, OpenOption, PutOption, SubscribeOption
from mqflow.mqi.pcf.pcf_reader import parse
from mqflow.mqi.pcf.structures import CFGR, PCFMessage
from mqflow.mqi.subscription import SubscriptionDescriptor
from mqflow.verbs import GetOptions, Subscribed
from mqflow.world import THREADS, Running, World
from tests.conformance.under_test import ManualClock
from tests.embedded.administration.commanding import values_of
from tests.embedded.disk_faults.disk import memory_folder

ROOT = "$SYS/MQ/INFO/QMGR/QM1/Monitor"
GET = GetOptions(options=GetOption.NO_SYNCPOINT)
TOPIC, QUEUE = 2094, 2016
CLASS, TYPE, ELEMENT, DATATYPE, FLAGS, INTERVAL = 839, 840, 841, 842, 843, 845
CLASS_NAME, TYPE_NAME, DESCRIPTION = 2713, 2714, 2715


class Beat:
    """An event that is set from its second wait on: a thread that waits for it works once each time it runs."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock, self.waited, self._stopped = clock, False, False

    def wait(self, timeout: float | None = None) -> bool:
        if self._stopped or self.waited:
            self.waited = False
            return True
        self._clock.advance(timeout or 0.0)
        self.waited = True
        return False

    def set(self) -> None:
        self._stopped = True

    def clear(self) -> None:
        self._stopped = False

    def is_set(self) -> bool:
        return self._stopped


class _Later:
    def join(self, timeout: float | None = None) -> None:
        """Nothing runs."""

    def is_alive(self) -> bool:
        return False


class Rig:
    """A queue manager whose publisher works when the test says so, and one program, which is also the monitor."""

    lock = staticmethod(THREADS.lock)
    mailbox = staticmethod(THREADS.mailbox)

    def __init__(self, store: Store | None = None) -> None:
        self.clock = ManualClock()
        self.beats: list[Beat] = []
        self.work: list[Callable[[], None]] = []
        self.queue_manager = EmbeddedQueueManager("QM1", world=World(self.clock, runner=self), store=store)
        script = "DEFINE QLOCAL(ORDERS.IN) REPLACE\nDEFINE QLOCAL('A/B') REPLACE\nDEFINE QLOCAL(MONITOR) MAXDEPTH(1) REPLACE"
        assert 0 == mqsc.run(script, self.queue_manager.administration).exit_code()
        self.program: EmbeddedConnection = self.queue_manager.connect(application_name="program")

    def event(self) -> Any:
        self.beats.append(Beat(self.clock))
        return self.beats[-1]

    def start(self, target: Callable[[], None], name: str) -> Running:
        if "resource topics" not in name:
            return THREADS.start(target, name)
        for beat in self.beats:
            beat.waited = False
        self.work.append(target)
        return _Later()

    def subscribe(self, topic: str, **fields: Any) -> Subscribed:
        options = SubscribeOption.CREATE | SubscribeOption.MANAGED | fields.pop("options", SubscribeOption(0))
        return self.program.subscribe(SubscriptionDescriptor(object_string=topic, options=options, **fields))

    def got(self, subscribed: Subscribed) -> PCFMessage | None:
        got = self.program.get(subscribed.queue, GET)
        if got is None:
            return None
        return parse(got.body, encoding=got.descriptor.encoding, ccsid=got.descriptor.ccsid)

    def metadata(self, topic: str) -> list[dict[int, Any]]:
        """Return the groups of the retained publication on a topic; first what is outside of the groups."""
        subscribed = self.subscribe(topic)
        message = self.got(subscribed)
        self.program.close(subscribed.handle)
        assert message is not None, f"there is no metadata on {topic}"
        groups = [each.value for each in message.parameters if isinstance(each, CFGR)]
        alone = [each for each in message.parameters if not isinstance(each, CFGR)]
        return [{each.parameter: each.value for each in group} for group in (alone, *groups)]

    def figures(self, subscribed: Subscribed) -> dict[str, int]:
        """Return the figures of the next publication, by the descriptions in the metadata."""
        message = self.got(subscribed)
        assert message is not None, "nothing was published"
        values = values_of(message)
        _, *classes = self.metadata(f"{ROOT}/METADATA/CLASSES")
        (of_class,) = (each for each in classes if each[CLASS] == values[CLASS])
        (of_type,) = (each for each in self.metadata(of_class[TOPIC])[1:] if each[TYPE] == values[TYPE])
        _, *elements = self.metadata(of_type[TOPIC])
        return {each[DESCRIPTION]: values[each[ELEMENT]] for each in elements} | {"interval": values[INTERVAL]}


@pytest.fixture
def rig() -> Iterator[Rig]:
    rig = Rig()
    with rig.queue_manager:
        yield rig


def test_a_monitor_finds_each_type_of_figures_from_the_classes_on(rig: Rig) -> None:
    found: dict[str, list[str]] = {}
    for of_class in rig.metadata(f"{ROOT}/METADATA/CLASSES")[1:]:
        for of_type in rig.metadata(of_class[TOPIC])[1:]:
            outside, *elements = rig.metadata(of_type[TOPIC])
            assert [of_class[CLASS], of_type[TYPE]] == [outside[CLASS], outside[TYPE]]
            assert ("%s" in outside[TOPIC]) == bool(of_class[FLAGS])
            found[outside[TOPIC]] = [each[DESCRIPTION] for each in elements]

    assert {
        f"{ROOT}/STATMQI/CONNDISC": ["MQCONN/MQCONNX count", "MQDISC count"],
        f"{ROOT}/STATQ/%s/PUT": ["MQPUT/MQPUT1 count", "MQPUT byte count"],
        f"{ROOT}/STATQ/%s/GET": ["MQGET count", "MQGET byte count"],
        f"{ROOT}/STATQ/%s/GENERAL": ["Queue depth", "open input count", "open output count"],
    } == found


def test_a_publication_has_what_was_counted_since_the_one_before(rig: Rig) -> None:
    rig.program.put1("ORDERS.IN", MessageDescriptor(), b"before the subscription", PutOption.NO_SYNCPOINT)
    puts, gets, now = (rig.subscribe(f"{ROOT}/STATQ/ORDERS.IN/{kind}") for kind in ("PUT", "GET", "GENERAL"))
    handle = rig.program.open("ORDERS.IN", OpenOption.INPUT_SHARED)
    for body in (b"12345", b"123"):
        rig.program.put1("ORDERS.IN", MessageDescriptor(), body, PutOption.NO_SYNCPOINT)
    rig.program.get(handle, GET)
    rig.queue_manager.administration.reset_queue_statistics("ORDERS.IN")
    rig.program.put1("ORDERS.IN", MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)
    rig.work[0]()

    interval = INTERVAL_S * 1_000_000
    assert {"MQPUT/MQPUT1 count": 3, "MQPUT byte count": 9, "interval": interval} == rig.figures(puts)
    assert {"MQGET count": 1, "MQGET byte count": 23, "interval": interval} == rig.figures(gets)
    general = {"Queue depth": 3, "open input count": 1, "open output count": 0, "interval": interval}
    assert general == rig.figures(now)

    rig.work[0]()

    assert {"MQPUT/MQPUT1 count": 0, "MQPUT byte count": 0, "interval": interval} == rig.figures(puts)
    assert general == rig.figures(now)
    assert 1 == len(rig.work)


def test_the_counts_of_a_queue_that_is_defined_again_begin_again_and_are_never_negative(rig: Rig) -> None:
    puts = rig.subscribe(f"{ROOT}/STATQ/ORDERS.IN/PUT")
    for _ in range(3):
        rig.program.put1("ORDERS.IN", MessageDescriptor(), b"1", PutOption.NO_SYNCPOINT)
    rig.work[0]()
    rig.figures(puts)
    mqsc.run("DELETE QLOCAL(ORDERS.IN) PURGE\nDEFINE QLOCAL(ORDERS.IN)", rig.queue_manager.administration)
    rig.program.put1("ORDERS.IN", MessageDescriptor(), b"12", PutOption.NO_SYNCPOINT)
    rig.work[0]()

    assert {"MQPUT/MQPUT1 count": 1, "MQPUT byte count": 2, "interval": INTERVAL_S * 1_000_000} == rig.figures(puts)


def test_a_unit_of_many_gets_counts_the_bytes_of_each(rig: Rig) -> None:
    gets = rig.subscribe(f"{ROOT}/STATQ/ORDERS.IN/GET")
    handle = rig.program.open("ORDERS.IN", OpenOption.INPUT_SHARED)
    for body in (b"12345", b"123"):
        rig.program.put1("ORDERS.IN", MessageDescriptor(), body, PutOption.NO_SYNCPOINT)
    rig.program.get_many(handle, GetOptions(options=GetOption.SYNCPOINT), most=5, bytes_max=1000)
    rig.work[0]()

    assert {"MQGET count": 2, "MQGET byte count": 8, "interval": 10_000_000} == rig.figures(gets)


def test_connections_are_counted_at_both_ends(rig: Rig) -> None:
    monitor = rig.subscribe(f"{ROOT}/STATMQI/CONNDISC")
    rig.queue_manager.connect()
    rig.queue_manager.connect().disconnect()
    rig.work[0]()

    assert {"MQCONN/MQCONNX count": 2, "MQDISC count": 1, "interval": 10_000_000} == rig.figures(monitor)


def test_a_slash_in_the_name_of_a_queue_is_an_ampersand_in_its_topic(rig: Rig) -> None:
    subscribed = rig.subscribe(f"{ROOT}/STATQ/A&B/GENERAL")
    rig.work[0]()

    message = rig.got(subscribed)
    assert message is not None
    assert "A/B" == values_of(message)[QUEUE].strip()


def test_a_wildcard_below_the_root_gets_every_queue_and_one_above_it_gets_none(rig: Rig) -> None:
    each_depth, everything = rig.subscribe(f"{ROOT}/STATQ/+/GENERAL"), rig.subscribe("#")
    rig.work[0]()

    names = set()
    while (message := rig.got(each_depth)) is not None:
        names.add(values_of(message)[QUEUE].strip())
    assert {"ORDERS.IN", "A/B", "SYSTEM.DEAD.LETTER.QUEUE"} <= names
    assert rig.got(everything) is None


def test_the_publisher_ends_with_its_last_subscription_and_starts_with_the_next(rig: Rig) -> None:
    rig.subscribe("another topic")
    assert 0 == len(rig.work)
    first = rig.subscribe(f"{ROOT}/STATQ/ORDERS.IN/PUT")
    rig.program.close(first.handle)
    rig.work[0]()
    second = rig.subscribe(f"{ROOT}/STATQ/ORDERS.IN/PUT")
    assert 2 == len(rig.work)
    rig.work[1]()

    assert 0 == rig.figures(second)["MQPUT/MQPUT1 count"]


def test_a_full_queue_of_a_monitor_stops_no_other_publication(rig: Rig) -> None:
    full = rig.program.open("MONITOR", OpenOption.OUTPUT)
    rig.program.put(full, MessageDescriptor(), b"", PutOption.NO_SYNCPOINT)
    wanted = SubscriptionDescriptor(object_string=f"{ROOT}/STATQ/ORDERS.IN/PUT", options=SubscribeOption.CREATE)
    rig.program.subscribe(wanted, full)
    other = rig.subscribe(f"{ROOT}/STATQ/ORDERS.IN/PUT")
    rig.work[0]()

    assert 0 == rig.figures(other)["MQPUT/MQPUT1 count"]


def test_a_durable_subscription_gets_figures_after_a_restart() -> None:
    topic, options = f"{ROOT}/STATQ/ORDERS.IN/PUT", SubscribeOption.RESUME | SubscribeOption.DURABLE
    with memory_folder() as folder:
        with (rig := Rig(SqliteStore(folder))).queue_manager:
            rig.subscribe(topic, name="MONITOR", options=options)
        with (again := Rig(SqliteStore(folder))).queue_manager:
            again.work[0]()

            assert 0 == again.figures(again.subscribe(topic, name="MONITOR", options=options))["MQPUT/MQPUT1 count"]
