"""The flows of a connection that are not verbs: log-in, state of the channel, and conversations on a shared socket.

Source: Wireshark's layouts; the flows of IBM's JMS classes.
"""

from enum import IntEnum
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.fap.fields import FlowError, Reader, Writer
from mqflow.fap.transmission_segments import ONLY, Flow, Header, SegmentType

__all__ = ("Credentials", "SocketAction", "SocketActionType", "Status", "StatusCode", "heartbeat")

_PASSWORD: Final = 1
_LENGTH_MAX: Final = 1024


class Credentials(Struct, frozen=True):
    """A user and a password from the client."""

    user: str
    password: str

    def __repr__(self) -> str:
        return f"Credentials({self.user!r})"

    @classmethod
    def of_user_data(cls, reader: Reader) -> "Credentials":
        """Read the user data (UID): user and password of a client that sends no MQCSP."""
        reader.identifier(b"UID ")
        user, password = reader.text(12), reader.text(12)
        return cls(reader.text(64) or user if reader.left >= 64 else user, password)  # noqa: PLR2004 - the long user name

    @classmethod
    def of_authentication(cls, reader: Reader) -> "Credentials":
        """Read the user and the password from the MQCSP in a CAUT flow. Raises `FlowError` for any other authentication."""
        reader.identifier(b"CAUT")
        if (kind := reader.number()) != _PASSWORD:
            raise FlowError(f"the authentication has the type {kind}; only user and password (1) are served")
        reader.raw(8)
        user_bytes, password_bytes = reader.count(_LENGTH_MAX), reader.count(_LENGTH_MAX)
        try:
            return cls(reader.raw(user_bytes).decode(), reader.raw(password_bytes).decode())
        except UnicodeDecodeError as error:
            raise FlowError("user and password are not UTF-8") from error


class StatusCode(IntEnum):
    """The codes of a status."""

    NONE = 0
    NO_CHANNEL = 1
    WRONG_CHANNEL_TYPE = 2
    QUEUE_MANAGER_UNAVAILABLE = 3
    QUEUE_MANAGER_TERMINATING = 5
    USER_CLOSED = 7
    PROTOCOL_SEGMENT_TYPE = 10
    PROTOCOL_GENERAL = 16
    SECURITY_FAILURE = 20
    CCSID_NOT_SUPPORTED = 240


class Status(Struct, frozen=True):
    """STATUS: reports the end of a step, or of the channel."""

    code: int
    #: A reason code, or 0.
    value: int = 0

    def flow(self, header: Header, flags: int) -> Flow:
        """Return the flow of this status."""
        writer = Writer(header.order)
        if self.value:
            writer.number(12, self.code, self.value)
        else:
            writer.number(8, self.code)
        sent = Header(
            kind=SegmentType.STATUS, flags=flags, conversation=header.conversation, request=header.request, order=header.order
        )
        return Flow(sent, writer.done())


class SocketActionType(IntEnum):
    """The actions of a client on the conversations of its socket."""

    START = 1
    END = 2
    STARTED = 8


class SocketAction(Struct, frozen=True):
    """SOCKET_ACTION: starts or ends a conversation."""

    conversation: int
    request: int
    kind: int
    first: int
    second: int

    @classmethod
    def read(cls, reader: Reader) -> "SocketAction":
        """Read the structure."""
        return cls(*(reader.number() for _ in range(5)))

    def started(self, header: Header) -> Flow:
        """Return the reply to the start of a conversation."""
        sent = Header(
            kind=SegmentType.SOCKET_ACTION, flags=0, conversation=self.conversation, request=self.request, order=header.order
        )
        values = (self.conversation, self.request, SocketActionType.STARTED, self.first, self.second)
        return Flow(sent, Writer(header.order).number(*values).done())


def heartbeat(header: Header) -> Flow:
    """Return the reply to a heartbeat."""
    return Flow(replace(header, flags=ONLY), b"")
