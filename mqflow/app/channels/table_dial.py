"""IBM MQ by a channel table that is read here: for pymqi, which cannot hand one to IBM's client.

Knows what an entry of a table says to a connection; the order of attempts is decided below, and so is what is left out.
"""

import logging
import platform
from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from mqflow.app.channels.read_sources import Tables
from mqflow.app.channels.table_queue_manager import TableQueueManager
from mqflow.bindings.connect_options import ConnectOptions
from mqflow.bindings.dialects.base import Dialect
from mqflow.bindings.errors import ClientPackageError
from mqflow.bindings.queue_manager import BoundQueueManager
from mqflow.policy.channels.candidates import Candidate, connect_name
from mqflow.policy.channels.sources import Choice, DefinedBy
from mqflow.policy.reconnect.mode import DefaultReconnect, ReconnectMode
from mqflow.verbs import Connection
from mqflow.world import SYSTEM_RANDOM, Clock

__all__ = ("by_table", "channel_options")

_LOG: Final = logging.getLogger("mqflow")
_UNPROTECTED: Final = (
    "%s to %s goes without TLS, although tls.key_repository is set: its entry has no cipherSpecification, and tls.cipher_spec "
    "is not set."
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
    """Return the queue manager that the table, or the one channel, leads to, through the package.

    Raises `ClientPackageError` for what the package cannot ask for, and for TLS settings without which nothing is encrypted.
    """
    dialect.check(replace(options, ccdt_url=""))
    if isinstance(choice, DefinedBy) and options.key_repository and not options.cipher_spec:
        raise ClientPackageError(
            f"{choice.origin.value} says nothing of TLS, and tls.key_repository without tls.cipher_spec is not used: set it "
            "too, ANY_TLS12_OR_HIGHER say."
        )
    told: set[str] = set()

    def dial(attempt: Candidate, *, application_name: str, user: str) -> Connection:
        towards = channel_options(options, attempt)
        if towards.key_repository and not towards.cipher_spec and towards.channel not in told:
            told.add(towards.channel)
            _LOG.warning(_UNPROTECTED, towards.channel, towards.connection_name)
        return BoundQueueManager(dialect, towards, clock=clock).connect(application_name=application_name, user=user)

    return TableQueueManager(
        options.queue_manager,
        Tables(choice, name=options.queue_manager, http_allowed=http_allowed, clock=clock),
        dial,
        random=SYSTEM_RANDOM,
        host=platform.node(),
        mode=mode,
        trouble=_LOG.warning,
    )


def channel_options(options: ConnectOptions, attempt: Candidate) -> ConnectOptions:
    """Return how to connect by this attempt: its channel and address, what it says of both, and its word on TLS if it has one.

    A name that need not be that of the queue manager becomes an asterisk: the group's name is the table's business.
    """
    channel, asked = attempt.channel, connect_name(options.queue_manager)
    return replace(
        options,
        ccdt_url="",
        queue_manager=asked.queue_manager if asked.name_checked else "*",
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
