"""The structures of MQCONNX: MQCD, MQSCO, and the fields of MQCNO and MQCSP.

Each connection reads its secrets again, and overwrites their copies in memory after MQCONNX. This file knows no package.
"""

import ctypes
import struct
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from mqflow.bindings.connect_options import ClientPackageError, ConnectOptions, ReadSecret
from mqflow.bindings.structures import MQCD, MQSCO
from mqflow.mqi.names import OBJECT_NAME_CHARS_MAX

__all__ = ("Prepared",)

_LATIN: Final = "latin-1"
_CONNECTION_NAME_CHARS: Final = 264
_LOCAL_ADDRESS_CHARS: Final = 48
_CHANNEL_CHARS: Final = 20
_CIPHER_CHARS: Final = 32
_LABEL_CHARS: Final = 64
_KEY_REPOSITORY_BYTES: Final = 256
_COMPRESSIONS: Final = {"none": 0, "system": 8}
"""MQCOMPRESS_*, for the words of a channel table."""
_NO_MORE: Final = -1


class Prepared:
    """The arguments of MQCONNX, valid within the `with` block; its end overwrites the secrets.

    Raises `ClientPackageError` for an unreadable secret, or a value that is too long.
    """

    def __init__(self, options: ConnectOptions, application_name: str = "", user: str = "") -> None:
        self._kept: list[ctypes.Array[ctypes.c_char]] = []
        self.name: Final = _field("queue manager", options.queue_manager, OBJECT_NAME_CHARS_MAX).ljust(OBJECT_NAME_CHARS_MAX)
        self.options: Final = options.cno_options
        self.application_name: Final = application_name.encode(_LATIN, "replace")[:28]
        self.ccdt_url: Final = _table_url(options.ccdt_url).encode()
        # The password belongs to one user, so no other user gets it.
        own = user in {"", options.user}
        self.user: Final = (user or options.user).encode()
        self.password: Final = _secret("password", options.password) if own and options.password else b""
        self.token: Final = _secret("token", options.token) if own and options.token else b""
        self.channel: Final = self._channel(options)
        self.tls: Final = self._tls(options)

    def pointer(self, value: bytes) -> int:
        """Return the address of a copy of the value that lives as long as this object; 0 for an empty value."""
        if not value:
            return 0
        self._kept.append(ctypes.create_string_buffer(value))
        return ctypes.addressof(self._kept[-1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for kept in self._kept:
            ctypes.memset(kept, 0, len(kept))

    def _channel(self, options: ConnectOptions) -> bytes | None:
        if not options.channel:
            return None
        peer_name = options.peer_name.encode()
        return MQCD.pack(
            ChannelName=_field("channel", options.channel, _CHANNEL_CHARS),
            ConnectionName=_connection_name(options),
            MaxMsgLength=options.message_bytes_max,
            HeartbeatInterval=options.heartbeat_s,
            KeepAliveInterval=options.keep_alive_s,
            SharingConversations=options.sharing_conversations,
            LocalAddress=_field("local address", options.local_address, _LOCAL_ADDRESS_CHARS),
            HdrCompList=_compression(options.header_compression),
            SSLCipherSpec=_field("cipher spec", options.cipher_spec, _CIPHER_CHARS),
            SSLPeerNamePtr=self.pointer(peer_name),
            SSLPeerNameLength=len(peer_name),
            CertificateLabel=_field("certificate label", options.certificate_label, _LABEL_CHARS),
        )

    def _tls(self, options: ConnectOptions) -> bytes | None:
        if not (options.key_repository or options.certificate_label or options.key_repository_password):
            return None
        password = (
            _secret("key repository password", options.key_repository_password) if options.key_repository_password else b""
        )
        return MQSCO.pack(
            Version=6 if password else 5,  # only the password needs version 6, which needs a client of IBM MQ 9.3
            KeyRepository=_field("key repository", options.key_repository, _KEY_REPOSITORY_BYTES, "utf-8"),
            CertificateLabel=_field("certificate label", options.certificate_label, _LABEL_CHARS),
            KeyRepoPasswordPtr=self.pointer(password),
            KeyRepoPasswordLength=len(password),
        )


def _secret(what: str, read: ReadSecret) -> bytes:
    try:
        return read().encode()
    except UnicodeError as error:  # the error holds the secret itself
        raise ClientPackageError(f"The {what} is not text: {error.__class__.__name__}.") from None
    except (OSError, ValueError) as error:  # ValueError: the path has a NUL
        raise ClientPackageError(f"The {what} cannot be read: {error}.") from error


def _table_url(said: str) -> str:
    """Return the URL of a channel table; IBM's client does not accept a path."""
    return said if not said or ":" in said.partition("/")[0] else Path(said).absolute().as_uri()


def _field(what: str, text: str, room: int, encoding: str = _LATIN) -> bytes:
    """Return the characters of a field. Raises `ClientPackageError` if the text is too long: a cut text is another value."""
    try:
        said = text.encode(encoding)
    except UnicodeEncodeError as error:
        raise ClientPackageError(
            f"The {what} {text!r} contains {text[error.start]!r}, and MQ has no such character."
        ) from error
    if len(said) > room:
        raise ClientPackageError(f"The {what} {text!r} has {len(said)} bytes, and MQ has room for {room}.")
    return said


def _compression(words: tuple[str, ...]) -> bytes:
    """Return HdrCompList: up to two of the known compressions, or none."""
    known = [_COMPRESSIONS[word] for word in words if word in _COMPRESSIONS] or [_COMPRESSIONS["none"]]
    first, second, *_ = (*known, _NO_MORE)
    return struct.pack("2i", first, second)


def _connection_name(options: ConnectOptions) -> bytes:
    try:
        return _field("connection name", options.connection_name, _CONNECTION_NAME_CHARS)
    except ClientPackageError as error:
        raise ClientPackageError(f"{error} Name fewer hosts, or shorter ones, or use a CCDT.") from error
