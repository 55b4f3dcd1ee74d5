"""Serves a queue manager to MQ's own client programs, over TCP, to users with a password.

It accepts, bounds and ends sockets as the listener for mqflow's own protocol does, and is the same class.
"""

import ssl

from mqflow.embedded.channel.peer import ChannelPeer, Tap
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.server.contract import Arrival, Peers, Servable, ServedPeer
from mqflow.embedded.wire.server.listener import Room, Server, serve_tcp
from mqflow.embedded.wire.server.login import Login
from mqflow.embedded.wire.server.password_guard import PasswordGuard, Passwords
from mqflow.fap.negotiation import Offer
from mqflow.world import SYSTEM_CLOCK, SYSTEM_RANDOM, THREADS, Clock, Random, Runner

__all__ = ("serve_channel",)


def serve_channel(
    queue_manager: Servable,
    address: TcpAddress,
    passwords: Passwords,
    *,
    tls: ssl.SSLContext | None = None,
    runner: Runner = THREADS,
    clock: Clock = SYSTEM_CLOCK,
    room: Room | None = None,
    guard: PasswordGuard | None = None,
    offer: Offer | None = None,
    tap: Tap | None = None,
    random: Random = SYSTEM_RANDOM,
) -> Server:
    """Return a running listener for MQ's client programs. Port 0 means any free port.

    `tap` receives every flow. Raises `ServingError` for an address beyond this machine without TLS, and if the port is in use.
    """
    offered = offer or Offer(queue_manager=queue_manager.name, queue_manager_identifier=queue_manager.name)

    def peers_of(login: Login) -> Peers:
        said: set[str] = set()

        def peer(arrival: Arrival) -> ServedPeer:
            def once(sentence: str) -> None:
                if sentence not in said:
                    said.add(sentence)
                    arrival.complain(sentence)

            return ChannelPeer(queue_manager, arrival, login, offered, once, tap, random)

        return peer

    return serve_tcp(
        queue_manager, address, passwords, tls=tls, runner=runner, clock=clock, room=room, guard=guard, peers_of=peers_of
    )
