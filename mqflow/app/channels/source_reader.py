"""Reads channel tables and mqclient.ini from the places that `policy.channels` chooses.

Only this module and `table_fetch` read files and https. `policy` chooses the place and parses the bytes. The caller reads the
table again before each pass over its channels.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from mqflow.app.channels.table_fetch import fetch
from mqflow.policy.channels.candidates import table_of
from mqflow.policy.channels.client_ini import DATA_DIRECTORY, ClientConfiguration, parse_client_configuration, places
from mqflow.policy.channels.sources import Choice, DefinedBy, Origin, TableLocation, locate_table
from mqflow.policy.channels.table import ChannelTable, ChannelTableError
from mqflow.policy.channels.table_json import TABLE_BYTES_MAX, parse
from mqflow.world import SYSTEM_CLOCK, Clock

__all__ = ("Latest", "Tables", "read_client_configuration", "read_table")

_CONFIGURATION_BYTES_MAX: Final = 1_048_576


class Latest(Struct, frozen=True):
    """The current table or, if it cannot be read, the last table that could be read."""

    table: ChannelTable
    #: A sentence that says why the table could not be read this time; empty if it could be read.
    problem: str = ""


class Tables:
    """Reads the chosen table again at each call. Only one thread at a time may use it."""

    def __init__(self, choice: Choice, *, name: str = "", http_allowed: bool = False, clock: Clock = SYSTEM_CLOCK) -> None:
        """Take the choice, and the name of the queue manager to connect to. A channel from MQSERVER accepts any name."""
        self._choice: Final = choice
        self._name = name
        self._http_allowed = http_allowed
        self._clock = clock
        self._last: ChannelTable | None = None

    def read(self) -> Latest:
        """Return the current table. If it cannot be read or is wrong, return the last good table, with the reason.

        Raises `ChannelTableError` only if no table could be read before. So an unfinished file does not end a running
        application.
        """
        try:
            self._last = self._read()
        except ChannelTableError as error:
            if self._last is None:
                raise
            return Latest(self._last, str(error))
        return Latest(self._last)

    def _read(self) -> ChannelTable:
        choice = self._choice
        if isinstance(choice, DefinedBy):
            return table_of(choice.channel, self._name, choice.origin.value)
        try:
            return read_table(choice.location, http_allowed=self._http_allowed, clock=self._clock)
        except ChannelTableError as error:
            if choice.origin is Origin.DEFAULT:
                others = ", ".join(each.value for each in Origin if each is not Origin.DEFAULT)
                problem = f"{error.problem} This is the default. Name another table or a channel in one of these: {others}."
                raise ChannelTableError(error.source, problem, path=error.path) from error
            raise


def read_table(location: str, *, http_allowed: bool = False, clock: Clock = SYSTEM_CLOCK) -> ChannelTable:
    """Return the table at a path or URL. Raises `ChannelTableError` if the table cannot be read or is wrong."""
    found = locate_table(location, http_allowed=http_allowed)
    return parse(_file(found) if found.path else fetch(found, clock=clock), found.shown)


def read_client_configuration(
    environment: Mapping[str, str] | None = None,
    *,
    current: Path | None = None,
    home: Path | None = None,
    data: str = DATA_DIRECTORY,
) -> ClientConfiguration:
    """Return the values of the first mqclient.ini that can be read. If there is no such file, return the defaults.

    As for IBM's client, a file that cannot be read is ignored. Raises `ClientConfigurationError` for a value that cannot be
    used.
    """
    environment = os.environ if environment is None else environment
    own = environment.get("HOME", "") if home is None else str(home)
    for place in places(environment, current=str(current or Path.cwd()), home=own, data=data):
        try:
            text = _bytes(place, _CONFIGURATION_BYTES_MAX).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError, ValueError):
            continue
        return parse_client_configuration(text, place)
    return ClientConfiguration()


def _file(location: TableLocation) -> bytes:
    try:
        return _bytes(location.path, TABLE_BYTES_MAX)
    except (OSError, ValueError) as error:
        cause = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise ChannelTableError(location.shown, f"it cannot be read: {cause}.") from error


def _bytes(path: str, most: int) -> bytes:
    """Return the first `most` + 1 bytes of the file. Raises `ValueError` for a pipe or a device, because it may never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(most + 1)
    finally:
        os.close(descriptor)
