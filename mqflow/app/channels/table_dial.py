"""Connects to IBM MQ by the channels of a channel table (CCDT), if mqflow itself chooses the channel.

With pymqi, mqflow always chooses, because pymqi cannot pass a table to IBM's client. If IBM's client itself must find the
channel, for example in a binary table, mqflow chooses nothing.

This file makes the connect options for a table entry. `policy.channels` decides where the channels come from, which entries are
tried, and in which order.
"""

import logging
import os
import platform
from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from mqflow.app.channels.source_reader import Tables
from mqflow.app.channels.table_queue_manager import TableQueueManager
from mqflow.app.errors import ConfigurationError
from mqflow.bindings.connect_options import ClientPackageError, ConnectOptions
from mqflow.bindings.dialects.base import Dialect
from mqflow.bindings.queue_manager import BoundQueueManager
from mqflow.policy.channels.candidates import Candidate, connect_name
from mqflow.policy.channels.client_ini import ClientConfiguration
from mqflow.policy.channels.sources import Choice, DefinedBy, Given, Origin, TableAt, choose
from mqflow.policy.channels.table import ChannelTableError
from mqflow.policy.reconnect.mode import DefaultReconnect, ReconnectMode
from mqflow.verbs import Connection
from mqflow.world import SYSTEM_RANDOM, Clock

__all__ = ("by_table", "channel_options", "readable_choice")

_LOG: Final = logging.getLogger("mqflow")
_UNPROTECTED: Final = (
    "The channel %s to %s has no TLS, although tls.key_repository is set: its table entry has no cipherSpecification, and "
    "tls.cipher_spec is not set."
)


def by_table(
    dialect: Dialect,
    options: ConnectOptions,
    choice: Choice,
    *,
    clock: Clock,
    mode: Callable[[DefaultReconnect], ReconnectMode],
    http_allowed: bool = False,
) -> TableQueueManager:
    """Return the queue manager of the table or of the single channel. It connects with the client package of `dialect`.

    Raises `ClientPackageError` for options that the package does not support, and for TLS settings without a cipher spec.
    """
    dialect.check(replace(options, ccdt_url=""))
    if isinstance(choice, DefinedBy) and options.key_repository and not options.cipher_spec:
        raise ClientPackageError(
            f"{choice.origin.value} has no TLS, and tls.key_repository has no effect without tls.cipher_spec: set it too, for "
            "example ANY_TLS12_OR_HIGHER."
        )
    warned: set[str] = set()

    def dial(attempt: Candidate, *, application_name: str, user: str) -> Connection:
        channel_only = channel_options(options, attempt)
        if channel_only.key_repository and not channel_only.cipher_spec and channel_only.channel not in warned:
            warned.add(channel_only.channel)
            _LOG.warning(_UNPROTECTED, channel_only.channel, channel_only.connection_name)
        return BoundQueueManager(dialect, channel_only, clock=clock).connect(application_name=application_name, user=user)

    return TableQueueManager(
        options.queue_manager,
        Tables(choice, name=options.queue_manager, http_allowed=http_allowed, clock=clock),
        dial,
        random=SYSTEM_RANDOM,
        host=platform.node(),
        mode=mode,
        warn=_LOG.warning,
    )


def channel_options(options: ConnectOptions, attempt: Candidate) -> ConnectOptions:
    """Return the connect options for an attempt: with the channel, the address and the TLS values of its table entry.

    The name of a group becomes an asterisk, because IBM's client does not know the groups of the table.
    """
    channel, target = attempt.channel, connect_name(options.queue_manager)
    return replace(
        options,
        ccdt_url="",
        queue_manager=target.queue_manager if target.name_checked else "*",
        channel=channel.name,
        hosts=((attempt.address.host, attempt.address.port),),
        cipher_spec=channel.cipher_specification or options.cipher_spec,
        certificate_label=channel.certificate_label or options.certificate_label,
        peer_name=channel.certificate_peer_name or options.peer_name,
        heartbeat_s=channel.heartbeat_s,
        keep_alive_s=channel.keep_alive_s,
        sharing_conversations=channel.sharing_conversations,
        message_bytes_max=channel.message_bytes_max,
        local_address=channel.local_address,
        header_compression=channel.header_compression,
    )


def readable_choice(
    options: ConnectOptions, package: str, configuration: ClientConfiguration, environment: Mapping[str, str] | None = None
) -> Choice | None:
    """Return the table or channel that mqflow uses; None if IBM's client must find the channel.

    pymqi cannot pass a table to IBM's client, so mqflow uses the table of the URL itself. If the URL has no host and no table,
    `policy.channels.sources` chooses: MQSERVER, or a JSON table. MQCCDTURL, or MQCHLLIB and MQCHLTAB, or mqclient.ini give the
    place of the table. Raises `ConfigurationError` for an invalid MQSERVER.
    """
    if options.ccdt_url:
        return TableAt(options.ccdt_url, Origin.URL) if package == "pymqi" else None
    if options.hosts or options.binding == "local":
        return None
    try:
        choice = choose(Given(environment=os.environ if environment is None else environment, configuration=configuration))
    except ChannelTableError as error:
        raise ConfigurationError(str(error)) from error
    match choice:
        case DefinedBy():
            return choice
        case TableAt(location=location) if location.partition("?")[0].lower().endswith(".json"):
            return choice
        case _:
            return None
