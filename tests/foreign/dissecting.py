"""Passes messages to Wireshark's dissector of IBM MQ, as a recorded MQPUT to port 1414, and whole conversations of clients.

Knows the layers around a message (IP, TCP, the transmission segment, the call and its options), not its bytes. The program
tshark is separate (Debian: `apt-get install tshark`). Without it the tests skip. Source of the layers: Wireshark's field
names, and their values in its dissector.
"""

import shutil
import struct
import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

__all__ = ("TSHARK", "Conversations", "Message", "dissect", "wrong_conversations")

TSHARK: Final = shutil.which("tshark")

_PORT: Final = 1414
_RAW_IP: Final = 101
_CLIENT_PORT: Final = 20_000
#: A segment begins with an identifier and its length, of four bytes each.
_LENGTH_END: Final = 8
_FILE_HEAD: Final = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 2**18, _RAW_IP)
_MQPUT: Final = 0x86
_FIRST_AND_LAST: Final = 0x30
_LITTLE_ENDIAN: Final = 2
_BIG_ENDIAN: Final = 1
# A character that no field can have, so it can separate fields.
_BETWEEN_FIELDS: Final = "\x1e"
_BETWEEN_VALUES: Final = "\x1f"


class Message(Struct, frozen=True):
    """The message that is put: an MQMD and the data behind it."""

    descriptor: bytes
    body: bytes
    #: The byte order of the numbers in the MQMD, which the channel negotiated.
    little_endian: bool = True


def dissect(messages: Sequence[Message], fields: Sequence[str], folder: Path) -> list[dict[str, list[str]]]:
    """Return for each message all values that Wireshark finds for each field, in the order of the bytes."""
    recorded = folder / "put.pcap"
    recorded.write_bytes(_capture(messages))
    options = [f"separator={_BETWEEN_FIELDS}", "occurrence=a", f"aggregator={_BETWEEN_VALUES}"]
    command = [str(TSHARK), "-r", str(recorded), "-d", f"tcp.port=={_PORT},mq", "-T", "fields"]
    command += [part for option in options for part in ("-E", option)]
    command += [part for field in fields for part in ("-e", field)]
    shown = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.removesuffix("\n").split("\n")
    assert len(messages) == len(lines), shown.stderr
    return [dict(zip(fields, (_values(text) for text in line.split(_BETWEEN_FIELDS)), strict=True)) for line in lines]


class Conversations:
    """Keeps the bytes of each socket of a listener, whose sockets have a thread each."""

    def __init__(self) -> None:
        #: The name of a test and the segments of one socket, each with whether the client sent it.
        self.kept: dict[tuple[str, threading.Thread], list[tuple[bool, bytes]]] = {}
        self._waiting: dict[tuple[str, threading.Thread, bool], bytearray] = {}

    def tap(self, name: str) -> Callable[[bool, bytes], None]:
        """Return a tap for `serve_channel` that keeps the segments under a name."""

        def heard(from_client: bool, data: bytes) -> None:  # noqa: FBT001 - as the listener calls it
            thread = threading.current_thread()
            segments = self.kept.setdefault((name, thread), [])
            waiting = self._waiting.setdefault((name, thread, from_client), bytearray())
            waiting += data
            while len(waiting) >= _LENGTH_END and len(waiting) >= (length := int.from_bytes(waiting[4:_LENGTH_END])):
                segments.append((from_client, bytes(waiting[:length])))
                del waiting[:length]

        return heard


def wrong_conversations(conversations: Conversations, folder: Path) -> list[str]:
    """Return the names of the conversations in which Wireshark finds a malformed frame, or not every segment."""
    recorded = folder / "conversations.pcap"
    named = {_CLIENT_PORT + number: name for number, (name, _) in enumerate(conversations.kept)}
    left: Counter[int] = Counter()
    with recorded.open("wb") as capture:
        capture.write(_FILE_HEAD)
        for client_port, segments in zip(named, conversations.kept.values(), strict=True):
            sent = {True: 1, False: 1}
            for from_client, segment in segments:
                ports = (client_port, _PORT) if from_client else (_PORT, client_port)
                capture.write(_tcp_packet(segment, *ports, sent[from_client], sent[not from_client]))
                sent[from_client] += len(segment)
                left[client_port] += 1
    command = [str(TSHARK), "-r", str(recorded), "-d", f"tcp.port=={_PORT},mq", "-T", "fields", "-E", "occurrence=a"]
    command += [part for field in ("tcp.srcport", "tcp.dstport", "_ws.malformed", "mq.tsh.type") for part in ("-e", field)]
    malformed = set[int]()
    for line in subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines():
        source, target, bad, types = line.split("\t")
        client_port = max(int(source), int(target))
        left[client_port] -= len(types.split(",")) if types else 0  # a flow of several segments counts once more
        malformed |= {client_port} if bad else set()
    return [f"{name}: {left[port]} segments not seen" for port, name in named.items() if left[port] > 0 or port in malformed]


def _values(text: str) -> list[str]:
    return text.split(_BETWEEN_VALUES) if text else []


def _capture(messages: Sequence[Message]) -> bytes:
    return _FILE_HEAD + b"".join(_packet(message, source_port=20_000 + index) for index, message in enumerate(messages))


def _packet(message: Message, *, source_port: int) -> bytes:
    """Return a packet in a conversation of its own, so that Wireshark does not join two messages."""
    return _tcp_packet(_segment(message), source_port, _PORT, 1, 1)


def _tcp_packet(data: bytes, source_port: int, target_port: int, sequence: int, acknowledged: int) -> bytes:
    tcp = struct.pack(">HHIIBBHHH", source_port, target_port, sequence, acknowledged, 5 << 4, 0x18, 65_535, 0, 0) + data
    local = bytes((127, 0, 0, 1))
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0, local, local) + tcp
    return struct.pack("<IIII", 0, 0, len(ip), len(ip)) + ip


def _segment(message: Message) -> bytes:
    order = "<" if message.little_endian else ">"
    options = struct.pack(order + "4s7i96x", b"PMO ", 1, 0, -1, 0, 0, 0, 0)
    put = message.descriptor + options + struct.pack(order + "i", len(message.body)) + message.body
    length = 28 + 16 + len(put)
    said = _LITTLE_ENDIAN if message.little_endian else _BIG_ENDIAN
    head = b"TSH " + struct.pack(">IBBBB8x", length, said, _MQPUT, _FIRST_AND_LAST, 0)
    head += struct.pack(order + "iHH", 546 if message.little_endian else 273, 1208, 0)
    return head + struct.pack(">I", length) + struct.pack(order + "iii", 0, 0, 1) + put
