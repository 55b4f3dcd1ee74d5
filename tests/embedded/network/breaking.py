"""Breaks the wire under every call at the same time, between a served queue manager and its applications on one machine."""

import contextlib
import threading
from typing import Final

from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.embedded.wire.protocol.addresses import TcpAddress
from mqflow.embedded.wire.server.listener import serve_tcp
from tests.embedded.network.calls_under_way import Everybody, all_at_once, cases, gone
from tests.embedded.network.proxy import Break, Wire

__all__ = ("SHORT_S", "break_over")

SHORT_S: Final = 0.4
"""The silence, in seconds, after which a peer counts as dead here."""


def break_over(owner: EmbeddedQueueManager, how: Break) -> tuple[Wire, dict[str, int]]:
    """Break the wire under every call. Return the wire and the reasons, after the queue manager closed all handles."""
    with contextlib.ExitStack() as opened:
        server = opened.enter_context(serve_tcp(owner, TcpAddress("127.0.0.1", 0), Everybody(), silence_s=SHORT_S))
        assert isinstance(server.address, TcpAddress)
        wire = opened.enter_context(Wire(server.address.port))
        made = cases(TcpAddress("127.0.0.1", wire.port), "secret", silence_s=SHORT_S)
        for case in made.values():
            opened.callback(case.manager.close)
        wire.fail(how)
        reasons = all_at_once(made, 20 * SHORT_S)
        while server.connection_count or not gone(owner):  # if connections stay, the time limit of the caller ends the loop
            threading.Event().wait(0.01)
    return wire, reasons
