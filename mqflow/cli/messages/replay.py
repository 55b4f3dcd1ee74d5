"""`mqflow replay`: puts captured messages on a queue, or passes them to handlers on a queue manager in memory."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio
import click
from msgspec.structs import replace

from mqflow.app.application import App
from mqflow.app.captures import Captured, numbered_captures
from mqflow.app.config.settings import load
from mqflow.app.handlers.listener_declaration import Listener
from mqflow.cli.applications.application_loader import load_application
from mqflow.cli.connection_options import connected
from mqflow.cli.messages.put_bodies import Bodies, Body
from mqflow.cli.messages.units_of_work import Result, put_in_units
from mqflow.cli.option_types import json_option, url_option
from mqflow.cli.text.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_NOTHING
from mqflow.cli.text.json_lines import json_line
from mqflow.cli.text.story import sentences
from mqflow.cli.text.terminal import counted, note, read_text, safe
from mqflow.embedded import mqsc
from mqflow.embedded.queue_manager import EmbeddedQueueManager
from mqflow.events import Disposed, Event, Settled
from mqflow.mqi.attributes.queue import QueueAttributes
from mqflow.mqi.descriptor import EXPIRY_UNLIMITED
from mqflow.mqi.options import MessageFlag, OpenOption, PutOption
from mqflow.mqi.reason_codes import Reason
from mqflow.mqi.selectors.fields import selectable
from mqflow.mqi.selectors.selector import compile_selector
from mqflow.policy.dead_letters.original_message import Restored, restored
from mqflow.policy.poison import backout
from mqflow.policy.poison.disposition import Behaviour, Completed, Settlement
from mqflow.verbs import Connection, ObjectHandle, Put

__all__ = ("command", "put_captures")

_OPEN: Final = OpenOption.OUTPUT | OpenOption.SET_ALL_CONTEXT | OpenOption.FAIL_IF_QUIESCING
_PUT: Final = PutOption.SYNCPOINT | PutOption.SET_ALL_CONTEXT | PutOption.FAIL_IF_QUIESCING
_BOQ: Final = "MQFLOW.REPLAY.BOQ"
_DEPTH_MAX: Final = 999_999_999
_MESSAGE_BYTES_MAX: Final = 104_857_600
"""The largest MAXMSGL of a queue and of a queue manager."""
_GROUPED: Final = MessageFlag.MSG_IN_GROUP | MessageFlag.LAST_MSG_IN_GROUP
_FILE: Final = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command("replay")
@click.argument("file", type=_FILE)
@click.option("--to", metavar="QUEUE", help="Put the messages on this queue, with every field but BackoutCount.")
@click.option("--app", "application", metavar="MODULE:APP", help="Pass the messages to the handlers, in memory, one by one.")
@click.option("--queue", metavar="QUEUE", help="With --app: pass all messages to the listener of this queue.")
@click.option("--define", type=_FILE, help="With --app: run this MQSC file first, for queues that the handlers need.")
@click.option("--from-line", type=click.IntRange(1), default=1, metavar="N", help="Start at this line of the file.")
@click.option("--redacted", "allows_redacted", is_flag=True, help="Put redacted messages too.")
@json_option
@url_option
def command(
    file: Path,
    to: str | None,
    application: str | None,
    queue: str | None,
    define: Path | None,
    from_line: int,
    url: str | None,
    *,
    allows_redacted: bool,
    as_json: bool,
) -> None:
    """Put the messages that `mqflow capture` wrote to FILE, or pass them to a handler.

    With --to, a unit of work has at most 500 messages. If the command ends early, it prints the number of committed messages,
    and the line from which to continue. A second replay of the same lines puts every message again.

    With --app the queues are in memory, and no other queue manager is used. The listener of the captured queue takes a message,
    or else the listener of the queue that the message was on before its last move. If a message has no listener, no message is
    passed. No message expires. A message that fails is delivered once and then moved to a backout queue. `decide` of the
    application and the settings of the listener do not change this. DLQ handlers and schedules do not run. You can debug the
    handler with breakpoint(), or with `python -m pdb -m mqflow.cli replay ...`.
    """
    if (to is None) == (application is None):
        raise click.UsageError("Give either --to QUEUE or --app MODULE:APP.")
    if to is not None and define is not None:
        raise click.UsageError("--define is for --app: it defines queues in memory. `mqflow mqsc` defines queues for --to.")
    if to is not None and queue is not None:
        raise click.UsageError("--queue is for --app: it names the queue of a listener.")
    numbered = [(number, captured) for number, captured in numbered_captures(file) if number >= from_line]
    captures = [captured for _, captured in numbered]
    if not captures:
        note(f"There is no message in {safe(str(file))}{f' from line {from_line} on' if from_line > 1 else ''}.")
        sys.exit(EXIT_NOTHING)
    if to is None:
        app = load_application(application or "")
        deliveries = [_delivery(_listeners(app), number, captured, queue) for number, captured in numbered]
        failed = _to_handlers(app, deliveries, define, as_json=as_json)
        note(f"{len(captures) - failed:,} of {counted(len(captures), 'messages')} handled, {failed:,} failed.")
        sys.exit(EXIT_FAILED if failed else 0)
    hidden = sum(bool(captured.redacted) for captured in captures)
    if hidden and not allows_redacted:
        raise click.UsageError(
            f"{hidden} of these messages are redacted: no application has put them like this. --redacted puts them."
        )
    with connected(url) as connection:
        result = put_captures(connection, to, numbered)
    if as_json:
        doubtful_end = result.committed + result.in_doubt
        for at, captured in enumerate(captures[:doubtful_end]):
            known = "put" if at < result.committed else "in doubt"
            click.echo(json_line({"message_id": captured.descriptor.message_id, "queue": to, "result": known}))
    if result.stopped:
        note(f"mqflow: {result.stopped}")
        sys.exit(EXIT_INTERRUPTED if result.interrupted else EXIT_FAILED)
    note(f"{counted(result.committed, 'messages')} put on {safe(to)}.")


def put_captures(connection: Connection, queue: str, numbered: Sequence[tuple[int, Captured]]) -> Result:
    """Put all messages, at most 500 in a unit of work, with the numbers of their lines. Stop when a put is refused.

    After an early end, the caller must back out the open unit of work.
    """

    def put(handle: ObjectHandle, captured: Captured) -> Put:
        return connection.put(handle, captured.descriptor, captured.data, _PUT)

    each = (Body(captured, number, at) for at, (number, captured) in enumerate(numbered, 1))
    return put_in_units(connection, queue, Bodies(each, len(numbered), lines=True, first=numbered[0][0]), _OPEN, put)


def _listeners(app: App) -> list[tuple[App, Listener]]:
    """Return the listeners on queues, with their applications: this one and the included ones. Others subscribe to topics."""
    found = [(each, listener) for each in (app, *app.included) for listener in each.listeners if listener.subscription is None]
    if not found:
        raise click.UsageError("The application has no listener on a queue, so no handler takes the messages.")
    return found


def _delivery(listeners: Sequence[tuple[App, Listener]], number: int, captured: Captured, queue: str | None) -> Restored:
    """Return the message as its listener gets it; `origin_queue` is the queue of this listener.

    Raises `UsageError` if the message has no listener, or several applications have one, or the listener waits for a group.
    """
    as_captured = Restored(descriptor=captured.descriptor, data=captured.data, origin_queue=captured.queue)
    before = restored(captured.descriptor, captured.data)
    possible = [as_captured, before if queue is None else replace(before, origin_queue=queue)]
    for each in possible:
        takers = [(app, listener) for app, listener in listeners if _takes(listener, each)]
        if not takers or queue not in {None, each.origin_queue}:
            continue
        if len({id(app) for app, _ in takers}) > 1:
            raise click.UsageError(f"Line {number:,}: several applications have a listener on {each.origin_queue}.")
        if takers[0][1].options.groups and each.descriptor.message_flags & _GROUPED:
            raise click.UsageError(
                f"Line {number:,}: the listener on {each.origin_queue} waits for a whole group, and replay passes the messages "
                "one by one. Put them with --to on a queue of a test queue manager."
            )
        return each
    known = f"The application listens on {', '.join(sorted({listener.queue for _, listener in listeners}))}."
    if queue is not None:
        raise click.UsageError(f"Line {number:,}: no listener of {queue} takes this message. {known}")
    came = f", which came from {before.origin_queue}" if before.origin_queue else ""
    raise click.UsageError(
        f"Line {number:,}: no listener takes this message of {captured.queue}{came}. {known} With --queue, the listener of "
        "that queue gets all messages."
    )


def _takes(listener: Listener, message: Restored) -> bool:
    if listener.queue != message.origin_queue:
        return False
    return not listener.selection or compile_selector(listener.selection)(selectable(message.descriptor, message.data))


def _to_handlers(app: App, deliveries: Sequence[Restored], define: Path | None, *, as_json: bool) -> int:
    """Pass each message to its handler. Return the number of failed messages."""
    outcomes = _OutcomeHook(as_json=as_json)
    for each in (app, *app.included):
        each.hooks.append(outcomes)
        each.decide = backout.decide
        # The settings of a listener replace its declaration. An included application takes them from the one that includes it.
        if each is app or each.settings is not None:
            each.settings = replace(each.settings or load(), listeners={})
        for listener in each.listeners:
            rules = replace(listener.options.backout, threshold=1, queue=_BOQ, behaviour=Behaviour.JMS_LISTENER)
            listener.options = replace(listener.options, backout=rules)
    with EmbeddedQueueManager("QM1") as queue_manager:
        mqsc.run(f"ALTER QMGR MAXMSGL({_MESSAGE_BYTES_MAX})", queue_manager.administration)
        for attributes in _queues(app):
            queue_manager.administration.define(attributes)
        if define is not None:
            _define(define, queue_manager)

        others = {each.name: queue_manager for each in app.included}

        async def main() -> None:
            async with app.running(queue_manager, others=others, services=False):
                connection = queue_manager.connect()
                for message in deliveries:
                    lasting = replace(message.descriptor, expiry_tenths=EXPIRY_UNLIMITED)
                    put = connection.put1(message.origin_queue, lasting, message.data, _PUT)
                    outcomes.begin(put.descriptor.message_id, message.origin_queue)
                    if not as_json:
                        click.echo(f"{put.descriptor.message_id.hex()}  {safe(message.origin_queue)}")
                    connection.commit()
                    await outcomes.known.wait()

        anyio.run(main)
    return outcomes.failed


def _define(file: Path, queue_manager: EmbeddedQueueManager) -> None:
    """Run the MQSC file. If a command fails, raise `ClickException`. The queue of a listener can exist already."""
    failed = [
        each.text
        for each in mqsc.run(read_text(file), queue_manager.administration).responses
        if each.verdict is not mqsc.Verdict.DONE and each.reason != Reason.OBJECT_ALREADY_EXISTS
    ]
    if failed:
        raise click.ClickException(f"{file}: {' '.join(failed)} No message was passed.")


def _queues(app: App) -> list[QueueAttributes]:
    """Return the queues of the listeners, and the queue for failed messages."""
    names = dict.fromkeys((_BOQ, *(listener.queue for _, listener in _listeners(app))))
    return [QueueAttributes(name=name, max_depth=_DEPTH_MAX, max_message_bytes=_MESSAGE_BYTES_MAX) for name in names]


class _OutcomeHook:
    """A hook that prints the outcome of each message, and records that the outcome is known.

    A handler can put messages on the queue of another listener. Their outcomes are printed as text, but not counted.
    """

    #: `Decided` events are not wanted: they name the attributes of the queue in memory, not those of the real queue.
    wants: Final = (Disposed, Settled)

    def __init__(self, *, as_json: bool) -> None:
        self._as_json: Final = as_json
        self._message_id, self._queue = b"", ""
        self.failed = 0
        self.known = anyio.Event()

    def begin(self, message_id: bytes, queue: str) -> None:
        """Begin with the next message, whose outcome is not known yet."""
        self._message_id, self._queue = message_id, queue
        self.known = anyio.Event()

    def __call__(self, event: Event) -> None:
        match event:
            case Disposed():
                self._end(event, (event.message_id,), has_failed=True)
            case Settled(settlement=Settlement.COMMIT, outcome=Completed()):
                self._end(event, event.message_ids, has_failed=False)
            case _:
                pass
        if isinstance(event, Settled) and not self._as_json:
            for line in sentences(event):
                click.echo(f"    {safe(line)}")

    def _end(self, event: Disposed | Settled, message_ids: Sequence[bytes], *, has_failed: bool) -> None:
        if self._message_id not in message_ids or event.queue != self._queue:
            return
        self.failed += has_failed
        self.known.set()
        if self._as_json:
            ended = {"message_id": self._message_id, "queue": event.queue, "result": "failed" if has_failed else "completed"}
            click.echo(json_line({**ended, "outcome": event.outcome}))
