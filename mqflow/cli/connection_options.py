"""The options that name the queue manager of a command, functions that open and connect to it, and the values of options."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from mqflow.app.channels.locate import OpenQueueManager, locate, reach_queue_manager
from mqflow.app.config.settings import load
from mqflow.app.errors import ConfigurationError
from mqflow.many_verbs import disconnect_without_commit
from mqflow.mqi.descriptor import NO_ID
from mqflow.runtime.delay.stage import Stager, staging_queue_for
from mqflow.verbs import Connection
from mqflow.world import SYSTEM_WORLD

__all__ = (
    "Seconds",
    "connected",
    "duration_s",
    "json_option",
    "message_id_from",
    "opened",
    "stager_for",
    "staging_queue",
    "url_option",
)

F = TypeVar("F", bound=Callable[..., Any])  # Any: a click command has any parameters


class Seconds(click.FloatRange):
    """The type of an option in seconds: a number in a range, never `nan` or `inf`. A range of click lets `nan` pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:  # Any: as click has it
        """Return the number. Raises `click.BadParameter` for a text that is no number, or is outside the range."""
        found: float = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value} is not a number of seconds.", param, ctx)
        return found


def url_option(function: F) -> F:
    """Give the command `--url`."""
    return click.option("--url", metavar="URL", help="The queue manager; default: MQFLOW_URL, or url in mqflow.toml.")(function)


def json_option(function: F) -> F:
    """Give the command `--json`, as the parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts, one record on each line.")(function)


def message_id_from(digits: str) -> bytes:
    """Return the 24 bytes of 48 hexadecimal digits. Raises `click.BadParameter` for any other text."""
    try:
        found = bytes.fromhex(digits)
    except ValueError:
        found = b""
    if len(found) != len(NO_ID):
        raise click.BadParameter(
            f"{digits!r} is not a message identifier: give 48 hexadecimal digits, as `mqflow browse` prints them."
        )
    return found


def staging_queue(url: str | None) -> str:
    """Return the staging queue of delayed messages: the setting `delay_queue`, or the default of this queue manager.

    Raises `MQIError` 2298 like `staging_queue_for`.
    """
    settings = load({"url": url})
    embedded = locate(settings.url).kind in {"embedded", "memory", "served"}
    return staging_queue_for(settings.delay_queue, embedded=embedded)


def stager_for(url: str | None) -> Stager:
    """Return the stager that puts delayed messages on the staging queue of this queue manager."""
    return Stager(staging_queue(url), SYSTEM_WORLD)


def duration_s(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of a time span, as the callback of an option: ``90``, ``90s``, ``500ms``, ``5m``, ``2h``, ``3d``."""
    if value is None:
        return None
    number = value.rstrip("abcdefghijklmnopqrstuvwxyz")
    try:
        found_s = float(number) * _UNITS_S[value[len(number) :]]
    except (ValueError, KeyError):
        found_s = math.nan
    if not 0 <= found_s < math.inf:
        raise click.BadParameter(f"{value!r} is not a time span; examples are 90s, 500ms, 5m, 2h and 3d.", ctx, param)
    return found_s


_UNITS_S: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}


@contextmanager
def opened(url: str | None) -> Iterator[OpenQueueManager]:
    """Give the queue manager of the option or the settings, and close it at the end.

    If a process of `mqflow run` has the queue manager open, the command connects to that process.

    Raises `ConfigurationError` if its folder does not exist: a misspelt folder must not become a new queue manager.
    """
    settings = load({"url": url})
    location = locate(settings.url)
    if location.path is not None and not location.path.exists():
        remedy = "start the process that serves it" if location.kind == "served" else "create it with `mqflow mqsc`"
        raise ConfigurationError(f"{settings.url}: there is no queue manager at {location.path} yet; {remedy}.")
    queue_manager = reach_queue_manager(settings.url, settings=settings)
    try:
        yield queue_manager
    finally:
        queue_manager.close()


@contextmanager
def connected(url: str | None) -> Iterator[Connection]:
    """Give a connection. An open unit of work is backed out at the end."""
    with opened(url) as queue_manager:
        connection = queue_manager.connect(application_name="mqflow")
        try:
            yield connection
        finally:
            disconnect_without_commit(connection)  # without an error of its own, so that the user sees the error of the command
