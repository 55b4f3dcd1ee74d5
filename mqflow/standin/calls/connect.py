"""MQCONN, MQCONNX and MQDISC on a caller's structures.

Source: IBM, MQCONNX and MQDISC; rc2046, rc2058.
"""

from typing import Final

from mqflow.mqi.c_structures import MQCD, MQCNO, MQCSP, MQSCO, Layout
from mqflow.mqi.errors import error_for
from mqflow.mqi.reason_codes import Reason
from mqflow.standin.host import ConnectRequest, Hconn, Host, Sharing, Values, text_of
from mqflow.standin.memory.structures import Structure, structure_at, text_at, write_number

__all__ = ("NOT_CONNECTED", "connect", "connect_with_options", "disconnect")

NOT_CONNECTED: Final = -1
"""MQHC_UNUSABLE_HCONN; also the value of a handle after its end."""

_NAME_CHARS: Final = 48
_SHARE_BITS: Final = 0xE0
_CLIENT_BINDING: Final = 0x800


def connect(host: Host, name_at: int, hconn_at: int, *, client: bool) -> int:
    """MQCONN: connect with the default options."""
    request = ConnectRequest(queue_manager=text_at(name_at, _NAME_CHARS))
    hconn, reason = host.connect(request, Sharing.NONE, local=not client)
    write_number(hconn_at, hconn.number)
    return reason


def connect_with_options(host: Host, name_at: int, options_at: int, hconn_at: int, *, client: bool) -> int:
    """MQCONNX: connect with the options of the MQCNO. Every channel leads to the queue manager of this process."""
    cno = structure_at(MQCNO, options_at, "MQCONNX")
    options = cno.number("Options")
    shared = [sharing for sharing in Sharing if options & sharing.value]
    if len(shared) > 1:
        detail = f"MQCNO options 0x{options & _SHARE_BITS:x}: only one of MQCNO_HANDLE_SHARE_* is allowed"
        raise error_for(Reason.OPTIONS_ERROR, "MQCONNX", detail=detail)
    channel = _given(MQCD, cno.place("ClientConnPtr", "ClientConnOffset"), ("SSLPeerName",))
    request = ConnectRequest(
        queue_manager=text_at(name_at, _NAME_CHARS),
        options=options,
        application_name=cno.text("ApplName"),
        ccdt_url=text_of(cno.pointed("CCDTUrl")),
        channel=channel,
        tls=_given(MQSCO, cno.place("SSLConfigPtr", "SSLConfigOffset"), ("KeyRepoPassword", "HTTPSKeyStore")),
        security=_given(
            MQCSP, cno.place("SecurityParmsPtr", "SecurityParmsOffset"), ("CSPUserId", "CSPPassword", "InitialKey", "Token")
        ),
    )
    # With a channel it is a client connection, also without the bit: ibmmq packs the options before it sets the bit.
    client = client or bool(options & _CLIENT_BINDING) or bool(channel)
    hconn, reason = host.connect(request, shared[0] if shared else Sharing.NONE, local=not client)
    cno.set(ConnectionId=f"AMQC{host.queue_manager.name:<12.12}".encode() + hconn.number.to_bytes(8, "big"))
    write_number(hconn_at, hconn.number)
    return reason


def disconnect(host: Host, hconn_at: int, number: int) -> int:
    """MQDISC: end the connection, and **commit its unit of work**, as IBM MQ does. The handles of the connection end too."""
    hconn = host.hconn(number, "MQDISC")
    if hconn.consumers is not None:
        with hconn.used("MQDISC", controls=True):
            hconn.consumers.stop()
    with hconn.used("MQDISC"):
        host.forget(hconn)
        write_number(hconn_at, NOT_CONNECTED)
        given_up = give_up_unit(hconn)
        hconn.connection.disconnect()
    return Reason.BACKED_OUT if given_up else Reason.NONE


def give_up_unit(hconn: Hconn) -> bool:
    """Back out the unit of work if an asynchronous put in it failed; return whether this happened (2003 as a warning)."""
    failed, hconn.unit_failed = hconn.unit_failed, False
    if failed:
        hconn.connection.backout()
    return failed


def _given(layout: Layout, address: int, pointers: tuple[str, ...]) -> Values:
    if not address:
        return {}
    found: Structure = structure_at(layout, address, "MQCONNX")
    return found.values() | {name: _behind(found, name) for name in pointers if f"{name}Ptr" in found.values()}


def _behind(structure: Structure, name: str) -> bytes:
    if f"{name}Offset" in structure.layout.fields:
        return structure.pointed(name)
    address, length = structure.number(f"{name}Ptr"), structure.number(f"{name}Length")
    return text_at(address, length).encode() if address else b""
