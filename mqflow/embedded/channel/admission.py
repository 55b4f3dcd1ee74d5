"""Decides the channel and the user of a client program, from the definitions and rules of channels.

The rules are pure functions in `embedded.rules`. This module reads the present definitions and records for each decision,
because an administrator can change them while programs are connected. This module knows no flow.
"""

from collections.abc import Callable
from typing import Final, Protocol

from msgspec.structs import replace

from mqflow.embedded.administration.channels import RunningChannels
from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.rules.channel_authentication import Connecting, address_blocks, admission
from mqflow.embedded.rules.channel_instances import ChannelSettings, NoChannel, settings_of
from mqflow.embedded.wire.server.contract import Servable, ServableConnection
from mqflow.embedded.wire.server.login import Login
from mqflow.fap.negotiation import Offer
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason

__all__ = ("ChannelRules", "ServableToClients", "offer_of")


class ServableToClients(Servable, Protocol):
    """A queue manager in this process, with the running channels of its client programs."""

    def connect(
        self,
        *,
        application_name: str = "",
        application_type: int = ...,
        user: str = "",
        process: int = 0,
        channel: str = "",
        address: str = "",
    ) -> ServableConnection:
        """Return a new connection. DISPLAY CONN shows its channel and address if it belongs to a client program."""
        ...

    @property
    def channels(self) -> RunningChannels:
        """The channels and listeners of client programs."""
        ...


class ChannelRules:
    """The definitions of channels and the channel authentication records of one queue manager."""

    def __init__(self, queue_manager: ServableToClients, login: Login, complain: Callable[[str], None]) -> None:
        self._queue_manager: Final = queue_manager
        self._login: Final = login
        self._complain: Final = complain

    def channel_of(self, name: str) -> ChannelSettings | NoChannel:
        """Return the channel that a program asks for. A channel with MAXMSGL(0) gets the MAXMSGL of the queue manager."""
        administration = self._administration
        attributes = administration.queue_manager
        values = (channel.values for channel in administration.objects.all("CHANNEL"))
        found = settings_of(name, values, auto_defined=attributes.channel_auto_definition)
        if isinstance(found, ChannelSettings) and found.message_bytes_max == 0:
            return replace(found, message_bytes_max=attributes.max_message_bytes)
        return found

    def lets_in(self, address: str) -> bool:
        """Return whether a program at this address may begin. If a record blocks the address, log the record."""
        administration = self._administration
        if not administration.queue_manager.channel_authentication:
            return True
        blocking = address_blocks(administration.channels.rules(), address)
        if blocking is not None and blocking.warn:
            self._complain(f"A channel authentication record would block {address}, but it has WARN(YES): {blocking.command}.")
        elif blocking is not None:
            self._complain(f"A channel authentication record blocks {address}: {blocking.command}.")
        return blocking is None or blocking.warn

    def user_on(self, channel: ChannelSettings, address: str, user: str) -> str:
        """Return the user of a connection: the logged-in user, or another user that a record or the channel sets.

        Raises `MQIError` 2035 if a record blocks the connection, and logs that record.
        """
        administration, asking = self._administration, Connecting(
            channel=channel.name, address=address, user=user, mca_user=channel.mca_user
        )  # fmt: skip
        checked = administration.queue_manager.channel_authentication
        decided = admission(administration.channels.rules() if checked else (), asking, self._queue_manager.administers)
        who = f"user {user!r} at {address} on channel {channel.name!r}"
        for rule in decided.warnings:
            self._complain(f"A channel authentication record would block {who}, but it has WARN(YES): {rule.command}.")
        if decided.blocked_by is not None:
            self._complain(f"A channel authentication record blocks {who} (2035): {decided.blocked_by.command}.")
            raise error_for(Reason.NOT_AUTHORIZED, "MQCONNX", detail=f"{decided.blocked_by.command} blocks {who}")
        if decided.user != user:
            self._login.check_user(decided.user)
        return decided.user

    @property
    def _administration(self) -> Administration:
        return self._queue_manager.administration_of(self._queue_manager.owner)


def offer_of(channel: ChannelSettings, offer: Offer) -> Offer:
    """Return the listener's offer for the negotiation, reduced to this channel's limits, with its heartbeat interval."""

    def lower(own: int, defined: int | None) -> int:
        return own if defined is None else min(own, defined)

    return replace(
        offer,
        message_bytes_max=lower(offer.message_bytes_max, channel.message_bytes_max),
        conversations_max=lower(offer.conversations_max, channel.conversations_max),
        heartbeat_s=offer.heartbeat_s if channel.heartbeat_s is None else channel.heartbeat_s,
    )
