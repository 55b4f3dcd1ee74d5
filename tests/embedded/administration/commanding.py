"""A program that sends PCF commands: it puts them on the command queue, and gets the responses until the last response."""

from types import TracebackType
from typing import Any, Self

from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.options import Encoding, Format, GetOption, MatchOption, MessageType, OpenOption, PutOption
from mqflow.mqi.pcf.codes import CommandCode, ParameterId, PCFReason, StructureType
from mqflow.mqi.pcf.pcf_reader import parse
from mqflow.mqi.pcf.structures import CFH, Parameter, PCFMessage, to_bytes
from mqflow.verbs import GetOptions, Got, ObjectDescriptor

__all__ = ("COMMAND_QUEUE", "Commander", "values_of")

COMMAND_QUEUE = "SYSTEM.ADMIN.COMMAND.QUEUE"
# Longer than any answer takes. A get ends when the response arrives.
LONG_MS = 20_000


def values_of(message: PCFMessage) -> dict[int, Any]:
    """Return the parameters of a response by identifier, texts without their padding."""
    values = {parameter.parameter: parameter.value for parameter in message.parameters}
    return {identifier: value.rstrip() if isinstance(value, str) else value for identifier, value in values.items()}


class Commander:
    """A connected program with a reply queue of its own. Use it in a `with` statement."""

    def __init__(self, queue_manager: EmbeddedQueueManager, *, user: str = "", encoding: int = Encoding.NATIVE) -> None:
        self.connection: EmbeddedConnection = queue_manager.connect(user=user)
        model = ObjectDescriptor("SYSTEM.DEFAULT.MODEL.QUEUE", dynamic_name="PCF.*")
        self.replies = self.connection.open(model, OpenOption.INPUT_EXCLUSIVE)
        self._encoding = encoding

    def send(self, body: bytes, **descriptor: Any) -> bytes:
        """Put a command, and return its MsgId."""
        fields: dict[str, Any] = {
            "format": Format.ADMIN,
            "message_type": MessageType.REQUEST,
            "persistence": 0,
            "encoding": self._encoding,
            "reply_to_queue": self.replies.name,
        }
        put = self.connection.put1(COMMAND_QUEUE, MessageDescriptor(**fields | descriptor), body, PutOption.NO_SYNCPOINT)
        return put.descriptor.message_id

    def responses(self, message_id: bytes) -> list[PCFMessage]:
        """Return the responses to the command of this MsgId, up to the last."""
        responses: list[PCFMessage] = []
        while not responses or not responses[-1].header.last:
            got = self.got(message_id)
            responses.append(parse(got.body, encoding=got.descriptor.encoding, ccsid=got.descriptor.ccsid))
        return responses

    def got(self, message_id: bytes) -> Got:
        """Return the next response as a message."""
        options = GetOptions(
            options=GetOption.NO_SYNCPOINT | GetOption.WAIT,
            wait_ms=LONG_MS,
            match=MatchOption.CORREL_ID,
            correlation_id=message_id,
        )
        got = self.connection.get(self.replies, options)
        assert got is not None, "the command server did not answer"
        return got

    def command(self, code: int, *parameters: Parameter, kind: StructureType = StructureType.COMMAND) -> list[PCFMessage]:
        """Send a command and return its responses."""
        message = PCFMessage(CFH(type=kind, command=code, version=3), parameters)
        return self.responses(self.send(to_bytes(message, encoding=self._encoding)))

    def done(self, code: CommandCode, *parameters: Parameter) -> list[dict[int, Any]]:
        """Send a command that succeeds, and return the parameters of each response."""
        responses = self.command(code, *parameters)
        assert [(0, 0)] * len(responses) == [(each.header.completion, each.header.reason) for each in responses]
        return [values_of(response) for response in responses]

    def refused(self, code: int, *parameters: Parameter) -> tuple[int, int]:
        """Send a command that fails. Return its reason, and the parameter at fault, or 0 if the response names none."""
        first, *rest = self.command(code, *parameters)
        assert [PCFReason.COMMAND_FAILED] == [each.header.reason for each in rest]
        return first.header.reason, values_of(first).get(ParameterId.PARAMETER_ID, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.connection.disconnect()
