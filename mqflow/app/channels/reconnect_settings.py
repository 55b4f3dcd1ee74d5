"""How an application gets a lost connection back: what its settings say, over mqclient.ini, over what IBM MQ does by itself.

Knows settings, the client configuration and what a queue manager says of its channel; decides nothing, `policy` does.
"""

from collections.abc import Callable

from msgspec import Struct

from mqflow.app.config.settings import ReconnectSettings
from mqflow.app.errors import ConfigurationError
from mqflow.policy.channels.client_ini import ClientConfiguration, ClientConfigurationError
from mqflow.policy.reconnect.delays import LADDER, Ladder
from mqflow.policy.reconnect.mode import (
    DefaultReconnect,
    ReconnectMode,
    ReconnectOption,
    ReconnectOptionError,
    default_reconnect,
    from_jms,
    reconnect_mode,
)
from mqflow.verbs import QueueManager

__all__ = ("Reconnection", "client_configuration", "mode_by_channel", "reconnection")


class Reconnection(Struct, frozen=True):
    """What the supervisor is told."""

    delays: Ladder
    limit_s: float | None
    mode: Callable[[], ReconnectMode]


def reconnection(settings: ReconnectSettings, queue_manager: QueueManager, configuration: ClientConfiguration) -> Reconnection:
    """Return how a lost connection is got back. Raises `ConfigurationError` for ANY with the name of one queue manager.

    What the settings leave open mqclient.ini says (ReconDelay, MQReconnectTimeout, DefRecon), and what that leaves open of the
    default the channel that was reached, where a table describes it.
    """
    by_channel = mode_by_channel(settings, queue_manager.name, configuration)

    def mode() -> ReconnectMode:
        return by_channel(getattr(queue_manager, "default_reconnect", DefaultReconnect.NO))

    return Reconnection(
        delays=settings.ladder if settings.delays else configuration.delays or LADDER,
        limit_s=configuration.reconnect_limit_s if settings.limit_s is None else settings.limit_s,
        mode=mode,
    )


def client_configuration() -> ClientConfiguration:
    """Return what mqclient.ini says. Raises `ConfigurationError` for one that says something that cannot be used."""
    from mqflow.app.channels.read_sources import read_client_configuration  # noqa: PLC0415 - only who reaches IBM MQ pays

    try:
        return read_client_configuration()
    except ClientConfigurationError as error:
        raise ConfigurationError(str(error)) from error


def mode_by_channel(
    settings: ReconnectSettings, queue_manager: str, configuration: ClientConfiguration
) -> Callable[[DefaultReconnect], ReconnectMode]:
    """Return the function from a channel's DEFRECON to what is done when a connection by it is lost."""
    option = _option(settings, queue_manager)

    def mode(channel: DefaultReconnect) -> ReconnectMode:
        return reconnect_mode(default_reconnect(configuration.default_reconnect, channel), option)

    return mode


def _option(settings: ReconnectSettings, queue_manager: str) -> ReconnectOption:
    try:
        return from_jms(settings.mode, queue_manager)
    except ReconnectOptionError as error:
        raise ConfigurationError(f"reconnect.mode: {error}") from error
