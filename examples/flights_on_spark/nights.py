"""Runs the application on a queue manager on disk: each night, it puts the flights of the day.

Virtual time stands still while a handler runs or the disk writes a commit, and jumps when no work is left. So delays,
pauses and time stamps follow the calendar, and a year takes only the time of its work. In real time, delays and pauses
are real, and the next night begins when every flight of a night has been booked or moved.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final

import anyio
from msgspec import Struct

from examples.flights_on_spark import planted
from examples.flights_on_spark.identifiers import message_id
from mqflow import App
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import Change
from mqflow.many_verbs import inquire_base_queue
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Format, OpenOption, Persistence, PutOption
from mqflow.testing.virtual_clock import SeededRandom, VirtualClock
from mqflow.testing.virtual_time import run
from mqflow.verbs import Connection
from mqflow.world import SYSTEM_CLOCK, World

__all__ = ("Moments", "Night", "run_nights", "run_nights_in_real_time")

Moments = dict[date, datetime]
"""The moment of the first put of each night, by the day of its flights."""

_AT: Final = time(2, tzinfo=UTC)
_FLIGHTS: Final = "FLIGHTS.IN"
_STAGING: Final = "SYSTEM.DDELAY.LOCAL.QUEUE"
#: A message moves only to a later queue of this list. No message comes and leaves between the two reads of the staging queue.
_INPUTS: Final = (_FLIGHTS, _STAGING, "CLAIMS.IN", _STAGING, "NIGHT.IN", "HAWAII.IN")
_LOOK_EVERY_S: Final = 1.0
_HUNDREDTH_S: Final = 0.01
_UNIT: Final = 1_000
_DISK_S_MAX: Final = 60.0
"""The longest time, in seconds, for which virtual time stands still for the disk."""


class Night(Struct, frozen=True):
    """The flights of a day, each with its number, which are put in the following night."""

    day: date
    records: Sequence[tuple[int, bytes]]


def run_nights(folder: Path, app: App, nights: Sequence[Night], report: Callable[[date, int], None]) -> Moments:
    """Run in virtual time until every message of every night is settled, and return the moments of the puts.

    `report` receives each day, and the number of flights put so far.
    """
    clock = VirtualClock(_moment(nights[0].day).timestamp(), real_work_s_max=_DISK_S_MAX)
    moments: Moments = {}

    async def work() -> None:
        with EmbeddedQueueManager("QM1", store=_StoppedClockStore(folder, clock), world=World(clock)) as queue_manager:
            connection = queue_manager.connect(application_name="timetable")
            # Each run has its own seed: with one seed, two runs would give two messages the same MsgId.
            async with app.running(queue_manager, clock=clock, random=SeededRandom(nights[0].day.toordinal())):
                for night, so_far in _counted(nights):
                    moments[night.day] = _moment(night.day)
                    clock.advance(max(0.0, moments[night.day].timestamp() - clock.wall()))
                    _put(connection, night)
                    await _empty(connection, _INPUTS, _LOOK_EVERY_S)
                    report(night.day, so_far)
            connection.disconnect()

    run(work, clock=clock)
    return moments


def run_nights_in_real_time(app: App, nights: Sequence[Night], report: Callable[[date, int], None]) -> Moments:
    """Run in real time, on the queue manager of the application's URL, until every message of every night is settled."""
    moments: Moments = {}

    async def work() -> None:
        async with app.running():
            connection = app.queue_manager.connect(application_name="timetable")
            for night, so_far in _counted(nights):
                await anyio.sleep(_HUNDREDTH_S)  # PutTime has hundredths, and this night's must differ from the last night's
                now = datetime.fromtimestamp(SYSTEM_CLOCK.wall(), UTC)
                moments[night.day] = now.replace(microsecond=now.microsecond // 10_000 * 10_000)
                _put(connection, night)
                await _empty(connection, (_FLIGHTS,), _HUNDREDTH_S)
                report(night.day, so_far)
            await _empty(connection, _INPUTS, _HUNDREDTH_S)
            connection.disconnect()

    anyio.run(work)
    return moments


def _moment(day: date) -> datetime:
    """Return the time of the calendar at which the flights of the day are put."""
    return datetime.combine(day + timedelta(days=1), _AT)


def _counted(nights: Sequence[Night]) -> Iterator[tuple[Night, int]]:
    """Yield each night, with the number of flights up to its end."""
    so_far = 0
    for night in nights:
        so_far += len(night.records)
        yield night, so_far


async def _empty(connection: Connection, queues: Sequence[str], every_s: float) -> None:
    """Wait until these queues have no message, not even one of an unfinished unit of work."""
    while any(inquire_base_queue(connection, queue).depth for queue in queues):  # noqa: ASYNC110 - there is no event for depths
        await anyio.sleep(every_s)


def _put(connection: Connection, night: Night) -> None:
    handle = connection.open(_FLIGHTS, OpenOption.OUTPUT)
    for at in range(0, len(night.records), _UNIT):
        for number, line in night.records[at : at + _UNIT]:
            body = line[: planted.CUT_CHARS] if number % planted.CUT_EVERY == planted.CUT_AT else line
            described = MessageDescriptor(
                message_id=message_id(number), format=Format.STRING, ccsid=1208, persistence=Persistence.PERSISTENT
            )
            connection.put(handle, described, body, PutOption.SYNCPOINT)
        connection.commit()
    connection.close(handle)


class _StoppedClockStore(SqliteStore):
    """A store on disk that stops the virtual clock during each write."""

    def __init__(self, folder: Path, clock: VirtualClock) -> None:
        super().__init__(folder)
        self._stopped: Final = clock

    def write(self, changes: Sequence[Change], done: Callable[[Any], None] | None) -> None:
        if done is None:
            super().write(changes, None)
            return
        self._stopped.hold()

        def answered(error: Any) -> None:
            done(error)
            self._stopped.release()

        super().write(changes, answered)
