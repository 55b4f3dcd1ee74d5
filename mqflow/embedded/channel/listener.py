"""Serves a queue manager over TCP to MQ's own client programs. Their users log in with a password.

The class `Server` accepts, limits and ends the sockets, as it does for mqflow's own protocol.
"""

import os
import ssl
from typing import Final

from mqflow.embedded.channel.admission import ServableToClients
from mqflow.embedded.channel.peer import ChannelPeer, Tap
from mqflow.embedded.rules.channel_instances import ListenerStatus
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.server.contract import Arrival, Peers, ServedPeer
from mqflow.embedded.wire.server.listener import BACKLOG, Room, Server, serve_tcp
from mqflow.embedded.wire.server.login import Login
from mqflow.embedded.wire.server.password_guard import PasswordGuard, Passwords
from mqflow.embedded.wire.server.strangers import StrangerLimits
from mqflow.fap.negotiation import Offer
from mqflow.world import SYSTEM_WORLD, World

__all__ = ("serve_channel",)

_DEFAULT_NAME: Final = "SYSTEM.DEFAULT.LISTENER.TCP"
_TCP: Final = 2


class _Listener:
    """A running server in the form that START LISTENER, STOP LISTENER and DISPLAY LSSTATUS use."""

    def __init__(self, name: str, server: Server, address: TcpAddress) -> None:
        self._name = name
        self._server = server
        self._address = address

    def status(self) -> ListenerStatus:
        """Return the status, without the date and time of the start."""
        return ListenerStatus(
            name=self._name, address=self._address.host, port=self._address.port, backlog=BACKLOG, process=os.getpid()
        )

    def stop_listening(self) -> None:
        """Refuse new connections. Running channels continue."""
        self._server.stop_listening()

    def start_listening(self) -> None:
        """Accept connections again, at the same address. Raises `OSError` if the address is taken."""
        self._server.start_listening()


def serve_channel(
    queue_manager: ServableToClients,
    address: TcpAddress,
    passwords: Passwords,
    *,
    tls: ssl.SSLContext | None = None,
    world: World = SYSTEM_WORLD,
    room: Room | None = None,
    guard: PasswordGuard | None = None,
    tap: Tap | None = None,
    strangers: StrangerLimits | None = None,
) -> Server:
    """Return a running listener for MQ's client programs. Port 0 means any free port.

    `tap` receives all bytes. Raises `ServingError` if the port is in use, or if other machines can reach the address and `tls`
    is None.
    """
    offered = Offer(queue_manager=queue_manager.name, queue_manager_identifier=queue_manager.name)

    def peers_of(login: Login) -> Peers:
        def peer(arrival: Arrival) -> ServedPeer:
            return ChannelPeer(queue_manager, arrival, login, offered, tap, world.random)

        return peer

    channels = queue_manager.channels
    server = serve_tcp(
        queue_manager,
        address,
        passwords,
        tls=tls,
        world=world,
        room=room,
        guard=guard,
        peers_of=peers_of,
        when_closed=lambda: channels.listens_no_more(listener),
        strangers=strangers,
    )
    bound = server.address if isinstance(server.address, TcpAddress) else address
    listener = _Listener(_name_of(queue_manager, bound), server, bound)
    channels.listens(listener)
    return server


def _name_of(queue_manager: ServableToClients, address: TcpAddress) -> str:
    """Return the name of the LISTENER object with this port and address, or the name of the default object."""
    for defined in queue_manager.administration_of(queue_manager.owner).objects.all("LISTENER"):
        values = defined.values
        if (values["transport"], values["port"]) == (_TCP, address.port) and values["address"] in {"", address.host}:
            return defined.name
    return _DEFAULT_NAME
