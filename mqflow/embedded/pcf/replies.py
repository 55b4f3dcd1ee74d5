"""Carries out one command message, and puts the responses on its reply-to queue.

This file imports the commands, and with them all of PCF and MQSC. A queue manager loads it when the first command arrives.
Source: IBM, "Message descriptor for a response" (priority, persistence and identity context are those of the command) and "The
reply message descriptor" (replies are put outside syncpoint). mqflow's choice: undeliverable responses are dead-lettered.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from mqflow.embedded.administration.interface import Administration
from mqflow.embedded.calls.event_messages import command_event
from mqflow.embedded.catalogue.system_objects import COMMAND_QUEUE
from mqflow.embedded.connection import EmbeddedConnection
from mqflow.embedded.pcf.commands import answer, failed
from mqflow.embedded.state.objects import ObjectHandle
from mqflow.embedded.state.queue_manager_state import QueueManagerState
from mqflow.mqi.descriptor import MessageDescriptor
from mqflow.mqi.errors import MQIError
from mqflow.mqi.options import ApplicationType, Encoding, Format, PutOption
from mqflow.mqi.pcf.structures import PCFMessage, readable_bytes
from mqflow.mqi.reason_codes import Reason
from mqflow.policy.poison.moved_message import to_dead_letter_queue
from mqflow.policy.poison.report import reply_descriptor
from mqflow.verbs import Got, ObjectDescriptor

__all__ = ("reply",)

_PUT: Final = PutOption.NO_SYNCPOINT | PutOption.PASS_IDENTITY_CONTEXT


def reply(
    command: Got,
    handle: ObjectHandle | None,
    connection: EmbeddedConnection,
    state: QueueManagerState,
    administration_of: Callable[[str], Administration],
) -> None:
    """Carry out the command, and put its responses with the context of the command. `handle` has saved this context."""
    descriptor = command.descriptor
    try:
        responses = answer(descriptor, command.body, administration_of, partial(_report, state, descriptor))
    except Exception:  # noqa: BLE001 - the sender waits for an answer, and later commands wait for this one
        responses = failed(Reason.UNEXPECTED_ERROR)
    outgoing = _Outgoing(handle, connection, state)
    if not descriptor.reply_to_queue:
        if responses[-1].header.completion:
            outgoing.dead_letter(descriptor, command.body, responses[0].header.reason, COMMAND_QUEUE)
        return
    for response in responses:
        outgoing.put(descriptor, response)


def _report(state: QueueManagerState, descriptor: MessageDescriptor, command: PCFMessage) -> None:
    with state.lock:
        command_event(state, command.header.command, command.parameters, descriptor)


class _Outgoing(Struct, frozen=True):
    """Puts messages with the context of the command."""

    handle: ObjectHandle | None
    connection: EmbeddedConnection
    state: QueueManagerState

    def put(self, request: MessageDescriptor, response: PCFMessage) -> None:
        """Put the response on the reply-to queue. If that fails, put it on the dead-letter queue.

        The user of the command needs the authority to put on the reply-to queue. Otherwise a user could put responses on any
        queue. The texts are in the character set of the queue manager, or in UTF-8 if this set lacks a character.
        """
        body, ccsid = readable_bytes(response, encoding=Encoding.NATIVE, ccsid=self.state.attributes.ccsid)
        descriptor = replace(reply_descriptor(request), format=Format.ADMIN, encoding=Encoding.NATIVE, ccsid=ccsid)
        target = ObjectDescriptor(
            request.reply_to_queue, queue_manager=request.reply_to_queue_manager, alternate_user=request.user_identifier
        )
        try:
            self.connection.put1(target, descriptor, body, _PUT | PutOption.ALTERNATE_USER_AUTHORITY, context=self.handle)
        except MQIError as error:
            self.dead_letter(descriptor, body, error.reason, target.name)

    def dead_letter(self, descriptor: MessageDescriptor, body: bytes, reason: int, queue: str) -> None:
        """Put an undeliverable message on the dead-letter queue. Without a usable dead-letter queue, the message is lost."""
        state = self.state
        if not state.attributes.dead_letter_queue:
            return
        dead, data = to_dead_letter_queue(
            descriptor,
            body,
            reason=reason,
            queue=queue,
            queue_manager=state.name,
            application_name=self.connection.application_name,
            application_type=ApplicationType.QMGR,
            now=datetime.fromtimestamp(state.clock.wall(), UTC),
        )
        with suppress(MQIError):
            self.connection.put1(state.attributes.dead_letter_queue, dead, data, _PUT, context=self.handle)
