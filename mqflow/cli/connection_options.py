"""Which queue manager a command works on: the options that say it, and the way to a connection. Knows settings and the seam."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

from mqflow.app.channels.locate import OpenQueueManager, locate, reach_queue_manager
from mqflow.app.config.settings import load
from mqflow.app.errors import ConfigurationError
from mqflow.many_verbs import disconnect_without_commit
from mqflow.mqi.descriptor import NO_ID
from mqflow.runtime.delay.stage import EMBEDDED_STAGING_QUEUE, STAGING_QUEUE, Stager
from mqflow.verbs import Connection
from mqflow.world import SYSTEM_WORLD

__all__ = ("connected", "duration_s", "json_option", "message_id_from", "opened", "stager_for", "staging_queue", "url_option")

F = TypeVar("F", bound=Callable[..., Any])


def url_option(function: F) -> F:
    """Give the command `--url`."""
    return click.option("--url", metavar="URL", help="The queue manager; MQFLOW_URL or mqflow.toml say which otherwise.")(
        function
    )


def json_option(function: F) -> F:
    """Give the command `--json`, as the parameter `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, a record on each line, for scripts.")(function)


def message_id_from(digits: str) -> bytes:
    """Return the 24 bytes that 48 hexadecimal digits say. Raises `click.BadParameter` for anything else."""
    try:
        found = bytes.fromhex(digits)
    except ValueError:
        found = b""
    if len(found) != len(NO_ID):
        raise click.BadParameter(
            f"{digits!r} is no message identifier: it has 48 hexadecimal digits, as `mqflow browse` shows it."
        )
    return found


def staging_queue(url: str | None) -> str:
    """Return where delayed messages wait at that queue manager: what the setting `delay_queue` says, or its usual one."""
    settings = load({"url": url})
    embedded = locate(settings.url).kind in {"embedded", "memory", "served"}
    return settings.delay_queue or (EMBEDDED_STAGING_QUEUE if embedded else STAGING_QUEUE)


def stager_for(url: str | None) -> Stager:
    """Return what puts delayed messages on the staging queue of that queue manager."""
    return Stager(staging_queue(url), SYSTEM_WORLD)


def duration_s(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of a time span: ``90``, ``90s``, ``500ms``, ``5m``, ``2h``, ``3d``; an option's callback."""
    if value is None:
        return None
    number = value.rstrip("abcdefghijklmnopqrstuvwxyz")
    try:
        return float(number) * _UNITS_S[value[len(number) :]]
    except (ValueError, KeyError):
        raise click.BadParameter(f"{value!r} is no time span: 90s, 500ms, 5m, 2h or 3d is.", ctx, param) from None


_UNITS_S: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3_600.0, "d": 86_400.0}


@contextmanager
def opened(url: str | None) -> Iterator[OpenQueueManager]:
    """Give the queue manager that the option, or else the settings, name; let go of at the end.

    One that `mqflow run` has open is reached through it.

    Raises `ConfigurationError` where its folder is not there: a misspelt folder shall not become a new queue manager.
    """
    settings = load({"url": url})
    location = locate(settings.url)
    if location.path is not None and not location.path.exists():
        maker = (
            "nobody serves a queue manager there" if location.kind == "served" else "`mqflow mqsc` makes a queue manager there"
        )
        raise ConfigurationError(f"{settings.url}: there is nothing at {location.path} yet; {maker}.")
    queue_manager = reach_queue_manager(settings.url, settings=settings)
    try:
        yield queue_manager
    finally:
        queue_manager.close()


@contextmanager
def connected(url: str | None) -> Iterator[Connection]:
    """Give a connection; what the command did not commit is backed out at its end."""
    with opened(url) as queue_manager:
        connection = queue_manager.connect(application_name="mqflow")
        try:
            yield connection
        finally:
            disconnect_without_commit(connection)  # quiet: what the command met is what its user is to hear
