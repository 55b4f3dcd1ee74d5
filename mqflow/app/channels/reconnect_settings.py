"""The options for reconnecting: from the settings, otherwise from mqclient.ini, otherwise IBM MQ's defaults.

This file reads the settings, mqclient.ini and the DEFRECON of a channel. `policy` makes the decisions.
"""

from collections.abc import Callable

from mqflow.app.config.settings import ReconnectSettings
from mqflow.app.errors import ConfigurationError
from mqflow.policy.channels.client_ini import ClientConfiguration, ClientConfigurationError
from mqflow.policy.reconnect.delays import LADDER
from mqflow.policy.reconnect.mode import (
    DefaultReconnect,
    ReconnectMode,
    ReconnectOption,
    ReconnectOptionError,
    default_reconnect,
    from_jms,
    reconnect_mode,
)
from mqflow.runtime.connection.supervisor import Reconnection
from mqflow.verbs import QueueManager

__all__ = ("client_configuration", "mode_by_channel", "reconnection")


def reconnection(settings: ReconnectSettings, queue_manager: QueueManager, configuration: ClientConfiguration) -> Reconnection:
    """Return the options for reconnecting. Raises `ConfigurationError` for mode ANY with the name of one queue manager.

    If the settings do not set a value, it comes from mqclient.ini (ReconDelay, MQReconnectTimeout, DefRecon). If neither sets
    the mode, it comes from the channel of the connection, if a channel table describes this channel.
    """
    by_channel = mode_by_channel(settings, queue_manager.name, configuration)

    def mode() -> ReconnectMode:
        # Only a queue manager from a channel table has this attribute, and its module is imported only for such a table.
        return by_channel(getattr(queue_manager, "default_reconnect", DefaultReconnect.NO))

    return Reconnection(
        delays=settings.ladder if settings.delays else configuration.delays or LADDER,
        limit_s=configuration.reconnect_limit_s if settings.limit_s is None else settings.limit_s,
        start_limit_s=settings.start_limit_s or 0.0,
        mode=mode,
    )


def client_configuration() -> ClientConfiguration:
    """Return the values of mqclient.ini. Raises `ConfigurationError` for a value that cannot be used."""
    from mqflow.app.channels.source_reader import read_client_configuration  # noqa: PLC0415 - loaded only for IBM MQ

    try:
        return read_client_configuration()
    except ClientConfigurationError as error:
        raise ConfigurationError(str(error)) from error


def mode_by_channel(
    settings: ReconnectSettings, queue_manager: str, configuration: ClientConfiguration
) -> Callable[[DefaultReconnect], ReconnectMode]:
    """Return a function that receives the DEFRECON of a channel, and returns the mode of reconnection for its connections."""
    option = _option(settings, queue_manager)

    def mode(channel: DefaultReconnect) -> ReconnectMode:
        return reconnect_mode(default_reconnect(configuration.default_reconnect, channel), option)

    return mode


def _option(settings: ReconnectSettings, queue_manager: str) -> ReconnectOption:
    try:
        return from_jms(settings.mode, queue_manager)
    except ReconnectOptionError as error:
        raise ConfigurationError(f"reconnect.mode: {error}") from error
