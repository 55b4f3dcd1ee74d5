"""Runs the application on a queue manager on disk, in virtual time: each night, it puts the flights of the day.

Virtual time stands still while a handler runs or the disk writes a commit, and jumps when no work is left. So delays,
pauses and time stamps are those of the calendar, and a year takes only the time of its work.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final

import anyio
from msgspec import Struct

from examples.flights_on_spark import planted
from mqflow import App
from mqflow.app.config.settings import load
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.storage.sqlite_store import SqliteStore
from mqflow.embedded.storage.store import Change
from mqflow.many_verbs import inquire_base_queue
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Format, OpenOption, Persistence, PutOption
from mqflow.testing.virtual_clock import SeededRandom, VirtualClock
from mqflow.testing.virtual_time import run
from mqflow.verbs import Connection

__all__ = ("Night", "message_id", "run_nights")

_AT: Final = time(2, tzinfo=UTC)
_INPUTS: Final = ("FLIGHTS.IN", "CLAIMS.IN", "NIGHT.IN", "HAWAII.IN", "SYSTEM.DDELAY.LOCAL.QUEUE")
_LOOK_EVERY_S: Final = 1.0
_UNIT: Final = 1_000
_DISK_S_MAX: Final = 60.0
"""The longest time, in seconds, for which virtual time stands still for the disk."""


class Night(Struct, frozen=True):
    """The flights of a day, each with its number, which are put in the following night."""

    day: date
    records: Sequence[tuple[int, bytes]]


def message_id(number: int) -> bytes:
    """Return the MsgId of the flight with this number."""
    return b"FLIGHT" + number.to_bytes(18)


def run_nights(folder: Path, app: App, nights: Sequence[Night], report: Callable[[date, int], None]) -> None:
    """Run until every message of every night is settled. `report` receives each day, and the number of flights put so far."""
    first = datetime.combine(nights[0].day + timedelta(days=1), _AT).timestamp()
    clock = VirtualClock(first, real_work_s_max=_DISK_S_MAX)
    app.settings = load({"disposition_queue": "MQFLOW.DISPOSITION"})

    async def work() -> None:
        with EmbeddedQueueManager("QM1", store=_StoppedClockStore(folder, clock), clock=clock) as queue_manager:
            connection = queue_manager.connect(application_name="timetable")
            # Each run has its own seed: with one seed, two runs would give two messages the same MsgId.
            async with app.running(queue_manager, clock=clock, random=SeededRandom(nights[0].day.toordinal())):
                put = 0
                for night in nights:
                    at = datetime.combine(night.day + timedelta(days=1), _AT).timestamp()
                    clock.advance(max(0.0, at - clock.wall()))
                    _put(connection, night)
                    put += len(night.records)
                    while any(inquire_base_queue(connection, queue).depth for queue in _INPUTS):  # noqa: ASYNC110 - there is no event for depths
                        await anyio.sleep(_LOOK_EVERY_S)
                    report(night.day, put)
            connection.disconnect()

    run(work, clock=clock)


def _put(connection: Connection, night: Night) -> None:
    handle = connection.open("FLIGHTS.IN", OpenOption.OUTPUT)
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
