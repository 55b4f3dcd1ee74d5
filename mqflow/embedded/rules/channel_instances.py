"""The settings of a server-connection channel, and the decision whether one more client program can use it.

This file is pure: records, and decisions about them. It knows no socket and no queue manager.
Source: IBM, q015640 (server-connection channel limits), rc2537, rc2540; DEFINE CHANNEL: MAXINST, MAXINSTC, MAXMSGL, SHARECNV,
HBINT, MCAUSER, SSLCIPH, SSLCAUTH, SSLPEER; rc2393, rc2398, rc2399.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from msgspec import Struct
from msgspec.structs import replace

from mqflow.mqi.attributes.channel import ChannelType
from mqflow.mqi.reason_codes import Reason

__all__ = (
    "ChannelSettings",
    "ChannelStatus",
    "ListenerStatus",
    "NoChannel",
    "RunningChannel",
    "RunningListener",
    "settings_of",
    "why_not_as_stated",
    "why_not_one_more",
    "why_not_secure",
)

_TEMPLATE: Final = "SYSTEM.AUTO.SVRCONN"
_OF_THE_QUEUE_MANAGER: Final = frozenset({_TEMPLATE, "SYSTEM.DEF.SVRCONN"})
_UNLIMITED: Final = 999_999_999
_REQUIRED: Final = 0
"""MQSCA_REQUIRED."""
_COMMON_NAME: Final = re.compile(r'CN *= *(?:"(?P<quoted>[^"]+)"|(?P<plain>[^",+;=]+))', re.IGNORECASE)


class ChannelSettings(Struct, frozen=True, kw_only=True):
    """The settings of a server-connection channel for its client programs. None means that the listener decides."""

    name: str
    #: MCAUSER: the user of the connections; empty for the logged-in user.
    mca_user: str = ""
    #: MAXMSGL; 0 for the limit of the queue manager.
    message_bytes_max: int | None = None
    #: HBINT; 0 for no heartbeats.
    heartbeat_s: int | None = None
    #: SHARECNV; with 0 or 1, conversations share no socket.
    conversations_max: int | None = None
    #: MAXINST and MAXINSTC.
    instances_max: int = _UNLIMITED
    instances_per_client_max: int = _UNLIMITED
    #: SSLCIPH; if it is not empty, programs need TLS.
    cipher_spec: str = ""
    #: SSLCAUTH(REQUIRED): a program behind TLS needs a certificate with a common name.
    certificate_required: bool = False
    #: SSLPEER: the distinguished name in the certificate of a program; empty for any name.
    peer_name: str = ""

    @property
    def is_limited(self) -> bool:
        """True if the channel limits the number of its instances."""
        return min(self.instances_max, self.instances_per_client_max) < _UNLIMITED


class NoChannel(Struct, frozen=True):
    """The answer if there is no server-connection channel of this name."""

    name: str
    #: True if a channel of another type has this name.
    other_type: bool


class ChannelStatus(Struct, frozen=True, kw_only=True):
    """A running channel (DISPLAY CHSTATUS), or a stopped channel without a connection."""

    name: str
    #: CONNAME: the address of the client program.
    address: str = ""
    #: MQCHS_*: 3 running, 4 stopping, 6 stopped.
    status: int
    mca_user: str = ""
    application: str = ""
    #: CURSHCNV and MAXSHCNV.
    conversation_count: int = 0
    conversations_max: int = 0
    #: MSGS: the number of MQI calls of the client program.
    call_count: int = 0
    #: BYTSSENT, BYTSRCVD, BUFSSENT and BUFSRCVD: the bytes and the segments of the socket, without those of TLS.
    bytes_sent: int = 0
    bytes_received: int = 0
    buffers_sent: int = 0
    buffers_received: int = 0
    heartbeat_s: int = 0
    #: LSTMSGDA and LSTMSGTI: the time when the last MQI call was completed.
    last_call_s: float | None = None
    last_call_date: str = ""
    last_call_time: str = ""
    started_date: str = ""
    started_time: str = ""


class ListenerStatus(Struct, frozen=True, kw_only=True):
    """A running listener for client programs (DISPLAY LSSTATUS)."""

    name: str
    address: str
    port: int
    backlog: int
    process: int
    started_date: str = ""
    started_time: str = ""


class RunningChannel(Protocol):
    """The queue manager's end of a client program's socket."""

    def status(self) -> ChannelStatus:
        """Return the status. Its fields with dates and times as text are empty. Any thread can call this."""
        ...

    def end(self) -> None:
        """End the socket after the present call, and back out its units of work. Any thread can call this."""


class RunningListener(Protocol):
    """A listener for client programs."""

    def status(self) -> ListenerStatus:
        """Return the status. The date and the time of the start are empty."""
        ...

    def stop_listening(self) -> None:
        """Refuse new connections. Running channels continue."""

    def start_listening(self) -> None:
        """Accept connections again, at the same address. Raises `OSError` if the address is taken."""


# Any: the table of attributes gives each value its type.
def settings_of(name: str, channels: Iterable[Mapping[str, Any]], *, auto_defined: bool) -> ChannelSettings | NoChannel:
    """Return the settings of the channel that a client program asks for. `channels` has the values of all channel definitions.

    With `auto_defined` (CHAD), an undefined channel gets the settings of SYSTEM.AUTO.SVRCONN. Otherwise an undefined channel is
    refused if the administrator has defined any server-connection channel. If there is no such definition, every name is
    accepted, without limits.
    """
    kinds = {channel["name"]: channel for channel in channels if channel["kind"] != ChannelType.CLNTCONN}
    servers = {each: channel for each, channel in kinds.items() if channel["kind"] == ChannelType.SVRCONN}
    if name in servers:
        return _settings(servers[name], name)
    if name in kinds:
        return NoChannel(name, other_type=True)
    template = servers.get(_TEMPLATE)
    if auto_defined and template is not None:
        return _settings(template, name)
    return NoChannel(name, other_type=False) if servers.keys() - _OF_THE_QUEUE_MANAGER else ChannelSettings(name=name)


def why_not_one_more(
    settings: ChannelSettings, address: str, running: Collection[ChannelStatus], *, stopped: bool
) -> tuple[Reason, str] | None:
    """Return why no further instance of the channel can run for this client address, or None if it can.

    Running instances above a lowered limit continue.
    """
    if stopped:
        return Reason.CHANNEL_NOT_AVAILABLE, f"It is stopped: START CHANNEL({settings.name}) lets programs in again"
    instances = [each for each in running if each.name == settings.name]
    if len(instances) >= settings.instances_max:
        return Reason.CHANNEL_NOT_AVAILABLE, f"MAXINST({settings.instances_max}) is reached"
    if sum(each.address == address for each in instances) >= settings.instances_per_client_max:
        return Reason.CHANNEL_NOT_AVAILABLE, f"MAXINSTC({settings.instances_per_client_max}) is reached for {address}"
    return None


def why_not_secure(settings: ChannelSettings, common_names: Sequence[str] | None) -> tuple[Reason, str] | None:
    """Return why a program cannot use the channel with its TLS, or None if it can. Without SSLCIPH every program can.

    `common_names` are those in the certificate of the program; None without TLS. This function compares only the CN of SSLPEER;
    an asterisk at its end stands for any text. A channel whose SSLPEER has another form accepts no program.
    """
    if not settings.cipher_spec:
        return None
    if common_names is None:
        return Reason.SSL_INITIALIZATION_ERROR, f"SSLCIPH({settings.cipher_spec}) needs TLS, and the program has none"
    if settings.certificate_required and not common_names:
        return (
            Reason.SSL_INITIALIZATION_ERROR,
            "SSLCAUTH(REQUIRED) needs a certificate with a common name (CN), and the program has none",
        )
    return _why_another_name(settings.peer_name, common_names) if settings.peer_name else None


# Any: as in `settings_of`.
def why_not_as_stated(
    name: str, channels: Iterable[Mapping[str, Any]], common_names: Sequence[str] | None
) -> tuple[Reason, str] | None:
    """Return why a program that only states its TLS cannot use the channel of this name, or None if it can.

    `channels` has the values of all channel definitions. If none of them is a server-connection channel of this name, every
    program can. `common_names` is as in `why_not_secure`, but nobody has seen a certificate: SSLPEER is not checked.
    """
    found = next((each for each in channels if each["name"] == name and each["kind"] == ChannelType.SVRCONN), None)
    return None if found is None else why_not_secure(replace(_settings(found, name), peer_name=""), common_names)


def _why_another_name(peer_name: str, common_names: Sequence[str]) -> tuple[Reason, str] | None:
    found = _COMMON_NAME.fullmatch(peer_name.strip())
    if found is None:
        return Reason.SSL_PEER_NAME_ERROR, f"SSLPEER({peer_name}) is not of the form CN=NAME, and mqflow checks no other form"
    if len(common_names) == 1 and _is_named(common_names[0], found["quoted"] or found["plain"]):
        return None
    said = " and ".join(common_names) or "no name"
    return Reason.SSL_PEER_NAME_MISMATCH, f"SSLPEER({peer_name}) is not the name in the certificate, which has {said}"


def _is_named(name: str, wanted: str) -> bool:
    return name.startswith(wanted[:-1]) if wanted.endswith("*") else name == wanted


def _settings(values: Mapping[str, Any], name: str) -> ChannelSettings:
    return ChannelSettings(
        name=name,
        mca_user=values["mca_user"],
        message_bytes_max=values["max_message_bytes"],
        heartbeat_s=values["heartbeat_s"],
        conversations_max=values["sharing_conversations"],
        instances_max=values["instances_max"],
        instances_per_client_max=values["instances_per_client_max"],
        cipher_spec=values["cipher_spec"],
        certificate_required=values["client_authentication"] == _REQUIRED,
        peer_name=values["peer_name"],
    )
