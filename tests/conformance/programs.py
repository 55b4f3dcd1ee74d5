"""An application of the conformance tests: a connection, and the verbs with the options a test names."""

from typing import Any

from mqflow.mqi.attributes.queue import QUEUE_ATTRIBUTES
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import CloseOption, GetOption, MatchOption, OpenOption, PutOption
from mqflow.verbs import Connection, GetOptions, Got, ObjectDescriptor, ObjectHandle, Put
from tests.conformance.under_test import UnderTest

__all__ = ("EVERYTHING", "INPUT", "OUTPUT", "SELECTORS", "Program")

EVERYTHING = OpenOption.INPUT_SHARED | OpenOption.OUTPUT | OpenOption.BROWSE | OpenOption.INQUIRE
INPUT = OpenOption.INPUT_SHARED
OUTPUT = OpenOption.OUTPUT
SELECTORS = {spec.field: spec.selector for spec in QUEUE_ATTRIBUTES}


class Program:
    """A program with one connection. It opens a queue with all options when it first uses the queue."""

    def __init__(self, queue_manager: UnderTest, *, application_name: str = "", user: str = "") -> None:
        self.queue_manager = queue_manager
        self.connection: Connection = queue_manager.queue_manager.connect(application_name=application_name, user=user)
        self._handles: dict[str, ObjectHandle] = {}

    def handle(self, name: str) -> ObjectHandle:
        if name not in self._handles:
            self._handles[name] = self.connection.open(name, EVERYTHING)
        return self._handles[name]

    def open(self, name: str, options: OpenOption = EVERYTHING, **more: Any) -> ObjectHandle:
        return self.connection.open(ObjectDescriptor(name, **more), options)

    def close(self, handle: ObjectHandle, options: CloseOption = CloseOption.NONE) -> None:
        self.connection.close(handle, options)

    def put(
        self, where: str | ObjectHandle, body: bytes = b"", options: PutOption = PutOption.NO_SYNCPOINT, **fields: Any
    ) -> Put:
        """Put one message, outside the unit of work by default; `fields` are fields of the descriptor."""
        return self.connection.put(self._at(where), MessageDescriptor(**fields), body, options)

    def put_in_unit(self, where: str | ObjectHandle, body: bytes = b"", **fields: Any) -> Put:
        return self.put(where, body, PutOption.SYNCPOINT, **fields)

    def get(self, where: str | ObjectHandle, options: GetOption = GetOption.NO_SYNCPOINT, **more: Any) -> Got | None:
        """Get one message, outside the unit of work by default; `more` are fields of `GetOptions`."""
        match = MatchOption.NONE
        for field, option in _MATCHES.items():
            if field in more:
                match |= option
        return self.connection.get(self._at(where), GetOptions(options=options, match=more.pop("match", match), **more))

    def got(self, where: str | ObjectHandle, options: GetOption = GetOption.NO_SYNCPOINT, **more: Any) -> Got:
        """Get a message. The queue must have a message that matches."""
        got = self.get(where, options, **more)
        assert got is not None, "no message"
        return got

    def get_in_unit(self, where: str | ObjectHandle, **more: Any) -> Got | None:
        return self.get(where, GetOption.SYNCPOINT, **more)

    def browse(self, where: str | ObjectHandle, options: GetOption = GetOption.BROWSE_NEXT, **more: Any) -> Got | None:
        return self.get(where, options, **more)

    def bodies(self, name: str) -> list[bytes]:
        """Get all messages of the queue and return the bodies in order."""
        found: list[bytes] = []
        while (got := self.get(name)) is not None:
            found.append(got.body)
        return found

    def seen(self, name: str) -> list[bytes]:
        """Browse all messages from the first on, and return the bodies in order."""
        handle = self.open(name, OpenOption.BROWSE)
        found: list[bytes] = []
        while (got := self.get(handle, GetOption.BROWSE_NEXT)) is not None:
            found.append(got.body)
        self.close(handle)
        return found

    def commit(self) -> None:
        self.connection.commit()

    def backout(self) -> None:
        self.connection.backout()

    def disconnect(self) -> None:
        self.connection.disconnect()

    def killed(self) -> None:
        self.queue_manager.kill(self.connection)

    def _at(self, where: str | ObjectHandle) -> ObjectHandle:
        return self.handle(where) if isinstance(where, str) else where


_MATCHES = {
    "message_id": MatchOption.MSG_ID, "correlation_id": MatchOption.CORREL_ID, "group_id": MatchOption.GROUP_ID,
    "sequence_number": MatchOption.MSG_SEQ_NUMBER, "offset": MatchOption.OFFSET, "message_token": MatchOption.MSG_TOKEN,
}  # fmt: skip
